//! What people decide about single tasks of an operation at work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// What a person decides about one task of an operation at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Override {
    /// The operation goes on without it.
    Skip,
    /// It is taken for done, whatever the cluster says.
    MarkDone,
    /// It is tried again at once.
    Retry,
}

impl Override {
    /// What is done: `skip`, as commands and the API name it.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::MarkDone => "mark as done",
            Self::Retry => "retry",
        }
    }

    /// What was done: `skipped`.
    pub fn done(self) -> &'static str {
        match self {
            Self::Skip => "skipped",
            Self::MarkDone => "marked as done",
            Self::Retry => "retried",
        }
    }

    /// Whether the operation goes on as if the task were done.
    pub fn passes_over(self) -> bool {
        matches!(self, Self::Skip | Self::MarkDone)
    }
}

/// What a person decided about one task, for the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Overridden {
    /// What was decided last.
    pub what: Override,
    /// The person's name, as the caller gave it.
    pub by: String,
    /// The person's words; empty only where none are needed.
    pub reason: String,
    /// When the wish was taken in.
    pub at: Timestamp,
    /// How many times it was tried again because a person asked for it.
    pub retries: u32,
}

impl Overridden {
    /// `skipped by ann (the database is away)`.
    pub fn words(&self) -> String {
        let what = self.what.done();
        if self.reason.is_empty() {
            format!("{what} by {}", self.by)
        } else {
            format!("{what} by {} ({})", self.by, self.reason)
        }
    }
}
