//! Shared fixtures: a record type, builders, and a state directory that tests can tamper with.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidegate_model::{LogRecord, OperationPhase, StreamId, StreamKind, StreamRecords, Timestamp};
use tidegate_oplog::{
    AppendOf, Codecs, CompactionResult, Damage, Entry, Epoch, Holder, LoadedStream, LoadedStreamOf, LogError,
    LogKey, Lookup, MemoryLog, OpenOptions, OperationLog, Retention, SledLog, Store, Summary, TypedLog,
};
use uuid::Uuid;

/// Event of the test machine. The golden logs contain this format: variants may be added but never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    Began { name: String, at: Timestamp },
    Passed { wave: u32 },
    Ended { phase: OperationPhase, notes: Vec<String> },
}

impl LogRecord for Event {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 3;

    fn kind(&self) -> u16 {
        match self {
            Self::Began { .. } => 1,
            Self::Passed { .. } => 2,
            Self::Ended { .. } => 3,
        }
    }
}

/// State of the test machine, folded from its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub waves: Vec<u32>,
    pub padding: String,
}

impl LogRecord for State {
    type Earlier = Self;
}

/// Details in a listing entry. The golden logs contain their format.
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
}

impl StreamRecords for Event {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = Details;
}

pub type Log = SledLog;
pub type Memory = MemoryLog;
pub type Append = AppendOf<Event>;
pub type OperationSummary = Summary<Details>;

/// Current time in the tests, after the end of all operations.
pub const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// Test helpers for a log.
pub trait LogHelpers: OperationLog {
    /// Returns all events, starting with the first. Fails if any were compacted.
    fn all_events(&self, stream: StreamId) -> Result<Vec<Event>, LogError> {
        self.events_as::<Event>(stream).map(|history| {
            assert_eq!(history.first_sequence, 1, "the first events were compacted");
            history.events
        })
    }

    /// Compacts with this history and otherwise the default retention.
    fn compact_to_history(&self, history: usize) -> Result<CompactionResult, LogError> {
        self.compact(&Retention::with_history(history), NOW)
    }

    /// Returns the listing entries of all streams.
    fn listing(&self) -> Vec<(StreamId, OperationSummary)> {
        self.listing_of(Lookup::all())
    }

    /// Returns the listing entries of matching streams.
    fn listing_of(&self, lookup: Lookup) -> Vec<(StreamId, OperationSummary)> {
        let found = self.find_as::<Event>(lookup).unwrap();
        found.into_iter().map(|Entry { stream, summary, .. }| (stream, summary)).collect()
    }

    /// Returns the IDs of matching streams.
    fn ids_of(&self, lookup: &Lookup) -> Vec<StreamId> {
        self.find(lookup).unwrap().into_iter().map(|entry| entry.stream).collect()
    }
}

impl<L: OperationLog + ?Sized> LogHelpers for L {}

pub fn operation(number: u128) -> StreamId {
    StreamId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number))
}

pub fn waves_passed(waves: std::ops::RangeInclusive<u32>) -> Vec<Event> {
    waves.map(|wave| Event::Passed { wave }).collect()
}

pub fn operation_summary(number: u128, application: &str) -> OperationSummary {
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

pub fn finished_summary(number: u128, application: &str) -> OperationSummary {
    let mut line = operation_summary(number, application);
    line.finished_at = Some(line.started_at + std::time::Duration::from_secs(60));
    line.details.phase = OperationPhase::Succeeded;
    line
}

pub fn open_listing(number: u128, application: &str) -> (StreamId, OperationSummary) {
    (operation(number), operation_summary(number, application))
}

pub fn ended_listing(number: u128, application: &str) -> (StreamId, OperationSummary) {
    (operation(number), finished_summary(number, application))
}

/// Returns an append to an operation of the application `shop`.
pub fn append_to_shop(number: u128, first_sequence: u64, events: Vec<Event>) -> Append {
    Append::new(operation(number), first_sequence, events, operation_summary(number, "shop"))
}

/// Log that can be closed and reopened, in any storage.
pub trait ReopenableLog {
    type Log: Store;
    fn create() -> Self;
    fn open(&mut self) -> &Self::Log;
    fn reopen(&mut self) -> &Self::Log;
}

impl ReopenableLog for Memory {
    type Log = Self;

    fn create() -> Self {
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

/// Temporary state directory, removed on drop.
pub struct Disk {
    log: Option<Log>,
    pub folder: TempDir,
}

impl ReopenableLog for Disk {
    type Log = Log;

    fn create() -> Self {
        Self { log: None, folder: tempfile::tempdir().unwrap() }
    }

    fn open(&mut self) -> &Log {
        let path = self.path();
        self.log.get_or_insert_with(|| open_log(&path).unwrap())
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

    /// Replaces the log with one opened differently.
    pub fn replace_log(&mut self, log: Log) -> &Log {
        self.log.insert(log)
    }

    /// Runs `tamper` on the database tree with the log closed.
    pub fn tamper(&mut self, tamper: impl FnOnce(&sled::Db)) {
        self.close();
        let db = open_database(&self.path());
        tamper(&db);
        db.flush().unwrap();
    }

    /// Returns the path of sled's data file.
    pub fn db_file(&self) -> PathBuf {
        self.path().join("log/db")
    }
}

pub fn test_holder() -> Holder {
    Holder {
        pid: 41,
        command: "tidegate sync shop".to_owned(),
        since: Timestamp::from_millis(1_795_253_400_250),
    }
}

/// Returns the damage that a later open reports. Damage to the witness is reported only once.
pub fn without_new_damage(damage: &[Damage]) -> Vec<Damage> {
    let lasting = damage.iter().filter(|damage| !is_witness_damage(damage));
    lasting.map(|damage| Damage { is_new: false, ..damage.clone() }).collect()
}

/// Returns true for damage to the witness.
pub fn is_witness_damage(damage: &Damage) -> bool {
    damage.stream.is_none() && damage.reason.contains("the witness file")
}

/// Returns options with the fixed key that seals the golden logs.
pub fn open_options() -> OpenOptions {
    OpenOptions { holder: test_holder(), key: Some(LogKey::new(&[7; 32])), codecs: test_codecs() }
}

pub fn test_codecs() -> Codecs {
    Codecs::for_kind::<Event>()
}

pub fn open_log(path: &Path) -> Result<Log, LogError> {
    SledLog::open(path, open_options())
}

/// Opens a log's database tree directly. Waits for the threads of a log just closed.
pub fn open_database(path: &Path) -> sled::Db {
    for _ in 0..500 {
        match sled::Config::new().path(path.join("log")).cache_capacity(1 << 20).open() {
            Ok(db) => return db,
            Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(10)),
        }
    }
    panic!("the tree of {} does not open", path.display());
}

pub fn loaded_stream(events: Vec<Event>, last_sequence: u64) -> LoadedStreamOf<Event> {
    LoadedStream { kind: Event::KIND, epoch: Epoch::FIRST, snapshot: None, events, last_sequence }
}

/// Returns the damage reports about an operation.
pub fn damage_reasons(damage: &[Damage], number: u128) -> Vec<&str> {
    let of = Some(operation(number));
    damage.iter().filter(|damage| damage.stream == of).map(|damage| damage.reason.as_str()).collect()
}

/// Traits of the log's API.
pub mod prelude {
    pub use tidegate_oplog::{Blobs as _, Inventories as _, OperationLog as _, TypedLog as _};

    pub use super::LogHelpers as _;
}
