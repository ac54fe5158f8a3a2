//! Helper functions for JSON values.

use serde_json::{Map, Value, json};
use tidegate_model::{Gvk, Object, ObjectKey, Timestamp};

use super::rng::mix_bits;

/// Formats a time in whole seconds, as Kubernetes does.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let whole = Timestamp::from_millis(time.as_seconds().saturating_mul(1000)).to_string();
    whole.replace(".000Z", "Z")
}

/// Returns the value at a path of fields. Avoids parsing a JSON pointer on every write.
pub(crate) fn field<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object.as_value(), |value, name| value.get(*name))
}

/// Returns the string at a path of fields, or an empty string if the field doesn't exist.
pub(crate) fn text_field<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    field(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns true if the deletion of an object has started.
pub(crate) fn is_deleting(object: &Object) -> bool {
    !text_field(object, &["metadata", "deletionTimestamp"]).is_empty()
}

pub(crate) fn has_owner(object: &Object) -> bool {
    field(object, &["metadata", "ownerReferences"]).is_some()
}

/// Returns the key that identifies an object within the cluster.
pub(crate) fn key_of(object: &Object) -> ObjectKey {
    let group = text_field(object, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let (namespace, name) =
        (text_field(object, &["metadata", "namespace"]), text_field(object, &["metadata", "name"]));
    ObjectKey::new(group, text_field(object, &["kind"]), namespace, name)
}

pub(crate) fn gvk_of(object: &Object) -> Gvk {
    Gvk::from_api_version(text_field(object, &["apiVersion"]), text_field(object, &["kind"]))
}

/// Returns the integer at a pointer, or a default.
pub(crate) fn int_at(object: &Object, pointer: &str, default: i64) -> i64 {
    object.integer(pointer).unwrap_or(default)
}

/// Returns the map at a pointer, or an empty map if it doesn't exist or has another type.
pub(crate) fn map_at(object: &Object, pointer: &str) -> Map<String, Value> {
    object.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns the list at a pointer, or an empty list if it doesn't exist or has another type.
pub(crate) fn list_at<'a>(object: &'a Object, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Removes null fields at any depth, because an explicit null means that the field is not set.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Builds a condition for a status. Keeps the last transition time if the condition's status is unchanged.
pub(crate) fn build_condition(
    object: &Object,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) -> Value {
    let known = list_at(object, "/status/conditions").iter().find(|known| known["type"] == kind);
    let since = known
        .filter(|known| known["status"] == status)
        .and_then(|known| known["lastTransitionTime"].as_str());
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since.unwrap_or(now)});
    if let Some(fields) = condition.as_object_mut() {
        for (name, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                fields.insert(name.to_owned(), text.into());
            }
        }
    }
    condition
}

/// Returns true if an object has a condition with the given status.
pub(crate) fn has_condition(object: &Object, kind: &str, status: &str) -> bool {
    list_at(object, "/status/conditions")
        .iter()
        .any(|known| known["type"] == kind && known["status"] == status)
}

/// Returns a digest that doesn't depend on the order of fields.
pub(crate) fn digest(value: &Value) -> u64 {
    match value {
        Value::Null => 1,
        Value::Bool(flag) => 2 + u64::from(*flag),
        Value::Number(number) => hash_text(&number.to_string(), 5),
        Value::String(text) => hash_text(text, 6),
        Value::Array(items) => {
            items.iter().fold(7, |sum, item| mix_bits(sum.wrapping_mul(31).wrapping_add(digest(item))))
        }
        Value::Object(map) => map.iter().fold(8, |sum: u64, (name, value)| {
            sum.wrapping_add(mix_bits(hash_text(name, 9).wrapping_add(mix_bits(digest(value)))))
        }),
    }
}

fn hash_text(text: &str, start: u64) -> u64 {
    text.bytes().fold(start, |sum, byte| mix_bits(sum.wrapping_mul(257).wrapping_add(u64::from(byte))))
}

/// Encodes bytes as standard base64, as in `Secret.data`.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_usize, |sum, at| sum << 8 | chunk.get(at).copied().map_or(0, usize::from));
        for place in 0..4 {
            let digit = DIGITS.get(group >> (18 - 6 * place) & 63).copied().map_or('=', char::from);
            text.push(if place <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_uses_the_standard_alphabet() {
        for (text, expected) in
            [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("tide?~gate", "dGlkZT9+Z2F0ZQ==")]
        {
            assert_eq!(encode_base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn digests_do_not_depend_on_the_order_of_fields() {
        let (one, other) = (json!({"a": 1, "b": [1, 2]}), json!({"b": [1, 2], "a": 1}));
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"a": 1, "b": [2, 1]})));
        assert_ne!(digest(&json!({"a": {"b": 1}})), digest(&json!({"a": {}, "b": 1})));
    }

    #[test]
    fn times_are_formatted_in_whole_seconds() {
        assert_eq!(rfc3339(Timestamp::from_millis(1_795_253_400_250)), "2026-11-21T09:30:00Z");
    }
}
