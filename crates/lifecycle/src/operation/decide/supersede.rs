//! Rules for superseding an operation. A new operation never stops hooks, never interrupts progress, and
//! never supersedes a paused operation.

use tidegate_model::{ClaimHolder, SafePoint, Task, TaskId, Timestamp};

use super::rejection::Rejection;
use super::{handle_claim_before_plan, handle_claim_event};
use crate::operation::advance;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{ClaimEvent, Header, Operation, Progress, Stage, TaskState, WaveStep};

/// Handles a request to supersede an operation before planning, when nothing has been written to the cluster.
pub(super) fn supersede_before_plan(
    header: &Header,
    by: &ClaimHolder,
    when: SafePoint,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    reject_if_user_controlled(header)?;
    match when {
        SafePoint::Failed => not_supersedable("no attempt has failed"),
        SafePoint::Waiting => {
            Ok(handle_claim_before_plan(header, &ClaimEvent::EndWanted { by: by.clone() }, now))
        }
    }
}

pub(super) fn supersede_planned(
    operation: &Operation,
    by: &ClaimHolder,
    when: SafePoint,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    reject_if_user_controlled(&operation.header)?;
    match (when, &operation.stage) {
        (_, Stage::AwaitingRetry { .. }) => {}
        (SafePoint::Failed, _) => return not_supersedable("no attempt has failed"),
        (SafePoint::Waiting, Stage::Wave { index, step }) => {
            check_safe_point_in_wave(operation, *index, *step, now)?
        }
        (SafePoint::Waiting, _) => reject_running_work(operation)?,
    }
    Ok(handle_claim_event(operation, &ClaimEvent::EndWanted { by: by.clone() }, now))
}

/// Returns an error for operations that only a user may end.
fn reject_if_user_controlled(header: &Header) -> Result<(), Rejection> {
    if header.request.deletion.is_some() {
        return not_supersedable("it deletes the application");
    }
    match &header.paused {
        Some(pause) => not_supersedable(format!("it is paused by {}", pause.by)),
        None => Ok(()),
    }
}

fn check_safe_point_in_wave(
    operation: &Operation,
    index: u32,
    step: WaveStep,
    now: Timestamp,
) -> Result<(), Rejection> {
    // A hook that is waiting for its dependencies hasn't been created.
    let is_blocked = |id: &TaskId| operation.cursor_for_wave(index).blocked.contains(id);
    let mut hooks = operation
        .wave_tasks(index)
        .filter(|(id, task, state)| can_be_running(task, state, step) && !is_blocked(id));
    if let Some((_, task, _)) = hooks.next() {
        return not_supersedable(format!("hook {} is running", task.key()));
    }
    if advance::can_proceed(operation, now) {
        return reject_running_work(operation);
    }
    match step {
        WaveStep::Held | WaveStep::AwaitingGone | WaveStep::Clearing | WaveStep::AwaitingHealth => Ok(()),
        step if operation.awaits_only_dependencies(index, step) => Ok(()),
        _ => reject_running_work(operation),
    }
}

/// Returns an error while work is running. Work that waits for an unresponsive cluster doesn't count as
/// running.
fn reject_running_work(operation: &Operation) -> Result<(), Rejection> {
    match operation.header.outage {
        Some(_) => Ok(()),
        None => not_supersedable(format!("it is running ({})", operation.stage.name())),
    }
}

/// Returns true if a hook in the current wave is or may be running. While the wave is being applied, a hook
/// may already be running because the call that creates it may be in flight. A finished hook counts as
/// running until its finalizer is removed.
fn can_be_running(task: &Task, state: &TaskState, step: WaveStep) -> bool {
    task.is_hook()
        && match state.progress {
            Progress::Running | Progress::Stopping { .. } => true,
            Progress::Waiting | Progress::Ready | Progress::Suspended { .. } | Progress::Deleting { .. } => {
                step == WaveStep::Applying
            }
            Progress::Done => state.needs_release(),
        }
}

fn not_supersedable<T>(reason: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection::NotSupersedable { reason: reason.into() })
}
