//! Damage to records while the log is closed. It affects only a single operation.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, LogRecord, StreamKind, StreamRecords};
use tidegate_oplog::{AppendOf, Codecs, ImpairedStream, LogError, Lookup, OpenOptions, SledLog};

use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Event, ReopenableLog, State, append_to_shop, damage_reasons, ended_listing,
    finished_summary, loaded_stream, open_listing, operation, operation_summary, waves_passed,
    without_new_damage,
};

fn row_key(family: u8, number: u128, rest: &[u8]) -> Vec<u8> {
    [&[family], operation(number).0.as_bytes().as_slice(), rest].concat()
}

fn event_key(number: u128, sequence: u64) -> Vec<u8> {
    row_key(b'f', number, &sequence.to_be_bytes())
}

fn large_event() -> Event {
    Event::Began { name: "large".repeat(20_000), at: tidegate_model::Timestamp::from_millis(0) }
}

fn snapshot_state() -> State {
    State { waves: vec![1, 2, 3], padding: String::new() }
}

/// Creates operation 1 with four events (the second is large), a snapshot of three events, and a blob, and
/// operation 2 with four events.
fn filled_disk() -> Disk {
    let mut disk = Disk::create();
    let log = disk.open();
    let blob = log.put_blob(b"manifests").unwrap();
    log.append_all(vec![
        Append { blobs: vec![blob], ..append_to_shop(1, 1, waves_passed(1..=1)) },
        append_to_shop(2, 1, waves_passed(1..=4)),
    ])
    .unwrap();
    let events = vec![large_event(), Event::Passed { wave: 3 }];
    log.append_all(vec![Append { snapshot: Some(snapshot_state()), ..append_to_shop(1, 2, events) }])
        .unwrap();
    log.append_all(vec![append_to_shop(1, 4, waves_passed(4..=4))]).unwrap();
    disk
}

fn remaining_events() -> Vec<Event> {
    vec![Event::Passed { wave: 1 }, large_event(), Event::Passed { wave: 3 }, Event::Passed { wave: 4 }]
}

/// Expected state of operation 1 after the damage.
#[derive(Clone, Copy)]
enum Expectation {
    /// The operation is quarantined, and the reason contains this text.
    Quarantined(&'static str),
    /// The operation is alive with this many events, and a report contains this text.
    Repaired(usize, &'static str),
}

/// Opens a tampered log, and checks its guarantees.
fn check_after_damage(mut disk: Disk, what: &str, expect: Expectation) {
    let log = disk.open();
    let damage = log.damage();
    let told = damage_reasons(&damage, 1);
    match expect {
        Expectation::Quarantined(reason) => {
            assert!(told.iter().any(|told| told.contains(reason)), "{what}: {damage:?}");
            let error = log.load_as::<Event>(operation(1)).unwrap_err();
            assert!(
                matches!(error, LogError::Damaged { .. } | LogError::NewerRecord { .. }),
                "{what}: {error}"
            );
            assert!(log.append_all(vec![append_to_shop(1, 5, waves_passed(5..=5))]).is_err(), "{what}");
            let quarantine = damage.iter().find_map(|damage| damage.quarantine.clone()).unwrap();
            let rows = fs::read(quarantine.join("rows.bin")).unwrap();
            let id = operation(1);
            assert!(
                rows.windows(16).any(|window| window == id.0.as_bytes()),
                "{what}: the quarantine must contain the damaged bytes"
            );
            assert_eq!(log.listing(), [open_listing(2, "shop")], "{what}");
            assert_listed(&log.impaired_streams(), what);
        }
        Expectation::Repaired(count, reason) => {
            assert!(told.iter().any(|told| told.contains(reason)), "{what}: {damage:?}");
            assert_eq!(log.all_events(operation(1)).unwrap(), remaining_events()[..count], "{what}");
            let next = u64::try_from(count).unwrap() + 1;
            log.append_all(vec![append_to_shop(1, next, waves_passed(9..=9))]).unwrap();
            assert_eq!(log.load_as::<Event>(operation(1)).unwrap().last_sequence, next, "{what}");
        }
    }
    assert_eq!(
        log.load_as::<Event>(operation(2)).unwrap(),
        loaded_stream(waves_passed(1..=4), 4),
        "{what}: operation 2 must be able to continue"
    );
    log.append_all(vec![
        append_to_shop(2, 5, waves_passed(5..=5)),
        append_to_shop(3, 1, waves_passed(1..=1)),
    ])
    .unwrap();
    let log = disk.reopen();
    if matches!(expect, Expectation::Quarantined(_)) {
        assert_listed(&log.impaired_streams(), what);
    }
    assert_eq!(
        log.damage(),
        without_new_damage(&damage),
        "{what}: old damage must be listed, but not as new"
    );
    assert_eq!(log.load_as::<Event>(operation(2)).unwrap(), loaded_stream(waves_passed(1..=5), 5), "{what}");
    assert_eq!(
        log.load_as::<Event>(operation(1)).is_ok(),
        matches!(expect, Expectation::Repaired(..)),
        "{what}"
    );
}

/// Checks that operation 1 is listed, with its summary unless that is the damaged record.
fn assert_listed(impaired: &[ImpairedStream], what: &str) {
    let [ImpairedStream { stream: id, entry: known, reason }] = impaired else {
        panic!("{what}: {impaired:?}")
    };
    assert_eq!(*id, operation(1), "{what}");
    assert!(!reason.is_empty(), "{what}");
    let known =
        known.as_ref().map(|known| (known.stream, known.summary.application.as_deref().unwrap_or_default()));
    assert!(
        known == Some((operation(1), "shop")) || (known.is_none() && what.contains("summary")),
        "{what}: {known:?}"
    );
}

fn tampered_disk(tamper: impl FnOnce(&sled::Db)) -> Disk {
    let mut disk = filled_disk();
    disk.tamper(tamper);
    // The witness would also detect the damage, but this test is about the records' own checks.
    fs::remove_file(disk.path().join("witness")).unwrap();
    disk
}

fn flip_bit(db: &sled::Db, key: &[u8], at: usize, bit: u8) {
    let mut value = db.get(key).unwrap().unwrap().to_vec();
    value[at] ^= 1 << bit;
    db.insert(key, value).unwrap();
}

#[test]
fn every_flipped_bit_of_an_event_quarantines_the_operation() {
    let mut disk = filled_disk();
    let mut length = 0;
    disk.tamper(|db| length = db.get(event_key(1, 1)).unwrap().unwrap().len());
    // The frame's own tests flip every bit. This test flips one bit in every third byte of an event.
    for at in (0..length).step_by(3) {
        let disk = tampered_disk(|db| flip_bit(db, &event_key(1, 1), at, u8::try_from(at % 8).unwrap()));
        check_after_damage(disk, &format!("event 1, byte {at}"), Expectation::Quarantined("event 1"));
    }
}

#[test]
fn missing_truncated_and_exchanged_records_are_detected() {
    type Case = (&'static str, fn(&sled::Db), Expectation);
    let cases: [Case; 14] = [
        (
            "no first event",
            |db| drop(db.remove(event_key(1, 1)).unwrap()),
            Expectation::Quarantined("gap: event 1 is missing"),
        ),
        (
            "no third event",
            |db| drop(db.remove(event_key(1, 3)).unwrap()),
            Expectation::Quarantined("gap: event 3 is missing"),
        ),
        (
            "no last event",
            |db| drop(db.remove(event_key(1, 4)).unwrap()),
            Expectation::Repaired(3, "events lost at the end: 1 of 4"),
        ),
        (
            "last event half written",
            |db| truncate_row(db, &event_key(1, 4), 20),
            Expectation::Repaired(3, "incomplete"),
        ),
        (
            "last event all but written",
            |db| truncate_row(db, &event_key(1, 4), 42),
            Expectation::Repaired(3, "incomplete"),
        ),
        (
            "third event half written",
            |db| truncate_row(db, &event_key(1, 3), 20),
            Expectation::Quarantined("event 3"),
        ),
        (
            "event beyond the head",
            |db| copy_row(db, &event_key(1, 4), &event_key(1, 5)),
            Expectation::Repaired(4, "the last acknowledged event is 4"),
        ),
        (
            "events exchanged",
            |db| copy_row(db, &event_key(1, 1), &event_key(1, 3)),
            Expectation::Quarantined("the record is stored under the wrong key"),
        ),
        (
            "another's event",
            |db| copy_row(db, &event_key(2, 3), &event_key(1, 3)),
            Expectation::Quarantined("the record is stored under the wrong key"),
        ),
        (
            "no head",
            |db| drop(db.remove(row_key(b'h', 1, b"")).unwrap()),
            Expectation::Quarantined("its head is missing"),
        ),
        (
            "another's head",
            |db| copy_row(db, &row_key(b'h', 2, b""), &row_key(b'h', 1, b"")),
            Expectation::Quarantined("its head"),
        ),
        (
            "no summary",
            |db| drop(db.remove(row_key(b's', 1, b"")).unwrap()),
            Expectation::Quarantined("its summary is missing"),
        ),
        (
            "summary flipped",
            |db| flip_bit(db, &row_key(b's', 1, b""), 60, 1),
            Expectation::Quarantined("its summary"),
        ),
        (
            "an odd row",
            |db| drop(db.insert(row_key(b'f', 1, b"odd"), b"odd").unwrap()),
            Expectation::Quarantined("unknown key type"),
        ),
    ];
    for (what, tamper, expect) in cases {
        check_after_damage(tampered_disk(tamper), what, expect);
    }
}

fn truncate_row(db: &sled::Db, key: &[u8], length: usize) {
    let value = db.get(key).unwrap().unwrap().to_vec();
    db.insert(key, &value[..length]).unwrap();
}

fn copy_row(db: &sled::Db, from: &[u8], to: &[u8]) {
    let value = db.get(from).unwrap().unwrap();
    db.insert(to, value).unwrap();
}

/// Returns the blob files, the largest last.
fn blob_files(disk: &Disk) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in fs::read_dir(disk.path().join("blobs")).unwrap() {
        files.extend(fs::read_dir(folder.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.sort_by_key(|path| fs::metadata(path).unwrap().len());
    files
}

#[test]
fn missing_and_damaged_blobs_are_detected() {
    type DamageAction = fn(&PathBuf);
    let spoil: [(&str, DamageAction); 3] = [
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("cut", |path| fs::write(path, &fs::read(path).unwrap()[..30]).unwrap()),
        ("flipped", |path| {
            let mut content = fs::read(path).unwrap();
            *content.last_mut().unwrap() ^= 4;
            fs::write(path, content).unwrap();
        }),
    ];
    for (what, spoil) in spoil {
        let disk = tampered_disk(|_| {});
        spoil(blob_files(&disk).last().unwrap());
        check_after_damage(disk, &format!("large event {what}"), Expectation::Quarantined("blob"));
    }
    let disk = tampered_disk(|_| {});
    fs::remove_file(&blob_files(&disk)[0]).unwrap();
    check_after_damage(disk, "manifests missing", Expectation::Quarantined("is missing"));

    let mut disk = filled_disk();
    let digest = disk.open().put_blob(b"other manifests").unwrap();
    let path = disk.path().join("blobs").join(&digest.to_string()[..2]).join(&digest.to_string()[2..]);
    fs::write(path, b"garbage").unwrap();
    assert!(matches!(disk.open().blob(digest), Err(LogError::BlobDamaged { .. })));
    assert_eq!(disk.open().put_blob(b"other manifests").unwrap(), digest);
    assert_eq!(
        disk.open().blob(digest).unwrap(),
        b"other manifests",
        "storing the content again must repair the blob"
    );
}

/// A finished operation doesn't need its manifests, so it is kept without the missing blobs.
#[test]
fn a_finished_operation_without_its_blobs_is_kept_and_reported() {
    for (number, what) in [(0, "its input"), (1, "event 2")] {
        let mut disk = filled_disk();
        disk.open()
            .append_all(vec![Append {
                summary: finished_summary(1, "shop"),
                ..append_to_shop(1, 5, waves_passed(5..=5))
            }])
            .unwrap();
        disk.close();
        let lost = &blob_files(&disk)[number];
        let content = fs::read(lost).unwrap();
        fs::remove_file(lost).unwrap();
        for is_new in [true, false] {
            let log = disk.reopen();
            assert_eq!(log.listing(), [ended_listing(1, "shop"), open_listing(2, "shop")], "{what}");
            let impaired = log.impaired_streams();
            let [ImpairedStream { stream: id, entry: known, reason }] = &impaired[..] else {
                panic!("{what}: {impaired:?}")
            };
            let known = known.clone().unwrap().decode::<Event>().unwrap();
            assert_eq!((*id, known.summary), (operation(1), finished_summary(1, "shop")), "{what}");
            assert!(reason.starts_with(what) && reason.contains("is missing"), "{reason}");
            let damage = log.damage();
            assert!(
                damage.len() == 1 && damage[0].reason == *reason && damage[0].is_new == is_new,
                "{damage:?}"
            );
            // The snapshot covers the large event.
            assert_eq!(log.load_as::<Event>(operation(1)).unwrap().last_sequence, 5, "{what}");
            match log.all_events(operation(1)) {
                Ok(events) => assert_eq!((number, events.len()), (0, 5)),
                Err(error) => {
                    assert!(number == 1 && matches!(error, LogError::Damaged { .. }), "{error}");
                    assert!(error.to_string().contains("event 2: blob"), "{error}");
                }
            }
        }
        fs::write(lost, content).unwrap();
        let log = disk.reopen();
        assert_eq!(
            (log.impaired_streams(), log.all_events(operation(1)).unwrap().len()),
            (vec![], 5),
            "restored from a backup"
        );
    }
}

#[test]
fn a_missing_reference_is_detected_before_its_blob_is_removed() {
    let disk = tampered_disk(|db| {
        let digest: Digest = {
            let row = db.scan_prefix(row_key(b'r', 1, b"")).next().unwrap().unwrap().0;
            Digest(row[17..].try_into().unwrap())
        };
        db.remove(row_key(b'r', 1, &digest.0)).unwrap();
    });
    check_after_damage(disk, "no reference", Expectation::Quarantined("its head states 2"));
}

#[test]
fn snapshots_are_expendable() {
    let snapshot = row_key(b'n', 1, &3_u64.to_be_bytes());
    type DamageAction = fn(&sled::Db, &[u8]);
    let damage: [(&str, DamageAction); 3] = [
        ("flipped", |db, key| flip_bit(db, key, 45, 1)),
        ("missing", |db, key| drop(db.remove(key).unwrap())),
        ("cut", |db, key| truncate_row(db, key, 12)),
    ];
    for (what, spoil) in damage {
        let disk = tampered_disk(|db| spoil(db, &snapshot));
        check_after_damage(disk, &format!("snapshot {what}"), Expectation::Repaired(4, "snapshot dropped"));
    }
}

#[test]
fn leftovers_of_an_interrupted_compaction_are_no_damage() {
    let mut disk = filled_disk();
    let mut saved = Vec::new();
    disk.tamper(|db| saved.extend(db.iter().map(Result::unwrap)));
    disk.open()
        .append_all(vec![Append { summary: finished_summary(1, "shop"), ..append_to_shop(1, 5, Vec::new()) }])
        .unwrap();
    disk.open().compact_to_history(0).unwrap();
    disk.tamper(|db| {
        for (key, value) in saved.iter().filter(|(key, _)| b"fnr".contains(&key[0])) {
            db.insert(key, value).unwrap();
        }
    });
    let log = disk.open();
    assert_eq!(log.damage(), []);
    assert!(matches!(log.load_as::<Event>(operation(1)), Err(LogError::Compacted { .. })));
    assert_eq!(log.load_as::<Event>(operation(2)).unwrap(), loaded_stream(waves_passed(1..=4), 4));
    disk.tamper(|db| assert!(db.get(event_key(1, 2)).unwrap().is_none(), "cleared"));
}

#[test]
fn rows_of_unknown_families_are_quarantined() {
    let mut disk = filled_disk();
    disk.tamper(|db| drop(db.insert(b"zebra", b"stripes").unwrap()));
    let log = disk.open();
    let damage = log.damage();
    assert!(
        damage.len() == 1 && damage[0].stream.is_none() && damage[0].reason.contains("rows"),
        "{damage:?}"
    );
    assert_eq!(log.all_events(operation(1)).unwrap(), remaining_events());
    assert_eq!(disk.reopen().damage(), without_new_damage(&damage));
}

#[test]
fn the_index_is_rebuilt() {
    let mut disk = filled_disk();
    let stray = [b"ia\0\x04bank".as_slice(), operation(1).0.as_bytes()].concat();
    disk.tamper(|db| {
        for (key, _) in db.scan_prefix(b"i").map(Result::unwrap).collect::<Vec<_>>() {
            db.remove(key).unwrap();
        }
        db.insert(&*stray, b"").unwrap();
    });
    let log = disk.open();
    assert_eq!(log.damage(), []);
    assert_eq!(log.ids_of(&Lookup::of_application("shop")), [operation(1), operation(2)]);
    assert!(log.ids_of(&Lookup::of_application("bank")).is_empty());
    assert_eq!(log.ids_of(&Lookup::open()), [operation(1), operation(2)]);
    log.append_all(vec![Append { summary: finished_summary(2, "bank"), ..append_to_shop(2, 5, Vec::new()) }])
        .unwrap();
    assert_eq!(log.ids_of(&Lookup::of_application("bank")), [operation(2)]);
    assert_eq!(log.ids_of(&Lookup::open()), [operation(1)]);
}

/// Events of a newer program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NewerEvent {
    Began { name: String, at: tidegate_model::Timestamp },
    Passed { wave: u32 },
    Ended { phase: tidegate_model::OperationPhase, notes: Vec<String> },
    Foretold { omen: String },
}

impl LogRecord for NewerEvent {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 4;

    fn kind(&self) -> u16 {
        match self {
            Self::Began { .. } => 1,
            Self::Passed { .. } => 2,
            Self::Ended { .. } => 3,
            Self::Foretold { .. } => 4,
        }
    }
}

impl StreamRecords for NewerEvent {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = kit::Details;
}

#[test]
fn a_record_of_a_newer_program_is_named_and_left_in_place() {
    let mut disk = filled_disk();
    disk.close();
    let options = || OpenOptions { codecs: Codecs::for_kind::<NewerEvent>(), ..kit::open_options() };
    let newer = SledLog::open(disk.path(), options()).unwrap();
    let known = newer.events_as::<NewerEvent>(operation(2)).unwrap().events;
    assert_eq!(known.len(), 4, "the newer program reads the older log");
    let omen = NewerEvent::Foretold { omen: "a kind this program does not know".to_owned() };
    let told = AppendOf::new(operation(1), 5, vec![omen.clone()], operation_summary(1, "shop"));
    newer.append_all(vec![told]).unwrap();
    drop(newer);
    for _ in 0..2 {
        let log = disk.reopen();
        let error = log.load_as::<Event>(operation(1)).unwrap_err();
        assert!(matches!(error, LogError::NewerRecord { kind: 4, highest: 3 }), "{error}");
        assert!(error.to_string().contains("newer version"));
        assert!(log.append_all(vec![append_to_shop(1, 6, waves_passed(6..=6))]).is_err());
        assert_listed(&log.impaired_streams(), "newer kind");
        assert_eq!(log.damage(), [], "a record of a newer version must not count as damage");
        assert_eq!(log.load_as::<Event>(operation(2)).unwrap(), loaded_stream(waves_passed(1..=4), 4));
        log.compact_to_history(0).unwrap();
    }
    disk.close();
    let newer = SledLog::open(disk.path(), options()).unwrap();
    assert_eq!(newer.damage(), []);
    assert_eq!(
        newer.events_as::<NewerEvent>(operation(1)).unwrap().events[4],
        omen,
        "the newer record must be unchanged"
    );
}
