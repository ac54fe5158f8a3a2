use tidegate_model::OperationId;

use super::state::WorkKind;

/// An outstanding command of a rollout.
///
/// Every command may be executed twice. The second execution must not have an effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Choose an id for a member's operation that sorts after all existing operations. Answer:
    /// [`Input::IdChosen`](super::Input). An unused id is discarded.
    ChooseId {
        /// Name of the member.
        member: String,
    },
    /// Ensure that the operation exists and is running. Report its state as [`Input::OperationReported`](super::Input),
    /// beginning with the current state, until the operation has finished or the call has failed. This is a
    /// subscription: when it ends, the operation itself continues. If the operation hasn't begun, it is withdrawn.
    Run {
        /// Name of the member.
        member: String,
        /// Recorded id of the operation.
        operation: OperationId,
        /// Deployment of the member's target or of its previous state.
        work: WorkKind,
    },
    /// Ensure that the operation has finished or never begins. Answer: [`Input::Stopped`](super::Input), once that is
    /// certain. The [`Run`](Self::Run) of the same operation is ended first.
    Stop {
        /// Name of the member.
        member: String,
        /// Id of the operation.
        operation: OperationId,
    },
    /// Report observations of an Application as [`Input::Observed`](super::Input), beginning with the current state.
    WatchMember {
        /// Name of the member.
        member: String,
    },
    /// Ask a gate about a step and subscribe to it. Its verdicts arrive as [`Input::Gate`](super::Input).
    AskGate {
        /// Index of the step, counted from 0.
        step: u32,
        /// Name of the gate.
        gate: String,
    },
}

/// Subject of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The operation of a member.
    Operation(String),
    /// The member itself.
    Member(String),
    /// A gate.
    Gate(String),
}

impl Command {
    /// Returns the subject.
    pub fn subject(&self) -> Subject {
        match self {
            Self::ChooseId { member } | Self::Run { member, .. } | Self::Stop { member, .. } => {
                Subject::Operation(member.clone())
            }
            Self::WatchMember { member } => Subject::Member(member.clone()),
            Self::AskGate { gate, .. } => Subject::Gate(gate.clone()),
        }
    }

    /// Returns true for a subscription, which runs as long as it is outstanding.
    pub fn is_subscription(&self) -> bool {
        matches!(self, Self::Run { .. } | Self::WatchMember { .. } | Self::AskGate { .. })
    }
}
