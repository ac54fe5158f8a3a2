//! Applies users' overrides to individual tasks.

use tidegate_model::{OperationPhase, Override, OverrideRecord, ResultCode, TaskId, Timestamp};

use super::leftover_uid;
use super::result::record_result;
use crate::operation::messages;
use crate::operation::rules::has_runner;
use crate::operation::state::{Operation, Progress, Stage, TaskState, WaveStep};

/// A recorded override.
pub(super) struct Decision<'a> {
    pub(super) what: Override,
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
    pub(super) at: Timestamp,
}

pub(super) fn apply_decision(operation: &mut Operation, id: TaskId, decision: &Decision<'_>) -> Option<()> {
    operation.task(id)?;
    let before = operation.overrides.get(&id);
    let was_passed_over = before.is_some_and(|overridden| overridden.what.counts_as_done());
    let retries = before.map_or(0, |overridden| overridden.retries);
    let is_retry = decision.what == Override::Retry;
    let overridden = OverrideRecord {
        what: decision.what,
        by: decision.by.to_owned(),
        reason: decision.reason.to_owned(),
        at: decision.at,
        retries: retries.saturating_add(u32::from(is_retry)),
    };
    if is_retry {
        retry_task(operation, id, was_passed_over, &overridden)?;
    } else {
        (!was_passed_over).then_some(())?;
        override_task(operation, id, &overridden)?;
    }
    operation.overrides.insert(id, overridden);
    Some(())
}

/// Skips a task or marks it as done. A skipped hook that may be running is stopped first. A running hook that
/// is marked as done is released, as if it had succeeded.
fn override_task(operation: &mut Operation, id: TaskId, overridden: &OverrideRecord) -> Option<()> {
    let (task, state) = operation.task(id)?;
    if state.progress == Progress::Done && !state.is_unsuccessful() {
        return None;
    }
    let has_object = task.is_hook() && !has_runner(task);
    // In this step, a call in flight may already have created the hook's object.
    let is_begun =
        operation.step_of_task(id) == Some(WaveStep::Applying) && !operation.cursor.blocked.contains(&id);
    let stops = match state.progress {
        Progress::Stopping { .. } => true,
        Progress::Running => has_object && overridden.what == Override::Skip,
        Progress::Suspended { .. } => true,
        Progress::Waiting | Progress::Deleting { .. } | Progress::Ready => has_object && is_begun,
        Progress::Done => false,
    };
    let message = messages::override_message(overridden, task, state);
    let had_failed = state.is_unsuccessful();
    record_result(operation, id, |state| {
        state.calls = None;
        state.occupant = None;
        if stops {
            state.progress = Progress::Stopping { reason: message };
        } else {
            state.progress = Progress::Done;
            end_task(state, overridden.what, message);
        }
    });
    // No failed task is left, so the next attempt doesn't have to wait.
    if had_failed && !operation.tasks.iter().any(TaskState::is_unsuccessful) {
        start_next_attempt(operation, overridden.at);
    }
    Some(())
}

/// Ends the delay before the next attempt. Returns false if the operation isn't waiting for an attempt.
fn start_next_attempt(operation: &mut Operation, now: Timestamp) -> bool {
    let Stage::AwaitingRetry { until } = &mut operation.stage else { return false };
    *until = now.min(*until);
    true
}

/// Records that a skipped hook is no longer running.
pub(super) fn finish_stopped_hook(
    operation: &mut Operation,
    id: TaskId,
    trouble: Option<&str>,
) -> Option<()> {
    let overridden = operation.overrides.get(&id).filter(|overridden| overridden.what.counts_as_done())?;
    let what = overridden.what;
    let (_, state) = operation.task(id)?;
    let Progress::Stopping { reason } = &state.progress else { return None };
    let message = match trouble {
        Some(trouble) => format!("{}; {trouble}", overridden.describe()),
        None if reason.starts_with(&overridden.describe()) => reason.clone(),
        None => overridden.describe(),
    };
    record_result(operation, id, |state| {
        state.progress = Progress::Done;
        state.calls = None;
        state.held = false;
        end_task(state, what, message);
    });
    Some(())
}

fn end_task(state: &mut TaskState, what: Override, message: String) {
    state.status =
        Some(if what == Override::MarkDone { ResultCode::MarkedDone } else { ResultCode::Skipped });
    state.phase = Some(OperationPhase::Succeeded);
    state.message = message;
}

/// Retries a task immediately: repeats the failed call, or reruns the whole task if it has finished. If the
/// operation is waiting for its next attempt, that attempt starts now.
fn retry_task(
    operation: &mut Operation,
    id: TaskId,
    was_passed_over: bool,
    overridden: &OverrideRecord,
) -> Option<()> {
    let (_, state) = operation.task(id)?;
    let has_failed = state.is_unsuccessful() && !state.needs_stop_or_release();
    let calls_again = state.calls.as_ref().is_some_and(|calls| calls.not_before.is_some());
    if start_next_attempt(operation, overridden.at) && !was_passed_over {
        return has_failed.then_some(());
    }
    let state = operation.tasks.get_mut(id.index())?;
    if was_passed_over && !state.needs_stop_or_release() || has_failed && state.progress == Progress::Done {
        let (checked, order, notes) = (state.checked, state.order, state.notes.take());
        let message = overridden.describe();
        *state = TaskState {
            leftover: leftover_uid(state),
            checked,
            order,
            notes,
            message,
            ..TaskState::default()
        };
        return Some(());
    }
    state.calls.as_mut().filter(|_| calls_again)?.not_before = None;
    Some(())
}
