//! OTLP/JSON encoding of spans.

use serde_json::{Map, Value, json};
use tidegate_model::{OperationId, Timestamp};

use super::span::{Span, SpanEvent};

/// Span kind for spans within a process, without a remote parent.
const SPAN_KIND_INTERNAL: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// Returns an operation's trace ID, the operation ID.
pub(super) fn trace_id(operation: OperationId) -> String {
    operation.0.simple().to_string()
}

/// Returns a request with these spans, possibly from different operations.
pub(super) fn export_request(resource: &[(String, String)], spans: &[Value]) -> Value {
    let attributes: Vec<Value> =
        resource.iter().map(|(name, value)| encode_attribute(name, &Value::from(value.as_str()))).collect();
    let scope = json!({"name": "tidegate", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]})
}

/// Encodes a span as part of the operation's trace.
pub(super) fn encode_span(operation: OperationId, span: &Span) -> Value {
    let Span {
        id,
        parent,
        name,
        started_at,
        ended_at,
        attributes,
        events: happenings,
        dropped_events,
        failure,
    } = span;
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("traceId", trace_id(operation).into());
    put("spanId", id.to_string().into());
    if let Some(parent) = parent {
        put("parentSpanId", parent.to_string().into());
    }
    put("name", name.as_str().into());
    put("kind", SPAN_KIND_INTERNAL.into());
    put("startTimeUnixNano", unix_nanos(*started_at).into());
    put("endTimeUnixNano", unix_nanos(*ended_at).into());
    put("attributes", attributes.iter().map(|(name, value)| encode_attribute(name, value)).collect());
    if !happenings.is_empty() {
        put("events", happenings.iter().map(encode_event).collect());
        put("droppedEventsCount", (*dropped_events).into());
    }
    if let Some(message) = failure {
        put("status", json!({"code": STATUS_ERROR, "message": message}));
    }
    Value::Object(object)
}

fn encode_event(happening: &SpanEvent) -> Value {
    let SpanEvent { at, name, text } = happening;
    let text = encode_attribute("tidegate.text", &Value::from(text.as_str()));
    json!({"timeUnixNano": unix_nanos(*at), "name": name, "attributes": [text]})
}

fn encode_attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        // OTLP/JSON encodes 64-bit integers as strings.
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(is) => json!({"boolValue": is}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn unix_nanos(at: Timestamp) -> String {
    (i128::from(at.as_millis()).max(0) * 1_000_000).to_string()
}
