//! The golden operations without crashes. Each must end as declared.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use tidegate_cluster::sim::SimConfig;
use tidegate_model::{OperationId, OperationPhase};
use tidegate_oplog::{AppendOf, MemoryLog};
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::process::World;
use tidegate_testkit::scenario;

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
