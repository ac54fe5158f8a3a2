//! Reading a log without writing to its directory: what may not be written, or is another process's, can be read.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use tidegate_oplog::{LogError, LogKey};

use crate::child::{LARGE_EVERY, OPERATIONS, PADDING, Worker, command_of, copy_of_program, fact, lines};
use crate::kit::prelude::*;
use crate::kit::{Append, Disk, Fact, Kept, Log, append, codecs, loaded, open_line, operation, passed};

const NOBODY: u32 = 65_534;

fn read(path: &Path) -> Result<Log, LogError> {
    Log::open_to_read(path, Some(LogKey::new(&[7; 32])), codecs())
}

/// Every file below a folder, with what is in it and when it was changed.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::metadata(&path).unwrap();
            if path.is_dir() {
                folders.push(path.clone());
            }
            let content = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            found.insert(path, (content, metadata.mtime(), metadata.mtime_nsec()));
        }
    }
    found
}

fn large() -> Fact {
    fact(LARGE_EVERY, PADDING)
}

/// Operation 1 has small facts, operation 2 a large one.
fn filled() -> Disk {
    let mut disk = Disk::fresh();
    let log = disk.open();
    let blob = log.put_blob(b"manifests").unwrap();
    log.append_all(vec![
        Append { blobs: vec![blob], ..append(1, 1, passed(1..=3)) },
        append(2, 1, vec![large()]),
    ])
    .unwrap();
    disk
}

#[test]
fn all_is_read_and_nothing_is_written() {
    let mut disk = filled();
    disk.close();
    let before = files(&disk.path());
    let log = read(&disk.path()).unwrap();
    assert_eq!(log.damage(), []);
    assert_eq!(log.lines(), [open_line(1, "shop"), open_line(2, "shop")]);
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=3), 3));
    assert_eq!(log.all(operation(2)).unwrap(), [large()]);
    for refused in [
        log.append_all(vec![append(1, 4, passed(4..=4))]).unwrap_err(),
        log.put_blob(b"more").unwrap_err(),
        log.tidy(0).unwrap_err(),
    ] {
        assert!(matches!(&refused, LogError::OpenedToRead { path } if *path == disk.path()), "{refused}");
    }
    drop(log);
    assert_eq!(files(&disk.path()), before);
}

#[test]
fn what_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let log = read(&folder.path().join("none")).unwrap();
    assert_eq!(log.lines(), []);
    assert!(!folder.path().join("none").exists());
}

#[test]
fn damage_is_told_and_left_for_whoever_may_mend_it() {
    let mut disk = filled();
    disk.tamper(|db| {
        let key = [b"f", operation(1).0.as_bytes().as_slice(), &2_u64.to_be_bytes()].concat();
        let mut value = db.get(&key).unwrap().unwrap().to_vec();
        value[42] ^= 1;
        db.insert(key, value).unwrap();
    });
    let before = files(&disk.path());
    for _ in 0..2 {
        let log = read(&disk.path()).unwrap();
        let damage = log.damage();
        assert!(
            damage.len() == 1 && damage[0].stream == Some(operation(1)) && damage[0].is_new,
            "{damage:?}"
        );
        assert_eq!(damage[0].quarantine, None, "nothing was set aside");
        assert!(matches!(log.load_as::<Fact>(operation(1)), Err(LogError::Damaged { .. })));
        assert_eq!(log.all(operation(2)).unwrap(), [large()]);
    }
    assert_eq!(files(&disk.path()), before);
    let found = disk.open().damage();
    assert!(found[0].is_new && found[0].quarantine.is_some(), "{found:?}");
    // What was set aside is known to readers too.
    let told = read(&disk.path()).unwrap().damage();
    assert!(!told[0].is_new && told[0].quarantine == found[0].quarantine, "{told:?}");
}

/// A process works in bursts, compacts now and then, and does not notice that it is read.
#[test]
fn a_log_at_work_is_read_as_it_is_at_some_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut worker = Worker::start(&path);
    worker.ask(1);
    for round in 0..8 {
        let acknowledged = 8 * round + 1;
        worker.await_acknowledged(acknowledged);
        worker.ask(8);
        let log = read(&path).unwrap();
        assert_eq!(log.damage(), [], "round {round}");
        for number in 1..=OPERATIONS {
            let loaded = log.load_as::<Fact>(operation(number)).unwrap();
            assert!(loaded.last_sequence >= acknowledged, "{} of {acknowledged}", loaded.last_sequence);
            let from = loaded.snapshot.map_or(1, |(covered, _)| covered + 1);
            let expected: Vec<Fact> = (from..=loaded.last_sequence).map(|at| fact(at, PADDING)).collect();
            assert_eq!(loaded.facts, expected, "round {round}");
        }
    }
    worker.end();
}

/// Root may do everything, so as root the reader is run as nobody.
#[test]
fn a_colleague_reads_what_needs_no_key() {
    let mut disk = filled();
    disk.open().append_all(vec![append(3, 1, passed(1..=2))]).unwrap();
    disk.close();
    let path = disk.path();
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let program = copy_of_program(disk.folder.path());
    fs::set_permissions(disk.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let said = || {
        let mut read = command_of(&program, "read", &path, &[]);
        read.current_dir("/");
        if root {
            read.uid(NOBODY).gid(NOBODY);
        }
        lines(read)
    };
    for path in files(&path).into_keys() {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&path, Permissions::from_mode(0o555)).unwrap();
    let before = files(&path);
    let told = said();
    let told = |part: &str| assert!(told.iter().any(|line| line.contains(part)), "no {part:?} in {told:?}");
    told("3 summaries, 0 reports");
    told("1: 3 facts");
    told("2: KeyUnreadable");
    told("3: 2 facts");
    assert_eq!(files(&path), before);
    // Where not even that is allowed, it is said what is.
    fs::set_permissions(path.join("log/db"), Permissions::from_mode(0o000)).unwrap();
    let refused = said();
    assert!(refused.iter().any(|line| line.starts_with("refused PermissionDenied")), "{refused:?}");
    assert!(refused.iter().any(|line| line.contains("log/db")), "{refused:?}");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    for folder in files(&path).into_keys().filter(|path| path.is_dir()) {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
}
