//! Immutable fields of existing objects.

use serde_json::Value;
use tidegate_model::{Object, ObjectKey};

use super::api_error;
use crate::{ClusterError, ImmutableField, Refusal};

/// Immutable fields, by group and kind.
const IMMUTABLE_FIELDS: &[(&str, &str, &[&str])] = &[
    ("apps", "Deployment", &["/spec/selector"]),
    ("apps", "DaemonSet", &["/spec/selector"]),
    ("apps", "ReplicaSet", &["/spec/selector"]),
    ("batch", "Job", &["/spec/selector", "/spec/template", "/spec/completionMode"]),
    ("", "Service", &["/spec/clusterIP"]),
    ("", "Secret", &["/type"]),
    ("rbac.authorization.k8s.io", "RoleBinding", &["/roleRef"]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &["/roleRef"]),
    ("storage.k8s.io", "StorageClass", &["/provisioner", "/parameters", "/reclaimPolicy"]),
    ("apiextensions.k8s.io", "CustomResourceDefinition", &["/spec/group", "/spec/scope", "/spec/names/kind"]),
];

/// Kinds whose `spec` is immutable except for the listed fields.
const MUTABLE_SPEC_FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "apps",
        "StatefulSet",
        &[
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ],
    ),
    ("", "PersistentVolumeClaim", &["resources", "volumeName", "volumeAttributesClassName"]),
    (
        "",
        "Pod",
        &[
            "containers",
            "initContainers",
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
        ],
    ),
];

/// Refuses a change to an immutable field, like a real server.
pub(crate) fn check_immutable_fields(
    key: &ObjectKey,
    before: &Object,
    after: &Object,
) -> Result<(), ClusterError> {
    let of_kind = |(group, kind, _): &&(&str, &str, &[&str])| *group == key.group && *kind == key.kind;
    for path in IMMUTABLE_FIELDS.iter().find(of_kind).map_or(&[] as &[&str], |(_, _, paths)| paths) {
        if before.pointer(path) != after.pointer(path) {
            let field = path.trim_start_matches('/').replace('/', ".");
            return Err(immutable_field_error(key, &field, "field is immutable", &[]));
        }
    }
    if let Some((_, _, free)) = MUTABLE_SPEC_FIELDS.iter().find(of_kind)
        && !is_equal_except(before.pointer("/spec"), after.pointer("/spec"), free)
    {
        let reason = format!("updates to spec for fields other than {} are forbidden", quote_names(free));
        return Err(immutable_field_error(key, "spec", &reason, free));
    }
    if matches!(key.kind.as_str(), "ConfigMap" | "Secret")
        && key.group.is_empty()
        && before.pointer("/immutable") == Some(&Value::Bool(true))
    {
        for field in ["/data", "/binaryData", "/immutable"] {
            if before.pointer(field) != after.pointer(field) {
                let name = field.trim_start_matches('/');
                return Err(immutable_field_error(
                    key,
                    name,
                    "field is immutable when `immutable` is set",
                    &[],
                ));
            }
        }
    }
    Ok(())
}

/// Returns the error that the client would build from a real server's refusal.
fn immutable_field_error(key: &ObjectKey, field: &str, reason: &str, except: &[&str]) -> ClusterError {
    let mutable_subfields = except.iter().map(|name| format!("{field}.{name}")).collect();
    let immutable = ImmutableField { field: field.to_owned(), mutable_subfields };
    api_error::invalid(key, &format!("{field}: {reason}"))
        .with_refusal(Refusal::ImmutableFields(vec![immutable]))
}

fn is_equal_except(before: Option<&Value>, after: Option<&Value>, free: &[&str]) -> bool {
    let fixed = |spec: Option<&Value>| {
        let mut fields = spec.and_then(Value::as_object).cloned().unwrap_or_default();
        fields.retain(|name, _| !free.contains(&name.as_str()));
        fields
    };
    fixed(before) == fixed(after)
}

fn quote_names(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    names.join(", ")
}
