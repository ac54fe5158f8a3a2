//! Requests to delete an ApplicationSet, even if it is already being deleted.

use tidegate_application::deletion::DeletionRequester;
use tidegate_applicationset::deletion::{AppSetDeletionStep, ORPHAN_FINALIZER, next_deletion_step};
use tidegate_applicationset::deletion_progress::split_skipped;
use tidegate_applicationset::rollout::qualified_name;

use super::ActorState;
use crate::members;

impl ActorState {
    /// Deletes the ApplicationSet.
    pub(super) async fn request_deletion(
        &mut self,
        orphan: bool,
        by: &str,
        reason: &str,
    ) -> Result<(), String> {
        if self.is_deleting() && (!orphan || !self.shared.store.is_shared()) {
            return self.repeat_deletion_request(orphan);
        }
        let existing = members::existing_members(&self.shared, &self.set, None);
        let (_, existing) = split_skipped(&self.set, self.teardowns.newest(), &existing);
        let known = self.shared.applications.as_ref();
        // The deletion order can't be fixed during the deletion, so check it now.
        if let (false, AppSetDeletionStep::InvalidOrder(invalid)) =
            (orphan, next_deletion_step(&self.set, &existing, known, &self.shared.options))
        {
            return Err(format!(
                "{invalid}; `--orphan` deletes the ApplicationSet and keeps its Applications"
            ));
        }
        tracing::info!(set = %self.key, orphan, by, "deleting an ApplicationSet");
        let mut removed = self.set.clone();
        if let Some(requester) = DeletionRequester::new(by, reason, self.now().into()) {
            requester.annotate(&mut removed.metadata.annotations);
        }
        self.shared.store.delete(&removed, orphan).await.map_err(|error| error.to_string())?;
        // The ApplicationSet may be gone by the time an event reports the change.
        self.set.metadata.annotations = removed.metadata.annotations;
        Ok(())
    }

    /// Handles a repeated deletion request. The first request still applies.
    fn repeat_deletion_request(&self, orphan: bool) -> Result<(), String> {
        let name = qualified_name(&self.set);
        if orphan && !self.set.metadata.finalizers.iter().any(|one| one == ORPHAN_FINALIZER) {
            return Err(format!(
                "ApplicationSet {name} is already being deleted together with its Applications; `tidegate appset skip {name} --app \
                 APPLICATION --reason …` keeps one of them, and `tidegate appset terminate {name}` ends the deletion"
            ));
        }
        // An incomplete deletion only continues after a retry request.
        let is_over = self.teardowns.running.is_none()
            && self.requested_retry.is_none()
            && self.incomplete_deletion().is_some();
        match self.describe_incomplete_deletion().filter(|_| is_over) {
            Some(reason) => Err(format!("ApplicationSet {name} is already being deleted, and {reason}")),
            None => Ok(()),
        }
    }
}
