//! Handling of reports on operations, Applications and gates.

use tidegate_model::{OperationId, OperationPhase, Timestamp};

use crate::operation::{CallError, GATE_RETRY_INTERVAL, Verdict};
use crate::rollout::event::Event;
use crate::rollout::input::{MemberObservation, OperationReport};
use crate::rollout::messages::missing_approval_message;
use crate::rollout::state::{Member, Progress, Rollout, Stage};

/// Reason shown for a gate after a restart withdrew its open verdict. The gate counts as closed.
const AWAITING_NEW_ANSWER: &str = "waiting for a new result after a restart";

/// Returns the Application with the given name, if a step selects it.
fn find_member<'a>(rollout: &'a Rollout, name: &str) -> Option<&'a Member> {
    rollout.members.get(name).filter(|member| member.place.step.is_some())
}

fn handle_call_error(name: &str, member: &Member, error: &CallError, now: Timestamp) -> Option<Vec<Event>> {
    let retry_at = member.calls.next_retry(error, now)?;
    Some(vec![Event::CallFailed { member: name.to_owned(), message: error.message.clone(), retry_at }])
}

pub(super) fn handle_chosen_id(
    rollout: &Rollout,
    name: &str,
    operation: &Result<OperationId, CallError>,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let member = find_member(rollout, name).filter(|member| member.progress == Progress::Promoted)?;
    match operation {
        // A pause postpones the start. Discard the ID; another will be chosen later.
        Ok(_) if rollout.paused.is_some() => Some(Vec::new()),
        Ok(operation) => {
            Some(vec![Event::OperationAssigned { member: name.to_owned(), operation: *operation }])
        }
        Err(error) => handle_call_error(name, member, error, now),
    }
}

pub(super) fn handle_operation_report(
    rollout: &Rollout,
    name: &str,
    operation: OperationId,
    news: &OperationReport,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let member =
        find_member(rollout, name).filter(|member| member.progress.operation() == Some(operation))?;
    let (member_name, at) = (name.to_owned(), now);
    let ended = |phase: OperationPhase, message: &str| {
        Some(vec![Event::OperationEnded {
            member: member_name.clone(),
            phase,
            message: message.to_owned(),
            at,
        }])
    };
    match (&member.progress, news) {
        (Progress::Named { .. }, OperationReport::Delayed { window }) => {
            Some(record_delay(name, member, window.clone(), at))
        }
        (Progress::Named { .. }, OperationReport::Unapproved { plan }) => {
            Some(record_delay(name, member, missing_approval_message(plan), at))
        }
        (Progress::Named { .. }, OperationReport::Deployed { operation }) if member.can_adopt(*operation) => {
            Some(vec![Event::OperationAdopted { member: member_name, operation: *operation, at }])
        }
        (Progress::Named { .. }, OperationReport::Started) => {
            Some(vec![Event::OperationStarted { member: member_name, at }])
        }
        (Progress::Named { .. } | Progress::Running { .. }, OperationReport::Ended { phase, message }) => {
            ended(*phase, message)
        }
        (Progress::Named { .. } | Progress::Running { .. }, OperationReport::Failed(error)) => {
            if error.is_transient {
                handle_call_error(name, member, error, now)
            } else {
                ended(OperationPhase::Error, &error.message)
            }
        }
        _ => None,
    }
}

/// Records that an operation is delayed. Ignores repeated reports.
fn record_delay(name: &str, member: &Member, by: String, at: Timestamp) -> Vec<Event> {
    if matches!(&member.progress, Progress::Named { window: Some(known), .. } if *known == by) {
        return Vec::new();
    }
    vec![Event::SyncWindowChanged { member: name.to_owned(), window: Some(by), at }]
}

pub(super) fn handle_stopped_operation(
    rollout: &Rollout,
    name: &str,
    operation: OperationId,
    result: &Result<(), CallError>,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let member = find_member(rollout, name)?;
    let Progress::Stopping { operation: awaited, .. } = member.progress else { return None };
    if awaited != operation {
        return None;
    }
    match result {
        Ok(()) => Some(vec![Event::Stopped { member: name.to_owned(), at: now }]),
        Err(error) => handle_call_error(name, member, error, now),
    }
}

/// Handles an observation of an Application. The observation is evidence only if it contains the awaited
/// operation, or a newer operation that deployed the same target. Without it, even a Healthy Application
/// isn't at its target.
pub(super) fn handle_observation(
    rollout: &Rollout,
    name: &str,
    observation: &MemberObservation,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let member = find_member(rollout, name).filter(|member| rollout.is_watched(member, now))?;
    if let Progress::Healthy { operation } = member.progress {
        return Some(handle_degradation(name, member, operation, observation, now));
    }
    let evidence = observation.evidence_of(&member.target);
    let is_awaited = |id: &OperationId| matches!(member.progress, Progress::Settling { operation, .. } if operation == *id);
    let healthy = || {
        let event = Event::BecameHealthy { member: name.to_owned(), at: now };
        observation.is_healthy().then_some(event)
    };
    match evidence {
        Some(id) if is_awaited(&id) && observation.is_healthy() => Some(healthy().into_iter().collect()),
        Some(id) if member.is_newer_operation(id) => {
            let adopted = Event::OperationAdopted { member: name.to_owned(), operation: id, at: now };
            Some(std::iter::once(adopted).chain(healthy()).collect())
        }
        _ if member.seen.as_ref() == Some(observation) => Some(Vec::new()),
        _ => {
            Some(vec![Event::StatusObserved { member: name.to_owned(), sight: observation.clone(), at: now }])
        }
    }
}

/// Handles an observation of a Healthy Application while it is watched before the next step begins. Ignores
/// observations from before the operation that made the Application Healthy.
fn handle_degradation(
    name: &str,
    member: &Member,
    operation: OperationId,
    observation: &MemberObservation,
    now: Timestamp,
) -> Vec<Event> {
    let is_old = observation.operation.is_none_or(|seen| seen < operation);
    let is_well = observation.evidence_of(&member.target).is_some() && observation.is_healthy();
    if is_old || is_well {
        return Vec::new();
    }
    vec![Event::HealthLost { member: name.to_owned(), sight: observation.clone(), at: now }]
}

/// Handles a gate's verdict, ignoring duplicates. Returns `None` if the rollout isn't waiting for the gate.
pub(super) fn handle_verdict(
    rollout: &Rollout,
    step: u32,
    gate: &str,
    verdict: &Verdict,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let is_asked =
        rollout.stage == Stage::Held { step } && rollout.external_gates(step).any(|asked| asked == gate);
    is_asked.then_some(())?;
    let known = rollout.gates.iter().find(|answer| answer.gate == gate);
    if known.is_some_and(|known| known.verdict.is_same_as(verdict)) {
        return Some(Vec::new());
    }
    Some(vec![Event::GateAnswered { gate: gate.to_owned(), verdict: verdict.clone(), at: now }])
}

/// Withdraws open verdicts after a restart, because they may be stale. Each stays withdrawn until its gate
/// repeats it.
pub(super) fn withdraw_open_verdicts(rollout: &Rollout, now: Timestamp) -> Vec<Event> {
    let open = rollout.gates.iter().filter(|answer| answer.verdict == Verdict::Open);
    let closed =
        || Verdict::Closed { reason: AWAITING_NEW_ANSWER.to_owned(), ask_again_after: GATE_RETRY_INTERVAL };
    open.map(|answer| Event::GateAnswered { gate: answer.gate.clone(), verdict: closed(), at: now }).collect()
}
