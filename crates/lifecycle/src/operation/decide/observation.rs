//! Interpretation of an observation for the task that is waiting for the observed object.

use tidegate_model::{
    Health, HealthStatus, Observation, ObservedState, OperationPhase, Task, TaskId, Timestamp,
};

use crate::operation::judgment::{Judgment, compare_with_write, hook_phase, is_older_version};
use crate::operation::messages;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::rules::is_crd;
use crate::operation::state::{AppliedRef, Occupant, Operation, Progress, Stage, TaskState, WaveStep};

pub(super) fn decide(
    operation: &Operation,
    id: TaskId,
    observation: &Observation,
    now: Timestamp,
) -> Option<Vec<OperationEvent>> {
    let (task, state) = operation.task(id)?;
    if !matches!(operation.stage, Stage::Wave { .. }) {
        return None;
    }
    match &state.progress {
        Progress::Deleting { uid } => Some(match &observation.seen {
            seen if is_gone(uid, seen) => vec![OperationEvent::DeletionCompleted { task: id }],
            ObservedState::Present { kept_by, .. } => {
                reason_event(id, state, &messages::deletion_blocker(kept_by), now).into_iter().collect()
            }
            ObservedState::Gone { .. } => Vec::new(),
        }),
        Progress::Waiting => {
            let occupant = state.occupant.as_deref()?;
            // After the `Applying` step, the hook no longer waits for its name.
            if !matches!(operation.step_of_task(id), Some(WaveStep::Clearing | WaveStep::Applying)) {
                return None;
            }
            Some(if has_ended(occupant, observation) {
                vec![OperationEvent::HookNameInUse { task: id, by: None }]
            } else {
                Vec::new()
            })
        }
        Progress::Running => {
            let applied = state.applied.as_ref().filter(|applied| !applied.uid.is_empty())?;
            // A read that started before the object was applied may have missed it.
            let is_old =
                matches!(observation.seen, ObservedState::Gone { uid: None }) && observation.at < applied.at;
            if is_old || !is_watched(operation, id, task) {
                return None;
            }
            Some(judge_observation(operation, id, task, state, applied, &observation.seen, now).events)
        }
        _ => None,
    }
}

/// Handles the reason why an awaited object isn't healthy, as derived from its pods. Records only changes.
pub(super) fn handle_reason(
    operation: &Operation,
    id: TaskId,
    reason: &str,
    now: Timestamp,
) -> Option<Vec<OperationEvent>> {
    let (task, state) = operation.task(id)?;
    let awaited = matches!(operation.stage, Stage::Wave { .. })
        && state.progress == Progress::Running
        && is_watched(operation, id, task);
    awaited.then(|| reason_event(id, state, reason, now).into_iter().collect())
}

fn reason_event(task: TaskId, state: &TaskState, reason: &str, at: Timestamp) -> Option<OperationEvent> {
    (state.reason() != reason).then(|| OperationEvent::ReasonChanged { task, reason: reason.to_owned(), at })
}

/// Returns true if the operation needs observations of the task's object.
fn is_watched(operation: &Operation, id: TaskId, task: &Task) -> bool {
    let applying = matches!(operation.stage, Stage::Wave { step: WaveStep::Applying, .. });
    operation.is_judged_by_health(id, task) || (applying && is_crd(task))
}

/// Returns true if an observation shows that the object with this UID no longer exists.
fn is_gone(deleting: &str, seen: &ObservedState) -> bool {
    match seen {
        ObservedState::Gone { uid } => uid.as_ref().is_none_or(|uid| uid == deleting),
        ObservedState::Present { uid, .. } => uid != deleting,
    }
}

/// Returns true if the hook that occupies the name has finished or is being deleted, so the name must be
/// checked again.
fn has_ended(occupant: &Occupant, observation: &Observation) -> bool {
    match &observation.seen {
        ObservedState::Gone { uid: None } => observation.at >= occupant.since,
        ObservedState::Gone { uid: Some(uid) } => *uid == occupant.uid,
        ObservedState::Present { resource_version, .. }
            if is_older_version(resource_version, &occupant.resource_version) =>
        {
            false
        }
        ObservedState::Present { uid, deleting, health, .. } => {
            let runs = health.as_ref().is_some_and(|seen| hook_phase(seen.status) == OperationPhase::Running);
            *uid != occupant.uid || *deleting || !runs
        }
    }
}

/// Result of interpreting an observation of an applied object.
pub(super) struct ObservationOutcome {
    /// Events to record. Empty if nothing has changed.
    pub events: Vec<OperationEvent>,
    /// True if the kind has no health status to wait for.
    pub has_no_health: bool,
}

pub(super) fn judge_observation(
    operation: &Operation,
    id: TaskId,
    task: &Task,
    state: &TaskState,
    applied: &AppliedRef,
    seen: &ObservedState,
    now: Timestamp,
) -> ObservationOutcome {
    let completed =
        |phase, message: String| vec![OperationEvent::TaskCompleted { task: id, phase, message, at: now }];
    let created = || format!("{} created", task.name);
    let decides = operation.is_judged_by_health(id, task);
    let judgement = compare_with_write(applied, seen);
    let has_no_health = judgement == Judgment::NoHealth;
    let events = match judgement {
        _ if !is_watched(operation, id, task) => Vec::new(),
        Judgment::Stale => Vec::new(),
        Judgment::Gone => {
            let message = messages::missing_object_message(task);
            vec![OperationEvent::TaskFailed { task: id, phase: OperationPhase::Error, message, at: now }]
        }
        Judgment::NoHealth if task.is_hook() => completed(OperationPhase::Succeeded, created()),
        Judgment::NoHealth => completed(OperationPhase::Succeeded, String::new()),
        // A failed health rule ends a hook with an error right away, without a second assessment.
        Judgment::Health { health, has_rule_error: true, .. } if task.is_hook() => {
            completed(OperationPhase::Error, messages::unknown_health_message(&health.message))
        }
        Judgment::Health { health, is_fresh, .. } => {
            // This operation created the hook's object, so its status always refers to the operation's
            // manifest.
            let fresh = is_fresh || task.is_hook();
            match operation.task_phase_from_health(id, task, health.status) {
                // Another client has deleted the hook, and only the hook finalizer keeps it around. It will
                // never complete.
                None if task.is_hook() && matches!(seen, ObservedState::Present { deleting: true, .. }) => {
                    let message = messages::missing_object_message(task);
                    vec![OperationEvent::TaskFailed {
                        task: id,
                        phase: OperationPhase::Error,
                        message,
                        at: now,
                    }]
                }
                Some(phase) if decides && fresh && health.status == HealthStatus::Missing => {
                    completed(phase, created())
                }
                // A healthy resource keeps the cluster's message, but a hook gets its own message.
                Some(OperationPhase::Succeeded) if decides && fresh && !task.is_hook() => {
                    completed(OperationPhase::Succeeded, String::new())
                }
                Some(phase) if decides && fresh => completed(phase, health.message),
                _ if is_new_health(state, &health, fresh) => {
                    vec![OperationEvent::HealthChanged { task: id, health, fresh, at: now }]
                }
                _ => Vec::new(),
            }
        }
    };
    ObservationOutcome { events, has_no_health }
}

/// Returns true if the health differs from the recorded health.
fn is_new_health(state: &TaskState, health: &Health, fresh: bool) -> bool {
    state.health.as_ref().is_none_or(|seen| seen.health != *health || seen.fresh != fresh)
}
