//! Fields a server fills in when the manifest leaves them out. Only those that something here, or a health rule,
//! looks at. Nobody owns them.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey};

/// Fills in what is missing in `fields`, at any depth; what is there stays.
fn fill(fields: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (name, default) in defaults {
        match (fields.get_mut(&name), default) {
            (Some(Value::Object(inner)), default @ Value::Object(_)) => fill(inner, default),
            (Some(_), _) => {}
            (None, default) => {
                fields.insert(name, default);
            }
        }
    }
}

/// Fills in an object's defaults. `address` is the cluster IP a Service gets.
pub(crate) fn fill_in(key: &ObjectKey, object: &mut Object, address: impl FnOnce() -> String) {
    let defaults = match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace") => json!({
            "metadata": {"labels": {"kubernetes.io/metadata.name": key.name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        }),
        ("", "Pod") => json!({"spec": {"restartPolicy": "Always"}, "status": {"phase": "Pending"}}),
        ("", "Secret") => json!({"type": "Opaque"}),
        ("", "PersistentVolumeClaim") => {
            json!({"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}})
        }
        ("", "Service") => return fill_service(object, address),
        ("apps", "Deployment") => deployment(object),
        ("apps", "ReplicaSet") => json!({"spec": {"replicas": 1}}),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => {
            rolling(object, "updateStrategy", json!({"maxSurge": 0, "maxUnavailable": 1}))
        }
        ("batch", "Job") => job(object),
        ("batch", "CronJob") => json!({
            "spec": {
                "suspend": false, "concurrencyPolicy": "Allow",
                "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            },
            "status": {},
        }),
        _ => return,
    };
    fill(object.fields_mut(), defaults);
}

/// The defaults of an update strategy; its details exist for rolling updates only.
fn rolling(object: &Object, field: &str, details: Value) -> Value {
    match object.text(&format!("/spec/{field}/type")) {
        "" | "RollingUpdate" => json!({"spec": {field: {"type": "RollingUpdate", "rollingUpdate": details}}}),
        _ => json!({"spec": {}}),
    }
}

fn deployment(object: &Object) -> Value {
    let mut defaults = rolling(object, "strategy", json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    if let Some(spec) = defaults.get_mut("spec").and_then(Value::as_object_mut) {
        fill(spec, json!({"replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10}));
    }
    defaults
}

fn stateful_set(object: &Object) -> Value {
    let mut defaults = rolling(object, "updateStrategy", json!({"partition": 0}));
    if let Some(spec) = defaults.get_mut("spec").and_then(Value::as_object_mut) {
        fill(spec, json!({"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10}));
    }
    defaults
}

/// A Job with a parallelism and no completions is a work queue: it is done when one pod succeeds.
fn job(object: &Object) -> Value {
    let spec = match (object.pointer("/spec/completions"), object.pointer("/spec/parallelism")) {
        (None, Some(_)) => json!({"backoffLimit": 6, "suspend": false}),
        _ => json!({"backoffLimit": 6, "suspend": false, "completions": 1, "parallelism": 1}),
    };
    json!({"spec": spec})
}

fn fill_service(service: &mut Object, address: impl FnOnce() -> String) {
    fill(service.fields_mut(), json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None"}}));
    if service.text("/spec/type") != "ExternalName" && service.text("/spec/clusterIP").is_empty() {
        fill(service.fields_mut(), json!({"spec": {"clusterIP": address()}}));
    }
    fill(service.fields_mut(), json!({"status": {"loadBalancer": {}}}));
    let ports = service.section_mut("spec").get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("port").cloned() {
            fill(port, json!({"protocol": "TCP", "targetPort": number}));
        }
    }
}
