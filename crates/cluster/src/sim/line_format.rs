//! Line format of a stored cluster's files, and errors from reading them.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Version of the file format. Increase it if the same writes lead to a different state or the file layout
/// changes.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// Error from opening or reading a stored cluster.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// An operating system error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The contents of a file are damaged.
    #[error("{} is damaged on line {line}: {why}; the simulated cluster cannot be restored from it; restore a copy, or start with an empty cluster: `tidegate sim reset`", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// Line number, starting at 1.
        line: usize,
        /// Description of the damage.
        why: String,
    },
    /// A file is missing.
    #[error("{} is missing, and the simulated cluster cannot be restored without it; put it back, or start with an empty cluster: `tidegate sim \
         reset`", path.display())]
    Missing {
        /// Expected path of the file.
        path: PathBuf,
    },
    /// The files were written in the format of another version of the simulation.
    #[error("{} was written in format {found}, but this version reads format {FORMAT_VERSION}; start with an empty cluster: \
         `tidegate sim reset`", path.display())]
    Format {
        /// The file with the format version.
        path: PathBuf,
        /// The format version in the file.
        found: u32,
    },
}

/// Maximum size of a file to read into memory, larger than a snapshot of 100,000 objects.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// Maximum length of a journal's first line, which contains a configuration. A journal with a longer first
/// line is treated as existing, and opening it reports the damage.
const FIRST_LINE_MAX_BYTES: u64 = 64 * 1024;

/// Opens a file for reading. Returns `None` if it does not exist.
fn open_file(path: &Path) -> Result<Option<File>, SimError> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(io_error(path))?,
    };
    let damaged = |reason: &str| SimError::Damaged { path: path.to_owned(), line: 1, why: reason.to_owned() };
    if !found.is_file() {
        return Err(damaged("not a regular file"));
    }
    if found.len() > FILE_MAX_BYTES {
        return Err(damaged("the file exceeds the maximum size"));
    }
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(io_error(path)),
    }
}

/// Reads a whole file. Returns `None` if it does not exist.
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

/// Formats a line.
pub(crate) fn format_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    // The checksum is filled in once the rest of the line is known.
    let mut line = b"00000000 ".to_vec();
    serde_json::to_writer(&mut line, value)?;
    let sum = crc32fast::hash(line.get(9..).unwrap_or_default());
    line.splice(..8, format!("{sum:08x}").into_bytes());
    line.push(b'\n');
    Ok(line)
}

/// Parses one complete line without its line ending.
pub(crate) fn parse_line<T: DeserializeOwned>(path: &Path, line: usize, bytes: &[u8]) -> Result<T, SimError> {
    let damaged = |why: String| SimError::Damaged { path: path.to_owned(), line, why };
    let (sum, body) = bytes.split_at_checked(9).ok_or_else(|| damaged("the line is too short".to_owned()))?;
    let sum = std::str::from_utf8(sum).ok().and_then(|text| u32::from_str_radix(text.trim_end(), 16).ok());
    if sum != Some(crc32fast::hash(body)) {
        return Err(damaged("the checksum does not match".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))
}

pub(crate) fn byte_length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Writes a line that is too long to hold in memory. Returns the line's length. The file must be empty.
pub(crate) fn write_line(mut file: &File, value: &impl Serialize) -> io::Result<u64> {
    file.write_all(b"00000000 ")?;
    let mut line = BufWriter::new(ChecksumWriter { file, hasher: crc32fast::Hasher::new(), bytes: 0 });
    serde_json::to_writer(&mut line, value)?;
    let ChecksumWriter { hasher, bytes, .. } = line.into_inner()?;
    file.write_all(b"\n")?;
    // The checksum is filled in once the rest of the line is known.
    file.rewind()?;
    file.write_all(format!("{:08x}", hasher.finalize()).as_bytes())?;
    Ok(bytes + 10)
}

/// A writer that computes the checksum of everything written to it.
struct ChecksumWriter<'a> {
    file: &'a File,
    hasher: crc32fast::Hasher,
    bytes: u64,
}

impl Write for ChecksumWriter<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.file.write_all(part)?;
        self.hasher.update(part);
        self.bytes += byte_length(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads the complete lines in the first bytes of a file and passes each line and its number to the callback.
/// Reads them one by one, so that a long file doesn't have to fit in memory. Returns their total length in
/// bytes.
pub(crate) fn for_each_line<T: DeserializeOwned>(
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
            return if is_torn(&line) { Ok(whole) } else { Err(damaged_line_error(path, number)) };
        };
        take(number, parse_line(path, number, body)?)?;
        number += 1;
        whole += byte_length(&line);
    }
}

/// Returns true if the bytes are the beginning of a line, the only incomplete line that a killed process can
/// leave behind.
pub(crate) fn is_torn(tail: &[u8]) -> bool {
    let (sum, body) = tail.split_at_checked(9).unwrap_or((tail, &[]));
    let is_sum = sum.iter().enumerate().all(|(at, byte)| match at {
        8 => *byte == b' ',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    // A truncated number may be invalid JSON, so ignore a number at the end of the data.
    let number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let before = body.iter().rposition(|byte| !number(byte)).map_or(0, |last| last.saturating_add(1));
    is_sum
        && match serde_json::from_slice::<IgnoredAny>(body.get(..before).unwrap_or_default()) {
            Err(error) => error.is_eof(),
            Ok(IgnoredAny) => sum.starts_with(format!("{:08x}", crc32fast::hash(body)).as_bytes()),
        }
}

fn damaged_line_error(path: &Path, line: usize) -> SimError {
    let why = "the line is incomplete and not the start of a record".to_owned();
    SimError::Damaged { path: path.to_owned(), line, why }
}

/// Returns true if a file has a first line, or content that a killed process cannot have left behind. If
/// false, the file is treated as missing.
pub(crate) fn has_first_line(path: &Path) -> Result<bool, SimError> {
    let Some(file) = open_file(path)? else { return Ok(false) };
    let mut first = Vec::new();
    BufReader::new(file.take(FIRST_LINE_MAX_BYTES)).read_until(b'\n', &mut first).map_err(io_error(path))?;
    Ok(first.ends_with(b"\n") || byte_length(&first) == FIRST_LINE_MAX_BYTES || !is_torn(&first))
}
