//! Much happens while a batch is on its way to the disk. What is kept up looks the same after it as before.

use tidegate_lifecycle::operation::Verdict;

use super::*;
use crate::weather::Weather;

#[test]
fn a_gate_is_asked_anew_by_a_step_that_is_held_anew() {
    let second = Step { gates: vec!["freeze".into(), "soak:30s".into()], ..step("env in prod") };
    let members = vec![member("dev-a", "env=dev"), member("prod-a", "env=prod")];
    let mut world = World::new(request(vec![step("env in dev"), second], members));
    world.gates.insert("freeze".into(), 20_000);
    world.run_until(10_000);
    assert!(world.explain().contains("gate freeze (until 20000)"), "{}", world.explain());
    // It is well again before it is on the disk that it was not.
    world.writes_take = 1_000;
    world.worsen("dev-a", 100);
    world.run_until(15_000);
    let moves = ["10000 Rolling step 1", "10100 Held before step 2"];
    assert!(world.transcript.ends_with(&moves.map(str::to_owned)), "{:#?}", world.transcript);
    let answers: Vec<&Verdict> = world.rollout().gates.iter().map(|answer| &answer.verdict).collect();
    assert_eq!(answers, [&Verdict::closed("until 20000")], "{}", world.explain());
    world.run();
    assert_eq!(end(&world), Some(End::Completed), "{}", world.explain());
}

#[test]
fn a_call_that_failed_is_made_again_though_its_time_has_come_before_anybody_could_act() {
    for seed in 0..50 {
        let members = ["a", "b", "c"].map(|name| member(name, ""));
        let weather = Weather { seed, slow: 400, ..Weather::default() };
        let mut world = World::new(request(vec![step("")], members.into())).rough(weather);
        world.writes_take = 1_000;
        // What ends at once is being written when the others are refused.
        world.fate("a").takes = Some(0);
        ["b", "c"].iter().for_each(|name| world.fate(name).busy = 1);
        world.run();
        assert_eq!(end(&world), Some(End::Completed), "seed {seed}: {}", world.explain());
    }
}
