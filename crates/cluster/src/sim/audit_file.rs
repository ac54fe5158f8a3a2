//! Audit entries of earlier journals, in a file called `audit`. Once the oldest entries have been dropped,
//! the file is called `audit-<number>`.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::audit::AuditEntry;
use super::line_format::{SimError, byte_length, for_each_line, format_line};

/// Maximum size of an audit file, in bytes. If a file is larger, only its newer half is copied to a new file.
/// At least 80,000 writes are always kept, so the audit of a large rehearsal is complete and can still be
/// read quickly.
pub(crate) const AUDIT_FILE_BYTES_MAX: u64 = 32 << 20;

const FILE_NAME: &str = "audit";

/// File with the audit entries of all writes before a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditFile {
    /// Number of the journal whose snapshot created the file, or 0 for the first file.
    #[serde(default, rename = "audit")]
    number: u64,
    /// Number of valid bytes in the file. Any further bytes come from a process that was killed before it
    /// wrote its snapshot.
    #[serde(rename = "audit_bytes")]
    bytes: u64,
}

/// Returns true if this is the name of an audit file.
pub(crate) fn is_audit_file(name: &str) -> bool {
    name.strip_prefix(FILE_NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

impl AuditFile {
    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        match self.number {
            0 => dir.join(FILE_NAME),
            number => dir.join(format!("{FILE_NAME}-{number}")),
        }
    }

    /// Adds a journal's entries to the file. The caller then writes the snapshot with the given number. If
    /// the existing file is larger than `most` bytes, its newest entries are first copied to a new file.
    pub(crate) fn append_entries(
        self,
        dir: &Path,
        number: u64,
        entries: &[AuditEntry],
        most: u64,
    ) -> io::Result<Self> {
        // Never truncate a file that a snapshot refers to. The snapshot remains valid until the next one
        // replaces it.
        let filed = if self.bytes > most { self.copy_newest_entries(dir, number, most / 2)? } else { self };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(filed.path(dir))?;
        file.set_len(filed.bytes)?;
        let (mut file, mut bytes) = (BufWriter::new(file), filed.bytes);
        for entry in entries {
            let line = format_line(entry)?;
            file.write_all(&line)?;
            bytes += byte_length(&line);
        }
        file.flush()?;
        Ok(Self { bytes, ..filed })
    }

    /// Copies the newest lines to a new file.
    fn copy_newest_entries(self, dir: &Path, number: u64, most: u64) -> io::Result<Self> {
        let mut old = BufReader::new(std::fs::File::open(self.path(dir))?);
        let start = self.bytes.saturating_sub(most);
        // Include the preceding byte, which shows whether a line starts exactly at `start`.
        old.seek(SeekFrom::Start(start.saturating_sub(1)))?;
        let mut skipped = Vec::new();
        if start > 0 {
            old.read_until(b'\n', &mut skipped)?;
        }
        let start = start.saturating_sub(1).saturating_add(byte_length(&skipped));
        let short = Self { number, bytes: self.bytes.saturating_sub(start) };
        let path = short.path(dir);
        let mut new = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
        io::copy(&mut io::Read::take(old, short.bytes), &mut new)?;
        Ok(short)
    }

    /// Reads the whole file.
    pub(crate) fn read_entries(self, dir: &Path) -> Result<Vec<AuditEntry>, SimError> {
        let path = self.path(dir);
        let mut entries = Vec::new();
        let read = for_each_line(&path, self.bytes, |_, entry| {
            entries.push(entry);
            Ok(())
        })?;
        if read == self.bytes {
            return Ok(entries);
        }
        if !path.exists() {
            return Err(SimError::Missing { path });
        }
        Err(SimError::Damaged { path, line: entries.len() + 1, why: "the file is too short".to_owned() })
    }
}

#[cfg(test)]
mod tests;
