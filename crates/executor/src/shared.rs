//! What all actors of one engine share.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tidegate_health::HealthRules;
use tokio::sync::Semaphore;

use crate::actors::log::{Log, LogHandle};
use crate::actors::supervisor::Compaction;
use crate::clock::Clock;
use crate::clusters::Clusters;
use crate::events::Announcer;
use crate::extend::Extensions;

/// Set once, by whoever sees it first.
pub(crate) type LogFailure = Arc<OnceLock<String>>;

/// What all actors of one engine share.
pub(crate) struct Shared {
    pub log: Log,
    /// Why the log takes nothing any more. From then on nothing reaches a cluster: it could not be recorded.
    pub log_failure: LogFailure,
    pub log_actor: LogHandle,
    pub clusters: Clusters,
    /// Who works here, and where; empty when that is not known.
    pub worker: String,
    pub clock: Arc<dyn Clock>,
    pub extensions: Arc<Extensions>,
    /// How objects are judged now.
    pub health: Rules,
    /// How many calls to one cluster may be on their way at once.
    pub in_flight: usize,
    /// Whether the log is made smaller while the engine runs.
    pub compaction: Option<Compaction>,
    pub announcer: Announcer,
    /// A place for each operation that may wait for its planning with its manifests in memory.
    pub handed_over: Arc<Semaphore>,
}

/// Rules for health that may change while the engine runs.
pub(crate) struct Rules(RwLock<HealthRules>);

impl Rules {
    pub fn new(rules: HealthRules) -> Self {
        Self(RwLock::new(rules))
    }

    pub fn now(&self) -> HealthRules {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn change(&self, rules: HealthRules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }
}

/// Calls the log on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    log: &Log,
    call: impl FnOnce(&Log) -> Result<T, tidegate_oplog::LogError> + Send + 'static,
) -> Result<T, tidegate_oplog::LogError> {
    let log = Arc::clone(log);
    match tokio::task::spawn_blocking(move || call(&log)).await {
        Ok(result) => result,
        // A panic in the log, or the runtime is going down: in both cases nothing more can be trusted to it.
        Err(_) => Err(tidegate_oplog::LogError::Poisoned),
    }
}
