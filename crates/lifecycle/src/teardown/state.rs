//! What a teardown is, at one moment. Built only by [`evolve`](super::evolve()).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::order::Order;
use super::request::Options;
use crate::fleet::{Assignment, Calls, Said};

/// State of one teardown: a fold over its facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// Nothing was recorded yet.
    #[default]
    New,
    /// Begun, and not over.
    Running(Box<Teardown>),
    /// Over.
    Finished(Box<Teardown>),
}

impl State {
    /// The teardown, once there is one.
    pub fn teardown(&self) -> Option<&Teardown> {
        match self {
            Self::New => None,
            Self::Running(teardown) | Self::Finished(teardown) => Some(teardown),
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
            Self::Running(teardown) => teardown.stage_name(),
            Self::Finished(_) => "Finished".to_owned(),
        }
    }
}

/// A teardown that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Teardown {
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Who asked for it.
    pub by: String,
    /// In which order.
    pub order: Order,
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
    /// Who holds it, and why.
    pub paused: Option<Said>,
    /// Who wants its end.
    pub terminated: Option<Said>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Who has let deletions be done that were held because they are too many, in order.
    pub approvals: Vec<Approval>,
}

/// That a person has let deletions be done which were held because they are too many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Stands for the Applications that were to stay. One is given once.
    pub token: String,
    /// Who, why, and when.
    pub said: Said,
}

/// Where a teardown stands. Steps are counted from 0, in the order of deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing was looked at yet.
    Begun,
    /// The Applications of a step are deleted, and awaited to be gone.
    Deleting {
        /// The step.
        step: u32,
    },
}

impl Teardown {
    /// Where it stands, for messages.
    pub(super) fn stage_name(&self) -> String {
        match self.stage {
            Stage::Begun => "Begun".to_owned(),
            Stage::Deleting { step } => format!("Deleting {}", self.order.name(step)),
        }
    }
}

/// How a teardown ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionEnd")]
pub enum End {
    /// All are gone, but for those that people left.
    Completed,
    /// A step took too long.
    Failed,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// When its first Application was deleted.
    pub opened_at: Option<Timestamp>,
    /// Its deadline counts from here: the opening, moved by pauses.
    pub deadline_from: Timestamp,
    /// When the last was gone.
    pub passed_at: Option<Timestamp>,
    /// Its deadline has passed; in words.
    pub late: Option<String>,
}

/// How an Application stands that is to be deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its `metadata.uid`.
    pub uid: String,
    /// In which step it is deleted.
    pub place: Assignment,
    /// How far that is.
    pub progress: Progress,
    /// Since when.
    pub since: Timestamp,
    /// What keeps it while it goes, in words that follow "waits for"; empty where nobody knows.
    pub kept_by: String,
    /// Calls about it that have failed.
    pub calls: Calls,
}

/// How far the deletion of an Application is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Its turn has not come.
    Waiting,
    /// It is to be deleted now; whether that was sent is not known.
    Condemned,
    /// It is being deleted: its finalizers have their time.
    Going,
    /// It was seen to be gone, and is looked for once more.
    Confirming {
        /// We have deleted it.
        deleted: bool,
    },
    /// It is gone.
    Gone,
    /// A person does not await it.
    Left(Said),
    /// It is not the set's any more, and stays.
    Released,
}
