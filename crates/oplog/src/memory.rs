//! An in-memory log for tests and the simulator.
//!
//! Records are stored as bytes, as on disk, so tests also catch types that don't survive encoding and
//! decoding. The storage outlives its handles: a test can drop a "process" with all its values and reopen the
//! storage.
//!
//! ```text
//! let log = MemoryLog::new();        // a process …
//! log.fail_append(3, Fault::Before); // … that crashes at its fourth append
//! let log = log.reopen();            // the next process on the same storage; the old handle no longer works
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tidegate_model::{Digest, StreamId, Timestamp};

use crate::append_checks::{self, AppendState};
use crate::retention::{self, Growth, HistoryLine, Retention, RetentionDecision};
use crate::{
    ApplicationInventory, Blobs, Codecs, CompactionResult, Damage, History, Inventories, InventoryUpdate,
    LoadedStream, LogError, LogStats, Lookup, OperationLog, OwnedShards, RawAppend, RawEntry,
    RawLoadedStream, Record, Shard, StreamName, Summary,
};

/// Point at which an append fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Before anything is written, so the group is absent.
    Before,
    /// After everything is durable but before the append returns. The group is present even though the caller
    /// receives an error.
    After,
}

/// An in-memory log. Clones are handles of the same process; [`MemoryLog::reopen`] starts the next process.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Mutex<Storage>>,
    /// Number of the process that owns this handle.
    process: u64,
    /// Stream kinds known to the process, or `None` for all.
    codecs: Option<Codecs>,
    /// Shards whose streams this handle may write to.
    owned: Arc<Mutex<OwnedShards>>,
}

impl std::fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLog").field("process", &self.process).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Storage {
    streams: BTreeMap<StreamId, StoredStream>,
    blobs: BTreeMap<Digest, Blob>,
    /// Inventories by cluster and application.
    inventories: BTreeMap<(String, String), ApplicationInventory>,
    quarantined: BTreeMap<StreamId, String>,
    damage: Vec<Damage>,
    /// Number of the process that currently has the storage open.
    process: u64,
    is_poisoned: bool,
    /// The next fault, and the number of successful appends before it.
    fault: Option<(u64, Fault)>,
    /// Number of blobs that still fit on the simulated disk, or `None` for no limit.
    free_blobs: Option<u64>,
    stats: LogStats,
    /// True if a complete compaction is scheduled.
    is_scheduled: bool,
    /// Growth since the last compaction, and the threshold for the next one.
    growth: Growth,
    limit: Growth,
}

struct StoredStream {
    append_state: AppendState,
    shard: Shard,
    /// Sequence number of the last removed event.
    base: u64,
    events: Vec<Record>,
    snapshot: Option<(u64, Record)>,
    summary: Summary<Record>,
    blobs: BTreeSet<Digest>,
    is_reduced: bool,
}

struct Blob {
    content: Vec<u8>,
    /// Process that last stored the blob and hasn't referred to it yet. Compactions by this process keep the
    /// blob.
    protected_by: Option<u64>,
}

impl StoredStream {
    fn history_line(&self) -> HistoryLine<'_> {
        let Summary { application, set, .. } = &self.summary;
        HistoryLine::new(&self.append_state.kind, application.as_deref(), set.as_deref())
    }

    /// Removes the oldest events that a snapshot covers, and returns their number.
    fn cut_events(&mut self, keep: &Retention) -> usize {
        let snapshot = self.snapshot.as_ref().map(|(sequence, _)| *sequence);
        let Some(cut) = keep.cut_point(self.append_state.last, self.base, snapshot) else { return 0 };
        let gone = usize::try_from(cut - self.base).unwrap_or(usize::MAX);
        self.events.drain(..gone);
        self.base = cut;
        gone
    }

    fn to_entry(&self, stream: StreamId) -> RawEntry {
        let AppendState { kind, last, epoch, .. } = &self.append_state;
        RawEntry {
            stream,
            kind: kind.clone(),
            shard: self.shard,
            epoch: *epoch,
            sequence: *last,
            summary: self.summary.clone(),
        }
    }

    fn matches(&self, lookup: &Lookup, codecs: Option<&Codecs>) -> bool {
        let Lookup { application, appset, open, kind, has_known_kind } = lookup;
        let summary = &self.summary;
        application.as_ref().is_none_or(|wanted| summary.application.as_ref() == Some(wanted))
            && appset.as_ref().is_none_or(|wanted| summary.set.as_ref() == Some(wanted))
            && open.is_none_or(|wanted| summary.is_open() == wanted)
            && kind.as_ref().is_none_or(|wanted| self.append_state.kind == *wanted)
            && has_known_kind.is_none_or(|wanted| {
                codecs.is_none_or(|codecs| codecs.has_kind(&self.append_state.kind)) == wanted
            })
    }
}

/// Returns the shard of a new stream.
fn shard_of(append: &RawAppend) -> Shard {
    append.shard.unwrap_or_else(|| append.summary.default_shard(append.stream))
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLog {
    /// Creates an empty log that accepts streams of any kind.
    pub fn new() -> Self {
        Self { shared: Arc::default(), process: 0, codecs: None, owned: Arc::default() }
    }

    /// Starts the next process on the same storage. Handles of earlier processes can't write from then on, as
    /// if they had been killed. Clears a pending fault.
    pub fn reopen(&self) -> Self {
        let mut shared = self.lock();
        shared.process += 1;
        shared.is_poisoned = false;
        (shared.fault, shared.free_blobs) = (None, None);
        Self {
            shared: Arc::clone(&self.shared),
            process: shared.process,
            codecs: self.codecs.clone(),
            owned: Arc::default(),
        }
    }

    /// Returns a handle for a replica, which owns the shards of [`MemoryLog::set_owned_shards`]. At first, it owns none.
    #[must_use]
    pub fn new_replica(&self) -> Self {
        Self { owned: Arc::new(Mutex::new(OwnedShards::Only(BTreeSet::new()))), ..self.clone() }
    }

    /// Sets the shards that this replica owns. Its appends to streams in other shards are rejected.
    pub fn set_owned_shards(&self, owned: OwnedShards) {
        *self.owned.lock().unwrap_or_else(PoisonError::into_inner) = owned;
    }

    /// Restricts the process to these stream kinds.
    #[must_use]
    pub fn with_codecs(self, codecs: Codecs) -> Self {
        Self { codecs: Some(codecs), ..self }
    }

    /// Schedules a fault: after `successes` more appends, the next append fails with `fault` and poisons the
    /// log.
    pub fn fail_append(&self, successes: u64, fault: Fault) {
        self.lock().fault = Some((successes, fault));
    }

    /// Sets the number of blobs that still fit on the simulated disk, or `None` for no limit.
    pub fn set_free_blobs(&self, blobs: Option<u64>) {
        self.lock().free_blobs = blobs;
    }

    /// Quarantines a stream, as if it had been found damaged on open.
    pub fn damage_stream(&self, stream: impl Into<StreamId>, reason: &str) {
        let (stream, mut shared) = (stream.into(), self.lock());
        shared.streams.remove(&stream);
        shared.quarantined.insert(stream, reason.to_owned());
        let reason = format!("quarantined: {reason}");
        shared.damage.push(Damage { stream: Some(stream), reason, quarantine: None, is_new: true });
    }

    /// Returns the amount of data written since the log was created.
    pub fn stats(&self) -> LogStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, Storage> {
        // Groups are swapped in as a whole, so a test that panics while holding the lock can't leave one
        // half-written.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_to_write(&self) -> Result<MutexGuard<'_, Storage>, LogError> {
        let shared = self.lock();
        if shared.is_poisoned || shared.process != self.process {
            Err(LogError::Poisoned)
        } else {
            Ok(shared)
        }
    }

    fn can_read(&self, stored: &StoredStream) -> bool {
        self.codecs.as_ref().is_none_or(|codecs| codecs.has_kind(&stored.append_state.kind))
    }

    /// Checks one append of a group. The stream's state already reflects the group's earlier appends.
    fn check_append(
        &self,
        shared: &Storage,
        append_states: &mut BTreeMap<StreamId, AppendState>,
        append: &RawAppend,
    ) -> Result<(), LogError> {
        let stream = append.stream;
        if let Some(codecs) = self.codecs.as_ref().filter(|codecs| !codecs.has_kind(&append.kind)) {
            let _ = codecs;
            return Err(LogError::UnknownKind { stream, kind: append.kind.clone() });
        }
        let name = || StreamName::with_kind(append.kind.clone(), stream);
        if let Some(reason) = shared.quarantined.get(&stream) {
            return Err(LogError::Damaged { stream: name(), reason: reason.clone() });
        }
        let before = shared.streams.get(&stream);
        if before.is_some_and(|stored| stored.is_reduced) {
            return Err(LogError::Compacted { stream: name() });
        }
        let append_state = append_states.entry(stream).or_insert_with(|| {
            before.map_or_else(|| AppendState::new(append.kind.clone()), |stored| stored.append_state.clone())
        });
        let shard = before.map_or_else(|| shard_of(append), |stored| stored.shard);
        if !self.owned.lock().unwrap_or_else(PoisonError::into_inner).contains(shard) {
            return Err(LogError::OtherReplica { stream: name(), shard });
        }
        append_state.check_append(append)?;
        append_checks::check_append_size(append)?;
        if let Some(&digest) = append.blobs.iter().find(|digest| !shared.blobs.contains_key(digest)) {
            return Err(LogError::BlobMissing { digest });
        }
        append_state.advance(append, &self.writer_name());
        Ok(())
    }

    /// Returns the name of this writer for messages to other processes.
    fn writer_name(&self) -> String {
        format!("process {}", self.process)
    }
}

impl Storage {
    fn is_compaction_due(&self) -> bool {
        self.is_scheduled || self.growth.has_reached(&self.limit)
    }

    fn find_stream(&self, stream: StreamId) -> Result<&StoredStream, LogError> {
        if let Some(reason) = self.quarantined.get(&stream) {
            return Err(LogError::Damaged { stream: stream.into(), reason: reason.clone() });
        }
        self.streams.get(&stream).ok_or(LogError::UnknownStream { stream: stream.into() })
    }

    fn commit(&mut self, append: RawAppend, writer: &str) {
        self.stats.events += to_u64(append.events.len());
        for digest in &append.blobs {
            if let Some(blob) = self.blobs.get_mut(digest) {
                blob.protected_by = None;
            }
        }
        if let Some(update) = &append.inventory {
            self.change_inventory(update);
        }
        let was_open = self.streams.get(&append.stream).is_none_or(|stored| stored.summary.is_open());
        self.growth.streams += usize::from(was_open && !append.summary.is_open());
        let stored = self.streams.entry(append.stream).or_insert_with(|| StoredStream {
            append_state: AppendState::new(append.kind.clone()),
            shard: shard_of(&append),
            base: 0,
            events: Vec::new(),
            snapshot: None,
            summary: append.summary.clone(),
            blobs: BTreeSet::new(),
            is_reduced: false,
        });
        self.growth.events += to_u64(append.events.len());
        stored.append_state.advance(&append, writer);
        stored.events.extend(append.events);
        if let Some(snapshot) = append.snapshot {
            stored.snapshot = Some((stored.append_state.last, snapshot));
        }
        stored.summary = append.summary;
        stored.blobs.extend(append.blobs);
    }

    fn change_inventory(&mut self, InventoryUpdate { application, cluster, changes }: &InventoryUpdate) {
        let of = (cluster.clone(), application.clone());
        for change in changes {
            if let Some(places) = change.apply(self.inventories.get(&of)) {
                self.inventories.insert(of.clone(), places);
            }
        }
    }

    /// Returns the fault for this append, if any, and poisons the log.
    fn next_fault(&mut self) -> Option<Fault> {
        match self.fault {
            Some((0, fault)) => {
                self.fault = None;
                self.is_poisoned = true;
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

fn injected_error() -> LogError {
    LogError::from_io(Path::new("memory"), "append to", io::Error::other("injected fault"))
}

impl OperationLog for MemoryLog {
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        let mut shared = self.lock_to_write()?;
        let mut append_states = BTreeMap::new();
        group.iter().try_for_each(|append| self.check_append(&shared, &mut append_states, append))?;
        let fault = shared.next_fault();
        if fault == Some(Fault::Before) {
            return Err(injected_error());
        }
        for append in group {
            shared.commit(append, &self.writer_name());
        }
        shared.stats.groups += 1;
        shared.stats.flushes += 1;
        if fault == Some(Fault::After) { Err(injected_error()) } else { Ok(()) }
    }

    fn load(&self, stream: StreamId) -> Result<RawLoadedStream, LogError> {
        let shared = self.lock();
        let stored = shared.find_stream(stream)?;
        if stored.is_reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let covered =
            stored.snapshot.as_ref().map_or(0, |(sequence, _)| *sequence).saturating_sub(stored.base);
        let skipped = usize::try_from(covered).unwrap_or(usize::MAX);
        Ok(LoadedStream {
            kind: stored.append_state.kind.clone(),
            epoch: stored.append_state.epoch,
            snapshot: stored.snapshot.clone(),
            events: stored.events.iter().skip(skipped).cloned().collect(),
            last_sequence: stored.append_state.last,
        })
    }

    fn events(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        let shared = self.lock();
        let stored = shared.find_stream(stream)?;
        if stored.is_reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let (kind, first_sequence) = (stored.append_state.kind.clone(), stored.base.saturating_add(1));
        Ok(History { kind, first_sequence, events: stored.events.clone() })
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        Ok(self.lock().streams.get(&stream).map(|stored| stored.to_entry(stream)))
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        let shared = self.lock();
        let wanted = shared.streams.iter().filter(|(_, stored)| stored.matches(lookup, self.codecs.as_ref()));
        Ok(wanted.map(|(stream, stored)| stored.to_entry(*stream)).collect())
    }

    fn ids(&self) -> Result<Vec<StreamId>, LogError> {
        Ok(self.lock().streams.keys().copied().collect())
    }

    fn schedule_compaction(&self) {
        self.lock().is_scheduled = true;
    }

    fn is_compaction_due(&self) -> bool {
        self.lock().is_compaction_due()
    }

    /// Runs the whole compaction in one step, because compacting memory is fast.
    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError> {
        let mut shared = self.lock_to_write()?;
        let shared = &mut *shared;
        if !shared.is_compaction_due() {
            return Ok(None);
        }
        let keep = if std::mem::take(&mut shared.is_scheduled) { *keep } else { keep.for_growth() };
        let mut done = CompactionResult::default();
        let finished = shared.streams.iter().filter(|(_, stored)| self.can_read(stored));
        let finished = finished.filter_map(|(stream, stored)| {
            Some((*stream, stored.history_line(), stored.summary.finished_at?))
        });
        let RetentionDecision { reduced, forgotten } = retention::decide_retention(finished, &keep, now);
        for stream in reduced {
            let Some(stored) = shared.streams.get_mut(&stream).filter(|stored| !stored.is_reduced) else {
                continue;
            };
            done.streams += 1;
            done.events += stored.events.len();
            stored.base = stored.append_state.last;
            stored.events.clear();
            stored.snapshot = None;
            stored.blobs.clear();
            stored.is_reduced = true;
        }
        done.forgotten = forgotten.len();
        forgotten.iter().for_each(|stream| drop(shared.streams.remove(stream)));
        for stored in
            shared.streams.values_mut().filter(|stored| stored.summary.is_open() && self.can_read(stored))
        {
            done.events += stored.cut_events(&keep);
        }
        let referred: BTreeSet<Digest> =
            shared.streams.values().flat_map(|stored| stored.blobs.iter().copied()).collect();
        let before = shared.blobs.len();
        let process = shared.process;
        shared.blobs.retain(|digest, blob| referred.contains(digest) || blob.protected_by == Some(process));
        done.blobs = before - shared.blobs.len();
        let is_whole = |stored: &&StoredStream| !stored.is_reduced && !stored.summary.is_open();
        let whole = shared.streams.values().filter(is_whole).count();
        (shared.growth, shared.limit) = (Growth::default(), Growth::limit_for(&keep, whole, 0));
        Ok(Some(done))
    }

    fn damage(&self) -> Vec<Damage> {
        self.lock().damage.clone()
    }
}

fn disk_full_error() -> LogError {
    LogError::from_io(Path::new("memory"), "write", io::Error::from(io::ErrorKind::StorageFull))
}

impl Blobs for MemoryLog {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        append_checks::check_blob_size(content)?;
        let digest = Digest(Sha256::digest(content).into());
        let mut shared = self.lock_to_write()?;
        shared.free_blobs = match shared.free_blobs {
            Some(room) => Some(room.checked_sub(1).ok_or_else(disk_full_error)?),
            None => None,
        };
        let protected_by = Some(shared.process);
        shared.blobs.insert(digest, Blob { content: content.to_vec(), protected_by });
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let shared = self.lock();
        shared.blobs.get(&digest).map(|blob| blob.content.clone()).ok_or(LogError::BlobMissing { digest })
    }
}

impl Inventories for MemoryLog {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError> {
        let of = (cluster.to_owned(), application.to_owned());
        Ok(self.lock().inventories.get(&of).cloned())
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.lock_to_write()?.change_inventory(update);
        Ok(())
    }
}
