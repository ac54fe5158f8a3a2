//! Effects of one operation. Commands become calls, watches, gate subscriptions and a timer. Events become
//! records, notifications and inventory changes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ractor::{ActorProcessingErr, RpcReplyPort};
use tidegate_lifecycle::operation::{
    Command, EventEmitter, Input, Operation, OperationEvent, Progress, Rejection, State, SyncOperation,
    TaskCommand,
};
use tidegate_lifecycle::{Effects, MachineBatch};
use tidegate_model::{Digest, OperationId, ProjectPolicy, SyncRequest, TaskId, Timestamp};
use tidegate_oplog::{AppendOf, InventoryChange, Shard};
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::calls::{Call, CallKind, InFlightCommand, PlanJob, TaskJob};
use crate::actors::cluster::ClusterMessage;
use crate::alarm::Alarm;
use crate::claims::{LeaseCoverage, ObservationStore};
use crate::clusters::ClusterHandle;
use crate::effects::{self, Mask};
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::events::EventBatch;
use crate::extensions::{Cancellation, HookResult, HookRun};
use crate::gates::RecordedPlaces;
use crate::inbox::{EffectMessage, Inbox};
use crate::manifests::{self, Bundle, SubmittedManifests};
use crate::policy_check::PolicyGuard;
use crate::summary::{Summary, summarize};
use crate::watches::{Subscription, WatchTarget};

/// Maximum size of the secret values that a waiting operation keeps in memory, in bytes.
const MASK_BYTES_MAX: usize = 2048;

/// Time that manifests stay in memory while the operation waits for objects.
const MANIFEST_CACHE_TIME: Duration = Duration::from_secs(5);

/// Minimum age of an operation before it watches its namespaces.
const NAMESPACE_WATCH_DELAY: Duration = Duration::from_secs(5);

/// Caller waiting for the current state to become durable.
pub(super) enum Reply {
    /// Replies to a request.
    Request(RpcReplyPort<Result<(), EngineError>>),
    /// Replies to a status query.
    Inspection(oneshot::Sender<()>),
}

/// Progress of releasing the claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReleaseProgress {
    #[default]
    NotStarted,
    InFlight,
    Done,
}

/// Publication of the operation's slots in concurrency groups.
#[derive(Default)]
pub(super) struct PlacePublication {
    /// True if the groups know of slots of this operation.
    pub has_places: bool,
    /// Slots to publish once the batch in flight is durable.
    pub next: Option<RecordedPlaces>,
}

/// Executes the effects of one operation.
pub(super) struct SyncEffects {
    pub shared: Arc<EngineContext>,
    pub id: OperationId,
    /// Shard that stores the operation.
    shard: Shard,
    pub inbox: Inbox,
    alarm: Alarm,
    /// Active gate subscriptions.
    pub gates: BTreeMap<String, AbortHandle>,
    /// Publication of the operation's slots in concurrency groups.
    pub place_publication: PlacePublication,
    /// Hooks that hook runners are executing, with the senders that cancel them.
    runs: BTreeMap<(TaskId, u32), watch::Sender<bool>>,
    /// Timer for starting the namespace watches.
    namespaces_due: Option<AbortHandle>,
    /// Dropped together with this actor, which abandons the calls in flight. The next actor repeats them.
    alive: watch::Sender<()>,
    /// True if an earlier actor may already have executed the outstanding commands.
    is_recovered: bool,
    /// Submitted manifests, until they are planned.
    submitted: Option<Box<SubmittedManifests>>,
    request: Option<Arc<SyncRequest>>,
    /// The operation's project policy, once read.
    policy: Arc<OnceCell<Option<Arc<ProjectPolicy>>>>,
    bundle: Option<Arc<Bundle>>,
    /// Manifests of a waiting operation, if still in memory.
    cached_bundle: Weak<Bundle>,
    /// Values of the operation's Secrets, loaded when the first text that may contain them arrives.
    mask: Option<Arc<Mask>>,
    /// Coverage of the operation's writes by the claim.
    pub coverage: Arc<LeaseCoverage>,
    /// Keeper of the operation's claim.
    pub keeper: Option<AbortHandle>,
    /// Observations of other operations' claims while this operation waits for its own.
    pub holder_observations: ObservationStore,
    /// True once this engine has held the operation's claim.
    pub claim_held: Arc<AtomicBool>,
    /// Start time of this actor.
    pub started_at: Instant,
    /// Progress of releasing the operation's claim.
    pub release_progress: ReleaseProgress,
    /// Inventory changes to record with the next batch.
    inventory: Vec<InventoryChange>,
    emitter: EventEmitter,
    /// Events to publish once the batch in flight is durable.
    pending_events: Option<EventBatch>,
}

impl SyncEffects {
    pub fn new(
        shared: Arc<EngineContext>,
        (id, shard): (OperationId, Shard),
        inbox: Inbox,
        claim_held: Arc<AtomicBool>,
        recovered: Option<EventEmitter>,
        submitted: Option<Box<SubmittedManifests>>,
    ) -> Self {
        let policy = submitted.as_ref().map(|new| new.targets.mandate.clone().map(Arc::new));
        Self {
            shared,
            id,
            shard,
            inbox,
            alarm: Alarm::default(),
            gates: BTreeMap::new(),
            place_publication: PlacePublication::default(),
            runs: BTreeMap::new(),
            namespaces_due: None,
            alive: watch::Sender::new(()),
            is_recovered: recovered.is_some(),
            submitted,
            request: None,
            policy: Arc::new(OnceCell::new_with(policy)),
            bundle: None,
            cached_bundle: Weak::new(),
            mask: None,
            coverage: LeaseCoverage::new(),
            keeper: None,
            holder_observations: ObservationStore::default(),
            claim_held,
            started_at: Instant::now(),
            release_progress: ReleaseProgress::default(),
            inventory: Vec::new(),
            emitter: recovered.unwrap_or_default(),
            pending_events: None,
        }
    }

    /// Masks the values of the operation's Secrets in text from outside before it is processed.
    pub async fn mask_input(&mut self, targets: Option<Digest>, input: &mut Input) {
        let mut speaks = false;
        input.for_each_text(&mut |text| speaks |= !text.is_empty());
        if !speaks {
            return;
        }
        if self.mask.is_none()
            && let Some(targets) = targets
        {
            self.mask = manifests::read_mask(&self.shared.log, targets).await;
        }
        if let Some(mask) = &self.mask {
            input.for_each_text(&mut |text| mask.apply(text));
        }
    }

    fn request(&mut self, state: &State) -> Option<Arc<SyncRequest>> {
        if self.request.is_none() {
            self.request = state.header().map(|header| Arc::new(header.request.clone()));
        }
        self.request.clone()
    }

    fn bundle(&mut self, operation: &Operation) -> Option<Arc<Bundle>> {
        if self.bundle.is_none() {
            self.bundle = self.cached_bundle.upgrade();
        }
        if self.bundle.is_none() {
            self.bundle = Some(Arc::new(Bundle::new(Arc::clone(&self.shared.log), operation.bundle?)));
        }
        self.bundle.clone()
    }

    /// Sends a command to the operation's cluster.
    fn send_call(&self, state: &State, call: Call) {
        match (self.cluster(state), state.header()) {
            (Some(cluster), Some(header)) => {
                let guard = PolicyGuard {
                    log: Arc::clone(&self.shared.log),
                    targets: header.targets,
                    policy: Arc::clone(&self.policy),
                    policy_check: self.shared.policy_check.get().map(Arc::clone),
                    scopes: cluster.scopes(),
                };
                let log_failure = Arc::clone(&self.shared.log_failure);
                self.spawn(call.run(cluster, self.coverage(state), guard, log_failure));
            }
            _ => call.command.fail(tidegate_lifecycle::operation::CallError::permanent(
                "this engine has no connection to the operation's cluster; start the engine with a \
                 connection to that cluster",
            )),
        }
    }

    fn start_plan(&mut self, state: &State, command: InFlightCommand) {
        let (Some(header), Some(request)) = (state.header(), self.request(state)) else { return };
        let planning = PlanJob {
            engine: Arc::clone(&self.shared),
            operation: self.id,
            request,
            targets: header.targets,
            submitted: self.submitted.take(),
            started_at: header.started_at,
        };
        self.send_call(state, Call { command, kind: CallKind::Plan(Box::new(planning)) });
    }

    fn start_task(
        &mut self,
        state: &State,
        id: TaskId,
        attempt: u32,
        what: TaskCommand,
        command: InFlightCommand,
    ) {
        let Some(operation) = state.operation() else { return };
        let Some((_, task)) = operation.task(id) else { return };
        let is_repeated = self.is_recovered || task.calls.is_some();
        let (Some(request), Some(bundle)) = (self.request(state), self.bundle(operation)) else { return };
        let work = TaskJob {
            operation: self.id,
            request,
            attempt,
            leftover: task.leftover.clone(),
            plan: Arc::clone(&operation.plan),
            task: id,
            bundle,
            is_repeated,
            clock: Arc::clone(&self.shared.clock),
            health: self.shared.health.get(),
        };
        match what {
            TaskCommand::RunHook { runner } => self.run_hook(state, runner, work, command),
            _ => self.send_call(state, Call { command, kind: CallKind::Task(Box::new(work)) }),
        }
    }

    /// Runs a hook through a hook runner. It may take arbitrarily long, so it doesn't count toward the limit
    /// on concurrent cluster calls.
    fn run_hook(&mut self, state: &State, runner: String, work: TaskJob, command: InFlightCommand) {
        let extensions = Arc::clone(&self.shared.extensions);
        let (operation, application) = (self.id, work.request.application.clone());
        let hold = self.coverage(state);
        let (cancel, cancellation) = Cancellation::new();
        let (inbox, task, attempt) = (self.inbox.clone(), work.task, work.attempt);
        self.runs.insert((task, attempt), cancel);
        self.spawn(async move {
            if let Some(hold) = hold {
                // Start only while the operation holds its claim. If it loses the claim later, it ends and
                // this task is aborted.
                hold.wait_until_covered().await;
            }
            let end = match work.copy_manifest().await {
                Err(error) => HookResult::Failed(error.message),
                Ok(_) if cancellation.is_canceled() => HookResult::Failed("the hook was canceled".to_owned()),
                Ok(manifest) => {
                    let run =
                        |reply| HookRun { operation, application, attempt, manifest, cancellation, reply };
                    extensions.run_hook(&runner, run).await
                }
            };
            inbox.push_message(EffectMessage::HookEnded(task, attempt));
            command.answer_hook_result(end);
        });
    }

    /// Cancels hooks when their results aren't needed anymore.
    fn cancel_runs(&mut self, state: &State) {
        let operation = state.operation().filter(|_| !state.is_finished());
        let is_awaited = |id: TaskId, attempt: u32| {
            let operation = operation.filter(|operation| operation.attempt == attempt);
            operation
                .and_then(|operation| operation.task(id))
                .is_some_and(|(_, task)| task.progress == Progress::Running)
        };
        self.runs.retain(|(id, attempt), cancel| {
            let keep = is_awaited(*id, *attempt);
            if !keep {
                cancel.send_replace(true);
            }
            keep
        });
    }

    /// Starts the timer for the namespace watches. For a short operation, one look at the namespaces at the
    /// end is enough. After a recovery, the watches start immediately, because the namespaces may have
    /// changed while the operation wasn't running.
    fn start_namespace_timer(&mut self) {
        let inbox = self.inbox.clone();
        let wait = if self.is_recovered { Duration::ZERO } else { NAMESPACE_WATCH_DELAY };
        let due = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            inbox.push_message(EffectMessage::NamespacesDue);
        });
        self.namespaces_due = Some(due.abort_handle());
    }

    fn watch_namespaces(&mut self, state: &State) {
        // The timer is gone if the subscription has been dropped in the meantime.
        if self.namespaces_due.take().is_none() {
            return;
        }
        let Some(cluster) = self.cluster(state) else { return };
        for name in written_namespaces(state).iter() {
            cluster.send(ClusterMessage::Watch(Subscription {
                operation: self.id,
                target: WatchTarget::Namespace(name.clone()),
                gvk: effects::namespace_kind(),
                namespace: String::new(),
                name: name.clone(),
                judge: None,
                inbox: self.inbox.clone(),
            }));
        }
    }

    /// Spawns work that is abandoned when this actor stops. A call by a failed actor must not reach the
    /// cluster after the next actor has repeated it: otherwise, a hook that has finished and been deleted
    /// would be created a second time.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut alive = self.alive.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                () = work => {}
            }
        });
    }

    /// Drops all watches and timers.
    pub fn drop_subscriptions(&mut self, state: &State) {
        self.alarm = Alarm::default();
        for timer in [self.namespaces_due.take(), self.keeper.take()].iter().flatten() {
            timer.abort();
        }
        self.release_gates(state);
        if state.is_finished() {
            self.cancel_runs(state);
        }
        if let Some(cluster) = self.cluster(state) {
            cluster.send(ClusterMessage::UnwatchOperation(self.id));
        }
    }

    fn cluster(&self, state: &State) -> Option<Arc<ClusterHandle>> {
        self.shared.clusters.get(&state.header()?.request.destination)
    }
}

impl Effects<SyncOperation> for SyncEffects {
    type Message = EffectMessage;
    type Reply = Reply;
    type Summary = Summary;
    type AppendError = ActorProcessingErr;

    fn summary(state: &State) -> Option<Summary> {
        summarize(state)
    }

    fn handle_message(&mut self, state: &State, note: EffectMessage) {
        match note {
            EffectMessage::NamespacesDue => self.watch_namespaces(state),
            EffectMessage::GateUnsubscribed => self.resolve_places(state),
            EffectMessage::KeeperEnded => self.keeper = None,
            EffectMessage::ClaimReleased => self.release_progress = ReleaseProgress::Done,
            EffectMessage::Inventory(changes) => self.inventory.extend(changes),
            EffectMessage::HookEnded(task, attempt) => drop(self.runs.remove(&(task, attempt))),
            EffectMessage::Bundle(bundle) => self.bundle = Some(bundle),
            EffectMessage::Mask(mask) => self.mask = Some(mask),
            // Nothing to do: the failed write has already stopped the actor.
            EffectMessage::WriteFailed(_) => {}
        }
    }

    fn execute(&mut self, state: &State, command: Command, _: Timestamp) {
        let in_flight = InFlightCommand::new(command.clone(), self.inbox.clone());
        match command {
            Command::Plan => self.start_plan(state, in_flight),
            Command::Task { task, attempt, command: what } => {
                self.start_task(state, task, attempt, what, in_flight)
            }
            Command::ReadNamespaces => {
                let kind = CallKind::Namespaces(written_namespaces(state));
                self.send_call(state, Call { command: in_flight, kind });
            }
            Command::Claim | Command::Observe { .. } | Command::WatchNamespaces | Command::AskGate { .. } => {
            }
        }
    }

    fn start_subscription(&mut self, state: &State, command: &Command, _: Timestamp) {
        let id = match command {
            Command::Observe { task } => task,
            Command::WatchNamespaces => return self.start_namespace_timer(),
            Command::AskGate { wave, gate } => return self.evaluate_gate(state, *wave, gate),
            _ => return self.ensure_claim_keeper(state),
        };
        let Some(cluster) = self.cluster(state) else { return };
        let Some((task, _)) = state.operation().and_then(|operation| operation.task(*id)) else { return };
        cluster.send(ClusterMessage::Watch(Subscription {
            operation: self.id,
            target: WatchTarget::Task(*id),
            gvk: task.gvk.clone(),
            namespace: task.namespace.clone(),
            name: task.name.clone(),
            judge: task.health_judge.clone(),
            inbox: self.inbox.clone(),
        }));
    }

    /// Ends a subscription. The claim keeper continues, even while it can't make calls, because the operation
    /// holds its claim until it finishes.
    fn end_subscription(&mut self, state: &State, command: &Command) {
        let ended = match command {
            Command::Observe { task } => vec![WatchTarget::Task(*task)],
            Command::WatchNamespaces => {
                self.namespaces_due.take().iter().for_each(AbortHandle::abort);
                written_namespaces(state).iter().cloned().map(WatchTarget::Namespace).collect()
            }
            Command::AskGate { gate, .. } => return self.unsubscribe_from_gate(gate),
            _ => return,
        };
        let Some(cluster) = self.cluster(state) else { return };
        for what in ended {
            cluster.send(ClusterMessage::Unwatch(self.id, what));
        }
    }

    fn append(
        &mut self,
        state: &State,
        batch: MachineBatch<SyncOperation>,
        _: Timestamp,
    ) -> Result<(), ActorProcessingErr> {
        let after = self.emitter.sequence();
        let events = batch.events.iter().filter_map(|event| self.emitter.emit(event)).collect();
        self.pending_events =
            Some(EventBatch { operation: self.id, after, last: self.emitter.sequence(), events });
        let summary = summarize(state).ok_or("cannot record an operation that has no header")?;
        let append = AppendOf {
            snapshot: batch.snapshot,
            blobs: batch.events.iter().filter_map(referenced_blob).collect(),
            inventory: effects::update_inventory(state, &batch.events, self.inventory.drain(..)),
            shard: Some(self.shard),
            ..AppendOf::new(self.id, batch.first_sequence, batch.events, summary.into())
        };
        self.prepare_places(state);
        let inbox = self.inbox.clone();
        let tell = Box::new(move |result| inbox.push_write_result(result));
        self.shared.log_actor.append(Box::new(|| append.encode()), tell);
        Ok(())
    }

    fn announce(&mut self, state: &State) {
        self.publish_places();
        self.cancel_runs(state);
        if let Some(batch) = self.pending_events.take() {
            self.shared.broadcaster.broadcast(batch);
        }
    }

    fn set_alarm(&mut self, after: Option<Duration>) {
        self.alarm.set(after, &self.inbox);
    }

    fn reply(&mut self, reply: Reply, answer: Result<(), Rejection>) {
        let operation = self.id;
        let refused =
            |rejection: Rejection| EngineError::Rejected { operation, reason: rejection.to_string() };
        match reply {
            Reply::Request(reply) => drop(reply.send(answer.map_err(refused))),
            Reply::Inspection(sender) => drop(sender.send(())),
        }
    }

    /// Frees memory that a waiting operation doesn't need. If it waits only for objects to become healthy,
    /// its manifests stay in memory a little longer. With many short waves, rereading them would cost more
    /// than the waves themselves.
    fn on_idle(&mut self, is_watching: bool) {
        self.request = None;
        self.mask.take_if(|mask| mask.bytes() > MASK_BYTES_MAX);
        if let Some(bundle) = self.bundle.take().filter(|_| is_watching) {
            self.cached_bundle = Arc::downgrade(&bundle);
            self.spawn(async move {
                tokio::time::sleep(MANIFEST_CACHE_TIME).await;
                drop(bundle);
            });
        }
    }

    fn is_cleaned_up(&mut self, state: &State) -> bool {
        self.release_claim(state)
    }
}

/// Returns the namespaces that the operation writes to.
fn written_namespaces(state: &State) -> Arc<[String]> {
    state.operation().map(|operation| Arc::clone(&operation.namespaces)).unwrap_or_default()
}

/// Returns the blob that an event refers to.
fn referenced_blob(event: &OperationEvent) -> Option<Digest> {
    match event {
        OperationEvent::Accepted { targets, .. } => Some(*targets),
        OperationEvent::Planned { bundle, .. } => Some(*bundle),
        _ => None,
    }
}
