//! A service's Lease: acquires and renews it in the cluster, and blocks the service's writes when it is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidegate_cluster::{
    Call, Cluster, ClusterError, Effect, ErrorKind, Layer, PendingCall, with_write_check,
};
use tidegate_model::{ClaimLocation, Object};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::keeper::{is_race, retry_delay};
use super::leadership::{Leadership, LeaseHolder, ServiceIdentity, Step};
use super::lease_coverage::{LeaseCoverage, Moment};
use super::record::{Lease, lease_kind, required_rights};
use super::times::{
    CONFLICT_RETRY_DELAY, OBSERVATION_INTERVAL, RELEASE_TIMEOUT, RENEWAL_RETRY_DELAY, SERVICE_LEASE_COVERAGE,
    SERVICE_LEASE_RENEWAL_INTERVAL,
};
use crate::clock::{Clock, SystemClock};
use crate::effects;

/// Check whether the replica with this ID uses the same log as this one, and not a copy. Returns an error if the log is
/// unavailable.
pub type PeerCheck = Arc<dyn Fn(String) -> BoxFuture<'static, Result<bool, String>> + Send + Sync>;

/// The Lease that a service wants.
pub struct ServiceLease {
    cluster: Arc<dyn Cluster>,
    leadership: Leadership,
    peer_check: Option<PeerCheck>,
    /// Replicas that use the same log.
    known_peers: BTreeSet<String>,
    /// True if another replica renews the Lease as well.
    has_peer: Arc<AtomicBool>,
    started_at: Instant,
}

/// Reason for waiting for a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseWait {
    /// Another service holds the Lease, or was the last to hold it and may have exited.
    Holder(LeaseHolder),
    /// The API server doesn't respond.
    Unavailable(String),
}

/// Reason for failing to acquire a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseError {
    /// Another service is in charge.
    Held(LeaseHolder),
    /// The API server refused to create or update the Lease.
    Refused(ClusterError),
}

/// Reason for losing a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseLoss {
    /// Another service has acquired the Lease, or held it temporarily.
    Taken(Option<LeaseHolder>),
    /// The task that renews the Lease has exited with an internal error.
    Internal,
}

/// Result of an attempt to acquire the Lease.
enum Attempt {
    Held,
    Waiting {
        holder: LeaseHolder,
        is_renewing: bool,
    },
    Lost(Option<LeaseHolder>),
    /// Another process wrote the Lease concurrently.
    Conflict,
}

impl ServiceLease {
    /// Creates a handle to the Lease at `place`, without calling the cluster.
    pub fn new(cluster: Arc<dyn Cluster>, place: ClaimLocation, identity: ServiceIdentity) -> Self {
        Self {
            cluster,
            leadership: Leadership::new(identity, place),
            peer_check: None,
            known_peers: BTreeSet::new(),
            has_peer: Arc::default(),
            started_at: Instant::now(),
        }
    }

    /// Sets the check of other replicas. A replica that shares its work needs it.
    #[must_use]
    pub fn with_peer_check(self, check: PeerCheck) -> Self {
        Self { peer_check: Some(check), ..self }
    }

    /// Acquires the Lease. While another service renews it, a standby (`is_standby`) waits for its release or
    /// expiry, and any other service gives up. Passes the reason for each wait to `report`.
    ///
    /// # Errors
    ///
    /// Returns an error if another service is in charge, or if the API server refuses to write the Lease.
    pub async fn acquire(
        mut self,
        is_standby: bool,
        mut report: impl FnMut(LeaseWait),
    ) -> Result<HeldLease, LeaseError> {
        loop {
            let moment = Moment::now();
            match self.attempt().await {
                Ok(Attempt::Held) => return Ok(self.into_held(moment)),
                Ok(Attempt::Conflict | Attempt::Lost(_)) => tokio::time::sleep(CONFLICT_RETRY_DELAY).await,
                Ok(Attempt::Waiting { holder, is_renewing: true }) if !is_standby => {
                    return Err(LeaseError::Held(holder));
                }
                Ok(Attempt::Waiting { holder, .. }) => {
                    report(LeaseWait::Holder(holder));
                    tokio::time::sleep(OBSERVATION_INTERVAL).await;
                }
                Err(error) if error.kind.is_transient() && error.kind != ErrorKind::Unauthorized => {
                    report(LeaseWait::Unavailable(error.message.clone()));
                    tokio::time::sleep(retry_delay(&error)).await;
                }
                Err(error) => return Err(LeaseError::Refused(self.with_missing_rights(error).await)),
            }
        }
    }

    fn into_held(mut self, moment: Moment) -> HeldLease {
        let coverage = LeaseCoverage::with_duration(SERVICE_LEASE_COVERAGE);
        coverage.record_renewal(moment);
        let (kept, cluster, has_peer) =
            (Arc::clone(&coverage), Arc::clone(&self.cluster), Arc::clone(&self.has_peer));
        let (place, identity) = (self.leadership.location().clone(), self.leadership.identity().clone());
        let keeping = tokio::spawn(async move {
            let lost = self.keep_renewed(&kept).await;
            kept.revoke();
            lost
        });
        let lease = Self { has_peer, ..Self::new(cluster, place, identity) };
        HeldLease { renewal_task: Some(keeping), coverage, lease }
    }

    /// Renews the Lease until another service acquires it. While renewals fail, the fence blocks writes. If a
    /// later renewal succeeds, the service carries on, so it survives an outage of the API server.
    async fn keep_renewed(&mut self, hold: &LeaseCoverage) -> LeaseLoss {
        let mut pause = SERVICE_LEASE_RENEWAL_INTERVAL;
        loop {
            tokio::time::sleep(pause).await;
            let moment = Moment::now();
            let failure = match tokio::time::timeout(SERVICE_LEASE_COVERAGE, self.renew()).await {
                Ok(Ok(Attempt::Held)) => {
                    hold.record_renewal(moment);
                    pause = SERVICE_LEASE_RENEWAL_INTERVAL;
                    continue;
                }
                Ok(Ok(Attempt::Lost(holder))) => return LeaseLoss::Taken(holder),
                Ok(Ok(Attempt::Waiting { holder, .. })) => return LeaseLoss::Taken(Some(holder)),
                Ok(Ok(Attempt::Conflict)) => {
                    pause = CONFLICT_RETRY_DELAY;
                    continue;
                }
                Ok(Err(error)) => error.message,
                Err(_) => "the API server did not respond".to_owned(),
            };
            tracing::warn!(
                reason = failure,
                "failed to renew this service's Lease; writes are suspended after 10 s without a renewal and \
                 continue once a renewal succeeds"
            );
            pause = RENEWAL_RETRY_DELAY;
        }
    }

    async fn renew(&mut self) -> Result<Attempt, ClusterError> {
        if let Some(renewal) = self.leadership.renewal(SystemClock.now())
            && let Attempt::Held = self.write(renewal).await?
        {
            return Ok(Attempt::Held);
        }
        self.attempt().await
    }

    async fn attempt(&mut self) -> Result<Attempt, ClusterError> {
        let ClaimLocation { namespace, name } = self.leadership.location();
        let found = self.cluster.get(&lease_kind(), namespace, name).await?.map(Lease);
        let is_peer = match found.as_ref().and_then(|lease| self.leadership.other_replica(lease)) {
            Some(replica) => self.is_peer(replica).await?,
            None => true,
        };
        let step = self.leadership.observe(found, is_peer, self.started_at.elapsed(), SystemClock.now());
        self.has_peer.store(self.leadership.has_peer(), Ordering::SeqCst);
        match step {
            Some(Step::Write(object)) => self.write(*object).await,
            Some(Step::Wait { holder, is_renewing }) => Ok(Attempt::Waiting { holder, is_renewing }),
            Some(Step::Lost(holder)) => Ok(Attempt::Lost(holder)),
            None => Err(ClusterError::new(ErrorKind::Invalid, "a Lease cannot have this name")),
        }
    }

    async fn is_peer(&mut self, replica: String) -> Result<bool, ClusterError> {
        let Some(check) = self.peer_check.as_ref().filter(|_| !self.known_peers.contains(&replica)) else {
            return Ok(self.known_peers.contains(&replica));
        };
        let is_peer = check(replica.clone()).await;
        let is_peer = is_peer.map_err(|reason| ClusterError::new(ErrorKind::Unavailable, reason))?;
        if is_peer {
            self.known_peers.insert(replica);
        }
        Ok(is_peer)
    }

    async fn write(&mut self, lease: Object) -> Result<Attempt, ClusterError> {
        match self.cluster.put(lease, None).await {
            Ok(lease) => {
                self.leadership.record_write(Lease(lease));
                Ok(Attempt::Held)
            }
            Err(error) if is_race(error.kind) => Ok(Attempt::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Adds all missing rights for the Lease to a "forbidden" error.
    async fn with_missing_rights(&self, error: ClusterError) -> ClusterError {
        if error.kind != ErrorKind::Forbidden {
            return error;
        }
        match self.cluster.missing_rights(&required_rights(self.leadership.location())).await {
            Ok(missing) if !missing.is_empty() => {
                let text = effects::missing_rights_words(&missing);
                ClusterError::new(error.kind, format!("{}; missing permissions: {text}", error.message))
            }
            _ => error,
        }
    }

    async fn release(&self) -> Result<(), ClusterError> {
        if self.has_peer.load(Ordering::SeqCst) {
            // The other replicas keep the Lease.
            return Ok(());
        }
        let ClaimLocation { namespace, name } = self.leadership.location();
        loop {
            let found = self.cluster.get(&lease_kind(), namespace, name).await?.map(Lease);
            let Some(released) = found.and_then(|found| self.leadership.released_lease(&found)) else {
                return Ok(());
            };
            match self.cluster.put(released, None).await {
                Err(error) if is_race(error.kind) => {}
                answer => return answer.map(drop),
            }
        }
    }
}

/// Lease of the service in charge. A background task renews it until this value is released or dropped.
pub struct HeldLease {
    renewal_task: Option<JoinHandle<LeaseLoss>>,
    coverage: Arc<LeaseCoverage>,
    lease: ServiceLease,
}

impl HeldLease {
    /// Returns the fence that blocks writes outside this Lease's coverage.
    pub fn fence(&self) -> Fence {
        Fence::for_lease(Arc::clone(&self.coverage))
    }

    /// Waits until the Lease is lost. By then, the [`Fence`] already blocks all writes.
    pub async fn wait_until_lost(&mut self) -> LeaseLoss {
        let Some(keeping) = &mut self.renewal_task else { return std::future::pending().await };
        let ended = keeping.await;
        self.renewal_task = None;
        ended.unwrap_or(LeaseLoss::Internal)
    }

    /// Releases the Lease on shutdown, so that another service can take over immediately. While other replicas with the same
    /// log renew the Lease, they keep it. From now on, the [`Fence`] blocks all writes. If the release fails, the Lease
    /// expires.
    pub async fn release(mut self) {
        self.coverage.revoke();
        if let Some(keeping) = self.renewal_task.take() {
            keeping.abort();
            let _ = keeping.await;
        }
        match tokio::time::timeout(RELEASE_TIMEOUT, self.lease.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(reason = error.message, "failed to release the Lease; it will expire");
            }
            Err(_) => tracing::warn!("failed to release the Lease in time; it will expire"),
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.coverage.revoke();
        if let Some(keeping) = &self.renewal_task {
            keeping.abort();
        }
    }
}

/// Blocks writes outside the coverage of a service's Lease, or of its heartbeats in a shared log. They fail as if
/// the cluster didn't respond.
#[derive(Clone)]
pub struct Fence(Vec<FencePart>);

#[derive(Clone)]
struct FencePart {
    coverage: Arc<LeaseCoverage>,
    /// Reason for a write that fails.
    reason: &'static str,
}

impl Fence {
    fn for_lease(coverage: Arc<LeaseCoverage>) -> Self {
        Self(vec![FencePart {
            coverage,
            reason: "cannot write because this service's Lease could not be renewed",
        }])
    }

    /// Combines two fences. A write must be covered by both.
    #[must_use]
    pub fn and(mut self, other: Option<Self>) -> Self {
        self.0.extend(other.into_iter().flat_map(|fence| fence.0));
        self
    }

    /// Returns an error unless all parts cover a write at this moment.
    fn check_now(&self) -> Result<(), ClusterError> {
        self.0.iter().try_for_each(|part| part.coverage.check_now(part.reason))
    }

    /// Wraps a cluster in this fence.
    #[must_use]
    pub fn wrap(&self, cluster: Arc<dyn Cluster>) -> Arc<dyn Cluster> {
        Arc::new(FencedCluster { cluster, fence: self.clone() })
    }
}

/// Coverage of a service's writes by its heartbeats in a shared log.
pub struct HeartbeatCoverage(Arc<LeaseCoverage>);

impl HeartbeatCoverage {
    /// Creates the coverage. Each heartbeat covers writes for `duration` from its start.
    pub fn new(duration: Duration) -> Self {
        Self(LeaseCoverage::with_duration(duration))
    }

    /// Records the start of a heartbeat. The returned function records its success.
    pub fn begin(&self) -> Box<dyn FnOnce() + Send> {
        let (moment, coverage) = (Moment::now(), Arc::clone(&self.0));
        Box::new(move || coverage.record_renewal(moment))
    }

    /// Returns the fence that blocks writes outside this coverage.
    pub fn fence(&self) -> Fence {
        let reason =
            "cannot write because the database of the operation log did not confirm this service's heartbeat";
        Fence(vec![FencePart { coverage: Arc::clone(&self.0), reason }])
    }
}

struct FencedCluster {
    cluster: Arc<dyn Cluster>,
    fence: Fence,
}

impl Layer for FencedCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if call.effect != Effect::Write {
            return answer.await;
        }
        // One part may expire while another one is awaited.
        while self.fence.check_now().is_err() {
            for part in &self.fence.0 {
                part.coverage.ensure_covered(part.reason).await?;
            }
        }
        let fence = self.fence.clone();
        with_write_check(move || fence.check_now(), answer).await
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(self.fence.wrap(self.cluster.as_user(user)?))
    }
}

#[cfg(test)]
mod tests;
