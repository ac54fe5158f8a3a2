//! What changes the files of a state directory. There is one; tests have another, on which a process dies between any two
//! changes, and in the middle of one.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A folder for its owner alone.
const OWNER_ONLY: u32 = 0o700;

/// Changes files and folders, one at a time.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Makes a folder for this user alone, where it is not there. What it is in has to be: a state directory that was moved away
    /// is not begun anew in its old place.
    ///
    /// # Errors
    ///
    /// The system's words; so below.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Writes a file, whatever was in it, and has it on the disk: nothing of what counts, for a crash may leave a part of it.
    ///
    /// # Errors
    ///
    /// It is not written, or only in part.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;

    /// Puts a file into the place of another: a crash leaves the one or the other.
    ///
    /// # Errors
    ///
    /// Everything is as it was.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Everything is as it was.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Has the names in a folder on the disk.
    ///
    /// # Errors
    ///
    /// What was renamed and removed may come back after a crash.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The files of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(OWNER_ONLY).create(path) {
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
