//! sled, and all that is known about its manners. Nothing else calls it.
//!
//! - Its `flush` on Linux reaches the kernel but not the disk, so a commit also syncs the files themselves.
//! - Values near a page's limit go to files of their own that it never syncs; ours are kept small, and such files are
//!   looked for and synced all the same.
//! - A snapshot of its index that was left half written makes it refuse to open; such leftovers are removed.
//! - Its background flusher stays on: it also collects garbage.
//! - It may panic on damaged files; every call is guarded.
//! - After it is closed a thread of its own may hold its lock for a moment.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::guard::guarded;
use crate::{LogError, files};

/// Pages kept in memory. The log reads a stream once, on recovery, so more would buy nothing.
const CACHE_BYTES: u64 = 16 << 20;

/// How often and how long to wait for sled's threads to let go of a database this process has just closed: 5 s in all.
const LOCK_ATTEMPTS: u32 = 250;
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// sled's data file is made of segments of this size, which it never changes for an existing database.
const SEGMENT_BYTES: u64 = 512 << 10;

/// Each segment begins with the inverted checksum of the 16 bytes that follow it.
const SEGMENT_HEADER_BYTES: u64 = 20;

/// Rows are removed this many at a time, so that no batch is larger than a few segments.
const REMOVALS_MAX: usize = 4096;

/// A log of a million streams is smaller; what is larger is not read through, and not copied.
const DATABASE_MAX_BYTES: u64 = 4 << 30;

/// The layout of the rows that this program writes. An earlier one is read, and goes on in this one.
const LAYOUT: u32 = 2;

/// A folder beside sled's files says by its name which layout is in them, from 2 on. Programs that knew only the first
/// refuse whatever folder is there, and its name is what they say; nothing can be told to them in another way.
const LAYOUT_PREFIX: &str = "layout-";

fn layout_folder() -> String {
    format!("{LAYOUT_PREFIX}{LAYOUT}-needs-a-newer-tidegate")
}

/// Refuses the files of a database that cannot be one, or was written by a newer program, before anything of them is read.
pub(crate) fn check_files(folder: &Path) -> Result<(), LogError> {
    for path in files::list(folder)? {
        let found = match std::fs::metadata(&path) {
            // sled's threads tidy up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|error| LogError::io(&path, "look at", error))?,
        };
        // It keeps large values in a folder of this name.
        if found.is_dir() && files::name(&path) == "blobs" {
            continue;
        }
        if found.is_dir()
            && let Some(found) = layout(files::name(&path))
        {
            if found > LAYOUT {
                let path = files::parent(folder).to_path_buf();
                return Err(LogError::NewerLayout { path, found, known: LAYOUT });
            }
            continue;
        }
        if !found.is_file() {
            return Err(LogError::NotAFile { path });
        }
        if found.len() > DATABASE_MAX_BYTES {
            return Err(LogError::Oversized { path, bytes: found.len(), limit: DATABASE_MAX_BYTES });
        }
    }
    Ok(())
}

/// The layout that the name of a folder stands for.
fn layout(name: &str) -> Option<u32> {
    name.strip_prefix(LAYOUT_PREFIX)?.split('-').next()?.parse().ok()
}

/// Why a database did not open.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Its files are damaged.
    Damaged(String),
    /// It, or the system, refuses for another reason; its files may be fine.
    Refused(LogError),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        Self::Refused(error)
    }
}

/// sled as it was opened for one log, with what it takes to know that its files are on the disk.
pub(crate) struct Database {
    /// `None` only while it is being dropped.
    db: Option<sled::Db>,
    /// sled's data file, opened by us: a sync through any handle reaches the whole file.
    file: File,
    path: PathBuf,
    synced: Mutex<BTreeSet<PathBuf>>,
    /// The folder that names the layout is there.
    is_marked: AtomicBool,
    /// Rows read so far.
    reads: AtomicU64,
}

/// A row, as sled hands it out.
pub(crate) type Row = (sled::IVec, sled::IVec);

impl Database {
    /// Opens or makes the database in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, OpenError> {
        files::create_folder(folder)?;
        for path in files::list(folder)? {
            let name = files::name(&path);
            if name.starts_with("snap.") && name.ends_with(".generating") {
                std::fs::remove_file(&path).map_err(|error| LogError::io(&path, "remove", error))?;
            }
        }
        let (path, conf) = (folder.join("db"), folder.join("conf"));
        let is_new = !files::exists(&conf)?;
        let db = open_when_unlocked(folder, &path)?;
        let file = File::open(&path).map_err(|error| LogError::io(&path, "open", error))?;
        let is_marked = AtomicBool::new(files::exists(&folder.join(layout_folder()))?);
        let database =
            Self { db: Some(db), file, path, synced: Mutex::default(), is_marked, reads: AtomicU64::new(0) };
        if is_new {
            // What opening made is durable before the first record is.
            let synced = File::open(&conf).and_then(|conf| conf.sync_all());
            synced.map_err(|error| LogError::io(&conf, "sync", error))?;
            database.sync()?;
        }
        // Always: whoever made them may have been killed before this.
        files::sync_folder(folder)?;
        Ok(database)
    }

    fn call<T>(
        &self,
        action: &'static str,
        call: impl FnOnce(&sled::Db) -> Result<T, sled::Error>,
    ) -> Result<T, LogError> {
        let Some(db) = &self.db else { return Err(LogError::Poisoned) };
        match guarded(|| call(db)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(sled::Error::Io(error))) => Err(LogError::io(&self.path, action, error)),
            Ok(Err(error)) => Err(LogError::Sled { action, reason: words(&error) }),
            Err(reason) => Err(LogError::Sled { action, reason }),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>, LogError> {
        self.count(1);
        self.call("read a row", |db| db.get(key))
    }

    /// All rows whose key begins with `prefix`, in order.
    pub(crate) fn rows(&self, prefix: &[u8]) -> Result<Vec<Row>, LogError> {
        let rows: Vec<Row> = self.call("read rows", |db| db.scan_prefix(prefix).collect())?;
        self.count(rows.len());
        Ok(rows)
    }

    /// The rows with keys from `from` to `to`, in order.
    pub(crate) fn between(&self, from: &[u8], to: &[u8]) -> Result<Vec<Row>, LogError> {
        if from > to {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = self.call("read rows", |db| db.range(from..=to).collect())?;
        self.count(rows.len());
        Ok(rows)
    }

    /// Rows looked up, or looked through, so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn count(&self, rows: usize) {
        self.reads.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The first row whose key is `from` or greater.
    pub(crate) fn first_from(&self, from: &[u8]) -> Result<Option<Row>, LogError> {
        self.count(1);
        self.call("read its rows", |db| db.range(from..).next().transpose())
    }

    /// Applies a batch as a whole or not at all, and makes it durable.
    pub(crate) fn commit(&self, batch: sled::Batch) -> Result<(), LogError> {
        self.apply(batch)?;
        self.flush()
    }

    /// Applies a batch as a whole or not at all; durable after the next flush.
    pub(crate) fn apply(&self, batch: sled::Batch) -> Result<(), LogError> {
        self.mark()?;
        self.call("write", |db| db.apply_batch(batch))
    }

    /// Sees to it that programs which would not understand what is about to be written leave it alone.
    fn mark(&self) -> Result<(), LogError> {
        if !self.is_marked.load(Ordering::SeqCst) {
            files::create_folder(&self.path.with_file_name(layout_folder()))?;
            self.is_marked.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Makes everything applied so far durable.
    pub(crate) fn flush(&self) -> Result<(), LogError> {
        self.call("flush", |db| db.flush())?;
        self.sync()
    }

    /// Removes rows, so many at a time, and flushes.
    pub(crate) fn remove<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<(), LogError> {
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            let mut batch = sled::Batch::default();
            keys.by_ref().take(REMOVALS_MAX).for_each(|key| batch.remove(key));
            self.apply(batch)?;
        }
        self.flush()
    }

    /// A segment whose header is damaged, if there is one.
    ///
    /// sled does not mind when it opens: what is in the segment can still be read by the index. But what it writes
    /// into such a segment is not found by the next opening, so a database like this must not be written to.
    pub(crate) fn damaged_segment(&self) -> Result<Option<u64>, LogError> {
        let failed = |error| LogError::io(&self.path, "read", error);
        for number in 0.. {
            let offset = SEGMENT_BYTES.saturating_mul(number);
            let header = read_at(&self.file, SEGMENT_HEADER_BYTES, offset).map_err(failed)?;
            if header.is_empty() {
                break;
            }
            if !is_header(&header) {
                // One that is not in use is filled with one value.
                let segment = read_at(&self.file, SEGMENT_BYTES, offset).map_err(failed)?;
                if segment.iter().any(|byte| Some(byte) != segment.first()) {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Whether its data is where whoever opens it next looks for it.
    pub(crate) fn is_in_place(&self) -> Result<bool, LogError> {
        files::is_in_place(&self.file, &self.path)
    }

    fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|error| LogError::io(&self.path, "sync", error))?;
        let folder = self.path.with_file_name("blobs");
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeSet::new();
        let mut new = false;
        for path in files::list(&folder)? {
            if !synced.contains(&path) {
                match File::open(&path).and_then(|file| file.sync_data()) {
                    Ok(()) => new = true,
                    // Collected as garbage since it was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(LogError::io(&path, "sync", error)),
                }
            }
            found.insert(path);
        }
        *synced = found;
        if new { files::sync_folder(&folder) } else { Ok(()) }
    }
}

/// What sled says, without what it says to its own developers.
fn words(error: &sled::Error) -> String {
    match error {
        sled::Error::Corruption { at: Some(at), .. } => format!("its data is damaged at {at:?}"),
        sled::Error::Corruption { at: None, .. } => "its data is damaged".to_owned(),
        other => other.to_string(),
    }
}

fn is_header(header: &[u8]) -> bool {
    let Some((stored, fields)) = header.split_first_chunk::<4>() else { return false };
    crc32fast::hash(fields) == !u32::from_le_bytes(*stored)
}

/// Reads up to `length` bytes; fewer where the file ends.
fn read_at(mut file: &File, length: u64, offset: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.seek(io::SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut content)?;
    Ok(content)
}

/// sled flushes when it is dropped, and may panic when that fails.
impl Drop for Database {
    fn drop(&mut self) {
        let db = self.db.take();
        if let Err(reason) = guarded(|| drop(db)) {
            tracing::error!(path = %self.path.display(), reason, "closing the log's database failed");
        }
    }
}

fn open_when_unlocked(folder: &Path, file: &Path) -> Result<sled::Db, OpenError> {
    for _ in 1..LOCK_ATTEMPTS {
        match open_once(folder, file) {
            Err(OpenError::Refused(LogError::Locked { .. })) => std::thread::park_timeout(LOCK_WAIT),
            other => return other,
        }
    }
    open_once(folder, file)
}

fn open_once(folder: &Path, file: &Path) -> Result<sled::Db, OpenError> {
    let config = sled::Config::new().path(folder).cache_capacity(CACHE_BYTES);
    match guarded(|| config.open()) {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(sled::Error::Io(error))) => Err(sort_io(folder, file, error)),
        Ok(Err(error)) => Err(OpenError::Damaged(words(&error))),
        Err(reason) => Err(panicked(folder, reason)),
    }
}

fn sort_io(folder: &Path, file: &Path, error: io::Error) -> OpenError {
    // sled gives its lock error no kind of its own.
    if error.to_string().contains("could not acquire lock") {
        let holder = "a thread or program that has its database open".to_owned();
        return OpenError::Refused(LogError::Locked { path: folder.to_path_buf(), holder });
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            OpenError::Damaged(error.to_string())
        }
        _ => OpenError::Refused(LogError::io(file, "open", error)),
    }
}

/// A panic may also come from a disk that takes no more writes; then nothing is moved.
fn panicked(folder: &Path, reason: String) -> OpenError {
    let probe = folder.join("probe");
    let written = files::write_durably(&probe, &[0; 4096]);
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => OpenError::Damaged(reason),
        Err(error) => OpenError::Refused(error),
    }
}
