//! Spans as OTLP has them in JSON.

use serde_json::{Map, Value, json};
use tidegate_model::{OperationId, Timestamp};

use super::span::{Happening, Span};

/// Of one process, within another that is not known.
const INTERNAL: u8 = 1;
const ERROR: u8 = 2;

/// The id of the trace of an operation: that of the operation.
pub(super) fn trace_id(operation: OperationId) -> String {
    operation.0.simple().to_string()
}

/// A request with spans of any operations.
pub(super) fn request(resource: &[(String, String)], spans: &[Value]) -> Value {
    let attributes: Vec<Value> =
        resource.iter().map(|(name, value)| attribute(name, &Value::from(value.as_str()))).collect();
    let scope = json!({"name": "tidegate", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]})
}

/// A span of the trace of an operation.
pub(super) fn span(operation: OperationId, span: &Span) -> Value {
    let Span { id, parent, name, begun, ended, attributes, happenings, dropped, failure } = span;
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("traceId", trace_id(operation).into());
    put("spanId", id.to_string().into());
    if let Some(parent) = parent {
        put("parentSpanId", parent.to_string().into());
    }
    put("name", name.as_str().into());
    put("kind", INTERNAL.into());
    put("startTimeUnixNano", nanos(*begun).into());
    put("endTimeUnixNano", nanos(*ended).into());
    put("attributes", attributes.iter().map(|(name, value)| attribute(name, value)).collect());
    if !happenings.is_empty() {
        put("events", happenings.iter().map(event).collect());
        put("droppedEventsCount", (*dropped).into());
    }
    if let Some(message) = failure {
        put("status", json!({"code": ERROR, "message": message}));
    }
    Value::Object(object)
}

fn event(happening: &Happening) -> Value {
    let Happening { at, name, text } = happening;
    let text = attribute("tidegate.text", &Value::from(text.as_str()));
    json!({"timeUnixNano": nanos(*at), "name": name, "attributes": [text]})
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        // Numbers of 64 bits are texts there.
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(is) => json!({"boolValue": is}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn nanos(at: Timestamp) -> String {
    (i128::from(at.as_millis()).max(0) * 1_000_000).to_string()
}
