//! How a simulated cluster outlives its process: a journal of the writes it received, and now and then a snapshot.
//!
//! The folder holds `snapshot`, which names its journal by number, that journal, `journal-<number>`, and the audit of
//! what came before it (`filed.rs`); `reached` tells how long the journal was (`reached.rs`). Every line of each is a CRC-32 in hexadecimal, a space, and JSON. A write is in the
//! journal (by `write(2)`) before anybody is told of it, so a killed process loses nothing it told; it is not synced to the
//! disk, as a rehearsal need not survive a power cut.
//!
//! The files hold what a cluster holds, Secrets included, so only their owner may read them.
//!
//! The beginning of a line, without its end, is a torn tail and is cut, unless the journal is then shorter than it was. Any
//! other damage is an error that names the line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::audit::AuditEntry;
use super::faults::CallFault;
use super::filed::{self, FILED_BYTES, Filed};
use super::lines::{
    FORMAT, SimError, each_line, frame, io_error, is_begun, length, read_file, unframe, write_line,
};
use super::reached::{Reached, ReachedFile};
use super::snapshot::{Snapshot, SnapshotRef};
use super::write::Write;
use super::{SimConfig, SimState};

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

/// What a line of a journal adds to the audit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Told {
    Begin(IgnoredAny),
    Configure(IgnoredAny),
    Write { audit: Vec<AuditEntry> },
}

#[derive(Deserialize)]
struct SnapshotFile<State> {
    format: u32,
    journal: u64,
    #[serde(flatten)]
    filed: Filed,
    state: State,
}

#[derive(Serialize)]
struct SnapshotFileRef<'a> {
    format: u32,
    journal: u64,
    #[serde(flatten)]
    filed: Filed,
    state: SnapshotRef<'a>,
}

/// The file that changes are appended to, and how far it has come.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    number: u64,
    file: File,
    bytes: u64,
    reached: ReachedFile,
    snapshot_bytes: u64,
    filed: Filed,
    /// Sequence of the newest entry that is filed.
    audited: u64,
}

fn journal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal-{number}"))
}

/// Opens a file to write behind what is in it; made for its owner only.
fn to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn read_snapshot<State: DeserializeOwned>(
    dir: &Path,
) -> Result<Option<(SnapshotFile<State>, u64)>, SimError> {
    let path = dir.join(SNAPSHOT);
    let Some(bytes) = read_file(&path)? else { return Ok(None) };
    let file: SnapshotFile<State> = unframe(&path, 1, bytes.strip_suffix(b"\n").unwrap_or(&bytes))?;
    check_format(&path, file.format)?;
    Ok(Some((file, length(&bytes))))
}

/// Goes through what the journal of a snapshot says. Returns how many bytes of it are whole. `reached`: what was remembered
/// before the snapshot was read.
fn read_journal<T: DeserializeOwned>(
    dir: &Path,
    reached: Reached,
    snapshot: Option<u64>,
    mut take: impl FnMut(usize, T) -> Result<(), SimError>,
) -> Result<u64, SimError> {
    let path = journal_path(dir, snapshot.unwrap_or(0));
    if !path.try_exists().map_err(io_error(&path))? {
        match snapshot {
            // The journal is made before the snapshot that names it.
            Some(_) => return Err(SimError::Missing { path }),
            None if !is_fresh(dir)? => return Err(SimError::Missing { path: dir.join(SNAPSHOT) }),
            None => {}
        }
    }
    let mut lines = 0;
    let bytes = each_line(&path, u64::MAX, |line, entry| {
        lines = line;
        take(line, entry)
    })?;
    // A first journal without its beginning is none: the cluster that it told of is missing.
    if snapshot.is_some() || lines > 0 {
        reached.check(&path, snapshot.unwrap_or(0), bytes, lines)?;
    }
    Ok(bytes)
}

/// Whether a cluster was begun in a folder, and not all of it is gone.
pub fn is_kept(dir: &Path) -> Result<bool, SimError> {
    let snapshot = dir.join(SNAPSHOT);
    Ok(snapshot.try_exists().map_err(io_error(&snapshot))? || !is_fresh(dir)?)
}

/// Whether nothing was ever kept in a folder, or no more than the very first record is lost.
fn is_fresh(dir: &Path) -> Result<bool, SimError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries.map_err(io_error(dir))?,
    };
    for entry in entries {
        let name = entry.map_err(io_error(dir))?.file_name();
        let name = name.to_string_lossy();
        let first = journal_path(dir, 0);
        let is_first = first.file_name().is_some_and(|first| *first == *name);
        if filed::is_one(&name) || (is_journal(&name) && (!is_first || is_begun(&first)?)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_journal(name: &str) -> bool {
    name.starts_with("journal-")
}

fn check_format(path: &Path, found: u32) -> Result<(), SimError> {
    if found == FORMAT { Ok(()) } else { Err(SimError::Format { path: path.to_owned(), found }) }
}

/// A cluster that does again what a journal says. A journal without a snapshot begins with its own beginning.
struct Replay<'a> {
    path: &'a Path,
    state: Option<SimState>,
}

impl Replay<'_> {
    fn take(&mut self, line: usize, entry: Entry) -> Result<(), SimError> {
        let damaged = |why: &str| SimError::Damaged { path: self.path.to_owned(), line, why: why.to_owned() };
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
        Ok(())
    }
}

impl Journal {
    /// Opens the cluster kept in a folder, or begins one.
    pub(crate) fn open(dir: &Path, config: SimConfig, now: Timestamp) -> Result<(Self, SimState), SimError> {
        fs::create_dir_all(dir).map_err(io_error(dir))?;
        let reached = Reached::of(dir)?;
        let (number, snapshot, snapshot_bytes, filed) = match read_snapshot::<Snapshot>(dir)? {
            Some((file, bytes)) => (file.journal, Some(SimState::restore(file.state)), bytes, file.filed),
            None => (0, None, 0, Filed::default()),
        };
        let audited = snapshot.as_ref().map_or(0, |state| state.audit.last());
        let path = journal_path(dir, number);
        let of_snapshot = snapshot.is_some().then_some(number);
        let mut replay = Replay { path: &path, state: snapshot };
        let bytes = read_journal(dir, reached, of_snapshot, |line, entry| replay.take(line, entry))?;
        let kept = replay.state;
        let file = to_append(&path).map_err(io_error(&path))?;
        file.set_len(bytes).map_err(io_error(&path))?;
        remove_others(dir, number, filed);
        let reached = ReachedFile::open(dir).map_err(io_error(dir))?;
        let dir = dir.to_owned();
        let mut journal = Self { dir, number, file, bytes, reached, snapshot_bytes, filed, audited };
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
        state: &mut SimState,
        write: &Write,
        fault: Option<CallFault>,
        audited: u64,
    ) -> io::Result<()> {
        let audit = state.audit.since(audited);
        self.append(&EntryRef::Write { now: state.now, write, fault, audit })?;
        if self.bytes > JOURNAL_BYTES.max(self.snapshot_bytes) {
            self.rotate(state)?;
            // It is filed now.
            state.audit.forget();
        }
        Ok(())
    }

    fn append(&mut self, entry: &EntryRef<'_>) -> io::Result<()> {
        let line = frame(entry)?;
        self.file.write_all(&line)?;
        self.bytes += length(&line);
        self.reached.write(self.number, self.bytes)
    }

    /// Begins a new journal after a snapshot. The rename is the moment at which the new pair counts.
    fn rotate(&mut self, state: &SimState) -> io::Result<()> {
        self.rotate_within(FILED_BYTES, state)
    }

    /// The same, with a limit of its own for the audit.
    pub(crate) fn rotate_within(&mut self, filed_bytes: u64, state: &SimState) -> io::Result<()> {
        let number = self.number + 1;
        let file = to_append(&journal_path(&self.dir, number))?;
        file.set_len(0)?;
        let audit = state.audit.since(self.audited);
        let filed = self.filed.with(&self.dir, number, audit, filed_bytes)?;
        let temporary = self.dir.join("snapshot.new");
        let snapshot =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        let state_of = SnapshotFileRef { format: FORMAT, journal: number, filed, state: state.snapshot() };
        let snapshot_bytes = write_line(&snapshot, &state_of)?;
        fs::rename(&temporary, self.dir.join(SNAPSHOT))?;
        (self.number, self.file, self.bytes) = (number, file, 0);
        (self.filed, self.audited, self.snapshot_bytes) = (filed, state.audit.last(), snapshot_bytes);
        remove_others(&self.dir, number, filed);
        self.reached.write(number, 0)
    }
}

/// Removes what no snapshot names any more.
fn remove_others(dir: &Path, number: u64, filed: Filed) {
    let named = [journal_path(dir, number), filed.path(dir)];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if (is_journal(&name) || filed::is_one(&name)) && !named.contains(&entry.path()) {
            // It only takes up room, and is removed at the next opening.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// How often a reader starts again because a snapshot replaced the journal under it.
const READS_MAX: usize = 100;

/// The audit of the cluster kept in a folder, in order. Needs no lock: it may be read while another process writes.
/// A folder without a cluster has an empty audit.
///
/// The oldest entries of a long audit are gone; the sequence of the first one tells how many.
pub fn read_audit(dir: &Path) -> Result<Vec<AuditEntry>, SimError> {
    let mut read = Ok(Vec::new());
    for _ in 0..READS_MAX {
        let reached = Reached::of(dir)?;
        let snapshot = read_snapshot::<IgnoredAny>(dir)?.map(|(file, _)| (file.journal, file.filed));
        read = read_audit_of(dir, reached, snapshot);
        if read_snapshot::<IgnoredAny>(dir)?.map(|(file, _)| file.journal)
            == snapshot.map(|(number, _)| number)
        {
            break;
        }
    }
    read
}

fn read_audit_of(
    dir: &Path,
    reached: Reached,
    snapshot: Option<(u64, Filed)>,
) -> Result<Vec<AuditEntry>, SimError> {
    let mut entries = snapshot.map_or(Ok(Vec::new()), |(_, filed)| filed.read(dir))?;
    read_journal(dir, reached, snapshot.map(|(number, _)| number), |_, told| {
        match told {
            Told::Begin(IgnoredAny) | Told::Configure(IgnoredAny) => {}
            Told::Write { audit } => entries.extend(audit),
        }
        Ok(())
    })?;
    Ok(entries)
}
