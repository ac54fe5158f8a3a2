//! Deletion of objects and removal of finalizers.

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tidegate_cluster::{
    ClusterError, DeleteRequest, DeleteResult, ErrorKind, FinalizerRemoval, JobStart, Propagation,
};
use tidegate_model::{Object, OperationId, annotations};

use crate::KubeCluster;
use crate::call::{Call, JSON, JSON_PATCH};
use crate::patch::JSON_MERGE;
use crate::paths::Target;
use crate::response::CallSubject;

/// Maximum number of attempts to remove a finalizer while other clients keep changing the object.
const ATTEMPTS_MAX: usize = 5;

impl KubeCluster {
    pub(crate) async fn delete_object(&self, request: &DeleteRequest) -> Result<DeleteResult, ClusterError> {
        let target = self.find_target(&request.gvk, &request.namespace, &request.name).await?;
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": match request.propagation {
                Propagation::Foreground => "Foreground",
                Propagation::Background => "Background",
                Propagation::Orphan => "Orphan",
            },
        });
        if let Value::Object(options) = &mut options {
            let named = [("uid", &request.uid), ("resourceVersion", &request.resource_version)];
            let named = named.into_iter().filter(|(_, value)| !value.is_empty());
            let preconditions: Map<String, Value> =
                named.map(|(field, value)| (field.to_owned(), value.as_str().into())).collect();
            if !preconditions.is_empty() {
                options.insert("preconditions".to_owned(), preconditions.into());
            }
            if request.dry_run {
                options.insert("dryRun".to_owned(), json!(["All"]));
            }
        }
        let body = options.to_string().into_bytes();
        let call = Call::write(Method::DELETE, target.path(), JSON, body, request.operation);
        let answer = self.api_server().call(&self.with_writer(call)).await?;
        let response_body: Value = match answer.decode(CallSubject::from(&target)) {
            Ok(response_body) => response_body,
            Err(error) => return Err(self.forget_unserved_kind(&request.gvk, error).await),
        };
        let kept = answer.status == StatusCode::ACCEPTED
            || has_remaining_object(&response_body)
            || (is_inconclusive(&response_body, request) && self.can_exist(&target, &request.uid).await);
        Ok(if kept { DeleteResult::Deleting } else { DeleteResult::Gone })
    }

    /// Returns false if the object is known to be gone.
    async fn can_exist(&self, target: &Target<'_>, uid: &str) -> bool {
        match self.read_object(target).await {
            Ok(found) => found.is_some_and(|object| uid.is_empty() || object.uid() == uid),
            Err(_) => true,
        }
    }

    pub(crate) async fn delete_finalizer(&self, request: &FinalizerRemoval) -> Result<(), ClusterError> {
        let FinalizerRemoval { gvk, namespace, name, uid, finalizer, operation } = request;
        let target = match self.find_target(gvk, namespace, name).await {
            Ok(target) => target,
            // The kind is gone, along with its objects and their finalizers.
            Err(error) if error.kind == ErrorKind::UnknownKind => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut refused = None;
        for _ in 0..ATTEMPTS_MAX {
            let found = match self.read_object(&target).await {
                Err(error) if error.kind == ErrorKind::UnknownKind => return Ok(()),
                other => other?,
            };
            let Some(object) = found.filter(|object| uid.is_empty() || object.uid() == *uid) else {
                return Ok(());
            };
            let Some(patch) = finalizer_patch(&object, finalizer) else { return Ok(()) };
            match self.send_patch(&target, JSON_PATCH, &patch, *operation).await {
                Ok(_) => return Ok(()),
                Err(error) => match error.kind {
                    ErrorKind::NotFound | ErrorKind::UnknownKind | ErrorKind::NamespaceMissing => {
                        return Ok(());
                    }
                    // A precondition of the patch failed: another client wrote to the object. Read it again.
                    ErrorKind::Conflict | ErrorKind::Invalid => refused = Some(error),
                    _ => return Err(error),
                },
            }
        }
        Err(refused.unwrap_or_else(|| {
            ClusterError::new(ErrorKind::Conflict, format!("{} keeps changing", request.key()))
        }))
    }

    /// Starts a suspended Job with a patch that is valid only for its UID.
    pub(crate) async fn start_suspended_job(&self, request: &JobStart) -> Result<Object, ClusterError> {
        let JobStart { gvk, namespace, name, uid, operation } = request;
        let target = self.find_target(gvk, namespace, name).await?;
        let patch = json!({
            "metadata": { "uid": uid, "annotations": { annotations::HOOK_START: null } },
            "spec": { "suspend": false },
        });
        let error = match self.send_patch(&target, JSON_MERGE, &patch, *operation).await {
            Ok(job) => return Ok(job),
            Err(error) => self.reclassify_timeout(&target, error).await,
        };
        // Servers refuse a different UID with various errors, so only the object tells whether it was
        // replaced.
        if matches!(error.kind, ErrorKind::Conflict | ErrorKind::Invalid)
            && self.read_object(&target).await?.is_none_or(|found| found.uid() != *uid)
        {
            let text = format!("{} no longer exists; another object has its name", request.key());
            return Err(ClusterError::new(ErrorKind::NotFound, text));
        }
        Err(error)
    }

    async fn send_patch(
        &self,
        target: &Target<'_>,
        content_type: &'static str,
        patch: &Value,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let body = patch.to_string().into_bytes();
        let call = Call::write(Method::PATCH, target.path(), content_type, body, operation);
        Ok(self.send_write(target, &call).await?.1)
    }
}

/// Returns true if the object still exists. The response to a deletion is the remaining object, its last
/// state, or a status without an object.
fn has_remaining_object(response_body: &Value) -> bool {
    let at = |path: &str| response_body.pointer(path);
    let listed = |path: &str| at(path).and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    let grace = at("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(0);
    let held = grace > 0 || listed("/metadata/finalizers") || listed("/spec/finalizers");
    at("/metadata/deletionTimestamp").is_some() && held
}

/// Returns true if the response doesn't show whether the object still exists. With foreground deletion, the
/// server returns the object, which remains until its dependents are deleted. Old servers (1.20) return a
/// bare success for any deletion of a Service.
fn is_inconclusive(response_body: &Value, request: &DeleteRequest) -> bool {
    let service = request.gvk.group.is_empty() && request.gvk.kind == "Service";
    let bare = response_body.get("kind").and_then(Value::as_str) == Some("Status");
    bare && !request.dry_run && (service || request.propagation == Propagation::Foreground)
}

/// Returns a patch that removes a finalizer from exactly this version of the object. `None` if the object
/// doesn't have the finalizer.
fn finalizer_patch(object: &Object, finalizer: &str) -> Option<Value> {
    if !object.has_finalizer(finalizer) {
        return None;
    }
    let rest: Vec<&str> = object.finalizers().filter(|name| *name != finalizer).collect();
    let change = if rest.is_empty() {
        json!({ "op": "remove", "path": "/metadata/finalizers" })
    } else {
        json!({ "op": "replace", "path": "/metadata/finalizers", "value": rest })
    };
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": object.uid() },
        { "op": "replace", "path": "/metadata/resourceVersion", "value": object.resource_version() },
        change,
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_determines_whether_the_object_is_left() {
        let deleting = |more: Value| {
            let mut object = json!({"kind": "X", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
            apply_json_merge(&mut object, &more);
            object
        };
        for (response_body, kept) in [
            (json!({"kind": "Status", "status": "Success", "details": {"uid": "u"}}), false),
            (deleting(json!({})), false),
            (deleting(json!({"metadata": {"deletionGracePeriodSeconds": 0}})), false),
            (deleting(json!({"metadata": {"deletionGracePeriodSeconds": 30}})), true),
            (deleting(json!({"metadata": {"finalizers": ["foregroundDeletion"]}})), true),
            (deleting(json!({"spec": {"finalizers": ["kubernetes"]}})), true),
            (json!({"kind": "X", "metadata": {"finalizers": ["f"]}}), false),
        ] {
            assert_eq!(has_remaining_object(&response_body), kept, "{response_body}");
        }
    }

    fn apply_json_merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                from.iter().for_each(|(name, value)| {
                    apply_json_merge(into.entry(name).or_insert(Value::Null), value)
                });
            }
            (into, from) => *into = from.clone(),
        }
    }

    #[test]
    fn only_the_named_finalizer_is_removed() {
        let object = |finalizers: Value| {
            Object::try_from(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"uid": "u", "resourceVersion": "7", "finalizers": finalizers}}))
            .unwrap()
        };
        let patch = finalizer_patch(&object(json!(["a", "b", "c"])), "b").unwrap();
        assert_eq!(patch[0]["value"], "u");
        assert_eq!(patch[1]["value"], "7");
        assert_eq!(patch[2], json!({"op": "replace", "path": "/metadata/finalizers", "value": ["a", "c"]}));
        let last = finalizer_patch(&object(json!(["b"])), "b").unwrap();
        assert_eq!(last[2], json!({"op": "remove", "path": "/metadata/finalizers"}));
        assert_eq!(finalizer_patch(&object(json!(["a"])), "b"), None);
    }
}
