//! What a person has confirmed by an annotation of the application, for the operation under way.

use tidegate_application::{confirmation, operation};
use tidegate_executor::EngineError;
use tidegate_model::Wisher;

use super::AppState;

/// Who has, where nobody knows.
const SOMEBODY: &str = "somebody";

impl AppState {
    /// Passes on what the annotation says, as often as the operation plans anew: what it prunes then is asked about again. It is
    /// looked at in every step, so it does not matter whether the annotation, the wait or this process has come last.
    pub(super) async fn confirm(&mut self) {
        let Some(asked) = &self.application.operation else { return };
        let Some(id) = operation::id(asked).filter(|id| self.carried == Some(*id)) else { return };
        let Some(reason) = confirmation::confirmed(&self.application, asked) else { return };
        let state = self.application.status.operation_state.as_ref();
        let attempt = (id, state.map_or(0, |state| state.retry_count));
        if self.confirmed == Some(attempt) {
            return;
        }
        let by = self.shared.store.writer_of_approval(&self.key);
        let by = by.as_deref().unwrap_or(SOMEBODY);
        match self.shared.engine.confirm_prune(id, &Wisher { by, reason: &reason }.text()).await {
            Ok(()) => self.confirmed = Some(attempt),
            // It is not that far yet, or has nothing that asks.
            Err(EngineError::Refused { .. } | EngineError::NotRunning { .. }) => {}
            Err(error) => {
                tracing::warn!(application = %self.key, %error, "a confirmation cannot be passed on")
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests;
