//! The teardown as a [`Machine`].

use tidegate_model::{StreamKind, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::event::Event;
use super::input::Input;
use super::state::State;
use crate::driver::{LAZY_EVENT_WAIT_MAX, STATUS_EVENT_WAIT_MAX};
use crate::machine::{IllegalEvent, Machine, Outstanding, Urgency, implement_machine_core};

/// An ordered deletion, from start to end.
#[derive(Clone, Copy, Debug)]
pub enum OrderedDeletion {}

/// Key of an observed Application: its name and UID. Only the newest observation per key counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservationKey(pub String, pub String);

impl Machine for OrderedDeletion {
    const KIND: StreamKind = StreamKind::TEARDOWN;

    implement_machine_core!();

    fn observation_key(input: &Input) -> Option<ObservationKey> {
        match input {
            Input::Observed { member, uid, .. } => Some(ObservationKey(member.clone(), uid.clone())),
            _ => None,
        }
    }

    fn urgency(state: &State, event: &Event) -> Urgency {
        let is_witnessed = state.teardown().is_some_and(|teardown| teardown.order.is_witnessed());
        match event {
            // In a witnessed deletion, no later step depends on this event. If it is lost, the next
            // observation records it again.
            Event::Deleted { .. } | Event::Released { .. } if is_witnessed => {
                Urgency::Within(STATUS_EVENT_WAIT_MAX)
            }
            // If lost, the repeated call or the watch reports the same state again.
            Event::DeletionStarted { .. }
            | Event::AbsenceObserved { .. }
            | Event::PresenceConfirmed { .. } => Urgency::Within(LAZY_EVENT_WAIT_MAX),
            Event::DeletionBlocked { .. } | Event::CallFailed { .. } => {
                Urgency::Within(STATUS_EVENT_WAIT_MAX)
            }
            _ => Urgency::Now,
        }
    }

    fn snapshot_weight(state: &State) -> u64 {
        let members = state.teardown().map_or(0, |teardown| teardown.members.len());
        u64::try_from(members).unwrap_or(u64::MAX)
    }
}
