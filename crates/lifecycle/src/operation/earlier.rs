//! Records in the layouts that earlier programs wrote, and the way to what they are today. Nothing in here is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tidegate_model::{Digest, OperationId, OperationPhase, Plan, ResultCode, Timestamp, earlier};

use super::rules::namespaces_of;
use super::state::{
    self, AppliedRef, Calls, Cursor, Failure, GateAnswer, Judged, Notes, Outage, Outcome, Pause, Progress,
    SeenHealth, Stage, Termination, WaveTimes,
};
use super::{fact, follow};

/// Earlier programs recorded that an operation was to end, or that another attempt had begun, without the arrow that
/// follows: it was taken in passing. A fact that is not this arrow comes after it.
pub(super) fn arrow_left_out(operation: &state::Operation, fact: &fact::Fact) -> Option<Stage> {
    let arrow = follow::unconditional(operation)?;
    let is_recorded = matches!(fact, fact::Fact::Moved { to, .. } if *to == arrow);
    (!is_recorded).then_some(arrow)
}

/// Facts of kinds 1 and 2.
#[derive(Clone, Debug, Deserialize)]
pub enum Fact {
    Accepted { operation: OperationId, request: Box<earlier::SyncRequest>, targets: Digest, at: Timestamp },
    Planned { plan: earlier::Plan, bundle: Digest, at: Timestamp },
}

impl From<Fact> for fact::Fact {
    fn from(old: Fact) -> Self {
        match old {
            Fact::Accepted { operation, request, targets, at } => {
                Self::Accepted { operation, request: Box::new((*request).into()), targets, at }
            }
            Fact::Planned { plan, bundle, at } => Self::Planned { plan: Arc::new(plan.into()), bundle, at },
        }
    }
}

/// A state of kind 1.
#[derive(Clone, Debug, Deserialize)]
pub enum State {
    New,
    Accepted(Box<Header>),
    Running(Box<Operation>),
    Finished(Box<Operation>),
}

impl From<State> for state::State {
    fn from(old: State) -> Self {
        match old {
            State::New => Self::New,
            State::Accepted(header) => Self::Accepted(Box::new((*header).into())),
            State::Running(operation) => Self::Running(Box::new((*operation).into())),
            State::Finished(operation) => Self::Finished(Box::new((*operation).into())),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Header {
    operation: OperationId,
    request: earlier::SyncRequest,
    targets: Digest,
    started_at: Timestamp,
    deadline_from: Timestamp,
    paused: Option<Pause>,
    calls: Calls,
    outage: Option<Box<Outage>>,
    blind: Option<Box<Outage>>,
}

impl From<Header> for state::Header {
    fn from(old: Header) -> Self {
        Self {
            operation: old.operation,
            request: old.request.into(),
            targets: old.targets,
            started_at: old.started_at,
            deadline_from: old.deadline_from,
            paused: old.paused,
            calls: old.calls,
            outage: old.outage,
            blind: old.blind,
            attempt: 1,
            claim: None,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Operation {
    header: Header,
    plan: earlier::Plan,
    bundle: Option<Digest>,
    tasks: Vec<TaskState>,
    waves: Vec<WaveTimes>,
    stage: Stage,
    since: Timestamp,
    gates: Vec<GateAnswer>,
    attempt: u32,
    results: u32,
    prune_confirmed: bool,
    judged: Judged,
    wave_expired: Option<String>,
    failure: Option<Failure>,
    termination: Option<Termination>,
    outcome: Option<Outcome>,
}

impl From<Operation> for state::Operation {
    fn from(old: Operation) -> Self {
        let mut operation = Self {
            header: old.header.into(),
            plan: Arc::new(old.plan.into()),
            bundle: old.bundle,
            tasks: old.tasks.into_iter().map(Into::into).collect(),
            waves: old.waves,
            stage: old.stage,
            since: old.since,
            gates: old.gates,
            attempt: old.attempt,
            results: old.results,
            prune_confirmed: old.prune_confirmed,
            judged: old.judged,
            wave_expired: old.wave_expired,
            failure: old.failure,
            termination: old.termination,
            outcome: old.outcome,
            seen_namespaces: BTreeMap::new(),
            lost_namespace: None,
            cursor: Cursor::default(),
            namespaces: Arc::default(),
        };
        operation.namespaces = namespaces_of(&operation.plan);
        operation.cursor = Cursor::of(&operation);
        operation
    }
}

/// A state of kind 2.
#[derive(Clone, Debug, Deserialize)]
pub enum StateOfKind2 {
    New,
    Accepted(Box<state::Header>),
    Running(Box<OperationOfKind2>),
    Finished(Box<OperationOfKind2>),
}

impl From<StateOfKind2> for state::State {
    fn from(old: StateOfKind2) -> Self {
        match old {
            StateOfKind2::New => Self::New,
            StateOfKind2::Accepted(header) => Self::Accepted(header),
            StateOfKind2::Running(operation) => Self::Running(Box::new((*operation).into())),
            StateOfKind2::Finished(operation) => Self::Finished(Box::new((*operation).into())),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct OperationOfKind2 {
    header: state::Header,
    plan: Arc<Plan>,
    bundle: Option<Digest>,
    tasks: Vec<state::TaskState>,
    waves: Vec<WaveTimes>,
    stage: Stage,
    since: Timestamp,
    gates: Vec<GateAnswer>,
    attempt: u32,
    results: u32,
    prune_confirmed: bool,
    judged: Judged,
    wave_expired: Option<String>,
    failure: Option<Failure>,
    termination: Option<Termination>,
    outcome: Option<Outcome>,
}

impl From<OperationOfKind2> for state::Operation {
    fn from(old: OperationOfKind2) -> Self {
        let mut operation = Self {
            header: old.header,
            plan: old.plan,
            bundle: old.bundle,
            tasks: old.tasks,
            waves: old.waves,
            stage: old.stage,
            since: old.since,
            gates: old.gates,
            attempt: old.attempt,
            results: old.results,
            prune_confirmed: old.prune_confirmed,
            judged: old.judged,
            wave_expired: old.wave_expired,
            failure: old.failure,
            termination: old.termination,
            outcome: old.outcome,
            seen_namespaces: BTreeMap::new(),
            lost_namespace: None,
            cursor: Cursor::default(),
            namespaces: Arc::default(),
        };
        operation.namespaces = namespaces_of(&operation.plan);
        operation.cursor = Cursor::of(&operation);
        operation
    }
}

#[derive(Clone, Debug, Deserialize)]
struct TaskState {
    progress: Progress,
    checked: bool,
    status: Option<ResultCode>,
    phase: Option<OperationPhase>,
    message: String,
    order: u32,
    applied: Option<AppliedRef>,
    leftover: Option<String>,
    held: bool,
    deleted: bool,
    health: Option<SeenHealth>,
    calls: Option<Box<Calls>>,
    notes: Option<Box<Notes>>,
}

impl From<TaskState> for state::TaskState {
    fn from(old: TaskState) -> Self {
        Self {
            progress: old.progress,
            checked: old.checked,
            status: old.status,
            phase: old.phase,
            message: old.message,
            order: old.order,
            applied: old.applied,
            leftover: old.leftover,
            held: old.held,
            deleted: old.deleted,
            health: old.health,
            calls: old.calls,
            notes: old.notes,
            ..Self::default()
        }
    }
}
