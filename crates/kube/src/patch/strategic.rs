//! The three-way strategic merge patch.

use serde_json::{Value, json};

use super::keyed_list::{self, Lists};
use super::schema::{Merge, Type};
use super::{Fields, PatchError, set, without_nulls};

/// Deletes an item, or with `replace` says that a list is meant as a whole.
pub(super) const PATCH: &str = "$patch";
/// Deletes all fields of a map that it does not name.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// The order of a list, as a field beside it.
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
/// Values to remove from a list, as a field beside it.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// The patch; empty when there is nothing to do.
pub(super) fn diff(
    original: Option<&Fields>,
    modified: &Fields,
    current: &Fields,
    root: &Type,
) -> Result<Fields, PatchError> {
    refuse_directives(modified, "")?;
    let mut differ = Differ { repeats_others: false };
    let mut patch = differ.maps(original, modified, current, root);
    if differ.repeats_others {
        guard(&mut patch, current);
    }
    Ok(patch)
}

/// Makes the patch good for the version of the object that was read, and no other.
fn guard(patch: &mut Fields, current: &Fields) {
    let version = current.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if let (Some(version), Some(metadata)) = (version, metadata.as_object_mut()) {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
}

fn refuse_directives(fields: &Fields, path: &str) -> Result<(), PatchError> {
    for (name, value) in fields {
        let path = format!("{path}/{name}");
        let directive = name == PATCH
            || name == RETAIN_KEYS
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

pub(super) struct Differ {
    /// Whether the patch contains values of others that were read from the live object.
    pub(super) repeats_others: bool,
}

impl Differ {
    /// What to send for one map.
    pub(super) fn maps(
        &mut self,
        original: Option<&Fields>,
        modified: &Fields,
        current: &Fields,
        of: &Type,
    ) -> Fields {
        let mut patch = Fields::new();
        for (name, wanted) in modified {
            let there = set(Some(current), name);
            match there {
                None if wanted.is_null() => {}
                None => drop(patch.insert(name.clone(), without_nulls(wanted))),
                Some(there) => self.field(&mut patch, name, set(original, name), wanted, there, of),
            }
        }
        for name in original.into_iter().flat_map(Fields::keys) {
            if !modified.contains_key(name) && set(Some(current), name).is_some() {
                patch.insert(name.clone(), Value::Null);
            }
        }
        patch
    }

    /// What to send for a field that is there.
    fn field(
        &mut self,
        patch: &mut Fields,
        name: &str,
        original: Option<&Value>,
        wanted: &Value,
        there: &Value,
        of: &Type,
    ) {
        let (merge, of) = of.field(name);
        match (merge, wanted, there) {
            (Merge::Plain | Merge::Union, Value::Object(wanted), Value::Object(there)) => {
                let mut inner = self.maps(original.and_then(Value::as_object), wanted, there, of);
                if matches!(merge, Merge::Union) {
                    retain_keys(&mut inner, wanted);
                }
                if !inner.is_empty() {
                    patch.insert(name.to_owned(), Value::Object(inner));
                }
            }
            (Merge::Items(rule), Value::Array(modified), Value::Array(current)) => {
                let original = original.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let lists = Lists { original, modified, current };
                keyed_list::diff(self, patch, name, &rule, &lists, of);
            }
            (Merge::Values, Value::Array(modified), Value::Array(current)) => {
                let original = original.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                values(patch, name, &Lists { original, modified, current });
            }
            _ => {
                let wanted = without_nulls(wanted);
                if wanted != *there {
                    patch.insert(name.to_owned(), wanted);
                }
            }
        }
    }
}

/// Fields of a union that the manifest does not name must go when any of it changes.
pub(super) fn retain_keys(patch: &mut Fields, wanted: &Fields) {
    if !patch.is_empty() {
        let names =
            wanted.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| Value::from(name.clone()));
        patch.insert(RETAIN_KEYS.to_owned(), names.collect());
    }
}

/// A list that is a set of values.
fn values(patch: &mut Fields, name: &str, lists: &Lists<'_>) {
    let Lists { original, modified, current } = *lists;
    let added: Vec<Value> = modified.iter().filter(|value| !current.contains(value)).cloned().collect();
    let deleted: Vec<Value> = original
        .iter()
        .filter(|value| !modified.contains(value) && current.contains(value))
        .cloned()
        .collect();
    let kept = |of: &[Value], by: &[Value]| -> Vec<Value> {
        of.iter().filter(|value| by.contains(value)).cloned().collect()
    };
    let moved = kept(modified, current) != kept(current, modified);
    if added.is_empty() && deleted.is_empty() && !moved {
        return;
    }
    if !modified.is_empty() {
        patch.insert(format!("{SET_ELEMENT_ORDER}{name}"), Value::from(modified));
    }
    if !added.is_empty() {
        patch.insert(name.to_owned(), Value::Array(added));
    }
    if !deleted.is_empty() {
        patch.insert(format!("{DELETE_FROM_LIST}{name}"), Value::Array(deleted));
    }
}
