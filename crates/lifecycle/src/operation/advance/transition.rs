//! Conversion of transitions to events.

use tidegate_model::Timestamp;

use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{Stage, WaveStep};

/// Returns the transition after a termination request.
pub(in crate::operation) fn termination_event(now: Timestamp) -> OperationEvent {
    OperationEvent::StageChanged { to: Stage::Terminating, at: now }
}

pub(super) fn move_to(to: Stage, now: Timestamp) -> Vec<OperationEvent> {
    vec![OperationEvent::StageChanged { to, at: now }]
}

pub(super) fn move_to_step(index: u32, step: WaveStep, now: Timestamp) -> Vec<OperationEvent> {
    move_to(Stage::Wave { index, step }, now)
}
