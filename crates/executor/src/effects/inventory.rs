//! What an operation does to the inventory of its application: which places it reads, and which it adds and empties.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster, LiveQuery, Reach};
use tidegate_lifecycle::operation::{Fact, Operation, Progress, State, TaskState};
use tidegate_model::{
    Action, Cascade, Destination, Discovery, Gvk, LiveObject, ObjectKey, ResultCode, SyncOptions,
    SyncRequest, Task, annotations,
};
use tidegate_oplog::{Inventory, InventoryChange, InventoryUpdate, Known};
use tidegate_planner::{Planned, deleted_objects};

use super::planning::Targets;

/// The group whose kinds later came to other groups: an object put there is found under another name.
const MOVED_GROUP: &str = "extensions";

/// How many empty places of an inventory one plan looks at; the next one looks at more.
const LOOKS_MAX: usize = 64;

/// The cluster an inventory is about; `None` where nobody can say which one it is. By its server and what it says of itself,
/// and not by the way there: two contexts may be one cluster, and one context another cluster tomorrow.
pub fn cluster_of(destination: &Destination) -> Option<String> {
    match destination {
        Destination::Simulated => Some("simulated".to_owned()),
        Destination::Kubernetes { server, uid, .. } => match (server.trim_end_matches('/'), uid.as_str()) {
            ("", _) => None,
            (server, "") => Some(server.to_owned()),
            (server, uid) => Some(format!("{server} {uid}")),
        },
    }
}

/// The places of an inventory as they can be asked for now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    pub served: Inventory,
    /// The objects at these places, under every name they may have now.
    pub keys: BTreeSet<ObjectKey>,
    /// Some objects have another name now, so that only a search finds them.
    pub moved: bool,
}

/// Finds the places of an inventory.
pub(super) fn served(inventory: &Inventory, discovery: &Discovery) -> Places {
    let mut places = Places::default();
    for (gvk, namespace, name) in inventory {
        match discovery.get(&gvk.group_kind()) {
            Some(kind) => {
                let version = kind.versions.iter().find(|version| **version == gvk.version);
                let version = version.or(kind.versions.first()).unwrap_or(&gvk.version);
                let gvk = Gvk::new(&gvk.group, version, &gvk.kind);
                // When its definition came with it, nobody knew yet whether it lives in a namespace.
                let namespace = if kind.namespaced { namespace.clone() } else { String::new() };
                places.keys.insert(ObjectKey::new(&gvk.group, &gvk.kind, &namespace, name));
                places.served.insert((gvk, namespace, name.clone()));
            }
            None if gvk.group == MOVED_GROUP => {
                places.moved = true;
                let groups = discovery.kinds.keys().filter(|kind| kind.kind == gvk.kind);
                let keys = groups.map(|kind| ObjectKey::new(&kind.group, &kind.kind, namespace, name));
                places.keys.extend(keys);
            }
            // Its definition is gone, or comes back with what is there; it stays in the inventory.
            None => {}
        }
    }
    places
}

/// The objects that are to go with an application wherever they bear its mark, whatever the inventory knows: those of its
/// manifests, and those that it is known to have.
pub(super) fn owned(request: &SyncRequest, targets: &Targets, discovery: &Discovery) -> Places {
    let named = deleted_objects(request, &targets.targets, discovery);
    let known = match request.deletion {
        Some(cascade) if cascade.deletes() => served(&targets.owned, discovery),
        _ => Places::default(),
    };
    let key = |(gvk, namespace, name): &(Gvk, String, String)| {
        ObjectKey::new(&gvk.group, &gvk.kind, namespace, name)
    };
    Places {
        keys: named.iter().map(key).chain(known.keys).collect(),
        served: named.into_iter().chain(known.served).collect(),
        moved: known.moved,
    }
}

/// How far a plan looks. Where the inventory lacks nothing, no further; but an application that goes is searched for, since hooks
/// of earlier syncs are in no inventory. Else all of the cluster, if something may be pruned; and without that, nothing or a
/// little: what would only be shown is not worth more.
pub(super) fn reach(request: &SyncRequest, known: Option<&Known>, places: &Places) -> Reach {
    let SyncOptions { prune, adopt, .. } = request.options;
    let goes = request.deletion.is_some_and(Cascade::deletes);
    match known {
        Some(known) if !goes && !adopt && !places.moved && (known.searched || !prune) => Reach::Places,
        _ if goes || prune || adopt => Reach::Everything,
        _ => Reach::Kinds,
    }
}

/// Places of the inventory where nothing is any more: the deletion was on its way when its operation ended, or somebody
/// else deleted it. `live` may be a little old, so each is looked at; what cannot be looked at stays in the inventory.
pub(super) async fn gone(cluster: &dyn Cluster, query: &LiveQuery, live: &[LiveObject]) -> Inventory {
    let there: BTreeSet<&ObjectKey> = live.iter().map(LiveObject::key).collect();
    let absent = query.inventory.iter().filter(|place| {
        let (gvk, namespace, name) = place;
        let key = ObjectKey::new(&gvk.group, &gvk.kind, namespace, name);
        !there.contains(&key) && !query.named.contains(place)
    });
    let mut gone = Inventory::new();
    for place in absent.take(LOOKS_MAX) {
        let (gvk, namespace, name) = place;
        if let Ok(None) = cluster.get(gvk, namespace, name).await {
            gone.insert(place.clone());
        }
    }
    gone
}

/// What a plan changes: it adds what it creates, and what a search has found that is the application's own; `gone` goes. A
/// plan that is not carried out is no proof of anything, so an object that is there and was not known is added when it has
/// been written.
pub(super) fn begun(
    planned: &Planned,
    request: &SyncRequest,
    known: Option<&Known>,
    (reach, is_searched, live): (Reach, bool, &[LiveObject]),
    gone: &Inventory,
) -> Vec<InventoryChange> {
    let Planned { plan, elsewhere, .. } = planned;
    if request.options.dry_run || !plan.errors().is_empty() {
        return Vec::new();
    }
    let is_known = |place: &(Gvk, String, String)| known.is_some_and(|known| known.places.contains(place));
    let is_to_come = |task: &&Task| task.action.writes() && task.live.is_some() && !is_known(&place(task));
    let to_come: BTreeSet<ObjectKey> = plan.tasks.iter().filter(is_to_come).map(Task::key).collect();
    let is_own =
        |key: &ObjectKey| (request.options.adopt || !elsewhere.contains(key)) && !to_come.contains(key);
    let tasks = plan.tasks.iter().filter(|task| !task.is_hook() && is_own(&task.key())).map(place);
    let found = live.iter().filter(|live| reach != Reach::Places && is_own(live.key())).filter_map(|live| {
        let object = live.unpack();
        let is_hook = object.annotation(annotations::OPERATION_ID).is_some();
        (!is_hook).then(|| (object.gvk(), object.namespace().to_owned(), object.name().to_owned()))
    });
    let places: Inventory = found.chain(tasks).collect();
    let forgotten = gone - &places;
    let forget = (!forgotten.is_empty()).then_some(InventoryChange::Forget(forgotten));
    // As long as not all could be searched, or something is found elsewhere, every plan that could prune it finds it again, and says so.
    let is_whole =
        reach == Reach::Everything && is_searched && (request.options.adopt || elsewhere.is_empty());
    let grow = if is_whole {
        Some(InventoryChange::Begin(places))
    } else {
        let new = known.map_or_else(|| places.clone(), |known| &places - &known.places);
        (!new.is_empty()).then_some(InventoryChange::Extend(new))
    };
    forget.into_iter().chain(grow).collect()
}

/// What a batch of facts changes, together with what a plan said.
pub fn update(
    state: &State,
    facts: &[Fact],
    planned: impl IntoIterator<Item = InventoryChange>,
) -> Option<InventoryUpdate> {
    let request = &state.header()?.request;
    let cluster = cluster_of(&request.destination)?;
    let is_over = facts.iter().any(|fact| matches!(fact, Fact::Finished { .. }));
    let ended = is_over.then(|| ended(state)).into_iter().flatten();
    let changes: Vec<InventoryChange> = planned.into_iter().chain(ended).collect();
    let application = request.application.clone();
    (!changes.is_empty()).then_some(InventoryUpdate { application, cluster, changes })
}

/// What is known when an operation is over: it has objects where it wrote, and none where it saw them deleted or where it
/// was to create one and did not get that far.
fn ended(state: &State) -> Vec<InventoryChange> {
    let State::Finished(operation) = state else { return Vec::new() };
    if operation.header.request.options.dry_run {
        return Vec::new();
    }
    let tasks = || operation.all_tasks().filter(|(_, task, _)| task.action.writes() && !task.is_hook());
    let has_written = |state: &TaskState| state.applied.is_some();
    let written: Inventory = tasks()
        .filter(|(_, task, state)| task.live.is_some() && has_written(state))
        .map(|(_, task, _)| place(task))
        .collect();
    let to_write: BTreeSet<ObjectKey> = tasks().map(|(_, task, _)| task.key()).collect();
    let gone = pruned(operation).filter(|task| !to_write.contains(&task.key())).map(place);
    let empty: Inventory = gone.chain(not_begun(operation).map(place)).collect();
    let grow = (!written.is_empty()).then_some(InventoryChange::Extend(written));
    let forget = (!empty.is_empty()).then_some(InventoryChange::Forget(empty));
    grow.into_iter().chain(forget).collect()
}

/// What was to be created in waves that were never opened. After a retry nothing is known of earlier attempts, so no place
/// is given up.
fn not_begun(operation: &Operation) -> impl Iterator<Item = &Task> {
    let waves = (0..).zip(&operation.plan.waves).map(|(index, _)| index);
    let closed = waves.filter(|index| operation.attempt == 1 && operation.times(*index).opened_at.is_none());
    let tasks = closed.flat_map(|index| operation.wave_tasks(index)).map(|(_, task, _)| task);
    tasks.filter(|task| task.action.writes() && !task.is_hook() && task.live.is_none())
}

fn pruned(operation: &Operation) -> impl Iterator<Item = &Task> {
    operation.plan.tasks.iter().zip(&operation.tasks).filter_map(|(task, state)| {
        let gone = state.progress == Progress::Done && state.status == Some(ResultCode::Pruned);
        (task.action == Action::Prune && gone).then_some(task)
    })
}

fn place(task: &Task) -> (Gvk, String, String) {
    (task.gvk.clone(), task.namespace.clone(), task.name.clone())
}

#[cfg(test)]
mod tests {
    use tidegate_model::KindInfo;

    use super::*;

    fn at(group: &str, version: &str, kind: &str) -> (Gvk, String, String) {
        (Gvk::new(group, version, kind), "shop".into(), "a".into())
    }

    #[test]
    fn places_are_asked_for_in_a_version_that_is_served() {
        let mut discovery = Discovery::default();
        let versions = vec!["v2".to_owned(), "v1".to_owned()];
        for kind in ["Widget", "Gadget"] {
            let info = KindInfo { versions: versions.clone(), namespaced: true };
            discovery.kinds.insert(tidegate_model::GroupKind::new("example.com", kind), info);
        }
        let known = Inventory::from([
            at("example.com", "v1", "Widget"),
            at("example.com", "v1beta1", "Gadget"),
            at("gone.example.com", "v1", "Thing"),
        ]);
        let asked = served(&known, &discovery);
        let expected = [at("example.com", "v1", "Widget"), at("example.com", "v2", "Gadget")];
        assert_eq!((asked.served, asked.moved), (Inventory::from(expected), false));
        // Its objects are in another group now: only a search finds them, and they are still known.
        let moved = served(&Inventory::from([at("extensions", "v1beta1", "Widget")]), &discovery);
        let key = ObjectKey::new("example.com", "Widget", "shop", "a");
        assert_eq!(moved, Places { served: Inventory::new(), keys: [key].into(), moved: true });
    }

    #[test]
    fn a_cluster_is_known_by_its_server() {
        let of = |context: &str, server: &str, uid: &str| {
            let (context, server, uid) = (context.to_owned(), server.to_owned(), uid.to_owned());
            let impersonate = tidegate_model::Impersonation::default();
            cluster_of(&Destination::Kubernetes { context, server, kubeconfig: None, impersonate, uid })
        };
        assert_eq!(of("a", "https://one/", "u"), of("b", "https://one", "u"));
        assert_ne!(of("a", "https://one", "u"), of("a", "https://two", "u"));
        assert_ne!(of("a", "https://one", "u"), of("a", "https://one", "v"), "made anew at the same place");
        assert_eq!(of("a", "https://one/", ""), of("b", "https://one", ""));
        assert_eq!(of("a", "", "u"), None);
    }
}
