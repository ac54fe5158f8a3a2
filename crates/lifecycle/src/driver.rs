//! The loop around a pure machine, written once: decide → make durable → evolve → carry out what is pending.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::Timestamp;

use crate::machine::{Changed, Illegal, Machine, Owed, Urgency};

/// Facts that cost nothing when they are lost wait at most this long for company.
pub const LAZY_WAIT: Duration = Duration::from_secs(2);
/// The same for those that tell people what is awaited and why: nobody can find them again who looks after a crash.
pub const TOLD_WAIT: Duration = Duration::from_millis(100);
/// A snapshot is due after this many facts, so that recovery reads little; or after as many as the state weighs, if these
/// are more, so that writing snapshots costs no more than writing facts.
pub const SNAPSHOT_EVERY: u64 = 512;
/// A machine that records more than this is going round in circles: it is ended with an error.
pub const FACTS_MAX: u64 = 5_000_000;

/// One machine between its log and the world, without I/O.
///
/// # Contract
///
/// 1. Give it what happened: [`Driver::offer`], any number of times, then [`Driver::advance`].
/// 2. If [`Driver::take_batch`] gives a batch, append it to the log and make it durable. Then say so:
///    [`Driver::persisted`]. At most one batch is on its way.
/// 3. Only then announce the batch to anyone, and carry out what is [`Driver::owed`]. Commands may be repeated; leave out
///    those that are already on their way.
/// 4. Answers and sights are new input, and so is the time that was asked for: go to 1.
///
/// If the log refuses a batch, or the driver reports [`DriverError::Illegal`], drop the driver: what it holds beyond the
/// log never happened.
#[derive(Debug)]
pub struct Driver<M: Machine> {
    state: M::State,
    /// Sequence number of the last fact folded into `state`.
    sequence: u64,
    /// Sequence number of the last fact that is durable.
    durable: u64,
    /// Facts not yet handed out.
    buffer: Vec<M::Fact>,
    /// A fact in the buffer that commands must wait for.
    urgent: bool,
    /// When the facts in the buffer have waited long enough for company.
    due: Option<Timestamp>,
    /// A batch is on its way; commands wait if it holds an urgent fact.
    in_flight: Option<InFlight>,
    /// Sequence number the last snapshot covers.
    snapshot: u64,
    /// What may be owed otherwise than when it was last asked.
    changes: Changed<M::Subject>,
    /// What is to be kept up anew.
    renewed: BTreeSet<M::Subject>,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    last: u64,
    urgent: bool,
}

/// Facts to make durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<F, S> {
    /// Sequence number of the first.
    pub first_sequence: u64,
    /// In the order in which they were decided; never empty.
    pub facts: Vec<F>,
    /// The state after the last of them, when a snapshot is due.
    pub snapshot: Option<S>,
}

/// Facts of one machine to make durable, perhaps with a snapshot of its state.
pub type BatchOf<M> = Batch<<M as Machine>::Fact, <M as Machine>::State>;

impl<F, S> Batch<F, S> {
    /// Sequence number of the last fact.
    pub fn last_sequence(&self) -> u64 {
        let count = u64::try_from(self.facts.len()).unwrap_or(u64::MAX);
        self.first_sequence.saturating_add(count).saturating_sub(1)
    }
}

/// Why a driver cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError<R: std::error::Error> {
    /// The machine's own fact, or one from the log, does not fit the state.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// The input was refused.
    #[error("{0}")]
    Rejected(#[source] R),
}

/// Why the driver of one machine cannot go on.
pub type ErrorOf<M> = DriverError<<M as Machine>::Rejection>;

impl<M: Machine> Default for Driver<M> {
    fn default() -> Self {
        Self::at(M::State::default(), 0)
    }
}

impl<M: Machine> Driver<M> {
    fn at(state: M::State, sequence: u64) -> Self {
        Self {
            state,
            sequence,
            durable: sequence,
            buffer: Vec::new(),
            urgent: false,
            due: None,
            in_flight: None,
            snapshot: sequence,
            changes: Changed::All,
            renewed: BTreeSet::new(),
        }
    }

    /// The driver as the log left it. A fresh one is a recovery from an empty log.
    pub fn recover(
        snapshot: Option<(u64, M::State)>,
        facts: impl IntoIterator<Item = M::Fact>,
    ) -> Result<Self, Illegal> {
        let (covered, mut state) = snapshot.unwrap_or_default();
        let mut sequence = covered;
        for fact in facts {
            state = M::evolve(state, &fact)?;
            sequence = sequence.saturating_add(1);
        }
        Ok(Self { snapshot: covered, ..Self::at(state, sequence) })
    }

    /// The state, including facts that are not durable yet.
    pub fn state(&self) -> &M::State {
        &self.state
    }

    /// Sequence number of the last fact, durable or not.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Takes in one thing that happened. A late answer is dropped.
    pub fn offer(&mut self, input: &M::Input, now: Timestamp) -> Result<(), ErrorOf<M>> {
        match M::decide(&self.state, input, now) {
            Ok(facts) => facts.into_iter().try_for_each(|fact| self.record(fact, now)).map_err(Into::into),
            Err(rejection) if M::is_late(&rejection) => Ok(()),
            Err(rejection) => Err(DriverError::Rejected(rejection)),
        }
    }

    /// Takes all arrows that follow by themselves.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), ErrorOf<M>> {
        loop {
            let facts = M::follow(&self.state, now);
            if facts.is_empty() {
                return Ok(());
            }
            for fact in facts {
                self.record(fact, now)?;
            }
            if self.sequence > FACTS_MAX {
                let reason = format!("gave up after {FACTS_MAX} recorded facts");
                return self.offer(&M::abort(reason), now);
            }
        }
    }

    fn record(&mut self, fact: M::Fact, now: Timestamp) -> Result<(), Illegal> {
        self.changes.and(M::changes(&self.state, &fact));
        self.renewed.extend(M::renews(&self.state, &fact));
        self.state = M::evolve(std::mem::take(&mut self.state), &fact)?;
        self.sequence = self.sequence.saturating_add(1);
        let wait = match M::urgency(&self.state, &fact) {
            Urgency::Now => {
                self.urgent = true;
                Duration::ZERO
            }
            Urgency::Within(wait) => wait,
        };
        self.due = self.due.into_iter().chain([now + wait]).min();
        self.buffer.push(fact);
        Ok(())
    }

    /// Facts to make durable now, if any: when one of them matters, or when they have waited long enough, or when
    /// `flush` asks for it.
    pub fn take_batch(&mut self, now: Timestamp, flush: bool) -> Option<BatchOf<M>> {
        let ripe = self.urgent || flush || self.due.is_some_and(|due| now >= due);
        if self.buffer.is_empty() || !ripe || self.in_flight.is_some() {
            return None;
        }
        let facts = std::mem::take(&mut self.buffer);
        self.in_flight = Some(InFlight { last: self.sequence, urgent: self.urgent });
        self.urgent = false;
        self.due = None;
        let every = M::weight(&self.state).max(SNAPSHOT_EVERY);
        let due = self.sequence.saturating_sub(self.snapshot) >= every && !M::is_over(&self.state);
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

    /// A batch without facts, which only states anew how it stands. Its way is that of any batch.
    pub fn restate(&mut self) -> Option<BatchOf<M>> {
        if self.in_flight.is_some() || !self.buffer.is_empty() {
            return None;
        }
        self.in_flight = Some(InFlight { last: self.sequence, urgent: true });
        Some(Batch { first_sequence: self.sequence.saturating_add(1), facts: Vec::new(), snapshot: None })
    }

    /// Whether a batch is on its way.
    pub fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// When buffered facts should be made durable even if nothing else happens. While a batch is on its way the next one
    /// waits for it.
    pub fn write_at(&self) -> Option<Timestamp> {
        self.due.filter(|_| self.in_flight.is_none())
    }

    /// Whether commands may be carried out: every fact that matters is durable.
    pub fn may_act(&self) -> bool {
        !self.urgent && !self.in_flight.is_some_and(|batch| batch.urgent)
    }

    /// What the world owes; `None` while a fact that matters is not durable.
    pub fn owed(&self, now: Timestamp) -> Option<Owed<M::Command>> {
        self.may_act().then(|| M::pending(&self.state, now))
    }

    /// What may be owed otherwise than when this was asked before.
    pub fn take_changes(&mut self) -> Changed<M::Subject> {
        std::mem::replace(&mut self.changes, Changed::nothing())
    }

    /// About what whatever is kept up is to be begun anew, since this was asked before.
    pub fn take_renewed(&mut self) -> BTreeSet<M::Subject> {
        std::mem::take(&mut self.renewed)
    }
}
