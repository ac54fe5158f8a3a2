use tidegate_model::OperationId;

use super::state::WorkKind;

/// Outstanding command of a rollout.
///
/// A command may run twice, so it must be idempotent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Choose an ID for an Application's operation that sorts after the IDs of all existing operations.
    /// Result: [`Input::IdChosen`](super::Input). Unused IDs are discarded.
    ChooseId {
        /// Name of the Application.
        member: String,
    },
    /// Ensure that the operation exists and is running. Report its state as
    /// [`Input::OperationReported`](super::Input), beginning with the current state, until the operation has
    /// finished or the call has failed. When this subscription ends, an operation that has begun continues;
    /// otherwise, it is withdrawn.
    Run {
        /// Name of the Application.
        member: String,
        /// Recorded ID of the operation.
        operation: OperationId,
        /// Deployment of the Application's target, or of its previous state.
        work: WorkKind,
    },
    /// Ensure that the operation has finished or never begins. Result: [`Input::Stopped`](super::Input), when
    /// this is certain. The operation's [`Run`](Self::Run) subscription ends first.
    Stop {
        /// Name of the Application.
        member: String,
        /// ID of the operation.
        operation: OperationId,
    },
    /// Report observations of an Application as [`Input::Observed`](super::Input), beginning with the
    /// Application's current state.
    WatchMember {
        /// Name of the Application.
        member: String,
    },
    /// Query a gate for a step, and subscribe to it. Its verdicts arrive as [`Input::Gate`](super::Input).
    AskGate {
        /// Index of the step, starting at 0.
        step: u32,
        /// Name of the gate.
        gate: String,
    },
}

/// Subject of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The operation of an Application.
    Operation(String),
    /// The Application itself.
    Member(String),
    /// A gate.
    Gate(String),
}

impl Command {
    /// Returns the subject of the command.
    pub fn subject(&self) -> Subject {
        match self {
            Self::ChooseId { member } | Self::Run { member, .. } | Self::Stop { member, .. } => {
                Subject::Operation(member.clone())
            }
            Self::WatchMember { member } => Subject::Member(member.clone()),
            Self::AskGate { gate, .. } => Subject::Gate(gate.clone()),
        }
    }

    /// Returns true for a subscription, which runs while it is outstanding.
    pub fn is_subscription(&self) -> bool {
        matches!(self, Self::Run { .. } | Self::WatchMember { .. } | Self::AskGate { .. })
    }
}
