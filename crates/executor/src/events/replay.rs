//! Events, read from the log.

use tidegate_lifecycle::operation::{Event, EventKind, Fact, Narrator};
use tidegate_model::OperationId;
use tidegate_oplog::{History, LogError, OperationLog, TypedLog as _};

/// Events that cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum Missed {
    /// The oldest facts of an open operation were compacted. The stream goes on with the first that is still there.
    #[error(
        "operation {operation}: what happened after number {after} and before {first} is not kept any more"
    )]
    Compacted {
        /// Id of the operation whose events were asked for.
        operation: OperationId,
        /// What was asked for: everything after this number.
        after: u64,
        /// Number of the first fact that is still there.
        first: u64,
    },
    /// An operation is over, and only its summary is kept.
    #[error(
        "operation {operation} is over, and what happened after number {after} is not kept any more; `tidegate ops show {operation}` has its result"
    )]
    Forgotten {
        /// Id of the operation whose events were asked for.
        operation: OperationId,
        /// What was asked for: everything after this number.
        after: u64,
    },
    /// The log has less than was seen. The stream goes on with what comes.
    #[error(
        "operation {operation} has {last} records, and number {after} was seen: the log lost its end, or is another one"
    )]
    Ahead {
        /// Id of the operation whose events were asked for.
        operation: OperationId,
        /// What was asked for: everything after this number.
        after: u64,
        /// Number of the last fact there is.
        last: u64,
    },
    /// What the log has cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What the log tells of an operation after a fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The events that are still there, in order.
    pub events: Vec<Event>,
    /// Number of the last fact.
    pub last: u64,
    /// What is not there any more.
    pub gone: Option<Gone>,
    /// No event will follow.
    pub is_over: bool,
}

/// Why not every event after a fact can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Older facts were compacted.
    Before {
        /// Number of the first that is still there.
        first: u64,
    },
    /// The operation is over, and only its summary is kept.
    All,
    /// There are not so many facts: the log lost its end, or is another one.
    Ahead,
}

impl Replay {
    /// What cannot be told to whoever asked for the events of an operation after a number.
    pub fn missed(&self, operation: OperationId, after: u64) -> Option<Missed> {
        Some(match self.gone? {
            Gone::Before { first } => Missed::Compacted { operation, after, first },
            Gone::All => Missed::Forgotten { operation, after },
            Gone::Ahead => Missed::Ahead { operation, after, last: self.last },
        })
    }
}

/// What the log tells of an operation after the fact with a number; after 0 it is everything. `None` when the log does
/// not know the operation.
pub fn replay(
    log: &(impl OperationLog + ?Sized),
    operation: OperationId,
    after: u64,
) -> Result<Option<Replay>, LogError> {
    let Some(entry) = log.entry_as::<Fact>(operation)? else { return Ok(None) };
    let ended = !entry.summary.is_open();
    if after == entry.sequence && ended {
        return Ok(Some(Replay { events: Vec::new(), last: after, gone: None, is_over: true }));
    }
    let History { first_sequence: first, facts, .. } = match log.facts_as::<Fact>(operation) {
        Err(LogError::Compacted { .. }) => {
            let gone = if after > entry.sequence { Gone::Ahead } else { Gone::All };
            return Ok(Some(Replay {
                events: Vec::new(),
                last: entry.sequence,
                gone: Some(gone),
                is_over: true,
            }));
        }
        history => history?,
    };
    let mut narrator = narrator(log, operation, first, &facts)?;
    let told = facts.iter().filter_map(|fact| narrator.tell(fact));
    let events: Vec<Event> = told.filter(|event| event.sequence > after).collect();
    let last = narrator.sequence();
    let gone = match first.saturating_sub(1) {
        _ if after > last => Some(Gone::Ahead),
        before if before > after => Some(Gone::Before { first }),
        _ => None,
    };
    let is_over = ended || events.last().is_some_and(|last| matches!(last.what, EventKind::Finished { .. }));
    Ok(Some(Replay { events, last, gone, is_over }))
}

/// What tells these facts: where the first ones are gone, a snapshot says what they were about.
fn narrator(
    log: &(impl OperationLog + ?Sized),
    operation: OperationId,
    first: u64,
    facts: &[Fact],
) -> Result<Narrator, LogError> {
    if first <= 1 {
        return Ok(Narrator::default());
    }
    let snapshot = log.load_as::<Fact>(operation)?.snapshot;
    let state = snapshot.map(|(_, state)| state).unwrap_or_default();
    Ok(Narrator::of_later(&state, first.saturating_sub(1), facts))
}
