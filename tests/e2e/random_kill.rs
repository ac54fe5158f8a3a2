//! Repeated `kill -9` at random moments: the operation must always have the same result, and each hook must
//! be created once.
//!
//! `TIDEGATE_KILL_ROUNDS=N` sets the number of rounds, `TIDEGATE_KILL_SEED=N` repeats the moments of an
//! earlier run.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use tidegate_testkit::effort;

use crate::bench::Bench;
use crate::manifests::{FAST, FAST_HOOKS};
use crate::thirty_applications::Dice;

/// Enough to notice frequent errors. The long form finds the rest.
const ROUNDS: u64 = 15;
const ROUNDS_LONG: u64 = 50;
/// Number of concurrent rounds, which mostly wait.
const WORKERS: u64 = 5;
/// About the duration of an undisturbed sync. A kill may also come too late.
const LATEST_MILLIS: u64 = 500;
/// Maximum number of kills in a round.
const KILLS_MAX: u32 = 4;

#[test]
fn kills_at_random_moments() {
    let rounds = effort::rounds("TIDEGATE_KILL_ROUNDS", ROUNDS, ROUNDS_LONG);
    let (_, seed) = Dice::from_environment();
    let undisturbed = {
        let bench = bench();
        bench.run(&["sync", "fast.yaml", "--app", "fast", "--sim"]).expect_code(0);
        objects(&bench)
    };
    let kills: u32 = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let undisturbed = &undisturbed;
                scope.spawn(move || {
                    let own = (0..rounds).filter(|round| round % WORKERS == worker);
                    own.map(|round| run_round(round, seed, undisturbed)).sum::<u32>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    println!("{kills} running processes killed in {rounds} rounds");
    assert!(u64::from(kills) >= rounds / 2, "only {kills} kills hit a running process: kill earlier");
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    bench
}

/// Runs one sync that is killed up to [`KILLS_MAX`] times and then left undisturbed. Returns the number of
/// effective kills.
fn run_round(round: u64, seed: u64, undisturbed: &BTreeSet<String>) -> u32 {
    let mut dice = Dice(seed.wrapping_add(round.wrapping_mul(0x1234_5678_9abc_def1)));
    let bench = bench();
    let story = format!("seed {seed}, round {round}");
    let mut kills = 0;
    loop {
        let started = bench.state().join("log").exists()
            && bench.json(&["ops", "list", "-o", "json"]).as_array().is_some_and(|list| !list.is_empty());
        let args: &[&str] = match started {
            true => &["resume", "--all", "--sim"],
            false => &["sync", "fast.yaml", "--app", "fast", "--sim"],
        };
        let mut running = bench.start(args);
        let status = match kills {
            KILLS_MAX => None,
            _ => {
                let moment = Duration::from_millis(dice.roll(LATEST_MILLIS));
                match running.wait_for_exit(moment) {
                    Some(status) => Some(status),
                    None => {
                        running.signal("KILL");
                        running.wait_for_exit(Duration::from_secs(60))
                    }
                }
            }
        };
        let ran = match status {
            Some(status) => running.finish_with(status),
            None => running.finish(),
        };
        match ran.status.code() {
            Some(0) => break,
            Some(code) => panic!("{story}: exit {code}: {}", ran.err),
            None => kills += 1,
        }
    }
    check(&bench, &story, undisturbed);
    kills
}

fn check(bench: &Bench, story: &str, undisturbed: &BTreeSet<String>) {
    let operations = bench.json(&["ops", "list", "-o", "json"]);
    let operations = operations.as_array().unwrap();
    assert_eq!(operations.len(), 1, "{story}: {operations:?}");
    assert_eq!(operations[0]["phase"], "Succeeded", "{story}: {operations:?}");
    let writes = bench.writes();
    for hook in FAST_HOOKS {
        let created = writes
            .iter()
            .filter(|entry| entry["kind"] == "Job" && entry["name"] == hook && entry["code"] == 201)
            .filter(|entry| entry["operationId"] == operations[0]["id"]);
        assert_eq!(created.count(), 1, "{story}: hook {hook} in {writes:#?}");
        let deleted = writes
            .iter()
            .filter(|entry| entry["name"] == hook && entry["verb"] == "delete" && entry["code"] == 200);
        assert!(deleted.count() <= 1, "{story}: hook {hook} was deleted twice");
    }
    assert_eq!(&objects(bench), undisturbed, "{story}");
}

/// Returns the remaining objects. Excludes controllers' objects, which have generated names, and objects that are being
/// deleted, which disappear a moment later.
fn objects(bench: &Bench) -> BTreeSet<String> {
    let objects = bench.json(&["sim", "objects", "-o", "json"]);
    let own = |object: &&serde_json::Value| {
        object["metadata"]["ownerReferences"].is_null() && object["metadata"]["deletionTimestamp"].is_null()
    };
    let objects = objects.as_array().unwrap().iter().filter(own);
    objects
        .map(|object| format!("{} {} {}", object["kind"], object["metadata"]["name"], object["spec"]))
        .collect()
}
