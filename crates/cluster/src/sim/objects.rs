//! All objects, by group, kind, namespace and name. Lookups don't copy keys, and iteration is in key order.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_model::{GroupKind, Object, ObjectKey, Timestamp};

/// An object with additional state for the simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredObject {
    pub(crate) key: ObjectKey,
    pub(crate) object: Arc<Object>,
    /// `creationTimestamp` in milliseconds.
    pub(crate) created_at: Timestamp,
    /// Time of the last generation change.
    pub(crate) changed_at: Timestamp,
    /// True if `fail-times` makes this creation of the object fail.
    pub(crate) fails: bool,
    /// End of a terminating pod's grace period.
    pub(crate) held_until: Option<Timestamp>,
}

type ByName = BTreeMap<String, StoredObject>;
type ByNamespace = BTreeMap<String, ByName>;
type ByKind = BTreeMap<String, ByNamespace>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Objects(BTreeMap<String, ByKind>);

impl Objects {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&StoredObject> {
        self.0.get(&key.group)?.get(&key.kind)?.get(&key.namespace)?.get(&key.name)
    }

    pub(crate) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut StoredObject> {
        self.0.get_mut(&key.group)?.get_mut(&key.kind)?.get_mut(&key.namespace)?.get_mut(&key.name)
    }

    /// Inserts an object under its key. Returns the previous object with this key.
    pub(crate) fn insert(&mut self, stored: StoredObject) -> Option<StoredObject> {
        let ObjectKey { group, kind, namespace, name } = stored.key.clone();
        self.0
            .entry(group)
            .or_default()
            .entry(kind)
            .or_default()
            .entry(namespace)
            .or_default()
            .insert(name, stored)
    }

    /// Removes an object. Leaves empty maps in place, because their number is limited by the kinds and
    /// namespaces that have been used.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<StoredObject> {
        self.0.get_mut(&key.group)?.get_mut(&key.kind)?.get_mut(&key.namespace)?.remove(&key.name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StoredObject> {
        self.0.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }

    pub(crate) fn of_kind(&self, kind: &GroupKind) -> impl Iterator<Item = &StoredObject> + use<'_> {
        let found = self.0.get(&kind.group).and_then(|kinds| kinds.get(&kind.kind));
        found.into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }
}

/// Serializes the objects as a list, because JSON does not support composite keys.
impl Serialize for Objects {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl FromIterator<StoredObject> for Objects {
    fn from_iter<I: IntoIterator<Item = StoredObject>>(all: I) -> Self {
        let mut objects = Self::default();
        for stored in all {
            objects.insert(stored);
        }
        objects
    }
}
