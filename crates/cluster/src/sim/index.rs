//! Indexes derived from the objects, never stored on disk.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_model::{Object, ObjectKey, annotations};

use super::json::field;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Index {
    /// Dependents, by the UID of their owner.
    children: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Objects, by the application in their tracking ID.
    tracked: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Objects, by the application in their default tracking label.
    labeled: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Number of objects in each namespace.
    object_counts: BTreeMap<String, usize>,
}

impl Index {
    pub(crate) fn add(&mut self, key: &ObjectKey, object: &Object) {
        *self.object_counts.entry(key.namespace.clone()).or_default() += 1;
        self.link(key, object);
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey, object: &Object) {
        if let Some(count) = self.object_counts.get_mut(&key.namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.object_counts.remove(&key.namespace);
            }
        }
        self.unlink(key, object);
    }

    pub(crate) fn update(&mut self, key: &ObjectKey, before: &Object, after: &Object) {
        let is_marked_alike = tracking_application(before) == tracking_application(after)
            && instance_label(before) == instance_label(after);
        if !is_marked_alike || !owner_uids(before).eq(owner_uids(after)) {
            self.unlink(key, before);
            self.link(key, after);
        }
    }

    pub(crate) fn children(&self, uid: &str) -> impl Iterator<Item = &ObjectKey> {
        self.children.get(uid).into_iter().flatten()
    }

    pub(crate) fn tracked(&self, application: &str) -> impl Iterator<Item = &ObjectKey> {
        self.tracked.get(application).into_iter().flatten()
    }

    pub(crate) fn labeled(&self, application: &str) -> impl Iterator<Item = &ObjectKey> {
        self.labeled.get(application).into_iter().flatten()
    }

    /// Returns the number of objects in a namespace.
    pub(crate) fn object_count(&self, namespace: &str) -> usize {
        self.object_counts.get(namespace).copied().unwrap_or(0)
    }

    fn link(&mut self, key: &ObjectKey, object: &Object) {
        for uid in owner_uids(object) {
            self.children.entry(uid.to_owned()).or_default().insert(key.clone());
        }
        if let Some(application) = tracking_application(object) {
            self.tracked.entry(application.to_owned()).or_default().insert(key.clone());
        }
        if let Some(application) = instance_label(object) {
            self.labeled.entry(application.to_owned()).or_default().insert(key.clone());
        }
    }

    fn unlink(&mut self, key: &ObjectKey, object: &Object) {
        for uid in owner_uids(object) {
            remove_key(&mut self.children, uid, key);
        }
        if let Some(application) = tracking_application(object) {
            remove_key(&mut self.tracked, application, key);
        }
        if let Some(application) = instance_label(object) {
            remove_key(&mut self.labeled, application, key);
        }
    }
}

fn remove_key(map: &mut BTreeMap<String, BTreeSet<ObjectKey>>, name: &str, key: &ObjectKey) {
    if let Some(keys) = map.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(name);
        }
    }
}

fn owner_uids(object: &Object) -> impl Iterator<Item = &str> {
    let owners = field(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().filter_map(|owner| owner.get("uid")?.as_str())
}

/// Returns the application in the object's tracking ID.
fn tracking_application(object: &Object) -> Option<&str> {
    object.annotation(annotations::TRACKING_ID)?.split_once(':').map(|(application, _)| application)
}

/// Returns the value of the default tracking label.
fn instance_label(object: &Object) -> Option<&str> {
    object.label(annotations::INSTANCE_LABEL)
}
