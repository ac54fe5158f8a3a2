//! Damage to records, done behind the log's back: one operation suffers, the others do not notice.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, LogRecord, Records, StreamKind};
use tidegate_oplog::{AppendOf, Codecs, Impaired, LogError, Lookup, OpenOptions, SledLog};

use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Fact, Kept, State, append, ended_line, finished, known, loaded, open_line, operation,
    passed, reasons, summary,
};

fn key(family: u8, number: u128, rest: &[u8]) -> Vec<u8> {
    [&[family], operation(number).0.as_bytes().as_slice(), rest].concat()
}

fn fact(number: u128, sequence: u64) -> Vec<u8> {
    key(b'f', number, &sequence.to_be_bytes())
}

fn big_fact() -> Fact {
    Fact::Began { name: "large".repeat(20_000), at: tidegate_model::Timestamp::from_millis(0) }
}

fn state() -> State {
    State { waves: vec![1, 2, 3], padding: String::new() }
}

/// Operation 1 has four facts, the second of them large, a snapshot of three and a blob; operation 2 has four facts.
fn filled() -> Disk {
    let mut disk = Disk::fresh();
    let log = disk.open();
    let blob = log.put_blob(b"manifests").unwrap();
    log.append_all(vec![
        Append { blobs: vec![blob], ..append(1, 1, passed(1..=1)) },
        append(2, 1, passed(1..=4)),
    ])
    .unwrap();
    let facts = vec![big_fact(), Fact::Passed { wave: 3 }];
    log.append_all(vec![Append { snapshot: Some(state()), ..append(1, 2, facts) }]).unwrap();
    log.append_all(vec![append(1, 4, passed(4..=4))]).unwrap();
    disk
}

fn facts() -> Vec<Fact> {
    vec![Fact::Passed { wave: 1 }, big_fact(), Fact::Passed { wave: 3 }, Fact::Passed { wave: 4 }]
}

/// What should become of operation 1.
#[derive(Clone, Copy)]
enum Expect {
    /// Set aside, with a reason that contains this.
    SetAside(&'static str),
    /// Alive with this many facts, and a report that contains this.
    Mended(usize, &'static str),
}

/// Opens a tampered log and holds it to its promises.
fn judge(mut disk: Disk, what: &str, expect: Expect) {
    let log = disk.open();
    let damage = log.damage();
    let told = reasons(&damage, 1);
    match expect {
        Expect::SetAside(reason) => {
            assert!(told.iter().any(|told| told.contains(reason)), "{what}: {damage:?}");
            let error = log.load_as::<Fact>(operation(1)).unwrap_err();
            assert!(
                matches!(error, LogError::Damaged { .. } | LogError::NewerRecord { .. }),
                "{what}: {error}"
            );
            assert!(log.append_all(vec![append(1, 5, passed(5..=5))]).is_err(), "{what}");
            let quarantine = damage.iter().find_map(|damage| damage.quarantine.clone()).unwrap();
            let rows = fs::read(quarantine.join("rows.bin")).unwrap();
            let id = operation(1);
            assert!(rows.windows(16).any(|window| window == id.0.as_bytes()), "{what}: the bytes are kept");
            assert_eq!(log.lines(), [open_line(2, "shop")], "{what}");
            assert_listed(&log.impaired(), what);
        }
        Expect::Mended(count, reason) => {
            assert!(told.iter().any(|told| told.contains(reason)), "{what}: {damage:?}");
            assert_eq!(log.all(operation(1)).unwrap(), facts()[..count], "{what}");
            let next = u64::try_from(count).unwrap() + 1;
            log.append_all(vec![append(1, next, passed(9..=9))]).unwrap();
            assert_eq!(log.load_as::<Fact>(operation(1)).unwrap().last_sequence, next, "{what}");
        }
    }
    assert_eq!(
        log.load_as::<Fact>(operation(2)).unwrap(),
        loaded(passed(1..=4), 4),
        "{what}: the other goes on"
    );
    log.append_all(vec![append(2, 5, passed(5..=5)), append(3, 1, passed(1..=1))]).unwrap();
    let log = disk.reopen();
    if matches!(expect, Expect::SetAside(_)) {
        assert_listed(&log.impaired(), what);
    }
    assert_eq!(log.damage(), known(&damage), "{what}: known for ever, new once");
    assert_eq!(log.load_as::<Fact>(operation(2)).unwrap(), loaded(passed(1..=5), 5), "{what}");
    assert_eq!(log.load_as::<Fact>(operation(1)).is_ok(), matches!(expect, Expect::Mended(..)), "{what}");
}

/// Operation 1 is still known, with its summary unless just that is what was hit.
fn assert_listed(impaired: &[Impaired], what: &str) {
    let [Impaired { stream: id, entry: known, reason }] = impaired else { panic!("{what}: {impaired:?}") };
    assert_eq!(*id, operation(1), "{what}");
    assert!(!reason.is_empty(), "{what}");
    let known =
        known.as_ref().map(|known| (known.stream, known.summary.application.as_deref().unwrap_or_default()));
    assert!(
        known == Some((operation(1), "shop")) || (known.is_none() && what.contains("summary")),
        "{what}: {known:?}"
    );
}

fn tampered(tamper: impl FnOnce(&sled::Db)) -> Disk {
    let mut disk = filled();
    disk.tamper(tamper);
    // The witness is another guard; here the records must speak for themselves.
    fs::remove_file(disk.path().join("witness")).unwrap();
    disk
}

fn flip(db: &sled::Db, key: &[u8], at: usize, bit: u8) {
    let mut value = db.get(key).unwrap().unwrap().to_vec();
    value[at] ^= 1 << bit;
    db.insert(key, value).unwrap();
}

#[test]
fn every_flipped_bit_of_a_fact_sets_the_operation_aside() {
    let mut disk = filled();
    let mut length = 0;
    disk.tamper(|db| length = db.get(fact(1, 1)).unwrap().unwrap().len());
    // All bits are flipped in the frame's own tests; here one of each byte, through the whole log.
    for at in (0..length).step_by(3) {
        let disk = tampered(|db| flip(db, &fact(1, 1), at, u8::try_from(at % 8).unwrap()));
        judge(disk, &format!("fact 1, byte {at}"), Expect::SetAside("fact 1"));
    }
}

#[test]
fn records_that_are_missing_cut_or_exchanged() {
    type Case = (&'static str, fn(&sled::Db), Expect);
    let cases: [Case; 14] = [
        (
            "no first fact",
            |db| drop(db.remove(fact(1, 1)).unwrap()),
            Expect::SetAside("gap: fact 1 is missing"),
        ),
        (
            "no third fact",
            |db| drop(db.remove(fact(1, 3)).unwrap()),
            Expect::SetAside("gap: fact 3 is missing"),
        ),
        (
            "no last fact",
            |db| drop(db.remove(fact(1, 4)).unwrap()),
            Expect::Mended(3, "1 of 4 facts are lost"),
        ),
        ("last fact half written", |db| cut(db, &fact(1, 4), 20), Expect::Mended(3, "half written")),
        ("last fact all but written", |db| cut(db, &fact(1, 4), 42), Expect::Mended(3, "half written")),
        ("third fact half written", |db| cut(db, &fact(1, 3), 20), Expect::SetAside("fact 3")),
        (
            "fact beyond the head",
            |db| copy(db, &fact(1, 4), &fact(1, 5)),
            Expect::Mended(4, "beyond the head"),
        ),
        (
            "facts exchanged",
            |db| copy(db, &fact(1, 1), &fact(1, 3)),
            Expect::SetAside("it belongs elsewhere"),
        ),
        ("another's fact", |db| copy(db, &fact(2, 3), &fact(1, 3)), Expect::SetAside("it belongs elsewhere")),
        (
            "no head",
            |db| drop(db.remove(key(b'h', 1, b"")).unwrap()),
            Expect::SetAside("its head is missing"),
        ),
        (
            "another's head",
            |db| copy(db, &key(b'h', 2, b""), &key(b'h', 1, b"")),
            Expect::SetAside("its head"),
        ),
        (
            "no summary",
            |db| drop(db.remove(key(b's', 1, b"")).unwrap()),
            Expect::SetAside("its summary is missing"),
        ),
        ("summary flipped", |db| flip(db, &key(b's', 1, b""), 60, 1), Expect::SetAside("its summary")),
        (
            "an odd row",
            |db| drop(db.insert(key(b'f', 1, b"odd"), b"odd").unwrap()),
            Expect::SetAside("unknown shape"),
        ),
    ];
    for (what, tamper, expect) in cases {
        judge(tampered(tamper), what, expect);
    }
}

fn cut(db: &sled::Db, key: &[u8], length: usize) {
    let value = db.get(key).unwrap().unwrap().to_vec();
    db.insert(key, &value[..length]).unwrap();
}

fn copy(db: &sled::Db, from: &[u8], to: &[u8]) {
    let value = db.get(from).unwrap().unwrap();
    db.insert(to, value).unwrap();
}

/// The files of blobs, the largest last.
fn blob_files(disk: &Disk) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in fs::read_dir(disk.path().join("blobs")).unwrap() {
        files.extend(fs::read_dir(folder.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.sort_by_key(|path| fs::metadata(path).unwrap().len());
    files
}

#[test]
fn blobs_that_are_missing_or_damaged() {
    type Spoil = fn(&PathBuf);
    let spoil: [(&str, Spoil); 3] = [
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("cut", |path| fs::write(path, &fs::read(path).unwrap()[..30]).unwrap()),
        ("flipped", |path| {
            let mut content = fs::read(path).unwrap();
            *content.last_mut().unwrap() ^= 4;
            fs::write(path, content).unwrap();
        }),
    ];
    for (what, spoil) in spoil {
        let disk = tampered(|_| {});
        spoil(blob_files(&disk).last().unwrap());
        judge(disk, &format!("large fact {what}"), Expect::SetAside("blob"));
    }
    let disk = tampered(|_| {});
    fs::remove_file(&blob_files(&disk)[0]).unwrap();
    judge(disk, "manifests missing", Expect::SetAside("is missing"));

    let mut disk = filled();
    let digest = disk.open().put_blob(b"other manifests").unwrap();
    let path = disk.path().join("blobs").join(&digest.to_string()[..2]).join(&digest.to_string()[2..]);
    fs::write(path, b"garbage").unwrap();
    assert!(matches!(disk.open().blob(digest), Err(LogError::BlobDamaged { .. })));
    assert_eq!(disk.open().put_blob(b"other manifests").unwrap(), digest);
    assert_eq!(disk.open().blob(digest).unwrap(), b"other manifests", "putting it again mends it");
}

/// What is over needs its manifests no more: it stays, and lacks what is gone.
#[test]
fn a_finished_operation_without_its_blobs_is_kept_and_says_what_it_lacks() {
    for (number, what) in [(0, "what it was given"), (1, "fact 2")] {
        let mut disk = filled();
        disk.open()
            .append_all(vec![Append { summary: finished(1, "shop"), ..append(1, 5, passed(5..=5)) }])
            .unwrap();
        disk.close();
        let lost = &blob_files(&disk)[number];
        let content = fs::read(lost).unwrap();
        fs::remove_file(lost).unwrap();
        for is_new in [true, false] {
            let log = disk.reopen();
            assert_eq!(log.lines(), [ended_line(1, "shop"), open_line(2, "shop")], "{what}");
            let impaired = log.impaired();
            let [Impaired { stream: id, entry: known, reason }] = &impaired[..] else {
                panic!("{what}: {impaired:?}")
            };
            let known = known.clone().unwrap().decode::<Fact>().unwrap();
            assert_eq!((*id, known.summary), (operation(1), finished(1, "shop")), "{what}");
            assert!(reason.starts_with(what) && reason.contains("is missing"), "{reason}");
            let damage = log.damage();
            assert!(
                damage.len() == 1 && damage[0].reason == *reason && damage[0].is_new == is_new,
                "{damage:?}"
            );
            // The snapshot stands for the large fact.
            assert_eq!(log.load_as::<Fact>(operation(1)).unwrap().last_sequence, 5, "{what}");
            match log.all(operation(1)) {
                Ok(facts) => assert_eq!((number, facts.len()), (0, 5)),
                Err(error) => {
                    assert!(number == 1 && matches!(error, LogError::Damaged { .. }), "{error}");
                    assert!(error.to_string().contains("fact 2: blob"), "{error}");
                }
            }
        }
        fs::write(lost, content).unwrap();
        let log = disk.reopen();
        assert_eq!(
            (log.impaired(), log.all(operation(1)).unwrap().len()),
            (vec![], 5),
            "restored from a backup"
        );
    }
}

#[test]
fn a_reference_that_is_missing_is_noticed_before_its_blob_is_removed() {
    let disk = tampered(|db| {
        let digest: Digest = {
            let row = db.scan_prefix(key(b'r', 1, b"")).next().unwrap().unwrap().0;
            Digest(row[17..].try_into().unwrap())
        };
        db.remove(key(b'r', 1, &digest.0)).unwrap();
    });
    judge(disk, "no reference", Expect::SetAside("its head says 2"));
}

#[test]
fn snapshots_are_expendable() {
    let snapshot = key(b'n', 1, &3_u64.to_be_bytes());
    type Spoil = fn(&sled::Db, &[u8]);
    let damage: [(&str, Spoil); 3] = [
        ("flipped", |db, key| flip(db, key, 45, 1)),
        ("missing", |db, key| drop(db.remove(key).unwrap())),
        ("cut", |db, key| cut(db, key, 12)),
    ];
    for (what, spoil) in damage {
        let disk = tampered(|db| spoil(db, &snapshot));
        judge(disk, &format!("snapshot {what}"), Expect::Mended(4, "snapshot dropped"));
    }
}

#[test]
fn left_overs_of_an_interrupted_compaction_are_no_damage() {
    let mut disk = filled();
    let mut saved = Vec::new();
    disk.tamper(|db| saved.extend(db.iter().map(Result::unwrap)));
    disk.open()
        .append_all(vec![Append { summary: finished(1, "shop"), ..append(1, 5, Vec::new()) }])
        .unwrap();
    disk.open().tidy(0).unwrap();
    disk.tamper(|db| {
        for (key, value) in saved.iter().filter(|(key, _)| b"fnr".contains(&key[0])) {
            db.insert(key, value).unwrap();
        }
    });
    let log = disk.open();
    assert_eq!(log.damage(), []);
    assert!(matches!(log.load_as::<Fact>(operation(1)), Err(LogError::Compacted { .. })));
    assert_eq!(log.load_as::<Fact>(operation(2)).unwrap(), loaded(passed(1..=4), 4));
    disk.tamper(|db| assert!(db.get(fact(1, 2)).unwrap().is_none(), "cleared"));
}

#[test]
fn rows_of_no_family_are_kept_aside() {
    let mut disk = filled();
    disk.tamper(|db| drop(db.insert(b"zebra", b"stripes").unwrap()));
    let log = disk.open();
    let damage = log.damage();
    assert!(
        damage.len() == 1 && damage[0].stream.is_none() && damage[0].reason.contains("rows"),
        "{damage:?}"
    );
    assert_eq!(log.all(operation(1)).unwrap(), facts());
    assert_eq!(disk.reopen().damage(), known(&damage));
}

#[test]
fn the_index_is_rebuilt() {
    let mut disk = filled();
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
    log.append_all(vec![Append { summary: finished(2, "bank"), ..append(2, 5, Vec::new()) }]).unwrap();
    assert_eq!(log.ids_of(&Lookup::of_application("bank")), [operation(2)]);
    assert_eq!(log.ids_of(&Lookup::open()), [operation(1)]);
}

/// The facts of a later program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Newer {
    Began { name: String, at: tidegate_model::Timestamp },
    Passed { wave: u32 },
    Ended { phase: tidegate_model::OperationPhase, notes: Vec<String> },
    Foretold { omen: String },
}

impl LogRecord for Newer {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 4;
    fn is_earlier(_: u16) -> bool {
        false
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Began { .. } => 1,
            Self::Passed { .. } => 2,
            Self::Ended { .. } => 3,
            Self::Foretold { .. } => 4,
        }
    }
}

impl Records for Newer {
    const KIND: StreamKind = StreamKind::OPERATION;
    type Snapshot = State;
    type Details = kit::Details;
}

#[test]
fn a_record_of_a_newer_program_is_named_and_left_alone() {
    let mut disk = filled();
    disk.close();
    let options = || OpenOptions { codecs: Codecs::of::<Newer>(), ..kit::options() };
    let newer = SledLog::open(disk.path(), options()).unwrap();
    let known = newer.facts_as::<Newer>(operation(2)).unwrap().facts;
    assert_eq!(known.len(), 4, "the newer program reads the older log");
    let omen = Newer::Foretold { omen: "a kind this program does not know".to_owned() };
    let told = AppendOf::new(operation(1), 5, vec![omen.clone()], summary(1, "shop"));
    newer.append_all(vec![told]).unwrap();
    drop(newer);
    for _ in 0..2 {
        let log = disk.reopen();
        let error = log.load_as::<Fact>(operation(1)).unwrap_err();
        assert!(matches!(error, LogError::NewerRecord { kind: 4, highest: 3 }), "{error}");
        assert!(error.to_string().contains("newer program"));
        assert!(log.append_all(vec![append(1, 6, passed(6..=6))]).is_err());
        assert_listed(&log.impaired(), "newer kind");
        assert_eq!(log.damage(), [], "that a newer program was here is no damage");
        assert_eq!(log.load_as::<Fact>(operation(2)).unwrap(), loaded(passed(1..=4), 4));
        log.tidy(0).unwrap();
    }
    disk.close();
    let newer = SledLog::open(disk.path(), options()).unwrap();
    assert_eq!(newer.damage(), []);
    assert_eq!(newer.facts_as::<Newer>(operation(1)).unwrap().facts[4], omen, "nothing was taken away");
}
