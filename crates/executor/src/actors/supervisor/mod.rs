//! The supervisor: every actor of the engine is linked to it. It starts them, starts those again that fail, as often as
//! [`restarts`](crate::restarts) allows, and knows who waits. When it ends itself, all of them end with it.
//!
//! | what fails | what becomes of it | what becomes of what depends on it |
//! | --- | --- | --- |
//! | an operation | goes on from the log; in the end it is recorded as failed | – |
//! | the log's actor | started again; in the end the engine does nothing any more | operations whose facts were on their way go on from the log |
//! | a cluster's actor | started again | operations make their watches again; in the end they are recorded as failed |
//!
//! It never waits for the log: what it needs to know from there comes back as a message.

mod admission;
mod begin;
mod compact;
mod ends;
mod parts;
mod recover;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Input, OperationView};
use tidegate_model::{ClaimHolder, Destination, OperationId};
use tidegate_oplog::LogError;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::actors::operation::{Inspection, OperationActor, OperationArguments, OperationMessage, Start};
use crate::engine::EngineError;
use crate::restarts::Restarts;
use crate::shared::Shared;
use crate::summary::Summary;

use self::admission::Queue;
pub(crate) use self::begin::Submit;
pub(crate) use self::compact::Compaction;
use self::ends::Ends;
use self::recover::{Purpose, READS_AT_ONCE, Recovered, Resuming};

type Reply<T> = RpcReplyPort<Result<T, EngineError>>;

/// A message to the supervisor.
pub(crate) enum SupervisorMessage {
    /// Begin a new operation.
    Submit(Submit),
    /// The open operations, which some submits wait for.
    OpenRead(Result<Vec<Summary>, LogError>),
    /// Go on with an operation from the log.
    Resume { operation: OperationId, reply: Reply<()> },
    /// An operation was read from the log, or could not be.
    Read { operation: OperationId, purpose: Purpose, result: Result<Recovered, EngineError> },
    /// Tell when the operation is over.
    Wait { operation: OperationId, reply: Reply<OperationView> },
    /// A person's wish for an operation at work.
    Person { operation: OperationId, input: Input, reply: Reply<()> },
    /// How an operation at work stands.
    Inspect { operation: OperationId, reply: Reply<Inspection> },
    /// Operations may work on this cluster too.
    AddCluster { destination: Destination, cluster: Arc<dyn Cluster>, reply: Reply<()> },
    /// Objects are judged by other rules from now on.
    JudgeBy { rules: HealthRules, reply: Reply<()> },
    /// Which operations are at work.
    AtWork { reply: Reply<BTreeSet<OperationId>> },
    /// An open operation is to end for another one.
    Supersede { open: OperationId, by: ClaimHolder },
    /// The open operation of an application cannot go on.
    Stuck { application: String, open: OperationId },
    /// An application has no open operation, and others may wait for that.
    BeginNext { application: String },
    /// An operation is over.
    Finished { operation: OperationId, end: Box<Inspection> },
    /// Start an actor that operations depend on.
    Start(Linked),
    /// The log does not take facts any more.
    LogFailed { reason: String },
    /// Stop everything, resumable.
    Shutdown { reply: Reply<()> },
}

pub(crate) struct Supervisor;

/// Who an actor works for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Linked {
    Operation(OperationId),
    Log,
    Cluster(Destination),
}

impl fmt::Display for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(operation) => write!(f, "the actor of operation {operation}"),
            Self::Log => f.write_str("the engine's log actor"),
            Self::Cluster(destination) => write!(f, "the engine's watches of the {destination}"),
        }
    }
}

pub(crate) struct SupervisorState {
    shared: Arc<Shared>,
    running: HashMap<OperationId, Child>,
    /// Who the actors at work are.
    linked: HashMap<ActorId, Linked>,
    /// How the actors that operations depend on have failed.
    restarts: BTreeMap<Linked, Restarts>,
    /// Held while the log is written to.
    writing: Arc<Semaphore>,
    /// What is done beside the supervisor; it ends with it.
    tasks: JoinSet<()>,
    /// The open operation of each application, as the log has it; read when it is needed first.
    open: Option<HashMap<String, OperationId>>,
    /// Submits that wait for it.
    submits: Vec<Submit>,
    /// Operations that wait until another one of their application is over.
    queues: HashMap<String, Queue>,
    /// Operations that are being read to be resumed.
    resuming: HashMap<OperationId, Resuming>,
    ends: Ends,
    /// A place for each operation that may be read at once.
    reads: Arc<Semaphore>,
    stopping: bool,
    /// Told when everything has stopped.
    stopped: Vec<Reply<()>>,
}

struct Child {
    actor: ActorRef<OperationMessage>,
    application: String,
    /// Not known of one that has lost its beginning.
    destination: Option<Destination>,
    restarts: Restarts,
    /// Its actor has failed, and the next one has not begun.
    is_down: bool,
    waiting: Vec<Reply<OperationView>>,
}

/// What is known of an operation besides its log.
pub(crate) struct About {
    application: String,
    destination: Option<Destination>,
    restarts: Restarts,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMessage>,
        shared: Arc<Shared>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let clusters = shared.clusters.all();
        let mut state = SupervisorState {
            shared,
            running: HashMap::new(),
            linked: HashMap::new(),
            restarts: BTreeMap::new(),
            writing: Arc::new(Semaphore::new(1)),
            tasks: JoinSet::new(),
            open: None,
            submits: Vec::new(),
            queues: HashMap::new(),
            resuming: HashMap::new(),
            ends: Ends::default(),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            stopping: false,
            stopped: Vec::new(),
        };
        state.start_log(&myself).await?;
        for (destination, _) in &clusters {
            state.start_cluster(&myself, destination).await?;
        }
        state.compact_regularly();
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let Some(message) = state.defer(message) else { return Ok(()) };
        match message {
            SupervisorMessage::Submit(submit) => state.submit(&myself, submit).await,
            SupervisorMessage::OpenRead(open) => state.open_read(&myself, open).await,
            SupervisorMessage::Resume { operation, reply } => state.resume(&myself, operation, reply, false),
            SupervisorMessage::Read { operation, purpose, result } => {
                state.read_done(&myself, operation, purpose, result).await;
            }
            SupervisorMessage::Wait { operation, reply } => state.wait(operation, reply),
            SupervisorMessage::Person { operation, input, reply } => match state.actor(operation) {
                Ok(actor) => send(operation, actor, reply, |reply| OperationMessage::Person { input, reply }),
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::Inspect { operation, reply } => match state.actor(operation) {
                Ok(actor) => send(operation, actor, reply, |reply| OperationMessage::Inspect { reply }),
                Err(error) => drop(reply.send(state.end(operation, error))),
            },
            SupervisorMessage::AddCluster { destination, cluster, reply } => {
                drop(reply.send(state.add_cluster(&myself, destination, cluster).await));
            }
            SupervisorMessage::JudgeBy { rules, reply } => drop(reply.send(state.judge_by(rules))),
            SupervisorMessage::AtWork { reply } => {
                drop(reply.send(state.check_log().map(|()| state.running.keys().copied().collect())));
            }
            SupervisorMessage::Supersede { open, by } => state.supersede(open, by),
            SupervisorMessage::Stuck { application, open } => state.stuck(&application, open),
            SupervisorMessage::BeginNext { application } => state.begin_next(&myself, &application),
            SupervisorMessage::Finished { operation, end } => state.finished(&myself, operation, *end),
            SupervisorMessage::Start(part) => state.start(&myself, part).await,
            SupervisorMessage::LogFailed { reason } => state.log_failed(&reason),
            SupervisorMessage::Shutdown { reply } => state.shutdown(reply),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<SupervisorMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        for reply in state.running.drain().flat_map(|(_, child)| child.waiting) {
            let _ = reply.send(Err(EngineError::ShuttingDown));
        }
        state.clear_queues(|| EngineError::ShuttingDown);
        let submits = state.submits.drain(..).map(|submit| submit.reply);
        for reply in submits.chain(state.resuming.drain().map(|(_, resuming)| resuming.reply)) {
            let _ = reply.send(Err(EngineError::ShuttingDown));
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        while state.tasks.try_join_next().is_some() {}
        let (cell, error, ended) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error, false),
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                (cell, reason.unwrap_or_else(|| "it was stopped".to_owned()).into(), true)
            }
            _ => return Ok(()),
        };
        match state.linked.remove(&cell.get_id()) {
            Some(Linked::Operation(operation)) if ended => state.ended(operation),
            Some(Linked::Operation(operation)) => state.failed(&myself, operation, error.as_ref()),
            Some(part) => state.part_failed(&myself, part, &error.to_string()),
            None => {}
        }
        Ok(())
    }
}

/// Passes a question on to an operation. One that has just failed cannot answer; it is being started again.
fn send<T: Send + 'static>(
    operation: OperationId,
    actor: &ActorRef<OperationMessage>,
    reply: Reply<T>,
    message: impl FnOnce(Reply<T>) -> OperationMessage,
) {
    let (send, receive) = oneshot::channel();
    let sent = actor.send_message(message(send.into()));
    tokio::spawn(async move {
        let answer = match sent {
            Ok(()) => receive.await.unwrap_or(Err(EngineError::Restarted { operation })),
            Err(_) => Err(EngineError::Restarted { operation }),
        };
        let _ = reply.send(answer);
    });
}

impl SupervisorState {
    fn actor(&self, operation: OperationId) -> Result<&ActorRef<OperationMessage>, EngineError> {
        self.check_log()?;
        self.running.get(&operation).map(|child| &child.actor).ok_or(EngineError::NotRunning { operation })
    }

    fn check_log(&self) -> Result<(), EngineError> {
        match self.shared.log_failure.get() {
            Some(reason) => Err(EngineError::LogFailed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Whether operations may begin.
    fn check_open(&self) -> Result<(), EngineError> {
        self.check_log()?;
        if self.stopping { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }

    async fn spawn(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        about: About,
        start: Start,
    ) -> Result<(), EngineError> {
        let arguments = OperationArguments {
            shared: Arc::clone(&self.shared),
            supervisor: myself.clone(),
            operation,
            start,
        };
        let (actor, _) = OperationActor::spawn_linked(None, OperationActor, arguments, myself.get_cell())
            .await
            .map_err(|error| EngineError::Start { operation, reason: error.to_string() })?;
        self.linked.insert(actor.get_id(), Linked::Operation(operation));
        let waiting = self.running.remove(&operation).map(|child| child.waiting).unwrap_or_default();
        let About { application, destination, restarts } = about;
        let child = Child { actor, application, destination, restarts, is_down: false, waiting };
        self.running.insert(operation, child);
        Ok(())
    }

    fn wait(&mut self, operation: OperationId, reply: Reply<OperationView>) {
        match (self.check_log(), self.running.get_mut(&operation)) {
            (Err(error), _) => drop(reply.send(Err(error))),
            (Ok(()), Some(child)) => child.waiting.push(reply),
            (Ok(()), None) => {
                let end = self.end(operation, EngineError::NotRunning { operation });
                drop(reply.send(end.map(|end| end.view)));
            }
        }
    }

    /// How an operation that is not at work has ended; another error than [`EngineError::NotRunning`] stays.
    fn end(&self, operation: OperationId, error: EngineError) -> Result<Inspection, EngineError> {
        match error {
            EngineError::NotRunning { .. } => self.ends.of(operation, self.shared.clock.now()).ok_or(error),
            error => Err(error),
        }
    }

    fn finished(&mut self, myself: &ActorRef<SupervisorMessage>, operation: OperationId, end: Inspection) {
        if let Some(child) = self.running.remove(&operation) {
            self.linked.remove(&child.actor.get_id());
            child.actor.stop(None);
            if let Some(open) = &mut self.open {
                open.remove(&child.application);
            }
            for reply in child.waiting {
                let _ = reply.send(Ok(end.view.clone()));
            }
            self.ends.keep(operation, end);
            self.begin_next(myself, &child.application);
        }
        self.stopped_if_empty();
    }

    /// An actor ended without a word: it was asked to.
    fn ended(&mut self, operation: OperationId) {
        self.leave(operation, || EngineError::ShuttingDown);
    }

    /// An operation is not at work any more, and not over.
    fn leave(&mut self, operation: OperationId, error: impl Fn() -> EngineError) {
        if let Some(child) = self.running.remove(&operation) {
            for reply in child.waiting {
                let _ = reply.send(Err(error()));
            }
            self.stuck(&child.application, operation);
        }
        self.stopped_if_empty();
    }

    fn fail_all(&mut self, reason: &str) {
        tracing::error!(reason, "the operation log failed; nothing more is done until it is opened again");
        // Calls that wait for their turn must not reach the clusters any more: what comes of them cannot be recorded.
        self.linked.clear();
        self.clear_queues(|| EngineError::LogFailed { reason: reason.to_owned() });
        self.shared.log_actor.set_actor(None);
        self.shared.clusters.all().iter().for_each(|(_, cluster)| cluster.stop());
        for (_, child) in self.running.drain() {
            child.actor.stop(None);
            for reply in child.waiting {
                let _ = reply.send(Err(EngineError::LogFailed { reason: reason.to_owned() }));
            }
        }
        self.stopped_if_empty();
    }

    fn shutdown(&mut self, reply: Reply<()>) {
        self.stopping = true;
        self.clear_queues(|| EngineError::ShuttingDown);
        // The log has what those need whose actor has failed.
        let down: Vec<_> =
            self.running.iter().filter(|(_, child)| child.is_down).map(|(id, _)| *id).collect();
        down.into_iter().for_each(|operation| self.leave(operation, || EngineError::ShuttingDown));
        for child in self.running.values() {
            let _ = child.actor.send_message(OperationMessage::Shutdown);
        }
        self.stopped.push(reply);
        self.stopped_if_empty();
    }

    /// What still stops cannot be recorded.
    fn give_up_waiting(&mut self) {
        self.stopped.drain(..).for_each(|reply| drop(reply.send(Ok(()))));
    }

    fn stopped_if_empty(&mut self) {
        if self.running.is_empty() && self.resuming.is_empty() {
            self.give_up_waiting();
        }
    }
}
