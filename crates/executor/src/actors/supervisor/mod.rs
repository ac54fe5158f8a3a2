//! The supervisor: starts one actor per operation, starts it again from the log when it fails, and knows who waits.
//!
//! It never waits for the log: what it needs to know from there comes back as a message.

mod begin;
mod ends;
mod recover;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tidegate_lifecycle::operation::{Input, OperationView};
use tidegate_model::OperationId;
use tidegate_oplog::LogError;
use tokio::sync::{Semaphore, oneshot};

use crate::actors::operation::{Inspection, OperationActor, OperationArguments, OperationMessage, Start};
use crate::engine::EngineError;
use crate::shared::Shared;
use crate::summary::Summary;

pub(crate) use self::begin::Submit;
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
    /// Which operations are at work.
    AtWork { reply: Reply<BTreeSet<OperationId>> },
    /// An operation is over.
    Finished { operation: OperationId, end: Box<Inspection> },
    /// The log does not take facts any more.
    LogFailed { reason: String },
    /// Stop everything, resumable.
    Shutdown { reply: Reply<()> },
}

pub(crate) struct Supervisor;

pub(crate) struct SupervisorState {
    shared: Arc<Shared>,
    running: HashMap<OperationId, Child>,
    by_actor: HashMap<ActorId, OperationId>,
    /// The open operation of each application, as the log has it; read when it is needed first.
    open: Option<HashMap<String, OperationId>>,
    /// Submits that wait for it.
    submits: Vec<Submit>,
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
    restarts: u32,
    waiting: Vec<Reply<OperationView>>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMessage>,
        shared: Arc<Shared>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        Ok(SupervisorState {
            shared,
            running: HashMap::new(),
            by_actor: HashMap::new(),
            open: None,
            submits: Vec::new(),
            resuming: HashMap::new(),
            ends: Ends::default(),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
            stopping: false,
            stopped: Vec::new(),
        })
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
            SupervisorMessage::Resume { operation, reply } => state.resume(&myself, operation, reply),
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
            SupervisorMessage::AtWork { reply } => {
                drop(reply.send(state.check_log().map(|()| state.running.keys().copied().collect())));
            }
            SupervisorMessage::Finished { operation, end } => state.finished(operation, *end),
            SupervisorMessage::LogFailed { reason } => state.fail_all(&reason),
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
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                state.failed(&myself, &cell, &error.to_string());
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => state.ended(&cell),
            _ => {}
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
        application: String,
        start: Start,
        restarts: u32,
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
        self.by_actor.insert(actor.get_id(), operation);
        let waiting = self.running.remove(&operation).map(|child| child.waiting).unwrap_or_default();
        self.running.insert(operation, Child { actor, application, restarts, waiting });
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

    fn finished(&mut self, operation: OperationId, end: Inspection) {
        if let Some(child) = self.running.remove(&operation) {
            self.by_actor.remove(&child.actor.get_id());
            child.actor.stop(None);
            if let Some(open) = &mut self.open {
                open.remove(&child.application);
            }
            for reply in child.waiting {
                let _ = reply.send(Ok(end.view.clone()));
            }
            self.ends.keep(operation, end);
        }
        self.stopped_if_empty();
    }

    /// An actor ended without a word: it was asked to.
    fn ended(&mut self, cell: &ActorCell) {
        if let Some(operation) = self.by_actor.remove(&cell.get_id())
            && let Some(child) = self.running.remove(&operation)
        {
            for reply in child.waiting {
                let _ = reply.send(Err(EngineError::ShuttingDown));
            }
        }
        self.stopped_if_empty();
    }

    /// An operation is not at work any more, and not over.
    fn leave(&mut self, operation: OperationId, error: impl Fn() -> EngineError) {
        for reply in self.running.remove(&operation).into_iter().flat_map(|child| child.waiting) {
            let _ = reply.send(Err(error()));
        }
        self.stopped_if_empty();
    }

    fn fail_all(&mut self, reason: &str) {
        tracing::error!(reason, "the operation log failed; nothing more is done until it is opened again");
        // Calls that wait for their turn must not reach the clusters any more: what comes of them cannot be recorded.
        for cluster in self.shared.clusters.values() {
            cluster.stop(None);
        }
        self.by_actor.clear();
        for (_, child) in self.running.drain() {
            child.actor.stop(None);
            for reply in child.waiting {
                let _ = reply.send(Err(EngineError::LogFailed { reason: reason.to_owned() }));
            }
        }
        self.stopped_if_empty();
    }

    fn shutdown(&mut self, reply: Reply<()>) {
        for child in self.running.values() {
            let _ = child.actor.send_message(OperationMessage::Shutdown);
        }
        self.stopping = true;
        self.stopped.push(reply);
        self.stopped_if_empty();
    }

    fn stopped_if_empty(&mut self) {
        if self.running.is_empty() && self.resuming.is_empty() {
            self.stopped.drain(..).for_each(|reply| drop(reply.send(Ok(()))));
        }
    }
}
