//! What was found damaged, kept for a person to look at; it also is the memory of what was reported.
//!
//! ```text
//! quarantine/<stream id>/1/reason.txt     what was wrong, and what was done
//!                            /rows.bin       its rows: length 4 LE, key, length 4 LE, value, …
//!                            /blobs/…        files of the blobs it refers to
//! quarantine/database/1/reason.txt, log/     a whole database that had to be replaced
//! quarantine/rows/1/reason.txt, rows.bin     rows of no stream
//! ```
//!
//! `reason.txt` is written last: a folder without it is of a process that was killed, and what it was copied from is
//! still in place.

use std::path::{Path, PathBuf};

use tidegate_model::StreamId;

use crate::{Damage, LogError, blobs, files};

const REASON: &str = "reason.txt";
const ROWS: &str = "rows.bin";

/// All rows of the largest stream fit into it; its large records are blobs.
const MAX_ROWS_BYTES: usize = 256 << 20;

/// A reason is a line; more is cut when it is read.
const MAX_REASON_BYTES: usize = 64 << 10;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Stream(StreamId),
    Database,
    Rows,
}

/// Key and value of a row that was set aside.
pub(crate) type KeptRow = (Vec<u8>, Vec<u8>);

/// The quarantine folder of a state directory.
#[derive(Debug)]
pub(crate) struct Quarantine {
    folder: PathBuf,
    /// One that is only read, and comes before this.
    earlier: Option<PathBuf>,
}

/// An entry that is being made.
pub(crate) struct Entry {
    folder: PathBuf,
}

impl Quarantine {
    pub(crate) fn open(folder: PathBuf) -> Result<Self, LogError> {
        files::create_folder(&folder)?;
        Ok(Self { folder, earlier: None })
    }

    /// Makes new entries in `folder`, beside those of `earlier`, which stays as it is.
    pub(crate) fn open_beside(earlier: PathBuf, folder: PathBuf) -> Result<Self, LogError> {
        Ok(Self { earlier: Some(earlier), ..Self::open(folder)? })
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.earlier.iter().chain([&self.folder])
    }

    /// Begins an entry in a folder of its own.
    pub(crate) fn begin(&self, subject: Subject) -> Result<Entry, LogError> {
        let of_subject = self.folder.join(match subject {
            Subject::Stream(stream) => stream.to_string(),
            Subject::Database => "database".to_owned(),
            Subject::Rows => "rows".to_owned(),
        });
        let taken =
            files::list(&of_subject)?.iter().filter_map(|path| files::name(path).parse::<u64>().ok()).max();
        let folder = of_subject.join(taken.unwrap_or(0).saturating_add(1).to_string());
        files::create_folder(&folder)?;
        Ok(Entry { folder })
    }

    /// Whether anything was ever set aside of a stream.
    pub(crate) fn knows(&self, stream: StreamId) -> Result<bool, LogError> {
        for folder in self.folders() {
            for entry in files::list(&folder.join(stream.to_string()))? {
                if files::exists(&entry.join(REASON))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The rows that were set aside of a stream, oldest entry first. An entry whose rows cannot be read has none.
    pub(crate) fn rows_of(&self, stream: StreamId) -> Result<Vec<KeptRow>, LogError> {
        let mut rows = Vec::new();
        for entry in self.list()?.into_iter().filter(|entry| entry.stream == Some(stream)) {
            let Some(path) = entry.quarantine.map(|entry| entry.join(ROWS)) else { continue };
            match files::read(&path, MAX_ROWS_BYTES) {
                Ok(content) => rows.extend(parse_rows(&content.unwrap_or_default())),
                Err(error) => tracing::warn!(%error, "rows in the quarantine cannot be read"),
            }
        }
        Ok(rows)
    }

    /// All entries that were finished.
    pub(crate) fn list(&self) -> Result<Vec<Damage>, LogError> {
        let mut damage = Vec::new();
        for folder in self.folders() {
            for of_subject in files::list(folder)? {
                let stream = files::name(&of_subject).parse().ok();
                let mut entries = files::list(&of_subject).unwrap_or_default();
                entries.sort_by_key(|entry| files::name(entry).parse::<u64>().unwrap_or(u64::MAX));
                for entry in entries {
                    if let Some(reason) = read_reason(&entry)? {
                        damage.push(Damage { stream, reason, quarantine: Some(entry), is_new: false });
                    }
                }
            }
        }
        Ok(damage)
    }
}

/// The reason of an entry; `None` when the entry was never finished.
fn read_reason(entry: &Path) -> Result<Option<String>, LogError> {
    let text = match files::read(&entry.join(REASON), MAX_REASON_BYTES) {
        Ok(Some(text)) => String::from_utf8_lossy(&text).trim().to_owned(),
        Ok(None) => return Ok(None),
        // Not written by us like that; the entry counts all the same.
        Err(LogError::TooLarge { .. }) => "its reason cannot be read".to_owned(),
        Err(error) => return Err(error),
    };
    Ok(Some(text))
}

/// Takes the file of an entry's rows apart, as far as it is whole.
fn parse_rows(content: &[u8]) -> Vec<KeptRow> {
    fn part(content: &[u8]) -> Option<(&[u8], &[u8])> {
        let (length, rest) = content.split_first_chunk::<4>()?;
        rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
    }
    let (mut rows, mut rest) = (Vec::new(), content);
    while let Some((key, after)) = part(rest)
        && let Some((value, after)) = part(after)
    {
        rows.push((key.to_vec(), value.to_vec()));
        rest = after;
    }
    rows
}

impl Entry {
    /// The folder that copies and their reason go into.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies rows into it.
    pub(crate) fn rows<'a>(&self, rows: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), LogError> {
        let mut content = Vec::new();
        for part in rows.flat_map(|(key, value)| [key, value]) {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            content.extend_from_slice(&length.to_le_bytes());
            content.extend_from_slice(part);
        }
        files::write_durably(&self.folder.join(ROWS), &content)
    }

    /// Copies the file of a blob into it.
    pub(crate) fn blob(&self, file: &Path) -> Result<(), LogError> {
        let folder = self.folder.join("blobs").join(files::name(files::parent(file)));
        files::create_folder(&folder)?;
        blobs::copy_file(file, &folder.join(files::name(file)))?;
        files::sync_folder(&folder)
    }

    /// Writes the reason, which makes the entry count.
    pub(crate) fn finish(self, reason: &str) -> Result<PathBuf, LogError> {
        files::write_durably(&self.folder.join(REASON), format!("{reason}\n").as_bytes())?;
        tracing::warn!(quarantine = %self.folder.display(), reason, "the log is damaged");
        Ok(self.folder)
    }
}
