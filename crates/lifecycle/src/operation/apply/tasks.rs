//! Applies events about individual tasks.

use tidegate_model::{Health, OperationPhase, ResultCode, Task, TaskId, Timestamp};

use super::header::{record_call_failure, record_outage};
use super::overrides;
use super::result::record_result;
use crate::operation::messages;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::rules::has_runner;
use crate::operation::state::{
    AppliedRef, HOOK_TERMINATED, HookLog, Loss, ObjectIdentity, ObservedHealth, Operation, Progress, Stage,
    TaskState, WaveStep,
};

/// Fails the tasks that make the plan invalid or impossible to execute, without executing them.
pub(super) fn record_invalid_tasks(operation: &mut Operation) {
    let invalid: Vec<(TaskId, String)> = operation
        .plan
        .tasks_with_ids()
        .filter_map(|(id, task)| Some((id, task.error.clone()?)))
        .chain(operation.pruned_namespace_in_use())
        .collect();
    for (id, error) in invalid {
        record_result(operation, id, |state| {
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

pub(super) fn apply_task_event(operation: &mut Operation, event: &OperationEvent) -> Option<()> {
    if event.is_cluster_answer() {
        operation.header.outage = None;
    }
    match event {
        OperationEvent::DryRunPassed { task, message } => apply_checked(operation, *task, message),
        OperationEvent::DryRunFailed { task, message } => {
            apply_rejection(operation, *task, OperationPhase::Failed, message)
        }
        OperationEvent::CallFailed { task: Some(task), message, retry_at, at, outage } => {
            let calls = task_state_mut(operation, *task)?.calls.get_or_insert_default();
            if *outage {
                record_outage(&mut operation.header, message, *retry_at, *at);
            } else {
                record_call_failure(calls, message, *retry_at);
            }
            Some(())
        }
        OperationEvent::ObjectDeleted { task } => apply_prune_sent(operation, *task),
        OperationEvent::DeletionStarted { task } => {
            let uid = operation.plan.task(*task)?.live.as_ref()?.uid.clone();
            apply_deletion_started(operation, *task, uid)
        }
        OperationEvent::RecreationStarted { task, uid } => {
            let planned = operation.plan.task(*task)?;
            (planned.action.writes_manifest() && !planned.is_hook()).then_some(())?;
            apply_deletion_started(operation, *task, uid.clone())
        }
        OperationEvent::HookCleared { task, deleting } => {
            apply_hook_cleared(operation, *task, deleting.as_deref())
        }
        OperationEvent::HookNameInUse { task, by } => {
            operation.plan.task(*task)?.hook.as_ref()?;
            let state = expect_progress(operation, *task, is_clearable)?;
            state.calls = None;
            state.progress = Progress::Waiting;
            state.occupant = by.clone().map(Box::new);
            Some(())
        }
        OperationEvent::HookSuspended { task, uid, message } => {
            operation.plan.task(*task).filter(|task| task.is_hook() && !has_runner(task))?;
            let state = expect_progress(operation, *task, is_clearable)?;
            state.calls = None;
            state.progress = Progress::Suspended { uid: uid.clone() };
            set_message(state, message);
            Some(())
        }
        OperationEvent::DeletionCompleted { task } => apply_object_gone(operation, *task),
        OperationEvent::Applied { task, applied, message, done } => {
            self::apply_applied(operation, *task, applied, message, *done)
        }
        OperationEvent::RunnerStarted { task, at } => apply_runner_started(operation, *task, *at),
        OperationEvent::HealthChanged { task, health, fresh, at } => {
            apply_health(operation, *task, health, *fresh, *at)
        }
        OperationEvent::TaskCompleted { task, phase, message, .. } => {
            apply_completed(operation, *task, *phase, message)
        }
        OperationEvent::TaskFailed { task, phase, message, .. } => {
            apply_rejection(operation, *task, *phase, message)
        }
        OperationEvent::HookFinalizerRemoved { task } => {
            let state = task_state_mut(operation, *task).filter(|state| state.needs_release())?;
            state.held = false;
            state.calls = None;
            Some(())
        }
        OperationEvent::HookDeleted { task, error } => apply_hook_deleted(operation, *task, error.as_deref()),
        OperationEvent::HookStopped { task, phase, message, clean } => {
            apply_hook_stopped(operation, *task, *phase, message, *clean)
        }
        OperationEvent::ReasonChanged { task, reason, .. } => apply_reason(operation, *task, reason),
        OperationEvent::LogsStored { task, reason, logs } => store_logs(operation, *task, reason, logs),
        OperationEvent::WarningsReceived { task, warnings } => {
            can_be_written(operation, *task).then_some(())?;
            task_state_mut(operation, *task)?.warnings.clone_from(warnings);
            Some(())
        }
        _ => None,
    }
}

fn store_logs(operation: &mut Operation, id: TaskId, reason: &str, logs: &[HookLog]) -> Option<()> {
    let (task, state) = operation.task(id)?;
    operation.needs_logs(task, state).then_some(())?;
    let notes = self::task_state_mut(operation, id)?.notes.get_or_insert_default();
    if !reason.is_empty() {
        reason.clone_into(&mut notes.reason);
    }
    notes.logs = Some(logs.to_vec());
    Some(())
}

fn apply_checked(operation: &mut Operation, id: TaskId, message: &str) -> Option<()> {
    let only_tries = operation.header.request.options.dry_run;
    let state = expect_progress(operation, id, |progress| *progress != Progress::Done)?;
    state.checked = true;
    state.calls = None;
    if only_tries {
        // Otherwise, the actual write sets the message later.
        set_message(state, message);
    }
    Some(())
}

/// Returns true if the result of a write may arrive now: either the task's wave is being applied, or the task
/// is a hook that is being stopped.
fn can_be_written(operation: &Operation, id: TaskId) -> bool {
    match operation.stage {
        Stage::Wave { step: WaveStep::Clearing | WaveStep::Applying, .. } => true,
        Stage::Wave { .. } => {
            let state = operation.tasks.get(id.index());
            state.is_some_and(|state| matches!(state.progress, Progress::Stopping { .. }))
        }
        _ => true,
    }
}

/// Returns true if the hook's name may be checked for an existing object: at first, and again until the hook
/// exists.
fn is_clearable(progress: &Progress) -> bool {
    matches!(progress, Progress::Waiting | Progress::Ready)
}

fn apply_hook_cleared(operation: &mut Operation, id: TaskId, deleting: Option<&str>) -> Option<()> {
    operation.plan.task(id)?.hook.as_ref()?;
    let state = expect_progress(operation, id, is_clearable)?;
    state.calls = None;
    state.progress = match deleting {
        Some(uid) => Progress::Deleting { uid: uid.to_owned() },
        None => Progress::Ready,
    };
    Some(())
}

fn apply_object_gone(operation: &mut Operation, id: TaskId) -> Option<()> {
    let is_prune = operation.plan.task(id)?.action.is_prune();
    let state = expect_progress(operation, id, |progress| matches!(progress, Progress::Deleting { .. }))?;
    state.notes = None;
    if is_prune {
        record_result(operation, id, mark_pruned);
    } else {
        // The observation may be stale, and another object may have taken the name since. Wait, so that the
        // name is checked once more before use.
        state.progress = Progress::Waiting;
        if state.phase == Some(OperationPhase::Running) {
            messages::RECREATED.clone_into(&mut state.message);
        }
    }
    Some(())
}

/// Records the reason why an object isn't healthy or still exists. While an object is being deleted, the
/// task's message also contains the reason.
fn apply_reason(operation: &mut Operation, id: TaskId, reason: &str) -> Option<()> {
    let (task, state) = operation.task(id)?;
    let is_leaving = state.is_being_deleted(task);
    let awaited = |progress: &Progress| matches!(progress, Progress::Running | Progress::Deleting { .. });
    let state = expect_progress(operation, id, awaited)?;
    reason.clone_into(&mut state.notes.get_or_insert_default().reason);
    if is_leaving {
        state.message = messages::deletion_message(reason);
    }
    Some(())
}

fn apply_runner_started(operation: &mut Operation, id: TaskId, at: Timestamp) -> Option<()> {
    let runner = operation.plan.task(id)?.hook.as_ref()?.runner.clone()?;
    expect_progress(operation, id, |progress| *progress == Progress::Waiting)?;
    let started = AppliedRef { uid: String::new(), resource_version: String::new(), generation: 0, at };
    record_result(operation, id, |state| {
        state.progress = Progress::Running;
        state.status = Some(ResultCode::Synced);
        state.phase = Some(OperationPhase::Running);
        state.message = format!("passed to hook runner {runner}");
        state.applied = Some(started);
    });
    Some(())
}

fn apply_health(
    operation: &mut Operation,
    id: TaskId,
    health: &Health,
    fresh: bool,
    at: Timestamp,
) -> Option<()> {
    let is_hook = operation.plan.task(id)?.is_hook();
    let state = expect_progress(operation, id, |progress| *progress == Progress::Running)?;
    if is_hook {
        set_message(state, &health.message);
    }
    let since = state.health.as_ref().filter(|seen| seen.health.status == health.status);
    let since = since.map_or(at, |seen| seen.since);
    state.health = Some(ObservedHealth { health: health.clone(), fresh, since });
    Some(())
}

fn apply_completed(
    operation: &mut Operation,
    id: TaskId,
    phase: OperationPhase,
    message: &str,
) -> Option<()> {
    let (task, state) = operation.task(id)?;
    let (is_prune, is_leaving) = (task.action.is_prune(), state.is_being_deleted(task));
    let state = self::task_state_mut(operation, id)?;
    // Without a deletion request, nothing was pruned.
    if is_prune && state.progress == Progress::Waiting && phase == OperationPhase::Succeeded {
        record_result(operation, id, |state| {
            state.progress = Progress::Done;
            state.status = Some(ResultCode::PruneSkipped);
            state.phase = Some(phase);
            state.calls = None;
            message.clone_into(&mut state.message);
        });
        return Some(());
    }
    // A deletion may still fail, so the object doesn't count as pruned until it is gone.
    let is_running = state.progress == Progress::Running || is_leaving && phase.is_unsuccessful();
    // A finished hook also completes with an error if its finalizer can't be removed.
    let is_stuck = state.needs_release() && phase == OperationPhase::Error;
    if !phase.is_completed() || !(is_running || is_stuck) {
        return None;
    }
    record_result(operation, id, |state| {
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

fn apply_hook_deleted(operation: &mut Operation, id: TaskId, error: Option<&str>) -> Option<()> {
    let Stage::Finishing { phase, .. } = operation.stage else { return None };
    let (task, state) = operation.task(id)?;
    if !operation.should_delete_at_end(task, state, phase) {
        return None;
    }
    let state = self::task_state_mut(operation, id)?;
    state.deleted = true;
    state.calls = None;
    if let Some(error) = error {
        record_result(operation, id, |state| {
            state.phase = Some(OperationPhase::Error);
            error.clone_into(&mut state.message);
        });
    }
    Some(())
}

fn task_state_mut(operation: &mut Operation, id: TaskId) -> Option<&mut TaskState> {
    operation.tasks.get_mut(id.index())
}

/// Returns the task's state if its progress allows the event.
fn expect_progress(
    operation: &mut Operation,
    id: TaskId,
    legal: impl Fn(&Progress) -> bool,
) -> Option<&mut TaskState> {
    task_state_mut(operation, id).filter(|state| legal(&state.progress))
}

fn apply_rejection(
    operation: &mut Operation,
    id: TaskId,
    phase: OperationPhase,
    message: &str,
) -> Option<()> {
    expect_progress(operation, id, |progress| *progress != Progress::Done)?;
    if !phase.is_unsuccessful() {
        return None;
    }
    if operation.is_overridden_as_done(id) {
        // The hook was skipped during its creation, which was then rejected, so there is nothing to stop.
        return overrides::finish_stopped_hook(operation, id, None);
    }
    record_result(operation, id, |state| {
        if let Progress::Suspended { uid } = &state.progress {
            // The Job couldn't be started, but it exists and has the finalizer.
            state.leftover = Some(uid.clone());
            state.held = true;
        }
        state.progress = Progress::Done;
        state.status = Some(ResultCode::SyncFailed);
        state.phase = Some(phase);
        state.calls = None;
        set_message(state, message);
    });
    Some(())
}

fn apply_prune_sent(operation: &mut Operation, id: TaskId) -> Option<()> {
    operation.plan.task(id)?.live.as_ref()?;
    expect_progress(operation, id, |progress| *progress == Progress::Waiting)?;
    record_result(operation, id, mark_pruned);
    Some(())
}

fn mark_pruned(state: &mut TaskState) {
    state.progress = Progress::Done;
    state.status = Some(ResultCode::Pruned);
    state.phase = Some(OperationPhase::Succeeded);
    state.calls = None;
    state.message = messages::PRUNED.to_owned();
}

fn apply_deletion_started(operation: &mut Operation, id: TaskId, uid: String) -> Option<()> {
    expect_progress(operation, id, |progress| *progress == Progress::Waiting)?;
    record_result(operation, id, |state| {
        state.progress = Progress::Deleting { uid };
        state.phase = Some(OperationPhase::Running);
        (state.calls, state.notes) = (None, None);
        state.message = messages::deletion_message("");
    });
    Some(())
}

fn apply_applied(
    operation: &mut Operation,
    id: TaskId,
    applied: &AppliedRef,
    message: &str,
    done: bool,
) -> Option<()> {
    let task = operation.plan.task(id)?;
    let is_hook = task.is_hook();
    if !task.action.writes_manifest() || has_runner(task) {
        return None;
    }
    can_be_written(operation, id).then_some(())?;
    let judged = operation.is_judged_by_health(id, task);
    let made = task.gvk.is_namespace().then(|| task.name.clone());
    expect_progress(operation, id, |progress| !matches!(progress, Progress::Running | Progress::Done))?;
    record_result(operation, id, |state| {
        if !matches!(state.progress, Progress::Stopping { .. }) {
            state.progress = if done { Progress::Done } else { Progress::Running };
        }
        state.status = Some(ResultCode::Synced);
        // As in Argo CD, a resource whose health isn't assessed remains Running in the final record.
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
        operation.seen_namespaces.set(name, ObjectIdentity { uid, resource_version });
    }
    Some(())
}

fn apply_hook_stopped(
    operation: &mut Operation,
    id: TaskId,
    phase: OperationPhase,
    message: &str,
    clean: bool,
) -> Option<()> {
    expect_progress(operation, id, |progress| matches!(progress, Progress::Stopping { .. }))?;
    if let (false, Some(termination)) = (clean, operation.termination.as_mut()) {
        termination.had_errors = true;
    }
    let absent = phase == OperationPhase::Succeeded && message == HOOK_TERMINATED;
    if operation.is_overridden_as_done(id) {
        return overrides::finish_stopped_hook(operation, id, (!clean).then_some(message));
    }
    let state = task_state_mut(operation, id)?;
    state.calls = None;
    state.held = false;
    if state.applied.is_none() && absent {
        // The hook was never created, so there is nothing to report. Another attempt would create it.
        state.progress = Progress::Waiting;
        return Some(());
    }
    record_result(operation, id, |state| {
        state.progress = Progress::Done;
        state.status = state.status.or(Some(ResultCode::Synced));
        state.phase = Some(phase);
        set_message(state, message);
    });
    Some(())
}

/// Stops hooks that are running or may be in creation. Only the current wave can have any.
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
        Progress::Running | Progress::Suspended { .. } => true,
        // The hook may exist even though its name must be checked again: an earlier check may have passed,
        // and a call may have created it before a crash.
        Progress::Waiting | Progress::Ready | Progress::Deleting { .. } => {
            applying && !has_runner && !operation.cursor.blocked.contains(&id)
        }
        Progress::Stopping { .. } | Progress::Done => false,
    };
    if at_work && has_runner {
        record_result(operation, id, |state| {
            state.progress = Progress::Done;
            state.phase = Some(OperationPhase::Failed);
            reason.clone_into(&mut state.message);
        });
    } else if at_work {
        let state = task_state_mut(operation, id)?;
        state.calls = None;
        state.progress = Progress::Stopping { reason: reason.to_owned() };
    }
    Some(())
}

/// Handles a wave's passed deadline: stops its hooks, and fails the resources that aren't yet healthy or
/// deleted.
pub(super) fn expire_wave(operation: &mut Operation, index: u32, message: &str) {
    let late = awaited_resources(operation, index, |task, state| {
        let health = state.describe_health();
        state.deadline_message(task, "wave", if health.is_empty() { message } else { &health })
    });
    end_wave(operation, "the wave's deadline has passed", late);
}

/// Handles the loss of a namespace with all objects in it: stops hooks, and fails the resources in it that
/// the wave is waiting for.
pub(super) fn fail_tasks_in_namespace(operation: &mut Operation, index: u32, namespace: &str, loss: Loss) {
    let reason = loss.describe(namespace);
    let lost = awaited_resources(operation, index, |task, _| {
        (task.namespace == namespace && task.action.writes_manifest()).then(|| reason.clone())
    });
    end_wave(operation, &reason, lost);
}

fn awaited_resources(
    operation: &Operation,
    index: u32,
    reason: impl Fn(&Task, &TaskState) -> Option<String>,
) -> Vec<(TaskId, String)> {
    let resources = operation.awaited_task_states(index).filter(|(_, task, _)| !task.is_hook());
    resources.filter_map(|(id, task, state)| Some((id, reason(task, state)?))).collect()
}

/// Ends all waits of the current wave: stops its hooks, and fails the tasks in `failed`.
fn end_wave(operation: &mut Operation, reason: &str, failed: Vec<(TaskId, String)>) {
    stop_hooks(operation, &format!("stopped: {reason}"));
    for (id, message) in failed {
        record_result(operation, id, |state| {
            state.progress = Progress::Done;
            state.phase = Some(OperationPhase::Failed);
            state.message = message;
        });
    }
}
