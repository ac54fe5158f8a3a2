//! Does a plan that was kept still fit the cluster?
//!
//! It does when planning anew gives the same tasks with the same manifests, and the objects they are about are as they were
//! seen. What of an object moved that the manifest says nothing about changes nothing of what the plan does; whether that
//! is good enough is for people to say. Hooks are created in a place that is cleared first, so what stands there does not
//! count.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_model::{Action, Object, ObjectKey, Phase, Plan, Task, TaskId};

use crate::diff::{Comparer, Moved};
use crate::text::escape;

/// A live object as it was when a plan was made with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    /// The task that is about it.
    pub task: TaskId,
    /// All of it that is compared; of a Secret without its values.
    pub object: Value,
}

/// How the world has moved since a plan was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// What changes the plan, or an object in a field that the plan is about.
    pub related: Vec<String>,
    /// What moved besides, and changes nothing of what the plan does.
    pub unrelated: Vec<String>,
}

impl Drift {
    /// Whether all is as it was.
    pub fn is_none(&self) -> bool {
        self.related.is_empty() && self.unrelated.is_empty()
    }
}

/// What is remembered of the objects that a plan is about. `live` gives an object of the cluster as it was when the plan was
/// made.
pub fn sights<L: AsRef<Object>>(
    comparer: &Comparer,
    plan: &Plan,
    live: impl Fn(&ObjectKey) -> Option<L>,
) -> Vec<Sight> {
    let about = plan.enumerate().filter(|(_, task)| is_seen(task));
    about
        .filter_map(|(id, task)| Some(Sight { task: id, object: comparer.seen(live(&task.key())?.as_ref()) }))
        .collect()
}

/// Whether a task depends on how its object stands in the cluster.
fn is_seen(task: &Task) -> bool {
    task.live.is_some() && !task.is_hook() && task.action != Action::PruneSkipped
}

/// Compares a plan that was kept with the one that the same request gives now. `live` gives an object of the cluster as it is.
pub fn drift<L: AsRef<Object>>(
    comparer: &Comparer,
    (kept, kept_manifests, seen): (&Plan, &[Object], &[Sight]),
    (now, now_manifests): (&Plan, &[Object]),
    live: impl Fn(&ObjectKey) -> Option<L>,
) -> Drift {
    let mut drift = Drift::default();
    let new: BTreeMap<Place, &Task> = now.tasks.iter().map(|task| (Place::of(task), task)).collect();
    let old: BTreeSet<Place> = kept.tasks.iter().map(Place::of).collect();
    let manifest = |task: &Task, all: &[Object]| task.manifest.and_then(|id| all.get(id.index()).cloned());
    let seen: BTreeMap<TaskId, &Value> = seen.iter().map(|sight| (sight.task, &sight.object)).collect();
    for (id, task) in kept.enumerate() {
        let name = escape(&task.key().to_string());
        let Some(other) = new.get(&Place::of(task)) else {
            drift.related.push(format!("{name}: nothing is to be done about it any more in {}", wave(task)));
            continue;
        };
        if let Some(what) = differs(task, other) {
            drift.related.push(format!("{name}: {what}"));
            continue;
        }
        let wanted = manifest(task, kept_manifests);
        if wanted != manifest(other, now_manifests) {
            drift.related.push(format!("{name}: its manifest is another one now"));
            continue;
        }
        let Some((seen, live)) = seen.get(&id).zip(live(&task.key())).filter(|_| is_seen(task)) else {
            continue;
        };
        let is_written = version(task) != version(other);
        for moved in comparer.moved(wanted.as_ref(), live.as_ref(), (seen, is_written)) {
            let Moved { path, words, is_given } = moved;
            let field = if path.is_empty() { String::new() } else { format!("{} ", escape(&path)) };
            let list = if is_given { &mut drift.related } else { &mut drift.unrelated };
            list.push(format!("{name}: {field}{}", escape(&words)));
        }
    }
    for task in now.tasks.iter().filter(|task| !old.contains(&Place::of(task))) {
        let (name, what) = (escape(&task.key().to_string()), words(task.action));
        drift.related.push(format!("{name}: it is not in the plan, and would be {what} in {}", wave(task)));
    }
    let order = |plan: &Plan| plan.tasks.iter().map(Place::of).collect::<Vec<_>>();
    if drift.related.is_empty() && (kept.waves != now.waves || order(kept) != order(now)) {
        drift.related.push("the order, the gates or the deadlines of the waves are others now".to_owned());
    }
    drift
}

/// Where in a plan which object is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place(Phase, i64, ObjectKey);

impl Place {
    fn of(task: &Task) -> Self {
        Self(task.phase, task.wave, task.key())
    }
}

fn wave(task: &Task) -> String {
    format!("wave {} of {}", task.wave, task.phase)
}

fn version(task: &Task) -> Option<&str> {
    task.live.as_ref().map(|live| live.resource_version.as_str())
}

fn words(action: Action) -> &'static str {
    match action {
        Action::Create => "created",
        Action::Apply => "applied",
        Action::Replace => "replaced",
        Action::Prune => "pruned",
        Action::PruneSkipped => "left alone although it is no longer in the manifests",
        Action::Unchanged => "left as it is",
    }
}

/// What is to be done otherwise about the same object.
fn differs(kept: &Task, now: &Task) -> Option<String> {
    if kept.is_hook() {
        // Whether an older one stands in its place is of no matter.
        return (kept.hook != now.hook || kept.gvk != now.gvk)
            .then(|| "the hook is another one now".to_owned());
    }
    let uid = |task: &Task| task.live.as_ref().map(|live| live.uid.clone());
    match (kept.action == now.action, uid(kept), uid(now)) {
        (_, Some(_), None) => Some("it was there, and is gone".to_owned()),
        (_, None, Some(_)) => Some("it was not there, and is now".to_owned()),
        (_, Some(one), Some(other)) if one != other => {
            Some("it was deleted, and another one of its name was created".to_owned())
        }
        (false, ..) => {
            Some(format!("it was to be {}, and would be {}", words(kept.action), words(now.action)))
        }
        _ if kept.options.already_deleting != now.options.already_deleting => {
            Some("it is being deleted".to_owned())
        }
        _ if kept.gvk != now.gvk => Some(format!("its version is {} now", escape(&now.gvk.version))),
        _ => None,
    }
}
