//! Opening a log for reading, without write permission or while another process holds the lock.
//!
//! sled writes to a database just by opening it, so a reader opens a private copy, removed on drop. The state
//! directory itself is only read: its quarantine and blobs are used in place. Damage is reported but not
//! repaired; repairs are left to a process that opens the log for writing.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::SledLog;
use super::database::check_files;
use crate::blobs::BlobStore;
use crate::copy::{self, FileDigests};
use crate::holder::Lock;
use crate::quarantine::Quarantine;
use crate::witness::{self, WITNESS_FILE};
use crate::{Codecs, LogAccess, LogError, LogKey, files, key, marks};

/// Maximum number of checks of a log that another process keeps writing to.
const CHECK_ATTEMPTS_MAX: u32 = 5;

/// Resources held while a log is open.
pub(super) struct LogGuard {
    /// Exclusive lock on the state directory. Not acquired for reading.
    lock: Option<Lock>,
    /// Private copy of the database, removed on drop.
    _copy: Option<TempDir>,
}

impl LogGuard {
    pub(super) fn from_lock(lock: Lock) -> Self {
        Self { lock: Some(lock), _copy: None }
    }

    fn from_copy(copy: TempDir) -> Self {
        Self { lock: None, _copy: Some(copy) }
    }

    /// Rejects writes if the log was opened for reading, or if the directory has since been moved, removed or
    /// replaced.
    pub(super) fn check_writable(&self, directory: &Path) -> Result<(), LogError> {
        match &self.lock {
            Some(lock) if lock.is_in_place(directory)? => Ok(()),
            Some(_) => Err(LogError::Moved { path: directory.to_path_buf() }),
            None => Err(LogError::OpenedReadOnly { path: directory.to_path_buf() }),
        }
    }
}

impl SledLog {
    /// Opens the log in its current state, without taking its lock, writing to the state directory, or
    /// disturbing the process that holds the lock. Without the key, records in blobs can't be read
    /// ([`LogError::KeyUnreadable`]), but everything else can. Writes are rejected
    /// ([`LogError::OpenedReadOnly`]).
    pub fn open_read_only(
        directory: impl AsRef<Path>,
        key: Option<LogKey>,
        codecs: Codecs,
    ) -> Result<Self, LogError> {
        let directory = directory.as_ref().to_path_buf();
        marks::check(&directory, &LogAccess::Normal)?;
        let key = key::load_key_for_reading(&directory, key)?;
        let mut attempt = 1;
        loop {
            let DatabaseCopy { copy, contents, has_witness } = copy_log(&directory)?;
            let root = copy.path().to_path_buf();
            let quarantine = Quarantine::open_beside(directory.join("quarantine"), root.join("quarantine"))?;
            let blobs = BlobStore::open_read_only(directory.join("blobs"), key.clone());
            let mut log = Self::open_and_examine(
                directory.clone(),
                &root,
                quarantine,
                blobs,
                LogGuard::from_copy(copy),
                String::new(),
                codecs.clone(),
            )?;
            for damage in &mut log.damage {
                damage.quarantine = damage.quarantine.take().filter(|path| !path.starts_with(&root));
            }
            // Apparent damage may be a blob removed, or a witness created, after the copy was made. Repeat
            // the check if the database has changed in the meantime.
            let doubtful = log.damage.iter().any(|damage| damage.is_new);
            let is_as_copied = || -> Result<bool, LogError> {
                Ok(files::exists(&directory.join(WITNESS_FILE))? == has_witness
                    && copy::read_contents(&find_database(&directory)?)? == contents)
            };
            if !doubtful || attempt == CHECK_ATTEMPTS_MAX || is_as_copied()? {
                return Ok(log);
            }
            attempt += 1;
        }
    }
}

/// Private copy of a log's database and witness.
struct DatabaseCopy {
    copy: TempDir,
    contents: FileDigests,
    /// True if the state directory contained a witness at the time of the copy.
    has_witness: bool,
}

/// Copies the witness before the database, because it must not know more.
fn copy_log(directory: &Path) -> Result<DatabaseCopy, LogError> {
    let copy = copy::create_temp_folder()?;
    let (from, to) = (directory.join(WITNESS_FILE), copy.path().join(WITNESS_FILE));
    let witness = files::read_limited(&from, witness::FILE_MAX_BYTES)?;
    if let Some(content) = &witness {
        std::fs::write(&to, content).map_err(|error| LogError::from_io(&to, "write", error))?;
    }
    let source = find_database(directory)?;
    check_files(&source)?;
    let contents = copy::copy_consistently(&source, &copy.path().join("log"))?;
    Ok(DatabaseCopy { copy, contents, has_witness: witness.is_some() })
}

/// Returns the location of the database. During a salvage, or after an interrupted one, only the new database
/// may exist.
fn find_database(directory: &Path) -> Result<PathBuf, LogError> {
    let (log, new) = (directory.join("log"), directory.join("log.new"));
    Ok(if !files::exists(&log)? && files::exists(&new)? { new } else { log })
}
