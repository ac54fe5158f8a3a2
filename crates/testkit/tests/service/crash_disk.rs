//! Files of a service that manages a folder. The writing process may crash. All changes are recorded.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate_state::disk::{Disk, SystemDisk};
use tidegate_testkit::crash::CrashPoints;

/// Change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file was created.
    Created,
    /// The file was replaced by a resource with another UID.
    Replaced,
    /// The file was removed.
    Removed,
}

/// Changes in order, across processes.
#[derive(Debug, Default)]
pub struct Changes(pub Mutex<Vec<(PathBuf, Change)>>);

/// Files as seen by a process that may crash: before a change, after it, or during the write.
#[derive(Debug)]
pub struct CrashDisk {
    pub points: Arc<CrashPoints>,
    pub changes: Arc<Changes>,
}

impl CrashDisk {
    /// Passes a crash point. Always returns an error in a crashed process.
    fn pass_crash_point(&self) -> io::Result<()> {
        self.points.pass_file_change().map_err(|_| io::Error::other("this process is dead"))
    }

    fn record(&self, path: &Path, change: Change) {
        self.changes.0.lock().unwrap().push((path.to_owned(), change));
    }
}

fn uid(path: &Path) -> Option<Value> {
    let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    value.pointer("/metadata/uid").cloned()
}

impl Disk for CrashDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.pass_crash_point()?;
        SystemDisk.create_folder(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.pass_crash_point()?;
        SystemDisk.write(path, &content[..content.len() / 2], mode)?;
        self.pass_crash_point()?;
        SystemDisk.write(path, content, mode)?;
        self.pass_crash_point()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass_crash_point()?;
        let (is_there, before, after) = (to.exists(), uid(to), uid(from));
        SystemDisk.rename(from, to)?;
        match is_there {
            false => self.record(to, Change::Created),
            true if before != after => self.record(to, Change::Replaced),
            true => {}
        }
        self.pass_crash_point()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass_crash_point()?;
        SystemDisk.remove(path)?;
        self.record(path, Change::Removed);
        self.pass_crash_point()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.pass_crash_point()?;
        SystemDisk.sync_folder(path)
    }
}
