//! Spans and their parts.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_model::{OperationId, Timestamp};

/// Maximum length of a string in bytes.
const TEXT_MAX: usize = 4096;
/// Maximum number of events in a span.
const EVENTS_MAX: usize = 128;

/// A span of time in an operation: the whole operation, a phase, a wave, or a task.
#[derive(Debug)]
pub(super) struct Span {
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<(&'static str, Value)>,
    pub events: Vec<SpanEvent>,
    /// Number of dropped events.
    pub dropped_events: u32,
    /// Error message, if the span failed.
    pub failure: Option<String>,
}

/// An event within a span.
#[derive(Debug)]
pub(super) struct SpanEvent {
    pub at: Timestamp,
    pub name: &'static str,
    pub text: String,
}

/// Deterministic ID of a span, so that the collector recognizes duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanId([u8; 8]);

impl SpanId {
    /// Derives the ID of the span that `text` identifies within an operation.
    pub fn derive(operation: OperationId, text: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(operation.0.as_bytes());
        for word in text {
            hasher.update(word.as_bytes());
            hasher.update([0]);
        }
        let digest = hasher.finalize();
        let mut id = [0; 8];
        id.iter_mut().zip(&digest).for_each(|(to, from)| *to = *from);
        // An all-zero ID would mean "no ID".
        Self(if id == [0; 8] { [1; 8] } else { id })
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Span {
    pub fn new(id: SpanId, parent: Option<SpanId>, name: impl Into<String>, started_at: Timestamp) -> Self {
        Self {
            id,
            parent,
            name: name.into(),
            started_at,
            ended_at: started_at,
            attributes: Vec::new(),
            events: Vec::new(),
            dropped_events: 0,
            failure: None,
        }
    }

    /// Adds an attribute, unless its value is empty.
    pub fn with_attribute(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.set_attribute(name, value);
        self
    }

    pub fn set_attribute(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::String(text) if text.is_empty() => return,
            Value::String(text) => Value::String(truncate(text)),
            value => value,
        };
        self.attributes.retain(|(other, _)| *other != name);
        self.attributes.push((name, value));
    }

    pub fn has_attribute(&self, name: &str) -> bool {
        self.attributes.iter().any(|(other, _)| *other == name)
    }

    /// Marks the span as failed. Repeated calls keep the first message.
    pub fn mark_failed(&mut self, message: &str) {
        self.failure.get_or_insert_with(|| truncate(message.to_owned()));
    }

    pub fn add_event(&mut self, at: Timestamp, name: &'static str, text: String) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(SpanEvent { at, name, text: truncate(text) });
        } else {
            self.dropped_events = self.dropped_events.saturating_add(1);
        }
    }
}

fn truncate(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let mut end = TEXT_MAX;
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        text.truncate(end);
        text.push('…');
    }
    text
}
