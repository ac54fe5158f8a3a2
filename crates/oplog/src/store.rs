//! The log on disk. Records are stored in sled, and large content in blobs next to it.
//!
//! ```text
//! <dir>/log/          sled: one tree, see `keys`; everything about one group is one atomic batch
//! <dir>/blobs/        large records and manifests, named by a keyed digest
//! <dir>/witness       progress of each stream, independent of sled
//! <dir>/quarantine/   damaged data, with reasons
//! <dir>/key           key that seals blobs; key-id contains its fingerprint
//! <dir>/holder        the lock and its holder
//! <dir>/rescue/       a copy of log/ while it is being opened
//! <dir>/log.new/      a replacement database under construction, see `salvage`
//! ```
//!
//! Opening a log checks every record (`open`, `verify`). An append takes one batch, one flush and one sync
//! (`append`).

mod append;
mod compact;
mod database;
mod examine;
mod head;
mod images;
mod inventories;
mod keys;
mod ledger;
mod listing;
mod open;
mod panic_guard;
mod read;
mod read_only;
mod record;
mod repair;
mod salvage;
mod verify;

pub(crate) use self::head::chain_digest;
pub(crate) use self::record::{ContentLocation, content_location};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_model::{Digest, StreamId, StreamKind, Timestamp};

use self::compact::Agenda;
use self::database::Database;
use self::head::Head;
use self::ledger::Ledger;
use self::listing::ListingRow;
use self::read_only::LogGuard;
use self::verify::StreamFault;
use crate::append_checks::AppendState;
use crate::blobs::BlobStore;
use crate::holder::Holder;
use crate::witness::{Progress, Witness};
use crate::{
    ApplicationInventory, Blobs, Codecs, CompactionResult, Damage, History, ImpairedStream, Inventories,
    InventoryUpdate, LogEntries, LogError, LogKey, LogStats, Lookup, OperationLog, RawAppend, RawEntry,
    RawLoadedStream, Record, Retention, retention,
};

/// Options for opening a log.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Description of the process that opens the log, shown to other processes that find it locked.
    pub holder: Holder,
    /// Key that seals content alongside the log. `None` selects the key in the state directory, which is
    /// created on first use.
    pub key: Option<LogKey>,
    /// Stream kinds that the program can read.
    pub codecs: Codecs,
}

/// The durable operation log, stored on disk.
pub struct SledLog {
    directory: PathBuf,
    codecs: Codecs,
    /// Name of this writer, as reported to processes that lost streams to it.
    writer: String,
    database: Database,
    blobs: BlobStore,
    state: Mutex<State>,
    is_poisoned: AtomicBool,
    /// True if a compaction may have work to do.
    is_compaction_due: AtomicBool,
    /// Lock on blobs, taken for reading to store a blob and for writing to remove unreferenced blobs.
    blob_gc_lock: RwLock<()>,
    /// Stored blobs without a reference yet, with the number of times each was stored. Compactions keep them.
    unreferenced_blobs: Mutex<BTreeMap<Digest, usize>>,
    quarantined: BTreeMap<StreamId, StreamFault>,
    damage: Vec<Damage>,
    impaired: Vec<ImpairedStream>,
    /// Lock or private copy. Must be the last field, so that it is dropped after the database.
    guard: LogGuard,
}

/// State that changes with every group.
struct State {
    streams: BTreeMap<StreamId, LiveStream>,
    witness: Witness,
    /// Highest ID of a deliberately removed stream. Missing streams up to this ID aren't lost.
    forgotten: Option<StreamId>,
    stats: LogStats,
    ledger: Ledger,
    agenda: Agenda,
}

/// In-memory state of a stream.
#[derive(Clone, Debug)]
struct LiveStream {
    head: Head,
    kind: StreamKind,
    application: Option<String>,
    appset: Option<String>,
    /// `None` while the stream is open.
    finished_at: Option<Timestamp>,
}

impl LiveStream {
    fn new(head: Head, line: &ListingRow) -> Self {
        let ListingRow { application, set, finished_at, .. } = line;
        Self {
            head,
            kind: line.kind(),
            application: application.clone(),
            appset: set.clone(),
            finished_at: *finished_at,
        }
    }

    fn is_open(&self) -> bool {
        self.finished_at.is_none()
    }

    fn append_state(&self) -> AppendState {
        let Head { last, epoch, taken_by, .. } = &self.head;
        AppendState { kind: self.kind.clone(), last: *last, epoch: *epoch, taken_by: taken_by.clone() }
    }

    fn index_keys(&self, stream: StreamId) -> impl Iterator<Item = Vec<u8>> {
        keys::index_keys(stream, self.application.as_deref(), self.appset.as_deref(), self.is_open())
    }

    fn history_line(&self) -> retention::HistoryLine<'_> {
        retention::HistoryLine::new(&self.kind, self.application.as_deref(), self.appset.as_deref())
    }

    fn matches(&self, lookup: &Lookup, codecs: &Codecs) -> bool {
        let Lookup { application, appset, open, kind, has_known_kind } = lookup;
        application.as_ref().is_none_or(|wanted| self.application.as_ref() == Some(wanted))
            && appset.as_ref().is_none_or(|wanted| self.appset.as_ref() == Some(wanted))
            && open.is_none_or(|wanted| self.is_open() == wanted)
            && kind.as_ref().is_none_or(|wanted| self.kind == *wanted)
            && has_known_kind.is_none_or(|wanted| codecs.has_kind(&self.kind) == wanted)
    }

    /// Returns a stream's progress for the witness.
    fn witness_note((stream, live): (&StreamId, &Self)) -> (StreamId, Progress) {
        (*stream, Progress { last: live.head.last, has_ended: !live.is_open() })
    }
}

impl SledLog {
    /// Returns the original path of the state directory.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// Returns the amount of data written since the log was opened.
    pub fn stats(&self) -> LogStats {
        LogStats { blobs: self.blobs.files_written(), reads: self.database.reads(), ..self.lock().stats }
    }

    /// Returns the number of entries in memory, which the retention limits.
    pub fn entries_in_memory(&self) -> LogEntries {
        let unclaimed = self.lock_unreferenced_blobs().len();
        let state = self.lock();
        let (bookkeeping, blobs) = state.ledger.entries();
        LogEntries { streams: state.streams.len(), bookkeeping, blobs: blobs.saturating_add(unclaimed) }
    }

    /// Returns the number of flushes to disk since the log was opened. See [`LogStats::flushes`].
    pub fn flushes(&self) -> u64 {
        self.stats().flushes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic during a write leaves the poison flag set, and every later write checks it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unreferenced_blobs(&self) -> MutexGuard<'_, BTreeMap<Digest, usize>> {
        self.unreferenced_blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_write(&self) -> Result<MutexGuard<'_, State>, LogError> {
        // Check this first: a log opened read-only must return its own error.
        self.guard.check_writable(&self.directory)?;
        let state = self.lock();
        if self.is_poisoned.load(Ordering::SeqCst) {
            return Err(LogError::Poisoned);
        }
        self.check_in_place(&state)?;
        Ok(state)
    }

    /// Rejects a write if the directory, the database or the witness was replaced since the log was opened.
    /// The data would be lost, and the new files may belong to another process.
    fn check_in_place(&self, state: &State) -> Result<(), LogError> {
        self.guard.check_writable(&self.directory)?;
        if self.database.is_in_place()? && state.witness.is_in_place()? {
            Ok(())
        } else {
            Err(LogError::Moved { path: self.directory.clone() })
        }
    }

    /// Runs a write. Poisons the log until the write succeeds, so that an error or a panic blocks all further
    /// writes.
    fn write_or_poison<T>(&self, write: impl FnOnce() -> Result<T, LogError>) -> Result<T, LogError> {
        self.is_poisoned.store(true, Ordering::SeqCst);
        let result = write();
        match &result {
            Ok(_) => self.is_poisoned.store(false, Ordering::SeqCst),
            Err(error) => tracing::error!(%error, "the log does not accept writes until it is reopened"),
        }
        result
    }

    fn broken_stream_error(stream: StreamId, broken: &StreamFault) -> LogError {
        match broken.newer_kind {
            Some((kind, highest)) => LogError::NewerRecord { kind, highest },
            None => LogError::Damaged { stream: stream.into(), reason: broken.reason.clone() },
        }
    }

    fn find_stream<'a>(&self, state: &'a State, stream: StreamId) -> Result<&'a LiveStream, LogError> {
        match (state.streams.get(&stream), self.quarantined.get(&stream)) {
            (Some(live), _) => Ok(live),
            (None, Some(broken)) => Err(Self::broken_stream_error(stream, broken)),
            (None, None) => Err(LogError::UnknownStream { stream: stream.into() }),
        }
    }
}

impl std::fmt::Debug for SledLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledLog").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl OperationLog for SledLog {
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        self.append_group(&group)
    }

    fn load(&self, stream: StreamId) -> Result<RawLoadedStream, LogError> {
        self.load_stream(stream)
    }

    fn events(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.read_all_events(stream)
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        let state = self.lock();
        state.streams.get(&stream).map(|live| self.read_entry(stream, live)).transpose()
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        self.find_entries(lookup)
    }

    fn ids(&self) -> Result<Vec<StreamId>, LogError> {
        Ok(self.lock().streams.keys().copied().collect())
    }

    fn schedule_compaction(&self) {
        self.mark_scheduled();
    }

    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError> {
        self.run_compaction_step(keep, now)
    }

    fn is_compaction_due(&self) -> bool {
        self.is_compaction_due.load(Ordering::SeqCst)
    }

    fn damage(&self) -> Vec<Damage> {
        self.damage.clone()
    }

    /// Doesn't wait for a write in progress, and skips the witness file, which that write may be replacing.
    fn check_location(&self) -> Result<(), LogError> {
        self.guard.check_writable(&self.directory)?;
        match self.database.is_in_place()? {
            true => Ok(()),
            false => Err(LogError::Moved { path: self.directory.clone() }),
        }
    }

    fn impaired_streams(&self) -> Vec<ImpairedStream> {
        self.impaired.clone()
    }
}

impl Blobs for SledLog {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.guard.check_writable(&self.directory)?;
        let _collecting = self.blob_gc_lock.read().unwrap_or_else(PoisonError::into_inner);
        // Register the blob before it exists, so that a concurrent compaction can't remove it.
        *self.lock_unreferenced_blobs().entry(self.blobs.digest_of(content)?).or_default() += 1;
        self.blobs.put(content)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.blobs.get(digest)
    }
}

impl Inventories for SledLog {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError> {
        self.find_inventory(cluster, application)
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.write_inventory_change(update)
    }
}
