//! What controllers have in common: making children, counting pods, writing status.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use crate::sim::behaviour::{Behaviour, FAIL_TIMES, Outcome};
use crate::sim::delete::is_pod;
use crate::sim::json::{digest, has_condition, map_at};
use crate::sim::objects::Stored;
use crate::sim::rng::letters;
use crate::sim::{SimState, defaults};

/// What a child is made of.
pub(crate) struct Child {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) labels: Map<String, Value>,
    pub(crate) annotations: Map<String, Value>,
    pub(crate) spec: Value,
}

/// A pod of an owner, as its controller sees it.
#[derive(Clone, Debug)]
pub(crate) struct PodView {
    pub(crate) key: ObjectKey,
    pub(crate) created_at: Timestamp,
    pub(crate) deleting: bool,
    pub(crate) ready: bool,
    /// Ready for `minReadySeconds`.
    pub(crate) available: bool,
    /// When it will be available, when that is only a matter of time.
    pub(crate) available_at: Timestamp,
    pub(crate) phase: String,
    /// The template it was made from.
    pub(crate) hash: String,
}

/// The label that says which template a pod was made from.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";
/// The same for the kinds that count revisions.
pub(crate) const REVISION_HASH: &str = "controller-revision-hash";

impl SimState {
    /// How an object behaves: as its annotations say, and failing if it is among the first that fail.
    pub(crate) fn behaviour(&self, stored: &Stored) -> Behaviour {
        let mut behaviour = Behaviour::of(&stored.object);
        if stored.fails {
            behaviour.outcome = Some(Outcome::Fail);
        }
        behaviour
    }

    /// Writes an object's status, if it is another one. Its own controller is not woken by it, its owners' are.
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

    /// Creates an object owned by another. Nothing happens where the name is taken or the namespace is ending.
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
            self.admit(object);
        }
    }

    /// Puts an object that a controller made into the world, if there is room for it.
    pub(crate) fn admit(&mut self, mut object: Object) {
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
        defaults::fill_in(&key, &mut object, String::new);
        self.give_identity(&key, &mut object);
        self.create(key, object);
    }

    /// Creates a pod from the template at `/spec/template` of its owner.
    pub(crate) fn create_pod(&mut self, owner: &Stored, name: String, extra_labels: &[(&str, &str)]) {
        let object = &owner.object;
        let mut labels = map_at(object, "/spec/template/metadata/labels");
        labels.extend(extra_labels.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
        let annotations = self.inherited(owner, map_at(object, "/spec/template/metadata/annotations"));
        let spec = object.pointer("/spec/template/spec").cloned().unwrap_or(Value::Null);
        self.create_child(object, Child { api_version: "v1", kind: "Pod", name, labels, annotations, spec });
    }

    /// A child's annotations: its own, and those that make it behave as its owner does.
    pub(crate) fn inherited(&self, owner: &Stored, mut own: Map<String, Value>) -> Map<String, Value> {
        let behaviour = self.behaviour(owner);
        own.extend(behaviour.annotations().map(|(name, value)| (name.to_owned(), value.into())));
        // How often the owner fails was decided when it was created.
        own.remove(FAIL_TIMES);
        own
    }

    /// The pods an owner has, in order of their names.
    pub(crate) fn pods_of(&self, uid: &str, min_ready: std::time::Duration) -> Vec<PodView> {
        let pods = self.children(uid).filter(|(key, _)| is_pod(key));
        pods.map(|(key, stored)| self.view(key, stored, min_ready)).collect()
    }

    fn view(&self, key: &ObjectKey, stored: &Stored, min_ready: std::time::Duration) -> PodView {
        let object = &stored.object;
        let ready = has_condition(object, "Ready", "True");
        let ready_after = Behaviour::of(object).ready_after.unwrap_or(self.config.ready_after);
        let available_at = stored.created_at + ready_after + min_ready;
        let hash = [TEMPLATE_HASH, REVISION_HASH].iter().find_map(|label| object.label(label));
        PodView {
            key: key.clone(),
            created_at: stored.created_at,
            deleting: object.is_deleting(),
            ready,
            available: ready && available_at <= self.now,
            available_at,
            phase: object.text("/status/phase").to_owned(),
            hash: hash.unwrap_or_default().to_owned(),
        }
    }

    /// What tells one template from another: the pod template, and how its pods are to behave.
    pub(crate) fn template_hash(&self, owner: &Stored) -> String {
        let template = owner.object.pointer("/spec/template").unwrap_or(&Value::Null);
        let behaviour: Vec<_> =
            self.behaviour(owner).annotations().map(|(name, value)| format!("{name}={value}")).collect();
        letters(digest(&json!([template, behaviour])), 9)
    }
}

/// `spec.minReadySeconds`.
pub(crate) fn min_ready(object: &Object) -> std::time::Duration {
    let seconds = object.integer("/spec/minReadySeconds").unwrap_or(0);
    std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// When the first pod that is ready but not yet available becomes so.
pub(crate) fn next_available(pods: &[PodView]) -> Option<Timestamp> {
    pods.iter().filter(|pod| pod.ready && !pod.available).map(|pod| pod.available_at).min()
}
