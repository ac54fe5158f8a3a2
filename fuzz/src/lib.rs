//! Code shared by the fuzz targets.

use serde_json::Value;
use tidegate_model::Timestamp;
use tidegate_yaml::Limits;

/// YAML limits for all targets. They are much lower than the defaults, because short inputs with low limits
/// find the same bugs.
pub const LIMITS: Limits = Limits { nodes: 20_000, depth: 128, alias_expansion: 2_000 };

/// Returns the fixed time that all targets use as the current time.
pub fn now() -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000)
}

/// Parses an input as YAML or JSON. Returns `None` if the input is invalid.
pub fn document(input: &[u8]) -> Option<Value> {
    tidegate_yaml::parse_value(std::str::from_utf8(input).ok()?, &LIMITS).ok()
}

/// Returns the first `N` lines of an input. Missing lines are empty.
pub fn lines<const N: usize>(input: &[u8]) -> [String; N] {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split('\n');
    std::array::from_fn(|_| lines.next().unwrap_or_default().to_owned())
}

/// Returns true if the value contains a float. JSON may round a float to an adjacent value.
pub fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
