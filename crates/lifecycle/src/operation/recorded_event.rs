//! Recorded events. The type is append-only: variants are never removed or reordered, because logs contain
//! them. A variant whose fields change gets the next kind number, and `read_earlier` reads its old layout.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Digest, Health, OperationId, OperationPhase, Override, Plan, PlanWithoutDependencies, StoredPlanRef,
    SyncRequest, TaskId, Timestamp,
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
        /// The request: application, destination, options and limits. Later steps use these recorded values.
        request: Box<SyncRequest>,
        /// Digest of the stored manifests, as submitted before planning.
        targets: Digest,
        /// `startedAt` of the operation, and start of its deadline.
        at: Timestamp,
    },
    /// A plan was created. A resumed operation continues with this plan.
    Planned {
        /// Complete plan of the operation. A later attempt may replace it.
        plan: Arc<Plan>,
        /// Digest of the stored manifests of the plan's tasks.
        bundle: Digest,
        /// Time the plan was accepted, after the cluster was read.
        at: Timestamp,
    },
    /// The operation entered another stage.
    StageChanged {
        /// New stage.
        to: Stage,
        /// Time of the transition. A wave's start and end times are derived from its transitions.
        at: Timestamp,
    },
    /// A gate returned a verdict for the current wave.
    GateEvaluated {
        /// Name of the gate, such as `window:night`.
        gate: String,
        /// Verdict: open, or closed with the reason. Duplicates aren't recorded.
        verdict: Verdict,
        /// Time the verdict arrived, or was withdrawn after a restart.
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
        /// Task of the call. `None` for calls without a plan: planning, and acquiring the claim.
        task: Option<TaskId>,
        /// Message from the cluster or the connection.
        message: String,
        /// Time of the next call. The delay doubles with each failure, unless the server asked for a specific
        /// delay.
        retry_at: Timestamp,
        /// Time of the failure.
        at: Timestamp,
        /// True if the cluster isn't responding at all, false if only this call failed.
        outage: bool,
    },
    /// The deletion of a pruned object was requested, and the object no longer exists.
    ObjectDeleted {
        /// The prune. The plan contains the object's UID.
        task: TaskId,
    },
    /// The name of a hook is free (`deleting` is `None`), or an older object with this name is being deleted.
    HookCleared {
        /// Hook that will get this name.
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
    /// A manifest was applied, or the operation's own hook was adopted.
    Applied {
        /// Task of the manifest. Its `status` becomes `Synced`.
        task: TaskId,
        /// UID and version of the object, for comparison with later observations.
        applied: AppliedRef,
        /// The cluster's message, which becomes the task's message.
        message: String,
        /// True if the kind has no health status to wait for, so the task is done. Never true for a hook.
        done: bool,
    },
    /// A hook runner is about to be called.
    RunnerStarted {
        /// The hook. Its runner may be called again after a crash, so this event is durable before the first
        /// call.
        task: TaskId,
        /// Time from which the hook's deadline is measured.
        at: Timestamp,
    },
    /// The health of an awaited object changed.
    HealthChanged {
        /// Task that applied the object.
        task: TaskId,
        /// Health according to the health rules. The task's outcome isn't decided yet.
        health: Health,
        /// True if the health certainly refers to the spec that the operation wrote. Otherwise, the operation
        /// waits a while before it relies on it.
        fresh: bool,
        /// Arrival time of the observation.
        at: Timestamp,
    },
    /// An applied task has finished. Its `status` remains `Synced`.
    TaskCompleted {
        /// Task that was applied or passed to a runner, or a prune that timed out or left its object alone.
        task: TaskId,
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Health message. If empty, the task keeps its earlier message.
        message: String,
        /// Time the deciding observation or result arrived, or the task timed out.
        at: Timestamp,
    },
    /// A task was rejected. Its `status` is `SyncFailed`.
    TaskFailed {
        /// Task that the cluster rejected, or whose object has disappeared.
        task: TaskId,
        /// `Failed` if the cluster rejected a manifest or a prune. `Error` if an object has disappeared or
        /// the name of a hook couldn't be freed.
        phase: OperationPhase,
        /// New message of the task: the cluster's message or, if the cluster didn't reject a call, Tidegate's
        /// own.
        message: String,
        /// Time of the rejection.
        at: Timestamp,
    },
    /// The hook finalizer was removed.
    HookFinalizerRemoved {
        /// The hook, which has finished.
        task: TaskId,
    },
    /// The hook object was deleted according to its policy, or couldn't be deleted.
    HookDeleted {
        /// The hook. Its object is left alone after this event.
        task: TaskId,
        /// Error from the deletion, which puts the hook into `Error`. `None` if the object was deleted.
        error: Option<String>,
    },
    /// A deadline passed.
    DeadlineExceeded {
        /// Operation, wave or hook that missed its deadline.
        scope: DeadlineScope,
        /// Message with the length of the deadline. Also used for all tasks that the deadline ends.
        message: String,
        /// Time an engine noticed that the deadline had passed. Later than the deadline if no engine was
        /// running.
        at: Timestamp,
    },
    /// A hook was stopped.
    HookStopped {
        /// Hook that had to stop. Its own or its wave's deadline passed, its namespace was lost, a user
        /// skipped it, or the operation is being terminated.
        task: TaskId,
        /// Final phase of the hook, or `Failed` if it was still running or couldn't be stopped. During a
        /// termination, a hook without an object can also end as `Succeeded`.
        phase: OperationPhase,
        /// Health message, reason for the stop, or reason why the hook couldn't be deleted. If empty, the
        /// hook keeps its earlier message.
        message: String,
        /// True if the hook was stopped. Otherwise, the termination had errors.
        clean: bool,
    },
    /// The current attempt failed.
    AttemptFailed {
        /// Reason for the failure. If no other attempt follows, this is also the operation's final message.
        message: String,
        /// True if another attempt might succeed. It then follows if the request's retry limit allows it.
        retriable: bool,
        /// Time of the decision.
        at: Timestamp,
    },
    /// Another attempt started.
    RetryStarted {
        /// Number of the attempt. The first attempt is 1.
        attempt: u32,
        /// End of the delay before the attempt.
        at: Timestamp,
    },
    /// A user terminated the operation.
    TerminationRequested {
        /// Name of the user, as provided by the caller.
        by: String,
        /// Time of the request.
        at: Timestamp,
    },
    /// A user paused the operation.
    Paused {
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
        /// Time of the request. The pause doesn't count toward deadlines.
        at: Timestamp,
    },
    /// A user resumed the operation.
    Unpaused {
        /// Name of the user, as provided by the caller. May differ from the user who paused the operation.
        by: String,
        /// Time of the request. Deadlines are postponed by the length of the pause.
        at: Timestamp,
    },
    /// A user confirmed the prunes that were waiting for confirmation.
    PruneConfirmed {
        /// Name of the user, as provided by the caller.
        by: String,
        /// Time of the request. The confirmation is valid for all waves of the plan.
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
    /// The reason for a wait changed: why an awaited object isn't healthy, as derived from its pods, or why
    /// an object that is being deleted still exists.
    ReasonChanged {
        /// Task whose object is awaited or being deleted.
        task: TaskId,
        /// Reason as text. Empty if it is no longer known.
        reason: String,
        /// Arrival time of the reason.
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
    /// Watches started to fail, or work again.
    WatchChanged {
        /// Message from the cluster, or `None` when watches work again.
        trouble: Option<String>,
        /// Time of the change, never later than the arrival of the report.
        at: Timestamp,
    },
    /// Another operation's hook with the same name is running. If `by` is `None`, it has finished.
    HookNameInUse {
        /// Hook that is waiting for its name.
        task: TaskId,
        /// The other operation's hook, as read from the cluster.
        by: Option<Occupant>,
    },
    /// The cluster returned warnings for an accepted manifest or a dry run. For example, the API version is
    /// deprecated, or a policy only warns about violations.
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
        /// Arrival time of the claim event.
        at: Timestamp,
    },
    /// The deletion of a pruned object was requested, and the object is being deleted. The object counts as
    /// pruned once an observation shows that it no longer exists.
    DeletionStarted {
        /// The prune. The plan contains the object's UID.
        task: TaskId,
    },
    /// A user approved a wave.
    Approved {
        /// Position of the wave in the plan, starting at 0. User interfaces start at 1.
        wave: u32,
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
        /// Time of the request, which may be long before the wave starts.
        at: Timestamp,
    },
    /// Namespaces that the operation writes to were observed for the first time. A namespace created later
    /// under the same name is a different one.
    NamespacesObserved {
        /// Names and identities of the namespaces.
        namespaces: Vec<(String, ObjectIdentity)>,
    },
    /// A namespace that the operation writes to was lost with all objects in it. The current wave, if any,
    /// fails.
    NamespaceLost {
        /// `metadata.name` of the namespace. Because of the loss, the next attempt creates a new plan.
        namespace: String,
        /// Reason for the loss.
        loss: Loss,
        /// Arrival time of the observation.
        at: Timestamp,
    },
    /// Another attempt started, which creates a new plan.
    ReplanStarted {
        /// Number of the attempt. The first attempt is 1.
        attempt: u32,
        /// End of the delay before the attempt.
        at: Timestamp,
    },
    /// A resource is being deleted and will be recreated. Either the operation requested the deletion,
    /// because no write could change the resource, or another client did.
    RecreationStarted {
        /// Task of the resource. It waits until the object is gone, and then creates it again.
        task: TaskId,
        /// UID of the object that is being deleted.
        uid: String,
    },
    /// Health rules for the operation's objects from this event on. No objects are assessed before the first
    /// such event.
    HealthRulesSet {
        /// Digest that identifies the health rules.
        digest: Digest,
        /// Time from which the rules apply to this operation.
        at: Timestamp,
    },
    /// A user skipped a task, marked it as done, or retried it. A request for a whole wave results in one
    /// event per task.
    Overridden {
        /// The task. A hook that may be running is stopped before it counts as skipped.
        task: TaskId,
        /// Type of override. An override also applies to later attempts that use the same plan.
        what: Override,
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. Empty only for a retry.
        reason: String,
        /// Time of the request.
        at: Timestamp,
    },
    /// The operation executes a stored plan, and ends if that no longer matches the cluster.
    StoredPlanUsed {
        /// The plan and its approvals.
        plan: Box<StoredPlanRef>,
        /// Start of the operation.
        at: Timestamp,
    },
    /// A hook's Job was created suspended. The operation starts exactly this Job, and only once this event is
    /// durable, so a Job that an earlier process creates too late never runs.
    HookSuspended {
        /// The hook.
        task: TaskId,
        /// `metadata.uid` of the Job.
        uid: String,
        /// Action in kubectl's format, such as `job.batch/migrate created`.
        message: String,
    },
}

/// Content of a variant that never occurs in a layout.
#[derive(Debug, Deserialize)]
pub enum Unreadable {}

/// Layout of [`OperationEvent::Planned`] before plans had dependencies. Only read. The position of each variant
/// identifies it in records.
#[derive(Debug, Deserialize)]
pub enum PlannedWithoutDependencies {
    /// Position of [`OperationEvent::Accepted`], which never has this layout.
    Accepted(Unreadable),
    /// A plan was created.
    Planned {
        /// Complete plan of the operation.
        plan: PlanWithoutDependencies,
        /// Digest of the stored manifests of the plan's tasks.
        bundle: Digest,
        /// Time the plan was accepted.
        at: Timestamp,
    },
}

impl From<PlannedWithoutDependencies> for OperationEvent {
    fn from(event: PlannedWithoutDependencies) -> Self {
        match event {
            PlannedWithoutDependencies::Accepted(never) => match never {},
            PlannedWithoutDependencies::Planned { plan, bundle, at } => {
                Self::Planned { plan: Arc::new(plan.into()), bundle, at }
            }
        }
    }
}

/// Operation, wave or hook that a deadline applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlineScope {
    /// The operation. The request sets the deadline, measured from the operation's start.
    Operation,
    /// The current wave. Its timeout sets the deadline, measured from its opening.
    Wave,
    /// A hook. Its deadline is measured from the time it was applied or passed to its runner.
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
            | Self::HookSuspended { .. }
            | Self::DeletionCompleted { .. }
            | Self::HookFinalizerRemoved { .. }
            | Self::HookDeleted { .. }
            | Self::HookStopped { .. } => None,
        }
    }

    /// Returns the task that the event changes, if it changes exactly one task.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            Self::DryRunPassed { task, .. }
            | Self::DryRunFailed { task, .. }
            | Self::ObjectDeleted { task, .. }
            | Self::DeletionStarted { task }
            | Self::RecreationStarted { task, .. }
            | Self::HookCleared { task, .. }
            | Self::HookNameInUse { task, .. }
            | Self::HookSuspended { task, .. }
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
                | Self::HookSuspended { .. }
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
    /// time, so a wave of any size needs the same small number of flushes.
    pub fn is_urgent(&self, is_hook: impl Fn(TaskId) -> bool) -> bool {
        match self {
            // A hook's result can't be observed again after its object is deleted, which may happen a moment
            // later.
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
    /// Returns true if the event explains a wait. Users need to know that even after a crash.
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
