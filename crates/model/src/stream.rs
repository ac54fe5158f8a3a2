use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::OperationId;

/// Identity of one stream of the log: the id of the operation, or of whatever else its facts are about.
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

/// Which machine a stream of the log belongs to: a number, which is part of the format on disk, and the word for it.
///
/// Numbers are given once and never reused. The log keeps the word beside the number, so that a program which does not
/// know a kind can still name it; two kinds are the same when their numbers are.
#[derive(Clone, Debug)]
pub struct StreamKind {
    number: u16,
    name: Cow<'static, str>,
}

impl StreamKind {
    /// A sync, or the deletion of an application, which is one too.
    pub const OPERATION: Self = Self::new(1, "operation");

    /// One progressive sync of an ApplicationSet.
    pub const ROLLOUT: Self = Self::new(2, "rollout");

    /// An ordered deletion of the Applications of an ApplicationSet.
    pub const TEARDOWN: Self = Self::new(3, "teardown");

    /// Numbers from this one on are never given to a machine of this project: they are for tests, and for programs that
    /// bring machines of their own.
    pub const FIRST_FREE: u16 = 0x8000;

    /// A kind. Its number must not be one of another kind.
    pub const fn new(number: u16, name: &'static str) -> Self {
        Self { number, name: Cow::Borrowed(name) }
    }

    /// A kind as it was recorded, perhaps by a program that knows more of them. Those that are known here are called as
    /// they are called today.
    pub fn recorded(number: u16, name: String) -> Self {
        let known = [Self::OPERATION, Self::ROLLOUT, Self::TEARDOWN];
        known
            .into_iter()
            .find(|kind| kind.number == number)
            .unwrap_or(Self { number, name: Cow::Owned(name) })
    }

    /// Its number on disk.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The word for it.
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
            let recorded = StreamKind::recorded(kind.number(), "another word".into());
            assert_eq!((&recorded, recorded.name()), (&kind, kind.name()));
        }
        assert_eq!(StreamKind::recorded(9, "voyage".into()).to_string(), "voyage");
    }
}
