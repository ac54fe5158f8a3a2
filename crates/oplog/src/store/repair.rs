//! Acts on what an examination found: sets aside, cuts, rebuilds. Nothing is removed before its copy is on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidegate_model::OperationId;

use super::database::{Database, OpenError};
use super::examine::Findings;
use super::record::write_own;
use super::verify::{Broken, Rows, Verdict};
use super::{Live, keys};
use crate::blobs::BlobStore;
use crate::frame::Family;
use crate::quarantine::{Quarantine, Subject};
use crate::{LogError, files};

/// Rows are copied into a new database this many bytes at a time.
const COPY_MAX_BYTES: usize = 1 << 20;

/// Replaces a database in which some pages cannot be read by a new one with all operations that can.
///
/// The new one is made beside the old one and put in its place when it is complete; should that be interrupted,
/// [`finish_replacement`] puts it right.
pub(crate) fn replace(
    old: Database,
    folder: &Path,
    findings: &mut Findings,
    quarantine: &Quarantine,
) -> Result<Database, LogError> {
    let new_folder = replacement(folder);
    if files::exists(&new_folder)? {
        std::fs::remove_dir_all(&new_folder).map_err(|error| LogError::io(&new_folder, "remove", error))?;
    }
    {
        let new = open_sound(&new_folder)?;
        for (operation, verdict) in &mut findings.operations {
            if verdict.is_err() {
                continue;
            }
            // Read a moment ago; a page may still fail the second time.
            match Rows::read(&old, *operation) {
                Ok(rows) => copy(&new, &rows)?,
                Err(error) => *verdict = Err(Broken::new(format!("its rows cannot be read: {error}"))),
            }
        }
        new.flush()?;
    }
    drop(old);
    let reason = findings.unreadable.take().unwrap_or_else(|| "it could not be read".to_owned());
    let entry = quarantine.begin(Subject::Database)?;
    let aside = entry.folder().join("log");
    entry.finish(&format!("database replaced, all operations that could be read were kept: {reason}"))?;
    files::rename(folder, &aside)?;
    files::rename(&new_folder, folder)?;
    findings.index.clear();
    findings.odd.clear();
    open_sound(folder)
}

fn replacement(folder: &Path) -> PathBuf {
    folder.with_extension("new")
}

/// Completes a replacement that was interrupted between moving the old database away and putting the new one in place;
/// one that was interrupted earlier is begun again.
pub(crate) fn finish_replacement(folder: &Path) -> Result<(), LogError> {
    let new_folder = replacement(folder);
    if !files::exists(&new_folder)? {
        return Ok(());
    }
    if files::exists(folder)? {
        return std::fs::remove_dir_all(&new_folder)
            .map_err(|error| LogError::io(&new_folder, "remove", error));
    }
    files::rename(&new_folder, folder)
}

/// Moves a database that does not open aside; the next one in its place is empty.
pub(crate) fn move_aside(folder: &Path, quarantine: &Quarantine, reason: &str) -> Result<(), LogError> {
    let entry = quarantine.begin(Subject::Database)?;
    let aside = entry.folder().join("log");
    entry.finish(&format!("database does not open and was moved aside, an empty one was begun: {reason}"))?;
    files::rename(folder, &aside)
}

/// Opens a database that is new or was just written.
pub(crate) fn open_sound(folder: &Path) -> Result<Database, LogError> {
    Database::open(folder).map_err(|error| match error {
        OpenError::Refused(error) => error,
        OpenError::Damaged(reason) => LogError::Sled { action: "open", reason },
    })
}

fn copy(new: &Database, rows: &Rows) -> Result<(), LogError> {
    let (mut batch, mut bytes) = (sled::Batch::default(), 0_usize);
    for (key, value) in &rows.rows {
        batch.insert(key, value);
        bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
        if bytes > COPY_MAX_BYTES {
            new.apply(std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    new.apply(batch)
}

/// The operations after opening.
pub(crate) struct Settled {
    pub(crate) live: BTreeMap<OperationId, Live>,
    pub(crate) set_aside: BTreeMap<OperationId, Broken>,
}

/// Sets broken operations aside and mends the others.
pub(crate) fn settle(
    database: &Database,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    findings: Findings,
) -> Result<Settled, LogError> {
    set_aside_odd(database, quarantine, &findings.odd)?;
    let mut settled = Settled { live: BTreeMap::new(), set_aside: BTreeMap::new() };
    for (operation, verdict) in findings.operations {
        match verdict {
            Ok(verdict) => {
                mend(database, quarantine, operation, &verdict)?;
                settled.live.insert(operation, Live::new(verdict.head, &verdict.summary));
            }
            Err(reason) => {
                set_aside(database, blobs, quarantine, operation, &reason)?;
                settled.set_aside.insert(operation, reason);
            }
        }
    }
    repair_index(database, &settled.live, findings.index)?;
    Ok(settled)
}

fn set_aside(
    database: &Database,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    operation: OperationId,
    broken: &Broken,
) -> Result<(), LogError> {
    let rows = Rows::read(database, operation)?;
    let entry = quarantine.begin(Subject::Operation(operation))?;
    entry.rows(rows.rows.iter().map(|(key, value)| (key.as_ref(), value.as_ref())))?;
    for digest in rows.digests() {
        entry.blob(&blobs.path(digest))?;
    }
    entry.finish(&format!("operation quarantined: {}", broken.reason))?;
    database.remove(rows.rows.iter().map(|(key, _)| key.as_ref()))
}

fn mend(
    database: &Database,
    quarantine: &Quarantine,
    operation: OperationId,
    verdict: &Verdict,
) -> Result<(), LogError> {
    let mut batch = sled::Batch::default();
    if !verdict.mended.is_empty() {
        let mut rows = Vec::new();
        for key in &verdict.remove {
            rows.extend(database.get(key)?.map(|value| (key.as_slice(), value)));
        }
        let entry = quarantine.begin(Subject::Operation(operation))?;
        entry.rows(rows.iter().map(|(key, value)| (*key, value.as_ref())))?;
        entry.finish(&verdict.mended.join("; "))?;
        let key = keys::of(keys::HEAD, operation);
        batch.insert(key.as_slice(), write_own(Family::Head, &key, &verdict.head)?);
        let key = keys::of(keys::SUMMARY, operation);
        batch.insert(key.as_slice(), write_own(Family::Summary, &key, &verdict.summary)?);
    }
    if verdict.remove.is_empty() && verdict.mended.is_empty() {
        return Ok(());
    }
    verdict.remove.iter().for_each(|key| batch.remove(key.as_slice()));
    database.commit(batch)
}

fn set_aside_odd(database: &Database, quarantine: &Quarantine, odd: &[Vec<u8>]) -> Result<(), LogError> {
    if odd.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for key in odd {
        rows.extend(database.get(key)?.map(|value| (key.as_slice(), value)));
    }
    let entry = quarantine.begin(Subject::Rows)?;
    entry.rows(rows.iter().map(|(key, value)| (*key, value.as_ref())))?;
    entry.finish(&format!("rows quarantined: {} rows of no family this program knows", odd.len()))?;
    database.remove(odd.iter().map(Vec::as_slice))
}

/// The index says nothing that the summaries do not say, so it is simply made to agree with them.
fn repair_index(
    database: &Database,
    live: &BTreeMap<OperationId, Live>,
    found: BTreeSet<Vec<u8>>,
) -> Result<(), LogError> {
    let wanted: BTreeSet<Vec<u8>> = live
        .iter()
        .flat_map(|(operation, live)| keys::index(*operation, &live.application, live.open))
        .collect();
    if wanted == found {
        return Ok(());
    }
    tracing::info!(
        missing = wanted.difference(&found).count(),
        stray = found.difference(&wanted).count(),
        "index rebuilt"
    );
    let mut batch = sled::Batch::default();
    found.difference(&wanted).for_each(|key| batch.remove(key.as_slice()));
    wanted.difference(&found).for_each(|key| batch.insert(key.as_slice(), &[][..]));
    database.commit(batch)
}
