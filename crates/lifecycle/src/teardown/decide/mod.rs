//! Which facts an input means, given the state. Pure: the same pair gives the same facts.

mod rejection;

use std::collections::BTreeSet;

use tidegate_model::Timestamp;

use super::fact::{Fact, Listed};
use super::input::{Found, Input, Sight, Wish};
use super::order::Order;
use super::request::{MemberSpec, Request};
use super::state::{End, Member, Progress, State, Teardown};
use crate::fleet::{Said, Scope, by_place, enumerate, or_others};
use crate::operation::CallError;

pub use rejection::Rejection;

/// The facts an input means.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    match (state, input) {
        (State::New, Input::Begin(request)) => begun(request, now),
        (State::New, _) => Err(Rejection::NotStarted),
        (_, Input::Begin(_)) => Err(Rejection::AlreadyStarted { state: state.name() }),
        (State::Finished(teardown), Input::Wish { .. }) => {
            let message = teardown.outcome.as_ref().map(|outcome| outcome.message.clone());
            Err(Rejection::AlreadyFinished { message: message.unwrap_or_default() })
        }
        (State::Finished(_), _) => Err(Rejection::Stale { state: state.name() }),
        (State::Running(teardown), input) => running(teardown, input, now),
    }
}

/// Who is deleted when is decided once, and recorded.
fn begun(request: &Request, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    let mut names = BTreeSet::new();
    if let Some(twice) = request.members.iter().find(|member| !names.insert(&member.name)) {
        return Err(Rejection::NamedTwice { set: request.set.clone(), member: twice.name.clone() });
    }
    let begun = Fact::Begun {
        set: request.set.clone(),
        uid: request.uid.clone(),
        by: request.by.clone(),
        order: request.order.clone(),
        members: request.members.iter().map(|member| listed(&request.order, member)).collect(),
        options: request.options,
        at: now,
    };
    let approved = request.approved.clone().map(Fact::Approved);
    // Others do not ask who is kept.
    let kept = request.kept.iter().filter(|(name, _)| names.contains(name) && !request.order.is_witnessed());
    let left = kept.map(|(name, said)| Fact::Left { member: name.clone(), said: said.clone() });
    Ok(std::iter::once(begun).chain(approved).chain(left).collect())
}

fn listed(order: &Order, member: &MemberSpec) -> Listed {
    Listed { name: member.name.clone(), uid: member.uid.clone(), place: order.place(&member.labels) }
}

fn running(teardown: &Teardown, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
    let stale = || Rejection::Stale { state: teardown.stage_name() };
    match input {
        Input::Begin(_) => Err(stale()),
        Input::Answered { member, uid, found } => {
            answered(teardown, member, uid, found, now).ok_or_else(stale)
        }
        Input::Sighted { member, uid, sight } => sighted(teardown, member, uid, sight, now).ok_or_else(stale),
        Input::Joined { member } => joined(teardown, member, now).ok_or_else(stale),
        Input::Approved(approval) if teardown.is_approved(&approval.token) => Ok(Vec::new()),
        Input::Approved(approval) => Ok(vec![Fact::Approved(approval.clone())]),
        Input::Wish { .. } if teardown.order.is_witnessed() => Err(Rejection::Witnessed),
        Input::Wish { wish, by, why } => {
            let said = Said { by: by.clone(), why: why.clone(), at: now };
            wished(teardown, wish, said)
        }
        Input::Abort { reason } => {
            Ok(vec![Fact::Finished { end: End::Error, message: reason.clone(), at: now }])
        }
    }
}

fn find<'a>(teardown: &'a Teardown, name: &str, uid: &str) -> Option<&'a Member> {
    teardown.members.get(name).filter(|member| member.uid == uid)
}

fn answered(
    teardown: &Teardown,
    name: &str,
    uid: &str,
    found: &Result<Found, CallError>,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let member = find(teardown, name, uid)?;
    let (calls, member_name, at) = (&member.calls, name.to_owned(), now);
    let fact = match (&member.progress, found) {
        (Progress::Condemned | Progress::Confirming { .. }, Ok(Found::Gone)) => {
            Fact::Gone { member: member_name, at }
        }
        (Progress::Condemned, Ok(Found::There)) => Fact::Going { member: member_name, at },
        (Progress::Confirming { .. }, Ok(Found::There)) => Fact::StillThere { member: member_name, at },
        (Progress::Condemned | Progress::Confirming { .. }, Err(error)) => {
            let retry_at = calls.again(error, now)?;
            Fact::CallFailed { member: member_name, message: error.message.clone(), retry_at }
        }
        _ => return None,
    };
    Some(vec![fact])
}

/// A sight may be old, or of a cache that has not seen the object yet: what it says to be gone is looked for.
fn sighted(teardown: &Teardown, name: &str, uid: &str, sight: &Sight, now: Timestamp) -> Option<Vec<Fact>> {
    let member = find(teardown, name, uid).filter(|member| teardown.is_watched(member))?;
    let member_name = name.to_owned();
    if teardown.order.is_witnessed() {
        return Some(witnessed(member, member_name, sight, now));
    }
    match (sight, &member.progress) {
        (Sight::Gone, _) => Some(vec![Fact::SeenGone { member: member_name, at: now }]),
        (Sight::There { kept_by }, Progress::Going) if *kept_by != member.kept_by => {
            Some(vec![Fact::KeptBy { member: member_name, kept_by: kept_by.clone(), at: Some(now) }])
        }
        (Sight::There { .. } | Sight::Released, _) => Some(Vec::new()),
    }
}

/// The same where others delete it, or let it go. Nothing rests on what is recorded then, so it is looked for no more.
fn witnessed(member: &Member, name: String, sight: &Sight, at: Timestamp) -> Vec<Fact> {
    let kept_by = match sight {
        Sight::Gone => return vec![Fact::Gone { member: name, at }],
        Sight::Released => return vec![Fact::Released { member: name, at }],
        Sight::There { kept_by } => kept_by.clone(),
    };
    let going = (member.progress == Progress::Waiting).then(|| Fact::Going { member: name.clone(), at });
    let is_news = kept_by != member.kept_by;
    let kept = is_news.then_some(Fact::KeptBy { member: name, kept_by, at: Some(at) });
    going.into_iter().chain(kept).collect()
}

fn joined(teardown: &Teardown, member: &MemberSpec, now: Timestamp) -> Option<Vec<Fact>> {
    let known = teardown.members.get(&member.name);
    let is_new = known.is_none_or(|known| known.progress == Progress::Gone && known.uid != member.uid);
    is_new.then(|| vec![Fact::Joined { member: Box::new(listed(&teardown.order, member)), at: now }])
}

fn wished(teardown: &Teardown, wish: &Wish, said: Said) -> Result<Vec<Fact>, Rejection> {
    match wish {
        Wish::Skip(scope) => skipped(teardown, scope, &said),
        Wish::Pause => match &teardown.paused {
            Some(paused) => Err(Rejection::AlreadyPaused { by: paused.by.clone() }),
            None => Ok(vec![Fact::Paused(said)]),
        },
        Wish::Resume if teardown.paused.is_none() => Err(Rejection::NotPaused),
        Wish::Resume => Ok(vec![Fact::Resumed(said)]),
        Wish::Terminate => Ok(vec![Fact::TerminateRequested(said)]),
    }
}

fn skipped(teardown: &Teardown, scope: &Scope, said: &Said) -> Result<Vec<Fact>, Rejection> {
    let members = members(teardown, scope).map_err(Rejection::NothingToSkip)?;
    let open = members.iter().filter(|(_, member)| !member.progress.is_settled());
    let facts: Vec<Fact> =
        open.map(|(name, _)| Fact::Left { member: (*name).clone(), said: said.clone() }).collect();
    if facts.is_empty() {
        return Err(Rejection::NothingToSkip(unfit(teardown, &members)));
    }
    Ok(facts)
}

/// Those a wish is about, by name; with what is wrong with it, and which there are, where there are none.
fn members<'a>(teardown: &'a Teardown, scope: &Scope) -> Result<Vec<(&'a String, &'a Member)>, String> {
    match scope {
        Scope::Step(number) => {
            let step = teardown.order.numbered(*number);
            let why = || {
                let steps = teardown.order.step_count().saturating_sub(1);
                let of = by_step(teardown, |_| true);
                format!("there is no step {number}: the order has {steps}; {of}")
            };
            Ok(teardown.members_of(step.ok_or_else(why)?).collect())
        }
        Scope::Member(name) => {
            let why = || {
                let of = by_step(teardown, |_| true);
                format!("Application {name} of ApplicationSet {} is not to be deleted; {of}", teardown.set)
            };
            Ok(vec![teardown.members.get_key_value(name).ok_or_else(why)?])
        }
    }
}

/// Those of which something is true, in the order of deletion: `step 2: db-a, db-b; in no step: x`.
fn by_step(teardown: &Teardown, is_it: impl Fn(&Member) -> bool) -> String {
    let of_step = |step: u32| {
        let members = teardown.members_of(step).filter(|(_, member)| is_it(member));
        let place = teardown.order.number(step).map(|number| format!("step {number}"));
        let place = place.unwrap_or_else(|| "in no step".to_owned());
        (place, members.map(|(name, _)| name.as_str()).collect())
    };
    by_place((0..teardown.order.step_count()).map(of_step))
}

/// Why nothing is skipped of those that were named, and what can be.
fn unfit(teardown: &Teardown, members: &[(&String, &Member)]) -> String {
    let why = match members {
        [(name, Member { progress: Progress::Left(said), .. })] => {
            format!("Application {name} is skipped already, by {} at {}", said.words(), said.at)
        }
        [(name, _)] => format!("Application {name} is gone already"),
        [] => "that step has no Application".to_owned(),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            format!("nothing is awaited there any more: {}", enumerate(&names))
        }
    };
    or_others(&why, "skipped", &by_step(teardown, |member| !member.progress.is_settled()))
}
