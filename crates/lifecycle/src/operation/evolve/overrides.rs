//! What a person decided about one task.

use tidegate_model::{OperationPhase, Overridden, Override, ResultCode, TaskId, Timestamp};

use super::leftover;
use super::tasks::record;
use crate::operation::messages;
use crate::operation::rules::has_runner;
use crate::operation::state::{Operation, Progress, Stage, TaskState, WaveStep};

/// A decision, as the fact has it.
pub(super) struct Decision<'a> {
    pub(super) what: Override,
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
    pub(super) at: Timestamp,
}

pub(super) fn decided(operation: &mut Operation, id: TaskId, decision: &Decision<'_>) -> Option<()> {
    operation.task(id)?;
    let before = operation.overrides.get(&id);
    let was_passed_over = before.is_some_and(|overridden| overridden.what.passes_over());
    let retries = before.map_or(0, |overridden| overridden.retries);
    let is_retry = decision.what == Override::Retry;
    let overridden = Overridden {
        what: decision.what,
        by: decision.by.to_owned(),
        reason: decision.reason.to_owned(),
        at: decision.at,
        retries: retries.saturating_add(u32::from(is_retry)),
    };
    if is_retry {
        retried(operation, id, was_passed_over, &overridden)?;
    } else {
        (!was_passed_over).then_some(())?;
        passed_over(operation, id, &overridden)?;
    }
    operation.overrides.insert(id, overridden);
    Some(())
}

/// It counts as done from here on. A hook that is skipped while it may be at work is stopped first, as at the end of an
/// operation; one that is marked as done while it is at work is let go as if it had succeeded.
fn passed_over(operation: &mut Operation, id: TaskId, overridden: &Overridden) -> Option<()> {
    let (task, state) = operation.task(id)?;
    if state.progress == Progress::Done && !state.is_unsuccessful() {
        return None;
    }
    let has_object = task.is_hook() && !has_runner(task);
    // From here on its object may have been created, by a call whose answer is still to come.
    let is_begun = operation.step_of(id) == Some(WaveStep::Applying);
    let stops = match state.progress {
        Progress::Stopping { .. } => true,
        Progress::Running => has_object && overridden.what == Override::Skip,
        Progress::Waiting | Progress::Deleting { .. } | Progress::Ready => has_object && is_begun,
        Progress::Done => false,
    };
    let message = messages::passed_over(overridden, task, state);
    let had_failed = state.is_unsuccessful();
    record(operation, id, |state| {
        state.calls = None;
        state.occupant = None;
        if stops {
            state.progress = Progress::Stopping { reason: message };
        } else {
            state.progress = Progress::Done;
            end(state, overridden.what, message);
        }
    });
    // The next attempt has nothing to wait for.
    if had_failed && !operation.tasks.iter().any(TaskState::is_unsuccessful) {
        begin_next_attempt(operation, overridden.at);
    }
    Some(())
}

/// The next attempt, if it is awaited, begins now. Whether it is.
fn begin_next_attempt(operation: &mut Operation, now: Timestamp) -> bool {
    let Stage::AwaitingRetry { until } = &mut operation.stage else { return false };
    *until = now.min(*until);
    true
}

/// The hook that was skipped does not run any more.
pub(super) fn stopped(operation: &mut Operation, id: TaskId, trouble: Option<&str>) -> Option<()> {
    let overridden = operation.overrides.get(&id).filter(|overridden| overridden.what.passes_over())?;
    let what = overridden.what;
    let (_, state) = operation.task(id)?;
    let Progress::Stopping { reason } = &state.progress else { return None };
    let message = match trouble {
        Some(trouble) => format!("{}; {trouble}", overridden.words()),
        None if reason.starts_with(&overridden.words()) => reason.clone(),
        None => overridden.words(),
    };
    record(operation, id, |state| {
        state.progress = Progress::Done;
        state.calls = None;
        state.held = false;
        end(state, what, message);
    });
    Some(())
}

fn end(state: &mut TaskState, what: Override, message: String) {
    state.status =
        Some(if what == Override::MarkDone { ResultCode::MarkedDone } else { ResultCode::Skipped });
    state.phase = Some(OperationPhase::Succeeded);
    state.message = message;
}

/// It is tried again at once: the call that waits for its time, or all of it where it has ended. While the operation waits
/// for its next attempt, that begins now.
fn retried(
    operation: &mut Operation,
    id: TaskId,
    was_passed_over: bool,
    overridden: &Overridden,
) -> Option<()> {
    let (_, state) = operation.task(id)?;
    let has_failed = state.is_unsuccessful() && !state.is_closing();
    let calls_again = state.calls.as_ref().is_some_and(|calls| calls.not_before.is_some());
    if begin_next_attempt(operation, overridden.at) && !was_passed_over {
        return has_failed.then_some(());
    }
    let state = operation.tasks.get_mut(id.index())?;
    if was_passed_over && !state.is_closing() || has_failed && state.progress == Progress::Done {
        let (checked, order, notes) = (state.checked, state.order, state.notes.take());
        let message = overridden.words();
        *state =
            TaskState { leftover: leftover(state), checked, order, notes, message, ..TaskState::default() };
        return Some(());
    }
    state.calls.as_mut().filter(|_| calls_again)?.not_before = None;
    Some(())
}
