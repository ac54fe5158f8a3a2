use serde::{Deserialize, Serialize};
use tidegate_model::{Requester, Timestamp};

/// A person's request, with its reason. For decisions by the engine, the requester is the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// Name of the requester.
    pub by: String,
    /// Reason; may be empty.
    pub why: String,
    /// Time of the request.
    pub at: Timestamp,
}

impl Attribution {
    /// Returns the requester and the reason.
    pub fn requester(&self) -> Requester<'_> {
        Requester { name: &self.by, reason: &self.why }
    }

    /// Formats requester and reason, such as `ann (the database is away)`.
    pub fn display(&self) -> String {
        self.requester().display()
    }
}

/// Scope of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// A step, by its number, counted from 1.
    Step(u32),
    /// An Application, by its name.
    Member(String),
}
