//! The objects of one repository that were fetched, beside its mirror. They can be lost at any time; what is wanted is fetched
//! again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::pointer::Oid;
use crate::SourceError;
use crate::remote::NEW;

/// How the name of such a folder ends.
pub(crate) const ENDING: &str = "lfs";

pub(super) struct Store {
    folder: PathBuf,
    /// Bytes of all objects, beside those that are read at the time.
    bytes_max: u64,
}

impl Store {
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max }
    }

    fn path(&self, oid: Oid) -> PathBuf {
        self.folder.join(oid.to_string())
    }

    /// An object, if it is there and whole.
    pub fn read(&self, oid: Oid) -> Option<Vec<u8>> {
        // No server needs to have what is always the same.
        if oid == Oid::of(b"") {
            return Some(Vec::new());
        }
        let path = self.path(oid);
        let content = fs::read(&path).ok()?;
        if Oid::of(&content) == oid {
            return Some(content);
        }
        tracing::warn!(object = %oid, "an object of Git LFS is damaged and is fetched again");
        let _ = fs::remove_file(path);
        None
    }

    /// Whether an object is there, be it damaged.
    pub fn has(&self, oid: Oid) -> bool {
        self.path(oid).exists()
    }

    /// Keeps an object under its name, whole or not at all.
    pub fn put(&self, oid: Oid, content: &[u8]) -> Result<(), SourceError> {
        let path = self.path(oid);
        let put = || {
            fs::create_dir_all(&self.folder)?;
            let mut new = tempfile::Builder::new().suffix(&format!(".{NEW}")).tempfile_in(&self.folder)?;
            new.write_all(content)?;
            new.persist(&path).map_err(|error| error.error)
        };
        put().map(drop).map_err(|error: io::Error| SourceError::Workshop {
            path: path.clone(),
            reason: error.to_string(),
        })
    }

    /// Makes room for so many bytes: the objects that came first go, but none of those that are `used`.
    pub fn make_room(&self, bytes: u64, used: &BTreeSet<Oid>) {
        let mut all = self.all();
        let there: u64 = all.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
        let mut over = there.saturating_add(bytes).saturating_sub(self.bytes_max);
        all.retain(|one| !used.contains(&one.oid));
        all.sort_by_key(|one| one.came);
        for one in all {
            if over == 0 {
                return;
            }
            if fs::remove_file(self.path(one.oid)).is_ok() {
                over = over.saturating_sub(one.bytes);
            }
        }
    }

    fn all(&self) -> Vec<Kept> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Kept::of(&entry.path())).collect()
    }
}

/// An object that is there.
struct Kept {
    oid: Oid,
    bytes: u64,
    came: SystemTime,
}

impl Kept {
    fn of(path: &Path) -> Option<Self> {
        let oid = Oid::parse(path.file_name()?.to_str()?)?;
        let about = fs::metadata(path).ok()?;
        Some(Self { oid, bytes: about.len(), came: about.modified().ok()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_came_first_goes_and_what_is_used_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("a.lfs"), 25);
        let contents = [[b'a'; 10], [b'b'; 10], [b'c'; 10]];
        let oids = contents.map(|content| Oid::of(&content));
        for (age, (oid, content)) in (0..).zip(oids.iter().zip(&contents)) {
            store.put(*oid, content).unwrap();
            let came = SystemTime::UNIX_EPOCH + Duration::from_secs(age);
            fs::File::options().write(true).open(store.path(*oid)).unwrap().set_modified(came).unwrap();
        }
        let there = || oids.map(|oid| store.has(oid));
        let [first, ..] = oids;
        store.make_room(0, &[first].into());
        assert_eq!(there(), [true, false, true]);
        store.make_room(15, &BTreeSet::new());
        assert_eq!(there(), [false, false, true]);
        store.make_room(1000, &oids.into());
        assert_eq!(there(), [false, false, true]);
    }

    #[test]
    fn what_is_damaged_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("a.lfs"), 25);
        let oid = Oid::of(b"content");
        assert_eq!(store.read(oid), None);
        store.put(oid, b"content").unwrap();
        assert_eq!(store.read(oid).as_deref(), Some(&b"content"[..]));
        fs::write(store.path(oid), "contend").unwrap();
        assert_eq!((store.read(oid), store.has(oid)), (None, false));
        assert_eq!(store.read(Oid::of(b"")), Some(Vec::new()), "it needs not be kept");
        assert_eq!(store.all().len(), 0, "and nothing half is left");
    }
}
