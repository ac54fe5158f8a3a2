//! Values of Secrets are never shown, only whether they differ.

use serde_json::Value;

/// What stands for a value that stays, or is there now.
const BEFORE: &str = "++++++++";
/// What stands for a value that differs from the one that is there now.
const AFTER: &str = "+++++++++";
const FIELDS: [&str; 2] = ["data", "stringData"];

/// Masks the values of a Secret as it is and as it would be. Equal values get equal runs, whatever their lengths.
pub(super) fn mask(before: &mut Value, after: &mut Value) {
    for field in FIELDS {
        let was = before.get(field).cloned();
        if let Some(after) = after.get_mut(field) {
            replace(after, &|name, value| {
                let same = match (name, &was) {
                    (Some(name), Some(was)) => was.get(name) == Some(value),
                    (None, Some(was)) => was == value,
                    (_, None) => false,
                };
                if same { BEFORE } else { AFTER }
            });
        }
        if let Some(before) = before.get_mut(field) {
            replace(before, &|_, _| BEFORE);
        }
    }
}

/// Whatever is in the place of a map is masked as a whole.
fn replace(field: &mut Value, run: &dyn Fn(Option<&str>, &Value) -> &'static str) {
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
    fn runs_tell_only_whether_values_are_equal() {
        let mut before =
            json!({"data": {"same": "aGVsbG8=", "other": "YQ==", "gone": "eA=="}, "type": "Opaque"});
        let mut after = json!({"data": {"same": "aGVsbG8=", "other": "aGVsbG8=", "new": "aGVsbG8="},
            "stringData": "text"});
        mask(&mut before, &mut after);
        assert_eq!(
            before,
            json!({"data": {"same": BEFORE, "other": BEFORE, "gone": BEFORE}, "type": "Opaque"})
        );
        assert_eq!(
            after,
            json!({"data": {"same": BEFORE, "other": AFTER, "new": AFTER}, "stringData": AFTER})
        );
    }
}
