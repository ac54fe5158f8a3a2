//! Deletions, and the removal of finalizers.

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tidegate_cluster::{ClusterError, DeleteRequest, Deleted, ErrorKind, Propagation};
use tidegate_model::{Gvk, Object, ObjectKey, OperationId};

use crate::KubeCluster;
use crate::answer::About;
use crate::paths::Target;
use crate::server::{Call, JSON, JSON_PATCH};

/// How often a finalizer is tried to be removed while others write to the object.
const ROUNDS: usize = 5;

impl KubeCluster {
    pub(crate) async fn delete_object(&self, request: &DeleteRequest) -> Result<Deleted, ClusterError> {
        let target = self.target(&request.gvk, &request.namespace, &request.name).await?;
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
        let answer = self.http().call(&self.as_writer(call)).await?;
        let answered: Value = match answer.decode(About::from(&target)) {
            Ok(answered) => answered,
            Err(error) => return Err(self.noted(&request.gvk, error).await),
        };
        let kept = answer.status == StatusCode::ACCEPTED
            || is_kept(&answered)
            || (tells_nothing(&answered, request) && self.is_there(&target, &request.uid).await);
        Ok(if kept { Deleted::Deleting } else { Deleted::Gone })
    }

    /// Whether the object has not gone, as far as we know.
    async fn is_there(&self, target: &Target<'_>, uid: &str) -> bool {
        match self.read(target).await {
            Ok(found) => found.is_some_and(|object| uid.is_empty() || object.uid() == uid),
            Err(_) => true,
        }
    }

    pub(crate) async fn drop_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        (uid, finalizer): (&str, &str),
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        let target = match self.target(gvk, &key.namespace, &key.name).await {
            Ok(target) => target,
            // The kind went, and its objects with it.
            Err(error) if error.kind == ErrorKind::UnknownKind => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut refused = None;
        for _ in 0..ROUNDS {
            let found = match self.read(&target).await {
                Err(error) if error.kind == ErrorKind::UnknownKind => return Ok(()),
                other => other?,
            };
            let Some(object) = found.filter(|object| uid.is_empty() || object.uid() == uid) else {
                return Ok(());
            };
            let Some(patch) = without_finalizer(&object, finalizer) else { return Ok(()) };
            match self.patch(&target, JSON_PATCH, &patch, operation).await {
                Ok(_) => return Ok(()),
                Err(error) => match error.kind {
                    ErrorKind::NotFound | ErrorKind::UnknownKind | ErrorKind::NamespaceMissing => {
                        return Ok(());
                    }
                    // The server tests the patch before it takes it: another write came in between.
                    ErrorKind::Conflict | ErrorKind::Invalid => refused = Some(error),
                    _ => return Err(error),
                },
            }
        }
        Err(refused
            .unwrap_or_else(|| ClusterError::new(ErrorKind::Conflict, format!("{key} keeps changing"))))
    }

    async fn patch(
        &self,
        target: &Target<'_>,
        content_type: &'static str,
        patch: &Value,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let body = patch.to_string().into_bytes();
        let call = Call::write(Method::PATCH, target.path(), content_type, body, operation);
        Ok(self.object_call(target, &call).await?.1)
    }
}

/// What a deletion answers: the object as it stays for now, its last state, or a status without an object.
fn is_kept(answered: &Value) -> bool {
    let at = |path: &str| answered.pointer(path);
    let listed = |path: &str| at(path).and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    let grace = at("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(0);
    let held = grace > 0 || listed("/metadata/finalizers") || listed("/spec/finalizers");
    at("/metadata/deletionTimestamp").is_some() && held
}

/// Whether an answer leaves open what became of the object: with foreground deletion a server answers with the object,
/// since that stays for its dependents, but old ones (1.20) answer any deletion of a Service with a bare success.
fn tells_nothing(answered: &Value, request: &DeleteRequest) -> bool {
    let service = request.gvk.group.is_empty() && request.gvk.kind == "Service";
    let bare = answered.get("kind").and_then(Value::as_str) == Some("Status");
    bare && !request.dry_run && (service || request.propagation == Propagation::Foreground)
}

/// A patch that leaves one finalizer out of this very version of the object. `None` when it is not there.
fn without_finalizer(object: &Object, finalizer: &str) -> Option<Value> {
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
    fn the_answer_tells_whether_anything_is_left() {
        let deleting = |more: Value| {
            let mut object = json!({"kind": "X", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
            json_merge(&mut object, &more);
            object
        };
        for (answered, kept) in [
            (json!({"kind": "Status", "status": "Success", "details": {"uid": "u"}}), false),
            (deleting(json!({})), false),
            (deleting(json!({"metadata": {"deletionGracePeriodSeconds": 0}})), false),
            (deleting(json!({"metadata": {"deletionGracePeriodSeconds": 30}})), true),
            (deleting(json!({"metadata": {"finalizers": ["foregroundDeletion"]}})), true),
            (deleting(json!({"spec": {"finalizers": ["kubernetes"]}})), true),
            (json!({"kind": "X", "metadata": {"finalizers": ["f"]}}), false),
        ] {
            assert_eq!(is_kept(&answered), kept, "{answered}");
        }
    }

    fn json_merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                from.iter()
                    .for_each(|(name, value)| json_merge(into.entry(name).or_insert(Value::Null), value));
            }
            (into, from) => *into = from.clone(),
        }
    }

    #[test]
    fn one_finalizer_goes_and_the_others_stay() {
        let object = |finalizers: Value| {
            Object::try_from(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"uid": "u", "resourceVersion": "7", "finalizers": finalizers}}))
            .unwrap()
        };
        let patch = without_finalizer(&object(json!(["a", "b", "c"])), "b").unwrap();
        assert_eq!(patch[0]["value"], "u");
        assert_eq!(patch[1]["value"], "7");
        assert_eq!(patch[2], json!({"op": "replace", "path": "/metadata/finalizers", "value": ["a", "c"]}));
        let last = without_finalizer(&object(json!(["b"])), "b").unwrap();
        assert_eq!(last[2], json!({"op": "remove", "path": "/metadata/finalizers"}));
        assert_eq!(without_finalizer(&object(json!(["a"])), "b"), None);
    }
}
