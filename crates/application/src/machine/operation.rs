//! The requested operation, from the request to its result.

use tidegate_model::argo::{OperationRequest, OperationState};
use tidegate_model::{ClaimConflictPolicy, OperationId, Requester, Timestamp};

use super::approval::PlanReference;
use super::{ApplicationMachine, Call, Effect, Pending, Phase, PreparationId, World};
use crate::dependencies::DEPENDS_ON;
use crate::operation::{self, EngineProgress, ID_INFO};
use crate::refresh::{self, RefreshLevel};
use crate::supersede::{self, BusyError, OPERATION_REFUSED_CONDITION};
use crate::{approval, confirmation, history, rollout_operation};

/// Operation and status before a request, for undoing it.
pub struct OperationBackup {
    operation: Option<OperationRequest>,
    state: Option<OperationState>,
}

impl ApplicationMachine {
    /// Returns the current operation and its status.
    pub fn back_up_operation(&self) -> OperationBackup {
        OperationBackup {
            operation: self.application.operation.clone(),
            state: self.application.status.operation_state.clone(),
        }
    }

    /// Undoes a request that could not be stored.
    pub fn undo_request(&mut self, backup: OperationBackup) {
        self.application.operation = backup.operation;
        self.application.status.operation_state = backup.state;
    }

    /// Accepts a client's request. The caller stores it.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request is rejected.
    pub fn request_operation(
        &mut self,
        request: OperationRequest,
        plan: Option<PlanReference>,
        world: &dyn World,
        now: Timestamp,
    ) -> Result<(), String> {
        // A plan runs exactly as it was approved, so its revisions aren't checked. As in Argo CD, clients
        // that write the resource may specify any revision.
        let is_rejected_anyway = self.application.is_deleting()
            || self.problem.is_some()
            || refresh::skip_reason(&self.application).is_some();
        if plan.is_none() && !is_rejected_anyway {
            operation::check_named_revisions(&self.application, &request)
                .map_err(|refusal| refusal.to_string())?;
        }
        self.set_operation(request, plan, world, now)
    }

    /// Accepts a request to roll back to a sync in the history. The caller stores it.
    ///
    /// # Errors
    ///
    /// Returns the reason why the request is rejected.
    pub fn rollback_request(
        &self,
        id: Option<i64>,
        prune: bool,
        by: Requester<'_>,
    ) -> Result<OperationRequest, String> {
        if self.application.is_deleting() {
            return Err(format!("application {} is deleting", self.key));
        }
        let mut request = operation::rollback_operation(&self.application, id, prune)
            .map_err(|refusal| refusal.to_string())?;
        by.name.clone_into(&mut request.initiated_by.username);
        operation::set_reason(&mut request, by.reason);
        Ok(request)
    }

    pub(super) fn set_operation(
        &mut self,
        mut request: OperationRequest,
        plan: Option<PlanReference>,
        world: &dyn World,
        now: Timestamp,
    ) -> Result<(), String> {
        operation::remove_controller_infos(&mut request);
        let policy = supersede::take_policy(&mut request).map_err(|busy| busy.to_string())?;
        if let Some(reason) = refresh::skip_reason(&self.application) {
            return Err(reason);
        }
        if self.application.is_deleting() {
            return Err(format!("application {} is deleting", self.key));
        }
        if let Some(cycle) = self.dependency_cycle(world) {
            return Err(format!(
                "application {} cannot be synced: {DEPENDS_ON} forms a cycle: {cycle}; remove one of these dependencies",
                self.key
            ));
        }
        if self.application.operation.is_some() && policy == ClaimConflictPolicy::Refuse {
            return Err(BusyError::InProgress(self.key.to_string()).to_string());
        }
        if let Some(problem) = &self.problem {
            return Err(format!("application {} cannot be synced: {problem}", self.key));
        }
        if let Some(hold) = world.sync_windows(&self.application).find_hold(true, now) {
            return Err(hold.sync_error());
        }
        if let Some(PlanReference { hash, allow_drift }) = plan {
            approval::set_plan(&mut request, &hash.to_string(), allow_drift);
        }
        let may_replace = self.phase != Phase::Preparing;
        supersede::accept_request(&mut self.application, request, policy, may_replace, now)
            .map_err(|busy| busy.to_string())
    }

    /// Checks a request to terminate an operation. `expected` restricts it to one operation.
    ///
    /// # Errors
    ///
    /// Returns a message if no operation is in progress, or a different one than `expected`.
    pub fn check_termination(&self, expected: Option<OperationId>) -> Result<Option<OperationId>, String> {
        let Some(request) = &self.application.operation else {
            return Err("Unable to terminate operation. No operation is in progress".to_owned());
        };
        let current = operation::engine_id(request);
        match expected {
            Some(expected) if current != Some(expected) => {
                let current = current.map(|id| format!(": {id}")).unwrap_or_default();
                Err(format!(
                    "operation {expected} for application {} has ended, and another operation is running{current}; \
                     check that operation before you terminate it",
                    self.key
                ))
            }
            _ => Ok(current),
        }
    }

    /// Shows the operation as terminating. The engine ends it.
    pub fn set_terminating(&mut self) {
        operation::set_terminating(&mut self.application);
    }

    /// Records that the handover was stopped.
    pub fn stop_handover(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Ends an operation that the engine doesn't have.
    pub fn end_unstarted_operation(&mut self, by: &str, now: Timestamp) {
        if let Some(revisions) = self.rejected_revisions() {
            operation::set_revisions(&mut self.application, &revisions);
        }
        // The start time in the status remains the time at which the operation started to wait.
        let state = self.application.status.operation_state.as_ref();
        let since =
            state.filter(|state| state.finished_at.is_none()).map(|state| state.started_at.timestamp());
        let started_at = since.unwrap_or(now);
        operation::apply_progress(
            &mut self.application,
            EngineProgress { started_at, ..EngineProgress::terminated(by, now) },
        );
        // Store it immediately, because after a crash only the stored state keeps the operation from
        // starting.
        self.writes.set_urgent();
        self.request_comparison(RefreshLevel::Latest);
    }

    pub(super) fn handle_preparation(
        &mut self,
        preparation: PreparationId,
        result: Result<(Vec<String>, OperationId), String>,
        world: &dyn World,
        now: Timestamp,
    ) {
        if self.phase != Phase::Preparing || preparation != self.last_preparation {
            return;
        }
        self.phase = Phase::Idle;
        match result {
            Ok((revisions, id)) => {
                // The resolved commit may be newer than the last observed commit. The dependencies must use
                // the same commit.
                self.prepared_revisions = Some(revisions.clone());
                let is_held = self.dependencies_not_ready(world).is_some();
                let Some(request) = &mut self.application.operation else { return };
                if is_held && operation::deletion_cascade(request).is_none() {
                    return;
                }
                request.set_info(ID_INFO, id.to_string());
                // The ID of an approved plan's operation may come from an earlier process.
                self.new_operation = approval::requested_plan(request).is_none().then_some(id);
                operation::set_revisions(&mut self.application, &revisions);
            }
            Err(message) => {
                self.refuse_operation(message, now);
                self.request_comparison(RefreshLevel::Latest);
            }
        }
    }

    /// Rejects the requested operation before it starts. This is recorded only in the operation's state and
    /// in a Kubernetes Event.
    pub(super) fn refuse_operation(&mut self, reason: String, now: Timestamp) {
        operation::apply_progress(&mut self.application, EngineProgress::rejected(reason.clone(), now));
        self.effects.push(Effect::AnnounceRefusal { reason });
    }

    pub(super) fn handle_progress(
        &mut self,
        id: OperationId,
        progress: EngineProgress,
        world: &dyn World,
        now: Timestamp,
    ) {
        if self.operation_id() != Some(id) {
            return;
        }
        let automated =
            self.application.operation.as_ref().is_some_and(|request| request.initiated_by.automated);
        self.compare_before_retry(&progress);
        let again = self.repeat_request(&progress, world);
        operation::apply_progress(&mut self.application, progress);
        self.record_child_begin(id);
        if self.application.operation.is_none() && !self.application.is_deleting() {
            self.application.operation = again;
        }
        if self.operation_id() == Some(id) {
            return;
        }
        self.phase = Phase::Idle;
        self.comparison.record_operation_end();
        self.deployments.newest =
            rollout_operation::last_deployment(&self.application).or(self.deployments.newest.take());
        history::set_rebuilt_condition(&mut self.application, None, now);
        self.set_condition(OPERATION_REFUSED_CONDITION, &[], now);
        // Compare after the operation has finished, so that its effects are included.
        self.request_comparison(if automated { RefreshLevel::Latest } else { RefreshLevel::Forced });
    }

    /// Records why an operation that hasn't reached the engine yet is waiting.
    pub(super) fn set_wait_reason(&mut self, id: OperationId, reason: String, now: Timestamp) {
        if self.operation_id() == Some(id) {
            operation::set_waiting(&mut self.application, reason, now);
        }
    }

    /// Resets the status for an operation that has no ID yet and isn't waiting. It would otherwise show the
    /// previous operation until the new operation reports progress.
    pub fn reset_operation_status(&mut self, now: Timestamp) {
        let operation = self.application.operation.as_ref();
        let has_no_id = operation.is_some_and(|request| operation::engine_id(request).is_none());
        // Check this first, because getting mutable access copies the application.
        if has_no_id && !operation::describes_current_operation(&self.application) {
            operation::set_starting(&mut self.application, now);
        }
    }

    /// Prepares or runs the requested operation.
    pub(super) fn run_operation(&mut self) {
        let Some(request) = &self.application.operation else { return };
        match operation::engine_id(request) {
            Some(id) if self.phase != Phase::Running(id) => {
                self.phase = Phase::Running(id);
                let is_new = self.new_operation.take() == Some(id);
                self.effects.push(Effect::Run { operation: id, is_new });
            }
            None if self.phase != Phase::Preparing => {
                self.phase = Phase::Preparing;
                self.last_preparation.0 = self.last_preparation.0.wrapping_add(1);
                self.effects.push(Effect::Prepare(self.last_preparation));
            }
            _ => {}
        }
    }

    /// Forwards a confirmation in an annotation to the running operation, and again after each new plan,
    /// which prompts again. Called in every step, so it doesn't matter whether the annotation, the prompt or
    /// this process came first.
    pub(super) fn confirm(&mut self, world: &dyn World, now: Timestamp) {
        if let Some((operation, retry_count, reason)) = self.due_confirmation() {
            let pending = Pending::Confirmation { operation, retry_count };
            return self.call(Call::ConfirmDeletions { operation, reason }, pending);
        }
        self.decide_next(world, now);
    }

    fn due_confirmation(&self) -> Option<(OperationId, i64, String)> {
        let request = self.application.operation.as_ref()?;
        let id = operation::engine_id(request).filter(|id| self.phase == Phase::Running(*id))?;
        let reason = confirmation::confirmation_reason(&self.application, request)?;
        let state = self.application.status.operation_state.as_ref();
        let retry_count = state.map_or(0, |state| state.retry_count);
        (self.confirmed_operation != Some((id, retry_count))).then_some((id, retry_count, reason))
    }
}
