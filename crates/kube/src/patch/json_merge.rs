//! Three-way JSON merge patch. Maps are merged; lists and all other values are replaced as a whole.

use serde_json::Value;

use super::{Fields, non_null_field};

/// Computes the patch, which is empty if nothing changes.
///
/// A null in a manifest unsets a field. If the last manifest set the field, it is deleted. Otherwise, the
/// server's default applies.
pub(super) fn diff_maps(original: Option<&Fields>, modified: &Fields, current: &Fields) -> Fields {
    let mut patch = Fields::new();
    for (name, wanted) in modified.iter().filter(|(_, wanted)| !wanted.is_null()) {
        let change = match (wanted, current.get(name)) {
            (Value::Object(wanted), Some(Value::Object(there))) => {
                let inner =
                    diff_maps(non_null_field(original, name).and_then(Value::as_object), wanted, there);
                (!inner.is_empty()).then_some(Value::Object(inner))
            }
            // A merge patch merges into an existing map, so a map that replaces a value of another type must
            // be sent in full.
            (Value::Object(_), _) => Some(without_map_nulls(wanted)),
            (wanted, there) => (there != Some(wanted)).then(|| wanted.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    for name in original.into_iter().flat_map(Fields::keys) {
        let dropped =
            non_null_field(original, name).is_some() && non_null_field(Some(modified), name).is_none();
        if dropped && non_null_field(Some(current), name).is_some() {
            patch.insert(name.clone(), Value::Null);
        }
    }
    patch
}

/// Removes nulls from maps. Lists are atomic, so nulls in lists are kept.
fn without_map_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), without_map_nulls(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}
