//! Damage to sled's own files: flipped, cut and garbled. Whatever is done to them, opening succeeds, every operation
//! either is as it was or is named in a report, the bytes are kept, and the log takes new facts.

use std::fs;
use std::path::Path;

use tidegate_model::OperationPhase;
use tidegate_oplog::{LogKey, Lookup};

use crate::kit::prelude::*;
use crate::kit::{Disk, Fact, Kept, Log, append, codecs, is_of_witness, operation, passed, reasons};

/// Operations in the log that is damaged; each has as many facts as `FACTS`.
const OPERATIONS: u128 = 12;
const FACTS: u32 = 40;

/// The first facts of every operation; some are large enough that the whole takes several of sled's segments.
fn facts(count: u32) -> Vec<Fact> {
    let of = |wave: u32| match wave % 4 {
        0 => Fact::Ended { phase: OperationPhase::Failed, notes: vec!["a long story; ".repeat(200)] },
        _ => Fact::Passed { wave },
    };
    (1..=count).map(of).collect()
}

fn filled() -> Disk {
    let mut disk = Disk::fresh();
    let log = disk.open();
    for (fact, sequence) in facts(FACTS).into_iter().zip(1..) {
        let group = (1..=OPERATIONS).map(|number| append(number, sequence, vec![fact.clone()]));
        log.append_all(group.collect()).unwrap();
    }
    disk.close();
    // Wait for sled's threads to let go of the files.
    drop(crate::kit::raw(&disk.path()));
    disk
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}

/// What became of the operations.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    whole: usize,
    shortened: usize,
    gone: usize,
}

/// Opens a damaged log and holds it to its promises.
fn judge(path: &Path, what: &str) -> Outcome {
    let log: Log = crate::kit::open(path).unwrap_or_else(|error| panic!("{what}: {error}"));
    let damage = log.damage();
    let mut outcome = Outcome::default();
    for number in 1..=OPERATIONS {
        let told = reasons(&damage, number);
        match log.all(operation(number)) {
            Ok(found) if found.len() == FACTS as usize => {
                assert!(found == facts(FACTS), "{what}");
                outcome.whole += 1;
            }
            Ok(found) => {
                assert!(found == facts(u32::try_from(found.len()).unwrap()), "{what}: a prefix");
                assert!(
                    !told.is_empty(),
                    "{what}: operation {number} lost facts and nobody was told: {damage:?}"
                );
                outcome.shortened += 1;
            }
            Err(error) => {
                assert!(
                    !told.is_empty(),
                    "{what}: operation {number} is gone ({error}) and nobody was told: {damage:?}"
                );
                outcome.gone += 1;
            }
        }
    }
    log.append_all(vec![append(99, 1, passed(1..=1))]).unwrap_or_else(|error| panic!("{what}: {error}"));
    for quarantine in damage.iter().filter_map(|damage| damage.quarantine.as_ref()) {
        assert!(quarantine.join("reason.txt").is_file(), "{what}");
    }
    drop(log);
    // A second opening finds nothing new, and remembers what was reported.
    let log: Log = crate::kit::open(path).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(log.damage(), crate::kit::known(&damage), "{what}");
    assert_eq!(log.all(operation(99)).unwrap(), passed(1..=1), "{what}");
    outcome
}

fn damaged(disk: &Disk, what: &str, tamper: impl FnOnce(&Path)) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    copy(&disk.path(), &path);
    tamper(&path);
    judge(&path, what)
}

/// sled would give up everything after the damaged byte. Here it costs the record it is in, at most.
#[test]
fn a_flipped_bit_costs_at_most_one_operation() {
    let disk = filled();
    let db = fs::read(disk.db_file()).unwrap();
    let written: Vec<usize> =
        db.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
    for (count, at) in written.iter().step_by(written.len() / 50).enumerate() {
        let mut bad = db.clone();
        bad[*at] ^= 1 << (count % 8);
        let what = format!("bit flipped at {at}");
        let outcome = damaged(&disk, &what, |path| fs::write(path.join("log/db"), &bad).unwrap());
        assert!(outcome.whole + 1 >= OPERATIONS as usize, "{what}: {outcome:?}");
    }
}

#[test]
fn a_cut_data_file_loses_no_more_than_what_was_cut() {
    let disk = filled();
    let db = fs::read(disk.db_file()).unwrap();
    let end = db.iter().rposition(|byte| *byte != 0).unwrap();
    for (cut, spoilt) in
        [(1, 1), (100, 1), (1_000, 1), (10_000, 5), (40_000, 12), (200_000, 12), (end - 9, 12)]
    {
        let what = format!("{cut} bytes cut");
        let left = &db[..end.saturating_sub(cut)];
        let outcome = damaged(&disk, &what, |path| fs::write(path.join("log/db"), left).unwrap());
        assert!(outcome.whole >= OPERATIONS as usize - spoilt, "{what}: {outcome:?}");
    }
}

#[test]
fn a_data_file_that_is_none() {
    let disk = filled();
    for (what, content) in
        [("empty", Vec::new()), ("garbage", b"garbage".repeat(100_000)), ("zeros", vec![0; 1 << 20])]
    {
        let outcome = damaged(&disk, what, |path| fs::write(path.join("log/db"), &content).unwrap());
        assert_eq!(outcome.gone, OPERATIONS as usize, "{what}");
    }
    let outcome = damaged(&disk, "no database at all", |path| fs::remove_dir_all(path.join("log")).unwrap());
    assert_eq!(outcome.gone, OPERATIONS as usize);
}

#[test]
fn other_files_of_the_database() {
    let disk = filled();
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
    let outcome = damaged(&disk, "an index snapshot that was being written", |path| {
        let left_over = path.join("log/snap.FFFFFFFFFFFFFFF0.generating");
        fs::write(left_over, b"half").unwrap();
    });
    assert_eq!(outcome.whole, whole);
    assert_eq!(damaged(&disk, "index snapshot flipped", |path| flip(&snapshot(path))).whole, whole);
    assert_eq!(
        damaged(&disk, "index snapshot cut", |path| fs::write(snapshot(path), b"short").unwrap()).whole,
        whole
    );
    assert_eq!(
        damaged(&disk, "index snapshot gone", |path| fs::remove_file(snapshot(path)).unwrap()).whole,
        whole
    );
    assert_eq!(damaged(&disk, "conf flipped", |path| flip(&path.join("log/conf"))).whole, whole);
    assert_eq!(
        damaged(&disk, "conf gone", |path| fs::remove_file(path.join("log/conf")).unwrap()).whole,
        whole
    );
    assert_eq!(
        damaged(&disk, "witness gone", |path| fs::remove_file(path.join("witness")).unwrap()).whole,
        whole
    );
    assert_eq!(
        damaged(&disk, "salvage begun", |path| fs::create_dir(path.join("log.new")).unwrap()).whole,
        whole
    );
    let outcome = damaged(&disk, "salvage not ended", |path| {
        fs::rename(path.join("log"), path.join("log.new")).unwrap();
    });
    assert_eq!(outcome.whole, whole);
}

/// A garbled witness takes nothing away, but that it cannot speak is said.
#[test]
fn a_garbled_witness() {
    let mut disk = filled();
    fs::write(disk.path().join("witness"), b"something else").unwrap();
    let log = disk.open();
    let damage = log.damage();
    assert!(damage.len() == 1 && damage[0].reason.contains("witness"), "{damage:?}");
    assert_eq!(log.all(operation(1)).unwrap(), facts(FACTS));
    assert_eq!(disk.reopen().damage(), [], "the new one can speak");
}

/// Nor does a missing one; without it an older copy of the log would pass for the newest.
#[test]
fn a_missing_witness() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![append(1, 1, passed(1..=3))]).unwrap();
    disk.close();
    drop(crate::kit::raw(&disk.path()));
    let (log, older) = (disk.path().join("log"), disk.folder.path().join("older"));
    copy(&log, &older);
    disk.open().append_all(vec![append(1, 4, passed(4..=5))]).unwrap();
    disk.close();
    drop(crate::kit::raw(&disk.path()));
    fs::remove_dir_all(&log).unwrap();
    copy(&older, &log);
    let witness = disk.path().join("witness");
    fs::remove_file(&witness).unwrap();
    // A reader cannot begin a new one, and so says it each time.
    for _ in 0..2 {
        let read = Log::open_to_read(disk.path(), Some(LogKey::new(&[7; 32])), codecs()).unwrap();
        let damage = read.damage();
        assert!(damage.len() == 1 && damage[0].is_new && is_of_witness(&damage[0]), "{damage:?}");
        assert!(!witness.exists());
    }
    let log = disk.open();
    let damage = log.damage();
    assert!(damage.len() == 1 && damage[0].is_new && damage[0].reason.contains("older copy"), "{damage:?}");
    assert_eq!(log.all(operation(1)).unwrap(), passed(1..=3));
    log.append_all(vec![append(1, 4, passed(4..=4))]).unwrap();
    assert_eq!(disk.reopen().damage(), [], "the new one can speak");
}

/// A log that holds nothing has lost nothing: the first process may have been killed before it made the file.
#[test]
fn a_missing_witness_of_an_empty_log() {
    let mut disk = Disk::fresh();
    disk.open();
    disk.close();
    fs::remove_file(disk.path().join("witness")).unwrap();
    assert_eq!(disk.open().damage(), []);
}

/// What ended must not be resumed from an earlier fact, whatever later operations did since.
#[test]
fn an_ended_operation_that_lost_its_end_is_set_aside() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    log.append_all(vec![append(1, 1, passed(1..=3))]).unwrap();
    let before = fs::read(disk.db_file()).unwrap();
    let ended =
        tidegate_oplog::Append { summary: crate::kit::finished(1, "shop"), ..append(1, 4, passed(4..=4)) };
    disk.open().append_all(vec![ended]).unwrap();
    disk.close();
    drop(crate::kit::raw(&disk.path()));
    fs::write(disk.db_file(), before).unwrap();
    let log = disk.open();
    assert!(log.load_as::<Fact>(operation(1)).is_err());
    assert!(log.ids_of(&Lookup::open()).is_empty());
    let damage = log.damage();
    assert!(reasons(&damage, 1).iter().any(|reason| reason.contains("it was over")), "{damage:?}");
}

/// Where all facts are there, and only the summary is from before the end, that is told to whoever can state it again.
#[test]
fn an_ended_operation_with_an_older_summary_is_reported() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![append(1, 1, passed(1..=3))]).unwrap();
    let key = [&b"s"[..], operation(1).0.as_bytes()].concat();
    let mut before = None;
    disk.tamper(|db| before = db.get(&key).unwrap());
    let ended =
        tidegate_oplog::Append { summary: crate::kit::finished(1, "shop"), ..append(1, 4, passed(4..=4)) };
    disk.open().append_all(vec![ended]).unwrap();
    disk.tamper(|db| drop(db.insert(&key, before.unwrap()).unwrap()));
    let log = disk.open();
    let damage = log.damage();
    assert!(reasons(&damage, 1).iter().any(|reason| reason.contains("its summary is lost")), "{damage:?}");
    assert!(damage.iter().all(|damage| damage.is_new));
    assert_eq!(log.all(operation(1)).unwrap(), passed(1..=4), "nothing else is");
}
