//! Legal transitions, and the effects of entering a stage.

use tidegate_model::{Action, OperationPhase, ResultCode, TaskId, Timestamp};

use super::result::record_result;
use crate::operation::messages;
use crate::operation::rules::has_runner;
use crate::operation::state::{Cursor, Operation, Progress, Stage, TaskState, WaveStep};

/// Returns true if the transition between two stages is legal. [`advance`](crate::operation::advance())
/// decides when it happens.
fn is_legal_transition(from: &Stage, to: &Stage) -> bool {
    match (from, to) {
        (Stage::Planned, Stage::DryRun)
        | (
            Stage::Planned | Stage::DryRun,
            Stage::Wave { step: WaveStep::Held, .. } | Stage::Finishing { .. },
        )
        | (Stage::Planned | Stage::DryRun | Stage::Wave { .. }, Stage::AwaitingRetry { .. })
        | (Stage::Wave { .. }, Stage::Finishing { .. }) => true,
        // An operation that is already ending can't be terminated again.
        (from, Stage::Terminating) => !matches!(from, Stage::Terminating | Stage::Finishing { .. }),
        (Stage::Wave { index: from, step }, Stage::Wave { index: to, step: next }) if from == to => {
            next.rank() > step.rank()
                || matches!(
                    (step, next),
                    (WaveStep::Settling { .. }, WaveStep::AwaitingHealth | WaveStep::Settling { .. })
                )
        }
        // To the next wave, or from any step of a failed wave to the first SyncFail wave.
        (Stage::Wave { index: from, .. }, Stage::Wave { index: to, step: WaveStep::Held }) => to > from,
        _ => false,
    }
}

/// Returns true if the transition goes back to an earlier step of the same wave. That is legal only after a
/// user's override, which can add work to the step.
fn is_step_back(operation: &Operation, to: &Stage) -> bool {
    let Some((from, step)) = operation.current_wave() else { return false };
    let Stage::Wave { index, step: next } = to else { return false };
    let waits = matches!(step, WaveStep::AwaitingHealth | WaveStep::Settling { .. } | WaveStep::Verifying);
    waits
        && from == *index
        && *next != WaveStep::Held
        && next.rank() < step.rank()
        && !operation.overrides.is_empty()
}

/// Returns true for the transition to a superseded operation's clean-up, which deletes hooks according to
/// their policies.
fn is_superseded_cleanup(operation: &Operation, to: &Stage) -> bool {
    operation.stage == Stage::Terminating
        && matches!(to, Stage::Finishing { phase: OperationPhase::Failed, .. })
        && operation.is_superseded()
}

pub(super) fn apply_transition(operation: &mut Operation, to: &Stage, at: Timestamp) -> Option<()> {
    if !is_legal_transition(&operation.stage, to)
        && !is_step_back(operation, to)
        && !is_superseded_cleanup(operation, to)
    {
        return None;
    }
    match to {
        Stage::Wave { index, step } => {
            operation.wave(*index)?;
            enter_step(operation, *index, *step, at);
        }
        Stage::Finishing { phase, .. } => phase.is_completed().then_some(())?,
        Stage::Terminating => operation.termination.is_some().then_some(())?,
        _ => {}
    }
    // Only a dry run records results for tasks that weren't written. An ordinary operation doesn't, even if
    // it ends after the dry-run stage because there was nothing to write.
    let only_tries = operation.header.request.options.dry_run;
    if only_tries && operation.stage == Stage::DryRun && matches!(to, Stage::Finishing { .. }) {
        record_dry_run(operation);
    }
    operation.stage = to.clone();
    operation.since = at;
    Some(())
}

fn open_wave(operation: &mut Operation, index: u32, at: Timestamp) {
    operation.retain_gate_answers(index);
    // The new wave's watches report their own problems.
    operation.header.blind = None;
    operation.wave_expired = None;
    operation.cursor = Cursor::for_wave(operation, index);
    operation.judged = operation.health_scope(index);
    if let Some(times) = operation.waves.get_mut(TaskId(index).index()) {
        times.opened_at = Some(at);
        times.deadline_from = Some(at);
        times.applied_at = None;
        times.passed_at = None;
    }
}

fn enter_step(operation: &mut Operation, index: u32, step: WaveStep, at: Timestamp) {
    if step == WaveStep::Held {
        open_wave(operation, index, at);
    }
    if step == WaveStep::Pruning {
        record_skipped_prunes(operation, index);
    }
    if let Some(times) = operation.waves.get_mut(TaskId(index).index()) {
        match step {
            WaveStep::AwaitingHealth if times.applied_at.is_none() => times.applied_at = Some(at),
            WaveStep::Applying => times.applied_at = None,
            WaveStep::Passed => times.passed_at = Some(at),
            _ => {}
        }
    }
}

fn record_skipped_prunes(operation: &mut Operation, index: u32) {
    let skipped: Vec<(TaskId, String)> = operation
        .wave_tasks(index)
        .filter(|(_, task, state)| task.action == Action::PruneSkipped && state.progress == Progress::Waiting)
        .map(|(id, task, _)| (id, task.reason.clone()))
        .collect();
    for (id, reason) in skipped {
        record_result(operation, id, |state| {
            state.progress = Progress::Done;
            state.status = Some(ResultCode::PruneSkipped);
            state.phase = Some(OperationPhase::Succeeded);
            state.message = reason;
        });
    }
}

/// Records a result for every task of a dry run.
pub(super) fn record_dry_run(operation: &mut Operation) {
    let all: Vec<(TaskId, Action, bool, String)> = operation
        .plan
        .tasks_with_ids()
        .map(|(id, task)| (id, task.action, has_runner(task), task.reason.clone()))
        .collect();
    for (id, action, has_runner, reason) in all {
        if operation.tasks.get(id.index()).is_some_and(TaskState::is_unsuccessful) {
            continue;
        }
        let (status, message) = match action {
            Action::Unchanged => continue,
            Action::Prune => (ResultCode::Pruned, Some(messages::PRUNED_DRY_RUN.to_owned())),
            Action::PruneSkipped => (ResultCode::PruneSkipped, Some(reason)),
            Action::Create | Action::Apply | Action::Replace => (ResultCode::Synced, None),
        };
        record_result(operation, id, |state| {
            state.progress = Progress::Done;
            state.status = Some(status);
            state.phase = Some(OperationPhase::Succeeded);
            if let Some(message) = message {
                state.message = message;
            } else if !state.checked {
                let why = if has_runner { messages::RUNNER_NOT_TRIED } else { messages::NOT_TRIED };
                state.message = why.to_owned();
            }
        });
    }
}
