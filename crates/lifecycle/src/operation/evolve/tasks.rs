//! Facts about single tasks.

use tidegate_model::{Health, OperationPhase, ResultCode, Task, TaskId, Timestamp};

use super::header::{failed_again, no_answer};
use super::overrides;
use crate::operation::fact::Fact;
use crate::operation::messages;
use crate::operation::rules::has_runner;
use crate::operation::state::{
    AppliedRef, HookLog, Identity, Loss, Operation, Progress, SeenHealth, Stage, TaskState, WaveStep,
};

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

/// The plan is not valid, or cannot be carried out: what is to blame for it fails without having been tried.
pub(super) fn record_invalid(operation: &mut Operation) {
    let invalid: Vec<(TaskId, String)> = operation
        .plan
        .enumerate()
        .filter_map(|(id, task)| Some((id, task.error.clone()?)))
        .chain(operation.prune_from_under_itself())
        .collect();
    for (id, error) in invalid {
        record(operation, id, |state| {
            state.status = Some(ResultCode::SyncFailed);
            state.message = error;
        });
    }
}

fn set_message(state: &mut TaskState, message: &str) {
    if !message.is_empty() {
        message.clone_into(&mut state.message);
    }
}

pub(super) fn evolve(operation: &mut Operation, fact: &Fact) -> Option<()> {
    if fact.is_answer() {
        operation.header.outage = None;
    }
    match fact {
        Fact::Checked { task, message } => checked(operation, *task, message),
        Fact::CheckFailed { task, message } => refused(operation, *task, OperationPhase::Failed, message),
        Fact::CallFailed { task: Some(task), message, retry_at, at, outage } => {
            let calls = state(operation, *task)?.calls.get_or_insert_default();
            if *outage {
                no_answer(&mut operation.header, message, *retry_at, *at);
            } else {
                failed_again(calls, message, *retry_at);
            }
            Some(())
        }
        Fact::PruneSent { task, gone } => prune_sent(operation, *task, *gone),
        Fact::DeletionBegun { task } => {
            let uid = operation.plan.task(*task)?.live.as_ref()?.uid.clone();
            deletion_begun(operation, *task, uid)
        }
        Fact::RecreationBegun { task, uid } => {
            let planned = operation.plan.task(*task)?;
            (planned.action.writes() && !planned.is_hook()).then_some(())?;
            deletion_begun(operation, *task, uid.clone())
        }
        Fact::HookCleared { task, deleting } => hook_cleared(operation, *task, deleting.as_deref()),
        Fact::PlaceTaken { task, by } => {
            operation.plan.task(*task)?.hook.as_ref()?;
            let state = expect(operation, *task, is_clearable)?;
            state.calls = None;
            state.progress = Progress::Waiting;
            state.occupant = by.clone().map(Box::new);
            Some(())
        }
        Fact::ObjectGone { task } => object_gone(operation, *task),
        Fact::Applied { task, applied, message, done } => {
            self::applied(operation, *task, applied, message, *done)
        }
        Fact::RunnerStarted { task, at } => runner_started(operation, *task, *at),
        Fact::HealthSeen { task, health, fresh, at } => health_seen(operation, *task, health, *fresh, *at),
        Fact::TaskCompleted { task, phase, message, .. } => completed(operation, *task, *phase, message),
        Fact::TaskFailed { task, phase, message, .. } => refused(operation, *task, *phase, message),
        Fact::HookReleased { task } => {
            let state = state(operation, *task).filter(|state| state.awaits_release())?;
            state.held = false;
            state.calls = None;
            Some(())
        }
        Fact::HookDeleted { task, error } => hook_deleted(operation, *task, error.as_deref()),
        Fact::HookStopped { task, phase, message, clean } => {
            stopped(operation, *task, *phase, message, *clean)
        }
        Fact::ReasonSeen { task, reason, .. } => reason_seen(operation, *task, reason),
        Fact::LogsKept { task, reason, logs } => logs_kept(operation, *task, reason, logs),
        Fact::Warned { task, warnings } => {
            may_be_written(operation, *task).then_some(())?;
            state(operation, *task)?.warnings.clone_from(warnings);
            Some(())
        }
        _ => None,
    }
}

fn logs_kept(operation: &mut Operation, id: TaskId, reason: &str, logs: &[HookLog]) -> Option<()> {
    let (task, state) = operation.task(id)?;
    operation.awaits_logs(task, state).then_some(())?;
    let notes = self::state(operation, id)?.notes.get_or_insert_default();
    if !reason.is_empty() {
        reason.clone_into(&mut notes.reason);
    }
    notes.logs = Some(logs.to_vec());
    Some(())
}

fn checked(operation: &mut Operation, id: TaskId, message: &str) -> Option<()> {
    let only_tries = operation.header.request.options.dry_run;
    let state = expect(operation, id, |progress| *progress != Progress::Done)?;
    state.checked = true;
    state.calls = None;
    if only_tries {
        // Otherwise the words of the write itself are what matters.
        set_message(state, message);
    }
    Some(())
}

/// Whether the answer to a write may come now: while its wave applies, or of a hook that is being stopped.
fn may_be_written(operation: &Operation, id: TaskId) -> bool {
    match operation.stage {
        Stage::Wave { step: WaveStep::Clearing | WaveStep::Applying, .. } => true,
        Stage::Wave { .. } => {
            let state = operation.tasks.get(id.index());
            state.is_some_and(|state| matches!(state.progress, Progress::Stopping { .. }))
        }
        _ => true,
    }
}

/// Whether the place of a hook may be found clear, or not: it is looked at, or the hook is about to be created there.
fn is_clearable(progress: &Progress) -> bool {
    matches!(progress, Progress::Waiting | Progress::Ready)
}

fn hook_cleared(operation: &mut Operation, id: TaskId, deleting: Option<&str>) -> Option<()> {
    operation.plan.task(id)?.hook.as_ref()?;
    let state = expect(operation, id, is_clearable)?;
    state.calls = None;
    state.progress = match deleting {
        Some(uid) => Progress::Deleting { uid: uid.to_owned() },
        None => Progress::Ready,
    };
    Some(())
}

fn object_gone(operation: &mut Operation, id: TaskId) -> Option<()> {
    let is_prune = operation.plan.task(id)?.action.is_prune();
    let state = expect(operation, id, |progress| matches!(progress, Progress::Deleting { .. }))?;
    state.notes = None;
    if is_prune {
        record(operation, id, |state| pruned(state, Progress::Done));
    } else {
        // The place is looked at once more before it is taken: a sight may be old, and another object may have come in
        // between.
        state.progress = Progress::Waiting;
        if state.phase == Some(OperationPhase::Running) {
            messages::RECREATED.clone_into(&mut state.message);
        }
    }
    Some(())
}

/// Why an object is not well, or still there. What is told of one that goes is its result until it is gone.
fn reason_seen(operation: &mut Operation, id: TaskId, reason: &str) -> Option<()> {
    let (task, state) = operation.task(id)?;
    let is_leaving = state.is_leaving(task);
    let awaited = |progress: &Progress| matches!(progress, Progress::Running | Progress::Deleting { .. });
    let state = expect(operation, id, awaited)?;
    reason.clone_into(&mut state.notes.get_or_insert_default().reason);
    if is_leaving {
        state.message = messages::leaving(reason);
    }
    Some(())
}

fn runner_started(operation: &mut Operation, id: TaskId, at: Timestamp) -> Option<()> {
    let runner = operation.plan.task(id)?.hook.as_ref()?.runner.clone()?;
    expect(operation, id, |progress| *progress == Progress::Waiting)?;
    let started = AppliedRef { uid: String::new(), resource_version: String::new(), generation: 0, at };
    record(operation, id, |state| {
        state.progress = Progress::Running;
        state.status = Some(ResultCode::Synced);
        state.phase = Some(OperationPhase::Running);
        state.message = format!("handed to hook runner {runner}");
        state.applied = Some(started);
    });
    Some(())
}

fn health_seen(
    operation: &mut Operation,
    id: TaskId,
    health: &Health,
    fresh: bool,
    at: Timestamp,
) -> Option<()> {
    let is_hook = operation.plan.task(id)?.is_hook();
    let state = expect(operation, id, |progress| *progress == Progress::Running)?;
    if is_hook {
        set_message(state, &health.message);
    }
    let since = state.health.as_ref().filter(|seen| seen.health.status == health.status);
    let since = since.map_or(at, |seen| seen.since);
    state.health = Some(SeenHealth { health: health.clone(), fresh, since });
    Some(())
}

fn completed(operation: &mut Operation, id: TaskId, phase: OperationPhase, message: &str) -> Option<()> {
    let (task, state) = operation.task(id)?;
    let (is_prune, is_leaving) = (task.action.is_prune(), state.is_leaving(task));
    let state = self::state(operation, id)?;
    // What was never told to go was left alone.
    if is_prune && state.progress == Progress::Waiting && phase == OperationPhase::Succeeded {
        record(operation, id, |state| {
            state.progress = Progress::Done;
            state.status = Some(ResultCode::PruneSkipped);
            state.phase = Some(phase);
            state.calls = None;
            message.clone_into(&mut state.message);
        });
        return Some(());
    }
    // An object that was told to go may fail to, and counts as pruned only by being gone.
    let is_running = state.progress == Progress::Running || is_leaving && phase.is_unsuccessful();
    // A hook that had ended, whose finalizer cannot be removed.
    let is_stuck = state.awaits_release() && phase == OperationPhase::Error;
    if !phase.is_completed() || !(is_running || is_stuck) {
        return None;
    }
    record(operation, id, |state| {
        state.progress = Progress::Done;
        state.phase = Some(phase);
        state.calls = None;
        if phase == OperationPhase::Succeeded {
            state.notes = None;
        }
        set_message(state, message);
    });
    if let (true, Some(termination)) = (is_stuck, operation.termination.as_mut()) {
        termination.had_errors = true;
    }
    Some(())
}

fn hook_deleted(operation: &mut Operation, id: TaskId, error: Option<&str>) -> Option<()> {
    let Stage::Finishing { phase, .. } = operation.stage else { return None };
    let (task, state) = operation.task(id)?;
    if !operation.deletes_at_end(task, state, phase) {
        return None;
    }
    let state = self::state(operation, id)?;
    state.deleted = true;
    state.calls = None;
    if let Some(error) = error {
        record(operation, id, |state| {
            state.phase = Some(OperationPhase::Error);
            error.clone_into(&mut state.message);
        });
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

fn refused(operation: &mut Operation, id: TaskId, phase: OperationPhase, message: &str) -> Option<()> {
    expect(operation, id, |progress| *progress != Progress::Done)?;
    if !phase.is_unsuccessful() {
        return None;
    }
    if operation.is_passed_over(id) {
        // It was skipped while it was being created, and that was refused: there is nothing to stop.
        return overrides::stopped(operation, id, None);
    }
    record(operation, id, |state| {
        state.progress = Progress::Done;
        state.status = Some(ResultCode::SyncFailed);
        state.phase = Some(phase);
        state.calls = None;
        set_message(state, message);
    });
    Some(())
}

fn prune_sent(operation: &mut Operation, id: TaskId, gone: bool) -> Option<()> {
    let uid = operation.plan.task(id)?.live.as_ref()?.uid.clone();
    expect(operation, id, |progress| *progress == Progress::Waiting)?;
    record(operation, id, |state| {
        pruned(state, if gone { Progress::Done } else { Progress::Deleting { uid } })
    });
    Some(())
}

fn pruned(state: &mut TaskState, progress: Progress) {
    state.progress = progress;
    state.status = Some(ResultCode::Pruned);
    state.phase = Some(OperationPhase::Succeeded);
    state.calls = None;
    state.message = messages::PRUNED.to_owned();
}

fn deletion_begun(operation: &mut Operation, id: TaskId, uid: String) -> Option<()> {
    expect(operation, id, |progress| *progress == Progress::Waiting)?;
    record(operation, id, |state| {
        state.progress = Progress::Deleting { uid };
        state.phase = Some(OperationPhase::Running);
        (state.calls, state.notes) = (None, None);
        state.message = messages::leaving("");
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
    let task = operation.plan.task(id)?;
    let is_hook = task.is_hook();
    if !task.action.writes() || has_runner(task) {
        return None;
    }
    may_be_written(operation, id).then_some(())?;
    let judged = operation.judges(task);
    let made = task.gvk.is_namespace().then(|| task.name.clone());
    expect(operation, id, |progress| !matches!(progress, Progress::Running | Progress::Done))?;
    record(operation, id, |state| {
        if !matches!(state.progress, Progress::Stopping { .. }) {
            state.progress = if done { Progress::Done } else { Progress::Running };
        }
        state.status = Some(ResultCode::Synced);
        // As in Argo CD, a resource nobody looks at again stays Running in the final record.
        state.phase = Some(if done && judged { OperationPhase::Succeeded } else { OperationPhase::Running });
        state.calls = None;
        state.health = None;
        state.notes = None;
        state.held = is_hook;
        state.leftover = None;
        state.applied = Some(applied.clone());
        message.clone_into(&mut state.message);
    });
    let is_new =
        |name: &String| operation.namespaces.contains(name) && operation.seen_namespaces.get(name).is_none();
    if let Some(name) = made.filter(is_new) {
        let AppliedRef { uid, resource_version, .. } = applied.clone();
        operation.seen_namespaces.set(name, Identity { uid, resource_version });
    }
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
    let absent = phase == OperationPhase::Succeeded && message == messages::HOOK_TERMINATED;
    if operation.is_passed_over(id) {
        return overrides::stopped(operation, id, (!clean).then_some(message));
    }
    let state = state(operation, id)?;
    state.calls = None;
    state.held = false;
    if state.applied.is_none() && absent {
        // It was about to be created and never was: there is nothing to report, and another attempt begins with it.
        state.progress = Progress::Waiting;
        return Some(());
    }
    record(operation, id, |state| {
        state.progress = Progress::Done;
        state.status = state.status.or(Some(ResultCode::Synced));
        state.phase = Some(phase);
        set_message(state, message);
    });
    Some(())
}

/// Hooks at work must be stopped, and hooks that may just be in creation as well. Only the current wave has any.
pub(super) fn stop_hooks(operation: &mut Operation, reason: &str) {
    let Some((index, _)) = operation.current_wave() else { return };
    let hooks: Vec<TaskId> = operation.wave_hooks(index).map(|(id, _, _)| id).collect();
    for id in hooks {
        let _ = stop_hook(operation, id, reason);
    }
}

pub(super) fn stop_hook(operation: &mut Operation, id: TaskId, reason: &str) -> Option<()> {
    let has_runner = operation.plan.task(id)?.hook.as_ref()?.runner.is_some();
    let applying = matches!(operation.stage, Stage::Wave { step: WaveStep::Applying, .. });
    let at_work = match operation.tasks.get(id.index())?.progress {
        Progress::Running => true,
        // Also where its place is looked at once more: before a crash that may have been done, and the hook created.
        Progress::Waiting | Progress::Ready | Progress::Deleting { .. } => applying && !has_runner,
        Progress::Stopping { .. } | Progress::Done => false,
    };
    if at_work && has_runner {
        record(operation, id, |state| {
            state.progress = Progress::Done;
            state.phase = Some(OperationPhase::Failed);
            reason.clone_into(&mut state.message);
        });
    } else if at_work {
        let state = state(operation, id)?;
        state.calls = None;
        state.progress = Progress::Stopping { reason: reason.to_owned() };
    }
    Some(())
}

/// The wave's deadline has passed: its hooks are stopped, and what is awaited and is not well, or not gone, has failed.
pub(super) fn expire_wave(operation: &mut Operation, index: u32, message: &str) {
    let late = awaited_resources(operation, index, |task, state| {
        let health = state.known_health();
        state.too_late(task, "wave", if health.is_empty() { message } else { &health })
    });
    end_wave(operation, "the wave's deadline has passed", late);
}

/// A namespace is lost, and what the operation put there: hooks are stopped, and what is awaited there has failed.
pub(super) fn lose_namespace(operation: &mut Operation, index: u32, namespace: &str, loss: Loss) {
    let reason = loss.of(namespace);
    let lost = awaited_resources(operation, index, |task, _| {
        (task.namespace == namespace && task.action.writes()).then(|| reason.clone())
    });
    end_wave(operation, &reason, lost);
}

fn awaited_resources(
    operation: &Operation,
    index: u32,
    why: impl Fn(&Task, &TaskState) -> Option<String>,
) -> Vec<(TaskId, String)> {
    let resources = operation.awaited(index).filter(|(_, task, _)| !task.is_hook());
    resources.filter_map(|(id, task, state)| Some((id, why(task, state)?))).collect()
}

/// Nothing is awaited any more in the current wave; its hooks are stopped, and these have failed.
fn end_wave(operation: &mut Operation, reason: &str, failed: Vec<(TaskId, String)>) {
    stop_hooks(operation, &format!("stopped: {reason}"));
    for (id, message) in failed {
        record(operation, id, |state| {
            state.progress = Progress::Done;
            state.phase = Some(OperationPhase::Failed);
            state.message = message;
        });
    }
}
