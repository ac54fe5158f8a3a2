//! The engine: everything another program needs to run operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorRef, ActorStatus, RpcReplyPort};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{
    Driver, Event, Explanation, Fact, Input, OperationView, Scope, State, Verdict, concurrency_group,
    explain, is_known_gate, view,
};
use tidegate_model::{ClaimHolder, Destination, IfTaken, OperationId, Override, SafePoint, SyncRequest};
use tidegate_oplog::{Compacted, Lookup, Retention, TypedLog as _};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::actors::log::LogHandle;
use crate::actors::operation::Inspection;
use crate::actors::supervisor::{Submit, Supervisor, SupervisorMessage};
use crate::clock::{Clock, SystemClock};
use crate::clusters::{ClusterHandle, Clusters};
use crate::durations::Counted;
use crate::effects::{ExtensionNames, Targets};
use crate::error::EngineError;
use crate::events::{Announcer, Events, Seen, notify, recorded};
use crate::extend::{Extensions, GateQuestion, HealthQuestion, HookRun};
use crate::gates::{GateDefinitions, Groups, Objects, StepQuestion, Web, ask_about_step};
use crate::ids::{IdSource, Ids, random_ids};
use crate::log::{Log, LogFailure, blocking, keep};
use crate::manifests::HandedOver;
use crate::offline::operations;
use crate::output::{Ask, HookOutput, Places, RunningHooks, follow};
use crate::permits::Permits;
use crate::shared::{Compaction, Rules, Shared};
use crate::summary::Summary;

/// How many calls to one cluster may be on their way at once, unless the builder says otherwise.
pub const IN_FLIGHT: usize = 32;
/// How many operations may wait for their planning with their manifests in memory. Those beyond read them again.
const HANDED_OVER: usize = 16;
/// How long an orderly shutdown waits for calls on their way. What is not recorded by then is found again on resume.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);

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

/// Runs operations. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) supervisor: ActorRef<SupervisorMessage>,
    /// Those who pass events on to notifiers.
    notifying: Arc<Mutex<Vec<JoinHandle<()>>>>,
    ids: Arc<Ids>,
}

impl Engine {
    /// Begins to put an engine together around a log.
    pub fn builder(log: Log) -> EngineBuilder {
        EngineBuilder {
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

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<Result<T, EngineError>>) -> SupervisorMessage,
    ) -> Result<T, EngineError> {
        let (send, receive) = oneshot::channel();
        self.supervisor.send_message(message(send.into())).map_err(|_| EngineError::Stopped)?;
        receive.await.map_err(|_| EngineError::Stopped)?
    }

    /// Begins an operation. When this returns, it is on its way to the log; [`Engine::wait`] tells how it ended. It is
    /// refused while another operation of its application is not over.
    pub async fn submit(&self, request: SyncRequest, targets: Targets) -> Result<OperationId, EngineError> {
        self.submit_when(request, targets, IfTaken::Refuse).await
    }

    /// As [`Engine::submit`], and says what happens while another operation of the application is not over: with
    /// [`IfTaken::Queue`] this one begins when that one and all that were queued before are over, with
    /// [`IfTaken::Supersede`] that one is ended first, with a record of who wanted it, and this one is next.
    ///
    /// Returns when the operation has begun, which may take as long as the other one does; until then nothing of it is
    /// recorded, and dropping the future takes it out of the queue. The other one is gone on with if it only lies in the
    /// log; if that is not possible, this one is refused.
    pub async fn submit_when(
        &self,
        request: SyncRequest,
        targets: Targets,
        if_open: IfTaken,
    ) -> Result<OperationId, EngineError> {
        let operation = self.next_id().await?;
        self.begin(operation, request, targets, if_open).await?;
        Ok(operation)
    }

    /// Sees to it that an operation with this id exists, and is at work unless it is over. May be asked for any number of
    /// times; what is asked first counts. For whoever records the id before anything else.
    pub async fn ensure(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
    ) -> Result<(), EngineError> {
        self.ensure_when(operation, request, targets, IfTaken::Refuse).await
    }

    /// As [`Engine::ensure`], and says what happens while another operation of the application is not over, as
    /// [`Engine::submit_when`] does.
    pub async fn ensure_when(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
        if_open: IfTaken,
    ) -> Result<(), EngineError> {
        match self.resume(operation).await {
            Err(EngineError::Unknown { .. }) => {
                match self.begin(operation, request, targets, if_open).await {
                    // It was asked for twice at once.
                    Err(EngineError::Busy { open, .. }) if open == operation => Ok(()),
                    Err(EngineError::AlreadyFinished { .. }) => Ok(()),
                    begun => begun,
                }
            }
            Err(EngineError::AlreadyFinished { .. }) => Ok(()),
            resumed => resumed,
        }
    }

    /// Why nothing is done any more: the log takes nothing, or the engine has ended, be it by a fault of its own. `None` while
    /// all is well. Operations can be resumed by the next engine.
    pub fn failure(&self) -> Option<EngineError> {
        if let Some(reason) = self.shared.log_failure.get().cloned() {
            return Some(EngineError::LogFailed { reason });
        }
        let over = [ActorStatus::Stopping, ActorStatus::Stopped];
        over.contains(&self.supervisor.get_status()).then_some(EngineError::Stopped)
    }

    /// How long making groups of records durable took.
    pub fn log_flushes(&self) -> Counted {
        self.shared.log_actor.measures.flushes.counted()
    }

    /// How many batches of records wait to be durable.
    pub fn log_queue(&self) -> u64 {
        self.shared.log_actor.measures.waiting.load(Ordering::Relaxed)
    }

    /// An id for [`Engine::ensure`], after those of all operations there are.
    pub async fn next_id(&self) -> Result<OperationId, EngineError> {
        Ok(self.ids.next(&self.shared.log, self.shared.clock.now()).await?)
    }

    async fn begin(
        &self,
        operation: OperationId,
        request: SyncRequest,
        targets: Targets,
        if_open: IfTaken,
    ) -> Result<(), EngineError> {
        let digest = keep(&self.shared.log, &targets)
            .await
            .map_err(|error| EngineError::Manifests { reason: error.message })?;
        let plan = targets.pinned.as_ref().map(|pinned| Box::new(pinned.taken()));
        let manifests = match if_open {
            IfTaken::Refuse => Targets::default(),
            IfTaken::Queue | IfTaken::Supersede => targets.clone(),
        };
        let place = Arc::clone(&self.shared.handed_over).try_acquire_owned().ok();
        let handed_over = place.map(|place| Box::new(HandedOver { targets, place }));
        let request = Box::new(request);
        let submit = |reply| {
            SupervisorMessage::Submit(Submit {
                operation,
                request,
                targets: digest,
                plan,
                handed_over,
                if_open,
                manifests: Box::new(manifests),
                reply,
            })
        };
        self.ask(submit).await
    }

    /// Goes on with an operation that is not over. One that is at work already goes on undisturbed.
    pub async fn resume(&self, operation: OperationId) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::Resume { operation, reply }).await
    }

    /// Waits until an operation at work is over. One that is over already is answered at once; from the log, if that was
    /// long ago.
    pub async fn wait(&self, operation: OperationId) -> Result<OperationView, EngineError> {
        match self.ask(|reply| SupervisorMessage::Wait { operation, reply }).await {
            Err(EngineError::NotRunning { .. }) => {
                let (view, _) = self.read(operation).await?;
                if view.finished_at.is_some() { Ok(view) } else { Err(EngineError::NotRunning { operation }) }
            }
            answer => answer,
        }
    }

    async fn person(&self, operation: OperationId, input: Input) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::Person { operation, input, reply }).await
    }

    /// Ends an operation at work. Returns when the wish is durable.
    pub async fn terminate(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.person(operation, Input::Terminate { by: by.to_owned() }).await
    }

    /// Ends an operation at work for another sync of its application, where none of its hooks has to be stopped for that; it is
    /// refused elsewhere, and nothing of it is remembered. Returns when the wish is durable.
    pub async fn supersede(
        &self,
        operation: OperationId,
        by: ClaimHolder,
        when: SafePoint,
    ) -> Result<(), EngineError> {
        self.person(operation, Input::Supersede { by, when }).await
    }

    /// Holds an operation at work at its next safe point. Returns when the wish is durable.
    pub async fn pause(&self, operation: OperationId, by: &str, reason: &str) -> Result<(), EngineError> {
        self.person(operation, Input::Pause { by: by.to_owned(), reason: reason.to_owned() }).await
    }

    /// Lets a held operation go on. Returns when the wish is durable.
    pub async fn unpause(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.person(operation, Input::Unpause { by: by.to_owned() }).await
    }

    /// Approves the prunes of an operation that wait for confirmation. Returns when the wish is durable.
    pub async fn confirm_prune(&self, operation: OperationId, by: &str) -> Result<(), EngineError> {
        self.person(operation, Input::ConfirmPrune { by: by.to_owned() }).await
    }

    /// Lets operations work on another cluster from now on. Those it has a way to already keep that one:
    /// [`EngineError::ClusterKnown`].
    pub async fn add_cluster(
        &self,
        destination: Destination,
        cluster: Arc<dyn Cluster>,
    ) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::AddCluster { destination, cluster, reply }).await
    }

    /// Judges health by other rules from now on. Operations at work take the new ones too: what they wait for is looked at
    /// and judged anew.
    pub async fn set_health_rules(&self, rules: HealthRules) -> Result<(), EngineError> {
        self.ask(|reply| SupervisorMessage::JudgeBy { rules, reply }).await
    }

    /// From now on asks what an operation that was begun for a project may write, before each of its writes. What is asked
    /// first counts. An engine that has nobody to ask writes nothing for projects that forbid anything.
    pub fn set_permits(&self, permits: Arc<dyn Permits>) {
        let _ = self.shared.permits.set(permits);
    }

    /// The names of the extensions that are registered.
    pub fn extension_names(&self) -> ExtensionNames {
        self.shared.extensions.names()
    }

    /// Asks a gate about a step of a progressive sync, as waves ask it: by what names stand for, or the actor that is registered
    /// by the name. What it answers is told, now and later, for as long as this is polled; it ends where nothing more will
    /// come. A gate that nobody knows is closed, and says so.
    pub async fn ask_gate(
        &self,
        question: &StepQuestion,
        definitions: &GateDefinitions,
        tell: impl Fn(Verdict),
    ) {
        ask_about_step(&self.shared, question, definitions, tell).await;
    }

    /// Approves a wave that the gate `approval` holds: the one with this number in the plan, from 1, or the one that waits for
    /// it. Returns when the approval is durable.
    pub async fn approve(
        &self,
        operation: OperationId,
        wave: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.person(operation, Input::Approve { wave, by, reason }).await
    }

    /// Skips one task of an operation, or what is not done of a wave, marks it as done, or has it tried again at once.
    /// Returns when that is durable.
    pub async fn override_tasks(
        &self,
        operation: OperationId,
        what: Override,
        scope: Scope,
        by: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.person(operation, Input::Override { what, scope, by, reason }).await
    }

    /// The operations this engine works on now.
    pub async fn at_work(&self) -> Result<BTreeSet<OperationId>, EngineError> {
        self.ask(|reply| SupervisorMessage::AtWork { reply }).await
    }

    /// How an operation stands, at work or not.
    pub async fn inspect(&self, operation: OperationId) -> Result<(OperationView, Explanation), EngineError> {
        let ask = || self.ask(|reply| SupervisorMessage::Inspect { operation, reply });
        let mut answer = ask().await;
        if let Err(EngineError::Restarted { .. }) = answer {
            // Or it is over, and gone before it came to the question.
            answer = ask().await;
        }
        match answer {
            Ok(Inspection { view, explanation }) => Ok((view, explanation)),
            Err(EngineError::NotRunning { .. } | EngineError::Restarted { .. }) => self.read(operation).await,
            Err(error) => Err(error),
        }
    }

    /// How an operation stands according to the log.
    async fn read(&self, operation: OperationId) -> Result<(OperationView, Explanation), EngineError> {
        let loaded = blocking(&self.shared.log, move |log| log.load_as(operation)).await?;
        let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
        let view = view(driver.state()).ok_or(EngineError::Unknown { operation })?;
        Ok((view, explain(driver.state(), self.shared.clock.now())))
    }

    /// Summaries of all operations, oldest first.
    pub async fn list(&self) -> Result<Vec<Summary>, EngineError> {
        self.find(Lookup::all()).await
    }

    /// Summaries of the operations that are all that is asked for, oldest first.
    pub async fn find(&self, lookup: Lookup) -> Result<Vec<Summary>, EngineError> {
        Ok(blocking(&self.shared.log, move |log| operations(log, lookup)).await?)
    }

    /// All facts of an operation that are kept.
    pub async fn facts(&self, operation: OperationId) -> Result<Vec<Fact>, EngineError> {
        Ok(blocking(&self.shared.log, move |log| log.facts_as(operation)).await?.facts)
    }

    /// An operation as the log has it: how it stands, and all its facts that are kept.
    pub async fn history(&self, operation: OperationId) -> Result<(State, Vec<Fact>), EngineError> {
        let read = move |log: &Log| Ok((log.load_as(operation)?, log.facts_as(operation)?.facts));
        let (loaded, facts) = blocking(&self.shared.log, read).await?;
        let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
        Ok((driver.state().clone(), facts))
    }

    /// Makes the log smaller, by what is to be kept. Safe while operations are at work.
    pub async fn compact(&self, keep: Retention) -> Result<Compacted, EngineError> {
        let now = self.shared.clock.now();
        Ok(blocking(&self.shared.log, move |log| log.compact(&keep, now)).await?)
    }

    /// The events of an operation after the fact with a number (0: all of them): first those that the log has, then those
    /// that come, without gap or repetition. The stream ends with the operation, which need not be at work; where facts
    /// were compacted it says so.
    pub async fn events(&self, operation: OperationId, after: u64) -> Result<Events, EngineError> {
        let events = Events::of_one(&self.shared.log, &self.shared.announcer, operation, after);
        let is_known =
            || blocking(&self.shared.log, move |log| Ok(log.entry_as::<Fact>(operation)?.is_some()));
        // It may be on its way to the log, or have come there while it was asked for.
        if is_known().await? || self.at_work().await?.contains(&operation) || is_known().await? {
            Ok(events)
        } else {
            Err(EngineError::Unknown { operation })
        }
    }

    /// What the hooks of an operation at work write while they run, as far as the cluster serves logs: of those that run now,
    /// beginning with their last lines, and of those that begin later. It disturbs nothing: the operation waits for none of it,
    /// no line is recorded, and a slow reader misses lines and is told how many.
    ///
    /// One that is not at work is [`EngineError::NotRunning`], one that is over [`EngineError::AlreadyFinished`].
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutput, EngineError> {
        // Listened to before the first look, so that nothing falls in between.
        let told = self.shared.announcer.listen();
        let asking = AskingHooks { engine: self.clone(), operation };
        let mut first = asking.ask().await;
        if let Err(EngineError::Restarted { .. }) = first {
            first = asking.ask().await;
        }
        match first {
            Ok(first) => Ok(follow(Arc::clone(&self.shared), operation, told, first, asking)),
            Err(EngineError::NotRunning { .. } | EngineError::Restarted { .. }) => {
                let is_known = move |log: &Log| Ok(log.entry_as::<Fact>(operation)?.is_some());
                if !blocking(&self.shared.log, is_known).await? {
                    return Err(EngineError::Unknown { operation });
                }
                let (view, _) = self.inspect(operation).await?;
                Err(match view.finished_at {
                    Some(_) => EngineError::AlreadyFinished { operation, message: view.message },
                    None => EngineError::NotRunning { operation },
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The events of all operations that were not seen: first those that the log has, then those that come, without gap
    /// or repetition, of each operation in order. The stream ends when the engine has stopped. [`Engine::recorded`] is
    /// where to begin with what comes.
    pub fn all_events(&self, seen: Seen) -> Events {
        Events::of_all(&self.shared.log, &self.shared.announcer, seen)
    }

    /// How far the log goes now.
    pub async fn recorded(&self) -> Result<Seen, EngineError> {
        Ok(recorded(&self.shared.log).await?)
    }

    /// The events of all operations from now on.
    pub async fn events_from_now(&self) -> Result<Events, EngineError> {
        Ok(Events::from_now(&self.shared.log, &self.shared.announcer).await?)
    }

    /// Stops in order: no new command is begun, what is on its way is recorded. Everything can be resumed.
    pub async fn shutdown(&self) {
        // First: what operations tell while they are stopped is no news for a machine.
        self.shared.machines.shut_down().await;
        let stopping = self.ask(|reply| SupervisorMessage::Shutdown { reply });
        if tokio::time::timeout(SHUTDOWN_WITHIN, stopping).await.is_err() {
            tracing::warn!("calls to the cluster did not end in time; they are looked at again on resume");
        }
        // Every actor ends with it.
        let _ = self.supervisor.stop_and_wait(None, None).await;
        self.shared.announcer.close();
        let notifying = std::mem::take(&mut *self.notifying.lock().unwrap_or_else(PoisonError::into_inner));
        for passing_on in notifying {
            // They hear everything that was told, unless the log hangs.
            let abort = passing_on.abort_handle();
            if tokio::time::timeout(SHUTDOWN_WITHIN, passing_on).await.is_err() {
                abort.abort();
            }
        }
    }
}

/// Asks which hooks of an operation run.
struct AskingHooks {
    engine: Engine,
    operation: OperationId,
}

impl Ask for AskingHooks {
    async fn ask(&self) -> Result<RunningHooks, EngineError> {
        let operation = self.operation;
        self.engine.ask(|reply| SupervisorMessage::RunningHooks { operation, reply }).await
    }
}
