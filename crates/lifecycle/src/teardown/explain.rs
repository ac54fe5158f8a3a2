//! Explanation of a teardown's current position.

use tidegate_model::Timestamp;

use super::next_action::next_action;
use super::order::Order;
use super::state::{Member, Progress, State, Teardown};
use super::view::status_message;
use crate::fleet::{Explanation, count, format_application_count, sort_by_wait};
use crate::operation::AwaitedItem;

/// Explains the state of a teardown at the time `now`.
pub fn explain(state: &State, now: Timestamp) -> Explanation {
    Explanation { action: next_action(state), ..explain_state(state, now) }
}

fn explain_state(state: &State, now: Timestamp) -> Explanation {
    match state {
        State::New => Explanation::new("not started", now),
        State::Running(teardown) => explain_running(teardown, now),
        State::Finished(teardown) => {
            let Some(outcome) = &teardown.outcome else { return Explanation::new("over", now) };
            Explanation::finished(outcome.end, &outcome.message, teardown.started_at, outcome.at, now)
        }
    }
}

fn explain_running(teardown: &Teardown, now: Timestamp) -> Explanation {
    let Some(step) = teardown.current_step() else { return Explanation::new(status_message(teardown), now) };
    let mut explanation = Explanation::new(describe_position(teardown, step), now);
    let done = count(teardown.members_in_step(step).filter(|(_, member)| member.progress.is_settled()));
    let all = count(teardown.members_in_step(step));
    let what = if teardown.order == Order::Orphaned { "released" } else { "gone" };
    explanation.progress = format!("{done} of {all} {what}");
    explanation.awaited = awaited_members(teardown, step);
    explanation.deadline_in_seconds = teardown.deadline_at().map(|at| at.since(now).as_secs());
    explanation.warnings.extend(teardown.step(step).and_then(|step| step.late.clone()));
    explanation.set_paused(teardown.paused.as_ref());
    let later = teardown.members.values().filter_map(|member| member.place.step).filter(|next| *next > step);
    explanation.next = Some(match later.min() {
        Some(next) => {
            let members = format_application_count(count(teardown.members_in_step(next)));
            format!("{}, {members}", teardown.order.step_name(next))
        }
        None => "the end".to_owned(),
    });
    explanation
}

/// Formats a position, such as `deleting step 2 of 3 (env in (qa))` or `deleting Applications that no step
/// selects`.
fn describe_position(teardown: &Teardown, step: u32) -> String {
    let (order, name) = (&teardown.order, teardown.order.step_name(step));
    match order.step_number(step) {
        _ if order.is_witnessed() => status_message(teardown),
        Some(_) => format!("deleting {name} ({})", order.describe_selector(step)),
        None => format!("deleting {name}"),
    }
}

/// Returns the Applications that the teardown is waiting for, longest wait first.
fn awaited_members(teardown: &Teardown, step: u32) -> Vec<AwaitedItem> {
    let awaited = teardown.members_in_step(step).filter_map(|(name, member)| {
        let why = describe_wait(teardown, member)?;
        Some(AwaitedItem { what: format!("Application {name}"), why, since: member.since })
    });
    sort_by_wait(awaited.collect())
}

fn describe_wait(teardown: &Teardown, member: &Member) -> Option<String> {
    let trouble = member.calls.describe_problem();
    let or_trouble = |text: &str| if trouble.is_empty() { text.to_owned() } else { trouble.clone() };
    match &member.progress {
        Progress::Waiting if teardown.order == Order::Orphaned => Some("it is being released".to_owned()),
        Progress::Waiting if teardown.order.is_witnessed() => Some(
            "it will be deleted with its ApplicationSet, but its deletion has not started yet".to_owned(),
        ),
        Progress::Waiting if teardown.is_watched(member) => {
            Some("maxUpdate is 0: delete it manually, or skip it".to_owned())
        }
        Progress::Condemned => Some(or_trouble("it is about to be deleted")),
        Progress::Going if member.kept_by.is_empty() => Some("it is being deleted".to_owned()),
        Progress::Going => Some(format!("it is being deleted and is waiting for {}", member.kept_by)),
        Progress::Confirming { .. } => Some(or_trouble("it appears to be deleted; checking again")),
        Progress::Waiting | Progress::Gone | Progress::Left(_) | Progress::Released => None,
    }
}
