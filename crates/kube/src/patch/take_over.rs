//! Transfer of fields from other managers, so that Tidegate's next apply removes fields that are gone from
//! the manifest. The transfer covers fields from client-side apply and from Argo CD's applies. Fields that
//! never come from a manifest stay with their manager.

use serde_json::{Map, Value, json};
use tidegate_model::{FieldHandover, Object, can_be_taken_over, managed_fields};

/// Returns a JSON patch that moves the fields of the managers in `from` to the apply entry of `to_manager`.
/// `None` if they have no such fields.
///
/// The patch is valid only for the resource version of `current`, and thus only for its UID, because two
/// objects never share a version. It sets the version instead of testing it: if the object has changed, the
/// server responds to a set version with 409, but to a tested one with an uninformative 422.
pub(crate) fn take_over_patch(current: &Object, from: &[String], to_manager: &str) -> Option<Value> {
    let entries = current.pointer("/metadata/managedFields")?.as_array()?;
    let is_ours = |entry: &Value| {
        let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        text("manager") == to_manager && text("operation") == "Apply" && text("subresource").is_empty()
    };
    let (mut theirs, mut kept) = (Vec::new(), Vec::new());
    for entry in entries {
        let Some(manager) = from.iter().find(|manager| can_be_taken_over(entry, manager)) else {
            kept.push(entry.clone());
            continue;
        };
        let parts = FieldHandover::split(current, manager, &managed_fields(entry).unwrap_or_default());
        if !parts.transferred.is_empty() {
            theirs.push(with_fields(entry, parts.transferred));
        }
        if !parts.retained.is_empty() {
            kept.push(with_fields(entry, parts.retained));
        }
    }
    let newest = theirs.iter().max_by_key(|entry| entry.get("time").and_then(Value::as_str))?;
    let ours = match kept.iter().position(is_ours) {
        Some(index) => kept.remove(index),
        None => with_manager(newest, to_manager),
    };
    kept.insert(0, theirs.iter().fold(ours, with_merged_fields));
    Some(json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": current.resource_version() },
        { "op": "replace", "path": "/metadata/managedFields", "value": kept },
    ]))
}

/// Returns `entry` with its fields replaced.
fn with_fields(entry: &Value, fields: Map<String, Value>) -> Value {
    let mut entry = entry.clone();
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("fieldsV1".to_owned(), Value::Object(fields));
    }
    entry
}

fn with_manager(entry: &Value, manager: &str) -> Value {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("manager".to_owned(), Value::from(manager));
        fields.insert("operation".to_owned(), Value::from("Apply"));
    }
    entry
}

/// Returns `entry` with the fields of `other` added.
fn with_merged_fields(mut entry: Value, other: &Value) -> Value {
    if let (Some(fields), Some(more)) =
        (entry.as_object_mut(), other.get("fieldsV1").and_then(Value::as_object))
    {
        let owned = fields.entry("fieldsV1").or_insert_with(|| json!({}));
        if let Some(owned) = owned.as_object_mut() {
            merge_field_sets(owned, more);
        }
    }
    entry
}

/// Merges sets of fields, which are trees of maps with empty maps as leaves.
fn merge_field_sets(owned: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, below) in more {
        let there = owned.entry(name.clone()).or_insert_with(|| json!({}));
        if let (Some(there), Some(below)) = (there.as_object_mut(), below.as_object()) {
            merge_field_sets(there, below);
        }
    }
}
