//! Arrows as facts.

use tidegate_model::Timestamp;

use crate::operation::fact::Fact;
use crate::operation::state::{Stage, WaveStep};

/// The arrow of an operation that has just been asked to end.
pub(in crate::operation) fn to_its_end(now: Timestamp) -> Fact {
    Fact::Moved { to: Stage::Terminating, at: now }
}

pub(super) fn moved(to: Stage, now: Timestamp) -> Vec<Fact> {
    vec![Fact::Moved { to, at: now }]
}

pub(super) fn step(index: u32, step: WaveStep, now: Timestamp) -> Vec<Fact> {
    moved(Stage::Wave { index, step }, now)
}
