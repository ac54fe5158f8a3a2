//! Inputs of an operation: responses from the cluster, user requests, and time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{
    ClaimHolder, Digest, Observation, ObservedState, OperationId, OperationPhase, Override, Plan, SafePoint,
    StoredPlanRef, SyncRequest, TaskId, Timestamp,
};

use super::selection::Scope;
use super::state::{ClaimEvent, HookLog, ObjectIdentity, Verdict};

/// Input from outside the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A sync is requested. The manifests are already stored under `targets`.
    Request {
        /// ID of the new operation, chosen by the caller. Rejected if the ID already exists.
        operation: OperationId,
        /// The request: application, destination, options and limits.
        request: Box<SyncRequest>,
        /// Digest of the stored manifests, which are already durable.
        targets: Digest,
        /// Stored plan to execute. `None` if the operation creates its own plan.
        plan: Option<Box<StoredPlanRef>>,
    },
    /// Result of [`Command::Plan`](super::Command): the plan, and the digest of its manifests.
    Planned {
        /// The plan. If it is inconsistent, the operation ends with an error.
        plan: Arc<Plan>,
        /// Digest of the stored manifests of the plan's tasks.
        bundle: Digest,
        /// Observations of the namespaces that the manifests use. Omits namespaces that can't be read.
        namespaces: Vec<NamespaceObservation>,
    },
    /// Result of [`Command::Plan`](super::Command): the cluster couldn't be read.
    PlanFailed(CallError),
    /// Result of [`Command::Plan`](super::Command): the stored plan doesn't match the current cluster. The
    /// operation ends with an error, without writing to the cluster.
    PlanRejected {
        /// Description of the changes since the plan was created.
        reason: String,
    },
    /// State of the claim, or the reason why it couldn't be requested.
    Claim(Result<ClaimEvent, CallError>),
    /// Result of a command for one task.
    Answer {
        /// Position of the task in the plan.
        task: TaskId,
        /// Attempt that issued the command. Results from older attempts are ignored.
        attempt: u32,
        /// The cluster's response, or the error that occurred instead.
        answer: Answer,
    },
    /// A read or watch returned the object of a waiting task, or showed that the object doesn't exist.
    /// Observations may be old or repeated. `Gone` without a UID counts only if the read started
    /// ([`Observation::at`]) after the operation's write.
    Observed {
        /// Position of the waiting task in the plan.
        task: TaskId,
        /// Observation of the object, with the start time of the read.
        observation: Observation,
    },
    /// The hooks of a terminated operation weren't stopped in time. The operation ends anyway, and reports
    /// the hooks that may still be running.
    StopTimeout,
    /// Reason why the object of a waiting task isn't healthy, from the object's events and pods. Empty if no
    /// reason is known. Used only for display.
    Reason {
        /// Position of the task in the plan.
        task: TaskId,
        /// Reason, such as `api-7f is crash-looping`.
        reason: String,
    },
    /// Watches started to fail, or work again. Used only for display.
    WatchStatus {
        /// Message from the cluster, or `None` when watches work again.
        trouble: Option<String>,
        /// Time of the change.
        since: Timestamp,
    },
    /// A namespace that the operation writes to was observed. The observation may be old.
    NamespaceObserved(NamespaceObservation),
    /// Result of [`Command::ReadNamespaces`](super::Command).
    NamespacesRead {
        /// Observations, one per readable namespace.
        namespaces: Vec<NamespaceObservation>,
    },
    /// Verdict of a gate. Duplicates are ignored.
    Gate {
        /// Position of the gate's wave.
        wave: u32,
        /// Name of the gate, such as `window:night`.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
    },
    /// An engine resumes the operation. Gates that were open when the previous engine stopped may be closed
    /// by now.
    Resumed,
    /// Health rules that apply to the operation's objects from now on. Ignored if the rules haven't changed.
    HealthRules {
        /// Digest that identifies the rules.
        digest: Digest,
    },
    /// A user terminates the operation.
    Terminate {
        /// Name of the user, as provided by the caller.
        by: String,
    },
    /// Another sync of the application wants to supersede this operation. Rejected if that would mean
    /// stopping a hook; the caller then tries again later.
    Supersede {
        /// The sync that supersedes this operation.
        by: ClaimHolder,
        /// Points at which the operation may be superseded.
        when: SafePoint,
    },
    /// A user pauses the operation.
    Pause {
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
    },
    /// A user resumes the operation.
    Unpause {
        /// Name of the user, as provided by the caller. May differ from the user who paused the operation.
        by: String,
    },
    /// A user confirms the prunes that are waiting for confirmation.
    ConfirmPrune {
        /// Name of the user, as provided by the caller.
        by: String,
    },
    /// A user approves a wave.
    Approve {
        /// Number of the wave in the plan, starting at 1. `None` for the wave that is waiting for approval.
        wave: Option<u32>,
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
    },
    /// A user skips, marks as done or retries one task, or all unfinished tasks in a wave.
    Override {
        /// Type of override.
        what: Override,
        /// Task or wave to override.
        scope: Scope,
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty only for a retry.
        reason: String,
    },
    /// The engine gives up on the operation, for example after repeated panics.
    Abort {
        /// Human-readable reason. The operation ends in `Error` with this message.
        reason: String,
    },
}

/// Observation of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceObservation {
    /// `metadata.name` of the namespace.
    pub name: String,
    /// Identity of the namespace, or `None` if it doesn't exist.
    pub identity: Option<ObjectIdentity>,
    /// True if the namespace is being deleted.
    pub is_terminating: bool,
}

impl Input {
    /// Returns true for a user request. User requests may be rejected.
    pub const fn is_request(&self) -> bool {
        matches!(
            self,
            Self::Terminate { .. }
                | Self::Supersede { .. }
                | Self::Pause { .. }
                | Self::Unpause { .. }
                | Self::ConfirmPrune { .. }
                | Self::Approve { .. }
                | Self::Override { .. }
        )
    }
}

/// Result of a command for one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Result of [`Command::Check`](super::Command): result of the server-side dry run.
    Checked(Result<DryRunResponse, CallError>),
    /// Result of [`Command::Prune`](super::Command).
    Pruned(Result<PruneResult, CallError>),
    /// Result of [`Command::ClearHook`](super::Command). Also a result of [`Command::Apply`](super::Command)
    /// for a hook when another object with the same name prevents its creation, and for a resource that is
    /// being deleted and must be recreated.
    Cleared(Result<ClearingResult, CallError>),
    /// Result of [`Command::Apply`](super::Command) for a hook: its Job was created suspended.
    Suspended(SuspendedHook),
    /// Result of [`Command::Apply`](super::Command).
    Applied(Result<Box<ApplyResponse>, CallError>),
    /// Result of [`Command::StartHook`](super::Command).
    Started(Result<Box<ApplyResponse>, CallError>),
    /// Result of [`Command::RunHook`](super::Command): the outcome of the runner.
    Ran {
        /// True if the hook succeeded.
        success: bool,
        /// Message from the runner.
        message: String,
    },
    /// Result of [`Command::ReleaseHook`](super::Command): the finalizer was removed.
    Released(Result<(), CallError>),
    /// Result of [`Command::DeleteHook`](super::Command).
    Deleted(Result<(), CallError>),
    /// Result of [`Command::StopHook`](super::Command).
    Stopped(Result<StopResult, CallError>),
    /// Result of [`Command::ReadLogs`](super::Command). Unreadable logs are omitted, so there is never an
    /// error.
    LogsRead {
        /// Reason why the hook isn't healthy, derived from its pods. May be empty.
        reason: String,
        /// Last log lines of the hook's containers.
        logs: Vec<HookLog>,
    },
}

/// Outcome of a prune.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PruneResult {
    /// The object no longer exists, or a different object has its name.
    Gone,
    /// The deletion has started.
    DeletionStarted,
    /// The object was not pruned: since the plan was created, it has moved to another application or gained
    /// an annotation that protects it.
    LeftAlone {
        /// Reason, as shown in results, such as `ignored (no prune)`.
        reason: String,
    },
}

/// Result of checking the name of a new hook for an existing object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClearingResult {
    /// No object has this name, or the hook's deletion policy keeps the existing object.
    Clear,
    /// The object is the operation's own hook, created in this attempt before a crash. It is adopted.
    Adopted(Box<ApplyResponse>),
    /// The object is the operation's own hook, created suspended in this attempt before a crash.
    Suspended(SuspendedHook),
    /// The object is from an earlier operation or attempt, and is now being deleted.
    Deleting {
        /// `metadata.uid` of the older object.
        uid: String,
    },
    /// The object is another operation's running hook. Only that operation may end it.
    Occupied {
        /// ID of the other operation, from the annotation on the hook.
        operation: String,
        /// `metadata.uid` of the other operation's hook.
        uid: String,
        /// `metadata.resourceVersion` of the hook when it was read. The operation ignores older observations.
        resource_version: String,
    },
}

/// A hook's Job that was created suspended and hasn't been started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspendedHook {
    /// `metadata.uid` of the Job.
    pub uid: String,
    /// Action in kubectl's format, such as `job.batch/migrate created`.
    pub message: String,
    /// Warnings that the cluster returned for the creation.
    pub warnings: Vec<String>,
}

/// The cluster's response to a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunResponse {
    /// Message from the cluster. May be empty.
    pub message: String,
    /// Warnings that the cluster returned.
    pub warnings: Vec<String>,
}

/// The cluster's response to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyResponse {
    /// `metadata.uid` of the written object.
    pub uid: String,
    /// `metadata.resourceVersion` after the write. The operation ignores older observations.
    pub resource_version: String,
    /// `metadata.generation`, or 0 for kinds without one.
    pub generation: i64,
    /// Action in kubectl's format, such as `deployment.apps/api serverside-applied`.
    pub message: String,
    /// The object in the response.
    pub observed: ObservedState,
    /// Warnings that the cluster returned.
    pub warnings: Vec<String>,
}

/// Result of stopping a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopResult {
    /// [`OperationPhase::Running`] if the hook was still running and was deleted. Otherwise, the hook's final
    /// phase. Without an object, [`OperationPhase::Succeeded`] with the message `Terminated`.
    pub phase: OperationPhase,
    /// Health message. May be empty.
    pub message: String,
    /// True if the object was deleted or no longer existed.
    pub is_gone: bool,
}

/// Error from a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// True if the same call may succeed later.
    pub is_transient: bool,
    /// True if the cluster is unreachable, or currently rejects all calls from this client. The request isn't
    /// at fault, so the call is retried until a deadline passes.
    pub is_outage: bool,
    /// True if the call gets only a few attempts. Either each attempt takes long because a cluster backend
    /// times out, or the error is probably permanent because another object uses the requested resource.
    pub has_few_retries: bool,
    /// Delay requested by the server, if any.
    pub retry_after: Option<Duration>,
    /// Message from the cluster or the connection.
    pub message: String,
}

impl CallError {
    /// Creates an error that a retry won't fix.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self {
            is_transient: false,
            is_outage: false,
            has_few_retries: false,
            retry_after: None,
            message: message.into(),
        }
    }

    /// Creates a temporary error.
    pub fn transient(message: impl Into<String>) -> Self {
        Self {
            is_transient: true,
            is_outage: false,
            has_few_retries: false,
            retry_after: None,
            message: message.into(),
        }
    }

    /// Creates the error for an unreachable cluster.
    pub fn outage(message: impl Into<String>) -> Self {
        Self {
            is_transient: true,
            is_outage: true,
            has_few_retries: false,
            retry_after: None,
            message: message.into(),
        }
    }

    /// Returns the delay before the next call, after `failed` earlier failures. It doubles with each failure.
    pub(crate) fn retry_delay(&self, first: Duration, failed: u32, longest: Duration) -> Duration {
        // A delay requested by the server is neither doubled nor capped, but is never shorter than `first`.
        let wait = || first.saturating_mul(2_u32.saturating_pow(failed)).min(longest);
        self.retry_after.map_or_else(wait, |asked| asked.max(first))
    }
}
