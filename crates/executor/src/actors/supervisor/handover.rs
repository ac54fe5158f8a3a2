//! Applications that another engine with the same log manages.

use std::collections::BTreeSet;

use tidegate_model::OperationId;

use super::state::{Handover, Reply, SupervisorState};
use crate::actors::operation::OperationMessage;
use crate::error::EngineError;

impl SupervisorState {
    /// Stops the operations of these applications, and answers once they have stopped.
    pub(super) fn hand_over(&mut self, applications: BTreeSet<String>, reply: Reply<()>) {
        if let Err(error) = self.check_log() {
            return drop(reply.send(Err(error)));
        }
        for application in &applications {
            for submission in self.queues.remove(application).into_iter().flatten() {
                let error = EngineError::HandedOver { application: application.clone() };
                let _ = submission.reply.send(Err(error));
            }
        }
        let affected = self.running.iter().filter(|(_, child)| applications.contains(&child.application));
        let operations: BTreeSet<_> = affected.map(|(operation, _)| *operation).collect();
        self.handed_over.extend(applications);
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

    /// Manages these applications again.
    pub(super) fn take_over(&mut self, applications: &BTreeSet<String>, reply: Reply<()>) {
        self.handed_over.retain(|application| !applications.contains(application));
        // The other engine may have started and finished operations.
        self.takeovers = self.takeovers.saturating_add(1);
        self.open = None;
        let _ = reply.send(Ok(()));
    }

    /// Returns an error if another engine manages an application.
    pub(super) fn check_managed(&self, application: &str) -> Result<(), EngineError> {
        match self.handed_over.get(application) {
            Some(application) => Err(EngineError::HandedOver { application: application.clone() }),
            None => Ok(()),
        }
    }

    /// Returns true if an operation stops because another engine continues it.
    pub(super) fn is_handed_over(&self, operation: OperationId) -> bool {
        self.running.get(&operation).is_some_and(|child| self.handed_over.contains(&child.application))
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
