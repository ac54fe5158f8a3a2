//! State of a teardown. Built only by [`apply`](super::apply()).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::order::Order;
use super::request::{Approval, Options};
use crate::fleet::{Assignment, Attribution, CallFailures};

/// State of one teardown: a fold over its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// No event has been recorded yet.
    #[default]
    New,
    /// Begun, but not finished.
    Running(Box<Teardown>),
    /// Finished.
    Finished(Box<Teardown>),
}

impl State {
    /// Returns the teardown, if there is one.
    pub fn teardown(&self) -> Option<&Teardown> {
        match self {
            Self::New => None,
            Self::Running(teardown) | Self::Finished(teardown) => Some(teardown),
        }
    }

    /// Returns true if the teardown has finished.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    /// Returns the name of the state, for messages about illegal events and rejected inputs.
    pub fn name(&self) -> String {
        match self {
            Self::New => "New".to_owned(),
            Self::Running(teardown) => teardown.stage_name(),
            Self::Finished(_) => "Finished".to_owned(),
        }
    }
}

/// A teardown that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Teardown {
    /// ApplicationSet: `namespace/name`.
    pub set: String,
    /// `metadata.uid` of the ApplicationSet.
    pub uid: String,
    /// Requester.
    pub by: String,
    /// Order of deletion.
    pub order: Order,
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
    /// Pause: requester and reason.
    pub paused: Option<Attribution>,
    /// Termination: requester and reason.
    pub terminated: Option<Attribution>,
    /// Outcome.
    pub outcome: Option<Outcome>,
    /// Approvals of deletions that were held because there were too many of them, in order.
    pub approvals: Vec<Approval>,
}

/// Stage of a teardown. Steps are counted from 0, in the order of deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No step has been evaluated yet.
    Begun,
    /// The Applications of a step are being deleted, and the teardown is waiting until they are gone.
    Deleting {
        /// Index of the step.
        step: u32,
    },
}

impl Teardown {
    /// Returns the name of the stage, for messages.
    pub(super) fn stage_name(&self) -> String {
        match self.stage {
            Stage::Begun => "Begun".to_owned(),
            Stage::Deleting { step } => format!("Deleting {}", self.order.step_name(step)),
        }
    }
}

/// Outcome of a teardown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionEnd")]
pub enum End {
    /// All Applications are gone, except those that people skipped.
    Completed,
    /// A step exceeded its deadline.
    Failed,
    /// A person terminated the teardown.
    Terminated,
    /// The engine gave up.
    Error,
}

/// Outcome of a finished teardown.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// Time at which the step began.
    pub opened_at: Option<Timestamp>,
    /// Start of the step's deadline: its opening, moved by pauses.
    pub deadline_from: Timestamp,
    /// Time at which the step's last Application was gone.
    pub passed_at: Option<Timestamp>,
    /// Message of a deadline that has passed.
    pub late: Option<String>,
}

/// State of an Application to delete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// `metadata.uid` of the Application.
    pub uid: String,
    /// Step in which it is deleted.
    pub place: Assignment,
    /// Progress of the deletion.
    pub progress: Progress,
    /// Start of the current progress.
    pub since: Timestamp,
    /// Reason why the Application still exists, in words that follow "waits for". Empty if unknown.
    pub kept_by: String,
    /// Failed calls about the Application.
    pub calls: CallFailures,
}

/// Progress of an Application's deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// The Application's step hasn't reached it yet.
    Waiting,
    /// The Application must be deleted now. The call may or may not have been sent.
    Condemned,
    /// The Application is being deleted, and its finalizers are running.
    Going,
    /// The Application was observed to be gone, and is being read once more.
    Confirming {
        /// True if the teardown deleted the Application.
        deleted: bool,
    },
    /// The Application is gone.
    Gone,
    /// A person skipped the Application.
    Left(Attribution),
    /// The Application no longer belongs to the ApplicationSet, so it stays.
    Released,
}
