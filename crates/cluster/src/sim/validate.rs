//! Validation of object content, limited to common mistakes.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_model::{Object, ObjectKey, wrong_types};

use super::api_error;
use super::behavior::Behavior;
use super::json::{field, int_at, list_at};
use crate::{ClusterError, Refusal};

/// Maximum number of replicas of a workload. Every replica is an object in the simulation, and no rehearsal
/// needs more.
const REPLICAS_MAX: i64 = 5_000;

/// Top-level fields of every object.
const COMMON_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Other top-level fields of built-in kinds. Kinds that are not in this list have `spec` and `status`.
const KIND_FIELDS: &[(&str, &str, &[&str])] = &[
    ("", "ConfigMap", &["data", "binaryData", "immutable"]),
    ("", "Secret", &["data", "stringData", "immutable", "type"]),
    ("", "ServiceAccount", &["secrets", "imagePullSecrets", "automountServiceAccountToken"]),
    ("rbac.authorization.k8s.io", "Role", &["rules"]),
    ("rbac.authorization.k8s.io", "ClusterRole", &["rules", "aggregationRule"]),
    ("rbac.authorization.k8s.io", "RoleBinding", &["subjects", "roleRef"]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &["subjects", "roleRef"]),
];

/// Built-in kinds that have only `spec` and `status` in addition to the common fields.
const SPEC_KINDS: &[&str] = &[
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "Pod",
    "Job",
    "CronJob",
    "Service",
    "Ingress",
    "Namespace",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "HorizontalPodAutoscaler",
    "NetworkPolicy",
    "CustomResourceDefinition",
];

/// Refuses top-level fields unknown to a built-in kind.
pub(crate) fn check_fields(key: &ObjectKey, manifest: &Object, custom: bool) -> Result<(), ClusterError> {
    let listed = KIND_FIELDS.iter().find(|(group, kind, _)| *group == key.group && *kind == key.kind);
    let known = match listed {
        Some((_, _, fields)) => *fields,
        None if !custom && SPEC_KINDS.contains(&key.kind.as_str()) => &["spec", "status"],
        None => return Ok(()),
    };
    let fields = manifest.as_value().as_object();
    let stray = fields.into_iter().flatten().map(|(name, _)| name.as_str());
    match stray.into_iter().find(|name| !COMMON_FIELDS.contains(name) && !known.contains(name)) {
        None => Ok(()),
        Some(field) => {
            let (kind, version) = (&key.kind, manifest.gvk().version);
            let error = api_error::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: unknown field {field:?}"
            ));
            Err(error.with_refusal(Refusal::StrictDecoding))
        }
    }
}

/// Refuses fields of the wrong type. Ignores the types that custom resource definitions declare.
pub(crate) fn check_types(key: &ObjectKey, manifest: &Object) -> Result<(), ClusterError> {
    if key.group.contains('.') && !key.group.ends_with(".k8s.io") {
        return Ok(());
    }
    match wrong_types(&key.group, &key.kind, manifest.as_value()).first() {
        None => Ok(()),
        Some(wrong) => {
            let (kind, version) = (&key.kind, manifest.gvk().version);
            Err(api_error::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: .{}: expected {}, got {}",
                wrong.field, wrong.expected, wrong.found
            )))
        }
    }
}

/// Refuses an object with invalid content.
pub(crate) fn check_object(key: &ObjectKey, object: &Object) -> Result<(), ClusterError> {
    Behavior::parse(object).map_err(|reason| api_error::invalid(key, &reason))?;
    check_data(key, object).map_err(|reason| decode_error(object, &reason))?;
    check_labels(key, object)?;
    check_content(key, object).map_err(|reason| api_error::invalid(key, &reason))
}

/// Returns the error for a value of the wrong type, which the server cannot decode.
fn decode_error(object: &Object, reason: &str) -> ClusterError {
    let (kind, version) = (object.kind(), object.text("/apiVersion"));
    api_error::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {reason}"))
}

fn check_data(key: &ObjectKey, object: &Object) -> Result<(), String> {
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "ConfigMap") => check_string_map(object, "/data"),
        ("", "Secret") => check_base64(object),
        _ => Ok(()),
    }
}

/// Checks the requirements of the object's kind. Error messages contain the field.
fn check_content(key: &ObjectKey, object: &Object) -> Result<(), String> {
    match (key.group.as_str(), key.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => check_workload(object),
        ("batch", "Job") => check_job(object, "/spec"),
        ("batch", "CronJob") => {
            check_required(object, &["/spec/schedule", "/spec/jobTemplate/spec/template"])?;
            check_job(object, "/spec/jobTemplate/spec")
        }
        ("", "Pod") => check_containers(object, "/spec"),
        ("", "Service")
            if object.text("/spec/type") != "ExternalName" && object.text("/spec/clusterIP") != "None" =>
        {
            check_required(object, &["/spec/ports"])?;
            check_ports(object)
        }
        ("", "PersistentVolumeClaim") => check_required(object, &["/spec/accessModes", "/spec/resources"]),
        ("networking.k8s.io", "Ingress") => {
            check_any_present(object, &["/spec/rules", "/spec/defaultBackend"])
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => check_definition(key, object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            check_required(object, &["/roleRef/kind", "/roleRef/name"])?;
            check_subjects(object)
        }
        _ => Ok(()),
    }
}

fn check_subjects(object: &Object) -> Result<(), String> {
    let is_nameless = |subject: &Value| subject.get("name").and_then(Value::as_str).is_none_or(str::is_empty);
    match list_at(object, "/subjects").iter().position(is_nameless) {
        Some(at) => Err(format!("subjects[{at}].name: Required value")),
        None => Ok(()),
    }
}

fn check_ports(object: &Object) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (at, port) in list_at(object, "/spec/ports").iter().enumerate() {
        let number = port["port"].as_i64().unwrap_or_default();
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        if !(1..=65535).contains(&number) {
            return Err(format!(
                "spec.ports[{at}].port: Invalid value: {number}: must be between 1 and 65535, inclusive"
            ));
        }
        if !seen.insert((number, protocol)) {
            return Err(format!("spec.ports[{at}]: Duplicate value: \"{number}/{protocol}\""));
        }
    }
    Ok(())
}

/// Checks a map whose values must be strings.
fn check_string_map(object: &Object, pointer: &str) -> Result<(), String> {
    let entries = object.pointer(pointer).and_then(Value::as_object);
    match entries.into_iter().flatten().find(|(_, value)| !value.is_string() && !value.is_null()) {
        Some((name, value)) => {
            Err(format!("{}.{name}: expected string, got {value}", format_dotted_path(pointer)))
        }
        None => Ok(()),
    }
}

fn check_base64(object: &Object) -> Result<(), String> {
    check_string_map(object, "/data")?;
    let is_digit = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '+' | '/');
    let entries = object.pointer("/data").and_then(Value::as_object);
    for (name, value) in entries.into_iter().flatten() {
        // Remove line breaks, which Go's base64 decoder ignores.
        let text: String =
            value.as_str().unwrap_or_default().chars().filter(|sign| !matches!(sign, '\n' | '\r')).collect();
        let digits = text.trim_end_matches('=');
        if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 || !digits.chars().all(is_digit) {
            return Err(format!("data.{name}: illegal base64 data"));
        }
    }
    Ok(())
}

fn format_dotted_path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

fn is_absent(object: &Object, pointer: &str) -> bool {
    match object.pointer(pointer) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn check_required(object: &Object, pointers: &[&str]) -> Result<(), String> {
    match pointers.iter().find(|pointer| is_absent(object, pointer)) {
        None => Ok(()),
        Some(pointer) => Err(format!("{}: Required value", format_dotted_path(pointer))),
    }
}

fn check_any_present(object: &Object, pointers: &[&str]) -> Result<(), String> {
    if pointers.iter().all(|pointer| is_absent(object, pointer)) {
        let names: Vec<String> = pointers.iter().map(|pointer| format_dotted_path(pointer)).collect();
        return Err(format!("spec: Invalid value: either {} must be specified", names.join(" or ")));
    }
    Ok(())
}

fn check_workload(object: &Object) -> Result<(), String> {
    check_required(object, &["/spec/selector", "/spec/template"])?;
    check_containers(object, "/spec/template/spec")?;
    let replicas = int_at(object, "/spec/replicas", 1);
    if !(0..=REPLICAS_MAX).contains(&replicas) {
        return Err(format!(
            "spec.replicas: Invalid value: {replicas}: the simulated cluster runs 0 to {REPLICAS_MAX} replicas"
        ));
    }
    let wanted = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = object.pointer("/spec/template/metadata/labels");
    if wanted
        .into_iter()
        .flatten()
        .any(|(name, value)| labels.and_then(|labels| labels.get(name)) != Some(value))
    {
        return Err(
            "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`"
                .to_owned(),
        );
    }
    match object.text("/spec/template/spec/restartPolicy") {
        "" | "Always" => Ok(()),
        other => Err(format!(
            "spec.template.spec.restartPolicy: Unsupported value: {other:?}: supported values: \"Always\""
        )),
    }
}

fn check_job(object: &Object, spec: &str) -> Result<(), String> {
    check_required(object, &[&format!("{spec}/template")])?;
    check_containers(object, &format!("{spec}/template/spec"))?;
    for (field, most) in
        [("completions", REPLICAS_MAX), ("parallelism", REPLICAS_MAX), ("backoffLimit", REPLICAS_MAX)]
    {
        let value = int_at(object, &format!("{spec}/{field}"), 1);
        if !(0..=most).contains(&value) {
            return Err(format!(
                "{}.{field}: Invalid value: {value}: the simulated cluster allows 0 to {most}",
                format_dotted_path(spec)
            ));
        }
    }
    match object.text(&format!("{spec}/template/spec/restartPolicy")) {
        "OnFailure" | "Never" => Ok(()),
        "" => Err(format!(
            "{}.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            format_dotted_path(spec)
        )),
        other => Err(format!(
            "{}.template.spec.restartPolicy: Unsupported value: {other:?}: supported values: \"OnFailure\", \"Never\"",
            format_dotted_path(spec)
        )),
    }
}

fn check_containers(object: &Object, spec: &str) -> Result<(), String> {
    let pointer = format!("{spec}/containers");
    check_required(object, &[&pointer])?;
    for (position, container) in list_at(object, &pointer).iter().enumerate() {
        for field in ["name", "image"] {
            if container.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(format!("{}[{position}].{field}: Required value", format_dotted_path(&pointer)));
            }
        }
        let mounts = container.get("volumeMounts").and_then(Value::as_array);
        let list = format!("{}[{position}].volumeMounts", format_dotted_path(&pointer));
        check_unique(&list, mounts.map_or(&[][..], Vec::as_slice), "mountPath")?;
    }
    for list in ["containers", "initContainers", "volumes"] {
        let pointer = format!("{spec}/{list}");
        check_unique(&format_dotted_path(&pointer), list_at(object, &pointer), "name")?;
    }
    Ok(())
}

/// Refuses a list if two items have the same value in the given field. Most lists allow duplicates, for
/// example lists of environment variables.
fn check_unique(list: &str, items: &[Value], field: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (position, item) in items.iter().enumerate() {
        let Some(value) = item.get(field).and_then(Value::as_str) else { continue };
        if !seen.insert(value) {
            return Err(format!("{list}[{position}].{field}: Duplicate value: {value:?}"));
        }
    }
    Ok(())
}

fn check_definition(key: &ObjectKey, object: &Object) -> Result<(), String> {
    check_required(
        object,
        &["/spec/group", "/spec/names/kind", "/spec/names/plural", "/spec/scope", "/spec/versions"],
    )?;
    let expected = format!("{}.{}", object.text("/spec/names/plural"), object.text("/spec/group"));
    if key.name != expected {
        return Err(format!(
            "metadata.name: Invalid value: {:?}: must be spec.names.plural+\".\"+spec.group",
            key.name
        ));
    }
    match object.text("/spec/scope") {
        "Cluster" | "Namespaced" => Ok(()),
        other => Err(format!(
            "spec.scope: Unsupported value: {other:?}: supported values: \"Cluster\", \"Namespaced\""
        )),
    }
}

/// Maximum length of a label value.
const LABEL_BYTES_MAX: usize = 63;

fn check_labels(key: &ObjectKey, object: &Object) -> Result<(), ClusterError> {
    let labels = field(object, &["metadata", "labels"]).and_then(Value::as_object);
    for (name, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let outer = |c: char| c.is_ascii_alphanumeric();
        let shaped = value.is_empty()
            || value.starts_with(outer) && value.ends_with(outer) && value.chars().all(inner);
        let name_part = name.rsplit_once('/').map_or(name.as_str(), |(_, part)| part);
        let named =
            name_part.starts_with(outer) && name_part.ends_with(outer) && name_part.chars().all(inner);
        if !named || name_part.len() > LABEL_BYTES_MAX {
            let reason = format!(
                "metadata.labels: Invalid value: {name:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            );
            return Err(api_error::invalid(key, &reason));
        }
        if !shaped || value.len() > LABEL_BYTES_MAX {
            let reason = format!(
                "metadata.labels[{name}]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', at most {LABEL_BYTES_MAX} bytes"
            );
            return Err(api_error::invalid(key, &reason));
        }
    }
    Ok(())
}
