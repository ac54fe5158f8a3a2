use serde_json::json;
use tidegate_model::{Destination, SyncRequest};

use super::*;
use crate::sync_options::managers_to_take_over;

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

fn target(kind: &str, container: Value) -> Object {
    let group = if kind == "Job" { "batch" } else { "apps" };
    object(json!({
        "apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": {"name": "a", "annotations": {"argocd.argoproj.io/sync-options": "Replace=true"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }))
}

/// Returns the target with the fields that a server fills in.
fn with_server_defaults(target: &Object) -> Object {
    let mut value = target.as_value().clone();
    let spec = match target.kind() {
        "Job" => json!({"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false}),
        _ => json!({"replicas": 1, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}}),
    };
    let more = |place: &mut Value, fields: &Value| {
        place.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    };
    more(&mut value["spec"], &spec);
    let pod = &mut value["spec"]["template"]["spec"];
    more(pod, &json!({"dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}));
    let defaults =
        json!({"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"});
    more(&mut pod["containers"][0], &defaults);
    object(value)
}

/// Returns the `managedFields` that the server records for a manager that wrote the whole value.
fn managed_fields_of(value: &Value) -> Value {
    let mut notes = serde_json::Map::new();
    for (name, below) in value.as_object().unwrap() {
        let below = match below {
            Value::Object(_) => managed_fields_of(below),
            Value::Array(items) => {
                let item = |item: &Value| {
                    let mut below = managed_fields_of(item);
                    below["."] = json!({});
                    (format!("k:{}", json!({"name": item["name"]})), below)
                };
                Value::Object(items.iter().map(item).collect())
            }
            _ => json!({}),
        };
        notes.insert(format!("f:{name}"), below);
    }
    Value::Object(notes)
}

/// Returns the object as stored after being created or replaced, with its controller's changes.
fn live_object(target: &Object) -> Object {
    let mut value = with_server_defaults(target).as_value().clone();
    let mut ours = json!({"f:spec": managed_fields_of(&value["spec"])});
    ours["f:metadata"]["f:annotations"] = managed_fields_of(&value["metadata"]["annotations"]);
    value["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("1");
    value["metadata"]["finalizers"] = json!(["kubernetes.io/x"]);
    ours["f:metadata"]["f:finalizers"] = json!({".": {}, "v:\"kubernetes.io/x\"": {}});
    let theirs = json!({"f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}});
    let entry = |manager: &str, fields: &Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
    value["metadata"]["managedFields"] =
        json!([entry("tidegate", &ours), entry("kube-controller-manager", &theirs)]);
    value["status"] = json!({"observedGeneration": 1});
    object(value)
}

fn changed_paths(target: &Object, live: &Object, predicted: &Object) -> Vec<String> {
    let changes = Comparer::default().replacement_difference(target, live, predicted).changes;
    changes.into_iter().map(|change| change.path).collect()
}

const KINDS: [&str; 2] = ["Job", "Deployment"];

#[test]
fn server_defaults_are_not_a_difference() {
    for kind in KINDS {
        let target = target(kind, json!({"name": "m", "image": "x:1", "env": [{"name": "A", "value": "1"}]}));
        let live = live_object(&target);
        let comparer = Comparer::default();
        let request = SyncRequest::new("shop", "shop", Destination::Simulated);
        assert_eq!(managers_to_take_over(&target, &live, &request), Vec::<String>::new(), "{kind}");
        assert_eq!(comparer.first_target_difference(&target, &live), None, "{kind}");
        assert!(
            comparer.needs_server_prediction(&target, &live),
            "{kind}: the managed fields alone are not enough"
        );
        assert_eq!(changed_paths(&target, &live, &with_server_defaults(&target)), [""; 0], "{kind}");
        // If the object is applied instead of replaced, Tidegate takes over the fields that it owns through
        // updates.
        let mut applied = target.clone();
        applied.set_annotation("argocd.argoproj.io/sync-options", "Prune=false");
        let mut was_replaced = live.clone();
        was_replaced.set_annotation("argocd.argoproj.io/sync-options", "Prune=false");
        assert_eq!(managers_to_take_over(&applied, &was_replaced, &request), ["tidegate"], "{kind}");
    }
}

#[test]
fn added_and_removed_manifest_fields_are_differences() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    let before = json!({"name": "m", "image": "x:1", "args": "one", "env": env});
    for (container, expected) in [
        (json!({"name": "m", "image": "x:2", "args": "one", "env": env}), &["image"][..]),
        (json!({"name": "m", "image": "x:1", "env": env}), &["args"]),
        (json!({"name": "m", "image": "x:1", "args": "one", "env": [env[0]]}), &["env/1"]),
        (json!({"name": "m", "image": "x:2", "args": "one", "env": [env[1]]}), &["env/0", "image"]),
        // The server doesn't store the unknown field `odd`.
        (json!({"name": "m", "image": "x:1", "args": "one", "env": env, "odd": "x"}), &[]),
        // A null `imagePullPolicy` counts as absent, so the server sets the default.
        (json!({"name": "m", "image": "x:1", "args": "one", "env": env, "imagePullPolicy": null}), &[]),
    ] {
        for kind in KINDS {
            let target = target(kind, container.clone());
            let mut predicted = with_server_defaults(&target).as_value().clone();
            predicted["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("odd");
            let live = live_object(&self::target(kind, before.clone()));
            let mut found = changed_paths(&target, &live, &object(predicted));
            found.sort();
            let place = "/spec/template/spec/containers/0/";
            let expected: Vec<String> = expected.iter().map(|field| format!("{place}{field}")).collect();
            assert_eq!(found, expected, "{kind} {container}");
        }
    }
}

/// During admission, the server adds volumes with random names to a Pod and records them along with the other
/// fields.
#[test]
fn generated_item_names_are_not_a_difference() {
    let pod = |volumes: &[&str]| {
        let volumes: Vec<Value> = volumes.iter().map(|name| json!({"name": name})).collect();
        object(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"volumes": volumes}}),
        )
    };
    let mut value = pod(&["data", "token-x"]).as_value().clone();
    let ours = json!({"f:spec": managed_fields_of(&value["spec"])});
    value["metadata"]["managedFields"] =
        json!([{"manager": "tidegate", "operation": "Update", "fieldsV1": ours}]);
    let live = object(value);
    assert_eq!(changed_paths(&pod(&["data"]), &live, &pod(&["data", "token-y"])), [""; 0]);
    assert_eq!(changed_paths(&pod(&["data"]), &live, &pod(&["data"])), ["/spec/volumes/1"]);
}
