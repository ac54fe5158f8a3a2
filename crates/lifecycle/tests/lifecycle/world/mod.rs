//! A world around one driver: a cluster, gates and people on virtual time. Calm, it answers at once and writes down what
//! happens; otherwise answers are late, repeated or lost, sights are old, and the engine dies now and then.

mod cluster;
mod fate;
mod listener;
mod rough;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_lifecycle::operation::{
    Command, Driver, Fact, Identity, Input, NamespaceSight, Operation, SyncOperation, TaskCommand, Verdict,
};
use tidegate_lifecycle::{Arrival, Outbox, Shell};
use tidegate_model::{Observation, Plan, SyncRequest, Task, TaskId};

pub use cluster::{Change, Cluster, Write};
pub use fate::{Dice, Fate, Proof, Reply, Weather, seen};

use crate::build::{DIGEST, at, id};

/// What will happen.
#[derive(Clone, Debug)]
pub enum Event {
    Input(Input),
    /// A command reaches the cluster.
    Reached(Command),
    /// Its answer reaches the machine.
    Answered(Command, Input),
    /// Somebody looks at an awaited object.
    Look(TaskId),
    /// A gate says what it thinks.
    Gate(Command),
    Persisted,
    /// The alarm rings that was set so many times before.
    Alarm(u32),
}

/// After so many events an operation that has not ended never will.
const EVENTS_MAX: u32 = 30_000;

pub struct World {
    pub plan: Plan,
    pub shell: Shell<SyncOperation, Outbox<SyncOperation>>,
    pub now: i64,
    pub cluster: Cluster,
    /// When namespaces begin to go.
    pub going: BTreeMap<String, i64>,
    /// When namespaces have gone.
    pub gone: BTreeMap<String, i64>,
    /// When somebody makes namespaces again.
    pub made_again: BTreeMap<String, i64>,
    /// Whether it was recorded which namespaces there are.
    pub knows_namespaces: bool,
    /// Whether their going is told when it begins; otherwise it is found by looking.
    pub tells_of_going: bool,
    /// What each gate will answer; open when there is nothing left.
    pub gates: BTreeMap<String, VecDeque<Verdict>>,
    /// What the log holds.
    pub durable: Vec<Fact>,
    /// What happened, one line each.
    pub transcript: Vec<String>,
    pub weather: Weather,
    /// The engine dies before this event, counted from 1; `None` once it did.
    pub crash_before: Option<u32>,
    /// How often the log was written.
    pub writes: u32,
    happened: u32,
    offered: Vec<Input>,
    plan_replies: VecDeque<Reply>,
    queue: BTreeMap<(i64, u32), Event>,
    scheduled: u32,
    alarms: u32,
    message: String,
    pub listener: listener::Listener,
}

impl World {
    pub fn new(plan: Plan, request: SyncRequest) -> Self {
        let mut cluster = Cluster::default();
        cluster.begin(plan.enumerate().map(|(id, task)| (id, task.clone())));
        let mut world = Self {
            plan,
            shell: Shell::new(Outbox::default()),
            now: 0,
            cluster,
            going: BTreeMap::new(),
            gone: BTreeMap::new(),
            made_again: BTreeMap::new(),
            knows_namespaces: true,
            tells_of_going: true,
            gates: BTreeMap::new(),
            durable: Vec::new(),
            transcript: Vec::new(),
            weather: Weather::calm(),
            crash_before: None,
            writes: 0,
            happened: 0,
            offered: Vec::new(),
            plan_replies: VecDeque::new(),
            queue: BTreeMap::new(),
            scheduled: 0,
            alarms: 0,
            message: String::new(),
            listener: listener::Listener::default(),
        };
        world.at(
            0,
            Input::Request { operation: id(), request: Box::new(request), targets: DIGEST, plan: None },
        );
        world
    }

    /// Something reaches the machine at a time.
    pub fn at(&mut self, millis: i64, input: Input) {
        self.schedule(millis, Event::Input(input));
    }

    fn schedule(&mut self, millis: i64, event: Event) {
        self.scheduled += 1;
        self.queue.insert((millis.max(self.now), self.scheduled), event);
    }

    /// Changes what will happen to an object.
    pub fn fate(&mut self, object: &str, change: impl FnOnce(&mut Fate)) {
        let id = self.find(object);
        change(self.cluster.fates.get_mut(&id).unwrap());
    }

    pub fn planning(&mut self, replies: impl IntoIterator<Item = Reply>) {
        self.plan_replies.extend(replies);
    }

    pub fn find(&self, object: &str) -> TaskId {
        self.plan.enumerate().find(|(_, task)| label(task) == object).map(|(id, _)| id).unwrap()
    }

    pub fn driver(&self) -> &Driver {
        self.shell.driver()
    }

    pub fn operation(&self) -> &Operation {
        self.shell.state().operation().unwrap()
    }

    fn say(&mut self, line: String) {
        self.transcript.push(line);
    }

    /// Runs until the operation is over, or until nothing would ever happen.
    pub fn run(&mut self) -> &mut Self {
        self.run_until(i64::MAX)
    }

    /// Runs everything that happens up to a time.
    pub fn run_until(&mut self, millis: i64) -> &mut Self {
        for _ in 0..EVENTS_MAX {
            self.settle();
            let next = self.queue.first_key_value().map(|((at, _), _)| *at);
            if self.shell.state().is_finished() && self.durable_is_complete() {
                self.note_message();
                return self;
            }
            if next.is_none_or(|next| next > self.now) {
                self.note_message();
            }
            let Some(next) = next.filter(|next| *next <= millis) else { return self };
            let Some((_, event)) = self.queue.pop_first() else { return self };
            self.now = next;
            self.happened += 1;
            if self.crash_before == Some(self.happened) {
                self.crash_before = None;
                // Whether the event reaches the machine or not is up to its kind.
                self.schedule(self.now, event);
                self.crash();
                continue;
            }
            self.happen(event);
            self.misfortune();
        }
        panic!("the operation goes round in circles: {:#?}", self.shell.state().name());
    }

    fn durable_is_complete(&self) -> bool {
        u64::try_from(self.durable.len()).unwrap() == self.driver().sequence()
    }

    fn note_message(&mut self) {
        let message = self.shell.state().message();
        if message != self.message {
            self.say(format!("# {message}"));
            self.message = message;
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Input(input) => self.offer(input),
            Event::Reached(command) => self.reach(command),
            Event::Answered(command, input) => {
                self.offered.push(input.clone());
                self.take(Arrival::Answer { about: command.subject(), input });
            }
            Event::Look(task) => self.look(task),
            Event::Gate(ask) => self.ask(&ask),
            Event::Persisted => self.take(Arrival::Persisted),
            Event::Alarm(set) if set == self.alarms => self.take(Arrival::Alarm),
            Event::Alarm(_) => {}
        }
    }

    fn take(&mut self, arrival: Arrival<SyncOperation, std::convert::Infallible>) {
        if matches!(arrival, Arrival::Persisted) {
            self.listener.persisted();
        }
        self.shell.take(arrival, at(self.now)).expect("only wishes are refused");
    }

    /// People's wishes may be refused; nothing else may go wrong.
    fn offer(&mut self, input: Input) {
        self.offered.push(input.clone());
        if !input.is_wish() {
            return self.take(Arrival::Input(input));
        }
        self.shell.wish(&input, (), at(self.now)).expect("the machine's own facts fit");
        for refused in std::mem::take(&mut self.shell.hands_mut().answers).into_iter().filter_map(Result::err)
        {
            self.say(format!("! {refused}"));
        }
    }

    /// Takes all arrows, writes the log, and sends commands out.
    fn settle(&mut self) {
        loop {
            let stage = self.shell.state().name();
            let turn = self.shell.turn(at(self.now)).expect("the machine's own facts fit");
            // A look at namespaces comes with every end and is not worth a line.
            if self.shell.state().name() != stage && !self.shell.state().name().ends_with("Verifying") {
                self.say(format!("@ {} {}", self.now, self.shell.state().name()));
            }
            self.shell.hands_mut().answers.clear();
            let batch = self.shell.hands_mut().batch.take();
            if let Some(batch) = &batch {
                self.check_batch(batch);
            }
            self.check(turn);
            self.dispatch();
            let Some(batch) = batch else { return };
            self.writes += 1;
            self.listener.written(&batch.facts);
            self.durable.extend(batch.facts);
            if self.weather.slow > 0 {
                let delay = self.delay();
                return self.schedule(self.now + delay, Event::Persisted);
            }
            self.take(Arrival::Persisted);
        }
    }

    fn dispatch(&mut self) {
        let Outbox { commands, begun, alarm, .. } = std::mem::take(self.shell.hands_mut());
        if let Some(alarm) = alarm {
            self.alarms += 1;
            if let Some(after) = alarm {
                assert!(!after.is_zero(), "woken up at {}, which is now", self.now);
                let after = i64::try_from(after.as_millis()).unwrap();
                self.schedule(self.now.saturating_add(after), Event::Alarm(self.alarms));
            }
        }
        for command in commands {
            self.check_command(&command);
            self.note_command(&command);
            let delay = self.delay();
            self.schedule(self.now + delay, Event::Reached(command));
        }
        for begun in begun {
            self.note_command(&begun);
            match begun {
                Command::AskGate { .. } => {
                    let delay = self.delay();
                    self.schedule(self.now + delay, Event::Gate(begun));
                }
                Command::Observe { task } => self.schedule(self.now, Event::Look(task)),
                Command::WatchNamespaces if self.tells_of_going => {
                    for (name, millis) in self.going.clone().into_iter().chain(self.made_again.clone()) {
                        let sight = self.namespace(&name, millis);
                        self.at(millis.max(self.now), Input::NamespaceSeen(sight));
                    }
                }
                _ => {}
            }
        }
    }

    fn note_command(&mut self, command: &Command) {
        let line = match command {
            Command::Plan => "plan".to_owned(),
            Command::AskGate { gate, .. } => format!("ask {gate}"),
            Command::Task { task, what, .. } => {
                format!("{} {}", verb(what), label(self.plan.task(*task).unwrap()))
            }
            Command::LookAtNamespaces
            | Command::WatchNamespaces
            | Command::Observe { .. }
            | Command::Claim => return,
        };
        self.say(line);
    }

    fn reach(&mut self, command: Command) {
        let input = self.answer(&command);
        if self.weather.dice.percent(self.weather.twice) {
            let _ = self.answer(&command);
        }
        let delay = self.delay();
        self.schedule(self.now + delay, Event::Answered(command, input));
    }

    fn answer(&mut self, command: &Command) -> Input {
        match command {
            Command::Plan => match self.plan_replies.pop_front().unwrap_or(Reply::Fine).into_result(()) {
                Ok(()) => Input::Planned {
                    plan: Arc::new(self.plan.clone()),
                    bundle: DIGEST,
                    namespaces: if self.knows_namespaces {
                        self.namespaces(self.now - 1)
                    } else {
                        Vec::new()
                    },
                },
                Err(error) => Input::PlanFailed(error),
            },
            Command::Task { task, attempt, what } => {
                let planned = self.plan.task(*task).unwrap();
                let state = self.shell.state().operation().and_then(|operation| operation.task(*task));
                let leftover = state.and_then(|(_, state)| state.leftover.as_deref());
                self.cluster.leave_behind(*task, leftover);
                let answer = self.cluster.carry_out(*task, planned, *attempt, what, self.now);
                Input::Answer { task: *task, attempt: *attempt, answer }
            }
            Command::LookAtNamespaces => Input::NamespacesSeen { namespaces: self.namespaces(self.now) },
            Command::Observe { .. } | Command::WatchNamespaces | Command::Claim | Command::AskGate { .. } => {
                unreachable!("these have no answer")
            }
        }
    }

    fn namespaces(&self, millis: i64) -> Vec<NamespaceSight> {
        let names: BTreeSet<&String> =
            self.going.keys().chain(self.gone.keys()).chain(self.made_again.keys()).collect();
        names.into_iter().map(|name| self.namespace(name, millis)).collect()
    }

    /// What stands in the place of a namespace at a time.
    fn namespace(&self, name: &str, millis: i64) -> NamespaceSight {
        let since = |changes: &BTreeMap<String, i64>| changes.get(name).is_some_and(|at| *at <= millis);
        let is_new = since(&self.made_again);
        let which = |uid: &str| Identity { uid: uid.into(), resource_version: uid.into() };
        NamespaceSight {
            name: name.into(),
            found: if is_new { Some(which("2")) } else { (!since(&self.gone)).then(|| which("1")) },
            terminating: since(&self.going) && !is_new && !since(&self.gone),
        }
    }

    /// A gate says what it thinks; one that is closed says so again after the time it gave, or what has changed.
    fn ask(&mut self, ask: &Command) {
        let Command::AskGate { wave, gate } = ask else { return };
        if !self.shell.keeps_up(ask) {
            return;
        }
        let verdict = self.gates.get_mut(gate).and_then(VecDeque::pop_front).unwrap_or(Verdict::Open);
        if let Verdict::Closed { ask_again_after, .. } = &verdict {
            let after = i64::try_from(ask_again_after.as_millis()).unwrap();
            self.schedule(self.now + after.max(1000), Event::Gate(ask.clone()));
        }
        let delay = self.delay();
        let input = Input::Gate { wave: *wave, gate: gate.clone(), verdict };
        self.schedule(self.now + delay, Event::Input(input));
    }

    /// A look at an awaited object, and the next one when it will have changed.
    fn look(&mut self, task: TaskId) {
        if !self.shell.keeps_up(&Command::Observe { task }) {
            return;
        }
        let began = self.now;
        let mut sight = self.cluster.look(task, self.now);
        if self.weather.dice.percent(self.weather.blurred) {
            sight = self.blur(task, sight);
        }
        if !self.weather.dice.percent(self.weather.blurred) {
            let delay = self.delay();
            let observation = Observation { at: at(began), seen: sight };
            self.schedule(self.now + delay, Event::Input(Input::Observed { task, observation }));
        }
        let next = self.next_change(task).unwrap_or(self.now + 15_000).min(self.now + 15_000);
        self.schedule(next, Event::Look(task));
    }

    fn next_change(&self, task: TaskId) -> Option<i64> {
        let object = self.cluster.objects.get(&task)?;
        let fate = &self.cluster.fates[&task];
        let health = fate.health.iter().map(|(after, _)| *after).chain(fate.vanishes).chain([5]);
        health
            .map(|after| object.written_at.saturating_add(after))
            .chain(object.goes_at)
            .chain(object.rival_until)
            .filter(|moment| *moment > self.now)
            .min()
    }

    /// All that reached the machine, in order.
    pub fn inputs(&self) -> Vec<Input> {
        self.offered.clone()
    }

    /// The results, one line each.
    pub fn results(&self) -> Vec<String> {
        let view = tidegate_lifecycle::operation::view(self.shell.state()).unwrap();
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

pub fn verb(command: &TaskCommand) -> &'static str {
    match command {
        TaskCommand::Check => "check",
        TaskCommand::Prune { .. } => "prune",
        TaskCommand::ClearHook => "clear",
        TaskCommand::Apply => "apply",
        TaskCommand::RunHook { .. } => "run",
        TaskCommand::ReleaseHook { .. } => "release",
        TaskCommand::DeleteHook { .. } => "delete",
        TaskCommand::StopHook => "stop",
        TaskCommand::ReadLogs => "logs",
    }
}

pub fn label(task: &Task) -> String {
    format!("{}/{}", task.gvk.kind, task.name)
}
