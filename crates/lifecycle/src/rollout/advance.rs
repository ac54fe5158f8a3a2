//! Automatic transitions. This module decides all transitions of the machine.

use tidegate_model::Timestamp;

use super::event::Event;
use super::messages;
use super::request::{OnFailure, OnPending};
use super::state::{Cause, End, Failure, Member, Progress, Rollout, Stage, State, StopOutcome, WorkKind};
use crate::fleet::count;

/// Returns the events that follow from the state and the time alone. The driver calls this until it returns
/// nothing.
pub fn advance(state: &State, now: Timestamp) -> Vec<Event> {
    let State::Running(rollout) = state else { return Vec::new() };
    if let Stage::Ending { end, message, stops } = &rollout.stage {
        // Terminating a rollout that is already ending also stops its running operations.
        return advance_ending(rollout, *end, message, *stops || rollout.terminated.is_some(), now);
    }
    if let Some(attribution) = &rollout.terminated {
        return end_rollout(End::Terminated, messages::terminated_message(attribution), true, now);
    }
    if rollout.is_superseded() {
        return end_rollout(End::Superseded, messages::SUPERSEDED_MESSAGE.to_owned(), true, now);
    }
    if rollout.paused.is_some() {
        return Vec::new();
    }
    match rollout.stage {
        Stage::Begun => move_to_next_stage(rollout, now),
        Stage::Held { step } => advance_held(rollout, step, now),
        Stage::Rolling { step } => advance_rolling(rollout, step, now),
        Stage::RollingBack { step } => advance_rollback(rollout, step, now),
        Stage::Ending { .. } => Vec::new(),
    }
}

fn move_to(to: Stage, now: Timestamp) -> Vec<Event> {
    vec![Event::Moved { to, at: now }]
}

fn end_rollout(end: End, message: String, stops: bool, now: Timestamp) -> Vec<Event> {
    move_to(Stage::Ending { end, message, stops }, now)
}

/// Moves to the first open step, or to the end. A passed step that has reopened doesn't wait for its gates
/// again.
fn move_to_next_stage(rollout: &Rollout, now: Timestamp) -> Vec<Event> {
    let Some(step) = rollout.first_open_step() else {
        return end_rollout(End::Completed, messages::completed_message(rollout), false, now);
    };
    let has_passed = rollout.step(step).is_some_and(|step| step.passed_at.is_some());
    move_to(if has_passed { Stage::Rolling { step } } else { Stage::Held { step } }, now)
}

fn advance_held(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Event> {
    if rollout.first_open_step() != Some(step) {
        return move_to_next_stage(rollout, now);
    }
    if rollout.has_open_gates(step, now) { move_to(Stage::Rolling { step }, now) } else { Vec::new() }
}

fn advance_rolling(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Event> {
    if let Some(events) = detect_step_failure(rollout, step, now) {
        return events;
    }
    if rollout.first_open_step().is_none_or(|open| open > step) {
        return move_to_next_stage(rollout, now);
    }
    let late = handle_overdue(rollout, step, now);
    if late.is_empty() { promote_members(rollout, step, WorkKind::Sync, now) } else { late }
}

/// Returns the events for a failed step, or `None` if the step continues.
fn detect_step_failure(rollout: &Rollout, step: u32, now: Timestamp) -> Option<Vec<Event>> {
    let state = rollout.step(step)?;
    if let Some(Failure { cause, message }) = state.failed.clone() {
        return match state.step.on_failure {
            // The failure has paused the rollout. When a user resumes it, the failure is cleared.
            OnFailure::Pause => None,
            OnFailure::Abort => Some(end_rollout(End::Failed, message, cause == Cause::Deadline, now)),
            OnFailure::RollBack => Some(move_to(Stage::RollingBack { step }, now)),
        };
    }
    let is_late = state.deadline_at().is_some_and(|at| now >= at);
    let cause = if is_late && rollout.first_open_step().is_some_and(|open| open <= step) {
        Cause::Deadline
    } else {
        let failures = rollout.failure_count(step);
        let most = state.step.max_failures?.saturating_add(state.forgiven);
        (failures > most).then_some(Cause::Failures(failures))?
    };
    let message = messages::step_failed_message(rollout, step, cause);
    Some(vec![Event::StepFailed { step, failure: Failure { cause, message }, at: now }])
}

/// Handles Applications that have been Pending for too long.
fn handle_overdue(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Event> {
    let Some(timeout) = rollout.options.pending_timeout else { return Vec::new() };
    let late = rollout
        .members_in_step(step)
        .filter(|(_, member)| member.is_pending() && !member.overdue && now >= member.pending_from + timeout);
    let event = |name: &String| {
        let (member, at) = (name.clone(), now);
        match rollout.options.on_pending {
            OnPending::Hold => Event::Overdue { member, at },
            OnPending::Healthy => Event::StopRequested { member, then: StopOutcome::Assume, at },
            OnPending::Fail => {
                let then = StopOutcome::Fail { message: messages::pending_timeout_message(timeout) };
                Event::StopRequested { member, then, at }
            }
        }
    };
    late.map(|(name, _)| event(name)).collect()
}

/// Promotes the next Applications in a step, in the order of their names.
fn promote_members(rollout: &Rollout, step: u32, work: WorkKind, now: Timestamp) -> Vec<Event> {
    rollout
        .members_in_step(step)
        .filter(|(_, member)| member.progress == Progress::Waiting && member.work == work)
        .take(rollout.remaining_capacity(step))
        .map(|(name, _)| Event::Promoted { member: name.clone(), at: now })
        .collect()
}

/// Rolls back a step. Stops all work on an Application before promoting it for the rollback.
fn advance_rollback(rollout: &Rollout, step: u32, now: Timestamp) -> Vec<Event> {
    let events: Vec<Event> = rollout
        .members_in_step(step)
        .filter(|(_, member)| member.work == WorkKind::Sync)
        .filter_map(|(name, member)| {
            let member_name = name.clone();
            if needs_stop(member) || has_no_rollback_target(member) {
                Some(Event::StopRequested { member: member_name, then: stop_outcome(member), at: now })
            } else if member.needs_rollback() {
                Some(Event::RollbackStarted { member: member_name, at: now })
            } else {
                None
            }
        })
        .collect();
    if !events.is_empty() {
        return events;
    }
    let promoted = promote_members(rollout, step, WorkKind::RollBack, now);
    let is_at_work = rollout.members_in_step(step).any(|(_, member)| member.progress.is_active());
    if !promoted.is_empty() || is_at_work {
        return promoted;
    }
    let (end_as, message) = messages::rollback_outcome(rollout, step);
    end_rollout(end_as, message, false, now)
}

/// Returns the state that an Application enters when its operation has been stopped for a rollback.
fn stop_outcome(member: &Member) -> StopOutcome {
    match (member.touched, &member.before) {
        (false, _) => StopOutcome::Wait,
        (true, Some(_)) => StopOutcome::RollBack,
        (true, None) => StopOutcome::Fail { message: messages::NO_PREVIOUS_DEPLOYMENT.to_owned() },
    }
}

/// Returns true if the rollout still waits for the health of an Application that was never deployed before.
/// It fails instead of being rolled back.
fn has_no_rollback_target(member: &Member) -> bool {
    matches!(member.progress, Progress::Settling { .. }) && member.touched && member.before.is_none()
}

fn needs_stop(member: &Member) -> bool {
    member.progress.is_active() && !matches!(member.progress, Progress::Stopping { .. })
}

/// Ends the rollout. Withdraws operations that haven't begun; stops running operations if `stops` is true, or
/// else waits for them.
fn advance_ending(rollout: &Rollout, end: End, message: &str, stops: bool, now: Timestamp) -> Vec<Event> {
    let events: Vec<Event> = rollout
        .members
        .iter()
        .filter(|(_, member)| needs_stop(member))
        .filter(|(_, member)| stops || !matches!(member.progress, Progress::Running { .. }))
        .map(|(name, _)| Event::StopRequested { member: name.clone(), then: StopOutcome::Wait, at: now })
        .collect();
    let at_work = count(rollout.members.values().filter(|member| member.progress.is_active()));
    if !events.is_empty() || at_work > 0 {
        return events;
    }
    vec![Event::Finished { end, message: message.to_owned(), at: now }]
}
