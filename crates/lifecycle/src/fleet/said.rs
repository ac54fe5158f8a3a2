use serde::{Deserialize, Serialize};
use tidegate_model::{Timestamp, Wisher};

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
    /// Who, and why.
    pub fn wisher(&self) -> Wisher<'_> {
        Wisher { by: &self.by, reason: &self.why }
    }

    /// `ann (the database is away)`.
    pub fn words(&self) -> String {
        self.wisher().who()
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
