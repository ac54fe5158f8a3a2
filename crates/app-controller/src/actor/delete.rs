//! Deletion of an Application.

use ractor::ActorRef;
use tidegate_application::deletion::{self, DeletionRequester, NextDeletionStep, is_own_finalizer};
use tidegate_application::operation::{self, EngineProgress};
use tidegate_application::refresh::{self, REFRESH_ANNOTATION, RefreshLevel};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Requester, Timestamp};

use super::{ActorState, RETRY_DELAY};
use crate::DeletionOptions;
use crate::messages::AppMessage;
use crate::operation_history;

impl ActorState {
    /// Deletes the Application at a user's request. The request is durable once this returns `Ok`.
    pub(super) async fn request_deletion(
        &mut self,
        options: DeletionOptions,
        requester: Requester<'_>,
    ) -> Result<(), String> {
        let DeletionOptions { cascade, no_hooks } = options;
        if deletion::is_deleting_with(&self.application, cascade) {
            if deletion::has_failed_deletion(&self.application) {
                // A repeated request starts the next attempt immediately.
                self.request_comparison(RefreshLevel::Forced);
            }
            return Ok(());
        }
        if let Some(why) = deletion::deletion_refusal(&self.application, &self.key.to_string(), cascade) {
            return Err(why);
        }
        let mut removed = Application::clone(&self.application);
        removed.metadata.finalizers = deletion::finalizers(&self.application, cascade);
        let now = self.now().into();
        removed.metadata.deletion_timestamp = Some(now);
        if let Some(requester) =
            DeletionRequester::with_hooks(requester.name, requester.reason, no_hooks, now)
        {
            requester.annotate(&mut removed.metadata.annotations);
        }
        // Otherwise, an earlier state could still be written after the deletion.
        self.await_write(None).await;
        self.shared.store.delete(&removed).await.map_err(|error| error.to_string())?;
        // If the store is a cluster, its watch reports the deletion time and the remaining finalizers.
        if !self.shared.store.is_shared() {
            self.application.metadata = removed.metadata;
            self.persisted = None;
        }
        Ok(())
    }

    /// Starts or retries the deletion, or removes the finalizers if there is nothing left to do.
    pub(super) async fn progress_deletion(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if refresh::is_skipped(&self.application) {
            return;
        }
        self.withdraw_deletion(now).await;
        let mut is_requested = false;
        if self.application.is_deleting() && !self.is_deletion_blocked {
            // Applications that are being deleted aren't compared, so a refresh request retries the deletion
            // instead.
            let annotated = self.application.metadata.annotations.remove(REFRESH_ANNOTATION).is_some();
            is_requested =
                annotated || self.requested_level.take().is_some_and(|level| level >= RefreshLevel::Forced);
        }
        self.drop_outdated_deletion();
        let is_other = |request: &OperationRequest| {
            operation::engine_id(request).is_none() && operation::deletion_cascade(request).is_none()
        };
        if self.application.is_deleting()
            && !self.is_preparing
            && self.application.operation.as_ref().is_some_and(is_other)
        {
            // The deletion may wait indefinitely, so end the requested operation now.
            operation::apply_progress(
                &mut self.application,
                EngineProgress::terminated("the deletion of the application", now),
            );
        }
        match deletion::decide_deletion(&mut self.application, is_requested, now) {
            NextDeletionStep::Nothing => {}
            NextDeletionStep::Start(started) => self.application.operation = Some(*started),
            NextDeletionStep::Wait(until) => self.set_alarm(myself, until),
            NextDeletionStep::Release => self.remove_finalizers(myself, now).await,
        }
    }

    /// Drops a waiting deletion whose cascade no longer matches the finalizers.
    fn drop_outdated_deletion(&mut self) {
        let cascade = deletion::cascade_from_finalizers(&self.application);
        let is_outdated = |request: &OperationRequest| {
            let meant = operation::deletion_cascade(request);
            operation::engine_id(request).is_none() && meant.is_some() && meant != cascade
        };
        let waits = self.application.is_deleting() && !self.is_preparing;
        if waits && self.application.operation.as_ref().is_some_and(is_outdated) {
            self.application.operation = None;
        }
    }

    /// Withdraws a deletion that is no longer requested, for example because the Application was written
    /// again. Unless it has already started, it never will.
    async fn withdraw_deletion(&mut self, now: Timestamp) {
        let Some(reason) = deletion::unfounded_deletion_message(&self.application) else { return };
        let id = self.application.operation.as_ref().and_then(operation::engine_id);
        if id.is_some() && self.withdrawn_deletion == id {
            return;
        }
        // Stop the handover first, so that the engine's response below is final.
        self.operation_tasks.shutdown().await;
        (self.is_preparing, self.running_operation) = (false, None);
        let is_begun = match id {
            Some(id) => operation_history::is_operation_known(&self.shared, id).await,
            None => false,
        };
        if is_begun {
            self.withdrawn_deletion = id;
        } else {
            operation::apply_progress(&mut self.application, EngineProgress::rejected(reason, now));
            self.request_comparison(RefreshLevel::Latest);
        }
    }

    /// Removes the finalizers once the deletion has finished.
    async fn remove_finalizers(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        let mut released = Application::clone(&self.application);
        released.metadata.finalizers.retain(|one| !is_own_finalizer(one));
        self.await_write(None).await;
        match self.shared.store.release(&released).await {
            Ok(()) => self.application.metadata.finalizers = released.metadata.finalizers,
            Err(error) => {
                tracing::error!(application = %self.key, %error, "failed to remove the finalizers of a deleted application");
                self.set_alarm(myself, now + RETRY_DELAY);
            }
        }
    }
}
