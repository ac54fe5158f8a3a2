//! The supervisor: starts one actor per operation, starts it again from the log when it fails, and knows who waits.

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tidegate_lifecycle::operation::{Input, OperationView};
use tidegate_model::{Digest, OperationId, SyncRequest};
use tokio::sync::oneshot;

use crate::actors::operation::{Inspection, OperationActor, OperationArguments, OperationMessage, Start};
use crate::engine::EngineError;
use crate::shared::{Shared, blocking};

/// How often the actor of one operation may fail before the operation itself ends in Error.
pub(crate) const RESTARTS_MAX: u32 = 3;

type Reply<T> = RpcReplyPort<Result<T, EngineError>>;

/// A message to the supervisor.
pub(crate) enum SupervisorMessage {
    /// Begin a new operation.
    Submit { operation: OperationId, request: Box<SyncRequest>, targets: Digest, reply: Reply<()> },
    /// Go on with an operation from the log.
    Resume { operation: OperationId, reply: Reply<()> },
    /// Tell when the operation is over.
    Wait { operation: OperationId, reply: Reply<OperationView> },
    /// A person's wish for an operation at work.
    Person { operation: OperationId, input: Input, reply: Reply<()> },
    /// How an operation at work stands.
    Inspect { operation: OperationId, reply: Reply<Inspection> },
    /// An operation is over.
    Finished { operation: OperationId, view: Box<OperationView> },
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
        match message {
            SupervisorMessage::Submit { operation, request, targets, reply } => {
                let application = request.application.clone();
                let start = Start::New { request, targets };
                let _ = reply.send(state.submit(&myself, operation, application, start).await);
            }
            SupervisorMessage::Resume { operation, reply } => {
                let _ = reply.send(state.resume(&myself, operation).await);
            }
            SupervisorMessage::Wait { operation, reply } => state.wait(operation, reply),
            SupervisorMessage::Person { operation, input, reply } => match state.actor(operation) {
                Ok(actor) => send(operation, actor, reply, |reply| OperationMessage::Person { input, reply }),
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::Inspect { operation, reply } => match state.actor(operation) {
                Ok(actor) => send(operation, actor, reply, |reply| OperationMessage::Inspect { reply }),
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::Finished { operation, view } => state.finished(operation, &view),
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
                state.failed(&myself, &cell, &error.to_string()).await
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

    async fn submit(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        application: String,
        start: Start,
    ) -> Result<(), EngineError> {
        self.check_open()?;
        if let Some(open) = self.open_operation(&application).await? {
            return Err(EngineError::Busy { application, open });
        }
        self.spawn(myself, operation, application.clone(), start, 0).await?;
        if let Some(open) = &mut self.open {
            open.insert(application, operation);
        }
        Ok(())
    }

    /// Reading all summaries for each submit would cost too much beside thousands of operations. This engine is the
    /// only one to begin operations in its log, but others may record that one is over.
    async fn open_operation(&mut self, application: &str) -> Result<Option<OperationId>, EngineError> {
        if let Some(known) = &self.open {
            match known.get(application) {
                None => return Ok(None),
                Some(operation) if self.running.contains_key(operation) => return Ok(Some(*operation)),
                Some(_) => {}
            }
        }
        let summaries = blocking(&self.shared.log, |log| log.summaries()).await?;
        let open = summaries.into_iter().filter(|summary| summary.finished_at.is_none());
        let mut known: HashMap<_, _> = open.map(|summary| (summary.application, summary.operation)).collect();
        // One that has just begun may not be in the log yet.
        known.extend(self.running.iter().map(|(id, child)| (child.application.clone(), *id)));
        let found = known.get(application).copied();
        self.open = Some(known);
        Ok(found)
    }

    async fn resume(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
    ) -> Result<(), EngineError> {
        self.check_open()?;
        if self.running.contains_key(&operation) {
            return Ok(());
        }
        let summaries = blocking(&self.shared.log, |log| log.summaries()).await?;
        let summary = summaries.into_iter().find(|summary| summary.operation == operation);
        let Some(summary) = summary else { return Err(EngineError::Unknown { operation }) };
        if summary.finished_at.is_some() {
            return Err(EngineError::AlreadyFinished { operation, message: summary.message });
        }
        self.spawn(myself, operation, summary.application, Start::Recover { give_up: None, settle: false }, 0)
            .await
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
            (Ok(()), None) => drop(reply.send(Err(EngineError::NotRunning { operation }))),
        }
    }

    fn finished(&mut self, operation: OperationId, view: &OperationView) {
        if let Some(child) = self.running.remove(&operation) {
            self.by_actor.remove(&child.actor.get_id());
            child.actor.stop(None);
            if let Some(open) = &mut self.open {
                open.remove(&child.application);
            }
            for reply in child.waiting {
                let _ = reply.send(Ok(view.clone()));
            }
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

    /// An actor panicked or met an error. What it held beyond the log is gone; it starts again from the log.
    async fn failed(&mut self, myself: &ActorRef<SupervisorMessage>, cell: &ActorCell, reason: &str) {
        let Some(operation) = self.by_actor.remove(&cell.get_id()) else { return };
        let Some(child) = self.running.get(&operation) else { return };
        let (application, restarts) = (child.application.clone(), child.restarts.saturating_add(1));
        tracing::error!(%operation, application, restarts, reason, "operation actor failed");
        if let Some(reason) = self.shared.log_failure.get().cloned() {
            // Whatever it was: there is nothing to go on with.
            return self.fail_all(&reason);
        }
        if self.stopping {
            // It would not know that it is to stop. The log has what it needs to go on another time.
            return self.leave(operation, || EngineError::ShuttingDown);
        }
        let give_up = (restarts > RESTARTS_MAX)
            .then(|| format!("the engine gave up after {RESTARTS_MAX} restarts of this operation: {reason}"));
        let gave_up = restarts > RESTARTS_MAX.saturating_add(1);
        let started = if gave_up {
            Err(EngineError::Start { operation, reason: reason.to_owned() })
        } else {
            self.spawn(myself, operation, application, Start::Recover { give_up, settle: true }, restarts)
                .await
        };
        if let Err(error) = started {
            // It may not even have come into the log.
            self.open = None;
            self.leave(operation, || EngineError::Start { operation, reason: error.to_string() });
        }
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
        if self.running.is_empty() {
            self.stopped.drain(..).for_each(|reply| drop(reply.send(Ok(()))));
        }
    }
}
