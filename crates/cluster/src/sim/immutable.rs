//! Fields that cannot be changed once an object is there.

use serde_json::Value;
use tidegate_model::{Object, ObjectKey};

use super::refuse;
use crate::ClusterError;

/// Fields that must stay as they are, by group and kind.
const FIXED: &[(&str, &str, &[&str])] = &[
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

/// Kinds whose `spec` is fixed but for these fields.
const FIXED_BUT: &[(&str, &str, &[&str])] = &[
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

/// Refuses a change of a fixed field, as a real server does.
pub(crate) fn check(key: &ObjectKey, before: &Object, after: &Object) -> Result<(), ClusterError> {
    let of_kind = |(group, kind, _): &&(&str, &str, &[&str])| *group == key.group && *kind == key.kind;
    for path in FIXED.iter().find(of_kind).map_or(&[] as &[&str], |(_, _, paths)| paths) {
        if before.pointer(path) != after.pointer(path) {
            let field = path.trim_start_matches('/').replace('/', ".");
            let value = after.pointer(path).unwrap_or(&Value::Null);
            return Err(refuse::invalid(
                key,
                &format!("{field}: Invalid value: {value}: field is immutable"),
            ));
        }
    }
    if let Some((_, _, free)) = FIXED_BUT.iter().find(of_kind)
        && !same_but(before.pointer("/spec"), after.pointer("/spec"), free)
    {
        let why =
            format!("spec: Forbidden: updates to spec for fields other than {} are forbidden", quoted(free));
        return Err(refuse::invalid(key, &why));
    }
    if matches!(key.kind.as_str(), "ConfigMap" | "Secret")
        && key.group.is_empty()
        && before.pointer("/immutable") == Some(&Value::Bool(true))
    {
        for field in ["/data", "/binaryData", "/immutable"] {
            if before.pointer(field) != after.pointer(field) {
                let name = field.trim_start_matches('/');
                return Err(refuse::invalid(
                    key,
                    &format!("{name}: Forbidden: field is immutable when `immutable` is set"),
                ));
            }
        }
    }
    Ok(())
}

fn same_but(before: Option<&Value>, after: Option<&Value>, free: &[&str]) -> bool {
    let fixed = |spec: Option<&Value>| {
        let mut fields = spec.and_then(Value::as_object).cloned().unwrap_or_default();
        fields.retain(|name, _| !free.contains(&name.as_str()));
        fields
    };
    fixed(before) == fixed(after)
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    names.join(", ")
}
