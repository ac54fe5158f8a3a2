//! What can reach an operation: answers of the cluster, wishes of people, and time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{
    ClaimHolder, Digest, Observation, Observed, OperationId, OperationPhase, Override, Plan, SafePoint,
    SyncRequest, TakenPlan, TaskId, Timestamp,
};

use super::named::Scope;
use super::state::{ClaimNews, HookLog, Identity, Verdict};

/// One thing that happened outside the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Somebody asks for a sync. The manifests are already kept under `targets`.
    Request {
        /// Id of the new operation, chosen by whoever asks. One that exists already is refused.
        operation: OperationId,
        /// Which application, to where, with which options and limits.
        request: Box<SyncRequest>,
        /// Digest under which the log keeps the manifests; they are on the disk already.
        targets: Digest,
        /// The kept plan that it is to carry out; `None` where it makes its own.
        plan: Option<Box<TakenPlan>>,
    },
    /// The answer to [`Command::Plan`](super::Command): the plan, and where its manifests are kept.
    Planned {
        /// What is to be done. One that contradicts itself ends the operation with an error.
        plan: Arc<Plan>,
        /// Digest under which the log keeps the manifests of its tasks.
        bundle: Digest,
        /// The namespaces of the manifests, as far as they may be seen.
        namespaces: Vec<NamespaceSight>,
    },
    /// The answer to [`Command::Plan`](super::Command): the cluster could not be read.
    PlanFailed(CallError),
    /// The answer to [`Command::Plan`](super::Command): the kept plan does not fit the cluster as it is. The operation ends
    /// with an error, and has written nothing.
    PlanRefused {
        /// What has moved since the plan was made, in words.
        reason: String,
    },
    /// What became of the claim, or why it could not be asked for.
    Claim(Result<ClaimNews, CallError>),
    /// The answer to a command about one task.
    Answer {
        /// Its position in the plan.
        task: TaskId,
        /// The attempt the command was for; answers to older attempts are ignored.
        attempt: u32,
        /// What came back: the cluster's answer, or why there was none.
        answer: Answer,
    },
    /// An awaited object was seen, or seen to be gone. Sights may be old or repeated; `Gone` without a UID is believed
    /// only when [`Observation::at`], the beginning of the look, is not before our write.
    Observed {
        /// Position in the plan of the task that awaits it.
        task: TaskId,
        /// What was there, and when the look at it began.
        observation: Observation,
    },
    /// The hooks of an operation that a person ends were not stopped in time: it ends without that, and says which may still run.
    StopsOverdue,
    /// Why the object of an awaited task is not well, as its pods tell; empty when they tell nothing. It is shown, and
    /// decides nothing.
    Reason {
        /// Its position in the plan.
        task: TaskId,
        /// Such as `api-7f is crash-looping`.
        reason: String,
    },
    /// Watches fail, or work again. It is shown, and decides nothing.
    Watching {
        /// What the cluster says; `None` when they work again.
        trouble: Option<String>,
        /// Since when that is so.
        since: Timestamp,
    },
    /// A namespace that the operation writes into was seen. The sight may be old.
    NamespaceSeen(NamespaceSight),
    /// The answer to [`Command::LookAtNamespaces`](super::Command), as far as they may be seen.
    NamespacesSeen {
        /// One for each namespace that could be looked at; one that may not be read is left out.
        namespaces: Vec<NamespaceSight>,
    },
    /// A gate has answered, again or for the first time. What it has said before is no news.
    Gate {
        /// Position of the wave it was asked about.
        wave: u32,
        /// Its name as the wave gives it, such as `window:night`.
        gate: String,
        /// Open, or why not.
        verdict: Verdict,
    },
    /// An engine goes on with the operation: gates that were open when the last one ended may be closed by now.
    Resumed,
    /// Objects are judged by these health rules from now on. What is recorded already is no news.
    HealthRules {
        /// Digest of the rules; another one means other rules.
        digest: Digest,
    },
    /// A person ends the operation.
    Terminate {
        /// The person's name, as the caller gives it.
        by: String,
    },
    /// Another sync of the application is to take its place. It is refused unless the operation can be ended here without
    /// stopping any of its hooks, and is asked for again later.
    Supersede {
        /// The sync that takes its place.
        by: ClaimHolder,
        /// Where the operation may be ended for that.
        when: SafePoint,
    },
    /// A person holds the operation.
    Pause {
        /// The person's name, as the caller gives it.
        by: String,
        /// The person's words; may be empty.
        reason: String,
    },
    /// A person lets it go on.
    Unpause {
        /// The person's name, as the caller gives it. It need not be the one who paused it.
        by: String,
    },
    /// A person approves the prunes that wait for confirmation.
    ConfirmPrune {
        /// The person's name, as the caller gives it.
        by: String,
    },
    /// A person approves a wave.
    Approve {
        /// Its number in the plan, from 1; `None`: the one that waits for it now.
        wave: Option<u32>,
        /// The person's name, as the caller gives it.
        by: String,
        /// The person's words; may be empty.
        reason: String,
    },
    /// A person skips one task or what is not done of a wave, marks it as done, or has it tried again.
    Override {
        /// Which of these.
        what: Override,
        /// Which task, or wave.
        scope: Scope,
        /// The person's name, as the caller gives it.
        by: String,
        /// The person's words; may be empty only where something is tried again.
        reason: String,
    },
    /// The engine itself gives up on the operation, for example after repeated panics.
    Abort {
        /// What went wrong, for people: the operation ends in `Error` with this message.
        reason: String,
    },
}

/// What was seen in the place of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceSight {
    /// `metadata.name` of the namespace.
    pub name: String,
    /// Which one is there; `None` where none is.
    pub found: Option<Identity>,
    /// Whether that one is being deleted.
    pub terminating: bool,
}

impl Input {
    /// Whether a person asks for it, and may be refused.
    pub const fn is_wish(&self) -> bool {
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

/// What came back from a command about one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Command::Check`](super::Command): the server would accept it, or not.
    Checked(Result<Trial, CallError>),
    /// To [`Command::Prune`](super::Command).
    Pruned(Result<Pruning, CallError>),
    /// To [`Command::ClearHook`](super::Command); and to [`Command::Apply`](super::Command): of a hook, when its place is
    /// not clear any more, and of a resource that is to be created again and is on its way out.
    Cleared(Result<Clearing, CallError>),
    /// To [`Command::Apply`](super::Command).
    Applied(Result<Box<Applied>, CallError>),
    /// To [`Command::RunHook`](super::Command): how the runner's work ended.
    Ran {
        /// Whether the hook's work succeeded.
        success: bool,
        /// In the runner's words.
        message: String,
    },
    /// To [`Command::ReleaseHook`](super::Command): the finalizer is off.
    Released(Result<(), CallError>),
    /// To [`Command::DeleteHook`](super::Command).
    Deleted(Result<(), CallError>),
    /// To [`Command::StopHook`](super::Command).
    Stopped(Result<Stopped, CallError>),
    /// To [`Command::ReadLogs`](super::Command). It cannot fail: what could not be read is left out.
    LogsRead {
        /// Why the hook is not well, as its pods tell; may be empty.
        reason: String,
        /// What its containers wrote last.
        logs: Vec<HookLog>,
    },
}

/// What became of an object that was to be pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pruning {
    /// It is gone, or another object has its name.
    Gone,
    /// Its deletion has begun.
    Begun,
    /// It was left alone: since the plan was made it went to somebody else, or somebody wants it to stay.
    Kept {
        /// Why, as results have it: `ignored (no prune)`.
        reason: String,
    },
}

/// What was found in the place of a hook that is about to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// Nothing, or an object that the hook's delete policy keeps.
    Clear,
    /// Our own hook of this operation and attempt: it was created before a crash and is taken over.
    Adopted(Box<Applied>),
    /// An object of an earlier operation or attempt, now being deleted.
    Deleting {
        /// `metadata.uid` of the older object.
        uid: String,
    },
    /// A hook of another operation that still runs. Only that one may end it.
    Taken {
        /// Whose it is, as its mark says.
        operation: String,
        /// `metadata.uid` of the other operation's hook.
        uid: String,
        /// `metadata.resourceVersion` when it was found: older sights of it are no news.
        resource_version: String,
    },
}

/// The cluster's answer to a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The cluster's words; may be empty.
    pub message: String,
    /// What the cluster warns of.
    pub warnings: Vec<String>,
}

/// The cluster's answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// `metadata.uid` of the object that is there now.
    pub uid: String,
    /// `metadata.resourceVersion` after the write: older sights are no evidence.
    pub resource_version: String,
    /// `metadata.generation`, 0 where the kind has none.
    pub generation: i64,
    /// What was done, as kubectl says it: `deployment.apps/api serverside-applied`.
    pub message: String,
    /// The object as the answer showed it.
    pub observed: Observed,
    /// What the cluster warns of.
    pub warnings: Vec<String>,
}

/// How a hook stood when it was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// [`OperationPhase::Running`] when it was still at work and was deleted, else how it had ended;
    /// [`OperationPhase::Succeeded`] with the message `Terminated` when there was no object of ours.
    pub phase: OperationPhase,
    /// Its health message; may be empty.
    pub message: String,
    /// Whether the object was deleted or had gone.
    pub gone: bool,
}

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// Whether the same call may succeed later.
    pub transient: bool,
    /// The cluster cannot be reached, or takes nothing from us for now. That is no fault of what was asked, so the
    /// call is made again for as long as deadlines allow.
    pub outage: bool,
    /// Fewer calls are made before the failure counts: each takes long, since something behind the cluster does not answer
    /// in time, or most such failures do not pass, since another object has what this one asks for.
    pub few_tries: bool,
    /// How long the server asks to wait; `None` when it does not say.
    pub retry_after: Option<Duration>,
    /// In the cluster's words, or those of the connection.
    pub message: String,
}

impl CallError {
    /// A refusal that the same call will meet again.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { transient: false, outage: false, few_tries: false, retry_after: None, message: message.into() }
    }

    /// A failure that may pass.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { transient: true, outage: false, few_tries: false, retry_after: None, message: message.into() }
    }

    /// The cluster does not answer.
    pub fn outage(message: impl Into<String>) -> Self {
        Self { transient: true, outage: true, few_tries: false, retry_after: None, message: message.into() }
    }

    /// How long the call is not made again that has failed so many times before: twice as long each time.
    pub(crate) fn wait(&self, first: Duration, failed: u32, longest: Duration) -> Duration {
        // Whoever says how long is asked again then, and not later.
        let wait = || first.saturating_mul(2_u32.saturating_pow(failed)).min(longest);
        self.retry_after.map_or_else(wait, |asked| asked.max(first))
    }
}
