//! Explanation of a rollout's current position: awaited items with the length of each wait, deadlines, and
//! the next step.

use tidegate_model::Timestamp;

use super::messages::delay_message;
use super::next_action::next_action;
use super::request::OnNewTargets;
use super::state::{Member, Progress, Rollout, Stage, State, StepState};
use super::view::list_overdue;
use crate::fleet::{Explanation, count, describe_step, format_elapsed, sort_by_wait, step_name};
use crate::operation::{APPROVAL_GATE, AwaitedItem, GATE_NOT_ANSWERED, NOT_OBSERVED, Verdict};

/// Explains the state of a rollout at the time `now`.
pub fn explain(state: &State, now: Timestamp) -> Explanation {
    Explanation { action: next_action(state, now), ..explain_state(state, now) }
}

fn explain_state(state: &State, now: Timestamp) -> Explanation {
    let (rollout, is_over) = match state {
        State::New => return Explanation::new("not started", now),
        State::Running(rollout) => (rollout, false),
        State::Finished(rollout) => (rollout, true),
    };
    let mut explanation =
        if is_over { explain_finished(rollout, now) } else { explain_running(rollout, now) };
    let outside = rollout
        .members
        .iter()
        .filter(|(_, member)| member.place.step.is_none() && member.progress != Progress::Gone);
    explanation.outside = outside.map(|(name, _)| name.clone()).collect();
    explanation
}

fn explain_finished(rollout: &Rollout, now: Timestamp) -> Explanation {
    let Some(outcome) = &rollout.outcome else { return Explanation::new("over", now) };
    Explanation::finished(outcome.end, &outcome.message, rollout.started_at, outcome.at, now)
}

fn explain_running(rollout: &Rollout, now: Timestamp) -> Explanation {
    let mut explanation = match &rollout.stage {
        Stage::Begun => Explanation::new("starting", now),
        Stage::Held { step } => explain_held(rollout, *step, now),
        Stage::Rolling { step } => explain_rolling(rollout, *step, now),
        Stage::RollingBack { step } => {
            let name = describe_position(rollout, *step);
            let mut explanation = Explanation::new(format!("rolling back {name}"), now);
            explanation.awaited = awaited_members(rollout, Some(*step), now);
            explanation
        }
        Stage::Ending { end, message, .. } => {
            let mut explanation = Explanation::new(format!("ending ({end:?})"), now);
            explanation.progress.clone_from(message);
            explanation.awaited = awaited_members(rollout, None, now);
            explanation
        }
    };
    explanation.warnings.extend(warnings(rollout));
    explanation.set_paused(rollout.paused.as_ref());
    explanation
}

/// Formats a position, such as `step 2 of 3 (env in (qa))`.
fn describe_position(rollout: &Rollout, step: u32) -> String {
    let selects = rollout.step(step).map(|step| step.step.describe_selector()).unwrap_or_default();
    format!("{} ({selects})", step_name(step, rollout.steps.len()))
}

fn explain_held(rollout: &Rollout, step: u32, now: Timestamp) -> Explanation {
    let mut explanation = Explanation::new(format!("before {}", describe_position(rollout, step)), now);
    let since = rollout.since;
    let gate = |name: &str, why: String, since| AwaitedItem { what: format!("gate {name}"), why, since };
    if rollout.needs_approval(step) {
        let number = step.saturating_add(1);
        let why = format!("step {number} needs approval: `tidegate appset approve {}`", rollout.set);
        explanation.awaited.push(gate(APPROVAL_GATE, why, since));
    }
    for name in rollout.external_gates(step) {
        match rollout.gates.iter().find(|answer| answer.gate == *name) {
            None => explanation.awaited.push(gate(name, GATE_NOT_ANSWERED.to_owned(), since)),
            Some(answer) => {
                if let Verdict::Closed { reason, .. } = &answer.verdict {
                    explanation.awaited.push(gate(name, reason.clone(), answer.at));
                }
            }
        }
    }
    if let Some((soaking, until)) = rollout.soak_period(step).filter(|(_, until)| now < *until) {
        let before = step_name(soaking, rollout.steps.len());
        let why = format!("{before} soaks for another {}", format_elapsed(until.since(now)));
        explanation.awaited.push(AwaitedItem { what: "soak".to_owned(), why, since });
    }
    explanation.awaited.sort_by_key(|awaited| awaited.since);
    let members = count(rollout.members_in_step(step));
    explanation.next = Some(describe_step(step, rollout.steps.len(), members));
    explanation
}

fn explain_rolling(rollout: &Rollout, step: u32, now: Timestamp) -> Explanation {
    let mut explanation = Explanation::new(describe_position(rollout, step), now);
    let skipped = |member: &Member| matches!(member.progress, Progress::Skipped(_));
    let settled = || rollout.members_in_step(step).filter(|(_, member)| rollout.is_settled(member));
    let (done, all) =
        (count(settled().filter(|(_, member)| !skipped(member))), count(rollout.members_in_step(step)));
    let skipped = match count(settled().filter(|(_, member)| skipped(member))) {
        0 => String::new(),
        skipped => format!(", {skipped} skipped"),
    };
    explanation.progress = format!("{done} of {all} done{skipped}");
    explanation.awaited = awaited_members(rollout, Some(step), now);
    let too_late_at = rollout.step(step).and_then(StepState::deadline_at);
    explanation.deadline_in_seconds = too_late_at.map(|at| at.since(now).as_secs());
    let later = rollout.members.values().filter_map(|member| member.place.step).filter(|next| *next > step);
    explanation.next = Some(match later.min() {
        Some(next) => describe_step(next, rollout.steps.len(), count(rollout.members_in_step(next))),
        None => "the end".to_owned(),
    });
    explanation
}

/// Returns the Applications that the rollout is waiting for, longest wait first. Omits Applications that only
/// wait for other Applications, unless users sync the step's Applications themselves.
fn awaited_members(rollout: &Rollout, step: Option<u32>, now: Timestamp) -> Vec<AwaitedItem> {
    let members = rollout.members.iter().filter(|(_, member)| match step {
        Some(step) => member.place.step == Some(step) && !rollout.is_settled(member),
        None => member.progress.is_active(),
    });
    let awaited = members.filter_map(|(name, member)| {
        let why = describe_wait(rollout, member, now)?;
        Some(AwaitedItem { what: format!("Application {name}"), why, since: member.since })
    });
    sort_by_wait(awaited.collect())
}

/// Returns the reason why the rollout is waiting for an Application, or `None` if the Application is done or
/// waits for other Applications.
fn describe_wait(rollout: &Rollout, member: &Member, now: Timestamp) -> Option<String> {
    let trouble = member.calls.describe_problem();
    let or_trouble = |text: String| if trouble.is_empty() { text } else { format!("{text}: {trouble}") };
    match &member.progress {
        Progress::Waiting if rollout.is_watched(member, now) => {
            Some("maxUpdate is 0: sync it manually, or skip it".to_owned())
        }
        Progress::Waiting if member.is_awaiting_retry() => Some(describe_retry_time(rollout).to_owned()),
        Progress::Promoted => Some(or_trouble("Pending: its sync is being created".to_owned())),
        Progress::Named { window: Some(window), .. } => {
            Some(or_trouble(format!("Pending: its sync is waiting for {}", delay_message(window))))
        }
        Progress::Named { .. } => Some(or_trouble("Pending: its sync has not started".to_owned())),
        Progress::Running { operation } => Some(or_trouble(format!("operation {operation} is running"))),
        Progress::Stopping { operation, .. } => {
            Some(or_trouble(format!("operation {operation} is being stopped")))
        }
        Progress::Settling { .. } => Some(describe_unhealthy(member)),
        Progress::Failed { message, .. } => Some(format!("it failed: {message}; retry or skip it")),
        _ => None,
    }
}

/// Returns the description of a pending retry.
fn describe_retry_time(rollout: &Rollout) -> &'static str {
    match rollout.paused {
        Some(_) => "it will be retried when the rollout is resumed",
        None => "it is queued for a retry",
    }
}

/// Returns the reason why an Application doesn't count as Healthy although its operation succeeded.
fn describe_unhealthy(member: &Member) -> String {
    let Some(observation) = &member.seen else { return NOT_OBSERVED.to_owned() };
    let of_others = observation.deployed.as_ref() != Some(&member.target);
    if of_others && observation.operation >= member.progress.operation() {
        return "another operation has since deployed a different target".to_owned();
    }
    let message =
        if observation.message.is_empty() { String::new() } else { format!(": {}", observation.message) };
    match (observation.synced, observation.is_healthy()) {
        _ if observation.operation < member.progress.operation() => {
            "its status has not been updated since its operation ended".to_owned()
        }
        (false, _) => format!("OutOfSync{message}"),
        (true, _) => format!("{:?}{message}", observation.health),
    }
}

fn warnings(rollout: &Rollout) -> Vec<String> {
    let mut warnings: Vec<String> = list_overdue(rollout).into_iter().collect();
    if rollout.new_targets.is_some() {
        let then = match rollout.options.on_new_targets {
            OnNewTargets::Supersede => "this rollout will end at the next safe point",
            OnNewTargets::Finish => "a rollout to these targets will start when this rollout ends",
        };
        warnings.push(format!("the ApplicationSet has new targets: {then}"));
    }
    let step = rollout.current_step();
    let failed = step.and_then(|step| rollout.step(step)?.failed.as_ref());
    if let Some(failed) = failed.filter(|_| rollout.paused.is_none()) {
        warnings.push(failed.message.clone());
    }
    warnings
}
