//! Inputs of a rollout: reports on its operations and Applications, user requests, and new targets.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, HealthStatus, OperationId, OperationPhase};

use super::request::{MemberSpec, Request, Target};
use crate::fleet::Scope;
use crate::operation::{CallError, Verdict};

/// Input from outside the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A rollout is requested.
    Begin(Box<Request>),
    /// Result of [`Command::ChooseId`](super::Command): an unused ID, or an error.
    IdChosen {
        /// Name of the Application.
        member: String,
        /// ID for the operation.
        operation: Result<OperationId, CallError>,
    },
    /// Report on an operation from [`Command::Run`](super::Command::Run). Reports may be late or repeated.
    OperationReported {
        /// Name of the Application.
        member: String,
        /// ID of the operation.
        operation: OperationId,
        /// Content of the report.
        report: OperationReport,
    },
    /// State of an Application from [`Command::WatchMember`](super::Command::WatchMember), reported at the
    /// start of the watch and after every change. Observations may be old or repeated.
    Observed {
        /// Name of the Application.
        member: String,
        /// Observed state.
        observation: MemberObservation,
    },
    /// Result of [`Command::Stop`](super::Command): the operation has finished, or will certainly never
    /// begin.
    Stopped {
        /// Name of the Application.
        member: String,
        /// ID of the operation.
        operation: OperationId,
        /// Error, if the operation couldn't be stopped.
        result: Result<(), CallError>,
    },
    /// Verdict of a gate. Duplicates are ignored.
    Gate {
        /// Index of the gate's step, starting at 0.
        step: u32,
        /// Name of the gate.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
    },
    /// An engine resumes the rollout. Gates that were open when the previous engine stopped may be closed by
    /// now.
    Recovered,
    /// An Application has left the ApplicationSet.
    Gone {
        /// Name of the Application.
        member: String,
    },
    /// An Application was added to the ApplicationSet.
    Joined {
        /// The new Application.
        member: Box<MemberSpec>,
    },
    /// Current targets of the ApplicationSet. Ignored if the targets haven't changed.
    NewTargets {
        /// Digest of the targets.
        targets: Digest,
    },
    /// A user made a request.
    UserRequest {
        /// Content of the request.
        request: UserRequest,
        /// Requester.
        by: String,
        /// Reason. May be empty.
        reason: String,
    },
    /// The engine gives up on the rollout.
    Abort {
        /// Reason for giving up.
        reason: String,
    },
}

/// User request that affects a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// Approve a step.
    Approve {
        /// Number of the step, starting at 1. `None` for the step that is waiting for approval now.
        step: Option<u32>,
    },
    /// Continue without an Application, or without all Applications in a step that aren't Healthy.
    Skip(Scope),
    /// Try again to deploy an Application's target, or the targets of all failed Applications in a step.
    Retry(Scope),
    /// Don't start any more work. Running work continues, and the pause doesn't count toward deadlines.
    Pause,
    /// Resume the rollout.
    Resume,
    /// Stop running work, then end the rollout.
    Terminate,
}

/// Report on an Application's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationReport {
    /// A sync window delays the start of the operation.
    Delayed {
        /// Description of the sync window and its end.
        window: String,
    },
    /// The operation's plan isn't approved.
    Unapproved {
        /// Description of the plan and the approval that it requires.
        plan: String,
    },
    /// The operation began.
    Started,
    /// The operation doesn't begin, because another operation has already deployed the same target.
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

/// State of an Application at a specific time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberObservation {
    /// The Application's newest successful operation that had finished *before* the Application was compared.
    pub operation: Option<OperationId>,
    /// Target that this operation deployed.
    pub deployed: Option<Target>,
    /// True if the Application is Synced.
    pub synced: bool,
    /// Health of the Application.
    pub health: HealthStatus,
    /// Reason why the Application isn't healthy. May be empty.
    pub message: String,
}

impl MemberObservation {
    /// Returns the operation that deployed the given target, if the Application is still Synced with that
    /// target.
    pub(crate) fn evidence_of(&self, target: &Target) -> Option<OperationId> {
        self.operation.filter(|_| self.synced && self.deployed.as_ref() == Some(target))
    }

    /// Returns true if the Application is Healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.health == HealthStatus::Healthy
    }
}
