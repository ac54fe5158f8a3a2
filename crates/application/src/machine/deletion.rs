//! Deletion of an application.

use tidegate_model::argo::{ObjectMeta, OperationRequest};
use tidegate_model::{OperationId, Timestamp};

use super::{ApplicationMachine, Call, Pending, Phase, RETRY_DELAY, World};
use crate::deletion::{self, NextDeletionStep, is_own_finalizer};
use crate::operation::{self, EngineProgress};
use crate::refresh::{self, REFRESH_ANNOTATION, RefreshLevel};

impl ApplicationMachine {
    /// Takes over the metadata that a deletion request has written.
    pub fn set_deleted(&mut self, metadata: ObjectMeta) {
        self.application.metadata = metadata;
        self.writes.forget_stored();
    }

    /// Retries a failed deletion immediately.
    pub fn retry_deletion(&mut self) {
        if deletion::has_failed_deletion(&self.application) {
            self.request_comparison(RefreshLevel::Forced);
        }
    }

    /// Starts or retries the deletion, or removes the finalizers once it is complete.
    pub(super) fn progress_deletion(&mut self, world: &dyn World, now: Timestamp) {
        if refresh::is_skipped(&self.application) {
            return self.confirm(world, now);
        }
        match deletion::unfounded_deletion_message(&self.application) {
            // A deletion that has started continues.
            Some(_) if self.operation_id().is_some() && self.withdrawn_deletion == self.operation_id() => {}
            Some(rejection) => {
                // Stop the handover first, so that the engine's response is final.
                let operation = self.operation_id();
                self.phase = Phase::Idle;
                let pending = Pending::Handover { operation, rejection };
                return self.call(Call::StopHandover { operation }, pending);
            }
            None => {}
        }
        self.continue_deletion(world, now);
    }

    /// Withdraws a canceled deletion, unless it has started.
    pub(super) fn finish_withdrawal(
        &mut self,
        operation: Option<OperationId>,
        rejection: String,
        is_begun: bool,
        now: Timestamp,
    ) {
        if is_begun {
            self.withdrawn_deletion = operation;
        } else {
            operation::apply_progress(&mut self.application, EngineProgress::rejected(rejection, now));
            self.request_comparison(RefreshLevel::Latest);
        }
    }

    pub(super) fn continue_deletion(&mut self, world: &dyn World, now: Timestamp) {
        let mut is_requested = false;
        if self.application.is_deleting() && !self.is_deletion_blocked {
            // Applications that are being deleted aren't compared, so a refresh request retries the deletion
            // instead.
            let annotated = self.application.metadata.annotations.remove(REFRESH_ANNOTATION).is_some();
            let mut forces = || {
                let requested = self.comparison.requested_level.take();
                requested.is_some_and(|level| level >= RefreshLevel::Forced)
            };
            is_requested = annotated || forces();
        }
        self.drop_outdated_deletion();
        let is_other = |request: &OperationRequest| {
            operation::engine_id(request).is_none() && operation::deletion_cascade(request).is_none()
        };
        if self.application.is_deleting()
            && self.phase != Phase::Preparing
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
            NextDeletionStep::Wait(until) => self.wake(until),
            NextDeletionStep::Release => return self.call(Call::Release, Pending::Release),
        }
        self.confirm(world, now);
    }

    pub(super) fn finish_release(&mut self, is_released: bool, now: Timestamp) {
        if is_released {
            self.application.metadata.finalizers.retain(|one| !is_own_finalizer(one));
        } else {
            self.wake(now + RETRY_DELAY);
        }
    }

    /// Drops a waiting deletion if a client has since changed the cascade in the finalizers.
    fn drop_outdated_deletion(&mut self) {
        let cascade = deletion::cascade_from_finalizers(&self.application);
        let is_outdated = |request: &OperationRequest| {
            let requested = operation::deletion_cascade(request);
            operation::engine_id(request).is_none() && requested.is_some() && requested != cascade
        };
        let waits = self.application.is_deleting() && self.phase != Phase::Preparing;
        if waits && self.application.operation.as_ref().is_some_and(is_outdated) {
            self.application.operation = None;
        }
    }
}
