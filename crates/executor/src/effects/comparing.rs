//! Asking the server what it would change.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{
    Action, LiveObject, Object, ObjectKey, OperationId, SyncRequest, Task, TaskId, Timestamp, Warning,
};
use tidegate_oplog::Known;
use tidegate_planner::{Comparer, Difference, Planned, is_ignored_when_extraneous, server_side_diff};

use super::planning::{Drawn, Targets, draw};
use super::{Errand, resources};

/// A comparison belongs to no operation.
const NO_OPERATION: OperationId = OperationId(uuid::Uuid::nil());
/// Dry runs under way at once; the cluster has a limit of its own below that.
const AT_ONCE: usize = 64;

/// What became of comparing one task of a plan with the cluster: how the object differs from what the server would make
/// of it, or why the server refuses the manifest.
pub(super) struct Compared {
    task: TaskId,
    outcome: Result<Difference, ClusterError>,
}

/// Whether only the server can tell if an object is in sync: the local comparison found a difference, which may be due
/// to what only the server knows. The object's compare options may forbid the question, or ask for it anyway.
pub(super) fn is_in_doubt(task: &Task, option: Option<bool>) -> bool {
    // What goes is made anew, however alike it is.
    if task.options.already_deleting {
        return false;
    }
    match task.action {
        // Deleting and creating again cannot be tried.
        Action::Replace => option != Some(false) && !task.options.force,
        // A dry run leaves fields alone that would go once they are taken over.
        Action::Apply => option != Some(false) && task.options.take_over.is_none(),
        Action::Unchanged => option == Some(true),
        Action::Create | Action::Prune | Action::PruneSkipped => false,
    }
}

/// Asks the server about the objects for which `ask` says so, among those that are in the cluster and have a manifest
/// which can be judged now. `live` are the objects the plan was made with.
pub(super) async fn compare(
    cluster: &dyn Cluster,
    (operation, request): (OperationId, &SyncRequest),
    planned: &Planned,
    live: &[LiveObject],
    ask: impl Fn(&Task, Option<bool>) -> bool,
) -> Vec<Compared> {
    let by_key = by_key(live);
    let mut waiting = planned.plan.enumerate().filter_map(|(id, task)| {
        let manifest = planned.manifests.get(task.manifest?.index())?;
        let live = by_key.get(&task.key())?;
        let judged_now = task.live.is_some() && !task.is_hook() && !task.options.dry_run_at_wave;
        let live = judged_now.then(|| live.unpack())?;
        let asked = ask(task, server_side_diff(manifest, &live));
        asked.then_some(Question { id, task, manifest, live })
    });
    // A dry run observes nothing, so any rules will do.
    let health = HealthRules::built_in();
    let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
    let (comparer, health) = (&comparer, &health);
    let mut under_way = FuturesOrdered::new();
    let mut answers = Vec::new();
    loop {
        // Judged at once: of the objects themselves only those of the questions under way are held.
        under_way.extend(waiting.by_ref().take(AT_ONCE.saturating_sub(under_way.len())).map(|question| {
            let asking = async move {
                let errand = question.errand(operation, request, health);
                let answer = resources::predict(cluster, &errand, question.manifest).await;
                let outcome = answer.map(|predicted| question.judge(comparer, &predicted));
                Compared { task: question.id, outcome }
            };
            asking.boxed()
        }));
        let Some(answer) = under_way.next().await else { break };
        answers.push(answer);
    }
    answers
}

fn by_key(live: &[LiveObject]) -> BTreeMap<&ObjectKey, &LiveObject> {
    live.iter().map(|object| (object.key(), object)).collect()
}

/// One object to ask the server about.
struct Question<'q> {
    id: TaskId,
    task: &'q Task,
    manifest: &'q Object,
    live: Arc<Object>,
}

impl<'q> Question<'q> {
    fn errand(
        &self,
        operation: OperationId,
        request: &'q SyncRequest,
        health: &'q HealthRules,
    ) -> Errand<'q> {
        Errand {
            operation,
            request,
            attempt: 1,
            task: self.task,
            // It is at hand unpacked.
            manifest: None,
            again: false,
            now: Timestamp::from_millis(0),
            health,
        }
    }

    fn judge(&self, comparer: &Comparer, predicted: &Object) -> Difference {
        // Only a server-side apply tells whose a field is.
        let filtered = self.task.options.server_side && self.task.action != Action::Replace;
        let taken = self.task.options.take_over.as_deref().filter(|_| filtered);
        comparer.predicted(self.manifest, &self.live, predicted, (filtered, taken))
    }
}

/// Takes the answers into the plan of an operation that applies only what is out of sync. What the server refuses is
/// left to the dry run of the operation, which says so.
pub(super) fn take_in(planned: &mut Planned, compared: Vec<Compared>, checked: bool) {
    for Compared { task, outcome } in compared {
        let (Some(task), Ok(difference)) = (planned.plan.tasks.get_mut(task.index()), outcome) else {
            continue;
        };
        match difference.changes.first() {
            None => {
                task.action = Action::Unchanged;
                "in sync".clone_into(&mut task.reason);
            }
            Some(first) => {
                if task.action == Action::Unchanged {
                    task.action = Action::Apply;
                }
                if task.action == Action::Apply {
                    task.reason =
                        format!("out of sync at {}; manifest is applied", first.path.escape_debug());
                }
                task.options.checked = checked;
            }
        }
    }
}

/// How an object stands to the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectStatus {
    /// In sync.
    Same,
    /// A sync would change it.
    Modified,
    /// A sync would create it.
    Added,
    /// It is the application's, and no longer in the manifests.
    Extra,
}

/// How one object differs from what the manifests make of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectDifference {
    /// The object.
    pub task: Task,
    /// How it stands.
    pub status: ObjectStatus,
    /// It asks not to count (`IgnoreExtraneous`), or it was found elsewhere and may be another's.
    pub ignored: bool,
    /// The object as it is, where it is there; values of Secrets are not masked.
    pub live: Option<Arc<Object>>,
    /// What differs; values of Secrets are masked.
    pub difference: Difference,
    /// Why the server refuses the manifest. The difference is then an estimate.
    pub refused: Option<String>,
    /// It is to be deleted and created again, which cannot be tried: the difference is an estimate.
    pub estimate: bool,
}

/// Compares an application with the cluster, in the order in which it would be synced, and gives the plan's findings.
/// What is no longer wanted is looked for as by a sync that prunes. Hooks are not
/// compared. Writes nothing, and shows no value of a Secret among the manifests.
pub async fn diff(
    cluster: &dyn Cluster,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), CallError> {
    let mask = targets.mask();
    match differences(cluster, request, targets, started_at, known).await {
        Ok((mut objects, mut findings)) => {
            objects.iter_mut().filter_map(|object| object.refused.as_mut()).for_each(|why| mask.hide(why));
            objects.iter_mut().for_each(|object| mask.hide(&mut object.task.reason));
            findings.iter_mut().for_each(|finding| mask.hide(&mut finding.message));
            Ok((objects, findings))
        }
        Err(mut error) => {
            mask.hide(&mut error.message);
            Err(error)
        }
    }
}

async fn differences(
    cluster: &dyn Cluster,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), CallError> {
    let mut request = request.clone();
    // So that the plan says what is in sync and finds all that is no longer wanted; and nothing of it is carried out.
    request.options.flags.push("ApplyOutOfSyncOnly=true".to_owned());
    request.options.prune = true;
    let asked = (NO_OPERATION, &request);
    let Drawn { planned, live, .. } = draw(cluster, asked, targets, started_at, known).await?;
    let compared = compare(cluster, asked, &planned, &live, is_in_doubt).await;
    let mut outcomes: BTreeMap<TaskId, Result<Difference, ClusterError>> =
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
    Ok((objects, planned.plan.warnings))
}

fn judge(
    comparer: &Comparer,
    task: &Task,
    (manifest, live): (Option<&Object>, Option<&Object>),
    outcome: Option<Result<Difference, ClusterError>>,
) -> ObjectDifference {
    let (mut ignored, mut refused, mut estimate) = (false, None, false);
    let (status, difference) = match (manifest, live, outcome) {
        (_, Some(live), None) if task.action.is_prune() => {
            ignored = task.options.found_elsewhere || is_ignored_when_extraneous(live);
            (ObjectStatus::Extra, Difference::of_one(Some(live), None))
        }
        (_, Some(_), Some(Ok(difference))) => {
            let is_same = difference.changes.is_empty();
            (if is_same { ObjectStatus::Same } else { ObjectStatus::Modified }, difference)
        }
        (Some(manifest), Some(live), outcome) if task.action != Action::Unchanged => {
            refused = outcome.and_then(Result::err).map(|error| error.message);
            estimate = task.action == Action::Replace && task.options.force;
            (ObjectStatus::Modified, comparer.estimated(manifest, live, task.options.take_over.as_deref()))
        }
        (manifest, None, _) => (ObjectStatus::Added, Difference::of_one(None, manifest)),
        (_, Some(_), _) => (ObjectStatus::Same, Difference::default()),
    };
    ObjectDifference { task: task.clone(), status, ignored, live: None, difference, refused, estimate }
}
