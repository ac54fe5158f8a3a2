use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, LogRecord, OperationId, OperationPhase, Timestamp};

/// A log of operations: facts `F` in gapless order per operation, and now and then a snapshot `S` of the fold over
/// them.
///
/// All calls block; the executor makes them on a thread of their own. One process holds a log at a time.
pub trait OperationLog<F: LogRecord, S: LogRecord>: Send + Sync + 'static {
    /// Appends facts of any number of operations as one group. When it returns `Ok`, all of them are on the disk and
    /// will be read again after a crash or power loss; after an error, none of them is, and the log refuses further
    /// appends until it is opened again ([`LogError::Poisoned`]).
    fn append(&self, group: Vec<Append<F, S>>) -> Result<(), LogError>;

    /// The newest snapshot of an operation and the facts after it, checked for gaps and damage.
    fn load(&self, operation: OperationId) -> Result<Loaded<F, S>, LogError>;

    /// All facts of an operation from the first, for `ops log`; fails with [`LogError::Compacted`] when they are gone.
    fn facts(&self, operation: OperationId) -> Result<Vec<F>, LogError>;

    /// Summaries of all operations, oldest first.
    fn summaries(&self) -> Result<Vec<Summary>, LogError>;

    /// Keeps some content outside the log, compressed, under its SHA-256; durable when it returns.
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError>;

    /// Reads back what [`OperationLog::put_blob`] kept, checked against its digest.
    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError>;

    /// Reduces finished operations beyond the newest `history` of each application to their summaries, drops facts
    /// that a snapshot covers of finished operations, and removes blobs no operation refers to.
    fn compact(&self, history: usize) -> Result<Compacted, LogError>;

    /// What was found damaged when the log was opened, and what became of it.
    fn damage(&self) -> Vec<Damage>;
}

/// Facts of one operation to append.
#[derive(Clone, Debug)]
pub struct Append<F, S> {
    /// Which operation.
    pub operation: OperationId,
    /// Sequence number of the first fact: one more than the last one kept; the first fact of all has 1.
    pub first_sequence: u64,
    /// The facts.
    pub facts: Vec<F>,
    /// The state after the last of these facts, when a snapshot is due.
    pub snapshot: Option<S>,
    /// The operation's new summary.
    pub summary: Summary,
    /// Blobs the operation refers to from now on, for [`OperationLog::compact`].
    pub blobs: Vec<Digest>,
}

/// One line about an operation, kept longer than its facts. Also the index by application and by state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The operation.
    pub operation: OperationId,
    /// Its application.
    pub application: String,
    /// Where it works, in words.
    pub destination: String,
    /// Where it stands.
    pub phase: OperationPhase,
    /// Whether a person holds it.
    pub paused: bool,
    /// Its message.
    pub message: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` while it is open.
    pub finished_at: Option<Timestamp>,
    /// Waves passed, and waves in all.
    pub waves: (u32, u32),
}

/// An operation as read from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<F, S> {
    /// The newest snapshot and the sequence number of the last fact it covers.
    pub snapshot: Option<(u64, S)>,
    /// The facts after the snapshot, in order.
    pub facts: Vec<F>,
    /// Sequence number of the last fact.
    pub last_sequence: u64,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Operations reduced to a summary.
    pub operations: usize,
    /// Facts removed.
    pub facts: usize,
    /// Blobs removed.
    pub blobs: usize,
}

/// Something found damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which operation it concerns, when it is known.
    pub operation: Option<OperationId>,
    /// What is wrong, and what was done: `quarantined`, `tail cut` …
    pub reason: String,
    /// Where the damaged bytes were copied.
    pub quarantine: Option<PathBuf>,
}

/// Why the log could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// An earlier write failed; what is on disk is not known until the log is opened again.
    #[error("the log takes no more facts since a write failed; restart to recover what was acknowledged")]
    Poisoned,
    /// No such operation.
    #[error("there is no operation {operation} in the log")]
    UnknownOperation {
        /// What was asked for.
        operation: OperationId,
    },
    /// Only the summary of the operation is left.
    #[error("operation {operation} was reduced to its summary; its facts are gone")]
    Compacted {
        /// Which.
        operation: OperationId,
    },
    /// Facts do not follow the last one kept.
    #[error(
        "facts of operation {operation} begin at {found}, but {expected} comes next; two engines may be writing"
    )]
    Gap {
        /// Which.
        operation: OperationId,
        /// What comes next.
        expected: u64,
        /// What was given.
        found: u64,
    },
    /// Content kept outside the log is not there.
    #[error("blob {digest} is missing; the operations that refer to it cannot go on")]
    BlobMissing {
        /// Which.
        digest: Digest,
    },
}
