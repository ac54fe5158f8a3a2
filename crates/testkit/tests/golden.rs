//! The golden operations, undisturbed: each ends as it says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use tidegate_cluster::sim::SimConfig;
use tidegate_model::{OperationId, OperationPhase};
use tidegate_oplog::{AppendOf, MemoryLog};
use tidegate_testkit::crash::Points;
use tidegate_testkit::process::{End, World};
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario;

#[test]
fn every_golden_operation_ends_as_it_says() {
    let mut wrong = Vec::new();
    for scenario in scenario::all() {
        let mut world = World::new(SimConfig::default());
        for sync in &scenario.before {
            world.run(sync);
        }
        world.next_operation();
        let points = Points::dying_at(0);
        let End::Finished(view) = world.process(&scenario.sync, &mut scenario.script.clone(), &points) else {
            panic!("nobody killed it");
        };
        println!("{:24} {:9} {:4} points  {}", scenario.name, view.phase, points.passed(), view.message);
        if view.phase != scenario.ends || !view.message.contains(scenario.says) {
            wrong.push(format!("{}: {} {}\n{:#?}", scenario.name, view.phase, view.message, view.resources));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The audit is the witness: what was created of one name, before and after something that comes between the phases.
#[test]
fn a_hook_of_one_name_is_created_once_in_each_of_its_phases() {
    for (name, hook, between) in [
        ("hook-in-two-phases", "notify", "settings"),
        ("helm-hook-in-two-phases", "both", "settings"),
        ("hook-in-sync-and-sync-fail", "tidy", "migrate"),
    ] {
        let scenario = scenario::all().into_iter().find(|scenario| scenario.name == name).unwrap();
        let mut world = World::new(SimConfig::default());
        let view = world.run(&scenario.sync);
        assert_eq!(view.phase, scenario.ends, "{name}: {}", view.message);
        let audit = world.cluster.audit();
        let created: Vec<&str> = audit
            .iter()
            .filter(|entry| entry.code == 201 && !entry.dry_run)
            .map(|entry| entry.name.as_str())
            .collect();
        assert_eq!(created, [hook, between, hook], "{name}");
    }
}

/// A repair of a damaged log forgets how operations stood: all their facts are there, but the summary says Running.
#[test]
fn a_finished_operation_that_the_log_takes_for_open_is_put_right_on_resume() {
    let scenario = scenario::all().into_iter().find(|scenario| scenario.name == "waves").unwrap();
    let mut world = World::new(SimConfig::default());
    let view = world.run(&scenario.sync);
    let mut summary = world.log.summaries().unwrap().remove(0);
    let operation: OperationId = summary.operation;
    let facts = world.log.facts(operation).unwrap();
    let writes = world.cluster.audit().len();
    (summary.finished_at, summary.phase) = (None, OperationPhase::Running);
    world.log = MemoryLog::default();
    world.log.append(vec![AppendOf::new(operation, 1, facts.clone(), summary.into())]).unwrap();
    assert_eq!(world.finish(&scenario.sync, &mut Vec::new()).message, view.message);
    let summary = world.log.summaries().unwrap().remove(0);
    assert_eq!((summary.phase, summary.finished_at), (view.phase, view.finished_at));
    assert_eq!(world.log.facts(operation).unwrap(), facts, "nothing is recorded twice");
    assert_eq!(world.cluster.audit().len(), writes, "nothing is written to the cluster again");
}
