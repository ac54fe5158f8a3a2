//! Who holds the state directory: one process at a time, by a lock on the `holder` file that the system gives back
//! when the process ends, however it ends.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;

use tidegate_model::Timestamp;

use crate::{LogError, files};

/// The file that is locked.
const HOLDER: &str = "holder";

/// What a holder says about itself; longer is cut when it is read.
const MAX_HOLDER_BYTES: usize = 16 << 10;

/// A process that opens the log, as it wants to be named to others that find it locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, in its own namespace: in containers several may have the same.
    pub pid: u32,
    /// Its program and arguments: `tidegate sync shop`.
    pub command: String,
    /// When it opened the log.
    pub since: Timestamp,
}

/// For people: `pid 41 (tidegate sync shop) since 2026-11-21T09:30:00.000Z`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command line may hold anything; control characters must not reach a terminal from here.
        let command = self.command.escape_debug();
        write!(f, "pid {} ({command}) since {}", self.pid, self.since)
    }
}

/// The lock; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Whether the state directory is still the one that was locked.
    pub(crate) fn is_in_place(&self, directory: &Path) -> Result<bool, LogError> {
        files::is_in_place(&self.file, &directory.join(HOLDER))
    }
}

/// Said aloud rather than left to the closing of the file: a program that this process is just starting holds a copy of
/// the open file for a moment, and with it the lock.
impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "giving back the state directory's lock failed");
        }
    }
}

/// Takes the lock and writes down who has it.
pub(crate) fn take(directory: &Path, holder: &Holder) -> Result<Lock, LogError> {
    let path = directory.join(HOLDER);
    let mut file = files::open_to_write(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked(directory)),
        Err(TryLockError::Error(error)) => return Err(LogError::io(&path, "lock", error)),
    }
    // Not synced: it is of interest only while this process lives.
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{holder}"))
        .and_then(|()| file.flush());
    written.map_err(|error| LogError::io(&path, "write", error))?;
    Ok(Lock { file })
}

/// Whether a process has the lock now; `None` where that cannot be told. Who may not take the lock can ask as well:
/// reading the file is enough.
pub fn is_held(directory: &Path) -> Option<bool> {
    let path = directory.join(HOLDER);
    files::check_regular(&path).ok()?;
    let file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => {
            // Not left to the closing of the file, for the same reason as above.
            let _ = file.unlock();
            Some(false)
        }
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// The error that names who has the lock.
pub(crate) fn locked(directory: &Path) -> LogError {
    let text = files::read(&directory.join(HOLDER), MAX_HOLDER_BYTES).ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let holder = match text.trim() {
        "" => "a process that has just started".to_owned(),
        text => text.chars().filter(|character| !character.is_control()).collect(),
    };
    LogError::Locked { path: directory.to_path_buf(), holder }
}
