//! Facts about single tasks.

use tidegate_model::{OperationPhase, ResultCode, TaskId};

use super::failed_again;
use crate::operation::fact::Fact;
use crate::operation::state::{AppliedRef, Operation, Progress, SeenHealth, Stage, TaskState, WaveStep};

/// Changes a task that has a result from now on; the first time it gets the next order number.
pub(super) fn record(operation: &mut Operation, id: TaskId, change: impl FnOnce(&mut TaskState)) {
    let next = operation.results.saturating_add(1);
    if let Some(state) = operation.tasks.get_mut(id.index()) {
        if state.order == 0 {
            state.order = next;
            operation.results = next;
        }
        change(state);
    }
}

fn set_message(state: &mut TaskState, message: &str) {
    if !message.is_empty() {
        message.clone_into(&mut state.message);
    }
}

pub(super) fn evolve(operation: &mut Operation, fact: &Fact) -> Option<()> {
    match fact {
        Fact::Checked { task, message } => {
            let state = state(operation, *task)?;
            state.checked = true;
            state.calls = None;
            set_message(state, message);
        }
        Fact::CheckFailed { task, message } => {
            state(operation, *task)?;
            refused(operation, *task, OperationPhase::Failed, message);
        }
        Fact::CallFailed { task: Some(task), message, retry_at } => {
            failed_again(state(operation, *task)?.calls.get_or_insert_default(), message, *retry_at);
        }
        Fact::PruneSent { task, gone } => prune_sent(operation, *task, *gone)?,
        Fact::HookCleared { task, deleting } => {
            let state = expect(operation, *task, |progress| *progress == Progress::Waiting)?;
            state.calls = None;
            state.progress = match deleting {
                Some(uid) => Progress::Deleting { uid: uid.clone() },
                None => Progress::Ready,
            };
        }
        Fact::ObjectGone { task } => {
            let is_prune = operation.plan.task(*task)?.action.is_prune();
            let state = expect(operation, *task, |progress| matches!(progress, Progress::Deleting { .. }))?;
            state.progress = if is_prune { Progress::Done } else { Progress::Ready };
        }
        Fact::Applied { task, applied, message, done } => {
            self::applied(operation, *task, applied, message, *done)?
        }
        Fact::RunnerStarted { task, at } => {
            let runner = operation.plan.task(*task)?.hook.as_ref()?.runner.clone()?;
            expect(operation, *task, |progress| *progress == Progress::Waiting)?;
            let started =
                AppliedRef { uid: String::new(), resource_version: String::new(), generation: 0, at: *at };
            record(operation, *task, |state| {
                state.progress = Progress::Running;
                state.status = Some(ResultCode::Synced);
                state.phase = Some(OperationPhase::Running);
                state.message = format!("handed to hook runner {runner}");
                state.applied = Some(started);
            });
        }
        Fact::HealthSeen { task, health, fresh, at } => {
            let is_hook = operation.plan.task(*task)?.is_hook();
            let state = expect(operation, *task, |progress| *progress == Progress::Running)?;
            if is_hook {
                set_message(state, &health.message);
            }
            let since = state.health.as_ref().filter(|seen| seen.health.status == health.status);
            let since = since.map_or(*at, |seen| seen.since);
            state.health = Some(SeenHealth { health: health.clone(), fresh: *fresh, since });
        }
        Fact::TaskCompleted { task, phase, message, .. } => {
            expect(operation, *task, |progress| matches!(progress, Progress::Running | Progress::Done))?;
            record(operation, *task, |state| {
                state.progress = Progress::Done;
                state.phase = Some(*phase);
                state.calls = None;
                set_message(state, message);
            });
        }
        Fact::TaskFailed { task, phase, message, .. } => {
            state(operation, *task)?;
            refused(operation, *task, *phase, message);
        }
        Fact::HookReleased { task } => {
            let state = state(operation, *task)?;
            state.held = false;
            state.calls = None;
        }
        Fact::HookDeleted { task, error } => {
            let state = state(operation, *task)?;
            state.deleted = true;
            state.calls = None;
            if let Some(error) = error {
                state.phase = Some(OperationPhase::Error);
                state.message.clone_from(error);
            }
        }
        Fact::HookStopped { task, phase, message, clean } => {
            stopped(operation, *task, *phase, message, *clean)?;
        }
        _ => return None,
    }
    Some(())
}

fn state(operation: &mut Operation, id: TaskId) -> Option<&mut TaskState> {
    operation.tasks.get_mut(id.index())
}

/// The task, if its progress allows the fact.
fn expect(
    operation: &mut Operation,
    id: TaskId,
    legal: impl Fn(&Progress) -> bool,
) -> Option<&mut TaskState> {
    state(operation, id).filter(|state| legal(&state.progress))
}

fn refused(operation: &mut Operation, id: TaskId, phase: OperationPhase, message: &str) {
    record(operation, id, |state| {
        state.progress = Progress::Done;
        state.status = Some(ResultCode::SyncFailed);
        state.phase = Some(phase);
        state.calls = None;
        set_message(state, message);
    });
}

fn prune_sent(operation: &mut Operation, id: TaskId, gone: bool) -> Option<()> {
    let uid = operation.plan.task(id)?.live.as_ref()?.uid.clone();
    expect(operation, id, |progress| *progress == Progress::Waiting)?;
    record(operation, id, |state| {
        state.progress = if gone { Progress::Done } else { Progress::Deleting { uid } };
        state.status = Some(ResultCode::Pruned);
        state.phase = Some(OperationPhase::Succeeded);
        state.calls = None;
        state.message = super::messages::PRUNED.to_owned();
    });
    Some(())
}

fn applied(
    operation: &mut Operation,
    id: TaskId,
    applied: &AppliedRef,
    message: &str,
    done: bool,
) -> Option<()> {
    let is_hook = operation.plan.task(id)?.is_hook();
    let gated = operation.awaits_resources;
    expect(operation, id, |progress| !matches!(progress, Progress::Running | Progress::Done))?;
    record(operation, id, |state| {
        if !matches!(state.progress, Progress::Stopping { .. }) {
            state.progress = if done { Progress::Done } else { Progress::Running };
        }
        state.status = Some(ResultCode::Synced);
        // As in Argo CD, a resource nobody waits for stays Running in the final record.
        state.phase = Some(if done && gated { OperationPhase::Succeeded } else { OperationPhase::Running });
        state.calls = None;
        state.health = None;
        state.held = is_hook;
        state.applied = Some(applied.clone());
        set_message(state, message);
    });
    Some(())
}

fn stopped(
    operation: &mut Operation,
    id: TaskId,
    phase: OperationPhase,
    message: &str,
    clean: bool,
) -> Option<()> {
    expect(operation, id, |progress| matches!(progress, Progress::Stopping { .. }))?;
    if let (false, Some(termination)) = (clean, operation.termination.as_mut()) {
        termination.had_errors = true;
    }
    let created = operation.tasks.get(id.index()).is_some_and(|state| state.order > 0);
    let stop = |state: &mut TaskState| {
        state.progress = Progress::Done;
        state.held = false;
        state.calls = None;
    };
    if created {
        record(operation, id, |state| {
            stop(state);
            state.phase = Some(phase);
            set_message(state, message);
        });
    } else {
        // It was about to be created and never was: there is nothing to report.
        stop(state(operation, id)?);
    }
    Some(())
}

/// Hooks at work must be stopped, and hooks that may just be in creation as well.
pub(super) fn stop_hooks(operation: &mut Operation, reason: &str) {
    let hooks: Vec<TaskId> =
        operation.plan.enumerate().filter(|(_, task)| task.is_hook()).map(|(id, _)| id).collect();
    for id in hooks {
        let _ = stop_hook(operation, id, reason);
    }
}

pub(super) fn stop_hook(operation: &mut Operation, id: TaskId, reason: &str) -> Option<()> {
    let has_runner = operation.plan.task(id)?.hook.as_ref()?.runner.is_some();
    let applying = matches!(operation.stage, Stage::Wave { step: WaveStep::Applying, .. });
    let progress = &operation.tasks.get(id.index())?.progress;
    let at_work = *progress == Progress::Running || (*progress == Progress::Ready && applying);
    if at_work && has_runner {
        record(operation, id, |state| {
            state.progress = Progress::Done;
            state.phase = Some(OperationPhase::Failed);
            reason.clone_into(&mut state.message);
        });
    } else if at_work {
        state(operation, id)?.progress = Progress::Stopping { reason: reason.to_owned() };
    }
    Some(())
}

/// The wave's deadline has passed: its hooks are stopped, and what is not healthy has failed.
pub(super) fn expire_wave(operation: &mut Operation, index: u32, message: &str) {
    let hooks = "stopped: the wave's deadline has passed";
    stop_hooks(operation, hooks);
    let late: Vec<(TaskId, String)> = operation
        .wave_tasks(index)
        .filter(|(_, task, state)| !task.is_hook() && state.progress == Progress::Running)
        .map(|(id, _, state)| {
            (id, state.health.as_ref().map(|seen| seen.health.message.clone()).unwrap_or_default())
        })
        .collect();
    for (id, health) in late {
        record(operation, id, |state| {
            state.progress = Progress::Done;
            state.phase = Some(OperationPhase::Failed);
            let why = if health.is_empty() { message } else { &health };
            state.message = format!("not healthy when the wave's deadline passed: {why}");
        });
    }
}
