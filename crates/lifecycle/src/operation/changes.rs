//! Of what a fact may change what is owed. While a wave waits, a fact about one task says nothing of the others; anything
//! else is answered by a look at the whole wave.

use std::collections::BTreeSet;

use super::command::Subject;
use super::fact::Fact;
use super::state::{Operation, Stage, WaveStep};
use crate::machine::Changed;

/// Whether each task of the operation is owed what it is owed whatever becomes of the others.
pub(super) fn are_local(operation: &Operation) -> bool {
    let waits = matches!(
        operation.stage,
        Stage::Wave { step: WaveStep::AwaitingHealth | WaveStep::Settling { .. }, .. }
    );
    // While the cluster does not answer one call is made for all.
    waits
        && operation.header.outage.is_none()
        && operation.header.paused.is_none()
        && operation.wave_expired.is_none()
        && operation.failure.is_none()
}

pub(super) fn of(operation: &Operation, fact: &Fact) -> Changed<Subject> {
    if !are_local(operation) {
        return Changed::All;
    }
    match fact {
        Fact::HealthSeen { .. }
        | Fact::ReasonSeen { .. }
        | Fact::Watching { .. }
        | Fact::HealthRulesKnown { .. } => Changed::nothing(),
        Fact::TaskCompleted { task, .. }
        | Fact::TaskFailed { task, .. }
        | Fact::ObjectGone { task }
        | Fact::HookReleased { task }
        | Fact::HookStopped { task, .. }
        | Fact::LogsKept { task, .. } => {
            Changed::Only(BTreeSet::from([Subject::Task(*task), Subject::Runner(*task, operation.attempt)]))
        }
        _ => Changed::All,
    }
}
