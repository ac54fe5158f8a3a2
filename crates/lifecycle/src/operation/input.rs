//! Inputs of an operation: answers from the cluster, people's requests, and time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{
    ClaimHolder, Digest, Observation, ObservedState, OperationId, OperationPhase, Override, Plan, SafePoint,
    StoredPlanRef, SyncRequest, TaskId, Timestamp,
};

use super::selection::Scope;
use super::state::{ClaimEvent, HookLog, ObjectIdentity, Verdict};

/// One input from outside of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Request for a sync. The manifests are already stored under `targets`.
    Request {
        /// Id of the new operation, chosen by the caller. An existing id is rejected.
        operation: OperationId,
        /// Request: application, destination, options and limits.
        request: Box<SyncRequest>,
        /// Digest under which the log stores the manifests. They are already durable.
        targets: Digest,
        /// Stored plan to execute. `None` if the operation makes its own plan.
        plan: Option<Box<StoredPlanRef>>,
    },
    /// Answer to [`Command::Plan`](super::Command): the plan, and the digest of its manifests.
    Planned {
        /// The plan. An inconsistent plan ends the operation with an error.
        plan: Arc<Plan>,
        /// Digest under which the log stores the manifests of its tasks.
        bundle: Digest,
        /// Observations of the manifests' namespaces that are readable.
        namespaces: Vec<NamespaceObservation>,
    },
    /// Answer to [`Command::Plan`](super::Command): the cluster couldn't be read.
    PlanFailed(CallError),
    /// Answer to [`Command::Plan`](super::Command): the stored plan doesn't match the current cluster. The operation
    /// ends with an error, without writing to the cluster.
    PlanRejected {
        /// Changes since the plan was made, as text.
        reason: String,
    },
    /// State of the claim, or the reason why it couldn't be requested.
    Claim(Result<ClaimEvent, CallError>),
    /// Answer to a command about one task.
    Answer {
        /// Position of the task in the plan.
        task: TaskId,
        /// Attempt that the command belongs to. Answers to older attempts are ignored.
        attempt: u32,
        /// Answer from the cluster, or the reason why there is none.
        answer: Answer,
    },
    /// An awaited object was observed, or was observed to be gone. Observations may be old or repeated. `Gone` without
    /// a UID counts only if the read started ([`Observation::at`]) after our write.
    Observed {
        /// Position in the plan of the task that is waiting for the object.
        task: TaskId,
        /// Observed object, with the start of the read.
        observation: Observation,
    },
    /// The hooks of an operation that a person terminated weren't stopped in time. The operation ends without stopping
    /// them, and names the hooks that may still be running.
    StopTimeout,
    /// Reason why the object of an awaited task isn't healthy, from its events and pods. Empty if there is none. Only
    /// for display.
    Reason {
        /// Position of the task in the plan.
        task: TaskId,
        /// Reason, such as `api-7f is crash-looping`.
        reason: String,
    },
    /// Watches are failing, or are working again. Only for display.
    WatchStatus {
        /// Message of the cluster; `None` when watches work again.
        trouble: Option<String>,
        /// Start of this condition.
        since: Timestamp,
    },
    /// Observation of a namespace that the operation writes to. The observation may be old.
    NamespaceObserved(NamespaceObservation),
    /// Answer to [`Command::ReadNamespaces`](super::Command), with the namespaces that are readable.
    NamespacesRead {
        /// One observation per readable namespace.
        namespaces: Vec<NamespaceObservation>,
    },
    /// Verdict of a gate. A repeated verdict is ignored.
    Gate {
        /// Position of the wave for which the gate was queried.
        wave: u32,
        /// Name of the gate in the wave, such as `window:night`.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
    },
    /// An engine resumes the operation. Gates that were open when the previous engine stopped may be closed by now.
    Resumed,
    /// Objects are judged by these health rules from now on. Ignored if the rules haven't changed.
    HealthRules {
        /// Digest that identifies the rules.
        digest: Digest,
    },
    /// A person terminates the operation.
    Terminate {
        /// Name of the person, as the caller gives it.
        by: String,
    },
    /// Another sync of the application supersedes the operation. Rejected unless the operation can end now without
    /// stopping any of its hooks. The caller repeats the request later.
    Supersede {
        /// The sync that takes its place.
        by: ClaimHolder,
        /// Points at which the operation may be superseded.
        when: SafePoint,
    },
    /// A person pauses the operation.
    Pause {
        /// Name of the person, as the caller gives it.
        by: String,
        /// Reason; may be empty.
        reason: String,
    },
    /// A person resumes the operation.
    Unpause {
        /// Name of the person, as the caller gives it. Not necessarily the person who paused the operation.
        by: String,
    },
    /// A person confirms the prunes that are waiting for confirmation.
    ConfirmPrune {
        /// Name of the person, as the caller gives it.
        by: String,
    },
    /// A person approves a wave.
    Approve {
        /// Number in the plan, counted from 1. `None` for the wave that is waiting for approval now.
        wave: Option<u32>,
        /// Name of the person, as the caller gives it.
        by: String,
        /// Reason; may be empty.
        reason: String,
    },
    /// A person skips, marks as done or retries one task, or the unfinished tasks of a wave.
    Override {
        /// Decision.
        what: Override,
        /// Task or wave.
        scope: Scope,
        /// Name of the person, as the caller gives it.
        by: String,
        /// Reason; may be empty only for a retry.
        reason: String,
    },
    /// The engine itself gives up on the operation, for example after repeated panics.
    Abort {
        /// Reason, for people. The operation ends in `Error` with this message.
        reason: String,
    },
}

/// Observation of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceObservation {
    /// `metadata.name` of the namespace.
    pub name: String,
    /// Identity of the existing namespace. `None` if the namespace doesn't exist.
    pub identity: Option<ObjectIdentity>,
    /// True if it is being deleted.
    pub is_terminating: bool,
}

impl Input {
    /// Returns true for a person's request, which may be rejected.
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

/// Answer to a command about one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Command::Check`](super::Command): result of the dry run on the server.
    Checked(Result<DryRunResponse, CallError>),
    /// To [`Command::Prune`](super::Command).
    Pruned(Result<PruneResult, CallError>),
    /// To [`Command::ClearHook`](super::Command). Also to [`Command::Apply`](super::Command) for a hook whose place is
    /// taken again, and for a resource that is being deleted and must be created again.
    Cleared(Result<ClearingResult, CallError>),
    /// To [`Command::Apply`](super::Command).
    Applied(Result<Box<ApplyResponse>, CallError>),
    /// To [`Command::RunHook`](super::Command): the outcome of the runner.
    Ran {
        /// True if the hook succeeded.
        success: bool,
        /// Message of the runner.
        message: String,
    },
    /// To [`Command::ReleaseHook`](super::Command): the finalizer is removed.
    Released(Result<(), CallError>),
    /// To [`Command::DeleteHook`](super::Command).
    Deleted(Result<(), CallError>),
    /// To [`Command::StopHook`](super::Command).
    Stopped(Result<StopResult, CallError>),
    /// To [`Command::ReadLogs`](super::Command). It never fails: logs that can't be read are omitted.
    LogsRead {
        /// Reason why the hook isn't healthy, from its pods. May be empty.
        reason: String,
        /// Last log lines of its containers.
        logs: Vec<HookLog>,
    },
}

/// Outcome of a prune.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PruneResult {
    /// The object is gone, or another object has its name.
    Gone,
    /// The deletion has started.
    DeletionStarted,
    /// The object was left alone: after planning, it was moved to another application, or marked to be kept.
    LeftAlone {
        /// Reason, as shown in results, such as `ignored (no prune)`.
        reason: String,
    },
}

/// Existing object with the name of a hook that is about to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClearingResult {
    /// There is no object, or the hook's delete policy keeps the object.
    Clear,
    /// The operation's own hook from this attempt, which was created before a crash and is adopted.
    Adopted(Box<ApplyResponse>),
    /// An object of an earlier operation or attempt. It is being deleted now.
    Deleting {
        /// `metadata.uid` of the older object.
        uid: String,
    },
    /// Another operation's running hook. Only that operation may end it.
    Occupied {
        /// Id of the other operation, from the mark on the hook.
        operation: String,
        /// `metadata.uid` of the other operation's hook.
        uid: String,
        /// `metadata.resourceVersion` of the hook when it was found. Older observations are ignored.
        resource_version: String,
    },
}

/// The cluster's answer to a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunResponse {
    /// Message of the cluster; may be empty.
    pub message: String,
    /// Warnings of the cluster.
    pub warnings: Vec<String>,
}

/// The cluster's answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyResponse {
    /// `metadata.uid` of the written object.
    pub uid: String,
    /// `metadata.resourceVersion` after the write. Older observations don't count.
    pub resource_version: String,
    /// `metadata.generation`, 0 if the kind has none.
    pub generation: i64,
    /// Action in kubectl's format, such as `deployment.apps/api serverside-applied`.
    pub message: String,
    /// The object in the response.
    pub observed: ObservedState,
    /// Warnings of the cluster.
    pub warnings: Vec<String>,
}

/// Result of stopping a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopResult {
    /// [`OperationPhase::Running`] if the hook was still running and was deleted; otherwise the phase in which it had
    /// ended. [`OperationPhase::Succeeded`] with the message `Terminated` if the operation's object didn't exist.
    pub phase: OperationPhase,
    /// Health message; may be empty.
    pub message: String,
    /// True if the object was deleted or already gone.
    pub is_gone: bool,
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// True if the same call may succeed later.
    pub is_transient: bool,
    /// True if the cluster is unreachable, or currently accepts no calls from us. The request isn't the cause, so the
    /// call is repeated for as long as deadlines allow.
    pub is_outage: bool,
    /// True if only a few calls are made before the failure counts. Either each call takes a long time because a
    /// backend of the cluster times out, or most of these failures are permanent because another object holds the
    /// requested resource.
    pub has_few_retries: bool,
    /// Wait that the server requested. `None` if it didn't request a wait.
    pub retry_after: Option<Duration>,
    /// Message from the cluster or the connection.
    pub message: String,
}

impl CallError {
    /// Creates an error that the same call will encounter again.
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

    /// Creates the error of an unreachable cluster.
    pub fn outage(message: impl Into<String>) -> Self {
        Self {
            is_transient: true,
            is_outage: true,
            has_few_retries: false,
            retry_after: None,
            message: message.into(),
        }
    }

    /// Returns the wait before the next call after `failed` earlier failures. The wait doubles each time.
    pub(crate) fn retry_delay(&self, first: Duration, failed: u32, longest: Duration) -> Duration {
        // A wait that the server requested is not extended.
        let wait = || first.saturating_mul(2_u32.saturating_pow(failed)).min(longest);
        self.retry_after.map_or_else(wait, |asked| asked.max(first))
    }
}
