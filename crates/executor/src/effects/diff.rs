//! How an application differs from its manifests, for whoever only looks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Action, Object, OperationId, Plan, SyncRequest, Task, TaskId, Timestamp, Warning};
use tidegate_oplog::Known;
use tidegate_planner::{Comparer, Difference, is_ignored_when_extraneous};

use super::comparing::{Judged, by_key, compare, is_in_doubt, replace_again};
use super::planning::{Drawn, Targets, draw};

/// A comparison belongs to no operation.
pub const NO_OPERATION: OperationId = OperationId(uuid::Uuid::nil());

/// How an object stands to the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectStatus {
    /// A sync would change nothing of it.
    Same,
    /// A sync would change it.
    Modified,
    /// A sync would create it.
    Added,
    /// It is the application's, and no longer in the manifests.
    Extra,
}

/// How one object differs from what the manifests make of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectDifference {
    /// What a sync would do about the object, and which one it is.
    pub task: Task,
    /// Whether it is there, and whether it is as the manifests have it.
    pub status: ObjectStatus,
    /// It asks not to count (`IgnoreExtraneous`), or it was found elsewhere and may be another's.
    pub ignored: bool,
    /// The object as it is, where it is there; values of Secrets are not masked, and it does not travel.
    #[serde(skip)]
    pub live: Option<Arc<Object>>,
    /// What differs; values of Secrets are masked.
    pub difference: Difference,
    /// Why the server refuses the manifest. The difference is then an estimate.
    pub refused: Option<String>,
    /// It is to be deleted and created again: the difference is an estimate, at best by a trial under another name.
    pub estimate: bool,
}

/// What is asked of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What a sync would change. Objects that are replaced as a whole (`Replace=true`) lose what others wrote to them.
    Sync,
    /// Whether the cluster has what the manifests ask for, whatever others wrote besides.
    Manifests,
}

/// How an application differs from the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Differences {
    /// Object by object, in the order in which they would be synced.
    pub objects: Vec<ObjectDifference>,
    /// The findings of the plan.
    pub findings: Vec<Warning>,
    /// All that may hold something of the application was looked through, and not only what may be.
    pub is_whole: bool,
}

/// Compares an application with the cluster, in the order in which it would be synced, and gives the plan's findings.
/// What is no longer wanted is looked for as by a sync that prunes. Hooks are not
/// compared. Writes nothing, and shows no value of a Secret among the manifests.
pub async fn diff(
    cluster: &dyn Cluster,
    (question, request): (Question, &SyncRequest),
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<Differences, CallError> {
    let mask = targets.mask();
    match differences(cluster, (question, request), targets, started_at, known).await {
        Ok(mut found) => {
            let Differences { objects, findings, .. } = &mut found;
            objects.iter_mut().filter_map(|object| object.refused.as_mut()).for_each(|why| mask.hide(why));
            objects.iter_mut().for_each(|object| mask.hide(&mut object.task.reason));
            findings.iter_mut().for_each(|finding| mask.hide(&mut finding.message));
            Ok(found)
        }
        Err(mut error) => {
            mask.hide(&mut error.message);
            Err(error)
        }
    }
}

async fn differences(
    cluster: &dyn Cluster,
    (question, request): (Question, &SyncRequest),
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<Differences, CallError> {
    // A sync of what is out of sync goes by the manifests as well.
    let shows_replacements = question == Question::Sync && !request.options.has("ApplyOutOfSyncOnly=true");
    let mut request = request.clone();
    // So that the plan says what is in sync and finds all that is no longer wanted; and nothing of it is carried out.
    request.options.flags.push("ApplyOutOfSyncOnly=true".to_owned());
    request.options.prune = true;
    let asked = (NO_OPERATION, &request);
    let Drawn { mut planned, live, is_whole, .. } = draw(cluster, asked, targets, started_at, known).await?;
    if shows_replacements {
        replace_what_is_in_sync(&mut planned.plan);
    }
    let ask = |task: &Task, option| {
        if task.options.already_deleting {
            return false;
        }
        let is_replacement = task.action == Action::Replace;
        let is_taken_over = task.action == Action::Apply && task.options.take_over.is_some();
        (shows_replacements && is_replacement)
            || (is_taken_over && option != Some(false))
            || is_in_doubt(task, option)
    };
    let question = if shows_replacements { Question::Sync } else { Question::Manifests };
    let compared = compare(cluster, asked, &planned, &live, (question, ask)).await;
    let mut outcomes: BTreeMap<TaskId, Result<Judged, ClusterError>> =
        compared.into_iter().map(|compared| (compared.task, compared.outcome)).collect();
    let by_key = by_key(&live);
    let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
    let mut objects = Vec::new();
    for (id, task) in planned.plan.enumerate().filter(|(_, task)| !task.is_hook()) {
        let manifest = task.manifest.and_then(|manifest| planned.manifests.get(manifest.index()));
        let live = by_key.get(&task.key()).map(|live| live.unpack());
        let pair = (manifest, live.as_deref());
        let judged = judge(&comparer, task, pair, outcomes.remove(&id));
        objects.push(ObjectDifference { live, ..judged });
    }
    Ok(Differences { objects, findings: planned.plan.warnings, is_whole })
}

/// That an object has all that its manifest gives says nothing about what else a replacement would take from it.
fn replace_what_is_in_sync(plan: &mut Plan) {
    let is_replaced = |task: &&mut Task| task.action == Action::Unchanged && task.options.replace;
    plan.tasks.iter_mut().filter(is_replaced).for_each(replace_again);
}

fn judge(
    comparer: &Comparer,
    task: &Task,
    (manifest, live): (Option<&Object>, Option<&Object>),
    outcome: Option<Result<Judged, ClusterError>>,
) -> ObjectDifference {
    let (mut ignored, mut refused) = (false, None);
    let is_remade = task.action == Action::Replace && task.options.force;
    let is_taken_over = task.action == Action::Apply && task.options.take_over.is_some();
    let is_known = matches!(outcome, Some(Ok(Judged::Known(_))));
    let estimate = live.is_some() && (is_remade || (is_taken_over && !is_known));
    let (status, difference) = match (manifest, live, outcome) {
        (_, Some(live), None) if task.action.is_prune() => {
            ignored = task.options.found_elsewhere || is_ignored_when_extraneous(live);
            (ObjectStatus::Extra, Difference::of_one(Some(live), None))
        }
        (_, Some(_), Some(Ok(Judged::Known(difference) | Judged::Estimated(difference)))) => {
            let is_same = difference.changes.is_empty();
            (if is_same { ObjectStatus::Same } else { ObjectStatus::Modified }, difference)
        }
        (Some(manifest), Some(live), outcome) if task.action != Action::Unchanged => {
            refused = outcome.and_then(Result::err).map(|error| error.message);
            (ObjectStatus::Modified, comparer.estimated(manifest, live, task.options.take_over.as_deref()))
        }
        (manifest, None, _) => (ObjectStatus::Added, Difference::of_one(None, manifest)),
        (_, Some(_), _) => (ObjectStatus::Same, Difference::default()),
    };
    let mut task = task.clone();
    let mut estimate = estimate;
    if status == ObjectStatus::Modified && task.action == Action::Unchanged && task.options.replace {
        estimate = task.options.force;
        replace_again(&mut task);
    }
    ObjectDifference { task, status, ignored, live: None, difference, refused, estimate }
}

#[cfg(test)]
mod tests;
