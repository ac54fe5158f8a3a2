//! Predicates about an individual task, or about all tasks in a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::{Action, HealthStatus, Phase, Plan, Task};

use crate::operation::state::{Progress, TaskState, are_dependencies_consistent};

const CRD: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// Reason why a task keeps its wave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenReason {
    /// A hook that hasn't finished or still has its finalizer.
    Hook,
    /// A resource that has been applied but isn't healthy yet.
    Resource,
    /// An object that is being pruned.
    Deletion,
}

/// Maximum number of namespaces that an operation watches. Few operations deploy to more.
const WATCHED_NAMESPACES_MAX: usize = 64;

/// Returns the namespaces that a plan writes to, except those that the plan itself prunes.
pub(crate) fn target_namespaces(plan: &Plan) -> Arc<[String]> {
    let writes = plan.tasks.iter().filter(|task| task.action.writes_manifest() && !has_runner(task));
    let named: BTreeSet<&str> =
        writes.map(|task| task.namespace.as_str()).filter(|name| !name.is_empty()).collect();
    let pruned = plan.tasks.iter().filter(|task| task.action == Action::Prune && task.gvk.is_namespace());
    let pruned: BTreeSet<&str> = pruned.map(|task| task.name.as_str()).collect();
    named.difference(&pruned).take(WATCHED_NAMESPACES_MAX).map(|name| (*name).to_owned()).collect()
}

/// Returns true if a task blocks later kind groups.
pub(crate) fn is_blocking(task: &Task, state: &TaskState) -> bool {
    task.action.writes_manifest() && (is_unapplied(state) || needs_establishment(task, state))
}

/// Returns true if a task's manifest must still be written, even if it first waits for an older object of the
/// same name to go away, or if a hook's suspended Job must still be started.
pub(crate) fn is_unapplied(state: &TaskState) -> bool {
    matches!(
        state.progress,
        Progress::Waiting | Progress::Deleting { .. } | Progress::Ready | Progress::Suspended { .. }
    )
}

/// Returns true if the task is a custom resource definition that isn't known to be established yet. Only the
/// next kind group waits for it, so weak evidence will do.
pub(crate) fn needs_establishment(task: &Task, state: &TaskState) -> bool {
    let is_settled = state
        .health
        .as_ref()
        .is_some_and(|seen| matches!(seen.health.status, HealthStatus::Healthy | HealthStatus::Degraded));
    is_crd(task) && state.progress == Progress::Running && !is_settled
}

/// Returns true for a hook executed by a registered runner, and therefore without an object.
pub(crate) fn has_runner(task: &Task) -> bool {
    task.hook.as_ref().is_some_and(|hook| hook.runner.is_some())
}

/// Returns true if the task is a custom resource definition.
pub(crate) fn is_crd(task: &Task) -> bool {
    (task.gvk.group.as_str(), task.gvk.kind.as_str()) == CRD
}

/// Returns true if a plan is consistent: its waves cover the tasks without gaps or overlaps, SyncFail comes
/// last, the objects to prune are known, each hook has a manifest or a runner, and the dependencies can be
/// satisfied.
pub(crate) fn is_consistent(plan: &Plan) -> bool {
    let mut next = 0_u32;
    let mut last = Phase::PreDelete;
    for wave in &plan.waves {
        let Some(end) = next.checked_add(wave.count) else { return false };
        let fits = |task: &Task| {
            task.phase == wave.phase
                && (task.action != Action::Prune || task.live.is_some())
                && (task.action.writes_manifest() || !task.is_hook())
        };
        if wave.first != next || wave.count == 0 || wave.phase < last || !plan.tasks_of(wave).iter().all(fits)
        {
            return false;
        }
        (next, last) = (end, wave.phase);
    }
    usize::try_from(next).is_ok_and(|end| end == plan.tasks.len()) && are_dependencies_consistent(plan)
}

/// Returns true if a hook's name isn't known to be free yet. Always false for a hook with a runner, which has
/// no object.
pub(crate) fn is_clearing(task: &Task, state: &TaskState) -> bool {
    task.is_hook()
        && !has_runner(task)
        && (state.progress == Progress::Waiting || matches!(state.progress, Progress::Deleting { .. }))
}

/// Returns true if the task still needs a dry run, either before the waves or when its wave opens
/// (`at_wave`). A hook with a runner is never sent to the server.
pub(crate) fn needs_check(task: &Task, state: &TaskState, at_wave: bool) -> bool {
    task.action.writes_manifest()
        && state.progress != Progress::Done
        && !has_runner(task)
        && task.options.dry_run_at_wave == at_wave
        && !task.options.checked
        && !state.checked
        && !state.is_unsuccessful()
}
