//! Verdicts of gates.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// Last verdict of one of the current wave's gates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    /// Name of the gate. An approval is stored under `approval/`, followed by the position of its wave.
    pub gate: String,
    /// Last verdict, which replaces earlier verdicts.
    pub verdict: Verdict,
    /// Arrival time of the verdict.
    pub at: Timestamp,
}

/// Interval between queries of a gate that also reports changes itself.
const SUBSCRIBED_GATE_INTERVAL: Duration = Duration::from_secs(3600);

/// Verdict of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The wave may begin.
    Open,
    /// The wave may not begin yet.
    Closed {
        /// Reason to display while the wave is waiting, such as `sync window night denies it until
        /// 2026-11-22T06:00:00Z`.
        reason: String,
        /// Interval until the next query. Gates report new verdicts by themselves, but a report may be lost.
        ask_again_after: Duration,
    },
}

impl Verdict {
    /// Creates a closed verdict for a gate that reports changes itself.
    pub fn closed(reason: impl Into<String>) -> Self {
        Self::Closed { reason: reason.into(), ask_again_after: SUBSCRIBED_GATE_INTERVAL }
    }

    /// Returns true if the verdicts are equal, ignoring the interval until the next query.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open, Self::Open) => true,
            (Self::Closed { reason, .. }, Self::Closed { reason: before, .. }) => reason == before,
            _ => false,
        }
    }
}
