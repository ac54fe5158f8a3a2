//! State of a planned operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use tidegate_model::{Digest, OperationPhase, OverrideRecord, Plan, PlannedWave, Task, TaskId, Timestamp};

use super::cursor::Cursor;
use super::dependency_graph::DependencyGraph;
use super::gates::GateAnswer;
use super::header::Header;
use super::namespaces::NamespaceIdentities;
use super::stage::{Stage, WaveStep};
use super::task::TaskState;

/// Planned or finished operation. The plan is empty if the operation finished before planning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Data that exists from the start.
    pub header: Header,
    /// Ordered work of the operation. Empty if it finished before planning.
    pub plan: Arc<Plan>,
    /// Digest of the plan's manifests, or `None` if the operation finished before planning.
    pub bundle: Option<Digest>,
    /// Task states, one per task in the plan.
    pub tasks: Vec<TaskState>,
    /// Wave times, one per wave of the plan.
    pub waves: Vec<WaveTimes>,
    /// Current stage, or the last stage of a finished operation.
    pub stage: Stage,
    /// Start time of the current stage.
    pub since: Timestamp,
    /// Gate verdicts for the current wave, and approvals of any wave.
    pub gates: Vec<GateAnswer>,
    /// Number of the current attempt, starting at 1.
    pub attempt: u32,
    /// Number of recorded results.
    pub results: u32,
    /// True if the prunes that require confirmation were confirmed.
    pub prune_confirmed: bool,
    /// Resources of the current wave whose outcome depends on their health. Stored, because computing it for
    /// every result would be slow.
    pub judged: HealthScope,
    /// Reason why the current wave ends early: its deadline passed, or a namespace was lost.
    pub wave_expired: Option<String>,
    /// Failure of the current attempt, if any.
    pub failure: Option<Failure>,
    /// Termination by a user, a deadline or a superseding operation, if any.
    pub termination: Option<Termination>,
    /// Outcome, or `None` while the operation is running.
    pub outcome: Option<Outcome>,
    /// Identities of the namespaces that the plan writes to, if they have been observed.
    pub seen_namespaces: NamespaceIdentities,
    /// Namespace that the current attempt lost, if any.
    pub lost_namespace: Option<String>,
    /// Users' overrides of individual tasks in the plan.
    pub overrides: BTreeMap<TaskId, OverrideRecord>,
    /// Cursor of the current wave. Not recorded, because it follows from the other fields.
    #[serde(skip)]
    pub cursor: Cursor,
    /// Namespaces that the plan writes to. Not recorded, because they follow from the plan.
    #[serde(skip)]
    pub namespaces: Arc<[String]>,
    /// Dependencies between the plan's tasks. Not recorded, because they follow from the plan.
    #[serde(skip)]
    pub graph: Arc<DependencyGraph>,
}

/// Reason for the loss of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// The namespace is being deleted.
    Terminating,
    /// The namespace existed but no longer exists.
    Gone,
    /// The namespace was deleted, and recreated by another client.
    MadeAgain,
}

/// Resources of a wave that are judged by their health. Hooks always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HealthScope {
    /// No resources: the wave doesn't wait for their health.
    #[default]
    None,
    /// Resources that affect the application's health.
    ForApplication,
    /// All resources, including those that don't affect the application's health.
    All,
}

/// Start and end times of a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaveTimes {
    /// Time the newest attempt opened the wave.
    pub opened_at: Option<Timestamp>,
    /// Time from which the wave's deadline is measured.
    pub deadline_from: Option<Timestamp>,
    /// Time the wave's last manifest was applied.
    pub applied_at: Option<Timestamp>,
    /// Time the wave passed. `None` if it failed. A SyncFail wave passes even if its hooks fail.
    pub passed_at: Option<Timestamp>,
}

/// Failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Position of the failed wave, or `None` if the dry run failed.
    pub wave: Option<u32>,
    /// Message of the failure, which becomes part of the operation's message.
    pub message: String,
    /// True if another attempt might succeed.
    pub retriable: bool,
    /// Time of the decision.
    pub at: Timestamp,
}

/// Termination of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Termination {
    /// Name of a user, `deadline`, or the superseding operation.
    pub by: String,
    /// Final message of the operation, unless a hook can't be stopped.
    pub message: String,
    /// True if a hook couldn't be stopped.
    pub had_errors: bool,
    /// Time of the request.
    pub at: Timestamp,
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `Succeeded`, `Failed` or `Error`.
    pub phase: OperationPhase,
    /// Final message of the operation.
    pub message: String,
    /// `finishedAt` of the operation.
    pub at: Timestamp,
}

impl Operation {
    /// Returns a task in the plan and its state, or `None` for an unknown ID.
    pub fn task(&self, id: TaskId) -> Option<(&Task, &TaskState)> {
        #[cfg(test)]
        crate::operation::visit_count::record_visit();
        self.plan.task(id).zip(self.tasks.get(id.index()))
    }

    /// Returns the wave at the given position in the plan.
    pub fn wave(&self, index: u32) -> Option<&PlannedWave> {
        self.plan.waves.get(TaskId(index).index())
    }

    /// Returns the times of the wave at the given position.
    pub fn wave_times(&self, index: u32) -> WaveTimes {
        self.waves.get(TaskId(index).index()).copied().unwrap_or_default()
    }

    /// Returns the tasks in a wave with their states.
    pub fn wave_tasks(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        self.wave(index)
            .into_iter()
            .flat_map(PlannedWave::task_ids)
            .filter_map(|id| self.task(id).map(|(task, state)| (id, task, state)))
    }

    /// Returns true if a user skipped the task or marked it as done.
    pub fn is_overridden_as_done(&self, id: TaskId) -> bool {
        self.overrides.get(&id).is_some_and(|overridden| overridden.what.counts_as_done())
    }

    /// Returns all tasks with their states.
    pub fn all_tasks(&self) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        self.plan.tasks_with_ids().zip(&self.tasks).map(|((id, task), state)| {
            #[cfg(test)]
            crate::operation::visit_count::record_visit();
            (id, task, state)
        })
    }

    /// Returns the position of the current wave and its step, or `None` outside of waves.
    pub fn current_wave(&self) -> Option<(u32, WaveStep)> {
        match self.stage {
            Stage::Wave { index, step } => Some((index, step)),
            _ => None,
        }
    }
}

/// Deserializes an operation from a record, and computes the fields that aren't recorded.
pub(super) fn read<'de, D: Deserializer<'de>>(record: D) -> Result<Box<Operation>, D::Error> {
    let mut operation = Box::<Operation>::deserialize(record)?;
    operation.update_derived_fields();
    Ok(operation)
}
