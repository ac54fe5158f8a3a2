//! Data that a compaction keeps: in open streams, in finished streams, and after an interruption.

use std::time::Duration;

use tidegate_oplog::{CompactionResult, LogError, Lookup, OperationLog, Retention, Store};

use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Event, Memory, NOW, ReopenableLog, State, append_to_shop, finished_summary, loaded_stream,
    open_listing, operation, operation_summary, waves_passed,
};
use crate::postgres::Postgres;

fn retention(open_events: u64) -> Retention {
    Retention { open_events, ..Retention::default() }
}

fn state_at(at: u64) -> State {
    State { waves: vec![], padding: format!("after {at}") }
}

/// Appends events 1 to 40 of an open operation, and a snapshot of the first 30. Events 5 and 35 are too large
/// for a row.
fn append_long_operation(log: &impl Store) -> Vec<Event> {
    let large = |number: u32| Event::Began {
        name: format!("{number}").repeat(20_000),
        at: tidegate_model::Timestamp::from_millis(number.into()),
    };
    let events: Vec<Event> = (1..=40)
        .map(|number| if matches!(number, 5 | 35) { large(number) } else { Event::Passed { wave: number } })
        .collect();
    let blob = log.put_blob(b"manifests").unwrap();
    let first = Append {
        blobs: vec![blob],
        snapshot: Some(state_at(30)),
        ..append_to_shop(1, 1, events[..30].to_vec())
    };
    log.append_all(vec![first, append_to_shop(1, 31, events[30..].to_vec())]).unwrap();
    events
}

fn the_oldest_events_of_an_open_stream_are_removed(mut kept: impl ReopenableLog<Log: Store>) {
    let log = kept.open();
    let events = append_long_operation(log);
    let whole = log.load_as::<Event>(operation(1)).unwrap();
    assert_eq!(
        log.compact(&retention(40), NOW).unwrap(),
        CompactionResult::default(),
        "the stream has only 40 events"
    );
    assert_eq!(log.compact(&retention(25), NOW).unwrap().events, 15);
    let check = |log: &dyn OperationLog, first: u64| {
        let history = log.events(operation(1)).unwrap();
        let from = usize::try_from(first - 1).unwrap();
        assert_eq!((history.first_sequence, history.events.len()), (first, 40 - from));
    };
    check(log, 16);
    let log = kept.reopen();
    assert_eq!(log.damage(), []);
    check(log, 16);
    assert_eq!(log.events_as::<Event>(operation(1)).unwrap().events, events[15..]);
    assert_eq!(
        log.load_as::<Event>(operation(1)).unwrap(),
        whole,
        "removing events must not change the loaded stream"
    );
    // Even with the smallest retention, events that a snapshot doesn't cover are kept.
    assert_eq!(log.compact(&retention(0), NOW).unwrap().events, 15);
    check(kept.reopen(), 31);
    let log = kept.open();
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), whole);
    assert_eq!(log.compact(&retention(0), NOW).unwrap(), CompactionResult::default());
    // The operation can continue and finish, and a later compaction reduces it like any other.
    log.append_all(vec![Append {
        snapshot: Some(state_at(41)),
        ..append_to_shop(1, 41, waves_passed(41..=41))
    }])
    .unwrap();
    log.append_all(vec![Append {
        summary: finished_summary(1, "shop"),
        ..append_to_shop(1, 42, waves_passed(42..=42))
    }])
    .unwrap();
    assert_eq!(
        log.compact(&retention(0), NOW).unwrap().events,
        0,
        "only open operations lose their oldest events"
    );
    let log = kept.reopen();
    assert_eq!(log.damage(), []);
    assert_eq!(log.events_as::<Event>(operation(1)).unwrap().first_sequence, 31);
    assert_eq!(log.compact_to_history(0).unwrap().streams, 1);
    assert!(matches!(kept.reopen().events(operation(1)), Err(LogError::Compacted { .. })));
}

#[test]
fn in_memory_the_oldest_events_of_an_open_stream_are_removed() {
    the_oldest_events_of_an_open_stream_are_removed(Memory::create());
}

#[test]
fn on_disk_the_oldest_events_of_an_open_stream_are_removed() {
    the_oldest_events_of_an_open_stream_are_removed(Disk::create());
}

#[test]
fn in_postgres_the_oldest_events_of_an_open_stream_are_removed() {
    if let Some(kept) = Postgres::available() {
        the_oldest_events_of_an_open_stream_are_removed(kept);
    }
}

#[test]
fn the_default_retention_keeps_the_events_of_an_open_operation() {
    let mut disk = Disk::create();
    let log = disk.open();
    let events = append_long_operation(log);
    assert_eq!(log.compact(&Retention::default(), NOW).unwrap(), CompactionResult::default());
    assert_eq!(log.all_events(operation(1)).unwrap(), events);
}

#[test]
fn blobs_of_removed_events_are_removed_and_others_stay() {
    let mut disk = Disk::create();
    let log = disk.open();
    append_long_operation(log);
    assert_eq!(
        log.compact(&retention(25), NOW).unwrap(),
        CompactionResult { events: 15, blobs: 1, ..CompactionResult::default() }
    );
    assert_eq!(
        disk.reopen().damage(),
        [],
        "only the blob of event 5 may be removed, not that of event 35 or the manifests"
    );
}

/// If an operation's snapshot is unreadable, only the events contain its state.
#[test]
fn events_stay_while_their_snapshot_is_unreadable() {
    let mut disk = Disk::create();
    let log = disk.open();
    let large = State { waves: vec![], padding: "s".repeat(20_000) };
    log.append_all(vec![Append { snapshot: Some(large), ..append_to_shop(1, 1, waves_passed(1..=20)) }])
        .unwrap();
    let blobs = crate::sealed::list_files(&disk.path().join("blobs"));
    let [blob] = &blobs[..] else { panic!("{blobs:?}") };
    std::fs::write(blob, b"something else").unwrap();
    assert_eq!(disk.open().compact(&retention(0), NOW).unwrap().events, 0);
    assert_eq!(disk.reopen().all_events(operation(1)).unwrap(), waves_passed(1..=20));
}

/// A process killed during a compaction has written the head, and removed none, some or all of the rows that
/// the head doesn't count.
#[test]
fn an_interrupted_compaction_is_completed_by_the_next_opening() {
    for gone in [0, 1, 7, 14, 15] {
        let mut disk = Disk::create();
        let log = disk.open();
        let events = append_long_operation(log);
        let whole = log.load_as::<Event>(operation(1)).unwrap();
        let mut rows = Vec::new();
        let prefix = [b"f".as_slice(), operation(1).0.as_bytes()].concat();
        disk.tamper(|db| rows = db.scan_prefix(&prefix).map(Result::unwrap).collect());
        disk.open().compact(&retention(25), NOW).unwrap();
        disk.tamper(|db| {
            rows.iter().take(15).skip(gone).for_each(|(key, row)| drop(db.insert(key, row).unwrap()));
        });
        let log = disk.reopen();
        assert_eq!(log.damage(), [], "{gone} gone");
        assert_eq!(log.events_as::<Event>(operation(1)).unwrap().events, events[15..]);
        assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), whole);
        let mut left = 0;
        disk.tamper(|db| left = db.scan_prefix(&prefix).count());
        assert_eq!(left, 25, "{gone} gone");
    }
}

fn finish_operation(log: &impl OperationLog, number: u128, application: &str) {
    let over = Append {
        summary: finished_summary(number, application),
        ..append_to_shop(number, 1, waves_passed(1..=2))
    };
    log.append_all(vec![over]).unwrap();
}

fn the_oldest_summaries_are_forgotten(mut kept: impl ReopenableLog<Log: Store>) {
    let log = kept.open();
    (1..=6).for_each(|number| finish_operation(log, number, "shop"));
    finish_operation(log, 7, "bank");
    log.append_all(vec![Append {
        summary: operation_summary(8, "shop"),
        ..append_to_shop(8, 1, waves_passed(1..=1))
    }])
    .unwrap();
    let by_count = Retention { history: 2, summaries: 4, ..Retention::default() };
    let done = log.compact(&by_count, NOW).unwrap();
    assert_eq!((done.streams, done.forgotten, done.events), (4, 2, 8));
    assert_eq!(
        log.compact(&by_count, NOW).unwrap(),
        CompactionResult::default(),
        "a second compaction must not change anything"
    );
    let log = kept.reopen();
    assert_eq!(
        (log.damage(), log.impaired_streams()),
        (vec![], vec![]),
        "forgotten streams must not be reported as lost"
    );
    assert_eq!(log.ids().unwrap(), (3..=8).map(operation).collect::<Vec<_>>());
    assert_eq!(log.ids_of(&Lookup::of_application("shop")), [3, 4, 5, 6, 8].map(operation));
    assert!(log.entry(operation(1)).unwrap().is_none());
    assert!(matches!(log.events(operation(1)), Err(LogError::UnknownStream { .. })));
    // Operation 3 finished after 63 s, and operation 4 after 64 s.
    let by_age = |age| Retention { history: 2, age: Duration::from_secs(age), ..Retention::default() };
    assert_eq!(log.compact(&by_age(1_000 - 63), NOW).unwrap().forgotten, 0);
    assert_eq!(log.compact(&by_age(1_000 - 64), NOW).unwrap().forgotten, 1);
    assert_eq!(
        log.compact(&by_age(0), NOW).unwrap().forgotten,
        1,
        "streams within the history must be kept regardless of their age"
    );
    assert_eq!(kept.reopen().ids().unwrap(), (5..=8).map(operation).collect::<Vec<_>>());
    let none = Retention { history: 0, summaries: 0, ..Retention::default() };
    assert_eq!(kept.open().compact(&none, NOW).unwrap().forgotten, 3);
    assert_eq!(kept.reopen().listing(), [open_listing(8, "shop")], "open streams must be kept");
    assert_eq!(kept.open().load_as::<Event>(operation(8)).unwrap(), loaded_stream(waves_passed(1..=1), 1));
}

#[test]
fn in_memory_the_oldest_summaries_are_forgotten() {
    the_oldest_summaries_are_forgotten(Memory::create());
}

#[test]
fn on_disk_the_oldest_summaries_are_forgotten() {
    the_oldest_summaries_are_forgotten(Disk::create());
}

#[test]
fn in_postgres_the_oldest_summaries_are_forgotten() {
    if let Some(kept) = Postgres::available() {
        the_oldest_summaries_are_forgotten(kept);
    }
}

/// The witness forgets the streams first. If the process is killed at that point, the next process still
/// finds them in the database.
#[test]
fn an_interrupted_removal_is_no_damage() {
    for removed in [0, 1, 2, 3] {
        let mut disk = Disk::create();
        let log = disk.open();
        (1..=3).for_each(|number| finish_operation(log, number, "shop"));
        log.compact_to_history(0).unwrap();
        let mut before = Vec::new();
        disk.tamper(|db| before = db.iter().map(Result::unwrap).collect());
        let none = Retention { history: 0, summaries: 0, ..Retention::default() };
        assert_eq!(disk.open().compact(&none, NOW).unwrap().forgotten, 3);
        // Restore the rows of streams that the interrupted removal hasn't reached. Each stream is either
        // complete or absent.
        disk.tamper(|db| {
            let is_of = |key: &[u8], number| key.ends_with(operation(number).0.as_bytes());
            for (key, row) in &before {
                if (removed + 1..=3).any(|number| is_of(key, number)) {
                    db.insert(key, row).unwrap();
                }
            }
        });
        let log = disk.reopen();
        assert_eq!((log.damage(), log.impaired_streams()), (vec![], vec![]), "{removed} removed");
        assert_eq!(log.ids().unwrap(), (removed + 1..=3).map(operation).collect::<Vec<_>>());
        assert_eq!(log.compact(&none, NOW).unwrap().forgotten, usize::try_from(3 - removed).unwrap());
        assert!(disk.reopen().ids().unwrap().is_empty());
    }
}

/// Removed rows may remain in the database's files for a long time.
#[test]
fn a_salvage_does_not_restore_forgotten_streams() {
    let mut disk = Disk::create();
    let log = disk.open();
    // Append the operations as open, so that the database's files also contain index rows for open streams.
    (1..=4).for_each(|number| log.append_all(vec![append_to_shop(number, 1, waves_passed(1..=2))]).unwrap());
    for number in 1..=2 {
        let over = Append {
            summary: finished_summary(number, "shop"),
            ..append_to_shop(number, 3, waves_passed(3..=3))
        };
        log.append_all(vec![over]).unwrap();
    }
    let none = Retention { history: 0, summaries: 0, ..Retention::default() };
    assert_eq!(log.compact(&none, NOW).unwrap().forgotten, 2);
    disk.close();
    drop(crate::kit::open_database(&disk.path()));
    // Without the first header, sled doesn't open the file, and its content is salvaged.
    let file = disk.db_file();
    let mut content = std::fs::read(&file).unwrap();
    content[..20].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&file, content).unwrap();
    let log = disk.open();
    assert_eq!(log.damage().len(), 1, "{:?}", log.damage());
    assert_eq!(log.ids().unwrap(), [3, 4].map(operation), "{:?}", log.impaired_streams());
}

/// Finishes an operation with a blob of its own and an event stored in a blob.
fn finish_large(log: &impl Store, number: u128) {
    let blob = log.put_blob(format!("manifests of {number}").as_bytes()).unwrap();
    let large = Event::Began { name: format!("{number} ").repeat(4_000), at: NOW };
    let events = vec![large, Event::Passed { wave: 2 }];
    let over = Append {
        summary: finished_summary(number, "shop"),
        blobs: vec![blob],
        ..append_to_shop(number, 1, events)
    };
    log.append_all(vec![over]).unwrap();
}

/// The log accepts appends between steps. If the process is killed between steps, the next compaction
/// completes the work.
#[test]
fn a_compaction_can_stop_after_any_step() {
    let keep = Retention { history: 2, summaries: 4, ..Retention::default() };
    let mut steps = 0;
    for left_after in (0..).step_by(4) {
        let mut disk = Disk::create();
        let log = disk.open();
        (1..=12).for_each(|number| finish_large(log, number));
        log.schedule_compaction();
        let mut done = 0;
        while done < left_after && log.compact_step(&keep, NOW).unwrap().is_some() {
            done += 1;
            // A running compaction must keep the blob of a new operation.
            if done % 7 == 0 {
                finish_large(log, 100 + done);
            }
        }
        let log = disk.reopen();
        assert_eq!((log.damage(), log.impaired_streams()), (vec![], vec![]), "left after {done} steps");
        log.compact(&keep, NOW).unwrap();
        assert_eq!(log.ids().unwrap().len(), 4, "left after {done} steps");
        assert_eq!(log.ids().unwrap().iter().filter(|id| log.all_events(**id).is_ok()).count(), 2);
        assert_eq!(crate::sealed::list_files(&disk.path().join("blobs")).len(), 4, "left after {done} steps");
        let log = disk.reopen();
        assert_eq!((log.damage(), log.impaired_streams()), (vec![], vec![]), "left after {done} steps");
        if done < left_after {
            break;
        }
        steps = done;
    }
    assert!(steps > 5, "{steps} steps");
}

fn a_compaction_is_due_when_the_log_has_grown(mut kept: impl ReopenableLog<Log: Store>) {
    let keep = Retention { history: 10, summaries: 20, ..Retention::default() };
    let log = kept.open();
    let run = |log: &dyn OperationLog| {
        let mut steps = 0;
        while log.is_compaction_due() {
            steps += usize::from(log.compact_step(&keep, NOW).unwrap().is_some());
        }
        steps
    };
    for number in 1..=300 {
        finish_operation(log, number, "shop");
        run(log);
        let kept = log.ids().unwrap();
        let whole = kept.iter().filter(|id| log.all_events(**id).is_ok()).count();
        assert!(kept.len() <= 22 && whole <= 11, "{} and {whole} after {number}", kept.len());
    }
    // Until a complete compaction, the newest stream keeps all its data, whatever the retention.
    let none = Retention { history: 0, summaries: 0, ..Retention::default() };
    finish_operation(log, 301, "shop");
    while log.compact_step(&none, NOW).unwrap().is_some() {}
    assert!(log.all_events(operation(301)).is_ok());
    // After a little growth, no compaction is due.
    log.append_all(vec![append_to_shop(400, 1, waves_passed(1..=1))]).unwrap();
    assert!(!log.is_compaction_due());
    assert_eq!(run(log), 0);
    assert_eq!(log.compact(&none, NOW).unwrap().streams, 1);
    assert_eq!(kept.reopen().ids().unwrap(), [operation(400)]);
}

#[test]
fn in_memory_a_compaction_is_due_when_the_log_has_grown() {
    a_compaction_is_due_when_the_log_has_grown(Memory::create());
}

#[test]
fn on_disk_a_compaction_is_due_when_the_log_has_grown() {
    a_compaction_is_due_when_the_log_has_grown(Disk::create());
}

fn incompressible(length: usize, seed: u128) -> Vec<u8> {
    let mut state = u64::try_from(seed).unwrap();
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

/// A few operations with large manifests, and many with small ones.
#[test]
fn a_compaction_is_due_after_many_written_bytes() {
    let mut disk = Disk::create();
    let log = disk.open();
    let keep = Retention { history: 1, ..Retention::default() };
    (1..=200).for_each(|number| finish_operation(log, number, &format!("application-{number}")));
    while log.compact_step(&keep, NOW).unwrap().is_some() {}
    assert!(!log.is_compaction_due());
    for number in 201..=203 {
        let blob = log.put_blob(&incompressible(800_000, number)).unwrap();
        let over = Append {
            summary: finished_summary(number, "large"),
            blobs: vec![blob],
            ..append_to_shop(number, 1, waves_passed(1..=1))
        };
        log.append_all(vec![over]).unwrap();
    }
    assert!(log.is_compaction_due(), "the written bytes alone must make a compaction due");
    while log.compact_step(&keep, NOW).unwrap().is_some() {}
    assert_eq!(crate::sealed::list_files(&disk.path().join("blobs")).len(), 1);
}
