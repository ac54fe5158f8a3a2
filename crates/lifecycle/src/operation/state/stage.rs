//! Stages of an operation and steps of a wave.

use serde::{Deserialize, Serialize};
use tidegate_model::{OperationPhase, Timestamp};

/// Stage of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The plan was created, but no wave has opened in this attempt.
    Planned,
    /// All manifests are being dry-run on the server.
    DryRun,
    /// A wave is running.
    Wave {
        /// Position of the wave in the plan, starting at 0.
        index: u32,
        /// Step of the wave.
        step: WaveStep,
    },
    /// An attempt failed, and the next attempt starts later.
    AwaitingRetry {
        /// Start time of the next attempt, postponed by the length of pauses.
        until: Timestamp,
    },
    /// Running hooks are being stopped.
    Terminating,
    /// Hooks are being cleaned up before the operation ends.
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
    /// The wave can't open yet because of a gate, a missing approval or a missing confirmation.
    Held,
    /// Manifests that couldn't be dry-run earlier are being dry-run on the server.
    DryRun,
    /// Objects that are no longer needed are being deleted.
    Pruning,
    /// The wave is waiting until deleted objects are gone.
    AwaitingGone,
    /// Older hook objects are being deleted to free their names.
    Clearing,
    /// Manifests are being applied, one kind group at a time.
    Applying,
    /// The wave is waiting for hooks to complete and for resources to become healthy.
    AwaitingHealth,
    /// All objects look healthy, but must stay that way for a while, because some kinds provide no better
    /// evidence. Or the wave is waiting out the fixed delay between waves.
    Settling {
        /// End of the required time or of the delay.
        until: Timestamp,
    },
    /// The next wave may begin.
    Passed,
    /// The last wave, or a failed one, is checking that the namespaces it wrote to still exist.
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
    /// Returns the position of the step among a wave's steps.
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
