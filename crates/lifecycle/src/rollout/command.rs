use tidegate_model::OperationId;

use super::state::Work;

/// What the world still owes a rollout.
///
/// Every command may be carried out twice and must then change nothing the second time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Choose an id for the operation of a member, after those of all operations there are. Answer:
    /// [`Input::Chosen`](super::Input). An id that is not taken up is forgotten.
    Choose {
        /// Which member.
        member: String,
    },
    /// See to it that the operation exists and is worked on, and keep telling of it as [`Input::Child`](super::Input),
    /// beginning with how it stands now, until it is over or the call has failed. Kept up for as long as it is owed; when
    /// that ends, the operation itself goes on, unless it has not begun: then it is taken back.
    Run {
        /// Whose it is.
        member: String,
        /// Which: the id that was recorded.
        operation: OperationId,
        /// Whether it deploys the member's target, or what it had before.
        work: Work,
    },
    /// See to it that the operation is over, or never begins. Answer: [`Input::Stopped`](super::Input), when that is sure.
    /// The [`Run`](Self::Run) of the same operation is ended first.
    Stop {
        /// Whose it is.
        member: String,
        /// Which.
        operation: OperationId,
    },
    /// Keep telling what an Application is like as [`Input::Sighted`](super::Input), beginning with now.
    Watch {
        /// Which member.
        member: String,
    },
    /// Ask a gate about a step, and keep listening: what it answers comes as [`Input::Gate`](super::Input).
    AskGate {
        /// The step, from 0.
        step: u32,
        /// Name of the gate.
        gate: String,
    },
}

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The operation of a member.
    Operation(String),
    /// A member itself.
    Member(String),
    /// A gate.
    Gate(String),
}

impl Command {
    /// What it is about.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Choose { member } | Self::Run { member, .. } | Self::Stop { member, .. } => {
                Subject::Operation(member.clone())
            }
            Self::Watch { member } => Subject::Member(member.clone()),
            Self::AskGate { gate, .. } => Subject::Gate(gate.clone()),
        }
    }

    /// Whether it is kept up for as long as it is owed.
    pub fn is_standing(&self) -> bool {
        matches!(self, Self::Run { .. } | Self::Watch { .. } | Self::AskGate { .. })
    }
}
