//! Operations that other engines with the same log run.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::OperationId;
use tidegate_oplog::{OwnedShards, Shard};

use super::state::{Handover, Reply, SupervisorState};
use crate::actors::operation::OperationMessage;
use crate::error::EngineError;

impl SupervisorState {
    /// Runs only the operations in these shards from now on. Stops the others, and answers once they have stopped.
    pub(super) fn set_owned_shards(
        &mut self,
        owned: OwnedShards,
        shard_of: Arc<dyn Fn(&str) -> Shard + Send + Sync>,
        reply: Reply<()>,
    ) {
        if let Err(error) = self.check_log() {
            return drop(reply.send(Err(error)));
        }
        self.shared.assignment.set(owned, shard_of);
        // The other engines may have started and finished operations.
        self.shard_changes = self.shard_changes.saturating_add(1);
        self.open = None;
        let assignment = &self.shared.assignment;
        let is_managed = |application: &str| assignment.owns(assignment.shard_of(application));
        for (application, queue) in self.queues.extract_if(|application, _| !is_managed(application)) {
            for submission in queue {
                let error = EngineError::HandedOver { application: application.clone() };
                let _ = submission.reply.send(Err(error));
            }
        }
        let operations: BTreeSet<_> =
            self.running.keys().filter(|operation| self.is_handed_over(**operation)).copied().collect();
        self.handovers.push(Handover { operations: operations.clone(), reply });
        for operation in operations {
            match self.running.get(&operation) {
                Some(child) if !child.is_down => {
                    let _ = child.actor.send_message(OperationMessage::Shutdown);
                }
                // An operation with a failed actor needn't be stopped.
                _ => self.handle_actor_end(operation),
            }
        }
        self.finish_handovers();
    }

    /// Returns the shard of an application's new operations, or an error if another engine owns it.
    pub(super) fn check_managed(&self, application: &str) -> Result<Shard, EngineError> {
        self.check_owned(self.shared.assignment.shard_of(application), application)
    }

    /// Returns the shard of an application's operation, or an error if another engine owns it.
    pub(super) fn check_owned(&self, shard: Shard, application: &str) -> Result<Shard, EngineError> {
        match self.shared.assignment.owns(shard) {
            true => Ok(shard),
            false => Err(EngineError::HandedOver { application: application.to_owned() }),
        }
    }

    /// Returns true if an operation stops because another engine continues it.
    pub(super) fn is_handed_over(&self, operation: OperationId) -> bool {
        self.running.get(&operation).is_some_and(|child| !self.shared.assignment.owns(child.shard))
    }

    /// Answers the handovers whose operations have all stopped.
    pub(super) fn finish_handovers(&mut self) {
        let running = &self.running;
        for handover in &mut self.handovers {
            handover.operations.retain(|operation| running.contains_key(operation));
        }
        for done in self.handovers.extract_if(.., |handover| handover.operations.is_empty()) {
            let _ = done.reply.send(Ok(()));
        }
    }
}
