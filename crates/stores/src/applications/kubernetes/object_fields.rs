//! Fields of observed objects.

use serde_json::{Map, Value};
use tidegate_model::annotations::{DELETION_APPROVED, SERVICE_MANAGER};
use tidegate_model::{Object, managed_fields};

/// Metadata fields written by API servers.
const SERVER_FIELDS: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// Sets a field of an object, or removes it if the value is `None`.
pub fn set_field(fields: &mut Map<String, Value>, name: &str, value: Option<&impl serde::Serialize>) {
    match value.and_then(|value| serde_json::to_value(value).ok()) {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}

pub(super) fn finalizers(object: &Object) -> Vec<String> {
    let found = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    found.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the version as a number. All API servers use numbers, so versions of an object are comparable.
pub(super) fn version(object: &Object) -> u64 {
    parse_version(object.resource_version())
}

pub(super) fn parse_version(version: &str) -> u64 {
    version.parse().unwrap_or(u64::MAX)
}

/// Returns the operation in a status if its phase is `Terminating`.
pub(super) fn terminating_operation(object: &Object) -> Option<Value> {
    let state = object.pointer("/status/operationState")?;
    let is_ended = state.get("phase")? == "Terminating" && state.get("finishedAt").is_none();
    is_ended.then(|| state.get("operation").cloned().unwrap_or_default())
}

/// Returns the field manager that last wrote an operation's phase, or `None` for Tidegate.
pub(super) fn writer_of_phase(object: &Object) -> Option<String> {
    writer_of(object, &["f:status", "f:operationState", "f:phase"])
}

/// Returns the field manager that confirmed deletions with an annotation, or `None` for Tidegate.
pub(super) fn approver(object: &Object) -> Option<String> {
    object.annotation(DELETION_APPROVED)?;
    writer_of(object, &["f:metadata", "f:annotations", &format!("f:{DELETION_APPROVED}")])
}

/// Returns the field manager that last wrote a field, or `None` for Tidegate. `path` is the field's path in
/// `managedFields`.
fn writer_of(object: &Object, path: &[&str]) -> Option<String> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?.iter().filter(|entry| {
        let fields = managed_fields(entry).unwrap_or_default();
        let (first, rest) = path.split_first().unwrap_or((&"", &[]));
        let found = rest.iter().try_fold(fields.get(*first), |part, name| Some(part?.get(*name)));
        found.flatten().is_some()
    });
    let newest = entries.max_by_key(|entry| entry.get("time").and_then(Value::as_str))?;
    newest.get("manager").and_then(Value::as_str).filter(|one| *one != SERVICE_MANAGER).map(str::to_owned)
}

pub(super) fn operation(object: &Object) -> Option<Value> {
    object.pointer("/operation").cloned()
}

/// Returns other clients' fields: all except the status, the operation, the refresh request and the server's
/// metadata.
pub(super) fn client_fields(object: &Object, refresh_annotation: &str) -> Object {
    let mut object = object.clone();
    object.fields_mut().remove("status");
    object.fields_mut().remove("operation");
    object.remove_annotation(refresh_annotation);
    let metadata = object.metadata_mut();
    SERVER_FIELDS.iter().for_each(|field| drop(metadata.remove(*field)));
    if metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
    object
}
