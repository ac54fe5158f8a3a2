//! Writes the golden log of a new layout.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::Summary;
use tidegate_lifecycle::operation::{Fact, view};
use tidegate_model::{Gvk, OperationId};
use tidegate_oplog::{AppendOf, Blobs as _, Inventory, InventoryChange, InventoryUpdate};
use tidegate_testkit::process::{START, World};
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::{self, Sync};
use uuid::Uuid;

use crate::kit::{Log, folded, golden, open, state};
use crate::{words, written};

/// The operation that was planned and did nothing else.
pub const PLANNED: u128 = 900_001;

/// A folder, and what is in it to the program of today.
pub fn layout(layout: &str) {
    let folder = golden(layout);
    assert!(
        !folder.exists(),
        "a golden log is written once; remove {} only before it is committed",
        folder.display()
    );
    let log = open(&folder);
    scenarios(&log);
    written(&log);
    planned(&log);
    let ids: Vec<OperationId> = log.summaries().unwrap().iter().map(|summary| summary.operation).collect();
    let views = ids.iter().map(|id| (id.to_string(), serde_json::to_value(view(&state(&log, *id))).unwrap()));
    let views: BTreeMap<String, Value> = views.collect();
    write(&format!("{layout}.json"), &views);
    let facts: BTreeMap<String, Value> = (1..)
        .zip(written::all())
        .map(|(number, written)| {
            (words::id(number).to_string(), serde_json::to_value(written.facts).unwrap())
        })
        .collect();
    write(&format!("{layout}-facts.json"), &facts);
}

fn write(name: &str, content: &BTreeMap<String, Value>) {
    std::fs::write(golden(name), serde_json::to_string_pretty(content).unwrap() + "\n").unwrap();
}

/// Every golden operation, as the engine writes it.
fn scenarios(log: &Log) {
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
        let summary = world.log.summaries().unwrap().into_iter().find(|summary| summary.operation == id);
        append(log, &facts, facts.len() / 2, summary.unwrap(), None);
    }
}

/// In pieces, with a snapshot between them, as an engine writes them.
fn append(log: &Log, facts: &[Fact], cut: usize, summary: Summary, inventory: Option<InventoryUpdate>) {
    let (first, second) = facts.split_at(cut);
    let append = |first_sequence, facts: &[Fact]| {
        AppendOf::new(summary.operation, first_sequence, facts.to_vec(), summary.clone().into())
    };
    let snapshot = Some(folded(first.to_vec()));
    log.append(vec![AppendOf { snapshot, ..append(1, first) }]).unwrap();
    if !second.is_empty() || inventory.is_some() {
        let sequence = u64::try_from(first.len()).unwrap() + 1;
        log.append(vec![AppendOf { inventory, ..append(sequence, second) }]).unwrap();
    }
}

fn written(log: &Log) {
    for (number, written) in (1..).zip(written::all()) {
        let state = folded(written.facts.clone());
        let view = view(&state).unwrap();
        let summary = Summary {
            operation: words::id(number),
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
        append(log, &written.facts, written.snapshot_after, summary, inventory);
    }
}

fn places(names: impl IntoIterator<Item = String>) -> Inventory {
    let gvk = Gvk::new("apps", "v1", "Deployment");
    names.into_iter().map(|name| (gvk.clone(), "store".to_owned(), name)).collect()
}

/// What the tests of its meaning spell out.
fn inventory() -> InventoryUpdate {
    let named = |names: &[&str]| places(names.iter().map(|name| (*name).to_owned()));
    let changes = vec![
        InventoryChange::Extend(named(&["api", "old"])),
        InventoryChange::Begin(named(&["adopted"])),
        InventoryChange::Forget(named(&["old"])),
    ];
    InventoryUpdate { application: "shop".into(), cluster: "https://10.0.0.1:6443 5d2c4b1e".into(), changes }
}

/// An operation that nobody has gone on with since it was planned, with its manifests, and an inventory so large that it
/// is a blob.
fn planned(log: &Log) {
    let mut world = World::new(SimConfig::default());
    world.number_from(PLANNED);
    let scenario = scenario::all().into_iter().find(|scenario| scenario.name == "hooks").unwrap();
    let sync: Sync = scenario.sync.with(|request| request.application = "interrupted".into());
    world.finish(&sync, &mut Vec::new());
    let id = OperationId(Uuid::from_u128(PLANNED));
    let move_blob = |digest| log.put_blob(&world.log.blob(digest).unwrap()).unwrap();
    let moved = |fact| match fact {
        Fact::Accepted { operation, request, targets, at } => {
            Fact::Accepted { operation, request, targets: move_blob(targets), at }
        }
        Fact::Planned { plan, bundle, at } => Fact::Planned { plan, bundle: move_blob(bundle), at },
        other => panic!("{other:?}"),
    };
    let facts: Vec<Fact> = world.log.facts(id).unwrap().into_iter().take(2).map(moved).collect();
    let blobs = facts.iter().filter_map(|fact| match fact {
        Fact::Accepted { targets, .. } => Some(*targets),
        Fact::Planned { bundle, .. } => Some(*bundle),
        _ => None,
    });
    let view = view(&folded(facts.clone())).unwrap();
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
        ..AppendOf::new(id, 1, facts, summary.into())
    };
    log.append(vec![append]).unwrap();
}
