use std::time::Duration;

use tidegate_model::TaskId;

use super::input::{Answer, CallError, Input};

/// When a gate that gave no usable answer is asked again, for safety.
pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What the world still owes an operation.
///
/// Every command may be carried out twice and must then change nothing the second time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Read the cluster and plan. Answer: [`Input::Planned`](super::Input) or
    /// [`Input::PlanFailed`](super::Input).
    Plan,
    /// Take the claim, or go on holding it until the operation is over. What becomes of it comes as
    /// [`Input::Claim`](super::Input), again and again.
    Claim,
    /// A command about one task. Answer: [`Input::Answer`](super::Input) with the same attempt. Those about one task are
    /// carried out one after the other: otherwise a hook could be created after it was stopped.
    Task {
        /// Its position in the plan.
        task: TaskId,
        /// The attempt it is for.
        attempt: u32,
        /// What is to be done with its object.
        what: TaskCommand,
    },
    /// Keep reporting what is seen of a task's object, beginning with what is there now, as
    /// [`Input::Observed`](super::Input).
    Observe {
        /// Position in the plan of the task that awaits the object.
        task: TaskId,
    },
    /// Keep reporting what is seen of the namespaces that the operation writes into, as
    /// [`Input::NamespaceSeen`](super::Input). It may begin late: before the end all of them are looked at.
    WatchNamespaces,
    /// Look at the namespaces that the operation writes into. Answer:
    /// [`Input::NamespacesSeen`](super::Input).
    LookAtNamespaces,
    /// Ask a gate about a wave, and keep listening: what it answers, and whatever it answers later by itself, comes as
    /// [`Input::Gate`](super::Input).
    AskGate {
        /// Position of the wave in the plan.
        wave: u32,
        /// Name of the gate.
        gate: String,
    },
}

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Reading the cluster for a plan, and making it.
    Plan,
    /// The one claim of the operation.
    Claim,
    /// A task and its object.
    Task(TaskId),
    /// The work of a runner for a hook, in this attempt. It may never end, and must then not stand in the way of ending the
    /// hook or of the next attempt.
    Runner(TaskId, u32),
    /// A gate by its name, whichever wave asks it.
    Gate(String),
    /// The namespaces that the operation writes into.
    Namespaces,
}

impl Command {
    /// What it is about: as long as a command about the same is on its way, this one waits.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Plan => Subject::Plan,
            Self::Claim => Subject::Claim,
            Self::Task { task, attempt, what: TaskCommand::RunHook { .. } } => {
                Subject::Runner(*task, *attempt)
            }
            Self::Task { task, .. } | Self::Observe { task } => Subject::Task(*task),
            Self::AskGate { gate, .. } => Subject::Gate(gate.clone()),
            Self::WatchNamespaces | Self::LookAtNamespaces => Subject::Namespaces,
        }
    }

    /// Whether it is kept up for as long as it is owed.
    pub fn is_standing(&self) -> bool {
        matches!(self, Self::Claim | Self::Observe { .. } | Self::WatchNamespaces | Self::AskGate { .. })
    }

    /// The answer to it when it could not be carried out; `None` for what has no answer.
    pub fn failed(&self, error: CallError) -> Option<Input> {
        let input = match self {
            Self::Plan => Input::PlanFailed(error),
            Self::Task { task, attempt, what } => {
                Input::Answer { task: *task, attempt: *attempt, answer: what.failed(error) }
            }
            // What cannot be seen keeps nobody from ending.
            Self::LookAtNamespaces => Input::NamespacesSeen { namespaces: Vec::new() },
            Self::Claim | Self::Observe { .. } | Self::WatchNamespaces | Self::AskGate { .. } => return None,
        };
        Some(input)
    }
}

/// What is to be done about one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskCommand {
    /// Dry-run the manifest on the server.
    Check,
    /// Delete the object with this UID. Already gone, or another UID, counts as done.
    Prune {
        /// `metadata.uid` of the live object, as the plan has it.
        uid: String,
    },
    /// Make room for a hook: adopt our own, delete an older one, or find nothing.
    ClearHook,
    /// Apply the manifest. A hook carries the operation id and attempt.
    Apply,
    /// Hand the hook to a registered runner.
    RunHook {
        /// The name it was registered under with the engine.
        runner: String,
    },
    /// Remove the hook finalizer from the object with this UID.
    ReleaseHook {
        /// `metadata.uid` of the hook object.
        uid: String,
    },
    /// Remove the hook finalizer from, and delete, the object with this UID.
    DeleteHook {
        /// `metadata.uid` of the hook object.
        uid: String,
    },
    /// Judge a hook of this operation once more and delete it if it still runs.
    StopHook,
    /// Read what the containers of a failed hook wrote last, before its object may go.
    ReadLogs,
}

impl TaskCommand {
    /// The answer to it when it could not be carried out.
    pub fn failed(&self, error: CallError) -> Answer {
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
