//! A world around one rollout on virtual time: an engine with its operations, Applications, gates and people. Calm, it
//! answers at once; otherwise answers are late, repeated or lost, sights are old, and the process dies now and then.
//!
//! The operations and Applications are the witness: what must hold is asked of them and not of the machine.

mod check;
mod engine;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use tidegate_lifecycle::rollout::{
    Command, Fact, Input, MemberSpec, Progressive, Request, Rollout, Sight, State, Wish, Work, explain, view,
};
use tidegate_lifecycle::{Arrival, Driver, Machine, Outbox, Shell, Turn};
use tidegate_model::{HealthStatus, OperationId, OperationPhase};

use crate::build::*;
use crate::dice::Dice;
use crate::weather::Weather;

/// An operation that the engine knows.
#[derive(Clone, Debug)]
pub struct Operation {
    pub member: String,
    pub work: Work,
    pub begun: bool,
    pub over: Option<OperationPhase>,
}

/// What will happen to an Application.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// A sync window keeps its operations until then.
    pub window_until: i64,
    /// How long an operation takes; `None`: for ever.
    pub takes: Option<i64>,
    /// So many of its operations fail first.
    pub failures: u32,
    /// So long after its operation it becomes Healthy; `None`: never.
    pub healthy_after: Option<i64>,
    /// So many of its operations are refused by the engine for a moment.
    pub busy: u32,
}

/// An Application as it is.
#[derive(Clone, Debug)]
pub struct App {
    pub sight: Sight,
    /// It was Healthy at its target, after an operation of after the beginning.
    pub proven: bool,
    /// What it looked like before: sights may be old.
    pub past: Vec<Sight>,
}

#[derive(Clone, Debug)]
pub enum Event {
    Input(Input),
    Reached(Command),
    /// The engine takes an operation up.
    Begin(OperationId),
    /// It is over.
    End(OperationId),
    /// An Application becomes Healthy, if this was its last operation.
    Heal(OperationId),
    Open {
        step: u32,
        gate: String,
    },
    Persisted,
    Alarm(u32),
}

const EVENTS_MAX: u32 = 40_000;

pub struct World {
    pub request: Request,
    pub shell: Shell<Progressive, Outbox<Progressive>>,
    pub now: i64,
    pub operations: BTreeMap<OperationId, Operation>,
    /// Ids that were stopped before anything of them had begun.
    pub withdrawn: BTreeSet<OperationId>,
    pub apps: BTreeMap<String, App>,
    pub fates: BTreeMap<String, Fate>,
    /// When each gate opens.
    pub gates: BTreeMap<String, i64>,
    pub durable: Vec<Fact>,
    /// What happened, one line each.
    pub transcript: Vec<String>,
    pub weather: Weather,
    /// So long a batch is on its way to the disk, at least.
    pub writes_take: i64,
    /// The process dies before this event, counted from 1.
    pub crash_before: Option<u32>,
    pub happened: u32,
    dice: Dice,
    queue: BTreeMap<(i64, u32), Event>,
    /// When the last news of each thing comes.
    delivered: BTreeMap<<Progressive as Machine>::Sight, i64>,
    scheduled: u32,
    alarms: u32,
    next_id: u128,
    deaths: u32,
}

impl World {
    pub fn new(request: Request) -> Self {
        let app = |member: &MemberSpec| App {
            sight: sight(1, if member.done_by.is_some() { "new" } else { "old" }, HealthStatus::Healthy),
            proven: member.done_by.is_some(),
            past: Vec::new(),
        };
        let fate = Fate { takes: Some(1_000), healthy_after: Some(1_000), ..Fate::default() };
        let mut world = Self {
            apps: request.members.iter().map(|member| (member.name.clone(), app(member))).collect(),
            fates: request.members.iter().map(|member| (member.name.clone(), fate.clone())).collect(),
            shell: Shell::new(Outbox::default()),
            now: 0,
            operations: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            gates: BTreeMap::new(),
            durable: Vec::new(),
            transcript: Vec::new(),
            weather: Weather::default(),
            writes_take: 0,
            crash_before: None,
            happened: 0,
            dice: Dice(0),
            queue: BTreeMap::new(),
            delivered: BTreeMap::new(),
            scheduled: 0,
            alarms: 0,
            next_id: 100,
            deaths: 0,
            request: request.clone(),
        };
        world.at(0, Input::Begin(Box::new(request)));
        world
    }

    pub fn rough(mut self, weather: Weather) -> Self {
        self.dice = Dice(weather.seed);
        self.weather = weather;
        self
    }

    pub fn fate(&mut self, member: &str) -> &mut Fate {
        self.fates.get_mut(member).unwrap()
    }

    /// Something reaches the machine at a time.
    pub fn at(&mut self, millis: i64, input: Input) {
        self.schedule(millis, Event::Input(input));
    }

    /// A person asks for something.
    pub fn wish(&mut self, millis: i64, wish: Wish) {
        self.at(millis, Input::Wish { wish, by: "ann".into(), why: "because".into() });
    }

    fn schedule(&mut self, millis: i64, event: Event) {
        self.scheduled += 1;
        self.queue.insert((millis.max(self.now), self.scheduled), event);
    }

    pub fn rollout(&self) -> &Rollout {
        self.shell.state().rollout().unwrap()
    }

    pub fn state(&self) -> &State {
        self.shell.state()
    }

    pub fn explain(&self) -> String {
        explain(self.state(), at(self.now)).to_string()
    }

    pub fn message(&self) -> String {
        view(self.state()).unwrap().message
    }

    fn delay(&mut self) -> i64 {
        match self.weather.slow {
            0 => 0,
            slow => i64::try_from(self.dice.below(slow)).unwrap(),
        }
    }

    /// Runs until it is over, or nothing more will ever happen, or until a time.
    pub fn run_until(&mut self, millis: i64) -> &mut Self {
        for _ in 0..EVENTS_MAX {
            if self.settle() == Turn::Over {
                return self;
            }
            let next = self.queue.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = next.filter(|next| *next <= millis) else {
                self.now = self.now.max(if millis == i64::MAX { self.now } else { millis });
                return self;
            };
            let (_, event) = self.queue.pop_first().unwrap();
            self.now = next;
            self.happened += 1;
            let dies = self.crash_before == Some(self.happened)
                || self.weather.crashes > 0 && self.deaths < 5 && self.dice.percent(self.weather.crashes);
            if dies {
                self.deaths += 1;
                self.crash();
            }
            self.happen(event);
        }
        panic!("it goes round in circles: {}", self.explain());
    }

    pub fn run(&mut self) -> &mut Self {
        self.run_until(i64::MAX)
    }

    /// What was not durable never happened; what was on its way to the world may still arrive.
    fn crash(&mut self) {
        if self.durable.is_empty() {
            return;
        }
        self.transcript.push(format!("{} dies", self.now));
        let driver = Driver::<Progressive>::recover(None, self.durable.clone()).unwrap();
        self.shell = Shell::recovered(driver, Outbox::default());
        self.queue
            .retain(|_, event| !matches!(event, Event::Persisted | Event::Alarm(_) | Event::Reached(_)));
        // Operations go on with the next process, but for those that had not begun.
        let lost: Vec<OperationId> =
            self.operations.iter().filter(|(_, operation)| !operation.begun).map(|(id, _)| *id).collect();
        for id in lost {
            self.operations.remove(&id);
        }
        self.at(self.now, Input::Recovered);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Input(input) => self.offer(&input),
            Event::Reached(command) => self.reach(command),
            Event::Begin(id) => self.begin(id),
            Event::End(id) => self.end(id),
            Event::Heal(id) => self.heal(id),
            Event::Open { step, gate } => self.open(step, gate),
            Event::Persisted => self.take(Arrival::Persisted),
            Event::Alarm(set) if set == self.alarms => self.take(Arrival::Alarm),
            Event::Alarm(_) => {}
        }
    }

    fn take(&mut self, arrival: Arrival<Progressive, Infallible>) {
        self.shell.take(arrival, at(self.now)).expect("only wishes are refused");
    }

    fn offer(&mut self, input: &Input) {
        match input {
            Input::Wish { .. } => {
                self.shell.wish(input, (), at(self.now)).expect("the machine's own facts fit");
            }
            // A process that is new has not heard of a rollout that another one had begun.
            Input::Begin(_) if *self.state() != State::New => {}
            Input::Gone { member } => {
                self.apps.remove(member);
                self.take(Arrival::Input(input.clone()));
            }
            Input::Joined { member } => {
                let app = App {
                    sight: Sight { operation: None, deployed: None, ..sight(1, "", HealthStatus::Missing) },
                    proven: false,
                    past: Vec::new(),
                };
                self.apps.entry(member.name.clone()).or_insert(app);
                let fate = Fate { takes: Some(500), healthy_after: Some(500), ..Fate::default() };
                self.fates.entry(member.name.clone()).or_insert(fate);
                self.take(Arrival::Input(input.clone()));
            }
            _ => self.take(Arrival::Input(input.clone())),
        }
    }

    /// An answer, perhaps late, perhaps twice.
    fn tell(&mut self, input: Input) {
        let at = self.now + self.delay();
        let again = self.dice.percent(self.weather.twice).then(|| at + self.delay());
        for at in [Some(at), again].into_iter().flatten() {
            self.deliver(at, input.clone());
        }
    }

    /// However late it comes, news of one thing comes in the order in which it was sent.
    fn deliver(&mut self, millis: i64, input: Input) {
        let mut at = millis;
        if let Some(of) = Progressive::sight(&input) {
            let last = self.delivered.entry(of).or_default();
            at = at.max(*last);
            *last = at;
        }
        self.at(at, input);
    }

    fn settle(&mut self) -> Turn {
        loop {
            let before = self.state().name();
            let turn = self.shell.turn(at(self.now)).expect("the machine's own facts fit");
            if self.state().name() != before {
                self.transcript.push(format!("{} {}", self.now, self.state().name()));
            }
            let Outbox { commands, begun, ended, batch, alarm, .. } = std::mem::take(self.shell.hands_mut());
            for command in &ended {
                self.let_go(command);
            }
            if let Some(alarm) = alarm {
                self.alarms += 1;
                if let Some(after) = alarm {
                    assert!(!after.is_zero(), "woken up at {}, which is now", self.now);
                    let after = i64::try_from(after.as_millis()).unwrap();
                    self.schedule(self.now.saturating_add(after), Event::Alarm(self.alarms));
                }
            }
            for command in commands.into_iter().chain(begun) {
                let delay = self.delay();
                self.schedule(self.now + delay, Event::Reached(command));
            }
            self.check();
            let Some(batch) = batch else { return turn };
            assert_eq!(batch.first_sequence, u64::try_from(self.durable.len()).unwrap() + 1);
            self.durable.extend(batch.facts);
            if self.weather.slow > 0 || self.writes_take > 0 {
                let delay = self.writes_take + self.delay();
                self.schedule(self.now + delay, Event::Persisted);
                return turn;
            }
            self.take(Arrival::Persisted);
        }
    }
}
