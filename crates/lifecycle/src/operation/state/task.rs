//! State of one task.

use serde::{Deserialize, Serialize};
use tidegate_model::{Health, OperationPhase, ResultCode, Task, Timestamp};

/// Message of a hook that had no object when it was stopped.
pub(crate) const HOOK_TERMINATED: &str = "Terminated";

/// Transient call failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailures {
    /// Number of consecutive failures. The wait for the next call grows with this number, up to a limit.
    pub failed: u32,
    /// Earliest time of the next call. `None` if no call has failed.
    pub not_before: Option<Timestamp>,
    /// Last message from the cluster.
    pub message: String,
}

/// Object that the cluster created from a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRef {
    /// `metadata.uid`; empty for a hook that was passed to a runner.
    pub uid: String,
    /// `metadata.resourceVersion` after the write; empty for a hook that was passed to a runner.
    pub resource_version: String,
    /// `metadata.generation` after the write; 0 if the kind has none.
    pub generation: i64,
    /// Time at which the answer arrived. A hook's deadline starts at this time, so a pause moves it.
    pub at: Timestamp,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// No work has been done in this attempt.
    #[default]
    Waiting,
    /// An object is being deleted: the object to prune, an older object in the place of the hook, or a resource that
    /// must be created again.
    Deleting {
        /// `metadata.uid` of that object.
        uid: String,
    },
    /// The place of the hook is clear.
    Ready,
    /// Applied, or passed to a runner.
    Running,
    /// A hook that must be stopped.
    Stopping {
        /// Reason, which becomes the hook's message if it was still running.
        reason: String,
    },
    /// Ended, successfully or not. A hook may still have its finalizer and its object.
    Done,
}

/// State of one task of the plan, and the content of its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// Progress.
    pub progress: Progress,
    /// True if the manifest passed the dry run.
    pub checked: bool,
    /// `status` of the result: the object was written, pruned, left alone or rejected. `None` until then.
    pub status: Option<ResultCode>,
    /// `hookPhase` of the result, also for resources.
    pub phase: Option<OperationPhase>,
    /// Message from the cluster, or the health message.
    pub message: String,
    /// Position in the order of first recording, counted from 1, without gaps. 0 if there is no result. A retry resets
    /// the tasks that it repeats.
    pub order: u32,
    /// Object that the cluster created from the manifest.
    pub applied: Option<AppliedRef>,
    /// UID of the hook object of an earlier attempt, as long as no other object has taken its place.
    pub leftover: Option<String>,
    /// True if the hook finalizer is on the object.
    pub held: bool,
    /// True if the object was deleted by the hook's policy, or couldn't be deleted.
    pub deleted: bool,
    /// Last observed health.
    pub health: Option<ObservedHealth>,
    /// Transient call failures.
    pub calls: Option<Box<CallFailures>>,
    /// Notes for people. They don't affect any decision.
    pub notes: Option<Box<TaskNotes>>,
    /// Another operation's hook in this hook's place. It is left alone until it has ended.
    pub occupant: Option<Box<Occupant>>,
    /// Warnings from the cluster when it accepted the manifest.
    pub warnings: Vec<String>,
}

/// Another operation's running hook that has the name of one of this operation's hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// Id of the other operation, from the mark on the hook.
    pub operation: String,
    /// `metadata.uid` of that hook.
    pub uid: String,
    /// `metadata.resourceVersion` of that hook when it was found.
    pub resource_version: String,
    /// Time at which that hook was found.
    pub since: Timestamp,
}

/// Notes for people about a task that isn't healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNotes {
    /// Reason from the object's pods, or what blocks its deletion. May be empty.
    pub reason: String,
    /// Last log lines of a failed hook's containers. `None` before they were read.
    pub logs: Option<Vec<HookLog>>,
}

/// Last log lines of one container of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookLog {
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// End of the container's log.
    pub text: String,
}

/// Last observed health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedHealth {
    /// Health according to the rules, from the newest observation that counts.
    pub health: Health,
    /// True if the health certainly refers to the spec that we wrote. Otherwise it counts once it has persisted for the
    /// settle time.
    pub fresh: bool,
    /// Time at which the current status was first observed.
    pub since: Timestamp,
}

impl TaskState {
    /// Returns true if the object of a prune, or a resource that must be created again, is being deleted and hasn't
    /// been observed to be gone yet.
    pub(crate) fn is_being_deleted(&self, task: &Task) -> bool {
        let is_deleting = matches!(self.progress, Progress::Deleting { .. });
        !task.is_hook() && is_deleting && self.status.is_none()
    }

    /// Returns true if work on the task has begun, in this attempt or an earlier attempt.
    pub fn has_started(&self) -> bool {
        self.progress != Progress::Waiting || self.leftover.is_some()
    }

    /// Returns true if the task was executed and succeeded, or a person marked it as done. False for skipped tasks and
    /// for hooks that had to be stopped.
    pub fn has_succeeded(&self) -> bool {
        let has_succeeded = self.progress == Progress::Done && self.phase == Some(OperationPhase::Succeeded);
        has_succeeded
            && match self.status {
                Some(ResultCode::MarkedDone) => true,
                Some(ResultCode::Skipped) => false,
                _ => self.applied.is_some() && self.message != HOOK_TERMINATED,
            }
    }

    /// Returns true if the task failed.
    pub fn is_unsuccessful(&self) -> bool {
        self.phase.is_some_and(OperationPhase::is_unsuccessful)
    }

    /// Returns the reason from the object's pods why it isn't healthy, or what blocks its deletion. May be empty.
    pub fn reason(&self) -> &str {
        self.notes.as_ref().map_or("", |notes| notes.reason.as_str())
    }

    /// Returns the last log lines of the task's containers.
    pub fn logs(&self) -> &[HookLog] {
        self.notes.as_ref().and_then(|notes| notes.logs.as_deref()).unwrap_or_default()
    }

    /// Returns true if a hook has ended but still has the finalizer.
    pub fn needs_release(&self) -> bool {
        self.held && self.progress == Progress::Done
    }

    /// Returns true if a hook must be stopped, or has ended but still has the finalizer.
    pub(crate) fn needs_stop_or_release(&self) -> bool {
        matches!(self.progress, Progress::Stopping { .. }) || self.needs_release()
    }
}
