//! All objects, by group, kind, namespace and name. Found without copying a key, and in order of their keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_model::{GroupKind, Object, ObjectKey, Timestamp};

use super::ownership;

/// An object and what the simulation knows of it beyond its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) key: ObjectKey,
    pub(crate) object: Arc<Object>,
    /// `creationTimestamp` to the millisecond.
    pub(crate) created_at: Timestamp,
    /// When the generation last changed.
    pub(crate) changed_at: Timestamp,
    /// This object was created among the first `fail-times`, so it fails.
    pub(crate) fails: bool,
    /// A pod that is ending is kept until then.
    pub(crate) held_until: Option<Timestamp>,
}

impl Stored {
    /// The same, with its object as the cluster holds it.
    pub(crate) fn shortened(mut self) -> Self {
        self.object = Arc::new(ownership::shortened(Arc::unwrap_or_clone(self.object)));
        self
    }
}

type ByName = BTreeMap<String, Stored>;
type ByNamespace = BTreeMap<String, ByName>;
type ByKind = BTreeMap<String, ByNamespace>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Objects(BTreeMap<String, ByKind>);

impl Objects {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Stored> {
        self.0.get(&key.group)?.get(&key.kind)?.get(&key.namespace)?.get(&key.name)
    }

    pub(crate) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Stored> {
        self.0.get_mut(&key.group)?.get_mut(&key.kind)?.get_mut(&key.namespace)?.get_mut(&key.name)
    }

    /// Puts an object where its key says; returns what was there.
    pub(crate) fn insert(&mut self, stored: Stored) -> Option<Stored> {
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

    /// Takes an object out. Maps left empty stay: there are as many as kinds and namespaces that were ever used.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Stored> {
        self.0.get_mut(&key.group)?.get_mut(&key.kind)?.get_mut(&key.namespace)?.remove(&key.name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stored> {
        self.0.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }

    pub(crate) fn of_kind(&self, kind: &GroupKind) -> impl Iterator<Item = &Stored> + use<'_> {
        let found = self.0.get(&kind.group).and_then(|kinds| kinds.get(&kind.kind));
        found.into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }
}

/// A list of all objects: JSON has no keys of several parts.
impl Serialize for Objects {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl FromIterator<Stored> for Objects {
    fn from_iter<I: IntoIterator<Item = Stored>>(all: I) -> Self {
        let mut objects = Self::default();
        for stored in all {
            objects.insert(stored);
        }
        objects
    }
}
