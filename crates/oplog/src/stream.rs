//! What a log is made of: streams of records, and what is said about each.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, Records, StreamId, StreamKind, Timestamp};

use crate::InventoryUpdate;

/// Which of the processes that may write to a stream writes. Whoever takes a stream over writes with a higher epoch than
/// all before; what an earlier one still offers is refused ([`crate::LogError::Fenced`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(NonZeroU64);

impl Epoch {
    /// That of a process which has its log for itself.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The epoch with a number, from 1.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number that the log records, from 1.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A stream as errors name it: by what it is, where that is known, and its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamName {
    /// Its id, which every stream has.
    pub id: StreamId,
    /// The machine it belongs to; `None` where that was not known when the error arose.
    pub kind: Option<StreamKind>,
}

impl StreamName {
    /// A stream of a known kind.
    pub fn of(kind: StreamKind, id: impl Into<StreamId>) -> Self {
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

/// A record as the log keeps it: its kind among those of its machine, and its content as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which kind of record this is, from 1.
    pub kind: u16,
    /// As its machine's codec wrote it; the log does not look into it.
    pub content: Vec<u8>,
}

/// Records of one stream to append.
#[derive(Clone, Debug, PartialEq)]
pub struct Append<F, S, D> {
    /// Id of the stream, which begins with its first fact.
    pub stream: StreamId,
    /// What it is. A stream never changes its kind.
    pub kind: StreamKind,
    /// Which of its writers writes.
    pub epoch: Epoch,
    /// Sequence number of the first fact: one more than the last one kept; the first fact of all has 1.
    pub first_sequence: u64,
    /// In order, and without gaps after those that are there.
    pub facts: Vec<F>,
    /// The state after the last of these facts, when a snapshot is due.
    pub snapshot: Option<S>,
    /// The stream's new summary.
    pub summary: Summary<D>,
    /// Blobs the stream refers to from now on, for [`crate::OperationLog::compact`].
    pub blobs: Vec<Digest>,
    /// What changes in an inventory; with the facts or not at all.
    pub inventory: Option<InventoryUpdate>,
}

/// Records to append, as bytes.
pub type RawAppend = Append<Record, Record, Record>;

/// Facts of one machine to append.
pub type AppendOf<F> = Append<F, <F as Records>::Snapshot, <F as Records>::Details>;

impl<F: Records> AppendOf<F> {
    /// Facts without a snapshot, written by a process that has its log for itself.
    pub fn new(
        stream: impl Into<StreamId>,
        first_sequence: u64,
        facts: Vec<F>,
        summary: Summary<F::Details>,
    ) -> Self {
        Self {
            stream: stream.into(),
            kind: F::KIND,
            epoch: Epoch::FIRST,
            first_sequence,
            facts,
            snapshot: None,
            summary,
            blobs: Vec::new(),
            inventory: None,
        }
    }
}

/// What a stream's writer says about it: one line, kept longer than its facts. All but the details also is the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary<D> {
    /// The application it is about, if it is about one.
    pub application: Option<String>,
    /// The ApplicationSet it is about, or comes from.
    pub set: Option<String>,
    /// By the clock of the engine that began it.
    pub started_at: Timestamp,
    /// When it ended; `None` while it is open.
    pub finished_at: Option<Timestamp>,
    /// What only its machine understands.
    pub details: D,
}

impl<D> Summary<D> {
    /// Whether it is not over.
    pub fn is_open(&self) -> bool {
        self.finished_at.is_none()
    }
}

/// A stream as the log lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<D> {
    /// Its id.
    pub stream: StreamId,
    /// The machine it belongs to, as it was recorded; perhaps one that this program does not know.
    pub kind: StreamKind,
    /// Who wrote to it last.
    pub epoch: Epoch,
    /// Sequence number of its last fact.
    pub sequence: u64,
    /// What its writer says about it.
    pub summary: Summary<D>,
}

/// A stream as the log lists it, with details as bytes.
pub type RawEntry = Entry<Record>;

/// A stream of one machine, as the log lists it.
pub type EntryOf<F> = Entry<<F as Records>::Details>;

/// A stream as read from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<F, S> {
    /// The machine it belongs to.
    pub kind: StreamKind,
    /// Who wrote to it last.
    pub epoch: Epoch,
    /// The newest snapshot and the sequence number of the last fact it covers.
    pub snapshot: Option<(u64, S)>,
    /// The facts after the snapshot, in order.
    pub facts: Vec<F>,
    /// Sequence number of the last fact.
    pub last_sequence: u64,
}

/// A stream as read from the log, as bytes.
pub type RawLoaded = Loaded<Record, Record>;

/// A stream of one machine, as read from the log.
pub type LoadedOf<F> = Loaded<F, <F as Records>::Snapshot>;

/// All facts of a stream that are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct History<F> {
    /// The machine it belongs to.
    pub kind: StreamKind,
    /// Sequence number of the first of them; more than 1 where older ones were compacted.
    pub first_sequence: u64,
    /// The facts, in order.
    pub facts: Vec<F>,
}

/// Which streams are wanted: those that are all that is said here. Every store answers from indexes: what it reads grows
/// with what it finds, and not with what the log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// Those that are about this application; `None`: about whatever it is.
    pub application: Option<String>,
    /// Those that are about this ApplicationSet, or come from it; `None`: from wherever they come.
    pub set: Option<String>,
    /// `true`: those that are not over; `false`: those that are; `None`: both.
    pub open: Option<bool>,
    /// Those of one machine; `None`: of all.
    pub kind: Option<StreamKind>,
    /// `true`: those of a kind that this program knows; `false`: of one that it does not know; `None`: both.
    pub known: Option<bool>,
}

impl Lookup {
    /// Those of all kinds, open and over.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those that are not over.
    pub fn open() -> Self {
        Self { open: Some(true), ..Self::default() }
    }

    /// Those of an application.
    pub fn of_application(application: impl Into<String>) -> Self {
        Self { application: Some(application.into()), ..Self::default() }
    }

    /// Those of an ApplicationSet.
    pub fn of_set(set: impl Into<String>) -> Self {
        Self { set: Some(set.into()), ..Self::default() }
    }

    /// Those whose kind this program does not know.
    pub fn unknown() -> Self {
        Self { known: Some(false), ..Self::default() }
    }

    /// Only those of them that are not over.
    #[must_use]
    pub fn and_open(self) -> Self {
        Self { open: Some(true), ..self }
    }

    /// Only those of them that are of a kind.
    #[must_use]
    pub fn and_kind(self, kind: StreamKind) -> Self {
        Self { kind: Some(kind), ..self }
    }
}

/// Bytes of the log that are not what was written, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which stream it concerns, when it is known.
    pub stream: Option<StreamId>,
    /// What is wrong, and what was done: `quarantined`, `tail cut` …
    pub reason: String,
    /// Where the damaged bytes were copied.
    pub quarantine: Option<PathBuf>,
    /// It was found when the log was opened this time, and not by an earlier process.
    pub is_new: bool,
}

/// A stream of which not everything can be read, and what is still known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impaired {
    /// Its id.
    pub stream: StreamId,
    /// Its line, also where it was set aside and no lookup finds it; `None` when even that is lost.
    pub entry: Option<RawEntry>,
    /// What cannot be read, and why.
    pub reason: String,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Streams reduced to a summary.
    pub streams: usize,
    /// Streams of which nothing is left.
    pub forgotten: usize,
    /// Facts removed, those of streams of which a summary or nothing is left, and those that a snapshot covers.
    pub facts: usize,
    /// Blobs removed, which no stream refers to any more.
    pub blobs: usize,
}

/// How much a log has read and written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Groups appended: what was offered together is on the disk together, or not at all.
    pub groups: u64,
    /// Facts in those groups.
    pub facts: u64,
    /// Flushes of the log to the disk: one per group, and those of compactions.
    pub flushes: u64,
    /// Blob files written, each with a sync of its own.
    pub blobs: u64,
    /// Rows looked up in the log's database, or looked through.
    pub reads: u64,
}
