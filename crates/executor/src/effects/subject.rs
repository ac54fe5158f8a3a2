//! The subject of a command about one task, and what all effects make of it.

use std::sync::Arc;

use tidegate_cluster::Propagation;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Applied, CallError};
use tidegate_model::{
    Cascade, Health, HealthStatus, Object, OperationId, PackedObject, SyncRequest, Task, Timestamp,
};

use crate::judging;

/// What a command about one task is about, with everything an effect may look at besides the cluster.
pub struct Subject<'a> {
    /// Written into hooks as their mark, and into the cluster's audit.
    pub operation: OperationId,
    /// What was asked of the operation: its options hold for this task too.
    pub request: &'a SyncRequest,
    /// The attempt the command is for.
    pub attempt: u32,
    /// UID of the hook object that an earlier attempt, or an earlier try in this one, has left: it is none of this one.
    pub leftover: Option<&'a str>,
    /// The task of the plan that the command is about.
    pub task: &'a Task,
    /// Its manifest, for commands that write one.
    pub manifest: Option<&'a PackedObject>,
    /// The command may have been carried out before: look first.
    pub again: bool,
    /// The time, for observations.
    pub now: Timestamp,
    /// How what is seen is judged.
    pub health: &'a HealthRules,
}

/// A copy of its manifest.
pub(super) fn manifest(subject: &Subject<'_>) -> Result<Object, CallError> {
    subject.manifest.map(|packed| Arc::unwrap_or_clone(packed.unpack())).ok_or_else(|| {
        CallError::permanent(format!(
            "the manifest of {} is not in the operation's bundle",
            subject.task.key()
        ))
    })
}

/// What a written object tells the machine.
pub(super) async fn written(subject: &Subject<'_>, object: &Object, message: String) -> Applied {
    let seen = judging::observe(subject.health, object, subject.now).await;
    // Where a judge decides, the rule for the kind has no say, and that there is none means nothing.
    let observed = match &subject.task.health_judge {
        Some(judge) => {
            let unknown = format!("health judge {judge} has not answered yet");
            seen.judged(Health::new(HealthStatus::Progressing, unknown), false)
        }
        None => seen,
    };
    Applied {
        uid: object.uid().to_owned(),
        resource_version: object.resource_version().to_owned(),
        generation: object.generation(),
        message,
        observed,
        warnings: Vec::new(),
    }
}

/// What happens to the objects a deleted object owns: as the deletion of the application says (one that leaves its objects
/// deletes nothing but hooks), or else `PrunePropagationPolicy`.
pub(super) fn propagation(request: &SyncRequest) -> Propagation {
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
