//! Reading streams back, and finding them.

use tidegate_model::StreamId;

use super::database::Row;
use super::head::{Head, SnapshotMark, chain};
use super::keys;
use super::line::Line;
use super::record::{self, ReadError};
use super::{Live, SledLog, State};
use crate::frame::{Address, Family, FrameError};
use crate::{History, Loaded, LogError, Lookup, RawEntry, RawLoaded, Record};

impl SledLog {
    pub(super) fn load_stream(&self, stream: StreamId) -> Result<RawLoaded, LogError> {
        // Held while reading: facts and snapshot must be of one moment, and a compaction must not come between.
        let state = self.lock();
        let Live { head, kind, .. } = self.live(&state, stream)?;
        if head.reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let loaded = |snapshot, facts| Loaded {
            kind: kind.clone(),
            epoch: head.epoch,
            snapshot,
            facts,
            last_sequence: head.last,
        };
        if let Some(mark) = head.snapshot {
            match self.snapshot(stream, mark) {
                Ok(snapshot) => {
                    let facts = self.read_facts(stream, head, Some(mark))?;
                    return Ok(loaded(Some((mark.sequence, snapshot)), facts));
                }
                Err(error) if head.base > 0 => return Err(error),
                Err(error) => {
                    tracing::warn!(%stream, %error, "a snapshot is damaged; the stream is read from its facts");
                }
            }
        }
        Ok(loaded(None, self.read_facts(stream, head, None)?))
    }

    pub(super) fn all_facts(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        let state = self.lock();
        let Live { head, kind, .. } = self.live(&state, stream)?;
        if head.reduced {
            return Err(LogError::Compacted { stream: stream.into() });
        }
        let (kind, first_sequence) = (kind.clone(), head.base.saturating_add(1));
        Ok(History { kind, first_sequence, facts: self.read_facts(stream, head, None)? })
    }

    pub(super) fn find_entries(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        let state = self.lock();
        let candidates = self.candidates(&state, lookup)?;
        let live = candidates.iter().filter_map(|stream| Some((*stream, state.live.get(stream)?)));
        let wanted = live.filter(|(_, live)| live.is_wanted(lookup, &self.codecs));
        wanted.map(|(stream, live)| self.read_entry(stream, live)).collect()
    }

    /// The streams that may be wanted, oldest first: what the narrowest index has.
    fn candidates(&self, state: &State, lookup: &Lookup) -> Result<Vec<StreamId>, LogError> {
        let prefix = match lookup {
            Lookup { application: Some(application), .. } => keys::of_application(application),
            Lookup { set: Some(set), .. } => keys::of_set(set),
            Lookup { open: Some(open), .. } => keys::of_state(*open),
            _ => return Ok(state.live.keys().copied().collect()),
        };
        Ok(self.database.rows(&prefix)?.iter().filter_map(|(key, _)| keys::indexed(key)).collect())
    }

    pub(super) fn read_entry(&self, stream: StreamId, live: &Live) -> Result<RawEntry, LogError> {
        let damaged = |reason: String| LogError::Damaged { stream: stream.into(), reason };
        let Some(row) = self.database.get(&keys::of(keys::SUMMARY, stream))? else {
            return Err(damaged("its summary is missing".to_owned()));
        };
        let (_, line) = record::read_own::<Line>(stream, &row)
            .map_err(|error| damaged(format!("its summary: {error}")))?;
        Ok(line.into_entry(stream, live.head.epoch, live.head.last))
    }

    pub(super) fn snapshot(&self, stream: StreamId, mark: SnapshotMark) -> Result<Record, LogError> {
        let key = keys::snapshot(stream, mark.sequence);
        let Some(value) = self.database.get(&key)? else {
            let reason = "its snapshot is missing".to_owned();
            return Err(LogError::Damaged { stream: stream.into(), reason });
        };
        let address = Address { family: Family::Snapshot, stream, number: mark.sequence };
        record::read(address, &value, &self.blobs).map_err(|error| damaged(stream, "snapshot", error))
    }

    /// The facts after a snapshot, or all that are kept, checked for gaps and against the head.
    fn read_facts(
        &self,
        stream: StreamId,
        head: &Head,
        after: Option<SnapshotMark>,
    ) -> Result<Vec<Record>, LogError> {
        let (mut last, mut digest) =
            after.map_or((head.base, head.base_digest), |mark| (mark.sequence, mark.digest));
        let (from, to) = (keys::fact(stream, last.saturating_add(1)), keys::fact(stream, head.last));
        let rows: Vec<Row> = self.database.between(&from, &to)?;
        let mut facts = Vec::with_capacity(rows.len());
        for (key, value) in &rows {
            last = last.saturating_add(1);
            if key.as_ref() != keys::fact(stream, last).as_slice() {
                let reason = format!("gap: fact {last} is missing");
                return Err(LogError::Damaged { stream: stream.into(), reason });
            }
            digest = chain(digest, value);
            let fact =
                record::read(Address { family: Family::Fact, stream, number: last }, value, &self.blobs);
            facts.push(fact.map_err(|error| damaged(stream, &format!("fact {last}"), error))?);
        }
        if last != head.last || digest != head.digest {
            let reason = format!(
                "its facts end at {last} and are not those its head, at {}, was written for",
                head.last
            );
            return Err(LogError::Damaged { stream: stream.into(), reason });
        }
        Ok(facts)
    }
}

fn damaged(stream: StreamId, what: &str, error: ReadError) -> LogError {
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
