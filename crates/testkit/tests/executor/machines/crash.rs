//! A rollout and a teardown whose process dies at every append, and again during recovery: the same is recorded, the same was
//! done, and nothing was begun that is not on record.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{Engine, EngineError, MachineError, Running, Work};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::rollout;
use tidegate_lifecycle::teardown::{self, OrderedDeletion};
use tidegate_testkit::crash::Points;
use tidegate_testkit::process::World;

use super::fleet::{Fleet, Rolling, Tearing};
use super::play::retry;
use super::requests::{named, recorded, rollout, stream, teardown};

/// What is compared.
#[derive(Debug, PartialEq)]
struct Outcome {
    recorded: BTreeMap<String, Vec<Value>>,
    deeds: Vec<String>,
}

/// Runs a machine with a process that dies at each of `deaths` in turn; 0 lives on. How it went, the points of the last
/// process, and how many died.
fn run<W: Work>(
    deaths: &[u64],
    fleet: &Fleet,
    begin: impl Fn() -> <W::Machine as Machine>::Input,
    work: fn(&Fleet) -> W,
    person: impl AsyncFn(&Running<W::Machine>) -> Result<(), MachineError>,
) -> (World, Outcome, u64, u64) {
    let world = World::new(SimConfig::default());
    let mut deaths = deaths.iter().copied();
    let mut died = 0;
    loop {
        let points = Points::dying_at(deaths.next().unwrap_or(0));
        let ended = world.live(&points, async |engine: Engine| {
            let hands = fleet.clone();
            let running = engine.run_machine(stream(1), Some(begin()), move || work(&hands)).await;
            let running = running.map_err(|_| EngineError::Stopped)?;
            person(&running).await.map_err(|_| EngineError::Stopped)?;
            running.over().await;
            let state = running.state().await.map_err(|_| EngineError::Stopped)?;
            assert!(<W::Machine as Machine>::is_over(&state), "{state:?}");
            Ok(())
        });
        if ended.is_some() {
            let outcome =
                Outcome { recorded: recorded::<W::Machine>(&world.log, stream(1)), deeds: fleet.deeds() };
            return (world, outcome, points.passed(), died);
        }
        died += 1;
    }
}

fn roll(deaths: &[u64]) -> (Outcome, u64, u64) {
    let fleet = Fleet::where_fails(&["b"]);
    let begin = || rollout::Input::Begin(Box::new(rollout()));
    let (world, outcome, points, died) = run(deaths, &fleet, begin, Rolling::of, retry);
    assert_eq!(
        fleet.begun(),
        named(&world.log, stream(1)),
        "{deaths:?}: what was begun, and what is on record"
    );
    (outcome, points, died)
}

fn tear(deaths: &[u64]) -> (Outcome, u64, u64) {
    let begin = || teardown::Input::Begin(Box::new(teardown(2)));
    let nobody = async |_: &Running<OrderedDeletion>| Ok(());
    let (_, outcome, points, died) = run(deaths, &Fleet::default(), begin, Tearing::of, nobody);
    (outcome, points, died)
}

/// Dies everywhere; returns how the undisturbed run went.
fn die_everywhere(play: fn(&[u64]) -> (Outcome, u64, u64), least: u64) -> Outcome {
    let (expected, points, _) = play(&[]);
    let (mut tried, mut wrong) = (0, Vec::new());
    for point in 1..=points {
        // The recovery dies as well.
        for deaths in [vec![point], vec![point, point % 7 + 1]] {
            let (found, _, died) = play(&deaths);
            tried += died;
            if found != expected {
                wrong.push(format!("dying at {deaths:?}: {found:#?}\ninstead of {expected:#?}"));
            }
        }
    }
    println!("{tried} deaths at {points} points");
    assert!(tried >= least, "only {tried} deaths");
    assert!(wrong.is_empty(), "{} of {tried} differ; the first:\n{}", wrong.len(), wrong[0]);
    expected
}

#[test]
fn a_crash_at_any_append_of_a_rollout_changes_nothing() {
    let outcome = die_everywhere(roll, 40);
    assert_eq!(outcome.deeds, ["sync a", "sync b", "sync b", "sync p", "sync q"]);
    assert_eq!(end(&outcome), "Completed");
}

#[test]
fn a_crash_at_any_append_of_a_teardown_changes_nothing() {
    let outcome = die_everywhere(tear, 15);
    assert_eq!(outcome.deeds, ["delete dev000", "delete dev001", "delete prod000", "delete prod001"]);
    assert_eq!(end(&outcome), "Completed");
}

fn end(outcome: &Outcome) -> &Value {
    &outcome.recorded[""].last().unwrap()["Finished"]["end"]
}
