//! The hands of one operation: its commands become calls, watches, questions and a timer; its facts become records,
//! events and changes of the inventory.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ractor::{ActorProcessingErr, RpcReplyPort};
use tidegate_lifecycle::operation::{
    Command, Fact, Input, Narrator, Operation, Progress, Rejection, State, SyncOperation, TaskCommand,
};
use tidegate_lifecycle::{BatchOf, Hands};
use tidegate_model::{Digest, Mandate, OperationId, SyncRequest, TaskId, Timestamp};
use tidegate_oplog::{AppendOf, InventoryChange};
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::calls::{Call, OnItsWay, Planning, TaskWork, Work};
use crate::actors::cluster::ClusterMessage;
use crate::alarm::Alarm;
use crate::claims::{Hold, Vigil};
use crate::clusters::ClusterHandle;
use crate::effects::{self, Mask};
use crate::error::EngineError;
use crate::events::Told;
use crate::extend::{Cancellation, HookEnd, HookRun};
use crate::gates::Recorded;
use crate::inbox::{Inbox, Note};
use crate::manifests::{self, Bundle, HandedOver};
use crate::permits::Guard;
use crate::shared::Shared;
use crate::summary::{Summary, summary};
use crate::watches::{Subscription, Watched};

/// A waiting operation keeps what it must mask in memory when it is no more than this.
const MASK_BYTES: usize = 2048;

/// How long the manifests of an operation that waits for objects stay in memory.
const LINGER: Duration = Duration::from_secs(5);

/// So long an operation must last before the namespaces it writes into are watched.
const NAMESPACES_AFTER: Duration = Duration::from_secs(5);

/// Where somebody waits until what is known is durable.
pub(super) enum Reply {
    /// For the answer to a wish.
    Wish(RpcReplyPort<Result<(), EngineError>>),
    /// To tell how the operation stands.
    Sight(oneshot::Sender<()>),
}

/// How far a claim was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum GivingBack {
    #[default]
    Not,
    OnTheWay,
    Done,
}

/// What is told of the operation's places in groups.
#[derive(Default)]
pub(super) struct Placing {
    /// The groups have been told of places.
    pub had: bool,
    /// To be told when the batch on its way is durable.
    pub next: Option<Recorded>,
}

/// Carries out what one operation is owed.
pub(super) struct SyncHands {
    pub shared: Arc<Shared>,
    pub id: OperationId,
    pub inbox: Inbox,
    alarm: Alarm,
    /// The gates that are listened to.
    pub gates: BTreeMap<String, AbortHandle>,
    /// What is told of its places in groups.
    pub placing: Placing,
    /// The hooks that runners have begun and not ended, to be cancelled.
    runs: BTreeMap<(TaskId, u32), watch::Sender<bool>>,
    /// When it rings, the namespaces that the operation writes into are watched.
    namespaces_due: Option<AbortHandle>,
    /// Dropped with this actor; calls that see it gone are given up, for the next actor makes them again.
    alive: watch::Sender<()>,
    /// Its commands may have been carried out by an earlier actor.
    recovered: bool,
    /// Manifests that were submitted and not planned yet.
    to_plan: Option<Box<HandedOver>>,
    request: Option<Arc<SyncRequest>>,
    /// What it was begun for, once that was read.
    mandate: Arc<OnceCell<Option<Arc<Mandate>>>>,
    bundle: Option<Arc<Bundle>>,
    /// The same, while the operation waits.
    lingering: Weak<Bundle>,
    /// The values of its Secrets; read when words come that may hold them.
    mask: Option<Arc<Mask>>,
    /// What its claim covers.
    pub hold: Arc<Hold>,
    /// Whoever keeps its claim.
    pub keeper: Option<AbortHandle>,
    /// What was seen of the claims of others while it waits for its own.
    pub vigil: Vigil,
    /// When these hands began.
    pub began: Instant,
    /// How far its claim was given back.
    pub giving_back: GivingBack,
    /// What the next batch changes in the inventory.
    inventory: Vec<InventoryChange>,
    narrator: Narrator,
    /// Told when the batch on its way is durable.
    told: Option<Told>,
}

impl SyncHands {
    pub fn new(
        shared: Arc<Shared>,
        id: OperationId,
        inbox: Inbox,
        recovered: Option<Narrator>,
        to_plan: Option<Box<HandedOver>>,
    ) -> Self {
        let mandate = to_plan.as_ref().map(|new| new.targets.mandate.clone().map(Arc::new));
        Self {
            shared,
            id,
            inbox,
            alarm: Alarm::default(),
            gates: BTreeMap::new(),
            placing: Placing::default(),
            runs: BTreeMap::new(),
            namespaces_due: None,
            alive: watch::Sender::new(()),
            recovered: recovered.is_some(),
            to_plan,
            request: None,
            mandate: Arc::new(OnceCell::new_with(mandate)),
            bundle: None,
            lingering: Weak::new(),
            mask: None,
            hold: Hold::new(),
            keeper: None,
            vigil: Vigil::default(),
            began: Instant::now(),
            giving_back: GivingBack::default(),
            inventory: Vec::new(),
            narrator: recovered.unwrap_or_default(),
            told: None,
        }
    }

    /// Takes the values of the operation's Secrets out of words from elsewhere, before anything is made of them.
    pub async fn mask(&mut self, targets: Option<Digest>, input: &mut Input) {
        let mut speaks = false;
        input.each_text(&mut |text| speaks |= !text.is_empty());
        if !speaks {
            return;
        }
        if self.mask.is_none()
            && let Some(targets) = targets
        {
            self.mask = manifests::mask(&self.shared.log, targets).await;
        }
        if let Some(mask) = &self.mask {
            input.each_text(&mut |text| mask.hide(text));
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
            self.bundle = self.lingering.upgrade();
        }
        if self.bundle.is_none() {
            self.bundle = Some(Arc::new(Bundle::new(Arc::clone(&self.shared.log), operation.bundle?)));
        }
        self.bundle.clone()
    }

    /// Sends a command to the cluster of the operation.
    fn call(&self, state: &State, call: Call) {
        match (self.cluster(state), state.header()) {
            (Some(cluster), Some(header)) => {
                let alive = self.alive.subscribe();
                let guard = Guard {
                    log: Arc::clone(&self.shared.log),
                    targets: header.targets,
                    mandate: Arc::clone(&self.mandate),
                    permits: self.shared.permits.get().map(Arc::clone),
                    scopes: cluster.scopes(),
                };
                cluster.run(call.into_job(self.hold(state), guard), alive);
            }
            _ => call.command.fail(tidegate_lifecycle::operation::CallError::permanent(
                "this engine has no connection to the operation's cluster; start it with one",
            )),
        }
    }

    fn plan(&mut self, state: &State, command: OnItsWay) {
        let (Some(header), Some(request)) = (state.header(), self.request(state)) else { return };
        let planning = Planning {
            log: Arc::clone(&self.shared.log),
            log_failure: Arc::clone(&self.shared.log_failure),
            operation: self.id,
            request,
            targets: header.targets,
            handed_over: self.to_plan.take(),
            started_at: header.started_at,
            known: self.shared.extensions.names(),
        };
        self.call(state, Call { command, work: Work::Plan(Box::new(planning)) });
    }

    fn task(&mut self, state: &State, id: TaskId, attempt: u32, what: TaskCommand, command: OnItsWay) {
        let Some(operation) = state.operation() else { return };
        let Some((_, task)) = operation.task(id) else { return };
        let again = self.recovered || task.calls.is_some();
        let (Some(request), Some(bundle)) = (self.request(state), self.bundle(operation)) else { return };
        let work = TaskWork {
            operation: self.id,
            request,
            attempt,
            leftover: task.leftover.clone(),
            plan: Arc::clone(&operation.plan),
            task: id,
            bundle,
            again,
            clock: Arc::clone(&self.shared.clock),
            health: self.shared.health.now(),
        };
        match what {
            TaskCommand::RunHook { runner } => self.run_hook(state, runner, work, command),
            _ => self.call(state, Call { command, work: Work::Task(Box::new(work)) }),
        }
    }

    /// A runner works as long as it likes, so it takes no place among the calls to the cluster.
    fn run_hook(&mut self, state: &State, runner: String, work: TaskWork, command: OnItsWay) {
        let extensions = Arc::clone(&self.shared.extensions);
        let (operation, application) = (self.id, work.request.application.clone());
        let hold = self.hold(state);
        let (cancel, cancellation) = Cancellation::new();
        let (inbox, task, attempt) = (self.inbox.clone(), work.task, work.attempt);
        self.runs.insert((task, attempt), cancel);
        self.spawn(async move {
            if let Some(hold) = hold {
                // Without a claim nothing is begun; once it is lost, this operation is over.
                while hold.covered().await.is_err() {}
            }
            let end = match work.manifest().await {
                Err(error) => HookEnd::Failed(error.message),
                Ok(_) if cancellation.is_cancelled() => HookEnd::Failed("it was cancelled".to_owned()),
                Ok(manifest) => {
                    let run =
                        |reply| HookRun { operation, application, attempt, manifest, cancellation, reply };
                    extensions.run_hook(&runner, run).await
                }
            };
            inbox.note(Note::Ran(task, attempt));
            command.ran(end);
        });
    }

    /// Tells runners that nobody waits for their hooks any more.
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

    /// The look at its end tells an operation enough that is over soon. While nobody was at work on it, anything may have
    /// happened.
    fn await_namespaces(&mut self) {
        let inbox = self.inbox.clone();
        let wait = if self.recovered { Duration::ZERO } else { NAMESPACES_AFTER };
        let due = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            inbox.note(Note::NamespacesDue);
        });
        self.namespaces_due = Some(due.abort_handle());
    }

    fn watch_namespaces(&mut self, state: &State) {
        // Perhaps they are not to be watched any more.
        if self.namespaces_due.take().is_none() {
            return;
        }
        let Some(cluster) = self.cluster(state) else { return };
        for name in namespaces(state).iter() {
            cluster.tell(ClusterMessage::Watch(Subscription {
                operation: self.id,
                what: Watched::Namespace(name.clone()),
                gvk: effects::namespace_kind(),
                namespace: String::new(),
                name: name.clone(),
                judge: None,
                inbox: self.inbox.clone(),
            }));
        }
    }

    /// Work outside the cluster. Like a call to the cluster it ends with this actor, whatever it is waiting for.
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

    /// Leaves nothing behind: no watch, no timer.
    pub fn leave(&mut self, state: &State) {
        self.alarm = Alarm::default();
        for timer in [self.namespaces_due.take(), self.keeper.take()].iter().flatten() {
            timer.abort();
        }
        self.leave_gates(state);
        if state.is_finished() {
            self.cancel_runs(state);
        }
        if let Some(cluster) = self.cluster(state) {
            cluster.tell(ClusterMessage::Forget(self.id));
        }
    }

    fn cluster(&self, state: &State) -> Option<Arc<ClusterHandle>> {
        self.shared.clusters.get(&state.header()?.request.destination)
    }
}

impl Hands<SyncOperation> for SyncHands {
    type Note = Note;
    type Reply = Reply;
    type Summary = Summary;
    type Failure = ActorProcessingErr;

    fn summary(state: &State) -> Option<Summary> {
        summary(state)
    }

    fn note(&mut self, state: &State, note: Note) {
        match note {
            Note::NamespacesDue => self.watch_namespaces(state),
            Note::Unasked => self.resolve_places(state),
            Note::Unclaimed => self.keeper = None,
            Note::GivenBack => self.giving_back = GivingBack::Done,
            Note::Inventory(changes) => self.inventory.extend(changes),
            Note::Ran(task, attempt) => drop(self.runs.remove(&(task, attempt))),
            Note::Bundle(bundle) => self.bundle = Some(bundle),
            Note::Mask(mask) => self.mask = Some(mask),
            // The actor has ended with it.
            Note::NotWritten(_) => {}
        }
    }

    fn carry_out(&mut self, state: &State, command: Command, _: Timestamp) {
        let on_its_way = OnItsWay::new(command.clone(), self.inbox.clone());
        match command {
            Command::Plan => self.plan(state, on_its_way),
            Command::Task { task, attempt, what } => self.task(state, task, attempt, what, on_its_way),
            Command::LookAtNamespaces => {
                let work = Work::Namespaces(namespaces(state));
                self.call(state, Call { command: on_its_way, work });
            }
            Command::Claim | Command::Observe { .. } | Command::WatchNamespaces | Command::AskGate { .. } => {
            }
        }
    }

    fn begin(&mut self, state: &State, standing: &Command, _: Timestamp) {
        let id = match standing {
            Command::Observe { task } => task,
            Command::WatchNamespaces => return self.await_namespaces(),
            Command::AskGate { wave, gate } => return self.ask_gate(state, *wave, gate),
            _ => return self.keep_claim(state),
        };
        let Some(cluster) = self.cluster(state) else { return };
        let Some((task, _)) = state.operation().and_then(|operation| operation.task(*id)) else { return };
        cluster.tell(ClusterMessage::Watch(Subscription {
            operation: self.id,
            what: Watched::Task(*id),
            gvk: task.gvk.clone(),
            namespace: task.namespace.clone(),
            name: task.name.clone(),
            judge: task.health_judge.clone(),
            inbox: self.inbox.clone(),
        }));
    }

    /// A claim is held until the operation is over, and a keeper that may not call meanwhile is kept.
    fn end(&mut self, state: &State, standing: &Command) {
        let ended = match standing {
            Command::Observe { task } => vec![Watched::Task(*task)],
            Command::WatchNamespaces => {
                self.namespaces_due.take().iter().for_each(AbortHandle::abort);
                namespaces(state).iter().cloned().map(Watched::Namespace).collect()
            }
            Command::AskGate { gate, .. } => return self.unask_gate(gate),
            _ => return,
        };
        let Some(cluster) = self.cluster(state) else { return };
        for what in ended {
            cluster.tell(ClusterMessage::Unwatch(self.id, what));
        }
    }

    fn append(
        &mut self,
        state: &State,
        batch: BatchOf<SyncOperation>,
        _: Timestamp,
    ) -> Result<(), ActorProcessingErr> {
        let after = self.narrator.sequence();
        let events = batch.facts.iter().filter_map(|fact| self.narrator.tell(fact)).collect();
        self.told = Some(Told { operation: self.id, after, last: self.narrator.sequence(), events });
        let summary = summary(state).ok_or("an operation without a header cannot be written")?;
        let append = AppendOf {
            snapshot: batch.snapshot,
            blobs: batch.facts.iter().filter_map(blob).collect(),
            inventory: effects::update_inventory(state, &batch.facts, self.inventory.drain(..)),
            ..AppendOf::new(self.id, batch.first_sequence, batch.facts, summary.into())
        };
        self.append_places(state);
        let inbox = self.inbox.clone();
        let tell = Box::new(move |result| inbox.written(result));
        self.shared.log_actor.append(Box::new(|| append.encode()), tell);
        Ok(())
    }

    fn announce(&mut self, state: &State) {
        self.settle_places();
        self.cancel_runs(state);
        if let Some(told) = self.told.take() {
            self.shared.announcer.tell(told);
        }
    }

    fn set_alarm(&mut self, after: Option<Duration>) {
        self.alarm.set(after, &self.inbox);
    }

    fn reply(&mut self, reply: Reply, answer: Result<(), Rejection>) {
        let operation = self.id;
        let refused =
            |rejection: Rejection| EngineError::Refused { operation, reason: rejection.to_string() };
        match reply {
            Reply::Wish(reply) => drop(reply.send(answer.map_err(refused))),
            Reply::Sight(teller) => drop(teller.send(())),
        }
    }

    /// A waiting operation keeps in memory what its state needs, and no more. While it only waits for objects to become
    /// healthy, its manifests stay for a moment: reading them anew for each of many short waves would cost more than the
    /// waves.
    fn rest(&mut self, is_watching: bool) {
        self.request = None;
        self.mask.take_if(|mask| mask.bytes() > MASK_BYTES);
        if let Some(bundle) = self.bundle.take().filter(|_| is_watching) {
            self.lingering = Arc::downgrade(&bundle);
            self.spawn(async move {
                tokio::time::sleep(LINGER).await;
                drop(bundle);
            });
        }
    }

    fn is_cleared_up(&mut self, state: &State) -> bool {
        self.gave_back(state)
    }
}

/// The namespaces that the operation writes into.
fn namespaces(state: &State) -> Arc<[String]> {
    state.operation().map(|operation| Arc::clone(&operation.namespaces)).unwrap_or_default()
}

/// The blob a fact refers to.
fn blob(fact: &Fact) -> Option<Digest> {
    match fact {
        Fact::Accepted { targets, .. } => Some(*targets),
        Fact::Planned { bundle, .. } => Some(*bundle),
        _ => None,
    }
}
