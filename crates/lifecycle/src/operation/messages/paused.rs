//! Messages of paused operations: who paused them, why, and what they are waiting for.
//!
//! Argo CD doesn't have pauses, so these messages are specific to Tidegate. They omit conditions that may
//! have changed since the pause started. A paused operation doesn't query gates, doesn't check the names of
//! hooks, and doesn't count time.

use tidegate_model::Task;

use super::super::state::{Operation, Pause, Progress, Stage, TaskState, WaveStep};
use super::{WaitReason, tasks_wait_message, with_cause};

impl Pause {
    /// Formats a pause, such as `paused by ann: stop for lunch`.
    pub(crate) fn describe(&self) -> String {
        with_cause(&format!("paused by {}", self.by), &self.reason)
    }
}

/// Formats a pause with the current wait, such as `paused by ann: stop for lunch; waiting for healthy state
/// of apps/Deployment/api`.
pub(super) fn paused_message(pause: &Pause, operation: &Operation) -> String {
    match describe_awaited(operation) {
        Some(awaited) => format!("{}; {awaited}", pause.describe()),
        None => pause.describe(),
    }
}

fn describe_awaited(operation: &Operation) -> Option<String> {
    match &operation.stage {
        Stage::Planned | Stage::DryRun => None,
        Stage::Wave { index, step } => describe_awaited_in_wave(operation, *index, *step),
        // The pause postpones the next attempt, so its time is unknown.
        Stage::AwaitingRetry { .. } => {
            let failure = operation.failure.as_ref()?;
            Some(format!("{}. Retrying attempt #{} when unpaused.", failure.message, operation.attempt))
        }
        Stage::Terminating | Stage::Finishing { .. } => Some(operation.unpaused_message()),
    }
}

fn describe_awaited_in_wave(operation: &Operation, index: u32, step: WaveStep) -> Option<String> {
    match step {
        WaveStep::Held => tasks_wait_message(WaitReason::Confirmation, operation.unconfirmed_prunes(index))
            .or_else(|| operation.missing_approval_message(index)),
        WaveStep::AwaitingGone | WaveStep::Clearing | WaveStep::Applying => tasks_wait_message(
            WaitReason::Deletion,
            operation.blocking_deletions(index, step).map(|(task, _)| task),
        )
        .or_else(|| operation.dependencies_message(index).filter(|_| step == WaveStep::Applying)),
        WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
            let awaited = |is: fn(&TaskState) -> bool| {
                let awaited = operation.awaited_task_states(index).filter(move |(_, _, state)| is(state));
                awaited.map(|(_, task, _): (_, &Task, _)| task)
            };
            // A finished hook that still has its finalizer isn't running. It just waits for this operation to
            // remove the finalizer.
            let runs = |state: &TaskState| state.progress == Progress::Running;
            let leaves = |state: &TaskState| matches!(state.progress, Progress::Deleting { .. });
            tasks_wait_message(WaitReason::Health, awaited(runs))
                .or_else(|| tasks_wait_message(WaitReason::Deletion, awaited(leaves)))
        }
        _ => None,
    }
}
