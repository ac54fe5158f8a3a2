//! What people may ask of a rollout that is not over.

use tidegate_model::Timestamp;

use super::rejection::Rejection;
use crate::fleet::{Said, Scope, or_others};
use crate::rollout::fact::Fact;
use crate::rollout::input::Wish;
use crate::rollout::messages;
use crate::rollout::rules::{may_be_retried, may_be_skipped};
use crate::rollout::state::{Member, Progress, Rollout, Stage, Then};

const SKIPPED: &str = "skipped";

pub(super) fn decide(
    rollout: &Rollout,
    wish: &Wish,
    by: &str,
    why: &str,
    now: Timestamp,
) -> Result<Vec<Fact>, Rejection> {
    let is_ending = match rollout.stage {
        Stage::Ending { stops, .. } => stops || *wish != Wish::Terminate,
        _ => false,
    };
    if is_ending || rollout.terminated.is_some() {
        return Err(Rejection::AlreadyEnding { state: rollout.stage.name() });
    }
    let said = Said { by: by.to_owned(), why: why.to_owned(), at: now };
    match wish {
        Wish::Approve { step } => approve(rollout, *step, said),
        Wish::Skip(scope) => skip(rollout, scope, &said),
        Wish::Retry(scope) => retry(rollout, scope, &said),
        Wish::Pause => match &rollout.paused {
            Some(paused) => Err(Rejection::AlreadyPaused { by: paused.by.clone() }),
            None => Ok(vec![Fact::Paused(said)]),
        },
        Wish::Resume if rollout.paused.is_none() => Err(Rejection::NotPaused),
        Wish::Resume => Ok(vec![Fact::Resumed(said)]),
        Wish::Terminate => Ok(vec![Fact::TerminateRequested(said)]),
    }
}

/// Approves a step: the one that is named, or the one that waits for it.
fn approve(rollout: &Rollout, number: Option<u32>, said: Said) -> Result<Vec<Fact>, Rejection> {
    let current = rollout.current_step();
    let step = match (number, &rollout.stage) {
        (Some(number), _) => number.checked_sub(1),
        (None, Stage::Held { step }) => Some(*step),
        (None, _) => None,
    };
    let step = step.filter(|step| rollout.lacks_approval(*step) && current.is_none_or(|now| *step >= now));
    match step {
        Some(step) => Ok(vec![Fact::Approved { step, said }]),
        None => Err(Rejection::NothingToApprove(not_approved(rollout, number))),
    }
}

fn not_approved(rollout: &Rollout, number: Option<u32>) -> String {
    let current = rollout.current_step().unwrap_or_default();
    let lacking: Vec<String> = (current..)
        .take(rollout.steps.len())
        .filter(|step| rollout.lacks_approval(*step))
        .map(|step| step.saturating_add(1).to_string())
        .collect();
    let named = match number {
        Some(number) => format!("step {number} waits for no approval"),
        None => "no step waits for approval now".to_owned(),
    };
    match lacking.as_slice() {
        [] => format!("{named}, and no other will"),
        steps => format!("{named}; name one that will with --step: {}", steps.join(", ")),
    }
}

/// Those a wish is about, by name; with what is wrong with it where there are none.
fn members<'a>(rollout: &'a Rollout, scope: &Scope) -> Result<Vec<(&'a String, &'a Member)>, String> {
    match scope {
        Scope::Step(number) => {
            let step = number.checked_sub(1).filter(|step| rollout.step(*step).is_some());
            let step =
                step.ok_or_else(|| format!("there is no step {number}; the rollout has {}", steps(rollout)))?;
            Ok(rollout.members_of(step).collect())
        }
        Scope::Member(name) => {
            let found = rollout.members.get_key_value(name);
            let (name, member) = found.ok_or_else(|| {
                let (set, there) = (&rollout.set, rollout.by_step(|_| true));
                let there = if there.is_empty() { "none".to_owned() } else { there };
                format!("ApplicationSet {set} has no Application {name}; in its steps are {there}")
            })?;
            if member.place.step.is_none() {
                return Err(format!("no step selects Application {name}; sync it by itself"));
            }
            Ok(vec![(name, member)])
        }
    }
}

/// `3: 1 (env in (dev)), 2 (env in (qa)), 3 (env in (prod))`.
fn steps(rollout: &Rollout) -> String {
    let steps = (1_u32..).zip(&rollout.steps);
    let named: Vec<String> =
        steps.map(|(number, step)| format!("{number} ({})", step.step.words())).collect();
    match named.len() {
        0 => "none".to_owned(),
        count => format!("{count}: {}", named.join(", ")),
    }
}

fn skip(rollout: &Rollout, scope: &Scope, said: &Said) -> Result<Vec<Fact>, Rejection> {
    let members = members(rollout, scope).map_err(Rejection::NothingToSkip)?;
    let facts: Vec<Fact> = members.iter().filter_map(|(name, member)| skipped(name, member, said)).collect();
    if facts.is_empty() {
        return Err(Rejection::NothingToSkip(refused(&members, SKIPPED, &may_be_skipped(rollout))));
    }
    Ok(facts)
}

/// What is at work is stopped first: a member that was skipped changes no more.
fn skipped(name: &str, member: &Member, said: &Said) -> Option<Fact> {
    let (name, said) = (name.to_owned(), said.clone());
    member.may_be_skipped().then(|| match member.progress.is_at_work() {
        true => Fact::StopBegun { member: name, at: said.at, then: Then::Skip(said) },
        false => Fact::Skipped { member: name, said },
    })
}

fn retry(rollout: &Rollout, scope: &Scope, said: &Said) -> Result<Vec<Fact>, Rejection> {
    let members = members(rollout, scope).map_err(Rejection::NothingToRetry)?;
    let is_whole_step = matches!(scope, Scope::Step(_));
    let facts: Vec<Fact> = members
        .iter()
        .filter(|(_, member)| rollout.is_retried(member, is_whole_step))
        .map(|(name, _)| Fact::Retried { member: (*name).clone(), said: said.clone() })
        .collect();
    if facts.is_empty() {
        return Err(Rejection::NothingToRetry(refused(&members, "retried", &may_be_retried(rollout))));
    }
    Ok(facts)
}

/// Why nothing can be done to those that were named, and to which others it can be.
fn refused(members: &[(&String, &Member)], what: &str, others: &str) -> String {
    let why = match members {
        [(name, member)] => unfit(name, member, what),
        _ => format!("no Application of that step can be {what} now"),
    };
    or_others(&why, what, others)
}

fn unfit(name: &str, member: &Member, what: &str) -> String {
    match &member.progress {
        Progress::Skipped(said) if what == SKIPPED => {
            format!("Application {name} is skipped already, by {} at {}", said.words(), said.at)
        }
        Progress::Skipped(said) => {
            format!("Application {name} was skipped by {} at {}, and its step is over", said.words(), said.at)
        }
        Progress::Stopping { then: Then::Skip(said), .. } => format!(
            "Application {name} is being skipped already, by {} at {}: its operation is stopped first",
            said.words(),
            said.at
        ),
        Progress::Gone => format!("Application {name} has left the ApplicationSet"),
        _ => {
            let (status, message) = (member.status(), messages::of_member(member));
            format!("Application {name} is {status:?} and cannot be {what} now: {message}")
        }
    }
}
