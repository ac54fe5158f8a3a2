//! Simulated API server with an ApplicationSet's Applications, in virtual time. The invariants of deletions
//! are checked against this server.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use tidegate_lifecycle::teardown::{
    Command, Event, Input, MemberObservation, MemberSpec, ObjectPresence, OrderedDeletion, Progress, Request,
    State, Teardown, UserRequest, explain,
};
use tidegate_lifecycle::{Arrival, Driver, Outbox, Runner, RunnerStatus};

use crate::build::*;
use crate::common::EventQueue;
use crate::disturbances::Disturbances;
use crate::machines::run_step;

/// An Application in the cluster.
#[derive(Clone, Debug)]
pub struct App {
    pub uid: String,
    pub is_deleting: bool,
    /// Duration of the Application's finalizers, or `None` if they never complete.
    pub finalizer_duration: Option<i64>,
}

#[derive(Clone, Debug)]
pub enum SimEvent {
    Input(Input),
    CommandArrived(Command),
    /// Removes the object with this name and UID.
    RemoveObject(String, String),
    Persisted,
    Alarm(u32),
}

const EVENTS_MAX: u32 = 40_000;

pub struct World {
    pub runner: Runner<OrderedDeletion, Outbox<OrderedDeletion>>,
    pub now: i64,
    pub apps: BTreeMap<String, App>,
    pub durable: Vec<Event>,
    /// Transcript, one line per event.
    pub transcript: Vec<String>,
    /// Crash point: the process crashes before the event with this number, starting at 1.
    pub crash_before: Option<u32>,
    pub event_count: u32,
    disturbances: Disturbances,
    queue: EventQueue<SimEvent>,
    crash_count: u32,
    /// Applications that another client has removed from the ApplicationSet.
    released: BTreeSet<String>,
}

pub fn uid_of(name: &str) -> String {
    format!("uid-{name}")
}

pub fn member_spec(name: &str, of: &str) -> MemberSpec {
    MemberSpec { name: name.into(), uid: uid_of(name), labels: labels(of) }
}

impl World {
    pub fn new(request: Request) -> Self {
        let app = |member: &MemberSpec| App {
            uid: member.uid.clone(),
            is_deleting: false,
            finalizer_duration: Some(1_000),
        };
        let mut world = Self {
            apps: request.members.iter().map(|member| (member.name.clone(), app(member))).collect(),
            runner: Runner::new(Outbox::default()),
            now: 0,
            durable: Vec::new(),
            transcript: Vec::new(),
            crash_before: None,
            event_count: 0,
            disturbances: Disturbances::default(),
            queue: EventQueue::new(),
            crash_count: 0,
            released: BTreeSet::new(),
        };
        world.schedule_input(0, Input::Begin(Box::new(request)));
        world
    }

    pub fn with_disturbances(mut self, weather: Disturbances) -> Self {
        self.disturbances = weather;
        self
    }

    pub fn schedule_input(&mut self, millis: i64, input: Input) {
        self.queue.schedule(millis.max(self.now), SimEvent::Input(input));
    }

    pub fn request_at(&mut self, millis: i64, request: UserRequest) {
        let input = Input::UserRequest { request, by: "ann".into(), reason: "because".into() };
        self.schedule_input(millis, input);
    }

    pub fn state(&self) -> &State {
        self.runner.state()
    }

    pub fn teardown(&self) -> &Teardown {
        self.state().teardown().unwrap()
    }

    pub fn explain(&self) -> String {
        explain(self.state(), at(self.now)).to_string()
    }

    pub fn run(&mut self) -> &mut Self {
        self.run_until(i64::MAX)
    }

    /// Runs until the teardown has finished, no events are left, or the time is reached.
    pub fn run_until(&mut self, millis: i64) -> &mut Self {
        for _ in 0..EVENTS_MAX {
            if self.run_steps() == RunnerStatus::Finished {
                return self;
            }
            let Some((next, event)) = self.queue.pop_until(millis) else {
                self.now = if millis == i64::MAX { self.now } else { self.now.max(millis) };
                return self;
            };
            self.now = next;
            self.event_count += 1;
            if self.crash_before == Some(self.event_count)
                || self.crash_count < 5 && self.disturbances.rng.chance(self.disturbances.crash_chance)
            {
                self.crash();
            }
            self.handle_event(event);
        }
        panic!("the simulation does not end: {}", self.explain());
    }

    fn crash(&mut self) {
        if self.durable.is_empty() {
            return;
        }
        self.crash_count += 1;
        let driver = Driver::<OrderedDeletion>::recover(None, self.durable.clone()).unwrap();
        self.runner = Runner::from_driver(driver, Outbox::default());
        // Messages in flight to the crashed process are lost. The next process starts the commands and
        // subscriptions again.
        for (time, event) in self.queue.take_events() {
            if !matches!(event, SimEvent::Persisted | SimEvent::Alarm(_) | SimEvent::CommandArrived(_)) {
                self.queue.schedule(time, event);
            }
        }
    }

    fn handle_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::Input(Input::Begin(_)) if *self.state() != State::New => {}
            SimEvent::Input(input @ Input::UserRequest { .. }) => {
                self.runner
                    .process_request(&input, (), at(self.now))
                    .expect("the machine's own events must be legal");
            }
            SimEvent::Input(Input::Joined { member }) => {
                let app = App { uid: member.uid.clone(), is_deleting: false, finalizer_duration: Some(500) };
                self.apps.insert(member.name.clone(), app);
                self.deliver_arrival(Arrival::Input(Input::Joined { member }));
            }
            SimEvent::Input(input) => self.deliver_arrival(Arrival::Input(input)),
            SimEvent::CommandArrived(command) => self.execute(command),
            SimEvent::RemoveObject(name, uid) => self.remove(&name, &uid),
            SimEvent::Persisted => self.deliver_arrival(Arrival::Persisted),
            SimEvent::Alarm(number) if self.queue.is_current_alarm(number) => {
                self.deliver_arrival(Arrival::Alarm)
            }
            SimEvent::Alarm(_) => {}
        }
    }

    fn deliver_arrival(&mut self, arrival: Arrival<OrderedDeletion, Infallible>) {
        self.runner.process(arrival, at(self.now)).expect("only user requests may be rejected");
    }

    fn run_steps(&mut self) -> RunnerStatus {
        loop {
            let status = run_step(&mut self.runner, self.now, State::name, &mut self.transcript);
            let Outbox { commands, started_subscriptions, batch, alarm, .. } =
                std::mem::take(self.runner.effects_mut());
            if let Some(after) = alarm {
                self.queue.set_alarm(self.now, after, SimEvent::Alarm);
            }
            for command in commands.into_iter().chain(started_subscriptions) {
                let delay = self.disturbances.random_delay();
                self.queue.schedule(self.now + delay, SimEvent::CommandArrived(command));
            }
            let Some(batch) = batch else { return status };
            assert_eq!(batch.first_sequence, u64::try_from(self.durable.len()).unwrap() + 1);
            self.durable.extend(batch.events);
            if self.disturbances.max_delay > 0 {
                let delay = self.disturbances.random_delay();
                self.queue.schedule(self.now + delay, SimEvent::Persisted);
                return status;
            }
            self.deliver_arrival(Arrival::Persisted);
        }
    }

    fn execute(&mut self, command: Command) {
        let subject = command.subject();
        let (member, uid, found) = match command {
            Command::WatchMember { member, uid } => return self.observe(&member, &uid),
            Command::Read { member, uid } => {
                let found = self.read(&member, &uid);
                (member, uid, found)
            }
            Command::Delete { member, uid } => {
                let found = self.read(&member, &uid);
                if found == ObjectPresence::Exists {
                    self.start_deletion(&member);
                }
                if self.disturbances.rng.chance(self.disturbances.repeat_chance)
                    && self.read(&member, &uid) == ObjectPresence::Exists
                {
                    self.start_deletion(&member);
                }
                (member, uid, found)
            }
        };
        // The command was executed, but its answer is lost.
        let presence = if self.disturbances.rng.chance(self.disturbances.busy_chance) {
            Err(busy_error())
        } else {
            Ok(found)
        };
        self.deliver_arrival(Arrival::Answer { subject, input: Input::Answered { member, uid, presence } });
    }

    fn read(&self, name: &str, uid: &str) -> ObjectPresence {
        match self.apps.get(name) {
            Some(app) if app.uid == uid => ObjectPresence::Exists,
            _ => ObjectPresence::Gone,
        }
    }

    fn start_deletion(&mut self, name: &str) {
        self.check_deletion(name);
        let app = self.apps.get_mut(name).unwrap();
        if std::mem::replace(&mut app.is_deleting, true) {
            return;
        }
        let (uid, lingers) = (app.uid.clone(), app.finalizer_duration);
        self.transcript.push(format!("{} delete {name}", self.now));
        self.report(name, &uid, MemberObservation::Exists { kept_by: "its finalizer".into() });
        if let Some(lingers) = lingers {
            self.queue.schedule(self.now + lingers, SimEvent::RemoveObject(name.to_owned(), uid));
        }
    }

    pub fn remove(&mut self, name: &str, uid: &str) {
        if self.read(name, uid) == ObjectPresence::Exists {
            self.apps.remove(name);
            self.transcript.push(format!("{} gone {name}", self.now));
            self.report(name, uid, MemberObservation::Gone);
        }
    }

    /// Another client deletes an Application. The deletion takes some time.
    pub fn delete_by_others(&mut self, name: &str) {
        let app = self.apps.get_mut(name).unwrap();
        app.is_deleting = true;
        let (uid, lingers) = (app.uid.clone(), app.finalizer_duration.unwrap());
        self.observe(name, &uid);
        self.queue.schedule(self.now + lingers, SimEvent::RemoveObject(name.to_owned(), uid));
    }

    /// Another client removes an Application from the ApplicationSet.
    pub fn release_by_others(&mut self, name: &str) {
        self.released.insert(name.to_owned());
        self.observe(name, &uid_of(name));
    }

    fn observe(&mut self, name: &str, uid: &str) {
        if self.teardown().order.is_witnessed() && self.apps.get(name).is_some_and(|app| !app.is_deleting) {
            if self.released.contains(name) {
                self.report(name, uid, MemberObservation::Released);
            }
            return;
        }
        let observation = match self.read(name, uid) {
            ObjectPresence::Exists => MemberObservation::Exists { kept_by: "its finalizer".into() },
            ObjectPresence::Gone => MemberObservation::Gone,
        };
        if self.disturbances.rng.chance(self.disturbances.old_chance) {
            // The observation comes from a cache that doesn't contain the object yet, or still contains it.
            let old = if observation == MemberObservation::Gone {
                MemberObservation::Exists { kept_by: String::new() }
            } else {
                MemberObservation::Gone
            };
            self.schedule_input(
                self.now,
                Input::Observed { member: name.into(), uid: uid.into(), observation: old },
            );
        }
        self.report(name, uid, observation);
    }

    fn report(&mut self, name: &str, uid: &str, observation: MemberObservation) {
        let delay = self.disturbances.random_delay();
        self.schedule_input(
            self.now + delay,
            Input::Observed { member: name.into(), uid: uid.into(), observation },
        );
    }

    /// Checks that all Applications of earlier steps were deleted, and that the deletion doesn't exceed the
    /// limit of its step.
    fn check_deletion(&self, name: &str) {
        let teardown = self.teardown();
        let step = teardown.members[name].place.step.unwrap();
        assert!(!teardown.order.max_update(step).is_manual(), "Application {name} must be deleted by users");
        let intent =
            |event: &Event| matches!(event, Event::DeletionScheduled { member, .. } if member == name);
        assert!(
            self.durable.iter().any(intent),
            "the deletion of {name} must be recorded before it is requested"
        );
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
        let members = u32::try_from(teardown.members_in_step(step).count()).unwrap();
        let most = usize::try_from(teardown.order.max_update(step).limit_for(members)).unwrap_or(usize::MAX);
        let going = teardown.members_in_step(step).filter(|(other, member)| {
            let is_left = matches!(member.progress, Progress::Left(_));
            *other != name && !is_left && is_there(other) && self.apps[other.as_str()].is_deleting
        });
        let going = going.count();
        assert!(
            going < most,
            "{going} other Applications are being deleted together with {name} (maximum: {most})"
        );
    }
}
