//! Stored Git LFS objects of one repository, next to its mirror. They may be deleted at any time and are
//! fetched again on demand.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::pointer::Oid;
use crate::SourceError;
use crate::remote::NEW_SUFFIX;

pub(super) struct Store {
    folder: PathBuf,
    /// Maximum total size of the stored objects, in bytes. Exceeded if the objects in use need more.
    bytes_max: u64,
}

impl Store {
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max }
    }

    fn path(&self, oid: Oid) -> PathBuf {
        self.folder.join(oid.to_string())
    }

    /// Returns the content of an object, or `None` if it is missing or damaged.
    pub fn read(&self, oid: Oid) -> Option<Vec<u8>> {
        // The empty object is never stored, since its content is known.
        if oid == Oid::hash_content(b"") {
            return Some(Vec::new());
        }
        let path = self.path(oid);
        let content = fs::read(&path).ok()?;
        if Oid::hash_content(&content) == oid {
            return Some(content);
        }
        tracing::warn!(object = %oid, "damaged Git LFS object; fetching it again");
        let _ = fs::remove_file(path);
        None
    }

    /// Returns true if an object is stored, even if it is damaged.
    pub fn has(&self, oid: Oid) -> bool {
        self.path(oid).exists()
    }

    /// Stores an object atomically.
    pub fn put(&self, oid: Oid, content: &[u8]) -> Result<(), SourceError> {
        let path = self.path(oid);
        let put = || {
            fs::create_dir_all(&self.folder)?;
            let mut new =
                tempfile::Builder::new().suffix(&format!(".{NEW_SUFFIX}")).tempfile_in(&self.folder)?;
            new.write_all(content)?;
            new.persist(&path).map_err(|error| error.error)
        };
        put().map(drop).map_err(|error: io::Error| SourceError::Workshop {
            path: path.clone(),
            reason: error.to_string(),
        })
    }

    /// Deletes the oldest objects not in `used`, to make room for `bytes` more bytes.
    pub fn make_room(&self, bytes: u64, used: &BTreeSet<Oid>) {
        let mut all = self.stored_objects();
        let there: u64 = all.iter().map(|one| one.bytes).fold(0, u64::saturating_add);
        let mut over = there.saturating_add(bytes).saturating_sub(self.bytes_max);
        all.retain(|one| !used.contains(&one.oid));
        all.sort_by_key(|one| one.modified_at);
        for one in all {
            if over == 0 {
                return;
            }
            if fs::remove_file(self.path(one.oid)).is_ok() {
                over = over.saturating_sub(one.bytes);
            }
        }
    }

    fn stored_objects(&self) -> Vec<StoredObject> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| StoredObject::from_path(&entry.path())).collect()
    }
}

/// A stored object.
struct StoredObject {
    oid: Oid,
    bytes: u64,
    modified_at: SystemTime,
}

impl StoredObject {
    fn from_path(path: &Path) -> Option<Self> {
        let oid = Oid::parse(path.file_name()?.to_str()?)?;
        let about = fs::metadata(path).ok()?;
        Some(Self { oid, bytes: about.len(), modified_at: about.modified().ok()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_objects_are_evicted_except_those_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("a.lfs"), 25);
        let contents = [[b'a'; 10], [b'b'; 10], [b'c'; 10]];
        let oids = contents.map(|content| Oid::hash_content(&content));
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
    fn damaged_objects_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("a.lfs"), 25);
        let oid = Oid::hash_content(b"content");
        assert_eq!(store.read(oid), None);
        store.put(oid, b"content").unwrap();
        assert_eq!(store.read(oid).as_deref(), Some(&b"content"[..]));
        fs::write(store.path(oid), "contend").unwrap();
        assert_eq!((store.read(oid), store.has(oid)), (None, false));
        assert_eq!(store.read(Oid::hash_content(b"")), Some(Vec::new()), "empty objects are not stored");
        assert_eq!(store.stored_objects().len(), 0, "no partial object remains");
    }
}
