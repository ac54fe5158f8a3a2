//! Records between bytes and what they mean: a codec for each kind of stream, and the log seen through one.
//!
//! A store checks by its codecs what it finds when it is opened. A stream of a kind without a codec is checked as far as
//! its frames go, kept as it is, and never compacted.

use std::sync::Arc;

use tidegate_model::{LogRecord, Records, StreamId, StreamKind};

use crate::frame::{self, FrameError};
use crate::{
    AppendOf, Entry, EntryOf, History, Loaded, LoadedOf, LogError, Lookup, OperationLog, RawAppend, RawEntry,
    Record, StreamName, Summary,
};

/// Which of a machine's records one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Fact,
    Snapshot,
    Details,
}

/// What a store knows of the records of one kind of stream.
#[derive(Clone, Debug)]
struct Codec {
    kind: StreamKind,
    highest: fn(Part) -> u16,
    check: fn(Part, u16, &[u8]) -> Result<(), FrameError>,
}

/// The kinds of streams whose records a program can read.
#[derive(Clone, Debug)]
pub struct Codecs(Arc<[Codec]>);

impl Codecs {
    /// The one kind whose facts are `F`.
    pub fn of<F: Records>() -> Self {
        Self(Arc::new([codec::<F>()]))
    }

    /// These, and the kind whose facts are `F`.
    #[must_use]
    pub fn and<F: Records>(self) -> Self {
        Self(self.0.iter().cloned().chain([codec::<F>()]).collect())
    }

    /// Whether records of a kind can be read.
    pub fn know(&self, kind: &StreamKind) -> bool {
        self.find(kind).is_some()
    }

    /// Whether this program knows a kind of record, without decoding anything. Of streams it does not know, it does.
    pub(crate) fn check_kind(&self, stream: &StreamKind, part: Part, kind: u16) -> Result<(), FrameError> {
        let Some(codec) = self.find(stream) else { return Ok(()) };
        let highest = (codec.highest)(part);
        if kind > highest { Err(FrameError::NewerKind { kind, highest }) } else { Ok(()) }
    }

    /// Whether the content of a record is what its kind says. Of streams this program does not know, it is.
    pub(crate) fn check(
        &self,
        stream: &StreamKind,
        part: Part,
        kind: u16,
        content: &[u8],
    ) -> Result<(), FrameError> {
        self.find(stream).map_or(Ok(()), |codec| (codec.check)(part, kind, content))
    }

    fn find(&self, kind: &StreamKind) -> Option<&Codec> {
        self.0.iter().find(|codec| codec.kind == *kind)
    }
}

fn codec<F: Records>() -> Codec {
    Codec {
        kind: F::KIND,
        highest: |part| match part {
            Part::Fact => F::HIGHEST_KIND,
            Part::Snapshot => F::Snapshot::HIGHEST_KIND,
            Part::Details => F::Details::HIGHEST_KIND,
        },
        check: |part, kind, content| match part {
            Part::Fact => frame::decode_record::<F>(kind, content).map(drop),
            Part::Snapshot => frame::decode_record::<F::Snapshot>(kind, content).map(drop),
            Part::Details => frame::decode_record::<F::Details>(kind, content).map(drop),
        },
    }
}

impl<F: Records> AppendOf<F> {
    /// The same as bytes.
    pub fn encode(self) -> Result<RawAppend, LogError> {
        let Summary { application, set, started_at, finished_at, details } = self.summary;
        let details = encode("summary", &details)?;
        Ok(RawAppend {
            stream: self.stream,
            kind: self.kind,
            epoch: self.epoch,
            first_sequence: self.first_sequence,
            facts: self.facts.iter().map(|fact| encode("fact", fact)).collect::<Result<_, _>>()?,
            snapshot: self.snapshot.as_ref().map(|state| encode("snapshot", state)).transpose()?,
            summary: Summary { application, set, started_at, finished_at, details },
            blobs: self.blobs,
            inventory: self.inventory,
        })
    }
}

impl RawEntry {
    /// The same, of a known kind of stream.
    pub fn decode<F: Records>(self) -> Result<EntryOf<F>, LogError> {
        let name = StreamName::of(F::KIND, self.stream);
        check_kind::<F>(&name, &self.kind)?;
        let Summary { application, set, started_at, finished_at, details } = self.summary;
        let details = decode(&name, "its summary", &details)?;
        let summary = Summary { application, set, started_at, finished_at, details };
        let Entry { stream, kind, epoch, sequence, .. } = self;
        Ok(Entry { stream, kind, epoch, sequence, summary })
    }
}

fn encode<R: LogRecord>(what: &'static str, record: &R) -> Result<Record, LogError> {
    let (kind, highest) = (record.kind(), R::HIGHEST_KIND);
    // A record that could not be read back is not written.
    if kind == 0 || kind > highest {
        let reason = format!("its kind {kind} is not between 1 and its type's highest, {highest}");
        return Err(LogError::Encoding { what, reason });
    }
    Ok(Record { kind, content: frame::encode(what, record)? })
}

fn decode<R: LogRecord>(name: &StreamName, what: &str, record: &Record) -> Result<R, LogError> {
    frame::decode_record(record.kind, &record.content).map_err(|error| match error {
        FrameError::NewerKind { kind, highest } => LogError::NewerRecord { kind, highest },
        error => LogError::Damaged { stream: name.clone(), reason: format!("{what}: {error}") },
    })
}

fn check_kind<F: Records>(name: &StreamName, found: &StreamKind) -> Result<(), LogError> {
    if *found == F::KIND {
        Ok(())
    } else {
        Err(LogError::OtherKind { stream: name.id, wanted: F::KIND, found: found.clone() })
    }
}

/// A log, seen through the records of one machine.
pub trait TypedLog: OperationLog {
    /// Appends facts of one machine as one group; see [`OperationLog::append`].
    fn append_all<F: Records>(&self, group: Vec<AppendOf<F>>) -> Result<(), LogError> {
        self.append(group.into_iter().map(AppendOf::<F>::encode).collect::<Result<_, _>>()?)
    }

    /// The newest snapshot of a stream and the facts after it; see [`OperationLog::load`].
    fn load_as<F: Records>(&self, stream: impl Into<StreamId>) -> Result<LoadedOf<F>, LogError> {
        let name = StreamName::of(F::KIND, stream);
        let loaded = self.load(name.id).map_err(|error| error.about(&name))?;
        check_kind::<F>(&name, &loaded.kind)?;
        let Loaded { kind, epoch, snapshot, facts, last_sequence } = loaded;
        let state = match &snapshot {
            Some((sequence, record)) => match decode(&name, "its snapshot", record) {
                Ok(state) => Some((*sequence, state)),
                Err(error) => {
                    // All facts say the same, where they are all kept.
                    let History { first_sequence: 1, facts, .. } = self.facts_as::<F>(name.id)? else {
                        return Err(error);
                    };
                    tracing::warn!(stream = %name, %error, "a snapshot is damaged; the facts are read instead");
                    return Ok(Loaded { kind, epoch, snapshot: None, facts, last_sequence });
                }
            },
            None => None,
        };
        let covered = state.as_ref().map_or(0, |(sequence, _)| *sequence);
        Ok(Loaded {
            kind,
            epoch,
            snapshot: state,
            facts: decode_facts(&name, covered, &facts)?,
            last_sequence,
        })
    }

    /// All facts of a stream that are kept; see [`OperationLog::facts`].
    fn facts_as<F: Records>(&self, stream: impl Into<StreamId>) -> Result<History<F>, LogError> {
        let name = StreamName::of(F::KIND, stream);
        let History { kind, first_sequence, facts } =
            OperationLog::facts(self, name.id).map_err(|error| error.about(&name))?;
        check_kind::<F>(&name, &kind)?;
        let facts = decode_facts(&name, first_sequence.saturating_sub(1), &facts)?;
        Ok(History { kind, first_sequence, facts })
    }

    /// One stream's line. `None` when there is no such stream of the machine's kind, or it was set aside.
    fn entry_as<F: Records>(&self, stream: impl Into<StreamId>) -> Result<Option<EntryOf<F>>, LogError> {
        let entry = self.entry(stream.into())?.filter(|entry| entry.kind == F::KIND);
        entry.map(RawEntry::decode::<F>).transpose()
    }

    /// The streams of the machine's kind that are all that is asked for, oldest first.
    fn find_as<F: Records>(&self, lookup: Lookup) -> Result<Vec<EntryOf<F>>, LogError> {
        self.find(&lookup.and_kind(F::KIND))?.into_iter().map(RawEntry::decode::<F>).collect()
    }
}

impl<L: OperationLog + ?Sized> TypedLog for L {}

/// Facts in order, after the one with number `last`.
fn decode_facts<F: Records>(name: &StreamName, last: u64, facts: &[Record]) -> Result<Vec<F>, LogError> {
    (last.saturating_add(1)..)
        .zip(facts)
        .map(|(number, fact)| decode(name, &format!("fact {number}"), fact))
        .collect()
}
