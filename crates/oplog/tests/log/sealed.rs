//! Content on the disk is ciphertext, wherever it is copied to, and a wrong key costs nothing.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_oplog::{LogError, LogKey, OpenOptions, SledLog};

use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Fact, Kept, Log, State, append, codecs, finished, holder, operation, passed,
};

const SECRET: &str = "hunter2-hunter2-hunter2";

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Every file of the state directory is free of the secret, plain and in halves, as compression might leave it.
fn nothing_shows(folder: &Path) {
    let (start, end) = SECRET.split_at(8);
    for path in files(folder) {
        let content = fs::read(&path).unwrap();
        for part in [start, end] {
            let shows = content.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!shows, "{} shows the secret", path.display());
        }
    }
}

/// An operation with a large record and a manifest that hold the secret.
fn write(log: &Log) {
    let manifests = log.put_blob(format!("password: {SECRET}").as_bytes()).unwrap();
    let large = Fact::Began { name: SECRET.repeat(1000), at: kit::summary(1, "shop").started_at };
    let large_state = State { waves: vec![1], padding: SECRET.repeat(1000) };
    let first = Append { blobs: vec![manifests], snapshot: Some(large_state), ..append(1, 1, vec![large]) };
    log.append_all(vec![first]).unwrap();
}

#[test]
fn neither_manifests_nor_large_records_show_anywhere() {
    let mut disk = Disk::fresh();
    write(disk.open());
    disk.close();
    nothing_shows(disk.folder.path());
    // Setting aside copies blobs.
    disk.tamper(|db| {
        drop(db.remove([b"f".as_slice(), operation(1).0.as_bytes(), &1_u64.to_be_bytes()].concat()))
    });
    assert_ne!(disk.open().damage(), []);
    disk.close();
    nothing_shows(disk.folder.path());
}

#[test]
fn compaction_and_salvage_keep_it_sealed() {
    let mut disk = Disk::fresh();
    write(disk.open());
    disk.open()
        .append_all(vec![Append { summary: finished(1, "shop"), ..append(1, 2, passed(2..=2)) }])
        .unwrap();
    disk.open().tidy(1).unwrap();
    disk.close();
    drop(kit::raw(&disk.path()));
    let mut bytes = fs::read(disk.db_file()).unwrap();
    bytes[0] ^= 1;
    fs::write(disk.db_file(), bytes).unwrap();
    assert_ne!(disk.open().damage(), [], "the database was replaced");
    disk.close();
    nothing_shows(disk.folder.path());
}

#[test]
fn with_another_key_nothing_is_read_written_or_set_aside() {
    let mut disk = Disk::fresh();
    write(disk.open());
    disk.close();
    let before: Vec<PathBuf> = files(disk.folder.path());
    let other = OpenOptions { holder: holder(), key: Some(LogKey::new(&[9; 32])), codecs: codecs() };
    let error = SledLog::open(disk.path(), other).unwrap_err();
    assert!(matches!(error, LogError::WrongKey { .. }), "{error}");
    let none = OpenOptions { holder: holder(), key: None, codecs: codecs() };
    let error = SledLog::open(disk.path(), none).unwrap_err();
    assert!(matches!(error, LogError::KeyMissing { .. }), "{error}");
    assert_eq!(files(disk.folder.path()), before);

    // Not even when nobody remembers which key it was: the blobs do.
    fs::remove_file(disk.path().join("key-id")).unwrap();
    let other = OpenOptions { holder: holder(), key: Some(LogKey::new(&[9; 32])), codecs: codecs() };
    let log = SledLog::open(disk.path(), other).unwrap();
    assert_eq!(log.damage(), []);
    assert!(matches!(log.load_as::<Fact>(operation(1)), Err(LogError::WrongKey { .. })));
    drop(log);

    fs::remove_file(disk.path().join("key-id")).unwrap();
    assert_eq!(disk.open().damage(), []);
    assert_eq!(disk.open().load_as::<Fact>(operation(1)).unwrap().last_sequence, 1);
}

#[test]
fn a_key_of_its_own_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = OpenOptions { holder: holder(), key: None, codecs: codecs() };
        SledLog::open(folder.path(), options).unwrap()
    };
    let digest = open().put_blob(SECRET.as_bytes()).unwrap();
    assert_eq!(open().blob(digest).unwrap(), SECRET.as_bytes());
}
