//! User requests that affect a running rollout.

use tidegate_model::Timestamp;

use super::rejection::Rejection;
use crate::fleet::{Attribution, Scope, append_alternatives};
use crate::rollout::event::Event;
use crate::rollout::input::UserRequest;
use crate::rollout::messages;
use crate::rollout::rules::{list_retryable, list_skippable};
use crate::rollout::state::{Member, Progress, Rollout, Stage, StopOutcome};

const SKIPPED: &str = "skipped";

pub(super) fn decide_user_request(
    rollout: &Rollout,
    request: &UserRequest,
    by: &str,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<Event>, Rejection> {
    let is_ending = match rollout.stage {
        Stage::Ending { stops, .. } => stops || *request != UserRequest::Terminate,
        _ => false,
    };
    if is_ending || rollout.terminated.is_some() {
        return Err(Rejection::AlreadyEnding { state: rollout.stage.name() });
    }
    let attribution = Attribution { by: by.to_owned(), why: reason.to_owned(), at: now };
    match request {
        UserRequest::Approve { step } => approve_step(rollout, *step, attribution),
        UserRequest::Skip(scope) => skip_members(rollout, scope, &attribution),
        UserRequest::Retry(scope) => retry_members(rollout, scope, &attribution),
        UserRequest::Pause => match &rollout.paused {
            Some(paused) => Err(Rejection::AlreadyPaused { by: paused.by.clone() }),
            None => Ok(vec![Event::Paused(attribution)]),
        },
        UserRequest::Resume if rollout.paused.is_none() => Err(Rejection::NotPaused),
        UserRequest::Resume => Ok(vec![Event::Resumed(attribution)]),
        UserRequest::Terminate => Ok(vec![Event::TerminateRequested(attribution)]),
    }
}

/// Approves a step, by default the step that is waiting for approval.
fn approve_step(
    rollout: &Rollout,
    number: Option<u32>,
    attribution: Attribution,
) -> Result<Vec<Event>, Rejection> {
    let current = rollout.current_step();
    let step = match (number, &rollout.stage) {
        (Some(number), _) => number.checked_sub(1),
        (None, Stage::Held { step }) => Some(*step),
        (None, _) => None,
    };
    let step = step.filter(|step| rollout.needs_approval(*step) && current.is_none_or(|now| *step >= now));
    match step {
        Some(step) => Ok(vec![Event::Approved { step, said: attribution }]),
        None => Err(Rejection::NothingToApprove(nothing_to_approve_message(rollout, number))),
    }
}

fn nothing_to_approve_message(rollout: &Rollout, number: Option<u32>) -> String {
    let current = rollout.current_step().unwrap_or_default();
    let lacking: Vec<String> = (current..)
        .take(rollout.steps.len())
        .filter(|step| rollout.needs_approval(*step))
        .map(|step| step.saturating_add(1).to_string())
        .collect();
    let named = match number {
        Some(number) => format!("step {number} is not waiting for approval"),
        None => "no step is waiting for approval".to_owned(),
    };
    match lacking.as_slice() {
        [] => format!("{named}, and no other step needs approval"),
        steps => {
            format!(
                "{named}; approve one of these with `tidegate appset approve --step`: {}",
                steps.join(", ")
            )
        }
    }
}

/// Returns the Applications in the scope of a request, by name, or an error message if the scope is invalid.
fn members_in_scope<'a>(
    rollout: &'a Rollout,
    scope: &Scope,
) -> Result<Vec<(&'a String, &'a Member)>, String> {
    match scope {
        Scope::Step(number) => {
            let step = number.checked_sub(1).filter(|step| rollout.step(*step).is_some());
            let step = step.ok_or_else(|| {
                format!("step {number} does not exist; the rollout has {}", format_steps(rollout))
            })?;
            Ok(rollout.members_in_step(step).collect())
        }
        Scope::Member(name) => {
            let found = rollout.members.get_key_value(name);
            let (name, member) = found.ok_or_else(|| {
                let (set, there) = (&rollout.set, rollout.list_by_step(|_| true));
                let there = if there.is_empty() { "none".to_owned() } else { there };
                format!("ApplicationSet {set} has no Application {name}; its Applications by step: {there}")
            })?;
            if member.place.step.is_none() {
                return Err(format!("no step selects Application {name}; sync it individually"));
            }
            Ok(vec![(name, member)])
        }
    }
}

/// Formats the steps, such as `3: 1 (env in (dev)), 2 (env in (qa)), 3 (env in (prod))`.
fn format_steps(rollout: &Rollout) -> String {
    let steps = (1_u32..).zip(&rollout.steps);
    let named: Vec<String> =
        steps.map(|(number, step)| format!("{number} ({})", step.step.describe_selector())).collect();
    match named.len() {
        0 => "no steps".to_owned(),
        1 => format!("1 step: {}", named.join(", ")),
        count => format!("{count} steps: {}", named.join(", ")),
    }
}

fn skip_members(
    rollout: &Rollout,
    scope: &Scope,
    attribution: &Attribution,
) -> Result<Vec<Event>, Rejection> {
    let members = members_in_scope(rollout, scope).map_err(Rejection::NothingToSkip)?;
    let events: Vec<Event> =
        members.iter().filter_map(|(name, member)| skip_member(name, member, attribution)).collect();
    if events.is_empty() {
        return Err(Rejection::NothingToSkip(rejection_message(&members, SKIPPED, &list_skippable(rollout))));
    }
    Ok(events)
}

/// Skips an Application. Stops its running operation first, so that a skipped Application no longer changes.
fn skip_member(name: &str, member: &Member, attribution: &Attribution) -> Option<Event> {
    let (name, attribution) = (name.to_owned(), attribution.clone());
    member.can_be_skipped().then(|| match member.progress.is_active() {
        true => {
            Event::StopRequested { member: name, at: attribution.at, then: StopOutcome::Skip(attribution) }
        }
        false => Event::Skipped { member: name, said: attribution },
    })
}

fn retry_members(
    rollout: &Rollout,
    scope: &Scope,
    attribution: &Attribution,
) -> Result<Vec<Event>, Rejection> {
    let members = members_in_scope(rollout, scope).map_err(Rejection::NothingToRetry)?;
    let is_whole_step = matches!(scope, Scope::Step(_));
    let events: Vec<Event> = members
        .iter()
        .filter(|(_, member)| rollout.can_be_retried(member, is_whole_step))
        .map(|(name, _)| Event::Retried { member: (*name).clone(), said: attribution.clone() })
        .collect();
    if events.is_empty() {
        return Err(Rejection::NothingToRetry(rejection_message(
            &members,
            "retried",
            &list_retryable(rollout),
        )));
    }
    Ok(events)
}

/// Returns the reason why a request doesn't apply to any of these Applications. `others` lists the
/// Applications that the request could apply to.
fn rejection_message(members: &[(&String, &Member)], what: &str, others: &str) -> String {
    let reason = match members {
        [(name, member)] => describe_ineligible_member(name, member, what),
        _ => format!("no Application in that step can be {what} now"),
    };
    append_alternatives(&reason, what, others)
}

fn describe_ineligible_member(name: &str, member: &Member, what: &str) -> String {
    match &member.progress {
        Progress::Skipped(attribution) if what == SKIPPED => {
            format!(
                "Application {name} was already skipped by {} at {}",
                attribution.display(),
                attribution.at
            )
        }
        Progress::Skipped(attribution) => {
            format!(
                "Application {name} was skipped by {} at {}, and its step has ended",
                attribution.display(),
                attribution.at
            )
        }
        Progress::Stopping { then: StopOutcome::Skip(attribution), .. } => format!(
            "Application {name} was already skipped by {} at {}; its operation is still being stopped",
            attribution.display(),
            attribution.at
        ),
        Progress::Gone => format!("Application {name} has left the ApplicationSet"),
        _ => {
            let (status, message) = (member.status(), messages::member_message(member));
            format!("Application {name} is {status:?} and cannot be {what} now: {message}")
        }
    }
}
