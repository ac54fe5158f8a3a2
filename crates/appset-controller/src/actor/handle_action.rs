//! User requests for an ApplicationSet.

use tidegate_applicationset::changes::AppSetProblem;
use tidegate_applicationset::deletion_limit::approval::{self, DeletionApproval};
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::reconcile_schedule::ScheduleInput;
use tidegate_applicationset::retry::{self, RetryAnnotation};
use tidegate_applicationset::rollout::{NoRunningMachine, check_retry, describe_situation};
use tidegate_applicationset::status::RolloutStatus as Said;
use tidegate_applicationset::triggers::ReconcileTrigger;
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::StreamId;
use tidegate_views::appset_actions::AppSetAction;

use super::ActorState;

impl ActorState {
    /// Handles a request for the running ordered deletion or, without one, for the progressive sync. A retry
    /// restarts a finished run.
    pub(super) async fn handle_action(
        &mut self,
        request: AppSetAction,
        run: Option<StreamId>,
        by: String,
        reason: String,
    ) -> Result<(), String> {
        if let AppSetAction::ApproveDeletions { token } = request {
            return self.approve_deletions(token, by, reason).await;
        }
        // Requests that only concern the progressive sync must work while Applications are being deleted.
        let is_of_rollout = matches!(request, AppSetAction::Approve { .. } | AppSetAction::Retry { .. });
        let goes_to_rollout = is_of_rollout && self.rollouts.running.is_some();
        if let Some(running) = self.teardowns.running.clone().filter(|_| !goes_to_rollout) {
            self.check_target_run(run, running.id())?;
            let request = teardown_request(request)?;
            let result = running.request(teardown::Input::UserRequest { request, by, reason }).await;
            self.handle_teardown_change().await;
            return result.map_err(|error| error.to_string());
        }
        if let Some(running) = self.rollouts.running.clone() {
            self.check_target_run(run, running.id())?;
            let is_approval = matches!(request, AppSetAction::Approve { .. });
            let request = rollout_request(request, self.own_rollout().and_then(rollout::State::rollout))?;
            let result = running.request(rollout::Input::UserRequest { request, by, reason }).await;
            self.handle_rollout_change().await;
            return result.map_err(|error| self.with_held_deletions(error.to_string(), is_approval));
        }
        if let AppSetAction::Retry { step: None, member: None } = request {
            self.check_restart()?;
            return self.request_restart(&by, &reason).await;
        }
        let last = self.own_rollout().and_then(rollout::State::rollout);
        let idle = NoRunningMachine::new(
            &self.set,
            action_verb(&request),
            describe_situation(&self.set, last, &self.shared.options),
        );
        Err(self.with_held_deletions(idle.to_string(), matches!(request, AppSetAction::Approve { .. })))
    }

    /// Rejects a request for a finished rollout or deletion while another run is active.
    fn check_target_run(&self, meant: Option<StreamId>, at_work: StreamId) -> Result<(), String> {
        match meant.filter(|meant| *meant != at_work) {
            None => Ok(()),
            Some(meant) => Err(format!(
                "{meant} of ApplicationSet {} is no longer running, but another rollout or deletion is: \
                 {at_work}; check that run before you change it",
                self.key
            )),
        }
    }

    /// Requests a restart. The ApplicationSet first records the request, with the requester and the reason.
    async fn request_restart(&mut self, by: &str, reason: &str) -> Result<(), String> {
        let retry = RetryAnnotation::new(by, reason, self.now().into(), self.newest_run());
        let set = retry.write_to(&self.set);
        self.shared
            .store
            .write_annotations(&set, &retry::ANNOTATIONS)
            .await
            .map_err(|error| error.to_string())?;
        tracing::info!(set = %self.key, by, why = reason, "restart of a rollout or deletion requested");
        (self.set, self.requested_retry) = (set, Some(retry));
        self.trigger(ReconcileTrigger::Status);
        Ok(())
    }

    fn newest_run(&self) -> Option<StreamId> {
        self.rollouts.id.max(self.teardowns.id)
    }

    /// Restores a restart request that an earlier process received but didn't carry out.
    pub(super) fn restore_retry(&mut self) {
        let is_idle = self.rollouts.running.is_none() && self.teardowns.running.is_none();
        self.requested_retry = RetryAnnotation::from_appset(&self.set, self.newest_run()).filter(|_| is_idle);
    }

    /// Removes a restart request that is fulfilled or has nothing to restart.
    pub(super) async fn remove_retry(&mut self) {
        self.requested_retry = None;
        let Some(without) = retry::without_retry(&self.set) else { return };
        match self.shared.store.write_annotations(&without, &retry::ANNOTATIONS).await {
            Ok(()) => self.set = without,
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "failed to remove a completed retry request from the ApplicationSet");
            }
        }
    }

    /// Mentions the blocked deletions when an approval is rejected. If no step is waiting for approval, the
    /// user may have meant the deletions.
    fn with_held_deletions(&self, refused: String, is_approval: bool) -> String {
        let held = self
            .results
            .spec_problems
            .iter()
            .find(|wrong| matches!(wrong, AppSetProblem::DeletionsBlocked(_)));
        match held.filter(|_| is_approval) {
            Some(held) => format!("{refused}; blocked deletions: {held}"),
            None => refused,
        }
    }

    /// Checks that a retry of a finished machine has work to do.
    fn check_restart(&self) -> Result<(), String> {
        if self.has_kept_applications() {
            return Ok(());
        }
        let last = self.own_rollout().and_then(rollout::State::rollout);
        let failure = self.results.failure.as_ref().filter(|_| !self.is_deleting());
        match failure {
            // The machine can't start until the generators work again.
            Some(failure) if !self.results.is_complete() => Err(NoRunningMachine::new(
                &self.set,
                "retry",
                format!(
                    "the generators have not produced a result yet, so no progressive sync can start ({})",
                    failure.message
                ),
            )
            .to_string()),
            // The rollout failed to start, so a retry is possible.
            Some(_) if last.is_none() => Ok(()),
            _ if last.is_none()
                && matches!(self.rollouts.settled, Said::Unknown)
                && self.schedule.running_pass().is_some() =>
            {
                Ok(())
            }
            _ => check_retry(&self.set, last, &self.shared.options).map_err(|idle| idle.to_string()),
        }
    }

    /// Returns true if Applications that the last teardown kept still exist.
    fn has_kept_applications(&self) -> bool {
        let own = self.members.values().filter(|one| owner_of(&self.set, one) == Owner::AppSet);
        own.into_iter().any(|one| self.was_skipped(&one.metadata.name, &one.metadata.uid))
    }

    /// Approves blocked deletions. The ApplicationSet first records the approval, with the requester and the
    /// reason.
    async fn approve_deletions(&mut self, token: String, by: String, why: String) -> Result<(), String> {
        let approval = DeletionApproval { token, by, reason: why, at: self.now().into() };
        let approved = approval::with_approval(&self.set, &self.results.spec_problems, &approval);
        let approved = approved.map_err(|refused| refused.to_string())?;
        self.shared
            .store
            .write_annotations(&approved, &approval::ANNOTATIONS)
            .await
            .map_err(|error| error.to_string())?;
        let DeletionApproval { token, by, reason, .. } = approval;
        tracing::info!(set = %self.key, token, by, reason, "blocked deletions approved");
        self.apply(ScheduleInput::Abort);
        self.trigger(ReconcileTrigger::Reconcile);
        self.set = approved;
        Ok(())
    }

    /// Removes a command's approval after the deletion of all approved Applications.
    pub(super) async fn remove_approval(&mut self) {
        let Some(generated) = self.results.generated.as_ref().filter(|generated| generated.errors.is_empty())
        else {
            return;
        };
        let is_generated =
            |name: &str| generated.applications.contains_key(name) || generated.rejected.contains_key(name);
        let mut own = self.members.iter().filter(|(_, one)| owner_of(&self.set, one) == Owner::AppSet);
        if self.teardowns.running.is_some() || !own.all(|(name, _)| is_generated(name)) {
            return;
        }
        let Some(without) = approval::without_used_approval(&self.set) else { return };
        match self.shared.store.write_annotations(&without, &approval::ANNOTATIONS).await {
            Ok(()) => self.set = without,
            Err(error) => {
                tracing::warn!(set = %self.key, %error, "failed to remove a used deletion approval");
            }
        }
    }
}

fn action_verb(request: &AppSetAction) -> &'static str {
    match request {
        AppSetAction::Approve { .. } | AppSetAction::ApproveDeletions { .. } => "approve",
        AppSetAction::Skip { .. } => "skip",
        AppSetAction::Retry { .. } => "retry",
        AppSetAction::Pause => "pause",
        AppSetAction::Resume => "resume",
        AppSetAction::Terminate => "terminate",
    }
}

fn rollout_request(
    request: AppSetAction,
    at_work: Option<&rollout::Rollout>,
) -> Result<rollout::UserRequest, String> {
    Ok(match request {
        AppSetAction::Approve { step } => rollout::UserRequest::Approve { step },
        AppSetAction::Skip { step, member } => rollout::UserRequest::Skip(request_scope(step, member)?),
        AppSetAction::Retry { step: None, member: None } => {
            let others = at_work.map(rollout::list_retryable).filter(|others| !others.is_empty());
            let others = others.map_or_else(
                || "nothing can be retried now".to_owned(),
                |others| format!("these Applications can be retried now: {others}"),
            );
            return Err(format!(
                "the progressive sync is in progress and can be restarted as a whole only after it ends; \
                 use --app or --step to select the Applications to retry; {others}"
            ));
        }
        AppSetAction::Retry { step, member } => rollout::UserRequest::Retry(request_scope(step, member)?),
        AppSetAction::Pause => rollout::UserRequest::Pause,
        AppSetAction::Resume => rollout::UserRequest::Resume,
        AppSetAction::Terminate => rollout::UserRequest::Terminate,
        AppSetAction::ApproveDeletions { .. } => return Err(NOT_FOR_MACHINES.to_owned()),
    })
}

/// Error for a request that concerns the ApplicationSet itself rather than a machine.
const NOT_FOR_MACHINES: &str =
    "approve blocked deletions on the ApplicationSet, not on a rollout or deletion";

fn teardown_request(request: AppSetAction) -> Result<teardown::UserRequest, String> {
    let none = |what: &str| {
        Err(format!(
            "an ordered deletion of Applications is in progress, so there is nothing to {what}; you can skip, pause, resume or terminate it"
        ))
    };
    Ok(match request {
        AppSetAction::Approve { .. } => return none("approve"),
        AppSetAction::Retry { .. } => return none("retry"),
        AppSetAction::Skip { step, member } => teardown::UserRequest::Skip(request_scope(step, member)?),
        AppSetAction::Pause => teardown::UserRequest::Pause,
        AppSetAction::Resume => teardown::UserRequest::Resume,
        AppSetAction::Terminate => teardown::UserRequest::Terminate,
        AppSetAction::ApproveDeletions { .. } => return Err(NOT_FOR_MACHINES.to_owned()),
    })
}

/// Returns the Application or step that a request selects.
fn request_scope(step: Option<u32>, member: Option<String>) -> Result<Scope, String> {
    match (step, member) {
        (Some(step), None) => Ok(Scope::Step(step)),
        (None, Some(member)) => Ok(Scope::Member(member)),
        _ => Err("select one Application or one step".to_owned()),
    }
}
