//! Which live object belongs to which wanted object, and which belong to none?

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_model::{LiveObject, LiveRef, Object, ObjectKey, SyncRequest};

/// The live objects of one plan, by key.
#[derive(Debug, Default)]
pub(crate) struct Live<'l> {
    objects: &'l [LiveObject],
    /// Positions of the objects.
    by_key: HashMap<Key<'l>, usize>,
    /// By position: objects that are not pruned, because somebody still wants them.
    kept: Vec<bool>,
}

/// Group, kind, namespace and name: a key without copies of its texts.
type Key<'l> = [&'l str; 4];

fn borrowed(key: &ObjectKey) -> Key<'_> {
    [&key.group, &key.kind, &key.namespace, &key.name]
}

impl<'l> Live<'l> {
    /// Live objects, to be found by their keys; none of them is kept yet.
    pub fn new(objects: &'l [LiveObject]) -> Self {
        let by_key = objects.iter().map(|object| borrowed(object.key())).zip(0..).collect();
        Self { objects, by_key, kept: vec![false; objects.len()] }
    }

    /// The object under a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(*self.by_key.get(&borrowed(key))?).map(LiveObject::unpack)
    }

    /// The live object of a wanted one. Where nobody knows the scope of the kind, the key with the namespace is tried
    /// first, then the one without.
    pub fn find(&self, key: &ObjectKey, namespaced: Option<bool>) -> Option<Arc<Object>> {
        self.objects.get(self.position(key, namespaced)?).map(LiveObject::unpack)
    }

    fn position(&self, key: &ObjectKey, namespaced: Option<bool>) -> Option<usize> {
        let clustered = || match namespaced {
            None => self.by_key.get(&[&key.group, &key.kind, "", &key.name]),
            Some(_) => None,
        };
        self.by_key.get(&borrowed(key)).or_else(clustered).copied()
    }

    /// Keeps the live object of a wanted one from being pruned.
    pub fn keep(&mut self, key: &ObjectKey, namespaced: Option<bool>) {
        if let Some(kept) = self.position(key, namespaced).and_then(|live| self.kept.get_mut(live)) {
            *kept = true;
        }
    }

    /// The objects of the application that nobody wants any more, in the order of their keys: tracked by it, owned by no
    /// other object, and not another face of a wanted one.
    pub fn extraneous(&self, request: &SyncRequest) -> Vec<Arc<Object>> {
        let is_kept = |position: usize| self.kept.get(position).copied().unwrap_or(false);
        let candidates = self.by_key.iter().filter(|(_, position)| !is_kept(**position));
        let mut candidates: Vec<(Key<'l>, Arc<Object>)> = candidates
            .filter_map(|(key, position)| Some((*key, self.objects.get(*position)?.unpack())))
            .filter(|(_, object)| request.tracking.is_root(&request.application, object))
            .collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        candidates.sort_unstable_by_key(|(key, _)| *key);
        // One object may be served by two groups; it must not be deleted under one key while wanted under the other.
        let kept = self.objects.iter().zip(&self.kept).filter(|(_, is_kept)| **is_kept);
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

/// What a plan remembers of a live object.
pub(crate) fn live_ref(live: &Object) -> LiveRef {
    LiveRef {
        uid: live.uid().to_owned(),
        resource_version: live.resource_version().to_owned(),
        generation: live.generation(),
    }
}
