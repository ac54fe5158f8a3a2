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
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::OperationId;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::actors::operation::{
    Inspection, OperationActor, OperationArguments, OperationMessage, Report, Start,
};
use crate::error::EngineError;
use crate::shared::Shared;

use self::ends::Ends;
use self::state::{About, Child, Linked, READS_AT_ONCE, Reply, SupervisorState};
pub(crate) use self::state::{Submit, SupervisorMessage};

pub(crate) struct Supervisor;

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
            SupervisorMessage::RunningHooks { operation, reply } => match state.actor(operation) {
                Ok(actor) => send(operation, actor, reply, |reply| OperationMessage::RunningHooks { reply }),
                Err(error) => drop(reply.send(Err(error))),
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
            SupervisorMessage::Report(Report::Finished { operation, end }) => {
                state.finished(&myself, operation, *end);
            }
            SupervisorMessage::Start(part) => state.start(&myself, part).await,
            SupervisorMessage::Report(Report::LogFailed { reason }) => state.log_failed(&reason),
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
            report: {
                let myself = myself.clone();
                Arc::new(move |report| drop(myself.send_message(SupervisorMessage::Report(report))))
            },
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
        self.shared.machines.log_failed(reason);
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
