//! Client-side apply: the patch that turns the live object into what the manifest says.
//!
//! ```text
//!   original (last-applied annotation) ─┐
//!   modified (the manifest) ────────────┼─► three_way ─► Patch, or nothing to do
//!   current  (the live object) ─────────┘
//! ```
//!
//! What the manifest no longer says and the last one did is deleted; what it says is set; what others added stays.
//! Kinds whose lists we know ([`schema`]) get a strategic merge patch, so that others' containers, ports and
//! environment variables stay too. All other kinds get a JSON merge patch, which treats every list as one value and
//! means the same whatever the server knows of the kind.
//!
//! The result is what kubectl's is, except where the server's one merge key does not tell apart what is valid together
//! (a port for TCP and for UDP, a variable that is there twice): there kubectl loses items, and we send the whole list.
//!
//! Nothing here talks to a server.

mod annotation;
mod json_merge;
mod keyed_list;
mod schema;
mod strategic;
mod take_over;
#[cfg(test)]
mod tests;

pub(crate) use annotation::{LAST_APPLIED, last_applied};
pub(crate) use take_over::take_over;

use serde_json::{Map, Value, json};
use tidegate_model::{Gvk, describe};

type Fields = Map<String, Value>;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_MERGE: &str = "application/merge-patch+json";

/// The body of a PATCH request.
///
/// A body that repeats what others wrote names the resource version it was read at; the server answers 409 when the
/// object changed since. Read it again, and calculate again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    /// The header `Content-Type`.
    pub(crate) content_type: &'static str,
    /// The patch itself, in the form that `content_type` names.
    pub(crate) body: Value,
}

impl Patch {
    /// Makes it good for this version of the object alone.
    pub(crate) fn only_version(&mut self, version: &str) {
        let metadata =
            self.body.as_object_mut().map(|body| body.entry("metadata").or_insert_with(|| json!({})));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
    }
}

/// Why client-side apply cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// An object is not a map.
    #[error("{which} is {found}, not a map of fields")]
    NotAMap { which: &'static str, found: &'static str },
    /// The manifest is about another object than the live one.
    #[error(
        "a patch cannot change {field} from {live} to {manifest}: delete the object first, or name another one"
    )]
    OtherObject { field: &'static str, manifest: String, live: String },
    /// The manifest has a field that the server would read as an instruction.
    #[error(
        "{path} is an instruction of strategic merge patches, not a field: \
         remove it from the manifest, or use server-side apply"
    )]
    Directive { path: String },
    /// The annotation would not fit.
    #[error(
        "{object} is too large for client-side apply: with its manifest in the annotation {LAST_APPLIED} its \
         annotations would take {bytes} bytes, and a server allows {limit}. Use server-side apply: remove the sync \
         option ServerSideApply=false",
        limit = annotation::TOTAL_BYTES_MAX
    )]
    TooLarge { object: String, bytes: usize },
}

/// What to send so that `current` becomes what `modified` says; `None` when there is nothing to do.
///
/// `original` is what we applied last, as the last-applied annotation of the live object tells; without it nothing is
/// deleted. `modified` carries the new annotation.
pub(crate) fn three_way(
    gvk: &Gvk,
    original: Option<&Value>,
    modified: &Value,
    current: &Value,
) -> Result<Option<Patch>, PatchError> {
    let original = original.and_then(Value::as_object);
    let modified = fields("the manifest", modified)?;
    let current = fields("the live object", current)?;
    same_object(modified, current)?;
    let (content_type, body) = match schema::of(gvk) {
        Some(root) => (STRATEGIC, strategic::diff(original, modified, current, root)?),
        None => (JSON_MERGE, json_merge::diff(original, modified, current)),
    };
    Ok((!body.is_empty()).then_some(Patch { content_type, body: Value::Object(body) }))
}

fn fields<'a>(which: &'static str, value: &'a Value) -> Result<&'a Fields, PatchError> {
    value.as_object().ok_or_else(|| PatchError::NotAMap { which, found: describe(value) })
}

/// A patch is addressed by name: a change of identity would be lost or refused in words that say nothing.
fn same_object(modified: &Fields, current: &Fields) -> Result<(), PatchError> {
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

/// The entries that are there: an explicit null says that a field is not set.
fn set<'a>(fields: Option<&'a Fields>, name: &str) -> Option<&'a Value> {
    fields?.get(name).filter(|value| !value.is_null())
}

/// A value to be added: nulls in maps say that fields are not set, so there is nothing to add.
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
