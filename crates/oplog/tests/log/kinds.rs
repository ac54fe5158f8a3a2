//! Streams of several kinds in one log, their writers, and programs that don't know all kinds.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, StreamId, StreamKind, StreamRecords, Timestamp};
use tidegate_oplog::{
    AppendOf, Codecs, Epoch, LogError, Lookup, OpenOptions, OperationLog, Retention, SledLog, Store, Summary,
};

use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Event, Memory, NOW, ReopenableLog, State, append_to_shop, finished_summary, loaded_stream,
    open_listing, open_options, operation, operation_summary, test_codecs, waves_passed,
};
use crate::postgres::Postgres;

/// Event of another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoyageEvent {
    Sailed { to: String },
}

impl LogRecord for VoyageEvent {
    type Earlier = Self;
}

impl StreamRecords for VoyageEvent {
    const KIND: StreamKind = StreamKind::new(StreamKind::FIRST_FREE, "voyage");
    type Snapshot = State;
    type Details = VoyageEvent;
}

pub fn sailed_to(to: &str) -> VoyageEvent {
    VoyageEvent::Sailed { to: to.to_owned() }
}

/// Returns an append to a voyage, which belongs to an ApplicationSet but not to an application.
pub fn voyage_append(number: u128, first_sequence: u64, ports: &[&str]) -> AppendOf<VoyageEvent> {
    let summary = Summary {
        application: None,
        set: Some("fleet".to_owned()),
        started_at: Timestamp::from_millis(0),
        finished_at: None,
        details: sailed_to("home"),
    };
    let events = ports.iter().map(|port| sailed_to(port)).collect();
    AppendOf::new(operation(number), first_sequence, events, summary)
}

/// Store that tests can open with different sets of known kinds.
pub trait OpenWithCodecs: ReopenableLog<Log: Store> {
    fn open_with_codecs(&mut self, codecs: Codecs) -> &Self::Log;
}

impl OpenWithCodecs for Memory {
    fn open_with_codecs(&mut self, codecs: Codecs) -> &Self {
        *self = self.reopen().clone().with_codecs(codecs);
        self
    }
}

impl OpenWithCodecs for Disk {
    fn open_with_codecs(&mut self, codecs: Codecs) -> &SledLog {
        self.close();
        let log = SledLog::open(self.path(), OpenOptions { codecs, ..open_options() }).unwrap();
        self.replace_log(log)
    }
}

pub fn all_codecs() -> Codecs {
    test_codecs().with_kind::<VoyageEvent>()
}

/// Returns the minimum retention, without history and age.
fn minimal_retention() -> Retention {
    Retention { history: 0, summaries: 0, age: std::time::Duration::ZERO, open_events: 0 }
}

fn an_unknown_kind_is_kept_and_named(mut kept: impl OpenWithCodecs) {
    let log = kept.open_with_codecs(all_codecs());
    let over = AppendOf { snapshot: Some(final_state()), ..voyage_append(2, 1, &["Ithaca", "Troy"]) };
    let over = AppendOf {
        summary: Summary { finished_at: Some(Timestamp::from_millis(1)), ..over.summary.clone() },
        ..over
    };
    let large =
        AppendOf { snapshot: Some(final_state()), ..voyage_append(3, 1, &[&"Carthage".repeat(5_000)]) };
    log.append_all(vec![over, large]).unwrap();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=2))]).unwrap();
    let whole = |log: &dyn OperationLog| [2, 3].map(|number| log.events(operation(number)).unwrap());
    let before = whole(log);

    for _ in 0..2 {
        let log = kept.open_with_codecs(test_codecs());
        assert_eq!(
            (log.damage(), log.impaired_streams()),
            (vec![], vec![]),
            "an unknown kind must not count as damage"
        );
        assert_eq!(
            log.listing(),
            [open_listing(1, "shop")],
            "the listing must contain only streams of known kinds"
        );
        let unknown = log.find(&Lookup::of_unknown_kinds()).unwrap();
        let named: Vec<_> = unknown.iter().map(|entry| (entry.stream, entry.kind.to_string())).collect();
        assert_eq!(named, [(operation(2), "voyage".into()), (operation(3), "voyage".into())]);
        assert_eq!(log.ids_of(&Lookup::of_appset("fleet").and_open()), [operation(3)]);
        assert!(matches!(log.load_as::<Event>(operation(2)), Err(LogError::KindMismatch { .. })));
        let error = log.append_all(vec![voyage_append(2, 3, &["Circe"])]).unwrap_err();
        assert!(error.to_string().contains("voyage"), "{error}");
        assert!(matches!(
            log.append_all(vec![voyage_append(4, 1, &["Circe"])]),
            Err(LogError::UnknownKind { .. })
        ));
        assert!(matches!(
            log.append_all(vec![append_to_shop(2, 3, waves_passed(3..=3))]),
            Err(LogError::KindMismatch { .. })
        ));
        log.compact(&minimal_retention(), NOW).unwrap();
        assert_eq!(whole(log), before, "streams of unknown kinds must not be compacted");
        // The other streams continue.
        let next = log.load_as::<Event>(operation(1)).unwrap().last_sequence + 1;
        log.append_all(vec![append_to_shop(1, next, waves_passed(9..=9))]).unwrap();
    }
    let log = kept.open_with_codecs(all_codecs());
    assert_eq!(log.damage(), []);
    assert_eq!(log.load_as::<VoyageEvent>(operation(3)).unwrap().snapshot, Some((1, final_state())));
    log.append_all(vec![voyage_append(3, 2, &["Circe"])]).unwrap();
    let done = log.compact(&minimal_retention(), NOW).unwrap();
    assert_eq!(
        (done.streams, done.forgotten),
        (1, 1),
        "a program that knows the kind must compact the stream"
    );
}

fn final_state() -> State {
    State { waves: vec![7], padding: "s".repeat(9_000) }
}

#[test]
fn in_memory_an_unknown_kind_is_kept_and_named() {
    an_unknown_kind_is_kept_and_named(Memory::create());
}

#[test]
fn on_disk_an_unknown_kind_is_kept_and_named() {
    an_unknown_kind_is_kept_and_named(Disk::create());
}

#[test]
fn in_postgres_an_unknown_kind_is_kept_and_named() {
    if let Some(kept) = Postgres::available() {
        an_unknown_kind_is_kept_and_named(kept);
    }
}

/// Only programs that know the kind can repair or quarantine this damage.
#[test]
fn damage_of_an_unknown_kind_is_reported_once_and_left_in_place() {
    let mut disk = Disk::create();
    let log = disk.open_with_codecs(all_codecs());
    log.append_all(vec![voyage_append(2, 1, &["Ithaca", "Troy"])]).unwrap();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=2))]).unwrap();
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
        let [impaired] = &log.impaired_streams()[..] else { panic!("{:?}", log.impaired_streams()) };
        assert_eq!(impaired.entry.as_ref().unwrap().kind.name(), "voyage");
        assert!(impaired.reason.contains("event 1: the checksum does not match"), "{}", impaired.reason);
        assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=2), 2));
    }
    disk.tamper(|db| assert!(db.get(&key).unwrap().is_some(), "the damaged row must not be removed"));
}

/// Only the writer with the highest epoch can write to a stream.
fn only_the_latest_epoch_can_write(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let with = |epoch: u64, first| Append {
        epoch: Epoch::new(epoch).unwrap(),
        ..append_to_shop(1, first, waves_passed(1..=1))
    };
    let mut next = 1;
    for (epoch, is_taken) in
        [(1, true), (1, true), (3, true), (2, false), (3, true), (1, false), (7, true), (6, false)]
    {
        let result = log.append_all(vec![append_to_shop(9, next, waves_passed(1..=1)), with(epoch, next)]);
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
        let last = log.load_as::<Event>(operation(number)).unwrap().last_sequence;
        assert_eq!(last, next - 1, "a rejected group must leave no trace");
    }
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap().epoch.number(), 7);
    assert!(
        matches!(log.append_all(vec![with(6, next)]), Err(LogError::Fenced { .. })),
        "an old epoch must be rejected after a restart too"
    );
    // A takeover doesn't need an event.
    log.append_all(vec![Append { events: vec![], ..with(8, next) }]).unwrap();
    assert!(matches!(log.append_all(vec![with(7, next)]), Err(LogError::Fenced { .. })));
    // Every stream has its own epochs, even within one group.
    log.append_all(vec![append_to_shop(9, next, waves_passed(1..=1)), with(8, next), with(9, next + 1)])
        .unwrap();
    assert_eq!(kept.reopen().entry(operation(1)).unwrap().unwrap().epoch.number(), 9);
}

#[test]
fn in_memory_only_the_latest_epoch_can_write() {
    only_the_latest_epoch_can_write(Memory::create());
}

#[test]
fn on_disk_only_the_latest_epoch_can_write() {
    only_the_latest_epoch_can_write(Disk::create());
}

#[test]
fn in_postgres_only_the_latest_epoch_can_write() {
    if let Some(kept) = Postgres::available() {
        only_the_latest_epoch_can_write(kept);
    }
}

#[test]
fn the_process_that_took_a_stream_over_is_named() {
    let mut disk = Disk::create();
    let log = disk.open();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
    log.append_all(vec![Append {
        epoch: Epoch::new(2).unwrap(),
        ..append_to_shop(1, 2, waves_passed(2..=2))
    }])
    .unwrap();
    let error =
        disk.reopen().append_all(vec![append_to_shop(1, 3, waves_passed(3..=3))]).unwrap_err().to_string();
    assert!(error.contains("operation 0190") && error.contains("pid 41 (tidegate sync shop)"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any sequence of epochs, an epoch is accepted if and only if no higher epoch was accepted before.
    #[test]
    fn an_outdated_epoch_never_writes_again(
        epochs in prop::collection::vec((1_u64..6, any::<bool>()), 1..30)
    ) {
        let mut log = Memory::create();
        let (mut highest, mut written) = (1, 0);
        for (epoch, restarts) in epochs {
            if restarts {
                log = log.reopen();
            }
            let offered = Append {
                epoch: Epoch::new(epoch).unwrap(),
                ..append_to_shop(1, written + 1, waves_passed(1..=1))
            };
            let taken = log.append_all(vec![offered]).is_ok();
            prop_assert_eq!(taken, epoch >= highest);
            highest = highest.max(epoch);
            written += u64::from(taken);
        }
    }
}

#[test]
fn a_lookup_among_ten_thousand_summaries_reads_only_its_own() {
    const APPLICATIONS: u128 = 1_000;
    let mut disk = Disk::create();
    let log = disk.open();
    for application in 0..APPLICATIONS {
        let name = format!("app-{application}");
        let group = (0..10).map(|operation| {
            let number = application * 10 + operation;
            let mut line = if operation < 9 {
                finished_summary(number, &name)
            } else {
                operation_summary(number, &name)
            };
            line.set = (application == 7).then(|| "fleet".to_owned());
            // The last application doesn't have open streams.
            if application + 1 == APPLICATIONS {
                line = finished_summary(number, &name);
            }
            Append { summary: line, ..append_to_shop(number, 1, waves_passed(1..=1)) }
        });
        log.append_all(group.collect()).unwrap();
    }
    let read = |lookup: Lookup| -> (Vec<StreamId>, u64) {
        let before = log.stats().reads;
        let found = log.ids_of(&lookup);
        (found, log.stats().reads - before)
    };
    let ids = |numbers: std::ops::Range<u128>| numbers.map(operation).collect::<Vec<_>>();
    // Each result takes one index row and one summary.
    assert_eq!(read(Lookup::of_application("app-3")), (ids(30..40), 20));
    assert_eq!(read(Lookup::of_application("app-3").and_open()), (ids(39..40), 11));
    assert_eq!(read(Lookup::of_appset("fleet")), (ids(70..80), 20));
    assert_eq!(read(Lookup::of_application("nobody")), (vec![], 0));
    assert_eq!(read(Lookup::of_unknown_kinds()), (vec![], 0));
    let (open, reads) = read(Lookup::open());
    assert_eq!((open.len(), reads), (999, 2 * 999));
    let before = log.stats().reads;
    assert!(log.entry(operation(4_321)).unwrap().is_some());
    assert_eq!((log.ids().unwrap().len(), log.stats().reads - before), (10_000, 1));
}
