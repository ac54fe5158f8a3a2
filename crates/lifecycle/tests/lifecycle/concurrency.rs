//! Places in concurrency groups: when an operation requests them and how long it holds them.

use tidegate_lifecycle::operation::{Input, OperationEvent, Verdict, explain};
use tidegate_model::{Phase, Plan};

use crate::build::*;
use crate::world::World;

const DB_GATE: &str = "concurrency:db";

fn closed_verdict(reason: &str, ask_again_after: u64) -> Verdict {
    Verdict::Closed { reason: reason.into(), ask_again_after: seconds(ask_again_after) }
}

fn approve_input() -> Input {
    Input::Approve { wave: None, by: "ann".into(), reason: String::new() }
}

fn held_places(world: &World) -> Vec<String> {
    world.driver().state().held_groups().map(str::to_owned).collect()
}

fn verdict_count(world: &World, name: &str) -> usize {
    world
        .durable
        .iter()
        .filter(|event| matches!(event, OperationEvent::GateEvaluated { gate, .. } if gate == name))
        .count()
}

/// Returns a plan with one hook per wave. Each hook runs for some time, so that a test can inspect the
/// operation during the wave.
fn plan_with_gates(gates: &[&[&str]]) -> Plan {
    let numbers =
        (0..gates.len()).map(|number| hook_task(Phase::Sync, number as i64, &format!("Job/h{number}")));
    let mut plan = plan(numbers);
    for (wave, gates) in gates.iter().enumerate() {
        for gate in *gates {
            plan = plan.with_gate(wave, gate);
        }
    }
    plan
}

/// Runs until the given wave is running. The hooks of these waves take about a second.
fn run_to_wave(world: &mut World, name: &str) {
    for millis in (world.now..world.now + 600_000).step_by(10) {
        world.run_until(millis);
        let state = world.driver().state().name();
        if state.starts_with(name) && !state.ends_with("Held") && !state.ends_with("Passed") {
            return;
        }
    }
    panic!("{name} was not reached: {}", world.driver().state().name());
}

#[test]
fn a_place_is_requested_only_when_nothing_else_blocks_the_wave() {
    let plan = plan_with_gates(&[&["approval", DB_GATE, "night", "soak:5m"]]);
    let mut world = World::new(plan, request());
    world.gates.insert("night".into(), [closed_verdict("it is day", 30)].into());
    world.gates.insert(DB_GATE.into(), [closed_verdict("it is full", 20)].into());
    world.run_until(1_000);
    let said = explain(world.driver().state(), at(1_000)).to_string();
    assert!(said.contains("gate approval") && !said.contains(&format!("for gate {DB_GATE}")), "{said}");
    let awaited = explain(world.driver().state(), at(1_000)).awaited;
    let place = awaited.iter().find(|awaited| awaited.what == format!("gate {DB_GATE}")).unwrap();
    assert_eq!(place.why, "evaluated last, when nothing else blocks the wave");
    world.run_until(40_000);
    assert_eq!(
        (verdict_count(&world, "night"), verdict_count(&world, DB_GATE)),
        (2, 0),
        "the concurrency gate must not be queried while the approval is missing"
    );
    assert!(world.driver().state().message().starts_with("gate approval is closed"));
    world.schedule_input(50_000, approve_input());
    world.run_until(55_000);
    assert_eq!((verdict_count(&world, DB_GATE), held_places(&world).len()), (1, 0));
    assert_eq!(world.driver().state().message(), format!("gate {DB_GATE} is closed: it is full"));
    world.run_until(70_100);
    assert_eq!((verdict_count(&world, DB_GATE), held_places(&world)), (2, vec!["db".to_owned()]));
    world.run();
    assert_eq!(held_places(&world), [""; 0], "an operation that has ended must not hold a place");
}

/// A slot must be requested at the end of a soak, although no input arrives at that time.
#[test]
fn a_place_is_requested_when_the_soak_is_over() {
    let mut world = World::new(plan_with_gates(&[&[], &["soak:5m", DB_GATE]]), request());
    world.run_until(200_000);
    assert!(world.driver().state().message().starts_with("gate soak:5m is closed"));
    assert_eq!(verdict_count(&world, DB_GATE), 0);
    world.run();
    assert_eq!(verdict_count(&world, DB_GATE), 1);
}

#[test]
fn a_place_is_kept_if_the_next_wave_names_the_group() {
    let plan = plan_with_gates(&[&[DB_GATE], &[DB_GATE], &[], &[DB_GATE]]);
    let mut world = World::new(plan, request());
    for (wave, has, asked) in [(1, true, 1), (2, true, 1), (3, false, 1), (4, true, 2)] {
        run_to_wave(&mut world, &format!("Wave {wave}"));
        assert_eq!(
            (held_places(&world) == ["db"], verdict_count(&world, DB_GATE)),
            (has, asked),
            "wave {wave}"
        );
    }
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (no more tasks)");
}

/// Two operations would deadlock if each held the slot that the other operation requests.
#[test]
fn places_are_released_before_more_groups_are_requested() {
    let both = ["concurrency:ci", DB_GATE];
    let mut world = World::new(plan_with_gates(&[&[DB_GATE], &both, &[DB_GATE]]), request());
    world.gates.insert("concurrency:ci".into(), [closed_verdict("it is full", 60)].into());
    run_to_wave(&mut world, "Wave 1 ");
    assert_eq!(held_places(&world), ["db"]);
    world.run_until(world.now + 10_000);
    assert_eq!(world.driver().state().name(), "Wave 2 Held");
    // The test world answers each gate separately, but a real engine grants either all slots of a wave or
    // none.
    assert_eq!(verdict_count(&world, DB_GATE), 2, "the place must be requested again");
    run_to_wave(&mut world, "Wave 2 ");
    assert_eq!(held_places(&world).len(), 2);
    run_to_wave(&mut world, "Wave 3 ");
    assert_eq!(
        (held_places(&world), verdict_count(&world, DB_GATE)),
        (vec!["db".to_owned()], 2),
        "the place that the next wave needs must be kept"
    );
}

/// An engine that resumes the operation after a crash doesn't request the slot again, because no other
/// operation can have acquired it.
#[test]
fn a_place_survives_an_engine_restart() {
    let mut world = World::new(plan_with_gates(&[&[DB_GATE, "night"]]), request());
    // The other gate closes again when the slot is granted.
    world.gates.insert("night".into(), [Verdict::Open, closed_verdict("it is day", 600)].into());
    world.gates.insert(DB_GATE.into(), [closed_verdict("it is full", 5)].into());
    world.run_until(1_000);
    let gate = |name: &str, verdict| Input::Gate { wave: 0, gate: name.into(), verdict };
    world.schedule_input(2_000, gate("night", closed_verdict("it is day", 600)));
    world.schedule_input(2_000, gate(DB_GATE, Verdict::Open));
    world.run_until(3_000);
    assert_eq!(
        (world.driver().state().name(), held_places(&world)),
        ("Wave 1 Held".into(), vec!["db".into()])
    );
    world.crash_now();
    world.run_until(4_000);
    assert_eq!(
        (world.driver().state().name(), held_places(&world)),
        ("Wave 1 Held".into(), vec!["db".into()])
    );
    assert!(world.driver().state().message().contains("night"), "{}", world.driver().state().message());
}

/// The hook failed and another attempt follows, so the work in the group isn't complete.
#[test]
fn a_place_is_kept_until_the_wave_passes_or_the_operation_ends() {
    let mut plan = plan([
        hook_task(Phase::Sync, 0, "Job/h"),
        resource(1, "ConfigMap/c"),
        hook_task(Phase::SyncFail, 0, "Job/alert"),
    ]);
    plan = plan.with_gate(0, DB_GATE);
    let mut world = World::new(plan, request_with_retries(1));
    world.configure("Job/h", |fate| fate.degrade("bad"));
    let mut stages = Vec::new();
    for millis in (0..120_000).step_by(10) {
        world.run_until(millis);
        let has_place = !held_places(&world).is_empty();
        let name = world.driver().state().name();
        let stage = (name.split(' ').take(2).collect::<Vec<_>>().join(" "), has_place);
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
    }
    let had: Vec<&str> = stages.iter().filter(|(_, has)| *has).map(|(name, _)| name.as_str()).collect();
    assert_eq!(had, ["Wave 1", "AwaitingRetry", "Wave 1", "Wave 3"], "{stages:?}");
    assert_eq!(verdict_count(&world, DB_GATE), 1);
    assert_eq!(stages.last().unwrap(), &("Finished".to_owned(), false));
}
