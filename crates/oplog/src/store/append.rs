//! Appending: check everything, place large records, then one batch, one flush, one sync, the witness.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Digest, StreamId};

use super::head::{Head, SnapshotMark};
use super::line::Line;
use super::record::{place, write_own, write_reference};
use super::stock::Changed;
use super::{Live, SledLog, State, keys};
use crate::frame::{Address, Family};
use crate::rules::{self, Standing};
use crate::witness::{WITNESS, Witness};
use crate::{LogError, RawAppend, StreamName};

/// A group on its way into the database.
#[derive(Default)]
struct Group {
    batch: sled::Batch,
    live: BTreeMap<StreamId, Live>,
    /// References of this group, so that none is counted twice.
    references: BTreeSet<(StreamId, Digest)>,
    inventories: Changed,
    facts: u64,
}

impl SledLog {
    pub(super) fn append_group(&self, appends: &[RawAppend]) -> Result<(), LogError> {
        let mut state = self.lock_to_write()?;
        let mut standings = BTreeMap::new();
        appends.iter().try_for_each(|append| self.check(&state, &mut standings, append))?;
        if appends.is_empty() {
            return Ok(());
        }
        self.poisoning(|| self.write(&mut state, appends))?;
        self.claim(appends);
        Ok(())
    }

    /// Refuses what must not be written.
    fn check(
        &self,
        state: &State,
        standings: &mut BTreeMap<StreamId, Standing>,
        append: &RawAppend,
    ) -> Result<(), LogError> {
        let (stream, kind) = (append.stream, &append.kind);
        let name = StreamName::of(kind.clone(), stream);
        if !self.codecs.know(kind) {
            return Err(LogError::UnknownKind { stream, kind: kind.clone() });
        }
        if let Some(broken) = self.set_aside.get(&stream) {
            return Err(Self::broken(stream, broken).about(&name));
        }
        let live = state.live.get(&stream);
        if live.is_some_and(|live| live.head.reduced) {
            return Err(LogError::Compacted { stream: name });
        }
        let standing = standings
            .entry(stream)
            .or_insert_with(|| live.map_or_else(|| Standing::new(kind.clone()), Live::standing));
        standing.check(append)?;
        rules::check_size(append)?;
        for &digest in &append.blobs {
            if !self.blobs.contains(digest)? {
                return Err(LogError::BlobMissing { digest });
            }
        }
        standing.after(append, &self.writer);
        Ok(())
    }

    fn write(&self, state: &mut State, appends: &[RawAppend]) -> Result<(), LogError> {
        let mut group = Group::default();
        for append in appends {
            let before =
                group.live.remove(&append.stream).or_else(|| state.live.get(&append.stream).cloned());
            let live = self.add(&mut group, before, append)?;
            group.live.insert(append.stream, live);
            if let Some(update) = &append.inventory {
                self.add_inventory(&mut group.inventories, update)?;
            }
        }
        for (stream, live) in &group.live {
            let row = write_own(*stream, live.head.revision, &live.head)?;
            group.batch.insert(keys::of(keys::HEAD, *stream), row);
        }
        self.inventory_rows(group.inventories, &mut group.batch)?;
        self.database.commit(group.batch)?;
        state.witness.add(group.live.iter().map(Live::note))?;
        // Durable in a directory that nobody finds is not durable.
        self.check_place(state)?;
        state.live.append(&mut group.live);
        state.stats.groups += 1;
        state.stats.flushes += 1;
        state.stats.facts += group.facts;
        if state.witness.is_full() {
            self.renew_witness(state)?;
        }
        Ok(())
    }

    /// Adds the rows of one append to the batch; returns the stream as it is after it.
    fn add(&self, group: &mut Group, before: Option<Live>, append: &RawAppend) -> Result<Live, LogError> {
        let stream = append.stream;
        let mut standing = before.as_ref().map_or_else(|| Standing::new(append.kind.clone()), Live::standing);
        standing.after(append, &self.writer);
        let indexed: Vec<Vec<u8>> = before.iter().flat_map(|live| live.index(stream)).collect();
        let mut head = before.map_or_else(Head::new, |live| live.head);
        head.revision = head.revision.saturating_add(1);
        head.written(&standing);
        for fact in &append.facts {
            let address = Address { family: Family::Fact, stream, number: head.last.saturating_add(1) };
            let (row, blob) = place(fact, address, &self.blobs)?;
            head.extend(&row);
            group.batch.insert(keys::fact(stream, head.last), row);
            group.facts += 1;
            if let Some(digest) = blob {
                self.refer(group, &mut head, stream, digest)?;
            }
        }
        for &digest in &append.blobs {
            self.refer(group, &mut head, stream, digest)?;
        }
        if let Some(snapshot) = &append.snapshot {
            if let Some(old) = head.snapshot {
                group.batch.remove(keys::snapshot(stream, old.sequence));
            }
            let address = Address { family: Family::Snapshot, stream, number: head.last };
            let (row, blob) = place(snapshot, address, &self.blobs)?;
            group.batch.insert(keys::snapshot(stream, head.last), row);
            head.snapshot = Some(SnapshotMark { sequence: head.last, digest: head.digest, blob });
        }
        let line = Line::new(&append.kind, &append.summary);
        group.batch.insert(keys::of(keys::SUMMARY, stream), write_own(stream, head.revision, &line)?);
        let live = Live::new(head, &line);
        let index: Vec<Vec<u8>> = live.index(stream).collect();
        if index != indexed {
            indexed.into_iter().for_each(|key| group.batch.remove(key));
            index.into_iter().for_each(|key| group.batch.insert(key, &[][..]));
        }
        Ok(live)
    }

    /// Adds a reference, unless it is there.
    fn refer(
        &self,
        group: &mut Group,
        head: &mut Head,
        stream: StreamId,
        digest: Digest,
    ) -> Result<(), LogError> {
        let key = keys::reference(stream, digest);
        if self.database.get(&key)?.is_none() && group.references.insert((stream, digest)) {
            group.batch.insert(key, write_reference(stream, digest)?);
            head.references = head.references.saturating_add(1);
        }
        Ok(())
    }

    /// Blobs that are referred to now need no protection from compaction any more.
    fn claim(&self, appends: &[RawAppend]) {
        let mut unclaimed = self.unclaimed();
        for digest in appends.iter().flat_map(|append| &append.blobs) {
            if let Some(times) = unclaimed.get_mut(digest) {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    unclaimed.remove(digest);
                }
            }
        }
    }

    /// Begins a new witness file with what is known now.
    pub(super) fn renew_witness(&self, state: &mut State) -> Result<(), LogError> {
        let path = self.directory.join(WITNESS);
        state.witness = Witness::begin(path, state.forgotten, state.live.iter().map(Live::note))?;
        Ok(())
    }
}
