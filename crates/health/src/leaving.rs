//! What keeps an object that is being deleted.

use serde_json::Value;
use tidegate_model::{Gvk, Object};

use crate::text::{MESSAGE_BYTES_MAX, shorten};

/// What an object still waits for that was told to go, in words that follow "waits for"; empty where it does not tell, and
/// for an object that may stay.
pub fn kept_by(object: &Object) -> String {
    if !object.is_deleting() {
        return String::new();
    }
    let mut kept: Vec<String> = Vec::new();
    let named: Vec<&str> = object.finalizers().filter(|name| owned(name).is_none()).collect();
    match named.as_slice() {
        [] => {}
        [one] => kept.push(format!("finalizer {one}")),
        many => kept.push(format!("finalizers {}", many.join(", "))),
    }
    kept.extend(object.finalizers().filter_map(owned).map(str::to_owned));
    if is_namespace(object.group(), object.kind()) {
        kept.push(content(object));
    }
    if kept.is_empty() && (object.group(), object.kind()) == ("", "Pod") {
        kept.push("its containers to end".to_owned());
    }
    shorten(kept.join(" and "), MESSAGE_BYTES_MAX)
}

/// Whether an object of this kind tells in its status what keeps it.
pub fn tells_what_keeps_it(gvk: &Gvk) -> bool {
    is_namespace(&gvk.group, &gvk.kind)
}

fn is_namespace(group: &str, kind: &str) -> bool {
    (group, kind) == ("", "Namespace")
}

/// The finalizers of the garbage collector.
fn owned(finalizer: &str) -> Option<&'static str> {
    match finalizer {
        "foregroundDeletion" => Some("what it owns"),
        "orphan" => Some("what it owns to be let go"),
        _ => None,
    }
}

/// What is left in a namespace, in the words of the controller that empties it.
fn content(namespace: &Object) -> String {
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

    fn leaving(kind: &str, finalizers: &[&str], more: Value) -> Object {
        let mut whole = json!({"apiVersion": "v1", "kind": kind, "metadata": {
            "name": "a", "deletionTimestamp": "2026-11-21T09:30:00Z", "finalizers": finalizers}});
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), more.as_object()) {
            whole.extend(more.clone());
        }
        Object::try_from(whole).unwrap()
    }

    #[test]
    fn what_keeps_an_object_is_named() {
        let nothing = || json!({});
        for (kind, finalizers, more, expected) in [
            ("ConfigMap", vec![], nothing(), ""),
            ("ConfigMap", vec!["example.com/a"], nothing(), "finalizer example.com/a"),
            ("ConfigMap", vec!["example.com/a", "b.io/c"], nothing(), "finalizers example.com/a, b.io/c"),
            ("ConfigMap", vec!["foregroundDeletion"], nothing(), "what it owns"),
            ("ConfigMap", vec!["orphan"], nothing(), "what it owns to be let go"),
            (
                "ConfigMap",
                vec!["foregroundDeletion", "example.com/a"],
                nothing(),
                "finalizer example.com/a and what it owns",
            ),
            ("Pod", vec![], nothing(), "its containers to end"),
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
            assert_eq!(kept_by(&leaving(kind, &finalizers, more)), expected, "{kind} {finalizers:?}");
        }
    }

    #[test]
    fn nothing_keeps_what_may_stay() {
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": ["b.io/c"]}});
        assert_eq!(kept_by(&Object::try_from(object).unwrap()), "");
    }
}
