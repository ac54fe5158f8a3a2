//! Inputs of the machine, and the effects that it decides on.

use std::collections::BTreeSet;

use tidegate_model::argo::{Application, ComparedTo, OperationRequest};
use tidegate_model::{ClaimHolder, Digest, OperationId, OperationPhase, PlanApproval, SafePoint, Timestamp};

use super::PreparationId;
use crate::AppKey;
use crate::approval::PlanRequesters;
use crate::comparison::ComparisonOutcome;
use crate::operation::EngineProgress;
use crate::refresh::RefreshLevel;
use crate::rollout_operation::Deployment;
use crate::supersede::ManifestComparison;

/// Input that may change the state or make work due.
pub enum Input {
    /// Work may be due.
    Step,
    /// The resource has changed.
    Changed(Box<ChangedResource>),
    /// A comparison is requested.
    Compare(RefreshLevel),
    /// A client requests a comparison and waits for its result.
    Refresh {
        /// Level of the comparison.
        level: RefreshLevel,
        /// The request.
        request: RefreshId,
    },
    /// At least one of the objects has changed.
    ObjectChanged,
    /// A comparison has finished.
    Compared(Box<FinishedComparison>),
    /// The operation has been prepared: its revisions, and its ID.
    Prepared {
        /// The preparation.
        preparation: PreparationId,
        /// The result.
        result: Result<(Vec<String>, OperationId), String>,
    },
    /// An operation is waiting before it reaches the engine.
    Waiting {
        /// The operation.
        operation: OperationId,
        /// Reason for the wait.
        reason: String,
    },
    /// The operation has made progress.
    Progress {
        /// The operation.
        operation: OperationId,
        /// The new state.
        progress: Box<EngineProgress>,
    },
    /// A plan may be outdated.
    PlanStale,
    /// The operation has been planned, or its plan checked.
    PlanChecked {
        /// The operation that was planned.
        request: Box<OperationRequest>,
        /// The result.
        check: PlanCheck,
    },
    /// The manifests at deployed revisions have been compared with those of a child operation.
    RevisionsCompared {
        /// The child operation.
        operation: OperationId,
        /// The deployed revisions.
        deployed: Vec<String>,
        /// True if the manifests are the same.
        result: Result<bool, String>,
    },
    /// The alarm went off.
    Wake,
    /// Outcome of the last call.
    Outcome(Outcome),
}

/// The resource, as read from the store.
pub struct ChangedResource {
    /// The new resource.
    pub application: Application,
    /// Reason why the specification is invalid.
    pub problem: Option<String>,
}

/// Action of the controller.
#[derive(Debug)]
pub enum Effect {
    /// Starts a comparison: [`Input::Compared`].
    Compare(Box<ComparisonStart>),
    /// Compares the manifests at two sets of revisions: [`Input::RevisionsCompared`].
    CompareRevisions {
        /// The child operation.
        operation: OperationId,
        /// Revisions of the child operation.
        target: Vec<String>,
        /// Revisions that were deployed.
        deployed: Vec<String>,
    },
    /// Prepares the operation: [`Input::Prepared`].
    Prepare(PreparationId),
    /// Hands the operation over to the engine and follows it: [`Input::Progress`], [`Input::Waiting`].
    Run {
        /// The operation.
        operation: OperationId,
        /// True if the engine can't have the operation yet, because this process has created its ID and
        /// hands it over for the first time.
        is_new: bool,
    },
    /// Plans the operation or checks its plan: [`Input::PlanChecked`].
    CheckPlan {
        /// The plan to check. `None` creates a plan.
        plan: Option<Digest>,
    },
    /// Withdraws an obsolete plan.
    WithdrawPlan {
        /// Hash of the plan.
        plan: Digest,
    },
    /// Announces that an operation was rejected.
    AnnounceRefusal {
        /// Reason for the rejection.
        reason: String,
    },
    /// Sends a child operation's progress to its progressive sync.
    Report {
        /// The child operation.
        operation: OperationId,
        /// The progress.
        report: ChildReport,
    },
    /// Answers a request for a comparison.
    AnswerRefresh {
        /// The request.
        request: RefreshId,
        /// The answer.
        answer: Result<(), String>,
    },
    /// Registers the application's dependencies, and notifies those that were added or removed. If there are
    /// any, the machine must step again, because a dependency may have changed before it was registered.
    RegisterDependencies(BTreeSet<AppKey>),
    /// Compares another application.
    CompareOther(AppKey),
    /// Publishes the application.
    Publish,
    /// Checks whether projects can be released, because the application has left one.
    ReleaseProjects,
    /// Sets an alarm, unless an earlier one is set: [`Input::Wake`].
    Wake(Timestamp),
    /// Makes the machine step again.
    Again,
}

/// Call whose outcome the machine awaits before it continues the step.
#[derive(Debug)]
pub enum Call {
    /// Stops the handover of the operation, and asks whether the engine has it: [`Outcome::HandoverStopped`].
    StopHandover {
        /// The operation, if it has an ID.
        operation: Option<OperationId>,
    },
    /// Removes the controller's finalizers: [`Outcome::Released`].
    Release,
    /// Confirms the running operation's deletions: [`Outcome::Confirmed`].
    ConfirmDeletions {
        /// The operation.
        operation: OperationId,
        /// Reason for the confirmation.
        reason: String,
    },
    /// Stores the application if a write is due: [`Outcome::Stored`].
    Store,
    /// Stops the operation in favor of another: [`Outcome::Superseded`].
    Supersede {
        /// The operation.
        operation: OperationId,
        /// Its successor.
        by: ClaimHolder,
        /// Point at which it may stop.
        when: SafePoint,
    },
    /// Looks up whether the engine or the log has the operation: [`Outcome::Durable`].
    FindOperation(OperationId),
}

/// Effects of an input, in order, followed by a call.
#[derive(Debug)]
pub struct Decision {
    /// Effects whose results arrive as later inputs, if they have any.
    pub effects: Vec<Effect>,
    /// Call to make after the effects. Its outcome is the next input: [`Input::Outcome`].
    pub call: Option<Call>,
}

/// Outcome of a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handover was stopped.
    HandoverStopped {
        /// True if the engine has the operation.
        is_begun: bool,
    },
    /// The finalizers were removed, or the write failed.
    Released {
        /// True if the finalizers were removed.
        is_released: bool,
    },
    /// The deletions were confirmed, or the operation doesn't accept a confirmation now.
    Confirmed {
        /// True if the operation accepted the confirmation.
        is_accepted: bool,
    },
    /// The application was stored, or need not be.
    Stored {
        /// False if the stored state is outdated.
        is_stored: bool,
    },
    /// The operation was stopped, or the reason why it can't be.
    Superseded(Result<(), String>),
    /// The operation was looked up.
    Durable {
        /// True if a crash can't lose the operation.
        is_durable: bool,
    },
}

/// Client's request for a comparison. The controller assigns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefreshId(pub u64);

/// State at the start of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonStart {
    /// Sources and destination.
    pub compared_to: ComparedTo,
    /// Level of the comparison.
    pub level: RefreshLevel,
    /// Value of the refresh annotation.
    pub refresh_annotation: Option<String>,
    /// Newest deployment.
    pub newest_deployment: Option<Deployment>,
    /// Number of operations that have finished.
    pub ended_operations: u64,
    /// False if the results of the previous comparison must not be reused. The watches may not have reported
    /// all writes of an operation yet.
    pub may_reuse_results: bool,
}

/// Relation between the compared manifests and the manifests that the running operation is deploying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationRelation {
    /// The running operation, if any.
    pub operation: Option<OperationId>,
    /// Result of comparing the manifests. Unknown if the comparison has failed.
    pub newest: ManifestComparison,
}

/// Result of a comparison.
pub struct FinishedComparison {
    /// State at the start.
    pub start: ComparisonStart,
    /// Time at which it read the manifests.
    pub began_at: Timestamp,
    /// The outcome.
    pub outcome: ComparisonOutcome,
    /// Relation to the running operation.
    pub operation_relation: OperationRelation,
    /// True if the cluster denies access to the objects. No event reports when access is granted.
    pub is_access_denied: bool,
    /// True if objects were read.
    pub has_objects: bool,
}

/// A stored plan that is waiting for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPlan {
    /// Hash of the plan.
    pub hash: Digest,
    /// Requester of the plan.
    pub author: String,
    /// Approvals, in order.
    pub approvals: Vec<PlanApproval>,
    /// Summary of the plan's actions and its revision.
    pub description: String,
    /// Revisions of the manifests, in source order.
    pub revisions: Vec<String>,
}

impl PendingPlan {
    /// Returns the creator of this plan and the requester of an operation that executes the plan.
    pub fn requesters<'a>(&'a self, request: &'a OperationRequest) -> PlanRequesters<'a> {
        PlanRequesters::for_execution(&self.author, request)
    }
}

/// Result of planning an operation or of checking its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanCheck {
    /// The stored plan is still current.
    Current,
    /// This plan was stored and replaces any earlier plan.
    Stored(Box<PendingPlan>),
    /// No plan could be created.
    Unplanned(PlanFailure),
}

/// Cause of a missing plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFailure {
    /// The operation can't start as requested.
    Invalid(String),
    /// The plan can't be created now, but may be created later.
    Unavailable(String),
}

/// Progress of a child operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildReport {
    /// A sync window delays the start.
    Delayed {
        /// Description of the sync window and its end.
        window: String,
    },
    /// The operation's plan isn't approved.
    Unapproved {
        /// Description of the plan and the approval that it requires.
        plan: String,
    },
    /// The operation has started.
    Started,
    /// The operation doesn't start, because another one has already deployed the same target.
    Deployed {
        /// The other operation.
        operation: OperationId,
    },
    /// The operation has finished.
    Ended {
        /// Final phase.
        phase: OperationPhase,
        /// Final message.
        message: String,
    },
    /// The operation can't start as requested.
    Refused(String),
    /// The operation can't start now, but may start later.
    Unavailable(String),
    /// The cluster is unreachable.
    Unreachable(String),
}
