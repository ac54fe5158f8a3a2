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
        asked.then_some(Candidate { id, task, manifest, live })
    });
    // A dry run observes nothing, so any rules will do.
    let health = HealthRules::built_in();
    let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
    let (comparer, health) = (&comparer, &health);
    let mut under_way = FuturesOrdered::new();
    let mut answers = Vec::new();
    loop {
        // Judged at once: of the objects themselves only those of the questions under way are held.
        under_way.extend(waiting.by_ref().take(AT_ONCE.saturating_sub(under_way.len())).map(|candidate| {
            let asking = async move {
                let subject = candidate.subject(operation, request, health);
                let outcome = candidate.ask(cluster, comparer, &subject).await;
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
        subject: &Subject<'_>,
    ) -> Result<Judged, ClusterError> {
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
}

/// Takes the answers into the plan of an operation that applies only what is out of sync. What the server refuses is
/// left to the dry run of the operation, which says so.
pub(super) fn take_in(planned: &mut Planned, compared: Vec<Compared>, checked: bool) {
    for Compared { task, outcome } in compared {
        let (Some(task), Ok(Judged::Known(difference))) = (planned.plan.tasks.get_mut(task.index()), outcome)
        else {
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
