//! Loop around a pure machine, shared by all machines: decide → apply → make durable → execute outstanding
//! commands.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::Timestamp;

use crate::machine::{AffectedSubjects, IllegalEvent, Machine, Outstanding, Urgency};

/// Maximum time that a lazy event stays buffered so that it can share a write. Losing it in a crash is
/// harmless.
pub const LAZY_EVENT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum time before the reason for a wait is written. A reason lost in a crash can't be reconstructed.
pub const STATUS_EVENT_WAIT_MAX: Duration = Duration::from_millis(100);
/// Minimum number of events between two snapshots, which limit the replay in a recovery.
/// A larger [snapshot weight](Machine::snapshot_weight) takes precedence, so that snapshots never cost more
/// to write than events.
pub const SNAPSHOT_INTERVAL_MIN: u64 = 512;
/// Maximum number of events per machine. A machine that exceeds it is assumed to be stuck in a loop, and
/// fails.
pub const EVENTS_MAX: u64 = 5_000_000;

/// Driver of a single machine. It sits between the machine's log and its effects, and does no I/O itself.
///
/// # Contract
///
/// 1. Pass inputs: call [`Driver::handle_input`] any number of times, then [`Driver::advance`].
/// 2. If [`Driver::take_batch`] returns a batch, append it to the log and make it durable. Then call
///    [`Driver::mark_persisted`]. At most one batch is in flight.
/// 3. Publish the events of the durable batch, and execute the commands from [`Driver::outstanding`]. Skip
///    commands that are already in flight. Executing a command twice is harmless.
/// 4. Results of commands, observations and the requested wake-up are new inputs. Continue with step 1.
///
/// If the log rejects a batch, or the driver reports [`DriverError::IllegalEvent`], drop the driver. Its
/// changes that aren't in the log are lost.
#[derive(Clone, Debug)]
pub struct Driver<M: Machine> {
    state: M::State,
    /// Sequence number of the last event applied to `state`.
    sequence: u64,
    /// Sequence number of the last durable event.
    durable_sequence: u64,
    /// Events not yet handed out in a batch.
    buffer: Vec<M::Event>,
    /// True if the buffer contains an event that must be durable before commands run.
    has_urgent_event: bool,
    /// Time by which the buffered events must be written.
    flush_at: Option<Timestamp>,
    /// Batch in flight. Commands wait while a batch with an urgent event is in flight.
    in_flight: Option<BatchInFlight>,
    /// Sequence number of the last event covered by the newest snapshot.
    snapshot_sequence: u64,
    /// Subjects whose outstanding commands may have changed since the last call to
    /// [`Driver::take_affected_subjects`].
    affected_subjects: AffectedSubjects<M::Subject>,
    /// Subjects whose subscriptions must restart.
    restarted_subjects: BTreeSet<M::Subject>,
}

#[derive(Debug, Clone, Copy)]
struct BatchInFlight {
    last_sequence: u64,
    has_urgent_event: bool,
}

/// Events to make durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<E, S> {
    /// Sequence number of the first event.
    pub first_sequence: u64,
    /// Events, ordered by sequence number. Empty only if the batch just rewrites the summary.
    pub events: Vec<E>,
    /// State after the last event, if a snapshot is due.
    pub snapshot: Option<S>,
}

/// Batch of a machine's events.
pub type MachineBatch<M> = Batch<<M as Machine>::Event, <M as Machine>::State>;

impl<E, S> Batch<E, S> {
    /// Returns the sequence number of the last event.
    pub fn last_sequence(&self) -> u64 {
        let count = u64::try_from(self.events.len()).unwrap_or(u64::MAX);
        self.first_sequence.saturating_add(count).saturating_sub(1)
    }
}

/// Reason why a driver can't continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError<R: std::error::Error> {
    /// An event from the machine or from the log doesn't fit the state.
    #[error(transparent)]
    IllegalEvent(#[from] IllegalEvent),
    /// The input was rejected.
    #[error("{0}")]
    Rejected(#[source] R),
}

/// Error that stops the driver of machine `M`.
pub type MachineDriverError<M> = DriverError<<M as Machine>::Rejection>;

impl<M: Machine> Default for Driver<M> {
    fn default() -> Self {
        Self::from_state(M::State::default(), 0)
    }
}

impl<M: Machine> Driver<M> {
    fn from_state(state: M::State, sequence: u64) -> Self {
        Self {
            state,
            sequence,
            durable_sequence: sequence,
            buffer: Vec::new(),
            has_urgent_event: false,
            flush_at: None,
            in_flight: None,
            snapshot_sequence: sequence,
            affected_subjects: AffectedSubjects::All,
            restarted_subjects: BTreeSet::new(),
        }
    }

    /// Restores a driver from the log. To create a new driver, recover from an empty log.
    pub fn recover(
        snapshot: Option<(u64, M::State)>,
        events: impl IntoIterator<Item = M::Event>,
    ) -> Result<Self, IllegalEvent> {
        let (covered, mut state) = snapshot.unwrap_or_default();
        let mut sequence = covered;
        for event in events {
            state = M::apply(state, &event)?;
            sequence = sequence.saturating_add(1);
        }
        Ok(Self { snapshot_sequence: covered, ..Self::from_state(state, sequence) })
    }

    /// Returns the state, including events that aren't durable yet.
    pub fn state(&self) -> &M::State {
        &self.state
    }

    /// Returns the sequence number of the last event, durable or not.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Handles one input. Ignores late and repeated results.
    pub fn handle_input(&mut self, input: &M::Input, now: Timestamp) -> Result<(), MachineDriverError<M>> {
        match M::decide(&self.state, input, now) {
            Ok(events) => {
                events.into_iter().try_for_each(|event| self.record_event(event, now)).map_err(Into::into)
            }
            Err(rejection) if M::is_late(&rejection) => Ok(()),
            Err(rejection) => Err(DriverError::Rejected(rejection)),
        }
    }

    /// Performs all automatic transitions that are due.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), MachineDriverError<M>> {
        loop {
            let events = M::advance(&self.state, now);
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                self.record_event(event, now)?;
            }
            if self.sequence > EVENTS_MAX {
                let reason = format!("the limit of {EVENTS_MAX} recorded events was reached");
                return self.handle_input(&M::abort_input(reason), now);
            }
        }
    }

    fn record_event(&mut self, event: M::Event, now: Timestamp) -> Result<(), IllegalEvent> {
        self.affected_subjects.merge(M::affected_subjects(&self.state, &event));
        self.restarted_subjects.extend(M::restarted_subjects(&self.state, &event));
        let urgency = M::urgency(&self.state, &event);
        self.state = M::apply(std::mem::take(&mut self.state), &event)?;
        self.sequence = self.sequence.saturating_add(1);
        let wait = match urgency {
            Urgency::Now => {
                self.has_urgent_event = true;
                Duration::ZERO
            }
            Urgency::Within(wait) => wait,
        };
        self.flush_at = self.flush_at.into_iter().chain([now + wait]).min();
        self.buffer.push(event);
        Ok(())
    }

    /// Returns the events to make durable now, or `None` if the buffer is empty, a batch is in flight, or
    /// every buffered event can still wait. Urgent events never wait; with `flush`, none do.
    pub fn take_batch(&mut self, now: Timestamp, flush: bool) -> Option<MachineBatch<M>> {
        let is_due = self.has_urgent_event || flush || self.flush_at.is_some_and(|due| now >= due);
        if self.buffer.is_empty() || !is_due || self.in_flight.is_some() {
            return None;
        }
        let events = std::mem::take(&mut self.buffer);
        self.in_flight =
            Some(BatchInFlight { last_sequence: self.sequence, has_urgent_event: self.has_urgent_event });
        self.has_urgent_event = false;
        self.flush_at = None;
        let interval = M::snapshot_weight(&self.state).max(SNAPSHOT_INTERVAL_MIN);
        let is_snapshot_due =
            self.sequence.saturating_sub(self.snapshot_sequence) >= interval && !M::is_over(&self.state);
        if is_snapshot_due {
            self.snapshot_sequence = self.sequence;
        }
        Some(Batch {
            first_sequence: self.durable_sequence.saturating_add(1),
            events,
            snapshot: is_snapshot_due.then(|| self.state.clone()),
        })
    }

    /// Marks the batch in flight as durable.
    pub fn mark_persisted(&mut self) {
        if let Some(batch) = self.in_flight.take() {
            self.durable_sequence = batch.last_sequence;
        }
    }

    /// Returns an empty batch that only rewrites the summary. Handle it like any other batch.
    pub fn take_summary_batch(&mut self) -> Option<MachineBatch<M>> {
        if self.in_flight.is_some() || !self.buffer.is_empty() {
            return None;
        }
        self.in_flight = Some(BatchInFlight { last_sequence: self.sequence, has_urgent_event: true });
        Some(Batch { first_sequence: self.sequence.saturating_add(1), events: Vec::new(), snapshot: None })
    }

    /// Returns true if a batch is in flight.
    pub fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns the time by which the buffered events must be written. Returns `None` while a batch is in
    /// flight, because the next batch has to wait for it.
    pub fn flush_at(&self) -> Option<Timestamp> {
        self.flush_at.filter(|_| self.in_flight.is_none())
    }

    /// Returns true if commands may run: all urgent events are durable.
    pub fn can_execute(&self) -> bool {
        !self.has_urgent_event && !self.in_flight.is_some_and(|batch| batch.has_urgent_event)
    }

    /// Returns the outstanding commands, or `None` while an urgent event isn't durable.
    pub fn outstanding(&self, now: Timestamp) -> Option<Outstanding<M::Command>> {
        self.can_execute().then(|| M::outstanding(&self.state, now))
    }

    /// Returns the subjects whose outstanding commands may have changed since the previous call.
    pub fn take_affected_subjects(&mut self) -> AffectedSubjects<M::Subject> {
        std::mem::replace(&mut self.affected_subjects, AffectedSubjects::none())
    }

    /// Returns the subjects whose subscriptions must restart because of events since the previous call.
    pub fn take_restarted_subjects(&mut self) -> BTreeSet<M::Subject> {
        std::mem::take(&mut self.restarted_subjects)
    }
}
