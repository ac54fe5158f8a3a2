//! What the tests share: a type of record, builders, and a state directory that can be tampered with.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidegate_model::{LogRecord, OperationPhase, Records, StreamId, StreamKind, Timestamp};
use tidegate_oplog::{
    AppendOf, Codecs, Compacted, Damage, Entry, Epoch, Holder, Loaded, LoadedOf, LogError, LogKey, Lookup,
    MemoryLog, OpenOptions, OperationLog, Retention, SledLog, Store, Summary, TypedLog,
};
use uuid::Uuid;

/// A fact. Its shape is in the golden log: variants may be added, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    Began { name: String, at: Timestamp },
    Passed { wave: u32 },
    Ended { phase: OperationPhase, notes: Vec<String> },
}

impl LogRecord for Fact {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 3;
    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Began { .. } => 1,
            Self::Passed { .. } => 2,
            Self::Ended { .. } => 3,
        }
    }
}

/// A state: the fold of the facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub waves: Vec<u32>,
    pub padding: String,
}

impl LogRecord for State {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 1;
    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        1
    }
}

/// What a list says. Its shape is that of operations in the first format, which the golden logs hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    pub destination: String,
    pub phase: OperationPhase,
    pub paused: bool,
    pub message: String,
    pub waves: (u32, u32),
}

impl LogRecord for Details {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 1;
    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        1
    }
}

impl Records for Fact {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = Details;
}

pub type Log = SledLog;
pub type Memory = MemoryLog;
pub type Append = AppendOf<Fact>;
pub type Line = Summary<Details>;

/// A while after everything ended.
pub const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// The log, as tests look at it.
pub trait Look: OperationLog {
    /// From the first on: none may have been compacted.
    fn all(&self, stream: StreamId) -> Result<Vec<Fact>, LogError> {
        self.facts_as::<Fact>(stream).map(|history| {
            assert_eq!(history.first_sequence, 1, "the first facts are gone");
            history.facts
        })
    }

    /// Compacts, and keeps the usual but for the history.
    fn tidy(&self, history: usize) -> Result<Compacted, LogError> {
        self.compact(&Retention::of_history(history), NOW)
    }

    /// What is said of each stream.
    fn lines(&self) -> Vec<(StreamId, Line)> {
        self.lines_of(Lookup::all())
    }

    /// What is said of some streams.
    fn lines_of(&self, lookup: Lookup) -> Vec<(StreamId, Line)> {
        let found = self.find_as::<Fact>(lookup).unwrap();
        found.into_iter().map(|Entry { stream, summary, .. }| (stream, summary)).collect()
    }

    /// The ids of some streams.
    fn ids_of(&self, lookup: &Lookup) -> Vec<StreamId> {
        self.find(lookup).unwrap().into_iter().map(|entry| entry.stream).collect()
    }
}

impl<L: OperationLog + ?Sized> Look for L {}

pub fn operation(number: u128) -> StreamId {
    StreamId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number))
}

pub fn passed(waves: std::ops::RangeInclusive<u32>) -> Vec<Fact> {
    waves.map(|wave| Fact::Passed { wave }).collect()
}

pub fn summary(number: u128, application: &str) -> Line {
    Summary {
        application: Some(application.to_owned()),
        set: None,
        started_at: Timestamp::from_millis(1_000 * i64::try_from(number).unwrap()),
        finished_at: None,
        details: Details {
            destination: "in-cluster".to_owned(),
            phase: OperationPhase::Running,
            paused: false,
            message: "waiting for healthy state".to_owned(),
            waves: (1, 3),
        },
    }
}

pub fn finished(number: u128, application: &str) -> Line {
    let mut line = summary(number, application);
    line.finished_at = Some(line.started_at + std::time::Duration::from_secs(60));
    line.details.phase = OperationPhase::Succeeded;
    line
}

/// An open operation as it is listed.
pub fn open_line(number: u128, application: &str) -> (StreamId, Line) {
    (operation(number), summary(number, application))
}

/// One that is over.
pub fn ended_line(number: u128, application: &str) -> (StreamId, Line) {
    (operation(number), finished(number, application))
}

/// Facts of an operation of the application `shop`.
pub fn append(number: u128, first_sequence: u64, facts: Vec<Fact>) -> Append {
    Append::new(operation(number), first_sequence, facts, summary(number, "shop"))
}

/// A log that can be closed and opened again, whatever keeps it.
pub trait Kept {
    type Log: Store;
    fn fresh() -> Self;
    fn open(&mut self) -> &Self::Log;
    fn reopen(&mut self) -> &Self::Log;
}

impl Kept for Memory {
    type Log = Self;

    fn fresh() -> Self {
        Self::new()
    }

    fn open(&mut self) -> &Self {
        self
    }

    fn reopen(&mut self) -> &Self {
        *self = MemoryLog::reopen(self);
        self
    }
}

/// A state directory of its own, removed in the end.
pub struct Disk {
    log: Option<Log>,
    pub folder: TempDir,
}

impl Kept for Disk {
    type Log = Log;

    fn fresh() -> Self {
        Self { log: None, folder: tempfile::tempdir().unwrap() }
    }

    fn open(&mut self) -> &Log {
        let path = self.path();
        self.log.get_or_insert_with(|| open(&path).unwrap())
    }

    fn reopen(&mut self) -> &Log {
        self.close();
        self.open()
    }
}

impl Disk {
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub fn close(&mut self) {
        self.log = None;
    }

    /// A log that was opened in another way.
    pub fn put(&mut self, log: Log) -> &Log {
        self.log.insert(log)
    }

    /// Lets `tamper` at the tree while the log is closed.
    pub fn tamper(&mut self, tamper: impl FnOnce(&sled::Db)) {
        self.close();
        let db = raw(&self.path());
        tamper(&db);
        db.flush().unwrap();
    }

    /// The bytes of sled's data file, and where it is.
    pub fn db_file(&self) -> PathBuf {
        self.path().join("log/db")
    }
}

pub fn holder() -> Holder {
    Holder {
        pid: 41,
        command: "tidegate sync shop".to_owned(),
        since: Timestamp::from_millis(1_795_253_400_250),
    }
}

/// The same damage as a later opening knows it. What is amiss with the witness is told once.
pub fn known(damage: &[Damage]) -> Vec<Damage> {
    let lasting = damage.iter().filter(|damage| !is_of_witness(damage));
    lasting.map(|damage| Damage { is_new: false, ..damage.clone() }).collect()
}

/// Whether a report is about the witness.
pub fn is_of_witness(damage: &Damage) -> bool {
    damage.stream.is_none() && damage.reason.contains("the witness file")
}

/// With a fixed key: golden logs are sealed with it.
pub fn options() -> OpenOptions {
    OpenOptions { holder: holder(), key: Some(LogKey::new(&[7; 32])), codecs: codecs() }
}

pub fn codecs() -> Codecs {
    Codecs::of::<Fact>()
}

pub fn open(path: &Path) -> Result<Log, LogError> {
    SledLog::open(path, options())
}

/// Opens a log's tree past the log; waits for threads of the log that has just been closed.
pub fn raw(path: &Path) -> sled::Db {
    for _ in 0..500 {
        match sled::Config::new().path(path.join("log")).cache_capacity(1 << 20).open() {
            Ok(db) => return db,
            Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(10)),
        }
    }
    panic!("the tree of {} does not open", path.display());
}

pub fn loaded(facts: Vec<Fact>, last_sequence: u64) -> LoadedOf<Fact> {
    Loaded { kind: Fact::KIND, epoch: Epoch::FIRST, snapshot: None, facts, last_sequence }
}

/// The reports about an operation.
pub fn reasons(damage: &[Damage], number: u128) -> Vec<&str> {
    let of = Some(operation(number));
    damage.iter().filter(|damage| damage.stream == of).map(|damage| damage.reason.as_str()).collect()
}

/// A row as a program of an earlier kind framed it, without the last byte of its content.
pub fn of_kind(kind: u16, row: &[u8]) -> Vec<u8> {
    let (header, content) = row.split_at(41);
    let (mut bytes, content) = (header[..37].to_vec(), &content[..content.len() - 1]);
    bytes[6..8].copy_from_slice(&kind.to_le_bytes());
    bytes[33..37].copy_from_slice(&u32::try_from(content.len()).unwrap().to_le_bytes());
    let checksum = crc32fast::hash(&[&bytes, content].concat());
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// The traits through which a log is used.
pub mod prelude {
    pub use tidegate_oplog::{Blobs as _, Inventories as _, OperationLog as _, TypedLog as _};

    pub use super::Look as _;
}
