//! What a sight of an object means for the task that awaits it.

use tidegate_model::{Health, Observation, Observed, OperationPhase, Task, TaskId, Timestamp};

use crate::operation::fact::Fact;
use crate::operation::judge::{Sight, look, phase_of};
use crate::operation::messages;
use crate::operation::state::{AppliedRef, Operation, Progress, Stage, TaskState};

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
        Progress::Deleting { uid } => Some(if is_gone(uid, &observation.seen) {
            vec![Fact::ObjectGone { task: id }]
        } else {
            Vec::new()
        }),
        Progress::Running => {
            let applied = state.applied.as_ref().filter(|applied| !applied.uid.is_empty())?;
            Some(judge(id, task, state, applied, &observation.seen, now).facts)
        }
        _ => None,
    }
}

/// Whether the object with this UID is not there any more.
fn is_gone(deleting: &str, seen: &Observed) -> bool {
    match seen {
        Observed::Gone { uid } => uid.as_ref().is_none_or(|uid| uid == deleting),
        Observed::Present { uid, .. } => uid != deleting,
    }
}

/// What a sight of an applied object means.
pub(super) struct Judged {
    /// The facts.
    pub facts: Vec<Fact>,
    /// The kind has no health to wait for.
    pub is_without_health: bool,
}

pub(super) fn judge(
    id: TaskId,
    task: &Task,
    state: &TaskState,
    applied: &AppliedRef,
    seen: &Observed,
    now: Timestamp,
) -> Judged {
    let completed = |phase, message: String| Fact::TaskCompleted { task: id, phase, message, at: now };
    let sight = look(applied, seen);
    let is_without_health = sight == Sight::NoHealth;
    let facts = match sight {
        Sight::Stale => Vec::new(),
        Sight::Gone => {
            let message = messages::missing(task);
            vec![Fact::TaskFailed { task: id, phase: OperationPhase::Error, message, at: now }]
        }
        Sight::NoHealth if task.is_hook() => {
            vec![completed(OperationPhase::Succeeded, format!("{} created", task.name))]
        }
        Sight::NoHealth => vec![completed(OperationPhase::Succeeded, String::new())],
        Sight::Health { health, fresh } => {
            // A hook was created by this very operation, so whatever its status says is about our spec.
            let fresh = fresh || task.is_hook();
            match phase_of(task.is_hook(), health.status) {
                Some(phase) if fresh => vec![completed(phase, health.message)],
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
