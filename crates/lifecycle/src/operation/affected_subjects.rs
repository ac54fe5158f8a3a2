//! Subjects whose outstanding commands an event can change. While a wave is waiting, an event about one task
//! doesn't affect the other tasks. Any other event requires visiting the whole wave.

use std::collections::BTreeSet;

use super::command::Subject;
use super::recorded_event::OperationEvent;
use super::state::{Operation, Stage, WaveStep};
use crate::machine::AffectedSubjects;

/// Returns true if the outstanding commands of each task are independent of all other tasks.
pub(super) fn has_independent_tasks(operation: &Operation) -> bool {
    let waits = matches!(
        operation.stage,
        Stage::Wave { step: WaveStep::AwaitingHealth | WaveStep::Settling { .. }, .. }
    );
    // During an outage, only a single task calls the cluster, so tasks aren't independent.
    waits
        && operation.header.outage.is_none()
        && operation.header.paused.is_none()
        && operation.wave_expired.is_none()
        && operation.failure.is_none()
}

pub(super) fn affected_subjects(operation: &Operation, event: &OperationEvent) -> AffectedSubjects<Subject> {
    if !has_independent_tasks(operation) {
        return AffectedSubjects::All;
    }
    match event {
        OperationEvent::HealthChanged { .. }
        | OperationEvent::ReasonChanged { .. }
        | OperationEvent::WatchChanged { .. }
        | OperationEvent::HealthRulesSet { .. } => AffectedSubjects::none(),
        OperationEvent::TaskCompleted { task, .. }
        | OperationEvent::TaskFailed { task, .. }
        | OperationEvent::DeletionCompleted { task }
        | OperationEvent::HookFinalizerRemoved { task }
        | OperationEvent::HookStopped { task, .. }
        | OperationEvent::LogsStored { task, .. } => AffectedSubjects::Only(BTreeSet::from([
            Subject::Task(*task),
            Subject::Runner(*task, operation.attempt),
        ])),
        _ => AffectedSubjects::All,
    }
}
