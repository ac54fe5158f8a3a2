//! Applications that another engine with the same log manages.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::OperationId;

use super::state::{ApplicationFilter, Handover, Reply, SupervisorState};
use crate::actors::operation::OperationMessage;
use crate::error::EngineError;

impl SupervisorState {
    /// Manages only these applications from now on. Stops the operations of the others, and answers once they have
    /// stopped.
    pub(super) fn set_managed(&mut self, filter: ApplicationFilter, reply: Reply<()>) {
        if let Err(error) = self.check_log() {
            return drop(reply.send(Err(error)));
        }
        self.is_managed = filter;
        // The other engines may have started and finished operations.
        self.filter_changes = self.filter_changes.saturating_add(1);
        self.open = None;
        let is_managed = Arc::clone(&self.is_managed);
        for (application, queue) in self.queues.extract_if(|application, _| !is_managed(application)) {
            for submission in queue {
                let error = EngineError::HandedOver { application: application.clone() };
                let _ = submission.reply.send(Err(error));
            }
        }
        let affected = self.running.iter().filter(|(_, child)| !is_managed(&child.application));
        let operations: BTreeSet<_> = affected.map(|(operation, _)| *operation).collect();
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

    /// Returns an error if another engine manages an application.
    pub(super) fn check_managed(&self, application: &str) -> Result<(), EngineError> {
        match (self.is_managed)(application) {
            true => Ok(()),
            false => Err(EngineError::HandedOver { application: application.to_owned() }),
        }
    }

    /// Returns true if an operation stops because another engine continues it.
    pub(super) fn is_handed_over(&self, operation: OperationId) -> bool {
        self.running.get(&operation).is_some_and(|child| !(self.is_managed)(&child.application))
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
