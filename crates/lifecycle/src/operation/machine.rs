//! The sync operation as a [`Machine`].

use tidegate_model::{ObservedState, StreamKind, TaskId, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::input::Input;
use super::judgment::is_older_version;
use super::recorded_event::OperationEvent as Event;
use super::state::{Progress, State};
use super::{affected_subjects, outstanding};
use crate::driver::{LAZY_EVENT_WAIT_MAX, STATUS_EVENT_WAIT_MAX};
use crate::machine::{AffectedSubjects, IllegalEvent, Machine, Outstanding, Urgency, implement_machine_core};

/// One sync, from the request to the end.
#[derive(Clone, Copy, Debug)]
pub enum SyncOperation {}

/// Driver of one sync operation.
pub type Driver = crate::Driver<SyncOperation>;

/// Key of an observed object. Only the newest observation per key counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObservationKey {
    /// The object of a task's manifest.
    Object(TaskId),
    /// Reason why a task's object isn't healthy.
    Reason(TaskId),
    /// State of the operation's watches.
    Watches,
    /// Verdict of a gate.
    Gate(String),
}

impl Machine for SyncOperation {
    const KIND: StreamKind = StreamKind::OPERATION;

    implement_machine_core!();

    fn next_transition(state: &State) -> Option<Timestamp> {
        outstanding::next_transition(state)
    }

    fn outstanding_for(state: &State, subject: &Subject, now: Timestamp) -> Vec<Command> {
        outstanding::outstanding_for(state, subject, now)
    }

    fn affected_subjects(state: &State, event: &Event) -> AffectedSubjects<Subject> {
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

    fn urgency(state: &State, event: &Event) -> Urgency {
        let is_start = matches!(event, Event::Applied { .. });
        let is_hook = |id| {
            let task = state.operation().and_then(|operation| operation.task(id));
            task.is_some_and(|(task, state)| {
                // The Job's UID is already durable. If this event is lost, starting the same Job again has no
                // effect.
                let is_started = is_start && matches!(state.progress, Progress::Suspended { .. });
                task.is_hook() && !is_started
            })
        };
        if event.is_urgent(is_hook) {
            Urgency::Now
        } else {
            Urgency::Within(if event.is_status_event() { STATUS_EVENT_WAIT_MAX } else { LAZY_EVENT_WAIT_MAX })
        }
    }

    fn snapshot_weight(state: &State) -> u64 {
        let tasks = state.operation().map_or(0, |operation| operation.tasks.len());
        u64::try_from(tasks).unwrap_or(u64::MAX)
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
