//! Automatic transitions. This module decides all transitions of the machine.

mod deadlines;
pub(super) mod ending;

use tidegate_model::{OperationPhase, Task, TaskId, Timestamp};

use super::messages;
use super::recorded_event::OperationEvent;
use super::rules::needs_check;
use super::state::{Operation, Progress, Stage, State, TaskState, WaveStep};

/// Returns the events that follow from the state and the time alone. The driver calls this until it returns
/// nothing.
pub fn advance(state: &State, now: Timestamp) -> Vec<OperationEvent> {
    match state {
        State::New | State::Finished(_) => Vec::new(),
        State::Accepted(header) if header.paused.is_some() => Vec::new(),
        State::Accepted(header) => match header.request.deadline {
            Some(deadline) if now >= header.deadline_from + deadline => {
                let message = deadlines::operation_deadline_message(deadline, &state.message());
                ending::finish_now(OperationPhase::Failed, message, now)
            }
            _ => Vec::new(),
        },
        State::Running(operation) => advance_running(operation, now),
    }
}

/// Returns true if an operation can continue without waiting.
pub(super) fn can_proceed(operation: &Operation, now: Timestamp) -> bool {
    !advance_running(operation, now).is_empty()
}

fn advance_running(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    if let Some(message) = operation.header.lost_claim_message() {
        return ending::finish_now(OperationPhase::Error, message, now);
    }
    if operation.header.paused.is_some() {
        return Vec::new();
    }
    if let Some(stage) = unconditional_transition(operation) {
        return move_to(stage, now);
    }
    let events = deadlines::expire_deadlines(operation, now);
    if events.is_empty() { advance_stage(operation, now) } else { events }
}

/// Returns a transition that doesn't depend on deadlines: to the requested termination, or back to the
/// interrupted wave.
fn unconditional_transition(operation: &Operation) -> Option<Stage> {
    match &operation.stage {
        Stage::Terminating | Stage::Finishing { .. } => None,
        _ if operation.termination.is_some() => Some(Stage::Terminating),
        Stage::Planned => {
            let index = operation.interrupted_wave()?;
            Some(Stage::Wave { index, step: WaveStep::Held })
        }
        _ => None,
    }
}

fn advance_stage(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    match &operation.stage {
        Stage::Planned => advance_planned(operation, now),
        Stage::DryRun => advance_dry_run(operation, now),
        Stage::Wave { index, step } => advance_wave(operation, *index, *step, now),
        Stage::AwaitingRetry { until } if now >= *until => {
            let attempt = operation.attempt.saturating_add(1);
            vec![match operation.needs_new_plan() {
                true => OperationEvent::ReplanStarted { attempt, at: now },
                false => OperationEvent::RetryStarted { attempt, at: now },
            }]
        }
        Stage::AwaitingRetry { .. } => Vec::new(),
        Stage::Terminating => ending::finish_termination(operation, now),
        Stage::Finishing { phase, message } => ending::finish_after_cleanup(operation, *phase, message, now),
    }
}

fn advance_planned(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    if operation.failure.is_some() {
        return ending::advance_after_failure(operation, now);
    }
    if !operation.is_valid() {
        return ending::fail_attempt(messages::invalid_plan_message(&operation.plan.errors()), now);
    }
    if let Some((_, message)) = operation.pruned_namespace_in_use() {
        // A retry would use the same plan and fail again.
        return vec![OperationEvent::AttemptFailed { message, retriable: false, at: now }];
    }
    let options = &operation.header.request.options;
    match operation.next_wave_with_work(0, false) {
        None => ending::succeed(operation, messages::SUCCEEDED_NO_MORE, now),
        Some(first) if options.skip_dry_run && !options.dry_run => move_to_step(first, WaveStep::Held, now),
        Some(_) => move_to(Stage::DryRun, now),
    }
}

fn advance_dry_run(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    if operation.failure.is_some() {
        return ending::advance_after_failure(operation, now);
    }
    if operation.all_tasks().any(|(_, task, state)| needs_check(task, state, false)) {
        return Vec::new();
    }
    if operation.all_tasks().any(|(_, _, state)| state.is_unsuccessful()) {
        return ending::fail_attempt(messages::dry_run_failed_message(operation), now);
    }
    match operation.next_wave_with_work(0, false) {
        Some(first) if !operation.header.request.options.dry_run => move_to_step(first, WaveStep::Held, now),
        _ => ending::succeed(operation, messages::SUCCEEDED_NO_MORE, now),
    }
}

/// Returns the transitions within a wave.
fn advance_wave(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<OperationEvent> {
    let failed = operation.has_wave_failed(index) && !operation.is_sync_fail_wave(index);
    if operation.failure.is_some() && !operation.is_sync_fail_wave(index) {
        return ending::advance_after_failure(operation, now);
    }
    if let Some(message) = &operation.wave_expired {
        return expire_wave(operation, index, current, message, now);
    }
    let any = |test: &dyn Fn(&Task, &TaskState) -> bool| {
        operation.wave_tasks(index).any(|(_, task, state)| test(task, state))
    };
    match current {
        WaveStep::Held if is_held(operation, index, now) && !operation.is_settled_by_overrides(index) => {
            Vec::new()
        }
        WaveStep::Held => next_step(operation, index, current, now),
        WaveStep::DryRun if any(&|task, state| needs_check(task, state, true)) => Vec::new(),
        WaveStep::Pruning if !operation.cursor_for_wave(index).withheld_prunes.is_empty() => {
            keep_needed_objects(operation, index, now)
        }
        WaveStep::Pruning if has_outstanding_prunes(operation, index, failed) => Vec::new(),
        WaveStep::AwaitingGone if !failed && operation.has_running_prunes(index) => Vec::new(),
        WaveStep::Clearing if operation.needs_clearing(index) => Vec::new(),
        WaveStep::DryRun | WaveStep::Pruning | WaveStep::AwaitingGone | WaveStep::Clearing if failed => {
            // Tasks that were adopted, or applied by an earlier attempt, may still be running. Let them
            // finish before the attempt fails.
            move_to_step(index, WaveStep::AwaitingHealth, now)
        }
        WaveStep::DryRun | WaveStep::Pruning | WaveStep::AwaitingGone | WaveStep::Clearing => {
            next_step(operation, index, current, now)
        }
        WaveStep::Applying => advance_applying(operation, index, now),
        WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
            advance_health(operation, index, current, failed, now)
        }
        // The result of the verification is final unless a user has reversed the cause of the failure.
        WaveStep::Verifying => match earlier_step(operation, index, failed) {
            Some(earlier) => move_to_step(index, earlier, now),
            None if !failed
                && !operation.overrides.is_empty()
                && operation.awaited_tasks(index).count() > 0 =>
            {
                move_to_step(index, WaveStep::AwaitingHealth, now)
            }
            None => Vec::new(),
        },
        WaveStep::Passed => ending::advance_after_wave(operation, index, now),
    }
}

/// Ends a wave with no work running, after verifying its namespaces if needed.
fn end_wave(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    if operation.needs_verification(index) {
        return move_to_step(index, WaveStep::Verifying, now);
    }
    end_verified_wave(operation, index, now)
}

/// Ends a wave with no work running and with verified namespaces.
pub(super) fn end_verified_wave(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    if operation.has_wave_failed(index) && !operation.is_sync_fail_wave(index) {
        return ending::fail_wave(operation, index, now);
    }
    move_to_step(index, WaveStep::Passed, now)
}

fn is_held(operation: &Operation, index: u32, now: Timestamp) -> bool {
    !operation.has_open_gates(index, now) || operation.unconfirmed_prunes(index).next().is_some()
}

/// Returns true if prunes must still be sent. A failed wave doesn't wait for dependencies, so it doesn't send the
/// prunes that are waiting for them.
fn has_outstanding_prunes(operation: &Operation, index: u32, failed: bool) -> bool {
    let cursor = operation.cursor_for_wave(index);
    let outstanding = if failed { &cursor.released_prunes } else { &cursor.waiting_prunes };
    !outstanding.is_empty()
}

fn is_deleting(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Deleting { .. })
}

/// Moves to the first step after `current` that has work to do.
fn next_step(operation: &Operation, index: u32, current: WaveStep, now: Timestamp) -> Vec<OperationEvent> {
    let next = needed_steps(operation, index).find(|step| step.rank() > current.rank());
    move_to_step(index, next.unwrap_or(WaveStep::AwaitingHealth), now)
}

/// Returns the earliest step with work to do after a user's override: for a retried task, or for one that a
/// skipped task blocked. `None` if the wave has failed.
fn earlier_step(operation: &Operation, index: u32, failed: bool) -> Option<WaveStep> {
    (!failed && !operation.overrides.is_empty()).then(|| needed_steps(operation, index).next())?
}

/// Returns the steps that have work to do, in order.
fn needed_steps(operation: &Operation, index: u32) -> impl Iterator<Item = WaveStep> + use<> {
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
            operation.should_await_deletions(index)
                && any(&|task, state| task.action.is_prune() && is_deleting(state)),
        ),
        (WaveStep::Clearing, operation.needs_clearing(index)),
        (WaveStep::Applying, !operation.is_fully_applied(index)),
    ];
    steps.into_iter().filter(|(_, needed)| *needed).map(|(step, _)| step)
}

fn advance_applying(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    let starts = |task: &Task, state: &TaskState| {
        task.hook.as_ref().is_some_and(|hook| hook.runner.is_some()) && state.progress == Progress::Waiting
    };
    let cursor = operation.cursor_for_wave(index);
    let released = cursor.released_runners.iter().filter(|id| operation.graph.is_turn_of(**id, cursor.next));
    let started: Vec<OperationEvent> = operation
        .current_apply_group(index)
        .filter(|(_, task, state)| starts(task, state))
        .map(|(task, _, _)| task)
        .chain(released.copied())
        .map(|task| OperationEvent::RunnerStarted { task, at: now })
        .collect();
    if !started.is_empty() {
        return started;
    }
    if operation.is_fully_applied(index) {
        return move_to_step(index, WaveStep::AwaitingHealth, now);
    }
    settle_dependencies(operation, index, now)
}

/// Ends the prunes of objects that kept objects depend on.
fn keep_needed_objects(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    let cursor = operation.cursor_for_wave(index);
    let kept = cursor.withheld_prunes.iter().filter_map(|id| {
        let message = messages::needed_by_kept_message(operation.kept_dependent(*id)?);
        Some(OperationEvent::TaskCompleted { task: *id, phase: OperationPhase::Succeeded, message, at: now })
    });
    kept.collect()
}

/// Completes the tasks with dependents whose health has persisted for the settle time.
fn settle_dependencies(operation: &Operation, index: u32, now: Timestamp) -> Vec<OperationEvent> {
    let cursor = operation.cursor_for_wave(index);
    let settled = cursor.settling.iter().take_while(|(at, _)| now >= *at).filter_map(|(_, id)| {
        let (task, state) = operation.task(*id)?;
        let (_, phase) = operation.weak_verdict(*id, task, state)?;
        Some(settled_event(*id, state, phase, now))
    });
    settled.collect()
}

fn settled_event(task: TaskId, state: &TaskState, phase: OperationPhase, now: Timestamp) -> OperationEvent {
    let message = state.health.as_ref().map(|seen| seen.health.message.clone()).unwrap_or_default();
    OperationEvent::TaskCompleted { task, phase, message, at: now }
}

/// Ends a wave after a missed deadline or the loss of a namespace: waits for its hooks to stop, then fails
/// the attempt. A SyncFail wave passes instead.
fn expire_wave(
    operation: &Operation,
    index: u32,
    current: WaveStep,
    message: &str,
    now: Timestamp,
) -> Vec<OperationEvent> {
    let busy = operation.wave_tasks(index).any(|(_, _, state)| state.needs_stop_or_release());
    match (busy, operation.is_sync_fail_wave(index), current) {
        (true, _, _) => Vec::new(),
        (false, true, WaveStep::Passed) => ending::advance_after_wave(operation, index, now),
        (false, true, _) => move_to_step(index, WaveStep::Passed, now),
        (false, false, _) => ending::fail_attempt(message.to_owned(), now),
    }
}

fn advance_health(
    operation: &Operation,
    index: u32,
    current: WaveStep,
    failed: bool,
    now: Timestamp,
) -> Vec<OperationEvent> {
    if let Some(earlier) = earlier_step(operation, index, failed) {
        return move_to_step(index, earlier, now);
    }
    let awaiting = operation.awaited_tasks(index);
    if awaiting.count() == 0 {
        return if failed {
            end_wave(operation, index, now)
        } else {
            delay_or_pass(operation, index, current, now)
        };
    }
    if !awaiting.is_settling() {
        let is_settling = matches!(current, WaveStep::Settling { .. });
        return if is_settling { move_to_step(index, WaveStep::AwaitingHealth, now) } else { Vec::new() };
    }
    let verdicts = || {
        operation
            .awaited_task_states(index)
            .filter_map(|(id, task, state)| Some((id, state, operation.weak_verdict(id, task, state)?)))
    };
    match verdicts().map(|(_, _, (until, _))| until).max() {
        Some(until) if now >= until => {
            verdicts().map(|(task, state, (_, phase))| settled_event(task, state, phase, now)).collect()
        }
        Some(until) => start_settling(index, current, until, now),
        None => Vec::new(),
    }
}

fn start_settling(index: u32, current: WaveStep, until: Timestamp, now: Timestamp) -> Vec<OperationEvent> {
    let settling = WaveStep::Settling { until };
    if current == settling { Vec::new() } else { move_to_step(index, settling, now) }
}

/// Ends a wave after the fixed delay set by `ARGOCD_SYNC_WAVE_DELAY`, if any.
fn delay_or_pass(
    operation: &Operation,
    index: u32,
    current: WaveStep,
    now: Timestamp,
) -> Vec<OperationEvent> {
    let delay = operation.header.request.wave_delay.unwrap_or_default();
    let last = operation.is_final_wave(index) || operation.is_sync_fail_wave(index);
    if let (false, Some(applied_at)) = (last, operation.wave_times(index).applied_at)
        && now < applied_at + delay
    {
        return start_settling(index, current, applied_at + delay, now);
    }
    end_wave(operation, index, now)
}

/// Returns the transition after a termination request.
pub(super) fn termination_event(now: Timestamp) -> OperationEvent {
    OperationEvent::StageChanged { to: Stage::Terminating, at: now }
}

fn move_to(to: Stage, now: Timestamp) -> Vec<OperationEvent> {
    vec![OperationEvent::StageChanged { to, at: now }]
}

fn move_to_step(index: u32, step: WaveStep, now: Timestamp) -> Vec<OperationEvent> {
    move_to(Stage::Wave { index, step }, now)
}
