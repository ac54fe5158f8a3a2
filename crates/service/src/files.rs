//! Reading what people have written.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

fn wrong(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// What a regular file of so many bytes at most holds. Opening anything else may last for ever.
///
/// # Errors
///
/// There is no such file, or it cannot be read, is none, or is too large; the words say which.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(wrong(format!("it has more than the {bytes_max} bytes allowed")));
    }
    Ok(bytes)
}

/// As [`read`], for a text.
///
/// # Errors
///
/// As [`read`], or it is not UTF-8.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| wrong("it is not UTF-8 text".to_owned()))
}

/// Whether a path is a link that leads to somewhere else than below the root, which is without links.
pub fn leads_out(root: &Path, path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    is_link && !fs::canonicalize(path).is_ok_and(|real| real.starts_with(root))
}
