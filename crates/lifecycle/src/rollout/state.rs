//! What a rollout is, at one moment. Built only by [`evolve`](super::evolve()).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, OperationId, Timestamp};

use super::input::Sight;
use super::request::{Deployed, Options, Step, Target};
use crate::fleet::{Assignment, Calls, Said};
use crate::operation::GateAnswer;

/// State of one rollout: a fold over its facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// Nothing was recorded yet.
    #[default]
    New,
    /// Begun, and not over.
    Running(Box<Rollout>),
    /// Over.
    Finished(Box<Rollout>),
}

impl State {
    /// The rollout, once there is one.
    pub fn rollout(&self) -> Option<&Rollout> {
        match self {
            Self::New => None,
            Self::Running(rollout) | Self::Finished(rollout) => Some(rollout),
        }
    }

    /// Whether it is over.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    /// The name of the state, for messages about illegal facts and refused inputs.
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
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// What tells its targets from others of the set.
    pub targets: Digest,
    /// Who asked for it.
    pub by: String,
    /// What is to be done in cases.
    pub options: Options,
    /// When it began.
    pub started_at: Timestamp,
    /// The steps.
    pub steps: Vec<StepState>,
    /// The Applications, by name.
    pub members: BTreeMap<String, Member>,
    /// Where it stands.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// What the gates of the step that is held have answered.
    pub gates: Vec<GateAnswer>,
    /// Who holds it, and why.
    pub paused: Option<Said>,
    /// Who wants its end.
    pub terminated: Option<Said>,
    /// The set has other targets by now.
    pub new_targets: Option<NewTargets>,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

/// Other targets that the set has by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTargets {
    /// What tells them from others.
    pub targets: Digest,
    /// Since when.
    pub at: Timestamp,
}

/// Where a rollout stands. Steps are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing was looked at yet.
    Begun,
    /// Gates, or what people have not approved, keep a step closed.
    Held {
        /// The step.
        step: u32,
    },
    /// The members of a step are brought to their targets.
    Rolling {
        /// The step.
        step: u32,
    },
    /// The members of a step are brought back to what they had before.
    RollingBack {
        /// The step.
        step: u32,
    },
    /// Nothing is begun any more; what is at work is awaited, or stopped.
    Ending {
        /// How it ends.
        end: End,
        /// Why, in words.
        message: String,
        /// Operations at work are stopped.
        stops: bool,
    },
}

impl Stage {
    /// Its name, for messages.
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

/// How a rollout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolloutEnd")]
pub enum End {
    /// Every step is done.
    Completed,
    /// A step has failed.
    Failed,
    /// A step has failed, and its members have what they had before.
    RolledBack,
    /// The set has other targets.
    Superseded,
    /// A person wanted its end.
    Terminated,
    /// The engine gave up.
    Error,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How.
    pub end: End,
    /// In words.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// How a step stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// What it says.
    pub step: Step,
    /// When its members began for the first time.
    pub opened_at: Option<Timestamp>,
    /// Its deadline counts from here: the opening, moved by pauses.
    pub deadline_from: Timestamp,
    /// When all of its members were done, the last time.
    pub passed_at: Option<Timestamp>,
    /// Why it has failed, while nobody has let it go on.
    pub failed: Option<Failure>,
    /// So many of its members had failed when a person let it go on.
    pub forgiven: u32,
    /// Who has approved it.
    pub approved: Option<Said>,
}

/// Why a step has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was too much.
    pub cause: Cause,
    /// In words, with the names of then.
    pub message: String,
}

/// What was too much for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// So many members have failed.
    Failures(u32),
    /// Its deadline has passed.
    Deadline,
}

/// How an Application of the set stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Which step it is in.
    pub place: Assignment,
    /// What it is brought to.
    pub target: Target,
    /// What it had before; `None` when nothing was deployed.
    pub before: Option<Deployed>,
    /// What is done with it.
    pub work: Work,
    /// How far that is.
    pub progress: Progress,
    /// Since when it has the status that users see.
    pub since: Timestamp,
    /// What it was seen like after its operation had ended.
    pub seen: Option<Sight>,
    /// Calls about it that have failed.
    pub calls: Calls,
    /// How long it is Pending counts from here: its promotion, moved by pauses and sync windows.
    pub pending_from: Timestamp,
    /// It is Pending for longer than it may be.
    pub overdue: bool,
    /// An operation of this rollout may have changed it.
    pub touched: bool,
}

/// What is done with a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Work {
    /// It is brought to its target.
    #[default]
    Sync,
    /// It is brought back to what it had before.
    RollBack,
}

/// How far a member is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Its turn has not come.
    Waiting,
    /// Its turn has come. Its operation has no id yet.
    Promoted,
    /// Its operation has an id, and is not known to have begun.
    Named {
        /// Which.
        operation: OperationId,
        /// Which sync window keeps it, in words.
        window: Option<String>,
    },
    /// Its operation has begun.
    Running {
        /// Which.
        operation: OperationId,
    },
    /// Its operation has succeeded. It is awaited to be seen Synced and Healthy after that.
    Settling {
        /// Which.
        operation: OperationId,
        /// Somebody else has begun it.
        adopted: bool,
    },
    /// It was seen Synced and Healthy at its target, after an operation that brought it there.
    Healthy {
        /// Which.
        operation: OperationId,
    },
    /// It has what it had before.
    RolledBack {
        /// By which operation.
        operation: OperationId,
    },
    /// It could not be brought there.
    Failed {
        /// By which operation, where there was one.
        operation: Option<OperationId>,
        /// Why not.
        message: String,
    },
    /// Its operation is to be over, or never to begin.
    Stopping {
        /// Which.
        operation: OperationId,
        /// What becomes of it then.
        then: Then,
    },
    /// It was Pending for too long, and is taken for Healthy because that was declared.
    Assumed,
    /// A person goes on without it.
    Skipped(Said),
    /// It is no Application of the set any more.
    Gone,
    /// It came when its step had passed; the next rollout is about it.
    Late,
}

/// What becomes of a member once its operation is over, or is sure never to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// It waits.
    Wait,
    /// It has failed.
    Fail {
        /// Why.
        message: String,
    },
    /// It is taken for Healthy.
    Assume,
    /// It is skipped.
    Skip(Said),
    /// It is gone.
    Go,
    /// It is brought back to what it had before.
    RollBack,
}
