use serde_json::json;
use tidegate_model::SyncOptions;

use super::*;
use crate::options::take_over;

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

/// With what a server fills in.
fn made(target: &Object) -> Object {
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

/// The notes of a server of whoever has written all of this.
fn fields(value: &Value) -> Value {
    let mut notes = serde_json::Map::new();
    for (name, below) in value.as_object().unwrap() {
        let below = match below {
            Value::Object(_) => fields(below),
            Value::Array(items) => {
                let item = |item: &Value| {
                    let mut below = fields(item);
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

/// As it stands after it was created or replaced, and its controller has looked at it.
fn live(target: &Object) -> Object {
    let mut value = made(target).as_value().clone();
    let mut ours = json!({"f:spec": fields(&value["spec"])});
    ours["f:metadata"]["f:annotations"] = fields(&value["metadata"]["annotations"]);
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

fn paths(target: &Object, live: &Object, predicted: &Object) -> Vec<String> {
    let changes = Comparer::default().replaced(target, live, predicted).changes;
    changes.into_iter().map(|change| change.path).collect()
}

const KINDS: [&str; 2] = ["Job", "Deployment"];

#[test]
fn what_the_server_filled_in_is_no_difference() {
    for kind in KINDS {
        let target = target(kind, json!({"name": "m", "image": "x:1", "env": [{"name": "A", "value": "1"}]}));
        let live = live(&target);
        let comparer = Comparer::default();
        assert_eq!(take_over(&target, &live, &SyncOptions::default()), None, "{kind}");
        assert_eq!(comparer.first_given(&target, &live), None, "{kind}");
        assert!(comparer.may_lose(&target, &live), "{kind}: the notes alone do not tell");
        assert_eq!(paths(&target, &live, &made(&target)), [""; 0], "{kind}");
        // It is applied from now on: what we noted by updates is ours to take over, as before.
        let mut applied = target.clone();
        applied.set_annotation("argocd.argoproj.io/sync-options", "Prune=false");
        let mut was_replaced = live.clone();
        was_replaced.set_annotation("argocd.argoproj.io/sync-options", "Prune=false");
        let taken = take_over(&applied, &was_replaced, &SyncOptions::default());
        assert_eq!(taken.as_deref(), Some("tidegate"), "{kind}");
    }
}

#[test]
fn what_the_manifest_gives_or_gives_no_longer_is_one() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    let before = json!({"name": "m", "image": "x:1", "args": "one", "env": env});
    for (container, expected) in [
        (json!({"name": "m", "image": "x:2", "args": "one", "env": env}), &["image"][..]),
        (json!({"name": "m", "image": "x:1", "env": env}), &["args"]),
        (json!({"name": "m", "image": "x:1", "args": "one", "env": [env[0]]}), &["env/1"]),
        (json!({"name": "m", "image": "x:2", "args": "one", "env": [env[1]]}), &["env/0", "image"]),
        // The server does not store it.
        (json!({"name": "m", "image": "x:1", "args": "one", "env": env, "odd": "x"}), &[]),
        // What it fills in instead is its own.
        (json!({"name": "m", "image": "x:1", "args": "one", "env": env, "imagePullPolicy": null}), &[]),
    ] {
        for kind in KINDS {
            let target = target(kind, container.clone());
            let mut predicted = made(&target).as_value().clone();
            predicted["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("odd");
            let live = live(&self::target(kind, before.clone()));
            let mut found = paths(&target, &live, &object(predicted));
            found.sort();
            let place = "/spec/template/spec/containers/0/";
            let expected: Vec<String> = expected.iter().map(|field| format!("{place}{field}")).collect();
            assert_eq!(found, expected, "{kind} {container}");
        }
    }
}

/// Admission puts volumes with random names into a Pod, and notes them with the rest.
#[test]
fn items_that_have_another_name_each_time_are_not_lost() {
    let pod = |volumes: &[&str]| {
        let volumes: Vec<Value> = volumes.iter().map(|name| json!({"name": name})).collect();
        object(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"volumes": volumes}}),
        )
    };
    let mut value = pod(&["data", "token-x"]).as_value().clone();
    let ours = json!({"f:spec": fields(&value["spec"])});
    value["metadata"]["managedFields"] =
        json!([{"manager": "tidegate", "operation": "Update", "fieldsV1": ours}]);
    let live = object(value);
    assert_eq!(paths(&pod(&["data"]), &live, &pod(&["data", "token-y"])), [""; 0]);
    assert_eq!(paths(&pod(&["data"]), &live, &pod(&["data"])), ["/spec/volumes/1"]);
}
