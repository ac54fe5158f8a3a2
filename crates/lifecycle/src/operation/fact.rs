//! What is recorded. Facts are append-only: a variant is never removed or reordered, because old logs hold it. Where a
//! field of one changes, the variant gets the next kind number and `earlier` reads its old layout.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Digest, Health, OperationId, OperationPhase, Override, Plan, SyncRequest, TakenPlan, TaskId, Timestamp,
};

use super::state::{AppliedRef, ClaimNews, HookLog, Identity, Loss, Occupant, Stage, Verdict};

/// Something that happened to an operation, as the log keeps it.
///
/// Times are those of the clock of the engine that decided the fact. A task is named by its position in the newest
/// plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The operation exists from here on.
    Accepted {
        /// Its id, which is the id of its stream in the log too.
        operation: OperationId,
        /// Which application, to where, with which options and limits. Nothing of it is read from elsewhere later.
        request: Box<SyncRequest>,
        /// Digest under which the log keeps the manifests that were handed over, before they are planned.
        targets: Digest,
        /// The operation's `startedAt`, and what its deadline counts from.
        at: Timestamp,
    },
    /// The plan is fixed; a resumed operation uses this one.
    Planned {
        /// What is done from here on, and nothing else, until an attempt plans anew.
        plan: Arc<Plan>,
        /// Digest under which the log keeps the manifests that its tasks apply.
        bundle: Digest,
        /// When the plan was taken in; the cluster was read before.
        at: Timestamp,
    },
    /// An arrow of the state machine.
    Moved {
        /// The stage it is in from now on.
        to: Stage,
        /// Since when it is there; the times of a wave are made of these.
        at: Timestamp,
    },
    /// A gate has answered about the current wave.
    GateAnswered {
        /// Its name as the wave gives it, such as `window:night`.
        gate: String,
        /// Open, or why not. The same answer once more is no fact.
        verdict: Verdict,
        /// When the answer was taken in, or an earlier one was withdrawn after a restart.
        at: Timestamp,
    },
    /// The server would accept the manifest.
    Checked {
        /// The task whose manifest was tried.
        task: TaskId,
        /// The server's words; they are kept only where the whole operation only tries.
        message: String,
    },
    /// The server would refuse the manifest.
    CheckFailed {
        /// The task whose manifest was tried. It has failed.
        task: TaskId,
        /// Why, in the server's words; the task's message.
        message: String,
    },
    /// A call failed in a way that may pass; it is made again at `retry_at`.
    CallFailed {
        /// The task the call was for; `None` for planning and for the claim, before there is a plan.
        task: Option<TaskId>,
        /// The cluster's words, or those of the connection.
        message: String,
        /// When the call is made again: after a wait that doubles from failure to failure, or as long as the server
        /// asked.
        retry_at: Timestamp,
        /// When the failure was taken in.
        at: Timestamp,
        /// The cluster does not answer at all; otherwise only this call failed.
        outage: bool,
    },
    /// A prune was sent, and counts as done.
    PruneSent {
        /// The prune. Its object is the one whose UID the plan has.
        task: TaskId,
        /// Whether the object is gone. Programs that recorded no [`DeletionBegun`](Self::DeletionBegun) wrote `false`
        /// here.
        gone: bool,
    },
    /// The place of a hook is clear (`deleting` is `None`), or an older object is on its way out.
    HookCleared {
        /// The hook that is to be created there.
        task: TaskId,
        /// UID of the object being deleted; `None` when the hook may be created.
        deleting: Option<String>,
    },
    /// An object that was being deleted is gone.
    ObjectGone {
        /// The task that waited for it: a prune, a hook whose place was taken, or a resource that is created again.
        task: TaskId,
    },
    /// The manifest was applied, or our own hook adopted.
    Applied {
        /// The task whose manifest it is. Its `status` is `Synced` from now on.
        task: TaskId,
        /// Which object it is, and which version of it: what later sights are compared with.
        applied: AppliedRef,
        /// The cluster's words; the task's message.
        message: String,
        /// The kind has no health to wait for: the task is done. Never so for a hook.
        done: bool,
    },
    /// A hook runner is about to be called.
    RunnerStarted {
        /// The hook. Its runner may be called once more after a crash, so the start is on the disk before the call.
        task: TaskId,
        /// What the hook's deadline counts from.
        at: Timestamp,
    },
    /// The health of an awaited object changed.
    HealthSeen {
        /// The applied task whose object was judged.
        task: TaskId,
        /// What the rules say of the sight. It does not decide how the task ends, or not yet.
        health: Health,
        /// It is about the spec we wrote; otherwise only time can tell.
        fresh: bool,
        /// When the sight was taken in.
        at: Timestamp,
    },
    /// An applied task has ended; its `status` stays `Synced`.
    TaskCompleted {
        /// What was applied or handed to a runner; or a prune that left its object alone, or did not see it go in time.
        task: TaskId,
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Health message; empty leaves the earlier one.
        message: String,
        /// When the sight or answer that ended it was taken in, or its time was over.
        at: Timestamp,
    },
    /// A task was refused; its `status` is `SyncFailed`.
    TaskFailed {
        /// The task that the cluster refused, or whose object has vanished.
        task: TaskId,
        /// `Failed` where the cluster refused a manifest or a prune; `Error` where an object has vanished, or the place
        /// of a hook could not be cleared.
        phase: OperationPhase,
        /// In the cluster's words, or in ours where no call was refused; the task's message.
        message: String,
        /// When the refusal was taken in.
        at: Timestamp,
    },
    /// The hook finalizer is off.
    HookReleased {
        /// The hook, which has ended.
        task: TaskId,
    },
    /// The hook object was deleted by its policy, or could not be.
    HookDeleted {
        /// The hook. Nothing more is done about its object.
        task: TaskId,
        /// Why it could not be; the hook has then ended in `Error`. `None` when it is deleted.
        error: Option<String>,
    },
    /// A deadline has passed.
    DeadlinePassed {
        /// What was too late.
        scope: DeadlineScope,
        /// In words, with how long the deadline was; the message of what it ends.
        message: String,
        /// When it was noticed, which is later than the deadline where no engine was at work then.
        at: Timestamp,
    },
    /// A hook was stopped.
    HookStopped {
        /// The hook that had to stop: its deadline or its wave's has passed, its namespace is lost, or the operation
        /// terminates.
        task: TaskId,
        /// How it had ended, or `Failed` when it was still at work or could not be stopped. While the operation
        /// terminates also `Succeeded`, where there was no object of it.
        phase: OperationPhase,
        /// Its health message, the reason it was stopped for, or why it could not be deleted; empty leaves the earlier
        /// message.
        message: String,
        /// It could be stopped; otherwise the termination had errors.
        clean: bool,
    },
    /// This attempt has failed.
    AttemptFailed {
        /// The operation's message, if no other attempt is made.
        message: String,
        /// Another attempt could end differently, and is made while the request's limit allows.
        retriable: bool,
        /// When that was decided.
        at: Timestamp,
    },
    /// Another attempt begins.
    RetryStarted {
        /// Its number; the first attempt is 1.
        attempt: u32,
        /// When the wait before it was over.
        at: Timestamp,
    },
    /// A person ends the operation.
    TerminateRequested {
        /// The person's name, as the caller gave it.
        by: String,
        /// When the wish was taken in.
        at: Timestamp,
    },
    /// A person holds the operation.
    Paused {
        /// The person's name, as the caller gave it.
        by: String,
        /// The person's words; may be empty.
        reason: String,
        /// When the wish was taken in: from here on deadlines stand still.
        at: Timestamp,
    },
    /// A person lets it go on.
    Unpaused {
        /// The person's name, as the caller gave it; not always the one who paused it.
        by: String,
        /// When the wish was taken in: deadlines are later by the time since the pause.
        at: Timestamp,
    },
    /// A person approves the prunes that wait for confirmation.
    PruneConfirmed {
        /// The person's name, as the caller gave it.
        by: String,
        /// When the wish was taken in. It holds for all waves of the plan.
        at: Timestamp,
    },
    /// The operation is over.
    Finished {
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// The operation's message from now on.
        message: String,
        /// The operation's `finishedAt`.
        at: Timestamp,
    },
    /// Why an awaited object is not well, as its pods tell; or what keeps an object that is being deleted.
    ReasonSeen {
        /// The awaited task, or the one whose object goes.
        task: TaskId,
        /// In words; empty when there is nothing to tell any more.
        reason: String,
        /// When it was taken in.
        at: Timestamp,
    },
    /// The last words of a failed hook, read before its object may go.
    LogsKept {
        /// The hook.
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
        /// Since when that is so, and not after it was taken in.
        at: Timestamp,
    },
    /// In the place of a hook, one of another operation still runs; or does not any more (`by` is `None`).
    PlaceTaken {
        /// The hook that waits for its place.
        task: TaskId,
        /// The hook of the other operation, as it was found there.
        by: Option<Occupant>,
    },
    /// The cluster took a manifest, or would take it, and warns of it: it is deprecated, or against a policy that only warns.
    Warned {
        /// The task whose manifest it is.
        task: TaskId,
        /// All warnings of the newest write or trial, in the cluster's words; those of earlier ones do not count any
        /// more.
        warnings: Vec<String>,
    },
    /// What became of the operation's claim.
    Claim {
        /// As whoever keeps the claim told it.
        news: ClaimNews,
        /// When it was taken in.
        at: Timestamp,
    },
    /// A prune was sent, and the object is on its way out. It counts as pruned when it is seen to be gone.
    DeletionBegun {
        /// The prune. The object is the one whose UID the plan has.
        task: TaskId,
    },
    /// A namespace that the operation writes into is being deleted. The current wave ends, and has failed.
    NamespaceTerminating {
        /// `metadata.name` of the namespace.
        namespace: String,
        /// When the sight of it was taken in.
        at: Timestamp,
    },
    /// A person approves a wave.
    Approved {
        /// Its position in the plan, from 0; people count from 1.
        wave: u32,
        /// The person's name, as the caller gave it.
        by: String,
        /// The person's words; may be empty.
        reason: String,
        /// When the wish was taken in; it may be long before the wave.
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
        /// `metadata.name` of the namespace. Another attempt plans anew.
        namespace: String,
        /// What became of it.
        loss: Loss,
        /// When the sight of it was taken in.
        at: Timestamp,
    },
    /// Another attempt begins, with a plan of its own.
    RetryPlansAnew {
        /// Its number; the first attempt is 1.
        attempt: u32,
        /// When the wait before it was over.
        at: Timestamp,
    },
    /// A resource is on its way out: no write can change it and it was told to go, or somebody else deletes it. It is
    /// created again when it is gone.
    RecreationBegun {
        /// The resource's task, which waits until the object is gone.
        task: TaskId,
        /// UID of the object that goes.
        uid: String,
    },
    /// From here on its objects are judged by these health rules; before the first of these facts nothing was judged.
    HealthRulesKnown {
        /// Digest by which the engine tells one set of health rules from another.
        digest: Digest,
        /// When they came into use for this operation.
        at: Timestamp,
    },
    /// A person skips a task, marks it as done, or has it tried again. Of a wave there is one for each of its tasks.
    Overridden {
        /// The task. A hook that may be at work is stopped first.
        task: TaskId,
        /// What was decided. It holds in later attempts too, as long as the plan does.
        what: Override,
        /// The person's name, as the caller gave it.
        by: String,
        /// The person's words; empty only where something is tried again.
        reason: String,
        /// When the wish was taken in.
        at: Timestamp,
    },
    /// The operation carries out a plan that was kept before, as it is or not at all.
    PlanTaken {
        /// Which one, and who has approved it.
        plan: Box<TakenPlan>,
        /// When the operation began.
        at: Timestamp,
    },
}

/// What a deadline was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlineScope {
    /// The operation, from its start, by its request.
    Operation,
    /// The wave at work, from its opening, by the wave's timeout.
    Wave,
    /// A hook, from when it was applied or handed to its runner.
    Hook(TaskId),
}

impl Fact {
    /// When it happened, where the fact says so.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Accepted { at, .. }
            | Self::Planned { at, .. }
            | Self::Moved { at, .. }
            | Self::GateAnswered { at, .. }
            | Self::RunnerStarted { at, .. }
            | Self::HealthSeen { at, .. }
            | Self::TaskCompleted { at, .. }
            | Self::TaskFailed { at, .. }
            | Self::DeadlinePassed { at, .. }
            | Self::AttemptFailed { at, .. }
            | Self::RetryStarted { at, .. }
            | Self::RetryPlansAnew { at, .. }
            | Self::TerminateRequested { at, .. }
            | Self::Paused { at, .. }
            | Self::Unpaused { at, .. }
            | Self::PruneConfirmed { at, .. }
            | Self::Approved { at, .. }
            | Self::CallFailed { at, .. }
            | Self::ReasonSeen { at, .. }
            | Self::Watching { at, .. }
            | Self::Claim { at, .. }
            | Self::NamespaceTerminating { at, .. }
            | Self::NamespaceLost { at, .. }
            | Self::HealthRulesKnown { at, .. }
            | Self::Overridden { at, .. }
            | Self::PlanTaken { at, .. }
            | Self::Finished { at, .. } => Some(*at),
            Self::Applied { applied, .. } => Some(applied.at),
            Self::Checked { .. }
            | Self::CheckFailed { .. }
            | Self::LogsKept { .. }
            | Self::NamespacesSeen { .. }
            | Self::Warned { .. }
            | Self::PruneSent { .. }
            | Self::DeletionBegun { .. }
            | Self::RecreationBegun { .. }
            | Self::HookCleared { .. }
            | Self::PlaceTaken { .. }
            | Self::ObjectGone { .. }
            | Self::HookReleased { .. }
            | Self::HookDeleted { .. }
            | Self::HookStopped { .. } => None,
        }
    }

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
            | Self::Overridden { task, .. }
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
