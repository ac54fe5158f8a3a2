//! What an operation is, at one moment. Built only by [`evolve`](super::evolve).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Content, Digest, LogRecord, OperationId, OperationPhase, Plan, PlannedWave, SyncRequest, Task, TaskId,
    Timestamp,
};

use super::claim::Claim;
use super::earlier;
use super::fact::Verdict;
use super::health_rules::JudgedBy;

mod cursor;
mod task;

pub use cursor::{Cursor, OpenTasks};
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
    Running(#[serde(deserialize_with = "cursor::read_operation")] Box<Operation>),
    /// Over.
    Finished(#[serde(deserialize_with = "cursor::read_operation")] Box<Operation>),
}

impl LogRecord for State {
    type Earlier = earlier::State;

    const HIGHEST_KIND: u16 = 4;

    fn is_earlier(kind: u16) -> bool {
        kind < 4
    }

    fn kind(&self) -> u16 {
        4
    }

    fn read_earlier<C: Content>(kind: u16, content: &C) -> Result<Self, C::Error> {
        match kind {
            2 => content.read::<earlier::StateOfKind2>().map(Into::into),
            3 => content.read::<earlier::StateOfKind3>().map(Into::into),
            _ => content.read::<earlier::State>().map(Into::into),
        }
    }
}

/// What is known of an operation from the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Its identity.
    pub operation: OperationId,
    /// What was asked.
    pub request: SyncRequest,
    /// Where the manifests are kept.
    pub targets: Digest,
    /// When it was accepted: `startedAt`.
    pub started_at: Timestamp,
    /// The operation's deadline counts from here: the start, moved by the time it was paused.
    pub deadline_from: Timestamp,
    /// Held by a person.
    pub paused: Option<Pause>,
    /// Failed calls while planning.
    pub calls: Calls,
    /// The cluster does not answer.
    pub outage: Option<Box<Outage>>,
    /// Watches fail: news of the cluster is late.
    pub blind: Option<Box<Outage>>,
    /// The attempt that its newest plan is for, from 1. A plan that is not valid is made anew by the next attempt.
    pub attempt: u32,
    /// What is known of its claim.
    pub claim: Option<Box<Claim>>,
    /// The health rules it is judged by; `None` until it is planned.
    pub health_rules: Option<Box<JudgedBy>>,
}

/// Since when, and why, the cluster does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Since when.
    pub since: Timestamp,
    /// The cluster's words, or those of the connection.
    pub message: String,
    /// How often it was tried.
    pub tried: u32,
    /// When it is tried again.
    pub retry_at: Timestamp,
}

/// Who holds an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Who.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
    /// Since when.
    pub at: Timestamp,
}

/// A planned operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What is known from the beginning.
    pub header: Header,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where the plan's manifests are kept; `None` when it ended before it was planned.
    pub bundle: Option<Digest>,
    /// One per task of the plan.
    pub tasks: Vec<TaskState>,
    /// One per wave of the plan.
    pub waves: Vec<WaveTimes>,
    /// Where it stands.
    pub stage: Stage,
    /// Since when.
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
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Which namespaces those are that the plan writes into, as far as they were seen: when it was made, or else later.
    pub seen_namespaces: BTreeMap<String, Identity>,
    /// The namespace that this attempt has lost.
    pub lost_namespace: Option<String>,
    /// Where the current wave stands among its tasks. Not recorded: the rest says it.
    #[serde(skip)]
    pub cursor: Cursor,
    /// The namespaces that the plan writes into. Not recorded: the plan says it.
    #[serde(skip)]
    pub namespaces: Arc<[String]>,
}

/// Which of all objects that have, or had, the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion` when it was seen.
    pub resource_version: String,
}

/// What became of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// It is being deleted.
    Terminating,
    /// It is gone.
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
    /// All of them.
    All,
}

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The plan is fixed.
    Planned,
    /// All manifests are tried on the server.
    DryRun,
    /// A wave is at work.
    Wave {
        /// Position in the plan.
        index: u32,
        /// Where the wave stands.
        step: WaveStep,
    },
    /// An attempt failed; the next begins at this time.
    AwaitingRetry {
        /// When.
        until: Timestamp,
    },
    /// Running hooks are being stopped.
    Terminating,
    /// Hooks are cleaned up; then it ends like this.
    Finishing {
        /// How.
        phase: OperationPhase,
        /// The final message.
        message: String,
    },
}

/// Where a wave stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaveStep {
    /// A gate, a person or a missing confirmation keeps it closed.
    Held,
    /// Manifests that could not be judged before are tried on the server.
    DryRun,
    /// Objects are deleted.
    Pruning,
    /// Deleted objects are on their way out.
    AwaitingGone,
    /// Older hook objects are removed.
    Clearing,
    /// Manifests are applied, one kind group after the other.
    Applying,
    /// Hooks complete and resources become healthy.
    AwaitingHealth,
    /// Everything looks healthy; the kinds without better evidence, or a fixed delay, ask for some time.
    Settling {
        /// Until when.
        until: Timestamp,
    },
    /// The next wave may begin.
    Passed,
    /// A last or failed wave ends if the namespaces that were written into are still there.
    Verifying,
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
    /// When it passed.
    pub passed_at: Option<Timestamp>,
}

/// What a gate of the current wave answered last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    /// Its name.
    pub gate: String,
    /// The answer.
    pub verdict: Verdict,
    /// When.
    pub at: Timestamp,
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
    /// When.
    pub at: Timestamp,
}

/// Who ends an operation, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Termination {
    /// Who, or what.
    pub by: String,
    /// The final message.
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
    /// The final message.
    pub message: String,
    /// When.
    pub at: Timestamp,
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
}

impl Stage {
    /// The name of the stage, such as `Wave 2 Applying`.
    pub fn name(&self) -> String {
        match self {
            Self::Planned => "Planned".to_owned(),
            Self::DryRun => "DryRun".to_owned(),
            Self::Wave { index, step } => format!("Wave {} {}", index.saturating_add(1), step.name()),
            Self::AwaitingRetry { .. } => "AwaitingRetry".to_owned(),
            Self::Terminating => "Terminating".to_owned(),
            Self::Finishing { .. } => "Finishing".to_owned(),
        }
    }
}

impl WaveStep {
    /// Position among the steps of a wave.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::DryRun => 1,
            Self::Pruning => 2,
            Self::AwaitingGone => 3,
            Self::Clearing => 4,
            Self::Applying => 5,
            Self::AwaitingHealth => 6,
            Self::Settling { .. } => 7,
            Self::Verifying => 8,
            Self::Passed => 9,
        }
    }

    /// The name of the step, as `ARCHITECTURE.md` draws it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::DryRun => "DryRun",
            Self::Pruning => "Pruning",
            Self::AwaitingGone => "AwaitingGone",
            Self::Clearing => "Clearing",
            Self::Applying => "Applying",
            Self::AwaitingHealth => "AwaitingHealth",
            Self::Settling { .. } => "Settling",
            Self::Verifying => "Verifying",
            Self::Passed => "Passed",
        }
    }
}

impl Operation {
    /// A task with its state.
    pub fn task(&self, id: TaskId) -> Option<(&Task, &TaskState)> {
        #[cfg(test)]
        super::work::visited();
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

    /// All tasks with their states.
    pub fn all_tasks(&self) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        self.plan.enumerate().zip(&self.tasks).map(|((id, task), state)| {
            #[cfg(test)]
            super::work::visited();
            (id, task, state)
        })
    }

    /// The current wave and its step.
    pub fn current_wave(&self) -> Option<(u32, WaveStep)> {
        match self.stage {
            Stage::Wave { index, step } => Some((index, step)),
            _ => None,
        }
    }
}
