//! The queue of things that may happen next, and the loop over it.

mod hands;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidegate_cluster::sim::{Clock, Faults, SimCluster, SimConfig};
use tidegate_executor::effects;
use tidegate_lifecycle::operation::{Command, Fact, Input, State};
use tidegate_lifecycle::{Batch, Driver};
use tidegate_model::{OperationId, OperationPhase, TaskId, Timestamp};
use tidegate_oplog::{Append, InventoryChange, Known, MemoryLog, OperationLog as _, Summary};
use uuid::Uuid;

use super::checks;
use super::generate::{Life, life};
use super::rng::Rng;
use crate::process::START;
use crate::scenario::Sync;

/// More steps than any operation needs: reaching it means that something goes round in circles.
const STEPS_MAX: u64 = 200_000;

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
    Input(Input, Option<Subject>),
    /// The batch on its way is durable.
    Persisted,
    /// A command reaches the cluster.
    Execute(Subject, Command),
    /// An awaited object is looked at.
    Look(TaskId),
}

/// What a command is about; one is on its way per subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Plan,
    Task(TaskId),
    Gate(String),
}

/// What outlives the engine.
#[derive(Clone)]
struct Outside<'a> {
    cluster: &'a SimCluster,
    log: MemoryLog<Fact, State>,
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
    log: MemoryLog<Fact, State>,
    targets: tidegate_model::Digest,
    driver: Driver,
    /// The fold over what is durable.
    durable: State,
    /// By time, then by a drawn number.
    queue: BTreeMap<(Timestamp, u64), Happening>,
    on_the_way: BTreeSet<Subject>,
    observed: BTreeSet<TaskId>,
    recovered: bool,
    mask: effects::Mask,
    /// What the next batch changes in the inventory.
    inventory: Vec<InventoryChange>,
    wake: Option<Timestamp>,
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
            driver: Driver::default(),
            durable: State::New,
            queue: BTreeMap::new(),
            on_the_way: BTreeSet::new(),
            observed: BTreeSet::new(),
            recovered: false,
            mask: sync.targets().mask(),
            inventory: Vec::new(),
            wake: None,
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
            self.go_on();
            let durable = &self.durable;
            if durable.is_finished() {
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
            let paused = self.driver.state().header().is_some_and(|header| header.paused.is_some());
            if self.queue.is_empty() && paused {
                // While the operation is paused nothing is owed; a person comes by.
                self.after(
                    Duration::from_secs(60),
                    Happening::Input(Input::Unpause { by: "test".to_owned() }, None),
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
            let input = Input::Request { operation: self.id, request, targets: self.targets };
            self.offer(&input);
        }
    }

    fn offer(&mut self, input: &Input) {
        let now = self.now();
        let mut input = input.clone();
        input.each_text(&mut |text| self.mask.hide(text));
        let input = &input;
        if self.trace {
            println!("{now} {:24} <- {input:?}", self.driver.state().name());
        }
        match self.driver.offer(input, now) {
            Ok(()) | Err(tidegate_lifecycle::DriverError::Rejected(_)) => {}
            Err(error) => panic!("the machine contradicts itself: {error}"),
        }
    }

    /// What the actor does after each message.
    fn go_on(&mut self) {
        let now = self.now();
        self.driver.advance(now).unwrap_or_else(|error| panic!("the machine contradicts itself: {error}"));
        let flush = self.driver.state().is_finished();
        if let Some(batch) = self.driver.take_batch(now, flush)
            && !self.append(batch)
        {
            // The next life begins where this one did.
            return self.go_on();
        }
        let commands = self.driver.commands(now);
        self.observed.clear();
        self.wake = None;
        for command in commands {
            let subject = match &command {
                Command::WakeAt(at) => {
                    self.wake = self.wake.into_iter().chain([*at]).min();
                    continue;
                }
                Command::Observe { task } => {
                    self.observed.insert(*task);
                    continue;
                }
                Command::Plan => Subject::Plan,
                Command::Claim => unreachable!("no request of a life asks for a claim"),
                Command::Task { task, .. } => Subject::Task(*task),
                Command::AskGate { gate, .. } => Subject::Gate(gate.clone()),
            };
            if self.on_the_way.insert(subject.clone()) {
                checks::command_is_owed(&self.durable, self.driver.state(), &command, now);
                self.soon(Happening::Execute(subject, command));
            }
        }
        for task in self.observed.clone() {
            let known = self
                .queue
                .values()
                .any(|happening| matches!(happening, Happening::Look(other) if *other == task));
            if !known {
                let wait = Duration::from_millis(self.rng.below(3000));
                self.after(wait, Happening::Look(task));
            }
        }
        if let Some(at) = self.wake {
            let wait = at.since(now) + Duration::from_millis(self.rng.below(200));
            let known = self.queue.iter().any(|((due, _), happening)| {
                matches!(happening, Happening::Input(Input::Tick, _)) && *due <= now + wait
            });
            if !known {
                self.after(wait, Happening::Input(Input::Tick, None));
            }
        }
    }

    /// Whether the process has survived it.
    fn append(&mut self, batch: Batch) -> bool {
        let last = batch.last_sequence();
        let inventory =
            effects::update_inventory(self.driver.state(), &batch.facts, self.inventory.drain(..));
        let append = Append {
            operation: self.id,
            first_sequence: batch.first_sequence,
            facts: batch.facts,
            // Snapshots are drawn, so that recovery from one is tried as well.
            snapshot: self.rng.percent(10).then(|| self.driver.state().clone()),
            summary: Summary {
                operation: self.id,
                application: "shop".into(),
                destination: String::new(),
                phase: OperationPhase::Running,
                paused: false,
                message: String::new(),
                started_at: START,
                finished_at: None,
                waves: (0, 0),
            },
            blobs: Vec::new(),
            inventory,
        };
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
            if let Happening::Execute(_, command) = happening
                && self.rng.percent(50)
            {
                // The process died just after the call went out; nobody will hear the answer.
                let _ = (at, tie);
                self.execute(&command);
            }
        }
        self.on_the_way.clear();
        self.inventory.clear();
        self.recovered = true;
        self.driver = match self.log.load(self.id) {
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
        if self.trace {
            println!("{} crash; recovered in {}", self.now(), self.driver.state().name());
        }
        let wait = Duration::from_millis(self.rng.below(2000));
        self.time.fetch_add(i64::try_from(wait.as_millis()).unwrap(), Ordering::SeqCst);
        self.begin();
    }

    fn person(&mut self) {
        let by = "test".to_owned();
        let input = match self.rng.below(10) {
            0 => Input::Terminate { by },
            1..=3 => Input::Pause { by, reason: String::new() },
            4..=7 => Input::Unpause { by },
            _ => Input::ConfirmPrune { by },
        };
        if matches!(input, Input::Pause { .. }) {
            // Somebody lets it go on again.
            let wait = Duration::from_secs(self.rng.below(600));
            self.after(wait, Happening::Input(Input::Unpause { by: "test".to_owned() }, None));
        }
        self.offer(&input);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Persisted => self.driver.persisted(),
            Happening::Input(input, subject) => {
                if let Some(subject) = subject {
                    self.on_the_way.remove(&subject);
                }
                self.offer(&input);
                // Now and then the same news comes twice.
                if self.rng.percent(3) && !matches!(input, Input::Tick) {
                    self.offer(&input);
                }
            }
            Happening::Execute(subject, command) => {
                let input = self.execute(&command);
                let wait = if self.rng.percent(5) { self.rng.below(20_000) } else { self.rng.below(100) };
                self.after(Duration::from_millis(wait), Happening::Input(input, Some(subject)));
            }
            Happening::Look(task) => {
                if let Some(input) = self.look(task) {
                    // News travels; meanwhile it gets old.
                    let wait = if self.rng.percent(10) { self.rng.below(10_000) } else { self.rng.below(20) };
                    self.after(Duration::from_millis(wait), Happening::Input(input, None));
                }
            }
        }
    }
}
