//! What people are told of a rollout or a teardown while it goes on.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// Something that has happened, and that a state still shows: whoever has missed it finds it there. Told twice it is known by
/// its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// What tells it from the others of its machine: short, and made of letters, digits and dashes.
    pub key: String,
    /// What it is.
    pub reason: MilestoneReason,
    /// In words.
    pub message: String,
    /// When, where the state says so.
    pub at: Option<Timestamp>,
}

/// What has happened, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MilestoneReason {
    /// A rollout has begun.
    RolloutStarted,
    /// Gates, or people who have not approved, keep a step closed.
    StepHeld,
    /// The members of a step are brought to their targets.
    StepOpened,
    /// A step is done.
    StepPassed,
    /// More members of a step have failed than may.
    StepFailed,
    /// A step is not done, and should be.
    DeadlinePassed,
    /// A person holds a rollout.
    RolloutPaused,
    /// A rollout is over, and every step is done.
    RolloutCompleted,
    /// A rollout is over before.
    RolloutEnded,
    /// The Applications of a set are deleted in order.
    DeletionStarted,
    /// The Applications of a step are deleted.
    DeletionStepStarted,
    /// A person holds a deletion.
    DeletionPaused,
    /// The Applications are gone.
    DeletionCompleted,
    /// A deletion is over before.
    DeletionEnded,
}

impl MilestoneReason {
    /// Whether nobody has to see to it.
    pub fn is_well(self) -> bool {
        !matches!(self, Self::StepFailed | Self::DeadlinePassed | Self::RolloutEnded | Self::DeletionEnded)
    }
}

impl fmt::Display for MilestoneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
