//! The lines that files of a kept cluster are made of, and what can be wrong with them.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

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
        /// The system's error, with its number.
        source: io::Error,
    },
    /// A file is not what was written.
    #[error("{} is damaged in line {line}: {why}; the simulated cluster cannot be restored from it; put back a copy, or begin with an empty cluster: `tidegate sim reset`", path.display())]
    Damaged {
        /// The file that is damaged.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A file is gone that was there.
    #[error("{} is missing, and the simulated cluster cannot be restored without it; put it back, or begin with an empty cluster: `tidegate sim reset`", path.display())]
    Missing {
        /// Where the file should be.
        path: PathBuf,
    },
    /// The files were written by a program with another idea of the simulation.
    #[error("{} was written in format {found}, this program reads format {FORMAT}; begin with an empty cluster: `tidegate sim reset`", path.display())]
    Format {
        /// The file that says its format.
        path: PathBuf,
        /// The number of the format that it says.
        found: u32,
    },
}

/// A snapshot of 100,000 objects fits into it; what is larger is not read into memory.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// The first line of a journal holds a configuration. One that is longer is taken for begun, and reading it tells more.
const FIRST_LINE_MAX_BYTES: u64 = 64 * 1024;

/// Opens a file to read it; `None` when there is none.
fn open_file(path: &Path) -> Result<Option<File>, SimError> {
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
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(io_error(path)),
    }
}

/// Reads a whole file; `None` when there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, SimError> {
    let Some(mut file) = open_file(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io_error(path))?;
    Ok(Some(bytes))
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

/// Writes a line that is too long to be held as text; returns its length. The file must be empty.
pub(crate) fn write_line(mut file: &File, value: &impl Serialize) -> io::Result<u64> {
    file.write_all(b"00000000 ")?;
    let mut line = BufWriter::new(Summed { to: file, sum: crc32fast::Hasher::new(), bytes: 0 });
    serde_json::to_writer(&mut line, value)?;
    let Summed { sum, bytes, .. } = line.into_inner()?;
    file.write_all(b"\n")?;
    // The checksum is put in front when the rest is known.
    file.rewind()?;
    file.write_all(format!("{:08x}", sum.finalize()).as_bytes())?;
    Ok(bytes + 10)
}

/// A writer that knows the checksum of what went through it.
struct Summed<'a> {
    to: &'a File,
    sum: crc32fast::Hasher,
    bytes: u64,
}

impl Write for Summed<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.to.write_all(part)?;
        self.sum.update(part);
        self.bytes += length(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Reads the complete lines among the first bytes of a file, one after the other, so that a long file takes no memory.
/// Each comes with its number. Returns how many bytes they are.
pub(crate) fn each_line<T: DeserializeOwned>(
    path: &Path,
    bytes: u64,
    mut take: impl FnMut(usize, T) -> Result<(), SimError>,
) -> Result<u64, SimError> {
    let Some(file) = open_file(path)? else { return Ok(0) };
    let mut reader = BufReader::new(file.take(bytes));
    let (mut line, mut number, mut whole) = (Vec::new(), 1, 0);
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(io_error(path))?;
        let Some(body) = line.strip_suffix(b"\n") else {
            return if is_torn(&line) { Ok(whole) } else { Err(not_torn(path, number)) };
        };
        take(number, unframe(path, number, body)?)?;
        number += 1;
        whole += length(&line);
    }
}

/// Whether these bytes are how a line begins, which is all that a killed process can leave of one.
pub(crate) fn is_torn(tail: &[u8]) -> bool {
    let (sum, body) = tail.split_at_checked(9).unwrap_or((tail, &[]));
    let is_sum = sum.iter().enumerate().all(|(at, byte)| match at {
        8 => *byte == b' ',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    // Half of a number may be none, and then it is no matter of the end.
    let number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let before = body.iter().rposition(|byte| !number(byte)).map_or(0, |last| last.saturating_add(1));
    is_sum
        && match serde_json::from_slice::<IgnoredAny>(body.get(..before).unwrap_or_default()) {
            Err(error) => error.is_eof(),
            Ok(IgnoredAny) => sum.starts_with(format!("{:08x}", crc32fast::hash(body)).as_bytes()),
        }
}

fn not_torn(path: &Path, line: usize) -> SimError {
    let why = "it has no end, and it is not how a record begins".to_owned();
    SimError::Damaged { path: path.to_owned(), line, why }
}

/// Whether a file has a first line, or something in its place that no killed process leaves. A file without is as good as
/// none.
pub(crate) fn is_begun(path: &Path) -> Result<bool, SimError> {
    let Some(file) = open_file(path)? else { return Ok(false) };
    let mut first = Vec::new();
    BufReader::new(file.take(FIRST_LINE_MAX_BYTES)).read_until(b'\n', &mut first).map_err(io_error(path))?;
    Ok(first.ends_with(b"\n") || length(&first) == FIRST_LINE_MAX_BYTES || !is_torn(&first))
}
