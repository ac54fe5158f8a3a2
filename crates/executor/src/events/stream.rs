//! A stream of events: first the events in the log, then live events, without gaps or repetitions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Event, OperationEvent};
use tidegate_model::OperationId;
use tidegate_oplog::{LogError, Lookup, TypedLog as _};
use tokio::sync::broadcast::{self, error::RecvError};

use super::broadcaster::{EventBatch, EventBroadcaster};
use super::replay::{EventGap, replay};
use crate::log::Log;
use crate::log::run_blocking;

/// Number of operations in a cursor that triggers the removal of operations that aren't in the log anymore.
const CURSOR_CLEANUP_THRESHOLD: usize = 4096;

/// Position in the events of all operations: the number of the last record seen for each. Consumers must
/// store it as durably as their own results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventCursor(BTreeMap<OperationId, u64>);

impl EventCursor {
    /// Records an event as seen.
    pub fn record(&mut self, event: &Event) {
        self.advance(event.operation, event.sequence);
    }

    /// Marks all events of an operation up to `sequence` as seen. Never moves backward.
    pub fn advance(&mut self, operation: OperationId, sequence: u64) {
        let seen = self.0.entry(operation).or_default();
        *seen = sequence.max(*seen);
    }

    /// Removes operations that have left the log, because no more events will follow.
    #[must_use]
    pub fn retain_logged(mut self, recorded: &Self) -> Self {
        self.0.retain(|operation, _| recorded.0.contains_key(operation));
        self
    }

    /// Returns the number of the last record seen of an operation, or 0.
    pub fn last_seen(&self, operation: OperationId) -> u64 {
        self.0.get(&operation).copied().unwrap_or_default()
    }
}

/// Returns the current end of the log.
pub(crate) async fn read_log_end(log: &Log) -> Result<EventCursor, LogError> {
    let entries = run_blocking(log, |log| log.find_as::<OperationEvent>(Lookup::all())).await?;
    Ok(EventCursor(entries.into_iter().map(|entry| (entry.stream.into(), entry.sequence)).collect()))
}

/// Operations that a stream covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationFilter {
    One(OperationId),
    All,
}

/// Events of one operation or of all. Each event after the starting position is delivered once, in order
/// within each operation. Unavailable events are reported. A slow reader falls back to the log, so it neither
/// loses events nor delays others.
pub struct EventStream {
    filter: OperationFilter,
    log: Log,
    live: broadcast::Receiver<Arc<EventBatch>>,
    /// Position of the last event delivered or ready.
    cursor: EventCursor,
    ready: VecDeque<Result<Event, EventGap>>,
    /// Operations with events to read from the log.
    lagging: BTreeSet<OperationId>,
    /// True if any operation may have events to read from the log.
    is_lagging_unknown: bool,
    /// Number of operations in the cursor that triggers the removal of operations that aren't in the log
    /// anymore.
    cleanup_threshold: usize,
    /// True if no more events will follow the ready ones.
    is_over: bool,
}

impl EventStream {
    pub(crate) fn for_operation(
        log: &Log,
        announcer: &EventBroadcaster,
        operation: OperationId,
        after: u64,
    ) -> Self {
        let mut seen = EventCursor::default();
        seen.advance(operation, after);
        let stream = Self::new(OperationFilter::One(operation), log, announcer, seen);
        Self { lagging: BTreeSet::from([operation]), ..stream }
    }

    pub(crate) fn for_all(log: &Log, announcer: &EventBroadcaster, seen: EventCursor) -> Self {
        Self { is_lagging_unknown: true, ..Self::new(OperationFilter::All, log, announcer, seen) }
    }

    pub(crate) async fn from_now(log: &Log, announcer: &EventBroadcaster) -> Result<Self, LogError> {
        let stream = Self::new(OperationFilter::All, log, announcer, EventCursor::default());
        Ok(Self { cursor: read_log_end(log).await?, ..stream })
    }

    /// Creates a stream. Subscribes before reading the log, so that no event is missed.
    fn new(filter: OperationFilter, log: &Log, announcer: &EventBroadcaster, cursor: EventCursor) -> Self {
        Self {
            filter,
            log: Arc::clone(log),
            live: match filter {
                OperationFilter::One(operation) => announcer.subscribe_to(operation),
                OperationFilter::All => announcer.subscribe(),
            },
            cursor,
            ready: VecDeque::new(),
            lagging: BTreeSet::new(),
            is_lagging_unknown: false,
            cleanup_threshold: CURSOR_CLEANUP_THRESHOLD,
            is_over: false,
        }
    }

    /// Returns the next event, or `None` once the operation has finished or the engine has stopped. Cancel
    /// safe.
    pub async fn next(&mut self) -> Option<Result<Event, EventGap>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.is_over {
                return None;
            }
            if self.is_lagging_unknown || self.cursor.0.len() > self.cleanup_threshold {
                self.find_new_records().await;
            } else if let Some(operation) = self.lagging.first().copied() {
                self.read_operation(operation).await;
            } else {
                match self.live.recv().await {
                    Ok(batch) => self.receive(&batch),
                    Err(RecvError::Lagged(_)) => self.is_lagging_unknown = true,
                    Err(RecvError::Closed) => self.is_over = true,
                }
            }
        }
    }

    fn receive(&mut self, batch: &EventBatch) {
        if self.filter != OperationFilter::All && self.filter != OperationFilter::One(batch.operation) {
            return;
        }
        let seen = self.cursor.last_seen(batch.operation);
        if batch.after > seen {
            self.lagging.insert(batch.operation);
            return;
        }
        self.deliver(batch.operation, batch.events.iter().filter(|event| event.sequence > seen).cloned());
        self.cursor.advance(batch.operation, batch.last);
    }

    fn deliver(&mut self, operation: OperationId, events: impl IntoIterator<Item = Event>) {
        for event in events {
            use tidegate_lifecycle::operation::EventKind::Finished;
            self.is_over |=
                self.filter == OperationFilter::One(operation) && matches!(event.what, Finished { .. });
            self.ready.push_back(Ok(event));
        }
    }

    /// Finds the operations with new records.
    async fn find_new_records(&mut self) {
        if let OperationFilter::One(operation) = self.filter {
            self.lagging.insert(operation);
            self.is_lagging_unknown = false;
            return;
        }
        let EventCursor(there) = match read_log_end(&self.log).await {
            Ok(there) => there,
            Err(error) => {
                self.ready.push_back(Err(error.into()));
                self.is_over = true;
                return;
            }
        };
        self.is_lagging_unknown = false;
        self.lagging.extend(
            there.iter().filter(|(id, last)| **last != self.cursor.last_seen(**id)).map(|(id, _)| *id),
        );
        self.cursor.0.retain(|operation, _| there.contains_key(operation));
        self.cleanup_threshold = self.cursor.0.len().saturating_mul(2).max(CURSOR_CLEANUP_THRESHOLD);
    }

    async fn read_operation(&mut self, operation: OperationId) {
        let after = self.cursor.last_seen(operation);
        let read = run_blocking(&self.log, move |log| replay(log.as_ref(), operation, after)).await;
        self.lagging.remove(&operation);
        let only = self.filter == OperationFilter::One(operation);
        match read {
            // The operation's records are still in flight, or have been removed in the meantime.
            Ok(None) => {}
            Ok(Some(replay)) => {
                self.ready.extend(replay.event_gap(operation, after).map(Err));
                self.deliver(operation, replay.events);
                self.cursor.0.insert(operation, replay.last);
                self.is_over |= only && replay.is_over;
            }
            Err(error) => {
                self.ready.push_back(Err(error.into()));
                self.is_over |= only;
                self.skip_operation(operation).await;
            }
        }
    }

    /// Skips an unreadable operation, so that the stream doesn't keep trying to read it.
    async fn skip_operation(&mut self, operation: OperationId) {
        let entry = run_blocking(&self.log, move |log| log.entry_as::<OperationEvent>(operation)).await;
        if let Ok(Some(entry)) = entry {
            self.cursor.advance(operation, entry.sequence);
        }
    }
}
