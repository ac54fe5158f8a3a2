//! What news of operations, members and gates mean.

use tidegate_model::{OperationId, OperationPhase, Timestamp};

use crate::operation::{ASK_AGAIN_AFTER, CallError, Verdict};
use crate::rollout::fact::Fact;
use crate::rollout::input::{ChildNews, Sight};
use crate::rollout::messages::lacks_approval;
use crate::rollout::state::{Member, Progress, Rollout, Stage};

/// Why a gate is closed that was open when an earlier engine ended.
const ASKED_ANEW: &str = "it is asked again, after a restart";

/// A member that a step selects.
fn find<'a>(rollout: &'a Rollout, name: &str) -> Option<&'a Member> {
    rollout.members.get(name).filter(|member| member.place.step.is_some())
}

fn call_failed(name: &str, member: &Member, error: &CallError, now: Timestamp) -> Option<Vec<Fact>> {
    let retry_at = member.calls.again(error, now)?;
    Some(vec![Fact::CallFailed { member: name.to_owned(), message: error.message.clone(), retry_at }])
}

pub(super) fn chosen(
    rollout: &Rollout,
    name: &str,
    operation: &Result<OperationId, CallError>,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let member = find(rollout, name).filter(|member| member.progress == Progress::Promoted)?;
    match operation {
        // What is to be begun while somebody holds the rollout is begun later, with an id of then.
        Ok(_) if rollout.paused.is_some() => Some(Vec::new()),
        Ok(operation) => Some(vec![Fact::Named { member: name.to_owned(), operation: *operation }]),
        Err(error) => call_failed(name, member, error, now),
    }
}

pub(super) fn child(
    rollout: &Rollout,
    name: &str,
    operation: OperationId,
    news: &ChildNews,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let member = find(rollout, name).filter(|member| member.progress.operation() == Some(operation))?;
    let (member_name, at) = (name.to_owned(), now);
    let ended = |phase: OperationPhase, message: &str| {
        Some(vec![Fact::Ended { member: member_name.clone(), phase, message: message.to_owned(), at }])
    };
    match (&member.progress, news) {
        (Progress::Named { .. }, ChildNews::Held { window }) => Some(held(name, member, window.clone(), at)),
        (Progress::Named { .. }, ChildNews::Unapproved { plan }) => {
            Some(held(name, member, lacks_approval(plan), at))
        }
        (Progress::Named { .. }, ChildNews::Begun) => Some(vec![Fact::Started { member: member_name, at }]),
        (Progress::Named { .. } | Progress::Running { .. }, ChildNews::Ended { phase, message }) => {
            ended(*phase, message)
        }
        (Progress::Named { .. } | Progress::Running { .. }, ChildNews::Failed(error)) => {
            if error.transient {
                call_failed(name, member, error, now)
            } else {
                ended(OperationPhase::Error, &error.message)
            }
        }
        _ => None,
    }
}

/// What keeps an operation from beginning. The same once more is no fact.
fn held(name: &str, member: &Member, by: String, at: Timestamp) -> Vec<Fact> {
    if matches!(&member.progress, Progress::Named { window: Some(known), .. } if *known == by) {
        return Vec::new();
    }
    vec![Fact::WindowSeen { member: name.to_owned(), window: Some(by), at }]
}

pub(super) fn stopped(
    rollout: &Rollout,
    name: &str,
    operation: OperationId,
    result: &Result<(), CallError>,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let member = find(rollout, name)?;
    let Progress::Stopping { operation: awaited, .. } = member.progress else { return None };
    if awaited != operation {
        return None;
    }
    match result {
        Ok(()) => Some(vec![Fact::Stopped { member: name.to_owned(), at: now }]),
        Err(error) => call_failed(name, member, error, now),
    }
}

/// What counts is who brought the member where it is: a sight that names no operation after those that are known proves
/// nothing, however well the member looks.
pub(super) fn sighted(rollout: &Rollout, name: &str, sight: &Sight, now: Timestamp) -> Option<Vec<Fact>> {
    let member = find(rollout, name).filter(|member| rollout.is_watched(member, now))?;
    if let Progress::Healthy { operation } = member.progress {
        return Some(worsened(name, member, operation, sight, now));
    }
    let evidence = sight.evidence(&member.target);
    let is_awaited = |found: &OperationId| matches!(member.progress, Progress::Settling { operation, .. } if operation == *found);
    let healthy = || {
        let fact = Fact::BecameHealthy { member: name.to_owned(), at: now };
        sight.is_healthy().then_some(fact)
    };
    match evidence {
        Some(found) if is_awaited(&found) && sight.is_healthy() => Some(healthy().into_iter().collect()),
        Some(found) if member.is_news(found) => {
            let adopted = Fact::Adopted { member: name.to_owned(), operation: found, at: now };
            Some(std::iter::once(adopted).chain(healthy()).collect())
        }
        _ if member.seen.as_ref() == Some(sight) => Some(Vec::new()),
        _ => Some(vec![Fact::Seen { member: name.to_owned(), sight: sight.clone(), at: now }]),
    }
}

/// A member that was Healthy is watched before the next step begins. What was seen before it became so is no news.
fn worsened(name: &str, member: &Member, operation: OperationId, sight: &Sight, now: Timestamp) -> Vec<Fact> {
    let is_old = sight.operation.is_none_or(|seen| seen < operation);
    let is_well = sight.evidence(&member.target).is_some() && sight.is_healthy();
    if is_old || is_well {
        return Vec::new();
    }
    vec![Fact::Worsened { member: name.to_owned(), sight: sight.clone(), at: now }]
}

/// A gate has answered; `None` where nobody asks it. The same answer once more is no fact, however often it comes.
pub(super) fn gate(
    rollout: &Rollout,
    step: u32,
    gate: &str,
    verdict: &Verdict,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let is_asked =
        rollout.stage == Stage::Held { step } && rollout.asked_gates(step).any(|asked| asked == gate);
    is_asked.then_some(())?;
    let known = rollout.gates.iter().find(|answer| answer.gate == gate);
    if known.is_some_and(|known| known.verdict.says_the_same(verdict)) {
        return Some(Vec::new());
    }
    Some(vec![Fact::GateAnswered { gate: gate.to_owned(), verdict: verdict.clone(), at: now }])
}

/// What was open before a restart is not taken for open until it says so again: a night may lie between.
pub(super) fn recovered(rollout: &Rollout, now: Timestamp) -> Vec<Fact> {
    let open = rollout.gates.iter().filter(|answer| answer.verdict == Verdict::Open);
    let closed = || Verdict::Closed { reason: ASKED_ANEW.to_owned(), ask_again_after: ASK_AGAIN_AFTER };
    open.map(|answer| Fact::GateAnswered { gate: answer.gate.clone(), verdict: closed(), at: now }).collect()
}
