//! Three-way strategic merge patch.

use serde_json::{Value, json};

use super::directives::{DELETE_FROM_LIST, SET_ELEMENT_ORDER, refuse_directives, retain_keys};
use super::keyed_list::{self, Lists};
use super::schema::{Merge, TypeSchema};
use super::{Fields, PatchError, non_null_field, without_nulls};

/// Computes the patch, which is empty if nothing changes.
pub(super) fn diff_object(
    original: Option<&Fields>,
    modified: &Fields,
    current: &Fields,
    root: &TypeSchema,
) -> Result<Fields, PatchError> {
    refuse_directives(modified, "")?;
    let mut differ = Differ { repeats_others: false };
    let mut patch = differ.diff_maps(original, modified, current, root);
    if differ.repeats_others {
        restrict_to_version(&mut patch, current);
    }
    Ok(patch)
}

/// Restricts the patch to the version of the object that was read.
fn restrict_to_version(patch: &mut Fields, current: &Fields) {
    let version = current.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if let (Some(version), Some(metadata)) = (version, metadata.as_object_mut()) {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
}

struct Differ {
    /// True if the patch repeats other managers' values from the live object.
    repeats_others: bool,
}

impl Differ {
    /// Computes the patch for a map.
    fn diff_maps(
        &mut self,
        original: Option<&Fields>,
        modified: &Fields,
        current: &Fields,
        of: &TypeSchema,
    ) -> Fields {
        let mut patch = Fields::new();
        for (name, wanted) in modified {
            let there = non_null_field(Some(current), name);
            match there {
                None if wanted.is_null() => {}
                None => drop(patch.insert(name.clone(), without_nulls(wanted))),
                Some(there) => {
                    self.diff_field(&mut patch, name, non_null_field(original, name), wanted, there, of)
                }
            }
        }
        for name in original.into_iter().flat_map(Fields::keys) {
            if !modified.contains_key(name) && non_null_field(Some(current), name).is_some() {
                patch.insert(name.clone(), Value::Null);
            }
        }
        patch
    }

    /// Computes the patch for a field that is set.
    fn diff_field(
        &mut self,
        patch: &mut Fields,
        name: &str,
        original: Option<&Value>,
        wanted: &Value,
        there: &Value,
        of: &TypeSchema,
    ) {
        let (merge, of) = of.merge_rule(name);
        match (merge, wanted, there) {
            (Merge::Plain | Merge::Union, Value::Object(wanted), Value::Object(there)) => {
                let mut inner = self.diff_maps(original.and_then(Value::as_object), wanted, there, of);
                if matches!(merge, Merge::Union) {
                    retain_keys(&mut inner, wanted);
                }
                if !inner.is_empty() {
                    patch.insert(name.to_owned(), Value::Object(inner));
                }
            }
            (Merge::KeyedList(rule), Value::Array(modified), Value::Array(current)) => {
                let original = original.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let lists = Lists { original, modified, current };
                let diff_item = |original: Option<&Fields>, wanted: &Fields, there: &Fields| {
                    self.diff_maps(original, wanted, there, of)
                };
                let repeats_others = keyed_list::diff_list(patch, name, &rule, &lists, diff_item);
                self.repeats_others |= repeats_others;
            }
            (Merge::StringSet, Value::Array(modified), Value::Array(current)) => {
                let original = original.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                diff_value_set(patch, name, &Lists { original, modified, current });
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

/// Computes the patch for a list treated as a set of values.
fn diff_value_set(patch: &mut Fields, name: &str, lists: &Lists<'_>) {
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
