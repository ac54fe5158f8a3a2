//! The sled database, with workarounds for its behavior. No other module calls sled.
//!
//! - On Linux, sled's `flush` only reaches the kernel's cache, so a commit also syncs the files itself.
//! - sled stores values near the page limit in separate files that it never syncs. The log keeps its values
//!   small, but a commit still looks for such files and syncs them.
//! - sled refuses to open a database with a half-written snapshot of its index, so these leftovers are
//!   removed.
//! - sled's background flusher stays enabled, because it also collects garbage. It runs rarely, because each
//!   run syncs the data file even if nothing was written. Appends don't depend on it.
//! - sled may panic on damaged files, so every call is guarded.
//! - sled's threads may hold the lock for a moment after the database is closed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::panic_guard::catch_panic;
use crate::{LogError, files, marks};

/// Size of the page cache in bytes. Recovery reads each stream only once, so a larger cache wouldn't help.
const CACHE_BYTES: u64 = 16 << 20;

/// Interval of sled's garbage collection.
const GC_INTERVAL_MS: u64 = 5_000;

/// Maximum number of attempts to open a database just closed by this process, while sled's threads may still
/// hold the lock. They take at most 5 s, including the delays.
const LOCK_ATTEMPTS: u32 = 250;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Size of a segment in sled's data file in bytes. Fixed for the life of a database.
const SEGMENT_BYTES: u64 = 512 << 10;

/// Size of a segment header in bytes. The header begins with the inverted checksum of the 16 bytes that
/// follow.
const SEGMENT_HEADER_BYTES: u64 = 20;

/// Maximum number of rows removed at once, so that a batch never exceeds a few segments.
const REMOVALS_MAX: usize = 4096;

/// Maximum size of a database file in bytes. Larger files are neither read nor copied. A log of a million
/// streams is smaller.
const DATABASE_MAX_BYTES: u64 = 4 << 30;

/// Layout of the rows that this program writes. It also reads databases with earlier layouts, and adds rows
/// in this layout to them.
const LAYOUT: u32 = 1;

/// Name prefix of the empty files, next to sled's own, that mark the layout of the rows. The highest applies.
/// Preview versions before the first release wrote none.
const LAYOUT_PREFIX: &str = "layout-";

fn layout_file_name() -> String {
    format!("{LAYOUT_PREFIX}{LAYOUT}")
}

/// Checks a database's files before reading their content. Rejects files that can't belong to a database, and
/// files written by another version.
pub(crate) fn check_files(folder: &Path) -> Result<(), LogError> {
    let paths = files::list_folder(folder)?;
    check_layout(folder, &paths)?;
    for path in paths {
        let found = match std::fs::metadata(&path) {
            // sled's threads may remove files while the folder is listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|error| LogError::from_io(&path, "access", error))?,
        };
        // sled stores large values in a folder with this name. The marks were checked before.
        if found.is_dir() && (files::file_name(&path) == "blobs" || marks::is_mark(&path)) {
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

/// Rejects a database with an unknown layout.
fn check_layout(folder: &Path, paths: &[PathBuf]) -> Result<(), LogError> {
    let layout = paths
        .iter()
        .filter(|path| path.is_file())
        .filter_map(|path| parse_layout(files::file_name(path)))
        .max();
    let path = || files::parent_folder(folder).to_path_buf();
    match layout {
        Some(found) if found > LAYOUT => Err(LogError::NewerLayout { path: path(), found, known: LAYOUT }),
        None if paths.iter().any(|path| files::file_name(path) == "conf") => {
            Err(LogError::UnknownLayout { path: path() })
        }
        _ => Ok(()),
    }
}

/// Returns the layout in a file name.
fn parse_layout(name: &str) -> Option<u32> {
    name.strip_prefix(LAYOUT_PREFIX)?.parse().ok()
}

/// Creates the empty file that marks the layout. It is durable once its folder is synced.
fn create_layout_file(path: &Path) -> Result<(), LogError> {
    File::create(path).map(drop).map_err(|error| LogError::from_io(path, "create", error))
}

/// Error when opening a database.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The files are damaged.
    Damaged(String),
    /// Any other database or operating system error. The files may be intact.
    Other(LogError),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        Self::Other(error)
    }
}

/// The sled database of a log, with the handles for syncing its files.
pub(crate) struct Database {
    /// `None` only while the database is being dropped.
    db: Option<sled::Db>,
    /// Separate handle to sled's data file. Syncing any handle covers the whole file.
    file: File,
    path: PathBuf,
    synced_files: Mutex<BTreeSet<PathBuf>>,
    /// True if the file that marks the layout exists.
    has_layout_file: AtomicBool,
    /// Number of rows read.
    reads: AtomicU64,
}

/// Row as returned by sled.
pub(crate) type Row = (sled::IVec, sled::IVec);

impl Database {
    /// Opens the database in `folder`, or creates it.
    pub(crate) fn open(folder: &Path) -> Result<Self, OpenError> {
        files::create_folder(folder)?;
        for path in files::list_folder(folder)? {
            let name = files::file_name(&path);
            if name.starts_with("snap.") && name.ends_with(".generating") {
                std::fs::remove_file(&path).map_err(|error| LogError::from_io(&path, "remove", error))?;
            }
        }
        let (path, conf) = (folder.join("db"), folder.join("conf"));
        let is_new = !files::exists(&conf)?;
        let mark = folder.join(layout_file_name());
        if is_new {
            // Create the layout file before sled's files: without it, a database counts as written by another
            // version.
            create_layout_file(&mark)?;
        }
        let db = open_when_unlocked(folder, &path)?;
        let file = File::open(&path).map_err(|error| LogError::from_io(&path, "open", error))?;
        if is_new {
            // The new files must be durable before the first record. The data file itself is synced with that
            // record.
            let synced = File::open(&conf).and_then(|conf| conf.sync_all());
            synced.map_err(|error| LogError::from_io(&conf, "sync", error))?;
        }
        let has_layout_file = AtomicBool::new(files::exists(&mark)?);
        let database = Self {
            db: Some(db),
            file,
            path,
            synced_files: Mutex::default(),
            has_layout_file,
            reads: AtomicU64::new(0),
        };
        // Always sync the folder: the process that created the files may have been killed before this point.
        files::sync_folder(folder)?;
        Ok(database)
    }

    fn call<T>(
        &self,
        action: &'static str,
        call: impl FnOnce(&sled::Db) -> Result<T, sled::Error>,
    ) -> Result<T, LogError> {
        let Some(db) = &self.db else { return Err(LogError::Poisoned) };
        match catch_panic(|| call(db)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(sled::Error::Io(error))) => Err(LogError::from_io(&self.path, action, error)),
            Ok(Err(error)) => Err(LogError::Sled { action, reason: describe_sled_error(&error) }),
            Err(reason) => Err(LogError::Sled { action, reason }),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>, LogError> {
        self.count_reads(1);
        self.call("read a row", |db| db.get(key))
    }

    /// Returns all rows whose keys begin with `prefix`, in order.
    pub(crate) fn rows(&self, prefix: &[u8]) -> Result<Vec<Row>, LogError> {
        let rows: Vec<Row> = self.call("read rows", |db| db.scan_prefix(prefix).collect())?;
        self.count_reads(rows.len());
        Ok(rows)
    }

    /// Returns the rows with keys from `from` to `to`, in order.
    pub(crate) fn rows_between(&self, from: &[u8], to: &[u8]) -> Result<Vec<Row>, LogError> {
        if from > to {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = self.call("read rows", |db| db.range(from..=to).collect())?;
        self.count_reads(rows.len());
        Ok(rows)
    }

    /// Returns the number of rows looked up or scanned.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn count_reads(&self, rows: usize) {
        self.reads.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the first row with a key at or after `from`.
    pub(crate) fn first_from(&self, from: &[u8]) -> Result<Option<Row>, LogError> {
        self.count_reads(1);
        self.call("read its rows", |db| db.range(from..).next().transpose())
    }

    /// Applies a batch atomically and durably.
    pub(crate) fn commit(&self, batch: sled::Batch) -> Result<(), LogError> {
        self.apply(batch)?;
        self.flush()
    }

    /// Applies a batch atomically. The batch is durable after the next flush.
    pub(crate) fn apply(&self, batch: sled::Batch) -> Result<(), LogError> {
        self.write_layout_file()?;
        self.call("write", |db| db.apply_batch(batch))
    }

    /// Marks a database with the current layout, so that programs that can't read the new rows won't open it.
    fn write_layout_file(&self) -> Result<(), LogError> {
        if !self.has_layout_file.load(Ordering::SeqCst) {
            let mark = self.path.with_file_name(layout_file_name());
            create_layout_file(&mark)?;
            files::sync_folder(files::parent_folder(&mark))?;
            self.has_layout_file.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Makes all applied batches durable.
    pub(crate) fn flush(&self) -> Result<(), LogError> {
        self.call("flush", |db| db.flush())?;
        self.sync()
    }

    /// Removes rows in batches, and flushes.
    pub(crate) fn remove_rows<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<(), LogError> {
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            let mut batch = sled::Batch::default();
            keys.by_ref().take(REMOVALS_MAX).for_each(|key| batch.remove(key));
            self.apply(batch)?;
        }
        self.flush()
    }

    /// Returns the number of a segment with a damaged header, if there is one.
    ///
    /// sled ignores a damaged header on open, because its index can still read the segment. But data that it
    /// then writes to the segment is lost on the next open. A database with such a segment must therefore not
    /// be written to.
    pub(crate) fn find_damaged_segment(&self) -> Result<Option<u64>, LogError> {
        let failed = |error| LogError::from_io(&self.path, "read", error);
        for number in 0.. {
            let offset = SEGMENT_BYTES.saturating_mul(number);
            let header = read_at(&self.file, SEGMENT_HEADER_BYTES, offset).map_err(failed)?;
            if header.is_empty() {
                break;
            }
            if !is_valid_header(&header) {
                // Unused segments, filled with a single byte value, aren't damaged.
                let segment = read_at(&self.file, SEGMENT_BYTES, offset).map_err(failed)?;
                if segment.iter().any(|byte| Some(byte) != segment.first()) {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Returns the size of the data file in bytes.
    pub(crate) fn size_bytes(&self) -> Result<u64, LogError> {
        let found = self.file.metadata().map_err(|error| LogError::from_io(&self.path, "access", error))?;
        Ok(found.len())
    }

    /// Returns true if the data file is still where the next process looks for it.
    pub(crate) fn is_in_place(&self) -> Result<bool, LogError> {
        files::is_in_place(&self.file, &self.path)
    }

    fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|error| LogError::from_io(&self.path, "sync", error))?;
        let folder = self.path.with_file_name("blobs");
        let mut synced = self.synced_files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeSet::new();
        let mut new = false;
        for path in files::list_folder(&folder)? {
            if !synced.contains(&path) {
                match File::open(&path).and_then(|file| file.sync_data()) {
                    Ok(()) => new = true,
                    // sled has garbage-collected the file since the listing.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(LogError::from_io(&path, "sync", error)),
                }
            }
            found.insert(path);
        }
        *synced = found;
        if new { files::sync_folder(&folder) } else { Ok(()) }
    }
}

/// Returns sled's error message without the parts meant for its developers.
fn describe_sled_error(error: &sled::Error) -> String {
    match error {
        sled::Error::Corruption { at: Some(at), .. } => format!("its data is damaged at {at:?}"),
        sled::Error::Corruption { at: None, .. } => "its data is damaged".to_owned(),
        other => other.to_string(),
    }
}

fn is_valid_header(header: &[u8]) -> bool {
    let Some((stored, fields)) = header.split_first_chunk::<4>() else { return false };
    crc32fast::hash(fields) == !u32::from_le_bytes(*stored)
}

/// Reads `length` bytes, or fewer at the end of the file.
fn read_at(mut file: &File, length: u64, offset: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.seek(io::SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut content)?;
    Ok(content)
}

/// Catches panics: sled flushes on drop, and may panic if that fails.
impl Drop for Database {
    fn drop(&mut self) {
        let db = self.db.take();
        if let Err(reason) = catch_panic(|| drop(db)) {
            tracing::error!(path = %self.path.display(), reason, "failed to close the log's database");
        }
    }
}

fn open_when_unlocked(folder: &Path, file: &Path) -> Result<sled::Db, OpenError> {
    for _ in 1..LOCK_ATTEMPTS {
        match open_once(folder, file) {
            Err(OpenError::Other(LogError::Locked { .. })) => std::thread::park_timeout(LOCK_RETRY_DELAY),
            other => return other,
        }
    }
    open_once(folder, file)
}

fn open_once(folder: &Path, file: &Path) -> Result<sled::Db, OpenError> {
    let config = sled::Config::new().path(folder).cache_capacity(CACHE_BYTES);
    let config = config.flush_every_ms(Some(GC_INTERVAL_MS));
    match catch_panic(|| config.open()) {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(sled::Error::Io(error))) => Err(classify_io_error(folder, file, error)),
        Ok(Err(error)) => Err(OpenError::Damaged(describe_sled_error(&error))),
        Err(reason) => Err(panic_error(folder, reason)),
    }
}

fn classify_io_error(folder: &Path, file: &Path, error: io::Error) -> OpenError {
    // sled doesn't have an error variant for its lock.
    if error.to_string().contains("could not acquire lock") {
        let holder = "a thread or program that has its database open".to_owned();
        return OpenError::Other(LogError::Locked { path: folder.to_path_buf(), holder });
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            OpenError::Damaged(error.to_string())
        }
        _ => OpenError::Other(LogError::from_io(file, "open", error)),
    }
}

/// Converts a panic in sled to an error. If the disk rejects writes, the panic doesn't count as damage to the
/// files.
fn panic_error(folder: &Path, reason: String) -> OpenError {
    let probe = folder.join("probe");
    let written = files::write_durably(&probe, &[0; 4096]);
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => OpenError::Damaged(reason),
        Err(error) => OpenError::Other(error),
    }
}
