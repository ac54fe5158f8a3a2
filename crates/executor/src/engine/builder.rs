//! Builder for an engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Event, concurrency_group, is_built_in_gate};
use tidegate_model::Destination;
use tidegate_oplog::Retention;
use tokio::sync::Semaphore;
use uuid::{NoContext, Timestamp, Uuid};

use super::{DEFAULT_IN_FLIGHT, Engine};
use crate::actors::log::LogHandle;
use crate::actors::supervisor::Supervisor;
use crate::assignment::CurrentAssignment;
use crate::clock::{Clock, SystemClock};
use crate::clusters::{ClusterHandle, Clusters};
use crate::engine_context::{Compaction, CurrentHealthRules, EngineContext};
use crate::error::EngineError;
use crate::events::{EventBroadcaster, EventCursor, EventStream, forward_events};
use crate::extensions::{Extensions, GateRequest, HealthRequest, HookRun};
use crate::gates::{Groups, HttpClient, ObjectWatches};
use crate::ids::{IdSource, Ids, random_ids};
use crate::log::{Log, LogFailure};
use crate::output::OutputLimits;
use crate::plan_counters::PlanCounters;

/// Maximum number of operations that keep their manifests in memory while waiting for their plan. All others
/// reread them from the log.
const SUBMITTED_IN_MEMORY_MAX: usize = 16;

/// Builder for an engine.
pub struct EngineBuilder {
    log: Log,
    clusters: BTreeMap<Destination, Arc<dyn Cluster>>,
    clock: Arc<dyn Clock>,
    ids: IdSource,
    extensions: Extensions,
    notifiers: Vec<(ActorRef<Event>, Option<EventCursor>)>,
    health: HealthRules,
    worker: String,
    in_flight: usize,
    name_error: Option<EngineError>,
    supervisor: Option<ActorCell>,
    compaction: Option<Compaction>,
}

/// Registers an extension. Stores the first duplicate name, for [`EngineBuilder::start`] to report.
fn register_extension<T>(
    map: &mut BTreeMap<String, ActorRef<T>>,
    taken: &mut Option<EngineError>,
    kind: &'static str,
    name: String,
    actor: ActorRef<T>,
) {
    if map.insert(name.clone(), actor).is_some() {
        taken.get_or_insert(EngineError::DuplicateName { kind, name });
    }
}

impl EngineBuilder {
    pub(super) fn new(log: Log) -> Self {
        Self {
            log,
            clusters: BTreeMap::new(),
            clock: Arc::new(SystemClock),
            ids: random_ids(),
            extensions: Extensions::default(),
            notifiers: Vec::new(),
            health: HealthRules::built_in(),
            worker: String::new(),
            in_flight: DEFAULT_IN_FLIGHT,
            name_error: None,
            supervisor: None,
            compaction: None,
        }
    }

    /// Adds a cluster.
    #[must_use]
    pub fn cluster(mut self, destination: Destination, cluster: Arc<dyn Cluster>) -> Self {
        self.clusters.insert(destination, cluster);
        self
    }

    /// Sets the clock, for tests. [default: system clock]
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of IDs, for tests. [default: random UUIDv7]
    #[must_use]
    pub fn ids(mut self, ids: IdSource) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the health rules. [default: built-in rules]
    #[must_use]
    pub fn health(mut self, rules: HealthRules) -> Self {
        self.health = rules;
        self
    }

    /// Sets the identity of this engine, such as `ann on build-7`. Claims record it as their holder.
    /// [default: requester of each operation]
    #[must_use]
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.worker = worker.into();
        self
    }

    /// Sets the maximum number of concurrent calls to one cluster. [default: [`DEFAULT_IN_FLIGHT`]]
    #[must_use]
    pub fn in_flight(mut self, calls: usize) -> Self {
        self.in_flight = calls;
        self
    }

    /// Registers a gate for `tidegate.dev/gate: <name>`. `approval`, `soak:` and `concurrency:` are built in;
    /// registering one of them fails at start ([`EngineError::BuiltInGate`]). `window:` is read from the file
    /// of sync windows.
    #[must_use]
    pub fn gate(mut self, name: impl Into<String>, gate: ActorRef<GateRequest>) -> Self {
        let name = name.into();
        if is_built_in_gate(&name) || concurrency_group(&name).is_some() {
            self.name_error.get_or_insert(EngineError::BuiltInGate { name });
            return self;
        }
        register_extension(&mut self.extensions.gates, &mut self.name_error, "gate", name, gate);
        self
    }

    /// Registers a hook runner for `tidegate.dev/hook-runner: <name>`.
    #[must_use]
    pub fn hook_runner(mut self, name: impl Into<String>, runner: ActorRef<HookRun>) -> Self {
        register_extension(
            &mut self.extensions.runners,
            &mut self.name_error,
            "hook runner",
            name.into(),
            runner,
        );
        self
    }

    /// Registers a health judge for `tidegate.dev/health-judge: <name>`.
    #[must_use]
    pub fn health_judge(mut self, name: impl Into<String>, judge: ActorRef<HealthRequest>) -> Self {
        register_extension(
            &mut self.extensions.judges,
            &mut self.name_error,
            "health judge",
            name.into(),
            judge,
        );
        self
    }

    /// Adds a notifier. It receives every event recorded after the engine starts, in order within each
    /// operation.
    ///
    /// It misses events that were recorded but not delivered before a crash. Use
    /// [`EngineBuilder::notifier_after`] to receive those too.
    #[must_use]
    pub fn notifier(mut self, notifier: ActorRef<Event>) -> Self {
        self.notifiers.push((notifier, None));
        self
    }

    /// Adds a notifier that has already received events from an earlier process. It receives all others,
    /// starting with those in the log. A notifier that stores the [`EventCursor`] as durably as its own
    /// results receives each event at least once, even across crashes. Events compacted in the meantime are
    /// logged as a warning.
    #[must_use]
    pub fn notifier_after(mut self, notifier: ActorRef<Event>, seen: EventCursor) -> Self {
        self.notifiers.push((notifier, Some(seen)));
        self
    }

    /// Compacts the log at this interval, at least one second, according to the retention policy. Meant for
    /// long-running programs. [default: compact only when [`Engine::compact`] is called]
    #[must_use]
    pub fn compact_every(mut self, every: Duration, keep: Retention) -> Self {
        self.compaction = Some(Compaction { interval: every.max(Duration::from_secs(1)), retention: keep });
        self
    }

    /// Links the engine to one of the caller's supervisors. That supervisor is notified when the engine
    /// stops, and the engine stops with it. All of the engine's actors are linked to the engine's own
    /// supervisor.
    #[must_use]
    pub fn supervised_by(mut self, supervisor: ActorCell) -> Self {
        self.supervisor = Some(supervisor);
        self
    }

    /// Starts the actors. Open operations in the log are left alone until a caller resumes them.
    pub async fn start(self) -> Result<Engine, EngineError> {
        if let Some(error) = self.name_error {
            return Err(error);
        }
        let clusters = Clusters::new(
            self.clusters
                .into_iter()
                .map(|(destination, cluster)| (destination, ClusterHandle::new(cluster, self.in_flight))),
        );
        let random_id = || Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0));
        let shared = Arc::new(EngineContext {
            incarnation: self.log.replica_id().unwrap_or_else(random_id),
            log: self.log,
            log_failure: LogFailure::default(),
            log_actor: LogHandle::new(),
            assignment: CurrentAssignment::default(),
            machines: Arc::default(),
            clusters,
            worker: self.worker,
            clock: self.clock,
            extensions: Arc::new(self.extensions),
            health: CurrentHealthRules::new(self.health),
            in_flight: self.in_flight,
            compaction: self.compaction,
            broadcaster: EventBroadcaster::new(),
            groups: Groups::default(),
            http_client: HttpClient::default(),
            object_watches: ObjectWatches::default(),
            policy_check: OnceLock::new(),
            output_limits: OutputLimits::default(),
            submission_permits: Arc::new(Semaphore::new(SUBMITTED_IN_MEMORY_MAX)),
            plan_counters: PlanCounters::default(),
        });
        let mut notifying = Vec::new();
        for (notifier, seen) in self.notifiers {
            // No operation is running yet, so the notifiers can't miss an event before they listen.
            let events = match seen {
                Some(seen) => EventStream::for_all(&shared.log, &shared.broadcaster, seen),
                None => EventStream::from_now(&shared.log, &shared.broadcaster).await?,
            };
            notifying.push(tokio::spawn(forward_events(notifier, events)));
        }
        let started = match self.supervisor {
            Some(above) => Actor::spawn_linked(None, Supervisor, Arc::clone(&shared), above).await,
            None => Actor::spawn(None, Supervisor, Arc::clone(&shared)).await,
        };
        let (supervisor, _) = started.map_err(|_| EngineError::Stopped)?;
        let notifier_tasks = Arc::new(Mutex::new(notifying));
        Ok(Engine { shared, supervisor, notifier_tasks, ids: Arc::new(Ids::new(self.ids)) })
    }
}
