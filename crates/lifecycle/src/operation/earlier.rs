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

/// A state as it was laid out in kinds 1 and 2: the kinds differ in what is in it.
#[derive(Clone, Debug, Deserialize)]
pub enum Layout<H, P, T> {
    New,
    Accepted(Box<H>),
    Running(Box<Operation<H, P, T>>),
    Finished(Box<Operation<H, P, T>>),
}

/// A state of kind 1.
pub type State = Layout<Header, earlier::Plan, TaskState>;
/// A state of kind 2.
pub type StateOfKind2 = Layout<state::Header, Plan, state::TaskState>;

impl<H: Into<state::Header>, P: Into<Plan>, T: Into<state::TaskState>> From<Layout<H, P, T>>
    for state::State
{
    fn from(old: Layout<H, P, T>) -> Self {
        match old {
            Layout::New => Self::New,
            Layout::Accepted(header) => Self::Accepted(Box::new((*header).into())),
            Layout::Running(operation) => Self::Running(Box::new((*operation).into())),
            Layout::Finished(operation) => Self::Finished(Box::new((*operation).into())),
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
pub struct Operation<H, P, T> {
    header: H,
    plan: P,
    bundle: Option<Digest>,
    tasks: Vec<T>,
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

impl<H: Into<state::Header>, P: Into<Plan>, T: Into<state::TaskState>> From<Operation<H, P, T>>
    for state::Operation
{
    fn from(old: Operation<H, P, T>) -> Self {
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

#[derive(Clone, Debug, Deserialize)]
pub struct TaskState {
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
