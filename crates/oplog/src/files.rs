//! File system access. Errors contain the path and the action. Functions that write document when the change
//! becomes durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::LogError;

/// Creates a folder and its parents durably.
pub(crate) fn create_folder(path: &Path) -> Result<(), LogError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(LogError::NotADirectory { path: path.to_path_buf() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(LogError::from_io(path, "access", error)),
    }
    let parent = parent_folder(path);
    create_folder(parent)?;
    match fs::create_dir(path) {
        Ok(()) => sync_folder(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(LogError::from_io(path, "create", error)),
    }
}

/// Creates a folder in an existing folder. Returns false if it already existed. The new folder is durable
/// once its parent is synced.
pub(crate) fn create_one_folder(path: &Path) -> Result<bool, LogError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => create_folder(path).map(|()| false),
        Err(error) => Err(LogError::from_io(path, "create", error)),
    }
}

/// Returns the parent folder of a path. For a bare name, this is the current folder.
pub(crate) fn parent_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), LogError> {
    let folder = File::open(path).map_err(|error| LogError::from_io(path, "open", error))?;
    folder.sync_all().map_err(|error| LogError::from_io(path, "sync", error))
}

/// Writes a file atomically and durably: temporary file, sync, rename, sync of the folder.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> Result<(), LogError> {
    write_atomically(path, content)?;
    sync_folder(parent_folder(path))
}

/// Writes a file atomically. The file is durable once its folder is synced.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), LogError> {
    // Threads may write the same file concurrently, so each uses its own temporary file.
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", ATTEMPTS.fetch_add(1, Ordering::Relaxed)));
    let temporary = PathBuf::from(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Best effort: leftover temporary files are never read, and the next attempt overwrites them.
        let _ = fs::remove_file(&temporary);
        return Err(LogError::from_io(path, "write", error));
    }
    fs::rename(&temporary, path).map_err(|error| LogError::from_io(path, "rename", error))
}

/// Rejects everything except regular files, because opening a pipe or reading a device can block forever.
pub(crate) fn check_regular(path: &Path) -> Result<(), LogError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(LogError::NotAFile { path: path.to_path_buf() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LogError::from_io(path, "access", error))
        }
        _ => Ok(()),
    }
}

/// Reads a file of at most `limit` bytes. Returns `None` if the file doesn't exist.
pub(crate) fn read_limited(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, LogError> {
    check_regular(path)?;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::from_io(path, "open", error)),
    };
    let mut content = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut content).map_err(|error| LogError::from_io(path, "read", error))?;
    if content.len() > limit {
        return Err(LogError::TooLarge { what: "file in the state directory", bytes: content.len(), limit });
    }
    Ok(Some(content))
}

/// Returns the entries of a folder, sorted by name, or an empty list if the folder doesn't exist.
pub(crate) fn list_folder(path: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LogError::from_io(path, "list", error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| LogError::from_io(path, "list", error))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Moves a file or folder within the state directory durably.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), LogError> {
    fs::rename(from, to).map_err(|error| LogError::from_io(from, "move", error))?;
    sync_folder(parent_folder(to))?;
    if parent_folder(from) == parent_folder(to) { Ok(()) } else { sync_folder(parent_folder(from)) }
}

/// Returns true if a file or folder exists.
pub(crate) fn exists(path: &Path) -> Result<bool, LogError> {
    path.try_exists().map_err(|error| LogError::from_io(path, "access", error))
}

/// Opens a file for reading and writing, creating it if missing.
pub(crate) fn open_read_write(path: &Path) -> Result<File, LogError> {
    check_regular(path)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| LogError::from_io(path, "write", error))
}

/// Returns true if `path` still refers to the open `file`, rather than to a replacement.
pub(crate) fn is_in_place(file: &File, path: &Path) -> Result<bool, LogError> {
    let failed = |error| LogError::from_io(path, "access", error);
    let opened = file.metadata().map_err(failed)?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Returns the last component of a path if it is valid UTF-8, or else an empty string.
pub(crate) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
