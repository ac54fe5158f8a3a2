//! Salvage of a damaged database: extracts the records from its files one by one, and writes them to a new
//! database.
//!
//! sled stops reading its log at the first damaged byte, wipes the rest, and opens the database as if the
//! rest had never existed. The files are therefore copied before sled opens them. If there is a problem, the
//! salvage searches the copy for records. Each record carries its address and checksum, so a damaged byte
//! affects only a single record.
//!
//! ```text
//! copy log/ → rescue/    open log/    problem?  no:  remove rescue/
//!                                               yes: records of rescue/ → log.new/
//!                                                    rescue/ → quarantine/database/n/    log.new/ → log/
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate_model::StreamId;

use super::database::{Database, OpenError, check_files};
use super::head::Head;
use super::{keys, record};
use crate::frame::{self, Address, Family, FrameError, FramedRecord, MAX_RECORD_BYTES};
use crate::quarantine::{Quarantine, Subject};
use crate::witness::WitnessContent;
use crate::{LogError, files};

/// Number of bytes searched at a time.
const CHUNK_BYTES: usize = 8 << 20;

/// Minimum overlap of two chunks in bytes. Only records that were copied from a database are larger.
const OVERLAP_BYTES: usize = 512 << 10;

/// Number of record bytes written to the new database at a time.
const BATCH_BYTES: usize = 1 << 20;

/// Folders of a database and its copies.
#[derive(Debug)]
pub(crate) struct DatabaseFolders {
    pub(crate) log: PathBuf,
    copy: PathBuf,
    new: PathBuf,
    has_copy: bool,
}

/// Records by key, each with its number. For each key, the highest number wins.
type FoundRecords = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

impl DatabaseFolders {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let [log, copy, new] = ["log", "rescue", "log.new"].map(|name| directory.join(name));
        Self { log, copy, new, has_copy: false }
    }

    /// Completes a salvage that was interrupted after the new database was complete, or discards an
    /// incomplete database.
    pub(crate) fn settle_interrupted(&self) -> Result<(), LogError> {
        if files::exists(&self.new)? {
            if files::exists(&self.log)? {
                remove_folder(&self.new)?;
            } else {
                files::rename(&self.new, &self.log)?;
            }
        }
        Ok(())
    }

    /// Copies the database's files before sled changes them. The copy isn't synced: it is needed only until
    /// the log is open.
    pub(crate) fn copy(&mut self) -> Result<(), LogError> {
        self.remove_copy()?;
        check_files(&self.log)?;
        let copied = copy_files(&self.log, &self.copy)
            .and_then(|()| copy_files(&self.log.join("blobs"), &self.copy.join("blobs")));
        match copied {
            Ok(()) => self.has_copy = true,
            // The log may be intact, so carry on. If it turns out to be damaged, the salvage searches the
            // original files, which sled may have changed by then.
            Err(error @ (LogError::DiskFull { .. } | LogError::FileSizeLimit { .. })) => {
                tracing::warn!(%error, "failed to copy the log's database; opening it without a copy");
                self.remove_copy()?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Removes the copy made before opening, if any.
    pub(crate) fn remove_copy(&mut self) -> Result<(), LogError> {
        self.has_copy = false;
        if files::exists(&self.copy)? { remove_folder(&self.copy) } else { Ok(()) }
    }

    /// Builds a new database from the records of the old one and swaps them. The old files move to the
    /// quarantine. The old database must be closed.
    pub(crate) fn salvage(
        &self,
        testimony: &WitnessContent,
        quarantine: &Quarantine,
        reason: &str,
    ) -> Result<Database, LogError> {
        let source = if self.has_copy { &self.copy } else { &self.log };
        let mut found = FoundRecords::new();
        search_file(&source.join("db"), &mut found)?;
        for path in files::list_folder(&source.join("blobs"))? {
            search_file(&path, &mut found)?;
        }
        // The files may still contain streams that were quarantined or forgotten earlier, and must not
        // reappear.
        let owners: BTreeSet<StreamId> = found.keys().filter_map(|key| keys::owner_of(key)).collect();
        for stream in owners {
            if !testimony.progress.contains_key(&stream)
                && (testimony.forgotten >= Some(stream) || quarantine.has_stream(stream)?)
            {
                tracing::info!(%stream, "a forgotten or quarantined stream is not restored");
                found.retain(|key, _| keys::owner_of(key) != Some(stream));
            }
        }
        for (&stream, seen) in &testimony.progress {
            roll_forward_head(&mut found, stream, seen.last)?;
        }
        if files::exists(&self.new)? {
            remove_folder(&self.new)?;
        }
        write_database(&self.new, &found)?;
        self.replace_database(quarantine, reason)?;
        open_intact(&self.log)
    }

    fn replace_database(&self, quarantine: &Quarantine, reason: &str) -> Result<(), LogError> {
        let entry = quarantine.create_entry(Subject::Database)?;
        let aside = entry.folder().join("log");
        if self.has_copy {
            files::rename(&self.copy, &aside)?;
            entry.finish(&format!("database rebuilt from the readable records: {reason}"))?;
            // From here until the second rename, only the new database exists. If the process is killed, the
            // next open finds it.
            remove_folder(&self.log)?;
        } else {
            entry.finish(&format!("database rebuilt from the readable records: {reason}"))?;
            files::rename(&self.log, &aside)?;
        }
        files::rename(&self.new, &self.log)
    }
}

/// Opens a new or freshly written database.
fn open_intact(folder: &Path) -> Result<Database, LogError> {
    Database::open(folder).map_err(|error| match error {
        OpenError::Other(error) => error,
        OpenError::Damaged(reason) => LogError::Sled { action: "open", reason },
    })
}

fn remove_folder(path: &Path) -> Result<(), LogError> {
    fs::remove_dir_all(path).map_err(|error| LogError::from_io(path, "remove", error))
}

/// Copies the files of a folder, but not its subfolders.
fn copy_files(from: &Path, to: &Path) -> Result<(), LogError> {
    fs::create_dir(to).map_err(|error| LogError::from_io(to, "create", error))?;
    for path in files::list_folder(from)? {
        if path.is_file() {
            copy_file(&path, &to.join(files::file_name(&path)))?;
        }
    }
    Ok(())
}

/// Copies a file. The error contains the source path or the target path, depending on the cause.
fn copy_file(from: &Path, to: &Path) -> Result<(), LogError> {
    let mut source = File::open(from).map_err(|error| LogError::from_io(from, "read", error))?;
    let mut copy = File::create(to).map_err(|error| LogError::from_io(to, "write", error))?;
    std::io::copy(&mut source, &mut copy).map_err(|error| LogError::from_io(to, "write", error))?;
    Ok(())
}

/// Collects the records in a file.
fn search_file(path: &Path, found: &mut FoundRecords) -> Result<(), LogError> {
    let failed = |error| LogError::from_io(path, "read", error);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let mut chunk = Vec::new();
    loop {
        let most = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
        let read = file.by_ref().take(most).read_to_end(&mut chunk).map_err(failed)?;
        let incomplete = collect_records(&chunk, found);
        if read < CHUNK_BYTES {
            return Ok(());
        }
        let searched = chunk.len().saturating_sub(OVERLAP_BYTES);
        chunk.drain(..incomplete.map_or(searched, |at| at.min(searched)));
    }
}

/// Collects the records in a chunk. Returns the offset of the first record that continues after the chunk, if any.
fn collect_records(chunk: &[u8], found: &mut FoundRecords) -> Option<usize> {
    let (mut rest, mut incomplete) = (chunk, None);
    while let Some(candidate) = frame::find_frame(rest).and_then(|at| rest.get(at..)) {
        rest = match frame::parse_frame(candidate) {
            Ok((framed, after)) => {
                let length = candidate.len().saturating_sub(after.len());
                if let (Some(key), Some(row)) = (record_key(&framed), candidate.get(..length)) {
                    add_record(found, key, framed.address.number, row);
                }
                after
            }
            Err(error) => {
                if let FrameError::Length { stated, found } = error
                    && (found..=MAX_RECORD_BYTES).contains(&stated)
                {
                    incomplete.get_or_insert(chunk.len().saturating_sub(candidate.len()));
                }
                candidate.get(1..).unwrap_or_default()
            }
        };
    }
    incomplete
}

fn add_record(found: &mut FoundRecords, key: Vec<u8>, number: u64, row: &[u8]) {
    let newest = found.get(&key).is_none_or(|(known, _)| *known < number);
    if newest {
        found.insert(key, (number, row.to_vec()));
    }
}

fn record_key(framed: &FramedRecord<'_>) -> Option<Vec<u8>> {
    let Address { family, stream, number } = framed.address;
    Some(match family {
        Family::Event => keys::event(stream, number),
        Family::Snapshot => keys::snapshot(stream, number),
        Family::Head => keys::prefix(keys::HEAD, stream),
        Family::Summary => keys::prefix(keys::SUMMARY, stream),
        // If the newest record of an inventory is damaged, the search finds an older one, which lacks later
        // additions.
        Family::Inventory => return None,
        Family::Reference => keys::reference(stream, tidegate_model::Digest(framed.payload.try_into().ok()?)),
    })
}

/// Advances an older head to event `last`, as recorded by the witness, because the newest head may be
/// damaged. Stops at the first missing event.
fn roll_forward_head(found: &mut FoundRecords, stream: StreamId, last: u64) -> Result<(), LogError> {
    let key = keys::prefix(keys::HEAD, stream);
    let Some((_, row)) = found.get(&key) else { return Ok(()) };
    let Ok((_, mut head)) = record::decode_row::<Head>(stream, row) else { return Ok(()) };
    let before = head.last;
    while head.last < last
        && let Some((_, event)) = found.get(&keys::event(stream, head.last.saturating_add(1)))
    {
        head.extend(event);
    }
    if head.last > before {
        head.revision = head.revision.saturating_add(1);
        // These events may have added references.
        head.references = count_records(found, &keys::prefix(keys::REFERENCE, stream));
        found.insert(key, (head.revision, record::encode_row(stream, head.revision, &head)?));
    }
    Ok(())
}

fn count_records(found: &FoundRecords, prefix: &[u8]) -> u64 {
    let rows = found.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix)).count();
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// Writes a complete new database.
fn write_database(folder: &Path, found: &FoundRecords) -> Result<(), LogError> {
    let database = open_intact(folder)?;
    let (mut batch, mut bytes) = (sled::Batch::default(), 0_usize);
    for (key, (_, row)) in found {
        batch.insert(key.as_slice(), row.as_slice());
        bytes = bytes.saturating_add(row.len());
        if bytes > BATCH_BYTES {
            database.apply(std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    database.commit(batch)
}
