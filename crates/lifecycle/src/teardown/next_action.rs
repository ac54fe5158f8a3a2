//! Next action for each state of a teardown.

use super::state::{End, Member, Progress, Stage, State, Teardown};
use crate::NextAction;
use crate::fleet::{describe_skip, qualify_name};

#[cfg(test)]
mod tests;

/// Event that a teardown is waiting for, or the teardown's result. Each variant maps to a next action.
#[derive(Clone, Debug, PartialEq)]
enum Wait<'a> {
    /// The teardown is starting.
    Start,
    /// A user must resume the teardown.
    Resume,
    /// A user must delete an Application (`maxUpdate: 0`).
    ManualDeletion(&'a str),
    /// A finalizer or remaining objects block the deletion of an Application.
    Blocked(&'a str, &'a str),
    /// An Application is being deleted.
    Deletion(&'a str),
    /// Other clients delete or release the Applications.
    Witnessed,
    /// The next step is about to start.
    NextStep,
    /// The teardown completed.
    Completed,
    /// The teardown ended before all Applications were deleted.
    Unfinished,
}

pub(super) fn next_action(state: &State) -> NextAction {
    let set = state.teardown().map(|teardown| teardown.set.as_str()).unwrap_or_default();
    find_wait(state).action(set)
}

impl Wait<'_> {
    fn action(&self, set: &str) -> NextAction {
        let full = |name: &str| qualify_name(set, name);
        let skip = |name: &str| describe_skip(set, name);
        match self {
            Self::Start => NextAction::wait("the first step is evaluated"),
            Self::Resume => {
                NextAction::run(format!("tidegate appset resume {set}"), "continues the deletion")
            }
            Self::ManualDeletion(name) => NextAction::run(
                format!("tidegate app delete {} --yes", full(name)),
                "deletes the Application",
            )
            .or(&skip(name)),
            Self::Blocked(name, kept_by) => NextAction::run(
                format!("tidegate app explain {}", full(name)),
                &format!("shows the deletion, which is waiting for {kept_by}"),
            )
            .or(&skip(name)),
            Self::Deletion(name) => {
                NextAction::wait(&format!("Application {name} no longer exists")).or(&skip(name))
            }
            Self::Witnessed => NextAction::wait("all Applications are deleted or released"),
            Self::NextStep => NextAction::wait("the next step starts"),
            Self::Completed => NextAction::nothing("all Applications are deleted or released"),
            Self::Unfinished => NextAction::run(
                format!("tidegate appset retry {set}"),
                "restarts the deletion once the cause is fixed",
            ),
        }
    }
}

fn find_wait(state: &State) -> Wait<'_> {
    match state {
        State::New => Wait::Start,
        State::Running(teardown) => running_wait(teardown),
        State::Finished(teardown) => match teardown.outcome.as_ref().map(|outcome| outcome.end) {
            Some(End::Completed) | None => Wait::Completed,
            Some(End::Failed | End::Terminated | End::Error) => Wait::Unfinished,
        },
    }
}

fn running_wait(teardown: &Teardown) -> Wait<'_> {
    if teardown.paused.is_some() {
        return Wait::Resume;
    }
    match teardown.stage {
        Stage::Begun => Wait::Start,
        Stage::Deleting { .. } if teardown.order.is_witnessed() => Wait::Witnessed,
        Stage::Deleting { step } => {
            let waits = teardown.members_in_step(step).filter_map(|(name, member)| {
                let wait = member_wait(teardown, name, member)?;
                Some((matches!(wait, Wait::Deletion(_)), member.since, wait))
            });
            let first = waits.min_by_key(|(is_deletion, since, _)| (*is_deletion, *since));
            first.map_or(Wait::NextStep, |(_, _, wait)| wait)
        }
    }
}

fn member_wait<'a>(teardown: &Teardown, name: &'a str, member: &'a Member) -> Option<Wait<'a>> {
    match &member.progress {
        Progress::Waiting if teardown.is_watched(member) => Some(Wait::ManualDeletion(name)),
        Progress::Going if !member.kept_by.is_empty() => Some(Wait::Blocked(name, &member.kept_by)),
        Progress::Condemned | Progress::Going | Progress::Confirming { .. } => Some(Wait::Deletion(name)),
        Progress::Waiting | Progress::Gone | Progress::Left(_) | Progress::Released => None,
    }
}
