//! Default values for omitted fields, limited to fields that the simulation or a health rule reads. No
//! manager owns default values.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey};

/// Adds missing fields at any depth. Existing fields remain unchanged.
fn fill_missing_fields(fields: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (name, default) in defaults {
        match (fields.get_mut(&name), default) {
            (Some(Value::Object(inner)), default @ Value::Object(_)) => fill_missing_fields(inner, default),
            (Some(_), _) => {}
            (None, default) => {
                fields.insert(name, default);
            }
        }
    }
}

/// Adds the defaults to an object. `address` returns the cluster IP of a Service.
pub(crate) fn fill_defaults(key: &ObjectKey, object: &mut Object, address: impl FnOnce() -> String) {
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
        ("", "Service") => return fill_service_defaults(object, address),
        ("apps", "Deployment") => deployment_defaults(object),
        ("apps", "ReplicaSet") => json!({"spec": {"replicas": 1}}),
        ("apps", "StatefulSet") => stateful_set_defaults(object),
        ("apps", "DaemonSet") => {
            rolling_update_defaults(object, "updateStrategy", json!({"maxSurge": 0, "maxUnavailable": 1}))
        }
        ("batch", "Job") => job_defaults(object),
        ("batch", "CronJob") => json!({
            "spec": {
                "suspend": false, "concurrencyPolicy": "Allow",
                "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            },
            "status": {},
        }),
        _ => return,
    };
    fill_missing_fields(object.fields_mut(), defaults);
}

/// Returns the defaults for an update strategy. Only rolling updates have details.
fn rolling_update_defaults(object: &Object, field: &str, details: Value) -> Value {
    match object.text(&format!("/spec/{field}/type")) {
        "" | "RollingUpdate" => json!({"spec": {field: {"type": "RollingUpdate", "rollingUpdate": details}}}),
        _ => json!({"spec": {}}),
    }
}

fn deployment_defaults(object: &Object) -> Value {
    let mut defaults =
        rolling_update_defaults(object, "strategy", json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    if let Some(spec) = defaults.get_mut("spec").and_then(Value::as_object_mut) {
        fill_missing_fields(
            spec,
            json!({"replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10}),
        );
    }
    defaults
}

fn stateful_set_defaults(object: &Object) -> Value {
    let mut defaults = rolling_update_defaults(object, "updateStrategy", json!({"partition": 0}));
    if let Some(spec) = defaults.get_mut("spec").and_then(Value::as_object_mut) {
        fill_missing_fields(
            spec,
            json!({"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10}),
        );
    }
    defaults
}

/// Returns the defaults for a Job. A Job that sets `parallelism` but not `completions` is a work queue: it
/// is complete as soon as one pod succeeds.
fn job_defaults(object: &Object) -> Value {
    let spec = match (object.pointer("/spec/completions"), object.pointer("/spec/parallelism")) {
        (None, Some(_)) => json!({"backoffLimit": 6, "suspend": false}),
        _ => json!({"backoffLimit": 6, "suspend": false, "completions": 1, "parallelism": 1}),
    };
    json!({"spec": spec})
}

fn fill_service_defaults(service: &mut Object, address: impl FnOnce() -> String) {
    fill_missing_fields(
        service.fields_mut(),
        json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None"}}),
    );
    if service.text("/spec/type") != "ExternalName" && service.text("/spec/clusterIP").is_empty() {
        fill_missing_fields(service.fields_mut(), json!({"spec": {"clusterIP": address()}}));
    }
    fill_missing_fields(service.fields_mut(), json!({"status": {"loadBalancer": {}}}));
    let ports = service.section_mut("spec").get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("port").cloned() {
            fill_missing_fields(port, json!({"protocol": "TCP", "targetPort": number}));
        }
    }
}
