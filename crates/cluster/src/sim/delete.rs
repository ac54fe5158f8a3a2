//! How objects go: deletion, finalizers, what keeps an object and who finally removes it.

use serde_json::Value;
use tidegate_model::ObjectKey;

use super::admission::is_namespace;
use super::behaviour::{Behaviour, Outcome};
use super::json::is_deleting;
use super::{SimState, kinds, refuse};
use crate::{ClusterError, DeleteRequest, Deleted, Propagation};

/// Keeps an owner until what it owns is gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an owner until what it owns is let go.
pub(crate) const ORPHAN: &str = "orphan";
/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Keeps an object for ever that is annotated to be stuck. Removing it by hand frees the object, as in real life.
pub const STUCK: &str = "sim.tidegate.dev/stuck-deleting";
/// Namespaces that cannot be deleted.
const PERMANENT: [&str; 2] = ["default", "kube-system"];

impl SimState {
    /// A deletion asked for from outside.
    pub(crate) fn delete_object(&mut self, request: &DeleteRequest) -> Result<Deleted, ClusterError> {
        let key = self.key_of(&request.gvk, &request.namespace, &request.name)?;
        let Some(stored) = self.find(&key) else { return Err(refuse::not_found(&key)) };
        let found = stored.object.uid();
        if !request.uid.is_empty() && request.uid != found {
            let wanted = &request.uid;
            return Err(refuse::another_uid(&key, wanted, found));
        }
        let found = stored.object.resource_version();
        if !request.resource_version.is_empty() && request.resource_version != found {
            return Err(refuse::another_version(&key, &request.resource_version, found));
        }
        if is_namespace(&key) && PERMANENT.contains(&key.name.as_str()) {
            return Err(refuse::forbidden(&key, "this namespace may not be deleted"));
        }
        if request.dry_run {
            return Ok(if self.is_kept(&key, request.propagation) {
                Deleted::Deleting
            } else {
                Deleted::Gone
            });
        }
        Ok(self.begin_delete(&key, request.propagation))
    }

    /// The finalizers a deletion adds.
    fn finalizers_of_delete(&self, key: &ObjectKey, propagation: Propagation) -> Vec<&'static str> {
        let Some(stored) = self.find(key) else { return Vec::new() };
        let stuck = Behaviour::of(&stored.object).outcome == Some(Outcome::StuckDeleting);
        let wanted = [
            (propagation == Propagation::Foreground, FOREGROUND),
            (propagation == Propagation::Orphan, ORPHAN),
            (kinds::is_definition(key), CLEANUP),
            (stuck, STUCK),
        ];
        wanted.into_iter().filter(|(add, _)| *add).map(|(_, name)| name).collect()
    }

    /// Whether a deleted object would stay for a while.
    fn is_kept(&self, key: &ObjectKey, propagation: Propagation) -> bool {
        let has_finalizers = self.find(key).is_some_and(|stored| stored.object.finalizers().next().is_some());
        has_finalizers
            || is_namespace(key)
            || is_pod(key)
            || !self.finalizers_of_delete(key, propagation).is_empty()
    }

    /// Begins to delete an object; it goes at once when nothing keeps it.
    pub(crate) fn begin_delete(&mut self, key: &ObjectKey, propagation: Propagation) -> Deleted {
        let Some(stored) = self.find(key) else { return Deleted::Gone };
        if stored.object.is_deleting() {
            return Deleted::Deleting;
        }
        if !self.is_kept(key, propagation) {
            self.erase(key);
            return Deleted::Gone;
        }
        self.mark_deleting(key, propagation);
        self.finish_if_done(key);
        if self.find(key).is_some() { Deleted::Deleting } else { Deleted::Gone }
    }

    fn mark_deleting(&mut self, key: &ObjectKey, propagation: Propagation) {
        let added = self.finalizers_of_delete(key, propagation);
        let (now, timestamp, grace) = (self.now, self.timestamp(), self.config.grace);
        let Some(stored) = self.objects.get_mut(key) else { return };
        let mut object = (*stored.object).clone();
        object.metadata_mut().insert("deletionTimestamp".to_owned(), timestamp.into());
        added.iter().for_each(|finalizer| object.add_finalizer(finalizer));
        if is_pod(key) {
            stored.held_until = Some(now + grace);
            object.metadata_mut().insert("deletionGracePeriodSeconds".to_owned(), 30.into());
        }
        if is_namespace(key) {
            object.section_mut("status").insert("phase".to_owned(), "Terminating".into());
        }
        self.update(key, object, true);
    }

    /// Removes an object whose deletion has begun, once nothing keeps it any more.
    pub(crate) fn finish_if_done(&mut self, key: &ObjectKey) {
        let now = self.now;
        let Some(stored) = self.find(key) else { return };
        let object = &stored.object;
        if !is_deleting(object) {
            return;
        }
        let held = stored.held_until.is_some_and(|until| until > now)
            || (is_namespace(key) && has_finalizing_spec(object));
        if object.finalizers().next().is_none() && !held {
            self.erase(key);
        }
    }

    /// Takes an owner's UID out of everything it owns.
    pub(crate) fn orphan(&mut self, uid: &str) {
        let children: Vec<ObjectKey> = self.children(uid).map(|(key, _)| key.clone()).collect();
        for key in children {
            let Some(stored) = self.find(&key) else { continue };
            let mut object = (*stored.object).clone();
            let metadata = object.metadata_mut();
            if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
                owners.retain(|owner| owner["uid"] != uid);
                if owners.is_empty() {
                    metadata.remove("ownerReferences");
                }
            }
            self.update(&key, object, true);
        }
    }

    /// Whether removing a finalizer would change anything: the object is there, is the one meant, and has it.
    pub(crate) fn has_finalizer(&self, key: &ObjectKey, uid: &str, finalizer: &str) -> bool {
        let found = self.find(key).filter(|stored| uid.is_empty() || stored.object.uid() == uid);
        found.is_some_and(|stored| stored.object.has_finalizer(finalizer))
    }

    /// Removes a finalizer; the object goes when it was the last thing that kept it.
    pub(crate) fn drop_finalizer(&mut self, key: &ObjectKey, finalizer: &str) {
        let Some(stored) = self.find(key) else { return };
        if !stored.object.has_finalizer(finalizer) {
            return;
        }
        let mut object = (*stored.object).clone();
        object.remove_finalizer(finalizer);
        self.update(key, object, true);
        self.finish_if_done(key);
    }
}

pub(crate) fn is_pod(key: &ObjectKey) -> bool {
    key.kind == "Pod" && key.group.is_empty()
}

fn has_finalizing_spec(namespace: &tidegate_model::Object) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}
