//! A stream of events: first what the log has, then what is told, without gap or repetition.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Event, Fact};
use tidegate_model::OperationId;
use tidegate_oplog::{LogError, Lookup, TypedLog as _};
use tokio::sync::broadcast::{self, error::RecvError};

use super::announcer::{Announcer, Told};
use super::replay::{Missed, replay};
use crate::log::Log;
use crate::log::blocking;

/// With so many operations seen, it is looked which of them the log has forgotten.
const SEEN_MANY: usize = 4096;

/// How far somebody has seen the events of all operations: of each the number of the last fact. Kept by the consumer, as
/// durable as what it makes of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen(BTreeMap<OperationId, u64>);

impl Seen {
    /// An event was seen.
    pub fn note(&mut self, event: &Event) {
        self.pass(event.operation, event.sequence);
    }

    /// Everything of an operation up to a number counts as seen. A lower number than before changes nothing.
    pub fn pass(&mut self, operation: OperationId, sequence: u64) {
        let seen = self.0.entry(operation).or_default();
        *seen = sequence.max(*seen);
    }

    /// Without what a log no longer has, of which nothing will be told.
    #[must_use]
    pub fn among(mut self, recorded: &Self) -> Self {
        self.0.retain(|operation, _| recorded.0.contains_key(operation));
        self
    }

    /// The number up to which an operation was seen; 0 if it never was.
    pub fn of(&self, operation: OperationId) -> u64 {
        self.0.get(&operation).copied().unwrap_or_default()
    }
}

/// How far the log goes now.
pub(crate) async fn recorded(log: &Log) -> Result<Seen, LogError> {
    let entries = blocking(log, |log| log.find_as::<Fact>(Lookup::all())).await?;
    Ok(Seen(entries.into_iter().map(|entry| (entry.stream.into(), entry.sequence)).collect()))
}

/// Whose events are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    One(OperationId),
    All,
}

/// Events of one operation, or of all. Each event after what was named as seen comes once, those of one operation in
/// order; what cannot be told is named. A slow reader loses nothing and holds up nobody: it reads the log.
pub struct Events {
    of: Of,
    log: Log,
    live: broadcast::Receiver<Arc<Told>>,
    /// Everything up to here is ready, or was given out.
    seen: Seen,
    ready: VecDeque<Result<Event, Missed>>,
    /// What is to be read from the log.
    behind: BTreeSet<OperationId>,
    /// Which operations are to be read is not known.
    lost: bool,
    /// With more operations seen than this, those that the log has forgotten are.
    most: usize,
    /// Nothing follows what is ready.
    is_over: bool,
}

impl Events {
    pub(crate) fn of_one(log: &Log, announcer: &Announcer, operation: OperationId, after: u64) -> Self {
        let mut seen = Seen::default();
        seen.pass(operation, after);
        let stream = Self::new(Of::One(operation), log, announcer, seen);
        Self { behind: BTreeSet::from([operation]), ..stream }
    }

    pub(crate) fn of_all(log: &Log, announcer: &Announcer, seen: Seen) -> Self {
        Self { lost: true, ..Self::new(Of::All, log, announcer, seen) }
    }

    pub(crate) async fn from_now(log: &Log, announcer: &Announcer) -> Result<Self, LogError> {
        let stream = Self::new(Of::All, log, announcer, Seen::default());
        Ok(Self { seen: recorded(log).await?, ..stream })
    }

    /// Listens before anything is read, so nothing falls in between.
    fn new(of: Of, log: &Log, announcer: &Announcer, seen: Seen) -> Self {
        Self {
            of,
            log: Arc::clone(log),
            live: match of {
                Of::One(operation) => announcer.listen_to(operation),
                Of::All => announcer.listen(),
            },
            seen,
            ready: VecDeque::new(),
            behind: BTreeSet::new(),
            lost: false,
            most: SEEN_MANY,
            is_over: false,
        }
    }

    /// The next event. `None` when none will follow: the operation is over, or the engine has stopped. May be given up at
    /// any moment and asked again.
    pub async fn next(&mut self) -> Option<Result<Event, Missed>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.is_over {
                return None;
            }
            if self.lost || self.seen.0.len() > self.most {
                self.look().await;
            } else if let Some(operation) = self.behind.first().copied() {
                self.read(operation).await;
            } else {
                match self.live.recv().await {
                    Ok(told) => self.hear(&told),
                    Err(RecvError::Lagged(_)) => self.lost = true,
                    Err(RecvError::Closed) => self.is_over = true,
                }
            }
        }
    }

    fn hear(&mut self, told: &Told) {
        if self.of != Of::All && self.of != Of::One(told.operation) {
            return;
        }
        let seen = self.seen.of(told.operation);
        if told.after > seen {
            self.behind.insert(told.operation);
            return;
        }
        self.give(told.operation, told.events.iter().filter(|event| event.sequence > seen).cloned());
        self.seen.pass(told.operation, told.last);
    }

    fn give(&mut self, operation: OperationId, events: impl IntoIterator<Item = Event>) {
        for event in events {
            use tidegate_lifecycle::operation::EventKind::Finished;
            self.is_over |= self.of == Of::One(operation) && matches!(event.what, Finished { .. });
            self.ready.push_back(Ok(event));
        }
    }

    /// Finds out which operations have gone on.
    async fn look(&mut self) {
        if let Of::One(operation) = self.of {
            self.behind.insert(operation);
            self.lost = false;
            return;
        }
        let Seen(there) = match recorded(&self.log).await {
            Ok(there) => there,
            Err(error) => {
                self.ready.push_back(Err(error.into()));
                self.is_over = true;
                return;
            }
        };
        self.lost = false;
        self.behind.extend(there.iter().filter(|(id, last)| **last != self.seen.of(**id)).map(|(id, _)| *id));
        self.seen.0.retain(|operation, _| there.contains_key(operation));
        self.most = self.seen.0.len().saturating_mul(2).max(SEEN_MANY);
    }

    async fn read(&mut self, operation: OperationId) {
        let after = self.seen.of(operation);
        let read = blocking(&self.log, move |log| replay(log.as_ref(), operation, after)).await;
        self.behind.remove(&operation);
        let only = self.of == Of::One(operation);
        match read {
            // It is on its way to the log, or was forgotten meanwhile.
            Ok(None) => {}
            Ok(Some(replay)) => {
                self.ready.extend(replay.missed(operation, after).map(Err));
                self.give(operation, replay.events);
                self.seen.0.insert(operation, replay.last);
                self.is_over |= only && replay.is_over;
            }
            Err(error) => {
                self.ready.push_back(Err(error.into()));
                self.is_over |= only;
                self.skip(operation).await;
            }
        }
    }

    /// What cannot be read once is not tried again and again.
    async fn skip(&mut self, operation: OperationId) {
        let entry = blocking(&self.log, move |log| log.entry_as::<Fact>(operation)).await;
        if let Ok(Some(entry)) = entry {
            self.seen.pass(operation, entry.sequence);
        }
    }
}
