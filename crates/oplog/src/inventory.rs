//! Where an application's operations put objects, per cluster: so that what may be pruned is found without
//! searching the cluster.
//!
//! An inventory may name places where nothing is; it must never leave one out. So it is written together with the plan,
//! before anything is done, it outlives the operations it comes from, and when in doubt it is dropped as a whole: then
//! the cluster is searched once, and a new one begins with what was found.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_model::{Gvk, OperationId};
use uuid::Uuid;

/// Places of objects: kind, namespace (empty for cluster-scoped ones) and name.
pub type Inventory = BTreeSet<(Gvk, String, String)>;

/// What an operation changes in the inventory of its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryUpdate {
    /// The cluster, by a name that means this one always.
    pub cluster: String,
    /// The changes, in order.
    pub changes: Vec<InventoryChange>,
}

/// A change of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InventoryChange {
    /// All places the application has or may get objects in, as a search of the cluster and a plan say: begins an
    /// inventory, or adds to the one there is.
    Begin(Inventory),
    /// Places the application may get objects in: adds to the inventory, and does nothing where there is none.
    Extend(Inventory),
    /// Places that were emptied, whatever version of their kind they were noted with.
    Forget(Inventory),
}

impl InventoryChange {
    /// The inventory after this change; `None` when it stays as it is.
    pub(crate) fn apply(&self, before: Option<&Inventory>) -> Option<Inventory> {
        match (self, before) {
            (Self::Begin(places), None) => Some(places.clone()),
            (Self::Begin(places) | Self::Extend(places), Some(before)) => {
                (!places.is_subset(before)).then(|| before | places)
            }
            (Self::Forget(places), Some(before)) => {
                let gone: BTreeSet<_> = places.iter().map(whatever_version).collect();
                let left: Inventory =
                    before.iter().filter(|place| !gone.contains(&whatever_version(place))).cloned().collect();
                (left.len() < before.len()).then_some(left)
            }
            (Self::Extend(_) | Self::Forget(_), None) => None,
        }
    }
}

/// One object is served in several versions.
fn whatever_version((gvk, namespace, name): &(Gvk, String, String)) -> (&str, &str, &str, &str) {
    (&gvk.group, &gvk.kind, namespace, name)
}

/// What is kept of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) cluster: String,
    pub(crate) application: String,
    pub(crate) places: Inventory,
}

/// What an inventory is filed under.
pub(crate) fn id(cluster: &str, application: &str) -> OperationId {
    let mut hasher = Sha256::new();
    hasher.update(cluster.len().to_le_bytes());
    hasher.update(cluster);
    hasher.update(application);
    let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] = hasher.finalize().into();
    OperationId(Uuid::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[&str]) -> Inventory {
        names.iter().map(|name| (Gvk::new("", "v1", "ConfigMap"), "shop".into(), (*name).into())).collect()
    }

    #[test]
    fn changes_never_leave_a_place_out() {
        let (a, b, ab) = (places(&["a"]), places(&["b"]), places(&["a", "b"]));
        for (change, before, after) in [
            (InventoryChange::Begin(a.clone()), None, Some(a.clone())),
            (InventoryChange::Begin(b.clone()), Some(&a), Some(ab.clone())),
            (InventoryChange::Extend(b.clone()), Some(&a), Some(ab.clone())),
            (InventoryChange::Extend(a.clone()), Some(&ab), None),
            (InventoryChange::Extend(a.clone()), None, None),
            (InventoryChange::Forget(b.clone()), Some(&ab), Some(a.clone())),
            (InventoryChange::Forget(b.clone()), Some(&a), None),
            (InventoryChange::Forget(b), None, None),
        ] {
            assert_eq!(change.apply(before), after, "{change:?} of {before:?}");
        }
    }

    #[test]
    fn ids_keep_clusters_and_applications_apart() {
        assert_ne!(id("a", "bc"), id("ab", "c"));
        assert_ne!(id("a", "b"), id("b", "a"));
        assert_eq!(id("a", "b"), id("a", "b"));
    }
}
