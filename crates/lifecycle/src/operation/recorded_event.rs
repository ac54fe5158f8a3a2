//! Recorded events. They are append-only: a variant is never removed or reordered, because logs contain it. If a field
//! of a variant changes, the variant gets the next kind number, and `read_earlier` reads its old layout.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Digest, Health, OperationId, OperationPhase, Override, Plan, StoredPlanRef, SyncRequest, TaskId,
    Timestamp,
};

use super::state::{AppliedRef, ClaimEvent, HookLog, Loss, ObjectIdentity, Occupant, Stage, Verdict};

/// A recorded event of an operation.
///
/// Times are according to the engine that decided the event. A task is identified by its position in the newest plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OperationEvent {
    /// The operation exists from this event on.
    Accepted {
        /// Operation id, which is also the id of its stream in the log.
        operation: OperationId,
        /// Request: application, destination, options and limits. Later steps read these values only from here.
        request: Box<SyncRequest>,
        /// Digest under which the log stores the submitted manifests, before they are planned.
        targets: Digest,
        /// `startedAt` of the operation, and the start of its deadline.
        at: Timestamp,
    },
    /// The plan is fixed. A resumed operation uses this plan.
    Planned {
        /// Complete work of the operation, until an attempt makes a new plan.
        plan: Arc<Plan>,
        /// Digest under which the log stores the manifests of its tasks.
        bundle: Digest,
        /// Time at which the plan was accepted. The cluster was read before this time.
        at: Timestamp,
    },
    /// A transition of the state machine.
    StageChanged {
        /// New stage.
        to: Stage,
        /// Time of the transition. The times of a wave derive from it.
        at: Timestamp,
    },
    /// A gate answered about the current wave.
    GateEvaluated {
        /// Name of the gate in the wave, such as `window:night`.
        gate: String,
        /// Verdict: open, or closed with the reason. A repeated answer isn't recorded.
        verdict: Verdict,
        /// Time at which the answer arrived, or at which an earlier answer was withdrawn after a restart.
        at: Timestamp,
    },
    /// The server would accept the manifest.
    DryRunPassed {
        /// Task of the manifest.
        task: TaskId,
        /// The server's message. Stored only if the whole operation is a dry run.
        message: String,
    },
    /// The server would reject the manifest.
    DryRunFailed {
        /// Task of the manifest. The task has failed.
        task: TaskId,
        /// The server's message, which becomes the task's message.
        message: String,
    },
    /// A call failed with a transient error. It is repeated at `retry_at`.
    CallFailed {
        /// Task of the call. `None` for planning and for the claim, before there is a plan.
        task: Option<TaskId>,
        /// Message from the cluster or the connection.
        message: String,
        /// Time of the next call. The wait doubles with each failure, unless the server requested a specific wait.
        retry_at: Timestamp,
        /// Time at which the failure arrived.
        at: Timestamp,
        /// True if the cluster doesn't answer at all, false if only this call failed.
        outage: bool,
    },
    /// A prune was sent, and the object is gone.
    ObjectDeleted {
        /// The prune. Its object has the UID recorded in the plan.
        task: TaskId,
    },
    /// The place of a hook is clear (`deleting` is `None`), or an older object is being deleted.
    HookCleared {
        /// Hook that will be created in this place.
        task: TaskId,
        /// UID of the object being deleted; `None` if the hook may be created.
        deleting: Option<String>,
    },
    /// An object that was being deleted is gone.
    DeletionCompleted {
        /// Task that was waiting for the deletion: a prune, a hook whose place was taken, or a resource that is created
        /// again.
        task: TaskId,
    },
    /// The manifest was applied, or the operation's own hook was adopted.
    Applied {
        /// Task of the manifest. Its `status` is `Synced` from now on.
        task: TaskId,
        /// The object and its version, with which later observations are compared.
        applied: AppliedRef,
        /// The cluster's message, which becomes the task's message.
        message: String,
        /// True if the kind doesn't have a health status to wait for, so that the task is done. Never true for a hook.
        done: bool,
    },
    /// A hook runner is about to be called.
    RunnerStarted {
        /// The hook. Its runner may be called once more after a crash, so the start is durable before the call.
        task: TaskId,
        /// Start of the hook's deadline.
        at: Timestamp,
    },
    /// The health of an awaited object changed.
    HealthChanged {
        /// Applied task of the object.
        task: TaskId,
        /// Health according to the rules. It doesn't decide the outcome of the task, or not yet.
        health: Health,
        /// True if it refers to the spec that we wrote. Otherwise only time can confirm it.
        fresh: bool,
        /// Time at which the observation arrived.
        at: Timestamp,
    },
    /// An applied task has ended. Its `status` stays `Synced`.
    TaskCompleted {
        /// Task that was applied or passed to a runner, or a prune that left its object alone or timed out.
        task: TaskId,
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Health message. If it is empty, the earlier message stays.
        message: String,
        /// Time at which the deciding observation or answer arrived, or at which the task's time had run out.
        at: Timestamp,
    },
    /// A task was rejected. Its `status` is `SyncFailed`.
    TaskFailed {
        /// Task that the cluster rejected, or whose object has vanished.
        task: TaskId,
        /// `Failed` if the cluster rejected a manifest or a prune. `Error` if an object has vanished or the place of a
        /// hook couldn't be cleared.
        phase: OperationPhase,
        /// Message from the cluster, or our own message if no call was rejected. It becomes the task's message.
        message: String,
        /// Time at which the rejection arrived.
        at: Timestamp,
    },
    /// The hook finalizer was removed.
    HookFinalizerRemoved {
        /// The hook, which has ended.
        task: TaskId,
    },
    /// The hook object was deleted according to its policy, or couldn't be deleted.
    HookDeleted {
        /// The hook. Its object is left alone from now on.
        task: TaskId,
        /// Error of the deletion, which makes the hook end in `Error`. `None` if the object was deleted.
        error: Option<String>,
    },
    /// A deadline passed.
    DeadlineExceeded {
        /// Subject of the deadline.
        scope: DeadlineScope,
        /// Message with the length of the deadline. It becomes the message of everything that the deadline ends.
        message: String,
        /// Time at which an engine noticed the deadline. Later than the deadline if no engine was running then.
        at: Timestamp,
    },
    /// A hook was stopped.
    HookStopped {
        /// Hook that had to stop because its own or its wave's deadline passed, its namespace is lost, or the operation
        /// is being terminated.
        task: TaskId,
        /// Phase in which the hook ended, or `Failed` if it was still running or couldn't be stopped. `Succeeded` is
        /// also possible while the operation is being terminated, if the hook had no object.
        phase: OperationPhase,
        /// Health message, reason for the stop, or reason why the hook couldn't be deleted. If it is empty, the earlier
        /// message stays.
        message: String,
        /// True if the hook was stopped. Otherwise the termination had errors.
        clean: bool,
    },
    /// This attempt failed.
    AttemptFailed {
        /// The operation's message if no other attempt follows.
        message: String,
        /// True if another attempt may end differently. Another attempt then follows if the request's limit allows it.
        retriable: bool,
        /// Time of the decision.
        at: Timestamp,
    },
    /// Another attempt started.
    RetryStarted {
        /// Number of the attempt. The first attempt is 1.
        attempt: u32,
        /// End of the wait before the attempt.
        at: Timestamp,
    },
    /// A person terminated the operation.
    TerminationRequested {
        /// Name of the person, as the caller gave it.
        by: String,
        /// Time at which the request arrived.
        at: Timestamp,
    },
    /// A person paused the operation.
    Paused {
        /// Name of the person, as the caller gave it.
        by: String,
        /// Reason; may be empty.
        reason: String,
        /// Time at which the request arrived. Deadlines stand still from this time on.
        at: Timestamp,
    },
    /// A person resumed the operation.
    Unpaused {
        /// Name of the person, as the caller gave it. Not necessarily the person who paused the operation.
        by: String,
        /// Time at which the request arrived. Deadlines move by the time since the pause.
        at: Timestamp,
    },
    /// A person confirmed the prunes that were waiting for confirmation.
    PruneConfirmed {
        /// Name of the person, as the caller gave it.
        by: String,
        /// Time at which the request arrived. The confirmation is valid for all waves of the plan.
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
    /// Reason why an awaited object isn't healthy, from its pods, or what blocks an object that is being deleted.
    ReasonChanged {
        /// The awaited task, or the task of the object being deleted.
        task: TaskId,
        /// Reason as text. Empty once there is no reason any more.
        reason: String,
        /// Time at which the reason arrived.
        at: Timestamp,
    },
    /// Last log lines of a failed hook, read before its object is deleted.
    LogsStored {
        /// The hook.
        task: TaskId,
        /// Reason for the failure, from the hook's pods. May be empty.
        reason: String,
        /// Last log lines of the hook's containers. Empty if logs aren't available.
        logs: Vec<HookLog>,
    },
    /// Watches are failing, or are working again.
    WatchChanged {
        /// Message of the cluster; `None` when watches work again.
        trouble: Option<String>,
        /// Start of this condition, never later than the time at which the report arrived.
        at: Timestamp,
    },
    /// Another operation's hook with the same name is still running, or has stopped running (`by` is `None`).
    HookNameInUse {
        /// Hook that is waiting for its place.
        task: TaskId,
        /// The other operation's hook, as found in the cluster.
        by: Option<Occupant>,
    },
    /// The cluster accepted a manifest, or would accept it, with warnings: the manifest is deprecated, or violates a
    /// policy that only warns.
    WarningsReceived {
        /// Task of the manifest.
        task: TaskId,
        /// All warnings of the newest write or dry run, as returned by the cluster. They replace earlier warnings.
        warnings: Vec<String>,
    },
    /// The operation's claim changed.
    ClaimChanged {
        /// Claim event, as reported by the claim keeper.
        news: ClaimEvent,
        /// Time at which the claim event arrived.
        at: Timestamp,
    },
    /// A prune was sent, and the object is being deleted. It counts as pruned once an observation shows that the object
    /// is gone.
    DeletionStarted {
        /// The prune. Its object has the UID recorded in the plan.
        task: TaskId,
    },
    /// A person approved a wave.
    Approved {
        /// Position in the plan, counted from 0. The user interface counts from 1.
        wave: u32,
        /// Name of the person, as the caller gave it.
        by: String,
        /// Reason; may be empty.
        reason: String,
        /// Time at which the request arrived, which may be long before the wave.
        at: Timestamp,
    },
    /// Namespaces that the operation writes to were observed for the first time. If a namespace with the same name is
    /// created later, it is a different namespace.
    NamespacesObserved {
        /// Names and identities of the namespaces.
        namespaces: Vec<(String, ObjectIdentity)>,
    },
    /// A namespace that the operation writes to, with everything in it, is lost. The current wave, if there is one,
    /// fails.
    NamespaceLost {
        /// `metadata.name` of the namespace. Another attempt makes a new plan.
        namespace: String,
        /// Reason for the loss.
        loss: Loss,
        /// Time at which the observation arrived.
        at: Timestamp,
    },
    /// Another attempt starts, with its own plan.
    ReplanStarted {
        /// Number of the attempt. The first attempt is 1.
        attempt: u32,
        /// End of the wait before the attempt.
        at: Timestamp,
    },
    /// A resource is being deleted, because its deletion was requested (no write could change it) or because another
    /// client is deleting it. The resource is created again once it is gone.
    RecreationStarted {
        /// Task of the resource. The task waits until the object is gone.
        task: TaskId,
        /// UID of the object being deleted.
        uid: String,
    },
    /// Objects are judged by these health rules from this event on. Before the first such event, no objects were
    /// judged.
    HealthRulesSet {
        /// Digest by which the engine distinguishes sets of health rules.
        digest: Digest,
        /// Time from which the rules apply to this operation.
        at: Timestamp,
    },
    /// A person skipped a task, marked it as done, or retried it. For a wave there is one event per task.
    Overridden {
        /// The task. A hook that may be running is stopped first.
        task: TaskId,
        /// Decision. It also applies to later attempts, as long as they use the same plan.
        what: Override,
        /// Name of the person, as the caller gave it.
        by: String,
        /// Reason; empty only for a retry.
        reason: String,
        /// Time at which the request arrived.
        at: Timestamp,
    },
    /// The operation executes a stored plan, either unchanged or not at all.
    StoredPlanUsed {
        /// The plan, with its approvals.
        plan: Box<StoredPlanRef>,
        /// Start of the operation.
        at: Timestamp,
    },
}

/// Subject of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlineScope {
    /// The operation, counted from its start. Set by the request.
    Operation,
    /// The current wave, counted from its opening. Set by the wave's timeout.
    Wave,
    /// A hook, counted from the time when it was applied or passed to its runner.
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

    /// Returns the only task that the event changes, if there is exactly one.
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

    /// Returns true if the event proves that the cluster answered.
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

    /// Returns true if commands must wait until the event is durable. `is_hook` identifies the hooks among the tasks.
    ///
    /// All other events only remove outstanding commands: if they are lost in a crash, the idempotent command runs
    /// again and gives the same answer. They are written with the next urgent event, or after a while, so a wave needs
    /// the same small number of flushes regardless of its width.
    pub fn is_urgent(&self, is_hook: impl Fn(TaskId) -> bool) -> bool {
        match self {
            // A hook's result is made durable immediately, because its object may be gone a moment later.
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
            // The pods may be gone before their logs could be read again.
            Self::LogsStored { logs, .. } => !logs.is_empty(),
            _ => true,
        }
    }
}

impl OperationEvent {
    /// Returns true if the event explains what the operation is waiting for and why. People need it, and so does
    /// recovery after a crash.
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
