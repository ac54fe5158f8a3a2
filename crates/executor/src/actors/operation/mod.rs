//! The operation actor: the shell of one operation's state machine.
//!
//! Message → input → driver → batch to the log actor → commands. Nothing that matters lives only here: the actor may
//! end at any instant, and another one goes on from the log.

mod claim;
mod dispatch;
mod jobs;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tidegate_cluster::Strain;
use tidegate_lifecycle::Driver;
use tidegate_lifecycle::operation::{
    Explanation, Fact, Input, OperationView, State, TRYING_AGAIN, explain, view,
};
use tidegate_model::{Destination, Digest, OperationId, SyncRequest, TaskId, Timestamp};
use tidegate_oplog::{Append, InventoryChange, Summary};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::actors::log::LogMessage;
use crate::actors::supervisor::SupervisorMessage;
use crate::claims::Hold;
use crate::effects::{self, Mask};
use crate::engine::EngineError;
use crate::events::{announce, trace};
use crate::extend::Event;
use crate::inbox::{AppendFailure, Arrival, Errand, Inbox};
use crate::shared::Shared;

use self::claim::GivingBack;
pub(crate) use self::jobs::{Bundle, HandedOver, keep};

/// With so many commands on their way, answers come in crowds: others may run first, so that one look at a wave serves
/// many answers.
const CROWD: usize = 64;
/// With so many, a look is long enough to wait for a crowd: a wide wave stays linear however slowly answers come.
const MULTITUDE: usize = 512;
/// How long a crowd may gather.
const GATHER: Duration = Duration::from_millis(1);

const NO_LOG: &str = "the log actor is not running";

/// A message to an operation actor.
pub(crate) enum OperationMessage {
    /// Something is in the inbox.
    Arrived,
    /// A person's wish; answered when it is durable.
    Person { input: Input, reply: Reply },
    /// How does it stand?
    Inspect { reply: RpcReplyPort<Result<Inspection, EngineError>> },
    /// Stop as soon as what is on its way has been recorded.
    Shutdown,
}

type Reply = RpcReplyPort<Result<(), EngineError>>;

/// How an operation stands.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// As users see it.
    pub view: OperationView,
    /// Why it is there.
    pub explanation: Explanation,
}

/// How an operation begins.
pub(crate) enum Start {
    /// From nothing.
    New { request: Box<SyncRequest>, targets: Digest, handed_over: Option<HandedOver> },
    /// As the log left it; with a reason to end it at once.
    Recovered { driver: Box<Driver>, give_up: Option<String> },
}

/// What an operation actor needs.
pub(crate) struct OperationArguments {
    pub shared: Arc<Shared>,
    pub supervisor: ActorRef<SupervisorMessage>,
    pub operation: OperationId,
    pub start: Start,
}

pub(crate) struct OperationActor;

pub(crate) struct OperationState {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMessage>,
    id: OperationId,
    driver: Driver,
    inbox: Inbox,
    /// Commands on their way, one per subject.
    on_the_way: BTreeSet<Errand>,
    /// Objects being watched.
    watched: BTreeSet<TaskId>,
    /// The timer that is set.
    alarm: Option<(Timestamp, AbortHandle)>,
    /// The time the timer rang for last.
    rang: Option<Timestamp>,
    /// Dropped with this actor; calls that see it gone are given up, for the next actor makes them again.
    alive: watch::Sender<()>,
    /// Tasks whose command may have been carried out by an earlier actor.
    recovered: bool,
    /// Manifests that were submitted and not planned yet.
    to_plan: Option<HandedOver>,
    request: Option<Arc<SyncRequest>>,
    bundle: Option<Arc<Bundle>>,
    /// The same, while the operation waits.
    lingering: Weak<Bundle>,
    /// The values of its Secrets; read when words come that may hold them.
    mask: Option<Arc<Mask>>,
    /// What its claim covers.
    hold: Arc<Hold>,
    /// Whoever keeps its claim.
    keeper: Option<AbortHandle>,
    /// How far its claim was given back.
    giving_back: GivingBack,
    /// What the next batch changes in the inventory.
    inventory: Vec<InventoryChange>,
    /// Announced when the batch on its way is durable.
    announcements: Vec<Event>,
    /// Answered when the next batch, or the one on its way, is durable.
    replies: Replies,
    writing: bool,
    stopping: bool,
    finished: bool,
    /// The summary in the log is the one of our facts.
    restated: bool,
}

#[derive(Default)]
struct Replies {
    next: Vec<Reply>,
    on_the_way: Vec<Reply>,
}

impl Actor for OperationActor {
    type Msg = OperationMessage;
    type State = OperationState;
    type Arguments = OperationArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<OperationMessage>,
        arguments: OperationArguments,
    ) -> Result<OperationState, ActorProcessingErr> {
        let OperationArguments { shared, supervisor, operation: id, start } = arguments;
        let inbox = Inbox::new({
            let myself = myself.clone();
            move || drop(myself.send_message(OperationMessage::Arrived))
        });
        let mut to_plan = None;
        let (driver, first, recovered) = match start {
            Start::New { request, targets, handed_over } => {
                to_plan = handed_over;
                (Driver::default(), Input::Request { operation: id, request, targets }, false)
            }
            Start::Recovered { driver, give_up } => {
                (*driver, give_up.map_or(Input::Tick, |reason| Input::Abort { reason }), true)
            }
        };
        inbox.push(Arrival::Input { input: first, answers: None });
        let hold = Hold::new();
        Ok(OperationState {
            shared,
            supervisor,
            id,
            driver,
            inbox,
            on_the_way: BTreeSet::new(),
            watched: BTreeSet::new(),
            alarm: None,
            rang: None,
            alive: watch::Sender::new(()),
            recovered,
            to_plan,
            request: None,
            bundle: None,
            lingering: Weak::new(),
            mask: None,
            hold,
            keeper: None,
            giving_back: GivingBack::default(),
            inventory: Vec::new(),
            announcements: Vec::new(),
            replies: Replies::default(),
            writing: false,
            stopping: false,
            finished: false,
            restated: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<OperationMessage>,
        message: OperationMessage,
        state: &mut OperationState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OperationMessage::Arrived => {
                match state.on_the_way.len() {
                    MULTITUDE.. => tokio::time::sleep(GATHER).await,
                    CROWD.. => tokio::task::yield_now().await,
                    _ => {}
                }
                state.take_arrivals().await?;
            }
            OperationMessage::Person { input, reply } => state.person(&input, reply),
            OperationMessage::Inspect { reply } => {
                let _ = reply.send(state.inspect());
                return Ok(());
            }
            OperationMessage::Shutdown => state.stopping = true,
        }
        state.go_on(&myself)
    }

    async fn post_stop(
        &self,
        _: ActorRef<OperationMessage>,
        state: &mut OperationState,
    ) -> Result<(), ActorProcessingErr> {
        state.leave();
        Ok(())
    }
}

impl OperationState {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    async fn take_arrivals(&mut self) -> Result<(), ActorProcessingErr> {
        for arrival in self.inbox.take() {
            match arrival {
                Arrival::Input { mut input, answers } => {
                    self.mask(&mut input).await;
                    if let Some(errand) = answers {
                        self.on_the_way.remove(&errand);
                    }
                    let now = self.now();
                    self.driver.offer(&input, now)?;
                }
                Arrival::Claim { mut input, is_last } => {
                    self.mask(&mut input).await;
                    if is_last {
                        self.keeper = None;
                    }
                    let now = self.now();
                    self.driver.offer(&input, now)?;
                }
                Arrival::GivenBack => self.giving_back = GivingBack::Done,
                Arrival::Inventory(changes) => self.inventory.extend(changes),
                Arrival::Bundle(bundle) => self.bundle = Some(bundle),
                Arrival::Mask(mask) => self.mask = Some(mask),
                Arrival::Persisted(Ok(())) => self.persisted(),
                Arrival::Alarm => {
                    self.rang = self.alarm.take().map(|(at, _)| at);
                    let now = self.now();
                    self.driver.offer(&Input::Tick, now)?;
                }
                Arrival::Persisted(Err(AppendFailure { is_final, reason })) => {
                    if is_final {
                        let reason = reason.clone();
                        let _ = self.supervisor.send_message(SupervisorMessage::LogFailed { reason });
                    }
                    return Err(reason.into());
                }
            }
        }
        Ok(())
    }

    /// Takes the values of the operation's Secrets out of words from elsewhere, before anything is made of them.
    async fn mask(&mut self, input: &mut Input) {
        let mut speaks = false;
        input.each_text(&mut |text| speaks |= !text.is_empty());
        if !speaks {
            return;
        }
        if self.mask.is_none()
            && let Some(targets) = self.driver.state().header().map(|header| header.targets)
        {
            self.mask = jobs::mask(&self.shared.log, targets).await;
        }
        if let Some(mask) = &self.mask {
            input.each_text(&mut |text| mask.hide(text));
        }
    }

    fn persisted(&mut self) {
        self.driver.persisted();
        self.writing = false;
        for event in self.announcements.drain(..) {
            trace(&event);
            self.shared.extensions.notify(&event);
            // Nobody listening is fine.
            let _ = self.shared.events.send(event);
        }
        for reply in self.replies.on_the_way.drain(..) {
            let _ = reply.send(Ok(()));
        }
    }

    fn person(&mut self, input: &Input, reply: Reply) {
        let now = self.now();
        match self.driver.offer(input, now) {
            Ok(()) => self.replies.next.push(reply),
            Err(error) => {
                let reason = error.to_string();
                let _ = reply.send(Err(EngineError::Refused { operation: self.id, reason }));
            }
        }
    }

    fn inspect(&self) -> Result<Inspection, EngineError> {
        let (state, now) = (self.driver.state(), self.now());
        let mut explanation = explain(state, now);
        let strain = self.strain().filter(|strain| {
            // That it is silent is known once a call was given up; what it asks for is news of this moment.
            matches!(strain, Strain::AsksToWait { .. }) || explanation.trouble.is_none()
        });
        if let Some(strain) = strain.filter(|_| !state.is_finished()) {
            explanation.trouble = Some(format!("{}{TRYING_AGAIN}", strain.words(now)));
        }
        let view = view(state).ok_or(EngineError::Unknown { operation: self.id })?;
        Ok(Inspection { view, explanation })
    }

    /// What keeps the calls to the operation's cluster waiting now.
    fn strain(&self) -> Option<Strain> {
        let destination = &self.driver.state().header()?.request.destination;
        self.shared.connections.get(destination)?.strain()
    }

    /// Takes the arrows that follow, writes what must be written, carries out what is owed, or ends.
    fn go_on(&mut self, myself: &ActorRef<OperationMessage>) -> Result<(), ActorProcessingErr> {
        let now = self.now();
        self.driver.advance(now)?;
        let over = self.driver.state().is_finished();
        let wants_flush =
            over || !self.replies.next.is_empty() || (self.stopping && self.on_the_way.is_empty());
        self.write(now, wants_flush)?;
        if self.writing {
            self.dispatch(now);
            return Ok(());
        }
        if over {
            if self.gave_back() {
                self.finish();
            }
        } else if self.stopping && self.on_the_way.is_empty() {
            myself.stop(None);
        } else {
            self.dispatch(now);
        }
        Ok(())
    }

    fn write(&mut self, now: Timestamp, flush: bool) -> Result<(), ActorProcessingErr> {
        let Some(batch) = self.driver.take_batch(now, flush) else {
            if self.recovered && !self.restated && self.driver.state().is_finished() {
                return self.restate();
            }
            if !self.writing {
                // Nothing to write: what was asked changed nothing.
                self.replies.next.drain(..).for_each(|reply| drop(reply.send(Ok(()))));
            }
            return Ok(());
        };
        let state = self.driver.state();
        self.announcements = batch.facts.iter().filter_map(|fact| announce(state, fact, now)).collect();
        self.replies.on_the_way.append(&mut self.replies.next);
        let inventory = effects::update_inventory(state, &batch.facts, self.inventory.drain(..));
        let append = Append {
            operation: self.id,
            first_sequence: batch.first_sequence,
            blobs: batch.facts.iter().filter_map(blob).collect(),
            facts: batch.facts,
            snapshot: batch.snapshot,
            summary: summary(state).ok_or("an operation without a header cannot be written")?,
            inventory,
        };
        self.restated = true;
        self.send(append)
    }

    /// An operation that is over by its facts, though the log took it for open: a repair after damage forgets how
    /// operations stood. Its summary is written again, or its application would stay locked.
    fn restate(&mut self) -> Result<(), ActorProcessingErr> {
        self.restated = true;
        let append = Append {
            operation: self.id,
            first_sequence: self.driver.sequence().saturating_add(1),
            facts: Vec::new(),
            snapshot: None,
            summary: summary(self.driver.state()).ok_or("an operation without a header cannot be written")?,
            blobs: Vec::new(),
            inventory: None,
        };
        self.send(append)
    }

    fn send(&mut self, append: Append<Fact, State>) -> Result<(), ActorProcessingErr> {
        self.writing = true;
        let message = LogMessage::Append(Box::new(append), self.inbox.clone());
        self.shared.log_actor.send_message(message).map_err(|_| NO_LOG)?;
        Ok(())
    }

    /// Says once that it is over. The supervisor then stops the actor: were it to stop by itself, that news would
    /// overtake this message.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if let Ok(end) = self.inspect() {
            let message = SupervisorMessage::Finished { operation: self.id, end: Box::new(end) };
            let _ = self.supervisor.send_message(message);
        }
    }

    /// Leaves nothing behind: no watch, no timer.
    fn leave(&mut self) {
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
        if let Some(cluster) = self.cluster() {
            let _ = cluster.send_message(crate::actors::cluster::ClusterMessage::Forget(self.id));
        }
    }

    fn cluster(&self) -> Option<&ActorRef<crate::actors::cluster::ClusterMessage>> {
        let destination: &Destination = &self.driver.state().header()?.request.destination;
        self.shared.clusters.get(destination)
    }
}

impl Drop for OperationState {
    fn drop(&mut self) {
        // After a panic nobody calls `post_stop`.
        self.leave();
    }
}

/// The blob a fact refers to.
fn blob(fact: &Fact) -> Option<Digest> {
    match fact {
        Fact::Accepted { targets, .. } => Some(*targets),
        Fact::Planned { bundle, .. } => Some(*bundle),
        _ => None,
    }
}

/// The line the log keeps about an operation.
pub(crate) fn summary(state: &State) -> Option<Summary> {
    let header = state.header()?;
    let operation = state.operation();
    let outcome = operation.and_then(|operation| operation.outcome.as_ref());
    let waves = operation.map_or((0, 0), |operation| {
        // SyncFail waves count only when they run, as in `explain`.
        let counted = operation.plan.waves.iter().zip(&operation.waves).filter(|(wave, times)| {
            wave.phase != tidegate_model::Phase::SyncFail || times.opened_at.is_some()
        });
        let (passed, all) = counted.fold((0_u32, 0_u32), |(passed, all), (_, times)| {
            (passed.saturating_add(u32::from(times.passed_at.is_some())), all.saturating_add(1))
        });
        (passed, all)
    });
    let phase = match (outcome, operation.and_then(|operation| operation.termination.as_ref())) {
        (Some(outcome), _) => outcome.phase,
        (None, Some(_)) => tidegate_model::OperationPhase::Terminating,
        (None, None) => tidegate_model::OperationPhase::Running,
    };
    Some(Summary {
        operation: header.operation,
        application: header.request.application.clone(),
        destination: header.request.destination.to_string(),
        phase,
        paused: header.paused.is_some(),
        message: state.message(),
        started_at: header.started_at,
        finished_at: outcome.map(|outcome| outcome.at),
        waves,
    })
}
