//! The arrows within a wave.

use tidegate_model::{Action, Task, Timestamp};

use super::arrow::step;
use super::ending;
use crate::operation::fact::Fact;
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
        WaveStep::Held if is_held(operation, index, now) && !operation.is_settled(index) => Vec::new(),
        WaveStep::Held => next_step(operation, index, current, now),
        WaveStep::DryRun if any(&|task, state| needs_check(task, state, true)) => Vec::new(),
        WaveStep::Pruning if any(&|task, state| is_waiting_prune(task, state)) => Vec::new(),
        WaveStep::AwaitingGone
            if !failed && any(&|task, state| task.action.is_prune() && is_deleting(state)) =>
        {
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
        // The answer leads on, unless a person has undone what the wave failed of.
        WaveStep::Verifying => match back(operation, index, failed) {
            Some(earlier) => step(index, earlier, now),
            None if !failed && !operation.overrides.is_empty() && operation.awaiting(index).count() > 0 => {
                step(index, WaveStep::AwaitingHealth, now)
            }
            None => Vec::new(),
        },
        WaveStep::Passed => ending::passed(operation, index, now),
    }
}

/// Nothing of the wave is at work any more.
fn over(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    if operation.verifies(index) {
        return step(index, WaveStep::Verifying, now);
    }
    verified(operation, index, now)
}

/// Nothing of the wave is at work any more, and what it wrote is still there.
pub(in crate::operation) fn verified(operation: &Operation, index: u32, now: Timestamp) -> Vec<Fact> {
    if operation.wave_failed(index) && !operation.is_sync_fail(index) {
        return ending::wave_failed(operation, index, now);
    }
    step(index, WaveStep::Passed, now)
}

fn is_held(operation: &Operation, index: u32, now: Timestamp) -> bool {
    !operation.gates_are_open(index, now) || operation.unconfirmed_prunes(index).next().is_some()
}

fn is_waiting_prune(task: &Task, state: &TaskState) -> bool {
    task.action == Action::Prune && state.progress == Progress::Waiting
}

fn is_deleting(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Deleting { .. })
}

/// The first step after `current` that has something to do.
fn next_step(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<Fact> {
    let next = needed(operation, index).find(|step| step.rank() > current.rank());
    step(index, next.unwrap_or(WaveStep::AwaitingHealth), now)
}

/// The step that a wave goes back to: a person has had something tried again, or has skipped what kept the rest of the wave
/// from being done. One that has failed for another reason stays where it is.
fn back(operation: &Operation, index: u32, failed: bool) -> Option<WaveStep> {
    (!failed && !operation.overrides.is_empty()).then(|| needed(operation, index).next())?
}

/// The steps that have something to do, in their order.
fn needed(operation: &Operation, index: u32) -> impl Iterator<Item = WaveStep> + use<> {
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
    steps.into_iter().filter(|(_, needed)| *needed).map(|(step, _)| step)
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

/// The wave is ended before its time: hooks are stopped, then the attempt has failed.
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
    if let Some(earlier) = back(operation, index, failed) {
        return step(index, earlier, now);
    }
    let awaiting = operation.awaiting(index);
    if awaiting.count() == 0 {
        return if failed {
            over(operation, index, now)
        } else {
            delay_or_pass(operation, index, current, now)
        };
    }
    if !awaiting.is_settling() {
        let is_settling = matches!(current, WaveStep::Settling { .. });
        return if is_settling { step(index, WaveStep::AwaitingHealth, now) } else { Vec::new() };
    }
    let verdicts = || {
        operation
            .awaited(index)
            .filter_map(|(id, task, state)| Some((id, state, operation.weak_verdict(task, state)?)))
    };
    match verdicts().map(|(_, _, (until, _))| until).max() {
        Some(until) if now >= until => verdicts()
            .map(|(task, state, (_, phase))| {
                let message =
                    state.health.as_ref().map(|seen| seen.health.message.clone()).unwrap_or_default();
                Fact::TaskCompleted { task, phase, message, at: now }
            })
            .collect(),
        Some(until) => settle(index, current, until, now),
        None => Vec::new(),
    }
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
    over(operation, index, now)
}
