//! Approval of the operation's plan. The plan is created, stored, and checked again after changes. Nothing is
//! written to the cluster until the plan is approved.

use std::time::Duration;

use tidegate_model::argo::OperationRequest;
use tidegate_model::{Digest, PlanApproval, Timestamp, is_outdated_plan_message};

use super::{ApplicationMachine, Effect, PendingPlan, PlanCheck, PlanFailure, World};
use crate::approval::{self, ApprovalPolicy, UNAPPROVED_RESULT, WaitingPlan};
use crate::operation::{self, EngineProgress};
use crate::rollout_operation;

/// Delay before retrying failed planning. A change triggers an earlier retry.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Reference to a stored plan that an operation executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanReference {
    /// Hash of the plan.
    pub hash: Digest,
    /// True if fields outside the plan may have changed since the plan was created.
    pub allow_drift: bool,
}

impl PlanReference {
    /// Returns the plan that an operation request refers to.
    pub fn from_request(request: &OperationRequest) -> Option<Self> {
        let hash = approval::requested_plan(request)?.parse().ok()?;
        Some(Self { hash, allow_drift: approval::allows_drift(request) })
    }
}

/// The plan that is waiting for approval, and the state of its checks.
#[derive(Default)]
pub(super) struct ApprovalState {
    /// True if the operation is currently waiting for approval.
    pub(super) is_needed: bool,
    /// True if something has changed since the plan was last checked.
    is_plan_stale: bool,
    is_checking: bool,
    pending_plan: Option<PendingPlan>,
    /// Reason why a check failed, and the time of the next attempt.
    failure: Option<(String, Timestamp)>,
}

impl ApplicationMachine {
    /// Marks the waiting plan as possibly outdated after something has changed.
    pub(super) fn mark_plan_stale(&mut self) {
        self.approval.is_plan_stale = true;
        self.approval.failure = None;
    }

    /// Restores the plan in the request of an operation that hasn't started. The plan is checked again when
    /// the operation starts.
    pub(super) fn restore_plan(&mut self, plan: Option<PlanReference>) {
        let of_plan = |request: &&mut OperationRequest| {
            operation::engine_id(request).is_none() && operation::deletion_cascade(request).is_none()
        };
        if let Some((PlanReference { hash, allow_drift }, request)) =
            plan.zip(self.application.operation.as_mut().filter(of_plan))
        {
            approval::set_plan(request, &hash.to_string(), allow_drift);
        }
    }

    /// Returns the hash of the plan that the controller must load. `None` if no operation with a plan is
    /// waiting to start.
    pub fn plan_to_load(&mut self) -> Option<Digest> {
        self.approval.is_plan_stale = true;
        let request = self.application.operation.as_ref().filter(|request| self.can_be_withheld(request))?;
        approval::requested_plan(request)?.parse().ok()
    }

    /// Records the plan that the controller has loaded.
    pub fn set_pending_plan(&mut self, plan: PendingPlan) {
        self.approval.pending_plan = Some(plan);
    }

    /// Removes the plan that is waiting for approval.
    pub fn take_pending_plan(&mut self) -> Option<PendingPlan> {
        self.approval.pending_plan.take()
    }

    /// Records the approvals of a plan.
    pub fn set_approvals(&mut self, hash: Digest, approvals: Vec<PlanApproval>) {
        if let Some(plan) = self.approval.pending_plan.as_mut().filter(|plan| plan.hash == hash) {
            plan.approvals = approvals;
        }
    }

    /// Checks whether a plan may be approved now. Returns true if the operation is waiting for it.
    ///
    /// # Errors
    ///
    /// Returns a message if a sync window blocks the operation.
    pub fn check_approval_request(
        &self,
        hash: Digest,
        world: &dyn World,
        now: Timestamp,
    ) -> Result<bool, String> {
        let request = self.application.operation.as_ref();
        let is_waiting = request.and_then(approval::requested_plan) == Some(hash.to_string().as_str());
        let is_automated = request.is_some_and(|request| request.initiated_by.automated);
        if is_waiting
            && !is_automated
            && let Some(hold) = world.sync_windows(&self.application).find_hold(true, now)
        {
            return Err(hold.sync_error());
        }
        Ok(is_waiting)
    }

    /// Returns the approval that the waiting operation still needs under this policy, and sets the
    /// corresponding condition.
    pub(super) fn missing_approval(&mut self, policy: &ApprovalPolicy, now: Timestamp) -> Option<String> {
        let request = self.application.operation.as_ref()?;
        if !approval::requires_plan(request) || self.is_approved_under(policy) {
            return None;
        }
        approval::update_waiting_operation(&mut self.application, now);
        let request = self.application.operation.as_ref()?;
        let name = self.key.to_string();
        let missing = self.pending_plan_of(request).and_then(|plan| {
            Some((plan, policy.describe_missing(plan.requesters(request), &plan.approvals)?))
        });
        let (awaited, condition) = match missing {
            Some((plan, missing_approvals)) => {
                let waiting = WaitingPlan {
                    application: &name,
                    hash: &plan.hash.short(),
                    summary: &plan.description,
                    missing_approvals: &missing_approvals,
                };
                (waiting.waiting_message(), waiting.condition_message())
            }
            None => {
                let text = "its plan, which needs an approval".to_owned();
                (text.clone(), format!("waiting for {text}"))
            }
        };
        self.approval.is_needed = true;
        let failure = self.approval.failure.as_ref().map(|(reason, _)| format!("{condition}; {reason}"));
        self.set_condition(approval::APPROVAL_CONDITION, &[failure.unwrap_or(condition)], now);
        Some(awaited)
    }

    /// Returns the operation's plan that is waiting for approval, if the plan has been created.
    fn pending_plan_of(&self, request: &OperationRequest) -> Option<&PendingPlan> {
        let hash = approval::requested_plan(request)?;
        self.approval.pending_plan.as_ref().filter(|plan| plan.hash.to_string() == hash)
    }

    /// Returns true if the operation's plan has all required approvals and will be executed as it is.
    pub(super) fn is_approved(&self, world: &dyn World) -> bool {
        self.application.operation.is_some()
            && world
                .approval_policy(&self.application)
                .is_ok_and(|policy| policy.is_required() && self.is_approved_under(&policy))
    }

    fn is_approved_under(&self, policy: &ApprovalPolicy) -> bool {
        let Some(request) = self.application.operation.as_ref() else { return false };
        let plan = self.pending_plan_of(request);
        plan.is_some_and(|plan| policy.describe_missing(plan.requesters(request), &plan.approvals).is_none())
    }

    /// Returns the revisions of the plan that is awaiting approval. Terminating the operation rejects them,
    /// so they won't be synced automatically.
    pub(super) fn rejected_revisions(&self) -> Option<Vec<String>> {
        let plan = self.pending_plan_of(self.application.operation.as_ref()?)?;
        Some(plan.revisions.clone())
    }

    /// Removes the condition about a missing approval. Without an operation, withdraws the plan so that a
    /// later request for the same operation doesn't reuse it.
    pub(super) fn drop_plan(&mut self, now: Timestamp) {
        self.set_condition(approval::APPROVAL_CONDITION, &[], now);
        if self.application.operation.is_none()
            && let Some(plan) = self.take_pending_plan()
        {
            self.effects.push(Effect::WithdrawPlan { plan: plan.hash });
        }
    }

    /// Plans the operation that waits for approval, or checks its plan.
    pub(super) fn check_plan(&mut self, now: Timestamp) {
        let request = self.application.operation.as_ref();
        let plan = request.and_then(|request| self.pending_plan_of(request)).map(|plan| plan.hash);
        if let Some((_, again)) = &self.approval.failure {
            let again = *again;
            if now < again {
                return self.wake(again);
            }
        } else if plan.is_some() && !self.approval.is_plan_stale {
            return;
        }
        if self.approval.is_checking || self.comparison.is_running {
            return;
        }
        self.approval.is_checking = true;
        self.approval.is_plan_stale = false;
        self.approval.failure = None;
        self.effects.push(Effect::CheckPlan { plan });
    }

    /// Handles the result of planning the `about` operation or of checking its plan.
    pub(super) fn handle_plan_check(&mut self, about: &OperationRequest, check: PlanCheck, now: Timestamp) {
        self.approval.is_checking = false;
        let is_due = self.approval.is_needed;
        let Some(request) = self.application.operation.as_mut().filter(|request| is_due && *request == about)
        else {
            // The operation changed while it was being planned.
            self.approval.is_plan_stale = true;
            return;
        };
        match check {
            PlanCheck::Current => {}
            PlanCheck::Stored(plan) => {
                approval::set_plan(request, &plan.hash.to_string(), true);
                self.approval.pending_plan = Some(*plan);
            }
            PlanCheck::Unplanned(PlanFailure::Invalid(reason)) if self.child_operation().is_none() => {
                self.refuse_operation(reason, now);
            }
            PlanCheck::Unplanned(PlanFailure::Invalid(reason) | PlanFailure::Unavailable(reason)) => {
                self.approval.failure = Some((reason, now + RETRY_DELAY));
            }
        }
    }

    /// Returns the request to repeat if an operation finished without writing anything, because its plan was
    /// outdated or an approval had just become required.
    pub(super) fn repeat_request(
        &self,
        ended: &EngineProgress,
        world: &dyn World,
    ) -> Option<OperationRequest> {
        let request = self.application.operation.as_ref().filter(|_| ended.finished_at.is_some())?;
        let is_required = world.approval_policy(&self.application).is_ok_and(|policy| policy.is_required());
        if ended.message == UNAPPROVED_RESULT && !rollout_operation::is_of_rollout(request) {
            let mut again = request.clone();
            operation::remove_controller_infos(&mut again);
            return Some(again);
        }
        let is_outdated = is_outdated_plan_message(&ended.message);
        approval::request_to_repeat(&self.application, request, is_required).filter(|_| is_outdated)
    }
}
