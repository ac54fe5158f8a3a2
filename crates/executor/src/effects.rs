//! Effects of commands on a cluster: the calls, and the interpretation of their results.
//!
//! This module is independent of actors and timers, so the simulator executes commands with the same code.
//! All functions are idempotent: if the process crashes before it records the result, the command runs again.

mod call_errors;
mod comparison;
mod crd_checks;
mod diff;
mod extensions;
mod hook_diagnostics;
mod hooks;
mod inventory;
mod live_object;
mod mask;
mod namespaces;
mod pinned_plan;
mod planning;
mod predicted_rejections;
mod pruning;
mod recreation_dry_run;
mod rejections;
mod resources;
mod rights;
mod stored_plan;
mod subject;
mod targets;
mod unsearched_kinds;

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{Answer, TaskCommand};

pub(crate) use call_errors::call_error;
pub use comparison::ComparisonPurpose;
pub(crate) use diff::compare_manifests;
pub use diff::{Differences, NO_OPERATION, ObjectDifference, ObjectStatus, diff};
pub use extensions::{ExtensionNames, warn_of_invalid_health_annotations, warn_of_missing_extensions};
pub(crate) use hook_diagnostics::{DIAGNOSTICS_TIMEOUT, HookDiagnostics, read_diagnostics as read_logs};
pub use inventory::{cluster_identity, update_inventory};
pub use mask::{LineMask, MASK, Mask};
pub(crate) use namespaces::kind as namespace_kind;
pub use namespaces::observe_namespaces as look_at_namespaces;
pub use pinned_plan::{OutdatedPlan, PinnedPlan};
pub use planning::{PlanError, PreparedPlan, plan, prepare};
pub use rights::add_missing_rights as review_rights;
pub(crate) use rights::format_rights as missing_rights_words;
pub use stored_plan::{InvalidPlan, StoredPlan};
pub use subject::Subject;
pub use targets::Targets;
pub use unsearched_kinds::NOT_SEARCHED;

/// Executes a task command, except [`TaskCommand::RunHook`], which is for a hook runner rather than a
/// cluster.
pub async fn execute(cluster: &dyn Cluster, subject: &Subject<'_>, command: &TaskCommand) -> Answer {
    match command {
        TaskCommand::Check => Answer::Checked(resources::validate(cluster, subject).await),
        TaskCommand::Prune { uid } => Answer::Pruned(pruning::prune(cluster, subject, uid).await),
        TaskCommand::ClearHook => Answer::Cleared(hooks::clear(cluster, subject).await),
        TaskCommand::Apply if subject.task.is_hook() => hooks::create(cluster, subject).await,
        TaskCommand::Apply => resources::apply(cluster, subject).await,
        TaskCommand::StartHook { uid } => Answer::Started(hooks::start(cluster, subject, uid).await),
        TaskCommand::ReleaseHook { uid } => Answer::Released(hooks::release(cluster, subject, uid).await),
        TaskCommand::DeleteHook { uid } => Answer::Deleted(hooks::delete(cluster, subject, uid).await),
        TaskCommand::StopHook => Answer::Stopped(hooks::stop(cluster, subject).await),
        TaskCommand::ReadLogs => {
            let found = HookDiagnostics::default();
            hook_diagnostics::read_diagnostics(cluster, subject, &found).await;
            found.into_answer()
        }
        TaskCommand::RunHook { runner } => Answer::Ran {
            success: false,
            message: format!(
                "internal error: the cluster was asked to execute hook runner {runner}; please report this"
            ),
        },
    }
}
