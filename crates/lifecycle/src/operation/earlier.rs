//! Records in the layouts that earlier programs wrote, and the way to what they are today. Nothing in here is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tidegate_model::{
    Digest, OperationId, OperationPhase, Overridden, Plan, ResultCode, SyncRequest, TaskId, Timestamp,
    earlier::{self, ClaimingRequest},
};

use super::state::{
    self, AppliedRef, Calls, Claim, Cursor, Failure, GateAnswer, Identity, Judged, JudgedBy, Notes, Outage,
    Outcome, Pause, Progress, SeenHealth, Stage, Termination, WaveTimes,
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

/// A fact of kind 30.
#[derive(Clone, Debug, Deserialize)]
pub enum FactOfKind30 {
    Accepted { operation: OperationId, request: Box<ClaimingRequest>, targets: Digest, at: Timestamp },
}

impl From<FactOfKind30> for fact::Fact {
    fn from(old: FactOfKind30) -> Self {
        let FactOfKind30::Accepted { operation, request, targets, at } = old;
        Self::Accepted { operation, request: Box::new((*request).into()), targets, at }
    }
}

/// A state as it was laid out before kind 7: the kinds differ in what is in it.
#[derive(Clone, Debug, Deserialize)]
pub enum Layout<H, O> {
    New,
    Accepted(Box<H>),
    Running(Box<O>),
    Finished(Box<O>),
}

/// A state of kind 1.
pub type State =
    Layout<Header<earlier::SyncRequest>, Operation<Header<earlier::SyncRequest>, earlier::Plan, TaskState>>;
/// A state of kind 2.
pub type StateOfKind2 = Layout<HeaderOfKind2, Operation<HeaderOfKind2, Plan, state::TaskState>>;
/// A state of kind 3.
pub type StateOfKind3 = Layout<HeaderOfKind2, OperationOfKind3<HeaderOfKind2>>;
/// A state of kind 4.
pub type StateOfKind4 = Layout<HeaderOfKind4, OperationOfKind3<HeaderOfKind4>>;
/// A state of kind 5.
pub type StateOfKind5 = Layout<HeaderOfKind5, OperationOfKind3<HeaderOfKind5>>;
/// A state of kind 6.
pub type StateOfKind6 = Layout<HeaderOfKind5, OperationOfKind6>;

impl<H: Into<state::Header>, O: Into<state::Operation>> From<Layout<H, O>> for state::State {
    fn from(old: Layout<H, O>) -> Self {
        match old {
            Layout::New => Self::New,
            Layout::Accepted(header) => Self::Accepted(Box::new((*header).into())),
            Layout::Running(operation) => Self::Running(Box::new((*operation).into())),
            Layout::Finished(operation) => Self::Finished(Box::new((*operation).into())),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Header<R> {
    operation: OperationId,
    request: R,
    targets: Digest,
    started_at: Timestamp,
    deadline_from: Timestamp,
    paused: Option<Pause>,
    calls: Calls,
    outage: Option<Box<Outage>>,
    blind: Option<Box<Outage>>,
}

impl<R: Into<SyncRequest>> From<Header<R>> for state::Header {
    fn from(old: Header<R>) -> Self {
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
            health_rules: None,
            plan: None,
        }
    }
}

/// That of kinds 2 and 3.
#[derive(Clone, Debug, Deserialize)]
pub struct HeaderOfKind2 {
    first: Header<ClaimingRequest>,
    attempt: u32,
    claim: Option<Box<Claim>>,
}

impl From<HeaderOfKind2> for state::Header {
    fn from(old: HeaderOfKind2) -> Self {
        Self { attempt: old.attempt, claim: old.claim, ..old.first.into() }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct HeaderOfKind4 {
    before: HeaderOfKind2,
    health_rules: Option<Box<JudgedBy>>,
}

impl From<HeaderOfKind4> for state::Header {
    fn from(old: HeaderOfKind4) -> Self {
        Self { health_rules: old.health_rules, ..old.before.into() }
    }
}

/// That of kinds 5 and 6.
#[derive(Clone, Debug, Deserialize)]
pub struct HeaderOfKind5 {
    first: Header<SyncRequest>,
    attempt: u32,
    claim: Option<Box<Claim>>,
    health_rules: Option<Box<JudgedBy>>,
}

impl From<HeaderOfKind5> for state::Header {
    fn from(old: HeaderOfKind5) -> Self {
        let HeaderOfKind5 { first, attempt, claim, health_rules } = old;
        Self { attempt, claim, health_rules, ..first.into() }
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

impl<H: Into<state::Header>, P: Into<Plan>, T: Into<state::TaskState>> Operation<H, P, T> {
    fn with(
        self,
        seen_namespaces: BTreeMap<String, Identity>,
        lost_namespace: Option<String>,
    ) -> state::Operation {
        let mut operation = state::Operation {
            header: self.header.into(),
            plan: Arc::new(self.plan.into()),
            bundle: self.bundle,
            tasks: self.tasks.into_iter().map(Into::into).collect(),
            waves: self.waves,
            stage: self.stage,
            since: self.since,
            gates: self.gates,
            attempt: self.attempt,
            results: self.results,
            prune_confirmed: self.prune_confirmed,
            judged: self.judged,
            wave_expired: self.wave_expired,
            failure: self.failure,
            termination: self.termination,
            outcome: self.outcome,
            seen_namespaces: seen_namespaces.into(),
            lost_namespace,
            overrides: BTreeMap::new(),
            cursor: Cursor::default(),
            namespaces: Arc::default(),
        };
        operation.derive();
        operation
    }
}

impl<H: Into<state::Header>, P: Into<Plan>, T: Into<state::TaskState>> From<Operation<H, P, T>>
    for state::Operation
{
    fn from(old: Operation<H, P, T>) -> Self {
        old.with(BTreeMap::new(), None)
    }
}

/// That of kinds 3 to 5.
#[derive(Clone, Debug, Deserialize)]
pub struct OperationOfKind3<H> {
    first: Operation<H, Plan, state::TaskState>,
    seen_namespaces: BTreeMap<String, Identity>,
    lost_namespace: Option<String>,
}

impl<H: Into<state::Header>> From<OperationOfKind3<H>> for state::Operation {
    fn from(old: OperationOfKind3<H>) -> Self {
        old.first.with(old.seen_namespaces, old.lost_namespace)
    }
}

/// That of kind 6.
#[derive(Clone, Debug, Deserialize)]
pub struct OperationOfKind6 {
    before: OperationOfKind3<HeaderOfKind5>,
    overrides: BTreeMap<TaskId, Overridden>,
}

impl From<OperationOfKind6> for state::Operation {
    fn from(old: OperationOfKind6) -> Self {
        let mut operation = Self { overrides: old.overrides, ..old.before.into() };
        operation.derive();
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
