//! What is said of an operation that a person holds: that, why, and what it awaits of the world meanwhile.
//!
//! Argo CD has no such thing, so the words are ours. Nothing is said that may have come true since: a paused operation
//! asks no gates, does not look whether the place of a hook is clear, and does not count the time.

use tidegate_model::Task;

use super::super::state::{Operation, Pause, Progress, Stage, TaskState, WaveStep};
use super::{Reason, waiting_for, with_cause};

impl Pause {
    /// `paused by ann: stop for lunch`.
    pub(crate) fn words(&self) -> String {
        with_cause(&format!("paused by {}", self.by), &self.reason)
    }
}

/// `paused by ann: stop for lunch; waiting for healthy state of apps/Deployment/api`.
pub(super) fn message(pause: &Pause, operation: &Operation) -> String {
    match awaited(operation) {
        Some(awaited) => format!("{}; {awaited}", pause.words()),
        None => pause.words(),
    }
}

fn awaited(operation: &Operation) -> Option<String> {
    match &operation.stage {
        Stage::Planned | Stage::DryRun => None,
        Stage::Wave { index, step } => awaited_in_wave(operation, *index, *step),
        // When that is, nobody can tell: it is put off for as long as the operation is held.
        Stage::AwaitingRetry { .. } => {
            let failure = operation.failure.as_ref()?;
            Some(format!("{}. Retrying attempt #{} when it goes on.", failure.message, operation.attempt))
        }
        Stage::Terminating | Stage::Finishing { .. } => Some(operation.unpaused_message()),
    }
}

fn awaited_in_wave(operation: &Operation, index: u32, step: WaveStep) -> Option<String> {
    match step {
        WaveStep::Held => waiting_for(Reason::Confirmation, operation.unconfirmed_prunes(index))
            .or_else(|| operation.wanted_approval(index)),
        WaveStep::AwaitingGone | WaveStep::Clearing | WaveStep::Applying => {
            waiting_for(Reason::Deletion, operation.in_the_way(index, step).map(|(task, _)| task))
        }
        WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
            let awaited = |is: fn(&TaskState) -> bool| {
                let awaited = operation.awaited(index).filter(move |(_, _, state)| is(state));
                awaited.map(|(_, task, _): (_, &Task, _)| task)
            };
            // A hook that has ended, and still has its finalizer, awaits nothing but us.
            let runs = |state: &TaskState| state.progress == Progress::Running;
            let leaves = |state: &TaskState| matches!(state.progress, Progress::Deleting { .. });
            waiting_for(Reason::Health, awaited(runs))
                .or_else(|| waiting_for(Reason::Deletion, awaited(leaves)))
        }
        _ => None,
    }
}
