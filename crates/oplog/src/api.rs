//! What the executor needs of a log, whatever keeps it.

use std::sync::Arc;

use tidegate_model::{Digest, StreamId, Timestamp};

use crate::{
    Compacted, Damage, History, Impaired, InventoryUpdate, Known, LogError, Lookup, RawAppend, RawEntry,
    RawLoaded, Record, Retention,
};

/// A log of streams: facts in gapless order per stream, and now and then a snapshot of the fold over them. Whose facts
/// they are it does not know; [`crate::TypedLog`] reads and writes them as what they are.
///
/// All calls block; the executor makes them on a thread of their own. One process holds a log at a time.
pub trait OperationLog: Send + Sync + 'static {
    /// Appends records of any number of streams as one group. When it returns `Ok`, all of them are on the disk and
    /// will be read again after a crash or power loss.
    ///
    /// A group the log refuses (a gap, a record too large, an epoch that is over, a stream it does not take facts for)
    /// leaves no trace, and the log goes on. When writing itself fails, the log refuses all further appends until it is
    /// opened again ([`LogError::Poisoned`]); then the group is found wholly there or wholly absent, never in part.
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError>;

    /// The newest snapshot of a stream and the facts after it, checked for gaps and damage.
    fn load(&self, stream: StreamId) -> Result<RawLoaded, LogError>;

    /// All facts of a stream that are kept, for `ops log`; fails with [`LogError::Compacted`] when none are.
    fn facts(&self, stream: StreamId) -> Result<History<Record>, LogError>;

    /// One stream's line; `None` when there is no such stream, or it was set aside.
    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError>;

    /// The streams that are all that is asked for, by id, which is oldest first.
    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError>;

    /// The ids of all streams, oldest first.
    fn ids(&self) -> Vec<StreamId>;

    /// Makes the log smaller, by what is to be kept: finished streams beyond the history of their line are reduced to
    /// their summaries, and in the end forgotten; the oldest facts of long open ones go, where a snapshot covers them; and
    /// so do blobs no stream refers to. Streams of a kind that is not known here stay as they are.
    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<Compacted, LogError>;

    /// What was found damaged when the log was opened, and what became of it.
    fn damage(&self) -> Vec<Damage>;

    /// Looks whether the log is where it was opened, and writes nothing: [`LogError::Moved`] where it is not. A log that
    /// cannot be moved always is.
    fn look(&self) -> Result<(), LogError> {
        Ok(())
    }

    /// Streams of which not everything can be read any more, or by this program; oldest first. A log that cannot be
    /// damaged has none.
    fn impaired(&self) -> Vec<Impaired> {
        Vec::new()
    }
}

/// Content kept beside the streams, which mention it by its digest.
pub trait Blobs: Send + Sync + 'static {
    /// Keeps some content; durable when it returns. Until a stream refers to it, a compaction by this process leaves it
    /// alone.
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError>;

    /// Reads back what [`Blobs::put_blob`] kept, checked against its digest.
    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError>;
}

/// Where the operations of applications put objects.
///
/// An inventory grows no later than the append that brings an [`InventoryUpdate`] is durable, and shrinks no earlier: a
/// store that keeps it elsewhere may have one half of an update without the facts, and never the other.
pub trait Inventories: Send + Sync + 'static {
    /// Where the operations of an application put objects in a cluster; `None` when that is not known. It may name
    /// more places than there are, never fewer than this log's operations wrote to.
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError>;

    /// Changes an inventory on its own; durable when it returns.
    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError>;
}

/// A log with all it needs beside it, in one place or in several.
pub trait Store: OperationLog + Blobs + Inventories {}

impl<T: OperationLog + Blobs + Inventories> Store for T {}

/// A log that several share.
pub type Log = Arc<dyn Store>;
