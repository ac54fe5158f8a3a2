//! How far the journal of a kept cluster reached: `reached`, one line of fixed length that is written over after every
//! entry of the journal.
//!
//! The line comes second, so a killed process leaves a journal that is as long as the line says, or longer. A shorter one
//! was cut by somebody else, which the journal alone could not tell from a torn tail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::lines::{SimError, frame, length, read_file, unframe};

const NAME: &str = "reached";

/// How often the line is read again when it is none: another process may be writing over it at that moment.
const READS_MAX: usize = 10;

/// Which journal, and how many bytes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    journal: u64,
    bytes: u64,
}

impl Reached {
    /// What a folder remembers; nothing where it has no such file. Whoever reads beside a process at work reads this before
    /// the journal, which is then at least as long.
    pub(crate) fn of(dir: &Path) -> Result<Self, SimError> {
        let path = dir.join(NAME);
        let mut read = Self::read(&path);
        for _ in 1..READS_MAX {
            if matches!(read, Ok(_) | Err(SimError::Io { .. })) {
                break;
            }
            read = Self::read(&path);
        }
        read
    }

    fn read(path: &Path) -> Result<Self, SimError> {
        let bytes = read_file(path)?.unwrap_or_default();
        // Made, and not yet written.
        let Some(line) = bytes.strip_suffix(b"\n") else { return Ok(Self::default()) };
        let text: String = unframe(path, 1, line)?;
        let numbers = text.split_once(' ').map(|(journal, bytes)| (journal.parse(), bytes.parse()));
        let Some((Ok(journal), Ok(bytes))) = numbers else {
            return Err(SimError::Damaged {
                path: path.to_owned(),
                line: 1,
                why: "it does not name two numbers".to_owned(),
            });
        };
        Ok(Self { journal, bytes })
    }

    /// Refuses a journal that is shorter than it was. What is remembered of an earlier one counts no more: its successor
    /// began after it.
    pub(crate) fn check(self, path: &Path, journal: u64, bytes: u64, lines: usize) -> Result<(), SimError> {
        if self.journal < journal || (self.journal == journal && self.bytes <= bytes) {
            return Ok(());
        }
        let why = if self.journal == journal {
            format!(
                "the file was cut: {bytes} bytes of it are whole records, and {} were written",
                self.bytes
            )
        } else {
            format!("it is an older file, put in the place of journal-{}", self.journal)
        };
        Err(SimError::Damaged { path: path.to_owned(), line: lines + 1, why })
    }
}

/// The file, open for as long as the journal is.
#[derive(Debug)]
pub(crate) struct ReachedFile(File);

impl ReachedFile {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path).map(Self)
    }

    /// Writes how far a journal reaches now. Always as many bytes, in one call: no kill leaves half of it.
    pub(crate) fn write(&self, journal: u64, bytes: u64) -> io::Result<()> {
        let line = frame(&format!("{journal:020} {bytes:020}"))?;
        debug_assert_eq!(length(&line), 53);
        self.0.write_all_at(&line, 0)
    }
}
