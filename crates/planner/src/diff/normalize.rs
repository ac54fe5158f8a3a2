//! Normalization of objects before they are compared: drops server-managed fields and converts values to
//! their stored form.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tidegate_model::{Object, annotations};

/// Field for writing Secret values as plain text.
pub(super) const STRING_DATA: &str = "stringData";
/// Fields that only the server writes.
const SERVER_FIELDS: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns true if the object's values are secret.
pub(super) fn is_secret(object: &Object) -> bool {
    object.group().is_empty() && object.kind() == "Secret"
}

/// Returns true if an annotation isn't part of the target: the engine's tracking marks, and the last-applied
/// manifest of client-side apply.
pub(super) fn is_bookkeeping_annotation(annotation: &str) -> bool {
    use annotations::{HOOK_ATTEMPT, HOOK_PHASE, HOOK_START, LAST_APPLIED, OPERATION_ID};
    matches!(annotation, OPERATION_ID | HOOK_ATTEMPT | HOOK_PHASE | HOOK_START | LAST_APPLIED)
}

/// Returns the target as the server would return it.
pub(super) fn normalize_target(target: &Object) -> Cow<'_, Value> {
    let changes = match (target.group(), target.kind()) {
        ("", "Secret") => target.as_value().get(STRING_DATA).is_some(),
        (RBAC, "Role" | "ClusterRole") => true,
        _ => false,
    };
    if !changes {
        return Cow::Borrowed(target.as_value());
    }
    let mut value = target.as_value().clone();
    if let Some(fields) = value.as_object_mut() {
        encode_string_data(fields);
        normalize_role_rules(fields);
    }
    Cow::Owned(value)
}

/// Returns the compared part of a live or predicted object.
pub(super) fn normalize_live(object: &Object) -> Value {
    let mut value = object.as_value().clone();
    let Some(fields) = value.as_object_mut() else { return value };
    fields.remove("status");
    match (object.group(), object.kind()) {
        ("", "Secret") => encode_string_data(fields),
        (RBAC, "Role" | "ClusterRole") => normalize_role_rules(fields),
        _ => {}
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.retain(|name, _| !is_bookkeeping_annotation(name));
        }
        metadata.retain(|_, value| !matches!(value, Value::Object(map) if map.is_empty()));
    }
    value
}

/// Moves `stringData` into `data`, encoded in base64.
fn encode_string_data(fields: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = fields.remove(STRING_DATA) else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    let Some(data) = data.as_object_mut() else { return };
    for (name, text) in plain {
        if let Value::String(text) = text {
            data.insert(name, Value::String(base64(text.as_bytes())));
        }
    }
}

/// Normalizes RBAC rules. Missing rules become an empty list. The rules of aggregated roles are dropped,
/// because a controller fills them in.
fn normalize_role_rules(fields: &mut Map<String, Value>) {
    let is_empty = |rules: &Value| rules.is_null() || rules.as_array().is_some_and(Vec::is_empty);
    if fields.contains_key("aggregationRule") || fields.get("rules").is_some_and(is_empty) {
        fields.remove("rules");
    }
}

/// Encodes bytes in standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET.get((bits >> (18 - 6 * place)) & 63);
            let padding = place > chunk.len();
            text.push(if padding { '=' } else { digit.copied().map_or('=', char::from) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_examples() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("hello\u{ff}", "aGVsbG/Dvw=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded, "{plain}");
        }
    }
}
