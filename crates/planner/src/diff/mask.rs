//! Masking of Secret values in differences. The masks show only whether two values are equal.

use serde_json::Value;

/// Mask for a live value, and for a predicted value that is unchanged.
const UNCHANGED_MASK: &str = "++++++++";
/// Mask for a predicted value that differs from the live one.
const CHANGED_MASK: &str = "+++++++++";
const FIELDS: [&str; 2] = ["data", "stringData"];

/// Masks the values of a Secret before and after a change. Equal values get the same mask, whatever their
/// length.
pub(super) fn mask_secret_values(before: &mut Value, after: &mut Value) {
    for field in FIELDS {
        let was = before.get(field).cloned();
        if let Some(after) = after.get_mut(field) {
            mask_field(after, &|name, value| {
                let same = match (name, &was) {
                    (Some(name), Some(was)) => was.get(name) == Some(value),
                    (None, Some(was)) => was == value,
                    (_, None) => false,
                };
                if same { UNCHANGED_MASK } else { CHANGED_MASK }
            });
        }
        if let Some(before) = before.get_mut(field) {
            mask_field(before, &|_, _| UNCHANGED_MASK);
        }
    }
}

/// Masks the values of a map. A field of any other type is masked as a whole.
fn mask_field(field: &mut Value, run: &dyn Fn(Option<&str>, &Value) -> &'static str) {
    match field {
        Value::Object(values) => {
            for (name, value) in values {
                *value = Value::from(run(Some(name), value));
            }
        }
        Value::Null => {}
        other => *other = Value::from(run(None, other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_show_only_if_values_are_equal() {
        let mut before =
            json!({"data": {"same": "aGVsbG8=", "other": "YQ==", "gone": "eA=="}, "type": "Opaque"});
        let mut after = json!({"data": {"same": "aGVsbG8=", "other": "aGVsbG8=", "new": "aGVsbG8="},
            "stringData": "text"});
        mask_secret_values(&mut before, &mut after);
        assert_eq!(
            before,
            json!({"data": {"same": UNCHANGED_MASK, "other": UNCHANGED_MASK, "gone": UNCHANGED_MASK}, "type": "Opaque"})
        );
        assert_eq!(
            after,
            json!({"data": {"same": UNCHANGED_MASK, "other": CHANGED_MASK, "new": CHANGED_MASK}, "stringData": CHANGED_MASK})
        );
    }
}
