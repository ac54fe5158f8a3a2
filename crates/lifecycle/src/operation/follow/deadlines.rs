//! Which deadline has passed.

use tidegate_model::{OperationPhase, TaskId, Timestamp, format_duration};

use crate::operation::fact::{DeadlineScope, Fact};
use crate::operation::messages;
use crate::operation::state::{Operation, Stage, WaveStep};

/// The message of an operation whose deadline passed while it was waiting for something.
pub(super) fn operation_too_late(deadline: std::time::Duration, waited: &str) -> String {
    let deadline = format_duration(deadline);
    format!("{}, triggered by the operation deadline of {deadline}: {waited}", messages::TERMINATED)
}

/// What is awaited and not well, or not gone, when the operation's deadline passes has failed, and says why.
fn late_resources(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let Some((index, _)) = operation.current_wave() else { return Vec::new() };
    operation
        .awaited(index)
        .filter(|(_, task, _)| !task.is_hook())
        .filter_map(|(id, task, state)| {
            let message = state.too_late(task, "operation", &state.why_not_well())?;
            Some(Fact::TaskCompleted { task: id, phase: OperationPhase::Failed, message, at: now })
        })
        .collect()
}

/// The deadlines that have just passed: the operation's, else the wave's, else those of hooks.
pub(super) fn passed(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let late = |scope, message| vec![Fact::DeadlinePassed { scope, message, at: now }];
    if !operation.is_ending() && operation.deadline().is_some_and(|deadline| now >= deadline) {
        let deadline = operation.header.request.deadline.unwrap_or_default();
        let waited = match (&operation.stage, &operation.failure) {
            (Stage::AwaitingRetry { .. }, Some(failure)) => failure.message.clone(),
            _ => operation.waited_for(),
        };
        let mut facts = late_resources(operation, now);
        facts.extend(late(DeadlineScope::Operation, operation_too_late(deadline, &waited)));
        return facts;
    }
    let Some((index, current)) = operation.current_wave() else { return Vec::new() };
    if operation.wave_expired.is_some() || current == WaveStep::Passed {
        return Vec::new();
    }
    if operation.wave_deadline().is_some_and(|deadline| now >= deadline) {
        return late(DeadlineScope::Wave, wave_too_late(operation, index));
    }
    let cursor = operation.cursor_at(index);
    let passed = cursor.deadlines.iter().take_while(|(deadline, _)| now >= *deadline);
    let mut hooks: Vec<TaskId> = passed.map(|(_, hook)| *hook).collect();
    hooks.sort_unstable();
    let tasks = hooks.into_iter().filter_map(|hook| Some((hook, operation.plan.task(hook)?)));
    tasks.flat_map(|(hook, task)| late(DeadlineScope::Hook(hook), messages::hook_too_late(task))).collect()
}

fn wave_too_late(operation: &Operation, index: u32) -> String {
    let (phase, wave) =
        operation.wave_name(index).map(|name| (name.phase.to_string(), name.wave)).unwrap_or_default();
    let timeout = operation.wave(index).and_then(|wave| wave.timeout).unwrap_or_default();
    let timeout = format_duration(timeout);
    format!("wave {wave} of {phase} did not pass within {timeout}: {}", operation.waited_for())
}
