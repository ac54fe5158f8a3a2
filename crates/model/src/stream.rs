use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::OperationId;

/// ID of a stream in the log, shared with the operation or other subject of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub Uuid);

impl JsonSchema for StreamId {
    fn schema_name() -> Cow<'static, str> {
        "StreamId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "uuid"})
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for StreamId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl From<OperationId> for StreamId {
    fn from(operation: OperationId) -> Self {
        Self(operation.0)
    }
}

impl From<StreamId> for OperationId {
    fn from(stream: StreamId) -> Self {
        Self(stream.0)
    }
}

/// Kind of a log stream. Identifies the stream's state machine; the number is part of the on-disk format.
///
/// Numbers are never reused. The log stores the name next to the number, so a program can display unknown
/// kinds. Two kinds are equal if their numbers are.
#[derive(Clone, Debug)]
pub struct StreamKind {
    number: u16,
    name: Cow<'static, str>,
}

impl StreamKind {
    /// Syncs and deletions of applications.
    pub const OPERATION: Self = Self::new(1, "operation");

    /// Progressive syncs of ApplicationSets.
    pub const ROLLOUT: Self = Self::new(2, "rollout");

    /// Ordered deletions of an ApplicationSet's Applications.
    pub const TEARDOWN: Self = Self::new(3, "teardown");

    /// Lowest number that this project never assigns. Numbers from here on are reserved for tests and for
    /// programs with their own machines.
    pub const FIRST_FREE: u16 = 0x8000;

    /// Creates a kind. Its number must be unique.
    pub const fn new(number: u16, name: &'static str) -> Self {
        Self { number, name: Cow::Borrowed(name) }
    }

    /// Creates a kind from a record, possibly written by a program that knows more kinds. Known kinds get
    /// their current name.
    pub fn from_record(number: u16, name: String) -> Self {
        let known = [Self::OPERATION, Self::ROLLOUT, Self::TEARDOWN];
        known
            .into_iter()
            .find(|kind| kind.number == number)
            .unwrap_or(Self { number, name: Cow::Owned(name) })
    }

    /// Returns the on-disk number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for StreamKind {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for StreamKind {}

impl PartialOrd for StreamKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StreamKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl Hash for StreamKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_kind_is_the_one_with_its_number() {
        let kinds = [StreamKind::OPERATION, StreamKind::ROLLOUT, StreamKind::TEARDOWN];
        assert_eq!(kinds.each_ref().map(StreamKind::number), [1, 2, 3], "numbers on disk do not change");
        assert!(kinds.iter().all(|kind| kind.number() < StreamKind::FIRST_FREE));
        for kind in kinds {
            let recorded = StreamKind::from_record(kind.number(), "another word".into());
            assert_eq!((&recorded, recorded.name()), (&kind, kind.name()));
        }
        assert_eq!(StreamKind::from_record(9, "voyage".into()).to_string(), "voyage");
    }
}
