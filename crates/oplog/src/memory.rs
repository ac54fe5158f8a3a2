//! The log in memory, for tests and the simulator.
//!
//! Records go through the same codec as on disk, so a type that does not survive it fails here too. The storage
//! outlives its handles: a test drops a "process" with everything it held and opens the storage again.
//!
//! ```text
//! let log = MemoryLog::new();        // a process …
//! log.fail_append(3, Fault::Before); // … that dies when it appends for the fourth time
//! let log = log.reopen();            // the next process on the same storage; the old handle is dead
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tidegate_model::{Digest, LogRecord, OperationId};

use crate::retention::{beyond_history, oldest_first};
use crate::{
    Append, Compacted, Damage, InventoryUpdate, Known, Loaded, LogError, LogStats, OperationLog, Summary,
    frame, rules,
};

/// Where in an append a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Before anything is written: the group is absent afterwards.
    Before,
    /// After everything is durable but before the append returns: the group is there, but nobody was told.
    After,
}

/// A log in memory. Clones are handles of the same process; [`MemoryLog::reopen`] begins the next process.
pub struct MemoryLog<F, S> {
    shared: Arc<Mutex<Shared>>,
    /// Which process this handle belongs to.
    process: u64,
    records: PhantomData<fn() -> (F, S)>,
}

impl<F, S> Clone for MemoryLog<F, S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), process: self.process, records: PhantomData }
    }
}

impl<F, S> std::fmt::Debug for MemoryLog<F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLog").field("process", &self.process).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    operations: BTreeMap<OperationId, Kept>,
    blobs: BTreeMap<Digest, Blob>,
    /// By cluster and application.
    inventories: BTreeMap<(String, String), Known>,
    set_aside: BTreeMap<OperationId, String>,
    damage: Vec<Damage>,
    /// The process that holds the storage now.
    process: u64,
    poisoned: bool,
    /// Appends that still succeed before the fault strikes, and the fault.
    fault: Option<(u64, Fault)>,
    stats: LogStats,
}

/// An append that will be taken.
struct Staged {
    operation: OperationId,
    facts: Vec<Record>,
    snapshot: Option<Record>,
    summary: Summary,
    blobs: Vec<Digest>,
    inventory: Option<InventoryUpdate>,
}

struct Kept {
    /// Facts up to this one are gone.
    base: u64,
    facts: Vec<Record>,
    snapshot: Option<(u64, Record)>,
    summary: Summary,
    blobs: BTreeSet<Digest>,
    reduced: bool,
}

struct Record {
    kind: u16,
    content: Vec<u8>,
}

struct Blob {
    content: Vec<u8>,
    /// The process that put it last and has not referred to it yet; a compaction of that process leaves it alone.
    unclaimed_by: Option<u64>,
}

impl Kept {
    fn last(&self) -> u64 {
        self.base.saturating_add(count(self.facts.len()))
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Record {
    fn new<R: LogRecord>(what: &'static str, record: &R) -> Result<Self, LogError> {
        Ok(Self { kind: record.kind(), content: frame::encode(what, record)? })
    }

    fn read<R: LogRecord>(&self, operation: OperationId) -> Result<R, LogError> {
        frame::decode_record(self.kind, &self.content)
            .map_err(|error| LogError::Damaged { operation, reason: error.to_string() })
    }
}

impl<F: LogRecord, S: LogRecord> Default for MemoryLog<F, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: LogRecord, S: LogRecord> MemoryLog<F, S> {
    /// An empty log.
    pub fn new() -> Self {
        Self { shared: Arc::default(), process: 0, records: PhantomData }
    }

    /// Opens the same storage as the next process. Handles of earlier processes can no longer write, as if killed;
    /// a fault that was set and has not struck is forgotten.
    pub fn reopen(&self) -> Self {
        let mut shared = self.lock();
        shared.process += 1;
        shared.poisoned = false;
        shared.fault = None;
        Self { shared: Arc::clone(&self.shared), process: shared.process, records: PhantomData }
    }

    /// Lets `successes` more appends through, then fails one with `fault` and poisons the log.
    pub fn fail_append(&self, successes: u64, fault: Fault) {
        self.lock().fault = Some((successes, fault));
    }

    /// Sets an operation aside, as opening does with one it finds damaged.
    pub fn damage_operation(&self, operation: OperationId, reason: &str) {
        let mut shared = self.lock();
        shared.operations.remove(&operation);
        shared.set_aside.insert(operation, reason.to_owned());
        let reason = format!("operation set aside: {reason}");
        shared.damage.push(Damage { operation: Some(operation), reason, quarantine: None, is_new: true });
    }

    /// How much was written since the log was made.
    pub fn stats(&self) -> LogStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic of a test while it held the lock leaves whole groups only: groups are swapped in, not edited.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_write(&self) -> Result<MutexGuard<'_, Shared>, LogError> {
        let shared = self.lock();
        if shared.poisoned || shared.process != self.process { Err(LogError::Poisoned) } else { Ok(shared) }
    }
}

impl Shared {
    fn find(&self, operation: OperationId) -> Result<&Kept, LogError> {
        if let Some(reason) = self.set_aside.get(&operation) {
            return Err(LogError::Damaged { operation, reason: reason.clone() });
        }
        self.operations.get(&operation).ok_or(LogError::UnknownOperation { operation })
    }

    /// Checks one append of a group, given the last sequence number after those before it in the group.
    fn stage<F: LogRecord, S: LogRecord>(
        &self,
        lasts: &mut BTreeMap<OperationId, u64>,
        append: Append<F, S>,
    ) -> Result<Staged, LogError> {
        let operation = append.operation;
        if let Some(reason) = self.set_aside.get(&operation) {
            return Err(LogError::Damaged { operation, reason: reason.clone() });
        }
        let before = self.operations.get(&operation);
        if before.is_some_and(|kept| kept.reduced) {
            return Err(LogError::Compacted { operation });
        }
        let last = lasts.entry(operation).or_insert_with(|| before.map_or(0, Kept::last));
        rules::check_append(*last, &append)?;
        if let Some(&digest) = append.blobs.iter().find(|digest| !self.blobs.contains_key(digest)) {
            return Err(LogError::BlobMissing { digest });
        }
        *last = last.saturating_add(count(append.facts.len()));
        Ok(Staged {
            operation,
            facts: append.facts.iter().map(|fact| Record::new("fact", fact)).collect::<Result<_, _>>()?,
            snapshot: append.snapshot.as_ref().map(|state| Record::new("snapshot", state)).transpose()?,
            summary: append.summary,
            blobs: append.blobs,
            inventory: append.inventory,
        })
    }

    fn commit(&mut self, staged: Staged) {
        self.stats.facts += count(staged.facts.len());
        for digest in &staged.blobs {
            if let Some(blob) = self.blobs.get_mut(digest) {
                blob.unclaimed_by = None;
            }
        }
        if let Some(InventoryUpdate { cluster, changes }) = staged.inventory {
            let of = (cluster, staged.summary.application.clone());
            for change in changes {
                if let Some(places) = change.apply(self.inventories.get(&of)) {
                    self.inventories.insert(of.clone(), places);
                }
            }
        }
        let kept = self.operations.entry(staged.operation).or_insert_with(|| Kept {
            base: 0,
            facts: Vec::new(),
            snapshot: None,
            summary: staged.summary.clone(),
            blobs: BTreeSet::new(),
            reduced: false,
        });
        kept.facts.extend(staged.facts);
        if let Some(snapshot) = staged.snapshot {
            kept.snapshot = Some((kept.last(), snapshot));
        }
        kept.summary = staged.summary;
        kept.blobs.extend(staged.blobs);
    }

    /// Whether the fault strikes now.
    fn strike(&mut self) -> Option<Fault> {
        match self.fault {
            Some((0, fault)) => {
                self.fault = None;
                self.poisoned = true;
                Some(fault)
            }
            Some((successes, fault)) => {
                self.fault = Some((successes - 1, fault));
                None
            }
            None => None,
        }
    }
}

fn injected() -> LogError {
    LogError::io(Path::new("memory"), "append to", io::Error::other("injected fault"))
}

impl<F: LogRecord, S: LogRecord> OperationLog<F, S> for MemoryLog<F, S> {
    fn append(&self, group: Vec<Append<F, S>>) -> Result<(), LogError> {
        let mut shared = self.lock_to_write()?;
        let mut lasts = BTreeMap::new();
        let staged: Vec<Staged> =
            group.into_iter().map(|append| shared.stage(&mut lasts, append)).collect::<Result<_, _>>()?;
        let fault = shared.strike();
        if fault == Some(Fault::Before) {
            return Err(injected());
        }
        for append in staged {
            shared.commit(append);
        }
        shared.stats.groups += 1;
        shared.stats.flushes += 1;
        if fault == Some(Fault::After) { Err(injected()) } else { Ok(()) }
    }

    fn load(&self, operation: OperationId) -> Result<Loaded<F, S>, LogError> {
        let shared = self.lock();
        let kept = shared.find(operation)?;
        if kept.reduced {
            return Err(LogError::Compacted { operation });
        }
        let snapshot = match &kept.snapshot {
            Some((sequence, record)) => Some((*sequence, record.read(operation)?)),
            None => None,
        };
        let covered = snapshot.as_ref().map_or(0, |(sequence, _)| *sequence).saturating_sub(kept.base);
        let skipped = usize::try_from(covered).unwrap_or(usize::MAX);
        let facts =
            kept.facts.iter().skip(skipped).map(|record| record.read(operation)).collect::<Result<_, _>>()?;
        Ok(Loaded { snapshot, facts, last_sequence: kept.last() })
    }

    fn facts(&self, operation: OperationId) -> Result<Vec<F>, LogError> {
        let shared = self.lock();
        let kept = shared.find(operation)?;
        if kept.reduced || kept.base > 0 {
            return Err(LogError::Compacted { operation });
        }
        kept.facts.iter().map(|record| record.read(operation)).collect()
    }

    fn summaries(&self) -> Result<Vec<Summary>, LogError> {
        let mut summaries: Vec<Summary> =
            self.lock().operations.values().map(|kept| kept.summary.clone()).collect();
        oldest_first(&mut summaries);
        Ok(summaries)
    }

    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        let of = (cluster.to_owned(), application.to_owned());
        Ok(self.lock().inventories.get(&of).cloned())
    }

    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        rules::check_blob(content)?;
        let digest = Digest(Sha256::digest(content).into());
        let mut shared = self.lock_to_write()?;
        let unclaimed_by = Some(shared.process);
        shared.blobs.insert(digest, Blob { content: content.to_vec(), unclaimed_by });
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let shared = self.lock();
        shared.blobs.get(&digest).map(|blob| blob.content.clone()).ok_or(LogError::BlobMissing { digest })
    }

    fn compact(&self, history: usize) -> Result<Compacted, LogError> {
        let mut shared = self.lock_to_write()?;
        let shared = &mut *shared;
        let mut done = Compacted::default();
        let beyond = beyond_history(shared.operations.values().map(|kept| &kept.summary), history);
        for operation in beyond {
            let Some(kept) = shared.operations.get_mut(&operation).filter(|kept| !kept.reduced) else {
                continue;
            };
            done.operations += 1;
            done.facts += kept.facts.len();
            kept.base = kept.last();
            kept.facts.clear();
            kept.snapshot = None;
            kept.blobs.clear();
            kept.reduced = true;
        }
        let referred: BTreeSet<Digest> =
            shared.operations.values().flat_map(|kept| kept.blobs.iter().copied()).collect();
        let before = shared.blobs.len();
        let process = shared.process;
        shared.blobs.retain(|digest, blob| referred.contains(digest) || blob.unclaimed_by == Some(process));
        done.blobs = before - shared.blobs.len();
        Ok(done)
    }

    fn damage(&self) -> Vec<Damage> {
        self.lock().damage.clone()
    }
}
