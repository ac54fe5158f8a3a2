//! Persistence of a simulated cluster: a journal of received writes, with periodic snapshots.
//!
//! The folder contains the files `snapshot`, with the number of the current journal; `journal-<number>`, the
//! journal itself; `audit`, with earlier writes (`audit_file.rs`); and `reached`, with the length of the
//! journal (`journal_length.rs`). Every line of these files consists of a CRC-32 in hexadecimal, a space, and
//! JSON. A write is added to the journal (by `write(2)`) before it is acknowledged, so acknowledged writes
//! survive if the process is killed. The journal is not synced to disk, because a rehearsal doesn't have to
//! survive a power failure.
//!
//! The files contain the cluster's objects, including Secrets, so only the files' owner may read them.
//!
//! An incomplete last line is a torn tail and is cut off, unless the journal would then be shorter than its
//! stored length. Any other damage is an error that reports the line number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::audit::AuditEntry;
use super::audit_file::{self, AUDIT_FILE_BYTES_MAX, AuditFile};
use super::faults::CallFault;
use super::journal_length::{JournalLength, JournalLengthFile};
use super::line_format::{
    FORMAT_VERSION, SimError, byte_length, for_each_line, format_line, has_first_line, io_error, parse_line,
    read_file, write_line,
};
use super::snapshot::{Snapshot, SnapshotRef};
use super::write::Write;
use super::{SimConfig, SimState};

/// Minimum length of a journal before a snapshot replaces it. The journal must also be longer than the
/// snapshot. Opening a cluster thus takes milliseconds, and at least as many bytes of journal entries precede
/// each snapshot.
const JOURNAL_BYTES_MIN: u64 = 256 * 1024;
const SNAPSHOT_NAME: &str = "snapshot";

/// Line of a journal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Entry {
    /// First line of the first journal.
    Begin { format: u32, now: Timestamp, config: SimConfig },
    /// The cluster was opened with another configuration.
    Configure { now: Timestamp, config: SimConfig },
    /// The cluster received a write. The line includes the write's audit entry, so that the audit can be read
    /// without replaying the writes.
    Write { now: Timestamp, write: Box<Write>, fault: Option<CallFault>, audit: Vec<AuditEntry> },
}

/// Borrowed form of a journal line, for writing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum EntryRef<'a> {
    Begin { format: u32, now: Timestamp, config: &'a SimConfig },
    Configure { now: Timestamp, config: &'a SimConfig },
    Write { now: Timestamp, write: &'a Write, fault: Option<CallFault>, audit: &'a [AuditEntry] },
}

/// Effect of a journal line on the audit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum AuditLine {
    Begin(IgnoredAny),
    Configure(IgnoredAny),
    Write { audit: Vec<AuditEntry> },
}

#[derive(Deserialize)]
struct SnapshotFile<State> {
    format: u32,
    journal: u64,
    #[serde(flatten)]
    filed: AuditFile,
    state: State,
}

#[derive(Serialize)]
struct SnapshotFileRef<'a> {
    format: u32,
    journal: u64,
    #[serde(flatten)]
    filed: AuditFile,
    state: SnapshotRef<'a>,
}

/// The open journal and its position.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    number: u64,
    file: File,
    bytes: u64,
    length_file: JournalLengthFile,
    snapshot_bytes: u64,
    audit_file: AuditFile,
    /// Sequence number of the newest entry in the audit file.
    filed_sequence: u64,
}

fn journal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal-{number}"))
}

/// Opens a file for appending. Creates a missing file with access only for its owner.
fn open_for_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn read_snapshot<State: DeserializeOwned>(
    dir: &Path,
) -> Result<Option<(SnapshotFile<State>, u64)>, SimError> {
    let path = dir.join(SNAPSHOT_NAME);
    let Some(bytes) = read_file(&path)? else { return Ok(None) };
    let file: SnapshotFile<State> = parse_line(&path, 1, bytes.strip_suffix(b"\n").unwrap_or(&bytes))?;
    check_format(&path, file.format)?;
    Ok(Some((file, byte_length(&bytes))))
}

/// Reads a snapshot's journal, and returns the journal's valid length in bytes. `reached` is the stored
/// length, which the caller must read before the snapshot.
fn read_journal<T: DeserializeOwned>(
    dir: &Path,
    reached: JournalLength,
    snapshot: Option<u64>,
    mut take: impl FnMut(usize, T) -> Result<(), SimError>,
) -> Result<u64, SimError> {
    let path = journal_path(dir, snapshot.unwrap_or(0));
    if !path.try_exists().map_err(io_error(&path))? {
        match snapshot {
            // A journal is created before the snapshot that refers to it, so its absence is damage.
            Some(_) => return Err(SimError::Missing { path }),
            None if !is_new_folder(dir)? => return Err(SimError::Missing { path: dir.join(SNAPSHOT_NAME) }),
            None => {}
        }
    }
    let mut lines = 0;
    let bytes = for_each_line(&path, u64::MAX, |line, entry| {
        lines = line;
        take(line, entry)
    })?;
    // The first line of the first journal contains the cluster's configuration. Without this line, the
    // journal is ignored.
    if snapshot.is_some() || lines > 0 {
        reached.check_journal(&path, snapshot.unwrap_or(0), bytes, lines)?;
    }
    Ok(bytes)
}

/// Returns true if a folder contains at least part of a stored cluster.
pub fn has_stored_cluster(dir: &Path) -> Result<bool, SimError> {
    let snapshot = dir.join(SNAPSHOT_NAME);
    Ok(snapshot.try_exists().map_err(io_error(&snapshot))? || !is_new_folder(dir)?)
}

/// Returns true if a folder never contained a cluster, or if only the cluster's very first record was lost.
fn is_new_folder(dir: &Path) -> Result<bool, SimError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries.map_err(io_error(dir))?,
    };
    for entry in entries {
        let name = entry.map_err(io_error(dir))?.file_name();
        let name = name.to_string_lossy();
        let first = journal_path(dir, 0);
        let is_first = first.file_name().is_some_and(|first| *first == *name);
        if audit_file::is_audit_file(&name) || (is_journal(&name) && (!is_first || has_first_line(&first)?)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_journal(name: &str) -> bool {
    name.starts_with("journal-")
}

fn check_format(path: &Path, found: u32) -> Result<(), SimError> {
    if found == FORMAT_VERSION { Ok(()) } else { Err(SimError::Format { path: path.to_owned(), found }) }
}

/// State of a cluster while it is restored from a journal. Without a snapshot, the journal's first line
/// contains the configuration.
struct Replay<'a> {
    path: &'a Path,
    state: Option<SimState>,
}

impl Replay<'_> {
    fn apply_entry(&mut self, line: usize, entry: Entry) -> Result<(), SimError> {
        let damaged =
            |reason: &str| SimError::Damaged { path: self.path.to_owned(), line, why: reason.to_owned() };
        match (entry, &mut self.state) {
            (Entry::Begin { format, now, config }, None) => {
                check_format(self.path, format)?;
                self.state = Some(SimState::new(config, now));
            }
            (Entry::Configure { now, config }, Some(state)) => {
                state.advance(now);
                state.configure(config);
            }
            (Entry::Write { now, write, fault, audit }, Some(state)) => {
                state.advance(now);
                let before = state.audit.last_sequence();
                // Refused writes are refused again, which is not an error.
                let _ = state.execute(&write, fault);
                if state.audit.entries_since(before) != audit.as_slice() {
                    return Err(damaged("replaying the write did not produce the recorded outcome"));
                }
            }
            (Entry::Begin { .. }, Some(_)) => return Err(damaged("the journal has a second Begin entry")),
            (_, None) => return Err(damaged("the journal has no Begin entry")),
        }
        Ok(())
    }
}

impl Journal {
    /// Opens the cluster in a folder, or creates a new one.
    pub(crate) fn open(dir: &Path, config: SimConfig, now: Timestamp) -> Result<(Self, SimState), SimError> {
        fs::create_dir_all(dir).map_err(io_error(dir))?;
        let reached = JournalLength::load(dir)?;
        let (number, snapshot, snapshot_bytes, audit_file) = match read_snapshot::<Snapshot>(dir)? {
            Some((file, bytes)) => (file.journal, Some(SimState::restore(file.state)), bytes, file.filed),
            None => (0, None, 0, AuditFile::default()),
        };
        let filed_sequence = snapshot.as_ref().map_or(0, |state| state.audit.last_sequence());
        let path = journal_path(dir, number);
        let of_snapshot = snapshot.is_some().then_some(number);
        let mut replay = Replay { path: &path, state: snapshot };
        let bytes = read_journal(dir, reached, of_snapshot, |line, entry| replay.apply_entry(line, entry))?;
        let stored_state = replay.state;
        let file = open_for_append(&path).map_err(io_error(&path))?;
        file.set_len(bytes).map_err(io_error(&path))?;
        remove_stale_files(dir, number, audit_file);
        let length_file = JournalLengthFile::open(dir).map_err(io_error(dir))?;
        let dir = dir.to_owned();
        let mut journal =
            Self { dir, number, file, bytes, length_file, snapshot_bytes, audit_file, filed_sequence };
        let state = match stored_state {
            None => {
                journal
                    .append(&EntryRef::Begin { format: FORMAT_VERSION, now, config: &config })
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

    /// Persists an executed write, which must not be acknowledged before this function returns.
    pub(crate) fn persist_write(
        &mut self,
        state: &mut SimState,
        write: &Write,
        fault: Option<CallFault>,
        audited: u64,
    ) -> io::Result<()> {
        let audit = state.audit.entries_since(audited);
        self.append(&EntryRef::Write { now: state.now, write, fault, audit })?;
        if self.bytes > JOURNAL_BYTES_MIN.max(self.snapshot_bytes) {
            self.rotate(state)?;
            // The rotation has written these entries to the audit file.
            state.audit.drop_entries();
        }
        Ok(())
    }

    fn append(&mut self, entry: &EntryRef<'_>) -> io::Result<()> {
        let line = format_line(entry)?;
        self.file.write_all(&line)?;
        self.bytes += byte_length(&line);
        self.length_file.write(self.number, self.bytes)
    }

    /// Starts a new journal after a snapshot. Renaming the snapshot makes both the new snapshot and the new
    /// journal valid.
    fn rotate(&mut self, state: &SimState) -> io::Result<()> {
        self.rotate_with_limit(AUDIT_FILE_BYTES_MAX, state)
    }

    /// Like `rotate`, but with a custom size limit for the audit file.
    pub(crate) fn rotate_with_limit(&mut self, filed_bytes: u64, state: &SimState) -> io::Result<()> {
        let number = self.number + 1;
        let file = open_for_append(&journal_path(&self.dir, number))?;
        file.set_len(0)?;
        let audit = state.audit.entries_since(self.filed_sequence);
        let filed = self.audit_file.append_entries(&self.dir, number, audit, filed_bytes)?;
        let temporary = self.dir.join("snapshot.new");
        let snapshot =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        let state_of =
            SnapshotFileRef { format: FORMAT_VERSION, journal: number, filed, state: state.snapshot() };
        let snapshot_bytes = write_line(&snapshot, &state_of)?;
        fs::rename(&temporary, self.dir.join(SNAPSHOT_NAME))?;
        (self.number, self.file, self.bytes) = (number, file, 0);
        (self.audit_file, self.filed_sequence, self.snapshot_bytes) =
            (filed, state.audit.last_sequence(), snapshot_bytes);
        remove_stale_files(&self.dir, number, filed);
        self.length_file.write(number, 0)
    }
}

/// Removes files not referenced by the snapshot.
fn remove_stale_files(dir: &Path, number: u64, filed: AuditFile) {
    let named = [journal_path(dir, number), filed.path(dir)];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if (is_journal(&name) || audit_file::is_audit_file(&name)) && !named.contains(&entry.path()) {
            // A file that can't be removed only takes up space until the cluster is next opened.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Maximum number of retries after a snapshot replaces the journal during a read.
const READ_RETRIES_MAX: usize = 100;

/// Reads the audit of the cluster in a folder, in order. Doesn't need a lock, so another process may write to
/// the cluster at the same time. The audit is empty if the folder does not contain a cluster.
///
/// The oldest entries of a long audit are dropped. The sequence number of the first entry shows how many were
/// dropped.
pub fn read_audit(dir: &Path) -> Result<Vec<AuditEntry>, SimError> {
    let mut read = Ok(Vec::new());
    for _ in 0..READ_RETRIES_MAX {
        let reached = JournalLength::load(dir)?;
        let snapshot = read_snapshot::<IgnoredAny>(dir)?.map(|(file, _)| (file.journal, file.filed));
        read = read_audit_at(dir, reached, snapshot);
        if read_snapshot::<IgnoredAny>(dir)?.map(|(file, _)| file.journal)
            == snapshot.map(|(number, _)| number)
        {
            break;
        }
    }
    read
}

fn read_audit_at(
    dir: &Path,
    reached: JournalLength,
    snapshot: Option<(u64, AuditFile)>,
) -> Result<Vec<AuditEntry>, SimError> {
    let mut entries = snapshot.map_or(Ok(Vec::new()), |(_, filed)| filed.read_entries(dir))?;
    read_journal(dir, reached, snapshot.map(|(number, _)| number), |_, line| {
        match line {
            AuditLine::Begin(IgnoredAny) | AuditLine::Configure(IgnoredAny) => {}
            AuditLine::Write { audit } => entries.extend(audit),
        }
        Ok(())
    })?;
    Ok(entries)
}
