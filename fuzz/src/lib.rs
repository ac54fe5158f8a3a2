//! What the targets share.

use serde_json::Value;
use tidegate_model::Timestamp;
use tidegate_yaml::Limits;

/// Far less than by default: inputs are short, and what is wrong with much is wrong with little.
pub const LIMITS: Limits = Limits { nodes: 20_000, depth: 128, alias_expansion: 2_000 };

/// When everything happens.
pub fn now() -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000)
}

/// The document that a text of YAML holds.
pub fn document(input: &[u8]) -> Option<Value> {
    tidegate_yaml::value(std::str::from_utf8(input).ok()?, &LIMITS).ok()
}

/// The lines of an input; empty where there are no more.
pub fn lines<const N: usize>(input: &[u8]) -> [String; N] {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split('\n');
    std::array::from_fn(|_| lines.next().unwrap_or_default().to_owned())
}

/// Whether there is a number that may be read from JSON as the one next to it.
pub fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
