//! Compaction: finished operations beyond the newest are reduced to their summaries, blobs nobody refers to go.
//!
//! The head goes first and says what is gone; rows it no longer counts are left-overs, which opening clears should the
//! removal be interrupted. Blobs go last, after the rows that referred to them are gone from the disk.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use tidegate_model::{Digest, LogRecord, OperationId};

use super::head::Head;
use super::keys::{self, Key};
use super::record::write_own;
use super::{SledLog, State};
use crate::retention::beyond_history;
use crate::{Compacted, LogError};

impl<F: LogRecord, S: LogRecord> SledLog<F, S> {
    pub(super) fn compact_log(&self, history: usize) -> Result<Compacted, LogError> {
        let mut state = self.lock_to_write()?;
        let summaries = self.all_summaries()?;
        let mut done = Compacted::default();
        let mut remove = Vec::new();
        let mut heads = Vec::new();
        for operation in beyond_history(&summaries, history) {
            if let Some(live) = state.live.get(&operation).filter(|live| !live.head.reduced) {
                done.operations += 1;
                done.facts += self.reduce(operation, &mut remove)?;
                heads.push((operation, reduced(&live.head)));
            }
        }
        self.poisoning(|| self.write_heads(&mut state, heads, &remove))?;
        // Nothing may be removed from a directory that has come in the place of ours.
        self.check_place(&state)?;
        done.blobs = self.remove_blobs(&state)?;
        Ok(done)
    }

    /// The rows that go when only the summary is kept; returns how many are facts.
    fn reduce(&self, operation: OperationId, remove: &mut Vec<Vec<u8>>) -> Result<usize, LogError> {
        let facts = self.database.rows(&keys::of(keys::FACT, operation))?;
        remove.extend(facts.iter().map(|(key, _)| key.to_vec()));
        for family in [keys::SNAPSHOT, keys::REFERENCE] {
            let rows = self.database.rows(&keys::of(family, operation))?;
            remove.extend(rows.iter().map(|(key, _)| key.to_vec()));
        }
        Ok(facts.len())
    }

    fn write_heads(
        &self,
        state: &mut State,
        heads: Vec<(OperationId, Head)>,
        remove: &[Vec<u8>],
    ) -> Result<(), LogError> {
        if heads.is_empty() {
            return Ok(());
        }
        let mut batch = sled::Batch::default();
        for (operation, head) in &heads {
            batch.insert(keys::of(keys::HEAD, *operation), write_own(*operation, head.revision, head)?);
        }
        self.database.commit(batch)?;
        self.database.remove(remove.iter().map(Vec::as_slice))?;
        state.stats.flushes += 2;
        for (operation, head) in heads {
            if let Some(live) = state.live.get_mut(&operation) {
                live.head = head;
            }
        }
        Ok(())
    }

    /// Removes the blobs that no operation refers to and that nobody is about to refer to.
    fn remove_blobs(&self, state: &State) -> Result<usize, LogError> {
        let _collecting = self.collecting.write().unwrap_or_else(PoisonError::into_inner);
        let mut keep: BTreeSet<Digest> = self.unclaimed().keys().copied().collect();
        for (key, _) in self.database.rows(&[keys::REFERENCE])? {
            if let Some(Key::Reference(_, digest)) = keys::parse(&key) {
                keep.insert(digest);
            }
        }
        keep.extend(self.inventory_blobs()?);
        keep.extend(state.live.values().filter_map(|live| live.head.snapshot?.blob));
        self.blobs.retain(&keep)
    }
}

/// A head that counts nothing but the summary.
fn reduced(head: &Head) -> Head {
    Head {
        revision: head.revision.saturating_add(1),
        base: head.last,
        base_digest: head.digest,
        last: head.last,
        digest: head.digest,
        snapshot: None,
        references: 0,
        reduced: true,
    }
}
