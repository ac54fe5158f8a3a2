//! What the executor needs of a log, whatever keeps it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, LogRecord, OperationId, OperationPhase, Timestamp};

use crate::{InventoryUpdate, Known, LogError};

/// A log of operations: facts `F` in gapless order per operation, and now and then a snapshot `S` of the fold over
/// them.
///
/// All calls block; the executor makes them on a thread of their own. One process holds a log at a time.
pub trait OperationLog<F: LogRecord, S: LogRecord>: Send + Sync + 'static {
    /// Appends facts of any number of operations as one group. When it returns `Ok`, all of them are on the disk and
    /// will be read again after a crash or power loss.
    ///
    /// A group the log refuses (a gap, a record too large, an operation it does not take facts for) leaves no trace,
    /// and the log goes on. When writing itself fails, the log refuses all further appends until it is opened again
    /// ([`LogError::Poisoned`]); then the group is found wholly there or wholly absent, never in part.
    fn append(&self, group: Vec<Append<F, S>>) -> Result<(), LogError>;

    /// The newest snapshot of an operation and the facts after it, checked for gaps and damage.
    fn load(&self, operation: OperationId) -> Result<Loaded<F, S>, LogError>;

    /// All facts of an operation from the first, for `ops log`; fails with [`LogError::Compacted`] when they are gone.
    fn facts(&self, operation: OperationId) -> Result<Vec<F>, LogError>;

    /// Summaries of all operations, oldest first.
    fn summaries(&self) -> Result<Vec<Summary>, LogError>;

    /// Where the operations of an application put objects in a cluster; `None` when that is not known. It may name
    /// more places than there are, never fewer than this log's operations wrote to.
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError>;

    /// Keeps some content outside the log, under a digest; durable when it returns.
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError>;

    /// Reads back what [`OperationLog::put_blob`] kept, checked against its digest.
    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError>;

    /// Reduces finished operations beyond the newest `history` of each application to their summaries, and removes blobs
    /// no operation refers to. All others keep every fact.
    fn compact(&self, history: usize) -> Result<Compacted, LogError>;

    /// What was found damaged when the log was opened, and what became of it.
    fn damage(&self) -> Vec<Damage>;

    /// Operations of which not everything can be read any more, oldest first. A log that cannot be damaged has none.
    fn impaired(&self) -> Vec<Impaired> {
        Vec::new()
    }
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
    /// What changes in the inventory of the summary's application; with the facts or not at all.
    pub inventory: Option<InventoryUpdate>,
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
    /// It was found when the log was opened this time, and not by an earlier process.
    pub is_new: bool,
}

/// An operation of which not everything can be read any more, and what is still known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impaired {
    /// Which.
    pub operation: OperationId,
    /// Its summary, also where it was set aside and is not among [`OperationLog::summaries`]; `None` when even that is
    /// lost.
    pub summary: Option<Summary>,
    /// What is wrong.
    pub reason: String,
}

/// How much a log has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Groups appended.
    pub groups: u64,
    /// Facts appended.
    pub facts: u64,
    /// Flushes of the log to the disk: one per group, and those of compactions.
    pub flushes: u64,
    /// Blob files written, each with a sync of its own.
    pub blobs: u64,
}
