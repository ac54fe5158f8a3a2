//! Putting an engine together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Event, concurrency_group, is_known_gate};
use tidegate_model::Destination;
use tidegate_oplog::Retention;
use tokio::sync::Semaphore;

use super::{Engine, IN_FLIGHT};
use crate::actors::log::LogHandle;
use crate::actors::supervisor::Supervisor;
use crate::clock::{Clock, SystemClock};
use crate::clusters::{ClusterHandle, Clusters};
use crate::error::EngineError;
use crate::events::{Announcer, Events, Seen, notify};
use crate::extend::{Extensions, GateQuestion, HealthQuestion, HookRun};
use crate::gates::{Groups, Objects, Web};
use crate::ids::{IdSource, Ids, random_ids};
use crate::log::{Log, LogFailure};
use crate::output::Places;
use crate::shared::{Compaction, Rules, Shared};

/// How many operations may wait for their planning with their manifests in memory. Those beyond read them again.
const HANDED_OVER: usize = 16;

/// Puts an engine together.
pub struct EngineBuilder {
    log: Log,
    clusters: BTreeMap<Destination, Arc<dyn Cluster>>,
    clock: Arc<dyn Clock>,
    ids: IdSource,
    extensions: Extensions,
    notifiers: Vec<(ActorRef<Event>, Option<Seen>)>,
    health: HealthRules,
    worker: String,
    in_flight: usize,
    name_taken: Option<EngineError>,
    supervised_by: Option<ActorCell>,
    compaction: Option<Compaction>,
}

/// Registers an extension, and remembers the first name given twice.
fn register<T>(
    map: &mut BTreeMap<String, ActorRef<T>>,
    taken: &mut Option<EngineError>,
    kind: &'static str,
    name: String,
    actor: ActorRef<T>,
) {
    if map.insert(name.clone(), actor).is_some() {
        taken.get_or_insert(EngineError::NameTaken { kind, name });
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
            in_flight: IN_FLIGHT,
            name_taken: None,
            supervised_by: None,
            compaction: None,
        }
    }

    /// A cluster operations may work on.
    #[must_use]
    pub fn cluster(mut self, destination: Destination, cluster: Arc<dyn Cluster>) -> Self {
        self.clusters.insert(destination, cluster);
        self
    }

    /// Another clock than the machine's, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Another source of ids than random UUIDv7, for tests.
    #[must_use]
    pub fn ids(mut self, ids: IdSource) -> Self {
        self.ids = ids;
        self
    }

    /// How health is judged; by the built-in rules if not said.
    #[must_use]
    pub fn health(mut self, rules: HealthRules) -> Self {
        self.health = rules;
        self
    }

    /// Who works here, and where, such as `ann on build-7`: what other operations are told about those of this engine.
    /// If not said, it is whoever began each of them.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.worker = worker.into();
        self
    }

    /// How many calls to one cluster may be on their way at once; [`IN_FLIGHT`] if not said.
    #[must_use]
    pub fn in_flight(mut self, calls: usize) -> Self {
        self.in_flight = calls;
        self
    }

    /// A gate that `tidegate.dev/gate: <name>` names. `approval`, `soak:` and `concurrency:` are gates of every engine
    /// ([`EngineError::BuiltInGate`] at the start); `window:` is taken from the file of sync windows.
    #[must_use]
    pub fn gate(mut self, name: impl Into<String>, gate: ActorRef<GateQuestion>) -> Self {
        let name = name.into();
        if is_known_gate(&name) || concurrency_group(&name).is_some() {
            self.name_taken.get_or_insert(EngineError::BuiltInGate { name });
            return self;
        }
        register(&mut self.extensions.gates, &mut self.name_taken, "gate", name, gate);
        self
    }

    /// A hook runner that `tidegate.dev/hook-runner: <name>` names.
    #[must_use]
    pub fn hook_runner(mut self, name: impl Into<String>, runner: ActorRef<HookRun>) -> Self {
        register(&mut self.extensions.runners, &mut self.name_taken, "hook runner", name.into(), runner);
        self
    }

    /// A health judge that `tidegate.dev/health-judge: <name>` names.
    #[must_use]
    pub fn health_judge(mut self, name: impl Into<String>, judge: ActorRef<HealthQuestion>) -> Self {
        register(&mut self.extensions.judges, &mut self.name_taken, "health judge", name.into(), judge);
        self
    }

    /// A notifier: it gets every event that the log takes in from the start of the engine on, of an operation in order.
    ///
    /// What was recorded before, and not told because the process died, it does not get; see
    /// [`EngineBuilder::notifier_after`].
    #[must_use]
    pub fn notifier(mut self, notifier: ActorRef<Event>) -> Self {
        self.notifiers.push((notifier, None));
        self
    }

    /// A notifier that has seen the events of an earlier process so far: it gets all others, first those that the log
    /// has. A notifier that keeps [`Seen`] as durably as what it does gets each event at least once, whatever dies; what
    /// was compacted meanwhile is named in a warning.
    #[must_use]
    pub fn notifier_after(mut self, notifier: ActorRef<Event>, seen: Seen) -> Self {
        self.notifiers.push((notifier, Some(seen)));
        self
    }

    /// Makes the log smaller every so often, by what is to be kept; at least a second passes in between. If not said, it grows
    /// until [`Engine::compact`] is called. For programs that work for long.
    #[must_use]
    pub fn compact_every(mut self, every: Duration, keep: Retention) -> Self {
        self.compaction = Some(Compaction { every: every.max(Duration::from_secs(1)), keep });
        self
    }

    /// Links the engine to an actor of one's own: that one is told when the engine ends, and the engine ends with it. All
    /// actors of the engine are linked below.
    #[must_use]
    pub fn supervised_by(mut self, supervisor: ActorCell) -> Self {
        self.supervised_by = Some(supervisor);
        self
    }

    /// Starts the actors. What is open in the log stays as it is until it is resumed.
    pub async fn start(self) -> Result<Engine, EngineError> {
        if let Some(error) = self.name_taken {
            return Err(error);
        }
        let log_failure = LogFailure::default();
        let clusters = Clusters::new(self.clusters.into_iter().map(|(destination, cluster)| {
            (destination, ClusterHandle::new(cluster, self.in_flight, Arc::clone(&log_failure)))
        }));
        let shared = Arc::new(Shared {
            log: self.log,
            log_failure,
            log_actor: LogHandle::new(),
            machines: Arc::default(),
            clusters,
            worker: self.worker,
            clock: self.clock,
            extensions: Arc::new(self.extensions),
            health: Rules::new(self.health),
            in_flight: self.in_flight,
            compaction: self.compaction,
            announcer: Announcer::new(),
            groups: Groups::default(),
            web: Web::default(),
            objects: Objects::default(),
            permits: OnceLock::new(),
            output: Places::default(),
            handed_over: Arc::new(Semaphore::new(HANDED_OVER)),
        });
        let mut notifying = Vec::new();
        for (notifier, seen) in self.notifiers {
            // Nothing is at work yet, so nothing is told before they listen.
            let events = match seen {
                Some(seen) => Events::of_all(&shared.log, &shared.announcer, seen),
                None => Events::from_now(&shared.log, &shared.announcer).await?,
            };
            notifying.push(tokio::spawn(notify(notifier, events)));
        }
        let begun = match self.supervised_by {
            Some(above) => Actor::spawn_linked(None, Supervisor, Arc::clone(&shared), above).await,
            None => Actor::spawn(None, Supervisor, Arc::clone(&shared)).await,
        };
        let (supervisor, _) = begun.map_err(|_| EngineError::Stopped)?;
        let notifying = Arc::new(Mutex::new(notifying));
        Ok(Engine { shared, supervisor, notifying, ids: Arc::new(Ids::new(self.ids)) })
    }
}
