//! Ways to find objects without looking at all of them. Derived from the objects, and never kept on disk.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_model::{Object, ObjectKey, annotations};

use super::json::field;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Index {
    /// What each owner's UID owns.
    children: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// What carries each application in its tracking id.
    tracked: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// What carries each application in the label that says so unless another is chosen.
    labelled: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// How many objects are in each namespace.
    population: BTreeMap<String, usize>,
}

impl Index {
    pub(crate) fn add(&mut self, key: &ObjectKey, object: &Object) {
        *self.population.entry(key.namespace.clone()).or_default() += 1;
        self.link(key, object);
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey, object: &Object) {
        if let Some(count) = self.population.get_mut(&key.namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.population.remove(&key.namespace);
            }
        }
        self.unlink(key, object);
    }

    pub(crate) fn change(&mut self, key: &ObjectKey, before: &Object, after: &Object) {
        let is_marked_alike =
            application(before) == application(after) && instance(before) == instance(after);
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

    pub(crate) fn labelled(&self, application: &str) -> impl Iterator<Item = &ObjectKey> {
        self.labelled.get(application).into_iter().flatten()
    }

    /// How many objects are in a namespace.
    pub(crate) fn population(&self, namespace: &str) -> usize {
        self.population.get(namespace).copied().unwrap_or(0)
    }

    fn link(&mut self, key: &ObjectKey, object: &Object) {
        for uid in owner_uids(object) {
            self.children.entry(uid.to_owned()).or_default().insert(key.clone());
        }
        if let Some(application) = application(object) {
            self.tracked.entry(application.to_owned()).or_default().insert(key.clone());
        }
        if let Some(application) = instance(object) {
            self.labelled.entry(application.to_owned()).or_default().insert(key.clone());
        }
    }

    fn unlink(&mut self, key: &ObjectKey, object: &Object) {
        for uid in owner_uids(object) {
            take(&mut self.children, uid, key);
        }
        if let Some(application) = application(object) {
            take(&mut self.tracked, application, key);
        }
        if let Some(application) = instance(object) {
            take(&mut self.labelled, application, key);
        }
    }
}

fn take(map: &mut BTreeMap<String, BTreeSet<ObjectKey>>, name: &str, key: &ObjectKey) {
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

/// The application part of the tracking id.
fn application(object: &Object) -> Option<&str> {
    object.annotation(annotations::TRACKING_ID)?.split_once(':').map(|(application, _)| application)
}

/// The value of the usual label.
fn instance(object: &Object) -> Option<&str> {
    object.label(annotations::INSTANCE_LABEL)
}
