//! Recorded events. The type is append-only: variants are never removed or reordered, because logs contain
//! them. A variant whose fields change gets the next kind number, and `read_earlier` reads its old layout.

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
    /// The rollout was created, and its Applications were assigned to steps.
    Created {
        /// ApplicationSet, as `namespace/name`.
        set: String,
        /// `metadata.uid` of the ApplicationSet.
        uid: String,
        /// Digest that distinguishes the rollout's targets from other targets of the ApplicationSet.
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
    /// The rollout entered another stage.
    Moved {
        /// New stage.
        to: Stage,
        /// Time of the event.
        at: Timestamp,
    },
    /// A gate returned a verdict for the held step.
    GateAnswered {
        /// Name of the gate.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
        /// Time of the event.
        at: Timestamp,
    },
    /// A user approved a step.
    Approved {
        /// Index of the step.
        step: u32,
        /// Requester and reason.
        said: Attribution,
    },
    /// An Application was promoted: its turn to be updated has come.
    Promoted {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An ID was assigned to an Application's operation. The operation hasn't been requested yet.
    OperationAssigned {
        /// Name of the Application.
        member: String,
        /// ID of the operation.
        operation: OperationId,
    },
    /// A sync window or a missing approval started or stopped delaying an Application's operation.
    SyncWindowChanged {
        /// Name of the Application.
        member: String,
        /// Reason for the delay, or `None` if the delay is over.
        window: Option<String>,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application's operation began.
    OperationStarted {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A call for an Application failed with a transient error. The call is retried at `retry_at`.
    CallFailed {
        /// Name of the Application.
        member: String,
        /// Error message.
        message: String,
        /// Time of the next call.
        retry_at: Timestamp,
    },
    /// An Application's operation has finished.
    OperationEnded {
        /// Name of the Application.
        member: String,
        /// Final phase.
        phase: OperationPhase,
        /// Final message of the operation.
        message: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application was observed, but not in the state that the rollout is waiting for.
    StatusObserved {
        /// Name of the Application.
        member: String,
        /// Observed state.
        sight: MemberObservation,
        /// Time of the event.
        at: Timestamp,
    },
    /// An operation that the rollout didn't start deployed an Application's target.
    OperationAdopted {
        /// Name of the Application.
        member: String,
        /// ID of the operation.
        operation: OperationId,
        /// Time of the observation.
        at: Timestamp,
    },
    /// An Application was observed Synced and Healthy after its operation.
    BecameHealthy {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A Healthy Application stopped being Healthy while it was being watched before the next step.
    HealthLost {
        /// Name of the Application.
        member: String,
        /// Observed state.
        sight: MemberObservation,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application has been Pending for longer than allowed, and the rollout is still waiting for it.
    Overdue {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application's operation must end or never begin.
    StopRequested {
        /// Name of the Application.
        member: String,
        /// State that the Application enters when the operation has stopped.
        then: StopOutcome,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application's operation was stopped: it has finished, or will certainly never begin.
    Stopped {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// An Application must return to its previous state.
    RollbackStarted {
        /// Name of the Application.
        member: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A user skipped an Application.
    Skipped {
        /// Name of the Application.
        member: String,
        /// Requester and reason.
        said: Attribution,
    },
    /// A user requested a retry for an Application.
    Retried {
        /// Name of the Application.
        member: String,
        /// Requester and reason.
        said: Attribution,
    },
    /// An Application left the ApplicationSet.
    Removed {
        /// Name of the Application.
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
        /// Reason for the failure.
        failure: Failure,
        /// Time of the event.
        at: Timestamp,
    },
    /// A user paused the rollout.
    Paused(Attribution),
    /// A user resumed the rollout.
    Resumed(Attribution),
    /// A user terminated the rollout.
    TerminateRequested(Attribution),
    /// The ApplicationSet's targets changed, either to new targets or back to the rollout's own targets.
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

/// Recorded data about an Application of the ApplicationSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Name of the Application.
    pub name: String,
    /// Step that the Application is assigned to.
    pub place: Assignment,
    /// Target of the Application.
    pub target: Target,
    /// Previous deployment, or `None` if the Application was never deployed.
    pub before: Option<DeployedState>,
    /// Operation that has already deployed the Application's target, if any.
    pub done_by: Option<OperationId>,
}

impl Event {
    /// Returns the existing Application that the event refers to, if any.
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
