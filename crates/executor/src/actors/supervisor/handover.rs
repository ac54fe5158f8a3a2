//! Operations that stop because another engine with the same log continues them.

use std::collections::BTreeSet;

use tidegate_model::OperationId;

use super::state::{Handover, Reply, SupervisorState};
use crate::actors::operation::OperationMessage;

impl SupervisorState {
    /// Stops the operations of these applications, and answers once they have stopped.
    pub(super) fn hand_over(&mut self, applications: &BTreeSet<String>, reply: Reply<()>) {
        // Another engine starts operations of these applications from now on, or has started some until now.
        self.open = None;
        let affected = self.running.iter().filter(|(_, child)| applications.contains(&child.application));
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

    /// Returns true if an operation stops because another engine continues it.
    pub(super) fn is_handed_over(&self, operation: OperationId) -> bool {
        self.handovers.iter().any(|handover| handover.operations.contains(&operation))
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
