//! Comparison of planned objects with the cluster, using server-side dry runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_health::HealthRules;
use tidegate_model::{
    Action, LiveObject, Object, ObjectKey, OperationId, SyncRequest, Task, TaskId, Timestamp,
};
use tidegate_planner::{Comparer, Difference, PlanResult, TakenOverFields, server_side_diff};

use super::resources::{self, is_replaced};
use super::subject::Subject;

/// Maximum number of concurrent dry runs. The cluster connection has its own, lower limit.
const CONCURRENT_DRY_RUNS_MAX: usize = 64;

/// Purpose of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonPurpose {
    /// Finds the changes that a sync would make. Objects that are replaced as a whole (`Replace=true`) lose
    /// the fields of other managers.
    Sync,
    /// Checks that the cluster has all fields in the manifests. Other fields are ignored.
    Manifests,
}

/// Result of comparing one task in a plan with the cluster. Contains the difference between the object and
/// the server's prediction, or the server's rejection of the manifest.
pub(super) struct ComparisonResult {
    pub task: TaskId,
    pub outcome: Result<PredictedDifference, ClusterError>,
}

/// Difference between an object and the server's prediction.
pub(super) enum PredictedDifference {
    Exact(Difference),
    /// An estimate based on the server's response.
    Estimated(Difference),
    /// The server accepts the manifest but doesn't report a result.
    Unknown,
}

/// Returns true if only the server can decide whether an object is in sync: the local comparison found a
/// difference that server-side behavior may explain. The object's compare options can forbid or force the dry
/// run.
pub(super) fn needs_dry_run(task: &Task, option: Option<bool>) -> bool {
    // An object being deleted is always created again, so don't compare it.
    if task.options.already_deleting {
        return false;
    }
    match task.action {
        Action::Replace => option != Some(false),
        // If fields are taken over, skip the dry run: it would preserve fields that the apply removes.
        Action::Apply => option != Some(false) && task.options.take_over.is_empty(),
        Action::Unchanged => option == Some(true),
        Action::Create | Action::Prune | Action::PruneSkipped => false,
    }
}

/// Compares objects through dry runs: those that `ask` selects, that exist in the cluster, and that have a
/// manifest that can be evaluated now. `live` holds the objects that the plan is based on.
pub(super) async fn compare(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    planned: &PlanResult,
    live: &[LiveObject],
    question: ComparisonPurpose,
    ask: impl Fn(&Task, Option<bool>) -> bool,
) -> Vec<ComparisonResult> {
    let by_key = index_by_key(live);
    let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
    let comparer = &comparer;
    let mut waiting = planned.plan.tasks_with_ids().filter_map(|(id, task)| {
        let manifest = planned.manifests.get(task.manifest?.index())?;
        let live = by_key.get(&task.key())?;
        let judged_now = task.live.is_some() && !task.is_hook() && !task.options.dry_run_at_wave;
        let live = judged_now.then(|| live.unpack())?;
        let option = server_side_diff(manifest, &live);
        // An unchanged object has all fields in its manifest, but may have others from an earlier manifest.
        let may_lose = || {
            is_replaced(task) && option != Some(false) && comparer.needs_server_prediction(manifest, &live)
        };
        let asked = ask(task, option) || (task.action == Action::Unchanged && may_lose());
        asked.then_some(Candidate { id, task, manifest, live })
    });
    // A dry run doesn't evaluate health, so any rules will do.
    let health = HealthRules::built_in();
    let health = &health;
    let mut under_way = FuturesOrdered::new();
    let mut answers = Vec::new();
    loop {
        // Create the futures lazily, so that an object is unpacked in memory only during its dry run.
        under_way.extend(waiting.by_ref().take(CONCURRENT_DRY_RUNS_MAX.saturating_sub(under_way.len())).map(
            |candidate| {
                let asking = async move {
                    let subject = candidate.subject(operation, request, health);
                    let outcome = candidate.compare(cluster, comparer, question, &subject).await;
                    ComparisonResult { task: candidate.id, outcome }
                };
                asking.boxed()
            },
        ));
        let Some(answer) = under_way.next().await else { break };
        answers.push(answer);
    }
    answers
}

pub(super) fn index_by_key(live: &[LiveObject]) -> BTreeMap<&ObjectKey, &LiveObject> {
    live.iter().map(|object| (object.key(), object)).collect()
}

/// An object to compare through a dry run.
struct Candidate<'q> {
    id: TaskId,
    task: &'q Task,
    manifest: &'q Object,
    live: Arc<Object>,
}

impl<'q> Candidate<'q> {
    fn subject(
        &self,
        operation: OperationId,
        request: &'q SyncRequest,
        health: &'q HealthRules,
    ) -> Subject<'q> {
        Subject {
            operation,
            request,
            attempt: 1,
            leftover: None,
            task: self.task,
            // The dry run uses the candidate's unpacked manifest instead.
            manifest: None,
            is_repeated: false,
            now: Timestamp::from_millis(0),
            health,
        }
    }

    async fn compare(
        &self,
        cluster: &dyn Cluster,
        comparer: &Comparer,
        question: ComparisonPurpose,
        subject: &Subject<'_>,
    ) -> Result<PredictedDifference, ClusterError> {
        if question == ComparisonPurpose::Manifests && is_replaced(self.task) {
            return self.compare_replacement(cluster, comparer, subject).await;
        }
        let predicted = resources::predict(cluster, subject, self.manifest).await?;
        let Some(resources::Prediction { object: predicted, is_client_side }) = predicted else {
            return Ok(PredictedDifference::Unknown);
        };
        // Field owners are known only for server-side apply.
        let filtered =
            self.task.options.server_side && self.task.action != Action::Replace && !is_client_side;
        let judge =
            |taken| comparer.predicted_difference(self.manifest, &self.live, &predicted, filtered, taken);
        let managers = &self.task.options.take_over[..];
        if managers.is_empty() || !filtered {
            return Ok(PredictedDifference::Exact(judge(None)));
        }
        let creation = resources::predict_creation(cluster, subject, self.manifest).await;
        let difference =
            judge(Some(TakenOverFields { managers, prediction_without_live: creation.as_ref() }));
        let is_known = creation.is_some() || Comparer::can_tell_taken_over(&self.live, managers);
        Ok(if is_known {
            PredictedDifference::Exact(difference)
        } else {
            PredictedDifference::Estimated(difference)
        })
    }

    /// Compares an object that must be recreated, as if it were new. The operation's own dry run later
    /// determines whether it can replace the existing object.
    async fn compare_replacement(
        &self,
        cluster: &dyn Cluster,
        comparer: &Comparer,
        subject: &Subject<'_>,
    ) -> Result<PredictedDifference, ClusterError> {
        let judge =
            |predicted: &Object| comparer.replacement_difference(self.manifest, &self.live, predicted);
        if self.task.options.force {
            let creation = resources::predict_creation(cluster, subject, self.manifest).await;
            return Ok(creation.map_or(PredictedDifference::Unknown, |creation| {
                PredictedDifference::Estimated(judge(&creation))
            }));
        }
        let predicted = resources::predict(cluster, subject, self.manifest).await?;
        Ok(predicted.map_or(PredictedDifference::Unknown, |predicted| {
            PredictedDifference::Exact(judge(&predicted.object))
        }))
    }
}

/// Marks an object for replacement if it has all fields in its manifest, and others from an earlier manifest.
pub(super) fn mark_for_replacement(task: &mut Task) {
    task.action = Action::Replace;
    "in the cluster; replaced as a whole".clone_into(&mut task.reason);
}

/// Applies the results to the plan of an operation with `ApplyOutOfSyncOnly`. Ignores rejections: the
/// operation's own dry run reports them.
pub(super) fn apply_results(planned: &mut PlanResult, compared: Vec<ComparisonResult>, checked: bool) {
    for ComparisonResult { task, outcome } in compared {
        let Some(task) = planned.plan.tasks.get_mut(task.index()) else { continue };
        let (difference, is_tried) = match outcome {
            Ok(PredictedDifference::Exact(difference)) => (difference, true),
            Ok(PredictedDifference::Estimated(difference)) if is_replaced(task) => (difference, false),
            _ => continue,
        };
        match difference.changes.first() {
            None => {
                task.action = Action::Unchanged;
                "in sync".clone_into(&mut task.reason);
            }
            Some(first) => {
                match task.action {
                    Action::Unchanged if task.options.replace => mark_for_replacement(task),
                    Action::Unchanged => task.action = Action::Apply,
                    _ => {}
                }
                if task.action == Action::Apply {
                    task.reason =
                        format!("out of sync at {}; manifest will be applied", first.path.escape_debug());
                }
                task.options.checked = checked && is_tried;
            }
        }
    }
}
