//! Messages to ApplicationSet actors and to their supervisor.

use std::sync::Arc;

use ractor::RpcReplyPort;
use tidegate_application::AppKey;
use tidegate_application::push_events::WebhookChanges;
use tidegate_applicationset::reconcile_schedule::PassId;
use tidegate_lifecycle::NextAction;
use tidegate_model::StreamId;
use tidegate_stores::appsets::{AppSetEvent, StoredAppSet};
use tidegate_views::appset_actions::{AppSetAction, AppSetExplanation};

use super::reconcile::ReconcileResult;

/// Reply port for the result of a request.
pub type ReplyPort = RpcReplyPort<Result<(), String>>;

/// Message to the supervisor.
pub enum AppSetSupervisorMessage {
    /// An event from the store.
    Store(AppSetEvent),
    /// An Application was created, changed or deleted. Each ApplicationSet that owns it or generates its name
    /// starts a pass.
    MemberChanged(AppKey),
    /// Applications have changed, but the events were lost.
    EventsLost,
    /// The declared clusters or their reachability have changed.
    ClustersChanged,
    /// A webhook event from a Git server.
    WebhookEvent(Arc<WebhookChanges>),
    /// A message for this ApplicationSet's actor.
    Forward(AppKey, AppSetMessage),
}

/// Message to an ApplicationSet's actor.
pub enum AppSetMessage {
    /// The ApplicationSet's stored state has changed.
    Changed(Box<StoredAppSet>),
    /// An Application of this ApplicationSet was created, changed or deleted.
    MemberChanged(AppKey),
    /// A pass has finished.
    PassEnded(PassId, Box<ReconcileResult>),
    /// Generator inputs have changed.
    InputsChanged,
    /// The state of the rollout has changed.
    RolloutChanged,
    /// The state of the teardown has changed.
    TeardownChanged,
    /// Other clients deleted these Applications. `is_deleting` is true if the ApplicationSet is being
    /// deleted, too.
    ForeignDeletions { uids: Vec<String>, is_deleting: Result<bool, String> },
    /// Wakes the actor to do everything that is due.
    Wake,
    /// Runs the generators immediately.
    Refresh { reply: ReplyPort },
    /// A request for the rollout or teardown, or only for `run` if it is set.
    Action { action: AppSetAction, run: Option<StreamId>, by: String, reason: String, reply: ReplyPort },
    /// A request to explain the status.
    Explain { reply: RpcReplyPort<AppSetExplanation> },
    /// A request to delete the ApplicationSet.
    Delete { orphan: bool, by: String, reason: String, reply: ReplyPort },
    /// The ApplicationSet is gone from the store. Replies once all of its machines have stopped.
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
