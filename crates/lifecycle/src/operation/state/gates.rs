//! What gates answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// What a gate of the current wave answered last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    /// Its name as the wave gives it; an approval is kept as that of a gate `approval/`, with the position of its wave.
    pub gate: String,
    /// What it said last; what it said before is forgotten.
    pub verdict: Verdict,
    /// When that was taken in.
    pub at: Timestamp,
}

/// When a gate that says by itself when its answer changes is asked again.
const LISTENED_TO: Duration = Duration::from_secs(3600);

/// The answer of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The wave may begin.
    Open,
    /// The wave may not begin yet.
    Closed {
        /// What people are told while the wave waits, such as `sync window night denies it until 2026-11-22T06:00:00Z`.
        reason: String,
        /// When to ask again, for safety: a gate says by itself when its answer is another one.
        ask_again_after: Duration,
    },
}

impl Verdict {
    /// Closed, for a gate that will say by itself when that changes.
    pub fn closed(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), ask_again_after: LISTENED_TO }
    }

    /// Whether it says the same, whenever the gate is asked again.
    pub fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open, Self::Open) => true,
            (Self::Closed { reason, .. }, Self::Closed { reason: before, .. }) => reason == before,
            _ => false,
        }
    }
}
