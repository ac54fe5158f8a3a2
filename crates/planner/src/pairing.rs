//! Matching of live objects to targets.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_model::{LiveObject, LiveRef, Object, ObjectKey, SyncRequest};

/// Live objects of one plan, indexed by key.
#[derive(Debug, Default)]
pub(crate) struct LiveIndex<'l> {
    objects: &'l [LiveObject],
    /// Indices of the objects, by key.
    by_key: HashMap<KeyRef<'l>, usize>,
    /// For each object, true if it has a target and therefore isn't pruned.
    has_target: Vec<bool>,
}

/// An object's key with borrowed strings: group, kind, namespace and name.
type KeyRef<'l> = [&'l str; 4];

fn key_ref(key: &ObjectKey) -> KeyRef<'_> {
    [&key.group, &key.kind, &key.namespace, &key.name]
}

impl<'l> LiveIndex<'l> {
    /// Indexes live objects by key, initially without targets.
    pub fn new(objects: &'l [LiveObject]) -> Self {
        let by_key = objects.iter().map(|object| key_ref(object.key())).zip(0..).collect();
        Self { objects, by_key, has_target: vec![false; objects.len()] }
    }

    /// Returns the object with the given key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(*self.by_key.get(&key_ref(key))?).map(LiveObject::unpack)
    }

    /// Returns the live object for a target. If the kind's scope is unknown, tries the key with the namespace
    /// first, then without.
    pub fn find(&self, key: &ObjectKey, namespaced: Option<bool>) -> Option<Arc<Object>> {
        self.objects.get(self.position(key, namespaced)?).map(LiveObject::unpack)
    }

    fn position(&self, key: &ObjectKey, namespaced: Option<bool>) -> Option<usize> {
        let clustered = || match namespaced {
            None => self.by_key.get(&[&key.group, &key.kind, "", &key.name]),
            Some(_) => None,
        };
        self.by_key.get(&key_ref(key)).or_else(clustered).copied()
    }

    /// Marks a target's live object so that it isn't pruned.
    pub fn mark_has_target(&mut self, key: &ObjectKey, namespaced: Option<bool>) {
        if let Some(kept) = self.position(key, namespaced).and_then(|live| self.has_target.get_mut(live)) {
            *kept = true;
        }
    }

    /// Returns the application's extraneous objects in key order: tracked objects without an owner reference,
    /// except targets under another API group.
    pub fn extraneous(&self, request: &SyncRequest) -> Vec<Arc<Object>> {
        let is_kept = |position: usize| self.has_target.get(position).copied().unwrap_or(false);
        let candidates = self.by_key.iter().filter(|(_, position)| !is_kept(**position));
        let mut candidates: Vec<(KeyRef<'l>, Arc<Object>)> = candidates
            .filter_map(|(key, position)| Some((*key, self.objects.get(*position)?.unpack())))
            .filter(|(_, object)| request.tracking.can_prune(&request.application, object))
            .collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        candidates.sort_unstable_by_key(|(key, _)| *key);
        // Two API groups may serve the same object. If it has a target under one key, it must not be deleted
        // under the other.
        let kept = self.objects.iter().zip(&self.has_target).filter(|(_, is_kept)| **is_kept);
        let mut seen: HashSet<String> =
            kept.map(|(object, _)| object.uid().to_owned()).filter(|uid| !uid.is_empty()).collect();
        let mut extraneous = Vec::new();
        for (_, object) in candidates {
            if object.uid().is_empty() || seen.insert(object.uid().to_owned()) {
                extraneous.push(object);
            }
        }
        extraneous
    }
}

/// Returns the reference to a live object, as stored in a plan.
pub(crate) fn live_ref(live: &Object) -> LiveRef {
    LiveRef {
        uid: live.uid().to_owned(),
        resource_version: live.resource_version().to_owned(),
        generation: live.generation(),
    }
}
