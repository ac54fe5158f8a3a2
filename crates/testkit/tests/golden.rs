//! The golden operations, undisturbed: each ends as it says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use tidegate_cluster::sim::SimConfig;
use tidegate_testkit::crash::Points;
use tidegate_testkit::process::{End, World};
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
