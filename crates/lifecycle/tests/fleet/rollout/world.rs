//! Simulated world around one rollout, in virtual time: an engine with its operations, Applications, gates
//! and users. Without disturbances, every answer arrives immediately. With them, answers are late, repeated
//! or lost, observations are stale, and the process crashes now and then.
//!
//! Invariants are checked against the simulated operations and Applications, not against the machine's own
//! state.

mod engine;
mod invariants;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use tidegate_lifecycle::rollout::{
    Command, Event, Input, MemberObservation, MemberSpec, ProgressiveSync, Request, Rollout, State,
    UserRequest, WorkKind, explain, view,
};
use tidegate_lifecycle::{Arrival, Driver, Machine, Outbox, Runner, RunnerStatus};
use tidegate_model::{HealthStatus, OperationId, OperationPhase};

use crate::build::*;
use crate::common::EventQueue;
use crate::disturbances::Disturbances;
use crate::machines::run_step;

/// Operation in the simulated engine.
#[derive(Clone, Debug)]
pub struct Operation {
    pub member: String,
    pub work: WorkKind,
    pub has_begun: bool,
    pub final_phase: Option<OperationPhase>,
}

/// Future behavior of an Application.
#[derive(Clone, Debug, Default)]
pub struct Behavior {
    /// End of a sync window that delays the Application's operations.
    pub window_until: i64,
    /// Duration of an operation, or `None` if it never ends.
    pub duration: Option<i64>,
    /// Number of operations that fail before one succeeds.
    pub failures: u32,
    /// Time from the end of an operation until the Application is Healthy, or `None` if it never becomes
    /// Healthy.
    pub healthy_after: Option<i64>,
    /// Number of operations that the engine rejects with a transient error.
    pub rejections: u32,
}

/// Simulated Application.
#[derive(Clone, Debug)]
pub struct App {
    pub observation: MemberObservation,
    /// True if the Application was Healthy at its target after one of this rollout's operations.
    pub was_healthy: bool,
    /// Earlier states, to simulate old observations.
    pub past_observations: Vec<MemberObservation>,
}

#[derive(Clone, Debug)]
pub enum SimEvent {
    Input(Input),
    CommandArrived(Command),
    /// The engine starts an operation.
    BeginOperation(OperationId),
    /// An operation ends.
    EndOperation(OperationId),
    /// An Application becomes Healthy, if this was its last operation.
    BecomeHealthy(OperationId),
    OpenGate {
        step: u32,
        gate: String,
    },
    Persisted,
    Alarm(u32),
}

const EVENTS_MAX: u32 = 40_000;

pub struct World {
    pub request: Request,
    pub runner: Runner<ProgressiveSync, Outbox<ProgressiveSync>>,
    pub now: i64,
    pub operations: BTreeMap<OperationId, Operation>,
    /// IDs of operations that were stopped before they had begun.
    pub withdrawn: BTreeSet<OperationId>,
    pub apps: BTreeMap<String, App>,
    pub behaviors: BTreeMap<String, Behavior>,
    /// Opening times of the gates.
    pub gates: BTreeMap<String, i64>,
    pub durable: Vec<Event>,
    /// Transcript, one line per event.
    pub transcript: Vec<String>,
    pub disturbances: Disturbances,
    /// Minimum time to write a batch to disk.
    pub min_write_time: i64,
    /// Crash point: the process crashes before the event with this number, starting at 1.
    pub crash_before: Option<u32>,
    pub event_count: u32,
    queue: EventQueue<SimEvent>,
    /// Time of the last observation of each object.
    last_deliveries: BTreeMap<<ProgressiveSync as Machine>::ObservationKey, i64>,
    next_id: u128,
    crash_count: u32,
}

impl World {
    pub fn new(request: Request) -> Self {
        let app = |member: &MemberSpec| App {
            observation: observation_after(
                1,
                if member.done_by.is_some() { "new" } else { "old" },
                HealthStatus::Healthy,
            ),
            was_healthy: member.done_by.is_some(),
            past_observations: Vec::new(),
        };
        let fate = Behavior { duration: Some(1_000), healthy_after: Some(1_000), ..Behavior::default() };
        let mut world = Self {
            apps: request.members.iter().map(|member| (member.name.clone(), app(member))).collect(),
            behaviors: request.members.iter().map(|member| (member.name.clone(), fate.clone())).collect(),
            runner: Runner::new(Outbox::default()),
            now: 0,
            operations: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            gates: BTreeMap::new(),
            durable: Vec::new(),
            transcript: Vec::new(),
            disturbances: Disturbances::default(),
            min_write_time: 0,
            crash_before: None,
            event_count: 0,
            queue: EventQueue::new(),
            last_deliveries: BTreeMap::new(),
            next_id: 100,
            crash_count: 0,
            request: request.clone(),
        };
        world.schedule_input(0, Input::Begin(Box::new(request)));
        world
    }

    pub fn with_disturbances(mut self, weather: Disturbances) -> Self {
        self.disturbances = weather;
        self
    }

    pub fn behavior(&mut self, member: &str) -> &mut Behavior {
        self.behaviors.get_mut(member).unwrap()
    }

    pub fn schedule_input(&mut self, millis: i64, input: Input) {
        self.queue.schedule(millis.max(self.now), SimEvent::Input(input));
    }

    pub fn request_at(&mut self, millis: i64, request: UserRequest) {
        let input = Input::UserRequest { request, by: "ann".into(), reason: "because".into() };
        self.schedule_input(millis, input);
    }

    pub fn rollout(&self) -> &Rollout {
        self.runner.state().rollout().unwrap()
    }

    pub fn state(&self) -> &State {
        self.runner.state()
    }

    pub fn explain(&self) -> String {
        explain(self.state(), at(self.now)).to_string()
    }

    pub fn message(&self) -> String {
        view(self.state()).unwrap().message
    }

    /// Runs until the rollout has finished, no events are left, or the time is reached.
    pub fn run_until(&mut self, millis: i64) -> &mut Self {
        for _ in 0..EVENTS_MAX {
            if self.run_steps() == RunnerStatus::Finished {
                return self;
            }
            let Some((next, event)) = self.queue.pop_until(millis) else {
                self.now = self.now.max(if millis == i64::MAX { self.now } else { millis });
                return self;
            };
            self.now = next;
            self.event_count += 1;
            let dies = self.crash_before == Some(self.event_count)
                || self.disturbances.crash_chance > 0
                    && self.crash_count < 5
                    && self.disturbances.rng.chance(self.disturbances.crash_chance);
            if dies {
                self.crash_count += 1;
                self.crash();
            }
            self.handle_event(event);
        }
        panic!("the simulation does not end: {}", self.explain());
    }

    pub fn run(&mut self) -> &mut Self {
        self.run_until(i64::MAX)
    }

    /// Crashes the process. Events that aren't durable never happened, but calls in flight may still arrive.
    fn crash(&mut self) {
        if self.durable.is_empty() {
            return;
        }
        self.transcript.push(format!("{} dies", self.now));
        let driver = Driver::<ProgressiveSync>::recover(None, self.durable.clone()).unwrap();
        self.runner = Runner::from_driver(driver, Outbox::default());
        for (time, event) in self.queue.take_events() {
            if !matches!(event, SimEvent::Persisted | SimEvent::Alarm(_) | SimEvent::CommandArrived(_)) {
                self.queue.schedule(time, event);
            }
        }
        // The next process continues the operations that have begun. The other operations are lost.
        let lost: Vec<OperationId> =
            self.operations.iter().filter(|(_, operation)| !operation.has_begun).map(|(id, _)| *id).collect();
        for id in lost {
            self.operations.remove(&id);
        }
        self.schedule_input(self.now, Input::Recovered);
    }

    fn handle_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::Input(input) => self.deliver_input(&input),
            SimEvent::CommandArrived(command) => self.execute(command),
            SimEvent::BeginOperation(id) => self.begin_operation(id),
            SimEvent::EndOperation(id) => self.end_operation(id),
            SimEvent::BecomeHealthy(id) => self.become_healthy(id),
            SimEvent::OpenGate { step, gate } => self.open_gate(step, gate),
            SimEvent::Persisted => self.deliver_arrival(Arrival::Persisted),
            SimEvent::Alarm(number) if self.queue.is_current_alarm(number) => {
                self.deliver_arrival(Arrival::Alarm)
            }
            SimEvent::Alarm(_) => {}
        }
    }

    fn deliver_arrival(&mut self, arrival: Arrival<ProgressiveSync, Infallible>) {
        self.runner.process(arrival, at(self.now)).expect("only user requests may be rejected");
    }

    fn deliver_input(&mut self, input: &Input) {
        match input {
            Input::UserRequest { .. } => {
                self.runner
                    .process_request(input, (), at(self.now))
                    .expect("the machine's own events must be legal");
            }
            // A new process doesn't know about a rollout that another process started.
            Input::Begin(_) if *self.state() != State::New => {}
            Input::Gone { member } => {
                self.apps.remove(member);
                self.deliver_arrival(Arrival::Input(input.clone()));
            }
            Input::Joined { member } => {
                let app = App {
                    observation: MemberObservation {
                        operation: None,
                        deployed: None,
                        ..observation_after(1, "", HealthStatus::Missing)
                    },
                    was_healthy: false,
                    past_observations: Vec::new(),
                };
                self.apps.entry(member.name.clone()).or_insert(app);
                let fate = Behavior { duration: Some(500), healthy_after: Some(500), ..Behavior::default() };
                self.behaviors.entry(member.name.clone()).or_insert(fate);
                self.deliver_arrival(Arrival::Input(input.clone()));
            }
            _ => self.deliver_arrival(Arrival::Input(input.clone())),
        }
    }

    /// Delivers an input, possibly late and possibly twice.
    fn send(&mut self, input: Input) {
        let at = self.now + self.disturbances.random_delay();
        let again = self
            .disturbances
            .rng
            .chance(self.disturbances.repeat_chance)
            .then(|| at + self.disturbances.random_delay());
        for at in [Some(at), again].into_iter().flatten() {
            self.send_in_order(at, input.clone());
        }
    }

    /// Delivers an input, possibly late. Observations of the same object stay in order.
    fn send_in_order(&mut self, millis: i64, input: Input) {
        let mut at = millis;
        if let Some(of) = ProgressiveSync::observation_key(&input) {
            let last = self.last_deliveries.entry(of).or_default();
            at = at.max(*last);
            *last = at;
        }
        self.schedule_input(at, input);
    }

    fn run_steps(&mut self) -> RunnerStatus {
        loop {
            let status = run_step(&mut self.runner, self.now, State::name, &mut self.transcript);
            let Outbox { commands, started_subscriptions, ended_subscriptions, batch, alarm, .. } =
                std::mem::take(self.runner.effects_mut());
            for command in &ended_subscriptions {
                self.end_subscription(command);
            }
            if let Some(after) = alarm {
                self.queue.set_alarm(self.now, after, SimEvent::Alarm);
            }
            for command in commands.into_iter().chain(started_subscriptions) {
                let delay = self.disturbances.random_delay();
                self.queue.schedule(self.now + delay, SimEvent::CommandArrived(command));
            }
            self.check();
            let Some(batch) = batch else { return status };
            assert_eq!(batch.first_sequence, u64::try_from(self.durable.len()).unwrap() + 1);
            self.durable.extend(batch.events);
            if self.disturbances.max_delay > 0 || self.min_write_time > 0 {
                let delay = self.min_write_time + self.disturbances.random_delay();
                self.queue.schedule(self.now + delay, SimEvent::Persisted);
                return status;
            }
            self.deliver_arrival(Arrival::Persisted);
        }
    }
}
