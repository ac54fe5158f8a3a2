//! How far one task is.

use serde::{Deserialize, Serialize};
use tidegate_model::{Health, OperationPhase, ResultCode, Task, Timestamp};

use crate::operation::messages;

/// Calls that failed in a way that may pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How many in a row: the wait for the next grows with it, and there is a limit.
    pub failed: u32,
    /// When the next may be made; `None` when none has failed.
    pub not_before: Option<Timestamp>,
    /// What the cluster said last.
    pub message: String,
}

/// What the cluster made of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRef {
    /// `metadata.uid`; empty for a hook that was handed to a runner.
    pub uid: String,
    /// `metadata.resourceVersion` after the write; empty for a hook that was handed to a runner.
    pub resource_version: String,
    /// `metadata.generation` after the write; 0 where the kind has none.
    pub generation: i64,
    /// When the answer was taken in. A hook's deadline counts from here, so a pause moves it.
    pub at: Timestamp,
}

/// How far a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Nothing was done in this attempt.
    #[default]
    Waiting,
    /// An object is being deleted: the one to prune, the hook's older one, or a resource that is to be created again.
    Deleting {
        /// `metadata.uid` of that object.
        uid: String,
    },
    /// The place of the hook is clear.
    Ready,
    /// Applied, or handed to a runner.
    Running,
    /// A hook that must be stopped; with the reason.
    Stopping {
        /// The message it gets if it was still running.
        reason: String,
    },
    /// It has ended, well or badly. A hook may still have to lose its finalizer, and its object.
    Done,
}

/// How one task of the plan is doing, and what its result will say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// How far it is.
    pub progress: Progress,
    /// The dry run has accepted it.
    pub checked: bool,
    /// Whether the object was written, pruned, left alone or refused: the result's `status`. `None` until then.
    pub status: Option<ResultCode>,
    /// Where it stands: the result's `hookPhase`, for resources as well.
    pub phase: Option<OperationPhase>,
    /// The cluster's words, or the health message.
    pub message: String,
    /// Order of first recording, from 1, without gaps; 0 while nothing was recorded. A retry forgets what it redoes.
    pub order: u32,
    /// What the cluster made of the manifest.
    pub applied: Option<AppliedRef>,
    /// UID of the hook object of an earlier attempt, as long as nothing has taken its place.
    pub leftover: Option<String>,
    /// The hook finalizer is on the object.
    pub held: bool,
    /// The object was deleted by the hook's policy (or could not be).
    pub deleted: bool,
    /// The health seen last.
    pub health: Option<SeenHealth>,
    /// Calls that failed in a way that may pass.
    pub calls: Option<Box<Calls>>,
    /// What people want to know about it and no decision reads.
    pub notes: Option<Box<Notes>>,
    /// Who keeps the place of the hook: it is left alone until it has ended.
    pub occupant: Option<Box<Occupant>>,
    /// What the cluster warned of when it took the manifest.
    pub warnings: Vec<String>,
}

/// A hook of another operation that still runs, in the place of one of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// Whose it is, as its mark says.
    pub operation: String,
    /// `metadata.uid` of that hook.
    pub uid: String,
    /// Its `metadata.resourceVersion` when it was found.
    pub resource_version: String,
    /// When it was found.
    pub since: Timestamp,
}

/// What people want to know about a task that is not well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// Why, as its pods tell, or what keeps it while it is being deleted; may be empty.
    pub reason: String,
    /// What the containers of a failed hook wrote last; `None` while nobody has asked them.
    pub logs: Option<Vec<HookLog>>,
}

/// What one container of a hook wrote last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookLog {
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// The end of what it wrote.
    pub text: String,
}

/// Health as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenHealth {
    /// What the rules said of the newest sight that counts.
    pub health: Health,
    /// It is surely about the spec we wrote; otherwise it counts when it has held for the settle time.
    pub fresh: bool,
    /// When the status was first seen to be what it is now.
    pub since: Timestamp,
}

impl TaskState {
    /// Whether the object of a prune, or a resource that is to be created again, was told to go, and is not seen to be gone
    /// yet. Earlier programs took a prune for done then.
    pub(crate) fn is_leaving(&self, task: &Task) -> bool {
        let is_deleting = matches!(self.progress, Progress::Deleting { .. });
        !task.is_hook() && is_deleting && self.status.is_none()
    }

    /// Whether something was done about it, in this attempt or one before.
    pub fn has_begun(&self) -> bool {
        self.progress != Progress::Waiting || self.leftover.is_some()
    }

    /// Whether it was carried out and ended well, or somebody says so. A hook that had to be stopped did not, and what was
    /// skipped neither.
    pub fn has_run_well(&self) -> bool {
        let has_succeeded = self.progress == Progress::Done && self.phase == Some(OperationPhase::Succeeded);
        has_succeeded
            && match self.status {
                Some(ResultCode::MarkedDone) => true,
                Some(ResultCode::Skipped) => false,
                _ => self.applied.is_some() && self.message != messages::HOOK_TERMINATED,
            }
    }

    /// Whether it ended badly.
    pub fn is_unsuccessful(&self) -> bool {
        self.phase.is_some_and(OperationPhase::is_unsuccessful)
    }

    /// Why it is not well, as its pods tell, or what keeps it; may be empty.
    pub fn reason(&self) -> &str {
        self.notes.as_ref().map_or("", |notes| notes.reason.as_str())
    }

    /// What its containers wrote last.
    pub fn logs(&self) -> &[HookLog] {
        self.notes.as_ref().and_then(|notes| notes.logs.as_deref()).unwrap_or_default()
    }

    /// Whether a hook that has ended still carries the finalizer.
    pub fn awaits_release(&self) -> bool {
        self.held && self.progress == Progress::Done
    }

    /// Whether a hook must be stopped, or has ended and still carries the finalizer.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.progress, Progress::Stopping { .. }) || self.awaits_release()
    }
}
