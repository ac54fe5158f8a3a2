//! A planned operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use tidegate_model::{Digest, OperationPhase, Overridden, Plan, PlannedWave, Task, TaskId, Timestamp};

use super::cursor::Cursor;
use super::gates::GateAnswer;
use super::header::Header;
use super::namespaces::SeenNamespaces;
use super::stage::{Stage, WaveStep};
use super::task::TaskState;

/// An operation that has a plan, or has ended without one: the plan is then empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What is known from the beginning.
    pub header: Header,
    /// What is to be done, in which order. Empty when it ended before it was planned.
    pub plan: Arc<Plan>,
    /// Where the plan's manifests are kept; `None` when it ended before it was planned.
    pub bundle: Option<Digest>,
    /// One per task of the plan.
    pub tasks: Vec<TaskState>,
    /// One per wave of the plan.
    pub waves: Vec<WaveTimes>,
    /// Which part of the way it is on. What it was on at its end stays.
    pub stage: Stage,
    /// Since when it is at this stage.
    pub since: Timestamp,
    /// Answers of the gates of the current wave, and the waves that were approved.
    pub gates: Vec<GateAnswer>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// How many results were recorded.
    pub results: u32,
    /// Prunes that need it were approved.
    pub prune_confirmed: bool,
    /// Which resources of the current wave are judged by their health. Kept, because it is asked for every answer.
    pub judged: Judged,
    /// Why the current wave is ended before its time: its deadline has passed, or a namespace goes.
    pub wave_expired: Option<String>,
    /// How this attempt failed, if it did.
    pub failure: Option<Failure>,
    /// Who ends it, and why.
    pub termination: Option<Termination>,
    /// How it ended; `None` while it has not.
    pub outcome: Option<Outcome>,
    /// Which namespaces those are that the plan writes into, as far as they were seen: when it was made, or else later.
    pub seen_namespaces: SeenNamespaces,
    /// The namespace that this attempt has lost.
    pub lost_namespace: Option<String>,
    /// What people decided about single tasks of the plan.
    pub overrides: BTreeMap<TaskId, Overridden>,
    /// Where the current wave stands among its tasks. Not recorded: the rest says it.
    #[serde(skip)]
    pub cursor: Cursor,
    /// The namespaces that the plan writes into. Not recorded: the plan says it.
    #[serde(skip)]
    pub namespaces: Arc<[String]>,
}

/// What became of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// It is being deleted.
    Terminating,
    /// It was there, and is not any more.
    Gone,
    /// It is gone, and somebody has made another of the same name.
    MadeAgain,
}

/// Which resources of a wave are judged by their health, besides its hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judged {
    /// None: nobody waits for them.
    #[default]
    None,
    /// Those that count for the health of the application.
    ForApplication,
    /// Each of them, whether the application's health counts it or not.
    All,
}

/// When a wave began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaveTimes {
    /// When it was opened, in the newest attempt.
    pub opened_at: Option<Timestamp>,
    /// Its deadline counts from here.
    pub deadline_from: Option<Timestamp>,
    /// When its last manifest was applied.
    pub applied_at: Option<Timestamp>,
    /// When it came to its step `Passed`. `None` until then; a wave that fails does not, unless it is one of the
    /// SyncFail phase.
    pub passed_at: Option<Timestamp>,
}

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Position of the wave in which it failed; `None` for the dry run.
    pub wave: Option<u32>,
    /// As the operation's message says it.
    pub message: String,
    /// Another attempt could end differently.
    pub retriable: bool,
    /// When that was decided.
    pub at: Timestamp,
}

/// Who ends an operation, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Termination {
    /// Name of a person, `deadline`, or the operation that supersedes this one.
    pub by: String,
    /// The message the operation ends with, unless a hook cannot be stopped.
    pub message: String,
    /// Some hook could not be stopped.
    pub had_errors: bool,
    /// When it was asked.
    pub at: Timestamp,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Succeeded, Failed or Error.
    pub phase: OperationPhase,
    /// The operation's message for good.
    pub message: String,
    /// The operation's `finishedAt`.
    pub at: Timestamp,
}

impl Operation {
    /// A task of the plan and how far it is; `None` where the plan has no such position.
    pub fn task(&self, id: TaskId) -> Option<(&Task, &TaskState)> {
        #[cfg(test)]
        crate::operation::work::visited();
        self.plan.task(id).zip(self.tasks.get(id.index()))
    }

    /// A wave of the plan by position.
    pub fn wave(&self, index: u32) -> Option<&PlannedWave> {
        self.plan.waves.get(TaskId(index).index())
    }

    /// The times of a wave by position.
    pub fn times(&self, index: u32) -> WaveTimes {
        self.waves.get(TaskId(index).index()).copied().unwrap_or_default()
    }

    /// The tasks of a wave with their states.
    pub fn wave_tasks(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        self.wave(index)
            .into_iter()
            .flat_map(PlannedWave::task_ids)
            .filter_map(|id| self.task(id).map(|(task, state)| (id, task, state)))
    }

    /// Whether a person has it go on as if the task were done.
    pub fn is_passed_over(&self, id: TaskId) -> bool {
        self.overrides.get(&id).is_some_and(|overridden| overridden.what.passes_over())
    }

    /// All tasks with their states.
    pub fn all_tasks(&self) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        self.plan.enumerate().zip(&self.tasks).map(|((id, task), state)| {
            #[cfg(test)]
            crate::operation::work::visited();
            (id, task, state)
        })
    }

    /// Position of the wave at work, and its step; `None` outside of waves.
    pub fn current_wave(&self) -> Option<(u32, WaveStep)> {
        match self.stage {
            Stage::Wave { index, step } => Some((index, step)),
            _ => None,
        }
    }
}

/// An operation from a record, with what follows from it.
pub(super) fn read<'de, D: Deserializer<'de>>(record: D) -> Result<Box<Operation>, D::Error> {
    let mut operation = Box::<Operation>::deserialize(record)?;
    operation.derive();
    Ok(operation)
}
