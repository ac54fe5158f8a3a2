//! The three-way JSON merge patch: maps merge, lists and all other values are replaced as a whole.

use serde_json::Value;

use super::{Fields, set};

/// The patch; empty when there is nothing to do.
///
/// A null in a manifest says that a field is not set: it is deleted when the last manifest set it, and else left to
/// the server's defaults.
pub(super) fn diff(original: Option<&Fields>, modified: &Fields, current: &Fields) -> Fields {
    let mut patch = Fields::new();
    for (name, wanted) in modified.iter().filter(|(_, wanted)| !wanted.is_null()) {
        let change = match (wanted, current.get(name)) {
            (Value::Object(wanted), Some(Value::Object(there))) => {
                let inner = diff(set(original, name).and_then(Value::as_object), wanted, there);
                (!inner.is_empty()).then_some(Value::Object(inner))
            }
            // A merge patch merges into what it finds, so a map that takes the place of something else is complete.
            (Value::Object(_), _) => Some(without_map_nulls(wanted)),
            (wanted, there) => (there != Some(wanted)).then(|| wanted.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    for name in original.into_iter().flat_map(Fields::keys) {
        let dropped = set(original, name).is_some() && set(Some(modified), name).is_none();
        if dropped && set(Some(current), name).is_some() {
            patch.insert(name.clone(), Value::Null);
        }
    }
    patch
}

/// Without nulls in maps. Lists are values of their own, in which a null counts.
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
