//! Reads operations from the log, to resume them or to restart them after their actor has failed.
//!
//! Reading an operation takes time proportional to its log, so reads run in the background while the
//! supervisor handles other messages.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_lifecycle::operation::{Driver, OperationEvent};
use tidegate_model::OperationId;
use tidegate_oplog::TypedLog as _;
use tokio::time::Instant;

use super::state::{
    OperationMetadata, PendingResume, ReadPurpose, RecoveredOperation, Reply, SupervisorMessage,
    SupervisorState,
};
use crate::actors::operation::Start;
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::log::{Log, LogActorFailed, run_blocking};
use crate::restarts::{RESTART_WINDOW, RESTARTS_MAX, Restarts};
use crate::summary::Summary;

impl SupervisorState {
    pub(super) fn resume(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        reply: Reply<()>,
        if_connected: bool,
    ) {
        if let Err(error) = self.check_can_start() {
            return drop(reply.send(Err(error)));
        }
        if self.running.contains_key(&operation) {
            return drop(reply.send(Ok(())));
        }
        if let Some(resuming) = self.resuming.get_mut(&operation) {
            let again = SupervisorMessage::Resume { operation, reply };
            return resuming.deferred_messages.push(again);
        }
        self.resuming.insert(operation, PendingResume { reply, if_connected, deferred_messages: Vec::new() });
        self.read_operation(myself, operation, ReadPurpose::Resume);
    }

    fn read_operation(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        purpose: ReadPurpose,
    ) {
        let (shared, myself) = (Arc::clone(&self.shared), myself.clone());
        let reads = Arc::clone(&self.reads);
        self.tasks.spawn(async move {
            if let ReadPurpose::Restart { delay, .. } = &purpose {
                tokio::time::sleep(*delay).await;
            }
            // The semaphore is never closed. If it were, more reads would simply run concurrently.
            let _permit = reads.acquire().await;
            let result = match &purpose {
                ReadPurpose::Resume => read_resumable(&shared, operation).await,
                ReadPurpose::Restart { .. } => read_settled(&shared, operation).await,
            };
            let _ = myself.send_message(SupervisorMessage::OperationRead { operation, purpose, result });
        });
    }

    /// Handles the result of reading an operation from the log.
    pub(super) async fn handle_read(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        purpose: ReadPurpose,
        result: Result<RecoveredOperation, EngineError>,
    ) {
        match purpose {
            ReadPurpose::Resume => self.handle_resumed(myself, operation, result).await,
            ReadPurpose::Restart { end_reason, .. } => {
                self.restart(myself, operation, end_reason, result).await
            }
        }
    }

    async fn handle_resumed(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        result: Result<RecoveredOperation, EngineError>,
    ) {
        let Some(PendingResume { reply, if_connected, deferred_messages }) = self.resuming.remove(&operation)
        else {
            return;
        };
        // The operation may have started and finished during the lookup.
        let ended = self.recent_results.final_message(operation).map(str::to_owned);
        let resumed = match (self.check_can_start(), result, ended) {
            (Ok(()), _, _) if self.running.contains_key(&operation) => Ok(()),
            (Ok(()), _, Some(message)) => Err(EngineError::AlreadyFinished { operation, message }),
            (Err(error), _, _) | (Ok(()), Err(error), None) => Err(error),
            (Ok(()), Ok(RecoveredOperation { metadata, .. }), None)
                if if_connected && !self.is_connected(&metadata) =>
            {
                Err(EngineError::NotRunning { operation })
            }
            (Ok(()), Ok(RecoveredOperation { metadata, driver }), None) => {
                match self.check_owned(metadata.shard, &metadata.application) {
                    Ok(_) => {
                        let start = Start::Recovered { driver, end_reason: None };
                        self.spawn_operation(myself, operation, metadata, start).await
                    }
                    Err(refused) => Err(refused),
                }
            }
        };
        let _ = reply.send(resumed);
        deferred_messages.into_iter().for_each(|message| drop(myself.send_message(message)));
        self.finish_shutdown_if_empty();
    }

    fn is_connected(&self, about: &OperationMetadata) -> bool {
        about.destination.as_ref().is_some_and(|destination| self.shared.clusters.get(destination).is_some())
    }

    /// Handles a panic or error of an actor. Its in-memory state is lost, and a new actor continues from the
    /// log.
    pub(super) fn handle_actor_failure(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        error: &(dyn Error + Send + Sync + 'static),
    ) {
        if let Some(reason) = self.shared.log_failure.get().cloned() {
            // The failed log is the cause, so no operation can continue.
            return self.fail_all(&reason);
        }
        if self.is_stopping {
            // Don't start another actor: it wouldn't know that it must stop. The operation can be resumed
            // from the log later.
            return self.abandon_operation(operation, || EngineError::ShuttingDown);
        }
        if self.is_handed_over(operation) {
            return self.handle_actor_end(operation);
        }
        let Some(child) = self.running.get_mut(&operation) else { return };
        child.is_down = true;
        if error.is::<LogActorFailed>() {
            // The log actor caused this failure, and its failures are counted separately.
            tracing::warn!(%operation, application = child.application, "the operation stopped unexpectedly ({error}); restarting it from the log");
            let purpose = ReadPurpose::Restart { delay: Duration::ZERO, end_reason: None };
            return self.read_operation(myself, operation, purpose);
        }
        let (failures, delay) = (child.restarts.record_failure(Instant::now()), child.restarts.delay());
        tracing::error!(%operation, application = child.application, failures, %error, "operation actor failed");
        if failures > RESTARTS_MAX.saturating_add(1) {
            return self.abort_operation(operation, &error.to_string());
        }
        let end_reason = (failures > RESTARTS_MAX).then(|| {
            let seconds = RESTART_WINDOW.as_secs();
            format!("the engine gave up after {RESTARTS_MAX} restarts of this operation within {seconds} s: {error}")
        });
        self.read_operation(myself, operation, ReadPurpose::Restart { delay, end_reason });
    }

    async fn restart(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        operation: OperationId,
        end_reason: Option<String>,
        result: Result<RecoveredOperation, EngineError>,
    ) {
        // Without a running entry, the log has failed or the engine is stopping, and all callers have already
        // been notified.
        let Some(child) = self.running.get(&operation).filter(|child| child.is_down) else { return };
        let (restarts, claim_held, shard) =
            (child.restarts.clone(), Arc::clone(&child.claim_held), child.shard);
        let started = match result {
            Ok(RecoveredOperation { metadata, driver }) => {
                let start = Start::Recovered { driver, end_reason };
                let metadata = OperationMetadata { restarts, claim_held, shard, ..metadata };
                self.spawn_operation(myself, operation, metadata, start).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = started {
            self.abort_operation(operation, &error.to_string());
        }
    }

    fn abort_operation(&mut self, operation: OperationId, reason: &str) {
        // Reread the open operations: this one may not be in the log.
        self.open = None;
        self.abandon_operation(operation, || EngineError::StartFailed {
            operation,
            reason: reason.to_owned(),
        });
    }
}

/// Reads an operation after its actor has failed, once its records in flight are written.
async fn read_settled(
    shared: &EngineContext,
    operation: OperationId,
) -> Result<RecoveredOperation, EngineError> {
    shared.log_actor.flush(&shared.log_failure).await?;
    let driver = load(shared, operation).await?;
    let about = driver.state().header().map(|header| {
        let shard = shared.assignment.shard_of(&header.request.application);
        OperationMetadata::new(&header.request, shard)
    });
    let reason = || "the log has no record of the operation yet; start it again".to_owned();
    Ok(RecoveredOperation {
        metadata: about.ok_or_else(|| EngineError::StartFailed { operation, reason: reason() })?,
        driver,
    })
}

/// Reads an open operation.
async fn read_resumable(
    shared: &EngineContext,
    operation: OperationId,
) -> Result<RecoveredOperation, EngineError> {
    // Look up the entry before the records, so that an operation started during the lookup is either unknown
    // or readable.
    let entry = run_blocking(&shared.log, move |log| log.entry_as::<OperationEvent>(operation)).await;
    let stored_shard = entry.as_ref().ok().and_then(|entry| Some(entry.as_ref()?.shard));
    let loaded = load(shared, operation).await;
    if let Ok(driver) = &loaded
        && !driver.state().is_finished()
        && let Some(header) = driver.state().header()
    {
        let shard = stored_shard.unwrap_or_else(|| shared.assignment.shard_of(&header.request.application));
        let metadata = OperationMetadata::new(&header.request, shard);
        return Ok(RecoveredOperation { metadata, driver: loaded? });
    }
    // The summary outlives the records and determines whether the operation has finished. After a repair of
    // the log, an operation may be open according to its summary even though its first records are lost.
    let Some(entry) = entry? else { return Err(EngineError::UnknownOperation { operation }) };
    let shard = entry.shard;
    let summary = Summary::from(entry);
    if summary.finished_at.is_some() {
        return Err(EngineError::AlreadyFinished { operation, message: summary.message });
    }
    let metadata = OperationMetadata {
        application: summary.application,
        shard,
        destination: None,
        restarts: Restarts::default(),
        claim_held: Arc::default(),
    };
    Ok(RecoveredOperation { metadata, driver: loaded? })
}

async fn load(shared: &EngineContext, operation: OperationId) -> Result<Box<Driver>, EngineError> {
    let cannot_go_on = |reason: String| EngineError::StartFailed { operation, reason };
    let read = move |log: &Log| {
        let loaded = log.load_as(operation)?;
        Ok(Driver::recover(loaded.snapshot, loaded.events))
    };
    let driver = run_blocking(&shared.log, read).await.map_err(|error| cannot_go_on(error.to_string()))?;
    Ok(Box::new(driver.map_err(|error| cannot_go_on(error.to_string()))?))
}
