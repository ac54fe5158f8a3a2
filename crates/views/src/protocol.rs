//! Requests and replies. Their JSON names are stable, because different versions of Tidegate may communicate.

use serde::{Deserialize, Serialize};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_executor::Output;
use tidegate_executor::effects::ObjectDifference;
use tidegate_lifecycle::operation::{Event, OperationEvent, OperationView, Scope};
use tidegate_model::argo::{Application, ApplicationSet, OperationRequest};
use tidegate_model::{
    Cascade, OperationId, Override, Plan, ResourceSelector, StreamId, Warning, normalize_reason,
};
use tidegate_state::operations::OperationEntry;
use tidegate_state::summaries::{PlanSummary, SyncWindowSummary};

use crate::appset_actions::{AppSetAction, AppSetDeletionPreview, AppSetExplanation};
use crate::deletion::DeletionPlan;
use crate::runs::{RunSummary, RunWithEvents};
use crate::{ExplanationDocument, SummaryDocument};

/// Maximum size of a request in bytes. Replies may be larger, because they contain whole operations.
pub const REQUEST_BYTES_MAX: u64 = 256 << 10;
/// Maximum size of a reply in bytes. Larger replies are treated as errors.
pub const REPLY_BYTES_MAX: u64 = 1 << 30;
/// Maximum size in bytes of a reply with one line of hook output. A character can take up to six bytes in
/// JSON.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Gets summaries of all operations, of one application's operations, or of unfinished operations.
    List {
        /// Only operations of this application.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        app: Option<String>,
        /// Only unfinished operations.
        #[serde(default)]
        open: bool,
    },
    /// Gets summaries of matching operations.
    Find {
        /// Operation ID, ID prefix or application name.
        text: String,
    },
    /// Gets an operation's status.
    Inspect {
        /// The operation.
        operation: OperationId,
    },
    /// Gets all recorded events of an operation.
    Facts {
        /// The operation.
        operation: OperationId,
    },
    /// Gets the events that an operation has emitted.
    Events {
        /// The operation.
        operation: OperationId,
        /// Only events after this sequence number.
        after: u64,
        /// Waits for a limited time if there are no events.
        #[serde(default)]
        wait: bool,
    },
    /// Streams the output of an operation's running hooks, one reply per item.
    Output {
        /// The operation.
        operation: OperationId,
    },
    /// Gets the rollouts and deletions of one or all ApplicationSets.
    Runs {
        /// Name of the ApplicationSet, or `NAMESPACE/NAME`. It may already be deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
    },
    /// Gets matching rollouts and deletions.
    FindRuns {
        /// Run ID, ID prefix or ApplicationSet name.
        text: String,
    },
    /// Gets a rollout or a deletion, with all its recorded events.
    Run {
        /// The run.
        id: StreamId,
    },
    /// Requests an action on an operation.
    RequestOperationAction {
        /// The operation.
        operation: OperationId,
        /// The requester.
        by: String,
        /// Requested action.
        action: OperationAction,
    },
    /// Gets all managed Applications, or those with a matching name.
    Applications {
        /// Name of an Application, or `NAMESPACE/NAME`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Starts an operation on an Application.
    SyncApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// The operation. Its requester is always set from the socket peer.
        operation: Box<OperationRequest>,
    },
    /// Terminates an Application's operation.
    TerminateApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Deletes an Application.
    DeleteApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Deletion policy for its objects.
        #[serde(default)]
        cascade: Cascade,
        /// Skips the deletion hooks.
        #[serde(default, rename = "noHooks")]
        no_hooks: bool,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Previews an Application's deletion.
    PlanDeletion {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Deletion policy for its objects.
        #[serde(default)]
        cascade: Cascade,
        /// Skips the deletion hooks.
        #[serde(default, rename = "noHooks")]
        no_hooks: bool,
    },
    /// Rolls an Application back to a sync in its history.
    RollbackApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// ID of the sync. The default is the sync before the last one.
        #[serde(default)]
        id: Option<i64>,
        /// Deletes objects that did not exist at the time of that sync.
        #[serde(default)]
        prune: bool,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Previews the changes that a sync of an Application would make.
    DiffApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Branch, tag or commit to use instead of the Application's revision.
        #[serde(default)]
        revision: Option<String>,
        /// Revisions for an Application with several sources, one per source. An empty string stands for the
        /// source's own revision.
        #[serde(default)]
        revisions: Vec<String>,
    },
    /// Gets the state of an Application's sync windows, including whether a sync is currently permitted.
    SyncWindow {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// Compares an Application with its cluster now.
    RefreshApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Renders the manifests from scratch.
        #[serde(default)]
        hard: bool,
    },
    /// Gets all managed ApplicationSets, or those with a matching name.
    ApplicationSets {
        /// Name of an ApplicationSet, or `NAMESPACE/NAME`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Explains an ApplicationSet's status.
    ExplainApplicationSet {
        /// ApplicationSet name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// Previews an ApplicationSet's deletion, including the order in which its Applications are deleted.
    PlanApplicationSetDeletion {
        /// ApplicationSet name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// Requests an action on an ApplicationSet's rollout or deletion.
    RequestAppSetAction {
        /// ApplicationSet name, or `NAMESPACE/NAME`.
        name: String,
        /// Requested action.
        action: AppSetAction,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Runs an ApplicationSet's generators now.
    RefreshApplicationSet {
        /// ApplicationSet name, or `NAMESPACE/NAME`.
        name: String,
    },
    /// Deletes an ApplicationSet.
    DeleteApplicationSet {
        /// ApplicationSet name, or `NAMESPACE/NAME`.
        name: String,
        /// Keeps its Applications.
        #[serde(default)]
        orphan: bool,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Gets the stored plans of one or all Applications.
    Plans {
        /// Application name, or `NAMESPACE/NAME`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
    },
    /// Gets a stored plan.
    StoredPlan {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Hash of the plan, or a prefix of the hash.
        hash: String,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
    },
    /// Previews the changes that a stored plan would make.
    DiffPlan {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Hash of the plan, or a prefix of the hash.
        hash: String,
    },
    /// Creates and stores a plan for syncing an Application.
    PlanApplication {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// The operation. As in [`Self::SyncApplication`], its requester is always set from the socket peer.
        operation: Box<OperationRequest>,
    },
    /// Approves a stored plan.
    ApprovePlan {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Hash of the plan, or a prefix of the hash.
        hash: String,
        /// Approver. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Executes a stored plan exactly as it was stored.
    SyncPlan {
        /// Application name, or `NAMESPACE/NAME`.
        name: String,
        /// Hash of the plan, or a prefix of the hash.
        hash: String,
        /// Tolerates changes to fields outside the plan since its creation.
        #[serde(default)]
        allow_drift: bool,
        /// Requester. Always set from the socket peer.
        #[serde(default)]
        by: String,
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Deletes an object from the simulated cluster.
    DeleteSimulated {
        /// Selector for the object. It must match exactly one object.
        object: ResourceSelector,
    },
}

impl Request {
    /// Returns a request for unfinished operations, which also serves to detect a running process.
    pub fn unfinished_operations() -> Self {
        Self::List { app: None, open: true }
    }

    /// Sets the requester to `user`, replacing any existing one.
    pub fn with_requester(mut self, user: String) -> Self {
        match &mut self {
            Self::RequestOperationAction { by, .. }
            | Self::TerminateApplication { by, .. }
            | Self::DeleteApplication { by, .. }
            | Self::RollbackApplication { by, .. }
            | Self::RequestAppSetAction { by, .. }
            | Self::Plans { by, .. }
            | Self::StoredPlan { by, .. }
            | Self::ApprovePlan { by, .. }
            | Self::SyncPlan { by, .. }
            | Self::DeleteApplicationSet { by, .. } => *by = user,
            Self::SyncApplication { operation, .. } | Self::PlanApplication { operation, .. } => {
                operation.initiated_by.username = user
            }
            _ => {}
        }
        self
    }
}

/// Action on an operation, requested by a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum OperationAction {
    /// Terminates the operation.
    Terminate {
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Pauses the operation.
    Pause {
        /// Reason; may be empty.
        reason: String,
    },
    /// Resumes the operation.
    Unpause {
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Confirms the operation's prunes.
    Confirm {
        /// Reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Approves a wave.
    Approve {
        /// Wave number, starting at 1. The default is the wave that is waiting for approval.
        #[serde(default)]
        wave: Option<u32>,
        /// Reason; may be empty.
        reason: String,
    },
    /// Skips, marks as done or retries a task, or all unfinished tasks in a wave.
    Override {
        /// Decision for the task or wave.
        what: Override,
        /// Task or wave to apply the decision to.
        scope: Scope,
        /// Reason; may be empty only for a retry.
        reason: String,
    },
}

impl OperationAction {
    /// Converts the reason to its recorded form.
    pub fn with_reason_line(mut self) -> Self {
        let (Self::Terminate { reason }
        | Self::Pause { reason }
        | Self::Unpause { reason }
        | Self::Confirm { reason }
        | Self::Approve { reason, .. }
        | Self::Override { reason, .. }) = &mut self;
        *reason = normalize_reason(reason);
        self
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Reply to [`Request::List`] and [`Request::Find`].
    Operations(Vec<OperationEntry>),
    /// Reply to [`Request::Inspect`].
    Operation(Box<OperationDetails>),
    /// Reply to [`Request::Facts`].
    Facts {
        /// Events, in order.
        facts: Vec<OperationEvent>,
        /// Sequence number of the first event, or the next sequence number if there are no events. Greater
        /// than 1 if older events were compacted.
        #[serde(default = "first_of_all")]
        first: u64,
        /// Description of the damage to the operation's log, if any.
        damage: Option<String>,
    },
    /// Reply to [`Request::Events`].
    Events(EventPage),
    /// Reply to [`Request::Runs`] and [`Request::FindRuns`].
    Runs(Vec<RunSummary>),
    /// Reply to [`Request::Run`].
    Run(Box<RunWithEvents>),
    /// Reply to [`Request::Output`]: one item of the stream. [`Reply::Done`] ends the stream.
    Output(Output),
    /// Reply to [`Request::Applications`].
    Applications {
        /// Applications, sorted by name.
        applications: Vec<Application>,
        /// Problems with unreadable Applications.
        problems: Vec<String>,
    },
    /// Reply to [`Request::DiffApplication`] and [`Request::DiffPlan`].
    Differences {
        /// Objects, in sync order. Secret values are masked.
        objects: Vec<ObjectDifference>,
        /// Warnings found during the comparison.
        findings: Vec<Warning>,
    },
    /// Reply to [`Request::ApplicationSets`].
    ApplicationSets {
        /// ApplicationSets, sorted by name.
        sets: Vec<ApplicationSet>,
        /// Problems with unreadable ApplicationSets.
        problems: Vec<String>,
        /// Options for all ApplicationSets. Missing in replies from older versions of Tidegate.
        #[serde(default)]
        options: AppSetRuleOptions,
    },
    /// Reply to [`Request::ExplainApplicationSet`].
    ApplicationSet(Box<AppSetExplanation>),
    /// Reply to [`Request::PlanApplicationSetDeletion`].
    Deletion(Box<AppSetDeletionPreview>),
    /// Reply to [`Request::PlanDeletion`].
    DeletionPlan(Box<DeletionPlan>),
    /// Reply to [`Request::SyncWindow`].
    SyncWindow(SyncWindowSummary),
    /// Reply to [`Request::Plans`], and to [`Request::ApprovePlan`] and [`Request::SyncPlan`] once the
    /// approval or sync is durable.
    Plans(Vec<PlanSummary>),
    /// Reply to [`Request::StoredPlan`] and [`Request::PlanApplication`].
    Plan {
        /// Plan summary.
        line: Box<PlanSummary>,
        /// Plan content without Secret values.
        plan: Box<Plan>,
    },
    /// The request is durable, and a process is running the operation.
    Done,
    /// The request is durable, but no process is running the operation.
    Recorded,
    /// The current state does not allow the request.
    Refused(String),
    /// The request is invalid, or its subject doesn't exist.
    BadInput(String),
    /// An internal error.
    Failed(String),
    /// The process is shutting down. Clients should ask another process or read the log.
    Stopping,
}

/// A page of an operation's events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    /// Events, in order.
    pub events: Vec<Event>,
    /// Explanation of missed events, if any.
    pub missed: Option<String>,
    /// Sequence number to continue after.
    pub last: u64,
    /// True if the operation won't emit more events.
    pub is_over: bool,
    /// True if a process is running the operation. `None` if this can't be determined.
    pub is_running: Option<bool>,
}

fn first_of_all() -> u64 {
    1
}

/// An operation's status, and the reasons for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationDetails {
    /// Status.
    pub operation: OperationView,
    /// Reasons for the status.
    pub explanation: ExplanationDocument,
    /// Summary, if all of the operation's events were compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryDocument>,
}
