use tidegate_model::{TaskId, Timestamp};

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
    /// A command about one task. Answer: [`Input::Answer`](super::Input) with the same attempt.
    ///
    /// Commands about one task are carried out one after the other: the next one waits for the answer to the one on
    /// its way, even if that is no longer pending. Otherwise a hook could be created after it was stopped.
    Task {
        /// Which task.
        task: TaskId,
        /// The attempt it is for.
        attempt: u32,
        /// What to do.
        what: TaskCommand,
    },
    /// Keep reporting what is seen of a task's object, beginning with what is there now, as
    /// [`Input::Observed`](super::Input).
    Observe {
        /// Which task.
        task: TaskId,
    },
    /// Ask a gate about a wave. Answer: [`Input::Gate`](super::Input).
    AskGate {
        /// Position of the wave in the plan.
        wave: u32,
        /// Name of the gate.
        gate: String,
    },
    /// Send [`Input::Tick`](super::Input) at this time. Late or double ticks do no harm.
    WakeAt(Timestamp),
}

/// What is to be done about one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskCommand {
    /// Dry-run the manifest on the server.
    Check,
    /// Delete the object with this UID. Already gone, or another UID, counts as done.
    Prune {
        /// UID from the plan.
        uid: String,
    },
    /// Make room for a hook: adopt our own, delete an older one, or find nothing.
    ClearHook,
    /// Apply the manifest. A hook carries the operation id and attempt.
    Apply,
    /// Hand the hook to a registered runner.
    RunHook {
        /// Its name.
        runner: String,
    },
    /// Remove the hook finalizer from the object with this UID.
    ReleaseHook {
        /// UID of the hook object.
        uid: String,
    },
    /// Remove the hook finalizer from, and delete, the object with this UID.
    DeleteHook {
        /// UID of the hook object.
        uid: String,
    },
    /// Judge a hook of this operation once more and delete it if it still runs.
    StopHook,
    /// Read what the containers of a failed hook wrote last, before its object may go.
    ReadLogs,
}
