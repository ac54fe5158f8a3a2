//! Which arrow follows by itself: the one place where the arrows of the machine are decided.

use tidegate_model::{Action, HealthStatus, OperationPhase, ResultCode, TaskId, Timestamp, format_duration};

use super::fact::{DeadlineScope, Fact, Verdict};
use super::judge::phase_of;
use super::messages;
use super::rules::needs_check;
use super::state::{Operation, Progress, Stage, State, TaskState, WaveStep};

/// The facts that follow from the state and the time alone. Called again until nothing follows.
pub fn follow(state: &State, now: Timestamp) -> Vec<Fact> {
    match state {
        State::New | State::Finished(_) => Vec::new(),
        State::Accepted(header) if header.paused.is_some() => Vec::new(),
        State::Accepted(header) => match header.request.deadline {
            Some(deadline) if now >= header.deadline_from + deadline => vec![Fact::Finished {
                phase: OperationPhase::Failed,
                message: deadline_message(deadline),
                at: now,
            }],
            _ => Vec::new(),
        },
        State::Running(operation) if operation.header.paused.is_some() => Vec::new(),
        State::Running(operation) => {
            let facts = deadlines(operation, now);
            if facts.is_empty() { arrows(operation, now) } else { facts }
        }
    }
}

fn deadline_message(deadline: std::time::Duration) -> String {
    format!("{}, triggered by the operation deadline of {}", messages::TERMINATED, format_duration(deadline))
}

fn moved(to: Stage, now: Timestamp) -> Vec<Fact> {
    vec![Fact::Moved { to, at: now }]
}

fn step(index: u32, step: WaveStep, now: Timestamp) -> Vec<Fact> {
    moved(Stage::Wave { index, step }, now)
}

fn deadlines(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let passed = |scope, message| vec![Fact::DeadlinePassed { scope, message, at: now }];
    let ending = matches!(operation.stage, Stage::Terminating | Stage::Finishing { .. });
    if !ending && operation.deadline().is_some_and(|deadline| now >= deadline) {
        let deadline = operation.header.request.deadline.unwrap_or_default();
        return passed(DeadlineScope::Operation, deadline_message(deadline));
    }
    let Some((index, current)) = operation.current_wave() else { return Vec::new() };
    if operation.wave_expired.is_some() || current == WaveStep::Passed {
        return Vec::new();
    }
    if operation.wave_deadline().is_some_and(|deadline| now >= deadline) {
        return passed(DeadlineScope::Wave, wave_too_late(operation, index));
    }
    operation
        .wave_tasks(index)
        .filter(|(_, task, state)| {
            operation.hook_deadline(task, state).is_some_and(|deadline| now >= deadline)
        })
        .flat_map(|(id, task, _)| passed(DeadlineScope::Hook(id), messages::hook_too_late(task)))
        .collect()
}

fn wave_too_late(operation: &Operation, index: u32) -> String {
    let (phase, wave, timeout) = operation
        .wave(index)
        .map(|wave| (wave.phase.to_string(), wave.wave, wave.timeout.unwrap_or_default()))
        .unwrap_or_default();
    let timeout = format_duration(timeout);
    format!("wave {wave} of {phase} did not pass within {timeout}: {}", operation.message())
}

fn arrows(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    match &operation.stage {
        Stage::Planned => planned(operation, now),
        Stage::DryRun => dry_run(operation, now),
        Stage::Wave { index, step } => wave(operation, *index, *step, now),
        Stage::AwaitingRetry { until } if now >= *until => {
            vec![Fact::RetryStarted { attempt: operation.attempt.saturating_add(1), at: now }]
        }
        Stage::AwaitingRetry { .. } => Vec::new(),
        Stage::Terminating => terminating(operation, now),
        Stage::Finishing { phase, message } => {
            let busy = operation.all_tasks().any(|(_, task, state)| {
                state.awaits_release() || operation.deletes_at_end(task, state, *phase)
            });
            if busy {
                Vec::new()
            } else {
                vec![Fact::Finished { phase: *phase, message: message.clone(), at: now }]
            }
        }
    }
}

fn planned(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let errors = operation.plan.errors();
    if !errors.is_empty() {
        let message = format!("{}: {}", messages::NOT_VALID, errors.join("; "));
        return vec![Fact::Finished { phase: OperationPhase::Failed, message, at: now }];
    }
    let options = &operation.header.request.options;
    match operation.next_wave(0, false) {
        None => moved(finishing(OperationPhase::Succeeded, messages::SUCCEEDED_NO_MORE), now),
        Some(first) if options.skip_dry_run && !options.dry_run => step(first, WaveStep::Held, now),
        Some(_) => moved(Stage::DryRun, now),
    }
}

fn finishing(phase: OperationPhase, message: impl Into<String>) -> Stage {
    Stage::Finishing { phase, message: message.into() }
}

fn dry_run(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    if operation.failure.is_some() {
        return after_failure(operation, now);
    }
    if operation.all_tasks().any(|(_, task, state)| needs_check(task, state, false)) {
        return Vec::new();
    }
    if operation.all_tasks().any(|(_, _, state)| state.is_unsuccessful()) {
        return attempt_failed(messages::DRY_RUN_FAILED.to_owned(), now);
    }
    match operation.next_wave(0, false) {
        Some(first) if !operation.header.request.options.dry_run => step(first, WaveStep::Held, now),
        _ => moved(finishing(OperationPhase::Succeeded, messages::SUCCEEDED_NO_MORE), now),
    }
}

fn attempt_failed(message: String, now: Timestamp) -> Vec<Fact> {
    vec![Fact::AttemptFailed { message, retriable: true, at: now }]
}

/// A failed attempt: another one, or the SyncFail hooks, or the end.
fn after_failure(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let Some(failure) = &operation.failure else { return Vec::new() };
    if failure.retriable && operation.may_retry() {
        let until = now + operation.header.request.retry.backoff.wait(operation.retry_count());
        return moved(Stage::AwaitingRetry { until }, now);
    }
    if operation.stage == Stage::DryRun {
        let message = with_retries(operation, failure.message.clone());
        return vec![Fact::Finished { phase: OperationPhase::Failed, message, at: now }];
    }
    match operation.next_wave(0, true) {
        Some(first) => step(first, WaveStep::Held, now),
        None => moved(finishing(OperationPhase::Failed, failed_message(operation)), now),
    }
}

fn with_retries(operation: &Operation, message: String) -> String {
    match operation.retry_count() {
        0 => message,
        n => format!("{message} (retried {n} times)."),
    }
}

fn failed_message(operation: &Operation) -> String {
    let mut message = operation.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let reasons = operation.refusals(true);
    if !reasons.is_empty() {
        message = format!("{message}\n{}", messages::with_reason(messages::SYNC_FAIL_FAILED, &reasons));
    }
    with_retries(operation, message)
}

fn wave(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<Fact> {
    let failed = operation.wave_failed(index) && !operation.is_sync_fail(index);
    if operation.failure.is_some() && !operation.is_sync_fail(index) {
        return after_failure(operation, now);
    }
    if let Some(message) = &operation.wave_expired {
        return expired(operation, index, current, message, now);
    }
    let any = |test: &dyn Fn(&tidegate_model::Task, &TaskState) -> bool| {
        operation.wave_tasks(index).any(|(_, task, state)| test(task, state))
    };
    match current {
        WaveStep::Held if is_held(operation, index) => Vec::new(),
        WaveStep::Held => next_step(operation, index, current, now),
        WaveStep::DryRun if any(&|task, state| needs_check(task, state, true)) => Vec::new(),
        WaveStep::Pruning if any(&|task, state| is_waiting_prune(task, state)) => Vec::new(),
        WaveStep::AwaitingGone if any(&|task, state| task.action.is_prune() && is_deleting(state)) => {
            Vec::new()
        }
        WaveStep::Clearing if any(&|task, state| is_clearing(task, state)) => Vec::new(),
        WaveStep::DryRun | WaveStep::Pruning | WaveStep::AwaitingGone | WaveStep::Clearing if failed => {
            // What was applied before a retry or adopted may still be at work; it is awaited before the failure counts.
            step(index, WaveStep::AwaitingHealth, now)
        }
        WaveStep::DryRun | WaveStep::Pruning | WaveStep::AwaitingGone | WaveStep::Clearing => {
            next_step(operation, index, current, now)
        }
        WaveStep::Applying => applying(operation, index, now),
        WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
            health(operation, index, current, failed, now)
        }
        WaveStep::Passed => passed(operation, index, now),
    }
}

fn is_held(operation: &Operation, index: u32) -> bool {
    let gates = operation.wave(index).map(|wave| wave.gates.as_slice()).unwrap_or_default();
    let is_open = |gate: &String| {
        operation.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
    };
    !gates.iter().all(is_open) || operation.unconfirmed_prunes(index).next().is_some()
}

fn is_waiting_prune(task: &tidegate_model::Task, state: &TaskState) -> bool {
    task.action == Action::Prune && state.progress == Progress::Waiting
}

fn is_deleting(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Deleting { .. })
}

/// Whether the place of a hook is still being cleared. A hook with a runner has no object.
pub(crate) fn is_clearing(task: &tidegate_model::Task, state: &TaskState) -> bool {
    let on_cluster = task.hook.as_ref().is_some_and(|hook| hook.runner.is_none());
    on_cluster && (state.progress == Progress::Waiting || is_deleting(state))
}

/// The first step after `current` that has something to do.
fn next_step(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<Fact> {
    let any = |test: &dyn Fn(&tidegate_model::Task, &TaskState) -> bool| {
        operation.wave_tasks(index).any(|(_, task, state)| test(task, state))
    };
    let steps = [
        (
            WaveStep::DryRun,
            !operation.header.request.options.skip_dry_run
                && any(&|task, state| needs_check(task, state, true)),
        ),
        (
            WaveStep::Pruning,
            any(&|task, state| task.action.is_prune() && state.progress == Progress::Waiting),
        ),
        (
            WaveStep::AwaitingGone,
            operation.awaits_gone(index) && any(&|task, state| task.action.is_prune() && is_deleting(state)),
        ),
        (WaveStep::Clearing, any(&is_clearing)),
        (WaveStep::Applying, !operation.all_applied(index)),
    ];
    let next = steps.iter().skip_while(|(step, _)| step.rank() <= current.rank()).find(|(_, needed)| *needed);
    step(index, next.map_or(WaveStep::AwaitingHealth, |(step, _)| *step), now)
}

fn applying(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    let starts = |task: &tidegate_model::Task, state: &TaskState| {
        task.hook.as_ref().is_some_and(|hook| hook.runner.is_some()) && state.progress == Progress::Waiting
    };
    let started: Vec<Fact> = operation
        .apply_group(index)
        .into_iter()
        .filter(|(_, task, state)| starts(task, state))
        .map(|(task, _, _)| Fact::RunnerStarted { task, at: now })
        .collect();
    if started.is_empty() && operation.all_applied(index) {
        return step(index, WaveStep::AwaitingHealth, now);
    }
    started
}

/// The wave's deadline has passed: hooks are stopped, then the attempt has failed.
fn expired(operation: &Operation, index: u32, current: WaveStep, message: &str, now: Timestamp) -> Vec<Fact> {
    let busy = operation
        .wave_tasks(index)
        .any(|(_, _, state)| matches!(state.progress, Progress::Stopping { .. }) || state.awaits_release());
    match (busy, operation.is_sync_fail(index), current) {
        (true, _, _) => Vec::new(),
        (false, true, WaveStep::Passed) => passed(operation, index, now),
        (false, true, _) => step(index, WaveStep::Passed, now),
        (false, false, _) => attempt_failed(message.to_owned(), now),
    }
}

fn health(operation: &Operation, index: u32, current: WaveStep, failed: bool, now: Timestamp) -> Vec<Fact> {
    let awaited: Vec<_> = operation.awaited(index).collect();
    if awaited.is_empty() {
        return if failed {
            wave_failed(operation, index, now)
        } else {
            delay_or_pass(operation, index, current, now)
        };
    }
    let settling: Vec<(TaskId, Timestamp, OperationPhase, String)> =
        awaited.iter().filter_map(|(id, task, state)| weak_verdict(operation, *id, task, state)).collect();
    let until = settling.iter().map(|(_, until, _, _)| *until).max();
    match until {
        Some(until) if settling.len() == awaited.len() && now >= until => settling
            .into_iter()
            .map(|(task, _, phase, message)| Fact::TaskCompleted { task, phase, message, at: now })
            .collect(),
        Some(until) if settling.len() == awaited.len() => settle(index, current, until, now),
        _ if matches!(current, WaveStep::Settling { .. }) => step(index, WaveStep::AwaitingHealth, now),
        _ => Vec::new(),
    }
}

/// A verdict that only time can confirm, and when it is confirmed.
fn weak_verdict(
    operation: &Operation,
    id: TaskId,
    task: &tidegate_model::Task,
    state: &TaskState,
) -> Option<(TaskId, Timestamp, OperationPhase, String)> {
    let seen = state.health.as_ref().filter(|seen| !seen.fresh)?;
    let applied = state.applied.as_ref()?;
    let phase = phase_of(task.is_hook(), seen.health.status)?;
    let message =
        if seen.health.status == HealthStatus::Healthy { String::new() } else { seen.health.message.clone() };
    Some((id, applied.at + operation.settle_time(), phase, message))
}

fn settle(index: u32, current: WaveStep, until: Timestamp, now: Timestamp) -> Vec<Fact> {
    let settling = WaveStep::Settling { until };
    if current == settling { Vec::new() } else { step(index, settling, now) }
}

/// The fixed delay of `ARGOCD_SYNC_WAVE_DELAY`, if one is set; then the wave has passed.
fn delay_or_pass(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<Fact> {
    let delay = operation.header.request.wave_delay.unwrap_or_default();
    let last = operation.is_final(index) || operation.is_sync_fail(index);
    if let (false, Some(applied_at)) = (last, operation.times(index).applied_at)
        && now < applied_at + delay
    {
        return settle(index, current, applied_at + delay, now);
    }
    step(index, WaveStep::Passed, now)
}

fn wave_failed(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    let ran = operation.wave_tasks(index).any(|(_, _, state)| state.status == Some(ResultCode::Synced));
    let base = if ran { messages::UNSUCCESSFUL } else { messages::APPLY_FAILED };
    attempt_failed(messages::with_reason(base, &operation.refusals(false)), now)
}

fn passed(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    let sync_fail = operation.is_sync_fail(index);
    if let Some(next) = operation.next_wave(index.saturating_add(1), sync_fail) {
        return step(next, WaveStep::Held, now);
    }
    let end = if sync_fail {
        finishing(OperationPhase::Failed, failed_message(operation))
    } else if operation.has_hooks(index) {
        finishing(OperationPhase::Succeeded, with_retries(operation, messages::SUCCEEDED_NO_MORE.to_owned()))
    } else {
        finishing(OperationPhase::Succeeded, with_retries(operation, messages::SUCCEEDED_ALL.to_owned()))
    };
    moved(end, now)
}

fn terminating(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let busy = operation
        .all_tasks()
        .any(|(_, _, state)| matches!(state.progress, Progress::Stopping { .. }) || state.awaits_release());
    if busy {
        return Vec::new();
    }
    let (phase, message) = match &operation.termination {
        Some(termination) if termination.had_errors => {
            (OperationPhase::Error, messages::TERMINATION_ERRORS.to_owned())
        }
        Some(termination) => (OperationPhase::Failed, termination.message.clone()),
        None => (OperationPhase::Failed, messages::TERMINATED.to_owned()),
    };
    vec![Fact::Finished { phase, message: with_retries(operation, message), at: now }]
}
