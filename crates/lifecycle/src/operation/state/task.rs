//! State of one task.

use serde::{Deserialize, Serialize};
use tidegate_model::{Health, OperationPhase, ResultCode, Task, Timestamp};

/// Message of a hook that didn't have an object when it was stopped.
pub(crate) const HOOK_TERMINATED: &str = "Terminated";

/// Transient failures of calls for a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailures {
    /// Number of consecutive failures, which determines the delay before the next call.
    pub failed: u32,
    /// Earliest time of the next call, or `None` if no call has failed.
    pub not_before: Option<Timestamp>,
    /// Last message from the cluster.
    pub message: String,
}

/// Object that the cluster created from a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRef {
    /// `metadata.uid`. Empty for a hook that was passed to a runner.
    pub uid: String,
    /// `metadata.resourceVersion` after the write. Empty for a hook that was passed to a runner.
    pub resource_version: String,
    /// `metadata.generation` after the write, or 0 for kinds without one.
    pub generation: i64,
    /// Arrival time of the response, postponed by the length of pauses. Hook deadlines are measured from it.
    pub at: Timestamp,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// No work has been done in this attempt.
    #[default]
    Waiting,
    /// An object is being deleted: the object to prune, an older object with the hook's name, or a resource
    /// that will be recreated.
    Deleting {
        /// `metadata.uid` of the object that is being deleted.
        uid: String,
    },
    /// The name of the hook is free.
    Ready,
    /// The manifest was applied, or the hook was passed to a runner.
    Running,
    /// The hook must be stopped.
    Stopping {
        /// Reason for the stop, which becomes the message of a hook that was still running.
        reason: String,
    },
    /// The task has finished, successfully or not. A hook may still have its finalizer and its object.
    Done,
    /// The hook's Job was created suspended, and must be started.
    Suspended {
        /// `metadata.uid` of the Job.
        uid: String,
    },
}

/// State of a task in the plan, and the content of its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// Progress in the current attempt.
    pub progress: Progress,
    /// True if the manifest passed the dry run.
    pub checked: bool,
    /// `status` of the result, or `None` until the object is written, pruned, kept or rejected.
    pub status: Option<ResultCode>,
    /// `hookPhase` of the result. Set for resources too.
    pub phase: Option<OperationPhase>,
    /// Message from the cluster, or the health message.
    pub message: String,
    /// Position of the task's first result among all results, starting at 1 without gaps. 0 if the task has
    /// no result. A new attempt resets the results of the tasks that it repeats.
    pub order: u32,
    /// Object that the cluster created from the manifest.
    pub applied: Option<AppliedRef>,
    /// UID of the hook object from an earlier attempt, until the current attempt applies a new object.
    pub leftover: Option<String>,
    /// True if the object has the hook finalizer.
    pub held: bool,
    /// True if the object was deleted according to the hook's policy, or couldn't be deleted.
    pub deleted: bool,
    /// Last observed health.
    pub health: Option<ObservedHealth>,
    /// Transient call failures.
    pub calls: Option<Box<CallFailures>>,
    /// Notes for users, which don't affect any decision.
    pub notes: Option<Box<TaskNotes>>,
    /// A hook of the same name that another operation is running. It is left alone until it finishes.
    pub occupant: Option<Box<Occupant>>,
    /// Warnings that the cluster returned when it accepted the manifest.
    pub warnings: Vec<String>,
}

/// Another operation's running hook that occupies the name of a hook of this operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// ID of the other operation, from the annotation on the hook.
    pub operation: String,
    /// `metadata.uid` of the other operation's hook.
    pub uid: String,
    /// `metadata.resourceVersion` of the other operation's hook when it was read.
    pub resource_version: String,
    /// Time the other operation's hook was observed.
    pub since: Timestamp,
}

/// Notes for users about a task that isn't healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNotes {
    /// Reason why the object isn't healthy, derived from its pods, or reason why a deleted object still
    /// exists. May be empty.
    pub reason: String,
    /// Last log lines of a failed hook's containers, or `None` before they are read.
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
    /// Health according to the health rules, from the newest relevant observation.
    pub health: Health,
    /// True if the health certainly refers to the spec that the operation wrote. Otherwise, the health counts
    /// only after it has persisted for the settle time.
    pub fresh: bool,
    /// Time the current health status was first observed.
    pub since: Timestamp,
}

impl TaskState {
    /// Returns true if the object is being deleted, for a prune or a recreation, and isn't known to be gone.
    pub(crate) fn is_being_deleted(&self, task: &Task) -> bool {
        let is_deleting = matches!(self.progress, Progress::Deleting { .. });
        !task.is_hook() && is_deleting && self.status.is_none()
    }

    /// Returns true if work on the task has begun in this or an earlier attempt.
    pub fn has_started(&self) -> bool {
        self.progress != Progress::Waiting || self.leftover.is_some()
    }

    /// Returns true if the task was executed and succeeded, or if a user marked it as done. Returns false for
    /// skipped tasks and for hooks that had to be stopped.
    pub fn has_succeeded(&self) -> bool {
        let has_succeeded = self.progress == Progress::Done && self.phase == Some(OperationPhase::Succeeded);
        has_succeeded
            && match self.status {
                Some(ResultCode::MarkedDone) => true,
                Some(ResultCode::Skipped) => false,
                _ => self.applied.is_some() && self.message != HOOK_TERMINATED,
            }
    }

    /// Returns true if the tasks that depend on this one may start: the object is healthy or gone, or a user
    /// skipped the task.
    pub(crate) fn satisfies_dependents(&self) -> bool {
        self.progress == Progress::Done && self.phase == Some(OperationPhase::Succeeded) && !self.held
    }

    /// Returns true if the task failed.
    pub fn is_unsuccessful(&self) -> bool {
        self.phase.is_some_and(OperationPhase::is_unsuccessful)
    }

    /// Returns the reason why the object isn't healthy, derived from its pods, or the reason why a deleted
    /// object still exists. May be empty.
    pub fn reason(&self) -> &str {
        self.notes.as_ref().map_or("", |notes| notes.reason.as_str())
    }

    /// Returns the last log lines of the task's containers.
    pub fn logs(&self) -> &[HookLog] {
        self.notes.as_ref().and_then(|notes| notes.logs.as_deref()).unwrap_or_default()
    }

    /// Returns true if a hook has finished but still has its finalizer.
    pub fn needs_release(&self) -> bool {
        self.held && self.progress == Progress::Done
    }

    /// Returns true if a hook must be stopped, or has finished but still has its finalizer.
    pub(crate) fn needs_stop_or_release(&self) -> bool {
        matches!(self.progress, Progress::Stopping { .. }) || self.needs_release()
    }
}
