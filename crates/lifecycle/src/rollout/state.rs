//! State of a rollout. Only [`apply`](super::apply()) creates new states.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, Timestamp};

use super::input::MemberObservation;
use super::request::{DeployedState, Options, Step, Target};
use crate::fleet::{self, Assignment, Attribution, CallFailures};
use crate::operation::GateAnswer;

/// State of one rollout: a fold over its events.
pub type State = fleet::State<Rollout>;

impl State {
    /// Returns the rollout, if there is one.
    pub fn rollout(&self) -> Option<&Rollout> {
        self.content()
    }

    /// Returns the name of the state, for messages about illegal events and rejected inputs.
    pub fn name(&self) -> String {
        self.name_with(|rollout| rollout.stage.name())
    }
}

/// A rollout that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// ApplicationSet, as `namespace/name`.
    pub set: String,
    /// `metadata.uid` of the ApplicationSet.
    pub uid: String,
    /// Digest that distinguishes the rollout's targets from other targets of the ApplicationSet.
    pub targets: Digest,
    /// Requester.
    pub by: String,
    /// Options.
    pub options: Options,
    /// Start time.
    pub started_at: Timestamp,
    /// Steps.
    pub steps: Vec<StepState>,
    /// Applications, by name.
    pub members: BTreeMap<String, Member>,
    /// Current stage.
    pub stage: Stage,
    /// Start time of the current stage.
    pub since: Timestamp,
    /// Gate verdicts for the held step.
    pub gates: Vec<GateAnswer>,
    /// Requester of the pause and the reason, if the rollout is paused.
    pub paused: Option<Attribution>,
    /// Requester of the termination and the reason, if it was requested.
    pub terminated: Option<Attribution>,
    /// Newer targets of the ApplicationSet, if they differ from the rollout's targets.
    pub new_targets: Option<NewTargets>,
    /// Outcome, if the rollout has finished.
    pub outcome: Option<Outcome>,
}

/// Newer targets of the ApplicationSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTargets {
    /// Digest of the targets.
    pub targets: Digest,
    /// Time the targets appeared.
    pub at: Timestamp,
}

/// Stage of a rollout. Step indices start at 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No step has been evaluated yet.
    Begun,
    /// A step can't open yet because a gate is closed or an approval is missing.
    Held {
        /// Index of the step.
        step: u32,
    },
    /// The Applications in a step are being updated to their targets.
    Rolling {
        /// Index of the step.
        step: u32,
    },
    /// The Applications in a step are returning to their previous deployments.
    RollingBack {
        /// Index of the step.
        step: u32,
    },
    /// No more work starts. The rollout is waiting for running operations, or stopping them.
    Ending {
        /// Outcome.
        end: End,
        /// Description of the reason.
        message: String,
        /// True if running operations are being stopped.
        stops: bool,
    },
}

impl Stage {
    /// Returns the name of the stage, for messages.
    pub fn name(&self) -> String {
        let number = |step: &u32| step.saturating_add(1);
        match self {
            Self::Begun => "Begun".to_owned(),
            Self::Held { step } => format!("Held before step {}", number(step)),
            Self::Rolling { step } => format!("Rolling step {}", number(step)),
            Self::RollingBack { step } => format!("RollingBack step {}", number(step)),
            Self::Ending { end, .. } => format!("Ending ({end:?})"),
        }
    }
}

/// Outcome of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutEnd")]
pub enum End {
    /// All steps are done.
    Completed,
    /// A step failed.
    Failed,
    /// A step failed, and its Applications were rolled back.
    RolledBack,
    /// The ApplicationSet's targets changed.
    Superseded,
    /// A user terminated the rollout.
    Terminated,
    /// The engine aborted the rollout after repeated internal errors.
    Error,
}

/// Outcome of a finished rollout.
pub type Outcome = fleet::Outcome<End>;

/// State of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// Specification of the step.
    pub step: Step,
    /// Start of the work on the step's first Application.
    pub opened_at: Option<Timestamp>,
    /// Time from which the step's deadline is measured: its opening, postponed by the length of pauses.
    pub deadline_from: Timestamp,
    /// Most recent time at which all Applications in the step were done.
    pub passed_at: Option<Timestamp>,
    /// Failure, if the step has failed. Cleared when a user resumes the rollout.
    pub failed: Option<Failure>,
    /// Number of Applications that had already failed when a user resumed the rollout. They are tolerated.
    pub forgiven: u32,
    /// Approval, if the step was approved.
    pub approved: Option<Attribution>,
}

/// Failure of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Cause of the failure.
    pub cause: Cause,
    /// Message that lists the affected Applications at the time of the failure.
    pub message: String,
}

/// Cause of a step's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Too many Applications failed. The value is their number.
    Failures(u32),
    /// The step's deadline passed.
    Deadline,
}

/// State of one of the ApplicationSet's Applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Step that the Application is assigned to.
    pub place: Assignment,
    /// Target of the Application.
    pub target: Target,
    /// Previous deployment, or `None` if the Application was never deployed.
    pub before: Option<DeployedState>,
    /// Kind of work.
    pub work: WorkKind,
    /// Progress of the work.
    pub progress: Progress,
    /// Time of the Application's last status change.
    pub since: Timestamp,
    /// Newest relevant observation in the current progress.
    pub seen: Option<MemberObservation>,
    /// Failed calls for the Application.
    pub calls: CallFailures,
    /// Start of the Pending time: the time of the Application's promotion, postponed by pauses and sync
    /// windows.
    pub pending_from: Timestamp,
    /// True if the Application has been Pending for longer than allowed.
    pub overdue: bool,
    /// True if an operation of this rollout may have changed the Application.
    pub touched: bool,
}

/// Kind of work on an Application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WorkKind {
    /// The Application is updated to its target.
    #[default]
    Sync,
    /// The Application returns to its previous deployment.
    RollBack,
}

/// Progress of the work on an Application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// The Application hasn't been promoted yet.
    Waiting,
    /// The Application was promoted, but its operation doesn't have an ID yet.
    Promoted,
    /// The Application's operation has an ID, but hasn't been reported as started.
    Named {
        /// ID of the operation.
        operation: OperationId,
        /// Description of the sync window or missing approval that delays the operation, if any.
        window: Option<String>,
    },
    /// The Application's operation has begun.
    Running {
        /// ID of the operation.
        operation: OperationId,
    },
    /// The Application's operation succeeded. The rollout is waiting until the Application is observed Synced
    /// and Healthy.
    Settling {
        /// ID of the operation.
        operation: OperationId,
        /// True if the rollout didn't start the operation.
        adopted: bool,
    },
    /// The Application was observed Synced and Healthy at its target, after an operation that deployed the
    /// target.
    Healthy {
        /// ID of the operation.
        operation: OperationId,
    },
    /// The Application has its previous deployment again.
    RolledBack {
        /// Operation that rolled the Application back.
        operation: OperationId,
    },
    /// The Application couldn't be updated to its target.
    Failed {
        /// Operation that failed, if there was one.
        operation: Option<OperationId>,
        /// Error message.
        message: String,
    },
    /// The Application's operation is being stopped, or prevented from beginning.
    Stopping {
        /// ID of the operation.
        operation: OperationId,
        /// State that the Application enters when the operation has stopped.
        then: StopOutcome,
    },
    /// The Application was Pending for too long, and the ApplicationSet's options make it count as Healthy.
    Assumed,
    /// A user skipped the Application.
    Skipped(Attribution),
    /// The Application has left the ApplicationSet.
    Gone,
    /// The Application was added after its step had passed. The next rollout includes it.
    Late,
}

/// State that an Application enters when its operation has finished, or will certainly never begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopOutcome {
    /// The Application waits to be promoted.
    Wait,
    /// The Application has failed.
    Fail {
        /// Error message.
        message: String,
    },
    /// The Application counts as Healthy.
    Assume,
    /// The Application is skipped.
    Skip(Attribution),
    /// The Application has left the ApplicationSet.
    Go,
    /// The Application returns to its previous deployment.
    RollBack,
}
