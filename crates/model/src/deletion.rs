use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of the objects of an application that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cascade {
    /// They are deleted, each after what it owns.
    #[default]
    Foreground,
    /// They are deleted, and what they own after them.
    Background,
    /// They stay: only the hooks of the deletion run.
    Orphan,
}

impl Cascade {
    /// Every cascade there is.
    pub const ALL: [Self; 3] = [Self::Foreground, Self::Background, Self::Orphan];

    /// The word for it: `foreground`, `background` or `orphan`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
            Self::Orphan => "orphan",
        }
    }

    /// Whether objects are deleted.
    pub fn deletes(self) -> bool {
        self != Self::Orphan
    }
}

impl fmt::Display for Cascade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that says nothing of the objects of an application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no cascade; write foreground, background or orphan")]
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
