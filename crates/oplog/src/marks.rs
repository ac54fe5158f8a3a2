//! Marks of copied logs. A log that was moved to a database, or that is an incomplete copy, must not be used.
//!
//! A mark is a folder among the files of the database. Programs that don't know the marks reject any such folder, and
//! their error names it.

use std::path::{Path, PathBuf};

use crate::{LogError, files};

/// Mark of a log that was moved to a database, relative to the state directory.
const MOVED: &str = "log/layout-2-moved-to-postgres";
/// Mark of an incomplete copy, relative to the state directory.
const INCOMPLETE: &str = "log/layout-2-incomplete-copy";
/// File in a mark with the location of the other log.
const LOCATION_FILE: &str = "location";
/// Maximum size of the location in bytes.
const MAX_LOCATION_BYTES: usize = 16 << 10;

/// Purpose of opening a log. A log that was moved, or that is an incomplete copy, can only be opened to complete the
/// copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogAccess {
    /// Use by a service or a command.
    Normal,
    /// Source of a copy to this location. The log may already be marked as moved there.
    CopySource(String),
    /// Target of a copy. The log may be an incomplete copy.
    CopyTarget,
}

/// Returns true if the path is a mark.
pub(crate) fn is_mark(path: &Path) -> bool {
    [MOVED, INCOMPLETE].iter().any(|mark| path.ends_with(mark))
}

/// Rejects a marked log, unless it is opened to complete the copy.
pub(crate) fn check(directory: &Path, access: &LogAccess) -> Result<(), LogError> {
    if let Some(to) = read(directory, MOVED)?
        && !matches!(access, LogAccess::CopySource(target) if *target == to)
    {
        return Err(LogError::LogMoved { path: directory.to_path_buf(), to, mark: MOVED });
    }
    match read(directory, INCOMPLETE)? {
        Some(source_log) if *access != LogAccess::CopyTarget => {
            Err(LogError::IncompleteCopy { location: directory.display().to_string(), source_log })
        }
        _ => Ok(()),
    }
}

/// Rejects a state directory with a log that was moved to a database or that is an incomplete copy.
pub fn check_not_moved(directory: &Path) -> Result<(), LogError> {
    check(directory, &LogAccess::Normal)
}

/// Returns true if the log was moved to a database.
pub(crate) fn is_moved(directory: &Path) -> Result<bool, LogError> {
    files::exists(&directory.join(MOVED))
}

/// Marks a log as moved.
pub(crate) fn set_moved(directory: &Path, to: &str) -> Result<(), LogError> {
    set(directory, MOVED, to)
}

/// Marks a log as an incomplete copy.
pub(crate) fn set_incomplete(directory: &Path, source_log: &str) -> Result<(), LogError> {
    set(directory, INCOMPLETE, source_log)
}

/// Removes the mark of an incomplete copy.
pub(crate) fn clear_incomplete(directory: &Path) -> Result<(), LogError> {
    let mark = directory.join(INCOMPLETE);
    if files::exists(&mark)? {
        std::fs::remove_dir_all(&mark).map_err(|error| LogError::from_io(&mark, "remove", error))?;
        files::sync_folder(files::parent_folder(&mark))?;
    }
    Ok(())
}

fn location_path(directory: &Path, mark: &str) -> PathBuf {
    directory.join(mark).join(LOCATION_FILE)
}

fn set(directory: &Path, mark: &str, location: &str) -> Result<(), LogError> {
    files::create_folder(&directory.join(mark))?;
    files::write_durably(&location_path(directory, mark), format!("{location}\n").as_bytes())
}

/// Returns the location in a mark, or `None` if the log doesn't have the mark.
fn read(directory: &Path, mark: &str) -> Result<Option<String>, LogError> {
    if !files::exists(&directory.join(mark))? {
        return Ok(None);
    }
    let text = files::read_limited(&location_path(directory, mark), MAX_LOCATION_BYTES)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    // The process may have been killed before it wrote the location.
    Ok(Some(if text.is_empty() { "an unknown location".to_owned() } else { text }))
}
