//! What people may ask of a running operation.

use tidegate_model::Timestamp;

use super::Rejection;
use crate::operation::fact::Fact;
use crate::operation::follow;
use crate::operation::state::{Header, Operation, Stage};

/// An operation that is ending takes no more wishes: it is over as soon as its hooks are cleaned up.
pub(super) fn refuse_if_ending(operation: &Operation) -> Result<(), Rejection> {
    match operation.stage {
        Stage::Terminating | Stage::Finishing { .. } => {
            Err(Rejection::AlreadyEnding { state: operation.stage.name() })
        }
        _ => Ok(()),
    }
}

pub(super) fn terminate(by: &str, now: Timestamp) -> Vec<Fact> {
    vec![Fact::TerminateRequested { by: by.to_owned(), at: now }, follow::to_its_end(now)]
}

pub(super) fn pause(header: &Header, by: &str, reason: &str, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match &header.paused {
        Some(pause) => Err(Rejection::AlreadyPaused { by: pause.by.clone() }),
        None => Ok(vec![Fact::Paused { by: by.to_owned(), reason: reason.to_owned(), at: now }]),
    }
}

pub(super) fn unpause(header: &Header, by: &str, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match &header.paused {
        Some(_) => Ok(vec![Fact::Unpaused { by: by.to_owned(), at: now }]),
        None => Err(Rejection::NotPaused),
    }
}

pub(super) fn confirm_prune(operation: &Operation, by: &str, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    let waits = (0..)
        .zip(&operation.plan.waves)
        .any(|(index, _)| operation.unconfirmed_prunes(index).next().is_some());
    if waits {
        Ok(vec![Fact::PruneConfirmed { by: by.to_owned(), at: now }])
    } else {
        Err(Rejection::NothingToConfirm)
    }
}
