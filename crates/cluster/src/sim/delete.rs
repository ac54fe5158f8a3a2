//! Deletion of objects, finalizers and dependents.

use serde_json::Value;
use tidegate_model::ObjectKey;

use super::admission::is_namespace;
use super::behavior::{Behavior, Outcome};
use super::json::is_deleting;
use super::{SimState, api_error, kinds};
use crate::{ClusterError, DeleteRequest, DeleteResult, Propagation};

/// Finalizer that keeps an owner until its dependents have been deleted.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Finalizer that keeps an owner until its dependents have been orphaned.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";
/// Finalizer that keeps a custom resource definition until its objects have been deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Finalizer that keeps an object with a stuck deletion forever. As in a real cluster, the object is deleted
/// once the finalizer is removed manually.
pub const STUCK_FINALIZER: &str = "sim.tidegate.dev/stuck-deleting";
/// Namespaces that cannot be deleted.
const PERMANENT_NAMESPACES: [&str; 2] = ["default", "kube-system"];

impl SimState {
    /// Deletes an object at a client's request.
    pub(crate) fn delete_object(&mut self, request: &DeleteRequest) -> Result<DeleteResult, ClusterError> {
        let key = self.object_key(&request.gvk, &request.namespace, &request.name)?;
        let Some(stored) = self.find(&key) else { return Err(api_error::not_found(&key)) };
        let found = stored.object.uid();
        if !request.uid.is_empty() && request.uid != found {
            let wanted = &request.uid;
            return Err(api_error::uid_mismatch(&key, wanted, found));
        }
        let found = stored.object.resource_version();
        if !request.resource_version.is_empty() && request.resource_version != found {
            return Err(api_error::version_mismatch(&key, &request.resource_version, found));
        }
        if is_namespace(&key) && PERMANENT_NAMESPACES.contains(&key.name.as_str()) {
            return Err(api_error::forbidden(&key, "this namespace may not be deleted"));
        }
        if request.dry_run {
            return Ok(if self.is_deletion_delayed(&key, request.propagation) {
                DeleteResult::Deleting
            } else {
                DeleteResult::Gone
            });
        }
        Ok(self.start_deletion(&key, request.propagation))
    }

    /// Returns the finalizers that a deletion adds.
    fn deletion_finalizers(&self, key: &ObjectKey, propagation: Propagation) -> Vec<&'static str> {
        let Some(stored) = self.find(key) else { return Vec::new() };
        let stuck = Behavior::from_object(&stored.object).outcome == Some(Outcome::StuckDeleting);
        let wanted = [
            (propagation == Propagation::Foreground, FOREGROUND_FINALIZER),
            (propagation == Propagation::Orphan, ORPHAN_FINALIZER),
            (kinds::is_definition(key), CLEANUP_FINALIZER),
            (stuck, STUCK_FINALIZER),
        ];
        wanted.into_iter().filter(|(add, _)| *add).map(|(_, name)| name).collect()
    }

    /// Returns true if an object would outlive its deletion for some time.
    fn is_deletion_delayed(&self, key: &ObjectKey, propagation: Propagation) -> bool {
        let has_finalizers = self.find(key).is_some_and(|stored| stored.object.finalizers().next().is_some());
        has_finalizers
            || is_namespace(key)
            || is_pod(key)
            || !self.deletion_finalizers(key, propagation).is_empty()
    }

    /// Starts deleting an object. Removes it immediately if no finalizer blocks the removal.
    pub(crate) fn start_deletion(&mut self, key: &ObjectKey, propagation: Propagation) -> DeleteResult {
        let Some(stored) = self.find(key) else { return DeleteResult::Gone };
        if stored.object.is_deleting() {
            return DeleteResult::Deleting;
        }
        if !self.is_deletion_delayed(key, propagation) {
            self.remove_object(key);
            return DeleteResult::Gone;
        }
        self.mark_deleting(key, propagation);
        self.remove_if_unblocked(key);
        if self.find(key).is_some() { DeleteResult::Deleting } else { DeleteResult::Gone }
    }

    fn mark_deleting(&mut self, key: &ObjectKey, propagation: Propagation) {
        let added = self.deletion_finalizers(key, propagation);
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

    /// Removes an object that is being deleted, once no finalizer blocks the removal.
    pub(crate) fn remove_if_unblocked(&mut self, key: &ObjectKey) {
        let now = self.now;
        let Some(stored) = self.find(key) else { return };
        let object = &stored.object;
        if !is_deleting(object) {
            return;
        }
        let held = stored.held_until.is_some_and(|until| until > now)
            || (is_namespace(key) && has_finalizing_spec(object));
        if object.finalizers().next().is_none() && !held {
            self.remove_object(key);
        }
    }

    /// Removes an owner's UID from the owner references of all its dependents.
    pub(crate) fn orphan_dependents(&mut self, uid: &str) {
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

    /// Returns true if there is a finalizer to remove: the object exists with the expected UID and has it.
    pub(crate) fn has_finalizer(&self, key: &ObjectKey, uid: &str, finalizer: &str) -> bool {
        let found = self.find(key).filter(|stored| uid.is_empty() || stored.object.uid() == uid);
        found.is_some_and(|stored| stored.object.has_finalizer(finalizer))
    }

    /// Removes a finalizer. Also removes an object that is being deleted, if this was its last finalizer.
    pub(crate) fn drop_finalizer(&mut self, key: &ObjectKey, finalizer: &str) {
        let Some(stored) = self.find(key) else { return };
        if !stored.object.has_finalizer(finalizer) {
            return;
        }
        let mut object = (*stored.object).clone();
        object.remove_finalizer(finalizer);
        self.update(key, object, true);
        self.remove_if_unblocked(key);
    }
}

pub(crate) fn is_pod(key: &ObjectKey) -> bool {
    key.kind == "Pod" && key.group.is_empty()
}

fn has_finalizing_spec(namespace: &tidegate_model::Object) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}
