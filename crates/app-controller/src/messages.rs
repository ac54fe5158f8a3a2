//! Messages to Application actors and to their supervisor.

use std::collections::BTreeSet;

use ractor::RpcReplyPort;
use tidegate_application::AppKey;
use tidegate_application::machine::{ComparisonStart, Input, PlanReference};
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::rollout_operation::AdoptableOperations;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::OperationRequest;
use tidegate_model::{Cascade, Digest, OperationId, PlanApproval, Timestamp};
use tidegate_source::Address;
use tidegate_stores::applications::{ExternalTermination, StoreEvent, StoredApplication};
use tokio::sync::mpsc::UnboundedSender;

use super::comparison_result::ComparisonResult;
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

/// Repositories whose refs have changed. A change is observed only once, so all Applications that use them
/// must be compared, except the Application in `except`, which is already being compared.
pub struct ChangedRepositories {
    pub addresses: Vec<Address>,
    pub except: Option<AppKey>,
}

/// A message to the supervisor.
pub enum SupervisorMessage {
    /// An event from the store.
    Store(StoreEvent),
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
    /// A message for this Application's actor.
    Forward(AppKey, AppMessage),
    /// The messages for an Application have waited too long for its actor to start.
    RejectHeld(AppKey),
}

/// Message to an Application's actor.
#[expect(missing_docs, reason = "the documentation of a variant describes its fields")]
pub enum AppMessage {
    /// Input for the Application's machine.
    Input(Input),
    /// The Application's resource has changed.
    Changed(Box<StoredApplication>),
    /// Another client has overwritten the persisted state, possibly terminating the operation.
    StateOverwritten(Option<ExternalTermination>),
    /// Compares the Application, and replies once the result has been published.
    Refresh { level: RefreshLevel, reply: Reply },
    /// Replies once the effects of all earlier messages have been published.
    Flush { reply: Reply },
    /// Result of a comparison, with the state from which the comparison started.
    ComparisonDone { result: Box<ComparisonResult>, start: Box<ComparisonStart>, began_at: Timestamp },
    /// Requests an operation that executes a stored plan or, without `plan`, is planned when it runs.
    Sync { request: Box<OperationRequest>, plan: Option<PlanReference>, reply: Reply },
    /// Approves a stored plan. If an operation is waiting for this approval, it starts.
    Approve { hash: Digest, approval: PlanApproval, reply: Reply },
    /// Terminates the current operation, or only `operation` if it is set.
    Terminate { operation: Option<OperationId>, by: String, reply: Reply },
    /// Deletes the Application.
    Delete { options: DeletionOptions, by: String, reason: String, reply: Reply },
    /// Rolls back to a sync in the Application's history.
    Rollback { id: Option<i64>, prune: bool, by: String, reason: String, reply: Reply },
    /// Requests an operation for a progressive sync. Its ID is already persisted, so repeated messages start
    /// it only once.
    RunChild { operation: OperationId, child: Box<ChildOperation> },
    /// Withdraws a progressive sync's operation. Unless it has already started, it never will.
    WithdrawChild { operation: OperationId },
    /// Stops a progressive sync's operation. Replies once it has finished or can no longer start, but not if
    /// the engine stops.
    StopChild { operation: OperationId, by: String, reply: Reply },
}

impl AppMessage {
    /// Rejects a message that expects a reply.
    pub fn reject(self, reason: String) {
        match self {
            Self::Refresh { reply, .. }
            | Self::Flush { reply }
            | Self::Sync { reply, .. }
            | Self::Approve { reply, .. }
            | Self::Terminate { reply, .. }
            | Self::Delete { reply, .. }
            | Self::Rollback { reply, .. }
            | Self::StopChild { reply, .. } => drop(reply.send(Err(reason))),
            Self::RunChild { child, .. } => {
                // The Application may still be created or changed.
                let report = OperationReport::Failed(CallError::transient(reason));
                drop(child.progress.send(report));
            }
            Self::Input(_)
            | Self::Changed(_)
            | Self::StateOverwritten(_)
            | Self::ComparisonDone { .. }
            | Self::WithdrawChild { .. } => {}
        }
    }
}
