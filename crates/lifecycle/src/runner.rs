//! Runner of one machine: its driver, commands in flight, subscriptions, waiting callers, and alarm. It
//! leaves all I/O to its [`Effects`].
//!
//! ```text
//! arrivals ──▶ process ──▶ step:  advance ─▶ write ─▶ dispatch ──▶ Effects ──▶ the world
//!    ▲                                                                         │
//!    └────────────── results, observations, alarm, "persisted" ◀───────────────┘
//! ```
//!
//! The actors, the simulation and the tests share this code, and differ only in their effects.

mod effects;
mod inbox;
mod outbox;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_model::Timestamp;

pub use self::effects::Effects;
pub use self::inbox::{Arrival, Inbox};
pub use self::outbox::Outbox;
use crate::driver::{Driver, DriverError, MachineDriverError};
use crate::machine::{AffectedSubjects, IllegalEvent, Machine, Outstanding};

/// Minimum delay before the alarm can fire again for the same deadline. It does so if the wall clock was set
/// back or no work was due.
pub const ALARM_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Maximum time that a reader waits for an urgent event, so that lazy events can share its write.
const READER_WAIT_MAX: Duration = Duration::from_millis(25);

/// State of a runner after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerStatus {
    /// The runner has more work, or is waiting for an arrival.
    Running,
    /// A stop was requested, and the results of all commands in flight are recorded. The runner can be
    /// recovered.
    Stopped,
    /// The machine has finished, all its events are durable, and nothing is left to release.
    Finished,
}

/// Error that stops a runner. The caller drops it, and recovers a new runner from the log.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError<R: std::error::Error, F> {
    /// The machine can't continue.
    #[error(transparent)]
    Driver(#[from] DriverError<R>),
    /// The log rejected a batch.
    #[error("{0}")]
    Append(F),
}

/// Error that stops the runner of a machine with these effects.
pub type MachineRunnerError<M, E> = RunnerError<<M as Machine>::Rejection, <E as Effects<M>>::AppendError>;

/// A running machine with its effects.
pub struct Runner<M: Machine, E: Effects<M>> {
    driver: Driver<M>,
    effects: E,
    /// Subjects of the commands in flight.
    in_flight: BTreeSet<M::Subject>,
    /// Active subscriptions.
    subscriptions: BTreeMap<M::Subject, M::Command>,
    /// Subjects whose outstanding commands may have changed but haven't been dispatched yet.
    affected_subjects: AffectedSubjects<M::Subject>,
    /// Time at which the outstanding commands change without an input.
    wake_at: Option<Timestamp>,
    /// Time of the next alarm.
    alarm: Option<Timestamp>,
    /// Time the last alarm was set for.
    last_alarm: Option<Timestamp>,
    /// Requests to answer once the next batch is durable.
    replies: Vec<E::Reply>,
    /// Readers to answer once the events so far are durable. Unlike `replies`, they wait until
    /// `readers_until` for an urgent event.
    readers: Vec<E::Reply>,
    /// Time to write events for the readers.
    readers_until: Option<Timestamp>,
    /// Requests and readers to answer once the batch in flight is durable.
    replies_in_flight: Vec<E::Reply>,
    /// True if the summary in the log matches the recorded events.
    is_summary_current: bool,
    is_stopping: bool,
}

impl<M: Machine, E: Effects<M>> Runner<M, E> {
    /// Creates a runner for a machine without recorded events.
    pub fn new(effects: E) -> Self {
        Self { is_summary_current: true, ..Self::from_driver(Driver::default(), effects) }
    }

    /// Creates a runner from a recovered driver.
    pub fn from_driver(driver: Driver<M>, effects: E) -> Self {
        Self {
            driver,
            effects,
            in_flight: BTreeSet::new(),
            subscriptions: BTreeMap::new(),
            affected_subjects: AffectedSubjects::All,
            wake_at: None,
            alarm: None,
            last_alarm: None,
            replies: Vec::new(),
            readers: Vec::new(),
            readers_until: None,
            replies_in_flight: Vec::new(),
            is_summary_current: false,
            is_stopping: false,
        }
    }

    /// Returns the machine's state, including events that aren't durable yet.
    pub fn state(&self) -> &M::State {
        self.driver.state()
    }

    /// Returns the driver, which tracks the recorded and the durable events.
    pub fn driver(&self) -> &Driver<M> {
        &self.driver
    }

    /// Returns the effects.
    pub fn effects(&self) -> &E {
        &self.effects
    }

    /// Returns a mutable reference to the effects, so that the caller can prepare resources.
    pub fn effects_mut(&mut self) -> &mut E {
        &mut self.effects
    }

    /// Returns the effects and the state, for code that ends the runner.
    pub fn effects_and_state(&mut self) -> (&mut E, &M::State) {
        (&mut self.effects, self.driver.state())
    }

    /// Returns the effects of a runner that has stopped.
    pub fn into_effects(self) -> E {
        self.effects
    }

    /// Returns the number of commands in flight.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns true if a command for this subject is in flight.
    pub fn is_in_flight(&self, subject: &M::Subject) -> bool {
        self.in_flight.contains(subject)
    }

    /// Returns true if this subscription is active.
    pub fn has_subscription(&self, command: &M::Command) -> bool {
        self.subscriptions.get(&M::subject(command)) == Some(command)
    }

    /// Returns the active subscriptions.
    pub fn subscriptions(&self) -> impl Iterator<Item = &M::Command> {
        self.subscriptions.values()
    }

    /// Processes an arrival. Any number of arrivals may be processed before the next [`Runner::step`].
    pub fn process(
        &mut self,
        arrival: Arrival<M, E::Message>,
        now: Timestamp,
    ) -> Result<(), MachineDriverError<M>> {
        match arrival {
            Arrival::Input(input) => self.driver.handle_input(&input, now)?,
            Arrival::Answer { subject, input } => {
                self.affected_subjects.merge(M::unblocked_subjects(self.driver.state(), &subject));
                self.in_flight.remove(&subject);
                self.driver.handle_input(&input, now)?;
            }
            Arrival::SubscriptionEnded(subject) => {
                self.subscriptions.remove(&subject);
                self.affected_subjects.merge(AffectedSubjects::only(subject));
            }
            Arrival::Alarm => self.last_alarm = self.alarm.take(),
            Arrival::Persisted => {
                self.driver.mark_persisted();
                self.effects.announce(self.driver.state());
                for reply in self.replies_in_flight.drain(..) {
                    self.effects.reply(reply, Ok(()));
                }
            }
            Arrival::Message(message) => self.effects.handle_message(self.driver.state(), message),
        }
        Ok(())
    }

    /// Processes a request. The caller gets its reply when the request is durable or was rejected.
    pub fn process_request(
        &mut self,
        input: &M::Input,
        reply: E::Reply,
        now: Timestamp,
    ) -> Result<(), IllegalEvent> {
        match self.driver.handle_input(input, now) {
            Ok(()) => self.replies.push(reply),
            Err(DriverError::Rejected(rejection)) => self.effects.reply(reply, Err(rejection)),
            Err(DriverError::IllegalEvent(illegal)) => return Err(illegal),
        }
        Ok(())
    }

    /// Answers a reader once all current events are durable. Lazy events aren't flushed right away, because
    /// an urgent event often follows within a few milliseconds.
    pub fn reply_when_durable(&mut self, reply: E::Reply, now: Timestamp) {
        self.readers.push(reply);
        self.readers_until.get_or_insert(now + READER_WAIT_MAX);
    }

    /// Requests a stop: no more commands start, but the results of commands in flight are still recorded.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Runs one step: performs automatic transitions, writes events, starts outstanding commands, and returns
    /// the resulting status.
    pub fn step(&mut self, now: Timestamp) -> Result<RunnerStatus, MachineRunnerError<M, E>> {
        self.driver.advance(now)?;
        self.write_batch(now).map_err(RunnerError::Append)?;
        if self.driver.is_writing() {
            self.dispatch(now);
            return Ok(RunnerStatus::Running);
        }
        if M::is_over(self.driver.state()) {
            let is_over = self.effects.is_cleaned_up(self.driver.state());
            return Ok(if is_over { RunnerStatus::Finished } else { RunnerStatus::Running });
        }
        if self.is_stopping && self.in_flight.is_empty() {
            return Ok(RunnerStatus::Stopped);
        }
        self.dispatch(now);
        Ok(RunnerStatus::Running)
    }

    fn write_batch(&mut self, now: Timestamp) -> Result<(), E::AppendError> {
        let is_over = M::is_over(self.driver.state());
        let is_read = self.readers_until.is_some_and(|until| now >= until);
        let flush =
            is_over || is_read || !self.replies.is_empty() || (self.is_stopping && self.in_flight.is_empty());
        let mut batch = self.driver.take_batch(now, flush);
        if batch.is_none() && is_over && !self.is_summary_current && !self.driver.is_writing() {
            // The log may list the finished machine as open, because its last summary may have been lost in a
            // repair.
            batch = self.driver.take_summary_batch();
        }
        let Some(batch) = batch else {
            if !self.driver.is_writing() {
                // These requests have nothing to write, so answer them immediately.
                let mut replies = std::mem::take(&mut self.replies);
                if self.driver.flush_at().is_none() {
                    replies.append(&mut self.readers);
                    self.readers_until = None;
                }
                for reply in replies {
                    self.effects.reply(reply, Ok(()));
                }
            }
            return Ok(());
        };
        self.is_summary_current = true;
        self.replies_in_flight.append(&mut self.replies);
        self.replies_in_flight.append(&mut self.readers);
        self.readers_until = None;
        self.effects.append(self.driver.state(), batch, now)
    }

    /// Starts new outstanding commands, and ends subscriptions that aren't outstanding anymore. Does nothing
    /// while an urgent event is being written.
    fn dispatch(&mut self, now: Timestamp) {
        if !self.driver.can_execute() {
            return;
        }
        self.affected_subjects.merge(self.driver.take_affected_subjects());
        self.end_restarted_subscriptions();
        if self.wake_at.is_some_and(|at| now >= at) {
            self.affected_subjects = AffectedSubjects::All;
        }
        match std::mem::replace(&mut self.affected_subjects, AffectedSubjects::none()) {
            AffectedSubjects::All => self.dispatch_all(now),
            AffectedSubjects::Only(subjects) => {
                subjects.into_iter().for_each(|subject| self.dispatch_for(subject, now));
            }
        }
        self.set_alarm(now);
        if self.in_flight.is_empty() && !self.driver.is_writing() {
            self.effects.on_idle(!self.subscriptions.is_empty());
        }
    }

    /// Ends the subscriptions that must restart. The next dispatch starts them again if they are still
    /// outstanding.
    fn end_restarted_subscriptions(&mut self) {
        for subject in self.driver.take_restarted_subjects() {
            if let Some(command) = self.subscriptions.remove(&subject) {
                self.effects.end_subscription(self.driver.state(), &command);
                self.affected_subjects.merge(AffectedSubjects::only(subject));
            }
        }
    }

    fn dispatch_all(&mut self, now: Timestamp) {
        let Outstanding { commands, wake_at } = M::outstanding(self.driver.state(), now);
        self.wake_at = wake_at;
        let mut subscriptions = BTreeMap::new();
        for command in commands {
            if M::is_subscription(&command) {
                subscriptions.insert(M::subject(&command), command);
            } else {
                self.execute(command, now);
            }
        }
        let state = self.driver.state();
        for (subject, command) in &self.subscriptions {
            if subscriptions.get(subject) != Some(command) {
                self.effects.end_subscription(state, command);
            }
        }
        for (subject, command) in &subscriptions {
            if self.subscriptions.get(subject) != Some(command) {
                self.effects.start_subscription(state, command, now);
            }
        }
        self.subscriptions = subscriptions;
    }

    fn dispatch_for(&mut self, subject: M::Subject, now: Timestamp) {
        let mut subscription = None;
        for command in M::outstanding_for(self.driver.state(), &subject, now) {
            if M::is_subscription(&command) {
                subscription = Some(command);
            } else {
                self.execute(command, now);
            }
        }
        let state = self.driver.state();
        let active = self.subscriptions.get(&subject);
        if active == subscription.as_ref() {
            return;
        }
        if let Some(command) = active {
            self.effects.end_subscription(state, command);
        }
        match subscription {
            Some(command) => {
                self.effects.start_subscription(state, &command, now);
                self.subscriptions.insert(subject, command);
            }
            None => drop(self.subscriptions.remove(&subject)),
        }
    }

    /// Starts a command unless a command for the same subject is in flight.
    fn execute(&mut self, command: M::Command, now: Timestamp) {
        if !self.is_stopping && self.in_flight.insert(M::subject(&command)) {
            self.effects.execute(self.driver.state(), command, now);
        }
    }

    fn set_alarm(&mut self, now: Timestamp) {
        let readers_until = self.readers_until.filter(|_| !self.driver.is_writing());
        let transition_at = M::next_transition(self.driver.state());
        let times = [self.wake_at, transition_at, self.driver.flush_at(), readers_until];
        let wake_at = times.into_iter().flatten().min();
        if self.alarm == wake_at {
            return;
        }
        self.alarm = wake_at;
        self.effects.set_alarm(wake_at.map(|at| {
            let again = self.last_alarm.is_some_and(|rang| at <= rang);
            if again { at.since(now).max(ALARM_INTERVAL_MIN) } else { at.since(now) }
        }));
    }
}
