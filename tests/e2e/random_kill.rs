//! `kill -9` at random moments, again and again: the operation always ends the same, and each hook was created once.
//!
//! `TIDEGATE_KILL_ROUNDS=N` plays that many rounds, `TIDEGATE_KILL_SEED=N` repeats the moments of an earlier run.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use tidegate_testkit::effort;

use crate::bench::Bench;
use crate::manifests::{FAST, FAST_HOOKS};
use crate::thirty::Dice;

/// Enough to notice what goes wrong often; the long form looks for the rest.
const ROUNDS: u64 = 15;
const ROUNDS_LONG: u64 = 50;
/// Rounds at once: they mostly wait.
const WORKERS: u64 = 5;
/// An undisturbed sync takes about this long; a kill may also come too late.
const LATEST_MILLIS: u64 = 500;
/// So often may a round be killed before it is left alone.
const KILLS_MAX: u32 = 4;

#[test]
fn kills_at_random_moments() {
    let rounds = effort::rounds("TIDEGATE_KILL_ROUNDS", ROUNDS, ROUNDS_LONG);
    let (_, seed) = Dice::of_environment();
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
                    own.map(|round| play(round, seed, undisturbed)).sum::<u32>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    println!("{kills} processes killed at work in {rounds} rounds");
    assert!(u64::from(kills) >= rounds / 2, "only {kills} kills hit a process at work: kill earlier");
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    bench
}

/// One sync, killed up to some times, then left alone. Returns how often it was killed at work.
fn play(round: u64, seed: u64, undisturbed: &BTreeSet<String>) -> u32 {
    let mut dice = Dice(seed.wrapping_add(round.wrapping_mul(0x1234_5678_9abc_def1)));
    let bench = bench();
    let story = format!("seed {seed}, round {round}");
    let mut kills = 0;
    loop {
        let begun = bench.state().join("log").exists()
            && bench.json(&["ops", "list", "-o", "json"]).as_array().is_some_and(|list| !list.is_empty());
        let args: &[&str] = match begun {
            true => &["resume", "--all", "--sim"],
            false => &["sync", "fast.yaml", "--app", "fast", "--sim"],
        };
        let mut running = bench.start(args);
        let status = match kills {
            KILLS_MAX => None,
            _ => {
                let moment = Duration::from_millis(dice.roll(LATEST_MILLIS));
                match running.is_over_within(moment) {
                    Some(status) => Some(status),
                    None => {
                        running.signal("KILL");
                        running.is_over_within(Duration::from_secs(60))
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

/// What stays in the cluster in the end. Objects that controllers made carry generated names, and those on their way
/// out are gone a moment later.
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
