//! Client-side apply: computes the patch that turns the live object into the manifest.
//!
//! ```text
//!   original (last-applied annotation) ─┐
//!   modified (the manifest) ────────────┼─► three_way_patch ─► Patch, or no changes
//!   current  (the live object) ─────────┘
//! ```
//!
//! Fields in the last manifest but not in the new one are deleted. Fields in the new manifest are set, and
//! fields of other managers are preserved. Kinds with a known [`schema`] get a strategic merge patch, which
//! also preserves other managers' containers, ports and environment variables. All other kinds get a JSON
//! merge patch, which treats every list as a single value and doesn't depend on the server's schema.
//!
//! The result is the same as kubectl's, except when the server's single merge key can't tell valid items
//! apart. Examples are the same port for TCP and UDP, and a repeated variable. kubectl loses some of these
//! items, whereas Tidegate sends the whole list.
//!
//! This module doesn't call a server. The kube crate sends patches but doesn't compute them
//! (<https://github.com/kube-rs/kube/issues/29>).

mod annotation;
mod directives;
mod json_merge;
mod keyed_list;
mod schema;
mod strategic;
mod take_over;
#[cfg(test)]
mod tests;

pub(crate) use annotation::{LAST_APPLIED, last_applied};
pub(crate) use take_over::take_over_patch;

use serde_json::{Map, Value, json};
use tidegate_model::{Gvk, describe_json_type};

type Fields = Map<String, Value>;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON_MERGE: &str = "application/merge-patch+json";

/// Body of a PATCH request.
///
/// A body that repeats values of other managers includes the resource version that was read. If the object
/// has changed since, the server responds with 409, and the caller must read it and compute the patch again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    /// Value of the `Content-Type` header.
    pub(crate) content_type: &'static str,
    /// The patch, in the format of `content_type`.
    pub(crate) body: Value,
}

impl Patch {
    /// Restricts the patch to the given version of the object.
    pub(crate) fn only_version(&mut self, version: &str) {
        let metadata =
            self.body.as_object_mut().map(|body| body.entry("metadata").or_insert_with(|| json!({})));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
    }
}

/// Error of client-side apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// An object isn't a map.
    #[error("{which} is {found}, not a map of fields")]
    NotAMap { which: &'static str, found: &'static str },
    /// The manifest and the live object have different identities.
    #[error(
        "a patch cannot change {field} from {live} to {manifest}: delete the object first, or use another name"
    )]
    OtherObject { field: &'static str, manifest: String, live: String },
    /// The manifest has a field that the server would interpret as a patch directive.
    #[error(
        "{path} is a directive of strategic merge patches, not a field: remove the directive from the \
         manifest, or use server-side apply"
    )]
    Directive { path: String },
    /// The annotation would exceed the size limit.
    #[error(
        "{object} is too large for client-side apply: with the manifest in the {LAST_APPLIED} annotation, \
         its annotations would take up {bytes} bytes, and the limit is {limit}; use server-side apply: \
         remove the sync option ServerSideApply=false",
        limit = annotation::TOTAL_BYTES_MAX
    )]
    TooLarge { object: String, bytes: usize },
}

/// Returns the patch that makes `current` match `modified`, or `None` if nothing changes.
///
/// `original` is the last applied manifest, taken from the live object's last-applied annotation. If it is
/// `None`, no fields are deleted. `modified` includes the new annotation.
pub(crate) fn three_way_patch(
    gvk: &Gvk,
    original: Option<&Value>,
    modified: &Value,
    current: &Value,
) -> Result<Option<Patch>, PatchError> {
    let original = original.and_then(Value::as_object);
    let modified = as_fields("the manifest", modified)?;
    let current = as_fields("the live object", current)?;
    check_same_object(modified, current)?;
    let (content_type, body) = match schema::find_type(gvk) {
        Some(root) => (STRATEGIC, strategic::diff_object(original, modified, current, root)?),
        None => (JSON_MERGE, json_merge::diff_maps(original, modified, current)),
    };
    Ok((!body.is_empty()).then_some(Patch { content_type, body: Value::Object(body) }))
}

fn as_fields<'a>(which: &'static str, value: &'a Value) -> Result<&'a Fields, PatchError> {
    value.as_object().ok_or_else(|| PatchError::NotAMap { which, found: describe_json_type(value) })
}

/// Checks that both objects have the same identity. A patch refers to an object by name, so a changed
/// identity would either be ignored or be refused with an unclear message.
fn check_same_object(modified: &Fields, current: &Fields) -> Result<(), PatchError> {
    let name = |fields: &Fields| fields.get("metadata").and_then(|metadata| metadata.get("name")).cloned();
    for (field, manifest, live) in [
        ("apiVersion", modified.get("apiVersion").cloned(), current.get("apiVersion").cloned()),
        ("kind", modified.get("kind").cloned(), current.get("kind").cloned()),
        ("metadata.name", name(modified), name(current)),
    ] {
        if manifest != live {
            let text = |value: Option<Value>| value.unwrap_or(Value::Null).to_string();
            return Err(PatchError::OtherObject { field, manifest: text(manifest), live: text(live) });
        }
    }
    Ok(())
}

/// Returns a field if it is set. An explicit null counts as unset.
fn non_null_field<'a>(fields: Option<&'a Fields>, name: &str) -> Option<&'a Value> {
    fields?.get(name).filter(|value| !value.is_null())
}

/// Removes nulls from a new value, because a null means unset.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}
