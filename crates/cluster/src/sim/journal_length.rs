//! Stored length of the journal, in the file `reached`: a single line of fixed length, overwritten after
//! every journal entry.
//!
//! The line is written after the journal entry. Even if the process is killed, the journal is therefore at
//! least as long as the line says. A shorter journal must have been truncated in some other way. Without this
//! file, a truncated journal would look like a journal with a torn tail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::line_format::{SimError, byte_length, format_line, parse_line, read_file};

const FILE_NAME: &str = "reached";

/// Maximum number of retries for an invalid line, which another process may be overwriting.
const READ_RETRIES_MAX: usize = 10;

/// A journal and its length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalLength {
    journal: u64,
    bytes: u64,
}

impl JournalLength {
    /// Reads the stored length in a folder, or returns the default if the file doesn't exist. If another
    /// process may be writing, call this before reading the journal. The journal is then at least as long as
    /// the returned length.
    pub(crate) fn load(dir: &Path) -> Result<Self, SimError> {
        let path = dir.join(FILE_NAME);
        let mut read = Self::read(&path);
        for _ in 1..READ_RETRIES_MAX {
            if matches!(read, Ok(_) | Err(SimError::Io { .. })) {
                break;
            }
            read = Self::read(&path);
        }
        read
    }

    fn read(path: &Path) -> Result<Self, SimError> {
        let bytes = read_file(path)?.unwrap_or_default();
        // The process that created the file hasn't written the line yet, or was killed before it could.
        let Some(line) = bytes.strip_suffix(b"\n") else { return Ok(Self::default()) };
        let text: String = parse_line(path, 1, line)?;
        let numbers = text.split_once(' ').map(|(journal, bytes)| (journal.parse(), bytes.parse()));
        let Some((Ok(journal), Ok(bytes))) = numbers else {
            return Err(SimError::Damaged {
                path: path.to_owned(),
                line: 1,
                why: "the line does not contain two numbers".to_owned(),
            });
        };
        Ok(Self { journal, bytes })
    }

    /// Refuses a journal shorter than the stored length. Ignores the length of an earlier journal that this
    /// journal has replaced.
    pub(crate) fn check_journal(
        self,
        path: &Path,
        journal: u64,
        bytes: u64,
        lines: usize,
    ) -> Result<(), SimError> {
        if self.journal < journal || (self.journal == journal && self.bytes <= bytes) {
            return Ok(());
        }
        let why = if self.journal == journal {
            format!(
                "the file was truncated: it contains {bytes} bytes of complete records, but {} bytes were written",
                self.bytes
            )
        } else {
            format!("the file is older than the expected journal-{}", self.journal)
        };
        Err(SimError::Damaged { path: path.to_owned(), line: lines + 1, why })
    }
}

/// The length file, open as long as the journal.
#[derive(Debug)]
pub(crate) struct JournalLengthFile(File);

impl JournalLengthFile {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(FILE_NAME);
        OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path).map(Self)
    }

    /// Writes the current length of a journal. Always writes the same number of bytes in one call, so a
    /// killed process never leaves a partial line behind.
    pub(crate) fn write(&self, journal: u64, bytes: u64) -> io::Result<()> {
        let line = format_line(&format!("{journal:020} {bytes:020}"))?;
        debug_assert_eq!(byte_length(&line), 53);
        self.0.write_all_at(&line, 0)
    }
}
