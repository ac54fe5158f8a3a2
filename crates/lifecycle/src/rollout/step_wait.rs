//! Reason why a rollout's current step is waiting, as one word for metrics.

use std::fmt;

use tidegate_model::Timestamp;

use super::messages::is_missing_approval;
use super::state::{Member, Progress, Rollout, Stage, State};
use crate::operation::Verdict;

/// A step's current wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepWait {
    /// Number of the step, starting at 1.
    pub step: u32,
    /// Reason for the wait.
    pub reason: WaitReason,
    /// Start of the wait.
    pub since: Timestamp,
}

/// Reason for a wait, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// A user paused the rollout.
    Paused,
    /// An Application failed, and a user must handle the failure.
    Failed,
    /// The approval of the step, or of an Application's plan, is missing.
    Approval,
    /// A gate is closed.
    Gate,
    /// The soak time after the previous step isn't over.
    Soak,
    /// Users must sync the Applications in the step, because `maxUpdate` is 0.
    Manual,
    /// An Application's sync hasn't begun.
    Pending,
    /// A sync window is delaying an Application's sync.
    Window,
    /// An Application's sync is running.
    Sync,
    /// An Application's sync has finished, but the Application isn't Synced and Healthy.
    Health,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Approval => "approval",
            Self::Gate => "gate",
            Self::Soak => "soak",
            Self::Manual => "manual",
            Self::Pending => "pending",
            Self::Window => "window",
            Self::Sync => "sync",
            Self::Health => "health",
        })
    }
}

/// Returns the current step's most important wait: the longest wait that a user must end, or otherwise the
/// longest wait.
pub fn current_wait(state: &State) -> Option<StepWait> {
    let State::Running(rollout) = state else { return None };
    let step = rollout.current_step()?;
    let (reason, since) = match (&rollout.paused, &rollout.stage) {
        (Some(attribution), _) => (WaitReason::Paused, attribution.at),
        (None, Stage::Held { step }) => (held_reason(rollout, *step), rollout.since),
        (None, _) => {
            let of_members = rollout.members_in_step(step).filter_map(|(_, member)| {
                let reason = member_reason(rollout, step, member)?;
                Some((reason != WaitReason::Failed, member.since, reason))
            });
            let (_, since, reason) = of_members.min()?;
            (reason, since)
        }
    };
    Some(StepWait { step: step.saturating_add(1), reason, since })
}

fn held_reason(rollout: &Rollout, step: u32) -> WaitReason {
    let is_closed = |gate: &String| {
        !rollout.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
    };
    if rollout.needs_approval(step) {
        WaitReason::Approval
    } else if rollout.external_gates(step).any(is_closed) {
        WaitReason::Gate
    } else {
        WaitReason::Soak
    }
}

/// Returns the reason for an Application's wait, or `None` if the Application is done or only waits for other
/// Applications.
fn member_reason(rollout: &Rollout, step: u32, member: &Member) -> Option<WaitReason> {
    let is_manual = || rollout.step(step).is_some_and(|step| step.step.max_update.is_manual());
    match &member.progress {
        Progress::Failed { .. } if !rollout.is_settled(member) => Some(WaitReason::Failed),
        Progress::Waiting if is_manual() => Some(WaitReason::Manual),
        Progress::Named { window: Some(window), .. } if is_missing_approval(window) => {
            Some(WaitReason::Approval)
        }
        Progress::Named { window: Some(_), .. } => Some(WaitReason::Window),
        Progress::Promoted | Progress::Named { .. } => Some(WaitReason::Pending),
        Progress::Running { .. } | Progress::Stopping { .. } => Some(WaitReason::Sync),
        Progress::Settling { .. } => Some(WaitReason::Health),
        _ => None,
    }
}
