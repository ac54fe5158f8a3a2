//! Reads files written by users, and replaces small files in a state directory.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

fn invalid_file_error(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Returns the content of a regular file, up to a maximum size. Never opens other kinds of files, because
/// that could block forever.
///
/// # Errors
///
/// Returns an error if the file doesn't exist, is unreadable, isn't a regular file, or is too large. The
/// message describes the problem.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(invalid_file_error("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(invalid_file_error(format!("the file is larger than the maximum of {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Atomically replaces a file that has no extension. The caller must hold the lock on the state directory.
///
/// # Errors
///
/// Returns an error if the new content can't be written. The file is then unchanged.
pub fn replace_file(path: &Path, content: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    // Remove any special file first, because opening it could block forever.
    let _ = fs::remove_file(&new);
    File::create_new(&new)?.write_all(content.as_bytes())?;
    fs::rename(&new, path)
}

/// Returns the content of a text file, like [`read_file`].
///
/// # Errors
///
/// Returns an error for the same reasons as [`read_file`], or if the content isn't UTF-8.
pub fn read_text_file(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_file(path, bytes_max)?)
        .map_err(|_| invalid_file_error("the file is not UTF-8 text".to_owned()))
}

/// Returns true if a path is a link to a target outside `root`. `root` itself must not contain links.
pub fn is_link_outside(root: &Path, path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    is_link && !fs::canonicalize(path).is_ok_and(|real| real.starts_with(root))
}
