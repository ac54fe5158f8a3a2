//! Effects of an operation on its application's inventory: the entries that it reads, adds and removes.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster, LiveQuery, SearchScope};
use tidegate_lifecycle::operation::{Operation, OperationEvent, Progress, State, TaskState};
use tidegate_model::{
    Action, Cascade, Destination, Discovery, Gvk, LiveObject, ObjectKey, ResultCode, SyncOptions,
    SyncRequest, Task, annotations,
};
use tidegate_oplog::{ApplicationInventory, Inventory, InventoryChange, InventoryUpdate};
use tidegate_planner::{PlanResult, deleted_objects};

use super::targets::Targets;

/// API group with kinds that have moved to other groups. Objects of inventory entries with this group are now
/// served in another group.
const MOVED_GROUP: &str = "extensions";

/// Maximum number of inventory entries without an object that one plan checks. The next plan checks the rest.
const PLACE_READS_MAX: usize = 64;

/// Returns the identity of the cluster that an inventory describes, or `None` if it is unknown. It combines
/// the server URL and the cluster's own identity. The context doesn't matter: two contexts can refer to the
/// same cluster, and a context can later refer to another one.
pub fn cluster_identity(destination: &Destination) -> Option<String> {
    match destination {
        Destination::Simulated => Some("simulated".to_owned()),
        Destination::Kubernetes { server, uid, .. } => match (server.trim_end_matches('/'), uid.as_str()) {
            ("", _) => None,
            (server, "") => Some(server.to_owned()),
            (server, uid) => Some(format!("{server} {uid}")),
        },
    }
}

/// Inventory entries, resolved by current discovery.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InventoryPlaces {
    pub served: Inventory,
    /// Keys of the entries' objects, in every group that the objects may be in now.
    pub keys: BTreeSet<ObjectKey>,
    /// True if some objects have moved to other groups, so that only a search finds them.
    pub has_moved_objects: bool,
}

/// Resolves the entries of an inventory through discovery.
pub(super) fn resolve_places(inventory: &Inventory, discovery: &Discovery) -> InventoryPlaces {
    let mut places = InventoryPlaces::default();
    for (gvk, namespace, name) in inventory {
        match discovery.get(&gvk.group_kind()) {
            Some(kind) => {
                let version = kind.versions.iter().find(|version| **version == gvk.version);
                let version = version.or(kind.versions.first()).unwrap_or(&gvk.version);
                let gvk = Gvk::new(&gvk.group, version, &gvk.kind);
                // If the definition was part of the same plan, the scope was unknown when the entry was
                // recorded.
                let namespace = if kind.namespaced { namespace.clone() } else { String::new() };
                places.keys.insert(ObjectKey::new(&gvk.group, &gvk.kind, &namespace, name));
                places.served.insert((gvk, namespace, name.clone()));
            }
            None if gvk.group == MOVED_GROUP => {
                places.has_moved_objects = true;
                let groups = discovery.kinds.keys().filter(|kind| kind.kind == gvk.kind);
                let keys = groups.map(|kind| ObjectKey::new(&kind.group, &kind.kind, namespace, name));
                places.keys.extend(keys);
            }
            // The definition was deleted, or will be recreated with its objects. Keep the entry in the
            // inventory.
            None => {}
        }
    }
    places
}

/// Returns the objects in an application's manifests, and other objects that the application is known to own.
/// Deleting the application also deletes them if they carry its mark, even if the inventory doesn't contain
/// them.
pub(super) fn owned_places(
    request: &SyncRequest,
    targets: &Targets,
    discovery: &Discovery,
) -> InventoryPlaces {
    let named = deleted_objects(request, &targets.targets, discovery);
    let known = match request.deletion {
        Some(cascade) if cascade.deletes_objects() => resolve_places(&targets.owned, discovery),
        _ => InventoryPlaces::default(),
    };
    let key = |(gvk, namespace, name): &(Gvk, String, String)| {
        ObjectKey::new(&gvk.group, &gvk.kind, namespace, name)
    };
    InventoryPlaces {
        keys: named.iter().map(key).chain(known.keys).collect(),
        served: named.into_iter().chain(known.served).collect(),
        has_moved_objects: known.has_moved_objects,
    }
}

/// Returns the scope of a plan's search. A complete inventory makes a search unnecessary. The deletion of an
/// application always searches, because the inventory doesn't contain hooks of earlier syncs. With an
/// incomplete inventory, a plan that can prune searches the whole cluster. A plan that can't prune searches
/// only a few kinds, because the result is only displayed.
pub(super) fn search_scope(
    request: &SyncRequest,
    inventory: Option<&ApplicationInventory>,
    places: &InventoryPlaces,
) -> SearchScope {
    let SyncOptions { prune, adopt, .. } = request.options;
    let goes = request.deletion.is_some_and(Cascade::deletes_objects);
    match inventory {
        Some(inventory) if !goes && !adopt && !places.has_moved_objects && (inventory.searched || !prune) => {
            SearchScope::KnownObjects
        }
        _ if goes || prune || adopt => SearchScope::WholeCluster,
        _ => SearchScope::KnownKinds,
    }
}

/// Returns inventory entries without an object: the deletion was in flight when its operation finished, or
/// another client deleted the object. `live` may be stale, so each object is read again. Entries with
/// unreadable objects stay in the inventory.
pub(super) async fn find_gone_places(
    cluster: &dyn Cluster,
    query: &LiveQuery,
    live: &[LiveObject],
) -> Inventory {
    let there: BTreeSet<&ObjectKey> = live.iter().map(LiveObject::key).collect();
    let absent = query.inventory.iter().filter(|place| {
        let (gvk, namespace, name) = place;
        let key = ObjectKey::new(&gvk.group, &gvk.kind, namespace, name);
        !there.contains(&key) && !query.named.contains(place)
    });
    let mut gone = Inventory::new();
    for place in absent.take(PLACE_READS_MAX) {
        let (gvk, namespace, name) = place;
        if let Ok(None) = cluster.get(gvk, namespace, name).await {
            gone.insert(place.clone());
        }
    }
    gone
}

/// Returns the inventory changes of a plan. Adds objects to be created, and objects of the application found
/// by a search. Removes the entries in `gone`. Other existing objects are added only after they are written,
/// because the plan may never be executed.
pub(super) fn plan_changes(
    planned: &PlanResult,
    request: &SyncRequest,
    inventory: Option<&ApplicationInventory>,
    reach: SearchScope,
    is_searched: bool,
    live: &[LiveObject],
    gone: &Inventory,
) -> Vec<InventoryChange> {
    let PlanResult { plan, owned_elsewhere: elsewhere, .. } = planned;
    if request.options.dry_run || !plan.errors().is_empty() {
        return Vec::new();
    }
    let is_known =
        |place: &(Gvk, String, String)| inventory.is_some_and(|inventory| inventory.places.contains(place));
    let is_to_come =
        |task: &&Task| task.action.writes_manifest() && task.live.is_some() && !is_known(&task_place(task));
    let to_come: BTreeSet<ObjectKey> = plan.tasks.iter().filter(is_to_come).map(Task::key).collect();
    let is_own =
        |key: &ObjectKey| (request.options.adopt || !elsewhere.contains(key)) && !to_come.contains(key);
    let tasks = plan.tasks.iter().filter(|task| !task.is_hook() && is_own(&task.key())).map(task_place);
    let found = live
        .iter()
        .filter(|live| reach != SearchScope::KnownObjects && is_own(live.key()))
        .filter_map(|live| {
            let object = live.unpack();
            let is_hook = object.annotation(annotations::OPERATION_ID).is_some();
            (!is_hook).then(|| (object.gvk(), object.namespace().to_owned(), object.name().to_owned()))
        });
    let places: Inventory = found.chain(tasks).collect();
    let forgotten = gone - &places;
    let forget = (!forgotten.is_empty()).then_some(InventoryChange::Forget(forgotten));
    // If the search was incomplete or found objects that may belong to another application, every plan that
    // could prune them searches for them and reports them again.
    let is_whole =
        reach == SearchScope::WholeCluster && is_searched && (request.options.adopt || elsewhere.is_empty());
    let grow = if is_whole {
        Some(InventoryChange::Begin(places))
    } else {
        let new = inventory.map_or_else(|| places.clone(), |inventory| &places - &inventory.places);
        (!new.is_empty()).then_some(InventoryChange::Extend(new))
    };
    forget.into_iter().chain(grow).collect()
}

/// Returns the inventory changes for a batch of events and for a plan.
pub fn update_inventory(
    state: &State,
    events: &[OperationEvent],
    planned: impl IntoIterator<Item = InventoryChange>,
) -> Option<InventoryUpdate> {
    let request = &state.header()?.request;
    let cluster = cluster_identity(&request.destination)?;
    let is_over = events.iter().any(|event| matches!(event, OperationEvent::Finished { .. }));
    let ended = is_over.then(|| end_changes(state)).into_iter().flatten();
    let changes: Vec<InventoryChange> = planned.into_iter().chain(ended).collect();
    let application = request.application.clone();
    (!changes.is_empty()).then_some(InventoryUpdate { application, cluster, changes })
}

/// Returns the changes at the end of an operation. Written objects are added. Objects that were seen being
/// deleted, or were never created, are removed.
fn end_changes(state: &State) -> Vec<InventoryChange> {
    let State::Finished(operation) = state else { return Vec::new() };
    if operation.header.request.options.dry_run {
        return Vec::new();
    }
    let tasks =
        || operation.all_tasks().filter(|(_, task, _)| task.action.writes_manifest() && !task.is_hook());
    let has_written = |state: &TaskState| state.applied.is_some();
    let written: Inventory = tasks()
        .filter(|(_, task, state)| task.live.is_some() && has_written(state))
        .map(|(_, task, _)| task_place(task))
        .collect();
    let to_write: BTreeSet<ObjectKey> = tasks().map(|(_, task, _)| task.key()).collect();
    let gone = pruned_tasks(operation).filter(|task| !to_write.contains(&task.key())).map(task_place);
    let empty: Inventory = gone.chain(unstarted_tasks(operation).map(task_place)).collect();
    let grow = (!written.is_empty()).then_some(InventoryChange::Extend(written));
    let forget = (!empty.is_empty()).then_some(InventoryChange::Forget(empty));
    grow.into_iter().chain(forget).collect()
}

/// Returns the objects that the plan would have created in waves that never started. After a retry, the
/// results of earlier attempts are unknown, so no entry is removed.
fn unstarted_tasks(operation: &Operation) -> impl Iterator<Item = &Task> {
    let waves = (0..).zip(&operation.plan.waves).map(|(index, _)| index);
    let closed =
        waves.filter(|index| operation.attempt == 1 && operation.wave_times(*index).opened_at.is_none());
    let tasks = closed.flat_map(|index| operation.wave_tasks(index)).map(|(_, task, _)| task);
    tasks.filter(|task| task.action.writes_manifest() && !task.is_hook() && task.live.is_none())
}

fn pruned_tasks(operation: &Operation) -> impl Iterator<Item = &Task> {
    operation.plan.tasks.iter().zip(&operation.tasks).filter_map(|(task, state)| {
        let gone = state.progress == Progress::Done && state.status == Some(ResultCode::Pruned);
        (task.action == Action::Prune && gone).then_some(task)
    })
}

fn task_place(task: &Task) -> (Gvk, String, String) {
    (task.gvk.clone(), task.namespace.clone(), task.name.clone())
}

#[cfg(test)]
mod tests {
    use tidegate_model::KindInfo;

    use super::*;

    fn place_of(group: &str, version: &str, kind: &str) -> (Gvk, String, String) {
        (Gvk::new(group, version, kind), "shop".into(), "a".into())
    }

    #[test]
    fn places_are_read_in_a_served_version() {
        let mut discovery = Discovery::default();
        let versions = vec!["v2".to_owned(), "v1".to_owned()];
        for kind in ["Widget", "Gadget"] {
            let info = KindInfo { versions: versions.clone(), namespaced: true };
            discovery.kinds.insert(tidegate_model::GroupKind::new("example.com", kind), info);
        }
        let known = Inventory::from([
            place_of("example.com", "v1", "Widget"),
            place_of("example.com", "v1beta1", "Gadget"),
            place_of("gone.example.com", "v1", "Thing"),
        ]);
        let resolved = resolve_places(&known, &discovery);
        let expected = [place_of("example.com", "v1", "Widget"), place_of("example.com", "v2", "Gadget")];
        assert_eq!((resolved.served, resolved.has_moved_objects), (Inventory::from(expected), false));
        // The object has moved to another group. Only a search finds it, so keep the entry in the inventory.
        let moved =
            resolve_places(&Inventory::from([place_of("extensions", "v1beta1", "Widget")]), &discovery);
        let key = ObjectKey::new("example.com", "Widget", "shop", "a");
        assert_eq!(
            moved,
            InventoryPlaces { served: Inventory::new(), keys: [key].into(), has_moved_objects: true }
        );
    }

    #[test]
    fn a_cluster_is_identified_by_its_server() {
        let of = |context: &str, server: &str, uid: &str| {
            let (context, server, uid) = (context.to_owned(), server.to_owned(), uid.to_owned());
            let impersonate = tidegate_model::Impersonation::default();
            cluster_identity(&Destination::Kubernetes { context, server, kubeconfig: None, impersonate, uid })
        };
        assert_eq!(of("a", "https://one/", "u"), of("b", "https://one", "u"));
        assert_ne!(of("a", "https://one", "u"), of("a", "https://two", "u"));
        assert_ne!(of("a", "https://one", "u"), of("a", "https://one", "v"), "recreated at the same address");
        assert_eq!(of("a", "https://one/", ""), of("b", "https://one", ""));
        assert_eq!(of("a", "", "u"), None);
    }
}
