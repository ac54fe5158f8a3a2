//! Quarantine: damaged data kept for inspection, with a description of the damage.
//!
//! ```text
//! quarantine/<stream id>/1/reason.txt     the problem and how it was handled
//!                            /rows.bin       its rows: length 4 LE, key, length 4 LE, value, …
//!                            /blobs/…        files of the blobs that the stream refers to
//! quarantine/database/1/reason.txt, log/     a whole database that had to be replaced
//! quarantine/rows/1/reason.txt, rows.bin     rows without a stream
//! ```
//!
//! `reason.txt` is written last. If it is missing, the process was killed while writing the folder, and the
//! original data is still in place.

use std::path::{Path, PathBuf};

use tidegate_model::StreamId;

use crate::{Damage, LogError, blobs, files};

const REASON_FILE: &str = "reason.txt";
const ROWS_FILE: &str = "rows.bin";

/// Maximum size of `rows.bin` in bytes. The largest stream fits, because large records are stored in blobs.
const MAX_ROWS_BYTES: usize = 256 << 20;

/// Maximum size of a reason file in bytes. A reason is a single line; larger files aren't read.
const MAX_REASON_BYTES: usize = 64 << 10;

/// Damaged item in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Stream(StreamId),
    Database,
    Rows,
}

/// Key and value of a quarantined row.
pub(crate) type QuarantinedRow = (Vec<u8>, Vec<u8>);

/// Quarantine folder of a state directory.
#[derive(Debug)]
pub(crate) struct Quarantine {
    folder: PathBuf,
    /// Read-only quarantine with entries that precede those in `folder`.
    earlier_folder: Option<PathBuf>,
}

/// Unfinished entry.
pub(crate) struct Entry {
    folder: PathBuf,
}

impl Quarantine {
    pub(crate) fn open(folder: PathBuf) -> Result<Self, LogError> {
        files::create_folder(&folder)?;
        Ok(Self { folder, earlier_folder: None })
    }

    /// Opens a quarantine that creates entries in `folder`. Entries in `earlier` are read but never changed.
    pub(crate) fn open_beside(earlier: PathBuf, folder: PathBuf) -> Result<Self, LogError> {
        Ok(Self { earlier_folder: Some(earlier), ..Self::open(folder)? })
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.earlier_folder.iter().chain([&self.folder])
    }

    /// Creates an entry in its own folder.
    pub(crate) fn create_entry(&self, subject: Subject) -> Result<Entry, LogError> {
        let of_subject = self.folder.join(match subject {
            Subject::Stream(stream) => stream.to_string(),
            Subject::Database => "database".to_owned(),
            Subject::Rows => "rows".to_owned(),
        });
        let taken = files::list_folder(&of_subject)?
            .iter()
            .filter_map(|path| files::file_name(path).parse::<u64>().ok())
            .max();
        let folder = of_subject.join(taken.unwrap_or(0).saturating_add(1).to_string());
        files::create_folder(&folder)?;
        Ok(Entry { folder })
    }

    /// Returns true if any part of a stream has ever been quarantined.
    pub(crate) fn has_stream(&self, stream: StreamId) -> Result<bool, LogError> {
        for folder in self.folders() {
            for entry in files::list_folder(&folder.join(stream.to_string()))? {
                if files::exists(&entry.join(REASON_FILE))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the quarantined rows of a stream, oldest entry first. Skips entries with unreadable rows.
    pub(crate) fn rows_of(&self, stream: StreamId) -> Result<Vec<QuarantinedRow>, LogError> {
        let mut rows = Vec::new();
        for entry in self.list()?.into_iter().filter(|entry| entry.stream == Some(stream)) {
            let Some(path) = entry.quarantine.map(|entry| entry.join(ROWS_FILE)) else { continue };
            match files::read_limited(&path, MAX_ROWS_BYTES) {
                Ok(content) => rows.extend(parse_rows(&content.unwrap_or_default())),
                Err(error) => tracing::warn!(%error, "failed to read rows in the quarantine"),
            }
        }
        Ok(rows)
    }

    /// Returns all finished entries.
    pub(crate) fn list(&self) -> Result<Vec<Damage>, LogError> {
        let mut damage = Vec::new();
        for folder in self.folders() {
            for of_subject in files::list_folder(folder)? {
                let stream = files::file_name(&of_subject).parse().ok();
                let mut entries = files::list_folder(&of_subject).unwrap_or_default();
                entries.sort_by_key(|entry| files::file_name(entry).parse::<u64>().unwrap_or(u64::MAX));
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

/// Returns the reason of an entry, or `None` if the entry is unfinished.
fn read_reason(entry: &Path) -> Result<Option<String>, LogError> {
    let text = match files::read_limited(&entry.join(REASON_FILE), MAX_REASON_BYTES) {
        Ok(Some(text)) => String::from_utf8_lossy(&text).trim().to_owned(),
        Ok(None) => return Ok(None),
        // This program never writes an oversized reason, but the entry may still contain damaged data.
        Err(LogError::TooLarge { .. }) => "its reason cannot be read".to_owned(),
        Err(error) => return Err(error),
    };
    Ok(Some(text))
}

/// Parses the rows in an entry, up to the first damaged row.
fn parse_rows(content: &[u8]) -> Vec<QuarantinedRow> {
    fn split_part(content: &[u8]) -> Option<(&[u8], &[u8])> {
        let (length, rest) = content.split_first_chunk::<4>()?;
        rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
    }
    let (mut rows, mut rest) = (Vec::new(), content);
    while let Some((key, after)) = split_part(rest)
        && let Some((value, after)) = split_part(after)
    {
        rows.push((key.to_vec(), value.to_vec()));
        rest = after;
    }
    rows
}

impl Entry {
    /// Returns the folder with the copies and the reason.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies rows into the entry.
    pub(crate) fn copy_rows<'a>(
        &self,
        rows: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), LogError> {
        let mut content = Vec::new();
        for part in rows.flat_map(|(key, value)| [key, value]) {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            content.extend_from_slice(&length.to_le_bytes());
            content.extend_from_slice(part);
        }
        files::write_durably(&self.folder.join(ROWS_FILE), &content)
    }

    /// Copies a blob file into the entry.
    pub(crate) fn copy_blob(&self, file: &Path) -> Result<(), LogError> {
        let folder = self.folder.join("blobs").join(files::file_name(files::parent_folder(file)));
        files::create_folder(&folder)?;
        blobs::copy_file(file, &folder.join(files::file_name(file)))?;
        files::sync_folder(&folder)
    }

    /// Finishes the entry by writing its reason.
    pub(crate) fn finish(self, reason: &str) -> Result<PathBuf, LogError> {
        files::write_durably(&self.folder.join(REASON_FILE), format!("{reason}\n").as_bytes())?;
        tracing::warn!(quarantine = %self.folder.display(), reason, "the log is damaged");
        Ok(self.folder)
    }
}
