use std::time::Duration;

use tidegate_model::TaskId;

use super::input::{Answer, CallError, Input};

/// Interval after which a gate that didn't give a usable answer is queried again.
pub const GATE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// An outstanding command of an operation.
///
/// Every command may be executed twice. The second execution must not have an effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Read the cluster and make a plan. Answer: [`Input::Planned`](super::Input) or
    /// [`Input::PlanFailed`](super::Input).
    Plan,
    /// Acquire the claim and hold it until the operation has finished. The state of the claim is reported repeatedly as
    /// [`Input::Claim`](super::Input).
    Claim,
    /// A command about one task. Answer: [`Input::Answer`](super::Input) with the same attempt. Commands about the same
    /// task run one after the other; otherwise a hook could be created after it was stopped.
    Task {
        /// Position of the task in the plan.
        task: TaskId,
        /// Attempt that the command belongs to.
        attempt: u32,
        /// Command about the task's object.
        command: TaskCommand,
    },
    /// Report observations of a task's object as [`Input::Observed`](super::Input), beginning with the current state.
    Observe {
        /// Position of the waiting task in the plan.
        task: TaskId,
    },
    /// Report observations of the namespaces that the operation writes to as
    /// [`Input::NamespaceObserved`](super::Input). Reporting may start late, because all of these namespaces are read
    /// before the end.
    WatchNamespaces,
    /// Read the namespaces that the operation writes to. Answer: [`Input::NamespacesSeen`](super::Input).
    ReadNamespaces,
    /// Ask a gate about a wave and subscribe to it. Its answer and every later change arrive as
    /// [`Input::Gate`](super::Input).
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
    /// Reading the cluster and planning.
    Plan,
    /// The operation's only claim.
    Claim,
    /// A task and its object.
    Task(TaskId),
    /// Work of a hook runner in this attempt. It may never end, and must not block the end of the hook or the next
    /// attempt.
    Runner(TaskId, u32),
    /// A gate, by its name, regardless of the wave.
    Gate(String),
    /// The namespaces that the operation writes into.
    Namespaces,
}

impl Command {
    /// Returns the subject. The command waits while another command with the same subject is in flight.
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

    /// Returns true for a subscription, which runs as long as it is outstanding.
    pub fn is_subscription(&self) -> bool {
        matches!(self, Self::Claim | Self::Observe { .. } | Self::WatchNamespaces | Self::AskGate { .. })
    }

    /// Returns the answer for a failed command. `None` for commands without an answer.
    pub fn failure_input(&self, error: CallError) -> Option<Input> {
        let input = match self {
            Self::Plan => Input::PlanFailed(error),
            Self::Task { task, attempt, command: what } => {
                Input::Answer { task: *task, attempt: *attempt, answer: what.failure_answer(error) }
            }
            // Namespaces that can't be read must not keep the operation from ending.
            Self::ReadNamespaces => Input::NamespacesRead { namespaces: Vec::new() },
            Self::Claim | Self::Observe { .. } | Self::WatchNamespaces | Self::AskGate { .. } => return None,
        };
        Some(input)
    }
}

/// A command about one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskCommand {
    /// Run a server-side dry run of the manifest.
    Check,
    /// Delete the object with this UID. Counts as done if the object is missing or has another UID.
    Prune {
        /// `metadata.uid` of the live object, from the plan.
        uid: String,
    },
    /// Clear the place of a hook: adopt the operation's own object, delete an older object, or find that there is no
    /// object.
    ClearHook,
    /// Apply the manifest. The operation id and the attempt are recorded on a hook.
    Apply,
    /// Pass the hook to a registered runner.
    RunHook {
        /// Name under which the runner is registered with the engine.
        runner: String,
    },
    /// Remove the hook finalizer from the object with this UID.
    ReleaseHook {
        /// `metadata.uid` of the hook object.
        uid: String,
    },
    /// Remove the hook finalizer from the object with this UID, and delete it.
    DeleteHook {
        /// `metadata.uid` of the hook object.
        uid: String,
    },
    /// Judge a hook of this operation once more, and delete it if it is still running.
    StopHook,
    /// Read the last log lines of a failed hook's containers before its object is deleted.
    ReadLogs,
}

impl TaskCommand {
    /// Returns the answer for a failed command.
    pub fn failure_answer(&self, error: CallError) -> Answer {
        match self {
            Self::Check => Answer::Checked(Err(error)),
            Self::Prune { .. } => Answer::Pruned(Err(error)),
            Self::ClearHook => Answer::Cleared(Err(error)),
            Self::Apply => Answer::Applied(Err(error)),
            Self::ReleaseHook { .. } => Answer::Released(Err(error)),
            Self::DeleteHook { .. } => Answer::Deleted(Err(error)),
            Self::StopHook => Answer::Stopped(Err(error)),
            Self::ReadLogs => Answer::LogsRead { reason: String::new(), logs: Vec::new() },
            Self::RunHook { .. } => Answer::Ran { success: false, message: error.message },
        }
    }
}
