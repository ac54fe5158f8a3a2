//! Inputs of a teardown: results of commands, observations, and user requests.

use super::request::{Approval, MemberSpec, Request};
use crate::fleet::Scope;
use crate::operation::CallError;

/// Input from outside the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A teardown is requested.
    Begin(Box<Request>),
    /// Result of [`Command::Delete`](super::Command) or [`Command::Read`](super::Command), directly from the
    /// API server, bypassing every cache.
    Answered {
        /// Name of the Application.
        member: String,
        /// `metadata.uid` in the command.
        uid: String,
        /// Result, or the error of the call.
        presence: Result<ObjectPresence, CallError>,
    },
    /// State of an Application from [`Command::WatchMember`](super::Command::WatchMember), reported at the
    /// start of the watch and after every change. Observations may be old or repeated.
    Observed {
        /// Name of the Application.
        member: String,
        /// `metadata.uid` of the Application. Another object with the same name isn't part of the teardown.
        uid: String,
        /// Observed state.
        observation: MemberObservation,
    },
    /// An Application was added that must also be deleted.
    Joined {
        /// The new Application.
        member: Box<MemberSpec>,
    },
    /// A user approved deletions that were blocked because they exceeded the deletion limit. A
    /// [`Self::Joined`] input follows for each affected Application. Duplicates are ignored.
    Approved(Approval),
    /// A user made a request.
    UserRequest {
        /// Content of the request.
        request: UserRequest,
        /// Requester.
        by: String,
        /// Reason. May be empty.
        reason: String,
    },
    /// The engine gives up on the teardown.
    Abort {
        /// Reason for giving up.
        reason: String,
    },
}

/// Result from the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPresence {
    /// The object exists. After [`Command::Delete`](super::Command), its deletion is in progress.
    Exists,
    /// No object with this name and UID exists.
    Gone,
}

/// Observed state of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberObservation {
    /// The Application exists.
    Exists {
        /// Reason why the Application still exists, as a phrase that follows "waits for". Empty if unknown.
        kept_by: String,
    },
    /// The Application doesn't exist.
    Gone,
    /// The Application exists, isn't being deleted, and is no longer part of the ApplicationSet.
    Released,
}

/// User request that affects a teardown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// Don't wait for an Application, or for the Applications in a step. Applications that aren't being
    /// deleted yet are kept.
    Skip(Scope),
    /// Don't start any more deletions. Running deletions continue, and the pause doesn't count toward
    /// deadlines.
    Pause,
    /// Resume the teardown.
    Resume,
    /// End the teardown without starting any more deletions.
    Terminate,
}
