//! How a simulated cluster outlives its process: a journal of the writes it received, and now and then a snapshot.
//!
//! The folder holds `snapshot`, which names its journal by number, that journal, `journal-<number>`, and `audit`, the
//! audit of everything before it. Every line of each is a CRC-32 in hexadecimal, a space, and JSON. A write is in the journal (by `write(2)`) before anybody is
//! told of it, so a killed process loses nothing it told; it is not synced to the disk, as a rehearsal need not
//! survive a power cut.
//!
//! The files hold what a cluster holds, Secrets included, so only their owner may read them.
//!
//! A line without its end is a torn tail and is cut. Any other damage is an error that names the line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::audit::AuditEntry;
use super::faults::CallFault;
use super::lines::{FORMAT, SimError, frame, io_error, length, parse_lines, read_file, read_lines, unframe};
use super::snapshot::Snapshot;
use super::write::Write;
use super::{SimConfig, SimState};

/// A journal is replaced by a snapshot when it is longer than this, and than the snapshot: so opening stays a matter
/// of milliseconds, and a snapshot is written only after as many bytes of journal.
const JOURNAL_BYTES: u64 = 256 * 1024;
const SNAPSHOT: &str = "snapshot";
const AUDIT: &str = "audit";

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
    /// How much of the file `audit` counts. What follows was written by a process killed before its snapshot was made.
    audit_bytes: u64,
    state: Snapshot,
}

#[derive(Serialize)]
struct SnapshotRef<'a> {
    format: u32,
    journal: u64,
    audit_bytes: u64,
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
    audit_bytes: u64,
    /// Sequence of the newest entry in the file `audit`.
    audited: u64,
}

fn journal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal-{number}"))
}

/// Opens a file to write behind what is in it; made for its owner only.
fn to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn read_snapshot(dir: &Path) -> Result<Option<(SnapshotFile, u64)>, SimError> {
    let path = dir.join(SNAPSHOT);
    let Some(bytes) = read_file(&path)? else { return Ok(None) };
    let file: SnapshotFile = unframe(&path, 1, bytes.strip_suffix(b"\n").unwrap_or(&bytes))?;
    check_format(&path, file.format)?;
    Ok(Some((file, length(&bytes))))
}

/// What the journal of a snapshot says, and how many bytes of it are whole.
fn read_journal(dir: &Path, snapshot: Option<u64>) -> Result<(Vec<Entry>, u64), SimError> {
    let path = journal_path(dir, snapshot.unwrap_or(0));
    if !path.try_exists().map_err(io_error(&path))? {
        match snapshot {
            // The journal is made before the snapshot that names it.
            Some(_) => return Err(SimError::Missing { path }),
            None if !is_fresh(dir)? => return Err(SimError::Missing { path: dir.join(SNAPSHOT) }),
            None => {}
        }
    }
    read_lines(&path)
}

/// Whether nothing was ever kept in a folder.
fn is_fresh(dir: &Path) -> Result<bool, SimError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries.map_err(io_error(dir))?,
    };
    for entry in entries {
        let name = entry.map_err(io_error(dir))?.file_name();
        if name == AUDIT || name.to_string_lossy().starts_with("journal-") {
            return Ok(false);
        }
    }
    Ok(true)
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
                let before = state.audit.last();
                // A refusal was an answer then, and is one now.
                let _ = state.execute(&write, fault);
                if state.audit.since(before) != audit.as_slice() {
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
        let (number, snapshot, snapshot_bytes, audit_bytes) = match read_snapshot(dir)? {
            Some((file, bytes)) => {
                (file.journal, Some(SimState::restore(file.state)), bytes, file.audit_bytes)
            }
            None => (0, None, 0, 0),
        };
        let audited = snapshot.as_ref().map_or(0, |state| state.audit.last());
        let path = journal_path(dir, number);
        let (entries, bytes) = read_journal(dir, snapshot.is_some().then_some(number))?;
        let kept = replay(&path, snapshot, entries)?;
        let file = to_append(&path).map_err(io_error(&path))?;
        file.set_len(bytes).map_err(io_error(&path))?;
        remove_others(dir, number);
        let mut journal =
            Self { dir: dir.to_owned(), number, file, bytes, snapshot_bytes, audit_bytes, audited };
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
        audited: u64,
    ) -> io::Result<()> {
        let audit = state.audit.since(audited);
        self.append(&EntryRef::Write { now: state.now, write, fault, audit })?;
        if self.bytes > JOURNAL_BYTES.max(self.snapshot_bytes) {
            self.rotate(state)?;
        }
        Ok(())
    }

    fn append(&mut self, entry: &EntryRef<'_>) -> io::Result<()> {
        let line = frame(entry)?;
        self.file.write_all(&line)?;
        self.bytes += length(&line);
        Ok(())
    }

    /// Begins a new journal after a snapshot. The rename is the moment at which the new pair counts.
    pub(crate) fn rotate(&mut self, state: &SimState) -> io::Result<()> {
        let number = self.number + 1;
        let file = to_append(&journal_path(&self.dir, number))?;
        file.set_len(0)?;
        let audit_bytes = self.file_audit(state)?;
        let line =
            frame(&SnapshotRef { format: FORMAT, journal: number, audit_bytes, state: &state.snapshot() })?;
        let temporary = self.dir.join("snapshot.new");
        let mut snapshot = to_append(&temporary)?;
        snapshot.set_len(0)?;
        snapshot.write_all(&line)?;
        fs::rename(&temporary, self.dir.join(SNAPSHOT))?;
        let old = journal_path(&self.dir, self.number);
        (self.number, self.file, self.bytes) = (number, file, 0);
        (self.audit_bytes, self.audited) = (audit_bytes, state.audit.last());
        self.snapshot_bytes = length(&line);
        // A journal left behind is removed at the next opening.
        let _ = fs::remove_file(old);
        Ok(())
    }
}

impl Journal {
    /// Puts the audit of this journal behind that of the earlier ones. Returns how long it is then.
    fn file_audit(&self, state: &SimState) -> io::Result<u64> {
        let mut lines = Vec::new();
        for entry in state.audit.since(self.audited) {
            lines.extend(frame(entry)?);
        }
        let mut file = to_append(&self.dir.join(AUDIT))?;
        file.set_len(self.audit_bytes)?;
        file.write_all(&lines)?;
        Ok(self.audit_bytes + length(&lines))
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

/// The audit of earlier journals.
fn read_filed(dir: &Path, bytes: u64) -> Result<Vec<AuditEntry>, SimError> {
    let path = dir.join(AUDIT);
    let all = read_file(&path)?.ok_or_else(|| SimError::Missing { path: path.clone() })?;
    let counted = usize::try_from(bytes).ok().and_then(|bytes| all.get(..bytes));
    let short = || SimError::Damaged { path: path.clone(), line: 1, why: "it is too short".to_owned() };
    parse_lines(&path, counted.ok_or_else(short)?)
}

/// How often a reader starts again because a snapshot replaced the journal under it.
const READS_MAX: usize = 100;

/// The audit of the cluster kept in a folder, in order. Needs no lock: it may be read while another process writes.
/// A folder without a cluster has an empty audit.
pub fn read_audit(dir: &Path) -> Result<Vec<AuditEntry>, SimError> {
    let mut last = Vec::new();
    for _ in 0..READS_MAX {
        let (snapshot, mut entries) = match read_snapshot(dir)? {
            Some((file, _)) => (Some(file.journal), read_filed(dir, file.audit_bytes)?),
            None => (None, Vec::new()),
        };
        let read = read_journal(dir, snapshot);
        if read_snapshot(dir)?.map(|(file, _)| file.journal) != snapshot {
            last = entries;
            continue;
        }
        for entry in read?.0 {
            if let Entry::Write { audit, .. } = entry {
                entries.extend(audit);
            }
        }
        return Ok(entries);
    }
    Ok(last)
}
