//! Recorded events. They are append-only: a variant is never removed or reordered, because logs contain it. If a field of a
//! variant changes, the variant gets the next kind number, and `read_earlier` reads its old layout.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, OperationPhase, Timestamp};

use super::input::MemberObservation;
use super::request::{DeployedState, Options, Step, Target};
use super::state::{End, Failure, Stage, StopOutcome};
use crate::fleet::{Assignment, Attribution};
use crate::operation::Verdict;

/// A recorded event of a rollout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The rollout exists from this event on, with its members assigned to steps.
    Created {
        /// ApplicationSet: `namespace/name`.
        set: String,
        /// `metadata.uid` of the ApplicationSet.
        uid: String,
        /// Digest that distinguishes its targets from other targets of the ApplicationSet.
        targets: Digest,
        /// Requester.
        by: String,
        /// Steps, in order.
        steps: Vec<Step>,
        /// All Applications of the ApplicationSet.
        members: Vec<MemberRecord>,
        /// Options.
        options: Options,
        /// Time of the event.
        at: Timestamp,
    },
    /// A transition of the state machine.
    Moved {
        /// New stage.
        to: Stage,
        /// Time of the event.
        at: Timestamp,
    },
    /// A gate answered about the held step.
    GateAnswered {
        /// Name of the gate.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
        /// Time of the event.
        at: Timestamp,
    },
    /// A person approved a step.
    Approved {
        /// Index of the step.
        step: u32,
        /// Requester and reason.
        said: Attribution,
    },
    /// A member's turn has come.
    Promoted {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member's operation received its id, before the operation is requested.
    OperationAssigned {
        /// Name of the member.
        member: String,
        /// Id of the operation.
        operation: OperationId,
    },
    /// A sync window or a missing approval is delaying a member's operation, or no longer delays it.
    SyncWindowChanged {
        /// Name of the member.
        member: String,
        /// Reason as text. `None` once there is no reason any more.
        window: Option<String>,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member's operation began.
    OperationStarted {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A call about a member failed with a transient error. It is repeated at `retry_at`.
    CallFailed {
        /// Name of the member.
        member: String,
        /// Error message.
        message: String,
        /// Time of the next call.
        retry_at: Timestamp,
    },
    /// A member's operation has finished.
    OperationEnded {
        /// Name of the member.
        member: String,
        /// Final phase.
        phase: OperationPhase,
        /// Final message of the operation.
        message: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member was observed in a state that the rollout isn't waiting for.
    StatusObserved {
        /// Name of the member.
        member: String,
        /// Observed state.
        sight: MemberObservation,
        /// Time of the event.
        at: Timestamp,
    },
    /// An operation that the rollout did not start brought a member to its target.
    OperationAdopted {
        /// Name of the member.
        member: String,
        /// Id of the operation.
        operation: OperationId,
        /// Time of the observation.
        at: Timestamp,
    },
    /// A member was observed Synced and Healthy after its operation.
    BecameHealthy {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A Healthy member is no longer Healthy while it is being watched before the next step.
    HealthLost {
        /// Name of the member.
        member: String,
        /// Observed state.
        sight: MemberObservation,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member has been Pending for longer than allowed, and the rollout is still waiting for it.
    Overdue {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member's operation must end or never begin.
    StopRequested {
        /// Name of the member.
        member: String,
        /// State of the member afterwards.
        then: StopOutcome,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member's operation has finished, or is certain never to begin.
    Stopped {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A member must return to its previous state.
    RollbackStarted {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A person skipped a member.
    Skipped {
        /// Name of the member.
        member: String,
        /// Requester and reason.
        said: Attribution,
    },
    /// A person requested a retry for a member.
    Retried {
        /// Name of the member.
        member: String,
        /// Requester and reason.
        said: Attribution,
    },
    /// A member is no longer an Application of the ApplicationSet.
    Removed {
        /// Name of the member.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application was added to the ApplicationSet.
    Added {
        /// The new Application.
        member: Box<MemberRecord>,
        /// Time of the event.
        at: Timestamp,
    },
    /// A step failed.
    StepFailed {
        /// Index of the step.
        step: u32,
        /// Reason.
        failure: Failure,
        /// Time of the event.
        at: Timestamp,
    },
    /// A person paused the rollout.
    Paused(Attribution),
    /// A person resumed the rollout.
    Resumed(Attribution),
    /// A person terminated the rollout.
    TerminateRequested(Attribution),
    /// The ApplicationSet now has other targets, or has the rollout's own targets again.
    TargetsChanged {
        /// Digest of the targets.
        targets: Digest,
        /// Time of the event.
        at: Timestamp,
    },
    /// The rollout has finished.
    Finished {
        /// Outcome.
        end: End,
        /// Final message.
        message: String,
        /// Time of the event.
        at: Timestamp,
    },
}

/// An Application of the ApplicationSet, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Name.
    pub name: String,
    /// Step.
    pub place: Assignment,
    /// Target.
    pub target: Target,
    /// Previous deployment. `None` if the Application was never deployed.
    pub before: Option<DeployedState>,
    /// Operation that already deployed the Application's target.
    pub done_by: Option<OperationId>,
}

impl Event {
    /// Returns the existing member to which the event refers, if any.
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::Promoted { member, .. }
            | Self::OperationAssigned { member, .. }
            | Self::SyncWindowChanged { member, .. }
            | Self::OperationStarted { member, .. }
            | Self::CallFailed { member, .. }
            | Self::OperationEnded { member, .. }
            | Self::StatusObserved { member, .. }
            | Self::OperationAdopted { member, .. }
            | Self::BecameHealthy { member, .. }
            | Self::HealthLost { member, .. }
            | Self::Overdue { member, .. }
            | Self::StopRequested { member, .. }
            | Self::Stopped { member, .. }
            | Self::RollbackStarted { member, .. }
            | Self::Skipped { member, .. }
            | Self::Retried { member, .. }
            | Self::Removed { member, .. } => Some(member),
            _ => None,
        }
    }
}
