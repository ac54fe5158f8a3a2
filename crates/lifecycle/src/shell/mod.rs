//! The shell around one machine: its driver, what is on its way, what is kept up, who waits, and the alarm. Without I/O;
//! what is to be done in the world is done by its [`Hands`].
//!
//! ```text
//! arrivals ──▶ take ──▶ turn:  follow ─▶ write ─▶ dispatch ──▶ Hands ──▶ the world
//!    ▲                                                                     │
//!    └──────────────── answers, sights, alarm, "persisted" ◀───────────────┘
//! ```
//!
//! Actors, the simulation and the tests run this very bookkeeping; they differ in their hands.

mod hands;
mod inbox;
mod outbox;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_model::Timestamp;

pub use self::hands::Hands;
pub use self::inbox::{Arrival, Inbox};
pub use self::outbox::Outbox;
use crate::driver::{Driver, DriverError, ErrorOf};
use crate::machine::{Changed, Illegal, Machine, Owed};

/// Shortest wait for a time that the alarm has rung for already: the wall clock was set back, or nothing could be done
/// then.
pub const RING_AGAIN: Duration = Duration::from_millis(100);

/// How a shell stands after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something is still to come.
    GoesOn,
    /// It was asked to stop, and what was on its way is recorded. It can be recovered.
    Stopped,
    /// The machine is over, everything about it is durable, and nothing is left to be given back.
    Over,
}

/// Why a shell cannot go on. It is dropped, and another one recovered from the log.
#[derive(Debug, thiserror::Error)]
pub enum ShellError<R: std::error::Error, F> {
    /// The machine cannot go on.
    #[error(transparent)]
    Driver(#[from] DriverError<R>),
    /// A batch could not be handed to the log.
    #[error("{0}")]
    Append(F),
}

/// Why the shell of one machine with these hands cannot go on.
pub type FailureOf<M, H> = ShellError<<M as Machine>::Rejection, <H as Hands<M>>::Failure>;

/// One machine at work.
pub struct Shell<M: Machine, H: Hands<M>> {
    driver: Driver<M>,
    hands: H,
    /// Subjects of the commands on their way.
    on_the_way: BTreeSet<M::Subject>,
    /// What is kept up.
    standing: BTreeMap<M::Subject, M::Command>,
    /// What is owed may have changed, and was not asked for yet.
    changed: Changed<M::Subject>,
    /// When what is owed changes by itself.
    wake_at: Option<Timestamp>,
    /// When the alarm will ring.
    alarm: Option<Timestamp>,
    /// The time it rang for last.
    rang: Option<Timestamp>,
    /// Answered when the next batch is durable.
    replies: Vec<H::Reply>,
    /// Answered when the batch on its way is durable.
    replies_on_the_way: Vec<H::Reply>,
    /// The summary in the log is about the facts that are there.
    is_stated: bool,
    stopping: bool,
}

impl<M: Machine, H: Hands<M>> Shell<M, H> {
    /// A machine that nothing is recorded of yet.
    pub fn new(hands: H) -> Self {
        Self { is_stated: true, ..Self::recovered(Driver::default(), hands) }
    }

    /// A machine as the log left it.
    pub fn recovered(driver: Driver<M>, hands: H) -> Self {
        Self {
            driver,
            hands,
            on_the_way: BTreeSet::new(),
            standing: BTreeMap::new(),
            changed: Changed::All,
            wake_at: None,
            alarm: None,
            rang: None,
            replies: Vec::new(),
            replies_on_the_way: Vec::new(),
            is_stated: false,
            stopping: false,
        }
    }

    /// The machine's state, including what is not durable yet.
    pub fn state(&self) -> &M::State {
        self.driver.state()
    }

    /// The driver, for whoever asks what was recorded and what is durable.
    pub fn driver(&self) -> &Driver<M> {
        &self.driver
    }

    /// The hands, to look at what they hold.
    pub fn hands(&self) -> &H {
        &self.hands
    }

    /// The hands, to prepare what they will need.
    pub fn hands_mut(&mut self) -> &mut H {
        &mut self.hands
    }

    /// The hands with the state they need, for whoever ends the shell.
    pub fn parts(&mut self) -> (&mut H, &M::State) {
        (&mut self.hands, self.driver.state())
    }

    /// The hands of a shell that has come to its end.
    pub fn into_hands(self) -> H {
        self.hands
    }

    /// How many commands are on their way.
    pub fn on_the_way(&self) -> usize {
        self.on_the_way.len()
    }

    /// Whether a command about this is on its way.
    pub fn is_on_the_way(&self, subject: &M::Subject) -> bool {
        self.on_the_way.contains(subject)
    }

    /// Whether this is kept up.
    pub fn keeps_up(&self, command: &M::Command) -> bool {
        self.standing.get(&M::subject(command)) == Some(command)
    }

    /// What is kept up.
    pub fn standing(&self) -> impl Iterator<Item = &M::Command> {
        self.standing.values()
    }

    /// Takes in what has arrived. Any number of arrivals may be taken in before a [`Shell::turn`].
    pub fn take(&mut self, arrival: Arrival<M, H::Note>, now: Timestamp) -> Result<(), ErrorOf<M>> {
        match arrival {
            Arrival::Input(input) => self.driver.offer(&input, now)?,
            Arrival::Answer { about, input } => {
                self.changed.and(M::frees(self.driver.state(), &about));
                self.on_the_way.remove(&about);
                self.driver.offer(&input, now)?;
            }
            Arrival::Ended(subject) => {
                self.standing.remove(&subject);
                self.changed.and(Changed::only(subject));
            }
            Arrival::Alarm => self.rang = self.alarm.take(),
            Arrival::Persisted => {
                self.driver.persisted();
                self.hands.announce(self.driver.state());
                for reply in self.replies_on_the_way.drain(..) {
                    self.hands.reply(reply, Ok(()));
                }
            }
            Arrival::Note(note) => self.hands.note(self.driver.state(), note),
        }
        Ok(())
    }

    /// Takes in the wish of somebody who waits until it is durable.
    pub fn wish(&mut self, wish: &M::Input, reply: H::Reply, now: Timestamp) -> Result<(), Illegal> {
        match self.driver.offer(wish, now) {
            Ok(()) => self.replies.push(reply),
            Err(DriverError::Rejected(rejection)) => self.hands.reply(reply, Err(rejection)),
            Err(DriverError::Illegal(illegal)) => return Err(illegal),
        }
        Ok(())
    }

    /// Answers somebody when all that is known by now is durable.
    pub fn when_durable(&mut self, reply: H::Reply) {
        self.replies.push(reply);
    }

    /// Begins nothing more. What is on its way is still recorded.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Takes the arrows that follow, writes what must be written, carries out what is owed, or ends.
    pub fn turn(&mut self, now: Timestamp) -> Result<Turn, FailureOf<M, H>> {
        self.driver.advance(now)?;
        self.write(now).map_err(ShellError::Append)?;
        if self.driver.is_writing() {
            self.dispatch(now);
            return Ok(Turn::GoesOn);
        }
        if M::is_over(self.driver.state()) {
            let is_over = self.hands.is_cleared_up(self.driver.state());
            return Ok(if is_over { Turn::Over } else { Turn::GoesOn });
        }
        if self.stopping && self.on_the_way.is_empty() {
            return Ok(Turn::Stopped);
        }
        self.dispatch(now);
        Ok(Turn::GoesOn)
    }

    fn write(&mut self, now: Timestamp) -> Result<(), H::Failure> {
        let is_over = M::is_over(self.driver.state());
        let flush = is_over || !self.replies.is_empty() || (self.stopping && self.on_the_way.is_empty());
        let mut batch = self.driver.take_batch(now, flush);
        if batch.is_none() && is_over && !self.is_stated && !self.driver.is_writing() {
            // The log took it for open: a repair after damage forgets how machines stood.
            batch = self.driver.restate();
        }
        let Some(batch) = batch else {
            if !self.driver.is_writing() {
                // What was wished for changed nothing.
                for reply in self.replies.drain(..) {
                    self.hands.reply(reply, Ok(()));
                }
            }
            return Ok(());
        };
        self.is_stated = true;
        self.replies_on_the_way.append(&mut self.replies);
        self.hands.append(self.driver.state(), batch, now)
    }

    /// Begins what is owed and not begun yet, and ends what is not to be kept up any more. While a fact that matters is
    /// being written nothing is owed, and everything stays as it is.
    fn dispatch(&mut self, now: Timestamp) {
        if !self.driver.may_act() {
            return;
        }
        self.changed.and(self.driver.take_changes());
        self.end_renewed();
        if self.wake_at.is_some_and(|at| now >= at) {
            self.changed = Changed::All;
        }
        match std::mem::replace(&mut self.changed, Changed::nothing()) {
            Changed::All => self.dispatch_all(now),
            Changed::Only(subjects) => {
                subjects.into_iter().for_each(|subject| self.dispatch_about(subject, now));
            }
        }
        self.set_alarm(now);
        if self.on_the_way.is_empty() && !self.driver.is_writing() {
            self.hands.rest(!self.standing.is_empty());
        }
    }

    /// Ends what is to be kept up anew: if it is owed, it is begun again.
    fn end_renewed(&mut self) {
        for subject in self.driver.take_renewed() {
            if let Some(command) = self.standing.remove(&subject) {
                self.hands.end(self.driver.state(), &command);
                self.changed.and(Changed::only(subject));
            }
        }
    }

    fn dispatch_all(&mut self, now: Timestamp) {
        let Owed { commands, wake_at } = M::pending(self.driver.state(), now);
        self.wake_at = wake_at;
        let mut wanted = BTreeMap::new();
        for command in commands {
            if M::is_standing(&command) {
                wanted.insert(M::subject(&command), command);
            } else {
                self.carry_out(command, now);
            }
        }
        let state = self.driver.state();
        for (subject, command) in &self.standing {
            if wanted.get(subject) != Some(command) {
                self.hands.end(state, command);
            }
        }
        for (subject, command) in &wanted {
            if self.standing.get(subject) != Some(command) {
                self.hands.begin(state, command, now);
            }
        }
        self.standing = wanted;
    }

    fn dispatch_about(&mut self, subject: M::Subject, now: Timestamp) {
        let mut wanted = None;
        for command in M::pending_about(self.driver.state(), &subject, now) {
            if M::is_standing(&command) {
                wanted = Some(command);
            } else {
                self.carry_out(command, now);
            }
        }
        let state = self.driver.state();
        let known = self.standing.get(&subject);
        if known == wanted.as_ref() {
            return;
        }
        if let Some(command) = known {
            self.hands.end(state, command);
        }
        match wanted {
            Some(command) => {
                self.hands.begin(state, &command, now);
                self.standing.insert(subject, command);
            }
            None => drop(self.standing.remove(&subject)),
        }
    }

    /// One command per subject is on its way at a time.
    fn carry_out(&mut self, command: M::Command, now: Timestamp) {
        if !self.stopping && self.on_the_way.insert(M::subject(&command)) {
            self.hands.carry_out(self.driver.state(), command, now);
        }
    }

    fn set_alarm(&mut self, now: Timestamp) {
        let wake_at = self.wake_at.into_iter().chain(self.driver.write_at()).min();
        if self.alarm == wake_at {
            return;
        }
        self.alarm = wake_at;
        self.hands.set_alarm(wake_at.map(|at| {
            let again = self.rang.is_some_and(|rang| at <= rang);
            if again { at.since(now).max(RING_AGAIN) } else { at.since(now) }
        }));
    }
}
