//! Stages of an operation and steps of a wave.

use serde::{Deserialize, Serialize};
use tidegate_model::{OperationPhase, Timestamp};

/// Stage of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The plan is fixed.
    Planned,
    /// All manifests are being dry-run on the server.
    DryRun,
    /// A wave is running.
    Wave {
        /// Position of the wave in the plan, counted from 0.
        index: u32,
        /// Step of the wave.
        step: WaveStep,
    },
    /// An attempt failed. The next attempt starts at this time.
    AwaitingRetry {
        /// Start of the next attempt, moved by the length of pauses.
        until: Timestamp,
    },
    /// Running hooks are being stopped.
    Terminating,
    /// Hooks are being cleaned up. The operation then ends in this phase.
    Finishing {
        /// Final phase: `Succeeded` or `Failed`.
        phase: OperationPhase,
        /// Final message.
        message: String,
    },
}

/// Step of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaveStep {
    /// A gate, a person or a missing confirmation keeps the wave closed.
    Held,
    /// Manifests that couldn't be dry-run before are being dry-run on the server.
    DryRun,
    /// The deletion of objects that are no longer needed is being requested.
    Pruning,
    /// The wave is waiting until deleted objects are gone.
    AwaitingGone,
    /// Older hook objects are being removed.
    Clearing,
    /// Manifests are being applied, one kind group after the other.
    Applying,
    /// The wave is waiting for hooks to complete and for resources to become healthy.
    AwaitingHealth,
    /// Everything looks healthy, but kinds without better evidence, or a fixed delay, need some time.
    Settling {
        /// Time at which the evidence has persisted for long enough, or the delay has passed.
        until: Timestamp,
    },
    /// The next wave may begin.
    Passed,
    /// The last wave or a failed wave is checking that the namespaces it wrote to still exist.
    Verifying,
}

impl Stage {
    /// Returns the name of the stage, such as `Wave 2 Applying`.
    pub fn name(&self) -> String {
        match self {
            Self::Planned => "Planned".to_owned(),
            Self::DryRun => "DryRun".to_owned(),
            Self::Wave { index, step } => format!("Wave {} {}", index.saturating_add(1), step.name()),
            Self::AwaitingRetry { .. } => "AwaitingRetry".to_owned(),
            Self::Terminating => "Terminating".to_owned(),
            Self::Finishing { .. } => "Finishing".to_owned(),
        }
    }
}

impl WaveStep {
    /// Returns the position among a wave's steps.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::DryRun => 1,
            Self::Pruning => 2,
            Self::AwaitingGone => 3,
            Self::Clearing => 4,
            Self::Applying => 5,
            Self::AwaitingHealth => 6,
            Self::Settling { .. } => 7,
            Self::Verifying => 8,
            Self::Passed => 9,
        }
    }

    /// Returns the name of the step, as in the diagram in `docs/internals/operations.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::DryRun => "DryRun",
            Self::Pruning => "Pruning",
            Self::AwaitingGone => "AwaitingGone",
            Self::Clearing => "Clearing",
            Self::Applying => "Applying",
            Self::AwaitingHealth => "AwaitingHealth",
            Self::Settling { .. } => "Settling",
            Self::Verifying => "Verifying",
            Self::Passed => "Passed",
        }
    }
}
