use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Timestamp;

/// Time in the Kubernetes format: RFC 3339 with whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(Timestamp);

impl Time {
    /// Returns the timestamp at the start of the second.
    pub const fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for Time {
    fn from(moment: Timestamp) -> Self {
        Self(Timestamp::from_millis(moment.as_seconds().saturating_mul(1000)))
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_second(self.0.as_seconds()) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse::<Timestamp>().map(Self::from).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_written_and_fractions_are_read() {
        for text in ["\"2026-11-21T09:30:00Z\"", "\"2026-11-21T09:30:00.999Z\""] {
            let time: Time = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-11-21T09:30:00Z\"");
        }
        assert!(serde_json::from_str::<Time>("\"soon\"").is_err());
    }
}
