//! Changes to files in a state directory. Tests simulate a crash between two changes or during one.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Mode of folders that only their owner can access.
const OWNER_ONLY_MODE: u32 = 0o700;

/// Writes files and folders. Each method makes a single change.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Creates a folder that only this user can access, unless it exists. Doesn't create the parent, because
    /// that would bring back a state directory that was moved away.
    ///
    /// # Errors
    ///
    /// Like all methods of this trait, returns the operating system's error.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Overwrites a file and syncs it to disk. Unsuitable for important files, because a crash may leave a
    /// partial file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file wasn't fully written.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;

    /// Atomically replaces one file with another. After a crash, the path contains either the old or the new
    /// file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be renamed. Nothing has changed then.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be removed. Nothing has changed then.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Syncs a folder's entries to disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the sync fails. A crash may then undo renames and removals.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(OWNER_ONLY_MODE).create(path) {
            Err(_) if path.is_dir() => Ok(()),
            made => made,
        }
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
