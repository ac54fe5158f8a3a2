//! What people may ask of a running operation.

use tidegate_model::Timestamp;

use super::rejection::Rejection;
use crate::operation::fact::Fact;
use crate::operation::follow;
use crate::operation::state::{Header, Operation, Stage, WaveStep};

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

/// Approves a wave: the one that is named, or the one that waits for it.
pub(super) fn approve(
    operation: &Operation,
    wave: Option<u32>,
    by: &str,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<Fact>, Rejection> {
    let refused = |why: String| Err(Rejection::NothingToApprove(why));
    let index = match (wave, operation.stage.clone()) {
        (Some(number), _) => number.checked_sub(1),
        (None, Stage::Wave { index, step: WaveStep::Held }) if operation.lacks_approval(index) => Some(index),
        (None, _) => None,
    };
    let Some(index) = index.filter(|index| operation.lacks_approval(*index)) else {
        return refused(why_not(operation, wave));
    };
    if operation.current_wave().is_some_and(|(current, _)| index < current) {
        return refused(format!("wave {} has begun already", index.saturating_add(1)));
    }
    Ok(vec![Fact::Approved { wave: index, by: by.to_owned(), reason: reason.to_owned(), at: now }])
}

fn why_not(operation: &Operation, wave: Option<u32>) -> String {
    let count = u32::try_from(operation.plan.waves.len()).unwrap_or(u32::MAX);
    let lacking: Vec<String> = (0..count)
        .filter(|index| operation.lacks_approval(*index))
        .map(|index| index.saturating_add(1).to_string())
        .collect();
    let named = match wave {
        Some(number) if number.checked_sub(1).is_some_and(|index| operation.is_approved(index)) => {
            return format!("wave {number} is approved already");
        }
        Some(number) => format!("wave {number} needs no approval"),
        None => "no wave waits for approval now".to_owned(),
    };
    match lacking.as_slice() {
        [] => format!("{named}, and no other does"),
        waves => format!("{named}; name one that will with --wave: {}", waves.join(", ")),
    }
}
