//! Logs in earlier formats, which must remain readable forever.
//!
//! `golden/layout-1` was written in the first format. Each new format gets its own folder: write it once with
//! `TIDEGATE_WRITE_GOLDEN=layout-2 cargo test -p tidegate-oplog --test log golden`, and add it to `FORMATS`.
//! Never rewrite an existing folder.

use std::env;
use std::path::{Path, PathBuf};

use tidegate_model::{Gvk, OperationPhase, Timestamp};
use tidegate_oplog::{
    AppendOf, ApplicationInventory, Epoch, Inventory, InventoryChange, InventoryUpdate, LogError, Lookup,
    OpenOptions, Retention, SledLog, Store,
};

use crate::files::copy_folder;
use crate::kinds::{VoyageEvent, all_codecs, sailed_to, voyage_append};
use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Event, Log, State, append_to_shop, ended_listing, finished_summary, open_listing,
    operation, operation_summary, waves_passed,
};

const FORMATS: [&str; 1] = ["layout-1"];

const CONTENT: &[u8] = b"kind: ConfigMap\n";
const BLOB: &str = "b4437f31639609795019a9dc438c2d3d5095d6fe2db7f9a34920dae44e76404d";

pub fn golden_folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format)
}

fn began_event() -> Event {
    Event::Began { name: "a plan of many tasks; ".repeat(400), at: Timestamp::from_millis(1_795_253_400_250) }
}

fn ended_event() -> Event {
    Event::Ended {
        phase: OperationPhase::Succeeded, notes: vec!["all well".to_owned(), "größer".to_owned()]
    }
}

fn golden_state() -> State {
    State { waves: vec![1, 300, 70_000, u32::MAX], padding: "snapshot".to_owned() }
}

pub fn open_golden(path: &Path) -> Log {
    SledLog::open(path, OpenOptions { codecs: all_codecs(), ..kit::open_options() }).unwrap()
}

/// Writes a finished operation, an open one, and one reduced to its summary.
fn write_operations(log: &Log) {
    let blob = log.put_blob(CONTENT).unwrap();
    let over = Append { summary: finished_summary(1, "shop"), ..append_to_shop(1, 1, waves_passed(1..=3)) };
    log.append_all(vec![over]).unwrap();
    let events = vec![began_event(), Event::Passed { wave: 1 }, ended_event()];
    log.append_all(vec![Append {
        summary: finished_summary(2, "shop"),
        blobs: vec![blob],
        ..append_to_shop(2, 1, events)
    }])
    .unwrap();
    log.append_all(vec![Append {
        snapshot: Some(golden_state()),
        ..append_to_shop(3, 1, waves_passed(1..=2))
    }])
    .unwrap();
    log.append_all(vec![append_to_shop(3, 3, waves_passed(3..=3))]).unwrap();
    log.compact_to_history(1).unwrap();
    for (cluster, change) in [
        ("small", InventoryChange::Extend(places(["api", "old"].map(str::to_owned)))),
        ("small", InventoryChange::Forget(places(["old".to_owned()]))),
        ("large", InventoryChange::Begin(places(place_names()))),
    ] {
        let (application, cluster) = ("shop".to_owned(), cluster.to_owned());
        let update = InventoryUpdate { application, cluster, changes: vec![change] };
        let after = Append { inventory: Some(update), ..append_to_shop(3, 4, Vec::new()) };
        log.append_all(vec![after]).unwrap();
    }
}

fn write_forgotten_operation(log: &Log) {
    let over = Append { summary: finished_summary(1, "mint"), ..append_to_shop(9, 1, waves_passed(1..=2)) };
    log.append_all(vec![over]).unwrap();
    let none = Retention { summaries: 0, ..Retention::with_history(0) };
    assert_eq!(log.compact(&none, kit::NOW).unwrap().forgotten, 1);
}

/// Writes a stream of another kind, owned by an ApplicationSet and taken over, and an open operation without
/// its oldest events.
fn write_streams(log: &Log) {
    let taken = AppendOf { epoch: Epoch::new(3).unwrap(), ..voyage_append(4, 1, &["Ithaca", "Troy"]) };
    log.append_all(vec![taken]).unwrap();
    let long = Append {
        summary: operation_summary(5, "bank"),
        snapshot: Some(golden_state()),
        ..append_to_shop(5, 1, waves_passed(1..=9))
    };
    log.append_all(vec![long]).unwrap();
    let keep = Retention { open_events: 3, ..Retention::default() };
    assert_eq!(log.compact(&keep, kit::NOW).unwrap().events, 6);
}

fn read_streams(log: &impl Store) {
    let entry = log.entry_as::<VoyageEvent>(operation(4)).unwrap().unwrap();
    assert_eq!((entry.epoch.number(), entry.sequence), (3, 2));
    assert_eq!((entry.summary.set.as_deref(), entry.summary.application), (Some("fleet"), None));
    assert_eq!(entry.summary.details, sailed_to("home"));
    let ports = log.events_as::<VoyageEvent>(operation(4)).unwrap();
    assert_eq!((ports.kind.name(), ports.events), ("voyage", vec![sailed_to("Ithaca"), sailed_to("Troy")]));
    let late = log.append_all(vec![voyage_append(4, 3, &["Circe"])]).unwrap_err().to_string();
    assert!(late.contains("taken over by pid 41 (tidegate sync shop)"), "{late}");
    let history = log.events_as::<Event>(operation(5)).unwrap();
    assert_eq!((history.first_sequence, history.events), (7, waves_passed(7..=9)));
    assert_eq!(log.load_as::<Event>(operation(5)).unwrap().snapshot, Some((9, golden_state())));
}

fn places(names: impl IntoIterator<Item = String>) -> Inventory {
    let place = |name| (Gvk::new("apps", "v1", "Deployment"), "shop".to_owned(), name);
    names.into_iter().map(place).collect()
}

fn place_names() -> impl Iterator<Item = String> {
    (0..2_000).map(|number| format!("server-{number}"))
}

fn read_inventories(log: &impl Store) {
    let known = |cluster| log.inventory(cluster, "shop").unwrap();
    assert_eq!(
        known("small"),
        Some(ApplicationInventory { places: places(["api".to_owned()]), searched: false }),
        "in its row"
    );
    assert_eq!(
        known("large"),
        Some(ApplicationInventory { places: places(place_names()), searched: true }),
        "in a blob"
    );
}

fn read_operations(log: &impl Store) {
    assert_eq!(log.damage(), []);
    let shop = [ended_listing(1, "shop"), ended_listing(2, "shop"), open_listing(3, "shop")];
    assert_eq!(log.listing_of(Lookup::of_application("shop")), shop);
    assert!(log.listing_of(Lookup::of_application("mint")).is_empty());
    assert!(matches!(log.load_as::<Event>(operation(1)), Err(LogError::Compacted { .. })));
    assert_eq!(
        log.all_events(operation(2)).unwrap(),
        [began_event(), Event::Passed { wave: 1 }, ended_event()]
    );
    let loaded = log.load_as::<Event>(operation(3)).unwrap();
    assert_eq!(loaded.snapshot, Some((2, golden_state())));
    assert_eq!(loaded.events, waves_passed(3..=3));
    assert_eq!(log.blob(BLOB.parse().unwrap()).unwrap(), CONTENT);
}

/// Checks the whole content of a golden log.
pub fn read_all(log: &impl Store) {
    read_operations(log);
    read_inventories(log);
    read_streams(log);
}

#[test]
fn golden_logs_stay_readable() {
    if let Ok(format) = env::var("TIDEGATE_WRITE_GOLDEN") {
        let written = tempfile::tempdir().unwrap();
        let state = written.path().join("state");
        let log = open_golden(&state);
        write_forgotten_operation(&log);
        write_operations(&log);
        write_streams(&log);
        drop(log);
        drop(kit::open_database(&state));
        assert!(!golden_folder(&format).exists(), "golden logs must not be overwritten");
        copy_folder(&state, &golden_folder(&format));
    }
    for format in FORMATS {
        let copied = tempfile::tempdir().unwrap();
        let path = copied.path().join("state");
        copy_folder(&golden_folder(format), &path);
        let log = open_golden(&path);
        read_all(&log);
        // The operation can continue.
        log.append_all(vec![append_to_shop(3, 4, waves_passed(4..=4))]).unwrap();
        drop(log);
        assert_eq!(open_golden(&path).all_events(operation(3)).unwrap(), waves_passed(1..=4));
    }
}
