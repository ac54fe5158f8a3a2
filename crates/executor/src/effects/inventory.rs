//! What an operation does to the inventory of its application: which places it reads, and which it adds and empties.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster, LiveQuery};
use tidegate_lifecycle::operation::{Fact, Operation, Progress, State};
use tidegate_model::{
    Action, Destination, Discovery, Gvk, Object, ObjectKey, Plan, ResultCode, SyncRequest, Task, annotations,
};
use tidegate_oplog::{Inventory, InventoryChange, InventoryUpdate};

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

/// The places of an inventory as they can be asked for now; `None` when only a search tells.
pub(super) fn served(inventory: &Inventory, discovery: &Discovery) -> Option<Inventory> {
    let mut served = Inventory::new();
    for (gvk, namespace, name) in inventory {
        match discovery.get(&gvk.group_kind()) {
            Some(kind) => {
                let version = kind.versions.iter().find(|version| **version == gvk.version);
                let version = version.or(kind.versions.first()).unwrap_or(&gvk.version);
                let gvk = Gvk::new(&gvk.group, version, &gvk.kind);
                // When its definition came with it, nobody knew yet whether it lives in a namespace.
                let namespace = if kind.namespaced { namespace.clone() } else { String::new() };
                served.insert((gvk, namespace, name.clone()));
            }
            None if gvk.group == MOVED_GROUP => return None,
            // Its definition is gone, or comes back with what is there; it stays in the inventory.
            None => {}
        }
    }
    Some(served)
}

/// Places of the inventory where nothing is any more: the deletion was on its way when its operation ended, or somebody
/// else deleted it. `live` may be a little old, so each is looked at; what cannot be looked at stays in the inventory.
pub(super) async fn gone(cluster: &dyn Cluster, query: &LiveQuery, live: &[Object]) -> Inventory {
    let there: BTreeSet<ObjectKey> = live.iter().map(Object::key).collect();
    let absent = query.inventory.iter().flatten().filter(|place| {
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

/// What a plan changes: it adds what it writes and, where the cluster was searched, all that was found; `gone` goes.
pub(super) fn begun(
    plan: &Plan,
    known: Option<&Inventory>,
    searched: Option<&[Object]>,
    gone: &Inventory,
) -> Vec<InventoryChange> {
    let tasks: Inventory = plan.tasks.iter().filter(|task| !task.is_hook()).map(place).collect();
    if let (Some(known), None) = (known, searched) {
        let (gone, new) = (gone - &tasks, &tasks - known);
        let forget = (!gone.is_empty()).then_some(InventoryChange::Forget(gone));
        let extend = (!new.is_empty()).then_some(InventoryChange::Extend(new));
        return forget.into_iter().chain(extend).collect();
    }
    let ours = |object: &&Object| object.annotation(annotations::OPERATION_ID).is_none();
    let found = searched.into_iter().flatten().filter(ours);
    let found = found.map(|object| (object.gvk(), object.namespace().to_owned(), object.name().to_owned()));
    vec![InventoryChange::Begin(found.chain(tasks).collect())]
}

/// What a batch of facts changes, together with what a plan said.
pub fn update(
    state: &State,
    facts: &[Fact],
    planned: impl IntoIterator<Item = InventoryChange>,
) -> Option<InventoryUpdate> {
    let cluster = cluster_of(&state.header()?.request.destination)?;
    let is_over = facts.iter().any(|fact| matches!(fact, Fact::Finished { .. }));
    let emptied = is_over.then(|| emptied(state)).flatten();
    let changes: Vec<InventoryChange> = planned.into_iter().chain(emptied).collect();
    (!changes.is_empty()).then_some(InventoryUpdate { cluster, changes })
}

/// What an operation that is over has emptied: what it saw deleted, and did not write.
fn emptied(state: &State) -> Option<InventoryChange> {
    let State::Finished(operation) = state else { return None };
    let request: &SyncRequest = &operation.header.request;
    if request.options.dry_run {
        return None;
    }
    let written: BTreeSet<ObjectKey> =
        operation.plan.tasks.iter().filter(|task| task.action.writes()).map(Task::key).collect();
    let gone: Inventory =
        pruned(operation).filter(|task| !written.contains(&task.key())).map(place).collect();
    (!gone.is_empty()).then_some(InventoryChange::Forget(gone))
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
        let asked = served(&known, &discovery).unwrap();
        let expected = [at("example.com", "v1", "Widget"), at("example.com", "v2", "Gadget")];
        assert_eq!(asked, Inventory::from(expected));
        // Its objects are in another group now: only a search finds them.
        assert_eq!(served(&Inventory::from([at("extensions", "v1beta1", "Ingress")]), &discovery), None);
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
