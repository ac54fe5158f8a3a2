//! The rollout as a [`Machine`].

use tidegate_model::{StreamKind, Timestamp};

use super::command::{Command, Subject};
use super::decide::Rejection;
use super::event::Event;
use super::input::Input;
use super::state::{Stage, State};
use crate::driver::{LAZY_EVENT_WAIT_MAX, STATUS_EVENT_WAIT_MAX};
use crate::machine::{IllegalEvent, Machine, Outstanding, Urgency, implement_machine_core};
use crate::operation::Verdict;

/// A progressive sync, from start to end.
#[derive(Clone, Copy, Debug)]
pub enum ProgressiveSync {}

/// Key of an observed object. Only the newest observation per key counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObservationKey {
    /// State of an Application.
    Member(String),
    /// Verdict of a gate.
    Gate(String),
}

impl Machine for ProgressiveSync {
    const KIND: StreamKind = StreamKind::ROLLOUT;

    implement_machine_core!();

    fn restarted_subjects(state: &State, event: &Event) -> Vec<Subject> {
        let Some(rollout) = state.rollout() else { return Vec::new() };
        match (event, &rollout.stage) {
            // After a failed call, the subscription doesn't send any more reports.
            (Event::CallFailed { member, .. }, _) => vec![Subject::Operation(member.clone())],
            // A step can be held a second time before the first subscriptions are closed. Its gates must
            // still be queried again.
            (Event::Moved { .. }, Stage::Held { step }) => {
                rollout.external_gates(*step).map(|gate| Subject::Gate(gate.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    fn observation_key(input: &Input) -> Option<ObservationKey> {
        match input {
            Input::Observed { member, .. } => Some(ObservationKey::Member(member.clone())),
            Input::Gate { gate, .. } => Some(ObservationKey::Gate(gate.clone())),
            _ => None,
        }
    }

    fn urgency(_: &State, event: &Event) -> Urgency {
        match event {
            // If lost, these events are derived from the recorded state again, or the subscription repeats
            // its report.
            Event::Promoted { .. } => Urgency::Within(LAZY_EVENT_WAIT_MAX),
            Event::SyncWindowChanged { .. }
            | Event::OperationStarted { .. }
            | Event::CallFailed { .. }
            | Event::StatusObserved { .. }
            | Event::GateAnswered { verdict: Verdict::Closed { .. }, .. } => {
                Urgency::Within(STATUS_EVENT_WAIT_MAX)
            }
            _ => Urgency::Now,
        }
    }

    fn snapshot_weight(state: &State) -> u64 {
        let members = state.rollout().map_or(0, |rollout| rollout.members.len());
        u64::try_from(members).unwrap_or(u64::MAX)
    }
}
