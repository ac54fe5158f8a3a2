//! Where an operation and its current wave stand.

use serde::{Deserialize, Serialize};
use tidegate_model::{OperationPhase, Timestamp};

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The plan is fixed.
    Planned,
    /// All manifests are tried on the server.
    DryRun,
    /// A wave is at work.
    Wave {
        /// The wave's position in the plan, from 0.
        index: u32,
        /// Where the wave stands.
        step: WaveStep,
    },
    /// An attempt failed; the next begins at this time.
    AwaitingRetry {
        /// When the next attempt begins; later by as long as the operation is paused.
        until: Timestamp,
    },
    /// Running hooks are being stopped.
    Terminating,
    /// Hooks are cleaned up; then it ends like this.
    Finishing {
        /// What it will have ended in: `Succeeded` or `Failed`.
        phase: OperationPhase,
        /// The message it will end with.
        message: String,
    },
}

/// Where a wave stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaveStep {
    /// A gate, a person or a missing confirmation keeps it closed.
    Held,
    /// Manifests that could not be judged before are tried on the server.
    DryRun,
    /// Objects that are wanted no more are told to go.
    Pruning,
    /// Deleted objects are on their way out.
    AwaitingGone,
    /// Older hook objects are removed.
    Clearing,
    /// Manifests are applied, one kind group after the other.
    Applying,
    /// Hooks complete and resources become healthy.
    AwaitingHealth,
    /// Everything looks healthy; the kinds without better evidence, or a fixed delay, ask for some time.
    Settling {
        /// When the evidence has held for long enough, or the delay is over.
        until: Timestamp,
    },
    /// The next wave may begin.
    Passed,
    /// A last or failed wave ends if the namespaces that were written into are still there.
    Verifying,
}

impl Stage {
    /// The name of the stage, such as `Wave 2 Applying`.
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
    /// Position among the steps of a wave.
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

    /// The name of the step, as `ARCHITECTURE.md` draws it.
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
