//! Recorded events. They are append-only: variants are never removed or reordered, because logs contain them.
//! If a field of a variant changes, the variant gets the next kind number, and `read_earlier` reads its old
//! layout.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Digest, Health, OperationId, OperationPhase, Override, Plan, StoredPlanRef, SyncRequest, TaskId,
    Timestamp,
};

use super::state::{AppliedRef, ClaimEvent, HookLog, Loss, ObjectIdentity, Occupant, Stage, Verdict};

/// A recorded event of an operation.
///
/// All times come from the engine that decided the event. A task is identified by its position in the newest
/// plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OperationEvent {
    /// The operation was accepted. It exists from this event on.
    Accepted {
        /// ID of the operation and of its stream in the log.
        operation: OperationId,
        /// The request: application, destination, options and limits. Later steps read these values only from
        /// here.
        request: Box<SyncRequest>,
        /// Digest under which the log stores the submitted manifests, as they were before planning.
        targets: Digest,
        /// `startedAt` of the operation, from which its deadline is measured.
        at: Timestamp,
    },
    /// The plan is fixed. If the operation is resumed, it uses this plan.
    Planned {
        /// Complete work of the operation, until an attempt creates a new plan.
        plan: Arc<Plan>,
        /// Digest under which the log stores the manifests of the plan's tasks.
        bundle: Digest,
        /// Time at which the plan was accepted. The cluster was read before this time.
        at: Timestamp,
    },
    /// The state machine made a transition.
    StageChanged {
        /// New stage.
        to: Stage,
        /// Time of the transition. The times of a wave are derived from it.
        at: Timestamp,
    },
    /// A gate returned a verdict for the current wave.
    GateEvaluated {
        /// Name of the gate, such as `window:night`.
        gate: String,
        /// Verdict: open, or closed with the reason. A repeated verdict isn't recorded.
        verdict: Verdict,
        /// Time at which the verdict arrived, or at which an earlier verdict was withdrawn after a restart.
        at: Timestamp,
    },
    /// A dry run showed that the server would accept the manifest.
    DryRunPassed {
        /// Task of the manifest.
        task: TaskId,
        /// The server's message. Stored only if the whole operation is a dry run.
        message: String,
    },
    /// A dry run showed that the server would reject the manifest.
    DryRunFailed {
        /// Task of the manifest. The task has failed.
        task: TaskId,
        /// The server's message, which becomes the task's message.
        message: String,
    },
    /// A call failed with a transient error and is retried at `retry_at`.
    CallFailed {
        /// Task of the call. `None` for calls before there is a plan: planning, and acquiring the claim.
        task: Option<TaskId>,
        /// Message from the cluster or the connection.
        message: String,
        /// Time of the next call. The delay doubles with each failure, unless the server requested a specific
        /// delay.
        retry_at: Timestamp,
        /// Time at which the failure was received.
        at: Timestamp,
        /// True if the cluster doesn't respond at all, false if only this call failed.
        outage: bool,
    },
    /// The deletion of a pruned object was requested, and the object no longer exists.
    ObjectDeleted {
        /// The prune. Its object has the UID recorded in the plan.
        task: TaskId,
    },
    /// The name of a hook is free (`deleting` is `None`), or an older object with this name is being deleted.
    HookCleared {
        /// Hook that will be created under this name.
        task: TaskId,
        /// UID of the object that is being deleted, or `None` if the hook may be created.
        deleting: Option<String>,
    },
    /// An object that was being deleted no longer exists.
    DeletionCompleted {
        /// Task that was waiting for the deletion: a prune, a hook whose name was taken, or a resource that
        /// must be recreated.
        task: TaskId,
    },
    /// The manifest was applied, or the operation's own hook was adopted.
    Applied {
        /// Task of the manifest. Its `status` is `Synced` from this event on.
        task: TaskId,
        /// The object and its version, with which later observations are compared.
        applied: AppliedRef,
        /// The cluster's message, which becomes the task's message.
        message: String,
        /// True if the kind doesn't have a health status to wait for, so the task is done. Never true for a
        /// hook.
        done: bool,
    },
    /// A hook runner is about to be called.
    RunnerStarted {
        /// The hook. After a crash, its runner may be called again. The event is therefore durable before the
        /// call.
        task: TaskId,
        /// Time from which the hook's deadline is measured.
        at: Timestamp,
    },
    /// The health of an awaited object changed.
    HealthChanged {
        /// Task that applied the object.
        task: TaskId,
        /// Health according to the health rules. It doesn't decide the outcome of the task, at least not yet.
        health: Health,
        /// True if the health refers to the spec that the operation wrote. Otherwise, the operation waits
        /// before it relies on the health.
        fresh: bool,
        /// Time at which the observation was received.
        at: Timestamp,
    },
    /// An applied task has ended. Its `status` remains `Synced`.
    TaskCompleted {
        /// Task that was applied or passed to a runner, or a prune that did not delete its object or timed
        /// out.
        task: TaskId,
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Health message. If it is empty, the earlier message remains.
        message: String,
        /// Time at which the deciding observation or result was received, or at which the task timed out.
        at: Timestamp,
    },
    /// A task was rejected. Its `status` is `SyncFailed`.
    TaskFailed {
        /// Task that the cluster rejected, or whose object has disappeared.
        task: TaskId,
        /// `Failed` if the cluster rejected a manifest or a prune. `Error` if an object has disappeared or
        /// the name of a hook couldn't be freed.
        phase: OperationPhase,
        /// Message from the cluster, or Tidegate's own message if the cluster didn't reject a call. It
        /// becomes the task's message.
        message: String,
        /// Time at which the rejection was received.
        at: Timestamp,
    },
    /// The hook finalizer was removed.
    HookFinalizerRemoved {
        /// The hook, which has ended.
        task: TaskId,
    },
    /// The hook object was deleted according to its policy, or couldn't be deleted.
    HookDeleted {
        /// The hook. The operation doesn't touch its object after this event.
        task: TaskId,
        /// Error from the deletion, in which case the hook ends in `Error`. `None` if the object was deleted.
        error: Option<String>,
    },
    /// A deadline passed.
    DeadlineExceeded {
        /// Operation, wave or hook that had the deadline.
        scope: DeadlineScope,
        /// Message with the length of the deadline. It becomes the message of everything that the deadline
        /// ends.
        message: String,
        /// Time at which an engine noticed that the deadline had passed. If no engine was running, this is
        /// later than the deadline.
        at: Timestamp,
    },
    /// A hook was stopped.
    HookStopped {
        /// Hook that had to stop because its own or its wave's deadline passed, its namespace was lost, or
        /// the operation is being terminated.
        task: TaskId,
        /// Phase in which the hook ended, or `Failed` if it was still running or couldn't be stopped. While
        /// the operation is being terminated, the phase can also be `Succeeded`, if the hook didn't have an
        /// object.
        phase: OperationPhase,
        /// Health message, reason for the stop, or reason why the hook couldn't be deleted. If it is empty,
        /// the earlier message remains.
        message: String,
        /// True if the hook was stopped. Otherwise, the termination had errors.
        clean: bool,
    },
    /// This attempt failed.
    AttemptFailed {
        /// Final message of the operation if no other attempt follows.
        message: String,
        /// True if another attempt might have a different outcome. Another attempt then follows, if the
        /// request's limit allows it.
        retriable: bool,
        /// Time of the decision.
        at: Timestamp,
    },
    /// Another attempt started.
    RetryStarted {
        /// Number of the attempt. The first attempt is 1.
        attempt: u32,
        /// Time at which the wait before the attempt ended.
        at: Timestamp,
    },
    /// A person terminated the operation.
    TerminationRequested {
        /// Name of the person, as provided by the caller.
        by: String,
        /// Time at which the request was received.
        at: Timestamp,
    },
    /// A person paused the operation.
    Paused {
        /// Name of the person, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
        /// Time at which the request was received. From then on, time doesn't count toward deadlines.
        at: Timestamp,
    },
    /// A person resumed the operation.
    Unpaused {
        /// Name of the person, as provided by the caller. May differ from the person who paused the
        /// operation.
        by: String,
        /// Time at which the request was received. Deadlines are postponed by the length of the pause.
        at: Timestamp,
    },
    /// A person confirmed the prunes that were waiting for confirmation.
    PruneConfirmed {
        /// Name of the person, as provided by the caller.
        by: String,
        /// Time at which the request was received. The confirmation is valid for all waves of the plan.
        at: Timestamp,
    },
    /// The operation has finished.
    Finished {
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Final message of the operation.
        message: String,
        /// `finishedAt` of the operation.
        at: Timestamp,
    },
    /// The reason why an awaited object isn't healthy, derived from its pods, or the reason why an object
    /// that is being deleted still exists.
    ReasonChanged {
        /// Task whose object is awaited or being deleted.
        task: TaskId,
        /// Reason as text. Empty if the reason no longer applies.
        reason: String,
        /// Time at which the reason was received.
        at: Timestamp,
    },
    /// Last log lines of a failed hook, read before its object is deleted.
    LogsStored {
        /// The hook.
        task: TaskId,
        /// Reason for the failure, derived from the hook's pods. May be empty.
        reason: String,
        /// Last log lines of the hook's containers. Empty if logs aren't available.
        logs: Vec<HookLog>,
    },
    /// Watches are failing, or are working again.
    WatchChanged {
        /// Message from the cluster, or `None` when watches work again.
        trouble: Option<String>,
        /// Time at which this condition started. Never later than the time at which the report was received.
        at: Timestamp,
    },
    /// Another operation's hook with the same name is still running, or has stopped running (`by` is `None`).
    HookNameInUse {
        /// Hook that is waiting for its name.
        task: TaskId,
        /// The other operation's hook, as read from the cluster.
        by: Option<Occupant>,
    },
    /// The cluster accepted a manifest, or would accept it, with warnings: the manifest is deprecated, or
    /// violates a policy that only warns.
    WarningsReceived {
        /// Task of the manifest.
        task: TaskId,
        /// All warnings that the cluster returned for the newest write or dry run. They replace earlier
        /// warnings.
        warnings: Vec<String>,
    },
    /// The operation's claim changed.
    ClaimChanged {
        /// Claim event, as reported by the claim keeper.
        news: ClaimEvent,
        /// Time at which the claim event was received.
        at: Timestamp,
    },
    /// The deletion of a pruned object was requested, and the object is being deleted. It counts as pruned
    /// once an observation shows that it no longer exists.
    DeletionStarted {
        /// The prune. Its object has the UID recorded in the plan.
        task: TaskId,
    },
    /// A person approved a wave.
    Approved {
        /// Position in the plan, starting at 0. User interfaces start at 1.
        wave: u32,
        /// Name of the person, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
        /// Time at which the request was received. This may be long before the wave starts.
        at: Timestamp,
    },
    /// Namespaces that the operation writes to were observed for the first time. A namespace that is created
    /// later under the same name is a different namespace.
    NamespacesObserved {
        /// Names and identities of the namespaces.
        namespaces: Vec<(String, ObjectIdentity)>,
    },
    /// A namespace that the operation writes to was lost with everything in it. The current wave, if any,
    /// fails.
    NamespaceLost {
        /// `metadata.name` of the namespace. The next attempt creates a new plan.
        namespace: String,
        /// Reason for the loss.
        loss: Loss,
        /// Time at which the observation was received.
        at: Timestamp,
    },
    /// Another attempt starts, with its own plan.
    ReplanStarted {
        /// Number of the attempt. The first attempt is 1.
        attempt: u32,
        /// Time at which the wait before the attempt ended.
        at: Timestamp,
    },
    /// A resource is being deleted, either because the operation requested it (no write could change the
    /// resource) or because another client is deleting it. Once the resource no longer exists, it is
    /// recreated.
    RecreationStarted {
        /// Task of the resource. The task waits until the object no longer exists.
        task: TaskId,
        /// UID of the object that is being deleted.
        uid: String,
    },
    /// From this event on, these health rules apply to the operation's objects. Before the first such event,
    /// no objects were assessed.
    HealthRulesSet {
        /// Digest by which the engine distinguishes sets of health rules.
        digest: Digest,
        /// Time from which the rules apply to this operation.
        at: Timestamp,
    },
    /// A user skipped a task, marked it as done, or retried it. If the request was for a wave, there is one
    /// event per task.
    Overridden {
        /// The task. If it is a hook that may be running, the hook is stopped first.
        task: TaskId,
        /// Type of override. It also applies to later attempts, as long as they use the same plan.
        what: Override,
        /// Name of the person, as provided by the caller.
        by: String,
        /// Reason. Empty only for a retry.
        reason: String,
        /// Time at which the request was received.
        at: Timestamp,
    },
    /// The operation executes a stored plan, either unchanged or not at all.
    StoredPlanUsed {
        /// The plan and its approvals.
        plan: Box<StoredPlanRef>,
        /// Start of the operation.
        at: Timestamp,
    },
}

/// Operation, wave or hook that a deadline applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlineScope {
    /// The operation. Its deadline is measured from its start and is set by the request.
    Operation,
    /// The current wave. Its deadline is measured from its opening and is set by the wave's timeout.
    Wave,
    /// A hook. Its deadline is measured from when the hook was applied or passed to its runner.
    Hook(TaskId),
}

impl OperationEvent {
    /// Returns the time of the event, if it has one.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Accepted { at, .. }
            | Self::Planned { at, .. }
            | Self::StageChanged { at, .. }
            | Self::GateEvaluated { at, .. }
            | Self::RunnerStarted { at, .. }
            | Self::HealthChanged { at, .. }
            | Self::TaskCompleted { at, .. }
            | Self::TaskFailed { at, .. }
            | Self::DeadlineExceeded { at, .. }
            | Self::AttemptFailed { at, .. }
            | Self::RetryStarted { at, .. }
            | Self::ReplanStarted { at, .. }
            | Self::TerminationRequested { at, .. }
            | Self::Paused { at, .. }
            | Self::Unpaused { at, .. }
            | Self::PruneConfirmed { at, .. }
            | Self::Approved { at, .. }
            | Self::CallFailed { at, .. }
            | Self::ReasonChanged { at, .. }
            | Self::WatchChanged { at, .. }
            | Self::ClaimChanged { at, .. }
            | Self::NamespaceLost { at, .. }
            | Self::HealthRulesSet { at, .. }
            | Self::Overridden { at, .. }
            | Self::StoredPlanUsed { at, .. }
            | Self::Finished { at, .. } => Some(*at),
            Self::Applied { applied, .. } => Some(applied.at),
            Self::DryRunPassed { .. }
            | Self::DryRunFailed { .. }
            | Self::LogsStored { .. }
            | Self::NamespacesObserved { .. }
            | Self::WarningsReceived { .. }
            | Self::ObjectDeleted { .. }
            | Self::DeletionStarted { .. }
            | Self::RecreationStarted { .. }
            | Self::HookCleared { .. }
            | Self::HookNameInUse { .. }
            | Self::DeletionCompleted { .. }
            | Self::HookFinalizerRemoved { .. }
            | Self::HookDeleted { .. }
            | Self::HookStopped { .. } => None,
        }
    }

    /// Returns the task that the event changes, if it changes exactly one.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            Self::DryRunPassed { task, .. }
            | Self::DryRunFailed { task, .. }
            | Self::ObjectDeleted { task, .. }
            | Self::DeletionStarted { task }
            | Self::RecreationStarted { task, .. }
            | Self::HookCleared { task, .. }
            | Self::HookNameInUse { task, .. }
            | Self::DeletionCompleted { task }
            | Self::Applied { task, .. }
            | Self::RunnerStarted { task, .. }
            | Self::HealthChanged { task, .. }
            | Self::TaskCompleted { task, .. }
            | Self::TaskFailed { task, .. }
            | Self::HookFinalizerRemoved { task }
            | Self::HookDeleted { task, .. }
            | Self::HookStopped { task, .. }
            | Self::ReasonChanged { task, .. }
            | Self::LogsStored { task, .. }
            | Self::WarningsReceived { task, .. }
            | Self::Overridden { task, .. }
            | Self::DeadlineExceeded { scope: DeadlineScope::Hook(task), .. } => Some(*task),
            Self::CallFailed { task, .. } => *task,
            _ => None,
        }
    }

    /// Returns true if the event proves that the cluster responded.
    pub(crate) fn is_cluster_answer(&self) -> bool {
        matches!(
            self,
            Self::DryRunPassed { .. }
                | Self::DryRunFailed { .. }
                | Self::CallFailed { outage: false, .. }
                | Self::ObjectDeleted { .. }
                | Self::DeletionStarted { .. }
                | Self::RecreationStarted { .. }
                | Self::HookCleared { .. }
                | Self::HookNameInUse { .. }
                | Self::DeletionCompleted { .. }
                | Self::Applied { .. }
                | Self::TaskFailed { .. }
                | Self::HookFinalizerRemoved { .. }
                | Self::HookDeleted { .. }
                | Self::HookStopped { .. }
        )
    }

    /// Returns true if commands must wait until the event is durable. `is_hook` identifies the hooks among
    /// the tasks.
    ///
    /// All other events only remove outstanding commands. If they are lost in a crash, the idempotent command
    /// runs again and returns the same result. They are written with the next urgent event, or after some
    /// time. Every wave therefore needs the same small number of flushes, whatever its size.
    pub fn is_urgent(&self, is_hook: impl Fn(TaskId) -> bool) -> bool {
        match self {
            // A hook's result is made durable immediately, because its object may be deleted a moment later.
            Self::Applied { task, .. } | Self::TaskCompleted { task, .. } | Self::TaskFailed { task, .. } => {
                is_hook(*task)
            }
            Self::DryRunPassed { .. }
            | Self::DryRunFailed { .. }
            | Self::CallFailed { .. }
            | Self::ObjectDeleted { .. }
            | Self::DeletionStarted { .. }
            | Self::RecreationStarted { .. }
            | Self::HookCleared { .. }
            | Self::HookNameInUse { .. }
            | Self::DeletionCompleted { .. }
            | Self::HealthChanged { .. }
            | Self::HookFinalizerRemoved { .. }
            | Self::ReasonChanged { .. }
            | Self::WatchChanged { .. }
            | Self::WarningsReceived { .. }
            | Self::NamespacesObserved { .. }
            | Self::GateEvaluated { verdict: Verdict::Closed { .. }, .. } => false,
            // The logs can't be read again if the pods no longer exist.
            Self::LogsStored { logs, .. } => !logs.is_empty(),
            _ => true,
        }
    }
}

impl OperationEvent {
    /// Returns true if the event explains what the operation is waiting for and why. Users need this
    /// information, and so does recovery after a crash.
    pub(crate) fn is_status_event(&self) -> bool {
        matches!(
            self,
            Self::HealthChanged { .. }
                | Self::ReasonChanged { .. }
                | Self::CallFailed { .. }
                | Self::WatchChanged { .. }
                | Self::GateEvaluated { .. }
        )
    }
}
