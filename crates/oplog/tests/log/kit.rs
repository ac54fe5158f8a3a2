//! What the tests share: a type of record, builders, and a state directory that can be tampered with.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidegate_model::{LogRecord, OperationId, OperationPhase, Timestamp};
use tidegate_oplog::{
    Append, Damage, Holder, Loaded, LogError, LogKey, MemoryLog, OpenOptions, OperationLog, SledLog, Summary,
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

pub type Log = SledLog<Fact, State>;
pub type Memory = MemoryLog<Fact, State>;

pub fn operation(number: u128) -> OperationId {
    OperationId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number))
}

pub fn passed(waves: std::ops::RangeInclusive<u32>) -> Vec<Fact> {
    waves.map(|wave| Fact::Passed { wave }).collect()
}

pub fn summary(number: u128, application: &str) -> Summary {
    Summary {
        operation: operation(number),
        application: application.to_owned(),
        destination: "in-cluster".to_owned(),
        phase: OperationPhase::Running,
        paused: false,
        message: "waiting for healthy state".to_owned(),
        started_at: Timestamp::from_millis(1_000 * i64::try_from(number).unwrap()),
        finished_at: None,
        waves: (1, 3),
    }
}

pub fn finished(number: u128, application: &str) -> Summary {
    let started = summary(number, application);
    let finished_at = Some(started.started_at + std::time::Duration::from_secs(60));
    Summary { phase: OperationPhase::Succeeded, finished_at, ..started }
}

/// Facts of an operation of the application `shop`.
pub fn append(number: u128, first_sequence: u64, facts: Vec<Fact>) -> Append<Fact, State> {
    Append {
        operation: operation(number),
        first_sequence,
        facts,
        snapshot: None,
        summary: summary(number, "shop"),
        blobs: Vec::new(),
        inventory: None,
    }
}

/// A log that can be closed and opened again, whatever keeps it.
pub trait Kept {
    type Log: OperationLog<Fact, State>;
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

/// The same damage as a later opening knows it.
pub fn known(damage: &[Damage]) -> Vec<Damage> {
    damage.iter().map(|damage| Damage { is_new: false, ..damage.clone() }).collect()
}

/// With a fixed key: golden logs are sealed with it.
pub fn options() -> OpenOptions {
    OpenOptions { holder: holder(), key: Some(LogKey::new(&[7; 32])) }
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

pub fn loaded(facts: Vec<Fact>, last_sequence: u64) -> Loaded<Fact, State> {
    Loaded { snapshot: None, facts, last_sequence }
}

/// The reports about an operation.
pub fn reasons(damage: &[Damage], number: u128) -> Vec<&str> {
    let of = Some(operation(number));
    damage.iter().filter(|damage| damage.operation == of).map(|damage| damage.reason.as_str()).collect()
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
