//! Events read from the log.

use tidegate_lifecycle::operation::{Event, EventEmitter, EventKind, OperationEvent};
use tidegate_model::OperationId;
use tidegate_oplog::{History, LogError, OperationLog, TypedLog as _};

/// Reason for a gap in the events.
#[derive(Debug, thiserror::Error)]
pub enum EventGap {
    /// The oldest records of an open operation were compacted. The stream continues with the first remaining
    /// one.
    #[error("events of operation {operation} after number {after} and before {first} are no longer stored")]
    Compacted {
        /// ID of the requested operation.
        operation: OperationId,
        /// Requested start: all events after this record number.
        after: u64,
        /// Number of the first remaining record.
        first: u64,
    },
    /// The operation has finished, and the log contains only its summary.
    #[error(
        "operation {operation} has finished, and its events after number {after} are no longer stored; \
         `tidegate ops show {operation}` shows the result"
    )]
    Removed {
        /// ID of the requested operation.
        operation: OperationId,
        /// Requested start: all events after this record number.
        after: u64,
    },
    /// The log ends before the requested start. The stream continues with new events.
    #[error(
        "operation {operation} has {last} records, but events after record {after} were requested: the end \
         of the log was lost, or this is a different log"
    )]
    Ahead {
        /// ID of the requested operation.
        operation: OperationId,
        /// Requested start: all events after this record number.
        after: u64,
        /// Number of the last record.
        last: u64,
    },
    /// The log can't be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Logged events of an operation after a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The available events, in order.
    pub events: Vec<Event>,
    /// Number of the last record.
    pub last: u64,
    /// Unavailable events.
    pub missing: Option<MissingEvents>,
    /// True if no more events will follow.
    pub is_over: bool,
}

/// Reason for unavailable events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingEvents {
    /// Older records were compacted.
    Compacted {
        /// Number of the first remaining record.
        first: u64,
    },
    /// The operation has finished, and the log contains only its summary.
    Removed,
    /// The log has fewer records than requested: it lost its end, or is a different log.
    Ahead,
}

impl Replay {
    /// Returns the gap for a listener that requested the events after record number `after`, if any.
    pub fn event_gap(&self, operation: OperationId, after: u64) -> Option<EventGap> {
        Some(match self.missing? {
            MissingEvents::Compacted { first } => EventGap::Compacted { operation, after, first },
            MissingEvents::Removed => EventGap::Removed { operation, after },
            MissingEvents::Ahead => EventGap::Ahead { operation, after, last: self.last },
        })
    }
}

/// Returns the logged events of an operation after record number `after` (0 for all events), or `None` if the
/// log doesn't contain the operation.
pub fn replay(
    log: &(impl OperationLog + ?Sized),
    operation: OperationId,
    after: u64,
) -> Result<Option<Replay>, LogError> {
    let Some(entry) = log.entry_as::<OperationEvent>(operation)? else { return Ok(None) };
    let ended = !entry.summary.is_open();
    if after == entry.sequence && ended {
        return Ok(Some(Replay { events: Vec::new(), last: after, missing: None, is_over: true }));
    }
    let History { first_sequence: first, events: records, .. } =
        match log.events_as::<OperationEvent>(operation) {
            Err(LogError::Compacted { .. }) => {
                let gone = if after > entry.sequence { MissingEvents::Ahead } else { MissingEvents::Removed };
                return Ok(Some(Replay {
                    events: Vec::new(),
                    last: entry.sequence,
                    missing: Some(gone),
                    is_over: true,
                }));
            }
            history => history?,
        };
    let mut emitter = restore_emitter(log, operation, first, &records)?;
    let emitted = records.iter().filter_map(|record| emitter.emit(record));
    let events: Vec<Event> = emitted.filter(|event| event.sequence > after).collect();
    let last = emitter.sequence();
    let missing = match first.saturating_sub(1) {
        _ if after > last => Some(MissingEvents::Ahead),
        before if before > after => Some(MissingEvents::Compacted { first }),
        _ => None,
    };
    let is_over = ended || events.last().is_some_and(|last| matches!(last.what, EventKind::Finished { .. }));
    Ok(Some(Replay { events, last, missing, is_over }))
}

/// Creates the event emitter for these records. Starts from a snapshot if the first records were compacted.
fn restore_emitter(
    log: &(impl OperationLog + ?Sized),
    operation: OperationId,
    first: u64,
    events: &[OperationEvent],
) -> Result<EventEmitter, LogError> {
    if first <= 1 {
        return Ok(EventEmitter::default());
    }
    let snapshot = log.load_as::<OperationEvent>(operation)?.snapshot;
    let state = snapshot.map(|(_, state)| state).unwrap_or_default();
    Ok(EventEmitter::from_later_state(&state, first.saturating_sub(1), events))
}
