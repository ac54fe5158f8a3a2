//! Streams of several kinds in one log, who may write to them, and programs that do not know them all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, Records, StreamId, StreamKind, Timestamp};
use tidegate_oplog::{
    AppendOf, Codecs, Epoch, LogError, Lookup, OpenOptions, OperationLog, Retention, SledLog, Store, Summary,
};

use crate::files::copy;
use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Fact, Kept, Memory, NOW, State, append, codecs, finished, loaded, open_line, operation,
    options, passed, summary,
};

/// A fact of another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Voyage {
    Sailed { to: String },
}

impl LogRecord for Voyage {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 1;
    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        1
    }
}

impl Records for Voyage {
    const KIND: StreamKind = StreamKind::new(StreamKind::FIRST_FREE, "voyage");
    type Snapshot = State;
    type Details = Voyage;
}

pub fn sailed(to: &str) -> Voyage {
    Voyage::Sailed { to: to.to_owned() }
}

/// Facts of a voyage, which belongs to a set and to no application.
pub fn voyage(number: u128, first_sequence: u64, ports: &[&str]) -> AppendOf<Voyage> {
    let summary = Summary {
        application: None,
        set: Some("fleet".to_owned()),
        started_at: Timestamp::from_millis(0),
        finished_at: None,
        details: sailed("home"),
    };
    let facts = ports.iter().map(|port| sailed(port)).collect();
    AppendOf::new(operation(number), first_sequence, facts, summary)
}

/// A store that can be opened by programs that know more or less.
trait Known: Kept<Log: Store> {
    fn open_knowing(&mut self, codecs: Codecs) -> &Self::Log;
}

impl Known for Memory {
    fn open_knowing(&mut self, codecs: Codecs) -> &Self {
        *self = self.reopen().clone().knowing(codecs);
        self
    }
}

impl Known for Disk {
    fn open_knowing(&mut self, codecs: Codecs) -> &SledLog {
        self.close();
        let log = SledLog::open(self.path(), OpenOptions { codecs, ..options() }).unwrap();
        self.put(log)
    }
}

pub fn both() -> Codecs {
    codecs().and::<Voyage>()
}

/// Whatever goes, if only it may: a history of nothing, and no time at all.
fn nothing() -> Retention {
    Retention { history: 0, summaries: 0, age: std::time::Duration::ZERO, open_facts: 0 }
}

fn a_kind_that_is_not_known_is_kept_and_named(mut kept: impl Known) {
    let log = kept.open_knowing(both());
    let over = AppendOf { snapshot: Some(state()), ..voyage(2, 1, &["Ithaca", "Troy"]) };
    let over = AppendOf {
        summary: Summary { finished_at: Some(Timestamp::from_millis(1)), ..over.summary.clone() },
        ..over
    };
    let large = AppendOf { snapshot: Some(state()), ..voyage(3, 1, &[&"Carthage".repeat(5_000)]) };
    log.append_all(vec![over, large]).unwrap();
    log.append_all(vec![append(1, 1, passed(1..=2))]).unwrap();
    let whole = |log: &dyn OperationLog| [2, 3].map(|number| log.facts(operation(number)).unwrap());
    let before = whole(log);

    for _ in 0..2 {
        let log = kept.open_knowing(codecs());
        assert_eq!((log.damage(), log.impaired()), (vec![], vec![]), "nothing is wrong with it");
        assert_eq!(log.lines(), [open_line(1, "shop")], "of the kind that is known");
        let unknown = log.find(&Lookup::unknown()).unwrap();
        let named: Vec<_> = unknown.iter().map(|entry| (entry.stream, entry.kind.to_string())).collect();
        assert_eq!(named, [(operation(2), "voyage".into()), (operation(3), "voyage".into())]);
        assert_eq!(log.ids_of(&Lookup::of_set("fleet").and_open()), [operation(3)]);
        assert!(matches!(log.load_as::<Fact>(operation(2)), Err(LogError::OtherKind { .. })));
        let error = log.append_all(vec![voyage(2, 3, &["Circe"])]).unwrap_err();
        assert!(error.to_string().contains("voyage"), "{error}");
        assert!(matches!(log.append_all(vec![voyage(4, 1, &["Circe"])]), Err(LogError::UnknownKind { .. })));
        assert!(matches!(log.append_all(vec![append(2, 3, passed(3..=3))]), Err(LogError::OtherKind { .. })));
        log.compact(&nothing(), NOW).unwrap();
        assert_eq!(whole(log), before, "not compacted, and not forgotten");
        // The others go on.
        let next = log.load_as::<Fact>(operation(1)).unwrap().last_sequence + 1;
        log.append_all(vec![append(1, next, passed(9..=9))]).unwrap();
    }
    let log = kept.open_knowing(both());
    assert_eq!(log.damage(), []);
    assert_eq!(log.load_as::<Voyage>(operation(3)).unwrap().snapshot, Some((1, state())));
    log.append_all(vec![voyage(3, 2, &["Circe"])]).unwrap();
    let done = log.compact(&nothing(), NOW).unwrap();
    assert_eq!((done.streams, done.forgotten), (1, 1), "who knows it tidies it up");
}

fn state() -> State {
    State { waves: vec![7], padding: "s".repeat(9_000) }
}

#[test]
fn in_memory_a_kind_that_is_not_known_is_kept_and_named() {
    a_kind_that_is_not_known_is_kept_and_named(Memory::fresh());
}

#[test]
fn on_disk_a_kind_that_is_not_known_is_kept_and_named() {
    a_kind_that_is_not_known_is_kept_and_named(Disk::fresh());
}

/// Damage that another program would mend or set aside by what it knows.
#[test]
fn a_damaged_stream_of_an_unknown_kind_is_reported_once_and_left_where_it_is() {
    let mut disk = Disk::fresh();
    let log = disk.open_knowing(both());
    log.append_all(vec![voyage(2, 1, &["Ithaca", "Troy"])]).unwrap();
    log.append_all(vec![append(1, 1, passed(1..=2))]).unwrap();
    let key = [b"f".as_slice(), operation(2).0.as_bytes(), &1_u64.to_be_bytes()].concat();
    disk.tamper(|db| {
        let mut row = db.get(&key).unwrap().unwrap().to_vec();
        row[45] ^= 1;
        db.insert(&key, row).unwrap();
    });
    for is_new in [true, false] {
        let log = disk.reopen();
        let damage = log.damage();
        assert!(damage.len() == 1 && damage[0].is_new == is_new, "{damage:?}");
        let [impaired] = &log.impaired()[..] else { panic!("{:?}", log.impaired()) };
        assert_eq!(impaired.entry.as_ref().unwrap().kind.name(), "voyage");
        assert!(impaired.reason.contains("fact 1"), "{}", impaired.reason);
        assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=2), 2));
    }
    disk.tamper(|db| assert!(db.get(&key).unwrap().is_some(), "its rows are where they were"));
}

/// Everything below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(files(&path));
        } else if path.file_name().unwrap() != "holder" {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_log_of_a_later_layout_is_refused_and_not_touched() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![append(1, 1, passed(1..=2))]).unwrap();
    disk.close();
    drop(crate::kit::raw(&disk.path()));
    let marks = || -> Vec<String> {
        let entries = fs::read_dir(disk.path().join("log")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("layout-")).collect()
    };
    assert_eq!(marks(), ["layout-2-needs-a-newer-tidegate"]);
    fs::create_dir(disk.path().join("log/layout-3-needs-a-newer-tidegate")).unwrap();
    let before = files(&disk.path());
    for error in [
        SledLog::open(disk.path(), options()).unwrap_err(),
        SledLog::open_to_read(disk.path(), None, codecs()).unwrap_err(),
    ] {
        assert!(matches!(error, LogError::NewerLayout { found: 3, known: 2, .. }), "{error:?}");
        assert!(error.to_string().contains("newer program"), "{error}");
    }
    assert_eq!(files(&disk.path()), before);
}

#[test]
fn an_earlier_log_is_marked_when_it_is_written_to_and_not_before() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let disk = Disk::fresh();
    copy(&golden, &disk.path());
    let mark = disk.path().join("log/layout-2-needs-a-newer-tidegate");
    let log = SledLog::open(disk.path(), options()).unwrap();
    assert_eq!(log.lines().len(), 3);
    assert!(!mark.exists(), "an earlier program can still go on with it");
    log.append_all(vec![append(3, 4, passed(4..=4))]).unwrap();
    assert!(mark.exists());
}

/// A stream is written to by whoever has the highest epoch so far.
fn the_latest_epoch_writes(mut kept: impl Kept) {
    let log = kept.open();
    let with =
        |epoch: u64, first| Append { epoch: Epoch::new(epoch).unwrap(), ..append(1, first, passed(1..=1)) };
    let mut next = 1;
    for (epoch, is_taken) in
        [(1, true), (1, true), (3, true), (2, false), (3, true), (1, false), (7, true), (6, false)]
    {
        let result = log.append_all(vec![append(9, next, passed(1..=1)), with(epoch, next)]);
        match result {
            Ok(()) => assert!(is_taken, "epoch {epoch}"),
            Err(error) => {
                assert!(!is_taken, "epoch {epoch}: {error}");
                let LogError::Fenced { epoch: head, offered, by, .. } = &error else { panic!("{error:?}") };
                assert!(head > offered && offered.number() == epoch, "{error}");
                assert!(!by.is_empty() && error.to_string().contains(by.as_str()), "{error}");
                continue;
            }
        }
        next += 1;
    }
    let log = kept.reopen();
    for number in [1, 9] {
        let last = log.load_as::<Fact>(operation(number)).unwrap().last_sequence;
        assert_eq!(last, next - 1, "a refused group leaves no trace");
    }
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap().epoch.number(), 7);
    assert!(
        matches!(log.append_all(vec![with(6, next)]), Err(LogError::Fenced { .. })),
        "also after a restart"
    );
    // To take over, no fact is needed.
    log.append_all(vec![Append { facts: vec![], ..with(8, next) }]).unwrap();
    assert!(matches!(log.append_all(vec![with(7, next)]), Err(LogError::Fenced { .. })));
    // Another stream has epochs of its own, also in the same group.
    log.append_all(vec![append(9, next, passed(1..=1)), with(8, next), with(9, next + 1)]).unwrap();
    assert_eq!(kept.reopen().entry(operation(1)).unwrap().unwrap().epoch.number(), 9);
}

#[test]
fn in_memory_the_latest_epoch_writes() {
    the_latest_epoch_writes(Memory::fresh());
}

#[test]
fn on_disk_the_latest_epoch_writes() {
    the_latest_epoch_writes(Disk::fresh());
}

#[test]
fn who_took_a_stream_over_is_named() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    log.append_all(vec![append(1, 1, passed(1..=1))]).unwrap();
    log.append_all(vec![Append { epoch: Epoch::new(2).unwrap(), ..append(1, 2, passed(2..=2)) }]).unwrap();
    let error = disk.reopen().append_all(vec![append(1, 3, passed(3..=3))]).unwrap_err().to_string();
    assert!(error.contains("operation 0190") && error.contains("pid 41 (tidegate sync shop)"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Of any sequence of epochs, those are taken that are not below one that was taken before.
    #[test]
    fn an_epoch_that_was_passed_never_writes_again(
        epochs in prop::collection::vec((1_u64..6, any::<bool>()), 1..30)
    ) {
        let mut log = Memory::fresh();
        let (mut highest, mut written) = (1, 0);
        for (epoch, restarts) in epochs {
            if restarts {
                log = log.reopen();
            }
            let offered = Append {
                epoch: Epoch::new(epoch).unwrap(),
                ..append(1, written + 1, passed(1..=1))
            };
            let taken = log.append_all(vec![offered]).is_ok();
            prop_assert_eq!(taken, epoch >= highest);
            highest = highest.max(epoch);
            written += u64::from(taken);
        }
    }
}

#[test]
fn ten_thousand_summaries_and_a_lookup_reads_its_own() {
    const APPLICATIONS: u128 = 1_000;
    let mut disk = Disk::fresh();
    let log = disk.open();
    for application in 0..APPLICATIONS {
        let name = format!("app-{application}");
        let group = (0..10).map(|operation| {
            let number = application * 10 + operation;
            let mut line = if operation < 9 { finished(number, &name) } else { summary(number, &name) };
            line.set = (application == 7).then(|| "fleet".to_owned());
            // The last application has nothing open.
            if application + 1 == APPLICATIONS {
                line = finished(number, &name);
            }
            Append { summary: line, ..append(number, 1, passed(1..=1)) }
        });
        log.append_all(group.collect()).unwrap();
    }
    let read = |lookup: Lookup| -> (Vec<StreamId>, u64) {
        let before = log.stats().reads;
        let found = log.ids_of(&lookup);
        (found, log.stats().reads - before)
    };
    let ids = |numbers: std::ops::Range<u128>| numbers.map(operation).collect::<Vec<_>>();
    // A row of the index and a summary for each it has.
    assert_eq!(read(Lookup::of_application("app-3")), (ids(30..40), 20));
    assert_eq!(read(Lookup::of_application("app-3").and_open()), (ids(39..40), 11));
    assert_eq!(read(Lookup::of_set("fleet")), (ids(70..80), 20));
    assert_eq!(read(Lookup::of_application("nobody")), (vec![], 0));
    assert_eq!(read(Lookup::unknown()), (vec![], 0));
    let (open, reads) = read(Lookup::open());
    assert_eq!((open.len(), reads), (999, 2 * 999));
    let before = log.stats().reads;
    assert!(log.entry(operation(4_321)).unwrap().is_some());
    assert_eq!((log.ids().len(), log.stats().reads - before), (10_000, 1));
}
