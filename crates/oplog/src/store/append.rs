//! Appends. An append checks everything, stores large records in blobs, writes, flushes and syncs one batch,
//! and then updates the witness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use tidegate_model::{Digest, StreamId};

use super::head::{Head, SnapshotMark};
use super::inventories::InventoryChanges;
use super::listing::ListingRow;
use super::record::{encode_reference, encode_row, place_record};
use super::{LiveStream, SledLog, State, keys};
use crate::append_checks::{self, AppendState};
use crate::frame::{Address, Family};
use crate::witness::{WITNESS_FILE, Witness};
use crate::{LogError, RawAppend, StreamName};

/// Group being written to the database.
#[derive(Default)]
struct AppendGroup {
    batch: sled::Batch,
    live: BTreeMap<StreamId, LiveStream>,
    /// New references in this group. A reference shared by several appends counts only once.
    references: BTreeSet<(StreamId, Digest)>,
    inventories: InventoryChanges,
    events: u64,
    /// Size of the group's rows in bytes.
    bytes: u64,
    /// Blobs that the group adds references to, once per reference.
    referenced: Vec<Digest>,
    /// Blobs of the snapshots that the group replaces.
    released: Vec<Digest>,
}

impl AppendGroup {
    fn insert(&mut self, key: Vec<u8>, row: Vec<u8>) {
        self.bytes = self.bytes.saturating_add(u64::try_from(row.len()).unwrap_or(u64::MAX));
        self.batch.insert(key, row);
    }
}

impl SledLog {
    pub(super) fn append_group(&self, appends: &[RawAppend]) -> Result<(), LogError> {
        let mut state = self.lock_to_write()?;
        let mut append_states = BTreeMap::new();
        appends.iter().try_for_each(|append| self.check_append(&state, &mut append_states, append))?;
        if appends.is_empty() {
            return Ok(());
        }
        self.write_or_poison(|| self.write_group(&mut state, appends))?;
        self.unprotect_blobs(appends);
        Ok(())
    }

    /// Rejects invalid appends.
    fn check_append(
        &self,
        state: &State,
        append_states: &mut BTreeMap<StreamId, AppendState>,
        append: &RawAppend,
    ) -> Result<(), LogError> {
        let (stream, kind) = (append.stream, &append.kind);
        let name = StreamName::with_kind(kind.clone(), stream);
        if !self.codecs.has_kind(kind) {
            return Err(LogError::UnknownKind { stream, kind: kind.clone() });
        }
        if let Some(broken) = self.quarantined.get(&stream) {
            return Err(Self::broken_stream_error(stream, broken).with_stream_name(&name));
        }
        let live = state.streams.get(&stream);
        if live.is_some_and(|live| live.head.reduced) {
            return Err(LogError::Compacted { stream: name });
        }
        let append_state = append_states
            .entry(stream)
            .or_insert_with(|| live.map_or_else(|| AppendState::new(kind.clone()), LiveStream::append_state));
        append_state.check_append(append)?;
        append_checks::check_append_size(append)?;
        for &digest in &append.blobs {
            if !self.blobs.contains(digest)? {
                return Err(LogError::BlobMissing { digest });
            }
        }
        append_state.advance(append, &self.writer);
        Ok(())
    }

    fn write_group(&self, state: &mut State, appends: &[RawAppend]) -> Result<(), LogError> {
        let mut group = AppendGroup::default();
        for append in appends {
            let before =
                group.live.remove(&append.stream).or_else(|| state.streams.get(&append.stream).cloned());
            let live = self.add_append(&mut group, before, append)?;
            group.live.insert(append.stream, live);
            if let Some(update) = &append.inventory {
                self.add_inventory(&mut group.inventories, update)?;
            }
        }
        for (stream, live) in &group.live {
            let row = encode_row(*stream, live.head.revision, &live.head)?;
            group.batch.insert(keys::prefix(keys::HEAD, *stream), row);
        }
        let places = self.inventory_rows(group.inventories, &mut group.batch)?;
        self.database.commit(group.batch)?;
        state.witness.add(group.live.iter().map(LiveStream::witness_note))?;
        // If the directory moved away during the write, the next process wouldn't find the data.
        self.check_in_place(state)?;
        let is_open = |stream| state.streams.get(stream).is_none_or(LiveStream::is_open);
        let ended = group.live.iter().filter(|(stream, live)| !live.is_open() && is_open(*stream)).count();
        group.live.into_iter().for_each(|(stream, live)| state.put_stream(stream, live));
        state.place_inventories(places);
        let blobs = state.ledger.blobs();
        group.referenced.into_iter().for_each(|digest| blobs.add(digest));
        let unused: Vec<Digest> =
            group.released.into_iter().filter_map(|digest| blobs.remove(digest)).collect();
        state.agenda.blobs.extend(unused);
        state.stats.groups += 1;
        state.stats.flushes += 1;
        state.stats.events += group.events;
        state.ledger.record_growth(ended, group.events, group.bytes);
        if state.ledger.is_due(self.blobs.bytes_written()) {
            self.is_compaction_due.store(true, Ordering::SeqCst);
        }
        if state.witness.is_full() {
            self.renew_witness(state)?;
        }
        Ok(())
    }

    /// Adds the rows of one append to the batch. Returns the stream's state after the append.
    fn add_append(
        &self,
        group: &mut AppendGroup,
        before: Option<LiveStream>,
        append: &RawAppend,
    ) -> Result<LiveStream, LogError> {
        let stream = append.stream;
        let mut append_state =
            before.as_ref().map_or_else(|| AppendState::new(append.kind.clone()), LiveStream::append_state);
        append_state.advance(append, &self.writer);
        let indexed: Vec<Vec<u8>> = before.iter().flat_map(|live| live.index_keys(stream)).collect();
        let mut head = before.map_or_else(Head::new, |live| live.head);
        head.revision = head.revision.saturating_add(1);
        head.record_writer(&append_state);
        for event in &append.events {
            let address = Address { family: Family::Event, stream, number: head.last.saturating_add(1) };
            let (row, blob) = place_record(event, address, &self.blobs)?;
            head.extend(&row);
            group.insert(keys::event(stream, head.last), row);
            group.events += 1;
            if let Some(digest) = blob {
                self.add_reference(group, &mut head, stream, digest)?;
            }
        }
        for &digest in &append.blobs {
            self.add_reference(group, &mut head, stream, digest)?;
        }
        if let Some(snapshot) = &append.snapshot {
            if let Some(old) = head.snapshot {
                group.batch.remove(keys::snapshot(stream, old.sequence));
                group.released.extend(old.blob);
            }
            let address = Address { family: Family::Snapshot, stream, number: head.last };
            let (row, blob) = place_record(snapshot, address, &self.blobs)?;
            group.insert(keys::snapshot(stream, head.last), row);
            group.referenced.extend(blob);
            head.snapshot = Some(SnapshotMark { sequence: head.last, digest: head.digest, blob });
        }
        let line = ListingRow::new(&append.kind, &append.summary);
        group.batch.insert(keys::prefix(keys::SUMMARY, stream), encode_row(stream, head.revision, &line)?);
        let live = LiveStream::new(head, &line);
        let index: Vec<Vec<u8>> = live.index_keys(stream).collect();
        if index != indexed {
            indexed.into_iter().for_each(|key| group.batch.remove(key));
            index.into_iter().for_each(|key| group.batch.insert(key, &[][..]));
        }
        Ok(live)
    }

    /// Adds a reference to a blob, unless the stream already has it.
    fn add_reference(
        &self,
        group: &mut AppendGroup,
        head: &mut Head,
        stream: StreamId,
        digest: Digest,
    ) -> Result<(), LogError> {
        let key = keys::reference(stream, digest);
        if self.database.get(&key)?.is_none() && group.references.insert((stream, digest)) {
            group.batch.insert(key, encode_reference(stream, digest)?);
            group.referenced.push(digest);
            head.references = head.references.saturating_add(1);
        }
        Ok(())
    }

    /// Ends the protection of blobs that these appends refer to.
    fn unprotect_blobs(&self, appends: &[RawAppend]) {
        let mut unclaimed = self.lock_unreferenced_blobs();
        for digest in appends.iter().flat_map(|append| &append.blobs) {
            if let Some(times) = unclaimed.get_mut(digest) {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    unclaimed.remove(digest);
                }
            }
        }
    }

    /// Begins a new witness file with the current state.
    pub(super) fn renew_witness(&self, state: &mut State) -> Result<(), LogError> {
        let path = self.directory.join(WITNESS_FILE);
        state.witness =
            Witness::begin(path, state.forgotten, state.streams.iter().map(LiveStream::witness_note))?;
        Ok(())
    }
}
