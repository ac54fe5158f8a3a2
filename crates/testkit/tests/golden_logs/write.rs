//! Writes a golden log of a new layout, or of a new kind of event.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::Summary;
use tidegate_lifecycle::operation::{OperationEvent, view};
use tidegate_model::{Gvk, LogRecord as _, OperationId};
use tidegate_oplog::{AppendOf, Blobs as _, Inventory, InventoryChange, InventoryUpdate};
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::process::{START, World};
use tidegate_testkit::scenario::{self, SyncSpec};
use uuid::Uuid;

use crate::event_builders;
use crate::golden_log::{Log, golden_path, load_state, open, replay_events};
use crate::handwritten::{self, HandwrittenOperation};

/// ID of the operation with a plan but no later events.
pub const PLANNED: u128 = 900_001;

/// Writes a golden log and its meaning. Its name selects all operations, or those with events of one kind.
pub fn write_golden_log(name: &str) {
    let folder = golden_path(name);
    assert!(
        !folder.exists(),
        "golden logs are written once; remove {} only if it is not committed yet",
        folder.display()
    );
    let log = open(&folder);
    let kind = name.split_once("-kind-").map(|(_, kind)| kind.parse().unwrap());
    let handwritten: Vec<(u128, HandwrittenOperation)> = (1..)
        .zip(handwritten::all())
        .filter(|(_, written)| {
            kind.is_none_or(|kind: u16| written.events.iter().any(|event| event.kind() == kind))
        })
        .collect();
    write_handwritten(&log, &handwritten);
    if kind.is_none() {
        write_scenarios(&log);
        write_planned(&log);
    }
    let ids: Vec<OperationId> = log.summaries().unwrap().iter().map(|summary| summary.operation).collect();
    let views =
        ids.iter().map(|id| (id.to_string(), serde_json::to_value(view(&load_state(&log, *id))).unwrap()));
    let views: BTreeMap<String, Value> = views.collect();
    write_json(&format!("{name}.json"), &views);
    let events = handwritten.into_iter().map(|(number, written)| {
        (event_builders::id(number).to_string(), serde_json::to_value(written.events).unwrap())
    });
    write_json(&format!("{name}-facts.json"), &events.collect());
}

fn write_json(name: &str, content: &BTreeMap<String, Value>) {
    std::fs::write(golden_path(name), serde_json::to_string_pretty(content).unwrap() + "\n").unwrap();
}

/// Writes every golden operation like the engine.
fn write_scenarios(log: &Log) {
    for (number, scenario) in (1_u128..).zip(scenario::all()) {
        let mut world = World::new(SimConfig::default());
        world.number_from(number * 1000);
        world.run_scenario(&scenario);
        let id = OperationId(Uuid::from_u128(world.operation_number()));
        let events = world.log.recorded_events(id).unwrap();
        let summary = world.log.summaries().unwrap().into_iter().find(|summary| summary.operation == id);
        append_in_parts(log, &events, events.len() / 2, summary.unwrap(), None);
    }
}

/// Appends events in parts with a snapshot between them, like an engine.
fn append_in_parts(
    log: &Log,
    events: &[OperationEvent],
    cut: usize,
    summary: Summary,
    inventory: Option<InventoryUpdate>,
) {
    let (first, second) = events.split_at(cut);
    let append = |first_sequence, part: &[OperationEvent]| {
        AppendOf::new(summary.operation, first_sequence, part.to_vec(), summary.clone().into())
    };
    let snapshot = Some(replay_events(first.to_vec()));
    log.append(vec![AppendOf { snapshot, ..append(1, first) }]).unwrap();
    if !second.is_empty() || inventory.is_some() {
        let sequence = u64::try_from(first.len()).unwrap() + 1;
        log.append(vec![AppendOf { inventory, ..append(sequence, second) }]).unwrap();
    }
}

fn write_handwritten(log: &Log, operations: &[(u128, HandwrittenOperation)]) {
    for &(number, ref written) in operations {
        let state = replay_events(written.events.clone());
        let view = view(&state).unwrap();
        let summary = Summary {
            operation: event_builders::id(number),
            application: view.app,
            destination: "context staging".into(),
            phase: view.phase,
            paused: view.paused_by.is_some(),
            message: view.message,
            started_at: view.started_at,
            finished_at: view.finished_at,
            waves: (1, 4),
            revision: "4f2a9c".into(),
            initiated_by: "ann".into(),
            dry_run: view.dry_run,
        };
        let inventory = (number == 1).then(inventory);
        append_in_parts(log, &written.events, written.snapshot_after, summary, inventory);
    }
}

fn places(names: impl IntoIterator<Item = String>) -> Inventory {
    let gvk = Gvk::new("apps", "v1", "Deployment");
    names.into_iter().map(|name| (gvk.clone(), "store".to_owned(), name)).collect()
}

/// Returns the inventory expected by the tests in `meaning.rs`.
fn inventory() -> InventoryUpdate {
    let named = |names: &[&str]| places(names.iter().map(|name| (*name).to_owned()));
    let changes = vec![
        InventoryChange::Extend(named(&["api", "old"])),
        InventoryChange::Begin(named(&["adopted"])),
        InventoryChange::Forget(named(&["old"])),
    ];
    InventoryUpdate { application: "shop".into(), cluster: "https://10.0.0.1:6443 5d2c4b1e".into(), changes }
}

/// Writes an operation that wasn't resumed after planning, its manifests, and an inventory that is large
/// enough to be stored as a blob.
fn write_planned(log: &Log) {
    let mut world = World::new(SimConfig::default());
    world.number_from(PLANNED);
    let scenario = scenario::all().into_iter().find(|scenario| scenario.name == "hooks").unwrap();
    let sync: SyncSpec = scenario.sync.with_request(|request| request.application = "interrupted".into());
    world.run_current_operation(&sync, &mut Vec::new());
    let id = OperationId(Uuid::from_u128(PLANNED));
    let move_blob = |digest| log.put_blob(&world.log.blob(digest).unwrap()).unwrap();
    let moved = |event| match event {
        OperationEvent::Accepted { operation, request, targets, at } => {
            OperationEvent::Accepted { operation, request, targets: move_blob(targets), at }
        }
        OperationEvent::Planned { plan, bundle, at } => {
            OperationEvent::Planned { plan, bundle: move_blob(bundle), at }
        }
        other => panic!("{other:?}"),
    };
    let events: Vec<OperationEvent> =
        world.log.recorded_events(id).unwrap().into_iter().take(2).map(moved).collect();
    let blobs = events.iter().filter_map(|event| match event {
        OperationEvent::Accepted { targets, .. } => Some(*targets),
        OperationEvent::Planned { bundle, .. } => Some(*bundle),
        _ => None,
    });
    let view = view(&replay_events(events.clone())).unwrap();
    let large = InventoryChange::Begin(places((0..3_000).map(|number| format!("server-{number}"))));
    let summary = Summary {
        operation: id,
        application: view.app,
        destination: "simulated cluster".into(),
        phase: view.phase,
        paused: false,
        message: view.message,
        started_at: START,
        finished_at: None,
        waves: (0, 6),
        revision: String::new(),
        initiated_by: String::new(),
        dry_run: view.dry_run,
    };
    let (application, cluster) = (summary.application.clone(), "elsewhere".to_owned());
    let append = AppendOf {
        blobs: blobs.collect(),
        inventory: Some(InventoryUpdate { application, cluster, changes: vec![large] }),
        ..AppendOf::new(id, 1, events, summary.into())
    };
    log.append(vec![append]).unwrap();
}
