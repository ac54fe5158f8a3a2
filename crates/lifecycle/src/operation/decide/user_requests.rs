//! User requests that affect a running operation.

use tidegate_model::Timestamp;

use super::rejection::Rejection;
use crate::operation::advance;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{Header, Operation, Stage, WaveStep};

/// Rejects requests if the operation is already ending, with only its hooks left to clean up.
pub(super) fn reject_if_ending(operation: &Operation) -> Result<(), Rejection> {
    match operation.stage {
        Stage::Terminating | Stage::Finishing { .. } => {
            Err(Rejection::AlreadyEnding { state: operation.stage.name() })
        }
        _ => Ok(()),
    }
}

pub(super) fn terminate(by: &str, now: Timestamp) -> Vec<OperationEvent> {
    vec![OperationEvent::TerminationRequested { by: by.to_owned(), at: now }, advance::termination_event(now)]
}

pub(super) fn pause(
    header: &Header,
    by: &str,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    match &header.paused {
        Some(pause) => Err(Rejection::AlreadyPaused { by: pause.by.clone() }),
        None => Ok(vec![OperationEvent::Paused { by: by.to_owned(), reason: reason.to_owned(), at: now }]),
    }
}

pub(super) fn unpause(header: &Header, by: &str, now: Timestamp) -> Result<Vec<OperationEvent>, Rejection> {
    match &header.paused {
        Some(_) => Ok(vec![OperationEvent::Unpaused { by: by.to_owned(), at: now }]),
        None => Err(Rejection::NotPaused),
    }
}

pub(super) fn confirm_prune(
    operation: &Operation,
    by: &str,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    let waits = (0..)
        .zip(&operation.plan.waves)
        .any(|(index, _)| operation.unconfirmed_prunes(index).next().is_some());
    if waits {
        Ok(vec![OperationEvent::PruneConfirmed { by: by.to_owned(), at: now }])
    } else {
        Err(Rejection::NothingToConfirm)
    }
}

/// Approves a wave, by default the wave that is waiting for approval.
pub(super) fn approve_wave(
    operation: &Operation,
    wave: Option<u32>,
    by: &str,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<OperationEvent>, Rejection> {
    let refused = |why: String| Err(Rejection::NothingToApprove(why));
    let index = match (wave, operation.stage.clone()) {
        (Some(number), _) => number.checked_sub(1),
        (None, Stage::Wave { index, step: WaveStep::Held }) if operation.needs_approval(index) => Some(index),
        (None, _) => None,
    };
    let Some(index) = index.filter(|index| operation.needs_approval(*index)) else {
        return refused(approval_error(operation, wave));
    };
    if operation.current_wave().is_some_and(|(current, _)| index < current) {
        return refused(format!("wave {} has already started", index.saturating_add(1)));
    }
    Ok(vec![OperationEvent::Approved { wave: index, by: by.to_owned(), reason: reason.to_owned(), at: now }])
}

fn approval_error(operation: &Operation, wave: Option<u32>) -> String {
    let count = u32::try_from(operation.plan.waves.len()).unwrap_or(u32::MAX);
    let lacking: Vec<String> = (0..count)
        .filter(|index| operation.needs_approval(*index))
        .map(|index| index.saturating_add(1).to_string())
        .collect();
    let named = match wave {
        Some(number) if number.checked_sub(1).is_some_and(|index| operation.is_approved(index)) => {
            return format!("wave {number} is already approved");
        }
        Some(number) => format!("wave {number} needs no approval"),
        None => "no wave is waiting for approval".to_owned(),
    };
    match lacking.as_slice() {
        [] => format!("{named}, and no other wave needs approval"),
        waves => {
            format!("{named}; approve one of these with `tidegate ops approve --wave`: {}", waves.join(", "))
        }
    }
}
