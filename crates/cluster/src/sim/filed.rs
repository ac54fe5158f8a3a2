//! The audit of earlier journals: `audit`, and `audit-<number>` once its oldest entries were left out.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::audit::AuditEntry;
use super::lines::{SimError, each_line, frame, length};

/// A file that is longer than this goes on as a new one with the newer half: more than 80,000 writes are always there, so
/// the audit of a large rehearsal is whole, and reading it takes a moment.
pub(crate) const FILED_BYTES: u64 = 32 << 20;

const NAME: &str = "audit";

/// Which file holds the audit of what came before a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filed {
    /// The journal with whose snapshot the file began; 0 for the first file.
    #[serde(default, rename = "audit")]
    number: u64,
    /// How much of the file counts. What follows was written by a process killed before its snapshot was made.
    #[serde(rename = "audit_bytes")]
    bytes: u64,
}

/// Whether a file has the name of such a file.
pub(crate) fn is_one(name: &str) -> bool {
    name.strip_prefix(NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

impl Filed {
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        match self.number {
            0 => dir.join(NAME),
            number => dir.join(format!("{NAME}-{number}")),
        }
    }

    /// Files the entries of a journal, before the snapshot of this number is made. `most`: how long a file may be before
    /// them.
    pub(crate) fn with(self, dir: &Path, number: u64, entries: &[AuditEntry], most: u64) -> io::Result<Self> {
        // A file that a snapshot names is never cut: the snapshot counts until the next one takes its place.
        let filed = if self.bytes > most { self.shortened(dir, number, most / 2)? } else { self };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(filed.path(dir))?;
        file.set_len(filed.bytes)?;
        let (mut file, mut bytes) = (BufWriter::new(file), filed.bytes);
        for entry in entries {
            let line = frame(entry)?;
            file.write_all(&line)?;
            bytes += length(&line);
        }
        file.flush()?;
        Ok(Self { bytes, ..filed })
    }

    /// A new file with the newest lines of this one.
    fn shortened(self, dir: &Path, number: u64, most: u64) -> io::Result<Self> {
        let mut old = BufReader::new(std::fs::File::open(self.path(dir))?);
        let start = self.bytes.saturating_sub(most);
        // A line that begins right there is whole, which the byte before it tells.
        old.seek(SeekFrom::Start(start.saturating_sub(1)))?;
        let mut skipped = Vec::new();
        if start > 0 {
            old.read_until(b'\n', &mut skipped)?;
        }
        let start = start.saturating_sub(1).saturating_add(length(&skipped));
        let short = Self { number, bytes: self.bytes.saturating_sub(start) };
        let path = short.path(dir);
        let mut new = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
        io::copy(&mut io::Read::take(old, short.bytes), &mut new)?;
        Ok(short)
    }

    /// Reads all of it.
    pub(crate) fn read(self, dir: &Path) -> Result<Vec<AuditEntry>, SimError> {
        let path = self.path(dir);
        let mut entries = Vec::new();
        let read = each_line(&path, self.bytes, |_, entry| {
            entries.push(entry);
            Ok(())
        })?;
        if read == self.bytes {
            return Ok(entries);
        }
        if !path.exists() {
            return Err(SimError::Missing { path });
        }
        Err(SimError::Damaged { path, line: entries.len() + 1, why: "it is too short".to_owned() })
    }
}

#[cfg(test)]
mod tests;
