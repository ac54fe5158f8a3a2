//! Which arrow follows by itself: the one place where the arrows of the machine are decided.

use tidegate_model::{Timestamp, format_duration};

use super::fact::Fact;
use super::order::Order;
use super::request::OnLate;
use super::state::{End, Progress, Stage, State, Teardown};
use crate::fleet::enumerate;

/// The facts that follow from the state and the time alone. Called again until nothing follows.
pub fn follow(state: &State, now: Timestamp) -> Vec<Fact> {
    let State::Running(teardown) = state else { return Vec::new() };
    if let Some(said) = &teardown.terminated {
        return finished(
            End::Terminated,
            left_there(teardown, format!("terminated by {}", said.words())),
            now,
        );
    }
    if teardown.paused.is_some() {
        return Vec::new();
    }
    match teardown.stage {
        Stage::Begun => onward(teardown, now),
        Stage::Deleting { step } => deleting(teardown, step, now),
    }
}

fn finished(end: End, message: String, now: Timestamp) -> Vec<Fact> {
    vec![Fact::Finished { end, message, at: now }]
}

/// To the first step of which something is there, or to the end.
fn onward(teardown: &Teardown, now: Timestamp) -> Vec<Fact> {
    match teardown.first_open() {
        Some(step) => vec![Fact::Moved { to: Stage::Deleting { step }, at: now }],
        None => finished(End::Completed, completed(teardown), now),
    }
}

fn are(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 Application is {what}"),
        _ => format!("{number} Applications are {what}"),
    }
}

fn completed(teardown: &Teardown) -> String {
    let of = |is_it: fn(&Progress) -> bool| -> Vec<&str> {
        let members = teardown.members.iter().filter(|(_, member)| is_it(&member.progress));
        members.map(|(name, _)| name.as_str()).collect()
    };
    let gone = of(|progress| *progress == Progress::Gone).len();
    let left = of(|progress| matches!(progress, Progress::Left(_)));
    let released = of(|progress| *progress == Progress::Released).len();
    let is_orphaned = teardown.order == Order::Orphaned;
    let gone = (gone > 0 || !is_orphaned).then(|| are(gone, "gone"));
    let released = (released > 0 || is_orphaned).then(|| are(released, "let go"));
    let message = gone.into_iter().chain(released).collect::<Vec<_>>().join(", ");
    if left.is_empty() { message } else { format!("{message}; left to people: {}", enumerate(&left)) }
}

/// What the end leaves behind.
fn left_there(teardown: &Teardown, why: String) -> String {
    let of = |is_going: bool| -> Vec<&str> {
        let open = teardown.members.iter().filter(|(_, member)| !member.progress.is_settled());
        let open = open.filter(|(_, member)| member.progress.is_in_flight() == is_going);
        open.map(|(name, _)| name.as_str()).collect()
    };
    [(true, "still being deleted"), (false, "not deleted")].into_iter().fold(
        why,
        |message, (is_going, what)| {
            let names = of(is_going);
            if names.is_empty() { message } else { format!("{message}; {what}: {}", enumerate(&names)) }
        },
    )
}

fn deleting(teardown: &Teardown, step: u32, now: Timestamp) -> Vec<Fact> {
    if teardown.first_open().is_none_or(|open| open > step) {
        return onward(teardown, now);
    }
    if teardown.too_late_at().is_some_and(|at| now >= at) {
        let deadline = format_duration(teardown.options.deadline.unwrap_or_default());
        let name = teardown.order.name(step);
        let open = teardown.open(step);
        let message = format!("{name} was not gone within {deadline}: {}", enumerate(&open));
        return vec![Fact::DeadlinePassed { step, message, at: now }];
    }
    let late = teardown.step(step).and_then(|step| step.late.clone());
    if let (Some(late), OnLate::Abort) = (late, teardown.options.on_late) {
        return finished(End::Failed, left_there(teardown, late), now);
    }
    if teardown.order.is_witnessed() {
        return Vec::new();
    }
    teardown
        .members_of(step)
        .filter(|(_, member)| member.progress == Progress::Waiting)
        .take(teardown.places_left(step))
        .map(|(name, _)| Fact::Condemned { member: name.clone(), at: now })
        .collect()
}
