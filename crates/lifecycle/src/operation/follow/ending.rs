//! The arrows out of the last wave, out of a failed attempt, and to the end.

use tidegate_model::{OperationPhase, Timestamp};

use super::arrow::{moved, step};
use crate::operation::fact::Fact;
use crate::operation::messages;
use crate::operation::state::{Operation, Progress, Stage, WaveStep};

/// The end of an operation that nothing is left to do for: it has not begun, or must not go on.
pub(crate) fn at_once(phase: OperationPhase, message: String, now: Timestamp) -> Vec<Fact> {
    vec![Fact::Finished { phase, message, at: now }]
}

pub(super) fn attempt_failed(message: String, now: Timestamp) -> Vec<Fact> {
    vec![Fact::AttemptFailed { message, retriable: true, at: now }]
}

/// A failed attempt: another one, or the SyncFail hooks, or the end.
pub(super) fn after_failure(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let Some(failure) = &operation.failure else { return Vec::new() };
    if failure.retriable && operation.may_retry() {
        let until = now + operation.header.request.retry.backoff.wait(operation.retry_count());
        return moved(Stage::AwaitingRetry { until }, now);
    }
    if matches!(operation.stage, Stage::Planned | Stage::DryRun) {
        // Nothing was written, so there is nothing for SyncFail hooks to see to.
        let message = with_retries(operation, failure.message.clone());
        return at_once(OperationPhase::Failed, message, now);
    }
    match operation.next_wave(0, true) {
        Some(first) if operation.refused_namespace().is_none() => step(first, WaveStep::Held, now),
        _ => failed(operation, now),
    }
}

/// With what people decided, and how often it was tried again.
fn with_retries(operation: &Operation, message: String) -> String {
    let message = messages::with_overrides(operation, message);
    match operation.retry_count() {
        0 => message,
        n => format!("{message} (retried {n} times)."),
    }
}

pub(super) fn succeeded(operation: &Operation, message: &str, now: Timestamp) -> Vec<Fact> {
    let message = match operation.header.request.deletion {
        None => message.to_owned(),
        Some(cascade) if cascade.deletes() => {
            messages::with_left_alone(operation, messages::DELETED.to_owned())
        }
        Some(_) => messages::DELETED_ALONE.to_owned(),
    };
    let message = with_retries(operation, message);
    moved(Stage::Finishing { phase: OperationPhase::Succeeded, message }, now)
}

fn failed(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let mut message = operation.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let reasons = operation.refusals(true);
    if !reasons.is_empty() {
        message = format!("{message}\n{}", messages::with_reason(messages::SYNC_FAIL_FAILED, &reasons));
    }
    let message = with_retries(operation, message);
    moved(Stage::Finishing { phase: OperationPhase::Failed, message }, now)
}

/// Nothing of the wave is at work any more, and something ended badly.
pub(super) fn wave_failed(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    if let Some(reason) = operation.refused_namespace() {
        return attempt_failed(messages::with_reason(messages::NAMESPACE_FAILED, &[reason]), now);
    }
    let ran = operation.wave_tasks(index).any(|(_, _, state)| state.applied.is_some());
    let failed_hooks = messages::deletion_hooks_failed(operation, index);
    let base = if let Some(failed_hooks) = &failed_hooks {
        failed_hooks
    } else if operation.refused_by_trial(index) {
        messages::DRY_RUN_FAILED
    } else if ran || operation.next_wave(0, true).is_some() {
        // With SyncFail hooks to wait for, Argo CD looks at the tasks once more.
        messages::UNSUCCESSFUL
    } else {
        messages::APPLY_FAILED
    };
    attempt_failed(messages::with_reason(base, &operation.refusals(false)), now)
}

/// The next wave, or the end.
pub(super) fn passed(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    let sync_fail = operation.is_sync_fail(index);
    match operation.next_wave(index.saturating_add(1), sync_fail) {
        Some(next) => step(next, WaveStep::Held, now),
        None if sync_fail => failed(operation, now),
        None if operation.has_hooks(index) => succeeded(operation, messages::SUCCEEDED_NO_MORE, now),
        None => succeeded(operation, messages::SUCCEEDED_ALL, now),
    }
}

/// The end, once every hook is stopped and released; of one whose place another one takes, after its hooks are deleted by
/// their policies.
pub(super) fn terminated(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    if operation.all_tasks().any(|(_, _, state)| state.is_closing()) {
        return Vec::new();
    }
    let (phase, message) = match &operation.termination {
        Some(termination) if termination.had_errors => {
            (OperationPhase::Error, messages::TERMINATION_ERRORS.to_owned())
        }
        Some(termination) => (OperationPhase::Failed, termination.message.clone()),
        None => (OperationPhase::Failed, messages::TERMINATED.to_owned()),
    };
    let message = with_retries(operation, message);
    let cleans_up = operation.is_superseded()
        && operation.all_tasks().any(|(_, task, state)| operation.deletes_at_end(task, state, phase));
    match phase {
        OperationPhase::Failed if cleans_up => moved(Stage::Finishing { phase, message }, now),
        _ => at_once(phase, message, now),
    }
}

/// Hooks that were not stopped, or not released, in time are given up, so that an operation ends that a person has ended.
pub(crate) fn unstopped(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let closing = operation.all_tasks().filter(|(_, _, state)| state.is_closing());
    let given_up = closing.flat_map(|(task, _, state)| match state.progress {
        Progress::Stopping { .. } => {
            let message = messages::NOT_STOPPED.to_owned();
            vec![Fact::HookStopped { task, phase: OperationPhase::Failed, message, clean: false }]
        }
        _ => {
            let (phase, message) = (OperationPhase::Error, messages::NOT_RELEASED.to_owned());
            let completed = Fact::TaskCompleted { task, phase, message, at: now };
            vec![completed, Fact::HookReleased { task }]
        }
    });
    given_up.collect()
}

/// The end, once hooks are deleted as their policies ask.
pub(super) fn finished(
    operation: &Operation,
    phase: OperationPhase,
    message: &str,
    now: Timestamp,
) -> Vec<Fact> {
    let busy = operation
        .all_tasks()
        .any(|(_, task, state)| state.is_closing() || operation.deletes_at_end(task, state, phase));
    if busy {
        return Vec::new();
    }
    at_once(phase, message.to_owned(), now)
}
