//! The arrows within a wave.

use tidegate_model::{Action, OperationPhase, Task, TaskId, Timestamp};

use super::{ending, step};
use crate::operation::fact::{Fact, Verdict};
use crate::operation::rules::{is_clearing, needs_check};
use crate::operation::state::{Operation, Progress, TaskState, WaveStep};

pub(super) fn follow(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<Fact> {
    let failed = operation.wave_failed(index) && !operation.is_sync_fail(index);
    if operation.failure.is_some() && !operation.is_sync_fail(index) {
        return ending::after_failure(operation, now);
    }
    if let Some(message) = &operation.wave_expired {
        return expired(operation, index, current, message, now);
    }
    let any = |test: &dyn Fn(&Task, &TaskState) -> bool| {
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
        WaveStep::Passed => ending::passed(operation, index, now),
    }
}

fn is_held(operation: &Operation, index: u32) -> bool {
    let gates = operation.wave(index).map(|wave| wave.gates.as_slice()).unwrap_or_default();
    let is_open = |gate: &String| {
        operation.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
    };
    !gates.iter().all(is_open) || operation.unconfirmed_prunes(index).next().is_some()
}

fn is_waiting_prune(task: &Task, state: &TaskState) -> bool {
    task.action == Action::Prune && state.progress == Progress::Waiting
}

fn is_deleting(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Deleting { .. })
}

/// The first step after `current` that has something to do.
fn next_step(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<Fact> {
    let any = |test: &dyn Fn(&Task, &TaskState) -> bool| {
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
    let starts = |task: &Task, state: &TaskState| {
        task.hook.as_ref().is_some_and(|hook| hook.runner.is_some()) && state.progress == Progress::Waiting
    };
    let started: Vec<Fact> = operation
        .apply_group(index)
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
    let busy = operation.wave_tasks(index).any(|(_, _, state)| state.is_closing());
    match (busy, operation.is_sync_fail(index), current) {
        (true, _, _) => Vec::new(),
        (false, true, WaveStep::Passed) => ending::passed(operation, index, now),
        (false, true, _) => step(index, WaveStep::Passed, now),
        (false, false, _) => ending::attempt_failed(message.to_owned(), now),
    }
}

fn health(operation: &Operation, index: u32, current: WaveStep, failed: bool, now: Timestamp) -> Vec<Fact> {
    let awaited: Vec<_> = operation.awaited(index).collect();
    if awaited.is_empty() {
        return if failed {
            ending::wave_failed(operation, index, now)
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
    task: &Task,
    state: &TaskState,
) -> Option<(TaskId, Timestamp, OperationPhase, String)> {
    let seen = state.health.as_ref().filter(|seen| !seen.fresh)?;
    let applied = state.applied.as_ref()?;
    let phase = operation.phase_by(task, seen.health.status)?;
    Some((id, applied.at + operation.settle_time(), phase, seen.health.message.clone()))
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
