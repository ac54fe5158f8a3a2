//! What people see of a rollout: the statuses of Argo CD, and what they do not say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, Timestamp, Wisher};

use super::left::{self, LeftView};
use super::messages;
use super::request::{OnFailure, Target};
use super::state::{End, Member, Outcome, Progress, Rollout, Stage, State};
use super::status::MemberStatus;
use crate::fleet::{Said, count, enumerate, words};

/// A rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Rollout")]
pub struct RolloutView {
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// What tells its targets from others of the set.
    pub targets: Digest,
    /// Who asked for it.
    pub by: String,
    /// Why; absent where nobody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where it stands, in words.
    pub stage: String,
    /// The number of the step that is held or at work, from 1.
    pub step: Option<u32>,
    /// How it ended.
    pub end: Option<End>,
    /// Why, in words.
    pub message: String,
    /// Who holds it, and why.
    pub paused: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Its steps.
    pub steps: Vec<StepView>,
    /// The Applications of the set, by name.
    pub members: Vec<MemberView>,
    /// Those that left the set while it went on, by name: they are none of the `members` any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftView>,
}

/// How a step stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutStepStatus")]
pub enum StepStatus {
    /// Its turn has not come.
    #[default]
    Waiting,
    /// Its turn has come; gates, or people who have not approved, keep it closed.
    Held,
    /// Its members are brought to their targets.
    Rolling,
    /// More of its members have failed than may, or it took too long.
    Failed,
    /// Its members are brought back to what they had before.
    RollingBack,
    /// Its members have what they had before.
    RolledBack,
    /// All of its members were done.
    Passed,
    /// Its members were done before the rollout would have begun with them: at their targets already, or skipped.
    DoneBefore,
    /// It selects no Application.
    Empty,
    /// The rollout ended before all of its members were done.
    Unfinished,
    /// The rollout ended before its turn came.
    NotReached,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutStepView")]
pub struct StepView {
    /// Whom it selects.
    pub selects: String,
    /// How it stands.
    #[serde(default)]
    pub status: StepStatus,
    /// How many it has.
    pub members: u32,
    /// How many of them may be in flight at once; absent: all.
    pub max_update: Option<u32>,
    /// What opens it.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Who has approved it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// How long it may take, in seconds; absent: as long as it takes.
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
    /// How many of its members may fail; absent: one that fails holds it.
    #[serde(default)]
    pub max_failures: Option<u32>,
    /// What follows when more fail, or it takes too long.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// When its members began.
    pub opened_at: Option<Timestamp>,
    /// When all of them were done, the last time.
    pub passed_at: Option<Timestamp>,
}

/// What has become of an Application, where Argo CD's words make no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutOutcome")]
pub enum MemberOutcome {
    /// It could not be brought to its target; its status stays Progressing.
    Failed,
    /// Its operation has succeeded, and it is not Healthy yet; its status is Progressing.
    Settling,
    /// A person goes on without it; its status is Healthy.
    Skipped,
    /// It was Pending for too long, and is taken for Healthy.
    Assumed,
    /// It has what it had before; its status is Healthy.
    RolledBack,
}

/// An Application of the set: one entry of `status.applicationStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutMember")]
pub struct MemberView {
    /// Its name.
    pub application: String,
    /// Its status.
    pub status: MemberStatus,
    /// How it came to that, where the status does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<MemberOutcome>,
    /// The number of its step, from 1; `-1`: none selects it.
    pub step: String,
    /// Why it has that status.
    pub message: String,
    /// What it is brought to; of one that was rolled back, what it has again.
    pub target_revisions: Vec<String>,
    /// Since when it has that status.
    pub last_transition_time: Timestamp,
    /// The operation that brings it there, or has. In the record of a rollout the last one of this Application, also where it
    /// was stopped, or the Application was skipped.
    pub operation: Option<OperationId>,
    /// Steps that select it too, and do not get it.
    pub also: Vec<u32>,
}

/// How a rollout stands; `None` before it has begun.
pub fn view(state: &State) -> Option<RolloutView> {
    let rollout = state.rollout()?;
    let (outcome, asker) = (rollout.outcome.as_ref(), Wisher::read(&rollout.by));
    let number = |step: u32| step.saturating_add(1);
    let members = rollout.members.iter().filter(|(_, member)| member.progress != Progress::Gone);
    Some(RolloutView {
        set: rollout.set.clone(),
        targets: rollout.targets,
        by: asker.by.to_owned(),
        reason: asker.why(),
        stage: state.name(),
        step: rollout.current_step().map(number),
        end: outcome.map(|outcome| outcome.end),
        message: message(rollout),
        paused: rollout.paused.as_ref().map(Said::words),
        started_at: rollout.started_at,
        finished_at: outcome.map(|outcome| outcome.at),
        steps: (0..).zip(&rollout.steps).map(|(step, _)| step_view(rollout, step)).collect(),
        members: members
            .map(|(name, member)| MemberView {
                application: name.clone(),
                status: member.status(),
                outcome: outcome_of(member),
                step: step_text(member),
                message: message_of(rollout, member),
                target_revisions: has_or_gets(member).revisions.clone(),
                last_transition_time: member.since,
                operation: member.progress.operation(),
                also: member.place.also.iter().map(|step| number(*step)).collect(),
            })
            .collect(),
        left: left::by_state(rollout),
    })
}

/// The number of the step of a member, from 1; `-1`: none selects it.
pub(super) fn step_text(member: &Member) -> String {
    member.place.step.map_or_else(|| "-1".to_owned(), |step| step.saturating_add(1).to_string())
}

/// The Applications that a person goes on without, by name: Argo CD's words call them Healthy.
pub fn skipped(state: &State) -> impl Iterator<Item = &str> {
    let members = state.rollout().into_iter().flat_map(|rollout| &rollout.members);
    let skipped = members.filter(|(_, member)| outcome_of(member) == Some(MemberOutcome::Skipped));
    skipped.map(|(name, _)| name.as_str())
}

pub(super) fn outcome_of(member: &Member) -> Option<MemberOutcome> {
    match member.progress {
        Progress::Failed { .. } => Some(MemberOutcome::Failed),
        Progress::Settling { .. } => Some(MemberOutcome::Settling),
        Progress::Skipped(_) => Some(MemberOutcome::Skipped),
        Progress::Assumed => Some(MemberOutcome::Assumed),
        Progress::RolledBack { .. } => Some(MemberOutcome::RolledBack),
        _ => None,
    }
}

fn message_of(rollout: &Rollout, member: &Member) -> String {
    let is_ending = matches!(rollout.stage, Stage::Ending { .. });
    if member.is_tried_again() && !is_ending {
        return messages::ONCE_MORE.to_owned();
    }
    messages::of_member(member)
}

/// What a member is brought to; of one that was rolled back, what it has again.
pub(super) fn has_or_gets(member: &Member) -> &Target {
    match (&member.progress, &member.before) {
        (Progress::RolledBack { .. }, Some(before)) => &before.target,
        _ => &member.target,
    }
}

/// Where it stands, or why it ended, in words.
pub(super) fn message(rollout: &Rollout) -> String {
    match (&rollout.outcome, &rollout.stage) {
        (Some(outcome), _) => outcome.message.clone(),
        (None, Stage::Ending { message, .. }) => message.clone(),
        (None, _) => condition(rollout).1,
    }
}

fn step_view(rollout: &Rollout, step: u32) -> StepView {
    let budget = rollout.budget(step);
    let state = rollout.step(step).cloned().unwrap_or_default();
    StepView {
        selects: state.step.words(),
        status: step_status(rollout, step),
        members: count(rollout.members_of(step)),
        max_update: (budget < u32::MAX).then_some(budget),
        gates: state.step.gates.clone(),
        approved: state.approved.as_ref().map(Said::words),
        deadline_seconds: state.step.deadline.map(|deadline| deadline.as_secs()),
        max_failures: state.step.max_failures,
        on_failure: state.step.on_failure,
        opened_at: state.opened_at,
        passed_at: state.passed_at,
    }
}

fn step_status(rollout: &Rollout, step: u32) -> StepStatus {
    let state = rollout.step(step);
    let (is_empty, is_open) = (rollout.members_of(step).next().is_none(), rollout.is_open(step));
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
        _ if !is_open => StepStatus::DoneBefore,
        Stage::Ending { .. } if has_begun => StepStatus::Unfinished,
        Stage::Ending { .. } => StepStatus::NotReached,
        _ => StepStatus::Waiting,
    }
}

/// The condition `RolloutProgressing`: whether it is true, its message and its reason, as Argo CD has them.
pub fn condition(rollout: &Rollout) -> (bool, String, &'static str) {
    // One that is paused stays where it is, though all of that step may be done.
    let paused = rollout.current_step().filter(|_| rollout.paused.is_some());
    if let Stage::RollingBack { step } = rollout.stage {
        return (true, messages::rolling_back(rollout, step), "ApplicationSetRollingBack");
    }
    let step = rollout.first_open().into_iter().chain(paused).min();
    match step.filter(|_| rollout.outcome.is_none()) {
        Some(step) => {
            let number = step.saturating_add(1);
            let message = format!("ApplicationSet is performing rollout of step {number}");
            (true, message, "ApplicationSetModified")
        }
        None => match &rollout.outcome {
            // Whoever reads on must not take it for done.
            Some(Outcome { end, message, .. }) if *end != End::Completed => {
                (false, message.clone(), "ApplicationSetRolloutEnded")
            }
            _ => (false, messages::COMPLETED.to_owned(), "ApplicationSetRolloutComplete"),
        },
    }
}

/// The members that are Pending for longer than they may be, in words; nothing where there are none, or no more.
pub fn overdue(rollout: &Rollout) -> Option<String> {
    let members = rollout.members.iter().filter(|(_, member)| member.overdue && rollout.outcome.is_none());
    let overdue: Vec<&str> = members.map(|(name, _)| name.as_str()).collect();
    let timeout = rollout.options.pending_timeout.unwrap_or_default();
    (!overdue.is_empty())
        .then(|| format!("Pending for more than {}: {}", words(timeout), enumerate(&overdue)))
}
