//! Whether another sync may take the place of an operation here: no hook is stopped for that, nothing that makes progress is
//! broken off, and what a person holds stays held.

use tidegate_model::{ClaimHolder, SafePoint, Task, Timestamp};

use super::claim;
use super::rejection::Rejection;
use crate::operation::fact::Fact;
use crate::operation::follow;
use crate::operation::state::{ClaimNews, Header, Operation, Progress, Stage, TaskState, WaveStep};

/// Before it was planned it has written nothing.
pub(super) fn before_plan(
    header: &Header,
    by: &ClaimHolder,
    when: SafePoint,
    now: Timestamp,
) -> Result<Vec<Fact>, Rejection> {
    untouched(header)?;
    match when {
        SafePoint::Failed => not_yet("no attempt has failed"),
        SafePoint::Waiting => Ok(claim::before_plan(header, &ClaimNews::EndWanted { by: by.clone() }, now)),
    }
}

pub(super) fn planned(
    operation: &Operation,
    by: &ClaimHolder,
    when: SafePoint,
    now: Timestamp,
) -> Result<Vec<Fact>, Rejection> {
    untouched(&operation.header)?;
    match (when, &operation.stage) {
        (_, Stage::AwaitingRetry { .. }) => {}
        (SafePoint::Failed, _) => return not_yet("no attempt has failed"),
        (SafePoint::Waiting, Stage::Wave { index, step }) => waits_in_wave(operation, *index, *step, now)?,
        (SafePoint::Waiting, _) => at_work(operation)?,
    }
    Ok(claim::news(operation, &ClaimNews::EndWanted { by: by.clone() }, now))
}

/// What nobody but a person decides about.
fn untouched(header: &Header) -> Result<(), Rejection> {
    if header.request.deletion.is_some() {
        return not_yet("it deletes the application");
    }
    match &header.paused {
        Some(pause) => not_yet(format!("it is paused by {}", pause.by)),
        None => Ok(()),
    }
}

fn waits_in_wave(operation: &Operation, index: u32, step: WaveStep, now: Timestamp) -> Result<(), Rejection> {
    let mut hooks = operation.wave_tasks(index).filter(|(_, task, state)| may_run(task, state, step));
    if let Some((_, task, _)) = hooks.next() {
        return not_yet(format!("hook {} is at work", task.key()));
    }
    if follow::goes_on(operation, now) {
        return at_work(operation);
    }
    match step {
        WaveStep::Held | WaveStep::AwaitingGone | WaveStep::Clearing | WaveStep::AwaitingHealth => Ok(()),
        _ => at_work(operation),
    }
}

/// What is carried out moment by moment waits only while the cluster does not answer.
fn at_work(operation: &Operation) -> Result<(), Rejection> {
    match operation.header.outage {
        Some(_) => Ok(()),
        None => not_yet(format!("it is at work ({})", operation.stage.name())),
    }
}

/// Whether a hook of the wave at work runs, or may: while the wave is applied, its creation may be on its way. One that has
/// ended is at work until its finalizer is off.
fn may_run(task: &Task, state: &TaskState, step: WaveStep) -> bool {
    task.is_hook()
        && match state.progress {
            Progress::Running | Progress::Stopping { .. } => true,
            Progress::Waiting | Progress::Ready | Progress::Deleting { .. } => step == WaveStep::Applying,
            Progress::Done => state.awaits_release(),
        }
}

fn not_yet<T>(why: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection::NotSafe { why: why.into() })
}
