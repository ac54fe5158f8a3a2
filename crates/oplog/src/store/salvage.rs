//! When the database is damaged: takes the records out of its files one by one and puts them into a new database.
//!
//! sled stops reading its log at the first damaged byte, wipes what follows, and opens as if that had never been. So
//! before every opening the files are copied; if then anything is amiss, the records are looked for in the copy: each one
//! says where it belongs and has a checksum of its own, so a damaged byte costs the record it is in and no other.
//!
//! ```text
//! copy log/ → rescue/    open log/    amiss?  no:  remove rescue/
//!                                             yes: records of rescue/ → log.new/
//!                                                  rescue/ → quarantine/database/n/    log.new/ → log/
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate_model::StreamId;

use super::database::{Database, OpenError, check_files};
use super::head::Head;
use super::{keys, record};
use crate::frame::{self, Address, Family, Framed};
use crate::quarantine::{Quarantine, Subject};
use crate::witness::Testimony;
use crate::{LogError, files};

/// Files are searched this many bytes at a time.
const CHUNK_BYTES: usize = 8 << 20;

/// Two chunks overlap by the largest record that is kept in a row: a summary, and its frame.
const OVERLAP_BYTES: usize = 512 << 10;

/// Records are put into the new database this many bytes at a time.
const BATCH_BYTES: usize = 1 << 20;

/// The folders of a database and its copies.
#[derive(Debug)]
pub(crate) struct Folders {
    pub(crate) log: PathBuf,
    rescue: PathBuf,
    new: PathBuf,
    copied: bool,
}

/// Records found, by their key; of several with the same key the one with the highest number.
type Found = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

impl Folders {
    pub(crate) fn of(directory: &Path) -> Self {
        let [log, rescue, new] = ["log", "rescue", "log.new"].map(|name| directory.join(name));
        Self { log, rescue, new, copied: false }
    }

    /// Completes a salvage that was interrupted after the new database was complete; forgets one that was not.
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

    /// Copies the files of the database, to have them as they were before sled touched them. Not synced: it serves this
    /// opening only.
    pub(crate) fn copy(&mut self) -> Result<(), LogError> {
        self.forget_copy()?;
        check_files(&self.log)?;
        let copied = copy_files(&self.log, &self.rescue)
            .and_then(|()| copy_files(&self.log.join("blobs"), &self.rescue.join("blobs")));
        match copied {
            Ok(()) => self.copied = true,
            // The log itself may still work; without a copy a damaged one is searched as sled leaves it.
            Err(error @ (LogError::DiskFull { .. } | LogError::SizeLimit { .. })) => {
                tracing::warn!(%error, "opening the log without a copy");
                self.forget_copy()?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Removes the copy that was taken before anything was tried, if there is one.
    pub(crate) fn forget_copy(&mut self) -> Result<(), LogError> {
        self.copied = false;
        if files::exists(&self.rescue)? { remove_folder(&self.rescue) } else { Ok(()) }
    }

    /// Makes a new database of the records of the old one and puts it in its place; the old files go into quarantine.
    /// The old database must be closed.
    pub(crate) fn salvage(
        &self,
        testimony: &Testimony,
        quarantine: &Quarantine,
        reason: &str,
    ) -> Result<Database, LogError> {
        let source = if self.copied { &self.rescue } else { &self.log };
        let mut found = Found::new();
        search(&source.join("db"), &mut found)?;
        for path in files::list(&source.join("blobs"))? {
            search(&path, &mut found)?;
        }
        // What was set aside or forgotten earlier may still be found in the files; it must not come back.
        let owners: BTreeSet<StreamId> = found.keys().filter_map(|key| keys::owner(key)).collect();
        for stream in owners {
            if !testimony.seen.contains_key(&stream)
                && (testimony.forgotten >= Some(stream) || quarantine.knows(stream)?)
            {
                tracing::info!(%stream, "what was forgotten, or set aside, does not come back");
                found.retain(|key, _| keys::owner(key) != Some(stream));
            }
        }
        for (&stream, seen) in &testimony.seen {
            roll_forward(&mut found, stream, seen.last)?;
        }
        if files::exists(&self.new)? {
            remove_folder(&self.new)?;
        }
        write(&self.new, &found)?;
        self.put_in_place(quarantine, reason)?;
        open_sound(&self.log)
    }

    fn put_in_place(&self, quarantine: &Quarantine, reason: &str) -> Result<(), LogError> {
        let entry = quarantine.begin(Subject::Database)?;
        let aside = entry.folder().join("log");
        if self.copied {
            files::rename(&self.rescue, &aside)?;
            entry.finish(&format!("database made anew from the records that could be read: {reason}"))?;
            // From here to the second rename only the new database is there, and is found by the next opening.
            remove_folder(&self.log)?;
        } else {
            entry.finish(&format!("database made anew from the records that could be read: {reason}"))?;
            files::rename(&self.log, &aside)?;
        }
        files::rename(&self.new, &self.log)
    }
}

/// Opens a database that is new or was just written.
fn open_sound(folder: &Path) -> Result<Database, LogError> {
    Database::open(folder).map_err(|error| match error {
        OpenError::Refused(error) => error,
        OpenError::Damaged(reason) => LogError::Sled { action: "open", reason },
    })
}

fn remove_folder(path: &Path) -> Result<(), LogError> {
    fs::remove_dir_all(path).map_err(|error| LogError::io(path, "remove", error))
}

/// Copies the files of a folder, but not its folders.
fn copy_files(from: &Path, to: &Path) -> Result<(), LogError> {
    fs::create_dir(to).map_err(|error| LogError::io(to, "create", error))?;
    for path in files::list(from)? {
        if path.is_file() {
            copy_file(&path, &to.join(files::name(&path)))?;
        }
    }
    Ok(())
}

/// Says which of the two files is the one that cannot be used.
fn copy_file(from: &Path, to: &Path) -> Result<(), LogError> {
    let mut source = File::open(from).map_err(|error| LogError::io(from, "read", error))?;
    let mut copy = File::create(to).map_err(|error| LogError::io(to, "write", error))?;
    std::io::copy(&mut source, &mut copy).map_err(|error| LogError::io(to, "write", error))?;
    Ok(())
}

/// Collects the records of a file.
fn search(path: &Path, found: &mut Found) -> Result<(), LogError> {
    let failed = |error| LogError::io(path, "read", error);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let mut chunk = Vec::new();
    loop {
        let most = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
        let read = file.by_ref().take(most).read_to_end(&mut chunk).map_err(failed)?;
        collect(&chunk, found);
        if read < CHUNK_BYTES {
            return Ok(());
        }
        chunk.drain(..chunk.len().saturating_sub(OVERLAP_BYTES));
    }
}

fn collect(chunk: &[u8], found: &mut Found) {
    let mut rest = chunk;
    while let Some(candidate) = frame::find(rest).and_then(|at| rest.get(at..)) {
        rest = match frame::parse(candidate) {
            Ok((framed, after)) => {
                let length = candidate.len().saturating_sub(after.len());
                if let (Some(key), Some(row)) = (key_of(&framed), candidate.get(..length)) {
                    add(found, key, framed.address.number, row);
                }
                after
            }
            Err(_) => candidate.get(1..).unwrap_or_default(),
        };
    }
}

fn add(found: &mut Found, key: Vec<u8>, number: u64, row: &[u8]) {
    let newest = found.get(&key).is_none_or(|(known, _)| *known < number);
    if newest {
        found.insert(key, (number, row.to_vec()));
    }
}

fn key_of(framed: &Framed<'_>) -> Option<Vec<u8>> {
    let Address { family, stream, number } = framed.address;
    Some(match family {
        Family::Fact => keys::fact(stream, number),
        Family::Snapshot => keys::snapshot(stream, number),
        Family::Head => keys::of(keys::HEAD, stream),
        Family::Summary => keys::of(keys::SUMMARY, stream),
        // An older one would be found where the newest is damaged, and lack what was added since.
        Family::Inventory => return None,
        Family::Reference => keys::reference(stream, tidegate_model::Digest(framed.payload.try_into().ok()?)),
    })
}

/// When the newest head is what was damaged, an older one is found. The witness knows how far the stream got, so
/// facts up to there count, if they are all there.
fn roll_forward(found: &mut Found, stream: StreamId, last: u64) -> Result<(), LogError> {
    let key = keys::of(keys::HEAD, stream);
    let Some((_, row)) = found.get(&key) else { return Ok(()) };
    let Ok((_, mut head)) = record::read_own::<Head>(stream, row) else { return Ok(()) };
    let before = head.last;
    while head.last < last
        && let Some((_, fact)) = found.get(&keys::fact(stream, head.last.saturating_add(1)))
    {
        head.extend(fact);
    }
    if head.last > before {
        head.revision = head.revision.saturating_add(1);
        // References may have come with those facts.
        head.references = count(found, &keys::of(keys::REFERENCE, stream));
        found.insert(key, (head.revision, record::write_own(stream, head.revision, &head)?));
    }
    Ok(())
}

fn count(found: &Found, prefix: &[u8]) -> u64 {
    let rows = found.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix)).count();
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// Writes a whole new database.
fn write(folder: &Path, found: &Found) -> Result<(), LogError> {
    let database = open_sound(folder)?;
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
