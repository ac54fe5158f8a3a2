//! Places in groups of operations: when they are asked for, and how long an operation has them.

use tidegate_lifecycle::operation::{Fact, Input, Verdict, explain};
use tidegate_model::{Phase, Plan};

use crate::build::*;
use crate::world::World;

const DB: &str = "concurrency:db";

fn closed(reason: &str, ask_again_after: u64) -> Verdict {
    Verdict::Closed { reason: reason.into(), ask_again_after: seconds(ask_again_after) }
}

fn approve() -> Input {
    Input::Approve { wave: None, by: "ann".into(), reason: String::new() }
}

fn places(world: &World) -> Vec<String> {
    world.driver().state().places().map(str::to_owned).collect()
}

/// How often a gate has answered.
fn answers(world: &World, name: &str) -> usize {
    world
        .durable
        .iter()
        .filter(|fact| matches!(fact, Fact::GateAnswered { gate, .. } if gate == name))
        .count()
}

/// Each wave is a hook that takes a while, so that one can look at the operation during the wave.
fn waves(gates: &[&[&str]]) -> Plan {
    let numbers = (0..gates.len()).map(|number| hook(Phase::Sync, number as i64, &format!("Job/h{number}")));
    let mut plan = plan(numbers);
    for (wave, gates) in gates.iter().enumerate() {
        for gate in *gates {
            plan = plan.gated(wave, gate);
        }
    }
    plan
}

/// Runs until a wave is at work; hooks take a second or so.
fn run_to(world: &mut World, name: &str) {
    for millis in (world.now..world.now + 600_000).step_by(10) {
        world.run_until(millis);
        let state = world.driver().state().name();
        if state.starts_with(name) && !state.ends_with("Held") && !state.ends_with("Passed") {
            return;
        }
    }
    panic!("{name} did not come: {}", world.driver().state().name());
}

#[test]
fn a_place_is_asked_for_when_nothing_else_keeps_the_wave_closed() {
    let plan = waves(&[&["approval", DB, "night", "soak:5m"]]);
    let mut world = World::new(plan, request());
    world.gates.insert("night".into(), [closed("it is day", 30)].into());
    world.gates.insert(DB.into(), [closed("it is full", 20)].into());
    world.run_until(1_000);
    let said = explain(world.driver().state(), at(1_000)).to_string();
    assert!(said.contains("gate approval") && !said.contains(&format!("for gate {DB}")), "{said}");
    let awaited = explain(world.driver().state(), at(1_000)).awaited;
    let place = awaited.iter().find(|awaited| awaited.what == format!("gate {DB}")).unwrap();
    assert_eq!(place.why, "its turn comes when the wave waits for nothing else");
    world.run_until(40_000);
    assert_eq!((answers(&world, "night"), answers(&world, DB)), (2, 0), "the other gate is open");
    assert!(world.driver().state().message().starts_with("gate approval is closed"));
    world.at(50_000, approve());
    world.run_until(55_000);
    assert_eq!((answers(&world, DB), places(&world).len()), (1, 0));
    assert_eq!(world.driver().state().message(), format!("gate {DB} is closed: it is full"));
    world.run_until(70_100);
    assert_eq!((answers(&world, DB), places(&world)), (2, vec!["db".to_owned()]));
    world.run();
    assert_eq!(places(&world), [""; 0], "it is over");
}

/// A soak ends without a word of anybody.
#[test]
fn a_place_is_asked_for_when_the_soak_is_over() {
    let mut world = World::new(waves(&[&[], &["soak:5m", DB]]), request());
    world.run_until(200_000);
    assert!(world.driver().state().message().starts_with("gate soak:5m is closed"));
    assert_eq!(answers(&world, DB), 0);
    world.run();
    assert_eq!(answers(&world, DB), 1);
}

#[test]
fn a_place_is_kept_while_the_next_wave_names_the_group_too() {
    let plan = waves(&[&[DB], &[DB], &[], &[DB]]);
    let mut world = World::new(plan, request());
    for (wave, has, asked) in [(1, true, 1), (2, true, 1), (3, false, 1), (4, true, 2)] {
        run_to(&mut world, &format!("Wave {wave}"));
        assert_eq!((places(&world) == ["db"], answers(&world, DB)), (has, asked), "wave {wave}");
    }
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (no more tasks)");
}

/// Two operations that each had what the other one asks for would wait for ever.
#[test]
fn places_are_given_back_before_more_groups_are_asked() {
    let both = ["concurrency:ci", DB];
    let mut world = World::new(waves(&[&[DB], &both, &[DB]]), request());
    world.gates.insert("concurrency:ci".into(), [closed("it is full", 60)].into());
    run_to(&mut world, "Wave 1 ");
    assert_eq!(places(&world), ["db"]);
    world.run_until(world.now + 10_000);
    assert_eq!(world.driver().state().name(), "Wave 2 Held");
    // This world answers each gate by itself; an engine gives all of a wave, or none.
    assert_eq!(answers(&world, DB), 2, "it is asked for anew");
    run_to(&mut world, "Wave 2 ");
    assert_eq!(places(&world).len(), 2);
    run_to(&mut world, "Wave 3 ");
    assert_eq!((places(&world), answers(&world, DB)), (vec!["db".to_owned()], 2), "one stays");
}

/// Whoever goes on with an operation after a kill does not ask for the place again: nobody else has got it.
#[test]
fn a_place_outlives_the_engine() {
    let mut world = World::new(waves(&[&[DB, "night"]]), request());
    // In the moment in which the place is given the other gate closes again.
    world.gates.insert("night".into(), [Verdict::Open, closed("it is day", 600)].into());
    world.gates.insert(DB.into(), [closed("it is full", 5)].into());
    world.run_until(1_000);
    let gate = |name: &str, verdict| Input::Gate { wave: 0, gate: name.into(), verdict };
    world.at(2_000, gate("night", closed("it is day", 600)));
    world.at(2_000, gate(DB, Verdict::Open));
    world.run_until(3_000);
    assert_eq!((world.driver().state().name(), places(&world)), ("Wave 1 Held".into(), vec!["db".into()]));
    world.crash_at_once();
    world.run_until(4_000);
    assert_eq!((world.driver().state().name(), places(&world)), ("Wave 1 Held".into(), vec!["db".into()]));
    assert!(world.driver().state().message().contains("night"), "{}", world.driver().state().message());
}

/// The hook has failed, and another attempt is to come: what it has begun is still half done.
#[test]
fn a_place_is_kept_until_the_wave_has_passed_or_the_operation_is_over() {
    let mut plan = plan([
        hook(Phase::Sync, 0, "Job/h"),
        resource(1, "ConfigMap/c"),
        hook(Phase::SyncFail, 0, "Job/alert"),
    ]);
    plan = plan.gated(0, DB);
    let mut world = World::new(plan, retrying(1));
    world.fate("Job/h", |fate| fate.degrades("bad"));
    let mut stages = Vec::new();
    for millis in (0..120_000).step_by(10) {
        world.run_until(millis);
        let has_place = !places(&world).is_empty();
        let name = world.driver().state().name();
        let stage = (name.split(' ').take(2).collect::<Vec<_>>().join(" "), has_place);
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
    }
    let had: Vec<&str> = stages.iter().filter(|(_, has)| *has).map(|(name, _)| name.as_str()).collect();
    assert_eq!(had, ["Wave 1", "AwaitingRetry", "Wave 1", "Wave 3"], "{stages:?}");
    assert_eq!(answers(&world, DB), 1);
    assert_eq!(stages.last().unwrap(), &("Finished".to_owned(), false));
}
