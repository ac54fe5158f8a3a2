//! Decides which events follow from an input. The functions are pure: the same input, state and time always
//! yield the same events.

mod rejection;

use tidegate_model::Timestamp;

use super::event::{Event, MemberRecord};
use super::input::{Input, MemberObservation, ObjectPresence, UserRequest};
use super::order::Order;
use super::request::{MemberSpec, Request};
use super::state::{End, Member, Progress, State, Teardown};
use crate::fleet::{
    Attribution, Scope, append_alternatives, collect_unique_names, join_names, join_names_by_place,
};
use crate::operation::CallError;

pub use rejection::Rejection;

/// Returns the events that an input causes.
pub fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    match (state, input) {
        (State::New, Input::Begin(request)) => start_teardown(request, now),
        (State::New, _) => Err(Rejection::NotStarted),
        (_, Input::Begin(_)) => Err(Rejection::AlreadyStarted { state: state.name() }),
        (State::Finished(teardown), Input::UserRequest { .. }) => {
            let message = teardown.outcome.as_ref().map(|outcome| outcome.message.clone());
            Err(Rejection::AlreadyFinished { message: message.unwrap_or_default() })
        }
        (State::Finished(_), _) => Err(Rejection::Stale { state: state.name() }),
        (State::Running(teardown), input) => decide_running(teardown, input, now),
    }
}

/// Starts a teardown, and assigns each Application to a step. The recorded assignment never changes.
fn start_teardown(request: &Request, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    let names = collect_unique_names(&request.set, request.members.iter().map(|member| &member.name))?;
    let started = Event::Created {
        set: request.set.clone(),
        uid: request.uid.clone(),
        by: request.by.clone(),
        order: request.order.clone(),
        members: request.members.iter().map(|member| member_record(&request.order, member)).collect(),
        options: request.options,
        at: now,
    };
    let approved = request.approved.clone().map(Event::Approved);
    // In a witnessed deletion, other clients delete even the Applications that a user wanted to keep.
    let kept =
        request.kept_members.iter().filter(|(name, _)| names.contains(name) && !request.order.is_witnessed());
    let left =
        kept.map(|(name, attribution)| Event::Skipped { member: name.clone(), said: attribution.clone() });
    Ok(std::iter::once(started).chain(approved).chain(left).collect())
}

fn member_record(order: &Order, member: &MemberSpec) -> MemberRecord {
    MemberRecord {
        name: member.name.clone(),
        uid: member.uid.clone(),
        place: order.assign_step(&member.labels),
    }
}

fn decide_running(teardown: &Teardown, input: &Input, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    let stale = || Rejection::Stale { state: teardown.stage_name() };
    match input {
        Input::Begin(_) => Err(stale()),
        Input::Answered { member, uid, presence } => {
            handle_answer(teardown, member, uid, presence, now).ok_or_else(stale)
        }
        Input::Observed { member, uid, observation } => {
            handle_observation(teardown, member, uid, observation, now).ok_or_else(stale)
        }
        Input::Joined { member } => handle_added_member(teardown, member, now).ok_or_else(stale),
        Input::Approved(approval) if teardown.is_approved(&approval.token) => Ok(Vec::new()),
        Input::Approved(approval) => Ok(vec![Event::Approved(approval.clone())]),
        Input::UserRequest { .. } if teardown.order.is_witnessed() => Err(Rejection::Witnessed),
        Input::UserRequest { request, by, reason } => {
            let attribution = Attribution { by: by.clone(), why: reason.clone(), at: now };
            decide_user_request(teardown, request, attribution)
        }
        Input::Abort { reason } => {
            Ok(vec![Event::Finished { end: End::Error, message: reason.clone(), at: now }])
        }
    }
}

fn find_member<'a>(teardown: &'a Teardown, name: &str, uid: &str) -> Option<&'a Member> {
    teardown.members.get(name).filter(|member| member.uid == uid)
}

fn handle_answer(
    teardown: &Teardown,
    name: &str,
    uid: &str,
    presence: &Result<ObjectPresence, CallError>,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let member = find_member(teardown, name, uid)?;
    let (calls, member_name, at) = (&member.calls, name.to_owned(), now);
    let event = match (&member.progress, presence) {
        (Progress::Condemned | Progress::Confirming { .. }, Ok(ObjectPresence::Gone)) => {
            Event::Deleted { member: member_name, at }
        }
        (Progress::Condemned, Ok(ObjectPresence::Exists)) => {
            Event::DeletionStarted { member: member_name, at }
        }
        (Progress::Confirming { .. }, Ok(ObjectPresence::Exists)) => {
            Event::PresenceConfirmed { member: member_name, at }
        }
        (Progress::Condemned | Progress::Confirming { .. }, Err(error)) => {
            let retry_at = calls.next_retry(error, now)?;
            Event::CallFailed { member: member_name, message: error.message.clone(), retry_at }
        }
        _ => return None,
    };
    Some(vec![event])
}

/// Handles an observation. If an Application seems to be gone, it is read again: the observation may be
/// stale, or come from a cache that doesn't have the object yet.
fn handle_observation(
    teardown: &Teardown,
    name: &str,
    uid: &str,
    observation: &MemberObservation,
    now: Timestamp,
) -> Option<Vec<Event>> {
    let member = find_member(teardown, name, uid).filter(|member| teardown.is_watched(member))?;
    let member_name = name.to_owned();
    if teardown.order.is_witnessed() {
        return Some(handle_witnessed_observation(member, member_name, observation, now));
    }
    match (observation, &member.progress) {
        (MemberObservation::Gone, _) => Some(vec![Event::AbsenceObserved { member: member_name, at: now }]),
        (MemberObservation::Exists { kept_by }, Progress::Going) if *kept_by != member.kept_by => {
            Some(vec![Event::DeletionBlocked { member: member_name, kept_by: kept_by.clone(), at: now }])
        }
        (MemberObservation::Exists { .. } | MemberObservation::Released, _) => Some(Vec::new()),
    }
}

/// Handles an observation of an Application that other clients delete or release. No later step follows, so
/// the Application isn't read again.
fn handle_witnessed_observation(
    member: &Member,
    name: String,
    observation: &MemberObservation,
    at: Timestamp,
) -> Vec<Event> {
    let kept_by = match observation {
        MemberObservation::Gone => return vec![Event::Deleted { member: name, at }],
        MemberObservation::Released => return vec![Event::Released { member: name, at }],
        MemberObservation::Exists { kept_by } => kept_by.clone(),
    };
    let going =
        (member.progress == Progress::Waiting).then(|| Event::DeletionStarted { member: name.clone(), at });
    let is_news = kept_by != member.kept_by;
    let kept = is_news.then_some(Event::DeletionBlocked { member: name, kept_by, at });
    going.into_iter().chain(kept).collect()
}

fn handle_added_member(teardown: &Teardown, member: &MemberSpec, now: Timestamp) -> Option<Vec<Event>> {
    let known = teardown.members.get(&member.name);
    let is_new = known.is_none_or(|known| known.progress == Progress::Gone && known.uid != member.uid);
    is_new.then(|| vec![Event::Joined { member: Box::new(member_record(&teardown.order, member)), at: now }])
}

fn decide_user_request(
    teardown: &Teardown,
    request: &UserRequest,
    attribution: Attribution,
) -> Result<Vec<Event>, Rejection> {
    match request {
        UserRequest::Skip(scope) => skip_members(teardown, scope, &attribution),
        UserRequest::Pause => match &teardown.paused {
            Some(paused) => Err(Rejection::AlreadyPaused { by: paused.by.clone() }),
            None => Ok(vec![Event::Paused(attribution)]),
        },
        UserRequest::Resume if teardown.paused.is_none() => Err(Rejection::NotPaused),
        UserRequest::Resume => Ok(vec![Event::Resumed(attribution)]),
        UserRequest::Terminate => Ok(vec![Event::TerminateRequested(attribution)]),
    }
}

fn skip_members(
    teardown: &Teardown,
    scope: &Scope,
    attribution: &Attribution,
) -> Result<Vec<Event>, Rejection> {
    let members = members_in_scope(teardown, scope).map_err(Rejection::NothingToSkip)?;
    let open = members.iter().filter(|(_, member)| !member.progress.is_settled());
    let events: Vec<Event> =
        open.map(|(name, _)| Event::Skipped { member: (*name).clone(), said: attribution.clone() }).collect();
    if events.is_empty() {
        return Err(Rejection::NothingToSkip(ineligible_members_message(teardown, &members)));
    }
    Ok(events)
}

/// Returns the Applications in the scope of a request, by name. For an invalid scope, the error message lists
/// the existing Applications.
fn members_in_scope<'a>(
    teardown: &'a Teardown,
    scope: &Scope,
) -> Result<Vec<(&'a String, &'a Member)>, String> {
    match scope {
        Scope::Step(number) => {
            let step = teardown.order.step_with_number(*number);
            let reason = || {
                let steps = teardown.order.step_count().saturating_sub(1);
                let members = list_by_step(teardown, |_| true);
                format!(
                    "step {number} does not exist (number of steps in the deletion order: {steps}); {members}"
                )
            };
            Ok(teardown.members_in_step(step.ok_or_else(reason)?).collect())
        }
        Scope::Member(name) => {
            let reason = || {
                let members = list_by_step(teardown, |_| true);
                format!(
                    "Application {name} of ApplicationSet {} is not being deleted; {members}",
                    teardown.set
                )
            };
            Ok(vec![teardown.members.get_key_value(name).ok_or_else(reason)?])
        }
    }
}

/// Lists the Applications that match a predicate, in the order of deletion, such as `step 2: db-a, db-b; not
/// in any step: x`.
fn list_by_step(teardown: &Teardown, is_it: impl Fn(&Member) -> bool) -> String {
    let of_step = |step: u32| {
        let members = teardown.members_in_step(step).filter(|(_, member)| is_it(member));
        let place = teardown.order.step_number(step).map(|number| format!("step {number}"));
        let place = place.unwrap_or_else(|| "not in any step".to_owned());
        (place, members.map(|(name, _)| name.as_str()).collect())
    };
    join_names_by_place((0..teardown.order.step_count()).map(of_step))
}

/// Returns the reason why none of these Applications can be skipped, with a list of those that can.
fn ineligible_members_message(teardown: &Teardown, members: &[(&String, &Member)]) -> String {
    let reason = match members {
        [(name, Member { progress: Progress::Left(attribution), .. })] => {
            format!(
                "Application {name} was already skipped by {} at {}",
                attribution.display(),
                attribution.at
            )
        }
        [(name, _)] => format!("Application {name} is already gone"),
        [] => "that step has no Applications".to_owned(),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            format!("all Applications in that step are already gone or skipped: {}", join_names(&names))
        }
    };
    append_alternatives(&reason, "skipped", &list_by_step(teardown, |member| !member.progress.is_settled()))
}
