//! The sync operation as a [`Machine`].

use tidegate_model::{ObservedState, StreamKind, TaskId, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::input::Input;
use super::judgment::is_older_version;
use super::recorded_event::OperationEvent;
use super::state::State;
use super::{affected_subjects, outstanding};
use crate::driver::{LAZY_EVENT_WAIT_MAX, STATUS_EVENT_WAIT_MAX};
use crate::machine::{AffectedSubjects, IllegalEvent, Machine, Outstanding, Urgency};

/// One sync, from the request to the end.
#[derive(Clone, Copy, Debug)]
pub enum SyncOperation {}

/// Driver of one sync operation.
pub type Driver = crate::Driver<SyncOperation>;

/// Object that an observation describes. Only the newest observation of each object counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObservationKey {
    /// The object of a task's manifest.
    Object(TaskId),
    /// Report on the pods of a task's object.
    Reason(TaskId),
    /// State of the operation's watches.
    Watches,
    /// Verdict of a gate.
    Gate(String),
}

impl Machine for SyncOperation {
    const KIND: StreamKind = StreamKind::OPERATION;

    type State = State;
    type Event = OperationEvent;
    type Input = Input;
    type Command = Command;
    type Subject = Subject;
    type ObservationKey = ObservationKey;
    type Rejection = Rejection;

    fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<OperationEvent>, Rejection> {
        super::decide(state, input, now)
    }

    fn advance(state: &State, now: Timestamp) -> Vec<OperationEvent> {
        super::advance(state, now)
    }

    fn apply(state: State, event: &OperationEvent) -> Result<State, IllegalEvent> {
        super::apply(state, event)
    }

    fn outstanding(state: &State, now: Timestamp) -> Outstanding<Command> {
        outstanding::outstanding(state, now)
    }

    fn outstanding_for(state: &State, subject: &Subject, now: Timestamp) -> Vec<Command> {
        outstanding::outstanding_for(state, subject, now)
    }

    fn affected_subjects(state: &State, event: &OperationEvent) -> AffectedSubjects<Subject> {
        match state {
            State::Running(operation) => affected_subjects::affected_subjects(operation, event),
            _ => AffectedSubjects::All,
        }
    }

    fn unblocked_subjects(state: &State, subject: &Subject) -> AffectedSubjects<Subject> {
        match state {
            State::Running(operation) if affected_subjects::has_independent_tasks(operation) => {
                AffectedSubjects::only(subject.clone())
            }
            _ => AffectedSubjects::All,
        }
    }

    fn subject(command: &Command) -> Subject {
        command.subject()
    }

    fn is_subscription(command: &Command) -> bool {
        command.is_subscription()
    }

    fn observation_key(input: &Input) -> Option<ObservationKey> {
        match input {
            Input::Observed { task, .. } => Some(ObservationKey::Object(*task)),
            Input::Reason { task, .. } => Some(ObservationKey::Reason(*task)),
            Input::WatchStatus { .. } => Some(ObservationKey::Watches),
            Input::Gate { gate, .. } => Some(ObservationKey::Gate(gate.clone())),
            _ => None,
        }
    }

    fn is_older(observation: &Input, than: &Input) -> bool {
        match (observed_version(observation), observed_version(than)) {
            (Some((uid, seen)), Some((same, known))) => uid == same && is_older_version(seen, known),
            _ => false,
        }
    }

    fn urgency(state: &State, event: &OperationEvent) -> Urgency {
        let is_hook = |id| {
            let task = state.operation().and_then(|operation| operation.plan.task(id));
            task.is_some_and(tidegate_model::Task::is_hook)
        };
        if event.is_urgent(is_hook) {
            Urgency::Now
        } else {
            Urgency::Within(if event.is_status_event() { STATUS_EVENT_WAIT_MAX } else { LAZY_EVENT_WAIT_MAX })
        }
    }

    fn is_over(state: &State) -> bool {
        state.is_finished()
    }

    fn snapshot_weight(state: &State) -> u64 {
        let tasks = state.operation().map_or(0, |operation| operation.tasks.len());
        u64::try_from(tasks).unwrap_or(u64::MAX)
    }

    fn abort_input(reason: String) -> Input {
        Input::Abort { reason }
    }

    fn is_late(rejection: &Rejection) -> bool {
        matches!(rejection, Rejection::Stale { .. })
    }
}

/// Returns the UID and the resource version of the observed object.
fn observed_version(input: &Input) -> Option<(&str, &str)> {
    let Input::Observed { observation, .. } = input else { return None };
    match &observation.seen {
        ObservedState::Present { uid, resource_version, .. } => Some((uid, resource_version)),
        ObservedState::Gone { .. } => None,
    }
}
