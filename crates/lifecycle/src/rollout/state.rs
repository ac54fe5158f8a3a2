//! State of a rollout. Built only by [`apply`](super::apply()).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, Timestamp};

use super::input::MemberObservation;
use super::request::{DeployedState, Options, Step, Target};
use crate::fleet::{Assignment, Attribution, CallFailures};
use crate::operation::GateAnswer;

/// State of one rollout: a fold over its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// No event has been recorded yet.
    #[default]
    New,
    /// Begun, but not finished.
    Running(Box<Rollout>),
    /// Finished.
    Finished(Box<Rollout>),
}

impl State {
    /// Returns the rollout, if there is one.
    pub fn rollout(&self) -> Option<&Rollout> {
        match self {
            Self::New => None,
            Self::Running(rollout) | Self::Finished(rollout) => Some(rollout),
        }
    }

    /// Returns true if the rollout has finished.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    /// Returns the name of the state, for messages about illegal events and rejected inputs.
    pub fn name(&self) -> String {
        match self {
            Self::New => "New".to_owned(),
            Self::Running(rollout) => rollout.stage.name(),
            Self::Finished(_) => "Finished".to_owned(),
        }
    }
}

/// A rollout that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// ApplicationSet: `namespace/name`.
    pub set: String,
    /// `metadata.uid` of the ApplicationSet.
    pub uid: String,
    /// Digest that distinguishes its targets from other targets of the ApplicationSet.
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
    /// Start of the current stage.
    pub since: Timestamp,
    /// Gate answers for the held step.
    pub gates: Vec<GateAnswer>,
    /// Pause: requester and reason.
    pub paused: Option<Attribution>,
    /// Termination: requester and reason.
    pub terminated: Option<Attribution>,
    /// Newer targets of the ApplicationSet.
    pub new_targets: Option<NewTargets>,
    /// Outcome.
    pub outcome: Option<Outcome>,
}

/// Newer targets of the ApplicationSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTargets {
    /// Digest of the targets.
    pub targets: Digest,
    /// Time at which the targets appeared.
    pub at: Timestamp,
}

/// Stage of a rollout. Steps are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No step has been evaluated yet.
    Begun,
    /// Gates or missing approvals keep a step closed.
    Held {
        /// Index of the step.
        step: u32,
    },
    /// The members of a step are being updated to their targets.
    Rolling {
        /// Index of the step.
        step: u32,
    },
    /// The members of a step are returning to their previous deployments.
    RollingBack {
        /// Index of the step.
        step: u32,
    },
    /// No more work starts. The rollout is waiting for running operations, or stopping them.
    Ending {
        /// Outcome.
        end: End,
        /// Reason as text.
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
    /// Every step is done.
    Completed,
    /// A step failed.
    Failed,
    /// A step failed, and its members were rolled back.
    RolledBack,
    /// The ApplicationSet has other targets.
    Superseded,
    /// A person terminated the rollout.
    Terminated,
    /// The engine gave up.
    Error,
}

/// Outcome of a finished rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Kind of the outcome.
    pub end: End,
    /// Final message.
    pub message: String,
    /// End time.
    pub at: Timestamp,
}

/// State of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// Specification of the step.
    pub step: Step,
    /// Time at which the step's members first began.
    pub opened_at: Option<Timestamp>,
    /// Start of the step's deadline: its opening, moved by pauses.
    pub deadline_from: Timestamp,
    /// Time at which all members of the step were last done.
    pub passed_at: Option<Timestamp>,
    /// Failure. Cleared when a person resumes the rollout.
    pub failed: Option<Failure>,
    /// Number of members that had failed when a person resumed the rollout.
    pub forgiven: u32,
    /// Approval.
    pub approved: Option<Attribution>,
}

/// Failure of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Cause.
    pub cause: Cause,
    /// Message, with the names at the time of the failure.
    pub message: String,
}

/// Cause of a step's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// This many members failed.
    Failures(u32),
    /// The step's deadline passed.
    Deadline,
}

/// State of an Application of the ApplicationSet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Step.
    pub place: Assignment,
    /// Target.
    pub target: Target,
    /// Previous deployment. `None` if the Application was never deployed.
    pub before: Option<DeployedState>,
    /// Kind of work.
    pub work: WorkKind,
    /// Progress of the work.
    pub progress: Progress,
    /// Time since which the member has had its current status.
    pub since: Timestamp,
    /// Observation after the end of the member's operation.
    pub seen: Option<MemberObservation>,
    /// Failed calls about the member.
    pub calls: CallFailures,
    /// Start of the member's Pending time: its promotion, moved by pauses and sync windows.
    pub pending_from: Timestamp,
    /// True if the member has been Pending for longer than allowed.
    pub overdue: bool,
    /// True if an operation of this rollout may have changed the member.
    pub touched: bool,
}

/// Work on a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WorkKind {
    /// The member is updated to its target.
    #[default]
    Sync,
    /// The member returns to its previous deployment.
    RollBack,
}

/// Progress of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// The member hasn't been promoted yet.
    Waiting,
    /// The member was promoted. Its operation doesn't have an id yet.
    Promoted,
    /// The member's operation has an id, but isn't known to have begun.
    Named {
        /// Id of the operation.
        operation: OperationId,
        /// Sync window or missing approval that delays the operation, as text.
        window: Option<String>,
    },
    /// The member's operation has begun.
    Running {
        /// Id of the operation.
        operation: OperationId,
    },
    /// The member's operation succeeded. The rollout is waiting for an observation of the member as Synced and Healthy
    /// after that.
    Settling {
        /// Id of the operation.
        operation: OperationId,
        /// True if the operation wasn't started by the rollout.
        adopted: bool,
    },
    /// The member was observed Synced and Healthy at its target, after an operation that deployed the target.
    Healthy {
        /// Id of the operation.
        operation: OperationId,
    },
    /// The member has its previous deployment again.
    RolledBack {
        /// Operation that rolled it back.
        operation: OperationId,
    },
    /// The member couldn't be updated to its target.
    Failed {
        /// Operation that failed, if there was one.
        operation: Option<OperationId>,
        /// Error message.
        message: String,
    },
    /// The member's operation must end or never begin.
    Stopping {
        /// Id of the operation.
        operation: OperationId,
        /// State of the member afterwards.
        then: StopOutcome,
    },
    /// The member was Pending for too long, and counts as Healthy because the ApplicationSet says so.
    Assumed,
    /// A person skipped the member.
    Skipped(Attribution),
    /// The member is no longer an Application of the ApplicationSet.
    Gone,
    /// The member was added after its step had passed. The next rollout includes it.
    Late,
}

/// State of a member once its operation has finished, or is certain never to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopOutcome {
    /// The member waits.
    Wait,
    /// The member has failed.
    Fail {
        /// Error message.
        message: String,
    },
    /// The member counts as Healthy.
    Assume,
    /// The member is skipped.
    Skip(Attribution),
    /// The member is gone.
    Go,
    /// The member returns to its previous deployment.
    RollBack,
}
