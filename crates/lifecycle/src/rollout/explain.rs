//! Why a rollout is where it is: what it waits for, since when, how long it may, and what comes next.

use tidegate_model::Timestamp;

use super::messages::held_by;
use super::request::OnNewTargets;
use super::state::{Member, Progress, Rollout, Stage, State, StepState};
use super::view::overdue;
use crate::fleet::{Explanation, count, longest_first, step_name, step_of, words};
use crate::operation::{APPROVAL, Awaited, NOT_ANSWERED, NOT_SEEN, Verdict};

/// Explains a rollout as it stands at `now`.
pub fn explain(state: &State, now: Timestamp) -> Explanation {
    let (rollout, is_over) = match state {
        State::New => return Explanation::blank("not started", now),
        State::Running(rollout) => (rollout, false),
        State::Finished(rollout) => (rollout, true),
    };
    let mut explanation = if is_over { finished(rollout, now) } else { running(rollout, now) };
    let outside = rollout
        .members
        .iter()
        .filter(|(_, member)| member.place.step.is_none() && member.progress != Progress::Gone);
    explanation.outside = outside.map(|(name, _)| name.clone()).collect();
    explanation
}

fn finished(rollout: &Rollout, now: Timestamp) -> Explanation {
    let Some(outcome) = &rollout.outcome else { return Explanation::blank("over", now) };
    Explanation::over(outcome.end, &outcome.message, (rollout.started_at, outcome.at), now)
}

fn running(rollout: &Rollout, now: Timestamp) -> Explanation {
    let mut explanation = match &rollout.stage {
        Stage::Begun => Explanation::blank("beginning", now),
        Stage::Held { step } => held(rollout, *step, now),
        Stage::Rolling { step } => rolling(rollout, *step, now),
        Stage::RollingBack { step } => {
            let name = position(rollout, *step);
            let mut explanation = Explanation::blank(format!("rolling back {name}"), now);
            explanation.awaited = awaited(rollout, Some(*step), now);
            explanation
        }
        Stage::Ending { end, message, .. } => {
            let mut explanation = Explanation::blank(format!("ending ({end:?})"), now);
            explanation.progress.clone_from(message);
            explanation.awaited = awaited(rollout, None, now);
            explanation
        }
    };
    explanation.warnings.extend(warnings(rollout));
    explanation.hold(rollout.paused.as_ref());
    explanation
}

/// `step 2 of 3 (env in (qa))`.
fn position(rollout: &Rollout, step: u32) -> String {
    let selects = rollout.step(step).map(|step| step.step.words()).unwrap_or_default();
    format!("{} ({selects})", step_name(step, rollout.steps.len()))
}

fn held(rollout: &Rollout, step: u32, now: Timestamp) -> Explanation {
    let mut explanation = Explanation::blank(format!("before {}", position(rollout, step)), now);
    let since = rollout.since;
    let gate = |name: &str, why: String, since| Awaited { what: format!("gate {name}"), why, since };
    if rollout.lacks_approval(step) {
        let number = step.saturating_add(1);
        let why = format!("step {number} waits for a person: `tidegate appset approve {}`", rollout.set);
        explanation.awaited.push(gate(APPROVAL, why, since));
    }
    for name in rollout.asked_gates(step) {
        match rollout.gates.iter().find(|answer| answer.gate == *name) {
            None => explanation.awaited.push(gate(name, NOT_ANSWERED.to_owned(), since)),
            Some(answer) => {
                if let Verdict::Closed { reason, .. } = &answer.verdict {
                    explanation.awaited.push(gate(name, reason.clone(), answer.at));
                }
            }
        }
    }
    if let Some((soaking, until)) = rollout.soak(step).filter(|(_, until)| now < *until) {
        let before = step_name(soaking, rollout.steps.len());
        let why = format!("{before} is watched for {} more", words(until.since(now)));
        explanation.awaited.push(Awaited { what: "soak".to_owned(), why, since });
    }
    explanation.awaited.sort_by_key(|awaited| awaited.since);
    let members = count(rollout.members_of(step));
    explanation.next = Some(step_of(step, rollout.steps.len(), members));
    explanation
}

fn rolling(rollout: &Rollout, step: u32, now: Timestamp) -> Explanation {
    let mut explanation = Explanation::blank(position(rollout, step), now);
    let skipped = |member: &Member| matches!(member.progress, Progress::Skipped(_));
    let settled = || rollout.members_of(step).filter(|(_, member)| rollout.is_settled(member));
    let (done, all) =
        (count(settled().filter(|(_, member)| !skipped(member))), count(rollout.members_of(step)));
    let skipped = match count(settled().filter(|(_, member)| skipped(member))) {
        0 => String::new(),
        skipped => format!(", {skipped} skipped"),
    };
    explanation.progress = format!("{done} of {all} done{skipped}");
    explanation.awaited = awaited(rollout, Some(step), now);
    let too_late_at = rollout.step(step).and_then(StepState::too_late_at);
    explanation.deadline_in_seconds = too_late_at.map(|at| at.since(now).as_secs());
    let later = rollout.members.values().filter_map(|member| member.place.step).filter(|next| *next > step);
    explanation.next = Some(match later.min() {
        Some(next) => step_of(next, rollout.steps.len(), count(rollout.members_of(next))),
        None => "the end".to_owned(),
    });
    explanation
}

/// The members that something is awaited of, the longest wait first. Those whose turn has not come are not among them,
/// unless people bring them there one by one.
fn awaited(rollout: &Rollout, step: Option<u32>, now: Timestamp) -> Vec<Awaited> {
    let members = rollout.members.iter().filter(|(_, member)| match step {
        Some(step) => member.place.step == Some(step) && !rollout.is_settled(member),
        None => member.progress.is_at_work(),
    });
    let awaited = members.filter_map(|(name, member)| {
        let why = why(rollout, member, now)?;
        Some(Awaited { what: format!("Application {name}"), why, since: member.since })
    });
    longest_first(awaited.collect())
}

/// Why a member is not done; `None` for one that waits for others.
fn why(rollout: &Rollout, member: &Member, now: Timestamp) -> Option<String> {
    let trouble = member.calls.trouble();
    let or_trouble = |words: String| if trouble.is_empty() { words } else { format!("{words}: {trouble}") };
    match &member.progress {
        Progress::Waiting if rollout.is_watched(member, now) => {
            Some("maxUpdate is 0: sync it by hand, or skip it".to_owned())
        }
        Progress::Waiting if member.is_tried_again() => Some(tried_again(rollout).to_owned()),
        Progress::Promoted => Some(or_trouble("Pending: its sync gets an id".to_owned())),
        Progress::Named { window: Some(window), .. } => {
            Some(or_trouble(format!("Pending: its sync waits for {}", held_by(window))))
        }
        Progress::Named { .. } => Some(or_trouble("Pending: its sync has not begun".to_owned())),
        Progress::Running { operation } => Some(or_trouble(format!("operation {operation} is at work"))),
        Progress::Stopping { operation, .. } => {
            Some(or_trouble(format!("operation {operation} is being stopped")))
        }
        Progress::Settling { .. } => Some(not_healthy(member)),
        Progress::Failed { message, .. } => Some(format!("it failed: {message}; retry or skip it")),
        _ => None,
    }
}

/// When a member is tried again that waits for that.
fn tried_again(rollout: &Rollout) -> &'static str {
    match rollout.paused {
        Some(_) => "it is to be tried again, once the rollout goes on",
        None => "it is to be tried again, once it has its turn",
    }
}

/// Why a member is not taken for Healthy whose operation has succeeded.
fn not_healthy(member: &Member) -> String {
    let Some(sight) = &member.seen else { return NOT_SEEN.to_owned() };
    let of_others = sight.deployed.as_ref() != Some(&member.target);
    if of_others && sight.operation >= member.progress.operation() {
        return "another operation has deployed something else since".to_owned();
    }
    let message = if sight.message.is_empty() { String::new() } else { format!(": {}", sight.message) };
    match (sight.synced, sight.is_healthy()) {
        _ if sight.operation < member.progress.operation() => {
            "its status is from before its operation has ended".to_owned()
        }
        (false, _) => format!("OutOfSync{message}"),
        (true, _) => format!("{:?}{message}", sight.health),
    }
}

fn warnings(rollout: &Rollout) -> Vec<String> {
    let mut warnings: Vec<String> = overdue(rollout).into_iter().collect();
    if rollout.new_targets.is_some() {
        let then = match rollout.options.on_new_targets {
            OnNewTargets::Supersede => "this rollout ends when it may",
            OnNewTargets::Finish => "a rollout to them begins when this one is over",
        };
        warnings.push(format!("the ApplicationSet has other targets by now: {then}"));
    }
    let step = rollout.current_step();
    let failed = step.and_then(|step| rollout.step(step)?.failed.as_ref());
    if let Some(failed) = failed.filter(|_| rollout.paused.is_none()) {
        warnings.push(failed.message.clone());
    }
    warnings
}
