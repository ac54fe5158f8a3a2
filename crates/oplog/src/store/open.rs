//! Opening: take the lock, open the database whatever state it is in, check every record, act on what was found, and
//! only then take appends. A fresh directory goes the same way; it is simply found to hold nothing.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};

use tidegate_model::{LogRecord, OperationId};

use super::database::{Database, OpenError};
use super::examine::Findings;
use super::keys::{self, Key};
use super::reading::Guard;
use super::repair::Settled;
use super::salvage::Folders;
use super::verify::{Broken, Verdict};
use super::{Live, OpenOptions, SledLog, State, examine, record, repair};
use crate::blobs::BlobStore;
use crate::quarantine::{Quarantine, Subject};
use crate::witness::{Seen, Testimony, Witness};
use crate::{Damage, Impaired, LogError, LogStats, Summary, files, holder, key, witness};

/// The name of the witness file.
pub(super) const WITNESS: &str = "witness";

impl<F: LogRecord, S: LogRecord> SledLog<F, S> {
    /// Opens the log in a state directory, which is made if need be, and checks every record in it.
    ///
    /// What is found damaged is set aside and reported by [`crate::OperationLog::damage`]; everything else works. An
    /// error means that the directory itself cannot be used, and says what to do.
    pub fn open(directory: impl AsRef<Path>, options: OpenOptions) -> Result<Self, LogError> {
        let directory = directory.as_ref().to_path_buf();
        files::create_folder(&directory)?;
        let lock = holder::take(&directory, &options.holder)?;
        // Before anything is looked at: with another key everything would look damaged.
        let key = key::settle(&directory, options.key)?;
        let quarantine = Quarantine::open(directory.join("quarantine"))?;
        let blobs = BlobStore::open(directory.join("blobs"), key)?;
        Self::examined(directory.clone(), &directory, quarantine, blobs, Guard::lock(lock))
    }

    /// Opens the database in `root`, checks it and acts on what is found; all that is written is written there.
    pub(super) fn examined(
        directory: PathBuf,
        root: &Path,
        quarantine: Quarantine,
        blobs: BlobStore,
        guard: Guard,
    ) -> Result<Self, LogError> {
        let earlier = quarantine.list()?;
        let testimony = witness::read(&root.join(WITNESS))?;
        let mut folders = Folders::of(root);
        folders.settle_interrupted()?;
        folders.copy()?;
        let (database, mut findings) = sound::<F, S>(&folders, &blobs, &quarantine, &testimony)?;
        doubt_shortened(&mut findings, &testimony);
        let Settled { live, mut set_aside, lacking } =
            repair::settle(&database, &blobs, &quarantine, findings)?;
        report_losses(&testimony, &live, &quarantine)?;
        folders.forget_copy()?;
        let witness = Witness::resume(root.join(WITNESS), &testimony, live.iter().map(Live::note).collect())?;

        let mut damage = gather_damage(&quarantine, &testimony, &live, &mut set_aside)?;
        for found in damage.iter_mut().filter(|found| !earlier.contains(found)) {
            found.is_new = true;
        }
        let impaired = list_impaired(&database, &quarantine, lacking, &set_aside)?;
        Ok(Self {
            directory,
            database,
            blobs,
            state: Mutex::new(State { live, witness, stats: LogStats::default() }),
            poisoned: AtomicBool::new(false),
            collecting: RwLock::default(),
            unclaimed: Mutex::default(),
            set_aside,
            damage,
            impaired,
            records: PhantomData,
            guard,
        })
    }
}

/// Opens the database and examines it; if anything is amiss with it, what can be saved of it.
fn sound<F: LogRecord, S: LogRecord>(
    folders: &Folders,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    testimony: &Testimony,
) -> Result<(Database, Findings), LogError> {
    let expected = || testimony.seen.keys().copied();
    let reason = match Database::open(&folders.log) {
        Ok(database) => {
            let findings = examine::examine::<F, S>(&database, blobs, expected())?;
            match amiss(&database, &findings, testimony, quarantine)? {
                None => return Ok((database, findings)),
                Some(reason) => reason,
            }
        }
        Err(OpenError::Damaged(reason)) => format!("it does not open: {reason}"),
        Err(OpenError::Refused(error)) => return Err(error),
    };
    let database = folders.salvage(testimony, quarantine, &reason)?;
    let findings = examine::examine::<F, S>(&database, blobs, expected())?;
    match findings.unreadable {
        // It was written a moment ago, so it is not the old damage.
        Some(reason) => Err(LogError::Sled { action: "read", reason }),
        None => Ok((database, findings)),
    }
}

/// What is wrong with a database that opened.
fn amiss(
    database: &Database,
    findings: &Findings,
    testimony: &Testimony,
    quarantine: &Quarantine,
) -> Result<Option<String>, LogError> {
    if let Some(reason) = &findings.unreadable {
        return Ok(Some(reason.clone()));
    }
    if let Some(segment) = database.damaged_segment()? {
        return Ok(Some(format!("the header of its segment {segment} is damaged")));
    }
    for (&operation, seen) in &testimony.seen {
        let lost = match findings.operations.get(&operation) {
            Some(Ok(verdict)) => verdict.head.last < seen.last,
            Some(Err(_)) => false,
            None => !quarantine.knows(operation)?,
        };
        if lost {
            return Ok(Some(format!("it lacks facts of operation {operation} that were acknowledged")));
        }
    }
    Ok(None)
}

/// An operation that was over, but of whose end the record is lost, would be resumed, and do again what later
/// operations may have undone. It is set aside instead.
fn doubt_shortened(findings: &mut Findings, testimony: &Testimony) {
    for (operation, seen) in testimony.seen.iter().filter(|(_, seen)| seen.ended) {
        if let Some(verdict) = findings.operations.get_mut(operation)
            && let Ok(Verdict { summary, head, .. }) = verdict
            && summary.finished_at.is_none()
            && head.last < seen.last
        {
            let (last, lost) = (head.last, seen.last.saturating_sub(head.last));
            let reason =
                format!("it was over, but its last {lost} facts are lost; what is left ends at fact {last}");
            *verdict = Err(Broken::new(reason));
        }
    }
}

/// Compares what the witness saw with what is there. What was set aside is reported already.
fn report_losses(
    testimony: &Testimony,
    live: &BTreeMap<OperationId, Live>,
    quarantine: &Quarantine,
) -> Result<(), LogError> {
    let known = quarantine.list()?;
    for (&operation, &Seen { last: seen, .. }) in &testimony.seen {
        let found = live.get(&operation).map(|live| live.head.last);
        let reason = match found {
            Some(last) if last >= seen => continue,
            None if quarantine.knows(operation)? => continue,
            Some(last) => format!(
                "facts lost: {} facts, {} to {seen}, were acknowledged and are not in the database; the operation goes \
                 on from fact {last}",
                seen.saturating_sub(last),
                last.saturating_add(1),
            ),
            None => {
                format!("operation lost: all its {seen} facts were acknowledged and are not in the database")
            }
        };
        // A tail that was cut just now is in the quarantine with the same number; one report of a loss is enough.
        let cut = format!("of {seen} facts are lost");
        let told = |damage: &Damage| damage.operation == Some(operation) && damage.reason.contains(&cut);
        if !known.iter().any(told) {
            quarantine.begin(Subject::Operation(operation))?.finish(&reason)?;
        }
    }
    Ok(())
}

/// Operations that are not whole: those that lack something, and those that were set aside, with their summaries where
/// these can be read.
fn list_impaired(
    database: &Database,
    quarantine: &Quarantine,
    lacking: BTreeMap<OperationId, String>,
    set_aside: &BTreeMap<OperationId, Broken>,
) -> Result<Vec<Impaired>, LogError> {
    let mut impaired = Vec::new();
    for (operation, reason) in lacking {
        let row = database.get(&keys::of(keys::SUMMARY, operation))?;
        let summary = row.and_then(|row| Some(record::read_own(operation, &row).ok()?.1));
        impaired.push(Impaired { operation, summary, reason });
    }
    for (&operation, broken) in set_aside {
        let rows = quarantine.rows_of(operation)?;
        let of_operation =
            rows.iter().rev().filter(|(key, _)| keys::parse(key) == Some(Key::Summary(operation)));
        let summary = of_operation
            .filter_map(|(_, row)| Some(record::read_own::<Summary>(operation, row).ok()?.1))
            .next();
        impaired.push(Impaired { operation, summary, reason: broken.reason.clone() });
    }
    impaired.sort_by_key(|impaired| impaired.operation);
    Ok(impaired)
}

/// All that was ever found damaged here, and which operations are set aside because of it.
fn gather_damage(
    quarantine: &Quarantine,
    testimony: &Testimony,
    live: &BTreeMap<OperationId, Live>,
    set_aside: &mut BTreeMap<OperationId, Broken>,
) -> Result<Vec<Damage>, LogError> {
    let mut damage = quarantine.list()?;
    for entry in &damage {
        if let Some(operation) = entry.operation.filter(|operation| !live.contains_key(operation)) {
            set_aside.entry(operation).or_insert_with(|| Broken::new(entry.reason.clone()));
        }
    }
    let witness = match (testimony.unreadable, testimony.damaged) {
        (true, _) => Some(
            "the witness file was damaged and was begun anew: whether facts were lost cannot be told"
                .to_owned(),
        ),
        (false, 0) => None,
        (false, damaged) => Some(format!(
            "{damaged} notes in the witness file were damaged, and it was begun anew: whether facts of their operations were lost cannot be told"
        )),
    };
    if let Some(reason) = witness {
        tracing::warn!(reason, "the log is damaged");
        damage.push(Damage { operation: None, reason, quarantine: None, is_new: true });
    }
    Ok(damage)
}
