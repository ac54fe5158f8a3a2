//! Output format of rollouts: Argo CD's statuses, and additional details.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, Requester, Timestamp};

use super::departed::{self, DepartedMemberView};
use super::messages;
use super::request::OnFailure;
use super::state::{End, Member, Outcome, Progress, Rollout, Stage, State};
use super::status::{MemberOutcome, MemberStatus, effective_target, format_step_number, member_outcome};
use crate::fleet::{Attribution, count, format_elapsed, join_names};

/// A rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Rollout")]
pub struct RolloutView {
    /// ApplicationSet: `namespace/name`.
    #[serde(rename = "applicationSet")]
    pub set: String,
    /// Digest that distinguishes its targets from other targets of the ApplicationSet.
    pub targets: Digest,
    /// Requester.
    #[serde(rename = "initiatedBy")]
    pub by: String,
    /// Reason; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Current stage, as text.
    pub stage: String,
    /// Number of the step that is held or running, counted from 1.
    pub step: Option<u32>,
    /// Outcome.
    #[serde(rename = "outcome")]
    pub end: Option<End>,
    /// Current state or reason, as text.
    pub message: String,
    /// Person who paused the rollout, and the reason.
    #[serde(rename = "pausedBy")]
    pub paused: Option<String>,
    /// Start time.
    pub started_at: Timestamp,
    /// End time.
    pub finished_at: Option<Timestamp>,
    /// Steps.
    pub steps: Vec<StepView>,
    /// Applications of the ApplicationSet, by name.
    pub members: Vec<MemberView>,
    /// Applications that left the ApplicationSet during the rollout, by name. They aren't in `members`.
    #[serde(rename = "departed", default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<DepartedMemberView>,
}

/// Status of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutStepStatus")]
pub enum StepStatus {
    /// The step hasn't been reached yet.
    #[default]
    Waiting,
    /// The step has been reached, but gates or missing approvals keep it closed.
    Held,
    /// The step's Applications are being updated to their targets.
    Rolling,
    /// Too many of the step's Applications failed, or its deadline passed.
    Failed,
    /// The step's Applications are returning to their previous deployments.
    RollingBack,
    /// The step's Applications were rolled back.
    RolledBack,
    /// All Applications of the step were done.
    Passed,
    /// All Applications of the step were already done when the step was reached: at their targets, or skipped.
    AlreadyDone,
    /// The step doesn't select any Application.
    Empty,
    /// The rollout ended before all Applications of the step were done.
    Unfinished,
    /// The rollout ended before it reached the step.
    NotReached,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutStepView")]
pub struct StepView {
    /// Selector, as text.
    #[serde(rename = "selector")]
    pub selects: String,
    /// Status.
    #[serde(default)]
    pub status: StepStatus,
    /// Number of members.
    pub members: u32,
    /// Maximum number of members in flight at once. Absent if all members may be in flight.
    pub max_update: Option<u32>,
    /// Gates.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Person who approved the step, and the reason.
    #[serde(rename = "approvedBy", default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// Maximum duration in seconds. Absent if there is no limit.
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
    /// Maximum number of failed members. If it is absent, a failed member keeps the step open.
    #[serde(default)]
    pub max_failures: Option<u32>,
    /// Action when more members fail or the deadline passes.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Time at which the step's members began.
    pub opened_at: Option<Timestamp>,
    /// Time at which all members of the step were last done.
    pub passed_at: Option<Timestamp>,
}

/// An Application of the ApplicationSet: one entry of `status.applicationStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutMember")]
pub struct MemberView {
    /// Name of the Application.
    pub application: String,
    /// Status.
    pub status: MemberStatus,
    /// Outcome, if it doesn't follow from the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<MemberOutcome>,
    /// Number of the Application's step, counted from 1. `-1` if no step selects it.
    pub step: String,
    /// Reason for the status.
    pub message: String,
    /// Revisions of the Application's target. After a rollback, the revisions of its previous deployment.
    pub target_revisions: Vec<String>,
    /// Time since which the Application has had its status.
    pub last_transition_time: Timestamp,
    /// Operation that is deploying or has deployed these revisions. In the record of a rollout, the Application's last
    /// operation, even if that operation was stopped or the Application was skipped.
    pub operation: Option<OperationId>,
    /// Later steps that also select the Application but don't receive it.
    #[serde(rename = "otherSteps")]
    pub also: Vec<u32>,
}

/// Returns the rollout for output. `None` before the rollout has begun.
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

/// Returns the skipped Applications, by name. Argo CD's status for them is Healthy.
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

/// Returns the current state, or the reason for the end, as text.
pub(super) fn status_message(rollout: &Rollout) -> String {
    match (&rollout.outcome, &rollout.stage) {
        (Some(outcome), _) => outcome.message.clone(),
        (None, Stage::Ending { message, .. }) => message.clone(),
        (None, _) => progressing_condition(rollout).1,
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

/// Returns the condition `RolloutProgressing`: its value, message and reason, as in Argo CD.
pub fn progressing_condition(rollout: &Rollout) -> (bool, String, &'static str) {
    // A paused rollout stays at its step, even if all members of the step are done.
    let paused = rollout.current_step().filter(|_| rollout.paused.is_some());
    if let Stage::RollingBack { step } = rollout.stage {
        return (true, messages::rollback_message(rollout, step), "ApplicationSetRollingBack");
    }
    let step = rollout.first_open_step().into_iter().chain(paused).min();
    match step.filter(|_| rollout.outcome.is_none()) {
        Some(step) => {
            let number = step.saturating_add(1);
            let message = format!("ApplicationSet is performing rollout of step {number}");
            (true, message, "ApplicationSetModified")
        }
        None => match &rollout.outcome {
            // Readers of the condition must not mistake an early end for a completed rollout.
            Some(Outcome { end, message, .. }) if *end != End::Completed => {
                (false, message.clone(), "ApplicationSetRolloutEnded")
            }
            _ => (false, messages::COMPLETED_MESSAGE.to_owned(), "ApplicationSetRolloutComplete"),
        },
    }
}

/// Lists the members that have been Pending for longer than allowed. `None` if there are none.
pub fn list_overdue(rollout: &Rollout) -> Option<String> {
    let members = rollout.members.iter().filter(|(_, member)| member.overdue && rollout.outcome.is_none());
    let overdue: Vec<&str> = members.map(|(name, _)| name.as_str()).collect();
    let timeout = rollout.options.pending_timeout.unwrap_or_default();
    (!overdue.is_empty())
        .then(|| format!("Pending for more than {}: {}", format_elapsed(timeout), join_names(&overdue)))
}
