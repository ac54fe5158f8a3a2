//! Simulated world around one operation, in virtual time: a cluster, gates and users. Without disturbances,
//! every answer arrives immediately. With them, answers are late, repeated or lost, observations are stale,
//! and the engine crashes now and then.

mod behavior;
mod cluster;
mod disturbances;
mod event_consumer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_lifecycle::operation::{
    Command, Driver, Input, NamespaceObservation, ObjectIdentity, Operation, OperationEvent, SyncOperation,
    TaskCommand, Verdict,
};
use tidegate_lifecycle::{Arrival, Outbox, Runner};
use tidegate_model::{Observation, Plan, SyncRequest, Task, TaskId};

pub use behavior::{Behavior, Disturbances, EvidenceKind, Reply, Rng, health_of};
pub use cluster::{Change, Cluster, Write};
pub use disturbances::executed_dependencies;

use crate::build::{DIGEST, at, id};
use crate::common::EventQueue;

/// Scheduled event of the simulation.
#[derive(Clone, Debug)]
pub enum SimEvent {
    Input(Input),
    /// A command reaches the cluster.
    CommandArrived(Command),
    /// The answer to a command reaches the machine.
    AnswerArrived(Command, Input),
    /// An awaited object is read.
    ReadObject(TaskId),
    /// A gate gives its verdict.
    GateVerdict(Command),
    Persisted,
    /// The alarm fires. The number identifies the alarm, so that a replaced alarm is ignored.
    Alarm(u32),
}

/// Maximum number of events per simulation. An operation that exceeds it is assumed never to finish.
const EVENTS_MAX: u32 = 30_000;

pub struct World {
    pub plan: Plan,
    pub runner: Runner<SyncOperation, Outbox<SyncOperation>>,
    pub now: i64,
    pub cluster: Cluster,
    /// Times when namespaces start terminating.
    pub namespaces_terminating_at: BTreeMap<String, i64>,
    /// Times when namespaces cease to exist.
    pub namespaces_gone_at: BTreeMap<String, i64>,
    /// Times when namespaces are recreated.
    pub namespaces_recreated_at: BTreeMap<String, i64>,
    /// True if the identities of the namespaces were recorded.
    pub records_namespaces: bool,
    /// True if a watch reports the deletion of a namespace. Otherwise, only a read shows it.
    pub has_namespace_watch: bool,
    /// Next verdicts of each gate. A gate without verdicts is open.
    pub gates: BTreeMap<String, VecDeque<Verdict>>,
    /// Content of the log.
    pub durable: Vec<OperationEvent>,
    /// Transcript, one line per event.
    pub transcript: Vec<String>,
    pub disturbances: Disturbances,
    /// Crash point: the engine crashes before the event with this number, starting at 1. `None` after the
    /// crash.
    pub crash_before: Option<u32>,
    /// Number of writes to the log.
    pub writes: u32,
    event_count: u32,
    offered_inputs: Vec<Input>,
    plan_replies: VecDeque<Reply>,
    queue: EventQueue<SimEvent>,
    last_message: String,
    pub event_consumer: event_consumer::EventConsumer,
}

impl World {
    pub fn new(plan: Plan, request: SyncRequest) -> Self {
        let mut cluster = Cluster::default();
        cluster.add_live_objects(plan.tasks_with_ids().map(|(id, task)| (id, task.clone())));
        let mut world = Self {
            plan,
            runner: Runner::new(Outbox::default()),
            now: 0,
            cluster,
            namespaces_terminating_at: BTreeMap::new(),
            namespaces_gone_at: BTreeMap::new(),
            namespaces_recreated_at: BTreeMap::new(),
            records_namespaces: true,
            has_namespace_watch: true,
            gates: BTreeMap::new(),
            durable: Vec::new(),
            transcript: Vec::new(),
            disturbances: Disturbances::calm(),
            crash_before: None,
            writes: 0,
            event_count: 0,
            offered_inputs: Vec::new(),
            plan_replies: VecDeque::new(),
            queue: EventQueue::new(),
            last_message: String::new(),
            event_consumer: event_consumer::EventConsumer::default(),
        };
        world.schedule_input(
            0,
            Input::Request { operation: id(), request: Box::new(request), targets: DIGEST, plan: None },
        );
        world
    }

    pub fn schedule_input(&mut self, millis: i64, input: Input) {
        self.schedule(millis, SimEvent::Input(input));
    }

    fn schedule(&mut self, millis: i64, event: SimEvent) {
        self.queue.schedule(millis.max(self.now), event);
    }

    /// Changes the behavior of an object.
    pub fn configure(&mut self, object: &str, change: impl FnOnce(&mut Behavior)) {
        let id = self.task_id(object);
        change(self.cluster.behaviors.get_mut(&id).unwrap());
    }

    pub fn set_plan_replies(&mut self, replies: impl IntoIterator<Item = Reply>) {
        self.plan_replies.extend(replies);
    }

    pub fn task_id(&self, object: &str) -> TaskId {
        self.plan.tasks_with_ids().find(|(_, task)| label_of(task) == object).map(|(id, _)| id).unwrap()
    }

    pub fn driver(&self) -> &Driver {
        self.runner.driver()
    }

    pub fn operation(&self) -> &Operation {
        self.runner.state().operation().unwrap()
    }

    fn log_line(&mut self, line: String) {
        self.transcript.push(line);
    }

    /// Runs until the operation has finished or no events are left.
    pub fn run(&mut self) -> &mut Self {
        self.run_until(i64::MAX)
    }

    /// Runs all events up to the given time.
    pub fn run_until(&mut self, millis: i64) -> &mut Self {
        for _ in 0..EVENTS_MAX {
            self.run_steps();
            let next = self.queue.next_time();
            if self.runner.state().is_finished() && self.is_log_complete() {
                self.log_message();
                return self;
            }
            if next.is_none_or(|next| next > self.now) {
                self.log_message();
            }
            let Some((next, event)) = self.queue.pop_until(millis) else { return self };
            self.now = next;
            self.event_count += 1;
            if self.crash_before == Some(self.event_count) {
                self.crash_before = None;
                // The event is scheduled again before the crash, which removes the events that don't survive.
                self.schedule(self.now, event);
                self.crash();
                continue;
            }
            self.handle_event(event);
            self.disturb();
        }
        panic!("the simulation does not end: {:#?}", self.runner.state().name());
    }

    fn is_log_complete(&self) -> bool {
        u64::try_from(self.durable.len()).unwrap() == self.driver().sequence()
    }

    fn log_message(&mut self) {
        let message = self.runner.state().message();
        if message != self.last_message {
            self.log_line(format!("# {message}"));
            self.last_message = message;
        }
    }

    fn handle_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::Input(input) => self.offer_input(input),
            SimEvent::CommandArrived(command) => self.execute(command),
            SimEvent::AnswerArrived(command, input) => {
                self.offered_inputs.push(input.clone());
                self.deliver_arrival(Arrival::Answer { subject: command.subject(), input });
            }
            SimEvent::ReadObject(task) => self.read_object(task),
            SimEvent::GateVerdict(ask) => self.ask_gate(&ask),
            SimEvent::Persisted => self.deliver_arrival(Arrival::Persisted),
            SimEvent::Alarm(number) if self.queue.is_current_alarm(number) => {
                self.deliver_arrival(Arrival::Alarm)
            }
            SimEvent::Alarm(_) => {}
        }
    }

    fn deliver_arrival(&mut self, arrival: Arrival<SyncOperation, std::convert::Infallible>) {
        if matches!(arrival, Arrival::Persisted) {
            self.event_consumer.batch_persisted();
        }
        self.runner.process(arrival, at(self.now)).expect("only user requests may be rejected");
    }

    /// Offers an input to the machine. Only user requests may be rejected.
    fn offer_input(&mut self, input: Input) {
        self.offered_inputs.push(input.clone());
        if !input.is_request() {
            return self.deliver_arrival(Arrival::Input(input));
        }
        self.runner
            .process_request(&input, (), at(self.now))
            .expect("the machine's own events must be legal");
        for refused in
            std::mem::take(&mut self.runner.effects_mut().answers).into_iter().filter_map(Result::err)
        {
            self.log_line(format!("! {refused}"));
        }
    }

    /// Runs steps of the runner: transitions, writes to the log, and new commands.
    fn run_steps(&mut self) {
        loop {
            let stage = self.runner.state().name();
            let status = self.runner.step(at(self.now)).expect("the machine's own events must be legal");
            // Every operation ends with a check of the namespaces, which is omitted from the transcript.
            if self.runner.state().name() != stage && !self.runner.state().name().ends_with("Verifying") {
                self.log_line(format!("@ {} {}", self.now, self.runner.state().name()));
            }
            self.runner.effects_mut().answers.clear();
            let batch = self.runner.effects_mut().batch.take();
            if let Some(batch) = &batch {
                self.check_batch(batch);
            }
            self.check(status);
            self.start_commands();
            let Some(batch) = batch else { return };
            self.writes += 1;
            self.event_consumer.batch_written(&batch.events);
            self.durable.extend(batch.events);
            if self.disturbances.max_delay > 0 {
                let delay = self.random_delay();
                return self.schedule(self.now + delay, SimEvent::Persisted);
            }
            self.deliver_arrival(Arrival::Persisted);
        }
    }

    fn start_commands(&mut self) {
        let Outbox { commands, started_subscriptions, alarm, .. } = std::mem::take(self.runner.effects_mut());
        if let Some(after) = alarm {
            self.queue.set_alarm(self.now, after, SimEvent::Alarm);
        }
        for command in commands {
            self.check_command(&command);
            self.log_command(&command);
            let delay = self.random_delay();
            self.schedule(self.now + delay, SimEvent::CommandArrived(command));
        }
        for started in started_subscriptions {
            self.log_command(&started);
            match started {
                Command::AskGate { .. } => {
                    let delay = self.random_delay();
                    self.schedule(self.now + delay, SimEvent::GateVerdict(started));
                }
                Command::Observe { task } => self.schedule(self.now, SimEvent::ReadObject(task)),
                Command::WatchNamespaces if self.has_namespace_watch => {
                    for (name, millis) in self
                        .namespaces_terminating_at
                        .clone()
                        .into_iter()
                        .chain(self.namespaces_recreated_at.clone())
                    {
                        let observation = self.observe_namespace(&name, millis);
                        self.schedule_input(millis.max(self.now), Input::NamespaceObserved(observation));
                    }
                }
                _ => {}
            }
        }
    }

    fn log_command(&mut self, command: &Command) {
        let line = match command {
            Command::Plan => "plan".to_owned(),
            Command::AskGate { gate, .. } => format!("ask {gate}"),
            Command::Task { task, command: what, .. } => {
                format!("{} {}", verb_of(what), label_of(self.plan.task(*task).unwrap()))
            }
            Command::ReadNamespaces | Command::WatchNamespaces | Command::Observe { .. } | Command::Claim => {
                return;
            }
        };
        self.log_line(line);
    }

    fn execute(&mut self, command: Command) {
        let input = self.execute_command(&command);
        if self.disturbances.rng.chance(self.disturbances.repeat_chance) {
            let _ = self.execute_command(&command);
        }
        let delay = self.random_delay();
        self.schedule(self.now + delay, SimEvent::AnswerArrived(command, input));
    }

    fn execute_command(&mut self, command: &Command) -> Input {
        match command {
            Command::Plan => match self.plan_replies.pop_front().unwrap_or(Reply::Success).into_result(()) {
                Ok(()) => Input::Planned {
                    plan: Arc::new(self.plan.clone()),
                    bundle: DIGEST,
                    namespaces: if self.records_namespaces {
                        self.observe_namespaces(self.now - 1)
                    } else {
                        Vec::new()
                    },
                },
                Err(error) => Input::PlanFailed(error),
            },
            Command::Task { task, attempt, command: what } => {
                let planned = self.plan.task(*task).unwrap();
                let state = self.runner.state().operation().and_then(|operation| operation.task(*task));
                let leftover = state.and_then(|(_, state)| state.leftover.as_deref());
                self.cluster.disown_leftover(*task, leftover);
                let answer = self.cluster.execute(*task, planned, *attempt, what, self.now);
                Input::Answer { task: *task, attempt: *attempt, answer }
            }
            Command::ReadNamespaces => {
                Input::NamespacesRead { namespaces: self.observe_namespaces(self.now) }
            }
            Command::Observe { .. } | Command::WatchNamespaces | Command::Claim | Command::AskGate { .. } => {
                unreachable!("subscriptions do not have an answer")
            }
        }
    }

    fn observe_namespaces(&self, millis: i64) -> Vec<NamespaceObservation> {
        let names: BTreeSet<&String> = self
            .namespaces_terminating_at
            .keys()
            .chain(self.namespaces_gone_at.keys())
            .chain(self.namespaces_recreated_at.keys())
            .collect();
        names.into_iter().map(|name| self.observe_namespace(name, millis)).collect()
    }

    /// Returns the observation of a namespace at this time.
    fn observe_namespace(&self, name: &str, millis: i64) -> NamespaceObservation {
        let since = |changes: &BTreeMap<String, i64>| changes.get(name).is_some_and(|at| *at <= millis);
        let is_new = since(&self.namespaces_recreated_at);
        let which = |uid: &str| ObjectIdentity { uid: uid.into(), resource_version: uid.into() };
        NamespaceObservation {
            name: name.into(),
            identity: if is_new {
                Some(which("2"))
            } else {
                (!since(&self.namespaces_gone_at)).then(|| which("1"))
            },
            is_terminating: since(&self.namespaces_terminating_at)
                && !is_new
                && !since(&self.namespaces_gone_at),
        }
    }

    /// Queries a gate. A closed gate reports its next verdict after the interval in its current verdict.
    fn ask_gate(&mut self, ask: &Command) {
        let Command::AskGate { wave, gate } = ask else { return };
        if !self.runner.has_subscription(ask) {
            return;
        }
        let verdict = self.gates.get_mut(gate).and_then(VecDeque::pop_front).unwrap_or(Verdict::Open);
        if let Verdict::Closed { ask_again_after, .. } = &verdict {
            let after = i64::try_from(ask_again_after.as_millis()).unwrap();
            self.schedule(self.now + after.max(1000), SimEvent::GateVerdict(ask.clone()));
        }
        let delay = self.random_delay();
        let input = Input::Gate { wave: *wave, gate: gate.clone(), verdict };
        self.schedule(self.now + delay, SimEvent::Input(input));
    }

    /// Reads an awaited object, and schedules the next read for the object's next change.
    fn read_object(&mut self, task: TaskId) {
        if !self.runner.has_subscription(&Command::Observe { task }) {
            return;
        }
        let began = self.now;
        let mut observed = self.cluster.observe(task, self.now);
        if self.disturbances.rng.chance(self.disturbances.distortion_chance) {
            observed = self.distort(task, observed);
        }
        if !self.disturbances.rng.chance(self.disturbances.distortion_chance) {
            let delay = self.random_delay();
            let observation = Observation { at: at(began), seen: observed };
            self.schedule(self.now + delay, SimEvent::Input(Input::Observed { task, observation }));
        }
        let next = self.next_change(task).unwrap_or(self.now + 15_000).min(self.now + 15_000);
        self.schedule(next, SimEvent::ReadObject(task));
    }

    fn next_change(&self, task: TaskId) -> Option<i64> {
        let object = self.cluster.objects.get(&task)?;
        let fate = &self.cluster.behaviors[&task];
        let health = fate.health.iter().map(|(after, _)| *after).chain(fate.deleted_after).chain([5]);
        health
            .map(|after| object.written_at.saturating_add(after))
            .chain(object.removed_at)
            .chain(object.rival_until)
            .filter(|moment| *moment > self.now)
            .min()
    }

    /// Returns all inputs that reached the machine, in order.
    pub fn inputs(&self) -> Vec<Input> {
        self.offered_inputs.clone()
    }

    /// Returns the results, one per line.
    pub fn results(&self) -> Vec<String> {
        let view = tidegate_lifecycle::operation::view(self.runner.state()).unwrap();
        let word = |word: Option<String>| word.unwrap_or_else(|| "-".into());
        view.resources
            .iter()
            .map(|result| {
                let status = word(result.status.map(|status| status.to_string()));
                let phase = word(result.hook_phase.map(|phase| phase.to_string()));
                format!(
                    "{} {}/{} {status} {phase}: {}",
                    result.order, result.kind, result.name, result.message
                )
            })
            .collect()
    }
}

pub fn verb_of(command: &TaskCommand) -> &'static str {
    match command {
        TaskCommand::Check => "check",
        TaskCommand::Prune { .. } => "prune",
        TaskCommand::ClearHook => "clear",
        TaskCommand::Apply => "apply",
        TaskCommand::StartHook { .. } => "start",
        TaskCommand::RunHook { .. } => "run",
        TaskCommand::ReleaseHook { .. } => "release",
        TaskCommand::DeleteHook { .. } => "delete",
        TaskCommand::StopHook => "stop",
        TaskCommand::ReadLogs => "logs",
    }
}

pub fn label_of(task: &Task) -> String {
    format!("{}/{}", task.gvk.kind, task.name)
}
