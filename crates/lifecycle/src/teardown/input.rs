//! Inputs of a teardown: answers, observations, and people's requests.

use super::request::{Approval, MemberSpec, Request};
use crate::fleet::Scope;
use crate::operation::CallError;

/// One input from outside of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Request for a teardown.
    Begin(Box<Request>),
    /// Answer to [`Command::Delete`](super::Command) and [`Command::Read`](super::Command): the API server's own
    /// result, bypassing every cache.
    Answered {
        /// Name of the member.
        member: String,
        /// `metadata.uid` of the command.
        uid: String,
        /// Result, or the error of the call.
        presence: Result<ObjectPresence, CallError>,
    },
    /// Observed state of a member, now and after every change, while the member is being
    /// [watched](super::Command::WatchMember). Observations may be old or repeated.
    Observed {
        /// Name of the member.
        member: String,
        /// `metadata.uid` of the Application. Another object with the same name isn't a member.
        uid: String,
        /// Observed state.
        observation: MemberObservation,
    },
    /// An Application was added that must also be deleted.
    Joined {
        /// The new Application.
        member: Box<MemberSpec>,
    },
    /// A person approved deletions that were held because there were too many of them. Their members join next. A
    /// repeated approval counts once.
    Approved(Approval),
    /// A person's request.
    UserRequest {
        /// Content of the request.
        request: UserRequest,
        /// Requester.
        by: String,
        /// Reason; may be empty.
        reason: String,
    },
    /// The engine itself gives up on the teardown.
    Abort {
        /// Reason.
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
        /// Reason why the Application still exists, in words that follow "waits for". Empty if unknown.
        kept_by: String,
    },
    /// The Application doesn't exist.
    Gone,
    /// The Application exists, isn't being deleted, and no longer belongs to the ApplicationSet.
    Released,
}

/// A person's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// Don't wait for an Application, or for the Applications of a step. If their deletion hasn't started, they aren't
    /// deleted.
    Skip(Scope),
    /// Don't start any more deletions. Running deletions continue, and deadlines stand still.
    Pause,
    /// Resume.
    Resume,
    /// End the teardown without any more deletions.
    Terminate,
}
