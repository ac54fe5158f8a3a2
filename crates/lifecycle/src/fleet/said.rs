use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// What somebody asked for, and why. The engine's own decisions bear its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who.
    pub by: String,
    /// Why; may be empty.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

impl Said {
    /// `ann (the database is away)`.
    pub(crate) fn words(&self) -> String {
        if self.why.is_empty() { self.by.clone() } else { format!("{} ({})", self.by, self.why) }
    }
}

/// What a wish is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// A step, by its number from 1.
    Step(u32),
    /// One Application, by its name.
    Member(String),
}
