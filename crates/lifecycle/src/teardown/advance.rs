//! Automatic transitions. This module decides all transitions of the machine.

use tidegate_model::{Timestamp, format_duration};

use super::event::Event;
use super::order::Order;
use super::request::OnDeadline;
use super::state::{End, Progress, Stage, State, Teardown};
use crate::fleet::join_names;

/// Returns the events that follow from the state and the time alone. The driver calls this until it returns
/// nothing.
pub fn advance(state: &State, now: Timestamp) -> Vec<Event> {
    let State::Running(teardown) = state else { return Vec::new() };
    if let Some(attribution) = &teardown.terminated {
        return finish_teardown(
            End::Terminated,
            append_remaining(teardown, format!("terminated by {}", attribution.display())),
            now,
        );
    }
    if teardown.paused.is_some() {
        return Vec::new();
    }
    match teardown.stage {
        Stage::Begun => move_to_next_step(teardown, now),
        Stage::Deleting { step } => advance_deleting(teardown, step, now),
    }
}

fn finish_teardown(end: End, message: String, now: Timestamp) -> Vec<Event> {
    vec![Event::Finished { end, message, at: now }]
}

/// Moves to the first step that still has Applications to delete, or to the end.
fn move_to_next_step(teardown: &Teardown, now: Timestamp) -> Vec<Event> {
    match teardown.first_open_step() {
        Some(step) => vec![Event::Moved { to: Stage::Deleting { step }, at: now }],
        None => finish_teardown(End::Completed, completed_message(teardown), now),
    }
}

fn format_application_state(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 Application is {what}"),
        _ => format!("{number} Applications are {what}"),
    }
}

fn completed_message(teardown: &Teardown) -> String {
    let names_of = |is_it: fn(&Progress) -> bool| -> Vec<&str> {
        let members = teardown.members.iter().filter(|(_, member)| is_it(&member.progress));
        members.map(|(name, _)| name.as_str()).collect()
    };
    let gone = names_of(|progress| *progress == Progress::Gone).len();
    let left = names_of(|progress| matches!(progress, Progress::Left(_)));
    let released = names_of(|progress| *progress == Progress::Released).len();
    let is_orphaned = teardown.order == Order::Orphaned;
    let gone = (gone > 0 || !is_orphaned).then(|| format_application_state(gone, "gone"));
    let released = (released > 0 || is_orphaned).then(|| format_application_state(released, "released"));
    let message = gone.into_iter().chain(released).collect::<Vec<_>>().join(", ");
    if left.is_empty() { message } else { format!("{message}; skipped: {}", join_names(&left)) }
}

/// Adds the remaining Applications to a final message.
fn append_remaining(teardown: &Teardown, reason: String) -> String {
    let names_of = |is_going: bool| -> Vec<&str> {
        let open = teardown.members.iter().filter(|(_, member)| !member.progress.is_settled());
        let open = open.filter(|(_, member)| member.progress.is_in_flight() == is_going);
        open.map(|(name, _)| name.as_str()).collect()
    };
    [(true, "still being deleted"), (false, "not deleted")].into_iter().fold(
        reason,
        |message, (is_going, what)| {
            let names = names_of(is_going);
            if names.is_empty() { message } else { format!("{message}; {what}: {}", join_names(&names)) }
        },
    )
}

fn advance_deleting(teardown: &Teardown, step: u32, now: Timestamp) -> Vec<Event> {
    if teardown.first_open_step().is_none_or(|open| open > step) {
        return move_to_next_step(teardown, now);
    }
    if teardown.deadline_at().is_some_and(|at| now >= at) {
        let deadline = format_duration(teardown.options.deadline.unwrap_or_default());
        let name = teardown.order.step_name(step);
        let open = teardown.open_members(step);
        let message = format!("{name} was not deleted within {deadline}: {}", join_names(&open));
        return vec![Event::DeadlinePassed { step, message, at: now }];
    }
    let late = teardown.step(step).and_then(|step| step.late.clone());
    if let (Some(late), OnDeadline::Abort) = (late, teardown.options.on_late) {
        return finish_teardown(End::Failed, append_remaining(teardown, late), now);
    }
    if teardown.order.is_witnessed() {
        return Vec::new();
    }
    teardown
        .members_in_step(step)
        .filter(|(_, member)| member.progress == Progress::Waiting)
        .take(teardown.remaining_capacity(step))
        .map(|(name, _)| Event::DeletionScheduled { member: name.clone(), at: now })
        .collect()
}
