//! Operations from the log: those that are resumed, and those whose actor has failed.
//!
//! Reading an operation takes as long as its log is, so it is done beside the supervisor, which goes on with the others.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_lifecycle::operation::{Driver, Fact};
use tidegate_model::OperationId;
use tidegate_oplog::TypedLog as _;
use tokio::time::Instant;

use super::state::{About, Purpose, Recovered, Reply, Resuming, SupervisorMessage, SupervisorState};
use crate::actors::operation::Start;
use crate::error::EngineError;
use crate::log::{Log, LogLost, blocking};
use crate::restarts::{RESTARTS_MAX, Restarts, WINDOW};
use crate::shared::Shared;
use crate::summary::Summary;

impl SupervisorState {
    pub(super) fn resume(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        reply: Reply<()>,
        if_connected: bool,
    ) {
        if let Err(error) = self.check_open() {
            return drop(reply.send(Err(error)));
        }
        if self.running.contains_key(&operation) {
            return drop(reply.send(Ok(())));
        }
        if let Some(resuming) = self.resuming.get_mut(&operation) {
            let again = SupervisorMessage::Resume { operation, reply };
            return resuming.messages.push(again);
        }
        self.resuming.insert(operation, Resuming { reply, if_connected, messages: Vec::new() });
        self.read(myself, operation, Purpose::Resume);
    }

    /// Keeps a message about an operation that is being read until that is done. Gives back all others.
    pub(super) fn defer(&mut self, message: SupervisorMessage) -> Option<SupervisorMessage> {
        let about = match &message {
            SupervisorMessage::Resume { operation, .. }
            | SupervisorMessage::Wait { operation, .. }
            | SupervisorMessage::Person { operation, .. }
            | SupervisorMessage::Inspect { operation, .. }
            | SupervisorMessage::RunningHooks { operation, .. } => self.resuming.get_mut(operation),
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

    fn read(&mut self, myself: &ActorRef<SupervisorMessage>, operation: OperationId, purpose: Purpose) {
        let (shared, myself) = (Arc::clone(&self.shared), myself.clone());
        let reads = Arc::clone(&self.reads);
        self.tasks.spawn(async move {
            if let Purpose::Restart { wait, .. } = &purpose {
                tokio::time::sleep(*wait).await;
            }
            // Nobody closes it; without a permit there would only be more reads at once.
            let _permit = reads.acquire().await;
            let result = match &purpose {
                Purpose::Resume => resumable(&shared, operation).await,
                Purpose::Restart { .. } => settled(&shared, operation).await,
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
            Purpose::Restart { give_up, .. } => self.restart(myself, operation, give_up, result).await,
        }
    }

    async fn resumed(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        result: Result<Recovered, EngineError>,
    ) {
        let Some(Resuming { reply, if_connected, messages }) = self.resuming.remove(&operation) else {
            return;
        };
        // It may have been begun while it was looked for, and be over by now.
        let ended = self.ends.message(operation).map(str::to_owned);
        let resumed = match (self.check_open(), result, ended) {
            (Ok(()), _, _) if self.running.contains_key(&operation) => Ok(()),
            (Ok(()), _, Some(message)) => Err(EngineError::AlreadyFinished { operation, message }),
            (Err(error), _, _) | (Ok(()), Err(error), None) => Err(error),
            (Ok(()), Ok(Recovered { about, .. }), None) if if_connected && !self.is_connected(&about) => {
                Err(EngineError::NotRunning { operation })
            }
            (Ok(()), Ok(Recovered { about, driver }), None) => {
                let start = Start::Recovered { driver, give_up: None };
                self.spawn(myself, operation, about, start).await
            }
        };
        let _ = reply.send(resumed);
        messages.into_iter().for_each(|message| drop(myself.send_message(message)));
        self.stopped_if_empty();
    }

    fn is_connected(&self, about: &About) -> bool {
        about.destination.as_ref().is_some_and(|destination| self.shared.clusters.get(destination).is_some())
    }

    /// An actor panicked or met an error. What it held beyond the log is gone; it starts again from the log.
    pub(super) fn failed(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        error: &(dyn Error + Send + Sync + 'static),
    ) {
        if let Some(reason) = self.shared.log_failure.get().cloned() {
            // Whatever it was: there is nothing to go on with.
            return self.fail_all(&reason);
        }
        if self.stopping {
            // It would not know that it is to stop. The log has what it needs to go on another time.
            return self.leave(operation, || EngineError::ShuttingDown);
        }
        let Some(child) = self.running.get_mut(&operation) else { return };
        child.is_down = true;
        if error.is::<LogLost>() {
            // Not its own fault, and the log's failures are counted.
            tracing::warn!(%operation, application = child.application, "operation goes on from the log: {error}");
            let purpose = Purpose::Restart { wait: Duration::ZERO, give_up: None };
            return self.read(myself, operation, purpose);
        }
        let (failures, wait) = (child.restarts.count(Instant::now()), child.restarts.wait());
        tracing::error!(%operation, application = child.application, failures, %error, "operation actor failed");
        if failures > RESTARTS_MAX.saturating_add(1) {
            return self.cannot_go_on(operation, &error.to_string());
        }
        let give_up = (failures > RESTARTS_MAX).then(|| {
            let seconds = WINDOW.as_secs();
            format!("the engine gave up after {RESTARTS_MAX} restarts of this operation within {seconds} s: {error}")
        });
        self.read(myself, operation, Purpose::Restart { wait, give_up });
    }

    async fn restart(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        give_up: Option<String>,
        result: Result<Recovered, EngineError>,
    ) {
        // Otherwise the log has failed meanwhile, or everything stops, and everybody knows.
        let Some(child) = self.running.get(&operation).filter(|child| child.is_down) else { return };
        let restarts = child.restarts.clone();
        let started = match result {
            Ok(Recovered { about, driver }) => {
                let start = Start::Recovered { driver, give_up };
                self.spawn(myself, operation, About { restarts, ..about }, start).await
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
async fn settled(shared: &Shared, operation: OperationId) -> Result<Recovered, EngineError> {
    shared.log_actor.settle(&shared.log_failure).await?;
    let driver = load(shared, operation).await?;
    let about = driver.state().header().map(|header| About::new(&header.request));
    let reason = || "nothing of it was in the log yet; begin it again".to_owned();
    Ok(Recovered { about: about.ok_or_else(|| EngineError::Start { operation, reason: reason() })?, driver })
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
        return Ok(Recovered { about: About::new(&header.request), driver: loaded? });
    }
    // The summary is kept longer than the facts, and decides what is over: a repair may have left one of an operation
    // that is to be ended properly.
    let Some(entry) = entry? else { return Err(EngineError::Unknown { operation }) };
    let summary = Summary::from(entry);
    if summary.finished_at.is_some() {
        return Err(EngineError::AlreadyFinished { operation, message: summary.message });
    }
    let about = About { application: summary.application, destination: None, restarts: Restarts::default() };
    Ok(Recovered { about, driver: loaded? })
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
