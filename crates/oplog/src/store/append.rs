//! Appending: check everything, place large records, then one batch, one flush, one sync, the witness.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Digest, LogRecord, OperationId};

use super::head::{Head, SnapshotMark};
use super::record::{Encoded, write_own, write_reference};
use super::stock::Changed;
use super::{Live, SledLog, State, keys};
use crate::frame::{Address, Family};
use crate::witness::Witness;
use crate::{Append, InventoryUpdate, LogError, Summary, rules};

/// An append that was checked and encoded; nothing was written yet.
struct Staged {
    operation: OperationId,
    facts: Vec<Encoded>,
    snapshot: Option<Encoded>,
    summary: Summary,
    blobs: Vec<Digest>,
    inventory: Option<InventoryUpdate>,
}

/// A group on its way into the database.
#[derive(Default)]
struct Group {
    batch: sled::Batch,
    live: BTreeMap<OperationId, Live>,
    /// References of this group, so that none is counted twice.
    references: BTreeSet<(OperationId, Digest)>,
    inventories: Changed,
    facts: u64,
}

impl<F: LogRecord, S: LogRecord> SledLog<F, S> {
    pub(super) fn append_group(&self, group: Vec<Append<F, S>>) -> Result<(), LogError> {
        let mut state = self.lock_to_write()?;
        let mut lasts = BTreeMap::new();
        let staged: Vec<Staged> = group
            .into_iter()
            .map(|append| self.stage(&state, &mut lasts, append))
            .collect::<Result<_, _>>()?;
        if staged.is_empty() {
            return Ok(());
        }
        self.poisoning(|| self.write(&mut state, &staged))?;
        self.claim(&staged);
        Ok(())
    }

    /// Refuses what must not be written, and encodes what may.
    fn stage(
        &self,
        state: &State,
        lasts: &mut BTreeMap<OperationId, u64>,
        append: Append<F, S>,
    ) -> Result<Staged, LogError> {
        let operation = append.operation;
        if let Some(broken) = self.set_aside.get(&operation) {
            return Err(Self::broken(operation, broken));
        }
        let head = state.live.get(&operation).map(|live| &live.head);
        if head.is_some_and(|head| head.reduced) {
            return Err(LogError::Compacted { operation });
        }
        let last = lasts.entry(operation).or_insert_with(|| head.map_or(0, |head| head.last));
        rules::check_append(*last, &append)?;
        for &digest in &append.blobs {
            if !self.blobs.contains(digest)? {
                return Err(LogError::BlobMissing { digest });
            }
        }
        *last = last.saturating_add(u64::try_from(append.facts.len()).unwrap_or(u64::MAX));
        Ok(Staged {
            operation,
            facts: append.facts.iter().map(|fact| Encoded::new("fact", fact)).collect::<Result<_, _>>()?,
            snapshot: append.snapshot.as_ref().map(|state| Encoded::new("snapshot", state)).transpose()?,
            summary: append.summary,
            blobs: append.blobs,
            inventory: append.inventory,
        })
    }

    fn write(&self, state: &mut State, staged: &[Staged]) -> Result<(), LogError> {
        let mut group = Group::default();
        for append in staged {
            let before =
                group.live.remove(&append.operation).or_else(|| state.live.get(&append.operation).cloned());
            let live = self.add(&mut group, before, append)?;
            group.live.insert(append.operation, live);
            if let Some(update) = &append.inventory {
                self.change_inventory(&mut group.inventories, &append.summary.application, update)?;
            }
        }
        for (operation, live) in &group.live {
            let row = write_own(*operation, live.head.revision, &live.head)?;
            group.batch.insert(keys::of(keys::HEAD, *operation), row);
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

    /// Adds the rows of one append to the batch; returns the operation as it is after it.
    fn add(&self, group: &mut Group, before: Option<Live>, append: &Staged) -> Result<Live, LogError> {
        let operation = append.operation;
        let indexed = before.as_ref().map(|live| (live.application.clone(), live.open));
        let mut head = before.map_or_else(Head::new, |live| live.head);
        head.revision = head.revision.saturating_add(1);
        for fact in &append.facts {
            let address = Address { family: Family::Fact, operation, number: head.last.saturating_add(1) };
            let (row, blob) = fact.place(address, &self.blobs)?;
            head.extend(&row);
            group.batch.insert(keys::fact(operation, head.last), row);
            group.facts += 1;
            if let Some(digest) = blob {
                self.refer(group, &mut head, operation, digest)?;
            }
        }
        for &digest in &append.blobs {
            self.refer(group, &mut head, operation, digest)?;
        }
        if let Some(snapshot) = &append.snapshot {
            if let Some(old) = head.snapshot {
                group.batch.remove(keys::snapshot(operation, old.sequence));
            }
            let address = Address { family: Family::Snapshot, operation, number: head.last };
            let (row, blob) = snapshot.place(address, &self.blobs)?;
            group.batch.insert(keys::snapshot(operation, head.last), row);
            head.snapshot = Some(SnapshotMark { sequence: head.last, digest: head.digest, blob });
        }
        let row = write_own(operation, head.revision, &append.summary)?;
        group.batch.insert(keys::of(keys::SUMMARY, operation), row);
        let live = Live::new(head, &append.summary);
        if indexed
            .as_ref()
            .is_none_or(|(application, open)| *application != live.application || *open != live.open)
        {
            if let Some((application, open)) = indexed {
                keys::index(operation, &application, open)
                    .into_iter()
                    .for_each(|key| group.batch.remove(key));
            }
            keys::index_of(&append.summary).into_iter().for_each(|key| group.batch.insert(key, &[][..]));
        }
        Ok(live)
    }

    /// Adds a reference, unless it is there.
    fn refer(
        &self,
        group: &mut Group,
        head: &mut Head,
        operation: OperationId,
        digest: Digest,
    ) -> Result<(), LogError> {
        let key = keys::reference(operation, digest);
        if self.database.get(&key)?.is_none() && group.references.insert((operation, digest)) {
            group.batch.insert(key, write_reference(operation, digest)?);
            head.references = head.references.saturating_add(1);
        }
        Ok(())
    }

    /// Blobs that are referred to now need no protection from compaction any more.
    fn claim(&self, staged: &[Staged]) {
        let mut unclaimed = self.unclaimed();
        for digest in staged.iter().flat_map(|append| &append.blobs) {
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
        let path = self.directory.join(super::open::WITNESS);
        state.witness = Witness::begin(path, state.live.iter().map(Live::note))?;
        Ok(())
    }
}
