//! Notifications about a running rollout or teardown.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// A notification whose content can also be read from the state, so a consumer that missed it finds it there. Its key
/// identifies repeated deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// Identifier, unique within its machine. Short, and consisting of letters, digits and dashes.
    pub key: String,
    /// Reason.
    pub reason: MilestoneReason,
    /// Message for people.
    pub message: String,
    /// Time, if the state records it.
    pub at: Option<Timestamp>,
}

/// Reason of a milestone, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MilestoneReason {
    /// A rollout started.
    RolloutStarted,
    /// Gates or missing approvals keep a step closed.
    StepHeld,
    /// A step opened, so its members are updated to their targets.
    StepOpened,
    /// A step passed.
    StepPassed,
    /// More members of a step failed than the step allows.
    StepFailed,
    /// A step's deadline passed before the step had passed.
    DeadlinePassed,
    /// A person paused a rollout.
    RolloutPaused,
    /// A rollout ended with all steps passed.
    RolloutCompleted,
    /// A rollout ended early.
    RolloutEnded,
    /// An ordered deletion of the Applications of an ApplicationSet started.
    DeletionStarted,
    /// The deletion of the Applications of a step started.
    DeletionStepStarted,
    /// A person paused a deletion.
    DeletionPaused,
    /// The Applications are gone.
    DeletionCompleted,
    /// A deletion ended early.
    DeletionEnded,
}

impl MilestoneReason {
    /// Returns true if the milestone doesn't need attention.
    pub fn is_normal(self) -> bool {
        !matches!(self, Self::StepFailed | Self::DeadlinePassed | Self::RolloutEnded | Self::DeletionEnded)
    }
}

impl fmt::Display for MilestoneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
