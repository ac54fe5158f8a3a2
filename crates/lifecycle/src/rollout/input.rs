//! Inputs of a rollout: reports about its operations and members, people's requests, and new targets.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, HealthStatus, OperationId, OperationPhase};

use super::request::{MemberSpec, Request, Target};
use crate::fleet::Scope;
use crate::operation::{CallError, Verdict};

/// One input from outside of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Request for a rollout.
    Begin(Box<Request>),
    /// Answer to [`Command::ChooseId`](super::Command): an unused id, or an error.
    IdChosen {
        /// Name of the member.
        member: String,
        /// Id for the operation.
        operation: Result<OperationId, CallError>,
    },
    /// Report of a [running](super::Command::Run) operation. It may be late or repeated.
    OperationReported {
        /// Name of the member.
        member: String,
        /// Id of the operation.
        operation: OperationId,
        /// Content.
        report: OperationReport,
    },
    /// Observed state of a member, now and after every change, while the member is being
    /// [watched](super::Command::WatchMember). Observations may be old or repeated.
    Observed {
        /// Name of the member.
        member: String,
        /// Observed state.
        observation: MemberObservation,
    },
    /// Answer to [`Command::Stop`](super::Command): the operation has finished, or is certain never to begin.
    Stopped {
        /// Name of the member.
        member: String,
        /// Id of the operation.
        operation: OperationId,
        /// Error if that hasn't been achieved yet.
        result: Result<(), CallError>,
    },
    /// Verdict of a gate. A repeated verdict is ignored.
    Gate {
        /// Index of the step for which the gate was queried, counted from 0.
        step: u32,
        /// Name of the gate.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
    },
    /// An engine resumes the rollout. Gates that were open when the previous engine stopped may be closed by now.
    Recovered,
    /// A member is no longer an Application of the ApplicationSet.
    Gone {
        /// Name of the member.
        member: String,
    },
    /// An Application was added to the ApplicationSet.
    Joined {
        /// The new Application.
        member: Box<MemberSpec>,
    },
    /// The ApplicationSet now has these targets. Ignored if they are the rollout's own targets.
    NewTargets {
        /// Digest of the targets.
        targets: Digest,
    },
    /// A person's request.
    UserRequest {
        /// Content of the request.
        request: UserRequest,
        /// Requester.
        by: String,
        /// Reason; may be empty.
        reason: String,
    },
    /// The engine itself gives up on the rollout.
    Abort {
        /// Reason.
        reason: String,
    },
}

/// A person's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// Approve a step.
    Approve {
        /// Number of the step, counted from 1. `None` for the step that is waiting for approval now.
        step: Option<u32>,
    },
    /// Continue without a member, or without all members of a step that aren't Healthy.
    Skip(Scope),
    /// Try again to deploy the target of a member, or the targets of all failed members of a step.
    Retry(Scope),
    /// Don't start any more work. Running work continues, and deadlines stand still.
    Pause,
    /// Resume.
    Resume,
    /// Stop running work, then end the rollout.
    Terminate,
}

/// Report of a member's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationReport {
    /// A sync window delays the start of the operation.
    Delayed {
        /// Sync window and its end, as text.
        window: String,
    },
    /// The operation's plan isn't approved.
    Unapproved {
        /// Plan and required approver, as text.
        plan: String,
    },
    /// The operation began.
    Started,
    /// The operation doesn't begin, because the Application is already Synced with the target that it would deploy.
    Deployed {
        /// Operation that deployed this target.
        operation: OperationId,
    },
    /// The operation has finished.
    Ended {
        /// Final phase.
        phase: OperationPhase,
        /// Final message of the operation.
        message: String,
    },
    /// The operation couldn't be started, or its state isn't available.
    Failed(CallError),
}

/// State of an Application at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberObservation {
    /// Newest of the Application's operations that succeeded and had finished *before* the Application was compared.
    pub operation: Option<OperationId>,
    /// Target that this operation deployed.
    pub deployed: Option<Target>,
    /// True if the Application is Synced.
    pub synced: bool,
    /// Health.
    pub health: HealthStatus,
    /// Reason why the Application isn't healthy. May be empty.
    pub message: String,
}

impl MemberObservation {
    /// Returns the operation that proves that this target was deployed: the operation deployed the target, and the
    /// Application hasn't changed since.
    pub(crate) fn evidence_of(&self, target: &Target) -> Option<OperationId> {
        self.operation.filter(|_| self.synced && self.deployed.as_ref() == Some(target))
    }

    /// Returns true if the Application is Healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.health == HealthStatus::Healthy
    }
}
