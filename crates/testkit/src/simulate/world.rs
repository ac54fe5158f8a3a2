//! Queue of possible next steps, and the loop that executes them.

mod command_execution;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::{Clock, Faults, SimCluster, SimConfig};
use tidegate_executor::{Summary, effects};
use tidegate_lifecycle::operation::{
    Command, Driver, Input, OperationEvent, Scope, State, SyncOperation, TaskSelector,
};
use tidegate_lifecycle::{Arrival, MachineBatch, Outbox, Runner, RunnerStatus};
use tidegate_model::{OperationId, OperationPhase, Override, TaskId, Timestamp};
use tidegate_oplog::{
    AppendOf, ApplicationInventory, Blobs as _, Inventories as _, InventoryChange, MemoryLog,
};
use uuid::Uuid;

use super::checks;
use super::generate::{ApplicationLife, draw_life};
use super::rng::Rng;
use crate::operation_events::OperationEvents as _;
use crate::process::START;
use crate::scenario::SyncSpec;

/// Maximum number of steps, more than any operation needs. After that, it is an endless loop.
const STEPS_MAX: u64 = 200_000;

const CONTRADICTION: &str = "the machine contradicts itself";

/// Returns the task with the object that a command watches, if any.
fn watched_task(command: &Command) -> Option<TaskId> {
    match command {
        Command::Observe { task } => Some(*task),
        _ => None,
    }
}

/// Statistics of a simulated life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationReport {
    /// Number of steps.
    pub steps: u64,
    /// Number of crashes.
    pub crashes: u64,
    /// Number of recorded events.
    pub events: u64,
    /// Final phases and messages of the operations.
    pub ends: Vec<(OperationPhase, String)>,
}

/// Simulates a life from a seed. Panics if an invariant is violated.
pub fn simulate(seed: u64, trace: bool) -> SimulationReport {
    let mut rng = Rng::new(seed);
    let life = draw_life(&mut rng);
    let time = Arc::new(AtomicI64::new(START.as_millis()));
    let probability = f64::from(u32::try_from(life.faults_percent).unwrap()) / 100.0;
    let config = SimConfig::default().with_seed(seed).with_faults(Faults::uniform(probability));
    let clock = {
        let time = Arc::clone(&time);
        Clock::wall(move || Timestamp::from_millis(time.load(Ordering::SeqCst)))
    };
    let cluster = SimCluster::in_memory(config, clock);
    let mut report = SimulationReport::default();
    // All operations share a log, because later ones read the inventory of earlier ones.
    let log = MemoryLog::default();
    let outside = Environment { cluster: &cluster, log, time };
    let syncs = life.syncs.clone();
    for (number, sync) in (1_u128..).zip(&syncs) {
        let id = OperationId(Uuid::from_u128(number));
        let mut world = World::new(id, sync, &life, outside.clone(), &mut rng, trace);
        let end = world.run();
        report.steps += world.steps;
        report.crashes += world.crashes;
        report.events += u64::try_from(world.durable_events().len()).unwrap();
        report.ends.push(end);
    }
    report
}

/// Possible next step.
enum NextStep {
    /// An input for the engine, lost if it crashes first.
    EngineInput(Input),
    /// A command's result, lost if the engine crashes first.
    CommandResult(Command, Input),
    /// The batch in flight has become durable.
    Persisted,
    /// A timer fires when it is due.
    Timer,
    /// A command reaches the cluster.
    Execute(Command),
    /// An object that the engine is waiting for is observed.
    Observe(TaskId),
    /// A gate reports its state, with or without a request.
    Gate(Command),
}

/// State that outlives the engine.
#[derive(Clone)]
struct Environment<'a> {
    cluster: &'a SimCluster,
    log: MemoryLog,
    time: Arc<AtomicI64>,
}

struct World<'a> {
    id: OperationId,
    sync: &'a SyncSpec,
    life: &'a ApplicationLife,
    cluster: &'a SimCluster,
    time: Arc<AtomicI64>,
    rng: &'a mut Rng,
    trace: bool,
    log: MemoryLog,
    targets: tidegate_model::Digest,
    runner: Runner<SyncOperation, Outbox<SyncOperation>>,
    /// State according to the durable events.
    durable_state: State,
    /// Next steps, ordered by time and then by a random number.
    queue: BTreeMap<(Timestamp, u64), NextStep>,
    has_recovered: bool,
    mask: effects::Mask,
    /// Inventory changes for the next batch.
    inventory: Vec<InventoryChange>,
    steps: u64,
    crashes: u64,
}

impl<'a> World<'a> {
    fn new(
        id: OperationId,
        sync: &'a SyncSpec,
        life: &'a ApplicationLife,
        outside: Environment<'a>,
        rng: &'a mut Rng,
        trace: bool,
    ) -> Self {
        let Environment { cluster, log, time } = outside;
        let targets = log.put_blob(&serde_json::to_vec(&sync.targets()).unwrap()).unwrap();
        Self {
            id,
            sync,
            life,
            cluster,
            time,
            rng,
            trace,
            log,
            targets,
            runner: Runner::new(Outbox::default()),
            durable_state: State::New,
            queue: BTreeMap::new(),
            has_recovered: false,
            mask: sync.targets().mask(),
            inventory: Vec::new(),
            steps: 0,
            crashes: 0,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.load(Ordering::SeqCst))
    }

    fn schedule_after(&mut self, wait: Duration, happening: NextStep) {
        let at = self.now() + wait;
        let tie = self.rng.draw();
        self.queue.insert((at, tie), happening);
    }

    fn schedule_soon(&mut self, happening: NextStep) {
        let wait = Duration::from_millis(self.rng.below(50));
        self.schedule_after(wait, happening);
    }

    fn known_inventory(&self) -> Option<ApplicationInventory> {
        self.log.inventory("simulated", "shop").unwrap()
    }

    fn durable_events(&self) -> Vec<OperationEvent> {
        self.log.recorded_events(self.id).unwrap_or_default()
    }

    /// Runs until the operation has finished and all its events are durable.
    fn run(&mut self) -> (OperationPhase, String) {
        self.start_engine();
        loop {
            let status = self.run_steps();
            let durable = &self.durable_state;
            assert!(status != RunnerStatus::Stopped, "there was no request to stop");
            if status == RunnerStatus::Finished {
                assert_eq!(
                    *durable,
                    checks::apply_all(&self.durable_events()),
                    "the log must return the appended records"
                );
                checks::check_writes(self.cluster, self.id, durable);
                checks::check_end(self.cluster, durable);
                if let Some(known) = self.known_inventory() {
                    checks::check_inventory(self.cluster, "shop", &known);
                }
                let outcome = durable.operation().and_then(|operation| operation.outcome.clone()).unwrap();
                return (outcome.phase, outcome.message);
            }
            self.steps += 1;
            assert!(
                self.steps < STEPS_MAX,
                "no end after {STEPS_MAX} steps in {}: {}",
                durable.name(),
                durable.message()
            );
            if self.rng.percent(self.life.crashes_percent) {
                self.crash_and_recover();
                continue;
            }
            if self.rng.percent(self.life.people_percent) {
                self.draw_user_action();
            }
            let paused = self.runner.state().header().is_some_and(|header| header.paused.is_some());
            if self.queue.is_empty() && paused {
                // A paused operation has no outstanding commands, so only a user action can follow.
                self.schedule_after(
                    Duration::from_secs(60),
                    NextStep::EngineInput(Input::Unpause { by: "test".to_owned() }),
                );
            }
            let Some(((at, _), happening)) = self.queue.pop_first() else {
                panic!("deadlock in {}: {}", self.durable_state.name(), self.durable_state.message());
            };
            self.time.fetch_max(at.as_millis(), Ordering::SeqCst);
            self.perform_step(happening);
        }
    }

    fn start_engine(&mut self) {
        if self.durable_state == State::New {
            let request = Box::new(self.sync.request.clone());
            self.offer_input(Input::Request {
                operation: self.id,
                request,
                targets: self.targets,
                plan: None,
            });
        }
    }

    /// Masks an input as the engine does on receipt.
    fn mask_input(&self, mut input: Input) -> Input {
        input.for_each_text(&mut |text| self.mask.apply(text));
        if self.trace {
            println!("{} {:24} <- {input:?}", self.now(), self.runner.state().name());
        }
        input
    }

    fn offer_input(&mut self, input: Input) {
        let (input, now) = (self.mask_input(input), self.now());
        if input.is_request() {
            // The engine may reject the request.
            self.runner
                .process_request(&input, (), now)
                .unwrap_or_else(|illegal| panic!("{CONTRADICTION}: {illegal}"));
        } else {
            self.handle_arrival(Arrival::Input(input));
        }
    }

    fn handle_arrival(&mut self, arrival: Arrival<SyncOperation, std::convert::Infallible>) {
        let now = self.now();
        self.runner.process(arrival, now).unwrap_or_else(|error| panic!("{CONTRADICTION}: {error}"));
    }

    /// Runs a step of the engine's runner, and schedules the following steps.
    fn run_steps(&mut self) -> RunnerStatus {
        let now = self.now();
        let status = self.runner.step(now).unwrap_or_else(|error| panic!("{CONTRADICTION}: {error}"));
        let Outbox { commands, batch, alarm, .. } = std::mem::take(self.runner.effects_mut());
        if let Some(batch) = batch
            && !self.append_batch(batch)
        {
            // The engine crashed. The next process continues from the same position.
            return self.run_steps();
        }
        for command in commands {
            checks::check_command_is_outstanding(&self.durable_state, self.runner.state(), &command, now);
            self.schedule_soon(NextStep::Execute(command));
        }
        let observed: Vec<TaskId> = self.runner.subscriptions().filter_map(watched_task).collect();
        for task in observed {
            let known = self
                .queue
                .values()
                .any(|happening| matches!(happening, NextStep::Observe(other) if *other == task));
            if !known {
                let wait = Duration::from_millis(self.rng.below(3000));
                self.schedule_after(wait, NextStep::Observe(task));
            }
        }
        let gates = self.runner.subscriptions().filter(|command| matches!(command, Command::AskGate { .. }));
        for gate in gates.cloned().collect::<Vec<_>>() {
            let is_it = |happening: &NextStep| matches!(happening, NextStep::Gate(other) if *other == gate);
            if !self.queue.values().any(is_it) {
                let wait = Duration::from_millis(self.rng.below(5000));
                self.schedule_after(wait, NextStep::Gate(gate));
            }
        }
        if let Some(Some(wait)) = alarm {
            // The timer may fire late. Earlier timers fire too.
            let late = Duration::from_millis(self.rng.below(200));
            self.schedule_after(wait + late, NextStep::Timer);
        }
        status
    }

    /// Appends a batch. Returns true if the process survives.
    fn append_batch(&mut self, batch: MachineBatch<SyncOperation>) -> bool {
        let last = batch.last_sequence();
        let inventory =
            effects::update_inventory(self.runner.state(), &batch.events, self.inventory.drain(..));
        let summary = Summary {
            operation: self.id,
            application: "shop".into(),
            destination: String::new(),
            phase: OperationPhase::Running,
            paused: false,
            message: String::new(),
            started_at: START,
            finished_at: None,
            waves: (0, 0),
            revision: String::new(),
            initiated_by: String::new(),
            dry_run: false,
        };
        let append = AppendOf::new(self.id, batch.first_sequence, batch.events, summary.into());
        // Draw snapshots at random too, to test recovery from them.
        let snapshot = self.rng.percent(10).then(|| self.runner.state().clone());
        let append = AppendOf { snapshot, inventory, ..append };
        // The process may crash before the append, or after it but before receiving the result.
        if self.rng.percent(self.life.crashes_percent) {
            self.crash_and_recover();
            return false;
        }
        for event in &append.events {
            self.durable_state = checks::apply_event(std::mem::take(&mut self.durable_state), event);
        }
        self.log.append(vec![append]).unwrap();
        assert_eq!(last, self.log.load(self.id).unwrap().last_sequence, "sequence numbers have a gap");
        if self.rng.percent(self.life.crashes_percent) {
            self.crash_and_recover();
            return false;
        }
        self.schedule_soon(NextStep::Persisted);
        true
    }

    /// Crashes the engine and restarts it from the log. Calls in flight may still reach the cluster.
    fn crash_and_recover(&mut self) {
        self.crashes += 1;
        let lost: Vec<_> = std::mem::take(&mut self.queue).into_iter().collect();
        for ((at, tie), happening) in lost {
            if let NextStep::Execute(command) = happening
                && self.rng.percent(50)
            {
                // The process crashed right after sending the call, so the response is lost.
                let _ = (at, tie);
                self.execute_command(&command);
            }
        }
        self.inventory.clear();
        self.has_recovered = true;
        let driver = match self.log.load(self.id) {
            Err(_) => Driver::default(),
            Ok(loaded) => {
                let driver = Driver::recover(loaded.snapshot, loaded.events)
                    .unwrap_or_else(|illegal| panic!("recovery failed: {illegal}"));
                assert_eq!(
                    *driver.state(),
                    self.durable_state,
                    "a snapshot with the events after it differs from all events"
                );
                driver
            }
        };
        self.runner = Runner::from_driver(driver, Outbox::default());
        if self.trace {
            println!("{} crash; recovered in {}", self.now(), self.runner.state().name());
        }
        let wait = Duration::from_millis(self.rng.below(2000));
        self.time.fetch_add(i64::try_from(wait.as_millis()).unwrap(), Ordering::SeqCst);
        self.start_engine();
        self.offer_input(Input::Resumed);
    }

    /// Draws a user's decision about a task.
    fn draw_decision(&mut self, by: String) -> Input {
        let tasks = self.runner.state().operation().map_or(&[][..], |operation| &operation.plan.tasks);
        let place = usize::try_from(self.rng.below(tasks.len().max(1) as u64)).unwrap_or_default();
        let Some(task) = tasks.get(place) else { return Input::Unpause { by } };
        let name = TaskSelector {
            kind: task.gvk.kind.clone(),
            group: Some(task.gvk.group.clone()),
            name: task.name.clone(),
            namespace: Some(task.namespace.clone()),
            phase: Some(task.phase),
        };
        let what = if self.rng.percent(50) { Override::Skip } else { Override::MarkDone };
        Input::Override { what, scope: Scope::Task(name), by, reason: "it is in the way".to_owned() }
    }

    fn draw_user_action(&mut self) {
        let by = "test".to_owned();
        let input = match self.rng.below(16) {
            10.. => self.draw_decision(by),
            0 => Input::Terminate { by },
            1..=3 => Input::Pause { by, reason: String::new() },
            4..=7 => Input::Unpause { by },
            _ => Input::ConfirmPrune { by },
        };
        if matches!(input, Input::Pause { .. }) {
            // A user must resume the operation.
            let wait = Duration::from_secs(self.rng.below(600));
            self.schedule_after(wait, NextStep::EngineInput(Input::Unpause { by: "test".to_owned() }));
        }
        self.offer_input(input);
    }

    fn perform_step(&mut self, happening: NextStep) {
        match happening {
            NextStep::Persisted => self.handle_arrival(Arrival::Persisted),
            NextStep::Timer => self.handle_arrival(Arrival::Alarm),
            NextStep::EngineInput(input) => {
                // Sometimes the same message arrives twice.
                if self.rng.percent(3) {
                    self.offer_input(input.clone());
                }
                self.offer_input(input);
            }
            NextStep::CommandResult(command, input) => {
                if self.rng.percent(3) {
                    self.offer_input(input.clone());
                }
                let input = self.mask_input(input);
                self.handle_arrival(Arrival::Answer { subject: command.subject(), input });
            }
            NextStep::Execute(command) => {
                let input = self.execute_command(&command);
                let wait = if self.rng.percent(5) { self.rng.below(20_000) } else { self.rng.below(100) };
                self.schedule_after(Duration::from_millis(wait), NextStep::CommandResult(command, input));
            }
            NextStep::Gate(gate) if self.runner.has_subscription(&gate) => {
                let input = self.execute_command(&gate);
                self.schedule_soon(NextStep::EngineInput(input));
            }
            NextStep::Gate(_) => {}
            NextStep::Observe(task) => {
                if let Some(input) = self.observe_task(task) {
                    // Messages take time, and may be outdated on arrival.
                    let wait = if self.rng.percent(10) { self.rng.below(10_000) } else { self.rng.below(20) };
                    self.schedule_after(Duration::from_millis(wait), NextStep::EngineInput(input));
                }
            }
        }
    }
}
