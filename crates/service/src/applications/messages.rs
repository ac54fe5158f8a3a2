//! What the actors of the applications, and their supervisor, are told.

use std::collections::BTreeSet;

use ractor::RpcReplyPort;
use tidegate_application::approval;
use tidegate_application::operation::Progress;
use tidegate_application::refresh::Level;
use tidegate_lifecycle::rollout::ChildNews;
use tidegate_model::argo::OperationRequest;
use tidegate_model::{Cascade, Digest, OperationId, PlanApproval, Timestamp};
use tokio::sync::mpsc::UnboundedSender;

use super::actor::With;
use super::approving::Looked;
use super::comparing::Compared;
use super::projects::globals::GlobalsTold;
use super::shared::Moved;
use super::store::{AppKey, Ended, StoreEvent, Stored};

/// Where an answer goes: done, or why not.
pub(crate) type Answer = RpcReplyPort<Result<(), String>>;

/// A kept plan that an operation carries out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByPlan {
    pub hash: Digest,
    /// Unrelated fields may have changed since.
    pub allow_drift: bool,
}

impl ByPlan {
    /// That of an operation.
    pub fn of(asked: &OperationRequest) -> Option<Self> {
        let hash = approval::plan_of(asked)?.parse().ok()?;
        Some(Self { hash, allow_drift: approval::allows_drift(asked) })
    }
}

/// A message to the supervisor.
pub(crate) enum SupervisorMessage {
    /// Something has happened in the store.
    Store(StoreEvent),
    /// An object of this application has changed.
    Stirred(AppKey),
    /// An application that these depend on, or that depends on them, stands in another way, or has begun or ceased to.
    Related(BTreeSet<AppKey>),
    /// The names of these repositories have moved; one application knows.
    Moved(Moved),
    /// Other clusters can be used now, or cannot any more.
    Places,
    /// The Application of a project has gone over to another one, or it is time to try again what becomes of projects.
    ProjectLeft,
    /// Other projects may be global.
    Globals(GlobalsTold),
    /// These projects have other repositories of their own.
    OwnRepositories(BTreeSet<String>),
    /// An application is to be compared.
    Compare { key: AppKey, level: Level },
    /// Somebody asks for a comparison.
    Refresh { key: AppKey, level: Level, reply: Answer },
    /// Somebody wants to know what is told of it by now: [`AppMessage::Show`].
    Show { key: AppKey, reply: Answer },
    /// Somebody asks for an operation.
    Sync { key: AppKey, asked: Box<OperationRequest>, plan: Option<ByPlan>, reply: Answer },
    /// Somebody approves a kept plan: [`AppMessage::Approve`].
    Approve { key: AppKey, hash: Digest, given: PlanApproval, reply: Answer },
    /// A kept plan was seen not to fit any more: [`AppMessage::Doubt`].
    Doubt { key: AppKey },
    /// Somebody ends an operation: [`AppMessage::Terminate`].
    Terminate { key: AppKey, operation: Option<OperationId>, by: String, reply: Answer },
    /// Somebody deletes an application.
    Delete { key: AppKey, cascade: Cascade, by: String, reason: String, reply: Answer },
    /// Somebody goes back to a sync of the history.
    Rollback { key: AppKey, id: Option<i64>, prune: bool, asker: (String, String), reply: Answer },
    /// A progressive sync wants an operation: [`AppMessage::Run`].
    Run {
        key: AppKey,
        operation: OperationId,
        asked: Box<OperationRequest>,
        tell: UnboundedSender<ChildNews>,
    },
    /// It does not want it any more: [`AppMessage::TakeBack`].
    TakeBack { key: AppKey, operation: OperationId },
    /// It wants it to be over: [`AppMessage::StopRun`].
    StopRun { key: AppKey, operation: OperationId, by: String, reply: Answer },
}

/// A message to the actor of an application.
pub(crate) enum AppMessage {
    /// All that are there are known: it may be worked on.
    Begin,
    /// It is written down in another way.
    Changed(Box<Stored>),
    /// Somebody else has changed what was kept of it, or ends its operation by that.
    Overwritten(Option<Ended>),
    /// It is to be compared.
    Compare(Level),
    /// Somebody asks for a comparison, and is answered when that is shown.
    Refresh { level: Level, reply: Answer },
    /// The answer is given when all that it was told before is shown.
    Show { reply: Answer },
    /// Something in the cluster has changed; others may have as well.
    Stirred,
    /// An application that it depends on, or that depends on it, stands in another way.
    Related,
    /// A comparison has ended. It was made with what was wanted then.
    Compared { compared: Box<Compared>, with: Box<With>, began: Timestamp },
    /// The operation that is asked for can be begun, or cannot.
    Prepared(Result<(Vec<String>, OperationId), String>),
    /// What its operation waits for before it begins.
    Waits { operation: OperationId, why: String },
    /// How its operation stands.
    Moved { operation: OperationId, progress: Box<Progress> },
    /// Somebody asks for an operation: by a kept plan, or as it is planned then.
    Sync { asked: Box<OperationRequest>, plan: Option<ByPlan>, reply: Answer },
    /// Somebody approves a kept plan. An operation that waits for that begins.
    Approve { hash: Digest, given: PlanApproval, reply: Answer },
    /// The plan that waits does not fit any more.
    Doubt,
    /// The plan of its operation, which was this one, was made or looked at.
    Looked { about: Box<OperationRequest>, looked: Looked },
    /// Somebody ends its operation; where they name one, that one and no other.
    Terminate { operation: Option<OperationId>, by: String, reply: Answer },
    /// Somebody deletes it.
    Delete { cascade: Cascade, by: String, reason: String, reply: Answer },
    /// Somebody goes back to a sync of its history.
    Rollback { id: Option<i64>, prune: bool, asker: (String, String), reply: Answer },
    /// A progressive sync wants this operation, whose id was recorded before. It is begun once, however often this comes, and
    /// `tell` hears how it stands now and from then on. When `tell` is dropped before the end, somebody has to ask again.
    Run { operation: OperationId, asked: Box<OperationRequest>, tell: UnboundedSender<ChildNews> },
    /// That operation is not wanted any more: if it has not begun, it never does.
    TakeBack { operation: OperationId },
    /// That operation is to be over. The answer is a yes when it is, or is sure never to begin; none comes when the engine
    /// stops.
    StopRun { operation: OperationId, by: String, reply: Answer },
    /// It is time to look what is due.
    Wake,
}
