//! The teardown as a [`Machine`].

use tidegate_model::{StreamKind, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::event::Event;
use super::input::Input;
use super::state::State;
use crate::driver::{LAZY_EVENT_WAIT_MAX, STATUS_EVENT_WAIT_MAX};
use crate::machine::{IllegalEvent, Machine, Outstanding, Urgency};

/// An ordered deletion, from start to end.
#[derive(Clone, Copy, Debug)]
pub enum OrderedDeletion {}

/// Object that an observation describes: the Application with this name and UID. Only the newest observation
/// of this object counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservationKey(pub String, pub String);

impl Machine for OrderedDeletion {
    const KIND: StreamKind = StreamKind::TEARDOWN;

    type State = State;
    type Event = Event;
    type Input = Input;
    type Command = Command;
    type Subject = Subject;
    type ObservationKey = ObservationKey;
    type Rejection = Rejection;

    fn decide(state: &State, input: &Input, now: Timestamp) -> Result<Vec<Event>, Rejection> {
        super::decide(state, input, now)
    }

    fn advance(state: &State, now: Timestamp) -> Vec<Event> {
        super::advance(state, now)
    }

    fn apply(state: State, event: &Event) -> Result<State, IllegalEvent> {
        super::apply(state, event)
    }

    fn outstanding(state: &State, now: Timestamp) -> Outstanding<Command> {
        super::outstanding(state, now)
    }

    fn subject(command: &Command) -> Subject {
        command.subject()
    }

    fn is_subscription(command: &Command) -> bool {
        command.is_subscription()
    }

    fn observation_key(input: &Input) -> Option<ObservationKey> {
        match input {
            Input::Observed { member, uid, .. } => Some(ObservationKey(member.clone(), uid.clone())),
            _ => None,
        }
    }

    fn urgency(state: &State, event: &Event) -> Urgency {
        let is_witnessed = state.teardown().is_some_and(|teardown| teardown.order.is_witnessed());
        match event {
            // No later step depends on this event. If it is lost, it is observed again.
            Event::Deleted { .. } | Event::Released { .. } if is_witnessed => {
                Urgency::Within(STATUS_EVENT_WAIT_MAX)
            }
            // If this event is lost, the same call returns this state again, or the watch reports it again.
            Event::DeletionStarted { .. }
            | Event::AbsenceObserved { .. }
            | Event::PresenceConfirmed { .. } => Urgency::Within(LAZY_EVENT_WAIT_MAX),
            Event::DeletionBlocked { .. } | Event::CallFailed { .. } => {
                Urgency::Within(STATUS_EVENT_WAIT_MAX)
            }
            _ => Urgency::Now,
        }
    }

    fn is_over(state: &State) -> bool {
        state.is_finished()
    }

    fn snapshot_weight(state: &State) -> u64 {
        let members = state.teardown().map_or(0, |teardown| teardown.members.len());
        u64::try_from(members).unwrap_or(u64::MAX)
    }

    fn abort_input(reason: String) -> Input {
        Input::Abort { reason }
    }

    fn is_late(rejection: &Rejection) -> bool {
        matches!(rejection, Rejection::Stale { .. })
    }
}
