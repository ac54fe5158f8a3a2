//! All copies of sealed content on disk are ciphertext, and opening a log with the wrong key loses nothing.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_oplog::{LogError, LogKey, OpenOptions, SledLog};

use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Event, Log, ReopenableLog, State, append_to_shop, finished_summary, operation,
    test_codecs, test_holder, waves_passed,
};

const SECRET: &str = "hunter2-hunter2-hunter2";

pub fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(list_files(&path)) } else { found.push(path) }
    }
    found
}

/// Checks that no file in the state directory contains the secret, or half of it, which compression could
/// leave as plaintext.
fn assert_secret_hidden(folder: &Path) {
    let (start, end) = SECRET.split_at(8);
    for path in list_files(folder) {
        let content = fs::read(&path).unwrap();
        for part in [start, end] {
            let shows = content.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!shows, "{} shows the secret", path.display());
        }
    }
}

/// Writes an operation with a large record and a manifest, both containing the secret.
fn write_secret_operation(log: &Log) {
    let manifests = log.put_blob(format!("password: {SECRET}").as_bytes()).unwrap();
    let large = Event::Began { name: SECRET.repeat(1000), at: kit::operation_summary(1, "shop").started_at };
    let large_state = State { waves: vec![1], padding: SECRET.repeat(1000) };
    let first =
        Append { blobs: vec![manifests], snapshot: Some(large_state), ..append_to_shop(1, 1, vec![large]) };
    log.append_all(vec![first]).unwrap();
}

#[test]
fn manifests_and_large_records_are_encrypted_everywhere() {
    let mut disk = Disk::create();
    write_secret_operation(disk.open());
    disk.close();
    assert_secret_hidden(disk.folder.path());
    // The quarantine contains copies of blobs.
    disk.tamper(|db| {
        drop(db.remove([b"f".as_slice(), operation(1).0.as_bytes(), &1_u64.to_be_bytes()].concat()))
    });
    assert_ne!(disk.open().damage(), []);
    disk.close();
    assert_secret_hidden(disk.folder.path());
}

#[test]
fn content_stays_sealed_after_compaction_and_salvage() {
    let mut disk = Disk::create();
    write_secret_operation(disk.open());
    disk.open()
        .append_all(vec![Append {
            summary: finished_summary(1, "shop"),
            ..append_to_shop(1, 2, waves_passed(2..=2))
        }])
        .unwrap();
    disk.open().compact_to_history(1).unwrap();
    disk.close();
    drop(kit::open_database(&disk.path()));
    let mut bytes = fs::read(disk.db_file()).unwrap();
    bytes[0] ^= 1;
    fs::write(disk.db_file(), bytes).unwrap();
    assert_ne!(disk.open().damage(), [], "the database was replaced");
    disk.close();
    assert_secret_hidden(disk.folder.path());
}

#[test]
fn with_another_key_nothing_is_read_written_or_quarantined() {
    let mut disk = Disk::create();
    write_secret_operation(disk.open());
    disk.close();
    let before: Vec<PathBuf> = list_files(disk.folder.path());
    let other =
        OpenOptions { holder: test_holder(), key: Some(LogKey::new(&[9; 32])), codecs: test_codecs() };
    let error = SledLog::open(disk.path(), other).unwrap_err();
    assert!(matches!(error, LogError::WrongKey { .. }), "{error}");
    let none = OpenOptions { holder: test_holder(), key: None, codecs: test_codecs() };
    let error = SledLog::open(disk.path(), none).unwrap_err();
    assert!(matches!(error, LogError::KeyMissing { .. }), "{error}");
    assert_eq!(list_files(disk.folder.path()), before);

    // The check also works without a recorded fingerprint, because the blobs contain it.
    fs::remove_file(disk.path().join("key-id")).unwrap();
    let other =
        OpenOptions { holder: test_holder(), key: Some(LogKey::new(&[9; 32])), codecs: test_codecs() };
    let log = SledLog::open(disk.path(), other).unwrap();
    assert_eq!(log.damage(), []);
    assert!(matches!(log.load_as::<Event>(operation(1)), Err(LogError::WrongKey { .. })));
    drop(log);

    fs::remove_file(disk.path().join("key-id")).unwrap();
    assert_eq!(disk.open().damage(), []);
    assert_eq!(disk.open().load_as::<Event>(operation(1)).unwrap().last_sequence, 1);
}

#[test]
fn a_sealed_folder_creates_its_key_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = OpenOptions { holder: test_holder(), key: None, codecs: test_codecs() };
        SledLog::open(folder.path(), options).unwrap()
    };
    let digest = open().put_blob(SECRET.as_bytes()).unwrap();
    assert_eq!(open().blob(digest).unwrap(), SECRET.as_bytes());
}
