//! What the actors of the ApplicationSets, and their supervisor, are told.

use std::sync::Arc;

use ractor::RpcReplyPort;
use tidegate_application::pushes::Told;
use tidegate_model::StreamId;

use super::pass::Passed;
use super::store::{SetEvent, StoredSet};
use super::wishes::{SetExplanation, SetWish};
use crate::applications::store::AppKey;

/// Where an answer goes: done, or why not.
pub(crate) type Answer = RpcReplyPort<Result<(), String>>;

/// A message to the supervisor.
pub(crate) enum SetSupervisorMessage {
    /// Something has happened in the store.
    Store(SetEvent),
    /// An Application has changed, has come or is gone: the sets that own it, or generate its name, look.
    Member(AppKey),
    /// Applications have changed, and nobody knows which.
    Missed,
    /// Other clusters are declared now, or can be reached.
    Clusters,
    /// Servers of repositories tell something.
    Told(Arc<Told>),
    /// To the actor of this set.
    To(AppKey, SetMessage),
}

/// A message to the actor of a set.
pub(crate) enum SetMessage {
    /// It is written down in another way.
    Changed(Box<StoredSet>),
    /// One of its Applications has changed, has come or is gone.
    Member(AppKey),
    /// A look at it has ended.
    Looked(tokio::task::Id, Box<Passed>),
    /// What its generators ask for has changed.
    Moved,
    /// Its rollout has moved.
    RolloutMoved,
    /// Its teardown has moved.
    TeardownMoved,
    /// These of its Applications were deleted by others: whether the set is being deleted, too.
    Others { uids: Vec<String>, is_going: Result<bool, String> },
    /// It is time to look what is due.
    Wake,
    /// Somebody wants its generators asked now.
    Refresh { reply: Answer },
    /// Somebody asks something of its rollout or its teardown; where they name one, of that one and no other.
    Wish { wish: SetWish, run: Option<StreamId>, by: String, why: String, reply: Answer },
    /// Somebody asks where it stands.
    Explain { reply: RpcReplyPort<SetExplanation> },
    /// Somebody deletes it.
    Delete { orphan: bool, by: String, reason: String, reply: Answer },
    /// It is written down nowhere any more. Answered when nothing is at work for it.
    Gone { reply: RpcReplyPort<()> },
}

impl SetMessage {
    /// Whoever waits for an answer is told that there is none.
    pub fn refuse(self, why: String) {
        match self {
            Self::Refresh { reply } | Self::Wish { reply, .. } | Self::Delete { reply, .. } => {
                drop(reply.send(Err(why)));
            }
            Self::Explain { reply } => {
                drop(reply.send(SetExplanation { line: why, ..SetExplanation::default() }));
            }
            _ => {}
        }
    }
}
