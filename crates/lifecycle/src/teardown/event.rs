//! Recorded events. The type is append-only: variants are never removed or reordered, because logs contain
//! them. A variant whose fields change gets the next kind number, and `read_earlier` reads its old layout.

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::order::Order;
use super::request::{Approval, Options};
use super::state::{End, Stage};
use crate::fleet::{Assignment, Attribution};

/// A recorded event of a teardown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The teardown was created, and its Applications were assigned to steps.
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
    /// The teardown entered another stage.
    Moved {
        /// New stage.
        to: Stage,
        /// Time of the event.
        at: Timestamp,
    },
    /// It is an Application's turn to be deleted.
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
        /// Reason, as a phrase that follows "waits for".
        kept_by: String,
        /// Time of the observation.
        at: Timestamp,
    },
    /// An observation showed that an Application doesn't exist. The observation may be old.
    AbsenceObserved {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application that seemed to be deleted was read again, and still exists.
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
    /// A call for an Application failed. The call is retried at `retry_at`.
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
    /// A step's deadline passed before all of its Applications were deleted.
    DeadlinePassed {
        /// Index of the step.
        step: u32,
        /// Message that lists the remaining Applications.
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
    /// A user approved deletions that were blocked because they exceeded the deletion limit.
    Approved(Approval),
    /// An Application is no longer part of the ApplicationSet, so it is kept.
    Released {
        /// Name of the Application.
        member: String,
        /// Time of the observation.
        at: Timestamp,
    },
}

/// Recorded data about an Application to delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Name of the Application.
    pub name: String,
    /// `metadata.uid` of the Application.
    pub uid: String,
    /// Step that deletes the Application.
    pub place: Assignment,
}

impl Event {
    /// Returns the existing Application that the event refers to, if any.
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
