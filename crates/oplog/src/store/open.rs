//! Opening: take the lock, open the database whatever state it is in, check every record, act on what was found, and
//! only then take appends. A fresh directory goes the same way; it is simply found to hold nothing.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};

use tidegate_model::{LogRecord, OperationId};

use super::database::{Database, OpenError};
use super::verify::Broken;
use super::{Live, OpenOptions, SledLog, State, examine, repair};
use crate::blobs::BlobStore;
use crate::quarantine::{Quarantine, Subject};
use crate::witness::{Testimony, Witness};
use crate::{Damage, LogError, LogStats, files, holder, witness};

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
        let quarantine = Quarantine::open(directory.join("quarantine"))?;
        let blobs = BlobStore::open(directory.join("blobs"))?;
        let testimony = witness::read(&directory.join(WITNESS))?;

        let folder = directory.join("log");
        repair::finish_replacement(&folder)?;
        let mut database = open_database(&folder, &quarantine)?;
        let mut findings = examine::examine::<F, S>(&database, &blobs, testimony.lasts.keys().copied())?;
        if findings.unreadable.is_some() {
            database = repair::replace(database, &folder, &mut findings, &quarantine)?;
        }
        let repair::Settled { live, mut set_aside } =
            repair::settle(&database, &blobs, &quarantine, findings)?;
        report_losses(&testimony, &live, &quarantine)?;
        let lasts = live.iter().map(|(operation, live)| (*operation, live.head.last));
        let witness = Witness::begin(directory.join(WITNESS), lasts)?;

        let damage = gather_damage(&quarantine, &testimony, &live, &mut set_aside)?;
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
            records: PhantomData,
            _lock: lock,
        })
    }
}

/// Opens the database; if it is damaged, without its index snapshot, which it can do without; if it still does not
/// open, aside with it.
fn open_database(folder: &Path, quarantine: &Quarantine) -> Result<Database, LogError> {
    let first = match Database::open(folder) {
        Ok(database) => return Ok(database),
        Err(OpenError::Refused(error)) => return Err(error),
        Err(OpenError::Damaged(reason)) => reason,
    };
    let snapshots: Vec<_> =
        files::list(folder)?.into_iter().filter(|path| files::name(path).starts_with("snap.")).collect();
    if !snapshots.is_empty() {
        let entry = quarantine.begin(Subject::Database)?;
        for path in &snapshots {
            files::rename(path, &entry.folder().join(files::name(path)))?;
        }
        match Database::open(folder) {
            Ok(database) => {
                entry.finish(&format!("database index rebuilt, its snapshot was unusable: {first}"))?;
                return Ok(database);
            }
            Err(OpenError::Refused(error)) => return Err(error),
            Err(OpenError::Damaged(_)) => {
                // They belong to the database that is moved aside below.
                for path in &snapshots {
                    files::rename(&entry.folder().join(files::name(path)), path)?;
                }
                entry.discard();
            }
        }
    }
    repair::move_aside(folder, quarantine, &first)?;
    repair::open_sound(folder)
}

/// Compares what the witness saw with what is there. What was set aside is reported already.
fn report_losses(
    testimony: &Testimony,
    live: &BTreeMap<OperationId, Live>,
    quarantine: &Quarantine,
) -> Result<(), LogError> {
    for (&operation, &seen) in &testimony.lasts {
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
        let told = quarantine
            .list()?
            .iter()
            .any(|damage| damage.operation == Some(operation) && damage.reason.contains(&cut));
        if !told {
            quarantine.begin(Subject::Operation(operation))?.finish(&reason)?;
        }
    }
    Ok(())
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
    if testimony.unreadable {
        let reason =
            "the witness file was damaged and was begun anew: whether facts were lost cannot be told"
                .to_owned();
        tracing::warn!(reason, "the log is damaged");
        damage.push(Damage { operation: None, reason, quarantine: None });
    }
    Ok(damage)
}
