//! The golden operations without crashes. Each must end as declared.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_cluster::sim::{AuditEntry, SimConfig, Verb};
use tidegate_model::{Cascade, OperationId, OperationPhase};
use tidegate_oplog::{AppendOf, MemoryLog};
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::process::World;
use tidegate_testkit::scenario::{self, DEPENDENCY_GRAPH, SyncSpec};

#[test]
fn every_golden_operation_ends_as_expected() {
    let mut wrong = Vec::new();
    for scenario in scenario::all() {
        let mut world = World::new(SimConfig::default());
        let (view, passed) = world.run_scenario(&scenario);
        println!("{:24} {:9} {:4} points  {}", scenario.name, view.phase, passed, view.message);
        if view.phase != scenario.expected_phase || !view.message.contains(scenario.expected_message) {
            wrong.push(format!("{}: {} {}\n{:#?}", scenario.name, view.phase, view.message, view.resources));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Checks in the audit log that the hook is created twice: before and after the object between its two
/// phases.
#[test]
fn a_hook_is_created_once_in_each_of_its_phases() {
    for (name, hook, between) in [
        ("hook-in-two-phases", "notify", "settings"),
        ("helm-hook-in-two-phases", "both", "settings"),
        ("hook-in-sync-and-sync-fail", "tidy", "migrate"),
    ] {
        let scenario = scenario::all().into_iter().find(|scenario| scenario.name == name).unwrap();
        let mut world = World::new(SimConfig::default());
        let view = world.run(&scenario.sync);
        assert_eq!(view.phase, scenario.expected_phase, "{name}: {}", view.message);
        let audit = world.cluster.audit();
        let created: Vec<&str> = audit
            .iter()
            .filter(|entry| entry.code == 201 && !entry.dry_run)
            .map(|entry| entry.name.as_str())
            .collect();
        assert_eq!(created, [hook, between, hook], "{name}");
    }
}

/// The repair of a damaged log drops the states of operations. All events exist, but the summary has the
/// phase Running.
#[test]
fn a_finished_operation_marked_as_open_is_corrected_on_resume() {
    let scenario = scenario::all().into_iter().find(|scenario| scenario.name == "waves").unwrap();
    let mut world = World::new(SimConfig::default());
    let view = world.run(&scenario.sync);
    let mut summary = world.log.summaries().unwrap().remove(0);
    let operation: OperationId = summary.operation;
    let events = world.log.recorded_events(operation).unwrap();
    let writes = world.cluster.audit().len();
    (summary.finished_at, summary.phase) = (None, OperationPhase::Running);
    world.log = MemoryLog::default();
    world.log.append(vec![AppendOf::new(operation, 1, events.clone(), summary.into())]).unwrap();
    assert_eq!(world.run_current_operation(&scenario.sync, &mut Vec::new()).message, view.message);
    let summary = world.log.summaries().unwrap().remove(0);
    assert_eq!((summary.phase, summary.finished_at), (view.phase, view.finished_at));
    assert_eq!(world.log.recorded_events(operation).unwrap(), events, "nothing is recorded twice");
    assert_eq!(world.cluster.audit().len(), writes, "nothing is written to the cluster again");
}

/// Returns the position of each successful write of the given kind in the audit log.
fn write_positions(world: &World, is_counted: impl Fn(&AuditEntry) -> bool) -> BTreeMap<String, u64> {
    let writes = world.cluster.audit();
    let mut positions = BTreeMap::new();
    for entry in writes.iter().filter(|entry| !entry.dry_run && entry.code < 300 && is_counted(entry)) {
        positions.entry(entry.name.clone()).or_insert(entry.sequence);
    }
    positions
}

/// The example takes the time of its longest path, although one branch is slower than each other object. It is
/// deleted in reverse.
#[test]
fn the_example_with_dependencies_takes_the_time_of_its_longest_path() {
    let pairs = [
        ("search", "credentials"),
        ("indexer", "search"),
        ("indexer", "queue"),
        ("migrate", "database"),
        ("api", "migrate"),
        ("api", "queue"),
        ("api", "cache"),
        ("api", "settings"),
        ("worker", "migrate"),
        ("worker", "queue"),
        ("web", "api"),
        ("smoke-test", "web"),
    ];
    let mut world = World::new(SimConfig::default());
    let sync = SyncSpec::new(DEPENDENCY_GRAPH);
    let view = world.run(&sync);
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let took = view.finished_at.unwrap().since(view.started_at);
    assert!((Duration::from_secs(11)..Duration::from_millis(12_500)).contains(&took), "{took:?}");
    let created = write_positions(&world, |entry| entry.code == 201);
    assert_eq!(created.len(), 12);
    for (dependent, dependency) in pairs {
        assert!(created[dependency] < created[dependent], "{dependent} before {dependency}: {created:?}");
    }
    let deletion = sync.with_request(|request| {
        request.options.prune = true;
        request.deletion = Some(Cascade::Foreground);
    });
    let view = world.run(&deletion);
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let deleted = write_positions(&world, |entry| entry.verb == Verb::Delete);
    for (dependent, dependency) in pairs {
        let both = deleted.get(dependency).zip(deleted.get(dependent));
        assert!(
            both.is_some_and(|(last, first)| first < last),
            "{dependency} before {dependent}: {deleted:?}"
        );
    }
}
