//! The loop around the pure machine, written once: decide → make durable → evolve → carry out what is pending.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::operation::{Command, Fact, Illegal, Input, Rejection, State, decide, evolve, follow, pending};

/// Facts that cost nothing when they are lost wait at most this long for company.
pub const LAZY_WAIT: Duration = Duration::from_secs(2);
/// The same for those that tell people what is awaited and why: nobody can find them again who looks after a crash.
pub const TOLD_WAIT: Duration = Duration::from_millis(100);
/// A snapshot is due after this many facts, so that recovery reads little; or after as many as the plan has tasks, if
/// these are more, so that writing snapshots costs no more than writing facts.
pub const SNAPSHOT_EVERY: u64 = 512;
/// An operation that records more than this is going round in circles: it is ended with an error.
pub const FACTS_MAX: u64 = 5_000_000;

/// One operation between its log and the world, without I/O.
///
/// # Contract
///
/// 1. Give it what happened: [`Driver::offer`], any number of times, then [`Driver::advance`].
/// 2. If [`Driver::take_batch`] gives a batch, append it to the log and make it durable. Then say so:
///    [`Driver::persisted`]. At most one batch is on its way.
/// 3. Only then announce the batch to anyone, and carry out [`Driver::commands`]. Commands may be repeated; leave out
///    those that are already on their way.
/// 4. Answers, sights and ticks are new input: go to 1.
///
/// If the log refuses a batch, or the driver reports [`DriverError::Illegal`], drop the driver: what it holds beyond the
/// log never happened.
#[derive(Debug)]
pub struct Driver {
    state: State,
    /// Sequence number of the last fact folded into `state`.
    sequence: u64,
    /// Sequence number of the last fact that is durable.
    durable: u64,
    /// Facts not yet handed out.
    buffer: Vec<Fact>,
    /// A fact in the buffer that commands must wait for.
    urgent: bool,
    /// When the facts in the buffer have waited long enough for company.
    due: Option<Timestamp>,
    /// A batch is on its way; commands wait if it holds an urgent fact.
    in_flight: Option<InFlight>,
    /// Sequence number the last snapshot covers.
    snapshot: u64,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    last: u64,
    urgent: bool,
}

/// Facts to make durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Sequence number of the first.
    pub first_sequence: u64,
    /// The facts.
    pub facts: Vec<Fact>,
    /// The state after the last of them, when a snapshot is due.
    pub snapshot: Option<State>,
}

impl Batch {
    /// Sequence number of the last fact.
    pub fn last_sequence(&self) -> u64 {
        let count = u64::try_from(self.facts.len()).unwrap_or(u64::MAX);
        self.first_sequence.saturating_add(count).saturating_sub(1)
    }
}

/// Why a driver cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The machine's own fact, or one from the log, does not fit the state.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// The input was refused.
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

impl Default for Driver {
    fn default() -> Self {
        Self::at(State::New, 0)
    }
}

impl Driver {
    fn at(state: State, sequence: u64) -> Self {
        Self {
            state,
            sequence,
            durable: sequence,
            buffer: Vec::new(),
            urgent: false,
            due: None,
            in_flight: None,
            snapshot: sequence,
        }
    }

    /// The driver as the log left it. A fresh operation is a recovery from an empty log.
    pub fn recover(
        snapshot: Option<(u64, State)>,
        facts: impl IntoIterator<Item = Fact>,
    ) -> Result<Self, Illegal> {
        let (covered, mut state) = snapshot.unwrap_or((0, State::New));
        let mut sequence = covered;
        for fact in facts {
            state = evolve(state, &fact)?;
            sequence = sequence.saturating_add(1);
        }
        Ok(Self { snapshot: covered, ..Self::at(state, sequence) })
    }

    /// The state, including facts that are not durable yet.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Sequence number of the last fact, durable or not.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Takes in one thing that happened. A late answer is dropped.
    pub fn offer(&mut self, input: &Input, now: Timestamp) -> Result<(), DriverError> {
        match decide(&self.state, input, now) {
            Ok(facts) => facts.into_iter().try_for_each(|fact| self.record(fact, now)).map_err(Into::into),
            Err(Rejection::Stale { .. }) => Ok(()),
            Err(rejection) => Err(rejection.into()),
        }
    }

    /// Takes all arrows that follow by themselves.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), DriverError> {
        loop {
            let facts = follow(&self.state, now);
            if facts.is_empty() {
                return Ok(());
            }
            for fact in facts {
                self.record(fact, now)?;
            }
            if self.sequence > FACTS_MAX {
                let reason = format!("gave up after {FACTS_MAX} recorded facts");
                return self.offer(&Input::Abort { reason }, now);
            }
        }
    }

    fn record(&mut self, fact: Fact, now: Timestamp) -> Result<(), Illegal> {
        self.state = evolve(std::mem::take(&mut self.state), &fact)?;
        self.sequence = self.sequence.saturating_add(1);
        let operation = self.state.operation();
        self.urgent |= fact.is_urgent(|id| {
            operation.and_then(|operation| operation.plan.task(id)).is_some_and(tidegate_model::Task::is_hook)
        });
        let wait = if fact.tells_of_a_wait() { TOLD_WAIT } else { LAZY_WAIT };
        self.due = self.due.into_iter().chain([now + wait]).min();
        self.buffer.push(fact);
        Ok(())
    }

    /// Facts to make durable now, if any: when one of them matters, or when they have waited long enough, or when
    /// `flush` asks for it.
    pub fn take_batch(&mut self, now: Timestamp, flush: bool) -> Option<Batch> {
        let ripe = self.urgent || flush || self.lazy_due().is_some_and(|due| now >= due);
        if self.buffer.is_empty() || !ripe || self.in_flight.is_some() {
            return None;
        }
        let facts = std::mem::take(&mut self.buffer);
        self.in_flight = Some(InFlight { last: self.sequence, urgent: self.urgent });
        self.urgent = false;
        self.due = None;
        let tasks = self.state.operation().map_or(0, |operation| operation.tasks.len());
        let every = u64::try_from(tasks).unwrap_or(u64::MAX).max(SNAPSHOT_EVERY);
        let due = self.sequence.saturating_sub(self.snapshot) >= every && !self.state.is_finished();
        if due {
            self.snapshot = self.sequence;
        }
        Some(Batch {
            first_sequence: self.durable.saturating_add(1),
            facts,
            snapshot: due.then(|| self.state.clone()),
        })
    }

    /// The batch on its way is durable.
    pub fn persisted(&mut self) {
        if let Some(batch) = self.in_flight.take() {
            self.durable = batch.last;
        }
    }

    /// When buffered facts should be made durable even if nothing else happens. A batch may be on its way by then: the
    /// next one waits for it.
    pub fn lazy_due(&self) -> Option<Timestamp> {
        self.due
    }

    /// What the world still owes; nothing while a fact that matters is not durable. At most one [`Command::WakeAt`].
    pub fn commands(&self, now: Timestamp) -> Vec<Command> {
        if self.urgent || self.in_flight.is_some_and(|batch| batch.urgent) {
            return Vec::new();
        }
        let mut commands = pending(&self.state, now);
        // While a batch is on its way nothing can be flushed, so there is nothing to wake up for.
        let flush = self.lazy_due().filter(|_| self.in_flight.is_none());
        let wake = |command: &Command| match command {
            Command::WakeAt(at) => Some(*at),
            _ => None,
        };
        let earliest = commands.iter().filter_map(wake).chain(flush).min();
        commands.retain(|command| wake(command).is_none());
        commands.extend(earliest.map(Command::WakeAt));
        commands
    }
}
