//! Approval of the operation's plan. The plan is created, stored, and checked again after changes. Nothing is
//! written to the cluster until the plan is approved.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::approval::{self, ApprovalPolicy, WaitingPlan};
use tidegate_application::operation::{self, EngineProgress};
use tidegate_application::rollout_operation;
use tidegate_executor::OutdatedPlan;
use tidegate_model::argo::OperationRequest;
use tidegate_model::{Digest, PlanApproval, Timestamp};

use super::ActorState;
use crate::messages::{AppMessage, PlanReference};
use crate::operation_start;
use crate::plan_approval::{self, UNAPPROVED_RESULT, with_plans};
use crate::plan_check::{PendingPlan, PlanCheck, PlanFailure};

/// Delay before retrying failed planning. A change triggers an earlier retry.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// The plan that is waiting for approval, and the state of its checks.
#[derive(Default)]
pub(super) struct ApprovalState {
    /// True if the operation is currently waiting for approval.
    is_approval_needed: bool,
    /// True if something has changed since the plan was last checked.
    is_plan_stale: bool,
    is_checking: bool,
    pending_plan: Option<PendingPlan>,
    /// Reason why a check failed, and the time of the next attempt.
    failure: Option<(String, Timestamp)>,
}

impl ActorState {
    /// Marks the waiting plan as possibly outdated after something has changed.
    pub(super) fn mark_plan_stale(&mut self) {
        self.approval_state.is_plan_stale = true;
        self.approval_state.failure = None;
    }

    /// Restores the plan of an operation that was requested with it and hasn't started. It is checked again
    /// when the operation starts.
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

    /// Loads the plan of an operation that was waiting for approval when the previous process stopped.
    pub(super) async fn load_pending_plan(&mut self) {
        let request = self.application.operation.as_ref().filter(|request| self.can_be_withheld(request));
        let hash = request.and_then(approval::requested_plan).and_then(|hash| hash.parse::<Digest>().ok());
        self.approval_state.is_plan_stale = true;
        if let Some(hash) = hash
            && let Ok((plan, line)) = plan_approval::find_stored_plan(&self.shared, hash).await
        {
            self.approval_state.pending_plan = Some(PendingPlan::from_stored(line, &plan));
        }
    }

    /// Records that no operation is waiting for approval.
    pub(super) fn clear_approval(&mut self) {
        self.approval_state.is_approval_needed = false;
    }

    /// Returns the approval that the operation still needs, and sets the corresponding condition.
    pub(super) fn missing_approval(&mut self, now: Timestamp) -> Option<String> {
        let policy = self.shared.approval_policy(&self.application).ok()?;
        let is_about =
            |request: &&OperationRequest| self.can_be_withheld(request) && approval::requires_plan(request);
        if !policy.is_required() || self.application.operation.as_ref().filter(is_about).is_none() {
            return None;
        }
        if self.is_approved() {
            return None;
        }
        approval::update_waiting_operation(&mut self.application, now);
        let request = self.application.operation.as_ref()?;
        let name = self.key.to_string();
        let told = self.pending_plan_of(request);
        let told = told.and_then(|one| {
            Some((one, policy.describe_missing(one.requesters(request), &one.summary.approvals)?))
        });
        let (awaited, condition) = match told {
            Some((one, who)) => {
                let told = WaitingPlan {
                    application: &name,
                    hash: &one.summary.hash.short(),
                    summary: &one.description,
                    missing_approvals: &who,
                };
                (told.waiting_message(), told.condition_message())
            }
            None => {
                let text = "its plan, which needs an approval".to_owned();
                (text.clone(), format!("waiting for {text}"))
            }
        };
        self.approval_state.is_approval_needed = true;
        let trouble =
            self.approval_state.failure.as_ref().map(|(reason, _)| format!("{condition}; {reason}"));
        self.set_condition(approval::APPROVAL_CONDITION, &[trouble.unwrap_or(condition)], now);
        Some(awaited)
    }

    /// Returns the operation's plan that is waiting for approval, if the plan has been created.
    fn pending_plan_of(&self, request: &OperationRequest) -> Option<&PendingPlan> {
        let plan = approval::requested_plan(request)?;
        self.approval_state.pending_plan.as_ref().filter(|one| one.summary.hash.to_string() == plan)
    }

    /// Returns true if the operation's plan has all required approvals and will be executed as it is.
    pub(super) fn is_approved(&self) -> bool {
        let Some(request) = self.application.operation.as_ref() else { return false };
        let Some(waiting) = self.pending_plan_of(request) else { return false };
        let policy = self.shared.approval_policy(&self.application).ok().filter(ApprovalPolicy::is_required);
        policy.is_some_and(|policy| {
            policy.describe_missing(waiting.requesters(request), &waiting.summary.approvals).is_none()
        })
    }

    /// Returns the revisions of the waiting plan, which terminating the operation rejects, so that they
    /// aren't synced automatically.
    pub(super) fn rejected_revisions(&self) -> Option<Vec<String>> {
        let waiting = self.pending_plan_of(self.application.operation.as_ref()?)?;
        Some(waiting.revisions.clone())
    }

    /// Withdraws the waiting plan, so that a later request for the same operation doesn't reuse it. Later
    /// errors name `by` as the user who withdrew it. The returned future persists the withdrawal.
    pub(super) fn withdraw_plan(
        &mut self,
        by: Option<PlanApproval>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let waiting = self.approval_state.pending_plan.take();
        let shared = Arc::clone(&self.shared);
        async move {
            let Some(PendingPlan { summary, .. }) = waiting else { return };
            if let Err(error) = with_plans(&shared, move |plans| plans.withdraw(summary.hash, by)).await {
                tracing::warn!(plan = %summary.hash, %error, "failed to withdraw an obsolete plan");
            }
        }
    }

    /// Starts planning the operation or checking its plan.
    pub(super) fn check_plan(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if !self.approval_state.is_approval_needed {
            self.set_condition(approval::APPROVAL_CONDITION, &[], now);
            if self.application.operation.is_none() {
                let withdrawing = self.withdraw_plan(None);
                self.tasks.spawn(withdrawing);
            }
            return;
        }
        let asked = self.application.operation.as_ref();
        let plan = asked.and_then(approval::requested_plan).map(str::to_owned);
        let before = self
            .approval_state
            .pending_plan
            .as_ref()
            .filter(|one| plan == Some(one.summary.hash.to_string()));
        let before = before.map(|one| one.summary.clone());
        if let Some((_, again)) = &self.approval_state.failure {
            let again = *again;
            if now < again {
                return self.set_alarm(myself, again);
            }
        } else if before.is_some() && !self.approval_state.is_plan_stale {
            return;
        }
        if self.approval_state.is_checking || self.is_comparing {
            return;
        }
        (self.approval_state.is_checking, self.approval_state.is_plan_stale, self.approval_state.failure) =
            (true, false, None);
        let (shared, application, actor) =
            (Arc::clone(&self.shared), self.application.clone(), myself.clone());
        self.tasks.spawn(async move {
            let check = plan_approval::plan_or_check(&shared, &application, before.as_ref()).await;
            let request = Box::new(application.operation.clone().unwrap_or_default());
            drop(actor.send_message(AppMessage::PlanChecked { request, check }));
        });
    }

    /// Handles the result of planning the `about` operation or of checking its plan.
    pub(super) fn handle_plan_check(&mut self, about: &OperationRequest, looked: PlanCheck) {
        self.approval_state.is_checking = false;
        let now = self.now();
        let is_due = self.approval_state.is_approval_needed;
        let Some(request) = self.application.operation.as_mut().filter(|request| is_due && *request == about)
        else {
            // The operation changed while it was being planned.
            self.approval_state.is_plan_stale = true;
            return;
        };
        match looked {
            PlanCheck::Current => {}
            PlanCheck::Stored(waiting) => {
                approval::set_plan(request, &waiting.summary.hash.to_string(), true);
                self.approval_state.pending_plan = Some(*waiting);
            }
            PlanCheck::Unplanned(PlanFailure::Invalid(reason))
                if rollout_operation::current_rollout_operation(&self.application).is_none() =>
            {
                self.refuse_operation(reason);
            }
            PlanCheck::Unplanned(PlanFailure::Invalid(reason) | PlanFailure::Unavailable(reason)) => {
                self.approval_state.failure = Some((reason, now + RETRY_DELAY));
            }
        }
    }

    /// Approves a plan. Once this returns, both the approval and the waiting operation are durable.
    pub(super) async fn approve(
        &mut self,
        myself: &ActorRef<AppMessage>,
        hash: Digest,
        given: PlanApproval,
    ) -> Result<(), String> {
        let request = self.application.operation.as_ref();
        let is_waiting = request.and_then(approval::requested_plan) == Some(hash.to_string().as_str());
        let is_automated = request.is_some_and(|request| request.initiated_by.automated);
        if is_waiting
            && !is_automated
            && let Some(held) = self.shared.sync_windows(&self.application).find_hold(true, self.now())
        {
            return Err(operation_start::window_error(&held));
        }
        if is_waiting {
            self.persist_now(myself).await?;
        }
        let approved = with_plans(&self.shared, move |plans| plans.approve(hash, given)).await;
        let line = approved.map_err(|error| error.to_string())?;
        if let Some(waiting) =
            self.approval_state.pending_plan.as_mut().filter(|one| one.summary.hash == hash)
        {
            waiting.summary = line;
        }
        Ok(())
    }

    /// Returns the request to repeat if an operation finished without writing anything, because its plan was
    /// outdated or an approval had just become required.
    pub(super) fn repeat_request(&self, ended: &EngineProgress) -> Option<OperationRequest> {
        let request = self.application.operation.as_ref().filter(|_| ended.finished_at.is_some())?;
        let is_required =
            self.shared.approval_policy(&self.application).is_ok_and(|policy| policy.is_required());
        if ended.message == UNAPPROVED_RESULT && !rollout_operation::is_of_rollout(request) {
            let mut again = request.clone();
            operation::remove_controller_infos(&mut again);
            return Some(again);
        }
        let has_moved = OutdatedPlan::is_outdated_message(&ended.message);
        approval::request_to_repeat(&self.application, request, is_required).filter(|_| has_moved)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
