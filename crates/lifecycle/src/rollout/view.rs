//! Output format of rollouts: Argo CD's statuses, with additional details.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, Requester, Timestamp};

use super::departed::{self, DepartedMemberView};
use super::messages;
use super::request::OnFailure;
use super::state::{End, Member, Outcome, Progress, Rollout, Stage, State};
use super::status::{MemberOutcome, MemberStatus, effective_target, format_step_number, member_outcome};
use crate::fleet::{Attribution, count, format_elapsed, join_names};

/// JSON representation of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Rollout")]
pub struct RolloutView {
    /// ApplicationSet, as `namespace/name`.
    #[serde(rename = "applicationSet")]
    pub set: String,
    /// Digest of the rollout's targets. It distinguishes them from the ApplicationSet's other targets.
    pub targets: Digest,
    /// User or program that started the rollout.
    #[serde(rename = "initiatedBy")]
    pub by: String,
    /// Reason for the request. Absent if no reason was provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the current stage.
    pub stage: String,
    /// Number of the step that is held or running, starting at 1.
    pub step: Option<u32>,
    /// Outcome. Absent while the rollout is running.
    #[serde(rename = "outcome")]
    pub end: Option<End>,
    /// Current state, or the reason why the rollout ended.
    pub message: String,
    /// User who paused the rollout, and the reason.
    #[serde(rename = "pausedBy")]
    pub paused: Option<String>,
    /// Start time.
    pub started_at: Timestamp,
    /// End time. Absent while the rollout is running.
    pub finished_at: Option<Timestamp>,
    /// Steps.
    pub steps: Vec<StepView>,
    /// The ApplicationSet's Applications, by name.
    pub members: Vec<MemberView>,
    /// Applications that left the ApplicationSet during the rollout, by name. They aren't in `members`.
    #[serde(rename = "departed", default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<DepartedMemberView>,
}

/// Status of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutStepStatus")]
pub enum StepStatus {
    /// The rollout hasn't reached the step yet.
    #[default]
    Waiting,
    /// The rollout has reached the step, but a gate is closed or an approval is missing.
    Held,
    /// The step's Applications are being updated to their targets.
    Rolling,
    /// Too many of the step's Applications failed, or its deadline passed.
    Failed,
    /// The step's Applications are returning to their previous deployments.
    RollingBack,
    /// The step's Applications were rolled back.
    RolledBack,
    /// All Applications in the step are done.
    Passed,
    /// All Applications in the step were already done when the rollout reached it: they were at their targets
    /// or had been skipped.
    AlreadyDone,
    /// The step doesn't select any Application.
    Empty,
    /// The rollout ended before all Applications in the step were done.
    Unfinished,
    /// The rollout ended before it reached the step.
    NotReached,
}

/// JSON representation of a step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutStepView")]
pub struct StepView {
    /// Description of the selector.
    #[serde(rename = "selector")]
    pub selects: String,
    /// Status.
    #[serde(default)]
    pub status: StepStatus,
    /// Number of Applications in the step.
    pub members: u32,
    /// Maximum number of Applications that are synced at the same time. Absent if there is no limit.
    pub max_update: Option<u32>,
    /// Gates that must open before the step begins.
    #[serde(default)]
    pub gates: Vec<String>,
    /// User who approved the step, and the reason.
    #[serde(rename = "approvedBy", default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// Maximum duration in seconds. Absent if there is no limit.
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
    /// Maximum number of failed Applications. If absent, a failed Application keeps the step open.
    #[serde(default)]
    pub max_failures: Option<u32>,
    /// Action to take if more than `maxFailures` Applications fail or the deadline passes.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Time at which the sync of the step's first Application began.
    pub opened_at: Option<Timestamp>,
    /// Most recent time at which all Applications in the step were done.
    pub passed_at: Option<Timestamp>,
}

/// Status of an Application in a rollout. Corresponds to an entry in `status.applicationStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutMember")]
pub struct MemberView {
    /// Name of the Application.
    pub application: String,
    /// Status.
    pub status: MemberStatus,
    /// Outcome, if the status alone doesn't show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<MemberOutcome>,
    /// Number of the Application's step, starting at 1. `-1` if no step selects it.
    pub step: String,
    /// Human-readable reason for the status.
    pub message: String,
    /// Revisions of the Application's target. After a rollback, these are the revisions of its previous
    /// deployment.
    pub target_revisions: Vec<String>,
    /// Time of the Application's last status change.
    pub last_transition_time: Timestamp,
    /// Operation that is deploying or has deployed the target revisions. In the record of a finished rollout,
    /// this is the Application's last operation, even if it was stopped or the Application was skipped.
    pub operation: Option<OperationId>,
    /// Later steps that also select the Application. These steps don't update it.
    #[serde(rename = "otherSteps")]
    pub also: Vec<u32>,
}

/// Returns the JSON representation of the rollout, or `None` before it begins.
pub fn view(state: &State) -> Option<RolloutView> {
    let rollout = state.rollout()?;
    let (outcome, requester) = (rollout.outcome.as_ref(), Requester::parse(&rollout.by));
    let number = |step: u32| step.saturating_add(1);
    let members = rollout.members.iter().filter(|(_, member)| member.progress != Progress::Gone);
    Some(RolloutView {
        set: rollout.set.clone(),
        targets: rollout.targets,
        by: requester.name.to_owned(),
        reason: requester.reason_text(),
        stage: state.name(),
        step: rollout.current_step().map(number),
        end: outcome.map(|outcome| outcome.end),
        message: status_message(rollout),
        paused: rollout.paused.as_ref().map(Attribution::display),
        started_at: rollout.started_at,
        finished_at: outcome.map(|outcome| outcome.at),
        steps: (0..).zip(&rollout.steps).map(|(step, _)| step_view(rollout, step)).collect(),
        members: members
            .map(|(name, member)| MemberView {
                application: name.clone(),
                status: member.status(),
                outcome: member_outcome(member),
                step: format_step_number(member),
                message: member_message(rollout, member),
                target_revisions: effective_target(member).revisions.clone(),
                last_transition_time: member.since,
                operation: member.progress.operation(),
                also: member.place.also.iter().map(|step| number(*step)).collect(),
            })
            .collect(),
        left: departed::departed_from_state(rollout),
    })
}

/// Returns the skipped Applications, by name. Their status in Argo CD's terms is Healthy.
pub fn skipped_members(state: &State) -> impl Iterator<Item = &str> {
    let members = state.rollout().into_iter().flat_map(|rollout| &rollout.members);
    let skipped = members.filter(|(_, member)| member_outcome(member) == Some(MemberOutcome::Skipped));
    skipped.map(|(name, _)| name.as_str())
}

fn member_message(rollout: &Rollout, member: &Member) -> String {
    let is_ending = matches!(rollout.stage, Stage::Ending { .. });
    if member.is_awaiting_retry() && !is_ending {
        return messages::RESYNC_MESSAGE.to_owned();
    }
    messages::member_message(member)
}

/// Describes the current state, or the reason for the end.
pub(super) fn status_message(rollout: &Rollout) -> String {
    match (&rollout.outcome, &rollout.stage) {
        (Some(outcome), _) => outcome.message.clone(),
        (None, Stage::Ending { message, .. }) => message.clone(),
        (None, _) => progressing_condition(rollout).message,
    }
}

fn step_view(rollout: &Rollout, step: u32) -> StepView {
    let budget = rollout.update_limit(step);
    let state = rollout.step(step).cloned().unwrap_or_default();
    StepView {
        selects: state.step.describe_selector(),
        status: step_status(rollout, step),
        members: count(rollout.members_in_step(step)),
        max_update: (budget < u32::MAX).then_some(budget),
        gates: state.step.gates.clone(),
        approved: state.approved.as_ref().map(Attribution::display),
        deadline_seconds: state.step.deadline.map(|deadline| deadline.as_secs()),
        max_failures: state.step.max_failures,
        on_failure: state.step.on_failure,
        opened_at: state.opened_at,
        passed_at: state.passed_at,
    }
}

fn step_status(rollout: &Rollout, step: u32) -> StepStatus {
    let state = rollout.step(step);
    let (is_empty, is_open) = (rollout.members_in_step(step).next().is_none(), rollout.is_open(step));
    let has_begun = state.is_some_and(|state| state.opened_at.is_some());
    let has_failed = state.is_some_and(|state| state.failed.is_some());
    let is_current = rollout.current_step() == Some(step);
    match rollout.stage {
        _ if is_empty => StepStatus::Empty,
        Stage::Held { .. } if is_current => StepStatus::Held,
        Stage::RollingBack { .. } if is_current => StepStatus::RollingBack,
        Stage::Rolling { .. } if is_current && !has_failed => StepStatus::Rolling,
        Stage::Ending { end: End::RolledBack, .. } if has_failed => StepStatus::RolledBack,
        _ if has_failed => StepStatus::Failed,
        _ if !is_open && has_begun => StepStatus::Passed,
        _ if !is_open => StepStatus::AlreadyDone,
        Stage::Ending { .. } if has_begun => StepStatus::Unfinished,
        Stage::Ending { .. } => StepStatus::NotReached,
        _ => StepStatus::Waiting,
    }
}

/// The `RolloutProgressing` condition, as in Argo CD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressingCondition {
    /// True if the rollout is in progress.
    pub is_progressing: bool,
    /// Human-readable reason.
    pub message: String,
    /// Machine-readable reason.
    pub reason: &'static str,
}

/// Returns the `RolloutProgressing` condition.
pub fn progressing_condition(rollout: &Rollout) -> ProgressingCondition {
    let condition =
        |is_progressing, message, reason| ProgressingCondition { is_progressing, message, reason };
    // A paused rollout remains at its step, even if all Applications of the step are done.
    let paused = rollout.current_step().filter(|_| rollout.paused.is_some());
    if let Stage::RollingBack { step } = rollout.stage {
        return condition(true, messages::rollback_message(rollout, step), "ApplicationSetRollingBack");
    }
    let step = rollout.first_open_step().into_iter().chain(paused).min();
    match step.filter(|_| rollout.outcome.is_none()) {
        Some(step) => {
            let number = step.saturating_add(1);
            let message = format!("ApplicationSet is performing rollout of step {number}");
            condition(true, message, "ApplicationSetModified")
        }
        None => match &rollout.outcome {
            // The condition must not show an early end as a completed rollout.
            Some(Outcome { end, message, .. }) if *end != End::Completed => {
                condition(false, message.clone(), "ApplicationSetRolloutEnded")
            }
            _ => condition(false, messages::COMPLETED_MESSAGE.to_owned(), "ApplicationSetRolloutComplete"),
        },
    }
}

/// Lists the Applications that have been Pending for longer than allowed. Returns `None` if there are none.
pub fn list_overdue(rollout: &Rollout) -> Option<String> {
    let members = rollout.members.iter().filter(|(_, member)| member.overdue && rollout.outcome.is_none());
    let overdue: Vec<&str> = members.map(|(name, _)| name.as_str()).collect();
    let timeout = rollout.options.pending_timeout.unwrap_or_default();
    (!overdue.is_empty())
        .then(|| format!("Pending for more than {}: {}", format_elapsed(timeout), join_names(&overdue)))
}
