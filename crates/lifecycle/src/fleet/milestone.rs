//! Notifications about a running rollout or teardown.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// A notification. It may be delivered more than once; the key identifies duplicates. Consumers that miss it
/// can read the same information from the machine's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// Identifier, unique within its machine: a short string of letters, digits and dashes.
    pub key: String,
    /// Machine-readable reason for the notification.
    pub reason: MilestoneReason,
    /// Human-readable message.
    pub message: String,
    /// Time, if the state records it.
    pub at: Option<Timestamp>,
}

/// Reason for a milestone, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MilestoneReason {
    /// A rollout started.
    RolloutStarted,
    /// A step can't open because a gate is closed or an approval is missing.
    StepHeld,
    /// A step opened, and its Applications are now updated to their targets.
    StepOpened,
    /// A step passed.
    StepPassed,
    /// More Applications in a step failed than the step allows.
    StepFailed,
    /// A step's deadline passed before the step was complete.
    DeadlinePassed,
    /// A user paused a rollout.
    RolloutPaused,
    /// A rollout finished after all steps had passed.
    RolloutCompleted,
    /// A rollout ended early.
    RolloutEnded,
    /// An ordered deletion of an ApplicationSet's Applications started.
    DeletionStarted,
    /// The deletion of a step's Applications started.
    DeletionStepStarted,
    /// A user paused a deletion.
    DeletionPaused,
    /// All Applications were deleted.
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
