//! What a trace is made of.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_model::{OperationId, Timestamp};

/// The longest text that is told, in bytes.
const TEXT_MAX: usize = 4096;
/// So much that happened is told of a span.
const HAPPENINGS_MAX: usize = 128;

/// Some time of an operation: all of it, a phase, a wave, a task.
#[derive(Debug)]
pub(super) struct Span {
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub begun: Timestamp,
    pub ended: Timestamp,
    pub attributes: Vec<(&'static str, Value)>,
    pub happenings: Vec<Happening>,
    /// How many more there were.
    pub dropped: u32,
    /// Why it has failed, if it has.
    pub failure: Option<String>,
}

/// Something that happened in that time.
#[derive(Debug)]
pub(super) struct Happening {
    pub at: Timestamp,
    pub name: &'static str,
    pub text: String,
}

/// The same span has the same id whenever it is made: whoever is sent it twice knows it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanId([u8; 8]);

impl SpanId {
    /// That of what is named by these words within an operation.
    pub fn of(operation: OperationId, words: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(operation.0.as_bytes());
        for word in words {
            hasher.update(word.as_bytes());
            hasher.update([0]);
        }
        let digest = hasher.finalize();
        let mut id = [0; 8];
        id.iter_mut().zip(&digest).for_each(|(to, from)| *to = *from);
        // All zeros mean that there is none.
        Self(if id == [0; 8] { [1; 8] } else { id })
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Span {
    pub fn new(id: SpanId, parent: Option<SpanId>, name: impl Into<String>, begun: Timestamp) -> Self {
        Self {
            id,
            parent,
            name: name.into(),
            begun,
            ended: begun,
            attributes: Vec::new(),
            happenings: Vec::new(),
            dropped: 0,
            failure: None,
        }
    }

    /// With an attribute. What is empty says nothing.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.put(name, value);
        self
    }

    pub fn put(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::String(text) if text.is_empty() => return,
            Value::String(text) => Value::String(short(text)),
            value => value,
        };
        self.attributes.retain(|(other, _)| *other != name);
        self.attributes.push((name, value));
    }

    pub fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(other, _)| *other == name)
    }

    /// It has failed. The first reason is the one that counts.
    pub fn fail(&mut self, message: &str) {
        self.failure.get_or_insert_with(|| short(message.to_owned()));
    }

    pub fn note(&mut self, at: Timestamp, name: &'static str, text: String) {
        if self.happenings.len() < HAPPENINGS_MAX {
            self.happenings.push(Happening { at, name, text: short(text) });
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }
}

fn short(mut text: String) -> String {
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
