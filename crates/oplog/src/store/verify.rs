//! Verification of one stream's rows. The stream is sound, repairable or broken.
//!
//! An incomplete end may result from a crash, and is truncated. Anything else is damage: the stream is
//! quarantined rather than continued from possibly wrong records.

use std::io;

use tidegate_model::{Digest, StreamId, StreamKind};

use super::database::{Database, Row};
use super::head::{Head, chain_digest};
use super::keys::{self, Key};
use super::listing::ListingRow;
use super::record::{self, ContentLocation, ReadError};
use crate::LogError;
use crate::blobs::BlobStore;
use crate::codec::{Codecs, RecordType};
use crate::frame::{self, Address, Family, FrameError};

/// Rows of a stream, across all families.
#[derive(Debug, Default)]
pub(crate) struct StreamRows {
    pub(crate) rows: Vec<Row>,
}

/// Result of verifying a stream: the required actions.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) stream: StreamId,
    pub(crate) head: Head,
    pub(crate) line: ListingRow,
    /// Keys of rows to remove: leftovers of a compaction, truncated events, and damaged rows that aren't
    /// needed.
    pub(crate) remove: Vec<Vec<u8>>,
    /// Descriptions of repairs to report. If there are any, the head must be rewritten.
    pub(crate) repairs: Vec<String>,
    /// Missing content of a finished stream. Everything else is kept.
    pub(crate) missing: Vec<String>,
}

/// Reason for a verification without a verdict.
#[derive(Debug)]
pub(crate) enum VerifyError {
    /// The stream can't be continued.
    Broken(StreamFault),
    /// The stream's records couldn't be read, so their state is unknown.
    Unreadable(LogError),
}

impl From<StreamFault> for VerifyError {
    fn from(broken: StreamFault) -> Self {
        Self::Broken(broken)
    }
}

/// Reason why a stream can't be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamFault {
    pub(crate) reason: String,
    /// Kind of a record from a newer program, and the highest kind that this program knows.
    pub(crate) newer_kind: Option<(u16, u16)>,
    /// True if this program doesn't know the stream's kind. The records are kept for programs that do.
    pub(crate) is_foreign: bool,
}

impl StreamFault {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), newer_kind: None, is_foreign: false }
    }

    fn from_frame_error(what: &str, error: &FrameError) -> Self {
        let newer_kind = match error {
            FrameError::NewerKind { kind, highest } => Some((*kind, *highest)),
            _ => None,
        };
        Self { newer_kind, ..Self::new(format!("{what}: {error}")) }
    }

    /// Returns true if the records stay in place because this program can't interpret them.
    pub(crate) fn is_left_in_place(&self) -> bool {
        self.is_foreign || self.newer_kind.is_some()
    }
}

impl StreamRows {
    pub(crate) fn read(database: &Database, stream: StreamId) -> Result<Self, LogError> {
        let mut rows = Vec::new();
        for family in keys::STREAM_FAMILIES {
            rows.append(&mut database.rows(&keys::prefix(family, stream))?);
        }
        Ok(Self { rows })
    }

    fn of_family(&self, family: u8) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |(key, _)| key.first() == Some(&family))
    }

    fn single_row(&self, family: u8, what: &str) -> Result<&[u8], StreamFault> {
        let row = self.of_family(family).next().map(|(_, row)| row.as_ref());
        row.ok_or_else(|| StreamFault::new(format!("its {what} is missing")))
    }

    /// Returns the digests in the readable reference rows, for copying their blobs to the quarantine.
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.rows.iter().filter_map(|(key, _)| match keys::parse(key) {
            Some(Key::Reference(_, digest)) => Some(digest),
            _ => None,
        })
    }
}

/// Verifies a stream by its rows.
pub(crate) fn verify_stream(
    stream: StreamId,
    rows: &StreamRows,
    blobs: &BlobStore,
    codecs: &Codecs,
) -> Result<Verdict, VerifyError> {
    if let Some((key, _)) = rows.rows.iter().find(|(key, _)| keys::parse(key).is_none()) {
        let reason = format!("it has a row with an unknown key type (key length: {} bytes)", key.len());
        return Err(StreamFault::new(reason).into());
    }
    let row = rows.single_row(keys::SUMMARY, "summary")?;
    let (_, line) = record::decode_row::<ListingRow>(stream, row)
        .map_err(|error| StreamFault::from_frame_error("its summary", &error))?;
    let checks = StreamChecks { stream, rows, blobs, codecs, kind: &line.kind() };
    if codecs.has_kind(checks.kind) {
        return checks.verdict(line);
    }
    let foreign = |broken| StreamFault { is_foreign: true, ..broken };
    let mut verdict = checks.verdict(line).map_err(|unsound| match unsound {
        VerifyError::Broken(broken) => VerifyError::Broken(foreign(broken)),
        unseen @ VerifyError::Unreadable(_) => unseen,
    })?;
    if !verdict.repairs.is_empty() {
        return Err(foreign(StreamFault::new(verdict.repairs.join("; "))).into());
    }
    verdict.remove.clear();
    Ok(verdict)
}

/// Data for the checks of one stream.
struct StreamChecks<'a> {
    stream: StreamId,
    rows: &'a StreamRows,
    blobs: &'a BlobStore,
    codecs: &'a Codecs,
    kind: &'a StreamKind,
}

impl StreamChecks<'_> {
    fn verdict(&self, line: ListingRow) -> Result<Verdict, VerifyError> {
        let row = self.rows.single_row(keys::HEAD, "head")?;
        let (_, head) = record::decode_row::<Head>(self.stream, row)
            .map_err(|error| StreamFault::from_frame_error("its head", &error))?;
        let (kind, content) = &line.details;
        self.codecs
            .check(self.kind, RecordType::Details, *kind, content)
            .map_err(|error| StreamFault::from_frame_error("its summary", &error))?;
        let mut verdict = Verdict {
            stream: self.stream,
            head,
            line,
            remove: Vec::new(),
            repairs: Vec::new(),
            missing: Vec::new(),
        };
        if verdict.head.reduced {
            verdict.mark_leftovers(self.rows);
            return Ok(verdict);
        }
        verdict.check_events(self)?;
        verdict.check_references(self)?;
        verdict.check_snapshot(self)?;
        Ok(verdict)
    }

    /// Checks a record while the log is being opened. Returns its blob, if any.
    fn check_record(
        &self,
        part: RecordType,
        address: Address,
        row: &[u8],
    ) -> Result<Option<Digest>, ReadError> {
        let framed = frame::open_frame(address.family, address.stream, Some(address.number), row)?;
        self.codecs.check_kind(self.kind, part, framed.kind)?;
        match record::content_location(&framed)? {
            ContentLocation::Inline(content) => {
                self.codecs.check(self.kind, part, framed.kind, content)?;
                Ok(None)
            }
            // Opening a log checks only the checksum of a blob file. Reading the record decrypts and unpacks
            // the content.
            ContentLocation::Blob(digest) => {
                self.blobs.check(digest)?;
                Ok(Some(digest))
            }
        }
    }
}

impl Verdict {
    /// Marks rows that the head doesn't count: leftovers of an interrupted compaction.
    fn mark_leftovers(&mut self, rows: &StreamRows) {
        for family in [keys::EVENT, keys::SNAPSHOT, keys::REFERENCE] {
            self.remove.extend(rows.of_family(family).map(|(key, _)| key.to_vec()));
        }
    }

    fn check_events(&mut self, checks: &StreamChecks<'_>) -> Result<(), VerifyError> {
        let stream = self.stream;
        let stated = self.head.last;
        let (mut last, mut digest) = (self.head.base, self.head.base_digest);
        let mut events = checks.rows.of_family(keys::EVENT).peekable();
        while let Some((key, row)) = events.next() {
            let Some(Key::Event(_, sequence)) = keys::parse(key) else { continue };
            if sequence <= self.head.base {
                self.remove.push(key.to_vec());
                continue;
            }
            if sequence > stated {
                // The batch with this row never reached the head, so the row was never acknowledged.
                self.remove.push(key.to_vec());
                self.repairs.push(format!(
                    "removed event {sequence}, which was never acknowledged: the last acknowledged event is {stated}"
                ));
                continue;
            }
            if sequence != last.saturating_add(1) {
                return Err(
                    StreamFault::new(format!("gap: event {} is missing", last.saturating_add(1))).into()
                );
            }
            let address = Address { family: Family::Event, stream, number: sequence };
            match checks.check_record(RecordType::Event, address, row) {
                Ok(_) => {}
                Err(ReadError::Frame(FrameError::TooShort(_) | FrameError::Length { .. }))
                    if events.peek().is_none() =>
                {
                    self.remove.push(key.to_vec());
                    self.repairs.push(format!(
                        "removed event {sequence}, the last one, because its record is incomplete"
                    ));
                    break;
                }
                Err(error) => self.record_missing(&format!("event {sequence}"), error)?,
            }
            (last, digest) = (sequence, chain_digest(digest, row));
        }
        if last < stated {
            let lost = stated.saturating_sub(last);
            let cut =
                format!("events lost at the end: {lost} of {stated}; the stream now ends at event {last}");
            self.repairs.push(cut);
            (self.head.last, self.head.digest) = (last, digest);
        } else if digest != self.head.digest {
            return Err(
                StreamFault::new("the digest of its events differs from the digest in its head").into()
            );
        }
        Ok(())
    }

    /// Handles content that is missing from the blobs. A finished stream is kept, and the loss reported. An
    /// unfinished stream can't continue without the content, so it is broken.
    fn record_missing(&mut self, what: &str, error: ReadError) -> Result<(), VerifyError> {
        match error {
            ReadError::Frame(error) => Err(StreamFault::from_frame_error(what, &error).into()),
            ReadError::Log(error) if is_system_error(&error) => Err(VerifyError::Unreadable(error)),
            ReadError::Log(error) if self.line.finished_at.is_some() => {
                self.missing.push(format!("{what}: {error}"));
                Ok(())
            }
            ReadError::Log(error) => Err(StreamFault::new(format!("{what}: {error}")).into()),
        }
    }

    fn check_references(&mut self, checks: &StreamChecks<'_>) -> Result<(), VerifyError> {
        let stream = self.stream;
        let mut found: u64 = 0;
        for (key, row) in checks.rows.of_family(keys::REFERENCE) {
            let Some(Key::Reference(_, digest)) = keys::parse(key) else { continue };
            record::check_reference(stream, digest, row)
                .map_err(|error| StreamFault::from_frame_error("a reference", &error))?;
            found = found.saturating_add(1);
            let is_reported = |reason: &String| reason.contains(&digest.to_string());
            match checks.blobs.contains(digest) {
                Ok(true) => {}
                Ok(false) if self.missing.iter().any(is_reported) => {}
                Ok(false) => {
                    self.record_missing("its input", LogError::BlobMissing { digest }.into())?;
                }
                Err(error) => self.record_missing("its input", error.into())?,
            }
        }
        if found != self.head.references {
            let stated = self.head.references;
            let reason = format!("it refers to {found} blobs, but its head states {stated}");
            return Err(StreamFault::new(reason).into());
        }
        Ok(())
    }

    fn check_snapshot(&mut self, checks: &StreamChecks<'_>) -> Result<(), VerifyError> {
        let stream = self.stream;
        let wanted = self.head.snapshot.map(|mark| keys::snapshot(stream, mark.sequence));
        let mut row = None;
        for (key, found) in checks.rows.of_family(keys::SNAPSHOT) {
            match &wanted {
                Some(wanted) if wanted.as_slice() == key.as_ref() => row = Some(found),
                _ => self.remove.push(key.to_vec()),
            }
        }
        let Some(mark) = self.head.snapshot else { return Ok(()) };
        let problem = match row {
            None => "it is missing".to_owned(),
            Some(_) if mark.sequence > self.head.last => "it covers lost events".to_owned(),
            Some(row) => {
                let address = Address { family: Family::Snapshot, stream, number: mark.sequence };
                match checks.check_record(RecordType::Snapshot, address, row) {
                    Ok(blob) if blob == mark.blob => return Ok(()),
                    Ok(_) => "it is not stored where the stream's head states".to_owned(),
                    Err(ReadError::Log(error)) if is_system_error(&error) => {
                        return Err(VerifyError::Unreadable(error));
                    }
                    Err(error @ ReadError::Log(_)) if self.head.base > 0 => {
                        return self.record_missing("the snapshot that replaces its events", error);
                    }
                    Err(error) => error.to_string(),
                }
            }
        };
        if self.head.base > 0 {
            let reason = format!("the snapshot that replaces its compacted events cannot be used: {problem}");
            return Err(StreamFault::new(reason).into());
        }
        self.remove.extend(wanted);
        self.head.snapshot = None;
        self.repairs.push(format!("snapshot dropped: {problem}; the stream is read from its events"));
        Ok(())
    }
}

/// Returns true if this process or its permissions caused the error, rather than the data.
fn is_system_error(error: &LogError) -> bool {
    match error {
        LogError::PermissionDenied { .. } | LogError::TooManyOpenFiles { .. } => true,
        LogError::Io { source, .. } => source.kind() == io::ErrorKind::OutOfMemory,
        _ => false,
    }
}
