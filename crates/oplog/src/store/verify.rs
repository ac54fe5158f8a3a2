//! Judges the rows of one stream: sound, mendable, or broken.
//!
//! The distinction that matters: an end that is missing or half written is what a crash can leave, and is cut; anything
//! else is damage, and the stream is set aside rather than continued from records that may be wrong.

use std::io;

use tidegate_model::{Digest, StreamId, StreamKind};

use super::database::{Database, Row};
use super::head::{Head, chain};
use super::keys::{self, Key};
use super::line::Line;
use super::record::{self, Held, ReadError};
use crate::LogError;
use crate::blobs::BlobStore;
use crate::codec::{Codecs, Part};
use crate::frame::{self, Address, Family, FrameError};

/// The rows of a stream, all families.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
}

/// What is to be done about a stream.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) stream: StreamId,
    pub(crate) head: Head,
    pub(crate) line: Line,
    /// Rows that must go: left over by a compaction, or damaged and not needed.
    pub(crate) remove: Vec<Vec<u8>>,
    /// What was mended, to be reported; the head and the summary are then to be written again.
    pub(crate) mended: Vec<String>,
    /// Content that is gone, of a stream that is over: all else is kept.
    pub(crate) lacking: Vec<String>,
}

/// Why there is no verdict.
#[derive(Debug)]
pub(crate) enum Unsound {
    /// The stream cannot be continued.
    Broken(Broken),
    /// Its records could not be looked at; nothing is said about them.
    Unseen(LogError),
}

impl From<Broken> for Unsound {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// Why a stream cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) reason: String,
    /// The kind and the highest known, when the reason is a record of a newer program.
    pub(crate) newer: Option<(u16, u16)>,
    /// It is of a kind this program does not know, so its records are left to one that does.
    pub(crate) is_foreign: bool,
}

impl Broken {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), newer: None, is_foreign: false }
    }

    fn frame(what: &str, error: &FrameError) -> Self {
        let newer = match error {
            FrameError::NewerKind { kind, highest } => Some((*kind, *highest)),
            _ => None,
        };
        Self { newer, ..Self::new(format!("{what}: {error}")) }
    }

    /// Whether its records stay where they are: they are not ours to judge.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.is_foreign || self.newer.is_some()
    }
}

impl Rows {
    pub(crate) fn read(database: &Database, stream: StreamId) -> Result<Self, LogError> {
        let mut rows = Vec::new();
        for family in keys::OWN {
            rows.append(&mut database.rows(&keys::of(family, stream))?);
        }
        Ok(Self { rows })
    }

    fn of(&self, family: u8) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |(key, _)| key.first() == Some(&family))
    }

    fn single(&self, family: u8, what: &str) -> Result<&[u8], Broken> {
        let row = self.of(family).next().map(|(_, row)| row.as_ref());
        row.ok_or_else(|| Broken::new(format!("its {what} is missing")))
    }

    /// The digests that can be read from its rows, for the copies in the quarantine.
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.rows.iter().filter_map(|(key, _)| match keys::parse(key) {
            Some(Key::Reference(_, digest)) => Some(digest),
            _ => None,
        })
    }
}

/// Judges a stream by its rows.
pub(crate) fn verify(
    stream: StreamId,
    rows: &Rows,
    blobs: &BlobStore,
    codecs: &Codecs,
) -> Result<Verdict, Unsound> {
    if let Some((key, _)) = rows.rows.iter().find(|(key, _)| keys::parse(key).is_none()) {
        let reason = format!("it has a row of an unknown shape, {} bytes of key", key.len());
        return Err(Broken::new(reason).into());
    }
    let row = rows.single(keys::SUMMARY, "summary")?;
    let (_, line) =
        record::read_own::<Line>(stream, row).map_err(|error| Broken::frame("its summary", &error))?;
    let checks = Checks { stream, rows, blobs, codecs, kind: &line.kind() };
    if codecs.know(checks.kind) {
        return checks.verdict(line);
    }
    let foreign = |broken| Broken { is_foreign: true, ..broken };
    let mut verdict = checks.verdict(line).map_err(|unsound| match unsound {
        Unsound::Broken(broken) => Unsound::Broken(foreign(broken)),
        unseen @ Unsound::Unseen(_) => unseen,
    })?;
    if !verdict.mended.is_empty() {
        return Err(foreign(Broken::new(verdict.mended.join("; "))).into());
    }
    verdict.remove.clear();
    Ok(verdict)
}

/// What the checks of one stream look at.
struct Checks<'a> {
    stream: StreamId,
    rows: &'a Rows,
    blobs: &'a BlobStore,
    codecs: &'a Codecs,
    kind: &'a StreamKind,
}

impl Checks<'_> {
    fn verdict(&self, line: Line) -> Result<Verdict, Unsound> {
        let row = self.rows.single(keys::HEAD, "head")?;
        let (_, head) =
            record::read_own::<Head>(self.stream, row).map_err(|error| Broken::frame("its head", &error))?;
        let (kind, content) = &line.details;
        self.codecs
            .check(self.kind, Part::Details, *kind, content)
            .map_err(|error| Broken::frame("its summary", &error))?;
        let mut verdict = Verdict {
            stream: self.stream,
            head,
            line,
            remove: Vec::new(),
            mended: Vec::new(),
            lacking: Vec::new(),
        };
        if verdict.head.reduced {
            verdict.clear_leftovers(self.rows);
            return Ok(verdict);
        }
        verdict.check_facts(self)?;
        verdict.check_references(self)?;
        verdict.check_snapshot(self)?;
        Ok(verdict)
    }

    /// Checks a record as far as opening goes, and says in which blob it is.
    fn record(&self, part: Part, address: Address, row: &[u8]) -> Result<Option<Digest>, ReadError> {
        let framed = frame::open(address.family, address.stream, Some(address.number), row)?;
        self.codecs.check_kind(self.kind, part, framed.kind)?;
        match record::held(&framed)? {
            Held::Inline(content) => {
                self.codecs.check(self.kind, part, framed.kind, content)?;
                Ok(None)
            }
            // A large one is checked by its file's checksum here and unpacked when it is read.
            Held::Blob(digest) => {
                self.blobs.check(digest)?;
                Ok(Some(digest))
            }
        }
    }
}

impl Verdict {
    /// A compaction that was interrupted leaves rows its head no longer counts.
    fn clear_leftovers(&mut self, rows: &Rows) {
        for family in [keys::FACT, keys::SNAPSHOT, keys::REFERENCE] {
            self.remove.extend(rows.of(family).map(|(key, _)| key.to_vec()));
        }
    }

    fn check_facts(&mut self, checks: &Checks<'_>) -> Result<(), Unsound> {
        let stream = self.stream;
        let stated = self.head.last;
        let (mut last, mut digest) = (self.head.base, self.head.base_digest);
        let mut facts = checks.rows.of(keys::FACT).peekable();
        while let Some((key, row)) = facts.next() {
            let Some(Key::Fact(_, sequence)) = keys::parse(key) else { continue };
            if sequence <= self.head.base {
                self.remove.push(key.to_vec());
                continue;
            }
            if sequence > stated {
                // Its batch did not get as far as the head, so nobody was told of it.
                self.remove.push(key.to_vec());
                self.mended
                    .push(format!("tail cut: fact {sequence} is beyond the head, which ends at {stated}"));
                continue;
            }
            if sequence != last.saturating_add(1) {
                return Err(Broken::new(format!("gap: fact {} is missing", last.saturating_add(1))).into());
            }
            let address = Address { family: Family::Fact, stream, number: sequence };
            match checks.record(Part::Fact, address, row) {
                Ok(_) => {}
                Err(ReadError::Frame(FrameError::TooShort(_) | FrameError::Length { .. }))
                    if facts.peek().is_none() =>
                {
                    self.remove.push(key.to_vec());
                    self.mended.push(format!("tail cut: fact {sequence}, the last, is half written"));
                    break;
                }
                Err(error) => self.impair(&format!("fact {sequence}"), error)?,
            }
            (last, digest) = (sequence, chain(digest, row));
        }
        if last < stated {
            let lost = stated.saturating_sub(last);
            let cut = format!("tail cut: {lost} of {stated} facts are lost; it now ends at fact {last}");
            self.mended.push(cut);
            (self.head.last, self.head.digest) = (last, digest);
        } else if digest != self.head.digest {
            return Err(Broken::new("its facts are not those its head was written for").into());
        }
        Ok(())
    }

    /// Content beside the log that is gone costs a stream that is over nothing else. One that is not over cannot go
    /// on without it.
    fn impair(&mut self, what: &str, error: ReadError) -> Result<(), Unsound> {
        match error {
            ReadError::Frame(error) => Err(Broken::frame(what, &error).into()),
            ReadError::Log(error) if is_of_the_system(&error) => Err(Unsound::Unseen(error)),
            ReadError::Log(error) if self.line.finished_at.is_some() => {
                self.lacking.push(format!("{what}: {error}"));
                Ok(())
            }
            ReadError::Log(error) => Err(Broken::new(format!("{what}: {error}")).into()),
        }
    }

    fn check_references(&mut self, checks: &Checks<'_>) -> Result<(), Unsound> {
        let stream = self.stream;
        let mut found: u64 = 0;
        for (key, row) in checks.rows.of(keys::REFERENCE) {
            let Some(Key::Reference(_, digest)) = keys::parse(key) else { continue };
            record::check_reference(stream, digest, row)
                .map_err(|error| Broken::frame("a reference", &error))?;
            found = found.saturating_add(1);
            let told = |reason: &String| reason.contains(&digest.to_string());
            match checks.blobs.contains(digest) {
                Ok(true) => {}
                Ok(false) if self.lacking.iter().any(told) => {}
                Ok(false) => {
                    self.impair("what it was given", LogError::BlobMissing { digest }.into())?;
                }
                Err(error) => self.impair("what it was given", error.into())?,
            }
        }
        if found != self.head.references {
            let stated = self.head.references;
            let reason = format!("it refers to {found} blobs but its head says {stated}");
            return Err(Broken::new(reason).into());
        }
        Ok(())
    }

    fn check_snapshot(&mut self, checks: &Checks<'_>) -> Result<(), Unsound> {
        let stream = self.stream;
        let wanted = self.head.snapshot.map(|mark| keys::snapshot(stream, mark.sequence));
        let mut row = None;
        for (key, found) in checks.rows.of(keys::SNAPSHOT) {
            match &wanted {
                Some(wanted) if wanted.as_slice() == key.as_ref() => row = Some(found),
                _ => self.remove.push(key.to_vec()),
            }
        }
        let Some(mark) = self.head.snapshot else { return Ok(()) };
        let problem = match row {
            None => "it is missing".to_owned(),
            Some(_) if mark.sequence > self.head.last => "it covers facts that are lost".to_owned(),
            Some(row) => {
                let address = Address { family: Family::Snapshot, stream, number: mark.sequence };
                match checks.record(Part::Snapshot, address, row) {
                    Ok(blob) if blob == mark.blob => return Ok(()),
                    Ok(_) => "it is kept where its head does not say".to_owned(),
                    Err(ReadError::Log(error)) if is_of_the_system(&error) => {
                        return Err(Unsound::Unseen(error));
                    }
                    Err(error @ ReadError::Log(_)) if self.head.base > 0 => {
                        return self.impair("the snapshot that stands for its facts", error);
                    }
                    Err(error) => error.to_string(),
                }
            }
        };
        if self.head.base > 0 {
            let reason = format!("its snapshot stands for facts that were compacted, and {problem}");
            return Err(Broken::new(reason).into());
        }
        self.remove.extend(wanted);
        self.head.snapshot = None;
        self.mended.push(format!("snapshot dropped: {problem}; it is read from its facts"));
        Ok(())
    }
}

/// Whether an error says something about this process and its rights, and nothing about what it wanted to read.
fn is_of_the_system(error: &LogError) -> bool {
    match error {
        LogError::PermissionDenied { .. } | LogError::TooManyOpen { .. } => true,
        LogError::Io { source, .. } => source.kind() == io::ErrorKind::OutOfMemory,
        _ => false,
    }
}
