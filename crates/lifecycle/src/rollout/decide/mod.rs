//! Which facts an input means, given the state. Pure: the same pair gives the same facts.

mod news;
mod rejection;
mod wishes;

use std::collections::BTreeSet;

use tidegate_model::{Digest, Timestamp};

use super::fact::{Fact, Listed};
use super::input::Input;
use super::request::{MemberSpec, Request};
use super::state::{End, Progress, Rollout, Stage, State, Then};
use crate::fleet::{Assignment, assign};

pub use rejection::Rejection;

/// The facts an input means.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match (state, input) {
        (State::New, Input::Begin(request)) => begun(request, now),
        (State::New, _) => Err(Rejection::NotStarted),
        (_, Input::Begin(_)) => Err(Rejection::AlreadyStarted { state: state.name() }),
        (State::Finished(rollout), Input::Wish { .. }) => {
            let message = rollout.outcome.as_ref().map(|outcome| outcome.message.clone());
            Err(Rejection::AlreadyFinished { message: message.unwrap_or_default() })
        }
        (State::Finished(_), _) => Err(Rejection::Stale { state: state.name() }),
        (State::Running(rollout), input) => running(rollout, input, now),
    }
}

/// Who is in which step is decided once, and recorded.
fn begun(request: &Request, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    let mut names = BTreeSet::new();
    if let Some(twice) = request.members.iter().find(|member| !names.insert(&member.name)) {
        return Err(Rejection::NamedTwice { set: request.set.clone(), member: twice.name.clone() });
    }
    let place = |member: &MemberSpec| {
        let place = assign(request.steps.iter().map(|step| step.expressions.as_slice()), &member.labels);
        Listed { place, ..listed(member) }
    };
    Ok(vec![Fact::Begun {
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

fn listed(member: &MemberSpec) -> Listed {
    Listed {
        name: member.name.clone(),
        place: Assignment::default(),
        target: member.target.clone(),
        before: member.before.clone(),
        done_by: member.done_by,
    }
}

fn running(rollout: &Rollout, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    let stale = || Rejection::Stale { state: rollout.stage.name() };
    match input {
        Input::Begin(_) => Err(stale()),
        Input::Chosen { member, operation } => {
            news::chosen(rollout, member, operation, now).ok_or_else(stale)
        }
        Input::Child { member, operation, news } => {
            news::child(rollout, member, *operation, news, now).ok_or_else(stale)
        }
        Input::Sighted { member, sight } => news::sighted(rollout, member, sight, now).ok_or_else(stale),
        Input::Stopped { member, operation, result } => {
            news::stopped(rollout, member, *operation, result, now).ok_or_else(stale)
        }
        Input::Gate { step, gate, verdict } => {
            news::gate(rollout, *step, gate, verdict, now).ok_or_else(stale)
        }
        Input::Recovered => Ok(news::recovered(rollout, now)),
        Input::Gone { member } => gone(rollout, member, now).ok_or_else(stale),
        Input::Joined { member } => joined(rollout, member, now).ok_or_else(stale),
        Input::NewTargets { targets } => Ok(new_targets(rollout, *targets, now)),
        Input::Wish { wish, by, why } => wishes::decide(rollout, wish, by, why, now),
        Input::Abort { reason } => {
            Ok(vec![Fact::Finished { end: End::Error, message: reason.clone(), at: now }])
        }
    }
}

/// An Application that is gone takes its operation with it: nothing may be at work for it any more.
fn gone(rollout: &Rollout, name: &str, now: Timestamp) -> Option<Vec<Fact>> {
    let member = rollout.members.get(name)?;
    let (name, at) = (name.to_owned(), now);
    match member.progress {
        Progress::Gone | Progress::Stopping { then: Then::Go, .. } => None,
        _ if member.place.step.is_none() || !member.progress.is_at_work() => {
            Some(vec![Fact::Gone { member: name, at }])
        }
        _ => Some(vec![Fact::StopBegun { member: name, then: Then::Go, at }]),
    }
}

fn joined(rollout: &Rollout, member: &MemberSpec, now: Timestamp) -> Option<Vec<Fact>> {
    let known = rollout.members.get(&member.name);
    let is_new = known.is_none_or(|known| known.progress == Progress::Gone);
    let is_ending = matches!(rollout.stage, Stage::Ending { .. });
    (is_new && !is_ending).then(|| {
        let listed = Listed { place: rollout.place(&member.labels), ..listed(member) };
        vec![Fact::Joined { member: Box::new(listed), at: now }]
    })
}

fn new_targets(rollout: &Rollout, targets: Digest, now: Timestamp) -> Vec<Fact> {
    let known = rollout.new_targets.map_or(rollout.targets, |known| known.targets);
    if known == targets { Vec::new() } else { vec![Fact::NewTargets { targets, at: now }] }
}
