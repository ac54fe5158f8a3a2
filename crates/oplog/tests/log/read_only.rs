//! Reading a log without writing to its directory, which may be read-only or in use by another process.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use tidegate_oplog::{LogError, LogKey};

use crate::child::{
    AppendProcess, LARGE_INTERVAL, OPERATIONS, PADDING, command_for_copy, copy_program, event, output_lines,
};
use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Event, Log, ReopenableLog, append_to_shop, loaded_stream, open_listing, operation,
    test_codecs, waves_passed,
};

const UNPRIVILEGED_USER: u32 = 65_534;

fn open_read_only(path: &Path) -> Result<Log, LogError> {
    Log::open_read_only(path, Some(LogKey::new(&[7; 32])), test_codecs())
}

/// Returns all files below a folder, with their content and modification time.
fn read_files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64, i64)> {
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

fn large_event() -> Event {
    event(LARGE_INTERVAL, PADDING)
}

/// Creates operation 1 with small events, and operation 2 with a large one.
fn filled_disk() -> Disk {
    let mut disk = Disk::create();
    let log = disk.open();
    let blob = log.put_blob(b"manifests").unwrap();
    log.append_all(vec![
        Append { blobs: vec![blob], ..append_to_shop(1, 1, waves_passed(1..=3)) },
        append_to_shop(2, 1, vec![large_event()]),
    ])
    .unwrap();
    disk
}

#[test]
fn everything_is_read_and_nothing_is_written() {
    let mut disk = filled_disk();
    disk.close();
    let before = read_files(&disk.path());
    let log = open_read_only(&disk.path()).unwrap();
    assert_eq!(log.damage(), []);
    assert_eq!(log.listing(), [open_listing(1, "shop"), open_listing(2, "shop")]);
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=3), 3));
    assert_eq!(log.all_events(operation(2)).unwrap(), [large_event()]);
    for refused in [
        log.append_all(vec![append_to_shop(1, 4, waves_passed(4..=4))]).unwrap_err(),
        log.put_blob(b"more").unwrap_err(),
        log.compact_to_history(0).unwrap_err(),
    ] {
        assert!(matches!(&refused, LogError::OpenedReadOnly { path } if *path == disk.path()), "{refused}");
    }
    drop(log);
    assert_eq!(read_files(&disk.path()), before);
}

#[test]
fn a_missing_log_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let log = open_read_only(&folder.path().join("none")).unwrap();
    assert_eq!(log.listing(), []);
    assert!(!folder.path().join("none").exists());
}

#[test]
fn damage_is_reported_and_left_in_place() {
    let mut disk = filled_disk();
    disk.tamper(|db| {
        let key = [b"f", operation(1).0.as_bytes().as_slice(), &2_u64.to_be_bytes()].concat();
        let mut value = db.get(&key).unwrap().unwrap().to_vec();
        value[42] ^= 1;
        db.insert(key, value).unwrap();
    });
    let before = read_files(&disk.path());
    for _ in 0..2 {
        let log = open_read_only(&disk.path()).unwrap();
        let damage = log.damage();
        assert!(
            damage.len() == 1 && damage[0].stream == Some(operation(1)) && damage[0].is_new,
            "{damage:?}"
        );
        assert_eq!(damage[0].quarantine, None, "a reader must not quarantine data");
        assert!(matches!(log.load_as::<Event>(operation(1)), Err(LogError::Damaged { .. })));
        assert_eq!(log.all_events(operation(2)).unwrap(), [large_event()]);
    }
    assert_eq!(read_files(&disk.path()), before);
    let found = disk.open().damage();
    assert!(found[0].is_new && found[0].quarantine.is_some(), "{found:?}");
    // Readers also report the streams that a writer has quarantined.
    let told = open_read_only(&disk.path()).unwrap().damage();
    assert!(!told[0].is_new && told[0].quarantine == found[0].quarantine, "{told:?}");
}

/// Readers don't disturb a process that writes in bursts and compacts occasionally.
#[test]
fn a_log_in_use_is_read_consistently() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut worker = AppendProcess::start(&path);
    worker.request_groups(1);
    for round in 0..8 {
        let acknowledged = 8 * round + 1;
        worker.await_acknowledged(acknowledged);
        worker.request_groups(8);
        let log = open_read_only(&path).unwrap();
        assert_eq!(log.damage(), [], "round {round}");
        for number in 1..=OPERATIONS {
            let loaded = log.load_as::<Event>(operation(number)).unwrap();
            assert!(loaded.last_sequence >= acknowledged, "{} of {acknowledged}", loaded.last_sequence);
            let from = loaded.snapshot.map_or(1, |(covered, _)| covered + 1);
            let expected: Vec<Event> = (from..=loaded.last_sequence).map(|at| event(at, PADDING)).collect();
            assert_eq!(loaded.events, expected, "round {round}");
        }
    }
    worker.wait_for_end();
}

/// Permissions don't apply to root. If run as root, the test starts the reader as an unprivileged user.
#[test]
fn another_user_reads_everything_that_needs_no_key() {
    let mut disk = filled_disk();
    disk.open().append_all(vec![append_to_shop(3, 1, waves_passed(1..=2))]).unwrap();
    disk.close();
    let path = disk.path();
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let program = copy_program(disk.folder.path());
    fs::set_permissions(disk.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let said = || {
        let mut read = command_for_copy(&program, "read", &path, &[]);
        read.current_dir("/");
        if root {
            read.uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
        }
        output_lines(read)
    };
    for path in read_files(&path).into_keys() {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(&path, Permissions::from_mode(0o555)).unwrap();
    let before = read_files(&path);
    let told = said();
    let told = |part: &str| assert!(told.iter().any(|line| line.contains(part)), "no {part:?} in {told:?}");
    told("3 summaries, 0 reports");
    told("1: 3 facts");
    told("2: KeyUnreadable");
    told("3: 2 facts");
    assert_eq!(read_files(&path), before);
    // If the user can't read the database either, the error contains its path.
    fs::set_permissions(path.join("log/db"), Permissions::from_mode(0o000)).unwrap();
    let refused = said();
    assert!(refused.iter().any(|line| line.starts_with("refused PermissionDenied")), "{refused:?}");
    assert!(refused.iter().any(|line| line.contains("log/db")), "{refused:?}");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    for folder in read_files(&path).into_keys().filter(|path| path.is_dir()) {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
}
