//! The supervisor: starts one actor per operation, starts it again from the log when it fails, and knows who waits.

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tidegate_lifecycle::operation::{Input, OperationView};
use tidegate_model::{Digest, OperationId, SyncRequest};

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
    log_failure: Option<String>,
    stopping: Option<Reply<()>>,
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
            log_failure: None,
            stopping: None,
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
                Ok(actor) => drop(actor.send_message(OperationMessage::Person { input, reply })),
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::Inspect { operation, reply } => match state.actor(operation) {
                Ok(actor) => drop(actor.send_message(OperationMessage::Inspect { reply })),
                Err(error) => drop(reply.send(Err(error))),
            },
            SupervisorMessage::Finished { operation, view } => state.finished(operation, &view),
            SupervisorMessage::LogFailed { reason } => state.fail_all(&reason),
            SupervisorMessage::Shutdown { reply } => state.shutdown(reply),
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

impl SupervisorState {
    fn actor(&self, operation: OperationId) -> Result<&ActorRef<OperationMessage>, EngineError> {
        self.check_log()?;
        self.running.get(&operation).map(|child| &child.actor).ok_or(EngineError::NotRunning { operation })
    }

    fn check_log(&self) -> Result<(), EngineError> {
        match &self.log_failure {
            Some(reason) => Err(EngineError::LogFailed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    async fn submit(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        application: String,
        start: Start,
    ) -> Result<(), EngineError> {
        self.check_log()?;
        if self.stopping.is_some() {
            return Err(EngineError::ShuttingDown);
        }
        let at_work =
            self.running.iter().find(|(_, child)| child.application == application).map(|(id, _)| *id);
        let open = match at_work {
            Some(id) => Some(id),
            None => blocking(&self.shared.log, |log| log.summaries())
                .await?
                .into_iter()
                .find(|summary| summary.finished_at.is_none() && summary.application == application)
                .map(|summary| summary.operation),
        };
        if let Some(open) = open {
            return Err(EngineError::Busy { application, open });
        }
        self.spawn(myself, operation, application, start, 0).await
    }

    async fn resume(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
    ) -> Result<(), EngineError> {
        self.check_log()?;
        if self.running.contains_key(&operation) {
            return Ok(());
        }
        let summaries = blocking(&self.shared.log, |log| log.summaries()).await?;
        let summary = summaries.into_iter().find(|summary| summary.operation == operation);
        let Some(summary) = summary else { return Err(EngineError::Unknown { operation }) };
        if summary.finished_at.is_some() {
            return Err(EngineError::AlreadyFinished { operation, message: summary.message });
        }
        self.spawn(myself, operation, summary.application, Start::Recover { give_up: None }, 0).await
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
        if self.log_failure.is_some() {
            return;
        }
        let give_up = (restarts > RESTARTS_MAX)
            .then(|| format!("the engine gave up after {RESTARTS_MAX} restarts of this operation: {reason}"));
        let gave_up = restarts > RESTARTS_MAX.saturating_add(1);
        let started = if gave_up {
            Err(EngineError::Start { operation, reason: reason.to_owned() })
        } else {
            self.spawn(myself, operation, application, Start::Recover { give_up }, restarts).await
        };
        if let Err(error) = started {
            let waiting = self.running.remove(&operation).map(|child| child.waiting).unwrap_or_default();
            for reply in waiting {
                let _ = reply.send(Err(EngineError::Start { operation, reason: error.to_string() }));
            }
            self.stopped_if_empty();
        }
    }

    fn fail_all(&mut self, reason: &str) {
        tracing::error!(reason, "the operation log failed; nothing more is done until it is opened again");
        self.log_failure = Some(reason.to_owned());
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
        self.stopping = Some(reply);
        self.stopped_if_empty();
    }

    fn stopped_if_empty(&mut self) {
        if self.running.is_empty()
            && let Some(reply) = self.stopping.take()
        {
            let _ = reply.send(Ok(()));
        }
    }
}
