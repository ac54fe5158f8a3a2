//! What a sight of an object means for the task that awaits it.

use tidegate_model::{Health, HealthStatus, Observation, Observed, OperationPhase, Task, TaskId, Timestamp};

use crate::operation::fact::Fact;
use crate::operation::judge::{Judgement, compare, hook_phase, is_older};
use crate::operation::messages;
use crate::operation::rules::is_crd;
use crate::operation::state::{AppliedRef, Occupant, Operation, Progress, Stage, TaskState, WaveStep};

pub(super) fn decide(
    operation: &Operation,
    id: TaskId,
    observation: &Observation,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let (task, state) = operation.task(id)?;
    if !matches!(operation.stage, Stage::Wave { .. }) {
        return None;
    }
    match &state.progress {
        Progress::Deleting { uid } => Some(match &observation.seen {
            seen if is_gone(uid, seen) => vec![Fact::ObjectGone { task: id }],
            Observed::Present { kept_by, .. } => {
                told(id, state, &messages::kept_by(kept_by), now).into_iter().collect()
            }
            Observed::Gone { .. } => Vec::new(),
        }),
        Progress::Waiting => {
            let occupant = state.occupant.as_deref()?;
            // Once its wave is over nobody waits for the place any more.
            if !matches!(operation.step_of(id), Some(WaveStep::Clearing | WaveStep::Applying)) {
                return None;
            }
            Some(if has_ended(occupant, observation) {
                vec![Fact::PlaceTaken { task: id, by: None }]
            } else {
                Vec::new()
            })
        }
        Progress::Running => {
            let applied = state.applied.as_ref().filter(|applied| !applied.uid.is_empty())?;
            // A look that began before the object was made may have found nothing.
            let is_old =
                matches!(observation.seen, Observed::Gone { uid: None }) && observation.at < applied.at;
            if is_old || !is_watched(operation, task) {
                return None;
            }
            Some(judge(operation, id, task, state, applied, &observation.seen, now).facts)
        }
        _ => None,
    }
}

/// What the pods of an awaited object tell. Only news is recorded.
pub(super) fn reason(operation: &Operation, id: TaskId, reason: &str, now: Timestamp) -> Option<Vec<Fact>> {
    let (task, state) = operation.task(id)?;
    let awaited = matches!(operation.stage, Stage::Wave { .. })
        && state.progress == Progress::Running
        && is_watched(operation, task);
    awaited.then(|| told(id, state, reason, now).into_iter().collect())
}

fn told(task: TaskId, state: &TaskState, reason: &str, at: Timestamp) -> Option<Fact> {
    (state.reason() != reason).then(|| Fact::ReasonSeen { task, reason: reason.to_owned(), at })
}

/// Whether a sight of the task's object is of use.
fn is_watched(operation: &Operation, task: &Task) -> bool {
    let applying = matches!(operation.stage, Stage::Wave { step: WaveStep::Applying, .. });
    operation.judges(task) || (applying && is_crd(task))
}

/// Whether the object with this UID is not there any more.
fn is_gone(deleting: &str, seen: &Observed) -> bool {
    match seen {
        Observed::Gone { uid } => uid.as_ref().is_none_or(|uid| uid == deleting),
        Observed::Present { uid, .. } => uid != deleting,
    }
}

/// Whether the hook of another operation runs no more, or is on its way out. The place is then looked at again.
fn has_ended(occupant: &Occupant, observation: &Observation) -> bool {
    match &observation.seen {
        Observed::Gone { uid: None } => observation.at >= occupant.since,
        Observed::Gone { uid: Some(uid) } => *uid == occupant.uid,
        Observed::Present { resource_version, .. }
            if is_older(resource_version, &occupant.resource_version) =>
        {
            false
        }
        Observed::Present { uid, deleting, health, .. } => {
            let runs = health.as_ref().is_some_and(|seen| hook_phase(seen.status) == OperationPhase::Running);
            *uid != occupant.uid || *deleting || !runs
        }
    }
}

/// What a sight of an applied object means.
pub(super) struct Judged {
    /// What is to be recorded of it; empty when it is no news.
    pub facts: Vec<Fact>,
    /// The kind has no health to wait for.
    pub is_without_health: bool,
}

pub(super) fn judge(
    operation: &Operation,
    id: TaskId,
    task: &Task,
    state: &TaskState,
    applied: &AppliedRef,
    seen: &Observed,
    now: Timestamp,
) -> Judged {
    let completed = |phase, message: String| vec![Fact::TaskCompleted { task: id, phase, message, at: now }];
    let created = || format!("{} created", task.name);
    let decides = operation.judges(task);
    let judgement = compare(applied, seen);
    let is_without_health = judgement == Judgement::NoHealth;
    let facts = match judgement {
        _ if !is_watched(operation, task) => Vec::new(),
        Judgement::Stale => Vec::new(),
        Judgement::Gone => {
            let message = messages::missing(task);
            vec![Fact::TaskFailed { task: id, phase: OperationPhase::Error, message, at: now }]
        }
        Judgement::NoHealth if task.is_hook() => completed(OperationPhase::Succeeded, created()),
        Judgement::NoHealth => completed(OperationPhase::Succeeded, String::new()),
        // What cannot be judged once is not asked again: the hook has ended, whatever it does.
        Judgement::Health { health, unjudged: true, .. } if task.is_hook() => {
            completed(OperationPhase::Error, messages::unjudged(&health.message))
        }
        Judgement::Health { health, fresh, .. } => {
            // A hook was created by this very operation, so whatever its status says is about our spec.
            let fresh = fresh || task.is_hook();
            match operation.phase_by(task, health.status) {
                // Somebody deletes it; only our finalizer keeps it. It will never end by itself.
                None if task.is_hook() && matches!(seen, Observed::Present { deleting: true, .. }) => {
                    let message = messages::missing(task);
                    vec![Fact::TaskFailed { task: id, phase: OperationPhase::Error, message, at: now }]
                }
                Some(phase) if decides && fresh && health.status == HealthStatus::Missing => {
                    completed(phase, created())
                }
                // A resource that does well keeps the cluster's words; a hook has its own to say.
                Some(OperationPhase::Succeeded) if decides && fresh && !task.is_hook() => {
                    completed(OperationPhase::Succeeded, String::new())
                }
                Some(phase) if decides && fresh => completed(phase, health.message),
                _ if is_news(state, &health, fresh) => {
                    vec![Fact::HealthSeen { task: id, health, fresh, at: now }]
                }
                _ => Vec::new(),
            }
        }
    };
    Judged { facts, is_without_health }
}

/// Whether this was not known yet.
fn is_news(state: &TaskState, health: &Health, fresh: bool) -> bool {
    state.health.as_ref().is_none_or(|seen| seen.health != *health || seen.fresh != fresh)
}
