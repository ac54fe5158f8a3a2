//! Read-only comparison of an application with its manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Action, Object, OperationId, Plan, SyncRequest, Task, TaskId, Timestamp, Warning};
use tidegate_oplog::ApplicationInventory;
use tidegate_planner::{
    ComparedPlan, Comparer, Difference, ONLY_OUT_OF_SYNC, Target, is_ignored_when_extraneous,
};

use super::comparison::{
    ComparisonPurpose, PredictedDifference, compare, index_by_key, mark_for_replacement, needs_dry_run,
};
use super::planning::{PlanDraft, draft_plan};
use super::targets::Targets;

/// Operation ID for comparisons, which don't belong to an operation.
pub const NO_OPERATION: OperationId = OperationId(uuid::Uuid::nil());

/// Comparison status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectStatus {
    /// A sync wouldn't change the object.
    Same,
    /// A sync would change the object.
    Modified,
    /// A sync would create the object.
    Added,
    /// The object belongs to the application but is missing from the manifests.
    Extra,
}

/// Difference between one object and its manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectDifference {
    /// The object, and the action of a sync on it.
    pub task: Task,
    /// Comparison status.
    pub status: ObjectStatus,
    /// True if the difference is ignored: the object has the `IgnoreExtraneous` option, or it was found in
    /// another location and may belong to another application.
    pub ignored: bool,
    /// Live object, if it exists. Never serialized, because its Secret values aren't masked.
    #[serde(skip)]
    pub live: Option<Arc<Object>>,
    /// The difference, with Secret values masked.
    pub difference: Difference,
    /// Server's reason for rejecting the manifest. If set, the difference is only an estimate.
    pub refused: Option<String>,
    /// True if the object must be deleted and recreated. The difference is then an estimate, at best based on
    /// a dry run under another name.
    pub estimate: bool,
}

/// Differences between an application and the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Differences {
    /// Differences of each object, in sync order.
    pub objects: Vec<ObjectDifference>,
    /// Findings of the plan.
    pub findings: Vec<Warning>,
    /// True if every location that may contain the application's objects was searched.
    pub is_complete: bool,
}

/// Compares an application with the cluster in sync order, and returns the plan's findings. Finds extra
/// objects like a sync with pruning, skips hooks, and masks all Secret values in the manifests. Doesn't write
/// to the cluster.
pub async fn diff(
    cluster: &dyn Cluster,
    question: ComparisonPurpose,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    inventory: Option<&ApplicationInventory>,
) -> Result<Differences, CallError> {
    diff_and_plan(cluster, question, request, targets, started_at, inventory).await.map(|(found, _)| found)
}

/// Compares an application with its manifests, like [`diff`], and also returns the plan for an operation that
/// follows.
pub(crate) async fn compare_manifests(
    cluster: &dyn Cluster,
    request: &SyncRequest,
    targets: &Arc<Vec<Target>>,
    started_at: Timestamp,
    inventory: Option<&ApplicationInventory>,
) -> Result<(Differences, ComparedPlan), CallError> {
    let purpose = ComparisonPurpose::Manifests;
    let own = Targets { targets: targets.as_ref().clone(), ..Targets::default() };
    let (found, draft) = diff_and_plan(cluster, purpose, request, own, started_at, inventory).await?;
    let PlanDraft { mut planned, live, findings, unchanged_hooks, terminating_namespaces, discovery, .. } =
        draft;
    planned.plan.warnings = findings;
    let plan = ComparedPlan {
        request: comparison_request(request),
        targets: Arc::clone(targets),
        live,
        inventory: draft.inventory,
        unchanged_hooks,
        terminating_namespaces,
        discovery,
        planned,
    };
    Ok((found, plan))
}

async fn diff_and_plan(
    cluster: &dyn Cluster,
    purpose: ComparisonPurpose,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    inventory: Option<&ApplicationInventory>,
) -> Result<(Differences, PlanDraft), CallError> {
    let mask = targets.mask();
    match compute_differences(cluster, purpose, request, targets, started_at, inventory).await {
        Ok((mut found, draft)) => {
            let Differences { objects, findings, .. } = &mut found;
            objects
                .iter_mut()
                .filter_map(|object| object.refused.as_mut())
                .for_each(|reason| mask.apply(reason));
            objects.iter_mut().for_each(|object| mask.apply(&mut object.task.reason));
            findings.iter_mut().for_each(|finding| mask.apply(&mut finding.message));
            Ok((found, draft))
        }
        Err(mut error) => {
            mask.apply(&mut error.message);
            Err(error)
        }
    }
}

async fn compute_differences(
    cluster: &dyn Cluster,
    question: ComparisonPurpose,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    inventory: Option<&ApplicationInventory>,
) -> Result<(Differences, PlanDraft), CallError> {
    // With `ApplyOutOfSyncOnly`, a sync doesn't replace objects that already match their manifests.
    let shows_replacements = question == ComparisonPurpose::Sync && !request.options.has(ONLY_OUT_OF_SYNC);
    let request = comparison_request(request);
    let mut draft = draft_plan(cluster, NO_OPERATION, &request, targets, started_at, inventory).await?;
    if shows_replacements {
        mark_objects_in_sync_for_replacement(&mut draft.planned.plan);
    }
    let PlanDraft { planned, live, is_complete, .. } = &draft;
    let ask = |task: &Task, option| {
        if task.options.already_deleting {
            return false;
        }
        let is_replacement = task.action == Action::Replace;
        let is_taken_over = task.action == Action::Apply && !task.options.take_over.is_empty();
        (shows_replacements && is_replacement)
            || (is_taken_over && option != Some(false))
            || needs_dry_run(task, option)
    };
    let question = if shows_replacements { ComparisonPurpose::Sync } else { ComparisonPurpose::Manifests };
    let compared = compare(cluster, NO_OPERATION, &request, planned, live, question, ask).await;
    let mut outcomes: BTreeMap<TaskId, Result<PredictedDifference, ClusterError>> =
        compared.into_iter().map(|compared| (compared.task, compared.outcome)).collect();
    let by_key = index_by_key(live);
    let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
    let mut objects = Vec::new();
    for (id, task) in planned.plan.tasks_with_ids().filter(|(_, task)| !task.is_hook()) {
        let manifest = task.manifest.and_then(|manifest| planned.manifests.get(manifest.index()));
        let live = by_key.get(&task.key()).map(|live| live.unpack());
        let judged = build_difference(&comparer, task, manifest, live.as_deref(), outcomes.remove(&id));
        objects.push(ObjectDifference { live, ..judged });
    }
    let findings = planned.plan.warnings.clone();
    Ok((Differences { objects, findings, is_complete: *is_complete }, draft))
}

/// Returns the request of a comparison: its plan marks objects in sync and finds all extra objects.
fn comparison_request(request: &SyncRequest) -> SyncRequest {
    let mut request = request.clone();
    request.options.flags.push(ONLY_OUT_OF_SYNC.to_owned());
    request.options.prune = true;
    request
}

/// Marks objects in sync for replacement. An object with all fields in its manifest may have others, which a
/// replacement removes.
fn mark_objects_in_sync_for_replacement(plan: &mut Plan) {
    let is_replaced = |task: &&mut Task| task.action == Action::Unchanged && task.options.replace;
    plan.tasks.iter_mut().filter(is_replaced).for_each(mark_for_replacement);
}

fn build_difference(
    comparer: &Comparer,
    task: &Task,
    manifest: Option<&Object>,
    live: Option<&Object>,
    outcome: Option<Result<PredictedDifference, ClusterError>>,
) -> ObjectDifference {
    let (mut ignored, mut refused) = (false, None);
    let is_remade = task.action == Action::Replace && task.options.force;
    let is_taken_over = task.action == Action::Apply && !task.options.take_over.is_empty();
    let is_known = matches!(outcome, Some(Ok(PredictedDifference::Exact(_))));
    let knows_taken =
        || live.is_some_and(|live| Comparer::can_tell_taken_over(live, &task.options.take_over));
    let estimate = live.is_some() && (is_remade || (is_taken_over && !is_known && !knows_taken()));
    let (status, difference) = match (manifest, live, outcome) {
        (_, Some(live), None) if task.action.is_prune() => {
            ignored = task.options.found_elsewhere || is_ignored_when_extraneous(live);
            (ObjectStatus::Extra, Difference::one_sided(Some(live), None))
        }
        (
            _,
            Some(_),
            Some(Ok(PredictedDifference::Exact(difference) | PredictedDifference::Estimated(difference))),
        ) => {
            let is_same = difference.changes.is_empty();
            (if is_same { ObjectStatus::Same } else { ObjectStatus::Modified }, difference)
        }
        (Some(manifest), Some(live), outcome) if task.action != Action::Unchanged => {
            refused = outcome.and_then(Result::err).map(|error| error.message);
            (ObjectStatus::Modified, comparer.estimated_difference(manifest, live, &task.options.take_over))
        }
        (manifest, None, _) => (ObjectStatus::Added, Difference::one_sided(None, manifest)),
        (_, Some(_), _) => (ObjectStatus::Same, Difference::default()),
    };
    let mut task = task.clone();
    let mut estimate = estimate;
    if status == ObjectStatus::Modified && task.action == Action::Unchanged && task.options.replace {
        estimate = task.options.force;
        mark_for_replacement(&mut task);
    }
    ObjectDifference { task, status, ignored, live: None, difference, refused, estimate }
}

#[cfg(test)]
mod tests;
