//! Compaction: reduces older finished streams to their summaries and later removes them. Also removes the
//! oldest events of long open streams, and unreferenced blobs.
//!
//! Compaction runs in short steps, and the log accepts appends in between. Compaction is due if it was
//! scheduled, or if the log has grown by about a tenth of its retention (see `ledger`). After growth, it
//! examines only the changed history lines.
//!
//! To reduce a stream, the new head is written first and records the removal. Rows that the new head doesn't
//! count are leftovers. If the removal is interrupted, the next open removes the leftovers. A stream is
//! reduced before it is forgotten, so only its head, its summary and their index entries remain. These rows
//! are removed together, after the witness has forgotten the stream; otherwise the stream would be reported
//! as lost. Blobs go last, once the rows that referred to them are gone from disk.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tidegate_model::{Digest, StreamId, Timestamp};

use super::head::{Head, chain_digest};
use super::keys::{self, Key};
use super::record::{self, ContentLocation, encode_row};
use super::{LiveStream, SledLog, State};
use crate::codec::RecordType;
use crate::frame;
use crate::retention::{HistoryLineKey, RetentionDecision};
use crate::{CompactionResult, LogError, Retention};

/// Maximum number of streams forgotten in one step.
const FORGET_STEP_MAX: usize = 512;
/// Maximum number of streams reduced in one step.
const REDUCE_STEP_MAX: usize = 32;
/// Maximum number of rows removed in one step. A step at the limit doesn't start another stream, and a larger
/// stream takes several steps.
const ROW_STEP_MAX: usize = 1024;
/// Maximum number of history lines examined before their streams are reduced.
const LINE_STEP_MAX: usize = 64;
/// Maximum number of blob files removed in one step.
const BLOB_STEP_MAX: usize = 64;

/// Changed heads of streams, and the rows that the new heads don't count.
#[derive(Default)]
struct HeadChanges {
    heads: Vec<(StreamId, Head)>,
    /// Reference rows to remove together with the heads.
    references: Vec<Vec<u8>>,
    remove: Vec<Vec<u8>>,
    /// Blobs behind the removed references and snapshots, once per reference.
    unreferenced: Vec<Digest>,
}

/// Remaining work of a compaction.
#[derive(Default)]
pub(super) struct Agenda {
    /// True if a complete compaction is scheduled and hasn't begun.
    is_scheduled: bool,
    /// True if the current compaction was scheduled, false if growth triggered it.
    is_complete: bool,
    /// History lines to examine.
    lines: Vec<HistoryLineKey>,
    /// Finished streams to reduce.
    reduce: Vec<StreamId>,
    /// Open streams to examine.
    open: Vec<StreamId>,
    /// Keys of leftover rows, which no head counts.
    rows: Vec<Vec<u8>>,
    /// Reduced streams to remove.
    forget: BTreeSet<StreamId>,
    /// Streams that the witness has forgotten but the database still contains.
    forgotten: Vec<(StreamId, LiveStream)>,
    /// Unreferenced blobs.
    pub(super) blobs: Vec<Digest>,
    /// Folders still to be searched for unreferenced blobs.
    folders: Vec<PathBuf>,
    /// Size in bytes of the blobs left in the folders searched so far.
    swept_bytes: u64,
    /// Last known size of all blobs in bytes.
    blob_bytes: u64,
}

impl SledLog {
    pub(super) fn mark_scheduled(&self) {
        self.lock().agenda.is_scheduled = true;
        self.is_compaction_due.store(true, Ordering::SeqCst);
    }

    pub(super) fn run_compaction_step(
        &self,
        keep: &Retention,
        now: Timestamp,
    ) -> Result<Option<CompactionResult>, LogError> {
        let mut state = self.lock_to_write()?;
        loop {
            if let Some(done) = self.next_step(&mut state, keep, now)? {
                return Ok(Some(done));
            }
            if !self.examine_growth(&mut state, keep)? {
                self.is_compaction_due.store(false, Ordering::SeqCst);
                return Ok(None);
            }
        }
    }

    /// Updates the allowed growth, and begins a compaction if due. Returns true if it began one.
    fn examine_growth(&self, state: &mut State, keep: &Retention) -> Result<bool, LogError> {
        let is_scheduled = std::mem::take(&mut state.agenda.is_scheduled);
        let written = self.blobs.bytes_written();
        state.ledger.set_limit(keep, self.database.size_bytes()?.saturating_add(state.agenda.blob_bytes));
        if !is_scheduled && !state.ledger.is_due(written) {
            return Ok(false);
        }
        state.agenda.is_complete = is_scheduled;
        state.agenda.lines = state.ledger.take_lines(is_scheduled);
        state.agenda.open = state.ledger.open_streams();
        if is_scheduled {
            let counted = self.count_blobs(state)?;
            debug_assert_eq!(&counted, state.ledger.blobs(), "references to blobs were miscounted");
            *state.ledger.blobs() = counted;
            state.agenda.folders = self.blobs.folders()?;
            state.agenda.swept_bytes = 0;
        }
        state.ledger.reset_growth(written);
        Ok(true)
    }

    /// Runs the next step on the agenda. Returns `None` if the agenda is empty.
    fn next_step(
        &self,
        state: &mut State,
        keep: &Retention,
        now: Timestamp,
    ) -> Result<Option<CompactionResult>, LogError> {
        let keep = if state.agenda.is_complete { *keep } else { keep.for_growth() };
        loop {
            if !state.agenda.rows.is_empty() {
                return self.remove_rows(state).map(Some);
            }
            if !state.agenda.reduce.is_empty() {
                return self.reduce_streams(state).map(Some);
            }
            if state.agenda.lines.is_empty() {
                break;
            }
            self.examine_lines(state, &keep, now);
        }
        while let Some(stream) = state.agenda.open.pop() {
            let done = self.cut_open_stream(state, stream, &keep)?;
            if done != CompactionResult::default() {
                return Ok(Some(done));
            }
        }
        if !state.agenda.forgotten.is_empty() {
            return self.remove_forgotten(state).map(Some);
        }
        // Forgetting streams rewrites the whole witness. It therefore waits until a twentieth of the finished
        // streams can be forgotten together, well before the log has grown by a tenth.
        let many = state.ledger.finished_count().saturating_sub(state.agenda.forget.len()) / 20;
        let most = if state.agenda.is_complete { 0 } else { many };
        if state.agenda.forget.len() > most {
            return self.forget_streams(state).map(Some);
        }
        if !state.agenda.blobs.is_empty() {
            return self.remove_blobs(state).map(Some);
        }
        if let Some(folder) = state.agenda.folders.pop() {
            return self.sweep_folder(state, &folder).map(Some);
        }
        Ok(None)
    }

    /// Examines the next lines on the agenda for streams to reduce or forget.
    fn examine_lines(&self, state: &mut State, keep: &Retention, now: Timestamp) {
        let left = state.agenda.lines.len().saturating_sub(LINE_STEP_MAX);
        let mut fate = RetentionDecision::default();
        for line in state.agenda.lines.split_off(left) {
            if self.codecs.has_kind(&line.kind) {
                fate.add_line(state.ledger.finished_in_line(&line, &state.streams), keep, now);
            }
        }
        let is_whole = |stream: &StreamId| state.streams.get(stream).is_some_and(|live| !live.head.reduced);
        state.agenda.reduce.extend(fate.reduced.into_iter().filter(is_whole));
        // Don't forget a damaged stream: the damage report refers to it.
        let is_damaged = |stream: &StreamId| self.damage.iter().any(|damage| damage.stream == Some(*stream));
        state.agenda.forget.extend(fate.forgotten.into_iter().filter(|stream| !is_damaged(stream)));
    }

    /// Reduces the next streams on the agenda to their summaries.
    fn reduce_streams(&self, state: &mut State) -> Result<CompactionResult, LogError> {
        let (mut changes, mut done) = (HeadChanges::default(), CompactionResult::default());
        while done.streams < REDUCE_STEP_MAX
            && changes.remove.len() < ROW_STEP_MAX
            && let Some(stream) = state.agenda.reduce.pop()
        {
            let live = state.streams.get(&stream).filter(|live| !live.is_open() && !live.head.reduced);
            if let Some(live) = live {
                done.streams += 1;
                done.events += self.reduce_stream(stream, &live.head, &mut changes)?;
            }
        }
        self.write_or_poison(|| self.write_changes(state, changes))?;
        Ok(done)
    }

    /// Reduces a stream to its summary. Returns the number of removed events.
    fn reduce_stream(
        &self,
        stream: StreamId,
        head: &Head,
        changes: &mut HeadChanges,
    ) -> Result<usize, LogError> {
        let events = head.base.saturating_add(1)..=head.last;
        let before = changes.remove.len();
        changes.remove.extend(events.map(|number| keys::event(stream, number)));
        let count = changes.remove.len().saturating_sub(before);
        for (key, _) in self.database.rows(&keys::prefix(keys::SNAPSHOT, stream))? {
            changes.remove.push(key.to_vec());
        }
        for (key, _) in self.database.rows(&keys::prefix(keys::REFERENCE, stream))? {
            if let Some(Key::Reference(_, digest)) = keys::parse(&key) {
                changes.unreferenced.push(digest);
            }
            changes.references.push(key.to_vec());
        }
        changes.unreferenced.extend(head.snapshot.and_then(|mark| mark.blob));
        changes.heads.push((stream, reduced_head(head)));
        Ok(count)
    }

    /// Removes the oldest events of an open stream if it has too many.
    fn cut_open_stream(
        &self,
        state: &mut State,
        stream: StreamId,
        keep: &Retention,
    ) -> Result<CompactionResult, LogError> {
        let (mut changes, mut done) = (HeadChanges::default(), CompactionResult::default());
        let Some(live) = state.streams.get(&stream).filter(|live| live.is_open()) else { return Ok(done) };
        let is_due = state.agenda.is_complete || keep.is_exceeded(live.head.last, live.head.base);
        if !is_due || !self.codecs.has_kind(&live.kind) {
            return Ok(done);
        }
        done.events = self.cut_events(stream, live, keep, &mut changes)?;
        self.write_or_poison(|| self.write_changes(state, changes))?;
        Ok(done)
    }

    /// Removes the oldest events of an open stream that its snapshot covers. Returns the number of removed
    /// events.
    fn cut_events(
        &self,
        stream: StreamId,
        live: &LiveStream,
        keep: &Retention,
        changes: &mut HeadChanges,
    ) -> Result<usize, LogError> {
        let head = &live.head;
        let snapshot = head.snapshot.map(|mark| mark.sequence);
        let Some(cut) = keep.cut_point(head.last, head.base, snapshot) else { return Ok(0) };
        if !self.has_sound_snapshot(stream, live) {
            return Ok(0);
        }
        let first = keys::event(stream, head.base.saturating_add(1));
        let gone = self.database.rows_between(&first, &keys::event(stream, cut))?;
        let base_digest = gone.iter().fold(head.base_digest, |digest, (_, row)| chain_digest(digest, row));
        // A removed event and a remaining event may share a blob.
        let after = keys::event(stream, cut.saturating_add(1));
        let kept = self.database.rows_between(&after, &keys::event(stream, head.last))?;
        let kept: BTreeSet<Digest> = kept.iter().filter_map(|(_, row)| blob_of(row)).collect();
        let unused: BTreeSet<Digest> =
            gone.iter().filter_map(|(_, row)| blob_of(row)).filter(|digest| !kept.contains(digest)).collect();
        let references = head.references.saturating_sub(u64::try_from(unused.len()).unwrap_or(u64::MAX));
        changes.unreferenced.extend(&unused);
        changes.references.extend(unused.into_iter().map(|digest| keys::reference(stream, digest)));
        let revision = head.revision.saturating_add(1);
        changes.heads.push((stream, Head { revision, base: cut, base_digest, references, ..head.clone() }));
        changes.remove.extend(gone.iter().map(|(key, _)| key.to_vec()));
        Ok(gone.len())
    }

    /// Returns true if the snapshot can replace the events that it covers.
    fn has_sound_snapshot(&self, stream: StreamId, live: &LiveStream) -> bool {
        let Some(mark) = live.head.snapshot else { return false };
        let sound = self.read_snapshot(stream, mark).and_then(|record| {
            let checked = self.codecs.check(&live.kind, RecordType::Snapshot, record.kind, &record.content);
            checked.map_err(|error| LogError::Damaged { stream: stream.into(), reason: error.to_string() })
        });
        if let Err(error) = &sound {
            tracing::warn!(%stream, %error, "a snapshot is damaged; the events it covers are kept");
        }
        sound.is_ok()
    }

    /// Writes the new heads, and removes as many leftover rows as fit into the batch. Later steps remove the
    /// rest.
    fn write_changes(&self, state: &mut State, changes: HeadChanges) -> Result<(), LogError> {
        let HeadChanges { heads, references, mut remove, unreferenced } = changes;
        if heads.is_empty() {
            return Ok(());
        }
        let mut batch = sled::Batch::default();
        for (stream, head) in &heads {
            batch.insert(keys::prefix(keys::HEAD, *stream), encode_row(*stream, head.revision, head)?);
        }
        let later = remove.split_off(remove.len().min(ROW_STEP_MAX));
        references.into_iter().chain(remove).for_each(|key| batch.remove(key));
        self.database.commit(batch)?;
        state.stats.flushes += 1;
        state.agenda.rows.extend(later);
        for (stream, head) in heads {
            if let Some(live) = state.streams.get(&stream).cloned() {
                state.put_stream(stream, LiveStream { head, ..live });
            }
        }
        let blobs = state.ledger.blobs();
        let unused: Vec<Digest> =
            unreferenced.into_iter().filter_map(|digest| blobs.remove(digest)).collect();
        state.agenda.blobs.extend(unused);
        Ok(())
    }

    /// Removes the next leftover rows on the agenda.
    fn remove_rows(&self, state: &mut State) -> Result<CompactionResult, LogError> {
        let left = state.agenda.rows.len().saturating_sub(ROW_STEP_MAX);
        let rows = state.agenda.rows.split_off(left);
        self.write_or_poison(|| self.database.remove_rows(rows.iter().map(Vec::as_slice)))?;
        state.stats.flushes += 1;
        Ok(CompactionResult::default())
    }

    /// Removes reduced streams from memory and from the witness.
    fn forget_streams(&self, state: &mut State) -> Result<CompactionResult, LogError> {
        let streams = std::mem::take(&mut state.agenda.forget);
        let mut gone = Vec::new();
        for stream in streams {
            if state.streams.get(&stream).is_some_and(|live| live.head.reduced)
                && let Some(live) = state.remove_stream(stream)
            {
                state.forgotten = state.forgotten.max(Some(stream));
                gone.push((stream, live));
            }
        }
        let done = CompactionResult { forgotten: gone.len(), ..CompactionResult::default() };
        if !gone.is_empty() {
            state.agenda.forgotten.extend(gone);
            // A missing stream that is still in the witness would count as lost.
            self.write_or_poison(|| self.renew_witness(state))?;
        }
        Ok(done)
    }

    /// Removes the head, summary and index rows of streams that are gone from the witness.
    fn remove_forgotten(&self, state: &mut State) -> Result<CompactionResult, LogError> {
        let left = state.agenda.forgotten.len().saturating_sub(FORGET_STEP_MAX);
        let mut batch = sled::Batch::default();
        for (stream, live) in state.agenda.forgotten.split_off(left) {
            batch.remove(keys::prefix(keys::HEAD, stream));
            batch.remove(keys::prefix(keys::SUMMARY, stream));
            live.index_keys(stream).for_each(|key| batch.remove(key));
        }
        self.write_or_poison(|| self.database.commit(batch))?;
        state.stats.flushes += 1;
        Ok(CompactionResult::default())
    }

    /// Removes the next unreferenced blobs on the agenda. Keeps blobs that a later append may still refer to.
    fn remove_blobs(&self, state: &mut State) -> Result<CompactionResult, LogError> {
        let _collecting = self.blob_gc_lock.write().unwrap_or_else(PoisonError::into_inner);
        let unclaimed = self.lock_unreferenced_blobs();
        let left = state.agenda.blobs.len().saturating_sub(BLOB_STEP_MAX);
        let mut done = CompactionResult::default();
        for digest in state.agenda.blobs.split_off(left) {
            if !state.ledger.is_blob_used(&digest) && !unclaimed.contains_key(&digest) {
                done.blobs += usize::from(self.blobs.remove(digest)?);
            }
        }
        Ok(done)
    }

    /// Removes unreferenced blobs from one folder, including blobs left by earlier processes.
    fn sweep_folder(
        &self,
        state: &mut State,
        folder: &std::path::Path,
    ) -> Result<CompactionResult, LogError> {
        let _collecting = self.blob_gc_lock.write().unwrap_or_else(PoisonError::into_inner);
        let unclaimed = self.lock_unreferenced_blobs();
        let is_kept = |digest: &Digest| state.ledger.is_blob_used(digest) || unclaimed.contains_key(digest);
        let (blobs, bytes) = self.blobs.sweep(folder, is_kept)?;
        state.agenda.swept_bytes = state.agenda.swept_bytes.saturating_add(bytes);
        if state.agenda.folders.is_empty() {
            state.agenda.blob_bytes = state.agenda.swept_bytes;
        }
        Ok(CompactionResult { blobs, ..CompactionResult::default() })
    }

    /// Returns the snapshot blobs of streams that only a newer program can interpret.
    pub(super) fn foreign_snapshot_blobs(&self) -> Result<Vec<Digest>, LogError> {
        let mut blobs = Vec::new();
        for (stream, _) in self.quarantined.iter().filter(|(_, broken)| broken.is_left_in_place()) {
            let rows = self.database.rows(&keys::prefix(keys::SNAPSHOT, *stream))?;
            blobs.extend(rows.iter().filter_map(|(_, row)| blob_of(row)));
        }
        Ok(blobs)
    }
}

/// Returns the blob with a record's content, if the record is large.
fn blob_of(row: &[u8]) -> Option<Digest> {
    let (framed, _) = frame::parse_frame(row).ok()?;
    match record::content_location(&framed).ok()? {
        ContentLocation::Blob(digest) => Some(digest),
        ContentLocation::Inline(_) => None,
    }
}

/// Returns a head that counts only the summary.
fn reduced_head(head: &Head) -> Head {
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
