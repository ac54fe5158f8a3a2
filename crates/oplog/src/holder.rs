//! Exclusive access to the state directory, through a lock on the `holder` file. The operating system
//! releases the lock when the process exits, for whatever reason.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;

use tidegate_model::Timestamp;

use crate::{LogError, files};

/// Name of the file to lock.
const HOLDER_FILE: &str = "holder";

/// Maximum size of the holder file in bytes. Larger files aren't read.
const MAX_HOLDER_BYTES: usize = 16 << 10;

/// Description of the process that opens the log, shown to other processes that find it locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// PID in the process's own PID namespace, so processes in different containers may share it.
    pub pid: u32,
    /// Program and its arguments, such as `tidegate sync shop`.
    pub command: String,
    /// Time when the process opened the log.
    pub since: Timestamp,
}

/// Formats the holder for messages: `pid 41 (tidegate sync shop) since 2026-11-21T09:30:00.000Z`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Control characters in the command line must not reach a terminal.
        let command = self.command.escape_debug();
        write!(f, "pid {} ({command}) since {}", self.pid, self.since)
    }
}

/// Lock on the state directory, released on drop.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Returns true if the path still leads to the locked directory.
    pub(crate) fn is_in_place(&self, directory: &Path) -> Result<bool, LogError> {
        files::is_in_place(&self.file, &directory.join(HOLDER_FILE))
    }
}

/// Unlocks explicitly, because closing the file isn't enough. A child process being spawned briefly holds a
/// copy of the file descriptor, which would keep the lock alive.
impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "failed to release the lock on the state directory");
        }
    }
}

/// Acquires the lock and records the holder.
pub(crate) fn take_lock(directory: &Path, holder: &Holder) -> Result<Lock, LogError> {
    let path = directory.join(HOLDER_FILE);
    let mut file = files::open_read_write(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked_error(directory)),
        Err(TryLockError::Error(error)) => return Err(LogError::from_io(&path, "lock", error)),
    }
    // No sync: the file matters only while this process is running.
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{holder}"))
        .and_then(|()| file.flush());
    written.map_err(|error| LogError::from_io(&path, "write", error))?;
    Ok(Lock { file })
}

/// Returns true if a process holds the lock, or `None` if that can't be determined. Read permission for the
/// file is enough.
pub fn is_held(directory: &Path) -> Option<bool> {
    let path = directory.join(HOLDER_FILE);
    files::check_regular(&path).ok()?;
    let file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => {
            // Unlock explicitly, for the same reason as in `Lock`.
            let _ = file.unlock();
            Some(false)
        }
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Returns the error for a locked directory, with its holder.
pub(crate) fn locked_error(directory: &Path) -> LogError {
    let text = files::read_limited(&directory.join(HOLDER_FILE), MAX_HOLDER_BYTES)
        .ok()
        .flatten()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let holder = match text.trim() {
        "" => "a process that has just started".to_owned(),
        text => text.chars().filter(|character| !character.is_control()).collect(),
    };
    LogError::Locked { path: directory.to_path_buf(), holder }
}
