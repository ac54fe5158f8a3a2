//! Decides which events follow from an input. The functions are pure: the same input, state and time always
//! yield the same events.

mod rejection;
mod reports;
mod user_requests;

use tidegate_model::{Digest, Timestamp};

use super::event::{Event, MemberRecord};
use super::input::Input;
use super::request::{MemberSpec, Request};
use super::state::{End, Progress, Rollout, Stage, State, StopOutcome};
use crate::fleet::{Assignment, assign_step, collect_unique_names};

pub use rejection::Rejection;

/// Returns the events that an input causes.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    match (state, input) {
        (State::New, Input::Begin(request)) => start_rollout(request, now),
        (State::New, _) => Err(Rejection::NotStarted),
        (_, Input::Begin(_)) => Err(Rejection::AlreadyStarted { state: state.name() }),
        (State::Finished(rollout), Input::UserRequest { .. }) => {
            let message = rollout.outcome.as_ref().map(|outcome| outcome.message.clone());
            Err(Rejection::AlreadyFinished { message: message.unwrap_or_default() })
        }
        (State::Finished(_), _) => Err(Rejection::Stale { state: state.name() }),
        (State::Running(rollout), input) => decide_running(rollout, input, now),
    }
}

/// Starts a rollout, and assigns each Application to a step. The recorded assignment never changes.
fn start_rollout(request: &Request, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    collect_unique_names(&request.set, request.members.iter().map(|member| &member.name))?;
    let place = |member: &MemberSpec| {
        let place = assign_step(request.steps.iter().map(|step| step.expressions.as_slice()), &member.labels);
        MemberRecord { place, ..member_record(member) }
    };
    Ok(vec![Event::Created {
        set: request.set.clone(),
        uid: request.uid.clone(),
        targets: request.targets,
        by: request.by.clone(),
        steps: request.steps.clone(),
        members: request.members.iter().map(place).collect(),
        options: request.options,
        at: now,
    }])
}

fn member_record(member: &MemberSpec) -> MemberRecord {
    MemberRecord {
        name: member.name.clone(),
        place: Assignment::default(),
        target: member.target.clone(),
        before: member.before.clone(),
        done_by: member.done_by,
    }
}

fn decide_running(rollout: &Rollout, input: &Input, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    let stale = || Rejection::Stale { state: rollout.stage.name() };
    match input {
        Input::Begin(_) => Err(stale()),
        Input::IdChosen { member, operation } => {
            reports::handle_chosen_id(rollout, member, operation, now).ok_or_else(stale)
        }
        Input::OperationReported { member, operation, report } => {
            reports::handle_operation_report(rollout, member, *operation, report, now).ok_or_else(stale)
        }
        Input::Observed { member, observation } => {
            reports::handle_observation(rollout, member, observation, now).ok_or_else(stale)
        }
        Input::Stopped { member, operation, result } => {
            reports::handle_stopped_operation(rollout, member, *operation, result, now).ok_or_else(stale)
        }
        Input::Gate { step, gate, verdict } => {
            reports::handle_verdict(rollout, *step, gate, verdict, now).ok_or_else(stale)
        }
        Input::Recovered => Ok(reports::withdraw_open_verdicts(rollout, now)),
        Input::Gone { member } => handle_removed_member(rollout, member, now).ok_or_else(stale),
        Input::Joined { member } => handle_added_member(rollout, member, now).ok_or_else(stale),
        Input::NewTargets { targets } => Ok(handle_new_targets(rollout, *targets, now)),
        Input::UserRequest { request, by, reason } => {
            user_requests::decide_user_request(rollout, request, by, reason, now)
        }
        Input::Abort { reason } => {
            Ok(vec![Event::Finished { end: End::Error, message: reason.clone(), at: now }])
        }
    }
}

/// Handles an Application that has left the ApplicationSet. Stops its operation first, if there is one.
fn handle_removed_member(rollout: &Rollout, name: &str, now: Timestamp) -> Option<Vec<Event>> {
    let member = rollout.members.get(name)?;
    let (name, at) = (name.to_owned(), now);
    match member.progress {
        Progress::Gone | Progress::Stopping { then: StopOutcome::Go, .. } => None,
        _ if member.place.step.is_none() || !member.progress.is_active() => {
            Some(vec![Event::Removed { member: name, at }])
        }
        _ => Some(vec![Event::StopRequested { member: name, then: StopOutcome::Go, at }]),
    }
}

fn handle_added_member(rollout: &Rollout, member: &MemberSpec, now: Timestamp) -> Option<Vec<Event>> {
    let known = rollout.members.get(&member.name);
    let is_new = known.is_none_or(|known| known.progress == Progress::Gone);
    let is_ending = matches!(rollout.stage, Stage::Ending { .. });
    (is_new && !is_ending).then(|| {
        let listed = MemberRecord { place: rollout.assign_step(&member.labels), ..member_record(member) };
        vec![Event::Added { member: Box::new(listed), at: now }]
    })
}

fn handle_new_targets(rollout: &Rollout, targets: Digest, now: Timestamp) -> Vec<Event> {
    let known = rollout.new_targets.map_or(rollout.targets, |known| known.targets);
    if known == targets { Vec::new() } else { vec![Event::TargetsChanged { targets, at: now }] }
}
