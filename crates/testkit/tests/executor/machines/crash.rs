//! A rollout and a teardown with a process that crashes at every append, and again during the recovery. The
//! recorded events and the effects must be the same as without crashes, and no work may start without a
//! record.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{Engine, EngineError, MachineEffects, MachineError, RunningMachine};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::rollout;
use tidegate_lifecycle::teardown::{self, OrderedDeletion};
use tidegate_testkit::crash::CrashPoints;
use tidegate_testkit::process::World;

use super::fleet::{FakeRolloutEffects, FakeTeardownEffects, Fleet};
use super::requests::{named_operations, recorded_events, rollout, stream_id, teardown};
use super::rollout_engine::retry_failures;

/// Compared results.
#[derive(Debug, PartialEq)]
struct Outcome {
    recorded: BTreeMap<String, Vec<Value>>,
    actions: Vec<String>,
}

/// Runs a machine with processes that crash at the given crash points, one after another; 0 means no crash.
/// Returns the result, the number of crash points in the last process, and the number of crashes.
fn run<W: MachineEffects>(
    deaths: &[u64],
    fleet: &Fleet,
    begin: impl Fn() -> <W::Machine as Machine>::Input,
    work: fn(&Fleet) -> W,
    person: impl AsyncFn(&RunningMachine<W::Machine>) -> Result<(), MachineError>,
) -> (World, Outcome, u64, u64) {
    let world = World::new(SimConfig::default());
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = CrashPoints::crash_at(deaths.next().unwrap_or(0));
        let ended = world.run_engine(&points, async |engine: Engine| {
            let effects = fleet.clone();
            let running = engine.run_machine(stream_id(1), Some(begin()), move || work(&effects)).await;
            let running = running.map_err(|_| EngineError::Stopped)?;
            person(&running).await.map_err(|_| EngineError::Stopped)?;
            running.wait_until_over().await;
            let state = running.state().await.map_err(|_| EngineError::Stopped)?;
            assert!(<W::Machine as Machine>::is_over(&state), "{state:?}");
            Ok(())
        });
        if ended.is_some() {
            let outcome = Outcome {
                recorded: recorded_events::<W::Machine>(&world.log, stream_id(1)),
                actions: fleet.actions(),
            };
            return (world, outcome, points.passed(), died);
        }
        died += 1;
    }
}

fn run_rollout(deaths: &[u64]) -> (Outcome, u64, u64) {
    let fleet = Fleet::with_failing(&["b"]);
    let begin = || rollout::Input::Begin(Box::new(rollout()));
    let (world, outcome, points, died) =
        run(deaths, &fleet, begin, FakeRolloutEffects::for_fleet, retry_failures);
    assert_eq!(
        fleet.started_operations(),
        named_operations(&world.log, stream_id(1)),
        "{deaths:?}: started operations and recorded ones"
    );
    (outcome, points, died)
}

fn run_teardown(deaths: &[u64]) -> (Outcome, u64, u64) {
    let begin = || teardown::Input::Begin(Box::new(teardown(2)));
    let nobody = async |_: &RunningMachine<OrderedDeletion>| Ok(());
    let (_, outcome, points, died) =
        run(deaths, &Fleet::default(), begin, FakeTeardownEffects::for_fleet, nobody);
    (outcome, points, died)
}

/// Crashes at every point. Returns the result of the undisturbed run.
fn crash_at_every_point(play: fn(&[u64]) -> (Outcome, u64, u64), least: u64) -> Outcome {
    let (expected, points, _) = play(&[]);
    let (mut tried, mut wrong) = (0, Vec::new());
    for point in 1..=points {
        // The recovery crashes as well.
        for deaths in [vec![point], vec![point, point % 7 + 1]] {
            let (found, _, died) = play(&deaths);
            tried += died;
            if found != expected {
                wrong.push(format!("dying at {deaths:?}: {found:#?}\ninstead of {expected:#?}"));
            }
        }
    }
    println!("{tried} crashes at {points} points");
    assert!(tried >= least, "only {tried} crashes");
    assert!(wrong.is_empty(), "{} of {tried} differ; the first:\n{}", wrong.len(), wrong[0]);
    expected
}

#[test]
fn a_crash_at_any_append_of_a_rollout_changes_nothing() {
    let outcome = crash_at_every_point(run_rollout, 40);
    assert_eq!(outcome.actions, ["sync a", "sync b", "sync b", "sync p", "sync q"]);
    assert_eq!(final_event(&outcome), "Completed");
}

#[test]
fn a_crash_at_any_append_of_a_teardown_changes_nothing() {
    let outcome = crash_at_every_point(run_teardown, 15);
    assert_eq!(outcome.actions, ["delete dev000", "delete dev001", "delete prod000", "delete prod001"]);
    assert_eq!(final_event(&outcome), "Completed");
}

fn final_event(outcome: &Outcome) -> &Value {
    &outcome.recorded[""].last().unwrap()["Finished"]["end"]
}
