//! The operation log in PostgreSQL, shared by the services of a control plane. One of them leads, and the others are
//! standbys.

use std::process;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_executor::{Fence, HeartbeatCoverage, PeerCheck, SystemClock, codecs};
use tidegate_oplog::{
    HeartbeatObserver, LeadAttempt, LogError, Loss, PostgresLog, PostgresOptions, PostgresTarget, Replica,
    TENURE_COVERAGE,
};
use tokio::sync::watch;

use crate::error::ServiceError;
use crate::leadership::LeaseState;
use crate::log;
use crate::user;

/// Interval between attempts to lead. The log recognizes dead replicas by their heartbeats at this interval.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);

/// This service's part in a shared log.
pub struct SharedLog {
    log: Arc<PostgresLog>,
    coverage: Arc<Observer>,
}

struct Observer(HeartbeatCoverage);

impl HeartbeatObserver for Observer {
    fn begin(&self) -> Box<dyn FnOnce() + Send> {
        self.0.begin()
    }
}

impl SharedLog {
    /// Joins the log, and waits until this service leads. While another service leads, a standby waits, and any
    /// other service fails. `address` is the URL of this service's API for the others. `report` receives the reason for
    /// each wait, and the leader if it is known. Returns `None` if `tidegate replicas drain` has asked this service to
    /// stop.
    ///
    /// # Errors
    ///
    /// Returns an error if another service leads, or if the database rejects this service.
    pub async fn lead(
        target: PostgresTarget,
        is_standby: bool,
        address: Option<String>,
        mut report: impl FnMut(String, Option<&Replica>),
    ) -> Result<Option<Self>, ServiceError> {
        let Self { log, coverage } =
            Self::join(&target, false, address, |reason| report(reason, None)).await?;
        let drain_request = log.drain_request();
        while !*drain_request.borrow() {
            let attempt = Arc::clone(&log);
            match blocking(move || attempt.try_lead()).await {
                Ok(LeadAttempt::Leading) => {
                    set_clock(&log).await;
                    return Ok(Some(Self { log, coverage }));
                }
                Ok(LeadAttempt::Held { replica, is_alive: true }) if !is_standby => {
                    return Err(ServiceError::refused(format!(
                        "another service is the leader of the operation log: {replica} ({target}); stop it first, or start \
                         this service with `tidegate serve --standby` to take over when it stops"
                    )));
                }
                Ok(LeadAttempt::Held { replica, .. }) if is_standby => {
                    let reason = format!("standby: {replica} is the leader (operation log in {target})");
                    // The row of the leader is missing while another standby takes over.
                    report(reason, Some(&replica).filter(|replica| !replica.incarnation.is_nil()));
                }
                Ok(LeadAttempt::Held { replica, .. }) => {
                    let reason = format!(
                        "waiting to see whether {replica} is still using the operation log in {target}"
                    );
                    report(reason, None);
                }
                Err(error) if error.is_outage() => {
                    report(format!("waiting for the operation log's database: {error}"), None);
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(ATTEMPT_INTERVAL).await;
        }
        Ok(None)
    }

    /// Joins the log as a replica that shares the work with others. `address` is the URL of this service's API for the
    /// others. `report` receives the reason for each wait. The replica owns no shards yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the database rejects this service.
    pub async fn join_to_share(
        target: PostgresTarget,
        address: Option<String>,
        report: impl FnMut(String),
    ) -> Result<Self, ServiceError> {
        let joined = Self::join(&target, true, address, report).await?;
        set_clock(&joined.log).await;
        Ok(joined)
    }

    async fn join(
        target: &PostgresTarget,
        shares: bool,
        address: Option<String>,
        mut report: impl FnMut(String),
    ) -> Result<Self, ServiceError> {
        let key = log::key_from_environment()?.ok_or_else(|| {
            ServiceError::refused(
                "a shared operation log requires the same key in TIDEGATE_LOG_KEY for all services; create one with \
                 `openssl rand -hex 32`",
            )
        })?;
        let name = format!("pid {} on {}", process::id(), user::host_name());
        let coverage = Arc::new(Observer(HeartbeatCoverage::new(TENURE_COVERAGE)));
        let log = loop {
            let options = PostgresOptions {
                target: target.clone(),
                replica: name.clone(),
                address: address.clone(),
                key: key.clone(),
                codecs: codecs(),
                observer: Some(Arc::clone(&coverage) as Arc<dyn HeartbeatObserver>),
                shares,
            };
            match blocking(move || PostgresLog::join(options)).await {
                Ok(log) => break Arc::new(log),
                Err(error @ LogError::Unavailable { .. }) => {
                    report(format!("waiting for the operation log's database: {error}"));
                    tokio::time::sleep(ATTEMPT_INTERVAL).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        Ok(Self { log, coverage })
    }

    /// Returns true once `tidegate replicas drain` has asked this service to hand over and stop.
    pub fn drain_request(&self) -> watch::Receiver<bool> {
        self.log.drain_request()
    }

    /// Returns the log.
    pub fn log(&self) -> Arc<PostgresLog> {
        Arc::clone(&self.log)
    }

    /// Returns the ID of the log for the service's Lease. The leader of the log knows that its predecessor has stopped
    /// writing, so it takes the Lease as soon as the predecessor doesn't renew it.
    pub fn lease_state(&self) -> LeaseState {
        LeaseState::SharedLog(format!("log-{}", self.log.log_id().simple()))
    }

    /// Returns the log and this replica for the Lease of replicas that share the work. All of them hold the Lease, except
    /// those that use a copy of the database.
    pub fn replica_lease_state(&self) -> LeaseState {
        let log = Arc::clone(&self.log);
        let check: PeerCheck = Arc::new(move |replica| {
            let log = Arc::clone(&log);
            async move {
                let all = blocking(move || log.replicas()).await.map_err(|error| error.to_string())?;
                Ok(all.iter().any(|one| one.incarnation.simple().to_string() == replica))
            }
            .boxed()
        });
        LeaseState::Replica {
            log: format!("log-{}", self.log.log_id().simple()),
            replica: self.log.incarnation().simple().to_string(),
            check,
        }
    }

    /// Returns the fence, which blocks writes unless the database has confirmed a recent heartbeat.
    pub fn fence(&self) -> Fence {
        self.coverage.0.fence()
    }

    /// Returns the reason why the database is unavailable, if it is.
    pub fn outage(&self) -> watch::Receiver<Option<String>> {
        self.log.outage()
    }

    /// Waits until this service can never write to the log again, and returns the reason.
    pub async fn wait_for_loss(&self) -> ServiceError {
        let mut loss = self.log.loss();
        let error = match loss.wait_for(Option::is_some).await {
            Ok(reason) => reason.as_ref().map(Loss::error),
            Err(_) => None,
        };
        ServiceError::Log(error.unwrap_or(LogError::Poisoned))
    }

    /// Gives up the leadership, so that a standby takes over immediately. Call this only after all work has finished.
    pub async fn release(self) {
        let log = Arc::clone(&self.log);
        if let Err(error) = blocking(move || log.leave()).await {
            tracing::warn!(%error, "failed to release leadership of the operation log; a standby will take over within a few seconds");
        }
    }
}

/// Sets this process's clock to the time of the database. The deadlines of open operations are based on the clock of the
/// previous leader, which may be another machine.
async fn set_clock(log: &Arc<PostgresLog>) {
    loop {
        let shared = Arc::clone(log);
        match blocking(move || shared.time()).await {
            Ok(time) => return SystemClock::set(time),
            // The operations can't continue without the database anyway.
            Err(error) if error.is_outage() => tokio::time::sleep(ATTEMPT_INTERVAL).await,
            Err(error) => {
                tracing::warn!(%error, "the time of the database is unknown; using this machine's clock");
                return;
            }
        }
    }
}

/// Runs a call to the log on a thread that may block.
///
/// # Errors
///
/// Returns the error of the call.
pub async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    tokio::task::spawn_blocking(call).await.unwrap_or(Err(LogError::Poisoned))
}
