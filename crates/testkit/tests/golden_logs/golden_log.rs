//! Folders with golden logs, and the stored meaning of each log.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_lifecycle::operation::{Driver, OperationEvent, State};
use tidegate_model::OperationId;
use tidegate_oplog::{Holder, LogKey, OpenOptions, OperationLog as _, SledLog, TypedLog as _};
use tidegate_testkit::process::START;

pub type Log = SledLog;

pub fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub fn open(directory: &Path) -> Log {
    let holder = Holder { pid: std::process::id(), command: "golden logs".into(), since: START };
    let key = Some(LogKey::new(&[7; 32]));
    SledLog::open(directory, OpenOptions { holder, key, codecs: tidegate_executor::codecs() }).unwrap()
}

/// Copies a folder, because opening a log writes to it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Opens a copy of a golden log.
pub fn open_copy(format: &str) -> (tempfile::TempDir, Log) {
    let scratch = tempfile::tempdir().unwrap();
    copy_folder(&golden_path(format), scratch.path());
    let log = open(scratch.path());
    assert_eq!(log.damage(), [], "the golden log must be sound");
    (scratch, log)
}

/// Returns the state from the snapshot and the events after it.
pub fn load_state(log: &Log, operation: OperationId) -> State {
    let loaded = log.load_as(operation).unwrap();
    Driver::recover(loaded.snapshot, loaded.events).unwrap().state().clone()
}

/// Returns the state from all events.
pub fn replay_events(events: Vec<OperationEvent>) -> State {
    Driver::recover(None, events).unwrap().state().clone()
}

/// Reduces a value to the fields that existed when the golden logs were written, because new ones may have
/// been added since.
pub fn without_new_fields(found: &Value, known: &Value) -> Value {
    match (found, known) {
        (Value::Object(found), Value::Object(known)) => {
            let known = known.iter().filter_map(|(name, known)| Some((name, known, found.get(name)?)));
            let expected = known.map(|(name, known, found)| (name.clone(), without_new_fields(found, known)));
            Value::Object(expected.collect())
        }
        (Value::Array(found), Value::Array(known)) if found.len() == known.len() => {
            found.iter().zip(known).map(|(found, known)| without_new_fields(found, known)).collect()
        }
        (found, _) => found.clone(),
    }
}
