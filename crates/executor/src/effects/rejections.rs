//! Explains the server's rejections: the fields that caused them, and a remedy.

use serde_json::Value;
use tidegate_cluster::{Cluster, ClusterError, ImmutableField, Refusal};
use tidegate_model::{Object, Task};
use tidegate_planner::{Change, Comparer};

use super::live_object::read_object;
use super::subject::Subject;

/// Maximum number of changed fields listed in a message.
const CHANGES_MAX: usize = 5;
/// Maximum length of a value in a message, in characters.
const VALUE_CHARS_MAX: usize = 100;

/// Adds a remedy to a rejection. For an immutable field, also adds the old and new values, which takes
/// another read.
pub(super) async fn explain_rejection(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    manifest: &Object,
    mut refused: ClusterError,
) -> ClusterError {
    let advice = match refused.refusal.as_deref() {
        None => return refused,
        Some(Refusal::UnknownFields(_) | Refusal::StrictDecoding) => {
            "remove the field, or ignore it by setting the sync option Validate=false on the object"
                .to_owned()
        }
        Some(Refusal::DuplicateItems) => {
            "remove the duplicate, or set the sync option ServerSideApply=false or ServerSideApply=auto on \
             the object to apply it on the client side, as kubectl and Argo CD do"
                .to_owned()
        }
        Some(Refusal::ImmutableFields(fields)) => {
            let live = read_object(cluster, subject).await.ok().flatten();
            let changed = live.map(|live| describe_changes(manifest, &live, fields)).unwrap_or_default();
            [changed, vec![immutable_field_remedy(subject.task)]].concat().join("; ")
        }
    };
    refused.message = format!("{}; {advice}", refused.message);
    refused
}

/// Describes the changes that a manifest makes to these fields, with Secret values masked.
fn describe_changes(manifest: &Object, live: &Object, fields: &[ImmutableField]) -> Vec<String> {
    let difference = Comparer::default().estimated_difference(manifest, live, &[]);
    let refused = difference.changes.iter().filter_map(|change| {
        let path = dotted_path(&change.path);
        fields.iter().any(|field| is_rejected(&path, field)).then_some((path, change))
    });
    let mut refused: Vec<String> = refused.map(|(path, change)| describe_change(&path, change)).collect();
    let more = refused.len().saturating_sub(CHANGES_MAX);
    refused.truncate(CHANGES_MAX);
    if more > 0 {
        refused.push(format!("{more} more fields would change"));
    }
    refused
}

fn describe_change(path: &str, change: &Change) -> String {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            format!("{path} would change from {} to {}", format_value(before), format_value(after))
        }
        (None, Some(after)) => format!("{path} would be added as {}", format_value(after)),
        (before, None) => {
            format!(
                "{path} would be removed (current value: {})",
                before.as_ref().map_or_else(String::new, format_value)
            )
        }
    }
}

fn format_value(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Converts a JSON pointer to the server's notation, such as `spec.containers[0].image`.
fn dotted_path(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !step.is_empty() && step.chars().all(|sign| sign.is_ascii_digit()) {
            path.push_str(&format!("[{step}]"));
        } else {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(&step);
        }
    }
    path
}

/// Returns true if the server's rejection applies to a change at this path.
fn is_rejected(path: &str, field: &ImmutableField) -> bool {
    let any = |path: &str| -> String {
        let parts = path.split('[').enumerate().map(|(at, part)| match part.split_once(']') {
            Some((_, rest)) if at > 0 => format!("[*]{rest}"),
            _ => part.to_owned(),
        });
        parts.collect()
    };
    let is_within = |outer: &str| {
        let (path, outer) = (any(path), any(outer));
        path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    // Some fields, such as `clusterIP`, also exist as a list, and the error message then names an item of the
    // list (`clusterIPs[0]`).
    let singular = field.field.strip_suffix("s[0]");
    (is_within(&field.field) || singular.is_some_and(is_within))
        && !field.mutable_subfields.iter().any(|one| is_within(one))
}

/// Returns the remedy for an immutable field.
fn immutable_field_remedy(task: &Task) -> String {
    const DELETES: &str = "to delete and recreate it";
    match (task.gvk.group.as_str(), task.gvk.kind.as_str()) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            "undo the change; Force=true does not delete objects that contain other objects".to_owned()
        }
        ("", "PersistentVolumeClaim") => {
            "undo the change, or give the object another name; the sync option Force=true would delete the PersistentVolumeClaim and its data"
                .to_owned()
        }
        _ if task.options.replace => {
            format!(
                "give the object another name, or set its sync options Replace=true,Force=true {DELETES}"
            )
        }
        _ => format!("give the object another name, or set its sync option Force=true {DELETES}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: Value) -> Object {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
        object.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Object::try_from(object).unwrap()
    }

    fn immutable(field: &str, except: &[&str]) -> ImmutableField {
        let mutable_subfields = except.iter().map(|one| (*one).to_owned()).collect();
        ImmutableField { field: field.to_owned(), mutable_subfields }
    }

    #[test]
    fn changes_are_described_where_they_are_rejected() {
        let job = |image: &str, limit: u32| json!({"spec": {"backoffLimit": limit, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        let claim = |class: &str, size: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
        let pod = |image: &str, command: &str| json!({"spec": {"containers": [{"name": "c", "image": image, "command": [command]}]}});
        for (kind, before, after, field, expected) in [
            (
                "Thing",
                job("a:1", 1),
                job("a:2", 2),
                immutable("spec.template", &[]),
                "spec.template.spec.containers[0].image would change from \"a:1\" to \"a:2\"",
            ),
            (
                "PersistentVolumeClaim",
                claim("a", "1Gi"),
                claim("b", "2Gi"),
                immutable("spec", &["spec.resources.requests"]),
                "spec.storageClassName would change from \"a\" to \"b\"",
            ),
            (
                "Pod",
                pod("a", "x"),
                pod("b", "y"),
                immutable("spec", &["spec.containers[*].image"]),
                "spec.containers[0].command[0] would change from \"x\" to \"y\"",
            ),
            (
                "Service",
                json!({"spec": {"clusterIP": "10.0.0.1"}}),
                json!({"spec": {"clusterIP": "10.0.0.2"}}),
                immutable("spec.clusterIPs[0]", &[]),
                "spec.clusterIP would change from \"10.0.0.1\" to \"10.0.0.2\"",
            ),
            (
                "ConfigMap",
                json!({"data": {"a": "1"}}),
                json!({"data": {"a": "1", "b": "2"}}),
                immutable("data", &[]),
                "data.b would be added as \"2\"",
            ),
            (
                "Service",
                json!({"spec": {"type": "A"}}),
                json!({"spec": {"type": "B"}}),
                immutable("metadata", &[]),
                "",
            ),
        ] {
            let description =
                describe_changes(&object(kind, after), &object(kind, before), &[field]).join("; ");
            assert!(
                description.starts_with(expected) && (description.is_empty() == expected.is_empty()),
                "{kind}: {description}"
            );
            assert!(!description.contains("; "), "{kind}: {description}");
        }
    }

    #[test]
    fn values_of_secrets_are_masked_and_long_ones_are_truncated() {
        let secret = |value: &str| object("Secret", json!({"immutable": true, "stringData": {"p": value}}));
        let live = object("Secret", json!({"immutable": true, "data": {"p": "aHVudGVyMg=="}}));
        let description = describe_changes(&secret("hunter3"), &live, &[immutable("data", &[])]).join("; ");
        assert!(description.starts_with("data.p would change from \"+"), "{description}");
        assert!(!description.contains("hunter") && !description.contains("aHVud"), "{description}");
        let long = object("ConfigMap", json!({"data": {"p": "é".repeat(1000)}}));
        let description = describe_changes(
            &long,
            &object("ConfigMap", json!({"data": {"p": "1"}})),
            &[immutable("data", &[])],
        );
        assert!(description[0].len() < 300, "{description:?}");
    }
}
