//! Subjects whose outstanding commands an event can change. While a wave is waiting, an event about one task
//! affects only this task and its dependents. Any other event requires visiting the whole wave.

use tidegate_model::{Task, TaskId};

use super::command::Subject;
use super::recorded_event::OperationEvent;
use super::state::{Operation, Stage, WaveStep};
use crate::machine::AffectedSubjects;

/// Returns true if the outstanding commands of each task are independent of all other tasks.
pub(super) fn has_independent_tasks(operation: &Operation) -> bool {
    let waits = match operation.stage {
        Stage::Wave { step: WaveStep::AwaitingHealth | WaveStep::Settling { .. }, .. }
        | Stage::Wave { step: WaveStep::Pruning | WaveStep::AwaitingGone, .. } => true,
        Stage::Wave { step: WaveStep::Applying, index } => releases_tasks(operation, index),
        _ => false,
    };
    // During an outage, only a single task calls the cluster, so tasks aren't independent.
    waits
        && operation.header.outage.is_none()
        && operation.header.paused.is_none()
        && operation.wave_expired.is_none()
        && operation.failure.is_none()
}

/// Returns true if the only manifests left in a wave are waiting for dependencies, so an event about a task
/// affects only this task and its dependents.
fn releases_tasks(operation: &Operation, index: u32) -> bool {
    let cursor = &operation.cursor;
    let end = operation.wave(index).map(|wave| TaskId(wave.first.saturating_add(wave.count)));
    cursor.wave == Some(index) && !cursor.unmet.is_empty() && Some(cursor.next) == end
}

/// Returns the subjects of a task, and those of its dependents.
fn with_dependents(operation: &Operation, id: TaskId) -> AffectedSubjects<Subject> {
    let tasks = std::iter::once(id).chain(operation.waiting_for(id));
    let subjects = tasks.flat_map(|id| [Subject::Task(id), Subject::Runner(id, operation.attempt)]);
    AffectedSubjects::Only(subjects.collect())
}

/// Returns true if an event about a task can change the time of the next wake-up. Only a visit of the whole
/// wave determines that time.
fn changes_wake_up(operation: &Operation, id: TaskId, event: &OperationEvent) -> bool {
    let has_deadline = |task: &Task| task.hook.as_ref().is_some_and(|hook| hook.timeout.is_some());
    match event {
        OperationEvent::Applied { .. } | OperationEvent::RunnerStarted { .. } => {
            operation.plan.task(id).is_none_or(has_deadline)
        }
        _ => false,
    }
}

pub(super) fn affected_subjects(operation: &Operation, event: &OperationEvent) -> AffectedSubjects<Subject> {
    if !has_independent_tasks(operation) {
        return AffectedSubjects::All;
    }
    let is_applying = matches!(operation.stage, Stage::Wave { step: WaveStep::Applying, .. });
    match event {
        event if is_applying && event.task().is_some_and(|id| changes_wake_up(operation, id, event)) => {
            AffectedSubjects::All
        }
        OperationEvent::Applied { task, .. }
        | OperationEvent::RunnerStarted { task, .. }
        | OperationEvent::HookCleared { task, .. }
        | OperationEvent::HookNameInUse { task, .. }
        | OperationEvent::HookSuspended { task, .. }
        | OperationEvent::RecreationStarted { task, .. }
            if is_applying =>
        {
            with_dependents(operation, *task)
        }
        OperationEvent::WarningsReceived { .. } if is_applying => AffectedSubjects::none(),
        OperationEvent::HealthChanged { .. }
        | OperationEvent::ReasonChanged { .. }
        | OperationEvent::WatchChanged { .. }
        | OperationEvent::HealthRulesSet { .. } => AffectedSubjects::none(),
        OperationEvent::ObjectDeleted { task }
        | OperationEvent::DeletionStarted { task }
        | OperationEvent::TaskCompleted { task, .. }
        | OperationEvent::TaskFailed { task, .. }
        | OperationEvent::DeletionCompleted { task }
        | OperationEvent::HookFinalizerRemoved { task }
        | OperationEvent::HookStopped { task, .. }
        | OperationEvent::LogsStored { task, .. } => with_dependents(operation, *task),
        _ => AffectedSubjects::All,
    }
}
