//! Inventories: the keys (kind, namespace and name) of the objects that an application's operations have
//! written, per cluster. With them, prune candidates are found without searching the cluster.
//!
//! An inventory may contain keys of objects that don't exist. It must never omit a key that an operation in
//! the log has written to, and never contain an object that may belong to another application. An operation
//! therefore writes the inventory together with its plan, before any action. The inventory outlives the
//! operation. In case of doubt, the whole inventory is dropped, and the next operation searches the cluster.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_model::{Gvk, StreamId};
use uuid::Uuid;

/// Object keys: kind, namespace (empty for cluster-scoped objects) and name.
pub type Inventory = BTreeSet<(Gvk, String, String)>;

/// An inventory, with information about its completeness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationInventory {
    /// Keys of the application's objects, including objects that may be created later.
    pub places: Inventory,
    /// True if a search of the whole cluster found no other objects of the application.
    pub searched: bool,
}

/// Change to an application's inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryUpdate {
    /// Name of the application.
    pub application: String,
    /// Stable name of the cluster.
    pub cluster: String,
    /// The changes, in order.
    pub changes: Vec<InventoryChange>,
}

/// Change to the known keys of an application's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InventoryChange {
    /// Keys of all objects that the application has or may have later, from a search of the whole cluster and
    /// from a plan. Creates or extends the inventory.
    Begin(Inventory),
    /// Keys of some objects that the application has or may have later. The cluster wasn't searched for
    /// others. Creates or extends the inventory.
    Extend(Inventory),
    /// Keys of deleted objects, matched without the API version.
    Forget(Inventory),
}

impl InventoryChange {
    /// Returns the inventory after this change, or `None` if the change has no effect.
    pub(crate) fn apply(&self, before: Option<&ApplicationInventory>) -> Option<ApplicationInventory> {
        let is_search = matches!(self, Self::Begin(_));
        match (self, before) {
            (Self::Begin(places) | Self::Extend(places), None) => {
                Some(ApplicationInventory { places: places.clone(), searched: is_search })
            }
            (Self::Begin(places) | Self::Extend(places), Some(before)) => {
                let searched = before.searched || is_search;
                let changes = searched != before.searched || !places.is_subset(&before.places);
                changes.then(|| ApplicationInventory { places: &before.places | places, searched })
            }
            (Self::Forget(places), Some(ApplicationInventory { places: before, searched })) => {
                let gone: BTreeSet<_> = places.iter().map(versionless_place).collect();
                let left: Inventory = before
                    .iter()
                    .filter(|place| !gone.contains(&versionless_place(place)))
                    .cloned()
                    .collect();
                (left.len() < before.len())
                    .then_some(ApplicationInventory { places: left, searched: *searched })
            }
            (Self::Forget(_), None) => None,
        }
    }
}

/// Returns a key without the API version, because clusters serve each object in several versions.
fn versionless_place((gvk, namespace, name): &(Gvk, String, String)) -> (&str, &str, &str, &str) {
    (&gvk.group, &gvk.kind, namespace, name)
}

/// Stored form of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InventoryRow {
    pub(crate) cluster: String,
    pub(crate) application: String,
    pub(crate) known: ApplicationInventory,
}

/// Returns the change that creates an inventory.
pub(crate) fn update_to(
    cluster: &str,
    application: &str,
    inventory: &ApplicationInventory,
) -> InventoryUpdate {
    let places = inventory.places.clone();
    let change =
        if inventory.searched { InventoryChange::Begin(places) } else { InventoryChange::Extend(places) };
    InventoryUpdate {
        application: application.to_owned(),
        cluster: cluster.to_owned(),
        changes: vec![change],
    }
}

/// Returns the ID that an inventory is stored under.
pub(crate) fn inventory_id(cluster: &str, application: &str) -> StreamId {
    let mut hasher = Sha256::new();
    hasher.update(cluster.len().to_le_bytes());
    hasher.update(cluster);
    hasher.update(application);
    let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] = hasher.finalize().into();
    StreamId(Uuid::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[&str]) -> Inventory {
        names.iter().map(|name| (Gvk::new("", "v1", "ConfigMap"), "shop".into(), (*name).into())).collect()
    }

    #[test]
    fn changes_never_omit_a_place() {
        let (a, b, ab) = (places(&["a"]), places(&["b"]), places(&["a", "b"]));
        let known = |places: &Inventory, searched| ApplicationInventory { places: places.clone(), searched };
        let (part, whole) =
            (|places: &Inventory| known(places, false), |places: &Inventory| known(places, true));
        for (change, before, after) in [
            (InventoryChange::Begin(a.clone()), None, Some(whole(&a))),
            (InventoryChange::Begin(b.clone()), Some(whole(&a)), Some(whole(&ab))),
            (InventoryChange::Begin(b.clone()), Some(part(&a)), Some(whole(&ab))),
            (InventoryChange::Begin(a.clone()), Some(part(&a)), Some(whole(&a))),
            (InventoryChange::Extend(b.clone()), Some(whole(&a)), Some(whole(&ab))),
            (InventoryChange::Extend(b.clone()), Some(part(&a)), Some(part(&ab))),
            (InventoryChange::Extend(a.clone()), Some(whole(&ab)), None),
            (InventoryChange::Extend(a.clone()), None, Some(part(&a))),
            (InventoryChange::Forget(b.clone()), Some(whole(&ab)), Some(whole(&a))),
            (InventoryChange::Forget(b.clone()), Some(part(&ab)), Some(part(&a))),
            (InventoryChange::Forget(b.clone()), Some(whole(&a)), None),
            (InventoryChange::Forget(b), None, None),
        ] {
            assert_eq!(change.apply(before.as_ref()), after, "{change:?} of {before:?}");
        }
    }

    #[test]
    fn ids_distinguish_clusters_and_applications() {
        assert_ne!(inventory_id("a", "bc"), inventory_id("ab", "c"));
        assert_ne!(inventory_id("a", "b"), inventory_id("b", "a"));
        assert_eq!(inventory_id("a", "b"), inventory_id("a", "b"));
    }
}
