//! Storage of plans: a folder in a state directory, or a log shared with standbys.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::Digest;
use tidegate_oplog::{KeptKind, PostgresLog, SealedFolder};

use super::{OWNER_ONLY_MODE, io_error, write_file};
use crate::disk::Disk;
use crate::error::ServiceError;
use crate::files;

const LOCK_FILE: &str = "lock";
/// Maximum size of a plan's metadata in bytes.
const METADATA_BYTES_MAX: u64 = 1 << 20;

/// Storage of plans.
#[derive(Debug)]
pub(super) enum PlanFiles {
    Folder(PlanFolder),
    /// A shared log, and the lock for changes. Only the leader of the log can change plans.
    Shared(Arc<PostgresLog>, Mutex<()>),
}

/// Folder with plans.
#[derive(Debug)]
pub(super) struct PlanFolder {
    pub(super) folder: PathBuf,
    pub(super) sealed: SealedFolder,
    pub(super) disk: Arc<dyn Disk>,
}

/// Lock for changes, released on drop.
pub(super) enum ChangeLock<'a> {
    File { _file: File },
    Shared { _guard: MutexGuard<'a, ()> },
}

impl fmt::Display for PlanFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(files) => files.folder.display().fmt(f),
            Self::Shared(..) => f.write_str("the shared operation log"),
        }
    }
}

impl PlanFiles {
    /// Acquires the lock for changes.
    pub(super) fn lock(&self) -> Result<ChangeLock<'_>, ServiceError> {
        match self {
            Self::Folder(files) => {
                let path = files.folder.join(LOCK_FILE);
                let mut options = OpenOptions::new();
                let file = options.write(true).create(true).truncate(false).mode(OWNER_ONLY_MODE).open(&path);
                let file = file.and_then(|file| file.lock().map(|()| file));
                Ok(ChangeLock::File { _file: file.map_err(|source| io_error("lock", &path, source))? })
            }
            Self::Shared(_, lock) => {
                Ok(ChangeLock::Shared { _guard: lock.lock().unwrap_or_else(PoisonError::into_inner) })
            }
        }
    }

    /// Returns the hashes of all plans.
    pub(super) fn hashes(&self) -> Result<Vec<Digest>, ServiceError> {
        match self {
            Self::Folder(files) => {
                let entries = std::fs::read_dir(&files.folder)
                    .map_err(|source| io_error("read", &files.folder, source))?;
                let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
                let paths =
                    paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
                Ok(paths.filter_map(|path| path.file_stem()?.to_str()?.parse().ok()).collect())
            }
            Self::Shared(log, _) => {
                let names = log.list_kept(KeptKind::PlanMetadata)?;
                Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
            }
        }
    }

    /// Returns a plan's metadata.
    pub(super) fn read(&self, hash: Digest) -> Result<Option<Vec<u8>>, ServiceError> {
        match self {
            Self::Folder(files) => {
                let path = files.metadata_path(hash);
                match files::read_file(&path, METADATA_BYTES_MAX) {
                    Ok(text) => Ok(Some(text)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(source) => Err(io_error("read", &path, source)),
                }
            }
            Self::Shared(log, _) => Ok(log.kept(KeptKind::PlanMetadata, &hash.to_string())?),
        }
    }

    /// Replaces a plan's metadata atomically and durably.
    pub(super) fn write(&self, hash: Digest, text: &[u8]) -> Result<(), ServiceError> {
        match self {
            Self::Folder(files) => write_file(files.disk.as_ref(), &files.metadata_path(hash), text),
            Self::Shared(log, _) => Ok(log.keep(KeptKind::PlanMetadata, &hash.to_string(), text)?),
        }
    }

    /// Removes a plan's metadata.
    pub(super) fn remove(&self, hash: Digest) -> Result<(), ServiceError> {
        match self {
            Self::Folder(files) => {
                let path = files.metadata_path(hash);
                files.disk.remove(&path).map_err(|source| io_error("remove", &path, source))
            }
            Self::Shared(log, _) => Ok(log.discard(KeptKind::PlanMetadata, &hash.to_string())?),
        }
    }

    /// Encrypts and stores a plan's content durably. Returns its name.
    pub(super) fn put_content(&self, content: &[u8]) -> Result<Digest, ServiceError> {
        match self {
            Self::Folder(files) => Ok(files.sealed.put(content)?),
            Self::Shared(log, _) => Ok(log.keep_sealed(KeptKind::PlanContent, content)?),
        }
    }

    /// Returns a plan's content.
    pub(super) fn content(&self, name: Digest) -> Result<Vec<u8>, ServiceError> {
        match self {
            Self::Folder(files) => Ok(files.sealed.get(name)?),
            Self::Shared(log, _) => Ok(log.kept_sealed(KeptKind::PlanContent, name)?),
        }
    }

    /// Returns the names of the contents of all plans.
    pub(super) fn content_names(&self) -> Result<BTreeSet<Digest>, ServiceError> {
        match self {
            Self::Folder(files) => Ok(files.sealed.names()?),
            Self::Shared(log, _) => {
                let names = log.list_kept(KeptKind::PlanContent)?;
                Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
            }
        }
    }

    /// Returns the encrypted bytes of a plan's content.
    pub(super) fn sealed_content(&self, name: Digest) -> Result<Vec<u8>, ServiceError> {
        match self {
            Self::Folder(files) => Ok(files.sealed.sealed(name)?),
            Self::Shared(log, _) => Ok(log.kept_bytes(KeptKind::PlanContent, name)?),
        }
    }

    /// Stores the encrypted bytes of a plan's content, which must be encrypted with the same key.
    pub(super) fn put_sealed_content(&self, name: Digest, sealed: &[u8]) -> Result<(), ServiceError> {
        match self {
            Self::Folder(files) => Ok(files.sealed.put_sealed(name, sealed)?),
            Self::Shared(log, _) => Ok(log.keep(KeptKind::PlanContent, &name.to_string(), sealed)?),
        }
    }

    /// Removes all content that isn't in `retained`.
    pub(super) fn retain_content(&self, retained: &BTreeSet<Digest>) -> Result<(), ServiceError> {
        match self {
            Self::Folder(files) => Ok(files.sealed.retain(retained)?),
            Self::Shared(log, _) => {
                for name in log.list_kept(KeptKind::PlanContent)? {
                    if !name.parse().is_ok_and(|name| retained.contains(&name)) {
                        log.discard(KeptKind::PlanContent, &name)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the error for metadata that can't be decoded.
    pub(super) fn invalid_metadata_error(&self, hash: Digest, error: &serde_json::Error) -> ServiceError {
        let path = match self {
            Self::Folder(files) => files.metadata_path(hash),
            Self::Shared(..) => PathBuf::from(format!("plan {hash} in the shared operation log")),
        };
        io_error("read", &path, io::Error::other(error.to_string()))
    }
}

impl PlanFolder {
    fn metadata_path(&self, hash: Digest) -> PathBuf {
        self.folder.join(format!("{hash}.json"))
    }
}
