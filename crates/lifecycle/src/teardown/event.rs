//! Recorded events. They are append-only: variants are never removed or reordered, because logs contain them.
//! If a field of a variant changes, the variant gets the next kind number, and `read_earlier` reads its old
//! layout.

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::order::Order;
use super::request::{Approval, Options};
use super::state::{End, Stage};
use crate::fleet::{Assignment, Attribution};

/// A recorded event of a teardown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The teardown exists from this event on. Its Applications are assigned to steps.
    Created {
        /// ApplicationSet, as `namespace/name`.
        set: String,
        /// `metadata.uid` of the ApplicationSet.
        uid: String,
        /// Requester.
        by: String,
        /// Order of deletion.
        order: Order,
        /// Applications to delete.
        members: Vec<MemberRecord>,
        /// Options.
        options: Options,
        /// Time of the event.
        at: Timestamp,
    },
    /// The state machine made a transition.
    Moved {
        /// New stage.
        to: Stage,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application must be deleted now.
    DeletionScheduled {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application is being deleted.
    DeletionStarted {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// The reason why an Application still exists has changed.
    DeletionBlocked {
        /// Name of the Application.
        member: String,
        /// Reason as text.
        kept_by: String,
        /// Time of the observation.
        at: Timestamp,
    },
    /// An Application was observed not to exist. The observation may be old.
    AbsenceObserved {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application was read again and still exists.
    PresenceConfirmed {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application no longer exists.
    Deleted {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A call about an Application failed. It is repeated at `retry_at`.
    CallFailed {
        /// Name of the Application.
        member: String,
        /// Error message.
        message: String,
        /// Time of the next call.
        retry_at: Timestamp,
    },
    /// A user skipped an Application.
    Skipped {
        /// Name of the Application.
        member: String,
        /// Requester and reason.
        said: Attribution,
    },
    /// An Application was added that must also be deleted.
    Joined {
        /// The new Application.
        member: Box<MemberRecord>,
        /// Time of the event.
        at: Timestamp,
    },
    /// Message that contains the remaining Applications at that time.
    DeadlinePassed {
        /// Index of the step.
        step: u32,
        /// Message, with the names at that time.
        message: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A user paused the teardown.
    Paused(Attribution),
    /// A user resumed the teardown.
    Resumed(Attribution),
    /// A user terminated the teardown.
    TerminateRequested(Attribution),
    /// The teardown has finished.
    Finished {
        /// Outcome.
        end: End,
        /// Final message.
        message: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A user approved deletions that were blocked because there were too many of them.
    Approved(Approval),
    /// An Application no longer belongs to the ApplicationSet, so it is kept.
    Released {
        /// Name of the Application.
        member: String,
        /// Time of the observation.
        at: Timestamp,
    },
}

/// Application to delete, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Name of the Application.
    pub name: String,
    /// `metadata.uid` of the Application.
    pub uid: String,
    /// Step in which the Application is deleted.
    pub place: Assignment,
}

impl Event {
    /// Returns the existing Application that the event is about, if any.
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::DeletionScheduled { member, .. }
            | Self::DeletionStarted { member, .. }
            | Self::DeletionBlocked { member, .. }
            | Self::AbsenceObserved { member, .. }
            | Self::PresenceConfirmed { member, .. }
            | Self::Deleted { member, .. }
            | Self::CallFailed { member, .. }
            | Self::Skipped { member, .. }
            | Self::Released { member, .. } => Some(member),
            _ => None,
        }
    }
}
