//! Which arrows are legal, and what happens on entering a stage.

use tidegate_model::{Action, OperationPhase, ResultCode, TaskId, Timestamp};

use super::tasks::record;
use crate::operation::messages;
use crate::operation::rules::has_runner;
use crate::operation::state::{Cursor, Operation, Progress, Stage, TaskState, WaveStep};

/// Whether the machine may go from one stage to another. [`follow`](crate::operation::follow) decides when it does.
fn is_arrow(from: &Stage, to: &Stage) -> bool {
    match (from, to) {
        (Stage::Planned, Stage::DryRun)
        | (
            Stage::Planned | Stage::DryRun,
            Stage::Wave { step: WaveStep::Held, .. } | Stage::Finishing { .. },
        )
        | (Stage::Planned | Stage::DryRun | Stage::Wave { .. }, Stage::AwaitingRetry { .. })
        | (Stage::Wave { .. }, Stage::Finishing { .. }) => true,
        // From where an operation ends by itself it is not ended once more.
        (from, Stage::Terminating) => !matches!(from, Stage::Terminating | Stage::Finishing { .. }),
        (Stage::Wave { index: from, step }, Stage::Wave { index: to, step: next }) if from == to => {
            next.rank() > step.rank()
                || matches!(
                    (step, next),
                    (WaveStep::Settling { .. }, WaveStep::AwaitingHealth | WaveStep::Settling { .. })
                )
        }
        // The next wave, or from any step of a failed wave the first SyncFail wave.
        (Stage::Wave { index: from, .. }, Stage::Wave { index: to, step: WaveStep::Held }) => to > from,
        _ => false,
    }
}

/// Within a wave, where a person's wish has left something to do again.
fn goes_back(operation: &Operation, to: &Stage) -> bool {
    let Some((from, step)) = operation.current_wave() else { return false };
    let Stage::Wave { index, step: next } = to else { return false };
    let waits = matches!(step, WaveStep::AwaitingHealth | WaveStep::Settling { .. } | WaveStep::Verifying);
    waits
        && from == *index
        && *next != WaveStep::Held
        && next.rank() < step.rank()
        && !operation.overrides.is_empty()
}

/// What another operation follows deletes its hooks by their policies before it ends.
fn makes_room(operation: &Operation, to: &Stage) -> bool {
    operation.stage == Stage::Terminating
        && matches!(to, Stage::Finishing { phase: OperationPhase::Failed, .. })
        && operation.is_superseded()
}

pub(super) fn moved(operation: &mut Operation, to: &Stage, at: Timestamp) -> Option<()> {
    if !is_arrow(&operation.stage, to) && !goes_back(operation, to) && !makes_room(operation, to) {
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
    // One that writes has no result of what it has only tried, also where nothing was left to be written.
    let only_tries = operation.header.request.options.dry_run;
    if only_tries && operation.stage == Stage::DryRun && matches!(to, Stage::Finishing { .. }) {
        record_dry_run(operation);
    }
    operation.stage = to.clone();
    operation.since = at;
    Some(())
}

fn open_wave(operation: &mut Operation, index: u32, at: Timestamp) {
    operation.keep_answers(index);
    // Whoever watches for this wave will be told.
    operation.header.blind = None;
    operation.wave_expired = None;
    operation.cursor = Cursor::at(operation, index);
    operation.judged = operation.judged_in(index);
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
        record(operation, id, |state| {
            state.progress = Progress::Done;
            state.status = Some(ResultCode::PruneSkipped);
            state.phase = Some(OperationPhase::Succeeded);
            state.message = reason;
        });
    }
}

/// An operation that only tries: every task has a result.
pub(super) fn record_dry_run(operation: &mut Operation) {
    let all: Vec<(TaskId, Action, bool, String)> = operation
        .plan
        .enumerate()
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
        record(operation, id, |state| {
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
