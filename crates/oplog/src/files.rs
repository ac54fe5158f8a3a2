//! Files and folders: every call names the file and the attempt in its error, and says what is durable when it returns.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::LogError;

/// Makes a folder and its parents, durable up to the first that was there before.
pub(crate) fn create_folder(path: &Path) -> Result<(), LogError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(LogError::NotADirectory { path: path.to_path_buf() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(LogError::io(path, "look at", error)),
    }
    let parent = parent(path);
    create_folder(parent)?;
    match fs::create_dir(path) {
        Ok(()) => sync_folder(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(LogError::io(path, "create", error)),
    }
}

/// The folder a path is in; the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), LogError> {
    let folder = File::open(path).map_err(|error| LogError::io(path, "open", error))?;
    folder.sync_all().map_err(|error| LogError::io(path, "sync", error))
}

/// Puts a file in place whole or not at all, and durably: temporary file, sync, rename, sync of the folder.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> Result<(), LogError> {
    // Two threads may put the same file at once; each needs a temporary file of its own.
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", ATTEMPTS.fetch_add(1, Ordering::Relaxed)));
    let temporary = PathBuf::from(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // Best effort: a leftover temporary file is never read, and the next attempt writes over it.
        let _ = fs::remove_file(&temporary);
        return Err(LogError::io(path, "write", error));
    }
    fs::rename(&temporary, path).map_err(|error| LogError::io(path, "rename", error))?;
    sync_folder(parent(path))
}

/// Refuses what is there and is no regular file: opening a pipe, or reading a device, may last for ever.
pub(crate) fn check_regular(path: &Path) -> Result<(), LogError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(LogError::NotAFile { path: path.to_path_buf() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io(path, "look at", error)),
        _ => Ok(()),
    }
}

/// Reads a file of at most `limit` bytes; `None` when it does not exist.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, LogError> {
    check_regular(path)?;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io(path, "open", error)),
    };
    let mut content = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut content).map_err(|error| LogError::io(path, "read", error))?;
    if content.len() > limit {
        return Err(LogError::TooLarge { what: "file in the state directory", bytes: content.len(), limit });
    }
    Ok(Some(content))
}

/// The entries of a folder, sorted by name; none when it does not exist.
pub(crate) fn list(path: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LogError::io(path, "list", error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| LogError::io(path, "list", error))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Moves a file or folder within the state directory, durably.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), LogError> {
    fs::rename(from, to).map_err(|error| LogError::io(from, "move", error))?;
    sync_folder(parent(to))?;
    sync_folder(parent(from))
}

/// Whether a file or folder is there.
pub(crate) fn exists(path: &Path) -> Result<bool, LogError> {
    path.try_exists().map_err(|error| LogError::io(path, "look at", error))
}

/// Opens a file to read and write, made if need be.
pub(crate) fn open_to_write(path: &Path) -> Result<File, LogError> {
    check_regular(path)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| LogError::io(path, "write", error))
}

/// Whether a path still leads to the file that was opened there.
pub(crate) fn is_in_place(file: &File, path: &Path) -> Result<bool, LogError> {
    let failed = |error| LogError::io(path, "look at", error);
    let opened = file.metadata().map_err(failed)?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The last part of a path as text, when it is text.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
