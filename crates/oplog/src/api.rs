//! Interface of a log, independent of its storage.

use std::sync::Arc;

use tidegate_model::{Digest, StreamId, Timestamp};

use crate::{
    ApplicationInventory, CompactionResult, Damage, History, ImpairedStream, InventoryUpdate, LogError,
    Lookup, RawAppend, RawEntry, RawLoadedStream, Record, Retention,
};

/// A log of streams: gapless sequences of events, with occasional snapshots of the folded state. This trait
/// deals in encoded events; [`crate::TypedLog`] reads and writes the typed events of a machine.
///
/// All calls block, so the executor makes them on a blocking thread. Only one process at a time can have a
/// log open for writing.
pub trait OperationLog: Send + Sync + 'static {
    /// Appends records to any number of streams as one group. When the call returns `Ok`, the whole group is
    /// on disk and survives a crash or power loss.
    ///
    /// # Errors
    ///
    /// Returns an error if the log rejects the group (a gap, a record that is too large, an expired epoch, an
    /// unsupported stream). A rejected group leaves no trace, and the log remains usable. After a failed
    /// write, the log rejects all later appends until it is reopened ([`LogError::Poisoned`]). In the
    /// reopened log, the failed group is either complete or absent, never partial.
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError>;

    /// Returns the newest snapshot of a stream and the events after it, checked for gaps and damage.
    fn load(&self, stream: StreamId) -> Result<RawLoadedStream, LogError>;

    /// Returns all stored events of a stream, for `ops log`. Fails with [`LogError::Compacted`] if none are
    /// left.
    fn events(&self, stream: StreamId) -> Result<History<Record>, LogError>;

    /// Returns the entry of a stream, or `None` if the stream doesn't exist or is quarantined.
    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError>;

    /// Returns the streams that match all conditions, ordered by ID, oldest first.
    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError>;

    /// Returns the IDs of all streams, oldest first.
    fn ids(&self) -> Vec<StreamId>;

    /// Compacts the log to the limits in `keep`: reduces older finished streams to their summaries and
    /// eventually removes them, drops the oldest events of long open streams if a snapshot covers them, and
    /// removes unreferenced blobs. Leaves streams of an unknown kind alone.
    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<CompactionResult, LogError> {
        self.schedule_compaction();
        let mut done = CompactionResult::default();
        while let Some(step) = self.compact_step(keep, now)? {
            done += step;
        }
        Ok(done)
    }

    /// Schedules a complete compaction; [`OperationLog::compact_step`] runs it.
    fn schedule_compaction(&self);

    /// Runs one short step of a compaction and returns what it removed, or `None` if no compaction is due.
    /// The log accepts appends between two steps.
    ///
    /// A compaction is due if it was scheduled, or if the number of streams, events or bytes exceeds the
    /// limits in `keep` by about a tenth. A compaction triggered by growth leaves the newest finished stream
    /// of each history line intact, because a client may still be reading it.
    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError>;

    /// Returns true if [`OperationLog::compact_step`] may have work to do. Never blocks.
    fn is_compaction_due(&self) -> bool;

    /// Returns the damage found when the log was opened, and how it was handled.
    fn damage(&self) -> Vec<Damage>;

    /// Checks, without writing, that the log is still at the path where it was opened. Otherwise returns
    /// [`LogError::Moved`]. The default implementation always succeeds.
    fn check_location(&self) -> Result<(), LogError> {
        Ok(())
    }

    /// Returns the streams with content that is unreadable or unknown to this program, oldest first. The
    /// default implementation returns an empty list.
    fn impaired_streams(&self) -> Vec<ImpairedStream> {
        Vec::new()
    }
}

/// Content stored alongside the streams, which refer to it by digest.
pub trait Blobs: Send + Sync + 'static {
    /// Stores content, which is durable when the call returns. Compactions by this process keep it until a
    /// stream refers to it.
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError>;

    /// Returns content that [`Blobs::put_blob`] stored, checked against its digest.
    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError>;
}

/// Inventories: the objects that operations have written to clusters.
///
/// Places are added to an inventory before, or together with, the append that carries the
/// [`InventoryUpdate`]. Places are never removed before the append is durable. A store that keeps inventories
/// elsewhere may therefore apply an update's additions without the events, but never its removals.
pub trait Inventories: Send + Sync + 'static {
    /// Returns the places of an application's objects in a cluster, or `None` if they are unknown. The result
    /// may contain too many places, but never omits a place that an operation in this log has written to.
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError>;

    /// Changes an inventory without an append. The change is durable when the call returns.
    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError>;
}

/// A log with its blobs and inventories, stored in one location or in several.
pub trait Store: OperationLog + Blobs + Inventories {}

impl<T: OperationLog + Blobs + Inventories> Store for T {}

/// A shared log.
pub type Log = Arc<dyn Store>;
