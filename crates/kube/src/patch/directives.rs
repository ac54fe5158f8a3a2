//! Directives of strategic merge patches: field names that tell the server how to merge.

use serde_json::Value;

use super::{Fields, PatchError};

/// Deletes an item. With the value `replace`, marks a list as complete.
pub(super) const PATCH_DIRECTIVE: &str = "$patch";
/// Deletes all fields of a map outside the directive's list.
const RETAIN_KEYS_DIRECTIVE: &str = "$retainKeys";
/// Order of a list, in a field next to the list.
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
/// Values to remove from a list, in a field next to the list.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Refuses a manifest with fields that the server would interpret as directives.
pub(super) fn refuse_directives(fields: &Fields, path: &str) -> Result<(), PatchError> {
    for (name, value) in fields {
        let path = format!("{path}/{name}");
        let directive = name == PATCH_DIRECTIVE
            || name == RETAIN_KEYS_DIRECTIVE
            || name.starts_with(SET_ELEMENT_ORDER)
            || name.starts_with(DELETE_FROM_LIST);
        if directive {
            return Err(PatchError::Directive { path });
        }
        refuse_directives_in(value, &path)?;
    }
    Ok(())
}

fn refuse_directives_in(value: &Value, path: &str) -> Result<(), PatchError> {
    match value {
        Value::Object(fields) => refuse_directives(fields, path),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| refuse_directives_in(item, &format!("{path}/{index}"))),
        _ => Ok(()),
    }
}

/// If any field of a union changes, removes the union's fields that aren't in the manifest.
pub(super) fn retain_keys(patch: &mut Fields, wanted: &Fields) {
    if !patch.is_empty() {
        let names =
            wanted.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| Value::from(name.clone()));
        patch.insert(RETAIN_KEYS_DIRECTIVE.to_owned(), names.collect());
    }
}
