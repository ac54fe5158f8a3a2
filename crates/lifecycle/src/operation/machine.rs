//! The sync operation as a machine among others.

use tidegate_model::{Observed, StreamKind, TaskId, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::fact::Fact;
use super::input::Input;
use super::judge::is_older;
use super::state::State;
use super::{changes, pending};
use crate::driver::{LAZY_WAIT, TOLD_WAIT};
use crate::machine::{Changed, Illegal, Machine, Owed, Urgency};

/// One sync: from a request to its end.
#[derive(Clone, Copy, Debug)]
pub enum SyncOperation {}

/// The driver of one sync operation.
pub type Driver = crate::Driver<SyncOperation>;

/// Of what only the newest news counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// The object in the place of a task's manifest.
    Object(TaskId),
    /// What the pods of a task's object tell.
    Reason(TaskId),
    /// Whether the operation is told what changes in the cluster, or watches fail.
    Watches,
    /// What a gate says.
    Gate(String),
}

impl Machine for SyncOperation {
    const KIND: StreamKind = StreamKind::OPERATION;

    type State = State;
    type Fact = Fact;
    type Input = Input;
    type Command = Command;
    type Subject = Subject;
    type Sight = Sight;
    type Rejection = Rejection;

    fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Fact>, Rejection> {
        super::decide(state, input, now)
    }

    fn follow(state: &State, now: Timestamp) -> Vec<Fact> {
        super::follow(state, now)
    }

    fn evolve(state: State, fact: &Fact) -> Result<State, Illegal> {
        super::evolve(state, fact)
    }

    fn pending(state: &State, now: Timestamp) -> Owed<Command> {
        pending::pending(state, now)
    }

    fn pending_about(state: &State, subject: &Subject, now: Timestamp) -> Vec<Command> {
        pending::about(state, subject, now)
    }

    fn changes(state: &State, fact: &Fact) -> Changed<Subject> {
        match state {
            State::Running(operation) => changes::of(operation, fact),
            _ => Changed::All,
        }
    }

    fn frees(state: &State, subject: &Subject) -> Changed<Subject> {
        match state {
            State::Running(operation) if changes::are_local(operation) => Changed::only(subject.clone()),
            _ => Changed::All,
        }
    }

    fn subject(command: &Command) -> Subject {
        command.subject()
    }

    fn is_standing(command: &Command) -> bool {
        command.is_standing()
    }

    fn sight(input: &Input) -> Option<Sight> {
        match input {
            Input::Observed { task, .. } => Some(Sight::Object(*task)),
            Input::Reason { task, .. } => Some(Sight::Reason(*task)),
            Input::Watching { .. } => Some(Sight::Watches),
            Input::Gate { gate, .. } => Some(Sight::Gate(gate.clone())),
            _ => None,
        }
    }

    fn is_older(sight: &Input, than: &Input) -> bool {
        match (version_seen(sight), version_seen(than)) {
            (Some((uid, seen)), Some((same, known))) => uid == same && is_older(seen, known),
            _ => false,
        }
    }

    fn urgency(state: &State, fact: &Fact) -> Urgency {
        let is_hook = |id| {
            let task = state.operation().and_then(|operation| operation.plan.task(id));
            task.is_some_and(tidegate_model::Task::is_hook)
        };
        if fact.is_urgent(is_hook) {
            Urgency::Now
        } else {
            Urgency::Within(if fact.tells_of_a_wait() { TOLD_WAIT } else { LAZY_WAIT })
        }
    }

    fn is_over(state: &State) -> bool {
        state.is_finished()
    }

    fn weight(state: &State) -> u64 {
        let tasks = state.operation().map_or(0, |operation| operation.tasks.len());
        u64::try_from(tasks).unwrap_or(u64::MAX)
    }

    fn abort(reason: String) -> Input {
        Input::Abort { reason }
    }

    fn is_late(rejection: &Rejection) -> bool {
        matches!(rejection, Rejection::Stale { .. })
    }
}

/// UID and resource version of the object that was seen.
fn version_seen(input: &Input) -> Option<(&str, &str)> {
    let Input::Observed { observation, .. } = input else { return None };
    match &observation.seen {
        Observed::Present { uid, resource_version, .. } => Some((uid, resource_version)),
        Observed::Gone { .. } => None,
    }
}
