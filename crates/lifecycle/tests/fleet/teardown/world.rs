//! An API server with the Applications of a set, on virtual time. It is the witness: what must hold is asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use tidegate_lifecycle::teardown::{
    Command, Fact, Found, Input, MemberSpec, OrderedDeletion, Progress, Request, Sight, State, Teardown,
    Wish, explain,
};
use tidegate_lifecycle::{Arrival, Driver, Outbox, Shell, Turn};

use crate::build::*;
use crate::dice::Dice;
use crate::weather::Weather;

/// An Application in the cluster.
#[derive(Clone, Debug)]
pub struct App {
    pub uid: String,
    pub deleting: bool,
    /// How long its finalizers take; `None`: for ever.
    pub lingers: Option<i64>,
}

#[derive(Clone, Debug)]
pub enum Event {
    Input(Input),
    Reached(Command),
    /// The object with this UID goes.
    Vanish(String, String),
    Persisted,
    Alarm(u32),
}

const EVENTS_MAX: u32 = 40_000;

pub struct World {
    pub shell: Shell<OrderedDeletion, Outbox<OrderedDeletion>>,
    pub now: i64,
    pub apps: BTreeMap<String, App>,
    pub durable: Vec<Fact>,
    /// What happened, one line each.
    pub transcript: Vec<String>,
    /// The process dies before this event, counted from 1.
    pub crash_before: Option<u32>,
    pub happened: u32,
    weather: Weather,
    dice: Dice,
    queue: BTreeMap<(i64, u32), Event>,
    scheduled: u32,
    alarms: u32,
    deaths: u32,
    /// Applications that are not the set's any more.
    released: BTreeSet<String>,
}

pub fn uid(name: &str) -> String {
    format!("uid-{name}")
}

pub fn spec(name: &str, of: &str) -> MemberSpec {
    MemberSpec { name: name.into(), uid: uid(name), labels: labels(of) }
}

impl World {
    pub fn new(request: Request) -> Self {
        let app =
            |member: &MemberSpec| App { uid: member.uid.clone(), deleting: false, lingers: Some(1_000) };
        let mut world = Self {
            apps: request.members.iter().map(|member| (member.name.clone(), app(member))).collect(),
            shell: Shell::new(Outbox::default()),
            now: 0,
            durable: Vec::new(),
            transcript: Vec::new(),
            crash_before: None,
            happened: 0,
            weather: Weather::default(),
            dice: Dice(0),
            queue: BTreeMap::new(),
            scheduled: 0,
            alarms: 0,
            deaths: 0,
            released: BTreeSet::new(),
        };
        world.at(0, Input::Begin(Box::new(request)));
        world
    }

    pub fn rough(mut self, weather: Weather) -> Self {
        self.dice = Dice(weather.seed);
        self.weather = weather;
        self
    }

    pub fn at(&mut self, millis: i64, input: Input) {
        self.schedule(millis, Event::Input(input));
    }

    pub fn wish(&mut self, millis: i64, wish: Wish) {
        self.at(millis, Input::Wish { wish, by: "ann".into(), why: "because".into() });
    }

    fn schedule(&mut self, millis: i64, event: Event) {
        self.scheduled += 1;
        self.queue.insert((millis.max(self.now), self.scheduled), event);
    }

    pub fn state(&self) -> &State {
        self.shell.state()
    }

    pub fn teardown(&self) -> &Teardown {
        self.state().teardown().unwrap()
    }

    pub fn explain(&self) -> String {
        explain(self.state(), at(self.now)).to_string()
    }

    fn delay(&mut self) -> i64 {
        match self.weather.slow {
            0 => 0,
            slow => i64::try_from(self.dice.below(slow)).unwrap(),
        }
    }

    pub fn run(&mut self) -> &mut Self {
        self.run_until(i64::MAX)
    }

    /// Runs until it is over, or nothing more will ever happen, or until a time.
    pub fn run_until(&mut self, millis: i64) -> &mut Self {
        for _ in 0..EVENTS_MAX {
            if self.settle() == Turn::Over {
                return self;
            }
            let next = self.queue.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = next.filter(|next| *next <= millis) else {
                self.now = if millis == i64::MAX { self.now } else { self.now.max(millis) };
                return self;
            };
            let (_, event) = self.queue.pop_first().unwrap();
            self.now = next;
            self.happened += 1;
            if self.crash_before == Some(self.happened)
                || self.deaths < 5 && self.dice.percent(self.weather.crashes)
            {
                self.crash();
            }
            self.happen(event);
        }
        panic!("it goes round in circles: {}", self.explain());
    }

    fn crash(&mut self) {
        if self.durable.is_empty() {
            return;
        }
        self.deaths += 1;
        let driver = Driver::<OrderedDeletion>::recover(None, self.durable.clone()).unwrap();
        self.shell = Shell::recovered(driver, Outbox::default());
        // What is on its way to nobody; what is kept up and carried out begins again.
        self.queue
            .retain(|_, event| !matches!(event, Event::Persisted | Event::Alarm(_) | Event::Reached(_)));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Input(Input::Begin(_)) if *self.state() != State::New => {}
            Event::Input(input @ Input::Wish { .. }) => {
                self.shell.wish(&input, (), at(self.now)).expect("the machine's own facts fit");
            }
            Event::Input(Input::Joined { member }) => {
                let app = App { uid: member.uid.clone(), deleting: false, lingers: Some(500) };
                self.apps.insert(member.name.clone(), app);
                self.take(Arrival::Input(Input::Joined { member }));
            }
            Event::Input(input) => self.take(Arrival::Input(input)),
            Event::Reached(command) => self.reach(command),
            Event::Vanish(name, uid) => self.vanish(&name, &uid),
            Event::Persisted => self.take(Arrival::Persisted),
            Event::Alarm(set) if set == self.alarms => self.take(Arrival::Alarm),
            Event::Alarm(_) => {}
        }
    }

    fn take(&mut self, arrival: Arrival<OrderedDeletion, Infallible>) {
        self.shell.take(arrival, at(self.now)).expect("only wishes are refused");
    }

    fn settle(&mut self) -> Turn {
        loop {
            let before = self.state().name();
            let turn = self.shell.turn(at(self.now)).expect("the machine's own facts fit");
            if self.state().name() != before {
                self.transcript.push(format!("{} {}", self.now, self.state().name()));
            }
            let Outbox { commands, begun, batch, alarm, .. } = std::mem::take(self.shell.hands_mut());
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
            let Some(batch) = batch else { return turn };
            assert_eq!(batch.first_sequence, u64::try_from(self.durable.len()).unwrap() + 1);
            self.durable.extend(batch.facts);
            if self.weather.slow > 0 {
                let delay = self.delay();
                self.schedule(self.now + delay, Event::Persisted);
                return turn;
            }
            self.take(Arrival::Persisted);
        }
    }

    fn reach(&mut self, command: Command) {
        let about = command.subject();
        let (member, uid, found) = match command {
            Command::Watch { member, uid } => return self.look(&member, &uid),
            Command::Look { member, uid } => {
                let found = self.find(&member, &uid);
                (member, uid, found)
            }
            Command::Delete { member, uid } => {
                let found = self.find(&member, &uid);
                if found == Found::There {
                    self.delete(&member);
                }
                if self.dice.percent(self.weather.twice) && self.find(&member, &uid) == Found::There {
                    self.delete(&member);
                }
                (member, uid, found)
            }
        };
        // It was done, and the answer is lost.
        let found = if self.dice.percent(self.weather.busy) { Err(busy()) } else { Ok(found) };
        self.take(Arrival::Answer { about, input: Input::Answered { member, uid, found } });
    }

    fn find(&self, name: &str, uid: &str) -> Found {
        match self.apps.get(name) {
            Some(app) if app.uid == uid => Found::There,
            _ => Found::Gone,
        }
    }

    /// The deletion of an Application begins.
    fn delete(&mut self, name: &str) {
        self.check_deletion(name);
        let app = self.apps.get_mut(name).unwrap();
        if std::mem::replace(&mut app.deleting, true) {
            return;
        }
        let (uid, lingers) = (app.uid.clone(), app.lingers);
        self.transcript.push(format!("{} delete {name}", self.now));
        self.tell(name, &uid, Sight::There { kept_by: "its finalizer".into() });
        if let Some(lingers) = lingers {
            self.schedule(self.now + lingers, Event::Vanish(name.to_owned(), uid));
        }
    }

    pub fn vanish(&mut self, name: &str, uid: &str) {
        if self.find(name, uid) == Found::There {
            self.apps.remove(name);
            self.transcript.push(format!("{} gone {name}", self.now));
            self.tell(name, uid, Sight::Gone);
        }
    }

    /// Somebody else deletes an Application, which takes a while.
    pub fn deleted_by_others(&mut self, name: &str) {
        let app = self.apps.get_mut(name).unwrap();
        app.deleting = true;
        let (uid, lingers) = (app.uid.clone(), app.lingers.unwrap());
        self.look(name, &uid);
        self.schedule(self.now + lingers, Event::Vanish(name.to_owned(), uid));
    }

    /// Somebody else takes an Application from the set.
    pub fn released_by_others(&mut self, name: &str) {
        self.released.insert(name.to_owned());
        self.look(name, &uid(name));
    }

    fn look(&mut self, name: &str, uid: &str) {
        if self.teardown().order.is_witnessed() && self.apps.get(name).is_some_and(|app| !app.deleting) {
            if self.released.contains(name) {
                self.tell(name, uid, Sight::Released);
            }
            return;
        }
        let sight = match self.find(name, uid) {
            Found::There => Sight::There { kept_by: "its finalizer".into() },
            Found::Gone => Sight::Gone,
        };
        if self.dice.percent(self.weather.old) {
            // A cache that has not seen it yet, or still does.
            let old =
                if sight == Sight::Gone { Sight::There { kept_by: String::new() } } else { Sight::Gone };
            self.at(self.now, Input::Sighted { member: name.into(), uid: uid.into(), sight: old });
        }
        self.tell(name, uid, sight);
    }

    fn tell(&mut self, name: &str, uid: &str, sight: Sight) {
        let delay = self.delay();
        self.at(self.now + delay, Input::Sighted { member: name.into(), uid: uid.into(), sight });
    }

    /// What comes before it in the order is gone, and no more of its step go at once than may.
    fn check_deletion(&self, name: &str) {
        let teardown = self.teardown();
        let step = teardown.members[name].place.step.unwrap();
        assert!(!teardown.order.max_update(step).is_manual(), "{name} is left to people");
        let intent = |fact: &Fact| matches!(fact, Fact::Condemned { member, .. } if member == name);
        assert!(self.durable.iter().any(intent), "intent before effect: {name}");
        let is_there =
            |other: &str| self.apps.get(other).is_some_and(|app| app.uid == teardown.members[other].uid);
        for (other, member) in &teardown.members {
            let is_left = matches!(member.progress, Progress::Left(_));
            let comes_first = member.place.step < Some(step);
            assert!(
                is_left || !comes_first || !is_there(other),
                "{name} of step {} was deleted before {other} was gone: {:#?}",
                step + 1,
                self.transcript
            );
        }
        let members = u32::try_from(teardown.members_of(step).count()).unwrap();
        let most = usize::try_from(teardown.order.max_update(step).of(members)).unwrap_or(usize::MAX);
        let going = teardown.members_of(step).filter(|(other, member)| {
            let is_left = matches!(member.progress, Progress::Left(_));
            *other != name && !is_left && is_there(other) && self.apps[other.as_str()].deleting
        });
        let going = going.count();
        assert!(going < most, "{going} go with {name}, {most} may");
    }
}
