//! Transitions after a wave, after a failed attempt, and to the end of the operation.

use tidegate_model::{OperationPhase, Timestamp};

use super::{move_to, move_to_step};
use crate::operation::messages;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{Operation, Progress, Stage, WaveStep};

/// Ends an operation immediately, because it hasn't begun, must not continue, or has no work left.
pub(crate) fn finish_now(phase: OperationPhase, message: String, now: Timestamp) -> Vec<OperationEvent> {
    vec![OperationEvent::Finished { phase, message, at: now }]
}

pub(super) fn fail_attempt(message: String, now: Timestamp) -> Vec<OperationEvent> {
    vec![OperationEvent::AttemptFailed { message, retriable: true, at: now }]
}

/// Continues after a failed attempt with another attempt, with the SyncFail hooks, or to the end.
pub(super) fn advance_after_failure(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    let Some(failure) = &operation.failure else { return Vec::new() };
    if failure.retriable && operation.can_retry() {
        let until = now + operation.header.request.retry.backoff.delay(operation.retry_count());
        return move_to(Stage::AwaitingRetry { until }, now);
    }
    if matches!(operation.stage, Stage::Planned | Stage::DryRun) {
        // Nothing was written to the cluster, so SyncFail hooks have nothing to do.
        let message = with_retry_count(operation, failure.message.clone());
        return finish_now(OperationPhase::Failed, message, now);
    }
    match operation.next_wave_with_work(0, true) {
        Some(first) if operation.namespace_error().is_none() => move_to_step(first, WaveStep::Held, now),
        _ => fail(operation, now),
    }
}

/// Adds users' overrides and the number of retries to a message.
fn with_retry_count(operation: &Operation, message: String) -> String {
    let message = messages::with_overrides(operation, message);
    match operation.retry_count() {
        0 => message,
        n => format!("{message} (retried {n} times)."),
    }
}

pub(super) fn succeed(operation: &Operation, message: &str, now: Timestamp) -> Vec<OperationEvent> {
    let message = match operation.header.request.deletion {
        None => message.to_owned(),
        Some(cascade) if cascade.deletes_objects() => {
            messages::with_remaining_objects(operation, messages::DELETED.to_owned())
        }
        Some(_) => messages::DELETED_WITHOUT_OBJECTS.to_owned(),
    };
    let message = with_retry_count(operation, message);
    move_to(Stage::Finishing { phase: OperationPhase::Succeeded, message }, now)
}

fn fail(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    let mut message = operation.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let reasons = messages::describe_failures(operation, true);
    if !reasons.is_empty() {
        message = format!("{message}\n{}", messages::with_reason(messages::SYNC_FAIL_FAILED, &reasons));
    }
    let message = with_retry_count(operation, message);
    move_to(Stage::Finishing { phase: OperationPhase::Failed, message }, now)
}

/// Fails the attempt: a task failed, and no other work in the wave is running.
pub(super) fn fail_wave(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    if let Some(reason) = operation.namespace_error() {
        return fail_attempt(messages::with_reason(messages::NAMESPACE_FAILED, &[reason]), now);
    }
    let ran = operation.wave_tasks(index).any(|(_, _, state)| state.applied.is_some());
    let failed_hooks = messages::deletion_hook_failures(operation, index);
    let base = if let Some(failed_hooks) = &failed_hooks {
        failed_hooks
    } else if operation.is_rejected_by_dry_run(index) {
        messages::DRY_RUN_FAILED
    } else if ran || operation.next_wave_with_work(0, true).is_some() {
        // If there are SyncFail hooks to run, Argo CD evaluates all tasks once more and reports this message.
        messages::UNSUCCESSFUL
    } else {
        messages::APPLY_FAILED
    };
    fail_attempt(messages::with_reason(base, &messages::describe_failures(operation, false)), now)
}

/// Moves from a passed wave to the next wave, or to the end of the operation.
pub(super) fn advance_after_wave(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    let sync_fail = operation.is_sync_fail_wave(index);
    match operation.next_wave_with_work(index.saturating_add(1), sync_fail) {
        Some(next) => move_to_step(next, WaveStep::Held, now),
        None if sync_fail => fail(operation, now),
        None if operation.has_hooks(index) => succeed(operation, messages::SUCCEEDED_NO_MORE, now),
        None => succeed(operation, messages::SUCCEEDED_ALL, now),
    }
}

/// Ends a terminated operation once every hook is stopped and released. A superseded operation first deletes
/// its hooks according to their policies.
pub(super) fn finish_termination(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    if operation.all_tasks().any(|(_, _, state)| state.needs_stop_or_release()) {
        return Vec::new();
    }
    let (phase, message) = match &operation.termination {
        Some(termination) if termination.had_errors => {
            (OperationPhase::Error, messages::TERMINATION_ERRORS.to_owned())
        }
        Some(termination) => (OperationPhase::Failed, termination.message.clone()),
        None => (OperationPhase::Failed, messages::TERMINATED.to_owned()),
    };
    let message = with_retry_count(operation, message);
    let cleans_up = operation.is_superseded()
        && operation.all_tasks().any(|(_, task, state)| operation.should_delete_at_end(task, state, phase));
    match phase {
        OperationPhase::Failed if cleans_up => move_to(Stage::Finishing { phase, message }, now),
        _ => finish_now(phase, message, now),
    }
}

/// Gives up on hooks that weren't stopped or released in time, so that a termination always completes.
pub(crate) fn give_up_hooks(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    let closing = operation.all_tasks().filter(|(_, _, state)| state.needs_stop_or_release());
    let given_up = closing.flat_map(|(task, _, state)| match state.progress {
        Progress::Stopping { .. } => {
            let message = messages::NOT_STOPPED.to_owned();
            vec![OperationEvent::HookStopped { task, phase: OperationPhase::Failed, message, clean: false }]
        }
        _ => {
            let (phase, message) = (OperationPhase::Error, messages::NOT_RELEASED.to_owned());
            let completed = OperationEvent::TaskCompleted { task, phase, message, at: now };
            vec![completed, OperationEvent::HookFinalizerRemoved { task }]
        }
    });
    given_up.collect()
}

/// Ends the operation once its hooks are deleted according to their policies.
pub(super) fn finish_after_cleanup(
    operation: &Operation,
    phase: OperationPhase,
    message: &str,
    now: Timestamp,
) -> Vec<OperationEvent> {
    let busy = operation.all_tasks().any(|(_, task, state)| {
        state.needs_stop_or_release() || operation.should_delete_at_end(task, state, phase)
    });
    if busy {
        return Vec::new();
    }
    finish_now(phase, message.to_owned(), now)
}
