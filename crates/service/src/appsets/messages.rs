//! Messages to the ApplicationSet actors and their supervisor.

use std::sync::Arc;

use ractor::RpcReplyPort;
use tidegate_application::push_events::WebhookChanges;
use tidegate_lifecycle::NextAction;
use tidegate_model::StreamId;

use super::actions::{AppSetAction, AppSetExplanation};
use super::reconcile::ReconcileResult;
use super::store::{AppSetEvent, StoredAppSet};
use crate::applications::store::AppKey;

/// Reply port for the result of a request.
pub(crate) type ReplyPort = RpcReplyPort<Result<(), String>>;

/// Message to the supervisor.
pub(crate) enum AppSetSupervisorMessage {
    /// An event of the store.
    Store(AppSetEvent),
    /// An Application was created, changed or deleted. ApplicationSets that own it or generate its name start
    /// a pass.
    MemberChanged(AppKey),
    /// Applications have changed, but the events about the changes were lost.
    EventsLost,
    /// Cluster declarations or the reachability of clusters have changed.
    ClustersChanged,
    /// A webhook event of a repository server.
    WebhookEvent(Arc<WebhookChanges>),
    /// A message for the actor of this ApplicationSet.
    Forward(AppKey, AppSetMessage),
}

/// Message to the actor of an ApplicationSet.
pub(crate) enum AppSetMessage {
    /// The ApplicationSet's stored state has changed.
    Changed(Box<StoredAppSet>),
    /// An Application of this ApplicationSet was created, changed or deleted.
    MemberChanged(AppKey),
    /// A pass has finished.
    PassEnded(tokio::task::Id, Box<ReconcileResult>),
    /// Generator inputs have changed.
    InputsChanged,
    /// The state of the rollout has changed.
    RolloutChanged,
    /// The state of the teardown has changed.
    TeardownChanged,
    /// Other clients have deleted these Applications. `is_deleting` is true if the ApplicationSet is being
    /// deleted too.
    ForeignDeletions { uids: Vec<String>, is_deleting: Result<bool, String> },
    /// A scheduled wake-up: does everything that is due.
    Wake,
    /// Runs the generators now.
    Refresh { reply: ReplyPort },
    /// Request to the rollout or teardown. If `run` is set, applies only to that run.
    Action { action: AppSetAction, run: Option<StreamId>, by: String, reason: String, reply: ReplyPort },
    /// Request for an explanation of the status.
    Explain { reply: RpcReplyPort<AppSetExplanation> },
    /// Request for deletion of the ApplicationSet.
    Delete { orphan: bool, by: String, reason: String, reply: ReplyPort },
    /// The ApplicationSet no longer exists in the store. The reply is sent once none of its machines is
    /// running.
    Gone { reply: RpcReplyPort<()> },
}

impl AppSetMessage {
    /// Rejects a message that expects a reply.
    pub fn reject(self, reason: String) {
        match self {
            Self::Refresh { reply } | Self::Action { reply, .. } | Self::Delete { reply, .. } => {
                drop(reply.send(Err(reason)));
            }
            Self::Explain { reply } => {
                drop(reply.send(AppSetExplanation {
                    line: reason,
                    next_action: NextAction::wait("the service manages it"),
                    ..AppSetExplanation::default()
                }));
            }
            _ => {}
        }
    }
}
