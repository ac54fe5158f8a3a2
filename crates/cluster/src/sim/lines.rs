//! The lines that files of a kept cluster are made of, and what can be wrong with them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Changes whenever the same writes would lead to another state, as well as when the files look different.
pub(crate) const FORMAT: u32 = 1;
/// Why a kept cluster cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A file is not what was written.
    #[error("{} is damaged in line {line}: {why}; the simulated cluster cannot be restored from it; put back a copy, or begin with an empty cluster: `tidegate sim reset`", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A file is gone that was there.
    #[error("{} is missing, and the simulated cluster cannot be restored without it; put it back, or begin with an empty cluster: `tidegate sim reset`", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// The files were written by a program with another idea of the simulation.
    #[error("{} was written in format {found}, this program reads format {FORMAT}; begin with an empty cluster: `tidegate sim reset`", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// A snapshot of 100,000 objects fits into it; what is larger is not read into memory.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// Reads a whole file; `None` when there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, SimError> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(io_error(path))?,
    };
    let damaged = |why: &str| SimError::Damaged { path: path.to_owned(), line: 1, why: why.to_owned() };
    if !found.is_file() {
        return Err(damaged("it is not a regular file"));
    }
    if found.len() > FILE_MAX_BYTES {
        return Err(damaged("it is larger than any that was written"));
    }
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(io_error(path)),
    }
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> SimError {
    let path = path.to_owned();
    move |source| SimError::Io { path, source }
}

/// A line as it is written.
pub(crate) fn frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    // The checksum is put in front when the rest is known.
    let mut line = b"00000000 ".to_vec();
    serde_json::to_writer(&mut line, value)?;
    let sum = crc32fast::hash(line.get(9..).unwrap_or_default());
    line.splice(..8, format!("{sum:08x}").into_bytes());
    line.push(b'\n');
    Ok(line)
}

/// Reads one complete line, without its end.
pub(crate) fn unframe<T: DeserializeOwned>(path: &Path, line: usize, bytes: &[u8]) -> Result<T, SimError> {
    let damaged = |why: String| SimError::Damaged { path: path.to_owned(), line, why };
    let (sum, body) = bytes.split_at_checked(9).ok_or_else(|| damaged("it is too short".to_owned()))?;
    let sum = std::str::from_utf8(sum).ok().and_then(|text| u32::from_str_radix(text.trim_end(), 16).ok());
    if sum != Some(crc32fast::hash(body)) {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))
}

pub(crate) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The complete lines of a file, and how many bytes they are.
pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<(Vec<T>, u64), SimError> {
    let bytes = read_file(path)?.unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let whole = bytes.get(..whole).unwrap_or_default();
    Ok((parse_lines(path, whole)?, length(whole)))
}

pub(crate) fn parse_lines<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<Vec<T>, SimError> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let entries =
        lines.enumerate().map(|(at, line)| unframe(path, at + 1, line.strip_suffix(b"\n").unwrap_or(line)));
    entries.collect()
}
