//! Damage to sled's own files: flipped bits, truncation and garbage. In every case, the log opens, each
//! operation is either unchanged or reported, the damaged bytes are kept, and the log accepts new events.

use std::fs;
use std::path::Path;

use tidegate_model::OperationPhase;
use tidegate_oplog::{LogKey, Lookup};

use crate::kit::prelude::*;
use crate::kit::{
    Disk, Event, Log, ReopenableLog, append_to_shop, damage_reasons, is_witness_damage, operation,
    test_codecs, waves_passed,
};

/// Number of operations in the damaged log, each with `EVENTS` events.
const OPERATIONS: u128 = 12;
const EVENTS: u32 = 40;

/// Returns the first events of every operation. Some are large, so that together they fill several of sled's
/// segments.
fn first_events(count: u32) -> Vec<Event> {
    let of = |wave: u32| match wave % 4 {
        0 => Event::Ended { phase: OperationPhase::Failed, notes: vec!["a long story; ".repeat(200)] },
        _ => Event::Passed { wave },
    };
    (1..=count).map(of).collect()
}

fn filled_disk() -> Disk {
    let mut disk = Disk::create();
    let log = disk.open();
    for (event, sequence) in first_events(EVENTS).into_iter().zip(1..) {
        let group = (1..=OPERATIONS).map(|number| append_to_shop(number, sequence, vec![event.clone()]));
        log.append_all(group.collect()).unwrap();
    }
    disk.close();
    // Wait until sled's threads have released the files.
    drop(crate::kit::open_database(&disk.path()));
    disk
}

/// Copies a folder recursively.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}

/// State of the operations after opening the damaged log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    whole: usize,
    shortened: usize,
    missing: usize,
}

/// Opens a damaged log and checks its guarantees.
fn check_damaged_log(path: &Path, what: &str) -> Outcome {
    let log: Log = crate::kit::open_log(path).unwrap_or_else(|error| panic!("{what}: {error}"));
    let damage = log.damage();
    let mut outcome = Outcome::default();
    for number in 1..=OPERATIONS {
        let reasons = damage_reasons(&damage, number);
        match log.all_events(operation(number)) {
            Ok(found) if found.len() == EVENTS as usize => {
                assert!(found == first_events(EVENTS), "{what}");
                outcome.whole += 1;
            }
            Ok(found) => {
                assert!(
                    found == first_events(u32::try_from(found.len()).unwrap()),
                    "{what}: operation {number} must have a prefix of its events"
                );
                assert!(
                    !reasons.is_empty(),
                    "{what}: operation {number} lost events without a report: {damage:?}"
                );
                outcome.shortened += 1;
            }
            Err(error) => {
                assert!(
                    !reasons.is_empty(),
                    "{what}: operation {number} is gone ({error}) without a report: {damage:?}"
                );
                outcome.missing += 1;
            }
        }
    }
    log.append_all(vec![append_to_shop(99, 1, waves_passed(1..=1))])
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    for quarantine in damage.iter().filter_map(|damage| damage.quarantine.as_ref()) {
        assert!(quarantine.join("reason.txt").is_file(), "{what}");
    }
    drop(log);
    // Reopening finds no new damage, but still returns the damage reported before.
    let log: Log = crate::kit::open_log(path).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(log.damage(), crate::kit::without_new_damage(&damage), "{what}");
    assert_eq!(log.all_events(operation(99)).unwrap(), waves_passed(1..=1), "{what}");
    outcome
}

fn open_after_damage(disk: &Disk, what: &str, tamper: impl FnOnce(&Path)) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    copy_folder(&disk.path(), &path);
    tamper(&path);
    check_damaged_log(&path, what)
}

/// sled alone would drop everything after the damaged byte. The log loses at most the damaged record.
#[test]
fn a_flipped_bit_costs_at_most_one_operation() {
    let disk = filled_disk();
    let db = fs::read(disk.db_file()).unwrap();
    let written: Vec<usize> =
        db.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
    for (count, at) in written.iter().step_by(written.len() / 50).enumerate() {
        let mut bad = db.clone();
        bad[*at] ^= 1 << (count % 8);
        let what = format!("bit flipped at {at}");
        let outcome = open_after_damage(&disk, &what, |path| fs::write(path.join("log/db"), &bad).unwrap());
        assert!(outcome.whole + 1 >= OPERATIONS as usize, "{what}: {outcome:?}");
    }
}

#[test]
fn a_truncated_data_file_loses_only_the_missing_part() {
    let disk = filled_disk();
    let db = fs::read(disk.db_file()).unwrap();
    let end = db.iter().rposition(|byte| *byte != 0).unwrap();
    for (cut, spoilt) in
        [(1, 1), (100, 1), (1_000, 1), (10_000, 5), (40_000, 12), (200_000, 12), (end - 9, 12)]
    {
        let what = format!("{cut} bytes cut");
        let left = &db[..end.saturating_sub(cut)];
        let outcome = open_after_damage(&disk, &what, |path| fs::write(path.join("log/db"), left).unwrap());
        assert!(outcome.whole >= OPERATIONS as usize - spoilt, "{what}: {outcome:?}");
    }
}

#[test]
fn a_replaced_data_file_loses_all_operations() {
    let disk = filled_disk();
    for (what, content) in
        [("empty", Vec::new()), ("garbage", b"garbage".repeat(100_000)), ("zeros", vec![0; 1 << 20])]
    {
        let outcome =
            open_after_damage(&disk, what, |path| fs::write(path.join("log/db"), &content).unwrap());
        assert_eq!(outcome.missing, OPERATIONS as usize, "{what}");
    }
    let outcome =
        open_after_damage(&disk, "no database at all", |path| fs::remove_dir_all(path.join("log")).unwrap());
    assert_eq!(outcome.missing, OPERATIONS as usize);
}

#[test]
fn damage_to_other_database_files_is_handled() {
    let disk = filled_disk();
    let whole = OPERATIONS as usize;
    let snapshot = |path: &Path| {
        let mut entries = fs::read_dir(path.join("log")).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snap.")).unwrap()
    };
    let flip = |path: &Path| {
        let mut content = fs::read(path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(path, content).unwrap();
    };
    let outcome = open_after_damage(&disk, "an index snapshot that was being written", |path| {
        let left_over = path.join("log/snap.FFFFFFFFFFFFFFF0.generating");
        fs::write(left_over, b"half").unwrap();
    });
    assert_eq!(outcome.whole, whole);
    assert_eq!(open_after_damage(&disk, "index snapshot flipped", |path| flip(&snapshot(path))).whole, whole);
    assert_eq!(
        open_after_damage(&disk, "index snapshot cut", |path| fs::write(snapshot(path), b"short").unwrap())
            .whole,
        whole
    );
    assert_eq!(
        open_after_damage(&disk, "index snapshot gone", |path| fs::remove_file(snapshot(path)).unwrap())
            .whole,
        whole
    );
    assert_eq!(open_after_damage(&disk, "conf flipped", |path| flip(&path.join("log/conf"))).whole, whole);
    assert_eq!(
        open_after_damage(&disk, "conf gone", |path| fs::remove_file(path.join("log/conf")).unwrap()).whole,
        whole
    );
    assert_eq!(
        open_after_damage(&disk, "witness gone", |path| fs::remove_file(path.join("witness")).unwrap()).whole,
        whole
    );
    assert_eq!(
        open_after_damage(&disk, "salvage begun", |path| fs::create_dir(path.join("log.new")).unwrap()).whole,
        whole
    );
    let outcome = open_after_damage(&disk, "salvage not ended", |path| {
        fs::rename(path.join("log"), path.join("log.new")).unwrap();
    });
    assert_eq!(outcome.whole, whole);
}

/// A garbled witness is reported, but nothing is lost.
#[test]
fn a_garbled_witness_is_reported_and_loses_nothing() {
    let mut disk = filled_disk();
    fs::write(disk.path().join("witness"), b"something else").unwrap();
    let log = disk.open();
    let damage = log.damage();
    assert!(damage.len() == 1 && damage[0].reason.contains("witness"), "{damage:?}");
    assert_eq!(log.all_events(operation(1)).unwrap(), first_events(EVENTS));
    assert_eq!(disk.reopen().damage(), [], "the new witness file must be valid");
}

/// A missing witness is reported, but nothing is lost. Without the report, an older copy of the log could
/// pass for the newest.
#[test]
fn a_missing_witness_is_reported_and_loses_nothing() {
    let mut disk = Disk::create();
    disk.open().append_all(vec![append_to_shop(1, 1, waves_passed(1..=3))]).unwrap();
    disk.close();
    drop(crate::kit::open_database(&disk.path()));
    let (log, older) = (disk.path().join("log"), disk.folder.path().join("older"));
    copy_folder(&log, &older);
    disk.open().append_all(vec![append_to_shop(1, 4, waves_passed(4..=5))]).unwrap();
    disk.close();
    drop(crate::kit::open_database(&disk.path()));
    fs::remove_dir_all(&log).unwrap();
    copy_folder(&older, &log);
    let witness = disk.path().join("witness");
    fs::remove_file(&witness).unwrap();
    // A reader can't begin a new witness, so it reports the damage each time.
    for _ in 0..2 {
        let read = Log::open_read_only(disk.path(), Some(LogKey::new(&[7; 32])), test_codecs()).unwrap();
        let damage = read.damage();
        assert!(damage.len() == 1 && damage[0].is_new && is_witness_damage(&damage[0]), "{damage:?}");
        assert!(!witness.exists());
    }
    let log = disk.open();
    let damage = log.damage();
    assert!(damage.len() == 1 && damage[0].is_new && damage[0].reason.contains("older copy"), "{damage:?}");
    assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=3));
    log.append_all(vec![append_to_shop(1, 4, waves_passed(4..=4))]).unwrap();
    assert_eq!(disk.reopen().damage(), [], "the new witness file must be valid");
}

/// An empty log hasn't lost anything: the first process may have been killed before it created the witness.
#[test]
fn a_missing_witness_of_an_empty_log_is_no_damage() {
    let mut disk = Disk::create();
    disk.open();
    disk.close();
    fs::remove_file(disk.path().join("witness")).unwrap();
    assert_eq!(disk.open().damage(), []);
}

/// A finished operation must not resume from an earlier event, because later operations may have changed the
/// same objects.
#[test]
fn a_finished_operation_without_its_end_is_quarantined() {
    let mut disk = Disk::create();
    let log = disk.open();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=3))]).unwrap();
    let before = fs::read(disk.db_file()).unwrap();
    let ended = tidegate_oplog::Append {
        summary: crate::kit::finished_summary(1, "shop"),
        ..append_to_shop(1, 4, waves_passed(4..=4))
    };
    disk.open().append_all(vec![ended]).unwrap();
    disk.close();
    drop(crate::kit::open_database(&disk.path()));
    fs::write(disk.db_file(), before).unwrap();
    let log = disk.open();
    assert!(log.load_as::<Event>(operation(1)).is_err());
    assert!(log.ids_of(&Lookup::open()).is_empty());
    let damage = log.damage();
    assert!(damage_reasons(&damage, 1).iter().any(|reason| reason.contains("it had ended")), "{damage:?}");
}

/// If only the last summary is lost and all events are present, the damage is reported, and the machine can
/// rewrite the summary.
#[test]
fn a_finished_operation_with_an_older_summary_is_reported() {
    let mut disk = Disk::create();
    disk.open().append_all(vec![append_to_shop(1, 1, waves_passed(1..=3))]).unwrap();
    let key = [&b"s"[..], operation(1).0.as_bytes()].concat();
    let mut before = None;
    disk.tamper(|db| before = db.get(&key).unwrap());
    let ended = tidegate_oplog::Append {
        summary: crate::kit::finished_summary(1, "shop"),
        ..append_to_shop(1, 4, waves_passed(4..=4))
    };
    disk.open().append_all(vec![ended]).unwrap();
    disk.tamper(|db| drop(db.insert(&key, before.unwrap()).unwrap()));
    let log = disk.open();
    let damage = log.damage();
    assert!(
        damage_reasons(&damage, 1).iter().any(|reason| reason.contains("its latest summary is lost")),
        "{damage:?}"
    );
    assert!(damage.iter().all(|damage| damage.is_new));
    assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=4), "only the summary is damaged");
}
