//! Messages to Application actors and to their supervisor.

use std::collections::BTreeSet;

use ractor::RpcReplyPort;
use tidegate_application::AppKey;
use tidegate_application::approval;
use tidegate_application::operation::EngineProgress;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::rollout_operation::AdoptableOperations;
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::OperationRequest;
use tidegate_model::{Cascade, Digest, OperationId, PlanApproval, Timestamp};
use tidegate_source::Address;
use tidegate_stores::applications::{ExternalTermination, StoreEvent, StoredApplication};
use tokio::sync::mpsc::UnboundedSender;

use super::comparison_result::{ComparisonResult, ComparisonStart};
use super::plan_check::PlanCheck;
use super::projects::global_project_settings::GlobalProjectsUpdate;

/// Reply to a request: either success or the reason why the request failed.
pub type Reply = RpcReplyPort<Result<(), String>>;

/// Options for deleting an Application.
#[derive(Clone, Copy, Debug)]
pub struct DeletionOptions {
    /// Deletion policy for the Application's objects.
    pub cascade: Cascade,
    /// True to skip the deletion hooks.
    pub no_hooks: bool,
}

impl From<Cascade> for DeletionOptions {
    /// Returns options that run the deletion hooks.
    fn from(cascade: Cascade) -> Self {
        Self { cascade, no_hooks: false }
    }
}

/// Operation requested by a progressive sync.
pub struct ChildOperation {
    /// The operation.
    pub request: Box<OperationRequest>,
    /// Operations whose work doesn't have to be repeated. `None` if the operation must always run.
    pub adoption: Option<AdoptableOperations>,
    /// Receives the current and all later states. If the receiver is dropped before the operation finishes,
    /// the progressive sync repeats the request.
    pub progress: UnboundedSender<OperationReport>,
}

/// Reference to a stored plan that an operation executes.
#[derive(Clone, Copy, Debug)]
pub struct PlanReference {
    pub hash: Digest,
    /// True if fields outside the plan may have changed since the plan was created.
    pub allow_drift: bool,
}

impl PlanReference {
    /// Returns the plan that an operation request refers to.
    pub fn from_request(request: &OperationRequest) -> Option<Self> {
        let hash = approval::requested_plan(request)?.parse().ok()?;
        Some(Self { hash, allow_drift: approval::allows_drift(request) })
    }
}

/// Repositories whose refs have changed. A change is observed only once, so all Applications that use them
/// must be compared, except the Application in `except`, which is already being compared.
pub struct ChangedRepositories {
    pub addresses: Vec<Address>,
    pub except: Option<AppKey>,
}

/// A message to the supervisor.
#[expect(missing_docs, reason = "the documentation of a variant describes its fields")]
pub enum SupervisorMessage {
    /// An event from the store.
    Store(StoreEvent),
    /// One of this Application's objects has changed.
    ObjectChanged(AppKey),
    /// The state of these Applications' dependencies or dependents has changed, or a dependency was added or
    /// removed.
    RelatedChanged(BTreeSet<AppKey>),
    /// The refs of these repositories have changed. The Application that detected the change is already
    /// updated.
    RepositoriesChanged(ChangedRepositories),
    /// The usable clusters have changed.
    ClustersChanged,
    /// An Application has left its project, or an attempt to release projects must be repeated.
    ReleaseProjects,
    /// The global projects may have changed.
    GlobalProjectsChanged(GlobalProjectsUpdate),
    /// The repositories in these projects' own Secrets have changed.
    ProjectRepositoriesChanged(BTreeSet<String>),
    /// Compares an Application.
    Compare { key: AppKey, level: RefreshLevel },
    /// Compares an Application at a client's request.
    Refresh { key: AppKey, level: RefreshLevel, reply: Reply },
    /// Waits until the effects of earlier messages have been published: `AppMessage::Flush`.
    Flush { key: AppKey, reply: Reply },
    /// Requests an operation.
    Sync { key: AppKey, request: Box<OperationRequest>, plan: Option<PlanReference>, reply: Reply },
    /// Approves a stored plan: `AppMessage::Approve`.
    Approve { key: AppKey, hash: Digest, approval: PlanApproval, reply: Reply },
    /// Reports a stored plan as outdated: `AppMessage::MarkPlanStale`.
    MarkPlanStale { key: AppKey },
    /// Terminates an operation: `AppMessage::Terminate`.
    Terminate { key: AppKey, operation: Option<OperationId>, by: String, reply: Reply },
    /// Deletes an Application.
    Delete { key: AppKey, options: DeletionOptions, by: String, reason: String, reply: Reply },
    /// Rolls back to a sync in an Application's history.
    Rollback { key: AppKey, id: Option<i64>, prune: bool, by: String, reason: String, reply: Reply },
    /// Requests an operation for a progressive sync: `AppMessage::RunChild`.
    RunChild { key: AppKey, operation: OperationId, child: Box<ChildOperation> },
    /// Withdraws a progressive sync's operation: `AppMessage::WithdrawChild`.
    WithdrawChild { key: AppKey, operation: OperationId },
    /// Stops a progressive sync's operation: `AppMessage::StopChild`.
    StopChild { key: AppKey, operation: OperationId, by: String, reply: Reply },
}

/// Message to an Application's actor.
pub enum AppMessage {
    /// Starts the actor's work. Sent once all Applications are loaded.
    Begin,
    /// The Application's resource has changed.
    Changed(Box<StoredApplication>),
    /// Another client has overwritten the persisted state, possibly terminating the operation.
    StateOverwritten(Option<ExternalTermination>),
    /// Compares the Application.
    Compare(RefreshLevel),
    /// Compares the Application, and replies once the result has been published.
    Refresh { level: RefreshLevel, reply: Reply },
    /// Replies once the effects of all earlier messages have been published.
    Flush { reply: Reply },
    /// At least one of the Application's objects has changed.
    ObjectChanged,
    /// The state of a dependency or dependent has changed.
    RelatedChanged,
    /// Result of a comparison, with the state from which the comparison started.
    ComparisonDone { result: Box<ComparisonResult>, start: Box<ComparisonStart>, began_at: Timestamp },
    /// Result of preparing the requested operation.
    OperationPrepared(Result<(Vec<String>, OperationId), String>),
    /// Reason why the operation is waiting to start.
    OperationWaits { operation: OperationId, reason: String },
    /// Progress of the operation.
    OperationProgress { operation: OperationId, progress: Box<EngineProgress> },
    /// Requests an operation that executes a stored plan or, without `plan`, is planned when it runs.
    Sync { request: Box<OperationRequest>, plan: Option<PlanReference>, reply: Reply },
    /// Approves a stored plan. If an operation is waiting for this approval, it starts.
    Approve { hash: Digest, approval: PlanApproval, reply: Reply },
    /// Reports that the waiting plan may be outdated.
    MarkPlanStale,
    /// Result of planning the operation or checking its plan. `request` is the operation that was planned or
    /// checked.
    PlanChecked { request: Box<OperationRequest>, check: PlanCheck },
    /// Terminates the current operation, or only `operation` if it is set.
    Terminate { operation: Option<OperationId>, by: String, reply: Reply },
    /// Deletes the Application.
    Delete { options: DeletionOptions, by: String, reason: String, reply: Reply },
    /// Rolls back to a sync in the Application's history.
    Rollback { id: Option<i64>, prune: bool, by: String, reason: String, reply: Reply },
    /// Requests an operation for a progressive sync. Its ID is already persisted, so repeated messages start
    /// it only once.
    RunChild { operation: OperationId, child: Box<ChildOperation> },
    /// Result of comparing the manifests at deployed revisions with the manifests of an operation requested by
    /// a progressive sync.
    RevisionsCompared { operation: OperationId, deployed: Vec<String>, result: Result<bool, String> },
    /// Withdraws a progressive sync's operation. Unless it has already started, it never will.
    WithdrawChild { operation: OperationId },
    /// Stops a progressive sync's operation. Replies once it has finished or can no longer start, but not if
    /// the engine stops.
    StopChild { operation: OperationId, by: String, reply: Reply },
    /// Wakes the actor, which then does all work that is due.
    Wake,
}
