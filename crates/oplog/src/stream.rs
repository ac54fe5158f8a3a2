//! Streams of records, and their metadata.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, StreamId, StreamKind, StreamRecords, Timestamp};

use crate::{InventoryUpdate, Shard};

/// Epoch of a stream's writer. A process that takes over a stream uses a higher epoch than its predecessors,
/// and their appends are rejected from then on ([`crate::LogError::Fenced`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(NonZeroU64);

impl Epoch {
    /// Epoch of a process that doesn't share its log with other processes.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Creates an epoch from its number. Returns `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the stored number, starting at 1.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of a stream for errors: its ID and, if known, its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamName {
    /// ID of the stream.
    pub id: StreamId,
    /// Kind of the stream, or `None` if the kind was unknown when the error occurred.
    pub kind: Option<StreamKind>,
}

impl StreamName {
    /// Creates the name of a stream from its kind and ID.
    pub fn with_kind(kind: StreamKind, id: impl Into<StreamId>) -> Self {
        Self { id: id.into(), kind: Some(kind) }
    }
}

impl From<StreamId> for StreamName {
    fn from(id: StreamId) -> Self {
        Self { id, kind: None }
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind} {}", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// Stored record: its kind within its machine, and its encoded content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Kind of the record, starting at 1.
    pub kind: u16,
    /// Content encoded by the machine's codec, opaque to the log.
    pub content: Vec<u8>,
}

/// Records to append to one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Append<F, S, D> {
    /// ID of the stream. Its first event creates the stream.
    pub stream: StreamId,
    /// Kind of the stream. Never changes.
    pub kind: StreamKind,
    /// Epoch of the writer.
    pub epoch: Epoch,
    /// Sequence number of the first event: one more than the last stored event, or 1 for a new stream.
    pub first_sequence: u64,
    /// Events in order, following the stored events without a gap.
    pub events: Vec<F>,
    /// State after the last of these events, if a snapshot is due.
    pub snapshot: Option<S>,
    /// New summary of the stream.
    pub summary: Summary<D>,
    /// Blobs that the stream refers to from now on. [`crate::OperationLog::compact`] keeps them.
    pub blobs: Vec<Digest>,
    /// Change to an inventory, made atomically with the events.
    pub inventory: Option<InventoryUpdate>,
    /// Shard that stores the stream. Only used by the first append. [default: the shard of the ApplicationSet or application
    /// in the summary]
    pub shard: Option<Shard>,
}

/// Encoded records to append.
pub type RawAppend = Append<Record, Record, Record>;

/// Append of one machine's events.
pub type AppendOf<F> = Append<F, <F as StreamRecords>::Snapshot, <F as StreamRecords>::Details>;

impl<F: StreamRecords> AppendOf<F> {
    /// Creates an append without a snapshot, for a process that doesn't share its log with other processes.
    pub fn new(
        stream: impl Into<StreamId>,
        first_sequence: u64,
        events: Vec<F>,
        summary: Summary<F::Details>,
    ) -> Self {
        Self {
            stream: stream.into(),
            kind: F::KIND,
            epoch: Epoch::FIRST,
            first_sequence,
            events,
            snapshot: None,
            summary,
            blobs: Vec::new(),
            inventory: None,
            shard: None,
        }
    }
}

/// One-line description of a stream by its writer, which outlives the events. Lookups use all fields but the
/// details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary<D> {
    /// Application of the stream, if any.
    pub application: Option<String>,
    /// ApplicationSet that the stream belongs to or originates from, if any.
    pub set: Option<String>,
    /// Start time, according to the clock of the engine that started the stream.
    pub started_at: Timestamp,
    /// End time, or `None` while the stream is open.
    pub finished_at: Option<Timestamp>,
    /// Details that only the stream's machine can interpret.
    pub details: D,
}

impl<D> Summary<D> {
    /// Creates the summary of a stream that belongs to an ApplicationSet.
    pub fn of_appset(set: &str, started_at: Timestamp, finished_at: Option<Timestamp>, details: D) -> Self {
        Self { application: None, set: Some(set.to_owned()), started_at, finished_at, details }
    }

    /// Returns true if the stream hasn't finished.
    pub fn is_open(&self) -> bool {
        self.finished_at.is_none()
    }

    /// Returns the shard of the stream, unless its first append set another one.
    pub(crate) fn default_shard(&self, stream: StreamId) -> Shard {
        match (&self.set, &self.application) {
            (Some(key), _) | (None, Some(key)) => Shard::of_key(key),
            (None, None) => Shard::of_key(stream.0.as_bytes()),
        }
    }
}

/// Listing entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<D> {
    /// ID of the stream.
    pub stream: StreamId,
    /// Recorded kind of the stream, possibly unknown to this program.
    pub kind: StreamKind,
    /// Shard that stores the stream. Never changes.
    pub shard: Shard,
    /// Epoch of the last writer.
    pub epoch: Epoch,
    /// Sequence number of the last event.
    pub sequence: u64,
    /// Newest summary by the stream's writer.
    pub summary: Summary<D>,
}

/// Listing entry of a stream, with encoded details.
pub type RawEntry = Entry<Record>;

/// Listing entry of one machine's stream.
pub type EntryOf<F> = Entry<<F as StreamRecords>::Details>;

/// Stream loaded from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedStream<F, S> {
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Epoch of the last writer.
    pub epoch: Epoch,
    /// The newest snapshot, if any, and the sequence number of the last event it covers.
    pub snapshot: Option<(u64, S)>,
    /// Events after the snapshot, in order.
    pub events: Vec<F>,
    /// Sequence number of the last event.
    pub last_sequence: u64,
}

/// Stream loaded from the log, with encoded records.
pub type RawLoadedStream = LoadedStream<Record, Record>;

/// Stream of one machine, loaded from the log.
pub type LoadedStreamOf<F> = LoadedStream<F, <F as StreamRecords>::Snapshot>;

/// All stored events of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct History<F> {
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Sequence number of the first of these events. Greater than 1 if older events were compacted.
    pub first_sequence: u64,
    /// Events in order.
    pub events: Vec<F>,
}

/// Conditions for a lookup of streams. A stream must meet all of them. Every store uses an index, so the cost
/// depends on the number of results rather than on the size of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// Application of the streams. `None` matches all streams.
    pub application: Option<String>,
    /// ApplicationSet that the streams belong to or originate from. `None` matches all streams.
    pub appset: Option<String>,
    /// `true` for open streams, `false` for finished streams, `None` for both.
    pub open: Option<bool>,
    /// Kind of the streams. `None` matches all kinds.
    pub kind: Option<StreamKind>,
    /// `true` for kinds that this program knows, `false` for unknown kinds, `None` for both.
    pub has_known_kind: Option<bool>,
}

impl Lookup {
    /// Matches streams of all kinds, open and finished.
    pub fn all() -> Self {
        Self::default()
    }

    /// Matches open streams.
    pub fn open() -> Self {
        Self { open: Some(true), ..Self::default() }
    }

    /// Matches an application's streams.
    pub fn of_application(application: impl Into<String>) -> Self {
        Self { application: Some(application.into()), ..Self::default() }
    }

    /// Matches an ApplicationSet's streams.
    pub fn of_appset(set: impl Into<String>) -> Self {
        Self { appset: Some(set.into()), ..Self::default() }
    }

    /// Matches streams of unknown kinds.
    pub fn of_unknown_kinds() -> Self {
        Self { has_known_kind: Some(false), ..Self::default() }
    }

    /// Restricts the lookup to open streams.
    #[must_use]
    pub fn and_open(self) -> Self {
        Self { open: Some(true), ..self }
    }

    /// Restricts the lookup to streams of one kind.
    #[must_use]
    pub fn and_kind(self, kind: StreamKind) -> Self {
        Self { kind: Some(kind), ..self }
    }
}

/// Damage to the log, and the action taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Affected stream, if known.
    pub stream: Option<StreamId>,
    /// Description of the damage and of the action taken, such as `quarantined` or `snapshot dropped`.
    pub reason: String,
    /// Path of the copy of the damaged bytes, if any.
    pub quarantine: Option<PathBuf>,
    /// True if this process found the damage on open, rather than an earlier process.
    pub is_new: bool,
}

/// Partly readable stream, with its remaining data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpairedStream {
    /// ID of the stream.
    pub stream: StreamId,
    /// Listing entry, even of a quarantined stream that lookups don't find. `None` if the entry itself is
    /// lost.
    pub entry: Option<RawEntry>,
    /// Description of the unreadable part and the cause.
    pub reason: String,
}

/// Result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionResult {
    /// Number of streams reduced to a summary.
    pub streams: usize,
    /// Number of streams removed completely.
    pub forgotten: usize,
    /// Number of events removed from finished streams, and from open streams with a snapshot that covers
    /// them.
    pub events: usize,
    /// Number of removed unreferenced blobs.
    pub blobs: usize,
}

impl std::ops::AddAssign for CompactionResult {
    fn add_assign(&mut self, more: Self) {
        self.streams += more.streams;
        self.forgotten += more.forgotten;
        self.events += more.events;
        self.blobs += more.blobs;
    }
}

/// Counters of reads and writes since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Number of groups appended. Each is either completely on disk or not at all.
    pub groups: u64,
    /// Number of events in all appended groups.
    pub events: u64,
    /// Number of flushes to disk: one per group, and more in compactions.
    pub flushes: u64,
    /// Number of blob files written, each with its own sync.
    pub blobs: u64,
    /// Number of database rows looked up or scanned.
    pub reads: u64,
}

/// Number of entries that a log keeps in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEntries {
    /// Number of streams in the index.
    pub streams: usize,
    /// Number of streams and history lines tracked for compaction.
    pub bookkeeping: usize,
    /// Total number of referenced blobs, blobs waiting for a reference, and inventories.
    pub blobs: usize,
}
