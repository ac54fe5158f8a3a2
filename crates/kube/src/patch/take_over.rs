//! From client-side to server-side apply: fields that another manager wrote become ours, so that those which are no
//! longer in the manifest go away with our next apply. What no manifest is asked about stays the other's.

use serde_json::{Map, Value, json};
use tidegate_model::{HandOver, Object, managed_fields};

/// A JSON patch that gives the fields which `from_manager` wrote by updates to `to_manager`'s apply entry; `None` when
/// there are none.
///
/// The patch is good for the resource version of `current` alone. It sets that version rather than testing it: a
/// server answers the first with 409 when the object changed since, the second with a 422 that says nothing.
pub(crate) fn take_over(current: &Object, from_manager: &str, to_manager: &str) -> Option<Value> {
    let entries = current.pointer("/metadata/managedFields")?.as_array()?;
    let is = |entry: &Value, manager: &str, operation: &str| {
        let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        text("manager") == manager && text("operation") == operation && text("subresource").is_empty()
    };
    let (mut theirs, mut kept) = (Vec::new(), Vec::new());
    for entry in entries {
        if !is(entry, from_manager, "Update") {
            kept.push(entry.clone());
            continue;
        }
        let parts = HandOver::of(current, from_manager, &managed_fields(entry).unwrap_or_default());
        if !parts.taken.is_empty() {
            theirs.push(with_fields(entry, parts.taken));
        }
        if !parts.left.is_empty() {
            kept.push(with_fields(entry, parts.left));
        }
    }
    let newest = theirs.iter().max_by_key(|entry| entry.get("time").and_then(Value::as_str))?;
    let ours = match kept.iter().position(|entry| is(entry, to_manager, "Apply")) {
        Some(index) => kept.remove(index),
        None => renamed(newest, to_manager),
    };
    kept.insert(0, theirs.iter().fold(ours, with_fields_of));
    Some(json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": current.resource_version() },
        { "op": "replace", "path": "/metadata/managedFields", "value": kept },
    ]))
}

/// `entry` with these fields in place of its own.
fn with_fields(entry: &Value, fields: Map<String, Value>) -> Value {
    let mut entry = entry.clone();
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("fieldsV1".to_owned(), Value::Object(fields));
    }
    entry
}

fn renamed(entry: &Value, manager: &str) -> Value {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("manager".to_owned(), Value::from(manager));
        fields.insert("operation".to_owned(), Value::from("Apply"));
    }
    entry
}

/// `entry`, owning the fields of `other` too.
fn with_fields_of(mut entry: Value, other: &Value) -> Value {
    if let (Some(fields), Some(more)) =
        (entry.as_object_mut(), other.get("fieldsV1").and_then(Value::as_object))
    {
        let owned = fields.entry("fieldsV1").or_insert_with(|| json!({}));
        if let Some(owned) = owned.as_object_mut() {
            unite(owned, more);
        }
    }
    entry
}

/// Sets of fields are trees of maps, and a leaf is an empty map.
fn unite(owned: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, below) in more {
        let there = owned.entry(name.clone()).or_insert_with(|| json!({}));
        if let (Some(there), Some(below)) = (there.as_object_mut(), below.as_object()) {
            unite(there, below);
        }
    }
}
