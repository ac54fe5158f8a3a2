//! Which arrow follows by itself: the one place where the arrows of the machine are decided.

use tidegate_model::Timestamp;

use super::fact::Fact;
use super::messages;
use super::request::{OnFailure, OnPending};
use super::state::{Cause, End, Failure, Member, Progress, Rollout, Stage, State, Then, Work};
use crate::fleet::count;

/// The facts that follow from the state and the time alone. Called again until nothing follows.
pub fn follow(state: &State, now: Timestamp) -> Vec<Fact> {
    let State::Running(rollout) = state else { return Vec::new() };
    if let Stage::Ending { end, message, stops } = &rollout.stage {
        // Who does not want to wait for what is at work asks for the end once more.
        return ending(rollout, *end, message, *stops || rollout.terminated.is_some(), now);
    }
    if let Some(said) = &rollout.terminated {
        return end(End::Terminated, messages::terminated(said), true, now);
    }
    if rollout.is_superseded() {
        return end(End::Superseded, messages::SUPERSEDED.to_owned(), true, now);
    }
    if rollout.paused.is_some() {
        return Vec::new();
    }
    match rollout.stage {
        Stage::Begun => onward(rollout, now),
        Stage::Held { step } => held(rollout, step, now),
        Stage::Rolling { step } => rolling(rollout, step, now),
        Stage::RollingBack { step } => rolling_back(rollout, step, now),
        Stage::Ending { .. } => Vec::new(),
    }
}

fn moved(to: Stage, now: Timestamp) -> Vec<Fact> {
    vec![Fact::Moved { to, at: now }]
}

fn end(end: End, message: String, stops: bool, now: Timestamp) -> Vec<Fact> {
    moved(Stage::Ending { end, message, stops }, now)
}

/// To the first step in which something is to be done, or to the end. A step that has passed and is open again goes on; it
/// is not held once more.
fn onward(rollout: &Rollout, now: Timestamp) -> Vec<Fact> {
    let Some(step) = rollout.first_open() else {
        return end(End::Completed, messages::completed(rollout), false, now);
    };
    let has_passed = rollout.step(step).is_some_and(|step| step.passed_at.is_some());
    moved(if has_passed { Stage::Rolling { step } } else { Stage::Held { step } }, now)
}

fn held(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Fact> {
    if rollout.first_open() != Some(step) {
        return onward(rollout, now);
    }
    if rollout.gates_are_open(step, now) { moved(Stage::Rolling { step }, now) } else { Vec::new() }
}

fn rolling(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Fact> {
    if let Some(facts) = failed(rollout, step, now) {
        return facts;
    }
    if rollout.first_open().is_none_or(|open| open > step) {
        return onward(rollout, now);
    }
    let late = overdue(rollout, step, now);
    if late.is_empty() { promoted(rollout, step, Work::Sync, now) } else { late }
}

/// What follows when a step has failed, and that it has.
fn failed(rollout: &Rollout, step: u32, now: Timestamp) -> Option<Vec<Fact>> {
    let state = rollout.step(step)?;
    if let Some(Failure { cause, message }) = state.failed.clone() {
        return match state.step.on_failure {
            // It is paused already; a person lets it go on.
            OnFailure::Pause => None,
            OnFailure::Abort => Some(end(End::Failed, message, cause == Cause::Deadline, now)),
            OnFailure::RollBack => Some(moved(Stage::RollingBack { step }, now)),
        };
    }
    let is_late = state.too_late_at().is_some_and(|at| now >= at);
    let cause = if is_late && rollout.first_open().is_some_and(|open| open <= step) {
        Cause::Deadline
    } else {
        let failures = rollout.failures(step);
        let most = state.step.max_failures?.saturating_add(state.forgiven);
        (failures > most).then_some(Cause::Failures(failures))?
    };
    let message = messages::step_failed(rollout, step, cause);
    Some(vec![Fact::StepFailed { step, failure: Failure { cause, message }, at: now }])
}

/// Members that are Pending for too long.
fn overdue(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Fact> {
    let Some(timeout) = rollout.options.pending_timeout else { return Vec::new() };
    let late = rollout
        .members_of(step)
        .filter(|(_, member)| member.is_pending() && !member.overdue && now >= member.pending_from + timeout);
    let fact = |name: &String| {
        let (member, at) = (name.clone(), now);
        match rollout.options.on_pending {
            OnPending::Hold => Fact::Overdue { member, at },
            OnPending::Healthy => Fact::StopBegun { member, then: Then::Assume, at },
            OnPending::Fail => {
                let then = Then::Fail { message: messages::pending_too_long(timeout) };
                Fact::StopBegun { member, then, at }
            }
        }
    };
    late.map(|(name, _)| fact(name)).collect()
}

/// Those whose turn has come, by name.
fn promoted(rollout: &Rollout, step: u32, work: Work, now: Timestamp) -> Vec<Fact> {
    rollout
        .members_of(step)
        .filter(|(_, member)| member.progress == Progress::Waiting && member.work == work)
        .take(rollout.places_left(step))
        .map(|(name, _)| Fact::Promoted { member: name.clone(), at: now })
        .collect()
}

/// First nothing may be at work on a member any more, then its turn comes.
fn rolling_back(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Fact> {
    let facts: Vec<Fact> = rollout
        .members_of(step)
        .filter(|(_, member)| member.work == Work::Sync)
        .filter_map(|(name, member)| {
            let member_name = name.clone();
            if is_to_be_stopped(member) || has_nowhere_to_go(member) {
                Some(Fact::StopBegun { member: member_name, then: back(member), at: now })
            } else if member.awaits_rollback() {
                Some(Fact::RollBackBegun { member: member_name, at: now })
            } else {
                None
            }
        })
        .collect();
    if !facts.is_empty() {
        return facts;
    }
    let promoted = promoted(rollout, step, Work::RollBack, now);
    let is_at_work = rollout.members_of(step).any(|(_, member)| member.progress.is_at_work());
    if !promoted.is_empty() || is_at_work {
        return promoted;
    }
    let (end_as, message) = messages::rolled_back(rollout, step);
    end(end_as, message, false, now)
}

/// What becomes of a member whose operation is stopped because its step is rolled back.
fn back(member: &Member) -> Then {
    match (member.touched, &member.before) {
        (false, _) => Then::Wait,
        (true, Some(_)) => Then::RollBack,
        (true, None) => Then::Fail { message: messages::NOTHING_BEFORE.to_owned() },
    }
}

/// Whether it is not well after its operation, and cannot be brought back: nothing is awaited of it any more.
fn has_nowhere_to_go(member: &Member) -> bool {
    matches!(member.progress, Progress::Settling { .. }) && member.touched && member.before.is_none()
}

fn is_to_be_stopped(member: &Member) -> bool {
    member.progress.is_at_work() && !matches!(member.progress, Progress::Stopping { .. })
}

/// What has not begun is taken back; what has is awaited, or stopped.
fn ending(rollout: &Rollout, end: End, message: &str, stops: bool, now: Timestamp) -> Vec<Fact> {
    let facts: Vec<Fact> = rollout
        .members
        .iter()
        .filter(|(_, member)| is_to_be_stopped(member))
        .filter(|(_, member)| stops || !matches!(member.progress, Progress::Running { .. }))
        .map(|(name, _)| Fact::StopBegun { member: name.clone(), then: Then::Wait, at: now })
        .collect();
    let at_work = count(rollout.members.values().filter(|member| member.progress.is_at_work()));
    if !facts.is_empty() || at_work > 0 {
        return facts;
    }
    vec![Fact::Finished { end, message: message.to_owned(), at: now }]
}
