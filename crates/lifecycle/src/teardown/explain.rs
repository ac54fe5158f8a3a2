//! Why a teardown is where it is.

use tidegate_model::Timestamp;

use super::order::Order;
use super::state::{Member, Progress, State, Teardown};
use super::view::message;
use crate::fleet::{Explanation, applications, count, longest_first};
use crate::operation::Awaited;

/// Explains a teardown as it stands at `now`.
pub fn explain(state: &State, now: Timestamp) -> Explanation {
    match state {
        State::New => Explanation::blank("not started", now),
        State::Running(teardown) => running(teardown, now),
        State::Finished(teardown) => {
            let Some(outcome) = &teardown.outcome else { return Explanation::blank("over", now) };
            Explanation::over(outcome.end, &outcome.message, (teardown.started_at, outcome.at), now)
        }
    }
}

fn running(teardown: &Teardown, now: Timestamp) -> Explanation {
    let Some(step) = teardown.current_step() else { return Explanation::blank(message(teardown), now) };
    let mut explanation = Explanation::blank(position(teardown, step), now);
    let done = count(teardown.members_of(step).filter(|(_, member)| member.progress.is_settled()));
    let all = count(teardown.members_of(step));
    let what = if teardown.order == Order::Orphaned { "let go" } else { "gone" };
    explanation.progress = format!("{done} of {all} {what}");
    explanation.awaited = awaited(teardown, step);
    explanation.deadline_in_seconds = teardown.too_late_at().map(|at| at.since(now).as_secs());
    explanation.warnings.extend(teardown.step(step).and_then(|step| step.late.clone()));
    explanation.hold(teardown.paused.as_ref());
    let later = teardown.members.values().filter_map(|member| member.place.step).filter(|next| *next > step);
    explanation.next = Some(match later.min() {
        Some(next) => {
            let members = applications(count(teardown.members_of(next)));
            format!("{}, {members}", teardown.order.name(next))
        }
        None => "the end".to_owned(),
    });
    explanation
}

/// `deleting step 2 of 3 (env in (qa))`, or `deleting those that no step selects`.
fn position(teardown: &Teardown, step: u32) -> String {
    let (order, name) = (&teardown.order, teardown.order.name(step));
    match order.number(step) {
        _ if order.is_witnessed() => message(teardown),
        Some(_) => format!("deleting {name} ({})", order.words(step)),
        None => format!("deleting {name}"),
    }
}

/// The members that are awaited, the longest wait first.
fn awaited(teardown: &Teardown, step: u32) -> Vec<Awaited> {
    let awaited = teardown.members_of(step).filter_map(|(name, member)| {
        let why = why(teardown, member)?;
        Some(Awaited { what: format!("Application {name}"), why, since: member.since })
    });
    longest_first(awaited.collect())
}

fn why(teardown: &Teardown, member: &Member) -> Option<String> {
    let trouble = member.calls.trouble();
    let or_trouble = |words: &str| if trouble.is_empty() { words.to_owned() } else { trouble.clone() };
    match &member.progress {
        Progress::Waiting if teardown.order == Order::Orphaned => Some("it is being let go".to_owned()),
        Progress::Waiting if teardown.order.is_witnessed() => {
            Some("it goes with its set, and is not being deleted yet".to_owned())
        }
        Progress::Waiting if teardown.is_watched(member) => {
            Some("maxUpdate is 0: delete it by hand, or skip it".to_owned())
        }
        Progress::Condemned => Some(or_trouble("it is about to be deleted")),
        Progress::Going if member.kept_by.is_empty() => Some("it is being deleted".to_owned()),
        Progress::Going => Some(format!("it is being deleted and waits for {}", member.kept_by)),
        Progress::Confirming { .. } => {
            Some(or_trouble("it was seen to be gone, and is looked for once more"))
        }
        Progress::Waiting | Progress::Gone | Progress::Left(_) | Progress::Released => None,
    }
}
