//! The claim keeper in the engine: it calls a real cluster, uses real time and notifies an operation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Right};
use tidegate_lifecycle::operation::{CallError, ClaimEvent, Input, Subject};
use tidegate_model::{ClaimConflictPolicy, ClaimLocation, Object, OperationId, Timestamp};
use tokio::time::Instant;

use super::keeper::{self, ClaimKeeper, KeeperEnvironment, ObservationStore};
use super::lease_coverage::{LeaseCoverage, Moment};
use super::location::ClaimLocations;
use super::record::{Claimant, Lease, lease_kind};
use super::times::RELEASE_TIMEOUT;
use crate::clock::Clock;
use crate::effects;
use crate::inbox::{Arrival, EffectMessage, Inbox};
use crate::log::{Log, LogFailure, run_blocking};

/// Task that holds the claim of one operation while its future is polled.
pub(crate) struct ClaimTask {
    pub environment: EngineEnvironment,
    pub claimant: Claimant,
    pub locations: ClaimLocations,
    pub if_taken: ClaimConflictPolicy,
    /// Location where an earlier keeper of this operation held the claim.
    pub previous_location: Option<ClaimLocation>,
    /// Observations by earlier keepers in this process while they were waiting.
    pub observations: ObservationStore,
}

/// Notifies the operation when its keeper stops, for whatever reason.
struct EndNotifier {
    inbox: Inbox,
    news: Option<Result<ClaimEvent, CallError>>,
}

impl Drop for EndNotifier {
    fn drop(&mut self) {
        let lost = || Err(CallError::transient("claim renewal stopped because of an internal error"));
        let input = Input::Claim(self.news.take().unwrap_or_else(lost));
        self.inbox.push_all([
            Arrival::Input(input),
            Arrival::Message(EffectMessage::KeeperEnded),
            Arrival::SubscriptionEnded(Subject::Claim),
        ]);
    }
}

impl ClaimTask {
    /// Acquires and renews the claim until it is lost or can't be held, and then notifies the operation.
    pub async fn run(self) {
        let Self { environment, claimant, locations, if_taken, previous_location, observations } = self;
        let mut last = EndNotifier { inbox: environment.inbox.clone(), news: None };
        let hold = Arc::clone(&environment.coverage);
        let news =
            ClaimKeeper { environment, claimant, locations, if_taken, previous_location, observations }
                .run()
                .await;
        match &news {
            Ok(ClaimEvent::Without { .. }) => hold.allow_without_claim(),
            _ => hold.revoke(),
        }
        last.news = Some(news);
    }
}

/// Environment of a claim keeper in a running engine.
pub(crate) struct EngineEnvironment {
    pub cluster: Arc<dyn Cluster>,
    pub clock: Arc<dyn Clock>,
    pub log: Log,
    pub log_failure: LogFailure,
    pub inbox: Inbox,
    pub coverage: Arc<LeaseCoverage>,
    pub operation: OperationId,
    /// Reference point of monotonic time, shared by all keepers of one operation actor.
    pub started_at: Instant,
}

impl EngineEnvironment {
    fn check_can_call(&self) -> Result<(), ClusterError> {
        match self.log_failure.get() {
            Some(reason) => Err(ClusterError::new(ErrorKind::Unavailable, reason.as_str())),
            None => Ok(()),
        }
    }
}

impl KeeperEnvironment for EngineEnvironment {
    type Moment = Moment;

    async fn read(&self, place: &ClaimLocation) -> Result<Option<Lease>, ClusterError> {
        self.check_can_call()?;
        Ok(self.cluster.get(&lease_kind(), &place.namespace, &place.name).await?.map(Lease))
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        self.check_can_call()?;
        self.cluster.put(lease, Some(self.operation)).await.map(Lease)
    }

    async fn missing_rights(&self, place: &ClaimLocation) -> Result<Option<String>, ClusterError> {
        self.check_can_call()?;
        let missing = self.cluster.missing_rights(&required_rights(place)).await?;
        Ok((!missing.is_empty()).then(|| effects::missing_rights_words(&missing)))
    }

    async fn is_over(&self, operation: &str) -> bool {
        let Ok(operation) = operation.parse::<OperationId>() else { return false };
        let entry = run_blocking(&self.log, move |log| log.entry(operation.into())).await;
        matches!(entry, Ok(Some(entry)) if !entry.summary.is_open())
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    fn moment(&self) -> Moment {
        Moment::now()
    }

    fn record_renewal(&self, began: Moment) {
        self.coverage.record_renewal(began);
    }

    fn report(&self, news: ClaimEvent) {
        if matches!(news, ClaimEvent::Without { .. }) {
            self.coverage.allow_without_claim();
        }
        self.inbox.push_input(Input::Claim(Ok(news)));
    }
}

/// Returns the rights required to create, renew and release a Lease.
pub(super) fn required_rights(place: &ClaimLocation) -> BTreeSet<Right> {
    // A permission check for `create` doesn't include the object name.
    let rights = [("create", ""), ("get", place.name.as_str()), ("update", place.name.as_str())];
    let right = |(verb, name): (_, &str)| Right {
        verb,
        gvk: lease_kind(),
        namespace: place.namespace.clone(),
        name: name.to_owned(),
    };
    rights.into_iter().map(right).collect()
}

/// Inputs for the release of a claim.
pub(crate) struct ClaimRelease {
    pub environment: EngineEnvironment,
    pub claimant: Claimant,
    pub locations: Vec<ClaimLocation>,
}

impl ClaimRelease {
    /// Releases the claim of a finished operation if it holds the claim. If the release fails, the claim
    /// expires.
    pub async fn run(self) {
        let Self { environment, claimant, locations } = self;
        let giving = keeper::release_claim(&environment, &claimant, &locations);
        if tokio::time::timeout(RELEASE_TIMEOUT, giving).await.is_err() {
            tracing::warn!("failed to release a claim in time; it will expire");
        }
    }
}
