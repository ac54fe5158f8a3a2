//! Opening a log: acquire the lock, open or salvage the database, check every record, and quarantine or
//! repair damaged data. Only then does the log accept appends. A new directory is opened as an empty log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};

use tidegate_model::StreamId;

use super::compact::Agenda;
use super::database::{Database, OpenError};
use super::examine::Findings;
use super::head::Head;
use super::keys;
use super::ledger::Ledger;
use super::listing::ListingRow;
use super::read_only::LogGuard;
use super::repair::RepairedStreams;
use super::salvage::DatabaseFolders;
use super::verify::{StreamFault, Verdict};
use super::{LiveStream, OpenOptions, SledLog, State, examine, record, repair};
use crate::blobs::BlobStore;
use crate::quarantine::{Quarantine, QuarantinedRow, Subject};
use crate::witness::{Progress, WITNESS_FILE, Witness, WitnessContent};
use crate::{
    Codecs, Damage, ImpairedStream, LogAccess, LogError, LogStats, RawEntry, files, holder, key, marks,
    witness,
};

/// Maximum length in characters of the writer's name stored on a takeover.
const WRITER_MAX_CHARS: usize = 200;

fn truncate_writer(holder: &str) -> String {
    holder.chars().take(WRITER_MAX_CHARS).collect()
}

impl SledLog {
    /// Opens the log in a state directory, creating it if necessary, and checks every record.
    ///
    /// Damaged data is quarantined and reported by [`crate::OperationLog::damage`]. Everything else stays
    /// usable.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory itself can't be used, with advice on what to do next.
    pub fn open(directory: impl AsRef<Path>, options: OpenOptions) -> Result<Self, LogError> {
        Self::open_with_access(directory, options, &LogAccess::Normal)
    }

    /// Opens the log like [`SledLog::open`], as an end of a copy or for normal use.
    pub fn open_with_access(
        directory: impl AsRef<Path>,
        options: OpenOptions,
        access: &LogAccess,
    ) -> Result<Self, LogError> {
        let directory = directory.as_ref().to_path_buf();
        files::create_folder(&directory)?;
        let lock = holder::take_lock(&directory, &options.holder)?;
        marks::check(&directory, access)?;
        // Load the key before any check: with a different key, everything would look damaged.
        let (key, mut is_changed) = key::load_or_create_key(&directory, options.key)?;
        for folder in ["quarantine", "blobs"] {
            is_changed |= files::create_one_folder(&directory.join(folder))?;
        }
        // If `log` is missing, creating it also syncs the directory.
        if is_changed && files::exists(&directory.join("log"))? {
            files::sync_folder(&directory)?;
        }
        let quarantine = Quarantine::open(directory.join("quarantine"))?;
        let blobs = BlobStore::open(directory.join("blobs"), key)?;
        let log = Self::open_and_examine(
            directory.clone(),
            &directory,
            quarantine,
            blobs,
            LogGuard::from_lock(lock),
            truncate_writer(&options.holder.to_string()),
            options.codecs,
        )?;
        log.fill_ledger()?;
        Ok(log)
    }

    /// Opens and checks the database in `root`, and quarantines or repairs damaged data. The opened log
    /// writes only to this database.
    pub(super) fn open_and_examine(
        directory: PathBuf,
        root: &Path,
        quarantine: Quarantine,
        blobs: BlobStore,
        guard: LogGuard,
        writer: String,
        codecs: Codecs,
    ) -> Result<Self, LogError> {
        let earlier = quarantine.list()?;
        let testimony = witness::read_witness(&root.join(WITNESS_FILE))?;
        let mut folders = DatabaseFolders::in_directory(root);
        folders.settle_interrupted()?;
        folders.copy()?;
        let (database, mut findings) = open_or_salvage(&folders, &blobs, &quarantine, &testimony, &codecs)?;
        reject_lost_ends(&mut findings, &testimony);
        let RepairedStreams { live, mut quarantined, left_in_place, incomplete } =
            repair::repair_streams(&database, &blobs, &quarantine, findings)?;
        report_losses(&testimony, &live, &left_in_place, &quarantine)?;
        let doubt =
            witness_damage(&testimony, live.is_empty() && left_in_place.is_empty() && quarantined.is_empty());
        folders.remove_copy()?;
        let mut seen: BTreeMap<StreamId, Progress> = live.iter().map(LiveStream::witness_note).collect();
        // Keep the notes of these streams: another version may know the streams and check them against the
        // witness.
        seen.extend(
            left_in_place.iter().filter_map(|stream| Some((*stream, *testimony.progress.get(stream)?))),
        );
        let witness = Witness::resume(root.join(WITNESS_FILE), &testimony, seen)?;

        let mut damage = collect_damage(&quarantine, &live, &mut quarantined)?;
        damage.extend(doubt);
        for found in damage.iter_mut().filter(|found| !earlier.contains(found)) {
            found.is_new = true;
        }
        let impaired = list_impaired(&database, &quarantine, incomplete, &quarantined)?;
        Ok(Self {
            directory,
            codecs,
            writer,
            database,
            blobs,
            state: Mutex::new(State {
                streams: live,
                witness,
                forgotten: testimony.forgotten,
                stats: LogStats::default(),
                ledger: Ledger::default(),
                agenda: Agenda::default(),
            }),
            is_poisoned: AtomicBool::new(false),
            is_compaction_due: AtomicBool::new(false),
            blob_gc_lock: RwLock::default(),
            unreferenced_blobs: Mutex::default(),
            quarantined,
            damage,
            impaired,
            guard,
        })
    }
}

/// Opens and examines the database, and salvages it if there is any problem.
fn open_or_salvage(
    folders: &DatabaseFolders,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    testimony: &WitnessContent,
    codecs: &Codecs,
) -> Result<(Database, Findings), LogError> {
    let expected = || testimony.progress.keys().copied();
    let reason = match Database::open(&folders.log) {
        Ok(database) => {
            let findings = examine::examine_database(&database, blobs, codecs, expected())?;
            match find_problem(&database, &findings, testimony, quarantine)? {
                None => return Ok((database, findings)),
                Some(reason) => reason,
            }
        }
        Err(OpenError::Damaged(reason)) => format!("the previous database could not be opened: {reason}"),
        Err(OpenError::Other(error)) => return Err(error),
    };
    let database = folders.salvage(testimony, quarantine, &reason)?;
    let findings = examine::examine_database(&database, blobs, codecs, expected())?;
    match findings.unreadable {
        // The database is freshly written, so the old damage can't be the problem.
        Some(reason) => Err(LogError::Sled { action: "read", reason }),
        None => Ok((database, findings)),
    }
}

/// Returns the problem with an opened database, if any.
fn find_problem(
    database: &Database,
    findings: &Findings,
    testimony: &WitnessContent,
    quarantine: &Quarantine,
) -> Result<Option<String>, LogError> {
    if let Some(reason) = &findings.unreadable {
        return Ok(Some(reason.clone()));
    }
    if let Some(segment) = database.find_damaged_segment()? {
        return Ok(Some(format!("the header of segment {segment} is damaged")));
    }
    for (&stream, seen) in &testimony.progress {
        let lost = match findings.streams.get(&stream) {
            Some(Ok(verdict)) => verdict.head.last < seen.last,
            Some(Err(_)) => false,
            None => !quarantine.has_stream(stream)?,
        };
        if lost {
            return Ok(Some(format!("acknowledged events of stream {stream} are missing")));
        }
    }
    Ok(None)
}

/// Quarantines streams that lost their recorded end, because resuming them could repeat work that later
/// streams have undone. If only the summary is outdated and all events are there, the stream is merely
/// reported; its machine can rewrite the summary.
fn reject_lost_ends(findings: &mut Findings, testimony: &WitnessContent) {
    for (stream, seen) in testimony.progress.iter().filter(|(_, seen)| seen.has_ended) {
        if let Some(verdict) = findings.streams.get_mut(stream)
            && let Ok(Verdict { line, head, missing, .. }) = verdict
            && line.finished_at.is_none()
        {
            let (last, lost) = (head.last, seen.last.saturating_sub(head.last));
            if lost == 0 {
                missing.push(
                    "it had ended, but its latest summary is lost and only an older one remains".to_owned(),
                );
                continue;
            }
            let reason =
                format!("it had ended, but its last {lost} events are lost; it now ends at event {last}");
            *verdict = Err(StreamFault::new(reason));
        }
    }
}

/// Compares the witness with the streams in the database. Quarantined streams have already been reported.
fn report_losses(
    testimony: &WitnessContent,
    live: &BTreeMap<StreamId, LiveStream>,
    left_alone: &BTreeSet<StreamId>,
    quarantine: &Quarantine,
) -> Result<(), LogError> {
    let known = quarantine.list()?;
    for (&stream, &Progress { last: seen, .. }) in &testimony.progress {
        let found = live.get(&stream).map(|live| live.head.last);
        let reason = match found {
            Some(last) if last >= seen => continue,
            None if left_alone.contains(&stream) || quarantine.has_stream(stream)? => continue,
            Some(last) => format!(
                "events lost: {} acknowledged events ({} to {seen}) are missing from the database; the stream continues from event {last}",
                seen.saturating_sub(last),
                last.saturating_add(1),
            ),
            None => {
                format!("events lost: all {seen} acknowledged events are missing from the database")
            }
        };
        // If the end of the stream was just truncated, the quarantine already has a report with this number
        // of events. Report the loss only once.
        let cut = format!(" of {seen}; the stream now ends at event ");
        let is_reported = |damage: &Damage| damage.stream == Some(stream) && damage.reason.contains(&cut);
        if !known.iter().any(is_reported) {
            quarantine.create_entry(Subject::Stream(stream))?.finish(&reason)?;
        }
    }
    Ok(())
}

/// Lists the impaired streams: streams with missing content, and quarantined streams. Includes their
/// summaries if readable.
fn list_impaired(
    database: &Database,
    quarantine: &Quarantine,
    lacking: BTreeMap<StreamId, String>,
    set_aside: &BTreeMap<StreamId, StreamFault>,
) -> Result<Vec<ImpairedStream>, LogError> {
    let mut impaired = Vec::new();
    for (stream, reason) in lacking {
        impaired.push(ImpairedStream { stream, entry: find_last_entry(database, &[], stream)?, reason });
    }
    for (&stream, broken) in set_aside {
        let entry = find_last_entry(database, &quarantine.rows_of(stream)?, stream)?;
        impaired.push(ImpairedStream { stream, entry, reason: broken.reason.clone() });
    }
    impaired.sort_by_key(|impaired| impaired.stream);
    Ok(impaired)
}

/// Returns the entry of a stream from the database, or else from the newest quarantined rows. `aside` is
/// sorted from oldest to newest.
fn find_last_entry(
    database: &Database,
    aside: &[QuarantinedRow],
    stream: StreamId,
) -> Result<Option<RawEntry>, LogError> {
    let find = |family: u8| -> Result<Vec<Vec<u8>>, LogError> {
        let wanted = keys::prefix(family, stream);
        let row = database.get(&wanted)?.map(|row| row.to_vec());
        let aside = aside.iter().rev().filter(|(key, _)| *key == wanted).map(|(_, row)| row.clone());
        Ok(row.into_iter().chain(aside).collect())
    };
    let lines = find(keys::SUMMARY)?;
    let line = lines.iter().find_map(|row| Some(record::decode_row::<ListingRow>(stream, row).ok()?.1));
    let heads = find(keys::HEAD)?;
    let head = heads.iter().find_map(|row| Some(record::decode_row::<Head>(stream, row).ok()?.1));
    let head = head.unwrap_or_else(Head::new);
    Ok(line.map(|line| line.into_entry(stream, head.epoch, head.last)))
}

/// Collects all damage ever found in this log, and the streams quarantined because of it.
fn collect_damage(
    quarantine: &Quarantine,
    live: &BTreeMap<StreamId, LiveStream>,
    set_aside: &mut BTreeMap<StreamId, StreamFault>,
) -> Result<Vec<Damage>, LogError> {
    let damage = quarantine.list()?;
    for entry in &damage {
        if let Some(stream) = entry.stream.filter(|stream| !live.contains_key(stream)) {
            set_aside.entry(stream).or_insert_with(|| StreamFault::new(entry.reason.clone()));
        }
    }
    Ok(damage)
}

/// Returns the damage to report if the witness doesn't cover the whole log. Reported only once, because a new
/// witness file replaces the damaged one.
fn witness_damage(testimony: &WitnessContent, is_empty: bool) -> Option<Damage> {
    let reason = match testimony.damaged_notes {
        // A new log doesn't have a witness until just before the first event.
        _ if testimony.is_missing && !is_empty => {
            "the witness file was missing and has been recreated; lost events or an older copy of the log cannot be detected"
                .to_owned()
        }
        _ if testimony.is_unreadable => {
            "the witness file was damaged and has been recreated; lost events cannot be detected"
                .to_owned()
        }
        0 => return None,
        damaged => format!(
            "{damaged} entries in the witness file were damaged, and the file has been recreated; lost \
             events in the affected streams cannot be detected"
        ),
    };
    tracing::warn!(reason, "the log is damaged");
    Some(Damage { stream: None, reason, quarantine: None, is_new: true })
}
