//! Codecs for record kinds, and a typed view of the log.
//!
//! On open, a store uses its codecs to check its content. Without a codec for a stream's kind, it checks only
//! the frames, and never changes or compacts the stream.

use std::sync::Arc;

use tidegate_model::{LogRecord, StreamId, StreamKind, StreamRecords};

use crate::frame::{self, FrameError};
use crate::{
    AppendOf, Entry, EntryOf, History, LoadedStream, LoadedStreamOf, LogError, Lookup, OperationLog,
    RawAppend, RawEntry, Record, StreamName, Summary,
};

/// Type of a machine's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordType {
    Event,
    Snapshot,
    Details,
}

/// Codec for the records in one stream kind.
#[derive(Clone, Debug)]
struct Codec {
    kind: StreamKind,
    highest_kind: fn(RecordType) -> u16,
    check_record: fn(RecordType, u16, &[u8]) -> Result<(), FrameError>,
}

/// Stream kinds that a program can read.
#[derive(Clone, Debug)]
pub struct Codecs(Arc<[Codec]>);

impl Codecs {
    /// Creates a set with a single codec, for streams with events of type `F`.
    pub fn for_kind<F: StreamRecords>() -> Self {
        Self(Arc::new([codec_for::<F>()]))
    }

    /// Adds the codec for streams with events of type `F`.
    #[must_use]
    pub fn with_kind<F: StreamRecords>(self) -> Self {
        Self(self.0.iter().cloned().chain([codec_for::<F>()]).collect())
    }

    /// Returns true if this program can read streams of this kind.
    pub fn has_kind(&self, kind: &StreamKind) -> bool {
        self.find(kind).is_some()
    }

    /// Returns the stream kinds.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &StreamKind> {
        self.0.iter().map(|codec| &codec.kind)
    }

    /// Checks that this program knows a record's kind, without decoding the record. Accepts any record if the
    /// stream's kind is unknown.
    pub(crate) fn check_kind(
        &self,
        stream: &StreamKind,
        part: RecordType,
        kind: u16,
    ) -> Result<(), FrameError> {
        let Some(codec) = self.find(stream) else { return Ok(()) };
        let highest = (codec.highest_kind)(part);
        if kind > highest { Err(FrameError::NewerKind { kind, highest }) } else { Ok(()) }
    }

    /// Checks that the content of a record matches its kind. Accepts any record if the stream's kind is
    /// unknown.
    pub(crate) fn check(
        &self,
        stream: &StreamKind,
        part: RecordType,
        kind: u16,
        content: &[u8],
    ) -> Result<(), FrameError> {
        self.find(stream).map_or(Ok(()), |codec| (codec.check_record)(part, kind, content))
    }

    fn find(&self, kind: &StreamKind) -> Option<&Codec> {
        self.0.iter().find(|codec| codec.kind == *kind)
    }
}

fn codec_for<F: StreamRecords>() -> Codec {
    Codec {
        kind: F::KIND,
        highest_kind: |part| match part {
            RecordType::Event => F::HIGHEST_KIND,
            RecordType::Snapshot => F::Snapshot::HIGHEST_KIND,
            RecordType::Details => F::Details::HIGHEST_KIND,
        },
        check_record: |part, kind, content| match part {
            RecordType::Event => frame::decode_record::<F>(kind, content).map(drop),
            RecordType::Snapshot => frame::decode_record::<F::Snapshot>(kind, content).map(drop),
            RecordType::Details => frame::decode_record::<F::Details>(kind, content).map(drop),
        },
    }
}

impl<F: StreamRecords> AppendOf<F> {
    /// Encodes the records.
    pub fn encode(self) -> Result<RawAppend, LogError> {
        let Summary { application, set, started_at, finished_at, details } = self.summary;
        let details = encode("summary", &details)?;
        Ok(RawAppend {
            stream: self.stream,
            kind: self.kind,
            epoch: self.epoch,
            first_sequence: self.first_sequence,
            events: self.events.iter().map(|event| encode("fact", event)).collect::<Result<_, _>>()?,
            snapshot: self.snapshot.as_ref().map(|state| encode("snapshot", state)).transpose()?,
            summary: Summary { application, set, started_at, finished_at, details },
            blobs: self.blobs,
            inventory: self.inventory,
            shard: self.shard,
        })
    }
}

impl RawEntry {
    /// Decodes the entry of a stream of a known kind.
    pub fn decode<F: StreamRecords>(self) -> Result<EntryOf<F>, LogError> {
        let name = StreamName::with_kind(F::KIND, self.stream);
        check_kind::<F>(&name, &self.kind)?;
        let Summary { application, set, started_at, finished_at, details } = self.summary;
        let details = decode(&name, "its summary", &details)?;
        let summary = Summary { application, set, started_at, finished_at, details };
        let Entry { stream, kind, shard, epoch, sequence, .. } = self;
        Ok(Entry { stream, kind, shard, epoch, sequence, summary })
    }
}

fn encode<R: LogRecord>(what: &'static str, record: &R) -> Result<Record, LogError> {
    let (kind, highest) = (record.kind(), R::HIGHEST_KIND);
    // Any other kind would be unreadable later.
    if kind == 0 || kind > highest {
        let reason = format!("unknown record kind {kind}; expected 1 to {highest}");
        return Err(LogError::Encoding { what, reason });
    }
    Ok(Record { kind, content: frame::encode_content(what, record)? })
}

fn decode<R: LogRecord>(name: &StreamName, what: &str, record: &Record) -> Result<R, LogError> {
    frame::decode_record(record.kind, &record.content).map_err(|error| match error {
        FrameError::NewerKind { kind, highest } => LogError::NewerRecord { kind, highest },
        error => LogError::Damaged { stream: name.clone(), reason: format!("{what}: {error}") },
    })
}

fn check_kind<F: StreamRecords>(name: &StreamName, found: &StreamKind) -> Result<(), LogError> {
    if *found == F::KIND {
        Ok(())
    } else {
        Err(LogError::KindMismatch { stream: name.id, wanted: F::KIND, found: found.clone() })
    }
}

/// Typed access to the streams of one machine.
pub trait TypedLog: OperationLog {
    /// Appends one machine's events as a group. See [`OperationLog::append`].
    fn append_all<F: StreamRecords>(&self, group: Vec<AppendOf<F>>) -> Result<(), LogError> {
        self.append(group.into_iter().map(AppendOf::<F>::encode).collect::<Result<_, _>>()?)
    }

    /// Returns the newest snapshot of a stream and the events after it. See [`OperationLog::load`].
    fn load_as<F: StreamRecords>(&self, stream: impl Into<StreamId>) -> Result<LoadedStreamOf<F>, LogError> {
        let name = StreamName::with_kind(F::KIND, stream);
        let loaded = self.load(name.id).map_err(|error| error.with_stream_name(&name))?;
        check_kind::<F>(&name, &loaded.kind)?;
        let LoadedStream { kind, epoch, snapshot, events, last_sequence } = loaded;
        let state = match &snapshot {
            Some((sequence, record)) => match decode(&name, "its snapshot", record) {
                Ok(state) => Some((*sequence, state)),
                Err(error) => {
                    // Fall back to the events if all of them are still stored.
                    let History { first_sequence: 1, events, .. } = self.events_as::<F>(name.id)? else {
                        return Err(error);
                    };
                    tracing::warn!(stream = %name, %error, "a snapshot is damaged; reading the events instead");
                    return Ok(LoadedStream { kind, epoch, snapshot: None, events, last_sequence });
                }
            },
            None => None,
        };
        let covered = state.as_ref().map_or(0, |(sequence, _)| *sequence);
        Ok(LoadedStream {
            kind,
            epoch,
            snapshot: state,
            events: decode_events(&name, covered, &events)?,
            last_sequence,
        })
    }

    /// Returns all stored events of a stream. See [`OperationLog::events`].
    fn events_as<F: StreamRecords>(&self, stream: impl Into<StreamId>) -> Result<History<F>, LogError> {
        let name = StreamName::with_kind(F::KIND, stream);
        let History { kind, first_sequence, events } =
            OperationLog::events(self, name.id).map_err(|error| error.with_stream_name(&name))?;
        check_kind::<F>(&name, &kind)?;
        let events = decode_events(&name, first_sequence.saturating_sub(1), &events)?;
        Ok(History { kind, first_sequence, events })
    }

    /// Returns the entry of a stream, or `None` if the stream is quarantined or belongs to another machine.
    fn entry_as<F: StreamRecords>(
        &self,
        stream: impl Into<StreamId>,
    ) -> Result<Option<EntryOf<F>>, LogError> {
        let entry = self.entry(stream.into())?.filter(|entry| entry.kind == F::KIND);
        entry.map(RawEntry::decode::<F>).transpose()
    }

    /// Returns the machine's streams that match all conditions, oldest first.
    fn find_as<F: StreamRecords>(&self, lookup: Lookup) -> Result<Vec<EntryOf<F>>, LogError> {
        self.find(&lookup.and_kind(F::KIND))?.into_iter().map(RawEntry::decode::<F>).collect()
    }
}

impl<L: OperationLog + ?Sized> TypedLog for L {}

/// Decodes consecutive events. `last` is the number of the preceding event.
fn decode_events<F: StreamRecords>(
    name: &StreamName,
    last: u64,
    events: &[Record],
) -> Result<Vec<F>, LogError> {
    (last.saturating_add(1)..)
        .zip(events)
        .map(|(number, event)| decode(name, &format!("event {number}"), event))
        .collect()
}
