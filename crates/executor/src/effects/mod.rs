//! What a command means on a cluster: the calls, and what their answers mean.
//!
//! Free of actors and timers, so the simulator carries commands out through the same code. Every function may run
//! twice for the same command (a crash between doing and recording) and then changes nothing the second time.

mod comparing;
mod definitions;
mod extensions;
mod hooks;
mod inventory;
mod logs;
mod mask;
mod namespaces;
mod planning;
mod resources;
mod rights;
mod trial;

use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Propagation};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Answer, Applied, CallError, TaskCommand};
use tidegate_model::{
    Health, HealthStatus, Object, OperationId, PackedObject, SyncRequest, Task, Timestamp, format_duration,
};

use crate::judging;

pub use comparing::{ObjectDifference, ObjectStatus, diff};
pub use extensions::{ExtensionNames, warn_of_missing_extensions};
pub use inventory::{cluster_of, update as update_inventory};
pub(crate) use logs::{LastWords, READ_WITHIN, read as read_logs};
pub use mask::{MASK, Mask};
pub(crate) use namespaces::kind as namespace_kind;
pub use namespaces::look_at as look_at_namespaces;
pub use planning::{Prepared, Targets, plan, prepare};
pub use rights::review as review_rights;
pub(crate) use rights::words as missing_rights_words;

/// Everything an effect may look at besides the cluster.
pub struct Errand<'a> {
    /// The operation.
    pub operation: OperationId,
    /// What was asked.
    pub request: &'a SyncRequest,
    /// The attempt the command is for.
    pub attempt: u32,
    /// The task.
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

/// Carries out a command about one task, except [`TaskCommand::RunHook`], which is for a runner and not for a cluster.
pub async fn carry_out(cluster: &dyn Cluster, errand: &Errand<'_>, command: &TaskCommand) -> Answer {
    match command {
        TaskCommand::Check => Answer::Checked(resources::check(cluster, errand).await),
        TaskCommand::Prune { uid } => Answer::Pruned(resources::prune(cluster, errand, uid).await),
        TaskCommand::ClearHook => Answer::Cleared(hooks::clear(cluster, errand).await),
        TaskCommand::Apply if errand.task.is_hook() => hooks::create(cluster, errand).await,
        TaskCommand::Apply => resources::apply(cluster, errand).await,
        TaskCommand::ReleaseHook { uid } => Answer::Released(hooks::release(cluster, errand, uid).await),
        TaskCommand::DeleteHook { uid } => Answer::Deleted(hooks::delete(cluster, errand, uid).await),
        TaskCommand::StopHook => Answer::Stopped(hooks::stop(cluster, errand).await),
        TaskCommand::ReadLogs => {
            let found = LastWords::default();
            logs::read(cluster, errand, &found).await;
            found.into_answer()
        }
        TaskCommand::RunHook { runner } => {
            Answer::Ran { success: false, message: format!("hook runner {runner} is not a cluster") }
        }
    }
}

/// What a failed call means for the machine. A conflict is a race, and races pass.
pub(crate) fn call_error(error: &ClusterError) -> CallError {
    let retry_after = match error.kind {
        ErrorKind::TooManyRequests { retry_after } => retry_after,
        _ => None,
    };
    let transient = error.kind.is_transient() || error.kind == ErrorKind::Conflict;
    let outage = error.kind.is_outage();
    let message = match retry_after {
        Some(wait) => format!("it asks to slow down for {}: {}", format_duration(wait), error.message),
        None => error.message.clone(),
    };
    let few_tries = matches!(error.kind, ErrorKind::Stalled | ErrorKind::Allocated);
    CallError { transient, outage, few_tries, retry_after, message }
}

/// What a written object tells the machine.
pub(crate) async fn written(errand: &Errand<'_>, object: &Object, message: String) -> Applied {
    let seen = judging::observe(errand.health, object, errand.now).await;
    // Where a judge decides, the rule for the kind has no say, and that there is none means nothing.
    let observed = match &errand.task.health_judge {
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

/// What happens to the objects a deleted object owns (`PrunePropagationPolicy`).
pub(crate) fn propagation(request: &SyncRequest) -> Propagation {
    if request.options.has("PrunePropagationPolicy=background") {
        Propagation::Background
    } else if request.options.has("PrunePropagationPolicy=orphan") {
        Propagation::Orphan
    } else {
        Propagation::Foreground
    }
}
