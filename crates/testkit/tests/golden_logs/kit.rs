//! Folders of logs, and what is kept of their meaning.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_lifecycle::operation::{Driver, Fact, State};
use tidegate_model::OperationId;
use tidegate_oplog::{Holder, LogKey, OpenOptions, OperationLog as _, SledLog, TypedLog as _};
use tidegate_testkit::process::START;

pub type Log = SledLog;

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub fn open(directory: &Path) -> Log {
    let holder = Holder { pid: std::process::id(), command: "golden logs".into(), since: START };
    let key = Some(LogKey::new(&[7; 32]));
    SledLog::open(directory, OpenOptions { holder, key, codecs: tidegate_executor::codecs() }).unwrap()
}

/// Opening writes, so it is done on a copy.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A copy of a golden log, opened.
pub fn scratch(format: &str) -> (tempfile::TempDir, Log) {
    let scratch = tempfile::tempdir().unwrap();
    copy(&golden(format), scratch.path());
    let log = open(scratch.path());
    assert_eq!(log.damage(), [], "the golden log must be sound");
    (scratch, log)
}

/// As its snapshot and the facts after it say.
pub fn state(log: &Log, operation: OperationId) -> State {
    let loaded = log.load_as(operation).unwrap();
    Driver::recover(loaded.snapshot, loaded.facts).unwrap().state().clone()
}

/// As all of its facts say.
pub fn folded(facts: Vec<Fact>) -> State {
    Driver::recover(None, facts).unwrap().state().clone()
}

/// What was known when the golden logs were written: fields are added, and none is ever changed.
pub fn without_new_fields(found: &Value, known: &Value) -> Value {
    match (found, known) {
        (Value::Object(found), Value::Object(known)) => {
            let known = known.iter().filter_map(|(name, known)| Some((name, known, found.get(name)?)));
            let kept = known.map(|(name, known, found)| (name.clone(), without_new_fields(found, known)));
            Value::Object(kept.collect())
        }
        (Value::Array(found), Value::Array(known)) if found.len() == known.len() => {
            found.iter().zip(known).map(|(found, known)| without_new_fields(found, known)).collect()
        }
        (found, _) => found.clone(),
    }
}
