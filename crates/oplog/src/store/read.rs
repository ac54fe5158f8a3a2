//! Reads and lookups of streams.

use tidegate_model::StreamId;

use super::database::Row;
use super::head::{Head, SnapshotMark, chain_digest};
use super::keys;
use super::listing::ListingRow;
use super::record::{self, ReadError};
use super::{LiveStream, SledLog, State};
use crate::frame::{Address, Family, FrameError};
use crate::{History, LoadedStream, LogError, Lookup, RawEntry, RawLoadedStream, Record};

impl SledLog {
    pub(super) fn load_stream(&self, stream: StreamId) -> Result<RawLoadedStream, LogError> {
        // Hold the lock across both reads, so that no compaction comes between the events and the snapshot.
        let state = self.lock();
        let LiveStream { head, kind, .. } = self.find_stream(&state, stream)?;
        if head.reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let loaded = |snapshot, events| LoadedStream {
            kind: kind.clone(),
            epoch: head.epoch,
            snapshot,
            events,
            last_sequence: head.last,
        };
        if let Some(mark) = head.snapshot {
            match self.read_snapshot(stream, mark) {
                Ok(snapshot) => {
                    let events = self.read_events(stream, head, Some(mark))?;
                    return Ok(loaded(Some((mark.sequence, snapshot)), events));
                }
                Err(error) if head.base > 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%stream, %error, "a snapshot is damaged; rebuilding the stream from its events");
                }
            }
        }
        Ok(loaded(None, self.read_events(stream, head, None)?))
    }

    pub(super) fn read_all_events(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        let state = self.lock();
        let LiveStream { head, kind, .. } = self.find_stream(&state, stream)?;
        if head.reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let (kind, first_sequence) = (kind.clone(), head.base.saturating_add(1));
        Ok(History { kind, first_sequence, events: self.read_events(stream, head, None)? })
    }

    pub(super) fn find_entries(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        let state = self.lock();
        let candidates = self.candidate_streams(&state, lookup)?;
        let live = candidates.iter().filter_map(|stream| Some((*stream, state.streams.get(stream)?)));
        let wanted = live.filter(|(_, live)| live.matches(lookup, &self.codecs));
        wanted.map(|(stream, live)| self.read_entry(stream, live)).collect()
    }

    /// Returns candidate streams from the most selective index, oldest first.
    fn candidate_streams(&self, state: &State, lookup: &Lookup) -> Result<Vec<StreamId>, LogError> {
        let prefix = match lookup {
            Lookup { application: Some(application), .. } => keys::application_prefix(application),
            Lookup { appset: Some(set), .. } => keys::appset_prefix(set),
            Lookup { open: Some(open), .. } => keys::state_prefix(*open),
            _ => return Ok(state.streams.keys().copied().collect()),
        };
        Ok(self.database.rows(&prefix)?.iter().filter_map(|(key, _)| keys::indexed_stream(key)).collect())
    }

    pub(super) fn read_entry(&self, stream: StreamId, live: &LiveStream) -> Result<RawEntry, LogError> {
        let damaged = |reason: String| LogError::Damaged { stream: stream.into(), reason };
        let Some(row) = self.database.get(&keys::prefix(keys::SUMMARY, stream))? else {
            return Err(damaged("its summary is missing".to_owned()));
        };
        let (_, line) = record::decode_row::<ListingRow>(stream, &row)
            .map_err(|error| damaged(format!("its summary: {error}")))?;
        Ok(line.into_entry(stream, live.head.epoch, live.head.last))
    }

    pub(super) fn read_snapshot(&self, stream: StreamId, mark: SnapshotMark) -> Result<Record, LogError> {
        let key = keys::snapshot(stream, mark.sequence);
        let Some(value) = self.database.get(&key)? else {
            let reason = "its snapshot is missing".to_owned();
            return Err(LogError::Damaged { stream: stream.into(), reason });
        };
        let address = Address { family: Family::Snapshot, stream, number: mark.sequence };
        record::read_record(address, &value, &self.blobs)
            .map_err(|error| damage_error(stream, "snapshot", error))
    }

    /// Returns the events after a snapshot, or all stored events. Checks them for gaps and against the head.
    fn read_events(
        &self,
        stream: StreamId,
        head: &Head,
        after: Option<SnapshotMark>,
    ) -> Result<Vec<Record>, LogError> {
        let (mut last, mut digest) =
            after.map_or((head.base, head.base_digest), |mark| (mark.sequence, mark.digest));
        let (from, to) = (keys::event(stream, last.saturating_add(1)), keys::event(stream, head.last));
        let rows: Vec<Row> = self.database.rows_between(&from, &to)?;
        let mut events = Vec::with_capacity(rows.len());
        for (key, value) in &rows {
            last = last.saturating_add(1);
            if key.as_ref() != keys::event(stream, last).as_slice() {
                let reason = format!("gap: event {last} is missing");
                return Err(LogError::Damaged { stream: stream.into(), reason });
            }
            digest = chain_digest(digest, value);
            let event = record::read_record(
                Address { family: Family::Event, stream, number: last },
                value,
                &self.blobs,
            );
            events.push(event.map_err(|error| damage_error(stream, &format!("event {last}"), error))?);
        }
        if last != head.last {
            let reason =
                format!("its last event is {last}, but its head states that the last event is {}", head.last);
            return Err(LogError::Damaged { stream: stream.into(), reason });
        }
        if digest != head.digest {
            let reason = "the digest of its events differs from the digest in its head".to_owned();
            return Err(LogError::Damaged { stream: stream.into(), reason });
        }
        Ok(events)
    }
}

fn damage_error(stream: StreamId, what: &str, error: ReadError) -> LogError {
    let damaged = |reason: String| LogError::Damaged { stream: stream.into(), reason };
    match error {
        ReadError::Frame(FrameError::NewerKind { kind, highest }) => LogError::NewerRecord { kind, highest },
        ReadError::Frame(error) => damaged(format!("{what}: {error}")),
        ReadError::Log(error @ (LogError::BlobMissing { .. } | LogError::BlobDamaged { .. })) => {
            damaged(format!("{what}: {error}"))
        }
        ReadError::Log(error) => error,
    }
}
