//! The subject of a command for one task, and helpers for all effects.

use std::sync::Arc;

use tidegate_cluster::Propagation;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{ApplyResponse, CallError};
use tidegate_model::{
    Cascade, Health, HealthStatus, Object, OperationId, PackedObject, SyncRequest, Task, Timestamp,
};

use crate::health_evaluation;

/// Subject of a command for one task: all inputs of an effect except the cluster.
pub struct Subject<'a> {
    /// Operation that issued the command. Its ID marks hooks, and appears in the cluster's audit log.
    pub operation: OperationId,
    /// The operation's request, whose options also apply to this task.
    pub request: &'a SyncRequest,
    /// Current attempt of the operation.
    pub attempt: u32,
    /// UID of a hook object from an earlier attempt, or from an earlier run in this attempt, so that it isn't
    /// mistaken for this hook.
    pub leftover: Option<&'a str>,
    /// Task in the plan.
    pub task: &'a Task,
    /// Manifest, for commands that write one.
    pub manifest: Option<&'a PackedObject>,
    /// True if the command may have been executed before. Effects then check the cluster first.
    pub is_repeated: bool,
    /// Current time, for observations.
    pub now: Timestamp,
    /// Rules for evaluating observations.
    pub health: &'a HealthRules,
}

pub(super) fn copy_manifest(subject: &Subject<'_>) -> Result<Object, CallError> {
    subject.manifest.map(|packed| Arc::unwrap_or_clone(packed.unpack())).ok_or_else(|| {
        CallError::permanent(format!(
            "the manifest of {} is missing from the operation's stored manifests",
            subject.task.key()
        ))
    })
}

/// Converts a written object to a result for the state machine.
pub(super) async fn applied_result(subject: &Subject<'_>, object: &Object, message: String) -> ApplyResponse {
    let seen = health_evaluation::observe_object(subject.health, object, subject.now).await;
    // A health judge replaces the kind's health rule.
    let observed = match &subject.task.health_judge {
        Some(judge) => {
            let unknown = format!("health judge {judge} has not reported a result yet");
            seen.with_health(Health::new(HealthStatus::Progressing, unknown), false)
        }
        None => seen,
    };
    ApplyResponse {
        uid: object.uid().to_owned(),
        resource_version: object.resource_version().to_owned(),
        generation: object.generation(),
        message,
        observed,
        warnings: Vec::new(),
    }
}

/// Returns the propagation policy for deleting owned objects: the policy requested for the application's
/// deletion, or else `PrunePropagationPolicy`. A deletion that leaves the objects in place deletes only
/// hooks.
pub(super) fn deletion_propagation(request: &SyncRequest) -> Propagation {
    match request.deletion {
        Some(Cascade::Background) => return Propagation::Background,
        Some(Cascade::Foreground | Cascade::Orphan) => return Propagation::Foreground,
        None => {}
    }
    if request.options.has("PrunePropagationPolicy=background") {
        Propagation::Background
    } else if request.options.has("PrunePropagationPolicy=orphan") {
        Propagation::Orphan
    } else {
        Propagation::Foreground
    }
}
