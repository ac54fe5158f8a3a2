//! What the current step of a rollout waits for, in one word: for whoever counts such waits.

use std::fmt;

use tidegate_model::Timestamp;

use super::messages::is_approval;
use super::state::{Member, Progress, Rollout, Stage, State};
use crate::operation::Verdict;

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number, from 1.
    pub step: u32,
    /// What for.
    pub reason: WaitReason,
    /// Since when.
    pub since: Timestamp,
}

/// What for, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// A person holds the rollout.
    Paused,
    /// A member has failed, and nobody has seen to it.
    Failed,
    /// Nobody has approved the step, or the plan of a member.
    Approval,
    /// A gate is closed.
    Gate,
    /// The step before is watched for a while.
    Soak,
    /// People sync its members: `maxUpdate` is 0.
    Manual,
    /// The sync of a member has not begun.
    Pending,
    /// A sync window keeps one from beginning.
    Window,
    /// One is at work.
    Sync,
    /// One is over, and its Application is not Synced and Healthy.
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

/// What the current step waits for; of several things the one that people have to see to, or else the longest wait.
pub fn waiting(state: &State) -> Option<Waiting> {
    let State::Running(rollout) = state else { return None };
    let step = rollout.current_step()?;
    let (reason, since) = match (&rollout.paused, &rollout.stage) {
        (Some(said), _) => (WaitReason::Paused, said.at),
        (None, Stage::Held { step }) => (held(rollout, *step), rollout.since),
        (None, _) => {
            let of_members = rollout.members_of(step).filter_map(|(_, member)| {
                let reason = of_member(rollout, step, member)?;
                Some((reason != WaitReason::Failed, member.since, reason))
            });
            let (_, since, reason) = of_members.min()?;
            (reason, since)
        }
    };
    Some(Waiting { step: step.saturating_add(1), reason, since })
}

fn held(rollout: &Rollout, step: u32) -> WaitReason {
    let is_closed = |gate: &String| {
        !rollout.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
    };
    if rollout.lacks_approval(step) {
        WaitReason::Approval
    } else if rollout.asked_gates(step).any(is_closed) {
        WaitReason::Gate
    } else {
        WaitReason::Soak
    }
}

/// `None` for one that waits for others, or is done.
fn of_member(rollout: &Rollout, step: u32, member: &Member) -> Option<WaitReason> {
    let is_manual = || rollout.step(step).is_some_and(|step| step.step.max_update.is_manual());
    match &member.progress {
        Progress::Failed { .. } if !rollout.is_settled(member) => Some(WaitReason::Failed),
        Progress::Waiting if is_manual() => Some(WaitReason::Manual),
        Progress::Named { window: Some(window), .. } if is_approval(window) => Some(WaitReason::Approval),
        Progress::Named { window: Some(_), .. } => Some(WaitReason::Window),
        Progress::Promoted | Progress::Named { .. } => Some(WaitReason::Pending),
        Progress::Running { .. } | Progress::Stopping { .. } => Some(WaitReason::Sync),
        Progress::Settling { .. } => Some(WaitReason::Health),
        _ => None,
    }
}
