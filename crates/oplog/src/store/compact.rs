//! Compaction: finished streams beyond the newest are reduced to their summaries and in the end forgotten, the oldest
//! facts of long open ones go, and so do blobs nobody refers to.
//!
//! The head goes first and says what is gone; rows it no longer counts are left-overs, which opening clears should the
//! removal be interrupted. What is forgotten is reduced before, so that a head, a summary and their index are all there is
//! of it; these go at once, after the witness has forgotten it, because what the witness knows is missed. Blobs go last,
//! after the rows that referred to them are gone from the disk.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use tidegate_model::{Digest, StreamId, Timestamp};

use super::head::{Head, chain};
use super::keys::{self, Key};
use super::record::{self, Held, write_own};
use super::{Live, SledLog, State};
use crate::codec::Part;
use crate::frame;
use crate::retention::{Fate, fate};
use crate::{Compacted, LogError, Retention};

/// So many streams are forgotten in one batch.
const FORGOTTEN_AT_ONCE: usize = 512;

/// What a compaction changes in heads, and the rows that are then left over.
#[derive(Default)]
struct Changes {
    heads: Vec<(StreamId, Head)>,
    /// Go together with the heads.
    references: Vec<Vec<u8>>,
    remove: Vec<Vec<u8>>,
}

impl SledLog {
    pub(super) fn compact_log(&self, keep: &Retention, now: Timestamp) -> Result<Compacted, LogError> {
        let mut state = self.lock_to_write()?;
        let mut done = Compacted::default();
        let Fate { reduced, mut forgotten } = self.fate(&state, keep, now);
        let mut changes = Changes::default();
        for stream in reduced {
            if let Some(live) = state.live.get(&stream).filter(|live| !live.head.reduced) {
                done.streams += 1;
                done.facts += self.reduce(stream, &live.head, &mut changes)?;
            }
        }
        for (stream, live) in &state.live {
            if live.is_open() && self.codecs.know(&live.kind) {
                done.facts += self.cut(*stream, live, keep, &mut changes)?;
            }
        }
        // What was ever damaged of it is told as long as it is listed.
        forgotten.retain(|stream| !self.damage.iter().any(|damage| damage.stream == Some(*stream)));
        done.forgotten = forgotten.len();
        self.poisoning(|| {
            self.write_changes(&mut state, changes)?;
            self.forget(&mut state, &forgotten)
        })?;
        // Nothing may be removed from a directory that has come in the place of ours.
        self.check_place(&state)?;
        done.blobs = self.remove_blobs(&state)?;
        Ok(done)
    }

    fn fate(&self, state: &State, keep: &Retention, now: Timestamp) -> Fate {
        let known = state.live.iter().filter(|(_, live)| self.codecs.know(&live.kind));
        let finished =
            known.filter_map(|(stream, live)| Some((*stream, live.history_line(), live.finished_at?)));
        fate(finished, keep, now)
    }

    /// Leaves nothing but the summary; returns how many facts go.
    fn reduce(&self, stream: StreamId, head: &Head, changes: &mut Changes) -> Result<usize, LogError> {
        let facts = self.database.rows(&keys::of(keys::FACT, stream))?;
        changes.remove.extend(facts.iter().map(|(key, _)| key.to_vec()));
        for family in [keys::SNAPSHOT, keys::REFERENCE] {
            let rows = self.database.rows(&keys::of(family, stream))?;
            changes.remove.extend(rows.iter().map(|(key, _)| key.to_vec()));
        }
        changes.heads.push((stream, reduced(head)));
        Ok(facts.len())
    }

    /// Lets the oldest facts of an open stream go that its snapshot covers; returns how many.
    fn cut(
        &self,
        stream: StreamId,
        live: &Live,
        keep: &Retention,
        changes: &mut Changes,
    ) -> Result<usize, LogError> {
        let head = &live.head;
        let snapshot = head.snapshot.map(|mark| mark.sequence);
        let Some(cut) = keep.cut(head.last, head.base, snapshot) else { return Ok(0) };
        if !self.has_sound_snapshot(stream, live) {
            return Ok(0);
        }
        let first = keys::fact(stream, head.base.saturating_add(1));
        let gone = self.database.between(&first, &keys::fact(stream, cut))?;
        let base_digest = gone.iter().fold(head.base_digest, |digest, (_, row)| chain(digest, row));
        // Two facts may be in one blob.
        let after = keys::fact(stream, cut.saturating_add(1));
        let kept = self.database.between(&after, &keys::fact(stream, head.last))?;
        let kept: BTreeSet<Digest> = kept.iter().filter_map(|(_, row)| blob_of(row)).collect();
        let unused: BTreeSet<Digest> =
            gone.iter().filter_map(|(_, row)| blob_of(row)).filter(|digest| !kept.contains(digest)).collect();
        let references = head.references.saturating_sub(u64::try_from(unused.len()).unwrap_or(u64::MAX));
        changes.references.extend(unused.into_iter().map(|digest| keys::reference(stream, digest)));
        let revision = head.revision.saturating_add(1);
        changes.heads.push((stream, Head { revision, base: cut, base_digest, references, ..head.clone() }));
        changes.remove.extend(gone.iter().map(|(key, _)| key.to_vec()));
        Ok(gone.len())
    }

    /// Whether the snapshot can stand for the facts it covers.
    fn has_sound_snapshot(&self, stream: StreamId, live: &Live) -> bool {
        let Some(mark) = live.head.snapshot else { return false };
        let sound = self.snapshot(stream, mark).and_then(|record| {
            let checked = self.codecs.check(&live.kind, Part::Snapshot, record.kind, &record.content);
            checked.map_err(|error| LogError::Damaged { stream: stream.into(), reason: error.to_string() })
        });
        if let Err(error) = &sound {
            tracing::warn!(%stream, %error, "a snapshot is damaged; the facts it covers are kept");
        }
        sound.is_ok()
    }

    fn write_changes(&self, state: &mut State, changes: Changes) -> Result<(), LogError> {
        let Changes { heads, references, remove } = changes;
        if heads.is_empty() {
            return Ok(());
        }
        let mut batch = sled::Batch::default();
        for (stream, head) in &heads {
            batch.insert(keys::of(keys::HEAD, *stream), write_own(*stream, head.revision, head)?);
        }
        references.into_iter().for_each(|key| batch.remove(key));
        self.database.commit(batch)?;
        self.database.remove(remove.iter().map(Vec::as_slice))?;
        state.stats.flushes += 2;
        for (stream, head) in heads {
            if let Some(live) = state.live.get_mut(&stream) {
                live.head = head;
            }
        }
        Ok(())
    }

    /// Leaves nothing of streams that are reduced.
    fn forget(&self, state: &mut State, streams: &[StreamId]) -> Result<(), LogError> {
        let Some(newest) = streams.last() else { return Ok(()) };
        let gone: Vec<(StreamId, Live)> =
            streams.iter().filter_map(|stream| state.live.remove_entry(stream)).collect();
        state.forgotten = state.forgotten.max(Some(*newest));
        // Whatever is missing of what it names would be taken for lost.
        self.renew_witness(state)?;
        for some in gone.chunks(FORGOTTEN_AT_ONCE) {
            let mut batch = sled::Batch::default();
            for (stream, live) in some {
                batch.remove(keys::of(keys::HEAD, *stream));
                batch.remove(keys::of(keys::SUMMARY, *stream));
                live.index(*stream).for_each(|key| batch.remove(key));
            }
            self.database.commit(batch)?;
            state.stats.flushes += 1;
        }
        Ok(())
    }

    /// Removes the blobs that no stream refers to and that nobody is about to refer to.
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
        keep.extend(self.blobs_left_alone()?);
        self.blobs.retain(&keep)
    }

    /// Snapshots of streams that a newer program has to look after.
    fn blobs_left_alone(&self) -> Result<Vec<Digest>, LogError> {
        let mut blobs = Vec::new();
        for (stream, _) in self.set_aside.iter().filter(|(_, broken)| broken.is_left_alone()) {
            let rows = self.database.rows(&keys::of(keys::SNAPSHOT, *stream))?;
            blobs.extend(rows.iter().filter_map(|(_, row)| blob_of(row)));
        }
        Ok(blobs)
    }
}

/// The blob that holds the content of a record, when it is a large one.
fn blob_of(row: &[u8]) -> Option<Digest> {
    let (framed, _) = frame::parse(row).ok()?;
    match record::held(&framed).ok()? {
        Held::Blob(digest) => Some(digest),
        Held::Inline(_) => None,
    }
}

/// A head that counts nothing but the summary.
fn reduced(head: &Head) -> Head {
    Head {
        revision: head.revision.saturating_add(1),
        base: head.last,
        base_digest: head.digest,
        snapshot: None,
        references: 0,
        reduced: true,
        ..head.clone()
    }
}
