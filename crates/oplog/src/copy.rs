//! A copy of files that another process may be writing.

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

/// How often a copy is tried, and how long to wait in between: a process at work writes in bursts.
const ATTEMPTS: u32 = 40;
const WAIT: Duration = Duration::from_millis(25);

const CHUNK_BYTES: usize = 256 << 10;

/// What each file of a folder holds, by its path in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents(BTreeMap<PathBuf, [u8; 32]>);

/// A copy of a folder in a temporary one that only this user can look into; removed when it is dropped.
#[derive(Debug)]
pub struct PrivateCopy {
    path: PathBuf,
    _root: TempDir,
}

impl PrivateCopy {
    /// Copies a folder as it is at one moment, even if another process writes to it.
    pub fn of(folder: &Path) -> Result<Self, LogError> {
        let root = temporary()?;
        let path = root.path().join(files::name(folder));
        copy(folder, &path)?;
        Ok(Self { path, _root: root })
    }

    /// The folder that the copy is in. It goes with the value.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A temporary folder that only this user can look into.
pub(crate) fn temporary() -> Result<TempDir, LogError> {
    tempfile::Builder::new()
        .prefix("tidegate-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| LogError::io(&std::env::temp_dir(), "make a folder in", error))
}

/// Copies a folder, with its folders, as it was at one moment: everything is read a second time, and only when the same
/// is there again was it there at once in between. Fails with [`LogError::Restless`] when that never happens. Returns
/// what was there.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<Contents, LogError> {
    for attempt in 1..=ATTEMPTS {
        if files::exists(to)? {
            fs::remove_dir_all(to).map_err(|error| LogError::io(to, "remove", error))?;
        }
        let copied = read(from, Some(to))?;
        if copied == read(from, None)? {
            return Ok(copied);
        }
        if attempt < ATTEMPTS {
            park_timeout(WAIT);
        }
    }
    Err(LogError::Restless { path: from.to_path_buf() })
}

/// What a folder holds now; nothing when it is not there.
pub(crate) fn contents(folder: &Path) -> Result<Contents, LogError> {
    read(folder, None)
}

fn read(from: &Path, to: Option<&Path>) -> Result<Contents, LogError> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        if let Some(to) = to {
            files::create_folder(&to.join(&folder))?;
        }
        for path in files::list(&from.join(&folder))? {
            let name = folder.join(files::name(&path));
            if path.is_dir() {
                folders.push(name);
            } else if let Some(digest) = read_file(&path, to.map(|to| to.join(&name)).as_deref())? {
                contents.insert(name, digest);
            }
        }
    }
    Ok(Contents(contents))
}

/// The digest of a file, which may be copied on the way; `None` when it is gone or is no file.
fn read_file(from: &Path, to: Option<&Path>) -> Result<Option<[u8; 32]>, LogError> {
    files::check_regular(from)?;
    let mut file = match File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io(from, "read", error)),
    };
    let mut copy = match to {
        Some(to) => Some((to, File::create(to).map_err(|error| LogError::io(to, "write", error))?)),
        None => None,
    };
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = file.read(&mut chunk).map_err(|error| LogError::io(from, "read", error))?;
        let read = chunk.get(..length).unwrap_or_default();
        if read.is_empty() {
            return Ok(Some(hasher.finalize().into()));
        }
        hasher.update(read);
        if let Some((to, copy)) = &mut copy {
            copy.write_all(read).map_err(|error| LogError::io(to, "write", error))?;
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
        let copied = copy(&from, &to).unwrap();
        assert_eq!(copied, contents(&to).unwrap());
        assert_eq!(copied.0.len(), 2);
        fs::write(from.join("inner/b"), b"c").unwrap();
        assert_ne!(copied, contents(&from).unwrap());
    }

    #[test]
    fn what_never_rests_is_not_copied() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir(&from).unwrap();
        // A file that holds something else each time it is read.
        let busy = from.join("busy");
        std::os::unix::fs::symlink("/proc/sys/kernel/random/uuid", &busy).unwrap();
        let copied = copy(&from, &to);
        assert!(matches!(&copied, Err(LogError::Restless { path }) if *path == from), "{copied:?}");
        fs::remove_file(busy).unwrap();
        copy(&from, &to).unwrap();
    }
}
