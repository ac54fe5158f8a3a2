//! State of a teardown. Only [`apply`](super::apply()) creates new states.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::order::Order;
use super::request::{Approval, Options};
use crate::fleet::{self, Assignment, Attribution, CallFailures};

/// State of one teardown: a fold over its events.
pub type State = fleet::State<Teardown>;

impl State {
    /// Returns the teardown, if there is one.
    pub fn teardown(&self) -> Option<&Teardown> {
        self.content()
    }

    /// Returns the name of the state, for messages about illegal events and rejected inputs.
    pub fn name(&self) -> String {
        self.name_with(Teardown::stage_name)
    }
}

/// A teardown that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Teardown {
    /// ApplicationSet, as `namespace/name`.
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
    /// Requester of the pause and the reason, if the teardown is paused.
    pub paused: Option<Attribution>,
    /// Requester of the termination and the reason, if it was requested.
    pub terminated: Option<Attribution>,
    /// Outcome, if the teardown has finished.
    pub outcome: Option<Outcome>,
    /// Approvals of deletions that exceeded the deletion limit, in order.
    pub approvals: Vec<Approval>,
}

/// Stage of a teardown. Step indices start at 0, in the order of deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// No step has been evaluated yet.
    Begun,
    /// The Applications in a step are being deleted, and the teardown waits until they no longer exist.
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

/// Outcome of an ApplicationSet's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionEnd")]
pub enum End {
    /// All Applications were deleted, except those that users skipped.
    Completed,
    /// A step exceeded its deadline.
    Failed,
    /// A user terminated the deletion.
    Terminated,
    /// The engine aborted the deletion, for example after repeated internal errors.
    Error,
}

/// Outcome of a finished teardown.
pub type Outcome = fleet::Outcome<End>;

/// State of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// Start time of the step.
    pub opened_at: Option<Timestamp>,
    /// Time from which the step's deadline is measured: its opening, postponed by the length of pauses.
    pub deadline_from: Timestamp,
    /// Time the step's last Application was deleted.
    pub passed_at: Option<Timestamp>,
    /// Message about the step's deadline, if the deadline has passed.
    pub late: Option<String>,
}

/// State of an Application to delete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// `metadata.uid` of the Application.
    pub uid: String,
    /// Step that deletes the Application.
    pub place: Assignment,
    /// Progress of the deletion.
    pub progress: Progress,
    /// Start time of the current progress.
    pub since: Timestamp,
    /// Reason why the Application still exists, as a phrase that follows "waits for". Empty if unknown.
    pub kept_by: String,
    /// Failed calls for the Application.
    pub calls: CallFailures,
}

/// Progress of an Application's deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// The deletion hasn't reached the Application yet.
    Waiting,
    /// It is the Application's turn to be deleted. The call may already be in flight.
    Condemned,
    /// The Application is being deleted, and its finalizers haven't been removed yet.
    Going,
    /// An observation showed that the Application doesn't exist. The API server is being queried to confirm
    /// this.
    Confirming {
        /// True if the teardown deleted the Application.
        deleted: bool,
    },
    /// The Application no longer exists.
    Gone,
    /// A user skipped the Application.
    Left(Attribution),
    /// The Application is no longer part of the ApplicationSet, so it is kept.
    Released,
}
