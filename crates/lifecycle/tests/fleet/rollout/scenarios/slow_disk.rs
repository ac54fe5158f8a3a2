//! Slow disk: many events arrive while a batch is being written. Afterwards, all required subscriptions must
//! be active.

use tidegate_lifecycle::operation::Verdict;

use super::*;
use crate::disturbances::Disturbances;
use crate::rng::Rng;

#[test]
fn a_gate_is_asked_again_when_its_step_is_held_again() {
    let second = Step { gates: vec!["freeze".into(), "soak:30s".into()], ..step("env in prod") };
    let members = vec![member("dev-a", "env=dev"), member("prod-a", "env=prod")];
    let mut world = World::new(request(vec![step("env in dev"), second], members));
    world.gates.insert("freeze".into(), 20_000);
    world.run_until(10_000);
    assert!(world.explain().contains("gate freeze (until 20000)"), "{}", world.explain());
    // The Application is healthy again before the event about its degradation is durable.
    world.min_write_time = 1_000;
    world.degrade("dev-a", 100);
    world.run_until(15_000);
    let moves = ["10000 Rolling step 1", "10100 Held before step 2"];
    assert!(world.transcript.ends_with(&moves.map(str::to_owned)), "{:#?}", world.transcript);
    let answers: Vec<&Verdict> = world.rollout().gates.iter().map(|answer| &answer.verdict).collect();
    assert_eq!(answers, [&Verdict::closed("until 20000")], "{}", world.explain());
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed), "{}", world.explain());
}

#[test]
fn a_failed_call_is_repeated_although_its_retry_time_passed_during_a_write() {
    for seed in 0..50 {
        let members = ["a", "b", "c"].map(|name| member(name, ""));
        let weather = Disturbances { rng: Rng(seed), max_delay: 400, ..Disturbances::default() };
        let mut world = World::new(request(vec![step("")], members.into())).with_disturbances(weather);
        world.min_write_time = 1_000;
        // The end of this operation is being written while the other operations are rejected.
        world.behavior("a").duration = Some(0);
        ["b", "c"].iter().for_each(|name| world.behavior(name).rejections = 1);
        world.run();
        assert_eq!(rollout_end(&world), Some(End::Completed), "seed {seed}: {}", world.explain());
    }
}
