//! The log on disk: records in sled, large content in blobs beside it.
//!
//! ```text
//! <dir>/log/          sled: one tree, see `keys`; everything about one group is one atomic batch
//! <dir>/blobs/        large records and manifests, named by a keyed digest
//! <dir>/witness       how far each stream got, independent of sled
//! <dir>/quarantine/   what was found damaged, with reasons
//! <dir>/key           what blobs are sealed with, and key-id: which key that is
//! <dir>/holder        the lock, and who has it
//! <dir>/rescue/       a copy of log/ while it is being opened
//! <dir>/log.new/      a database being made anew, see `salvage`
//! ```
//!
//! Opening checks every record (`open`, `verify`); appending is one batch, one flush, one sync (`append`).

mod append;
mod compact;
mod database;
mod earlier;
mod examine;
mod guard;
mod head;
mod keys;
mod line;
mod open;
mod read;
mod reading;
mod record;
mod repair;
mod salvage;
mod stock;
mod verify;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_model::{Digest, StreamId, StreamKind, Timestamp};

use self::database::Database;
use self::head::Head;
use self::line::Line;
use self::reading::Guard;
use self::verify::Broken;
use crate::blobs::BlobStore;
use crate::holder::Holder;
use crate::rules::Standing;
use crate::witness::{Seen, Witness};
use crate::{
    Blobs, Codecs, Compacted, Damage, History, Impaired, Inventories, InventoryUpdate, Known, LogError,
    LogKey, LogStats, Lookup, OperationLog, RawAppend, RawEntry, RawLoaded, Record, Retention, retention,
};

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The process that opens it, as it is to be named to others that find it locked.
    pub holder: Holder,
    /// The key that content beside the log is sealed with. `None`: the one in the state directory, which is made when it
    /// is needed first.
    pub key: Option<LogKey>,
    /// The kinds of streams the program can read.
    pub codecs: Codecs,
}

/// The durable operation log.
pub struct SledLog {
    directory: PathBuf,
    codecs: Codecs,
    /// Who writes, as others are told that find a stream taken over.
    writer: String,
    database: Database,
    blobs: BlobStore,
    state: Mutex<State>,
    poisoned: AtomicBool,
    /// Read to put blobs, write to remove those nobody refers to.
    collecting: RwLock<()>,
    /// Blobs that were put and not referred to yet, and how often; a compaction leaves them alone.
    unclaimed: Mutex<BTreeMap<Digest, usize>>,
    set_aside: BTreeMap<StreamId, Broken>,
    damage: Vec<Damage>,
    impaired: Vec<Impaired>,
    /// Last, so that it goes after the database is closed.
    guard: Guard,
}

/// What changes with every group.
struct State {
    live: BTreeMap<StreamId, Live>,
    witness: Witness,
    /// Up to this id, a stream that is not there was forgotten on purpose.
    forgotten: Option<StreamId>,
    stats: LogStats,
}

/// What is kept in memory of a stream.
#[derive(Clone, Debug)]
struct Live {
    head: Head,
    kind: StreamKind,
    application: Option<String>,
    set: Option<String>,
    /// `None` while it is open.
    finished_at: Option<Timestamp>,
}

impl Live {
    fn new(head: Head, line: &Line) -> Self {
        let Line { application, set, finished_at, .. } = line;
        Self {
            head,
            kind: line.kind(),
            application: application.clone(),
            set: set.clone(),
            finished_at: *finished_at,
        }
    }

    fn is_open(&self) -> bool {
        self.finished_at.is_none()
    }

    fn standing(&self) -> Standing {
        let Head { last, epoch, taken_by, .. } = &self.head;
        Standing { kind: self.kind.clone(), last: *last, epoch: *epoch, taken_by: taken_by.clone() }
    }

    fn index(&self, stream: StreamId) -> impl Iterator<Item = Vec<u8>> {
        keys::index(stream, self.application.as_deref(), self.set.as_deref(), self.is_open())
    }

    fn history_line(&self) -> retention::Line<'_> {
        retention::Line::new(&self.kind, self.application.as_deref(), self.set.as_deref())
    }

    fn is_wanted(&self, lookup: &Lookup, codecs: &Codecs) -> bool {
        let Lookup { application, set, open, kind, known } = lookup;
        application.as_ref().is_none_or(|wanted| self.application.as_ref() == Some(wanted))
            && set.as_ref().is_none_or(|wanted| self.set.as_ref() == Some(wanted))
            && open.is_none_or(|wanted| self.is_open() == wanted)
            && kind.as_ref().is_none_or(|wanted| self.kind == *wanted)
            && known.is_none_or(|wanted| codecs.know(&self.kind) == wanted)
    }

    /// What the witness is told.
    fn note((stream, live): (&StreamId, &Self)) -> (StreamId, Seen) {
        (*stream, Seen { last: live.head.last, ended: !live.is_open() })
    }
}

impl SledLog {
    /// The state directory, as it was named when it was opened.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// How much was written since the log was opened.
    pub fn stats(&self) -> LogStats {
        LogStats { blobs: self.blobs.written(), reads: self.database.reads(), ..self.lock().stats }
    }

    /// Flushes to the disk since the log was opened; see [`LogStats::flushes`].
    pub fn flushes(&self) -> u64 {
        self.stats().flushes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while writing has left the poison flag set, which is checked after this.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unclaimed(&self) -> MutexGuard<'_, BTreeMap<Digest, usize>> {
        self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_write(&self) -> Result<MutexGuard<'_, State>, LogError> {
        // First: whoever only reads is to be told so.
        self.guard.check(&self.directory)?;
        let state = self.lock();
        if self.poisoned.load(Ordering::SeqCst) {
            return Err(LogError::Poisoned);
        }
        self.check_place(&state)?;
        Ok(state)
    }

    /// Refuses to go on where the directory, or a file in it, is not the one that was opened: what is written there is
    /// found by nobody, and what lies there may be another process's.
    fn check_place(&self, state: &State) -> Result<(), LogError> {
        self.guard.check(&self.directory)?;
        if self.database.is_in_place()? && state.witness.is_in_place()? {
            Ok(())
        } else {
            Err(LogError::Moved { path: self.directory.clone() })
        }
    }

    /// Runs a write: from its begin until it succeeds the log counts as poisoned, so that neither an error nor a panic
    /// on the way leaves a log that takes more.
    fn poisoning<T>(&self, write: impl FnOnce() -> Result<T, LogError>) -> Result<T, LogError> {
        self.poisoned.store(true, Ordering::SeqCst);
        let result = write();
        match &result {
            Ok(_) => self.poisoned.store(false, Ordering::SeqCst),
            Err(error) => tracing::error!(%error, "the log takes no more writes until it is opened again"),
        }
        result
    }

    fn broken(stream: StreamId, broken: &Broken) -> LogError {
        match broken.newer {
            Some((kind, highest)) => LogError::NewerRecord { kind, highest },
            None => LogError::Damaged { stream: stream.into(), reason: broken.reason.clone() },
        }
    }

    fn live<'a>(&self, state: &'a State, stream: StreamId) -> Result<&'a Live, LogError> {
        match (state.live.get(&stream), self.set_aside.get(&stream)) {
            (Some(live), _) => Ok(live),
            (None, Some(broken)) => Err(Self::broken(stream, broken)),
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

    fn load(&self, stream: StreamId) -> Result<RawLoaded, LogError> {
        self.load_stream(stream)
    }

    fn facts(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.all_facts(stream)
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        let state = self.lock();
        state.live.get(&stream).map(|live| self.read_entry(stream, live)).transpose()
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        self.find_entries(lookup)
    }

    fn ids(&self) -> Vec<StreamId> {
        self.lock().live.keys().copied().collect()
    }

    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<Compacted, LogError> {
        self.compact_log(keep, now)
    }

    fn damage(&self) -> Vec<Damage> {
        self.damage.clone()
    }

    /// Waits for no write that is on its way, so the witness, which is replaced now and then, is left to the writes.
    fn look(&self) -> Result<(), LogError> {
        self.guard.check(&self.directory)?;
        match self.database.is_in_place()? {
            true => Ok(()),
            false => Err(LogError::Moved { path: self.directory.clone() }),
        }
    }

    fn impaired(&self) -> Vec<Impaired> {
        self.impaired.clone()
    }
}

impl Blobs for SledLog {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.guard.check(&self.directory)?;
        let _collecting = self.collecting.read().unwrap_or_else(PoisonError::into_inner);
        // Counted before it is there, so that no compaction can come between.
        *self.unclaimed().entry(self.blobs.digest_of(content)?).or_default() += 1;
        self.blobs.put(content)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.blobs.get(digest)
    }
}

impl Inventories for SledLog {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        self.inventory_of(cluster, application)
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.change_inventory_alone(update)
    }
}
