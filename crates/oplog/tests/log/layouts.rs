//! Layouts of rows and their records. Earlier layouts are read and continued. Logs with unknown layouts are
//! rejected unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, OperationPhase, StreamKind, StreamRecords, Timestamp};
use tidegate_oplog::{AppendOf, Codecs, LogError, OpenOptions, SledLog};

use crate::files::copy_folder;
use crate::golden;
use crate::kit::prelude::*;
use crate::kit::{
    self, Disk, Event, ReopenableLog as _, State, append_to_shop, open_options, operation, operation_summary,
    test_codecs, waves_passed,
};

/// Returns all files below a folder.
fn read_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(read_files(&path));
        } else if path.file_name().unwrap() != "holder" {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Returns the names of the layout files.
fn layout_files(disk: &Disk) -> Vec<String> {
    let entries = fs::read_dir(disk.path().join("log")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("layout-")).collect()
}

/// Returns a state directory with one operation and a closed log.
fn closed_disk() -> Disk {
    let mut disk = Disk::create();
    disk.open().append_all(vec![append_to_shop(1, 1, waves_passed(1..=2))]).unwrap();
    disk.close();
    drop(kit::open_database(&disk.path()));
    disk
}

/// Tries to open a log for writing and for reading, and returns the errors. Checks that nothing changes.
fn open_errors(disk: &Disk) -> [LogError; 2] {
    let before = read_files(&disk.path());
    let errors = [
        SledLog::open(disk.path(), open_options()).unwrap_err(),
        SledLog::open_read_only(disk.path(), None, test_codecs()).unwrap_err(),
    ];
    assert_eq!(read_files(&disk.path()), before);
    errors
}

#[test]
fn a_log_of_a_later_layout_is_refused_and_unchanged() {
    let disk = closed_disk();
    assert_eq!(layout_files(&disk), ["layout-1"]);
    fs::write(disk.path().join("log/layout-2"), "").unwrap();
    for error in open_errors(&disk) {
        assert!(matches!(error, LogError::NewerLayout { found: 2, known: 1, .. }), "{error:?}");
        let text =
            "was written by a newer version of Tidegate (layout 2; this version supports layouts up to 1)";
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_log_of_a_preview_is_refused_and_unchanged() {
    let disk = closed_disk();
    fs::remove_file(disk.path().join("log/layout-1")).unwrap();
    for has_folder in [false, true] {
        if has_folder {
            fs::create_dir(disk.path().join("log/layout-2-needs-a-newer-tidegate")).unwrap();
        }
        for error in open_errors(&disk) {
            assert!(matches!(error, LogError::UnknownLayout { .. }), "{error:?}");
            assert!(error.to_string().contains("another version of Tidegate"), "{error}");
        }
    }
}

#[test]
fn an_earlier_log_is_marked_only_when_it_is_written_to() {
    let disk = closed_disk();
    fs::rename(disk.path().join("log/layout-1"), disk.path().join("log/layout-0")).unwrap();
    let log = SledLog::open(disk.path(), open_options()).unwrap();
    assert_eq!(log.listing().len(), 1);
    assert_eq!(
        layout_files(&disk),
        ["layout-0"],
        "an earlier program must still be able to write to the log"
    );
    log.append_all(vec![append_to_shop(1, 3, waves_passed(3..=3))]).unwrap();
    assert!(disk.path().join("log/layout-1").exists());
}

/// Events of a newer program that has changed the fields of one event, so that kind 2 became kind 4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ChangedEvent {
    Began { name: String, at: Timestamp },
    Passed { wave: u32, tasks: Option<u32> },
    Ended { phase: OperationPhase, notes: Vec<String> },
}

impl From<Event> for ChangedEvent {
    fn from(earlier: Event) -> Self {
        match earlier {
            Event::Began { name, at } => Self::Began { name, at },
            Event::Passed { wave } => Self::Passed { wave, tasks: None },
            Event::Ended { phase, notes } => Self::Ended { phase, notes },
        }
    }
}

impl LogRecord for ChangedEvent {
    type Earlier = Event;
    const HIGHEST_KIND: u16 = 4;

    fn is_earlier(kind: u16) -> bool {
        kind == 2
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Began { .. } => 1,
            Self::Passed { .. } => 4,
            Self::Ended { .. } => 3,
        }
    }
}

/// State of the newer program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChangedState {
    waves: Vec<(u32, Option<u32>)>,
}

impl From<State> for ChangedState {
    fn from(earlier: State) -> Self {
        Self { waves: earlier.waves.into_iter().map(|wave| (wave, None)).collect() }
    }
}

impl LogRecord for ChangedState {
    type Earlier = State;
    const HIGHEST_KIND: u16 = 2;

    fn is_earlier(kind: u16) -> bool {
        kind == 1
    }
}

/// Details of the newer program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChangedDetails {
    message: String,
    requester: Option<String>,
}

impl From<kit::Details> for ChangedDetails {
    fn from(earlier: kit::Details) -> Self {
        Self { message: earlier.message, requester: None }
    }
}

impl LogRecord for ChangedDetails {
    type Earlier = kit::Details;
    const HIGHEST_KIND: u16 = 2;

    fn is_earlier(kind: u16) -> bool {
        kind == 1
    }
}

impl StreamRecords for ChangedEvent {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = ChangedState;
    type Details = ChangedDetails;
}

#[test]
fn records_of_an_earlier_layout_are_readable_and_continued() {
    let mut disk = Disk::create();
    copy_folder(&golden::golden_folder("layout-1"), &disk.path());
    let options = || OpenOptions { codecs: Codecs::for_kind::<ChangedEvent>(), ..kit::open_options() };
    let waves = |numbers: &[u32]| numbers.iter().map(|wave| (*wave, None)).collect();
    let told = |number| ChangedEvent::Passed { wave: number, tasks: Some(9) };
    let untold = |number| ChangedEvent::Passed { wave: number, tasks: None };
    let log = SledLog::open(disk.path(), options()).unwrap();
    assert_eq!(log.damage(), []);
    let all = log.events_as::<ChangedEvent>(operation(2)).unwrap().events;
    assert!(
        matches!(&all[..], [ChangedEvent::Began { .. }, passed, ChangedEvent::Ended { .. }] if *passed == untold(1))
    );
    let loaded = log.load_as::<ChangedEvent>(operation(3)).unwrap();
    assert_eq!(loaded.snapshot, Some((2, ChangedState { waves: waves(&[1, 300, 70_000, u32::MAX]) })));
    assert_eq!(loaded.events, [untold(3)]);
    let mut line = log.entry_as::<ChangedEvent>(operation(3)).unwrap().unwrap().summary;
    let message = operation_summary(3, "shop").details.message;
    assert_eq!(line.details, ChangedDetails { message, requester: None });

    line.details.requester = Some("ann".to_owned());
    let snapshot = Some(ChangedState { waves: vec![(4, Some(9))] });
    let next = AppendOf::new(operation(3), 4, vec![told(4)], line.clone());
    log.append_all(vec![AppendOf { snapshot: snapshot.clone(), ..next }]).unwrap();
    drop(log);
    let log = SledLog::open(disk.path(), options()).unwrap();
    assert_eq!(log.damage(), []);
    let all = log.events_as::<ChangedEvent>(operation(3)).unwrap().events;
    assert_eq!(all, [untold(1), untold(2), untold(3), told(4)]);
    assert_eq!(log.load_as::<ChangedEvent>(operation(3)).unwrap().snapshot, snapshot.map(|state| (4, state)));
    assert_eq!(log.entry_as::<ChangedEvent>(operation(3)).unwrap().unwrap().summary, line);
    drop(log);
    // The older program reports the record and leaves it unchanged.
    let log = disk.reopen();
    assert_eq!(log.damage(), []);
    let impaired: Vec<_> = log.impaired_streams().into_iter().map(|impaired| impaired.stream).collect();
    assert_eq!(impaired, [operation(3)]);
    assert_eq!(log.all_events(operation(2)).unwrap().len(), 3);
}
