//! Opening: take the lock, open the database whatever state it is in, check every record, act on what was found, and
//! only then take appends. A fresh directory goes the same way; it is simply found to hold nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};

use tidegate_model::StreamId;

use super::database::{Database, OpenError};
use super::examine::Findings;
use super::head::Head;
use super::keys;
use super::line::Line;
use super::reading::Guard;
use super::repair::Settled;
use super::salvage::Folders;
use super::verify::{Broken, Verdict};
use super::{Live, OpenOptions, SledLog, State, examine, record, repair};
use crate::blobs::BlobStore;
use crate::quarantine::{KeptRow, Quarantine, Subject};
use crate::witness::{Seen, Testimony, WITNESS, Witness};
use crate::{Codecs, Damage, Impaired, LogError, LogStats, RawEntry, files, holder, key, witness};

/// Of who writes, so much is kept with a stream that was taken over.
const WRITER_MAX_CHARS: usize = 200;

fn shortened(holder: &str) -> String {
    holder.chars().take(WRITER_MAX_CHARS).collect()
}

impl SledLog {
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
        let writer = (shortened(&options.holder.to_string()), options.codecs);
        Self::examined(directory.clone(), &directory, quarantine, blobs, Guard::lock(lock), writer)
    }

    /// Opens the database in `root`, checks it and acts on what is found; all that is written is written there.
    pub(super) fn examined(
        directory: PathBuf,
        root: &Path,
        quarantine: Quarantine,
        blobs: BlobStore,
        guard: Guard,
        (writer, codecs): (String, Codecs),
    ) -> Result<Self, LogError> {
        let earlier = quarantine.list()?;
        let testimony = witness::read(&root.join(WITNESS))?;
        let mut folders = Folders::of(root);
        folders.settle_interrupted()?;
        folders.copy()?;
        let (database, mut findings) = sound(&folders, &blobs, &quarantine, &testimony, &codecs)?;
        doubt_reopened(&mut findings, &testimony);
        let Settled { live, mut set_aside, left_alone, lacking } =
            repair::settle(&database, &blobs, &quarantine, findings)?;
        report_losses(&testimony, &live, &left_alone, &quarantine)?;
        let doubt = doubt_of(&testimony, live.is_empty() && left_alone.is_empty() && set_aside.is_empty());
        folders.forget_copy()?;
        let mut seen: BTreeMap<StreamId, Seen> = live.iter().map(Live::note).collect();
        // Whoever knows them better finds what was known of them.
        seen.extend(left_alone.iter().filter_map(|stream| Some((*stream, *testimony.seen.get(stream)?))));
        let witness = Witness::resume(root.join(WITNESS), &testimony, seen)?;

        let mut damage = gather_damage(&quarantine, &live, &mut set_aside)?;
        damage.extend(doubt);
        for found in damage.iter_mut().filter(|found| !earlier.contains(found)) {
            found.is_new = true;
        }
        let impaired = list_impaired(&database, &quarantine, lacking, &set_aside)?;
        Ok(Self {
            directory,
            codecs,
            writer,
            database,
            blobs,
            state: Mutex::new(State {
                live,
                witness,
                forgotten: testimony.forgotten,
                stats: LogStats::default(),
            }),
            poisoned: AtomicBool::new(false),
            collecting: RwLock::default(),
            unclaimed: Mutex::default(),
            set_aside,
            damage,
            impaired,
            guard,
        })
    }
}

/// Opens the database and examines it; if anything is amiss with it, what can be saved of it.
fn sound(
    folders: &Folders,
    blobs: &BlobStore,
    quarantine: &Quarantine,
    testimony: &Testimony,
    codecs: &Codecs,
) -> Result<(Database, Findings), LogError> {
    let expected = || testimony.seen.keys().copied();
    let reason = match Database::open(&folders.log) {
        Ok(database) => {
            let findings = examine::examine(&database, blobs, codecs, expected())?;
            match amiss(&database, &findings, testimony, quarantine)? {
                None => return Ok((database, findings)),
                Some(reason) => reason,
            }
        }
        Err(OpenError::Damaged(reason)) => format!("it does not open: {reason}"),
        Err(OpenError::Refused(error)) => return Err(error),
    };
    let database = folders.salvage(testimony, quarantine, &reason)?;
    let findings = examine::examine(&database, blobs, codecs, expected())?;
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
    for (&stream, seen) in &testimony.seen {
        let lost = match findings.streams.get(&stream) {
            Some(Ok(verdict)) => verdict.head.last < seen.last,
            Some(Err(_)) => false,
            None => !quarantine.knows(stream)?,
        };
        if lost {
            return Ok(Some(format!("it lacks facts of stream {stream} that were acknowledged")));
        }
    }
    Ok(None)
}

/// A stream that was over, but of whose end the record is lost, would be resumed, and do again what later
/// streams may have undone. It is set aside instead. Where only its summary is from before the end, that is reported:
/// whoever knows its facts states it again.
fn doubt_reopened(findings: &mut Findings, testimony: &Testimony) {
    for (stream, seen) in testimony.seen.iter().filter(|(_, seen)| seen.ended) {
        if let Some(verdict) = findings.streams.get_mut(stream)
            && let Ok(Verdict { line, head, lacking, .. }) = verdict
            && line.finished_at.is_none()
        {
            let (last, lost) = (head.last, seen.last.saturating_sub(head.last));
            if lost == 0 {
                lacking.push("it was over, but its summary is lost; what is left is an older one".to_owned());
                continue;
            }
            let reason =
                format!("it was over, but its last {lost} facts are lost; what is left ends at fact {last}");
            *verdict = Err(Broken::new(reason));
        }
    }
}

/// Compares what the witness saw with what is there. What was set aside is reported already.
fn report_losses(
    testimony: &Testimony,
    live: &BTreeMap<StreamId, Live>,
    left_alone: &BTreeSet<StreamId>,
    quarantine: &Quarantine,
) -> Result<(), LogError> {
    let known = quarantine.list()?;
    for (&stream, &Seen { last: seen, .. }) in &testimony.seen {
        let found = live.get(&stream).map(|live| live.head.last);
        let reason = match found {
            Some(last) if last >= seen => continue,
            None if left_alone.contains(&stream) || quarantine.knows(stream)? => continue,
            Some(last) => format!(
                "facts lost: {} facts, {} to {seen}, were acknowledged and are not in the database; the stream goes \
                 on from fact {last}",
                seen.saturating_sub(last),
                last.saturating_add(1),
            ),
            None => {
                format!("lost: all its {seen} facts were acknowledged and are not in the database")
            }
        };
        // A tail that was cut just now is in the quarantine with the same number; one report of a loss is enough.
        let cut = format!("of {seen} facts are lost");
        let told = |damage: &Damage| damage.stream == Some(stream) && damage.reason.contains(&cut);
        if !known.iter().any(told) {
            quarantine.begin(Subject::Stream(stream))?.finish(&reason)?;
        }
    }
    Ok(())
}

/// Streams that are not whole: those that lack something, and those that were set aside, with their summaries where
/// these can be read.
fn list_impaired(
    database: &Database,
    quarantine: &Quarantine,
    lacking: BTreeMap<StreamId, String>,
    set_aside: &BTreeMap<StreamId, Broken>,
) -> Result<Vec<Impaired>, LogError> {
    let mut impaired = Vec::new();
    for (stream, reason) in lacking {
        impaired.push(Impaired { stream, entry: last_known(database, &[], stream)?, reason });
    }
    for (&stream, broken) in set_aside {
        let entry = last_known(database, &quarantine.rows_of(stream)?, stream)?;
        impaired.push(Impaired { stream, entry, reason: broken.reason.clone() });
    }
    impaired.sort_by_key(|impaired| impaired.stream);
    Ok(impaired)
}

/// The line of a stream: from the database, or else from rows that were set aside, oldest first.
fn last_known(
    database: &Database,
    aside: &[KeptRow],
    stream: StreamId,
) -> Result<Option<RawEntry>, LogError> {
    let find = |family: u8| -> Result<Vec<Vec<u8>>, LogError> {
        let wanted = keys::of(family, stream);
        let row = database.get(&wanted)?.map(|row| row.to_vec());
        let aside = aside.iter().rev().filter(|(key, _)| *key == wanted).map(|(_, row)| row.clone());
        Ok(row.into_iter().chain(aside).collect())
    };
    let lines = find(keys::SUMMARY)?;
    let line = lines.iter().find_map(|row| Some(record::read_own::<Line>(stream, row).ok()?.1));
    let heads = find(keys::HEAD)?;
    let head = heads.iter().find_map(|row| Some(record::read_own::<Head>(stream, row).ok()?.1));
    let head = head.unwrap_or_else(Head::new);
    Ok(line.map(|line| line.into_entry(stream, head.epoch, head.last)))
}

/// All that was ever found damaged here, and which streams are set aside because of it.
fn gather_damage(
    quarantine: &Quarantine,
    live: &BTreeMap<StreamId, Live>,
    set_aside: &mut BTreeMap<StreamId, Broken>,
) -> Result<Vec<Damage>, LogError> {
    let damage = quarantine.list()?;
    for entry in &damage {
        if let Some(stream) = entry.stream.filter(|stream| !live.contains_key(stream)) {
            set_aside.entry(stream).or_insert_with(|| Broken::new(entry.reason.clone()));
        }
    }
    Ok(damage)
}

/// What is to be said when the witness cannot speak for the whole log. It is told once, as a new witness is begun.
fn doubt_of(testimony: &Testimony, is_empty: bool) -> Option<Damage> {
    let reason = match testimony.damaged {
        // A new log has none yet: it is written before the first fact.
        _ if testimony.missing && !is_empty => {
            "the witness file was missing and was begun anew: whether facts were \
             lost, or this is an older copy of the log, cannot be told"
                .to_owned()
        }
        _ if testimony.unreadable => {
            "the witness file was damaged and was begun anew: whether facts were lost cannot \
             be told"
                .to_owned()
        }
        0 => return None,
        damaged => format!(
            "{damaged} notes in the witness file were damaged, and it was begun anew: whether facts of their streams \
             were lost cannot be told"
        ),
    };
    tracing::warn!(reason, "the log is damaged");
    Some(Damage { stream: None, reason, quarantine: None, is_new: true })
}
