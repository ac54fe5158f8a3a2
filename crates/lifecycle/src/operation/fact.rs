//! What is recorded. Facts are append-only: a variant is never removed or reordered, because old logs hold it. Where a
//! field of one changes, the variant gets the next kind number and `earlier` reads its old layout.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, Health, OperationId, OperationPhase, Plan, SyncRequest, TaskId, Timestamp};

use super::state::{AppliedRef, ClaimNews, HookLog, Identity, Loss, Occupant, Stage, Verdict};

/// Something that happened to an operation, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The operation exists from here on.
    Accepted {
        /// Its identity.
        operation: OperationId,
        /// What was asked.
        request: Box<SyncRequest>,
        /// Where the manifests are kept.
        targets: Digest,
        /// When.
        at: Timestamp,
    },
    /// The plan is fixed; a resumed operation uses this one.
    Planned {
        /// The plan.
        plan: Arc<Plan>,
        /// Where its manifests are kept.
        bundle: Digest,
        /// When.
        at: Timestamp,
    },
    /// An arrow of the state machine.
    Moved {
        /// The new stage.
        to: Stage,
        /// When.
        at: Timestamp,
    },
    /// A gate has answered about the current wave.
    GateAnswered {
        /// Its name.
        gate: String,
        /// Open, or closed because.
        verdict: Verdict,
        /// When.
        at: Timestamp,
    },
    /// The server would accept the manifest.
    Checked {
        /// Which task.
        task: TaskId,
        /// The server's words.
        message: String,
    },
    /// The server would refuse the manifest.
    CheckFailed {
        /// Which task.
        task: TaskId,
        /// The server's words.
        message: String,
    },
    /// A call failed in a way that may pass; it is made again at `retry_at`.
    CallFailed {
        /// Which task; `None` for planning.
        task: Option<TaskId>,
        /// The cluster's words.
        message: String,
        /// When it is made again.
        retry_at: Timestamp,
        /// When it failed.
        at: Timestamp,
        /// The cluster does not answer at all; otherwise only this call failed.
        outage: bool,
    },
    /// A prune was sent, and counts as done.
    PruneSent {
        /// Which task.
        task: TaskId,
        /// Whether the object is gone. Programs that recorded no [`DeletionBegun`](Self::DeletionBegun) wrote `false`
        /// here.
        gone: bool,
    },
    /// The place of a hook is clear (`deleting` is `None`), or an older object is on its way out.
    HookCleared {
        /// Which task.
        task: TaskId,
        /// UID of the object being deleted.
        deleting: Option<String>,
    },
    /// An object that was being deleted is gone.
    ObjectGone {
        /// Which task.
        task: TaskId,
    },
    /// The manifest was applied, or our own hook adopted.
    Applied {
        /// Which task.
        task: TaskId,
        /// What the cluster made of it.
        applied: AppliedRef,
        /// The cluster's words.
        message: String,
        /// The kind has no health to wait for: the task is done.
        done: bool,
    },
    /// A hook runner is about to be called.
    RunnerStarted {
        /// Which task.
        task: TaskId,
        /// When.
        at: Timestamp,
    },
    /// The health of an awaited object changed.
    HealthSeen {
        /// Which task.
        task: TaskId,
        /// Its health.
        health: Health,
        /// It is about the spec we wrote; otherwise only time can tell.
        fresh: bool,
        /// When.
        at: Timestamp,
    },
    /// An applied task has ended; its `status` stays `Synced`.
    TaskCompleted {
        /// Which task.
        task: TaskId,
        /// How.
        phase: OperationPhase,
        /// Health message; empty leaves the earlier one.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// A task was refused; its `status` is `SyncFailed`.
    TaskFailed {
        /// Which task.
        task: TaskId,
        /// Failed or Error.
        phase: OperationPhase,
        /// Why.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// The hook finalizer is off.
    HookReleased {
        /// Which task.
        task: TaskId,
    },
    /// The hook object was deleted by its policy, or could not be.
    HookDeleted {
        /// Which task.
        task: TaskId,
        /// Why not.
        error: Option<String>,
    },
    /// A deadline has passed.
    DeadlinePassed {
        /// Of what.
        scope: DeadlineScope,
        /// In words.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// A hook was stopped.
    HookStopped {
        /// Which task.
        task: TaskId,
        /// How it ended.
        phase: OperationPhase,
        /// In words.
        message: String,
        /// It could be stopped; otherwise the termination had errors.
        clean: bool,
    },
    /// This attempt has failed.
    AttemptFailed {
        /// Why, as the operation's message says it.
        message: String,
        /// Another attempt could end differently.
        retriable: bool,
        /// When.
        at: Timestamp,
    },
    /// Another attempt begins.
    RetryStarted {
        /// Its number; the first attempt is 1.
        attempt: u32,
        /// When.
        at: Timestamp,
    },
    /// A person ends the operation.
    TerminateRequested {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// A person holds the operation.
    Paused {
        /// Who.
        by: String,
        /// Why.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// A person lets it go on.
    Unpaused {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// A person approves the prunes that wait for confirmation.
    PruneConfirmed {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// The operation is over.
    Finished {
        /// How.
        phase: OperationPhase,
        /// The final message.
        message: String,
        /// When.
        at: Timestamp,
    },
    /// Why an awaited object is not well, as its pods tell; or what keeps an object that is being deleted.
    ReasonSeen {
        /// Which task.
        task: TaskId,
        /// In words; empty when there is nothing to tell any more.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// The last words of a failed hook, read before its object may go.
    LogsKept {
        /// Which task.
        task: TaskId,
        /// Why it failed, as its pods tell; may be empty.
        reason: String,
        /// What its containers wrote last; empty where nobody serves logs.
        logs: Vec<HookLog>,
    },
    /// Watches fail, or work again.
    Watching {
        /// What the cluster says; `None` when they work again.
        trouble: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// In the place of a hook, one of another operation still runs; or does not any more (`by` is `None`).
    PlaceTaken {
        /// Which task.
        task: TaskId,
        /// Which one.
        by: Option<Occupant>,
    },
    /// The cluster took a manifest, or would take it, and warns of it: it is deprecated, or against a policy that only warns.
    Warned {
        /// Which task.
        task: TaskId,
        /// The cluster's words.
        warnings: Vec<String>,
    },
    /// What became of the operation's claim.
    Claim {
        /// What.
        news: ClaimNews,
        /// When.
        at: Timestamp,
    },
    /// A prune was sent, and the object is on its way out. It counts as pruned when it is seen to be gone.
    DeletionBegun {
        /// Which task.
        task: TaskId,
    },
    /// A namespace that the operation writes into is being deleted. The current wave ends, and has failed.
    NamespaceTerminating {
        /// Its name.
        namespace: String,
        /// When.
        at: Timestamp,
    },
    /// A person approves a wave.
    Approved {
        /// Its position in the plan.
        wave: u32,
        /// Who.
        by: String,
        /// Why; may be empty.
        reason: String,
        /// When.
        at: Timestamp,
    },
    /// Namespaces that the operation writes into were seen for the first time. Others of the same name that come later are
    /// not those.
    NamespacesSeen {
        /// Their names, and which they are.
        namespaces: Vec<(String, Identity)>,
    },
    /// A namespace that the operation writes into is lost, and all that was put there. A wave that is at work ends, and has
    /// failed.
    NamespaceLost {
        /// Its name.
        namespace: String,
        /// What became of it.
        loss: Loss,
        /// When.
        at: Timestamp,
    },
    /// Another attempt begins, with a plan of its own.
    RetryPlansAnew {
        /// Its number; the first attempt is 1.
        attempt: u32,
        /// When.
        at: Timestamp,
    },
    /// A resource is on its way out: no write can change it and it was told to go, or somebody else deletes it. It is
    /// created again when it is gone.
    RecreationBegun {
        /// Which task.
        task: TaskId,
        /// UID of the object that goes.
        uid: String,
    },
    /// From here on its objects are judged by these health rules; before the first of these facts nothing was judged.
    HealthRulesKnown {
        /// Which, as whoever has them tells them apart.
        digest: Digest,
        /// When.
        at: Timestamp,
    },
}

/// What a deadline was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlineScope {
    /// The whole operation.
    Operation,
    /// The current wave.
    Wave,
    /// One hook.
    Hook(TaskId),
}

impl Fact {
    /// The only task it changes, if it changes one.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            Self::Checked { task, .. }
            | Self::CheckFailed { task, .. }
            | Self::PruneSent { task, .. }
            | Self::DeletionBegun { task }
            | Self::RecreationBegun { task, .. }
            | Self::HookCleared { task, .. }
            | Self::PlaceTaken { task, .. }
            | Self::ObjectGone { task }
            | Self::Applied { task, .. }
            | Self::RunnerStarted { task, .. }
            | Self::HealthSeen { task, .. }
            | Self::TaskCompleted { task, .. }
            | Self::TaskFailed { task, .. }
            | Self::HookReleased { task }
            | Self::HookDeleted { task, .. }
            | Self::HookStopped { task, .. }
            | Self::ReasonSeen { task, .. }
            | Self::LogsKept { task, .. }
            | Self::Warned { task, .. }
            | Self::DeadlinePassed { scope: DeadlineScope::Hook(task), .. } => Some(*task),
            Self::CallFailed { task, .. } => *task,
            _ => None,
        }
    }

    /// Whether the fact could only be recorded because the cluster answered.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Checked { .. }
                | Self::CheckFailed { .. }
                | Self::CallFailed { outage: false, .. }
                | Self::PruneSent { .. }
                | Self::DeletionBegun { .. }
                | Self::RecreationBegun { .. }
                | Self::HookCleared { .. }
                | Self::PlaceTaken { .. }
                | Self::ObjectGone { .. }
                | Self::Applied { .. }
                | Self::TaskFailed { .. }
                | Self::HookReleased { .. }
                | Self::HookDeleted { .. }
                | Self::HookStopped { .. }
        )
    }

    /// Whether commands must wait until the fact is on the disk. `is_hook` tells which tasks are hooks.
    ///
    /// The others only shorten the list of pending commands: when they are lost in a crash, the idempotent command is
    /// carried out again and gives the same answer. They are written with the next fact that matters, or after a
    /// while; so a wave needs the same few flushes whatever its width.
    pub fn is_urgent(&self, is_hook: impl Fn(TaskId) -> bool) -> bool {
        match self {
            // What a hook did is kept the moment it is known: its object may be gone a moment later.
            Self::Applied { task, .. } | Self::TaskCompleted { task, .. } | Self::TaskFailed { task, .. } => {
                is_hook(*task)
            }
            Self::Checked { .. }
            | Self::CheckFailed { .. }
            | Self::CallFailed { .. }
            | Self::PruneSent { .. }
            | Self::DeletionBegun { .. }
            | Self::RecreationBegun { .. }
            | Self::HookCleared { .. }
            | Self::PlaceTaken { .. }
            | Self::ObjectGone { .. }
            | Self::HealthSeen { .. }
            | Self::HookReleased { .. }
            | Self::ReasonSeen { .. }
            | Self::Watching { .. }
            | Self::Warned { .. }
            | Self::NamespacesSeen { .. }
            | Self::GateAnswered { verdict: Verdict::Closed { .. }, .. } => false,
            // The pods may be gone before they could be read again.
            Self::LogsKept { logs, .. } => !logs.is_empty(),
            _ => true,
        }
    }
}

impl Fact {
    /// Whether it says what is awaited and why: for people, and for the time after a crash.
    pub(crate) fn tells_of_a_wait(&self) -> bool {
        matches!(
            self,
            Self::HealthSeen { .. }
                | Self::ReasonSeen { .. }
                | Self::CallFailed { .. }
                | Self::Watching { .. }
                | Self::GateAnswered { .. }
        )
    }
}
