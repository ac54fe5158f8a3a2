//! Detection of changes that make a stored plan outdated.
//!
//! A stored plan is valid if planning again yields the same tasks with the same manifests, and the affected
//! objects are unchanged. Changes to fields outside the manifest don't affect the plan, so it is up to users
//! to accept them. An existing hook object is ignored as well, because it is deleted before the hook is
//! created.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_model::{Action, Object, ObjectKey, Phase, Plan, Task, TaskId};

use crate::diff::{Comparer, LiveFieldChange};
use crate::text::escape;

/// Live object at planning time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredObservation {
    /// Task for the object.
    pub task: TaskId,
    /// The part of the object that is compared, without Secret values.
    pub object: Value,
}

/// Changes since a plan was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Changes to the plan itself, or to fields that the plan writes.
    pub related: Vec<String>,
    /// Other changes, which don't affect the plan.
    pub unrelated: Vec<String>,
}

impl Drift {
    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.related.is_empty() && self.unrelated.is_empty()
    }
}

/// Returns the live objects to store with a plan. `live` looks up an object as of planning time.
pub fn stored_observations<L: AsRef<Object>>(
    comparer: &Comparer,
    plan: &Plan,
    live: impl Fn(&ObjectKey) -> Option<L>,
) -> Vec<StoredObservation> {
    let about = plan.tasks_with_ids().filter(|(_, task)| depends_on_live_state(task));
    about
        .filter_map(|(id, task)| {
            Some(StoredObservation {
                task: id,
                object: comparer.comparable_state(live(&task.key())?.as_ref()),
            })
        })
        .collect()
}

/// Returns true if the task depends on its object's live state.
fn depends_on_live_state(task: &Task) -> bool {
    task.live.is_some() && !task.is_hook() && task.action != Action::PruneSkipped
}

/// Plan with the manifests of its tasks.
#[derive(Clone, Copy, Debug)]
pub struct PlanManifests<'p> {
    /// Plan.
    pub plan: &'p Plan,
    /// Manifests that the tasks refer to by index.
    pub manifests: &'p [Object],
}

/// Compares a stored plan with the plan that the same request would produce now. `seen` holds the objects on
/// which the stored plan is based, and `live` looks up the current object.
pub fn find_drift<L: AsRef<Object>>(
    comparer: &Comparer,
    kept: PlanManifests<'_>,
    seen: &[StoredObservation],
    now: PlanManifests<'_>,
    live: impl Fn(&ObjectKey) -> Option<L>,
) -> Drift {
    let mut drift = Drift::default();
    let PlanManifests { plan: kept, manifests: kept_manifests } = kept;
    let PlanManifests { plan: now, manifests: now_manifests } = now;
    let new: BTreeMap<TaskPlace, &Task> =
        now.tasks.iter().map(|task| (TaskPlace::for_task(task), task)).collect();
    let old: BTreeSet<TaskPlace> = kept.tasks.iter().map(TaskPlace::for_task).collect();
    let manifest = |task: &Task, all: &[Object]| task.manifest.and_then(|id| all.get(id.index()).cloned());
    let seen: BTreeMap<TaskId, &Value> =
        seen.iter().map(|observation| (observation.task, &observation.object)).collect();
    for (id, task) in kept.tasks_with_ids() {
        let name = escape(&task.key().to_string());
        let Some(other) = new.get(&TaskPlace::for_task(task)) else {
            drift
                .related
                .push(format!("{name}: it is in the plan, but would no longer be in {}", wave_text(task)));
            continue;
        };
        if let Some(what) = task_difference(task, other) {
            drift.related.push(format!("{name}: {what}"));
            continue;
        }
        let wanted = manifest(task, kept_manifests);
        if wanted != manifest(other, now_manifests) {
            drift.related.push(format!("{name}: its manifest has changed"));
            continue;
        }
        let Some((seen, live)) = seen.get(&id).zip(live(&task.key())).filter(|_| depends_on_live_state(task))
        else {
            continue;
        };
        let is_written = resource_version(task) != resource_version(other);
        for moved in comparer.changes_since(wanted.as_ref(), live.as_ref(), seen, is_written) {
            let LiveFieldChange { path, description: text, is_in_manifest: is_given } = moved;
            let field = if path.is_empty() { String::new() } else { format!("{} ", escape(&path)) };
            let list = if is_given { &mut drift.related } else { &mut drift.unrelated };
            list.push(format!("{name}: {field}{}", escape(&text)));
        }
    }
    for task in now.tasks.iter().filter(|task| !old.contains(&TaskPlace::for_task(task))) {
        let (name, what) = (escape(&task.key().to_string()), action_text(task.action));
        drift
            .related
            .push(format!("{name}: it is not in the plan, but would now be {what} in {}", wave_text(task)));
    }
    let order = |plan: &Plan| plan.tasks.iter().map(TaskPlace::for_task).collect::<Vec<_>>();
    if drift.related.is_empty() && (kept.waves != now.waves || order(kept) != order(now)) {
        drift.related.push("the order, gates or deadlines of the waves have changed".to_owned());
    }
    // The tasks are the same, so equal IDs mean equal tasks.
    if drift.related.is_empty() && kept.dependencies != now.dependencies {
        drift.related.push("the dependencies between objects have changed".to_owned());
    }
    drift
}

/// Position of a task: phase, wave and object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TaskPlace(Phase, i64, ObjectKey);

impl TaskPlace {
    fn for_task(task: &Task) -> Self {
        Self(task.phase, task.wave, task.key())
    }
}

fn wave_text(task: &Task) -> String {
    format!("wave {} of {}", task.wave, task.phase)
}

fn resource_version(task: &Task) -> Option<&str> {
    task.live.as_ref().map(|live| live.resource_version.as_str())
}

fn action_text(action: Action) -> &'static str {
    match action {
        Action::Create => "created",
        Action::Apply => "applied",
        Action::Replace => "replaced",
        Action::Prune => "pruned",
        Action::PruneSkipped => "kept although it is no longer in the manifests",
        Action::Unchanged => "left unchanged",
    }
}

/// Describes how two tasks for the same object differ. Returns `None` if they don't.
fn task_difference(kept: &Task, now: &Task) -> Option<String> {
    if kept.is_hook() {
        // An existing object of the hook's name doesn't matter: it is deleted before the hook is created.
        return (kept.hook != now.hook || kept.gvk != now.gvk).then(|| "the hook has changed".to_owned());
    }
    let uid = |task: &Task| task.live.as_ref().map(|live| live.uid.clone());
    match (kept.action == now.action, uid(kept), uid(now)) {
        (_, Some(_), None) => Some("it no longer exists".to_owned()),
        (_, None, Some(_)) => Some("it now exists".to_owned()),
        (_, Some(one), Some(other)) if one != other => Some("it was deleted and recreated".to_owned()),
        (false, ..) => Some(format!(
            "it was planned to be {}, but would now be {}",
            action_text(kept.action),
            action_text(now.action)
        )),
        _ if kept.options.already_deleting != now.options.already_deleting => {
            Some("it is being deleted".to_owned())
        }
        _ if kept.gvk != now.gvk => Some(format!("its version is now {}", escape(&now.gvk.version))),
        _ => None,
    }
}
