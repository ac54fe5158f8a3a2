//! Logs written by earlier formats, which must be read for ever.
//!
//! `golden/v1` was written by the first format, `golden/v2` by the one with inventories, `golden/v3` by the one with
//! streams of several kinds. A new format gets a folder of
//! its own: write it once with `TIDEGATE_WRITE_GOLDEN=v4 cargo test -p tidegate-oplog --test log golden`, and add it to
//! `FORMATS`. Existing folders are never written again.

use std::env;
use std::path::{Path, PathBuf};

use tidegate_model::{Gvk, OperationPhase, Timestamp};
use tidegate_oplog::{
    AppendOf, Epoch, Inventory, InventoryChange, InventoryUpdate, Known, LogError, Lookup, OpenOptions,
    Retention, SledLog,
};

use crate::files::copy;
use crate::kinds::{Voyage, both, sailed, voyage};
use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Fact, Log, State, append, ended_line, finished, open_line, operation, passed, summary,
};

const FORMATS: [&str; 3] = ["v1", "v2", "v3"];

const CONTENT: &[u8] = b"kind: ConfigMap\n";
const BLOB: &str = "b4437f31639609795019a9dc438c2d3d5095d6fe2db7f9a34920dae44e76404d";

fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format)
}

fn began() -> Fact {
    Fact::Began { name: "a plan of many tasks; ".repeat(400), at: Timestamp::from_millis(1_795_253_400_250) }
}

fn ended() -> Fact {
    Fact::Ended {
        phase: OperationPhase::Succeeded, notes: vec!["all well".to_owned(), "größer".to_owned()]
    }
}

fn state() -> State {
    State { waves: vec![1, 300, 70_000, u32::MAX], padding: "snapshot".to_owned() }
}

fn open(path: &Path) -> Log {
    SledLog::open(path, OpenOptions { codecs: both(), ..kit::options() }).unwrap()
}

/// An operation that ended, one that is open, one of which only the summary is left.
fn write(log: &Log) {
    let blob = log.put_blob(CONTENT).unwrap();
    let over = Append { summary: finished(1, "shop"), ..append(1, 1, passed(1..=3)) };
    log.append_all(vec![over]).unwrap();
    let facts = vec![began(), Fact::Passed { wave: 1 }, ended()];
    log.append_all(vec![Append { summary: finished(2, "shop"), blobs: vec![blob], ..append(2, 1, facts) }])
        .unwrap();
    log.append_all(vec![Append { snapshot: Some(state()), ..append(3, 1, passed(1..=2)) }]).unwrap();
    log.append_all(vec![append(3, 3, passed(3..=3))]).unwrap();
    log.tidy(1).unwrap();
    for (cluster, change) in [
        ("small", InventoryChange::Extend(places(["api", "old"].map(str::to_owned)))),
        ("small", InventoryChange::Forget(places(["old".to_owned()]))),
        ("large", InventoryChange::Begin(places(numbered()))),
    ] {
        let (application, cluster) = ("shop".to_owned(), cluster.to_owned());
        let update = InventoryUpdate { application, cluster, changes: vec![change] };
        let after = Append { inventory: Some(update), ..append(3, 4, Vec::new()) };
        log.append_all(vec![after]).unwrap();
    }
}

fn write_forgotten(log: &Log) {
    let over = Append { summary: finished(1, "mint"), ..append(9, 1, passed(1..=2)) };
    log.append_all(vec![over]).unwrap();
    let none = Retention { summaries: 0, ..Retention::of_history(0) };
    assert_eq!(log.compact(&none, kit::NOW).unwrap().forgotten, 1);
}

/// What came with streams: another kind, in a set, taken over; and an open operation that lost its oldest facts.
fn write_streams(log: &Log) {
    let taken = AppendOf { epoch: Epoch::new(3).unwrap(), ..voyage(4, 1, &["Ithaca", "Troy"]) };
    log.append_all(vec![taken]).unwrap();
    let long = Append { summary: summary(5, "bank"), snapshot: Some(state()), ..append(5, 1, passed(1..=9)) };
    log.append_all(vec![long]).unwrap();
    let keep = Retention { open_facts: 3, ..Retention::default() };
    assert_eq!(log.compact(&keep, kit::NOW).unwrap().facts, 6);
}

fn read_streams(log: &Log) {
    let entry = log.entry_as::<Voyage>(operation(4)).unwrap().unwrap();
    assert_eq!((entry.epoch.number(), entry.sequence), (3, 2));
    assert_eq!((entry.summary.set.as_deref(), entry.summary.application), (Some("fleet"), None));
    assert_eq!(entry.summary.details, sailed("home"));
    let ports = log.facts_as::<Voyage>(operation(4)).unwrap();
    assert_eq!((ports.kind.name(), ports.facts), ("voyage", vec![sailed("Ithaca"), sailed("Troy")]));
    let late = log.append_all(vec![voyage(4, 3, &["Circe"])]).unwrap_err().to_string();
    assert!(late.contains("taken over by pid 41 (tidegate sync shop)"), "{late}");
    let history = log.facts_as::<Fact>(operation(5)).unwrap();
    assert_eq!((history.first_sequence, history.facts), (7, passed(7..=9)));
    assert_eq!(log.load_as::<Fact>(operation(5)).unwrap().snapshot, Some((9, state())));
}

fn places(names: impl IntoIterator<Item = String>) -> Inventory {
    let place = |name| (Gvk::new("apps", "v1", "Deployment"), "shop".to_owned(), name);
    names.into_iter().map(place).collect()
}

fn numbered() -> impl Iterator<Item = String> {
    (0..2_000).map(|number| format!("server-{number}"))
}

/// The first format had none.
fn read_inventories(log: &Log) {
    let known = |cluster| log.inventory(cluster, "shop").unwrap();
    assert_eq!(
        known("small"),
        Some(Known { places: places(["api".to_owned()]), searched: false }),
        "in its row"
    );
    assert_eq!(known("large"), Some(Known { places: places(numbered()), searched: true }), "in a blob");
}

fn read(log: &Log) {
    assert_eq!(log.damage(), []);
    let shop = [ended_line(1, "shop"), ended_line(2, "shop"), open_line(3, "shop")];
    assert_eq!(log.lines_of(Lookup::of_application("shop")), shop);
    assert!(log.lines_of(Lookup::of_application("mint")).is_empty());
    assert!(matches!(log.load_as::<Fact>(operation(1)), Err(LogError::Compacted { .. })));
    assert_eq!(log.all(operation(2)).unwrap(), [began(), Fact::Passed { wave: 1 }, ended()]);
    let loaded = log.load_as::<Fact>(operation(3)).unwrap();
    assert_eq!(loaded.snapshot, Some((2, state())));
    assert_eq!(loaded.facts, passed(3..=3));
    assert_eq!(log.blob(BLOB.parse().unwrap()).unwrap(), CONTENT);
}

#[test]
fn golden_logs_are_read_for_ever() {
    if let Ok(format) = env::var("TIDEGATE_WRITE_GOLDEN") {
        let written = tempfile::tempdir().unwrap();
        let state = written.path().join("state");
        let log = open(&state);
        write_forgotten(&log);
        write(&log);
        write_streams(&log);
        drop(log);
        drop(kit::raw(&state));
        assert!(!folder(&format).exists(), "golden logs are written once");
        copy(&state, &folder(&format));
    }
    for format in FORMATS {
        let copied = tempfile::tempdir().unwrap();
        let path = copied.path().join("state");
        copy(&folder(format), &path);
        let log = open(&path);
        read(&log);
        if format != "v1" {
            read_inventories(&log);
        }
        if !["v1", "v2"].contains(&format) {
            read_streams(&log);
        }
        // It can be gone on with.
        log.append_all(vec![append(3, 4, passed(4..=4))]).unwrap();
        drop(log);
        assert_eq!(open(&path).all(operation(3)).unwrap(), passed(1..=4));
    }
}
