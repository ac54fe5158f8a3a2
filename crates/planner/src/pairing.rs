//! Which live object belongs to which wanted object, and which belong to none?

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{LiveRef, Object, ObjectKey};

use crate::tracking;

/// The live objects of one plan, by key.
#[derive(Debug, Default)]
pub(crate) struct Live<'l> {
    by_key: BTreeMap<ObjectKey, &'l Object>,
}

impl<'l> Live<'l> {
    /// Indexes live objects.
    pub fn new(objects: &'l [Object]) -> Self {
        Self { by_key: objects.iter().map(|object| (object.key(), object)).collect() }
    }

    /// The object under a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&'l Object> {
        self.by_key.get(key).copied()
    }

    /// The live object of a wanted one. Where nobody knows the scope of the kind, the key with the namespace is tried
    /// first, then the one without.
    pub fn find(&self, key: &ObjectKey, namespaced: Option<bool>) -> Option<&'l Object> {
        self.get(key).or_else(|| match namespaced {
            None => self.get(&ObjectKey { namespace: String::new(), ..key.clone() }),
            Some(_) => None,
        })
    }

    /// The objects of the application that nobody wants any more: tracked by it, owned by no other object, and not
    /// another face of a wanted one.
    pub fn extraneous(&self, application: &str, wanted: &BTreeSet<ObjectKey>) -> Vec<&'l Object> {
        let candidate = |(key, object): &(&ObjectKey, &&'l Object)| {
            !wanted.contains(key) && !object.has_owner() && tracking::belongs_to(object, application)
        };
        // One object may be served by two groups; it must not be deleted under one key while wanted under the other.
        let mut seen: BTreeSet<&str> = wanted
            .iter()
            .filter_map(|key| self.get(key))
            .map(Object::uid)
            .filter(|uid| !uid.is_empty())
            .collect();
        let mut extraneous = Vec::new();
        for (_, object) in self.by_key.iter().filter(candidate) {
            if object.uid().is_empty() || seen.insert(object.uid()) {
                extraneous.push(*object);
            }
        }
        extraneous
    }
}

/// What a plan remembers of a live object.
pub(crate) fn live_ref(live: &Object) -> LiveRef {
    LiveRef {
        uid: live.uid().to_owned(),
        resource_version: live.resource_version().to_owned(),
        generation: live.generation(),
    }
}
