//! Plans of comparisons, which operations with the same inputs execute instead of planning again.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_model::{
    Action, Discovery, LiveObject, Object, ObjectKey, SyncOptions, SyncRequest, Task, Warning,
};

use crate::manifests::Target;
use crate::plan::{PlanInput, PlanResult};
use crate::resources::{FAIL_ON_SHARED, ONLY_OUT_OF_SYNC, OUT_OF_SYNC, SHARED_RESOURCE, write_action};
use crate::role_bindings;
use crate::task_order::MOVED;

/// Plan of a comparison, with the inputs that it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPlan {
    /// Request of the comparison.
    pub request: SyncRequest,
    /// Targets in input order.
    pub targets: Arc<Vec<Target>>,
    /// Live objects.
    pub live: Vec<LiveObject>,
    /// Objects written by earlier operations.
    pub inventory: BTreeSet<ObjectKey>,
    /// Hooks that have already succeeded with their current inputs.
    pub unchanged_hooks: BTreeSet<ObjectKey>,
    /// Destination namespaces that are being deleted.
    pub terminating_namespaces: BTreeSet<String>,
    /// Kinds that the cluster serves.
    pub discovery: Discovery,
    /// The plan, as [`plan`](crate::plan) returned it.
    pub planned: PlanResult,
}

impl ComparedPlan {
    /// Returns exactly the plan that [`plan`](crate::plan) would make from the input. Returns `None` if an
    /// input differs, unless the difference certainly doesn't affect the plan.
    pub fn into_operation_plan(self, input: &PlanInput<'_>) -> Option<PlanResult> {
        // Name every field, so that a new one can't be forgotten here.
        let PlanInput {
            operation: _,
            request,
            started_at: _,
            targets,
            live,
            inventory,
            unchanged_hooks,
            terminating_namespaces,
            discovery,
            is_offline,
        } = input;
        // Generated names contain the revision and the start time of the operation.
        let has_generated_names = targets.iter().any(|target| target.object.name().is_empty());
        let is_same = !is_offline
            && !has_generated_names
            && self.is_for_request(request)
            && *terminating_namespaces == &self.terminating_namespaces
            && *unchanged_hooks == &self.unchanged_hooks
            && *inventory == &self.inventory
            && *discovery == &self.discovery
            && *live == self.live.as_slice()
            && *targets == *self.targets;
        if !is_same {
            return None;
        }
        if request.options.has(ONLY_OUT_OF_SYNC) {
            return Some(self.planned);
        }
        if self.changes_unchanged_role() {
            return None;
        }
        let mut planned = self.planned;
        planned.plan.tasks.iter_mut().for_each(write_always);
        Some(planned)
    }

    /// Returns true if the plans of both requests differ at most in the tasks that `ApplyOutOfSyncOnly`
    /// leaves alone.
    fn is_for_request(&self, request: &SyncRequest) -> bool {
        let compared = &self.request;
        let SyncRequest {
            application,
            namespace,
            destination,
            // Part of generated names only.
            revision: _,
            options,
            selection,
            // Planning doesn't depend on the way the operation runs, nor on its requester: an operation
            // without a selection isn't a self-heal.
            retry: _,
            deadline: _,
            wait: _,
            wave_delay: _,
            initiated_by: _,
            sources: _,
            ignore_differences,
            tracking,
            claim: _,
            deletion,
        } = request;
        (application, namespace, destination)
            == (&compared.application, &compared.namespace, &compared.destination)
            && (ignore_differences, tracking) == (&compared.ignore_differences, &compared.tracking)
            && selection.is_empty()
            && compared.selection.is_empty()
            && deletion.is_none()
            && compared.deletion.is_none()
            && self.is_for_options(options)
    }

    fn is_for_options(&self, options: &SyncOptions) -> bool {
        let compared = &self.request.options;
        let PlanResult { plan, .. } = &self.planned;
        let SyncOptions {
            prune,
            dry_run,
            force,
            skip_hooks,
            skip_dry_run: _,
            flags,
            namespace_labels,
            namespace_annotations,
            prune_confirmed,
            adopt,
        } = options;
        // These two flags and `prune` affect only the tasks and findings that are checked here.
        let is_shared = |warning: &Warning| warning.code == SHARED_RESOURCE;
        let is_prune = |task: &Task| task.action.is_prune();
        compared.has(ONLY_OUT_OF_SYNC)
            && (*prune == compared.prune || !plan.tasks.iter().any(is_prune))
            && (options.has(FAIL_ON_SHARED) == compared.has(FAIL_ON_SHARED)
                || !plan.warnings.iter().any(is_shared))
            && other_flags(flags).eq(other_flags(&compared.flags))
            && (dry_run, force, skip_hooks) == (&compared.dry_run, &compared.force, &compared.skip_hooks)
            && (prune_confirmed, adopt) == (&compared.prune_confirmed, &compared.adopt)
            && (namespace_labels, namespace_annotations)
                == (&compared.namespace_labels, &compared.namespace_annotations)
    }

    /// Returns true if a role binding is in sync although its role differs, because the difference is
    /// ignored. If the manifest is applied anyway, the plan warns about it.
    fn changes_unchanged_role(&self) -> bool {
        let PlanResult { plan, manifests, .. } = &self.planned;
        let bindings = plan
            .tasks
            .iter()
            .filter(|task| task.action == Action::Unchanged && role_bindings::is_role_binding(&task.gvk));
        let mut pairs = bindings.map(|task| {
            let manifest: Option<&Object> = task.manifest.and_then(|id| manifests.get(id.index()));
            (manifest, self.live.iter().rfind(|live| *live.key() == task.key()))
        });
        // Without both objects, nothing is certain.
        pairs.any(|pair| match pair {
            (Some(manifest), Some(live)) => role_bindings::changes_role(manifest, &live.unpack()),
            _ => true,
        })
    }
}

/// Returns all flags except those that comparisons set or omit.
fn other_flags(flags: &[String]) -> impl Iterator<Item = &String> {
    flags.iter().filter(|flag| ![ONLY_OUT_OF_SYNC, FAIL_ON_SHARED].contains(&flag.as_str()))
}

/// Writes the task's manifest even if the object is in sync.
fn write_always(task: &mut Task) {
    let is_decided_by_difference = task.action == Action::Unchanged
        || (task.action == Action::Apply && task.reason.starts_with(OUT_OF_SYNC));
    if task.is_hook() || !is_decided_by_difference {
        return;
    }
    let is_moved = task.reason.ends_with(MOVED);
    (task.action, task.reason) = write_action(task);
    if is_moved {
        task.reason.push_str(MOVED);
    }
}
