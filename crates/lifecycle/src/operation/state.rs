//! State of an operation. Only [`apply`](super::apply()) creates new states.

mod claim;
mod cursor;
mod dependency_graph;
mod earlier;
mod gates;
mod header;
mod health_rules;
mod namespaces;
mod operation;
mod stage;
mod task;

use serde::{Deserialize, Serialize};
use tidegate_model::Digest;

pub(super) use claim::no_claim_warning;
pub use claim::{Claim, ClaimEvent};
pub use cursor::{Cursor, OpenTasks};
pub use dependency_graph::DependencyGraph;
pub(super) use dependency_graph::are_dependencies_consistent;
pub use earlier::StateWithoutDependencies;
pub use gates::{GateAnswer, Verdict};
pub use header::{Header, Outage, Pause};
pub use health_rules::ActiveHealthRules;
pub use namespaces::{NamespaceIdentities, ObjectIdentity};
pub use operation::{Failure, HealthScope, Loss, Operation, Outcome, Termination, WaveTimes};
pub use stage::{Stage, WaveStep};
pub(super) use task::HOOK_TERMINATED;
pub use task::{AppliedRef, CallFailures, HookLog, ObservedHealth, Occupant, Progress, TaskNotes, TaskState};

/// State of one operation: a fold over its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// No event has been recorded yet.
    #[default]
    New,
    /// The operation was accepted but not planned yet.
    Accepted(Box<Header>),
    /// The operation was planned but hasn't finished.
    Running(#[serde(deserialize_with = "operation::read")] Box<Operation>),
    /// The operation has finished. Its state no longer changes.
    Finished(#[serde(deserialize_with = "operation::read")] Box<Operation>),
}

impl State {
    /// Returns the header, if there is one.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::New => None,
            Self::Accepted(header) => Some(header),
            Self::Running(operation) | Self::Finished(operation) => Some(&operation.header),
        }
    }

    /// Returns the planned operation, if there is one.
    pub fn operation(&self) -> Option<&Operation> {
        match self {
            Self::New | Self::Accepted(_) => None,
            Self::Running(operation) | Self::Finished(operation) => Some(operation),
        }
    }

    /// Returns true if the operation has finished.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    /// Returns the name of the state, for messages about illegal events and rejected inputs.
    pub fn name(&self) -> String {
        match self {
            Self::New => "New".to_owned(),
            Self::Accepted(_) => "Accepted".to_owned(),
            Self::Running(operation) => operation.stage.name(),
            Self::Finished(_) => "Finished".to_owned(),
        }
    }

    /// Returns true if a user terminated the operation. It must then end soon, even if the calls that stop
    /// its hooks hang.
    pub fn should_end_immediately(&self) -> bool {
        matches!(self, Self::Running(operation) if operation.should_end_immediately())
    }

    /// Returns true if the operation assesses objects and its recorded health rules differ from the rules
    /// with this digest.
    pub fn needs_health_rules(&self, digest: Digest) -> bool {
        let Self::Running(operation) = self else { return false };
        operation.header.health_rules.as_ref().is_none_or(|known| known.digest != digest)
    }
}
