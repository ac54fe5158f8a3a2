//! Where an application's operations put objects, per cluster: so that what may be pruned is found without
//! searching the cluster.
//!
//! An inventory may name places where nothing is; it must never leave out one that an operation of its log wrote to, and
//! it holds no place that is not the application's beyond doubt. So it is written together with the plan, before anything
//! is done, it outlives the operations it comes from, and when in doubt it is dropped as a whole: the cluster is then
//! searched when that matters.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_model::{Gvk, StreamId};
use uuid::Uuid;

/// Places of objects: kind, namespace (empty for cluster-scoped ones) and name.
pub type Inventory = BTreeSet<(Gvk, String, String)>;

/// An inventory, and what it can be relied on for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Where the application has or may get objects.
    pub places: Inventory,
    /// The whole cluster was searched: besides these places the application had nothing.
    pub searched: bool,
}

/// What changes in the inventory of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryUpdate {
    /// Name of the application.
    pub application: String,
    /// The cluster, by a name that means this one always.
    pub cluster: String,
    /// The changes, in order.
    pub changes: Vec<InventoryChange>,
}

/// What becomes of the places that are known of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InventoryChange {
    /// All places the application has or may get objects in, as a search of the whole cluster and a plan say: begins an
    /// inventory, or adds to the one there is.
    Begin(Inventory),
    /// Places the application has or may get objects in, among others that nobody searched for: begins an inventory, or
    /// adds to the one there is.
    Extend(Inventory),
    /// Places that were emptied, whatever version of their kind they were noted with.
    Forget(Inventory),
}

impl InventoryChange {
    /// The inventory after this change; `None` when it stays as it is.
    pub(crate) fn apply(&self, before: Option<&Known>) -> Option<Known> {
        let is_search = matches!(self, Self::Begin(_));
        match (self, before) {
            (Self::Begin(places) | Self::Extend(places), None) => {
                Some(Known { places: places.clone(), searched: is_search })
            }
            (Self::Begin(places) | Self::Extend(places), Some(before)) => {
                let searched = before.searched || is_search;
                let changes = searched != before.searched || !places.is_subset(&before.places);
                changes.then(|| Known { places: &before.places | places, searched })
            }
            (Self::Forget(places), Some(Known { places: before, searched })) => {
                let gone: BTreeSet<_> = places.iter().map(whatever_version).collect();
                let left: Inventory =
                    before.iter().filter(|place| !gone.contains(&whatever_version(place))).cloned().collect();
                (left.len() < before.len()).then_some(Known { places: left, searched: *searched })
            }
            (Self::Forget(_), None) => None,
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
    pub(crate) known: Known,
}

/// What an inventory is filed under.
pub(crate) fn id(cluster: &str, application: &str) -> StreamId {
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
    fn changes_never_leave_a_place_out() {
        let (a, b, ab) = (places(&["a"]), places(&["b"]), places(&["a", "b"]));
        let known = |places: &Inventory, searched| Known { places: places.clone(), searched };
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
    fn ids_keep_clusters_and_applications_apart() {
        assert_ne!(id("a", "bc"), id("ab", "c"));
        assert_ne!(id("a", "b"), id("b", "a"));
        assert_eq!(id("a", "b"), id("a", "b"));
    }
}
