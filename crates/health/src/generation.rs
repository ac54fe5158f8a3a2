//! Which version of its spec a status speaks about.

use serde_json::Value;
use tidegate_model::Object;

/// `status.observedGeneration`; some controllers write it as a text.
pub(crate) fn observed(object: &Object) -> Option<i64> {
    match object.pointer("/status/observedGeneration")? {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

/// What is said of a status that is older than the spec.
pub(crate) fn waiting(generation: i64) -> String {
    format!("Waiting for the controller to see generation {generation}")
}
