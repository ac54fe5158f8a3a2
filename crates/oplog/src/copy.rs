//! Consistent copies of files that another process may be writing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::park_timeout;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::{LogError, files};

/// Maximum number of copy attempts. Delays between them help because a running process writes in bursts.
const ATTEMPTS_MAX: u32 = 40;
const RETRY_DELAY: Duration = Duration::from_millis(25);

const CHUNK_BYTES: usize = 256 << 10;

/// Digest of each file in a folder, by relative path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileDigests(BTreeMap<PathBuf, [u8; 32]>);

/// A copy of a folder in a temporary folder that only this user can read. Removed on drop.
#[derive(Debug)]
pub struct PrivateCopy {
    path: PathBuf,
    _root: TempDir,
}

impl PrivateCopy {
    /// Copies a consistent snapshot of a folder, even if another process is writing to it.
    pub fn create(folder: &Path) -> Result<Self, LogError> {
        let root = create_temp_folder()?;
        let path = root.path().join(files::file_name(folder));
        copy_consistently(folder, &path)?;
        Ok(Self { path, _root: root })
    }

    /// Returns the path of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a temporary folder that only this user can read.
pub(crate) fn create_temp_folder() -> Result<TempDir, LogError> {
    tempfile::Builder::new()
        .prefix("tidegate-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| LogError::from_io(&std::env::temp_dir(), "create a folder in", error))
}

/// Copies a consistent snapshot of a folder, including subfolders, and returns its contents. Reads all files
/// twice: if both reads agree, all of the content existed at the same time. Fails with
/// [`LogError::NoConsistentCopy`] if they never agree.
pub(crate) fn copy_consistently(from: &Path, to: &Path) -> Result<FileDigests, LogError> {
    for attempt in 1..=ATTEMPTS_MAX {
        if files::exists(to)? {
            fs::remove_dir_all(to).map_err(|error| LogError::from_io(to, "remove", error))?;
        }
        let copied = read_folder(from, Some(to))?;
        if copied == read_folder(from, None)? {
            return Ok(copied);
        }
        if attempt < ATTEMPTS_MAX {
            park_timeout(RETRY_DELAY);
        }
    }
    Err(LogError::NoConsistentCopy { path: from.to_path_buf() })
}

/// Returns the contents of a folder, empty if it doesn't exist.
pub(crate) fn read_contents(folder: &Path) -> Result<FileDigests, LogError> {
    read_folder(folder, None)
}

fn read_folder(from: &Path, to: Option<&Path>) -> Result<FileDigests, LogError> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        if let Some(to) = to {
            files::create_folder(&to.join(&folder))?;
        }
        for path in files::list_folder(&from.join(&folder))? {
            let name = folder.join(files::file_name(&path));
            if path.is_dir() {
                folders.push(name);
            } else if let Some(digest) = read_file(&path, to.map(|to| to.join(&name)).as_deref())? {
                contents.insert(name, digest);
            }
        }
    }
    Ok(FileDigests(contents))
}

/// Returns the digest of a file, and optionally copies the file. `None` if it has disappeared or isn't a
/// regular file.
fn read_file(from: &Path, to: Option<&Path>) -> Result<Option<[u8; 32]>, LogError> {
    files::check_regular(from)?;
    let mut file = match File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::from_io(from, "read", error)),
    };
    let mut copy = match to {
        Some(to) => Some((to, File::create(to).map_err(|error| LogError::from_io(to, "write", error))?)),
        None => None,
    };
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = file.read(&mut chunk).map_err(|error| LogError::from_io(from, "read", error))?;
        let read = chunk.get(..length).unwrap_or_default();
        if read.is_empty() {
            return Ok(Some(hasher.finalize().into()));
        }
        hasher.update(read);
        if let Some((to, copy)) = &mut copy {
            copy.write_all(read).map_err(|error| LogError::from_io(to, "write", error))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_copied_with_its_folders() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("a"), vec![7; 3 * CHUNK_BYTES + 1]).unwrap();
        fs::write(from.join("inner/b"), b"b").unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("old"), b"of an earlier attempt").unwrap();
        let copied = copy_consistently(&from, &to).unwrap();
        assert_eq!(copied, read_contents(&to).unwrap());
        assert_eq!(copied.0.len(), 2);
        fs::write(from.join("inner/b"), b"c").unwrap();
        assert_ne!(copied, read_contents(&from).unwrap());
    }

    #[test]
    fn a_folder_that_keeps_changing_is_not_copied() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir(&from).unwrap();
        // A file that differs on each read.
        let busy = from.join("busy");
        std::os::unix::fs::symlink("/proc/sys/kernel/random/uuid", &busy).unwrap();
        let copied = copy_consistently(&from, &to);
        assert!(matches!(&copied, Err(LogError::NoConsistentCopy { path }) if *path == from), "{copied:?}");
        fs::remove_file(busy).unwrap();
        copy_consistently(&from, &to).unwrap();
    }
}
