//! What can reach a teardown: answers, sights, and wishes of people.

use super::request::{MemberSpec, Request};
use super::state::Approval;
use crate::fleet::Scope;
use crate::operation::CallError;

/// One thing that happened outside the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Somebody wants a teardown.
    Begin(Box<Request>),
    /// The answer to [`Command::Delete`](super::Command) and [`Command::Look`](super::Command): what the API server itself
    /// has found, past every cache.
    Answered {
        /// Which member.
        member: String,
        /// Its `metadata.uid`, as it was asked for.
        uid: String,
        /// What was found, or why that could not be done yet.
        found: Result<Found, CallError>,
    },
    /// How a member is, now and whenever that changes, while it is [watched](super::Command::Watch). Sights may be old or
    /// repeated.
    Sighted {
        /// Which member.
        member: String,
        /// Its `metadata.uid`: another object of that name is none of ours.
        uid: String,
        /// What was seen.
        sight: Sight,
    },
    /// One more Application is to be deleted.
    Joined {
        /// It.
        member: Box<MemberSpec>,
    },
    /// A person has let deletions be done that were held because they are too many: members are about to join for it. Told more
    /// than once it counts once.
    Approved(Approval),
    /// What a person asks for.
    Wish {
        /// What.
        wish: Wish,
        /// Who.
        by: String,
        /// Why; may be empty.
        why: String,
    },
    /// The engine itself gives up.
    Abort {
        /// Why.
        reason: String,
    },
}

/// What the API server has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The object is there. After [`Command::Delete`](super::Command): it is on its way out.
    There,
    /// No object of this name and UID is there.
    Gone,
}

/// How an Application was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is there.
    There {
        /// What keeps it, in words that follow "waits for"; empty where nobody knows.
        kept_by: String,
    },
    /// It is not there.
    Gone,
    /// It is there, is not being deleted, and is not the set's any more.
    Released,
}

/// What people may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Do not await an Application, or those of a step. What has not been deleted yet is not deleted.
    Skip(Scope),
    /// Delete nothing more. What is being deleted goes on; deadlines stand still.
    Pause,
    /// Go on.
    Resume,
    /// End, and delete nothing more.
    Terminate,
}
