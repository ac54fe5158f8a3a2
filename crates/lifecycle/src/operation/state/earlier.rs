//! Layout of snapshots before plans had dependencies. Only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tidegate_model::{Digest, OverrideRecord, PlanWithoutDependencies, TaskId, Timestamp};

use super::State;
use super::cursor::Cursor;
use super::dependency_graph::DependencyGraph;
use super::gates::GateAnswer;
use super::header::Header;
use super::namespaces::NamespaceIdentities;
use super::operation::{Failure, HealthScope, Operation, Outcome, Termination, WaveTimes};
use super::stage::Stage;
use super::task::TaskState;

/// State whose plan has no dependencies.
#[derive(Debug, Deserialize)]
pub enum StateWithoutDependencies {
    /// No event had been recorded yet.
    New,
    /// The operation had been accepted.
    Accepted(Box<Header>),
    /// The operation was running.
    Running(Box<OperationWithoutDependencies>),
    /// The operation had finished.
    Finished(Box<OperationWithoutDependencies>),
}

/// Operation whose plan has no dependencies. The fields are those of [`Operation`].
#[derive(Debug, Deserialize)]
pub struct OperationWithoutDependencies {
    header: Header,
    plan: PlanWithoutDependencies,
    bundle: Option<Digest>,
    tasks: Vec<TaskState>,
    waves: Vec<WaveTimes>,
    stage: Stage,
    since: Timestamp,
    gates: Vec<GateAnswer>,
    attempt: u32,
    results: u32,
    prune_confirmed: bool,
    judged: HealthScope,
    wave_expired: Option<String>,
    failure: Option<Failure>,
    termination: Option<Termination>,
    outcome: Option<Outcome>,
    seen_namespaces: NamespaceIdentities,
    lost_namespace: Option<String>,
    overrides: BTreeMap<TaskId, OverrideRecord>,
}

impl From<StateWithoutDependencies> for State {
    fn from(state: StateWithoutDependencies) -> Self {
        match state {
            StateWithoutDependencies::New => Self::New,
            StateWithoutDependencies::Accepted(header) => Self::Accepted(header),
            StateWithoutDependencies::Running(operation) => Self::Running(convert_operation(*operation)),
            StateWithoutDependencies::Finished(operation) => Self::Finished(convert_operation(*operation)),
        }
    }
}

fn convert_operation(earlier: OperationWithoutDependencies) -> Box<Operation> {
    let mut operation = Box::new(Operation {
        header: earlier.header,
        plan: Arc::new(earlier.plan.into()),
        bundle: earlier.bundle,
        tasks: earlier.tasks,
        waves: earlier.waves,
        stage: earlier.stage,
        since: earlier.since,
        gates: earlier.gates,
        attempt: earlier.attempt,
        results: earlier.results,
        prune_confirmed: earlier.prune_confirmed,
        judged: earlier.judged,
        wave_expired: earlier.wave_expired,
        failure: earlier.failure,
        termination: earlier.termination,
        outcome: earlier.outcome,
        seen_namespaces: earlier.seen_namespaces,
        lost_namespace: earlier.lost_namespace,
        overrides: earlier.overrides,
        cursor: Cursor::default(),
        namespaces: Arc::default(),
        graph: Arc::new(DependencyGraph::default()),
    });
    operation.update_derived_fields();
    operation
}
