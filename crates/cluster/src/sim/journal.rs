//! How a simulated cluster outlives its process: a journal of the writes it received, and now and then a snapshot.
//!
//! The folder holds `snapshot`, which names its journal by number, and that journal, `journal-<number>`. Every line of
//! either is a CRC-32 in hexadecimal, a space, and JSON. A write is in the journal (by `write(2)`) before anybody is
//! told of it, so a killed process loses nothing it told; it is not synced to the disk, as a rehearsal need not
//! survive a power cut.
//!
//! A line without its end is a torn tail and is cut. Any other damage is an error that names the line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::audit::AuditEntry;
use super::faults::CallFault;
use super::snapshot::Snapshot;
use super::write::Write;
use super::{SimConfig, SimState};

/// Why a kept cluster cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A file is not what was written.
    #[error("{} is damaged in line {line}: {why}; the simulated cluster cannot be restored from it", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The files were written by a program with another idea of the simulation.
    #[error("{} was written in format {found}, this program reads format {FORMAT}; remove the folder to begin with an empty cluster", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// Changes whenever the same writes would lead to another state, as well as when the files look different.
const FORMAT: u32 = 1;
/// A journal is replaced by a snapshot when it is longer than this, and than the snapshot: so opening stays a matter
/// of milliseconds, and a snapshot is written only after as many bytes of journal.
const JOURNAL_BYTES: u64 = 256 * 1024;
const SNAPSHOT: &str = "snapshot";

/// One line of a journal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Entry {
    /// The first line of the first journal.
    Begin { format: u32, now: Timestamp, config: SimConfig },
    /// The cluster was opened with another configuration.
    Configure { now: Timestamp, config: SimConfig },
    /// A write was received. The audit is kept as well, so that it can be read without replaying anything.
    Write { now: Timestamp, write: Box<Write>, fault: Option<CallFault>, audit: Vec<AuditEntry> },
}

/// The same, borrowed for writing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum EntryRef<'a> {
    Begin { format: u32, now: Timestamp, config: &'a SimConfig },
    Configure { now: Timestamp, config: &'a SimConfig },
    Write { now: Timestamp, write: &'a Write, fault: Option<CallFault>, audit: &'a [AuditEntry] },
}

#[derive(Deserialize)]
struct SnapshotFile {
    format: u32,
    journal: u64,
    state: Snapshot,
}

#[derive(Serialize)]
struct SnapshotRef<'a> {
    format: u32,
    journal: u64,
    state: &'a Snapshot,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    number: u64,
    file: File,
    bytes: u64,
    snapshot_bytes: u64,
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> SimError {
    let path = path.to_owned();
    move |source| SimError::Io { path, source }
}

fn journal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal-{number}"))
}

/// A line as it is written.
fn frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    // The checksum is put in front when the rest is known.
    let mut line = b"00000000 ".to_vec();
    serde_json::to_writer(&mut line, value)?;
    let sum = crc32fast::hash(line.get(9..).unwrap_or_default());
    line.splice(..8, format!("{sum:08x}").into_bytes());
    line.push(b'\n');
    Ok(line)
}

/// Reads one complete line, without its end.
fn unframe<T: DeserializeOwned>(path: &Path, line: usize, bytes: &[u8]) -> Result<T, SimError> {
    let damaged = |why: String| SimError::Damaged { path: path.to_owned(), line, why };
    let (sum, body) = bytes.split_at_checked(9).ok_or_else(|| damaged("it is too short".to_owned()))?;
    let sum = std::str::from_utf8(sum).ok().and_then(|text| u32::from_str_radix(text.trim_end(), 16).ok());
    if sum != Some(crc32fast::hash(body)) {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))
}

/// The complete lines of a journal, and how many bytes they are.
fn read_lines(path: &Path) -> Result<(Vec<Entry>, u64), SimError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(io_error(path))?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n');
    let entries =
        lines.enumerate().map(|(at, line)| unframe(path, at + 1, line.strip_suffix(b"\n").unwrap_or(line)));
    Ok((entries.collect::<Result<_, _>>()?, u64::try_from(whole).unwrap_or(u64::MAX)))
}

fn read_snapshot(dir: &Path) -> Result<Option<(SnapshotFile, u64)>, SimError> {
    let path = dir.join(SNAPSHOT);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(io_error(&path))?,
    };
    let file: SnapshotFile = unframe(&path, 1, bytes.strip_suffix(b"\n").unwrap_or(&bytes))?;
    check_format(&path, file.format)?;
    Ok(Some((file, u64::try_from(bytes.len()).unwrap_or(u64::MAX))))
}

fn check_format(path: &Path, found: u32) -> Result<(), SimError> {
    if found == FORMAT { Ok(()) } else { Err(SimError::Format { path: path.to_owned(), found }) }
}

/// Does again what a journal says. A journal without a snapshot begins with its own beginning.
fn replay(path: &Path, state: Option<SimState>, entries: Vec<Entry>) -> Result<Option<SimState>, SimError> {
    let mut state = state;
    for (at, entry) in entries.into_iter().enumerate() {
        let damaged =
            |why: &str| SimError::Damaged { path: path.to_owned(), line: at + 1, why: why.to_owned() };
        match (entry, &mut state) {
            (Entry::Begin { format, now, config }, None) => {
                check_format(path, format)?;
                state = Some(SimState::new(config, now));
            }
            (Entry::Configure { now, config }, Some(state)) => {
                state.advance(now);
                state.configure(config);
            }
            (Entry::Write { now, write, fault, audit }, Some(state)) => {
                state.advance(now);
                let before = state.audit().len();
                // A refusal was an answer then, and is one now.
                let _ = state.execute(&write, fault);
                if state.audit().get(before..) != Some(audit.as_slice()) {
                    return Err(damaged("the write does not have the outcome it had"));
                }
            }
            (Entry::Begin { .. }, Some(_)) => return Err(damaged("a second beginning")),
            (_, None) => return Err(damaged("there is no beginning")),
        }
    }
    Ok(state)
}

impl Journal {
    /// Opens the cluster kept in a folder, or begins one.
    pub(crate) fn open(dir: &Path, config: SimConfig, now: Timestamp) -> Result<(Self, SimState), SimError> {
        fs::create_dir_all(dir).map_err(io_error(dir))?;
        let (number, snapshot, snapshot_bytes) = match read_snapshot(dir)? {
            Some((file, bytes)) => (file.journal, Some(SimState::restore(file.state)), bytes),
            None => (0, None, 0),
        };
        let path = journal_path(dir, number);
        let (entries, bytes) = read_lines(&path)?;
        let kept = replay(&path, snapshot, entries)?;
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io_error(&path))?;
        file.set_len(bytes).map_err(io_error(&path))?;
        remove_others(dir, number);
        let mut journal = Self { dir: dir.to_owned(), number, file, bytes, snapshot_bytes };
        let state = match kept {
            None => {
                journal
                    .append(&EntryRef::Begin { format: FORMAT, now, config: &config })
                    .map_err(io_error(&path))?;
                SimState::new(config, now)
            }
            Some(state) => journal.reconfigure(state, config, now).map_err(io_error(&path))?,
        };
        Ok((journal, state))
    }

    fn reconfigure(
        &mut self,
        mut state: SimState,
        config: SimConfig,
        now: Timestamp,
    ) -> io::Result<SimState> {
        let config = SimConfig { seed: state.config.seed, ..config };
        if config != state.config {
            let now = state.advance(now);
            self.append(&EntryRef::Configure { now, config: &config })?;
            state.configure(config);
        }
        Ok(state)
    }

    /// Keeps a write that was just done. It may be told to others only after this.
    pub(crate) fn keep(
        &mut self,
        state: &SimState,
        write: &Write,
        fault: Option<CallFault>,
        audit_from: usize,
    ) -> io::Result<()> {
        let audit = state.audit().get(audit_from..).unwrap_or_default();
        self.append(&EntryRef::Write { now: state.now, write, fault, audit })?;
        if self.bytes > JOURNAL_BYTES.max(self.snapshot_bytes) {
            self.rotate(state)?;
        }
        Ok(())
    }

    fn append(&mut self, entry: &EntryRef<'_>) -> io::Result<()> {
        let line = frame(entry)?;
        self.file.write_all(&line)?;
        self.bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Begins a new journal after a snapshot. The rename is the moment at which the new pair counts.
    pub(crate) fn rotate(&mut self, state: &SimState) -> io::Result<()> {
        let number = self.number + 1;
        let file = OpenOptions::new().create(true).append(true).open(journal_path(&self.dir, number))?;
        file.set_len(0)?;
        let line = frame(&SnapshotRef { format: FORMAT, journal: number, state: &state.snapshot() })?;
        let temporary = self.dir.join("snapshot.new");
        fs::write(&temporary, &line)?;
        fs::rename(&temporary, self.dir.join(SNAPSHOT))?;
        let old = journal_path(&self.dir, self.number);
        (self.number, self.file, self.bytes) = (number, file, 0);
        self.snapshot_bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        // A journal left behind is removed at the next opening.
        let _ = fs::remove_file(old);
        Ok(())
    }
}

/// Removes journals that no snapshot names any more.
fn remove_others(dir: &Path, number: u64) {
    let current = journal_path(dir, number);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_journal = entry.file_name().to_string_lossy().starts_with("journal-");
        if is_journal && entry.path() != current {
            // It only takes up room.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// How often a reader starts again because a snapshot replaced the journal under it.
const READS_MAX: usize = 100;

/// The audit of the cluster kept in a folder, in order. Needs no lock: it may be read while another process writes.
/// A folder without a cluster has an empty audit.
pub fn read_audit(dir: &Path) -> Result<Vec<AuditEntry>, SimError> {
    let mut last = Vec::new();
    for _ in 0..READS_MAX {
        let (number, mut entries) = match read_snapshot(dir)? {
            Some((file, _)) => (file.journal, file.state.audit.into_entries()),
            None => (0, Vec::new()),
        };
        for entry in read_lines(&journal_path(dir, number))?.0 {
            if let Entry::Write { audit, .. } = entry {
                entries.extend(audit);
            }
        }
        let now = read_snapshot(dir)?.map_or(0, |(file, _)| file.journal);
        if now == number {
            return Ok(entries);
        }
        last = entries;
    }
    Ok(last)
}
