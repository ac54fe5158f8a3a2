//! What a command means on a cluster: the calls, and what their answers mean.
//!
//! Free of actors and timers, so the simulator carries commands out through the same code. Every function may run
//! twice for the same command (a crash between doing and recording) and then changes nothing the second time.

mod comparing;
mod definitions;
mod diff;
mod extensions;
mod failures;
mod found;
mod hooks;
mod inventory;
mod kept;
mod logs;
mod mask;
mod namespaces;
mod planning;
mod pruning;
mod resources;
mod rights;
mod subject;
mod trial;
mod unsearched;

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{Answer, TaskCommand};

pub use diff::{Differences, NO_OPERATION, ObjectDifference, ObjectStatus, Question, diff};
pub use extensions::{ExtensionNames, review_health, warn_of_missing_extensions};
pub(crate) use failures::call_error;
pub use inventory::{cluster_of, update as update_inventory};
pub use kept::{InvalidPlan, KeptPlan, PinnedPlan, PlanMoved};
pub(crate) use logs::{LastWords, READ_WITHIN, read as read_logs};
pub use mask::{LineMask, MASK, Mask};
pub(crate) use namespaces::kind as namespace_kind;
pub use namespaces::look_at as look_at_namespaces;
pub use planning::{NotPlanned, Prepared, Targets, plan, prepare};
pub use rights::review as review_rights;
pub(crate) use rights::words as missing_rights_words;
pub use subject::Subject;
pub use unsearched::NOT_SEARCHED;

/// Carries out a command about one task, except [`TaskCommand::RunHook`], which is for a runner and not for a cluster.
pub async fn carry_out(cluster: &dyn Cluster, subject: &Subject<'_>, command: &TaskCommand) -> Answer {
    match command {
        TaskCommand::Check => Answer::Checked(resources::check(cluster, subject).await),
        TaskCommand::Prune { uid } => Answer::Pruned(pruning::prune(cluster, subject, uid).await),
        TaskCommand::ClearHook => Answer::Cleared(hooks::clear(cluster, subject).await),
        TaskCommand::Apply if subject.task.is_hook() => hooks::create(cluster, subject).await,
        TaskCommand::Apply => resources::apply(cluster, subject).await,
        TaskCommand::ReleaseHook { uid } => Answer::Released(hooks::release(cluster, subject, uid).await),
        TaskCommand::DeleteHook { uid } => Answer::Deleted(hooks::delete(cluster, subject, uid).await),
        TaskCommand::StopHook => Answer::Stopped(hooks::stop(cluster, subject).await),
        TaskCommand::ReadLogs => {
            let found = LastWords::default();
            logs::read(cluster, subject, &found).await;
            found.into_answer()
        }
        TaskCommand::RunHook { runner } => {
            Answer::Ran { success: false, message: format!("hook runner {runner} is not a cluster") }
        }
    }
}
