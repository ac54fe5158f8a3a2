//! What is asked of an engine: how operations stand, what they have done, and what they tell.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_lifecycle::operation::{Driver, Explanation, Fact, OperationView, State, explain, view};
use tidegate_model::OperationId;
use tidegate_oplog::{Compacted, Lookup, Retention, TypedLog as _};

use super::Engine;
use crate::actors::operation::Inspection;
use crate::actors::supervisor::SupervisorMessage;
use crate::error::EngineError;
use crate::events::{Events, Seen, recorded};
use crate::log::{Log, blocking};
use crate::offline::operations;
use crate::output::{Ask, HookOutput, RunningHooks, follow};
use crate::summary::Summary;

impl Engine {
    /// The operations this engine works on now.
    pub async fn at_work(&self) -> Result<BTreeSet<OperationId>, EngineError> {
        self.ask(|reply| SupervisorMessage::AtWork { reply }).await
    }

    /// How an operation stands, at work or not.
    pub async fn inspect(&self, operation: OperationId) -> Result<(OperationView, Explanation), EngineError> {
        let ask = || self.ask(|reply| SupervisorMessage::Inspect { operation, reply });
        let mut answer = ask().await;
        if let Err(EngineError::Restarted { .. }) = answer {
            // Or it is over, and gone before it came to the question.
            answer = ask().await;
        }
        match answer {
            Ok(Inspection { view, explanation }) => Ok((view, explanation)),
            Err(EngineError::NotRunning { .. } | EngineError::Restarted { .. }) => self.read(operation).await,
            Err(error) => Err(error),
        }
    }

    /// How an operation stands according to the log.
    pub(super) async fn read(
        &self,
        operation: OperationId,
    ) -> Result<(OperationView, Explanation), EngineError> {
        let loaded = blocking(&self.shared.log, move |log| log.load_as(operation)).await?;
        let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
        let view = view(driver.state()).ok_or(EngineError::Unknown { operation })?;
        Ok((view, explain(driver.state(), self.shared.clock.now())))
    }

    /// Summaries of all operations, oldest first.
    pub async fn list(&self) -> Result<Vec<Summary>, EngineError> {
        self.find(Lookup::all()).await
    }

    /// Summaries of the operations that are all that is asked for, oldest first.
    pub async fn find(&self, lookup: Lookup) -> Result<Vec<Summary>, EngineError> {
        Ok(blocking(&self.shared.log, move |log| operations(log, lookup)).await?)
    }

    /// All facts of an operation that are kept.
    pub async fn facts(&self, operation: OperationId) -> Result<Vec<Fact>, EngineError> {
        Ok(blocking(&self.shared.log, move |log| log.facts_as(operation)).await?.facts)
    }

    /// An operation as the log has it: how it stands, and all its facts that are kept.
    pub async fn history(&self, operation: OperationId) -> Result<(State, Vec<Fact>), EngineError> {
        let read = move |log: &Log| Ok((log.load_as(operation)?, log.facts_as(operation)?.facts));
        let (loaded, facts) = blocking(&self.shared.log, read).await?;
        let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
        Ok((driver.state().clone(), facts))
    }

    /// Makes the log smaller, by what is to be kept. Safe while operations are at work.
    pub async fn compact(&self, keep: Retention) -> Result<Compacted, EngineError> {
        let now = self.shared.clock.now();
        Ok(blocking(&self.shared.log, move |log| log.compact(&keep, now)).await?)
    }

    /// The events of an operation after the fact with a number (0: all of them): first those that the log has, then those
    /// that come, without gap or repetition. The stream ends with the operation, which need not be at work; where facts
    /// were compacted it says so.
    pub async fn events(&self, operation: OperationId, after: u64) -> Result<Events, EngineError> {
        let events = Events::of_one(&self.shared.log, &self.shared.announcer, operation, after);
        let is_known =
            || blocking(&self.shared.log, move |log| Ok(log.entry_as::<Fact>(operation)?.is_some()));
        // It may be on its way to the log, or have come there while it was asked for.
        if is_known().await? || self.at_work().await?.contains(&operation) || is_known().await? {
            Ok(events)
        } else {
            Err(EngineError::Unknown { operation })
        }
    }

    /// What the hooks of an operation at work write while they run, as far as the cluster serves logs: of those that run now,
    /// beginning with their last lines, and of those that begin later. It disturbs nothing: the operation waits for none of it,
    /// no line is recorded, and a slow reader misses lines and is told how many.
    ///
    /// One that is not at work is [`EngineError::NotRunning`], one that is over [`EngineError::AlreadyFinished`].
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutput, EngineError> {
        // Listened to before the first look, so that nothing falls in between.
        let told = self.shared.announcer.listen();
        let asking = AskingHooks { engine: self.clone(), operation };
        let mut first = asking.ask().await;
        if let Err(EngineError::Restarted { .. }) = first {
            first = asking.ask().await;
        }
        match first {
            Ok(first) => Ok(follow(Arc::clone(&self.shared), operation, told, first, asking)),
            Err(EngineError::NotRunning { .. } | EngineError::Restarted { .. }) => {
                let is_known = move |log: &Log| Ok(log.entry_as::<Fact>(operation)?.is_some());
                if !blocking(&self.shared.log, is_known).await? {
                    return Err(EngineError::Unknown { operation });
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

    /// The events of all operations that were not seen: first those that the log has, then those that come, without gap
    /// or repetition, of each operation in order. The stream ends when the engine has stopped. [`Engine::recorded`] is
    /// where to begin with what comes.
    pub fn all_events(&self, seen: Seen) -> Events {
        Events::of_all(&self.shared.log, &self.shared.announcer, seen)
    }

    /// How far the log goes now.
    pub async fn recorded(&self) -> Result<Seen, EngineError> {
        Ok(recorded(&self.shared.log).await?)
    }

    /// The events of all operations from now on.
    pub async fn events_from_now(&self) -> Result<Events, EngineError> {
        Ok(Events::from_now(&self.shared.log, &self.shared.announcer).await?)
    }
}

/// Asks which hooks of an operation run.
struct AskingHooks {
    engine: Engine,
    operation: OperationId,
}

impl Ask for AskingHooks {
    async fn ask(&self) -> Result<RunningHooks, EngineError> {
        let operation = self.operation;
        self.engine.ask(|reply| SupervisorMessage::RunningHooks { operation, reply }).await
    }
}
