//! What a compaction keeps: of open streams, of those that are over, and when it is interrupted.

use std::time::Duration;

use tidegate_oplog::{Compacted, LogError, Lookup, OperationLog, Retention, Store};

use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Fact, Kept, Memory, NOW, State, append, finished, loaded, open_line, operation, passed,
    summary,
};

fn keep(open_facts: u64) -> Retention {
    Retention { open_facts, ..Retention::default() }
}

fn state(at: u64) -> State {
    State { waves: vec![], padding: format!("after {at}") }
}

/// Facts 1 to 40 of an open operation, the 5th and the 35th too large for a row, and a snapshot of 30.
fn long(log: &impl Store) -> Vec<Fact> {
    let large = |number: u32| Fact::Began {
        name: format!("{number}").repeat(20_000),
        at: tidegate_model::Timestamp::from_millis(number.into()),
    };
    let facts: Vec<Fact> = (1..=40)
        .map(|number| if matches!(number, 5 | 35) { large(number) } else { Fact::Passed { wave: number } })
        .collect();
    let blob = log.put_blob(b"manifests").unwrap();
    let first = Append { blobs: vec![blob], snapshot: Some(state(30)), ..append(1, 1, facts[..30].to_vec()) };
    log.append_all(vec![first, append(1, 31, facts[30..].to_vec())]).unwrap();
    facts
}

fn the_oldest_facts_of_an_open_stream_go(mut kept: impl Kept<Log: Store>) {
    let log = kept.open();
    let facts = long(log);
    let whole = log.load_as::<Fact>(operation(1)).unwrap();
    assert_eq!(log.compact(&keep(40), NOW).unwrap(), Compacted::default(), "there are no more than that");
    assert_eq!(log.compact(&keep(25), NOW).unwrap().facts, 15);
    let check = |log: &dyn OperationLog, first: u64| {
        let history = log.facts(operation(1)).unwrap();
        let from = usize::try_from(first - 1).unwrap();
        assert_eq!((history.first_sequence, history.facts.len()), (first, 40 - from));
    };
    check(log, 16);
    let log = kept.reopen();
    assert_eq!(log.damage(), []);
    check(log, 16);
    assert_eq!(log.facts_as::<Fact>(operation(1)).unwrap().facts, facts[15..]);
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), whole, "it goes on as if nothing were gone");
    // What no snapshot covers stays, however little is to be kept.
    assert_eq!(log.compact(&keep(0), NOW).unwrap().facts, 15);
    check(kept.reopen(), 31);
    let log = kept.open();
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), whole);
    assert_eq!(log.compact(&keep(0), NOW).unwrap(), Compacted::default());
    // It goes on, ends with what it has, and is then reduced like any other.
    log.append_all(vec![Append { snapshot: Some(state(41)), ..append(1, 41, passed(41..=41)) }]).unwrap();
    log.append_all(vec![Append { summary: finished(1, "shop"), ..append(1, 42, passed(42..=42)) }]).unwrap();
    assert_eq!(log.compact(&keep(0), NOW).unwrap().facts, 0, "what is over is no longer cut");
    let log = kept.reopen();
    assert_eq!(log.damage(), []);
    assert_eq!(log.facts_as::<Fact>(operation(1)).unwrap().first_sequence, 31);
    assert_eq!(log.tidy(0).unwrap().streams, 1);
    assert!(matches!(kept.reopen().facts(operation(1)), Err(LogError::Compacted { .. })));
}

#[test]
fn in_memory_the_oldest_facts_of_an_open_stream_go() {
    the_oldest_facts_of_an_open_stream_go(Memory::fresh());
}

#[test]
fn on_disk_the_oldest_facts_of_an_open_stream_go() {
    the_oldest_facts_of_an_open_stream_go(Disk::fresh());
}

#[test]
fn the_usual_leaves_the_facts_of_an_open_operation_alone() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    let facts = long(log);
    assert_eq!(log.compact(&Retention::default(), NOW).unwrap(), Compacted::default());
    assert_eq!(log.all(operation(1)).unwrap(), facts);
}

#[test]
fn blobs_of_facts_that_went_go_too_and_others_stay() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    long(log);
    assert_eq!(
        log.compact(&keep(25), NOW).unwrap(),
        Compacted { facts: 15, blobs: 1, ..Compacted::default() }
    );
    assert_eq!(disk.reopen().damage(), [], "the fifth fact's, and not the manifests or that of the other");
}

/// Without its snapshot, nothing but the facts can tell how it stands.
#[test]
fn facts_stay_while_their_snapshot_cannot_be_read() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    let large = State { waves: vec![], padding: "s".repeat(20_000) };
    log.append_all(vec![Append { snapshot: Some(large), ..append(1, 1, passed(1..=20)) }]).unwrap();
    let blobs = crate::sealed::files(&disk.path().join("blobs"));
    let [blob] = &blobs[..] else { panic!("{blobs:?}") };
    std::fs::write(blob, b"something else").unwrap();
    assert_eq!(disk.open().compact(&keep(0), NOW).unwrap().facts, 0);
    assert_eq!(disk.reopen().all(operation(1)).unwrap(), passed(1..=20));
}

/// A process that dies in a compaction has written the head, and none, some or all of what it no longer counts is gone.
#[test]
fn an_interrupted_compaction_is_completed_by_the_next_opening() {
    for gone in [0, 1, 7, 14, 15] {
        let mut disk = Disk::fresh();
        let log = disk.open();
        let facts = long(log);
        let whole = log.load_as::<Fact>(operation(1)).unwrap();
        let mut rows = Vec::new();
        let prefix = [b"f".as_slice(), operation(1).0.as_bytes()].concat();
        disk.tamper(|db| rows = db.scan_prefix(&prefix).map(Result::unwrap).collect());
        disk.open().compact(&keep(25), NOW).unwrap();
        disk.tamper(|db| {
            rows.iter().take(15).skip(gone).for_each(|(key, row)| drop(db.insert(key, row).unwrap()));
        });
        let log = disk.reopen();
        assert_eq!(log.damage(), [], "{gone} gone");
        assert_eq!(log.facts_as::<Fact>(operation(1)).unwrap().facts, facts[15..]);
        assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), whole);
        let mut left = 0;
        disk.tamper(|db| left = db.scan_prefix(&prefix).count());
        assert_eq!(left, 25, "{gone} gone");
    }
}

fn finish(log: &impl OperationLog, number: u128, application: &str) {
    let over = Append { summary: finished(number, application), ..append(number, 1, passed(1..=2)) };
    log.append_all(vec![over]).unwrap();
}

fn the_oldest_summaries_are_forgotten(mut kept: impl Kept<Log: Store>) {
    let log = kept.open();
    (1..=6).for_each(|number| finish(log, number, "shop"));
    finish(log, 7, "bank");
    log.append_all(vec![Append { summary: summary(8, "shop"), ..append(8, 1, passed(1..=1)) }]).unwrap();
    let by_count = Retention { history: 2, summaries: 4, ..Retention::default() };
    let done = log.compact(&by_count, NOW).unwrap();
    assert_eq!((done.streams, done.forgotten, done.facts), (4, 2, 8));
    assert_eq!(log.compact(&by_count, NOW).unwrap(), Compacted::default(), "twice is once");
    let log = kept.reopen();
    assert_eq!((log.damage(), log.impaired()), (vec![], vec![]), "what was forgotten is not missed");
    assert_eq!(log.ids(), (3..=8).map(operation).collect::<Vec<_>>());
    assert_eq!(log.ids_of(&Lookup::of_application("shop")), [3, 4, 5, 6, 8].map(operation));
    assert!(log.entry(operation(1)).unwrap().is_none());
    assert!(matches!(log.facts(operation(1)), Err(LogError::UnknownStream { .. })));
    // Number 3 ended after 63 s, number 4 after 64.
    let by_age = |age| Retention { history: 2, age: Duration::from_secs(age), ..Retention::default() };
    assert_eq!(log.compact(&by_age(1_000 - 63), NOW).unwrap().forgotten, 0);
    assert_eq!(log.compact(&by_age(1_000 - 64), NOW).unwrap().forgotten, 1);
    assert_eq!(log.compact(&by_age(0), NOW).unwrap().forgotten, 1, "the history is not touched by age");
    assert_eq!(kept.reopen().ids(), (5..=8).map(operation).collect::<Vec<_>>());
    let none = Retention { history: 0, summaries: 0, ..Retention::default() };
    assert_eq!(kept.open().compact(&none, NOW).unwrap().forgotten, 3);
    assert_eq!(kept.reopen().lines(), [open_line(8, "shop")], "what is open never goes");
    assert_eq!(kept.open().load_as::<Fact>(operation(8)).unwrap(), loaded(passed(1..=1), 1));
}

#[test]
fn in_memory_the_oldest_summaries_are_forgotten() {
    the_oldest_summaries_are_forgotten(Memory::fresh());
}

#[test]
fn on_disk_the_oldest_summaries_are_forgotten() {
    the_oldest_summaries_are_forgotten(Disk::fresh());
}

/// The witness has forgotten them first: killed after that, the next process has them still.
#[test]
fn an_interrupted_forgetting_is_no_damage() {
    for removed in [0, 1, 2, 3] {
        let mut disk = Disk::fresh();
        let log = disk.open();
        (1..=3).for_each(|number| finish(log, number, "shop"));
        log.tidy(0).unwrap();
        let mut before = Vec::new();
        disk.tamper(|db| before = db.iter().map(Result::unwrap).collect());
        let none = Retention { history: 0, summaries: 0, ..Retention::default() };
        assert_eq!(disk.open().compact(&none, NOW).unwrap().forgotten, 3);
        // Streams go whole: those that had not gone yet are as they were.
        disk.tamper(|db| {
            let is_of = |key: &[u8], number| key.ends_with(operation(number).0.as_bytes());
            for (key, row) in &before {
                if (removed + 1..=3).any(|number| is_of(key, number)) {
                    db.insert(key, row).unwrap();
                }
            }
        });
        let log = disk.reopen();
        assert_eq!((log.damage(), log.impaired()), (vec![], vec![]), "{removed} removed");
        assert_eq!(log.ids(), (removed + 1..=3).map(operation).collect::<Vec<_>>());
        assert_eq!(log.compact(&none, NOW).unwrap().forgotten, usize::try_from(3 - removed).unwrap());
        assert!(disk.reopen().ids().is_empty());
    }
}

/// Its rows may stand in the database's files long after they were removed.
#[test]
fn what_was_forgotten_does_not_come_back_from_a_ruined_database() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    // Open first, so that there are rows that say it is not over.
    (1..=4).for_each(|number| log.append_all(vec![append(number, 1, passed(1..=2))]).unwrap());
    for number in 1..=2 {
        let over = Append { summary: finished(number, "shop"), ..append(number, 3, passed(3..=3)) };
        log.append_all(vec![over]).unwrap();
    }
    let none = Retention { history: 0, summaries: 0, ..Retention::default() };
    assert_eq!(log.compact(&none, NOW).unwrap().forgotten, 2);
    disk.close();
    drop(crate::kit::raw(&disk.path()));
    // The first header is gone: sled does not open it, and what is in the file is salvaged.
    let file = disk.db_file();
    let mut content = std::fs::read(&file).unwrap();
    content[..20].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&file, content).unwrap();
    let log = disk.open();
    assert_eq!(log.damage().len(), 1, "{:?}", log.damage());
    assert_eq!(log.ids(), [3, 4].map(operation), "{:?}", log.impaired());
}
