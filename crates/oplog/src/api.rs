//! Interface of a log, independent of its storage.

use std::sync::Arc;

use tidegate_model::{Digest, StreamId, Timestamp};
use uuid::Uuid;

use crate::{
    ApplicationInventory, CompactionResult, Damage, History, ImpairedStream, InventoryUpdate, LogError,
    Lookup, RawAppend, RawEntry, RawLoadedStream, Record, Retention,
};

/// A log of streams: gapless sequences of events, with occasional snapshots of the folded state. This trait
/// deals in encoded events; [`crate::TypedLog`] reads and writes the typed events of a machine.
///
/// All calls block, so the executor runs them on a blocking thread. Only one process at a time can open a log
/// for writing.
pub trait OperationLog: Send + Sync + 'static {
    /// Appends records to any number of streams as one group. Once this returns `Ok`, the whole group is on
    /// disk and survives a crash or power loss.
    ///
    /// # Errors
    ///
    /// Returns an error if the log rejects the group (a gap, an oversized record, an expired epoch, an
    /// unsupported stream). A rejected group leaves no trace, and the log remains usable. After a failed
    /// write, the log rejects all appends until it is reopened ([`LogError::Poisoned`]). In the reopened log,
    /// the failed group is either complete or absent, never partial.
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
    fn ids(&self) -> Result<Vec<StreamId>, LogError>;

    /// Compacts the log to the limits in `keep`. Reduces older finished streams to their summaries and
    /// eventually removes them. Trims the oldest events of long open streams if a snapshot covers them, and
    /// removes unreferenced blobs. Streams of an unknown kind are left alone.
    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<CompactionResult, LogError> {
        self.schedule_compaction();
        let mut done = CompactionResult::default();
        while let Some(step) = self.compact_step(keep, now)? {
            done += step;
        }
        Ok(done)
    }

    /// Schedules a complete compaction, to be run by [`OperationLog::compact_step`].
    fn schedule_compaction(&self);

    /// Runs one short step of a compaction and returns what it removed, or `None` if no compaction is due.
    /// The log accepts appends between steps.
    ///
    /// A compaction is due once it is scheduled, or once the streams, events or bytes exceed the limits in
    /// `keep` by about a tenth. If growth triggers it, the newest finished stream of each history line stays
    /// intact, because a client may still be reading it.
    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError>;

    /// Returns true if [`OperationLog::compact_step`] may have work to do. Never blocks.
    fn is_compaction_due(&self) -> bool;

    /// Returns the damage found on open, and how it was handled.
    fn damage(&self) -> Vec<Damage>;

    /// Returns the ID of this process among the replicas of a shared log. The default implementation returns `None`.
    fn replica_id(&self) -> Option<Uuid> {
        None
    }

    /// Checks, without writing, that the log is still at its original path, and otherwise returns
    /// [`LogError::Moved`]. The default implementation always succeeds.
    fn check_location(&self) -> Result<(), LogError> {
        Ok(())
    }

    /// Returns the streams with content that is damaged or unknown to this program, oldest first. The default
    /// implementation returns an empty list.
    fn impaired_streams(&self) -> Vec<ImpairedStream> {
        Vec::new()
    }
}

/// Content stored alongside the streams and referenced by digest.
pub trait Blobs: Send + Sync + 'static {
    /// Stores content durably. Compactions by this process keep it until a stream refers to it.
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError>;

    /// Returns content that [`Blobs::put_blob`] stored, checked against its digest.
    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError>;
}

/// Inventories: the objects that operations have written to clusters.
///
/// Keys are added no later than the append that carries the [`InventoryUpdate`], and removed only once that
/// append is durable. A store that keeps inventories elsewhere may therefore apply an update's additions
/// without the events, but never its removals.
pub trait Inventories: Send + Sync + 'static {
    /// Returns the keys of an application's objects in a cluster, or `None` if they are unknown. The result
    /// may contain keys of objects that don't exist, but never omits an object that an operation in this log
    /// has written.
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError>;

    /// Changes an inventory durably, without an append.
    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError>;
}

/// A log with its blobs and inventories, in one location or several.
pub trait Store: OperationLog + Blobs + Inventories {}

impl<T: OperationLog + Blobs + Inventories> Store for T {}

/// A shared log.
pub type Log = Arc<dyn Store>;
