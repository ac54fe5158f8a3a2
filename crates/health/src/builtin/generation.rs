//! Generations in conditions.

use serde_json::Value;

/// Returns `metadata.generation`, or 0 if the API server doesn't maintain generations for this kind.
pub(super) fn newest_generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the generation in a condition.
pub(super) fn observed_generation(condition: &Value) -> Option<i64> {
    condition.get("observedGeneration").and_then(Value::as_i64)
}

/// Returns true if a condition is about an older generation.
pub(super) fn is_outdated(condition: &Value, newest: i64) -> bool {
    observed_generation(condition).is_some_and(|observed| observed < newest)
}
