//! The queue of things that may happen next, and the loop over it.

mod hands;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::{Clock, Faults, SimCluster, SimConfig};
use tidegate_executor::{Summary, effects};
use tidegate_lifecycle::operation::{Command, Driver, Fact, Input, Scope, State, SyncOperation, TaskName};
use tidegate_lifecycle::{Arrival, BatchOf, Outbox, Shell, Turn};
use tidegate_model::{OperationId, OperationPhase, Override, TaskId, Timestamp};
use tidegate_oplog::{AppendOf, Blobs as _, Inventories as _, InventoryChange, Known, MemoryLog};
use uuid::Uuid;

use super::checks;
use super::generate::{Life, life};
use super::rng::Rng;
use crate::process::START;
use crate::recorded::Recorded as _;
use crate::scenario::Sync;

/// More steps than any operation needs: reaching it means that something goes round in circles.
const STEPS_MAX: u64 = 200_000;

const CONTRADICTION: &str = "the machine contradicts itself";

/// The task whose object is to be watched.
fn observed(standing: &Command) -> Option<TaskId> {
    match standing {
        Command::Observe { task } => Some(*task),
        _ => None,
    }
}

/// What a simulated life was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Things that happened.
    pub steps: u64,
    /// Times the engine died.
    pub crashes: u64,
    /// Facts recorded.
    pub facts: u64,
    /// How the operations ended.
    pub ends: Vec<(OperationPhase, String)>,
}

/// Lives one life from a seed. Panics when a rule is broken.
pub fn simulate(seed: u64, trace: bool) -> Report {
    let mut rng = Rng::new(seed);
    let life = life(&mut rng);
    let time = Arc::new(AtomicI64::new(START.as_millis()));
    let probability = f64::from(u32::try_from(life.faults_percent).unwrap()) / 100.0;
    let config = SimConfig::default().with_seed(seed).with_faults(Faults::everything(probability));
    let clock = {
        let time = Arc::clone(&time);
        Clock::wall(move || Timestamp::from_millis(time.load(Ordering::SeqCst)))
    };
    let cluster = SimCluster::in_memory(config, clock);
    let mut report = Report::default();
    // One log for all: what earlier operations left in the inventory is what later ones read.
    let log = MemoryLog::default();
    let outside = Outside { cluster: &cluster, log, time };
    let syncs = life.syncs.clone();
    for (number, sync) in (1_u128..).zip(&syncs) {
        let id = OperationId(Uuid::from_u128(number));
        let mut world = World::new(id, sync, &life, outside.clone(), &mut rng, trace);
        let end = world.run();
        report.steps += world.steps;
        report.crashes += world.crashes;
        report.facts += u64::try_from(world.durable_facts().len()).unwrap();
        report.ends.push(end);
    }
    report
}

/// A thing that may happen.
enum Happening {
    /// Something reaches the engine; lost if the engine died meanwhile.
    Input(Input),
    /// So does the answer to a command.
    Answer(Command, Input),
    /// The batch on its way is durable.
    Persisted,
    /// The time that was asked for has come.
    Alarm,
    /// A command reaches the cluster.
    Execute(Command),
    /// An awaited object is looked at.
    Look(TaskId),
    /// A gate says what it thinks, asked or not.
    Gate(Command),
}

/// What outlives the engine.
#[derive(Clone)]
struct Outside<'a> {
    cluster: &'a SimCluster,
    log: MemoryLog,
    time: Arc<AtomicI64>,
}

struct World<'a> {
    id: OperationId,
    sync: &'a Sync,
    life: &'a Life,
    cluster: &'a SimCluster,
    time: Arc<AtomicI64>,
    rng: &'a mut Rng,
    trace: bool,
    log: MemoryLog,
    targets: tidegate_model::Digest,
    shell: Shell<SyncOperation, Outbox<SyncOperation>>,
    /// The fold over what is durable.
    durable: State,
    /// By time, then by a drawn number.
    queue: BTreeMap<(Timestamp, u64), Happening>,
    recovered: bool,
    mask: effects::Mask,
    /// What the next batch changes in the inventory.
    inventory: Vec<InventoryChange>,
    steps: u64,
    crashes: u64,
}

impl<'a> World<'a> {
    fn new(
        id: OperationId,
        sync: &'a Sync,
        life: &'a Life,
        outside: Outside<'a>,
        rng: &'a mut Rng,
        trace: bool,
    ) -> Self {
        let Outside { cluster, log, time } = outside;
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
            shell: Shell::new(Outbox::default()),
            durable: State::New,
            queue: BTreeMap::new(),
            recovered: false,
            mask: sync.targets().mask(),
            inventory: Vec::new(),
            steps: 0,
            crashes: 0,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.load(Ordering::SeqCst))
    }

    fn after(&mut self, wait: Duration, happening: Happening) {
        let at = self.now() + wait;
        let tie = self.rng.draw();
        self.queue.insert((at, tie), happening);
    }

    fn soon(&mut self, happening: Happening) {
        let wait = Duration::from_millis(self.rng.below(50));
        self.after(wait, happening);
    }

    fn known_places(&self) -> Option<Known> {
        self.log.inventory("simulated", "shop").unwrap()
    }

    fn durable_facts(&self) -> Vec<Fact> {
        self.log.facts(self.id).unwrap_or_default()
    }

    /// Until the operation is over and everything about it is durable.
    fn run(&mut self) -> (OperationPhase, String) {
        self.begin();
        loop {
            let turn = self.go_on();
            let durable = &self.durable;
            assert!(turn != Turn::Stopped, "nobody has asked it to stop");
            if turn == Turn::Over {
                assert_eq!(
                    *durable,
                    checks::fold(&self.durable_facts()),
                    "the log must give back what was appended"
                );
                checks::audit(self.cluster, self.id, durable);
                checks::ending(self.cluster, durable);
                if let Some(known) = self.known_places() {
                    checks::inventory(self.cluster, "shop", &known);
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
                self.crash();
                continue;
            }
            if self.rng.percent(self.life.people_percent) {
                self.person();
            }
            let paused = self.shell.state().header().is_some_and(|header| header.paused.is_some());
            if self.queue.is_empty() && paused {
                // While the operation is paused nothing is owed; a person comes by.
                self.after(
                    Duration::from_secs(60),
                    Happening::Input(Input::Unpause { by: "test".to_owned() }),
                );
            }
            let Some(((at, _), happening)) = self.queue.pop_first() else {
                panic!(
                    "nothing will ever happen again in {}: {}",
                    self.durable.name(),
                    self.durable.message()
                );
            };
            self.time.fetch_max(at.as_millis(), Ordering::SeqCst);
            self.happen(happening);
        }
    }

    fn begin(&mut self) {
        if self.durable == State::New {
            let request = Box::new(self.sync.request.clone());
            self.offer(Input::Request { operation: self.id, request, targets: self.targets, plan: None });
        }
    }

    /// What comes from elsewhere, as it is taken in: without what must not show.
    fn masked(&self, mut input: Input) -> Input {
        input.each_text(&mut |text| self.mask.hide(text));
        if self.trace {
            println!("{} {:24} <- {input:?}", self.now(), self.shell.state().name());
        }
        input
    }

    fn offer(&mut self, input: Input) {
        let (input, now) = (self.masked(input), self.now());
        if input.is_wish() {
            // Nobody minds when it is refused.
            self.shell.wish(&input, (), now).unwrap_or_else(|illegal| panic!("{CONTRADICTION}: {illegal}"));
        } else {
            self.take(Arrival::Input(input));
        }
    }

    fn take(&mut self, arrival: Arrival<SyncOperation, std::convert::Infallible>) {
        let now = self.now();
        self.shell.take(arrival, now).unwrap_or_else(|error| panic!("{CONTRADICTION}: {error}"));
    }

    /// What the actor does after each message.
    fn go_on(&mut self) -> Turn {
        let now = self.now();
        let turn = self.shell.turn(now).unwrap_or_else(|error| panic!("{CONTRADICTION}: {error}"));
        let Outbox { commands, batch, alarm, .. } = std::mem::take(self.shell.hands_mut());
        if let Some(batch) = batch
            && !self.append(batch)
        {
            // The next life begins where this one did.
            return self.go_on();
        }
        for command in commands {
            checks::command_is_owed(&self.durable, self.shell.state(), &command, now);
            self.soon(Happening::Execute(command));
        }
        let observed: Vec<TaskId> = self.shell.standing().filter_map(observed).collect();
        for task in observed {
            let known = self
                .queue
                .values()
                .any(|happening| matches!(happening, Happening::Look(other) if *other == task));
            if !known {
                let wait = Duration::from_millis(self.rng.below(3000));
                self.after(wait, Happening::Look(task));
            }
        }
        let gates = self.shell.standing().filter(|standing| matches!(standing, Command::AskGate { .. }));
        for gate in gates.cloned().collect::<Vec<_>>() {
            let is_it = |happening: &Happening| matches!(happening, Happening::Gate(other) if *other == gate);
            if !self.queue.values().any(is_it) {
                let wait = Duration::from_millis(self.rng.below(5000));
                self.after(wait, Happening::Gate(gate));
            }
        }
        if let Some(Some(wait)) = alarm {
            // It may ring late, and one that was set before rings all the same.
            let late = Duration::from_millis(self.rng.below(200));
            self.after(wait + late, Happening::Alarm);
        }
        turn
    }

    /// Whether the process has survived it.
    fn append(&mut self, batch: BatchOf<SyncOperation>) -> bool {
        let last = batch.last_sequence();
        let inventory = effects::update_inventory(self.shell.state(), &batch.facts, self.inventory.drain(..));
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
        let append = AppendOf::new(self.id, batch.first_sequence, batch.facts, summary.into());
        // Snapshots are drawn, so that recovery from one is tried as well.
        let snapshot = self.rng.percent(10).then(|| self.shell.state().clone());
        let append = AppendOf { snapshot, inventory, ..append };
        // The process may die before the append, or after it and before it knows.
        if self.rng.percent(self.life.crashes_percent) {
            self.crash();
            return false;
        }
        for fact in &append.facts {
            self.durable = checks::step(std::mem::take(&mut self.durable), fact);
        }
        self.log.append(vec![append]).unwrap();
        assert_eq!(last, self.log.load(self.id).unwrap().last_sequence, "sequence numbers have a gap");
        if self.rng.percent(self.life.crashes_percent) {
            self.crash();
            return false;
        }
        self.soon(Happening::Persisted);
        true
    }

    /// The engine dies and begins again from the log. What was on its way to the cluster may still arrive there.
    fn crash(&mut self) {
        self.crashes += 1;
        let lost: Vec<_> = std::mem::take(&mut self.queue).into_iter().collect();
        for ((at, tie), happening) in lost {
            if let Happening::Execute(command) = happening
                && self.rng.percent(50)
            {
                // The process died just after the call went out; nobody will hear the answer.
                let _ = (at, tie);
                self.execute(&command);
            }
        }
        self.inventory.clear();
        self.recovered = true;
        let driver = match self.log.load(self.id) {
            Err(_) => Driver::default(),
            Ok(loaded) => {
                let driver = Driver::recover(loaded.snapshot, loaded.facts)
                    .unwrap_or_else(|illegal| panic!("recovery failed: {illegal}"));
                assert_eq!(
                    *driver.state(),
                    self.durable,
                    "a snapshot and the facts after it differ from all facts"
                );
                driver
            }
        };
        self.shell = Shell::recovered(driver, Outbox::default());
        if self.trace {
            println!("{} crash; recovered in {}", self.now(), self.shell.state().name());
        }
        let wait = Duration::from_millis(self.rng.below(2000));
        self.time.fetch_add(i64::try_from(wait.as_millis()).unwrap(), Ordering::SeqCst);
        self.begin();
        self.offer(Input::Resumed);
    }

    /// Somebody decides about a task.
    fn decision(&mut self, by: String) -> Input {
        let tasks = self.shell.state().operation().map_or(&[][..], |operation| &operation.plan.tasks);
        let place = usize::try_from(self.rng.below(tasks.len().max(1) as u64)).unwrap_or_default();
        let Some(task) = tasks.get(place) else { return Input::Unpause { by } };
        let name = TaskName {
            kind: task.gvk.kind.clone(),
            group: Some(task.gvk.group.clone()),
            name: task.name.clone(),
            namespace: Some(task.namespace.clone()),
            phase: Some(task.phase),
        };
        let what = if self.rng.percent(50) { Override::Skip } else { Override::MarkDone };
        Input::Override { what, scope: Scope::Task(name), by, reason: "it is in the way".to_owned() }
    }

    fn person(&mut self) {
        let by = "test".to_owned();
        let input = match self.rng.below(16) {
            10.. => self.decision(by),
            0 => Input::Terminate { by },
            1..=3 => Input::Pause { by, reason: String::new() },
            4..=7 => Input::Unpause { by },
            _ => Input::ConfirmPrune { by },
        };
        if matches!(input, Input::Pause { .. }) {
            // Somebody lets it go on again.
            let wait = Duration::from_secs(self.rng.below(600));
            self.after(wait, Happening::Input(Input::Unpause { by: "test".to_owned() }));
        }
        self.offer(input);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Persisted => self.take(Arrival::Persisted),
            Happening::Alarm => self.take(Arrival::Alarm),
            Happening::Input(input) => {
                // Now and then the same news comes twice.
                if self.rng.percent(3) {
                    self.offer(input.clone());
                }
                self.offer(input);
            }
            Happening::Answer(command, input) => {
                if self.rng.percent(3) {
                    self.offer(input.clone());
                }
                let input = self.masked(input);
                self.take(Arrival::Answer { about: command.subject(), input });
            }
            Happening::Execute(command) => {
                let input = self.execute(&command);
                let wait = if self.rng.percent(5) { self.rng.below(20_000) } else { self.rng.below(100) };
                self.after(Duration::from_millis(wait), Happening::Answer(command, input));
            }
            Happening::Gate(gate) if self.shell.keeps_up(&gate) => {
                let input = self.execute(&gate);
                self.soon(Happening::Input(input));
            }
            Happening::Gate(_) => {}
            Happening::Look(task) => {
                if let Some(input) = self.look(task) {
                    // News travels; meanwhile it gets old.
                    let wait = if self.rng.percent(10) { self.rng.below(10_000) } else { self.rng.below(20) };
                    self.after(Duration::from_millis(wait), Happening::Input(input));
                }
            }
        }
    }
}
