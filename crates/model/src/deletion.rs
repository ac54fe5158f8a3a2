use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Deletion policy for an application's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cascade {
    /// Deletes each object after its dependents.
    #[default]
    Foreground,
    /// Deletes each object before its dependents.
    Background,
    /// Keeps all objects and doesn't run deletion hooks.
    Orphan,
}

impl Cascade {
    /// All cascades.
    pub const ALL: [Self; 3] = [Self::Foreground, Self::Background, Self::Orphan];

    /// Returns the name of the cascade: `foreground`, `background` or `orphan`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
            Self::Orphan => "orphan",
        }
    }

    /// Returns true if the cascade deletes objects.
    pub fn deletes_objects(self) -> bool {
        self != Self::Orphan
    }
}

impl fmt::Display for Cascade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error returned when a string is not a valid cascade.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid cascade {text:?}: use foreground, background or orphan")]
pub struct InvalidCascade {
    text: String,
}

impl FromStr for Cascade {
    type Err = InvalidCascade;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| InvalidCascade { text: text.to_owned() })
    }
}
