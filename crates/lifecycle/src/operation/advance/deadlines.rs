//! Handling of deadlines that have passed.

use tidegate_model::{OperationPhase, TaskId, Timestamp, format_duration};

use crate::operation::messages;
use crate::operation::recorded_event::{DeadlineScope, OperationEvent};
use crate::operation::state::{Operation, Stage, WaveStep};

/// Returns the message of an operation that missed its deadline while waiting.
pub(super) fn operation_deadline_message(deadline: std::time::Duration, waited: &str) -> String {
    let deadline = format_duration(deadline);
    format!("{}, triggered by the operation deadline of {deadline}: {waited}", messages::TERMINATED)
}

/// Fails the resources that are unhealthy or not yet deleted at the operation's deadline, each with its own
/// reason.
fn fail_late_resources(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    let Some((index, _)) = operation.current_wave() else { return Vec::new() };
    operation
        .awaited_task_states(index)
        .filter(|(_, task, _)| !task.is_hook())
        .filter_map(|(id, task, state)| {
            let message = state.deadline_message(task, "operation", &state.unhealthy_reason())?;
            Some(OperationEvent::TaskCompleted { task: id, phase: OperationPhase::Failed, message, at: now })
        })
        .collect()
}

/// Returns the events for a passed deadline. Checks the operation, the wave and the hooks, in this order.
pub(super) fn expire_deadlines(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    let late = |scope, message| vec![OperationEvent::DeadlineExceeded { scope, message, at: now }];
    if !operation.is_ending() && operation.deadline().is_some_and(|deadline| now >= deadline) {
        let deadline = operation.header.request.deadline.unwrap_or_default();
        let waited = match (&operation.stage, &operation.failure) {
            (Stage::AwaitingRetry { .. }, Some(failure)) => failure.message.clone(),
            _ => operation.describe_wait(),
        };
        let mut events = fail_late_resources(operation, now);
        events.extend(late(DeadlineScope::Operation, operation_deadline_message(deadline, &waited)));
        return events;
    }
    let Some((index, current)) = operation.current_wave() else { return Vec::new() };
    if operation.wave_expired.is_some() || current == WaveStep::Passed {
        return Vec::new();
    }
    if operation.wave_deadline().is_some_and(|deadline| now >= deadline) {
        return late(DeadlineScope::Wave, wave_deadline_message(operation, index));
    }
    let cursor = operation.cursor_for_wave(index);
    let passed = cursor.deadlines.iter().take_while(|(deadline, _)| now >= *deadline);
    let mut hooks: Vec<TaskId> = passed.map(|(_, hook)| *hook).collect();
    hooks.sort_unstable();
    let tasks = hooks.into_iter().filter_map(|hook| Some((hook, operation.plan.task(hook)?)));
    tasks
        .flat_map(|(hook, task)| late(DeadlineScope::Hook(hook), messages::hook_deadline_message(task)))
        .collect()
}

fn wave_deadline_message(operation: &Operation, index: u32) -> String {
    let (phase, wave) =
        operation.wave_name(index).map(|name| (name.phase.to_string(), name.wave)).unwrap_or_default();
    let timeout = operation.wave(index).and_then(|wave| wave.timeout).unwrap_or_default();
    let timeout = format_duration(timeout);
    format!("wave {wave} of {phase} did not complete within {timeout}: {}", operation.describe_wait())
}
