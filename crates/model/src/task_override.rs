//! Manual overrides of tasks in a running operation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Manual override of one task in a running operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Override {
    /// The operation continues without the task.
    Skip,
    /// The task counts as done, regardless of the cluster.
    MarkDone,
    /// The task is retried immediately.
    Retry,
}

impl Override {
    /// Returns the verb used by commands and the API, such as `skip`.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::MarkDone => "mark as done",
            Self::Retry => "retry",
        }
    }

    /// Returns the past participle, such as `skipped`.
    pub fn past_participle(self) -> &'static str {
        match self {
            Self::Skip => "skipped",
            Self::MarkDone => "marked as done",
            Self::Retry => "retried",
        }
    }

    /// Returns true if the operation continues as if the task were done.
    pub fn counts_as_done(self) -> bool {
        matches!(self, Self::Skip | Self::MarkDone)
    }
}

/// Record of a user's override of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverrideRecord {
    /// The most recent override.
    #[serde(rename = "action")]
    pub what: Override,
    /// Name of the user, as provided by the caller.
    pub by: String,
    /// The user's reason. Empty only if a reason isn't required.
    pub reason: String,
    /// Time at which the request was accepted.
    pub at: Timestamp,
    /// Number of retries that users have requested.
    pub retries: u32,
}

impl OverrideRecord {
    /// Returns a description such as `skipped by ann (the database is away)`.
    pub fn describe(&self) -> String {
        let what = self.what.past_participle();
        if self.reason.is_empty() {
            format!("{what} by {}", self.by)
        } else {
            format!("{what} by {} ({})", self.by, self.reason)
        }
    }
}
