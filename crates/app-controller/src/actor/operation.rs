//! The operation that was requested for an Application.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_application::approval;
use tidegate_application::dependencies::DEPENDS_ON;
use tidegate_application::history as remembered;
use tidegate_application::operation::{self, EngineProgress, ID_INFO};
use tidegate_application::refresh::{self, RefreshLevel};
use tidegate_application::rollout_operation;
use tidegate_application::supersede::{self, BusyError, OPERATION_REFUSED_CONDITION};
use tidegate_model::argo::OperationRequest;
use tidegate_model::{ClaimConflictPolicy, OperationId, PlanApproval, Requester, Timestamp};

use super::ActorState;
use crate::messages::{AppMessage, PlanReference};
use crate::operation_start;
use crate::run_operation;
use crate::write_refusal_event;

impl ActorState {
    /// Requests an operation. The request is durable once this returns `Ok`.
    pub(super) async fn request_operation(
        &mut self,
        myself: &ActorRef<AppMessage>,
        request: OperationRequest,
        plan: Option<PlanReference>,
    ) -> Result<(), String> {
        // A plan runs exactly as it was approved, so its revisions aren't checked. As in Argo CD, clients
        // that write the resource may specify any revision.
        let is_another_matter = self.application.is_deleting()
            || self.problem.is_some()
            || refresh::skip_reason(&self.application).is_some();
        if plan.is_none() && !is_another_matter {
            operation::check_named_revisions(&self.application, &request)
                .map_err(|refused| refused.to_string())?;
        }
        let before = (self.application.operation.clone(), self.application.status.operation_state.clone());
        let answer = self.set_operation(request, plan);
        if answer.is_ok() {
            self.load_pending_plan().await;
            self.reset_operation_status(self.now());
        }
        let persisted = self.persist_now(myself).await;
        if answer.is_ok() && persisted.is_err() {
            // The caller gets an error, so undo the request.
            (self.application.operation, self.application.status.operation_state) = before;
        }
        answer.and(persisted)
    }

    /// Terminates the current operation. Fails if `meant` is a different operation.
    pub(super) async fn terminate_operation(
        &mut self,
        meant: Option<OperationId>,
        by: &str,
    ) -> Result<(), String> {
        let current = self.application.operation.as_ref().map(operation::engine_id);
        if let (Some(meant), Some(current)) = (meant, current)
            && current != Some(meant)
        {
            let current = current.map(|id| format!(": {id}")).unwrap_or_default();
            return Err(format!(
                "operation {meant} for application {} has ended, and another operation is running{current}; \
                 check that operation before you terminate it",
                self.key
            ));
        }
        self.terminate_current(by).await
    }

    /// Terminates the current operation, even if it hasn't started yet.
    pub(super) async fn terminate_current(&mut self, by: &str) -> Result<(), String> {
        let Some(request) = &self.application.operation else {
            return Err("Unable to terminate operation. No operation is in progress".to_owned());
        };
        let id = operation::engine_id(request);
        if let Some(id) = id
            && run_operation::terminate(&self.shared, id, by).await?
        {
            operation::set_terminating(&mut self.application);
            return Ok(());
        }
        // Stop the handover in case the engine doesn't have the operation yet. It may still have received it
        // in the meantime.
        self.operation_tasks.shutdown().await;
        (self.is_preparing, self.running_operation) = (false, None);
        if let Some(id) = id
            && run_operation::terminate(&self.shared, id, by).await?
        {
            operation::set_terminating(&mut self.application);
            return Ok(());
        }
        let now = self.now();
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
        // Persist immediately, because after a crash only the persisted state keeps the operation from
        // starting.
        self.is_urgent = true;
        if self.application.operation.is_none() {
            let Requester { name: by, reason } = Requester::parse(by);
            let by = PlanApproval { by: by.to_owned(), reason: reason.to_owned(), at: now };
            self.withdraw_plan(Some(by)).await;
        }
        self.request_comparison(RefreshLevel::Latest);
        Ok(())
    }

    pub(super) fn set_operation(
        &mut self,
        mut request: OperationRequest,
        plan: Option<PlanReference>,
    ) -> Result<(), String> {
        operation::remove_controller_infos(&mut request);
        let policy = supersede::take_policy(&mut request).map_err(|busy| busy.to_string())?;
        if let Some(reason) = refresh::skip_reason(&self.application) {
            return Err(reason);
        }
        if self.application.is_deleting() {
            return Err(format!("application {} is deleting", self.key));
        }
        if let Some(cycle) = self.dependency_cycle() {
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
        if let Some(held) = self.shared.sync_windows(&self.application).find_hold(true, self.now()) {
            return Err(operation_start::window_error(&held));
        }
        if let Some(PlanReference { hash, allow_drift }) = plan {
            approval::set_plan(&mut request, &hash.to_string(), allow_drift);
        }
        let now = self.now();
        supersede::accept_request(&mut self.application, request, (policy, !self.is_preparing), now)
            .map_err(|busy| busy.to_string())
    }

    pub(super) fn handle_preparation(&mut self, prepared: Result<(Vec<String>, OperationId), String>) {
        self.is_preparing = false;
        match prepared {
            Ok((revisions, id)) => {
                // The resolved commit may be newer than the last observed commit. The dependencies must use
                // the same commit.
                self.prepared_revisions = Some(revisions.clone());
                let is_held = self.dependencies_not_ready().is_some();
                let Some(request) = &mut self.application.operation else { return };
                if is_held && operation::deletion_cascade(request).is_none() {
                    return;
                }
                request.set_info(ID_INFO, id.to_string());
                operation::set_revisions(&mut self.application, &revisions);
            }
            Err(message) => {
                self.refuse_operation(message);
                self.request_comparison(RefreshLevel::Latest);
            }
        }
    }

    /// Rejects the requested operation before it starts. This is recorded only in the operation's state and
    /// in a Kubernetes Event.
    pub(super) fn refuse_operation(&mut self, reason: String) {
        let refused = EngineProgress::rejected(reason.clone(), self.now());
        operation::apply_progress(&mut self.application, refused);
        let (shared, application) = (Arc::clone(&self.shared), self.application.clone());
        self.tasks.spawn(async move { write_refusal_event(&shared, &application, &reason).await });
    }

    pub(super) fn handle_progress(&mut self, id: OperationId, progress: EngineProgress) {
        let is_current = self.application.operation.as_ref().and_then(operation::engine_id) == Some(id);
        if !is_current {
            return;
        }
        let automated =
            self.application.operation.as_ref().is_some_and(|request| request.initiated_by.automated);
        self.compare_before_retry(&progress);
        let again = self.repeat_request(&progress);
        operation::apply_progress(&mut self.application, progress);
        self.record_child_begin(id);
        if self.application.operation.is_none() && !self.application.is_deleting() {
            self.application.operation = again;
        }
        if self.application.operation.as_ref().and_then(operation::engine_id) != Some(id) {
            self.running_operation = None;
            self.ended_operations = self.ended_operations.wrapping_add(1);
            // Earlier comparisons don't include the operation's effects.
            self.undecided_comparisons = 0;
            self.comparison_cache.clear();
            self.deployments.newest =
                rollout_operation::last_deployment(&self.application).or(self.deployments.newest.take());
            let now = self.now();
            remembered::set_rebuilt_condition(&mut self.application, None, now);
            self.set_condition(OPERATION_REFUSED_CONDITION, &[], now);
            // Compare after the operation has finished, so that its effects are included.
            self.request_comparison(if automated { RefreshLevel::Latest } else { RefreshLevel::Forced });
        }
    }

    /// Records why an operation that hasn't reached the engine yet is waiting.
    pub(super) fn set_wait_reason(&mut self, id: OperationId, reason: String) {
        if self.application.operation.as_ref().and_then(operation::engine_id) == Some(id) {
            let now = self.now();
            operation::set_waiting(&mut self.application, reason, now);
        }
    }

    /// Resets the status for an operation that has no ID yet and isn't waiting. It would otherwise show the
    /// previous operation until the new operation reports progress.
    pub(super) fn reset_operation_status(&mut self, now: Timestamp) {
        let has_no_id = self
            .application
            .operation
            .as_ref()
            .is_some_and(|request| operation::engine_id(request).is_none());
        // Check this first, because getting mutable access copies the Application.
        if has_no_id && !operation::describes_current_operation(&self.application) {
            operation::set_starting(&mut self.application, now);
        }
    }

    /// Prepares or runs the requested operation.
    pub(super) fn run_operation(&mut self, myself: &ActorRef<AppMessage>) {
        let Some(request) = &self.application.operation else { return };
        let with = || (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        match operation::engine_id(request) {
            Some(id) if self.running_operation != Some(id) => {
                let (shared, application, actor) = with();
                self.running_operation = Some(id);
                self.operation_tasks.spawn(run_operation::run(shared, application.share(), id, actor));
            }
            None if !self.is_preparing => {
                let (shared, application, actor) = with();
                self.is_preparing = true;
                self.operation_tasks.spawn(async move {
                    let prepared = run_operation::prepare(&shared, &application).await;
                    drop(actor.send_message(AppMessage::OperationPrepared(prepared)));
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
