//! Asking the server what it would change.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_health::HealthRules;
use tidegate_model::{
    Action, LiveObject, Object, ObjectKey, OperationId, SyncRequest, Task, TaskId, Timestamp,
};
use tidegate_planner::{Comparer, Difference, Planned, Taken, server_side_diff};

use super::diff::Question;
use super::resources;
use super::subject::Subject;

/// Dry runs under way at once; the cluster has a limit of its own below that.
const AT_ONCE: usize = 64;

/// What became of comparing one task of a plan with the cluster: how the object differs from what the server would make
/// of it, or why the server refuses the manifest.
pub(super) struct Compared {
    pub task: TaskId,
    pub outcome: Result<Judged, ClusterError>,
}

/// How an object differs from what the server would make of it.
pub(super) enum Judged {
    Known(Difference),
    /// As far as the server could say.
    Estimated(Difference),
    /// The server would take the manifest, and does not say more.
    Unknown,
}

/// Whether only the server can tell if an object is in sync: the local comparison found a difference, which may be due
/// to what only the server knows. The object's compare options may forbid the question, or ask for it anyway.
pub(super) fn is_in_doubt(task: &Task, option: Option<bool>) -> bool {
    // What goes is made anew, however alike it is.
    if task.options.already_deleting {
        return false;
    }
    match task.action {
        Action::Replace => option != Some(false),
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
    (question, ask): (Question, impl Fn(&Task, Option<bool>) -> bool),
) -> Vec<Compared> {
    let by_key = by_key(live);
    let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
    let comparer = &comparer;
    let mut waiting = planned.plan.enumerate().filter_map(|(id, task)| {
        let manifest = planned.manifests.get(task.manifest?.index())?;
        let live = by_key.get(&task.key())?;
        let judged_now = task.live.is_some() && !task.is_hook() && !task.options.dry_run_at_wave;
        let live = judged_now.then(|| live.unpack())?;
        let option = server_side_diff(manifest, &live);
        // It has all that its manifest gives, and perhaps something that an earlier one gave.
        let may_lose = || is_replaced(task) && option != Some(false) && comparer.may_lose(manifest, &live);
        let asked = ask(task, option) || (task.action == Action::Unchanged && may_lose());
        asked.then_some(Candidate { id, task, manifest, live })
    });
    // A dry run observes nothing, so any rules will do.
    let health = HealthRules::built_in();
    let health = &health;
    let mut under_way = FuturesOrdered::new();
    let mut answers = Vec::new();
    loop {
        // Judged at once: of the objects themselves only those of the questions under way are held.
        under_way.extend(waiting.by_ref().take(AT_ONCE.saturating_sub(under_way.len())).map(|candidate| {
            let asking = async move {
                let subject = candidate.subject(operation, request, health);
                let outcome = candidate.ask(cluster, comparer, (question, &subject)).await;
                Compared { task: candidate.id, outcome }
            };
            asking.boxed()
        }));
        let Some(answer) = under_way.next().await else { break };
        answers.push(answer);
    }
    answers
}

pub(super) fn by_key(live: &[LiveObject]) -> BTreeMap<&ObjectKey, &LiveObject> {
    live.iter().map(|object| (object.key(), object)).collect()
}

/// One object to ask the server about.
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
            // It is at hand unpacked.
            manifest: None,
            again: false,
            now: Timestamp::from_millis(0),
            health,
        }
    }

    async fn ask(
        &self,
        cluster: &dyn Cluster,
        comparer: &Comparer,
        (question, subject): (Question, &Subject<'_>),
    ) -> Result<Judged, ClusterError> {
        if question == Question::Manifests && is_replaced(self.task) {
            return self.ask_of_replacement(cluster, comparer, subject).await;
        }
        let predicted = resources::predict(cluster, subject, self.manifest).await?;
        let Some(predicted) = predicted else { return Ok(Judged::Unknown) };
        // Only a server-side apply tells whose a field is.
        let filtered = self.task.options.server_side && self.task.action != Action::Replace;
        let judge = |taken| comparer.predicted(self.manifest, &self.live, &predicted, (filtered, taken));
        let Some(manager) = self.task.options.take_over.as_deref().filter(|_| filtered) else {
            return Ok(Judged::Known(judge(None)));
        };
        let anew = resources::imagine(cluster, subject, self.manifest).await;
        let difference = judge(Some(Taken { manager, anew: anew.as_ref() }));
        Ok(if anew.is_some() { Judged::Known(difference) } else { Judged::Estimated(difference) })
    }

    /// Of an object that is to be deleted and made anew the server is asked as of a new one. Whether that could take its
    /// place is for the dry run to say.
    async fn ask_of_replacement(
        &self,
        cluster: &dyn Cluster,
        comparer: &Comparer,
        subject: &Subject<'_>,
    ) -> Result<Judged, ClusterError> {
        let judge = |predicted: &Object| comparer.replaced(self.manifest, &self.live, predicted);
        if self.task.options.force {
            let anew = resources::imagine(cluster, subject, self.manifest).await;
            return Ok(anew.map_or(Judged::Unknown, |anew| Judged::Estimated(judge(&anew))));
        }
        let predicted = resources::predict(cluster, subject, self.manifest).await?;
        Ok(predicted.map_or(Judged::Unknown, |predicted| Judged::Known(judge(&predicted))))
    }
}

/// Whether an object is replaced as a whole where it is out of sync.
pub(super) fn is_replaced(task: &Task) -> bool {
    task.action == Action::Replace || (task.action == Action::Unchanged && task.options.replace)
}

/// What is said of an object that has all that its manifest gives, and is to lose what an earlier one gave.
pub(super) fn replace_again(task: &mut Task) {
    task.action = Action::Replace;
    "in the cluster; replaced as a whole".clone_into(&mut task.reason);
}

/// Takes the answers into the plan of an operation that applies only what is out of sync. What the server refuses is
/// left to the dry run of the operation, which says so.
pub(super) fn take_in(planned: &mut Planned, compared: Vec<Compared>, checked: bool) {
    for Compared { task, outcome } in compared {
        let Some(task) = planned.plan.tasks.get_mut(task.index()) else { continue };
        let (difference, is_tried) = match outcome {
            Ok(Judged::Known(difference)) => (difference, true),
            Ok(Judged::Estimated(difference)) if is_replaced(task) => (difference, false),
            _ => continue,
        };
        match difference.changes.first() {
            None => {
                task.action = Action::Unchanged;
                "in sync".clone_into(&mut task.reason);
            }
            Some(first) => {
                match task.action {
                    Action::Unchanged if task.options.replace => replace_again(task),
                    Action::Unchanged => task.action = Action::Apply,
                    _ => {}
                }
                if task.action == Action::Apply {
                    task.reason =
                        format!("out of sync at {}; manifest is applied", first.path.escape_debug());
                }
                task.options.checked = checked && is_tried;
            }
        }
    }
}
