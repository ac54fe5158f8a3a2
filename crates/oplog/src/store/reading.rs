//! Opening to read, for those who may not write, or while another process has the lock.
//!
//! The database wants to write when it is opened, so it is opened in a private copy, which goes away with the log. The
//! state directory itself is only read: its witness, its quarantine and its blobs are where they are. What is found
//! damaged is reported and left alone; whoever opens the log to write sets it aside.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::SledLog;
use super::database::check_files;
use crate::blobs::BlobStore;
use crate::copy::{self, Contents};
use crate::holder::Lock;
use crate::quarantine::Quarantine;
use crate::witness::{self, WITNESS};
use crate::{Codecs, LogError, LogKey, files, key};

/// How often damage is looked at again when the log was written meanwhile.
const ATTEMPTS: u32 = 5;

/// What an open log rests on.
pub(super) struct Guard {
    /// Nobody else has the state directory.
    lock: Option<Lock>,
    /// Or the database is a copy, removed when this is dropped.
    _copy: Option<TempDir>,
}

impl Guard {
    pub(super) fn lock(lock: Lock) -> Self {
        Self { lock: Some(lock), _copy: None }
    }

    fn copy(copy: TempDir) -> Self {
        Self { lock: None, _copy: Some(copy) }
    }

    /// Refuses to write where the log was opened to read, and where the directory is not ours any more.
    pub(super) fn check(&self, directory: &Path) -> Result<(), LogError> {
        match &self.lock {
            Some(lock) if lock.is_in_place(directory)? => Ok(()),
            Some(_) => Err(LogError::Moved { path: directory.to_path_buf() }),
            None => Err(LogError::OpenedToRead { path: directory.to_path_buf() }),
        }
    }
}

impl SledLog {
    /// Opens the log as it is at this moment, without writing to the state directory and without its lock; the process
    /// that has the lock is not disturbed. Without the key, records that are kept in blobs cannot be read
    /// ([`LogError::KeyUnreadable`]), and all else can. Whatever would write is refused ([`LogError::OpenedToRead`]).
    pub fn open_to_read(
        directory: impl AsRef<Path>,
        key: Option<LogKey>,
        codecs: Codecs,
    ) -> Result<Self, LogError> {
        let directory = directory.as_ref().to_path_buf();
        let key = key::look(&directory, key)?;
        let mut attempt = 1;
        loop {
            let Copied { copy, contents, witness } = take_copy(&directory)?;
            let root = copy.path().to_path_buf();
            let quarantine = Quarantine::open_beside(directory.join("quarantine"), root.join("quarantine"))?;
            let blobs = BlobStore::open_to_read(directory.join("blobs"), key.clone());
            let reader = (String::new(), codecs.clone());
            let mut log =
                Self::examined(directory.clone(), &root, quarantine, blobs, Guard::copy(copy), reader)?;
            for damage in &mut log.damage {
                damage.quarantine = damage.quarantine.take().filter(|path| !path.starts_with(&root));
            }
            // A blob that was tidied away since the copy was taken is no damage, nor a witness that came with it.
            let doubtful = log.damage.iter().any(|damage| damage.is_new);
            let is_as_copied = || -> Result<bool, LogError> {
                Ok(files::exists(&directory.join(WITNESS))? == witness
                    && copy::contents(&source(&directory)?)? == contents)
            };
            if !doubtful || attempt == ATTEMPTS || is_as_copied()? {
                return Ok(log);
            }
            attempt += 1;
        }
    }
}

/// What is read in the place of the log.
struct Copied {
    copy: TempDir,
    contents: Contents,
    /// Whether there was a witness.
    witness: bool,
}

/// A copy of the database, and of the witness before it: the witness must not know more than the database.
fn take_copy(directory: &Path) -> Result<Copied, LogError> {
    let copy = copy::temporary()?;
    let (from, to) = (directory.join(WITNESS), copy.path().join(WITNESS));
    let witness = files::read(&from, witness::FILE_MAX_BYTES)?;
    if let Some(content) = &witness {
        std::fs::write(&to, content).map_err(|error| LogError::io(&to, "write", error))?;
    }
    let source = source(directory)?;
    check_files(&source)?;
    let contents = copy::copy(&source, &copy.path().join("log"))?;
    Ok(Copied { copy, contents, witness: witness.is_some() })
}

/// Where the database is: while it is being replaced, and after such a replacement was interrupted, the new one.
fn source(directory: &Path) -> Result<PathBuf, LogError> {
    let (log, new) = (directory.join("log"), directory.join("log.new"));
    Ok(if !files::exists(&log)? && files::exists(&new)? { new } else { log })
}
