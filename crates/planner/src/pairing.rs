//! Which live object belongs to which wanted object, and which belong to none?

use std::collections::{HashMap, HashSet};

use tidegate_model::{LiveRef, Object, ObjectKey};

use crate::tracking;

/// The live objects of one plan, by key.
#[derive(Debug, Default)]
pub(crate) struct Live<'l> {
    by_key: HashMap<Key<'l>, &'l Object>,
    /// Those that are not pruned: somebody still wants them.
    kept: HashSet<Key<'l>>,
}

/// Group, kind, namespace and name: a key without copies of its texts.
type Key<'l> = [&'l str; 4];

fn borrowed(key: &ObjectKey) -> Key<'_> {
    [&key.group, &key.kind, &key.namespace, &key.name]
}

fn key_of(object: &Object) -> Key<'_> {
    [object.group(), object.kind(), object.namespace(), object.name()]
}

impl<'l> Live<'l> {
    /// Indexes live objects.
    pub fn new(objects: &'l [Object]) -> Self {
        let by_key = objects.iter().map(|object| (key_of(object), object)).collect();
        Self { by_key, kept: HashSet::new() }
    }

    /// The object under a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&'l Object> {
        self.find_by(borrowed(key))
    }

    /// The live object of a wanted one. Where nobody knows the scope of the kind, the key with the namespace is tried
    /// first, then the one without.
    pub fn find(&self, key: &ObjectKey, namespaced: Option<bool>) -> Option<&'l Object> {
        self.get(key).or_else(|| match namespaced {
            None => self.find_by([&key.group, &key.kind, "", &key.name]),
            Some(_) => None,
        })
    }

    fn find_by(&self, key: Key<'_>) -> Option<&'l Object> {
        self.by_key.get(&key).copied()
    }

    /// Keeps the live object of a wanted one from being pruned.
    pub fn keep(&mut self, key: &ObjectKey, namespaced: Option<bool>) {
        if let Some(live) = self.find(key, namespaced) {
            self.kept.insert(key_of(live));
        }
    }

    /// The objects of the application that nobody wants any more, in the order of their keys: tracked by it, owned by no
    /// other object, and not another face of a wanted one.
    pub fn extraneous(&self, application: &str) -> Vec<&'l Object> {
        let candidate = |(key, object): &(&Key<'l>, &&'l Object)| {
            !self.kept.contains(*key) && !object.has_owner() && tracking::belongs_to(object, application)
        };
        let mut candidates: Vec<(&Key<'l>, &&'l Object)> = self.by_key.iter().filter(candidate).collect();
        candidates.sort_unstable_by_key(|(key, _)| **key);
        // One object may be served by two groups; it must not be deleted under one key while wanted under the other.
        let kept = self.kept.iter().filter_map(|key| self.find_by(*key));
        let mut seen: HashSet<&str> = kept.map(Object::uid).filter(|uid| !uid.is_empty()).collect();
        let mut extraneous = Vec::new();
        for (_, object) in candidates {
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
