//! Does the live object already say what the target says?
//!
//! The question is asked of the target: every field it gives must have its value in the live object. Whatever else is
//! there (defaults of the server, fields of other writers) is no difference, with one exception: fields that Tidegate
//! itself wrote and that the target no longer gives.

mod compare;
mod normalise;
mod owned;
mod quantity;

use serde_json::Value;
use tidegate_model::{Object, annotations};

use compare::Comparison;

/// The path of the first field in which the live object is not what the target asks for; `None` when it is in sync.
///
/// Where the two cannot be compared, as with different API versions, they count as different.
pub(crate) fn first_difference(target: &Object, live: &Object) -> Option<String> {
    if target.text("/apiVersion") != live.text("/apiVersion") {
        return Some("/apiVersion".to_owned());
    }
    let normal = normalise::target(target);
    let comparison = Comparison::of(target);
    fields(&comparison, &normal, live.as_value())
        .or_else(|| metadata(&comparison, &normal, live.as_value()))
        .or_else(|| owned::first_dropped(&normal, live))
}

/// Everything but type, metadata and status, which other code or other writers are responsible for.
fn fields(comparison: &Comparison<'_>, target: &Value, live: &Value) -> Option<String> {
    const NOT_COMPARED: [&str; 5] = ["apiVersion", "kind", "metadata", "status", normalise::STRING_DATA];
    let given =
        target.as_object().into_iter().flatten().filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str()));
    comparison.fields(given, live, false)
}

/// Labels and annotations, and the entries of the two lists that people write. The rest is the server's.
fn metadata(comparison: &Comparison<'_>, target: &Value, live: &Value) -> Option<String> {
    let (target, live) = (target.get("metadata")?, live.get("metadata")?);
    let maps = ["labels", "annotations"].into_iter().filter_map(|name| Some((name, target.get(name)?)));
    for (name, wanted) in maps {
        let given = wanted.as_object().into_iter().flatten().filter(|(key, _)| !is_ours(key));
        let nothing = Value::Null;
        if let Some(path) = comparison.fields(given, live.get(name).unwrap_or(&nothing), false) {
            return Some(format!("/metadata/{name}{path}"));
        }
    }
    ["finalizers", "ownerReferences"].into_iter().find_map(|name| {
        let wanted = target.get(name)?.as_array()?;
        let present = live.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_there =
            |item: &Value| present.iter().any(|other| comparison.value(item, Some(other), false).is_none());
        (!wanted.iter().all(is_there)).then(|| format!("/metadata/{name}"))
    })
}

/// Annotations the engine adds to what it writes.
fn is_ours(annotation: &str) -> bool {
    annotation == annotations::OPERATION_ID || annotation == annotations::HOOK_ATTEMPT
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    fn deployment(spec: Value) -> Object {
        object(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}),
        )
    }

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let target = deployment(json!({
            "replicas": 2,
            "paused": false,
            "template": {"spec": {"hostNetwork": false, "containers": [
                {"name": "api", "image": "api:1", "env": [{"name": "A", "value": ""}],
                 "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}],
                "tolerations": [{"key": "a", "operator": "Exists"}], "volumes": []}}
        }));
        let live = deployment(json!({
            "replicas": 2,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate"},
            "template": {"spec": {"dnsPolicy": "ClusterFirst", "containers": [
                {"name": "injected", "image": "proxy"},
                {"name": "api", "image": "api:1", "imagePullPolicy": "IfNotPresent", "env": [{"name": "A"}],
                 "ports": [{"containerPort": 80, "protocol": "TCP"}],
                 "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
                "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}}
        }));
        assert_eq!(first_difference(&target, &live), None);
    }

    #[test]
    fn differences_are_named() {
        let live = deployment(json!({"replicas": 2, "template": {"spec": {
            "containers": [{"name": "api", "image": "api:1", "env": [{"name": "A", "value": "1000m"}]}],
            "tolerations": [{"key": "a"}, {"key": "b"}]}}}));
        for (spec, path) in [
            (json!({"replicas": 3}), "/spec/replicas"),
            (json!({"minReadySeconds": 5}), "/spec/minReadySeconds"),
            (
                json!({"template": {"spec": {"containers": [{"name": "api", "image": "api:2"}]}}}),
                "/spec/template/spec/containers/0/image",
            ),
            (
                json!({"template": {"spec": {"containers": [{"name": "b"}]}}}),
                "/spec/template/spec/containers/0",
            ),
            (
                json!({"template": {"spec": {"containers": [{"name": "api", "env": [{"name": "A", "value": "1"}]}]}}}),
                "/spec/template/spec/containers/0/env/0/value",
            ),
            (
                json!({"template": {"spec": {"tolerations": [{"key": "a"}]}}}),
                "/spec/template/spec/tolerations",
            ),
            (json!({"replicas": "2"}), "/spec/replicas"),
        ] {
            assert_eq!(first_difference(&deployment(spec.clone()), &live).as_deref(), Some(path), "{spec}");
        }
    }

    #[test]
    fn custom_kinds_are_taken_literally() {
        let custom = |spec: Value| {
            object(
                json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}),
            )
        };
        assert_eq!(
            first_difference(&custom(json!({"on": true})), &custom(json!({"on": true, "extra": 1}))),
            None
        );
        for (target, live) in [
            (json!({"on": false}), json!({})),
            (json!({"limits": {"cpu": "1000m"}}), json!({"limits": {"cpu": "1"}})),
            (json!({"containers": [{"name": "a"}]}), json!({"containers": [{"name": "b"}, {"name": "a"}]})),
        ] {
            assert!(first_difference(&custom(target.clone()), &custom(live)).is_some(), "{target}");
        }
    }

    #[test]
    fn metadata_is_compared_by_entry() {
        let map = |metadata: Value| {
            let mut object = object(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}),
            );
            for (name, value) in metadata.as_object().unwrap() {
                object.metadata_mut().insert(name.clone(), value.clone());
            }
            object
        };
        let live = map(json!({"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"], "uid": "u"}));
        for (metadata, path) in [
            (json!({}), None),
            (json!({"labels": {"a": "1"}, "finalizers": ["y"]}), None),
            (json!({"labels": {"a": "2"}}), Some("/metadata/labels/a")),
            (json!({"annotations": {"tidegate.dev/operation-id": "x"}}), None),
            (json!({"annotations": {"z": "1"}}), Some("/metadata/annotations/z")),
            (json!({"finalizers": ["z"]}), Some("/metadata/finalizers")),
        ] {
            assert_eq!(first_difference(&map(metadata.clone()), &live).as_deref(), path, "{metadata}");
        }
    }

    #[test]
    fn secrets_and_aggregated_roles() {
        let secret = |fields: Value| {
            let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
            secret.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            object(secret)
        };
        let live = secret(json!({"type": "Opaque", "data": {"p": "aGVsbG8="}}));
        assert_eq!(first_difference(&secret(json!({"stringData": {"p": "hello"}})), &live), None);
        assert_eq!(
            first_difference(&secret(json!({"stringData": {"p": "bye"}})), &live).as_deref(),
            Some("/data/p")
        );
        let role = |rules: Value| {
            object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "a"}, "aggregationRule": {}, "rules": rules}))
        };
        assert_eq!(first_difference(&role(json!([])), &role(json!([{"verbs": ["get"]}]))), None);
    }

    #[test]
    fn other_versions_cannot_be_compared() {
        let autoscaler = |version: &str| {
            object(
                json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}}),
            )
        };
        assert!(first_difference(&autoscaler("autoscaling/v1"), &autoscaler("autoscaling/v2")).is_some());
    }
}
