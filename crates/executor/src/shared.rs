//! What all actors of one engine share.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tidegate_health::HealthRules;
use tidegate_model::Digest;
use tidegate_oplog::Retention;
use tokio::sync::Semaphore;

use crate::actors::log::LogHandle;
use crate::clock::Clock;
use crate::clusters::Clusters;
use crate::events::Announcer;
use crate::extend::Extensions;
use crate::gates::{Groups, Objects, Web};
use crate::judging::digest;
use crate::log::{Log, LogFailure};
use crate::machines::Machines;
use crate::output::Places;
use crate::permits::Permits;

/// What all actors of one engine share.
pub(crate) struct Shared {
    pub log: Log,
    /// Why the log takes nothing any more. From then on nothing reaches a cluster: it could not be recorded.
    pub log_failure: LogFailure,
    pub log_actor: LogHandle,
    /// The machines at work that are no operations.
    pub machines: Arc<Machines>,
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
    /// Which operations have places in groups, and which wait for one.
    pub groups: Groups,
    /// The way to the endpoints that gates ask.
    pub web: Web,
    /// The objects of clusters that gates look at.
    pub objects: Objects,
    /// Whoever knows what projects permit.
    pub permits: OnceLock<Arc<dyn Permits>>,
    /// What those share who follow the output of hooks.
    pub output: Places,
    /// A place for each operation that may wait for its planning with its manifests in memory.
    pub handed_over: Arc<Semaphore>,
}

/// When the log is made smaller, and what it keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compaction {
    pub every: Duration,
    pub keep: Retention,
}

/// Rules for health that may change while the engine runs.
pub(crate) struct Rules(RwLock<Known>);

struct Known {
    rules: HealthRules,
    digest: Digest,
}

impl Known {
    fn new(rules: HealthRules) -> Self {
        Self { digest: digest(&rules), rules }
    }
}

impl Rules {
    pub fn new(rules: HealthRules) -> Self {
        Self(RwLock::new(Known::new(rules)))
    }

    pub fn now(&self) -> HealthRules {
        self.0.read().unwrap_or_else(PoisonError::into_inner).rules.clone()
    }

    /// Which they are now.
    pub fn digest(&self) -> Digest {
        self.0.read().unwrap_or_else(PoisonError::into_inner).digest
    }

    pub fn change(&self, rules: HealthRules) {
        let known = Known::new(rules);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }
}
