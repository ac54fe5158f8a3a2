//! The log on disk: records in sled, large content in blobs beside it.
//!
//! ```text
//! <dir>/log/          sled: one tree, see `keys`; everything about one group is one atomic batch
//! <dir>/blobs/        large records and manifests, named by a keyed digest
//! <dir>/witness       how far each operation got, independent of sled
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
mod examine;
mod guard;
mod head;
mod keys;
mod open;
mod read;
mod reading;
mod record;
mod repair;
mod salvage;
mod stock;
mod verify;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_model::{Digest, LogRecord, OperationId};

use self::database::Database;
use self::head::Head;
use self::reading::Guard;
use self::verify::Broken;
use crate::blobs::BlobStore;
use crate::holder::Holder;
use crate::witness::{Seen, Witness};
use crate::{
    Append, Compacted, Damage, Impaired, Known, Loaded, LogError, LogKey, LogStats, OperationLog, Summary,
};

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The process that opens it, as it is to be named to others that find it locked.
    pub holder: Holder,
    /// The key that content beside the log is sealed with. `None`: the one in the state directory, which is made when it
    /// is needed first.
    pub key: Option<LogKey>,
}

/// The durable operation log.
pub struct SledLog<F, S> {
    directory: PathBuf,
    database: Database,
    blobs: BlobStore,
    state: Mutex<State>,
    poisoned: AtomicBool,
    /// Read to put blobs, write to remove those nobody refers to.
    collecting: RwLock<()>,
    /// Blobs that were put and not referred to yet, and how often; a compaction leaves them alone.
    unclaimed: Mutex<BTreeMap<Digest, usize>>,
    set_aside: BTreeMap<OperationId, Broken>,
    damage: Vec<Damage>,
    impaired: Vec<Impaired>,
    records: PhantomData<fn() -> (F, S)>,
    /// Last, so that it goes after the database is closed.
    guard: Guard,
}

/// What changes with every group.
struct State {
    live: BTreeMap<OperationId, Live>,
    witness: Witness,
    stats: LogStats,
}

/// What is kept in memory of an operation.
#[derive(Clone, Debug)]
struct Live {
    head: Head,
    application: String,
    open: bool,
}

impl Live {
    fn new(head: Head, summary: &Summary) -> Self {
        Self { head, application: summary.application.clone(), open: summary.finished_at.is_none() }
    }

    /// What the witness is told.
    fn note((operation, live): (&OperationId, &Self)) -> (OperationId, Seen) {
        (*operation, Seen { last: live.head.last, ended: !live.open })
    }
}

impl<F, S> SledLog<F, S> {
    /// The state directory.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// How much was written since the log was opened.
    pub fn stats(&self) -> LogStats {
        LogStats { blobs: self.blobs.written(), ..self.lock().stats }
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

    fn broken(operation: OperationId, broken: &Broken) -> LogError {
        match broken.newer {
            Some((kind, highest)) => LogError::NewerRecord { kind, highest },
            None => LogError::Damaged { operation, reason: broken.reason.clone() },
        }
    }

    fn live<'a>(&self, state: &'a State, operation: OperationId) -> Result<&'a Live, LogError> {
        match (state.live.get(&operation), self.set_aside.get(&operation)) {
            (Some(live), _) => Ok(live),
            (None, Some(broken)) => Err(Self::broken(operation, broken)),
            (None, None) => Err(LogError::UnknownOperation { operation }),
        }
    }
}

impl<F, S> std::fmt::Debug for SledLog<F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledLog").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl<F: LogRecord, S: LogRecord> OperationLog<F, S> for SledLog<F, S> {
    fn append(&self, group: Vec<Append<F, S>>) -> Result<(), LogError> {
        self.append_group(group)
    }

    fn load(&self, operation: OperationId) -> Result<Loaded<F, S>, LogError> {
        self.load_operation(operation)
    }

    fn facts(&self, operation: OperationId) -> Result<Vec<F>, LogError> {
        self.all_facts(operation)
    }

    fn summaries(&self) -> Result<Vec<Summary>, LogError> {
        self.all_summaries()
    }

    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        self.inventory_of(cluster, application)
    }

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

    fn compact(&self, history: usize) -> Result<Compacted, LogError> {
        self.compact_log(history)
    }

    fn damage(&self) -> Vec<Damage> {
        self.damage.clone()
    }

    fn impaired(&self) -> Vec<Impaired> {
        self.impaired.clone()
    }
}
