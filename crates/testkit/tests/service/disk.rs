//! The files of a service that serves a folder, as a dying process changes them; what was done is written down.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate_service::disk::{Disk, SystemDisk};
use tidegate_testkit::crash::Points;

/// What has become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Made,
    /// It was about a resource of another UID before.
    Another,
    /// It is gone.
    Removed,
}

/// What was changed, in order. Outlives processes.
#[derive(Debug, Default)]
pub struct Changes(pub Mutex<Vec<(PathBuf, Change)>>);

/// The files, as one process changes them. It dies before a change, after it, and in the middle of writing.
#[derive(Debug)]
pub struct CrashDisk {
    pub points: Arc<Points>,
    pub changes: Arc<Changes>,
}

impl CrashDisk {
    /// A dead process does nothing ever again.
    fn survive(&self) -> io::Result<()> {
        self.points.change().map_err(|_| io::Error::other("this process is dead"))
    }

    fn tell(&self, path: &Path, change: Change) {
        self.changes.0.lock().unwrap().push((path.to_owned(), change));
    }
}

fn uid(path: &Path) -> Option<Value> {
    let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    value.pointer("/metadata/uid").cloned()
}

impl Disk for CrashDisk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.make_folder(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.survive()?;
        SystemDisk.write(path, &content[..content.len() / 2], mode)?;
        self.survive()?;
        SystemDisk.write(path, content, mode)?;
        self.survive()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.survive()?;
        let (is_there, before, after) = (to.exists(), uid(to), uid(from));
        SystemDisk.rename(from, to)?;
        match is_there {
            false => self.tell(to, Change::Made),
            true if before != after => self.tell(to, Change::Another),
            true => {}
        }
        self.survive()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.remove(path)?;
        self.tell(path, Change::Removed);
        self.survive()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.sync_folder(path)
    }
}
