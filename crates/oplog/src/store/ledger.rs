//! In-memory bookkeeping for compaction, which saves it from scanning the whole log. Covers the finished
//! streams in each history line, the open streams, the number of references to each blob, and the growth
//! since the last examination.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_model::{Digest, StreamId, Timestamp};

use super::keys::{self, Key};
use super::{LiveStream, SledLog, State};
use crate::retention::{Growth, HistoryLineKey};
use crate::{LogError, Retention};

/// In-memory data that decides when a compaction is due, and which streams and blobs to examine.
#[derive(Default)]
pub(super) struct Ledger {
    lines: BTreeMap<HistoryLineKey, BTreeSet<StreamId>>,
    /// Lines with newly finished streams since the last examination.
    changed: BTreeSet<HistoryLineKey>,
    open: BTreeSet<StreamId>,
    /// Number of finished streams.
    finished_count: usize,
    /// Number of finished streams that still have their events.
    whole_count: usize,
    blobs: BlobUse,
    /// Growth since the last examination.
    growth: Growth,
    /// Growth that makes the next examination due.
    limit: Growth,
    /// Bytes written to blob files before `growth` started counting.
    bytes_before: u64,
}

/// Number of references to each blob from reference rows, snapshots and inventories.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BlobUse {
    uses: HashMap<Digest, u32>,
    inventories: BTreeMap<StreamId, Digest>,
}

impl BlobUse {
    pub(super) fn add(&mut self, digest: Digest) {
        *self.uses.entry(digest).or_default() += 1;
    }

    /// Removes one reference. Returns the blob if this was its last.
    pub(super) fn remove(&mut self, digest: Digest) -> Option<Digest> {
        let uses = self.uses.get_mut(&digest)?;
        *uses = uses.saturating_sub(1);
        (*uses == 0).then(|| {
            self.uses.remove(&digest);
            digest
        })
    }

    /// Replaces the blob of an inventory. Returns the old blob if nothing else refers to it.
    pub(super) fn set_inventory(&mut self, id: StreamId, blob: Option<Digest>) -> Option<Digest> {
        // Add the new blob before removing the old: they may be identical.
        blob.into_iter().for_each(|digest| self.add(digest));
        let before = match blob {
            Some(digest) => self.inventories.insert(id, digest),
            None => self.inventories.remove(&id),
        };
        before.and_then(|digest| self.remove(digest))
    }

    pub(super) fn contains(&self, digest: &Digest) -> bool {
        self.uses.contains_key(digest)
    }
}

impl Ledger {
    fn add_stream(&mut self, stream: StreamId, live: &LiveStream) {
        if live.is_open() {
            self.open.insert(stream);
            return;
        }
        let key = live.history_line().to_key();
        self.finished_count += 1;
        if !live.head.reduced {
            self.whole_count += 1;
            self.changed.insert(key.clone());
        }
        self.lines.entry(key).or_default().insert(stream);
    }

    /// Removes a stream that was added in this state.
    fn remove_stream(&mut self, stream: StreamId, live: &LiveStream) {
        if self.open.remove(&stream) {
            return;
        }
        let key = live.history_line().to_key();
        let Some(line) = self.lines.get_mut(&key) else { return };
        if line.remove(&stream) {
            self.finished_count = self.finished_count.saturating_sub(1);
            self.whole_count = self.whole_count.saturating_sub(usize::from(!live.head.reduced));
        }
        if line.is_empty() {
            self.lines.remove(&key);
            self.changed.remove(&key);
        }
    }

    pub(super) fn blobs(&mut self) -> &mut BlobUse {
        &mut self.blobs
    }

    pub(super) fn is_blob_used(&self, digest: &Digest) -> bool {
        self.blobs.contains(digest)
    }

    pub(super) fn finished_count(&self) -> usize {
        self.finished_count
    }

    /// Returns two numbers of entries: streams and changed lines, and blobs and inventories.
    pub(super) fn entries(&self) -> (usize, usize) {
        let finished: usize = self.lines.values().map(BTreeSet::len).sum();
        let streams = [finished, self.open.len(), self.changed.len()].into_iter().sum();
        (streams, self.blobs.uses.len().saturating_add(self.blobs.inventories.len()))
    }

    pub(super) fn open_streams(&self) -> Vec<StreamId> {
        self.open.iter().copied().collect()
    }

    /// Returns the lines to examine: all, or only those changed since the last examination.
    pub(super) fn take_lines(&mut self, all: bool) -> Vec<HistoryLineKey> {
        let changed = std::mem::take(&mut self.changed);
        if all { self.lines.keys().cloned().collect() } else { changed.into_iter().collect() }
    }

    /// Returns the finished streams of a line, newest first.
    pub(super) fn finished_in_line<'a>(
        &'a self,
        key: &HistoryLineKey,
        live: &'a BTreeMap<StreamId, LiveStream>,
    ) -> impl Iterator<Item = (StreamId, Timestamp)> + 'a {
        let line = self.lines.get(key).into_iter().flat_map(|line| line.iter().rev());
        line.filter_map(|stream| Some((*stream, live.get(stream)?.finished_at?)))
    }

    /// Adds a group's finished streams, events and bytes to the growth.
    pub(super) fn record_growth(&mut self, streams: usize, events: u64, bytes: u64) {
        self.growth.streams = self.growth.streams.saturating_add(streams);
        self.growth.events = self.growth.events.saturating_add(events);
        self.growth.bytes = self.growth.bytes.saturating_add(bytes);
    }

    /// Returns true if the log has grown enough for an examination. `blob_bytes` is the number of blob bytes
    /// written since the log was opened.
    pub(super) fn is_due(&self, blob_bytes: u64) -> bool {
        let blobs = blob_bytes.saturating_sub(self.bytes_before);
        Growth { bytes: self.growth.bytes.saturating_add(blobs), ..self.growth }.has_reached(&self.limit)
    }

    /// Resets the growth to zero after an examination.
    pub(super) fn reset_growth(&mut self, blob_bytes: u64) {
        (self.growth, self.bytes_before) = (Growth::default(), blob_bytes);
    }

    /// Sets the growth that makes the next examination due, for a log of `bytes` bytes.
    pub(super) fn set_limit(&mut self, keep: &Retention, bytes: u64) {
        self.limit = Growth::limit_for(keep, self.whole_count, bytes);
    }
}

impl State {
    pub(super) fn put_stream(&mut self, stream: StreamId, live: LiveStream) {
        self.remove_stream(stream);
        self.ledger.add_stream(stream, &live);
        self.streams.insert(stream, live);
    }

    pub(super) fn remove_stream(&mut self, stream: StreamId) -> Option<LiveStream> {
        let live = self.streams.remove(&stream)?;
        self.ledger.remove_stream(stream, &live);
        Some(live)
    }
}

impl SledLog {
    /// Fills the ledger of a newly opened log.
    pub(super) fn fill_ledger(&self) -> Result<(), LogError> {
        let mut state = self.lock();
        let state = &mut *state;
        for (stream, live) in &state.streams {
            state.ledger.add_stream(*stream, live);
        }
        state.ledger.blobs = self.count_blobs(state)?;
        Ok(())
    }

    /// Counts the references to each blob in the database.
    pub(super) fn count_blobs(&self, state: &State) -> Result<BlobUse, LogError> {
        let mut blobs = BlobUse::default();
        for (key, _) in self.database.rows(&[keys::REFERENCE])? {
            if let Some(Key::Reference(_, digest)) = keys::parse(&key) {
                blobs.add(digest);
            }
        }
        state
            .streams
            .values()
            .filter_map(|live| live.head.snapshot?.blob)
            .for_each(|digest| blobs.add(digest));
        self.foreign_snapshot_blobs()?.into_iter().for_each(|digest| blobs.add(digest));
        for (id, digest) in self.inventory_blobs()? {
            blobs.set_inventory(id, Some(digest));
        }
        Ok(blobs)
    }
}
