//! State shared by all actors of one engine.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tidegate_health::HealthRules;
use tidegate_model::Digest;
use tidegate_oplog::Retention;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::actors::log::LogHandle;
use crate::assignment::CurrentAssignment;
use crate::clock::Clock;
use crate::clusters::Clusters;
use crate::events::EventBroadcaster;
use crate::extensions::Extensions;
use crate::gates::{Groups, HttpClient, ObjectWatches};
use crate::health_evaluation::rules_digest;
use crate::log::{Log, LogFailure};
use crate::machines::MachineRegistry;
use crate::output::OutputLimits;
use crate::plan_counters::PlanCounters;
use crate::policy_check::PolicyCheck;

/// State shared by all actors of one engine.
pub(crate) struct EngineContext {
    pub log: Log,
    /// Reason why the log rejects all records. Once set, no more calls go to clusters, because their results
    /// couldn't be recorded.
    pub log_failure: LogFailure,
    pub log_actor: LogHandle,
    /// Streams that this engine runs.
    pub assignment: CurrentAssignment,
    /// Running machines other than operations.
    pub machines: Arc<MachineRegistry>,
    pub clusters: Clusters,
    /// Identity of this engine, empty if unknown.
    pub worker: String,
    /// Unique ID of this engine, which distinguishes it from earlier and later ones with the same log. With a shared log,
    /// the ID of the replica.
    pub incarnation: Uuid,
    pub clock: Arc<dyn Clock>,
    pub extensions: Arc<Extensions>,
    /// Current health rules.
    pub health: CurrentHealthRules,
    /// Maximum number of concurrent calls to one cluster.
    pub in_flight: usize,
    /// Periodic compaction of the log.
    pub compaction: Option<Compaction>,
    pub broadcaster: EventBroadcaster,
    /// Concurrency groups of operations.
    pub groups: Groups,
    /// HTTP client for gate endpoints.
    pub http_client: HttpClient,
    /// Objects watched for gates.
    pub object_watches: ObjectWatches,
    /// Check of project policies.
    pub policy_check: OnceLock<Arc<dyn PolicyCheck>>,
    /// Limits shared by the readers of hook output.
    pub output_limits: OutputLimits,
    /// Limit on operations that keep their manifests in memory while waiting to be planned.
    pub submission_permits: Arc<Semaphore>,
    pub plan_counters: PlanCounters,
}

/// Interval and retention of compactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compaction {
    pub interval: Duration,
    pub retention: Retention,
}

/// Health rules, changeable while the engine is running.
pub(crate) struct CurrentHealthRules(RwLock<RulesWithDigest>);

struct RulesWithDigest {
    rules: HealthRules,
    digest: Digest,
}

impl RulesWithDigest {
    fn new(rules: HealthRules) -> Self {
        Self { digest: rules_digest(&rules), rules }
    }
}

impl CurrentHealthRules {
    pub fn new(rules: HealthRules) -> Self {
        Self(RwLock::new(RulesWithDigest::new(rules)))
    }

    pub fn get(&self) -> HealthRules {
        self.0.read().unwrap_or_else(PoisonError::into_inner).rules.clone()
    }

    /// Returns the digest of the current rules.
    pub fn digest(&self) -> Digest {
        self.0.read().unwrap_or_else(PoisonError::into_inner).digest
    }

    pub fn set(&self, rules: HealthRules) {
        let known = RulesWithDigest::new(rules);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }
}
