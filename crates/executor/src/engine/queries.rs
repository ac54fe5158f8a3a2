//! Queries of an engine: status, history and events of operations.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_lifecycle::operation::{
    Driver, Explanation, OperationEvent, OperationView, State, explain, view,
};
use tidegate_model::OperationId;
use tidegate_oplog::{CompactionResult, EntryOf, Lookup, Retention, TypedLog as _};

use super::Engine;
use crate::actors::operation::Inspection;
use crate::actors::supervisor::SupervisorMessage;
use crate::error::EngineError;
use crate::events::{EventCursor, EventStream, read_log_end};
use crate::log::{Log, run_blocking};
use crate::offline::list_summaries;
use crate::output::{HookOutput, RunningHooks, RunningHooksSource, follow_operation};
use crate::summary::Summary;

/// Operation that has started and hasn't finished, according to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOperation {
    /// Summary of the operation.
    pub summary: Summary,
    /// True if this engine runs the operation, and false if another engine with the same log does.
    pub is_owned: bool,
}

impl Engine {
    /// Returns the operations running in this engine.
    pub async fn running_operations(&self) -> Result<BTreeSet<OperationId>, EngineError> {
        self.call_supervisor(|reply| SupervisorMessage::ListRunning { reply }).await
    }

    /// Returns the number of in-memory entries about operations. Of the finished operations, only recent ones
    /// are included.
    pub async fn entries_in_memory(&self) -> Result<usize, EngineError> {
        self.call_supervisor(|reply| SupervisorMessage::Entries { reply }).await
    }

    /// Returns the status of an operation, running or not.
    pub async fn inspect(&self, operation: OperationId) -> Result<(OperationView, Explanation), EngineError> {
        let ask = || self.call_supervisor(|reply| SupervisorMessage::Inspect { operation, reply });
        let mut answer = ask().await;
        if let Err(EngineError::Restarted { .. }) = answer {
            // Query again: the operation may have finished before it received the query.
            answer = ask().await;
        }
        match answer {
            Ok(Inspection { view, explanation }) => Ok((view, explanation)),
            Err(EngineError::NotRunning { .. } | EngineError::Restarted { .. }) => {
                self.read_from_log(operation).await
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the status of an operation from the log.
    pub(super) async fn read_from_log(
        &self,
        operation: OperationId,
    ) -> Result<(OperationView, Explanation), EngineError> {
        let loaded = run_blocking(&self.shared.log, move |log| log.load_as(operation)).await?;
        let driver = Driver::recover(loaded.snapshot, loaded.events)?;
        let view = view(driver.state()).ok_or(EngineError::UnknownOperation { operation })?;
        Ok((view, explain(driver.state(), self.shared.clock.now())))
    }

    /// Returns summaries of all operations, oldest first.
    pub async fn list(&self) -> Result<Vec<Summary>, EngineError> {
        self.find(Lookup::all()).await
    }

    /// Returns summaries of all matching operations, oldest first.
    pub async fn find(&self, lookup: Lookup) -> Result<Vec<Summary>, EngineError> {
        Ok(run_blocking(&self.shared.log, move |log| list_summaries(log, lookup)).await?)
    }

    /// Returns the open operations of one application, or of all, oldest first.
    pub async fn open_operations(
        &self,
        application: Option<String>,
    ) -> Result<Vec<OpenOperation>, EngineError> {
        let lookup = Lookup { application, ..Lookup::open() };
        let open = run_blocking(&self.shared.log, move |log| log.find_as::<OperationEvent>(lookup)).await?;
        let with_owner = |entry: EntryOf<OperationEvent>| OpenOperation {
            is_owned: self.shared.assignment.owns(entry.shard),
            summary: entry.into(),
        };
        Ok(open.into_iter().map(with_owner).collect())
    }

    /// Returns all stored events of an operation.
    pub async fn stored_events(&self, operation: OperationId) -> Result<Vec<OperationEvent>, EngineError> {
        Ok(run_blocking(&self.shared.log, move |log| log.events_as(operation)).await?.events)
    }

    /// Returns the logged state of an operation, and all its stored events.
    pub async fn history(&self, operation: OperationId) -> Result<(State, Vec<OperationEvent>), EngineError> {
        let read = move |log: &Log| Ok((log.load_as(operation)?, log.events_as(operation)?.events));
        let (loaded, events) = run_blocking(&self.shared.log, read).await?;
        let driver = Driver::recover(loaded.snapshot, loaded.events)?;
        Ok((driver.state().clone(), events))
    }

    /// Compacts the log according to a retention policy. Safe to call while operations are running.
    pub async fn compact(&self, keep: Retention) -> Result<CompactionResult, EngineError> {
        let now = self.shared.clock.now();
        Ok(run_blocking(&self.shared.log, move |log| log.compact(&keep, now)).await?)
    }

    /// Returns an operation's events after a sequence number (0 for all events): first the events in the log,
    /// then live events, without gaps or repetitions. The stream ends with the operation, which doesn't have
    /// to be running. Events lost to a compaction are reported on the stream.
    pub async fn events(&self, operation: OperationId, after: u64) -> Result<EventStream, EngineError> {
        let events = EventStream::for_operation(&self.shared.log, &self.shared.broadcaster, operation, after);
        let is_known = || {
            run_blocking(&self.shared.log, move |log| {
                Ok(log.entry_as::<OperationEvent>(operation)?.is_some())
            })
        };
        // The operation's first records may still be in flight, or may have become durable between the two
        // checks.
        if is_known().await? || self.running_operations().await?.contains(&operation) || is_known().await? {
            Ok(events)
        } else {
            Err(EngineError::UnknownOperation { operation })
        }
    }

    /// Returns the live output of a running operation's hooks, if the cluster serves logs. Starts with the
    /// last lines of the current hooks, followed by all new lines, including those of later hooks. Reading
    /// doesn't affect the operation, and lines aren't recorded. A slow reader loses lines, and learns how
    /// many.
    ///
    /// Fails with [`EngineError::NotRunning`] if the operation isn't running, and with
    /// [`EngineError::AlreadyFinished`] if it has finished.
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutput, EngineError> {
        // Subscribe before the first query, so that no hook is missed.
        let batches = self.shared.broadcaster.subscribe();
        let asking = RunningHooksQuery { engine: self.clone(), operation };
        let mut first = asking.running_hooks().await;
        if let Err(EngineError::Restarted { .. }) = first {
            first = asking.running_hooks().await;
        }
        match first {
            Ok(first) => Ok(follow_operation(Arc::clone(&self.shared), operation, batches, first, asking)),
            Err(EngineError::NotRunning { .. } | EngineError::Restarted { .. }) => {
                let is_known = move |log: &Log| Ok(log.entry_as::<OperationEvent>(operation)?.is_some());
                if !run_blocking(&self.shared.log, is_known).await? {
                    return Err(EngineError::UnknownOperation { operation });
                }
                let (view, _) = self.inspect(operation).await?;
                Err(match view.finished_at {
                    Some(_) => EngineError::AlreadyFinished { operation, message: view.message },
                    None => EngineError::NotRunning { operation },
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the events of all operations after the position `seen`: first the events in the log, then live
    /// events, without gaps or repetitions. Events are in order within each operation. The stream ends when
    /// the engine stops. For live events only, start from [`Engine::log_end`].
    pub fn all_events(&self, seen: EventCursor) -> EventStream {
        EventStream::for_all(&self.shared.log, &self.shared.broadcaster, seen)
    }

    /// Returns the current end of the log.
    pub async fn log_end(&self) -> Result<EventCursor, EngineError> {
        Ok(read_log_end(&self.shared.log).await?)
    }

    /// Returns the events of all operations from now on.
    pub async fn events_from_now(&self) -> Result<EventStream, EngineError> {
        Ok(EventStream::from_now(&self.shared.log, &self.shared.broadcaster).await?)
    }
}

/// Query for the running hooks of an operation.
struct RunningHooksQuery {
    engine: Engine,
    operation: OperationId,
}

impl RunningHooksSource for RunningHooksQuery {
    async fn running_hooks(&self) -> Result<RunningHooks, EngineError> {
        let operation = self.operation;
        self.engine.call_supervisor(|reply| SupervisorMessage::RunningHooks { operation, reply }).await
    }
}
