//! Which arrow follows by itself: the one place where the arrows of the machine are decided.

mod arrow;
mod deadlines;
pub(super) mod ending;
mod wave;

pub(super) use arrow::to_its_end;
pub(super) use wave::verified;

use tidegate_model::{OperationPhase, Timestamp};

use super::fact::Fact;
use super::messages;
use super::rules::needs_check;
use super::state::{Operation, Stage, State, WaveStep};

use arrow::{moved, step};

/// The facts that follow from the state and the time alone. Called again until nothing follows.
pub fn follow(state: &State, now: Timestamp) -> Vec<Fact> {
    match state {
        State::New | State::Finished(_) => Vec::new(),
        State::Accepted(header) if header.paused.is_some() => Vec::new(),
        State::Accepted(header) => match header.request.deadline {
            Some(deadline) if now >= header.deadline_from + deadline => {
                let message = deadlines::operation_too_late(deadline, &state.message());
                ending::at_once(OperationPhase::Failed, message, now)
            }
            _ => Vec::new(),
        },
        State::Running(operation) => running(operation, now),
    }
}

/// Whether an operation moves by itself, and waits for nothing.
pub(super) fn goes_on(operation: &Operation, now: Timestamp) -> bool {
    !running(operation, now).is_empty()
}

fn running(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    if let Some(message) = operation.header.lost_claim() {
        return ending::at_once(OperationPhase::Error, message, now);
    }
    if operation.header.paused.is_some() {
        return Vec::new();
    }
    if let Some(stage) = unconditional(operation) {
        return moved(stage, now);
    }
    let facts = deadlines::passed(operation, now);
    if facts.is_empty() { arrows(operation, now) } else { facts }
}

/// The arrow that follows whatever else may be: to the end that was asked for, or back to the wave that has failed.
pub(super) fn unconditional(operation: &Operation) -> Option<Stage> {
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

fn arrows(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    match &operation.stage {
        Stage::Planned => planned(operation, now),
        Stage::DryRun => dry_run(operation, now),
        Stage::Wave { index, step } => wave::follow(operation, *index, *step, now),
        Stage::AwaitingRetry { until } if now >= *until => {
            let attempt = operation.attempt.saturating_add(1);
            vec![match operation.plans_anew() {
                true => Fact::RetryPlansAnew { attempt, at: now },
                false => Fact::RetryStarted { attempt, at: now },
            }]
        }
        Stage::AwaitingRetry { .. } => Vec::new(),
        Stage::Terminating => ending::terminated(operation, now),
        Stage::Finishing { phase, message } => ending::finished(operation, *phase, message, now),
    }
}

fn planned(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    if operation.failure.is_some() {
        return ending::after_failure(operation, now);
    }
    if !operation.is_valid() {
        return ending::attempt_failed(messages::not_valid(&operation.plan.errors()), now);
    }
    if let Some((_, message)) = operation.prune_from_under_itself() {
        // Another attempt would have the same plan.
        return vec![Fact::AttemptFailed { message, retriable: false, at: now }];
    }
    let options = &operation.header.request.options;
    match operation.next_wave(0, false) {
        None => ending::succeeded(operation, messages::SUCCEEDED_NO_MORE, now),
        Some(first) if options.skip_dry_run && !options.dry_run => step(first, WaveStep::Held, now),
        Some(_) => moved(Stage::DryRun, now),
    }
}

fn dry_run(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    if operation.failure.is_some() {
        return ending::after_failure(operation, now);
    }
    if operation.all_tasks().any(|(_, task, state)| needs_check(task, state, false)) {
        return Vec::new();
    }
    if operation.all_tasks().any(|(_, _, state)| state.is_unsuccessful()) {
        return ending::attempt_failed(messages::dry_run_failed(operation), now);
    }
    match operation.next_wave(0, false) {
        Some(first) if !operation.header.request.options.dry_run => step(first, WaveStep::Held, now),
        _ => ending::succeeded(operation, messages::SUCCEEDED_NO_MORE, now),
    }
}
