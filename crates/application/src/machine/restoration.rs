//! Restoration from the operation log after a restart, so that no operation runs twice.

use tidegate_model::{OperationId, OperationPhase, Timestamp};

use super::approval::PlanReference;
use super::{ApplicationMachine, World};
use crate::history::{self, LogSummary, LoggedOperation};
use crate::operation;
use crate::rollout_operation::{self, Deployment};
use crate::supersede::is_sync_request;

/// Operation to stop because its phase in the status is `Terminating`. `None` if it has no ID because it
/// hasn't started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedEnd(Option<OperationId>);

impl ApplicationMachine {
    /// Returns the requested operation if its phase in the status is `Terminating`.
    pub fn requested_end(&self) -> Option<RequestedEnd> {
        let request = operation::engine_id(self.application.operation.as_ref()?);
        let state = self.application.status.operation_state.as_ref()?;
        // A status from before the operation started has no ID.
        let current = operation::engine_id(&state.operation);
        let is_to_end = state.phase == OperationPhase::Terminating
            && state.finished_at.is_none()
            && (current.is_none() || current == request);
        is_to_end.then_some(RequestedEnd(request))
    }

    /// Returns true if the current operation is the one to stop.
    pub fn is_to_end(&self, RequestedEnd(operation): RequestedEnd) -> bool {
        self.application.operation.is_some() && self.operation_id().is_none_or(|id| Some(id) == operation)
    }

    /// Marks the application as not managed, for example because its log can't be read.
    pub fn set_problem(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Adds the operations that the status lacks. Returns their number.
    pub fn apply_history(
        &mut self,
        unknown: Vec<LoggedOperation>,
        summaries: &[LogSummary],
        world: &dyn World,
        now: Timestamp,
    ) -> usize {
        let request = self.application.operation.clone().filter(is_sync_request);
        if request.is_some() {
            history::restore_operation(&mut self.application, summaries);
        }
        let count = history::apply_history(&mut self.application, unknown);
        if let Some(request) = request.filter(|request| self.application.operation.as_ref() != Some(request))
        {
            // A client wrote this operation while the service was stopped, and according to the log, a
            // different operation is still running.
            self.handle_written_operation(request, world, now);
        }
        count
    }

    /// Checks the operation in a status that an earlier process has written. `is_fenced` is true if no other
    /// service can be running the operation.
    pub fn verify_operation(&mut self, summaries: &[LogSummary], is_fenced: bool, now: Timestamp) {
        let plan = self.application.operation.as_ref().and_then(PlanReference::from_request);
        if !is_fenced || !history::is_interrupted(&self.application, summaries, now) {
            history::verify_operation(&mut self.application, summaries, now);
        }
        self.restore_plan(plan);
        if let Some(placed) = self.child_operation() {
            self.record_child_begin(placed);
        }
    }

    /// Returns the newest deployment that the status knows.
    pub fn last_deployment(&self) -> Option<Deployment> {
        rollout_operation::last_deployment(&self.application)
    }

    /// Sets the newest deployment.
    pub fn set_newest_deployment(&mut self, deployment: Option<Deployment>) {
        self.deployments.newest = deployment;
    }

    /// Sets the condition that reports a rebuilt status.
    pub fn report_rebuilt_status(&mut self, message: String, now: Timestamp) {
        history::set_rebuilt_condition(&mut self.application, Some(message), now);
    }
}
