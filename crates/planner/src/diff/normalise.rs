use serde_json::{Map, Value};
use tidegate_model::Object;

/// Where people write the values of a Secret as plain text.
pub(super) const STRING_DATA: &str = "stringData";

/// The target as the server would show it.
pub(super) fn target(target: &Object) -> Value {
    let mut value = target.as_value().clone();
    let Some(fields) = value.as_object_mut() else { return value };
    match (target.group(), target.kind()) {
        ("", "Secret") => encode_string_data(fields),
        // A controller fills in the rules of aggregated roles.
        ("rbac.authorization.k8s.io", "ClusterRole") if fields.contains_key("aggregationRule") => {
            fields.remove("rules");
        }
        _ => {}
    }
    value
}

/// Adds `stringData` to `data`, encoded. `stringData` itself stays, since it was written as such.
fn encode_string_data(fields: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = fields.get(STRING_DATA).cloned() else { return };
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

/// Standard base64 with padding.
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
