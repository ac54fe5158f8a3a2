//! Operations from the log: those that are resumed, and those whose actor has failed.
//!
//! Reading an operation takes as long as its log is, so it is done beside the supervisor, which goes on with the others.

use std::sync::Arc;

use ractor::{ActorCell, ActorRef};
use tidegate_lifecycle::operation::{Driver, Fact};
use tidegate_model::OperationId;
use tidegate_oplog::TypedLog as _;
use tokio::sync::oneshot;

use super::{Reply, SupervisorMessage, SupervisorState};
use crate::actors::log::{Log, LogMessage};
use crate::actors::operation::Start;
use crate::engine::EngineError;
use crate::shared::{Shared, blocking};
use crate::summary::Summary;

/// How often the actor of one operation may fail before the operation itself ends in Error.
pub(crate) const RESTARTS_MAX: u32 = 3;

/// How many operations are read from the log at once; each takes a thread meanwhile.
pub(super) const READS_AT_ONCE: usize = 8;

/// An operation, read from the log.
pub(crate) struct Recovered {
    application: String,
    driver: Box<Driver>,
}

/// What an operation is read for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Somebody wants it to go on.
    Resume,
    /// Its actor has failed; with a reason to end it at once.
    Restart { application: String, restarts: u32, give_up: Option<String> },
}

/// An operation that is being read to be resumed.
pub(super) struct Resuming {
    pub reply: Reply<()>,
    /// What came for it meanwhile.
    messages: Vec<SupervisorMessage>,
}

impl SupervisorState {
    pub(super) fn resume(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        reply: Reply<()>,
    ) {
        if let Err(error) = self.check_open() {
            return drop(reply.send(Err(error)));
        }
        if self.running.contains_key(&operation) {
            return drop(reply.send(Ok(())));
        }
        self.resuming.insert(operation, Resuming { reply, messages: Vec::new() });
        self.read(myself, operation, Purpose::Resume);
    }

    /// Keeps a message about an operation that is being read until that is done. Gives back all others.
    pub(super) fn defer(&mut self, message: SupervisorMessage) -> Option<SupervisorMessage> {
        let about = match &message {
            SupervisorMessage::Resume { operation, .. }
            | SupervisorMessage::Wait { operation, .. }
            | SupervisorMessage::Person { operation, .. }
            | SupervisorMessage::Inspect { operation, .. } => self.resuming.get_mut(operation),
            _ => None,
        };
        match about {
            Some(resuming) => {
                resuming.messages.push(message);
                None
            }
            None => Some(message),
        }
    }

    fn read(&self, myself: &ActorRef<SupervisorMessage>, operation: OperationId, purpose: Purpose) {
        let (shared, myself) = (Arc::clone(&self.shared), myself.clone());
        let reads = Arc::clone(&self.reads);
        tokio::spawn(async move {
            // Nobody closes it; without a permit there would only be more reads at once.
            let _permit = reads.acquire().await;
            let result = match &purpose {
                Purpose::Resume => resumable(&shared, operation).await,
                Purpose::Restart { application, .. } => {
                    settled(&shared, operation, application.clone()).await
                }
            };
            let _ = myself.send_message(SupervisorMessage::Read { operation, purpose, result });
        });
    }

    /// An operation was read from the log, or could not be.
    pub(super) async fn read_done(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        purpose: Purpose,
        result: Result<Recovered, EngineError>,
    ) {
        match purpose {
            Purpose::Resume => self.resumed(myself, operation, result).await,
            // Otherwise the log has failed meanwhile, and everybody knows.
            Purpose::Restart { restarts, give_up, .. } if self.running.contains_key(&operation) => {
                self.restart(myself, operation, (restarts, give_up), result).await;
            }
            Purpose::Restart { .. } => {}
        }
    }

    async fn resumed(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        result: Result<Recovered, EngineError>,
    ) {
        let Some(Resuming { reply, messages }) = self.resuming.remove(&operation) else { return };
        // It may have been begun while it was looked for, and be over by now.
        let ended = self.ends.message(operation).map(str::to_owned);
        let resumed = match (self.check_open(), result, ended) {
            (Ok(()), _, _) if self.running.contains_key(&operation) => Ok(()),
            (Ok(()), _, Some(message)) => Err(EngineError::AlreadyFinished { operation, message }),
            (Err(error), _, _) | (Ok(()), Err(error), None) => Err(error),
            (Ok(()), Ok(Recovered { application, driver }), None) => {
                let start = Start::Recovered { driver, give_up: None };
                self.spawn(myself, operation, application, start, 0).await
            }
        };
        let _ = reply.send(resumed);
        messages.into_iter().for_each(|message| drop(myself.send_message(message)));
        self.stopped_if_empty();
    }

    /// An actor panicked or met an error. What it held beyond the log is gone; it starts again from the log.
    pub(super) fn failed(&mut self, myself: &ActorRef<SupervisorMessage>, cell: &ActorCell, reason: &str) {
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
        if restarts > RESTARTS_MAX.saturating_add(1) {
            return self.cannot_go_on(operation, reason);
        }
        let give_up = (restarts > RESTARTS_MAX)
            .then(|| format!("the engine gave up after {RESTARTS_MAX} restarts of this operation: {reason}"));
        self.read(myself, operation, Purpose::Restart { application, restarts, give_up });
    }

    async fn restart(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        (restarts, give_up): (u32, Option<String>),
        result: Result<Recovered, EngineError>,
    ) {
        if self.stopping {
            return self.leave(operation, || EngineError::ShuttingDown);
        }
        let started = match result {
            Ok(Recovered { application, driver }) => {
                let start = Start::Recovered { driver, give_up };
                self.spawn(myself, operation, application, start, restarts).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = started {
            self.cannot_go_on(operation, &error.to_string());
        }
    }

    fn cannot_go_on(&mut self, operation: OperationId, reason: &str) {
        // It may not even have come into the log.
        self.open = None;
        self.leave(operation, || EngineError::Start { operation, reason: reason.to_owned() });
    }
}

/// An operation whose actor has failed. What it had sent to be written is written first.
async fn settled(
    shared: &Shared,
    operation: OperationId,
    application: String,
) -> Result<Recovered, EngineError> {
    let (send, receive) = oneshot::channel();
    shared.log_actor.send_message(LogMessage::Settle(send)).map_err(|_| EngineError::Stopped)?;
    receive.await.map_err(|_| EngineError::Stopped)?;
    Ok(Recovered { application, driver: load(shared, operation).await? })
}

/// An operation that is not over.
async fn resumable(shared: &Shared, operation: OperationId) -> Result<Recovered, EngineError> {
    // Looked up first: one that begins meanwhile is then either unknown, or can be read.
    let entry = blocking(&shared.log, move |log| log.entry_as::<Fact>(operation)).await;
    let loaded = load(shared, operation).await;
    if let Ok(driver) = &loaded
        && !driver.state().is_finished()
        && let Some(header) = driver.state().header()
    {
        return Ok(Recovered { application: header.request.application.clone(), driver: loaded? });
    }
    // The summary is kept longer than the facts, and decides what is over: a repair may have left one of an operation
    // that is to be ended properly.
    let Some(entry) = entry? else { return Err(EngineError::Unknown { operation }) };
    let summary = Summary::from(entry);
    if summary.finished_at.is_some() {
        return Err(EngineError::AlreadyFinished { operation, message: summary.message });
    }
    Ok(Recovered { application: summary.application, driver: loaded? })
}

async fn load(shared: &Shared, operation: OperationId) -> Result<Box<Driver>, EngineError> {
    let cannot_go_on = |reason: String| EngineError::Start { operation, reason };
    let read = move |log: &Log| {
        let loaded = log.load_as(operation)?;
        Ok(Driver::recover(loaded.snapshot, loaded.facts))
    };
    let driver = blocking(&shared.log, read).await.map_err(|error| cannot_go_on(error.to_string()))?;
    Ok(Box::new(driver.map_err(|error| cannot_go_on(error.to_string()))?))
}
