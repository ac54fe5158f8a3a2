//! Code shared by the fuzz targets.

#[path = "../../tests/fuzz/checks.rs"]
pub mod checks;

use serde_json::Value;
use tidegate_yaml::Limits;

/// YAML limits for all targets. They are much lower than the defaults, because short inputs with low limits
/// find the same bugs.
pub const LIMITS: Limits = Limits { nodes: 20_000, depth: 128, alias_expansion: 2_000 };

/// Parses a YAML document.
pub fn document(input: &[u8]) -> Option<Value> {
    tidegate_yaml::parse_value(std::str::from_utf8(input).ok()?, &LIMITS).ok()
}

/// Returns true if the value contains a float, which JSON may round to an adjacent value.
pub fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
