//! Operation machine of the model: the machine and the driver of the crate. Equal drivers share a node, and each
//! transition between nodes is computed once, so that a state of the model only contains numbers of nodes.
//!
//! Time stands still in recorded events, so that equal histories lead to equal states. All waits count as
//! elapsed.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_lifecycle::operation::{
    Answer, ApplyResponse, CallError, ClearingResult, Command, Driver, Input, OperationEvent, SuspendedHook,
    TaskCommand, outstanding, view,
};
use tidegate_model::{
    DeletePolicy, Digest, Evidence, HealthStatus, Observation, ObservedState, OperationPhase, Phase, Plan,
    SyncOptions, SyncRequest, TaskId, Timestamp,
};

use super::cluster::{Job, JobPhase, Request, Response};
use crate::build::{TaskChanges, at, hook_task, id, plan, request, resource};
use crate::world::health_of;

const NOW: Timestamp = Timestamp::from_millis(0);
const HOOK: TaskId = TaskId(0);
const RESOURCE: TaskId = TaskId(1);

/// Number of a log: a sequence of durable events.
pub type LogId = u16;
/// Number of a node.
pub type NodeId = u16;

/// Log of an operation.
struct Log {
    events: Vec<OperationEvent>,
    outcome: Option<OperationPhase>,
}

/// Driver of an operation, with the logs that its replica knows.
pub struct Node {
    driver: Driver,
    /// Durable log, as far as the replica knows.
    pub durable: LogId,
    /// Log after the append in flight.
    pub writing: Option<LogId>,
    /// Outstanding command for the cluster.
    pub command: Option<NodeCommand>,
    /// Start of the hook that waits for the log.
    pub early_start: Option<NodeCommand>,
    /// True if the operation waits for the hook to end.
    pub is_observing: bool,
    /// True if events are waiting for the next write.
    pub has_lazy_events: bool,
}

/// Outstanding command for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeCommand {
    /// Read the hook's name. The model has no older Jobs, so clearing the name never writes.
    Clear,
    Write(Request),
}

/// Input of a driver, or a report about its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeInput {
    Persisted,
    Answer(NodeCommand, Response),
    Observed(Option<Job>),
    /// Lazy events are due.
    Flush,
}

#[derive(Default)]
pub struct Machines {
    nodes: Vec<Node>,
    node_ids: HashMap<(String, LogId, Option<LogId>), NodeId>,
    logs: Vec<Log>,
    log_ids: HashMap<String, LogId>,
    recovered: HashMap<LogId, NodeId>,
    transitions: HashMap<(NodeId, NodeInput), NodeId>,
}

impl Machines {
    /// Adds the log of an accepted operation: one with a hook and a resource, or one with an empty plan.
    pub fn accept_operation(&mut self, has_hook: bool) -> LogId {
        let options = SyncOptions { skip_dry_run: true, ..SyncOptions::default() };
        let application = if has_hook { "shop" } else { "empty" };
        let request = SyncRequest { options, application: application.into(), ..request() };
        let mut driver = Driver::default();
        let input = Input::Request {
            operation: id(),
            request: Box::new(request),
            targets: Digest([7; 32]),
            plan: None,
        };
        driver.handle_input(&input, NOW).unwrap();
        self.add_log(driver.take_batch(NOW, true).unwrap().events)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[usize::from(id)]
    }

    /// Returns the outcome of a finished operation.
    pub fn outcome(&self, log: LogId) -> Option<OperationPhase> {
        self.logs[usize::from(log)].outcome
    }

    /// Returns true if a database with the log `current` has lost events of the log `durable`.
    pub fn has_lost_events(&self, current: LogId, durable: LogId) -> bool {
        let length = |log: LogId| self.logs[usize::from(log)].events.len();
        current != durable && length(current) <= length(durable)
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    fn add_log(&mut self, events: Vec<OperationEvent>) -> LogId {
        let text = format!("{events:?}");
        if let Some(id) = self.log_ids.get(&text) {
            return *id;
        }
        let outcome = events.iter().find_map(|event| match event {
            OperationEvent::Finished { phase, .. } => Some(*phase),
            _ => None,
        });
        let id = LogId::try_from(self.logs.len()).unwrap();
        self.logs.push(Log { events, outcome });
        self.log_ids.insert(text, id);
        id
    }

    /// Returns the node of a driver that was recovered from a log.
    pub fn recover(&mut self, log: LogId) -> NodeId {
        if let Some(id) = self.recovered.get(&log) {
            return *id;
        }
        let events = self.logs[usize::from(log)].events.clone();
        let mut driver = Driver::recover(None, events).expect("every log can be read");
        driver.handle_input(&Input::Resumed, NOW).unwrap();
        let id = self.add_node(driver, log, None, false);
        self.recovered.insert(log, id);
        id
    }

    /// Returns the node after an input.
    pub fn advance(&mut self, id: NodeId, input: NodeInput) -> NodeId {
        if let Some(next) = self.transitions.get(&(id, input)) {
            return *next;
        }
        let node = self.node(id);
        let (mut driver, mut durable, mut writing) = (node.driver.clone(), node.durable, node.writing);
        match input {
            NodeInput::Persisted => {
                driver.mark_persisted();
                durable = writing.take().unwrap();
            }
            NodeInput::Answer(command, response) => {
                driver.handle_input(&answer(command, response), NOW).unwrap();
            }
            NodeInput::Observed(job) => {
                let observation = Observation { at: NOW, seen: observed_state(job) };
                driver.handle_input(&Input::Observed { task: HOOK, observation }, NOW).unwrap();
            }
            NodeInput::Flush => {}
        }
        let next = self.add_node(driver, durable, writing, input == NodeInput::Flush);
        self.transitions.insert((id, input), next);
        next
    }

    /// Advances a driver as the runner does, and adds its node. Reads that don't depend on the hook are answered
    /// immediately.
    fn add_node(
        &mut self,
        mut driver: Driver,
        durable: LogId,
        mut writing: Option<LogId>,
        is_flush: bool,
    ) -> NodeId {
        let commands = loop {
            driver.advance(NOW).unwrap();
            let commands = driver.outstanding(at(i64::from(i32::MAX))).unwrap_or_default().commands;
            let Some(input) = commands.iter().find_map(|command| immediate_answer(&driver, command)) else {
                break commands;
            };
            driver.handle_input(&input, NOW).unwrap();
        };
        let is_over = driver.state().is_finished();
        if let (None, Some(batch)) = (writing, driver.take_batch(NOW, is_flush || is_over)) {
            let mut events = self.logs[usize::from(durable)].events.clone();
            events.extend(batch.events);
            writing = Some(self.add_log(events));
        }
        drop((driver.take_affected_subjects(), driver.take_restarted_subjects()));
        let key = (format!("{driver:?}"), durable, writing);
        if let Some(id) = self.node_ids.get(&key) {
            return *id;
        }
        let early = outstanding(driver.state(), at(i64::from(i32::MAX))).commands;
        let is_start = |command: &NodeCommand| matches!(command, NodeCommand::Write(Request::Start(_)));
        let node = Node {
            durable,
            writing,
            command: commands.iter().find_map(node_command),
            early_start: early.iter().find_map(node_command).filter(is_start),
            is_observing: commands.iter().any(|command| matches!(command, Command::Observe { task: HOOK })),
            has_lazy_events: writing.is_none() && driver.clone().take_batch(NOW, true).is_some(),
            driver,
        };
        let id = NodeId::try_from(self.nodes.len()).unwrap();
        self.nodes.push(node);
        self.node_ids.insert(key, id);
        id
    }

    /// Describes the operation of a log, for traces.
    pub fn describe_log(&self, log: LogId) -> String {
        let events = self.logs[usize::from(log)].events.clone();
        let driver = Driver::recover(None, events).unwrap();
        view(driver.state()).map(|view| view.message).unwrap_or_default()
    }
}

fn immediate_answer(driver: &Driver, command: &Command) -> Option<Input> {
    match command {
        Command::Plan => {
            let plan = match driver.state().header() {
                Some(header) if header.request.application == "empty" => Plan::default(),
                _ => hook_plan(),
            };
            Some(Input::Planned { plan: Arc::new(plan), bundle: Digest([7; 32]), namespaces: Vec::new() })
        }
        Command::ReadNamespaces => Some(Input::NamespacesRead { namespaces: Vec::new() }),
        Command::Task { task, attempt, command: TaskCommand::ReadLogs } => {
            let answer = Answer::LogsRead { reason: String::new(), logs: Vec::new() };
            Some(Input::Answer { task: *task, attempt: *attempt, answer })
        }
        _ => None,
    }
}

/// Returns a plan with a hook, and a resource in the wave after it.
fn hook_plan() -> Plan {
    let policies = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookSucceeded];
    let hook = hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&policies);
    plan([hook, resource(0, "ConfigMap/settings")])
}

fn node_command(command: &Command) -> Option<NodeCommand> {
    let Command::Task { task, command, .. } = command else { return None };
    let number = |uid: &str| uid.strip_prefix("job-").unwrap().parse().unwrap();
    Some(match command {
        TaskCommand::ClearHook => NodeCommand::Clear,
        TaskCommand::Apply if *task == HOOK => NodeCommand::Write(Request::Create),
        TaskCommand::Apply => NodeCommand::Write(Request::ApplyResource),
        TaskCommand::StartHook { uid } => NodeCommand::Write(Request::Start(number(uid))),
        TaskCommand::ReleaseHook { uid } => NodeCommand::Write(Request::Release(number(uid))),
        TaskCommand::DeleteHook { uid } => NodeCommand::Write(Request::Delete(number(uid))),
        TaskCommand::ReadLogs => return None,
        other => panic!("the model does not expect {other:?}"),
    })
}

/// Translates a response of the cluster as the effects do.
fn answer(command: NodeCommand, response: Response) -> Input {
    let suspended = |job: Job| SuspendedHook { uid: uid(job), ..SuspendedHook::default() };
    let failure = match response {
        Response::TimedOut => Some(CallError::transient("timeout")),
        Response::Missing => Some(CallError::permanent("the Job was deleted before it started")),
        _ => None,
    };
    let (task, answer) = match (command, response) {
        (NodeCommand::Clear, Response::Clear) => (HOOK, Answer::Cleared(Ok(ClearingResult::Clear))),
        (NodeCommand::Clear, Response::Exists(job)) => (
            HOOK,
            Answer::Cleared(Ok(match job.phase {
                JobPhase::Suspended => ClearingResult::Suspended(suspended(job)),
                _ => ClearingResult::Adopted(Box::new(written_job(job))),
            })),
        ),
        (NodeCommand::Write(Request::Create), Response::Exists(job)) if job.phase == JobPhase::Suspended => {
            (HOOK, Answer::Suspended(suspended(job)))
        }
        (NodeCommand::Write(Request::Create | Request::Start(_)), response) => (
            HOOK,
            Answer::Applied(match (response, failure) {
                (Response::Exists(job), _) => Ok(Box::new(written_job(job))),
                (_, failure) => Err(failure.unwrap()),
            }),
        ),
        (NodeCommand::Write(Request::Release(_)), _) => (HOOK, Answer::Released(failure.map_or(Ok(()), Err))),
        (NodeCommand::Write(Request::Delete(_)), _) => (HOOK, Answer::Deleted(failure.map_or(Ok(()), Err))),
        (NodeCommand::Write(Request::ApplyResource), _) => {
            (RESOURCE, Answer::Applied(failure.map_or_else(|| Ok(Box::new(written_resource())), Err)))
        }
        (NodeCommand::Clear, other) => panic!("the model does not expect {other:?}"),
    };
    Input::Answer { task, attempt: 1, answer }
}

fn uid(job: Job) -> String {
    format!("job-{}", job.uid)
}

fn written_job(job: Job) -> ApplyResponse {
    ApplyResponse {
        uid: uid(job),
        resource_version: version(job.phase).into(),
        generation: 1,
        message: String::new(),
        observed: observed_state(Some(job)),
        warnings: Vec::new(),
    }
}

const fn version(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Suspended => "1",
        JobPhase::Running => "2",
        JobPhase::Ended => "3",
    }
}

fn observed_state(job: Option<Job>) -> ObservedState {
    let Some(job) = job else { return ObservedState::Gone { uid: None } };
    let health = match job.phase {
        JobPhase::Suspended => HealthStatus::Suspended,
        JobPhase::Running => HealthStatus::Progressing,
        JobPhase::Ended => HealthStatus::Healthy,
    };
    present(uid(job), version(job.phase), Some(health))
}

fn present(uid: String, version: &str, health: Option<HealthStatus>) -> ObservedState {
    ObservedState::Present {
        uid,
        resource_version: version.into(),
        generation: 1,
        deleting: false,
        kept_by: String::new(),
        health: health.map(|status| health_of(status, "")),
        unjudged: false,
        evidence: Evidence::Identity,
    }
}

fn written_resource() -> ApplyResponse {
    ApplyResponse {
        uid: "settings".into(),
        resource_version: "1".into(),
        generation: 1,
        message: String::new(),
        observed: present("settings".into(), "1", None),
        warnings: Vec::new(),
    }
}
