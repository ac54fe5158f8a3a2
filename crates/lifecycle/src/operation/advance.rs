//! Automatic transitions. This module decides all transitions of the machine.

mod deadlines;
pub(super) mod ending;
mod transition;
mod wave;

pub(super) use transition::termination_event;
pub(super) use wave::end_verified_wave;

use tidegate_model::{OperationPhase, Timestamp};

use super::messages;
use super::recorded_event::OperationEvent;
use super::rules::needs_check;
use super::state::{Operation, Stage, State, WaveStep};

use transition::{move_to, move_to_step};

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
        Stage::Wave { index, step } => wave::advance_wave(operation, *index, *step, now),
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
