//! Golden logs: what an earlier program wrote must be read for ever.
//!
//! `tests/golden/v1` is a state directory with the golden operations as this format first wrote them;
//! `tests/golden/v1.json` is what they meant then. A change of the machine may not change what an old log says.
//! `TIDEGATE_WRITE_GOLDEN=1` writes the folder of a *new* format; a released one is never written again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidegate_cluster::sim::SimConfig;
use tidegate_lifecycle::Driver;
use tidegate_lifecycle::operation::{Fact, OperationView, State, view};
use tidegate_model::OperationId;
use tidegate_oplog::{Append, Holder, LogKey, OpenOptions, OperationLog as _, SledLog};
use tidegate_testkit::process::{START, World};
use tidegate_testkit::scenario;
use uuid::Uuid;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn open(directory: &Path) -> SledLog<Fact, State> {
    let holder = Holder { pid: std::process::id(), command: "golden logs".into(), since: START };
    SledLog::open(directory, OpenOptions { holder, key: Some(LogKey::new(&[7; 32])) }).unwrap()
}

/// Opening writes, so it is done on a copy.
fn copy(from: &Path, to: &Path) {
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

fn state(log: &SledLog<Fact, State>, operation: OperationId) -> State {
    let loaded = log.load(operation).unwrap();
    Driver::recover(loaded.snapshot, loaded.facts).unwrap().state().clone()
}

fn meaning(view: &OperationView) -> serde_json::Value {
    serde_json::to_value(view).unwrap()
}

/// Writes every golden operation into a new state directory, under an id of its own.
fn write(directory: &Path) {
    let log = open(directory);
    for (number, scenario) in (1_u128..).zip(scenario::all()) {
        let mut world = World::new(SimConfig::default());
        world.number_from(number * 1000);
        for sync in &scenario.before {
            world.run(sync);
        }
        world.next_operation();
        world.finish(&scenario.sync, &mut scenario.script.clone());
        let id = OperationId(Uuid::from_u128(world.submitted()));
        let facts = world.log.facts(id).unwrap();
        let summary =
            world.log.summaries().unwrap().into_iter().find(|summary| summary.operation == id).unwrap();
        // In pieces, with a snapshot between them, as an engine writes them.
        let (first, second) = facts.split_at(facts.len() / 2);
        let half = Driver::recover(None, first.to_vec()).unwrap().state().clone();
        let append = |first_sequence, facts: &[Fact], snapshot| Append {
            operation: id,
            first_sequence,
            facts: facts.to_vec(),
            snapshot,
            summary: summary.clone(),
            blobs: Vec::new(),
            inventory: None,
        };
        log.append(vec![append(1, first, Some(half))]).unwrap();
        log.append(vec![append(u64::try_from(first.len()).unwrap() + 1, second, None)]).unwrap();
    }
}

#[test]
fn logs_of_format_1_mean_what_they_meant() {
    if std::env::var_os("TIDEGATE_WRITE_GOLDEN").is_some() {
        assert!(
            !golden("v1").exists(),
            "a golden log is written once; remove tests/golden/v1 only before a release"
        );
        write(&golden("v1"));
        let log = open(&golden("v1"));
        let meanings: BTreeMap<String, serde_json::Value> = log
            .summaries()
            .unwrap()
            .iter()
            .map(|summary| {
                (summary.operation.to_string(), meaning(&view(&state(&log, summary.operation)).unwrap()))
            })
            .collect();
        std::fs::write(golden("v1.json"), serde_json::to_string_pretty(&meanings).unwrap()).unwrap();
    }
    let scratch = tempfile::tempdir().unwrap();
    copy(&golden("v1"), scratch.path());
    let log = open(scratch.path());
    assert_eq!(log.damage(), [], "the golden log must be sound");
    let expected: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&std::fs::read(golden("v1.json")).unwrap()).unwrap();
    assert!(expected.len() >= 15);
    for (id, expected) in expected {
        let id: OperationId = id.parse().unwrap();
        let found = meaning(&view(&state(&log, id)).unwrap());
        assert_eq!(without_new_fields(&found, &expected), expected, "from the snapshot");
        let all = Driver::recover(None, log.facts(id).unwrap()).unwrap();
        let found = meaning(&view(all.state()).unwrap());
        assert_eq!(without_new_fields(&found, &expected), expected, "from all facts");
    }
}

/// What was known when the golden logs were written: fields are added, and none is ever changed.
fn without_new_fields(found: &serde_json::Value, known: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
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
