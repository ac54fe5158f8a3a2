//! What an operation is, at one moment. Built only by [`evolve`](super::evolve).

mod claim;
mod cursor;
mod gates;
mod header;
mod health_rules;
mod namespaces;
mod operation;
mod stage;
mod task;

use serde::{Deserialize, Serialize};
use tidegate_model::Digest;

pub(super) use claim::no_claim;
pub use claim::{Claim, ClaimNews};
pub use cursor::{Cursor, OpenTasks};
pub use gates::{GateAnswer, Verdict};
pub use header::{Header, Outage, Pause};
pub use health_rules::JudgedBy;
pub use namespaces::{Identity, SeenNamespaces};
pub use operation::{Failure, Judged, Loss, Operation, Outcome, Termination, WaveTimes};
pub use stage::{Stage, WaveStep};
pub use task::{AppliedRef, Calls, HookLog, Notes, Occupant, Progress, SeenHealth, TaskState};

/// State of one operation: a fold over its facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// Nothing was recorded yet.
    #[default]
    New,
    /// Accepted, and not planned yet.
    Accepted(Box<Header>),
    /// Planned, and not over.
    Running(#[serde(deserialize_with = "operation::read")] Box<Operation>),
    /// It has ended, and changes no more.
    Finished(#[serde(deserialize_with = "operation::read")] Box<Operation>),
}

impl State {
    /// The header, once there is one.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::New => None,
            Self::Accepted(header) => Some(header),
            Self::Running(operation) | Self::Finished(operation) => Some(&operation.header),
        }
    }

    /// The planned operation, once there is one.
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::New | Self::Accepted(_) => None,
            Self::Running(operation) | Self::Finished(operation) => Some(operation),
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
            Self::Accepted(_) => "Accepted".to_owned(),
            Self::Running(operation) => operation.stage.name(),
            Self::Finished(_) => "Finished".to_owned(),
        }
    }

    /// Whether it is to be over at once, whatever hangs: a person ends it, and its hooks are being stopped.
    pub fn is_hurried(&self) -> bool {
        matches!(self, Self::Running(operation) if operation.is_hurried())
    }

    /// Whether the operation judges objects, and not by these rules as far as is recorded.
    pub fn lacks_health_rules(&self, digest: Digest) -> bool {
        let Self::Running(operation) = self else { return false };
        operation.header.health_rules.as_ref().is_none_or(|known| known.digest != digest)
    }
}
