//! Functions shared by several controllers: creating dependents, counting pods, and updating the status.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use crate::sim::behavior::{Behavior, FAIL_TIMES, Outcome};
use crate::sim::delete::is_pod;
use crate::sim::json::{digest, has_condition, map_at};
use crate::sim::objects::StoredObject;
use crate::sim::rng::format_name_letters;
use crate::sim::{SimState, defaults};

/// Content of a dependent to create.
pub(crate) struct Child {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) labels: Map<String, Value>,
    pub(crate) annotations: Map<String, Value>,
    pub(crate) spec: Value,
}

/// A pod, as seen by its owner's controller.
#[derive(Clone, Debug)]
pub(crate) struct PodView {
    pub(crate) key: ObjectKey,
    pub(crate) created_at: Timestamp,
    pub(crate) is_deleting: bool,
    pub(crate) is_ready: bool,
    /// True if the pod has been ready for `minReadySeconds`.
    pub(crate) is_available: bool,
    /// Time at which the pod becomes available if nothing else changes.
    pub(crate) available_at: Timestamp,
    pub(crate) phase: String,
    /// Hash of the pod's template.
    pub(crate) hash: String,
}

/// Label with the hash of a pod's template.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";
/// Label with the template hash, for kinds that count revisions.
pub(crate) const REVISION_HASH: &str = "controller-revision-hash";

impl SimState {
    /// Returns the behavior configured by an object's annotations. The outcome is `Fail` if `fail-times`
    /// makes this creation of the object fail.
    pub(crate) fn behavior_of(&self, stored: &StoredObject) -> Behavior {
        let mut behavior = Behavior::from_object(&stored.object);
        if stored.fails {
            behavior.outcome = Some(Outcome::Fail);
        }
        behavior
    }

    /// Writes the status of an object if it has changed. Wakes the controllers of the object's owners, but
    /// not its own controller.
    pub(crate) fn set_status(&mut self, key: &ObjectKey, status: Value) {
        let Some(stored) = self.find(key) else { return };
        if stored.object.pointer("/status") == Some(&status) {
            return;
        }
        let mut object = (*stored.object).clone();
        object.fields_mut().insert("status".to_owned(), status);
        self.update(key, object, false);
    }

    /// Changes one field of an object's spec on behalf of its owner's controller.
    pub(crate) fn set_spec(&mut self, key: &ObjectKey, field: &str, value: Value) {
        let Some(stored) = self.find(key) else { return };
        if stored.object.pointer("/spec").and_then(|spec| spec.get(field)) == Some(&value) {
            return;
        }
        let mut object = (*stored.object).clone();
        object.section_mut("spec").insert(field.to_owned(), value);
        let generation = object.generation() + 1;
        object.metadata_mut().insert("generation".to_owned(), generation.into());
        self.update(key, object, true);
    }

    /// Creates a dependent of an object. Does nothing if the name is already in use or the namespace is being
    /// deleted.
    pub(crate) fn create_child(&mut self, owner: &Object, child: Child) {
        let manifest = json!({
            "apiVersion": child.api_version,
            "kind": child.kind,
            "metadata": {
                "name": child.name,
                "namespace": owner.namespace(),
                "labels": child.labels,
                "annotations": child.annotations,
                "ownerReferences": [{
                    "apiVersion": owner.text("/apiVersion"), "kind": owner.kind(), "name": owner.name(),
                    "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": child.spec,
        });
        if let Ok(object) = Object::try_from(manifest) {
            self.admit_object(object);
        }
    }

    /// Adds an object created by a controller. Does nothing if the object's name is already in use, or if its
    /// namespace doesn't exist or is being deleted.
    pub(crate) fn admit_object(&mut self, mut object: Object) {
        let key = object.key();
        if self.find(&key).is_some() || self.check_namespace(&key).is_err() {
            return;
        }
        for section in ["annotations", "labels"] {
            let empty = object.pointer(&format!("/metadata/{section}")) == Some(&json!({}));
            if empty {
                object.metadata_mut().remove(section);
            }
        }
        defaults::fill_defaults(&key, &mut object, String::new);
        self.assign_identity(&key, &mut object);
        self.create_object(key, object);
    }

    /// Creates a pod from the owner's `spec.template`.
    pub(crate) fn create_pod(&mut self, owner: &StoredObject, name: String, extra_labels: &[(&str, &str)]) {
        let object = &owner.object;
        let mut labels = map_at(object, "/spec/template/metadata/labels");
        labels.extend(extra_labels.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
        let annotations =
            self.inherit_annotations(owner, map_at(object, "/spec/template/metadata/annotations"));
        let spec = object.pointer("/spec/template/spec").cloned().unwrap_or(Value::Null);
        self.create_child(object, Child { api_version: "v1", kind: "Pod", name, labels, annotations, spec });
    }

    /// Returns a dependent's annotations: its own, and the owner's annotations that control its behavior.
    pub(crate) fn inherit_annotations(
        &self,
        owner: &StoredObject,
        mut own: Map<String, Value>,
    ) -> Map<String, Value> {
        let behavior = self.behavior_of(owner);
        own.extend(behavior.child_annotations().map(|(name, value)| (name.to_owned(), value.into())));
        // Don't count failures again, because they were counted when the owner was created.
        own.remove(FAIL_TIMES);
        own
    }

    /// Returns the pods of an owner, ordered by name.
    pub(crate) fn pods_of(&self, uid: &str, min_ready: std::time::Duration) -> Vec<PodView> {
        let pods = self.children(uid).filter(|(key, _)| is_pod(key));
        pods.map(|(key, stored)| self.pod_view(key, stored, min_ready)).collect()
    }

    fn pod_view(&self, key: &ObjectKey, stored: &StoredObject, min_ready: std::time::Duration) -> PodView {
        let object = &stored.object;
        let is_ready = has_condition(object, "Ready", "True");
        let ready_after = Behavior::from_object(object).ready_after.unwrap_or(self.config.ready_after);
        let available_at = stored.created_at + ready_after + min_ready;
        let hash = [TEMPLATE_HASH, REVISION_HASH].iter().find_map(|label| object.label(label));
        PodView {
            key: key.clone(),
            created_at: stored.created_at,
            is_deleting: object.is_deleting(),
            is_ready,
            is_available: is_ready && available_at <= self.now,
            available_at,
            phase: object.text("/status/phase").to_owned(),
            hash: hash.unwrap_or_default().to_owned(),
        }
    }

    /// Returns the hash of a pod template together with the configured behavior of its pods.
    pub(crate) fn template_hash(&self, owner: &StoredObject) -> String {
        let template = owner.object.pointer("/spec/template").unwrap_or(&Value::Null);
        let behavior: Vec<_> = self
            .behavior_of(owner)
            .child_annotations()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format_name_letters(digest(&json!([template, behavior])), 9)
    }
}

/// Returns `spec.minReadySeconds`.
pub(crate) fn min_ready_duration(object: &Object) -> std::time::Duration {
    let seconds = object.integer("/spec/minReadySeconds").unwrap_or(0);
    std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Returns the earliest time at which a ready pod becomes available.
pub(crate) fn next_available_at(pods: &[PodView]) -> Option<Timestamp> {
    pods.iter().filter(|pod| pod.is_ready && !pod.is_available).map(|pod| pod.available_at).min()
}
