//! Blockers of a deletion, such as finalizers and dependents.

use serde_json::Value;
use tidegate_model::{Gvk, Object};

use crate::text::{MESSAGE_BYTES_MAX, shorten};

/// Describes the blockers of an object's deletion, as a phrase after "waits for". Empty if the reason is
/// unknown or the object isn't being deleted.
pub fn deletion_blockers(object: &Object) -> String {
    if !object.is_deleting() {
        return String::new();
    }
    let mut kept: Vec<String> = Vec::new();
    let named: Vec<&str> =
        object.finalizers().filter(|name| describe_garbage_collection(name).is_none()).collect();
    match named.as_slice() {
        [] => {}
        [one] => kept.push(format!("finalizer {one}")),
        many => kept.push(format!("finalizers {}", many.join(", "))),
    }
    kept.extend(object.finalizers().filter_map(describe_garbage_collection).map(str::to_owned));
    if is_namespace(object.group(), object.kind()) {
        kept.push(remaining_content(object));
    }
    if kept.is_empty() && (object.group(), object.kind()) == ("", "Pod") {
        kept.push("its containers to terminate".to_owned());
    }
    shorten(kept.join(" and "), MESSAGE_BYTES_MAX)
}

/// Returns true if this kind's status names the blockers of a deletion.
pub fn has_deletion_status(gvk: &Gvk) -> bool {
    is_namespace(&gvk.group, &gvk.kind)
}

fn is_namespace(group: &str, kind: &str) -> bool {
    (group, kind) == ("", "Namespace")
}

/// Describes the finalizers of the garbage collector.
fn describe_garbage_collection(finalizer: &str) -> Option<&'static str> {
    match finalizer {
        "foregroundDeletion" => Some("its dependents to be deleted"),
        "orphan" => Some("its dependents to be orphaned"),
        _ => None,
    }
}

/// Describes the remaining content of a namespace, in the words of the namespace controller.
fn remaining_content(namespace: &Object) -> String {
    let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array);
    let text = |condition: &Value, field: &str| {
        condition.get(field).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let left: Vec<String> = conditions
        .into_iter()
        .flatten()
        .filter(|condition| text(condition, "status") == "True")
        .map(|condition| text(condition, "message"))
        .filter(|message| !message.is_empty())
        .collect();
    if left.is_empty() { "its content".to_owned() } else { format!("its content: {}", left.join("; ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deleted_object(kind: &str, finalizers: &[&str], more: Value) -> Object {
        let mut whole = json!({"apiVersion": "v1", "kind": kind, "metadata": {
            "name": "a", "deletionTimestamp": "2026-11-21T09:30:00Z", "finalizers": finalizers}});
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), more.as_object()) {
            whole.extend(more.clone());
        }
        Object::try_from(whole).unwrap()
    }

    #[test]
    fn blockers_of_a_deletion_are_named() {
        let nothing = || json!({});
        for (kind, finalizers, more, expected) in [
            ("ConfigMap", vec![], nothing(), ""),
            ("ConfigMap", vec!["example.com/a"], nothing(), "finalizer example.com/a"),
            ("ConfigMap", vec!["example.com/a", "b.io/c"], nothing(), "finalizers example.com/a, b.io/c"),
            ("ConfigMap", vec!["foregroundDeletion"], nothing(), "its dependents to be deleted"),
            ("ConfigMap", vec!["orphan"], nothing(), "its dependents to be orphaned"),
            (
                "ConfigMap",
                vec!["foregroundDeletion", "example.com/a"],
                nothing(),
                "finalizer example.com/a and its dependents to be deleted",
            ),
            ("Pod", vec![], nothing(), "its containers to terminate"),
            ("Pod", vec!["example.com/a"], nothing(), "finalizer example.com/a"),
            ("Namespace", vec![], nothing(), "its content"),
            (
                "Namespace",
                vec![],
                json!({"status": {"conditions": [
                    {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "All content deleted"},
                    {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 2 resource instances"},
                    {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "example.com/a in 2"},
                ]}}),
                "its content: pods. has 2 resource instances; example.com/a in 2",
            ),
            ("Namespace", vec![], json!({"status": {"conditions": "none"}}), "its content"),
        ] {
            assert_eq!(
                deletion_blockers(&deleted_object(kind, &finalizers, more)),
                expected,
                "{kind} {finalizers:?}"
            );
        }
    }

    #[test]
    fn objects_without_finalizers_have_no_blockers() {
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": ["b.io/c"]}});
        assert_eq!(deletion_blockers(&Object::try_from(object).unwrap()), "");
    }
}
