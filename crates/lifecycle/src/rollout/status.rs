//! Status, outcome, step and target of an Application, as shown in output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::Target;
use super::state::{Member, Progress};

/// Status of an Application in a progressive sync. The values are Argo CD's, except for `RolledBack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutStatus")]
pub enum MemberStatus {
    /// The rollout hasn't started work on the Application yet.
    Waiting,
    /// The Application may be updated, but its sync hasn't begun.
    Pending,
    /// The Application's sync has begun. If the sync fails, the status remains until a user handles the
    /// failure.
    Progressing,
    /// The Application is at its target, Synced and Healthy. Also used if the rollout has another reason not
    /// to wait for the Application, which the message then explains.
    Healthy,
    /// The Application was rolled back to its previous deployment, because it didn't reach its target. Argo
    /// CD doesn't have this status.
    RolledBack,
}

/// Outcome of an Application, if Argo CD's status alone doesn't show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutOutcome")]
pub enum MemberOutcome {
    /// The Application couldn't be updated to its target. Its status remains Progressing.
    Failed,
    /// The Application's operation succeeded, but the Application isn't Healthy yet. Its status is
    /// Progressing.
    Settling,
    /// A user skipped the Application. Its status is Healthy.
    Skipped,
    /// The Application was Pending for too long, and counts as Healthy.
    AssumedHealthy,
    /// The Application was rolled back. Its status is also RolledBack.
    RolledBack,
}

impl Member {
    /// Returns the status that users see.
    pub fn status(&self) -> MemberStatus {
        match self.progress {
            Progress::Waiting | Progress::Gone | Progress::Late => MemberStatus::Waiting,
            Progress::Promoted | Progress::Named { .. } => MemberStatus::Pending,
            Progress::Running { .. }
            | Progress::Settling { .. }
            | Progress::Stopping { .. }
            | Progress::Failed { .. } => MemberStatus::Progressing,
            Progress::RolledBack { .. } => MemberStatus::RolledBack,
            Progress::Healthy { .. } | Progress::Assumed | Progress::Skipped(_) => MemberStatus::Healthy,
        }
    }
}

pub(super) fn member_outcome(member: &Member) -> Option<MemberOutcome> {
    match member.progress {
        Progress::Failed { .. } => Some(MemberOutcome::Failed),
        Progress::Settling { .. } => Some(MemberOutcome::Settling),
        Progress::Skipped(_) => Some(MemberOutcome::Skipped),
        Progress::Assumed => Some(MemberOutcome::AssumedHealthy),
        Progress::RolledBack { .. } => Some(MemberOutcome::RolledBack),
        _ => None,
    }
}

/// Returns the number of an Application's step, starting at 1, or `-1` if no step selects it.
pub(super) fn format_step_number(member: &Member) -> String {
    member.place.step.map_or_else(|| "-1".to_owned(), |step| step.saturating_add(1).to_string())
}

/// Returns an Application's target or, after a rollback, its previous deployment.
pub(super) fn effective_target(member: &Member) -> &Target {
    match (&member.progress, &member.before) {
        (Progress::RolledBack { .. }, Some(before)) => &before.target,
        _ => &member.target,
    }
}
