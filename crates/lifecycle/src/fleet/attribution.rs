use serde::{Deserialize, Serialize};
use tidegate_model::{Requester, Timestamp};

/// The requester, reason and time of a request. The engine is the requester of its own decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// Name of the requester.
    pub by: String,
    /// Reason for the request. May be empty.
    pub why: String,
    /// Time of the request.
    pub at: Timestamp,
}

impl Attribution {
    /// Returns the name and the reason as a [`Requester`].
    pub fn requester(&self) -> Requester<'_> {
        Requester { name: &self.by, reason: &self.why }
    }

    /// Formats the requester and the reason, such as `ann (the database is away)`.
    pub fn display(&self) -> String {
        self.requester().display()
    }
}

/// Part of a rollout or teardown that a request applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// A step, by its number, starting at 1.
    Step(u32),
    /// An Application, by its name.
    Member(String),
}
