//! Parsing of the limit on simultaneous deletions.

use std::borrow::Cow;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::fleet::MaxUpdate;

/// Maximum number of simultaneous deletions in an ApplicationSet, as a number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MaxDeletions(MaxUpdate);

/// Error returned when a string is not a valid number or percentage of deletions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid number of Applications {0:?}: use a whole number, or a percentage such as 10%")]
pub struct InvalidMaxDeletions(pub String);

impl FromStr for MaxDeletions {
    type Err = InvalidMaxDeletions;

    fn from_str(text: &str) -> Result<Self, InvalidMaxDeletions> {
        text.trim().parse().map(Self).map_err(|_| InvalidMaxDeletions(text.to_owned()))
    }
}

impl TryFrom<String> for MaxDeletions {
    type Error = InvalidMaxDeletions;

    fn try_from(text: String) -> Result<Self, InvalidMaxDeletions> {
        text.parse()
    }
}

impl From<MaxDeletions> for String {
    fn from(most: MaxDeletions) -> Self {
        most.0.to_string()
    }
}

impl JsonSchema for MaxDeletions {
    fn schema_name() -> Cow<'static, str> {
        "MaxDeletions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Maximum number of Applications that may be deleted at once: a whole number, or a percentage such as 10%",
        })
    }
}

impl MaxDeletions {
    /// Returns the limit for this many Applications. A percentage always permits at least one deletion.
    pub(crate) fn limit_for(self, members: usize) -> usize {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        usize::try_from(self.0.limit_for(members)).unwrap_or(usize::MAX)
    }
}
