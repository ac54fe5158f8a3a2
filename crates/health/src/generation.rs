//! Generation in an object's status.

use serde_json::Value;
use tidegate_model::Object;

/// Returns `status.observedGeneration`, which some controllers write as a string.
pub(crate) fn observed_generation(object: &Object) -> Option<i64> {
    match object.pointer("/status/observedGeneration")? {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

/// Returns the message for a status that is older than the object's spec.
pub(crate) fn outdated_status_message(generation: i64) -> String {
    format!("Waiting for the controller to observe generation {generation}")
}
