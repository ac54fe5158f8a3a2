use std::time::Duration;

use tidegate_model::TaskId;

use super::input::{Answer, CallError, Input};

/// Delay before querying a gate again after an unusable response.
pub const GATE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Outstanding command of an operation.
///
/// A command may run twice, so it must be idempotent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Read the cluster and create a plan. Result: [`Input::Planned`](super::Input) or
    /// [`Input::PlanFailed`](super::Input).
    Plan,
    /// Acquire the claim and hold it until the operation has finished. The state of the claim is reported
    /// repeatedly as [`Input::Claim`](super::Input).
    Claim,
    /// Execute a command for one task. Result: [`Input::Answer`](super::Input) with the same attempt.
    /// Commands for the same task run one at a time; otherwise, a hook could be created after it was stopped.
    Task {
        /// Position of the task in the plan.
        task: TaskId,
        /// Attempt that issued the command.
        attempt: u32,
        /// Command to execute.
        command: TaskCommand,
    },
    /// Report observations of a task's object as [`Input::Observed`](super::Input), beginning with the
    /// object's current state.
    Observe {
        /// Position of the waiting task in the plan.
        task: TaskId,
    },
    /// Report observations of the namespaces that the operation writes to, as
    /// [`Input::NamespaceObserved`](super::Input). The first reports may be missing, because
    /// [`Command::ReadNamespaces`] reads all of these namespaces at the end of a wave.
    WatchNamespaces,
    /// Read the namespaces that the operation writes to. Result: [`Input::NamespacesRead`](super::Input).
    ReadNamespaces,
    /// Query a gate for a wave, and subscribe to its verdicts, which arrive as [`Input::Gate`](super::Input).
    AskGate {
        /// Position of the wave in the plan.
        wave: u32,
        /// Name of the gate.
        gate: String,
    },
}

/// Subject of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Planning, including the reads from the cluster.
    Plan,
    /// The operation's claim.
    Claim,
    /// A task and its object.
    Task(TaskId),
    /// A hook runner's work in one attempt. A runner may never return, so it has its own subject. Neither the
    /// hook's end nor the next attempt waits for it.
    Runner(TaskId, u32),
    /// A gate, by name, in any wave.
    Gate(String),
    /// The namespaces that the operation writes to.
    Namespaces,
}

impl Command {
    /// Returns the command's subject. A command waits while another one for the same subject is in flight.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Plan => Subject::Plan,
            Self::Claim => Subject::Claim,
            Self::Task { task, attempt, command: TaskCommand::RunHook { .. } } => {
                Subject::Runner(*task, *attempt)
            }
            Self::Task { task, .. } | Self::Observe { task } => Subject::Task(*task),
            Self::AskGate { gate, .. } => Subject::Gate(gate.clone()),
            Self::WatchNamespaces | Self::ReadNamespaces => Subject::Namespaces,
        }
    }

    /// Returns true for a subscription, which runs while it is outstanding.
    pub fn is_subscription(&self) -> bool {
        matches!(self, Self::Claim | Self::Observe { .. } | Self::WatchNamespaces | Self::AskGate { .. })
    }

    /// Returns the result to record if the command fails, or `None` if it has no result.
    pub fn failure_input(&self, error: CallError) -> Option<Input> {
        let input = match self {
            Self::Plan => Input::PlanFailed(error),
            Self::Task { task, attempt, command: what } => {
                Input::Answer { task: *task, attempt: *attempt, answer: what.failure_answer(error) }
            }
            // If the namespaces can't be read, the operation must still be able to end.
            Self::ReadNamespaces => Input::NamespacesRead { namespaces: Vec::new() },
            Self::Claim | Self::Observe { .. } | Self::WatchNamespaces | Self::AskGate { .. } => return None,
        };
        Some(input)
    }
}

/// Command for one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskCommand {
    /// Run a server-side dry run of the manifest.
    Check,
    /// Delete the object with this UID. Succeeds without effect if the object doesn't exist or has a
    /// different UID.
    Prune {
        /// `metadata.uid` of the live object, from the plan.
        uid: String,
    },
    /// Make sure that the name of a hook is free: adopt an object that this operation created, delete an
    /// older object, or confirm that no object exists.
    ClearHook,
    /// Apply the manifest. For a hook, the operation ID and the attempt are recorded on the object. A hook's
    /// Job is created suspended, and starts with [`TaskCommand::StartHook`].
    Apply,
    /// Start the Job that was created suspended for a hook. Fails if the object with this UID doesn't exist.
    StartHook {
        /// `metadata.uid` of the Job.
        uid: String,
    },
    /// Pass the hook to a registered runner.
    RunHook {
        /// Name of the runner, as registered with the engine.
        runner: String,
    },
    /// Remove the hook finalizer from the object with this UID.
    ReleaseHook {
        /// `metadata.uid` of the hook object.
        uid: String,
    },
    /// Remove the hook finalizer from the object with this UID, and delete the object.
    DeleteHook {
        /// `metadata.uid` of the hook object.
        uid: String,
    },
    /// Assess the health of one of this operation's hooks again, and delete the hook if it is still running.
    StopHook,
    /// Read the last log lines of a failed hook's containers before the hook's object is deleted.
    ReadLogs,
}

impl TaskCommand {
    /// Returns the result to record if the command fails.
    pub fn failure_answer(&self, error: CallError) -> Answer {
        match self {
            Self::Check => Answer::Checked(Err(error)),
            Self::Prune { .. } => Answer::Pruned(Err(error)),
            Self::ClearHook => Answer::Cleared(Err(error)),
            Self::Apply => Answer::Applied(Err(error)),
            Self::StartHook { .. } => Answer::Started(Err(error)),
            Self::ReleaseHook { .. } => Answer::Released(Err(error)),
            Self::DeleteHook { .. } => Answer::Deleted(Err(error)),
            Self::StopHook => Answer::Stopped(Err(error)),
            Self::ReadLogs => Answer::LogsRead { reason: String::new(), logs: Vec::new() },
            Self::RunHook { .. } => Answer::Ran { success: false, message: error.message },
        }
    }
}
