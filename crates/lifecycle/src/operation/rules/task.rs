//! Questions about one task, or about the tasks of a plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::{Action, HealthStatus, Phase, Plan, Task};

use crate::operation::state::{Progress, TaskState};

const CRD: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// As what a task keeps its wave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// A hook that has not ended, or still carries the finalizer.
    Hook,
    /// A resource at work that is judged by its health.
    Resource,
    /// An object that is being pruned.
    Leaving,
}

/// How many namespaces of one operation are watched; few deploy to more.
const NAMESPACES_MAX: usize = 64;

/// The namespaces that a plan writes into. One that it prunes itself is not lost when it goes.
pub(crate) fn namespaces_of(plan: &Plan) -> Arc<[String]> {
    let writes = plan.tasks.iter().filter(|task| task.action.writes() && !has_runner(task));
    let named: BTreeSet<&str> =
        writes.map(|task| task.namespace.as_str()).filter(|name| !name.is_empty()).collect();
    let pruned = plan.tasks.iter().filter(|task| task.action == Action::Prune && task.gvk.is_namespace());
    let pruned: BTreeSet<&str> = pruned.map(|task| task.name.as_str()).collect();
    named.difference(&pruned).take(NAMESPACES_MAX).map(|name| (*name).to_owned()).collect()
}

/// Whether a task holds up the kind groups after its own.
pub(crate) fn holds_up(task: &Task, state: &TaskState) -> bool {
    task.action.writes() && (unapplied(state) || awaits_establishment(task, state))
}

/// Whether a manifest still has to be written. What is being deleted is in the way of a hook.
pub(crate) fn unapplied(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Waiting | Progress::Deleting { .. } | Progress::Ready)
}

/// Whether the task is a custom resource definition whose kind is not served yet, as far as we know. Only the next
/// kind group waits for that, so even weak evidence ends it.
pub(crate) fn awaits_establishment(task: &Task, state: &TaskState) -> bool {
    let is_settled = state
        .health
        .as_ref()
        .is_some_and(|seen| matches!(seen.health.status, HealthStatus::Healthy | HealthStatus::Degraded));
    is_crd(task) && state.progress == Progress::Running && !is_settled
}

/// Whether the task is a hook without an object: a registered runner carries it out.
pub(crate) fn has_runner(task: &Task) -> bool {
    task.hook.as_ref().is_some_and(|hook| hook.runner.is_some())
}

/// Whether the task is a custom resource definition.
pub(crate) fn is_crd(task: &Task) -> bool {
    (task.gvk.group.as_str(), task.gvk.kind.as_str()) == CRD
}

/// Whether the machine can rely on a plan: its waves cover the tasks without gaps or overlaps, SyncFail comes last, what
/// is pruned is known, and hooks have something to run.
pub(crate) fn is_sound(plan: &Plan) -> bool {
    let mut next = 0_u32;
    let mut last = Phase::PreDelete;
    for wave in &plan.waves {
        let Some(end) = next.checked_add(wave.count) else { return false };
        let fits = |task: &Task| {
            task.phase == wave.phase
                && (task.action != Action::Prune || task.live.is_some())
                && (task.action.writes() || !task.is_hook())
        };
        if wave.first != next || wave.count == 0 || wave.phase < last || !plan.tasks_of(wave).iter().all(fits)
        {
            return false;
        }
        (next, last) = (end, wave.phase);
    }
    usize::try_from(next).is_ok_and(|end| end == plan.tasks.len())
}

/// Whether the place of a hook is still being cleared. A hook with a runner has no object.
pub(crate) fn is_clearing(task: &Task, state: &TaskState) -> bool {
    task.is_hook()
        && !has_runner(task)
        && (state.progress == Progress::Waiting || matches!(state.progress, Progress::Deleting { .. }))
}

/// Whether the task still needs the given kind of dry run. What a runner carries out never reaches the server.
pub(crate) fn needs_check(task: &Task, state: &TaskState, at_wave: bool) -> bool {
    task.action.writes()
        && state.progress != Progress::Done
        && !has_runner(task)
        && task.options.dry_run_at_wave == at_wave
        && !task.options.checked
        && !state.checked
        && !state.is_unsuccessful()
}
