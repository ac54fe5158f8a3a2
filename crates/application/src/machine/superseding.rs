//! Requests and revisions that arrive while an operation is running.

use tidegate_model::argo::OperationRequest;
use tidegate_model::{OperationId, Timestamp};

use super::{ApplicationMachine, Call, Effect, OperationRelation, Pending, StartConditions, World};
use crate::operation::EngineProgress;
use crate::refresh::RefreshLevel;
use crate::sources::revisions_of_fields;
use crate::supersede::{
    self, ManifestComparison, NEW_REVISION_CONDITION, OPERATION_REFUSED_CONDITION, POLICY_INFO,
    SupersedeDecision, SupersedeInputs,
};

/// Requests that wait for the current operation to finish.
#[derive(Default)]
pub(super) struct SupersedeState {
    /// Operation that is being stopped in favor of another.
    ending_operation: Option<OperationId>,
    /// Step that the operation is in, if it must not be interrupted.
    uninterruptible_step: Option<String>,
    /// Relation of the last comparison's manifests to those of the operation that was running when it
    /// started.
    last_comparison: OperationRelation,
    /// Revisions that were compared last.
    revisions: Vec<String>,
}

impl ApplicationMachine {
    /// Handles an operation that a client has written to the resource. There is no way to reply, so a
    /// rejection is shown as a condition until the running operation finishes.
    pub fn handle_written_operation(&mut self, request: OperationRequest, world: &dyn World, now: Timestamp) {
        if self.application.operation.is_none() {
            self.application.operation = Some(request);
            return;
        }
        let request = supersede::normalize_written_request(request);
        let refused = self.set_operation(request, None, world, now).err().map(|reason| {
            format!(
                "the operation in the resource was rejected: {reason}; set {POLICY_INFO} in the operation's \
                 info to `queue` to run it after the running operation, or to `supersede` to replace the \
                 running operation"
            )
        });
        self.set_condition(OPERATION_REFUSED_CONDITION, refused.as_slice(), now);
    }

    /// Requests a comparison before a retry that may use a newer revision.
    pub(super) fn compare_before_retry(&mut self, progress: &EngineProgress) {
        let takes_newest =
            |request: &OperationRequest| request.retry.as_ref().is_some_and(|retry| retry.refresh);
        let state = self.application.status.operation_state.as_ref();
        let is_news = state.is_none_or(|state| state.message != progress.message);
        if is_news
            && supersede::awaits_retry(&progress.message)
            && self.application.operation.as_ref().is_some_and(takes_newest)
        {
            self.request_comparison(RefreshLevel::Forced);
        }
    }

    /// Records how a finished comparison's manifests relate to the running operation's. Everything else about
    /// the comparison is in the status.
    pub(super) fn record_operation_comparison(&mut self, compared: OperationRelation) {
        self.supersede.last_comparison = compared;
        self.supersede.revisions = self.newest_revisions();
    }

    fn newest_revisions(&self) -> Vec<String> {
        let newest = self.application.status.sync.as_ref();
        newest.map(|sync| revisions_of_fields(&sync.revision, &sync.revisions)).unwrap_or_default()
    }

    /// Returns how the newest manifests relate to the running operation's, or `None` until a comparison has
    /// covered both. Comparisons by an earlier process, for a different operation or for other revisions
    /// don't count.
    fn newest_manifests(&self) -> Option<ManifestComparison> {
        let SupersedeState { last_comparison, revisions, .. } = &self.supersede;
        let current = self.operation_id()?;
        let is_about = last_comparison.operation == Some(current) && *revisions == self.newest_revisions();
        is_about.then_some(last_comparison.newest)
    }

    /// Requests a comparison if there are newer revisions whose manifests haven't been compared with the
    /// operation's.
    pub(super) fn compare_newer_revisions(&mut self) {
        if supersede::has_newer_revisions(&self.application) && self.newest_manifests().is_none() {
            self.request_comparison(RefreshLevel::Recent);
        }
    }

    /// Decides from the last comparison whether to stop the operation, and updates the condition about
    /// waiting requests.
    pub(super) fn decide_supersede(&mut self, world: &dyn World, now: Timestamp) -> SupersedeDecision {
        let newest = self.newest_manifests().unwrap_or_default();
        if self.problem.is_none() {
            supersede::set_retry_successor(&mut self.application, newest);
        }
        let is_blocked = self.application.operation.is_some()
            && world.sync_windows(&self.application).find_hold(false, now).is_some();
        let inputs = SupersedeInputs { is_blocked, newest_manifests: newest };
        let decision = supersede::decide_supersede(&self.application, inputs, now);
        let text = match &decision {
            SupersedeDecision::Continue => None,
            SupersedeDecision::Finish(reason) => Some(reason.clone()),
            SupersedeDecision::Supersede { why, .. } => Some(match &self.supersede.uninterruptible_step {
                Some(uninterruptible_step) => format!("{why}: {uninterruptible_step}"),
                None => why.clone(),
            }),
        };
        self.set_condition(NEW_REVISION_CONDITION, text.as_slice(), now);
        if self.application.operation.is_none() {
            self.set_condition(OPERATION_REFUSED_CONDITION, &[], now);
        }
        decision
    }

    /// Stops the operation if that was decided and is currently safe. Called again whenever the operation
    /// makes progress.
    pub(super) fn supersede_operation(
        &mut self,
        decision: SupersedeDecision,
        start: StartConditions,
        now: Timestamp,
    ) {
        match (decision, self.operation_id()) {
            (SupersedeDecision::Supersede { by, when, .. }, Some(operation)) => {
                if self.supersede.ending_operation != Some(operation) {
                    let call = Call::Supersede { operation, by, when };
                    return self.call(call, Pending::Supersede { operation, start });
                }
            }
            _ => (self.supersede.ending_operation, self.supersede.uninterruptible_step) = (None, None),
        }
        self.start(start, now);
    }

    pub(super) fn finish_superseding(&mut self, operation: OperationId, result: Result<(), String>) {
        if result.is_ok() {
            self.supersede.ending_operation = Some(operation);
        }
        let uninterruptible_step = result.err();
        if self.supersede.uninterruptible_step != uninterruptible_step {
            self.supersede.uninterruptible_step = uninterruptible_step;
            // Trigger a step, or the change would stay unpublished until the next input.
            self.effects.push(Effect::Again);
        }
    }
}
