//! Confirmation of the running operation's deletions through an annotation on the Application.

use tidegate_application::{confirmation, operation};
use tidegate_executor::EngineError;
use tidegate_model::Requester;

use super::ActorState;

/// Name to record if the user who confirmed the deletions is unknown.
const UNKNOWN_PERSON: &str = "unknown";

impl ActorState {
    /// Forwards a confirmation to the running operation, and again after each new plan, which prompts again.
    /// Called on every step, so it doesn't matter whether the annotation, the prompt or this process came
    /// first.
    pub(super) async fn confirm_deletions(&mut self) {
        let Some(request) = &self.application.operation else { return };
        let Some(id) = operation::engine_id(request).filter(|id| self.running_operation == Some(*id)) else {
            return;
        };
        let Some(reason) = confirmation::confirmation_reason(&self.application, request) else { return };
        let state = self.application.status.operation_state.as_ref();
        let attempt = (id, state.map_or(0, |state| state.retry_count));
        if self.confirmed_operation == Some(attempt) {
            return;
        }
        let by = self.shared.store.writer_of_approval(&self.key);
        let by = by.as_deref().unwrap_or(UNKNOWN_PERSON);
        match self.shared.engine.confirm_prune(id, &Requester { name: by, reason: &reason }.to_text()).await {
            Ok(()) => self.confirmed_operation = Some(attempt),
            // The operation has no prompt, or hasn't reached it yet.
            Err(EngineError::Rejected { .. } | EngineError::NotRunning { .. }) => {}
            Err(error) => {
                tracing::warn!(application = %self.key, %error, "failed to forward a confirmation to the operation")
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;
