//! The log in memory, for tests and the simulator.
//!
//! Records are kept as bytes, as on disk, so a type that does not survive its codec fails here too. The storage outlives
//! its handles: a test drops a "process" with everything it held and opens the storage again.
//!
//! ```text
//! let log = MemoryLog::new();        // a process …
//! log.fail_append(3, Fault::Before); // … that dies when it appends for the fourth time
//! let log = log.reopen();            // the next process on the same storage; the old handle is dead
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tidegate_model::{Digest, StreamId, Timestamp};

use crate::retention::{self, Fate, Line, Retention};
use crate::rules::{self, Standing};
use crate::{
    Blobs, Codecs, Compacted, Damage, History, Inventories, InventoryUpdate, Known, Loaded, LogError,
    LogStats, Lookup, OperationLog, RawAppend, RawEntry, RawLoaded, Record, StreamName, Summary,
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
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Mutex<Shared>>,
    /// Which process this handle belongs to.
    process: u64,
    /// The kinds it knows; all, if this is `None`.
    codecs: Option<Codecs>,
}

impl std::fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLog").field("process", &self.process).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    streams: BTreeMap<StreamId, Kept>,
    blobs: BTreeMap<Digest, Blob>,
    /// By cluster and application.
    inventories: BTreeMap<(String, String), Known>,
    set_aside: BTreeMap<StreamId, String>,
    damage: Vec<Damage>,
    /// The process that holds the storage now.
    process: u64,
    poisoned: bool,
    /// Appends that still succeed before the fault strikes, and the fault.
    fault: Option<(u64, Fault)>,
    /// So many blobs more find room; all, if this is `None`.
    room: Option<u64>,
    stats: LogStats,
}

struct Kept {
    standing: Standing,
    /// Facts up to this one are gone.
    base: u64,
    facts: Vec<Record>,
    snapshot: Option<(u64, Record)>,
    summary: Summary<Record>,
    blobs: BTreeSet<Digest>,
    reduced: bool,
}

struct Blob {
    content: Vec<u8>,
    /// The process that put it last and has not referred to it yet; a compaction of that process leaves it alone.
    unclaimed_by: Option<u64>,
}

impl Kept {
    fn line(&self) -> Line<'_> {
        let Summary { application, set, .. } = &self.summary;
        Line::new(&self.standing.kind, application.as_deref(), set.as_deref())
    }

    /// Lets the oldest facts go that a snapshot covers; returns how many.
    fn cut(&mut self, keep: &Retention) -> usize {
        let snapshot = self.snapshot.as_ref().map(|(sequence, _)| *sequence);
        let Some(cut) = keep.cut(self.standing.last, self.base, snapshot) else { return 0 };
        let gone = usize::try_from(cut - self.base).unwrap_or(usize::MAX);
        self.facts.drain(..gone);
        self.base = cut;
        gone
    }

    fn entry(&self, stream: StreamId) -> RawEntry {
        let Standing { kind, last, epoch, .. } = &self.standing;
        RawEntry { stream, kind: kind.clone(), epoch: *epoch, sequence: *last, summary: self.summary.clone() }
    }

    fn is_wanted(&self, lookup: &Lookup, codecs: Option<&Codecs>) -> bool {
        let Lookup { application, set, open, kind, known } = lookup;
        let summary = &self.summary;
        application.as_ref().is_none_or(|wanted| summary.application.as_ref() == Some(wanted))
            && set.as_ref().is_none_or(|wanted| summary.set.as_ref() == Some(wanted))
            && open.is_none_or(|wanted| summary.is_open() == wanted)
            && kind.as_ref().is_none_or(|wanted| self.standing.kind == *wanted)
            && known
                .is_none_or(|wanted| codecs.is_none_or(|codecs| codecs.know(&self.standing.kind)) == wanted)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLog {
    /// An empty log, for streams of any kind.
    pub fn new() -> Self {
        Self { shared: Arc::default(), process: 0, codecs: None }
    }

    /// Opens the same storage as the next process. Handles of earlier processes can no longer write, as if killed;
    /// a fault that was set and has not struck is forgotten.
    pub fn reopen(&self) -> Self {
        let mut shared = self.lock();
        shared.process += 1;
        shared.poisoned = false;
        (shared.fault, shared.room) = (None, None);
        Self { shared: Arc::clone(&self.shared), process: shared.process, codecs: self.codecs.clone() }
    }

    /// The same process, as one that knows these kinds of streams and no others.
    #[must_use]
    pub fn knowing(self, codecs: Codecs) -> Self {
        Self { codecs: Some(codecs), ..self }
    }

    /// Lets `successes` more appends through, then fails one with `fault` and poisons the log.
    pub fn fail_append(&self, successes: u64, fault: Fault) {
        self.lock().fault = Some((successes, fault));
    }

    /// Has room for so many blobs more, and then the disk is full for them; `None` makes room again.
    pub fn leave_room(&self, blobs: Option<u64>) {
        self.lock().room = blobs;
    }

    /// Sets a stream aside, as opening does with one it finds damaged.
    pub fn damage_stream(&self, stream: impl Into<StreamId>, reason: &str) {
        let (stream, mut shared) = (stream.into(), self.lock());
        shared.streams.remove(&stream);
        shared.set_aside.insert(stream, reason.to_owned());
        let reason = format!("set aside: {reason}");
        shared.damage.push(Damage { stream: Some(stream), reason, quarantine: None, is_new: true });
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

    fn knows(&self, kept: &Kept) -> bool {
        self.codecs.as_ref().is_none_or(|codecs| codecs.know(&kept.standing.kind))
    }

    /// Checks one append of a group, given how its stream stands after those before it in the group.
    fn check(
        &self,
        shared: &Shared,
        standings: &mut BTreeMap<StreamId, Standing>,
        append: &RawAppend,
    ) -> Result<(), LogError> {
        let stream = append.stream;
        if let Some(codecs) = self.codecs.as_ref().filter(|codecs| !codecs.know(&append.kind)) {
            let _ = codecs;
            return Err(LogError::UnknownKind { stream, kind: append.kind.clone() });
        }
        let name = || StreamName::of(append.kind.clone(), stream);
        if let Some(reason) = shared.set_aside.get(&stream) {
            return Err(LogError::Damaged { stream: name(), reason: reason.clone() });
        }
        let before = shared.streams.get(&stream);
        if before.is_some_and(|kept| kept.reduced) {
            return Err(LogError::Compacted { stream: name() });
        }
        let standing = standings.entry(stream).or_insert_with(|| {
            before.map_or_else(|| Standing::new(append.kind.clone()), |kept| kept.standing.clone())
        });
        standing.check(append)?;
        rules::check_size(append)?;
        if let Some(&digest) = append.blobs.iter().find(|digest| !shared.blobs.contains_key(digest)) {
            return Err(LogError::BlobMissing { digest });
        }
        standing.after(append, &self.writer());
        Ok(())
    }

    /// Who writes through this handle, as others are told.
    fn writer(&self) -> String {
        format!("process {}", self.process)
    }
}

impl Shared {
    fn find(&self, stream: StreamId) -> Result<&Kept, LogError> {
        if let Some(reason) = self.set_aside.get(&stream) {
            return Err(LogError::Damaged { stream: stream.into(), reason: reason.clone() });
        }
        self.streams.get(&stream).ok_or(LogError::UnknownStream { stream: stream.into() })
    }

    fn commit(&mut self, append: RawAppend, writer: &str) {
        self.stats.facts += count(append.facts.len());
        for digest in &append.blobs {
            if let Some(blob) = self.blobs.get_mut(digest) {
                blob.unclaimed_by = None;
            }
        }
        if let Some(update) = &append.inventory {
            self.change(update);
        }
        let kept = self.streams.entry(append.stream).or_insert_with(|| Kept {
            standing: Standing::new(append.kind.clone()),
            base: 0,
            facts: Vec::new(),
            snapshot: None,
            summary: append.summary.clone(),
            blobs: BTreeSet::new(),
            reduced: false,
        });
        kept.standing.after(&append, writer);
        kept.facts.extend(append.facts);
        if let Some(snapshot) = append.snapshot {
            kept.snapshot = Some((kept.standing.last, snapshot));
        }
        kept.summary = append.summary;
        kept.blobs.extend(append.blobs);
    }

    fn change(&mut self, InventoryUpdate { application, cluster, changes }: &InventoryUpdate) {
        let of = (cluster.clone(), application.clone());
        for change in changes {
            if let Some(places) = change.apply(self.inventories.get(&of)) {
                self.inventories.insert(of.clone(), places);
            }
        }
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

impl OperationLog for MemoryLog {
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        let mut shared = self.lock_to_write()?;
        let mut standings = BTreeMap::new();
        group.iter().try_for_each(|append| self.check(&shared, &mut standings, append))?;
        let fault = shared.strike();
        if fault == Some(Fault::Before) {
            return Err(injected());
        }
        for append in group {
            shared.commit(append, &self.writer());
        }
        shared.stats.groups += 1;
        shared.stats.flushes += 1;
        if fault == Some(Fault::After) { Err(injected()) } else { Ok(()) }
    }

    fn load(&self, stream: StreamId) -> Result<RawLoaded, LogError> {
        let shared = self.lock();
        let kept = shared.find(stream)?;
        if kept.reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let covered = kept.snapshot.as_ref().map_or(0, |(sequence, _)| *sequence).saturating_sub(kept.base);
        let skipped = usize::try_from(covered).unwrap_or(usize::MAX);
        Ok(Loaded {
            kind: kept.standing.kind.clone(),
            epoch: kept.standing.epoch,
            snapshot: kept.snapshot.clone(),
            facts: kept.facts.iter().skip(skipped).cloned().collect(),
            last_sequence: kept.standing.last,
        })
    }

    fn facts(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        let shared = self.lock();
        let kept = shared.find(stream)?;
        if kept.reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let (kind, first_sequence) = (kept.standing.kind.clone(), kept.base.saturating_add(1));
        Ok(History { kind, first_sequence, facts: kept.facts.clone() })
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        Ok(self.lock().streams.get(&stream).map(|kept| kept.entry(stream)))
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        let shared = self.lock();
        let wanted = shared.streams.iter().filter(|(_, kept)| kept.is_wanted(lookup, self.codecs.as_ref()));
        Ok(wanted.map(|(stream, kept)| kept.entry(*stream)).collect())
    }

    fn ids(&self) -> Vec<StreamId> {
        self.lock().streams.keys().copied().collect()
    }

    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<Compacted, LogError> {
        let mut shared = self.lock_to_write()?;
        let shared = &mut *shared;
        let mut done = Compacted::default();
        let finished = shared.streams.iter().filter(|(_, kept)| self.knows(kept));
        let finished =
            finished.filter_map(|(stream, kept)| Some((*stream, kept.line(), kept.summary.finished_at?)));
        let Fate { reduced, forgotten } = retention::fate(finished, keep, now);
        for stream in reduced {
            let Some(kept) = shared.streams.get_mut(&stream).filter(|kept| !kept.reduced) else {
                continue;
            };
            done.streams += 1;
            done.facts += kept.facts.len();
            kept.base = kept.standing.last;
            kept.facts.clear();
            kept.snapshot = None;
            kept.blobs.clear();
            kept.reduced = true;
        }
        done.forgotten = forgotten.len();
        forgotten.iter().for_each(|stream| drop(shared.streams.remove(stream)));
        for kept in shared.streams.values_mut().filter(|kept| kept.summary.is_open() && self.knows(kept)) {
            done.facts += kept.cut(keep);
        }
        let referred: BTreeSet<Digest> =
            shared.streams.values().flat_map(|kept| kept.blobs.iter().copied()).collect();
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

fn full() -> LogError {
    LogError::io(Path::new("memory"), "write", io::Error::from(io::ErrorKind::StorageFull))
}

impl Blobs for MemoryLog {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        rules::check_blob(content)?;
        let digest = Digest(Sha256::digest(content).into());
        let mut shared = self.lock_to_write()?;
        shared.room = match shared.room {
            Some(room) => Some(room.checked_sub(1).ok_or_else(full)?),
            None => None,
        };
        let unclaimed_by = Some(shared.process);
        shared.blobs.insert(digest, Blob { content: content.to_vec(), unclaimed_by });
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let shared = self.lock();
        shared.blobs.get(&digest).map(|blob| blob.content.clone()).ok_or(LogError::BlobMissing { digest })
    }
}

impl Inventories for MemoryLog {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        let of = (cluster.to_owned(), application.to_owned());
        Ok(self.lock().inventories.get(&of).cloned())
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.lock_to_write()?.change(update);
        Ok(())
    }
}
