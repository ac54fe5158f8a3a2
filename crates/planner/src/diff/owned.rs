//! What did Tidegate write that the target no longer gives?
//!
//! The server notes who wrote which field: `f:name` is a field, `k:{…}` the item of a list with these keys, `v:…` an
//! item of a set, `.` the thing itself.

use serde_json::{Map, Value};
use tidegate_model::{Object, annotations};

use super::compare::same_item;
use super::is_ours;

/// The path of the first field of ours in the live object that the target does not have.
pub(super) fn first_dropped(target: &Value, live: &Object) -> Option<String> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let ours = entries.iter().filter(|entry| {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        text("manager") == annotations::FIELD_MANAGER
            && text("operation") == "Apply"
            && text("subresource").is_empty()
    });
    ours.filter_map(|entry| entry.get("fieldsV1")?.as_object()).find_map(|fields| {
        let outside_status = fields.iter().filter(|(name, _)| name.as_str() != "f:status");
        dropped(outside_status, target)
    })
}

fn dropped<'v>(fields: impl Iterator<Item = (&'v String, &'v Value)>, target: &Value) -> Option<String> {
    for (path, below) in fields {
        let Some(below) = below.as_object() else { continue };
        let found = match path.split_once(':') {
            Some(("f", name)) if is_ours(name) => continue,
            Some(("f", name)) => {
                let Some(value) = target.get(name) else { return Some(format!("/{name}")) };
                inside(below, value).map(|rest| format!("/{name}{rest}"))
            }
            Some(("k", keys)) => {
                let Some(item) = item(target, keys) else { return Some(format!("/{keys}")) };
                inside(below, item).map(|rest| format!("/{keys}{rest}"))
            }
            Some(("v", value)) => is_missing(target, value).then(|| format!("/{value}")),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Where the target has another type than before, comparing the values has found that already.
fn inside(fields: &Map<String, Value>, value: &Value) -> Option<String> {
    if value.is_object() || value.is_array() { dropped(fields.iter(), value) } else { None }
}

fn item<'v>(list: &'v Value, keys: &str) -> Option<&'v Value> {
    let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
    list.as_array()?.iter().find(|item| same_item(&names, item, |key| keys.get(key)))
}

fn is_missing(set: &Value, value: &str) -> bool {
    match (set.as_array(), serde_json::from_str::<Value>(value)) {
        (Some(items), Ok(value)) => !items.contains(&value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(manager: &str, operation: &str) -> Object {
        Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a",
        "managedFields": [{"manager": manager, "operation": operation, "fieldsV1": {
            "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {".": {}, "v:\"x\"": {}},
                "f:annotations": {"f:tidegate.dev/operation-id": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"api\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
                    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}},
            "f:status": {"f:replicas": {}}
        }}]}}))
        .unwrap()
    }

    fn target() -> Value {
        json!({"metadata": {"labels": {"app": "a"}, "finalizers": ["x"], "annotations": {}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "api", "image": "i", "ports": [{"containerPort": 80}]}]}}}})
    }

    #[test]
    fn fields_that_are_gone_from_the_target_are_found() {
        let live = live("tidegate", "Apply");
        assert_eq!(first_dropped(&target(), &live), None);
        for (pointer, field, path) in [
            ("/metadata/labels", "app", "/metadata/labels/app"),
            ("/spec", "replicas", "/spec/replicas"),
            (
                "/spec/template/spec/containers/0",
                "image",
                "/spec/template/spec/containers/{\"name\":\"api\"}/image",
            ),
            ("/spec/template/spec", "containers", "/spec/template/spec/containers"),
        ] {
            let mut target = target();
            target.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field);
            assert_eq!(first_dropped(&target, &live).as_deref(), Some(path));
        }
        for (pointer, path) in [
            ("/metadata/finalizers", "/metadata/finalizers/\"x\""),
            ("/spec/template/spec/containers", "/spec/template/spec/containers/{\"name\":\"api\"}"),
        ] {
            let mut target = target();
            *target.pointer_mut(pointer).unwrap() = json!([]);
            assert_eq!(first_dropped(&target, &live).as_deref(), Some(path));
        }
    }

    #[test]
    fn what_others_wrote_is_theirs() {
        let mut target = target();
        target["spec"].as_object_mut().unwrap().clear();
        assert_eq!(first_dropped(&target, &live("kubectl", "Apply")), None);
        assert_eq!(first_dropped(&target, &live("tidegate", "Update")), None);
    }
}
