//! Randomized simulation with hundreds of seeds, or a thousand in the long form. `TIDEGATE_SIM_SEEDS=N` runs
//! N seeds, and `TIDEGATE_SIM_SEED=S` runs a single seed and prints every step. `TIDEGATE_RIVAL_SEEDS` and
//! `TIDEGATE_RIVAL_SEED` do the same for operations of the same application from several state directories.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_testkit::effort;
use tidegate_testkit::simulate::{simulate, simulate_rivals};

fn env_number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} must be a number")))
}

#[test]
fn no_seed_breaks_a_rule() {
    if let Some(seed) = env_number("TIDEGATE_SIM_SEED") {
        let report = simulate(seed, true);
        assert_eq!(report, simulate(seed, false), "the same seed must give the same run");
        println!("{report:#?}");
        return;
    }
    let seeds = effort::rounds("TIDEGATE_SIM_SEEDS", 200, 500);
    let all: Vec<u64> = (1..=seeds).collect();
    let runs = effort::on_all_cores(&all, |seed| catch_unwind(AssertUnwindSafe(|| simulate(*seed, false))));
    let (mut ends, mut steps, mut crashes, mut events) = (BTreeMap::new(), 0, 0, 0);
    let mut failures = Vec::new();
    for (seed, run) in all.into_iter().zip(runs) {
        match run {
            Ok(report) => {
                steps += report.steps;
                crashes += report.crashes;
                events += report.events;
                report.ends.iter().for_each(|(phase, _)| *ends.entry(phase.to_string()).or_insert(0) += 1);
            }
            Err(_) => {
                println!(
                    "seed {seed} breaks a rule; replay with TIDEGATE_SIM_SEED={seed} cargo test -p tidegate-testkit --test simulation -- --nocapture"
                );
                failures.push(seed);
            }
        }
    }
    println!("{seeds} seeds: {steps} steps, {crashes} crashes, {events} events, results {ends:?}");
    assert!(failures.is_empty(), "failing seeds: {failures:?}");
    // Simulations without failed operations or crashes prove little.
    assert!(
        seeds < 100 || (crashes > seeds && ends.contains_key("Succeeded") && ends.contains_key("Failed"))
    );
}

#[test]
fn a_seed_can_be_replayed() {
    for seed in [3, 14, 159] {
        assert_eq!(simulate(seed, false), simulate(seed, false));
    }
}

#[test]
fn no_seed_lets_two_operations_of_an_application_run_at_once() {
    if let Some(seed) = env_number("TIDEGATE_RIVAL_SEED") {
        println!("{:#?}", simulate_rivals(seed, true));
        return;
    }
    let seeds = effort::rounds("TIDEGATE_RIVAL_SEEDS", 60, 250);
    let all: Vec<u64> = (1..=seeds).collect();
    let runs =
        effort::on_all_cores(&all, |seed| catch_unwind(AssertUnwindSafe(|| simulate_rivals(*seed, false))));
    let (mut ends, mut kills, mut changes) = (BTreeMap::new(), 0, 0);
    let mut failures = Vec::new();
    for (seed, run) in all.into_iter().zip(runs) {
        match run {
            Ok(report) => {
                kills += report.kills;
                changes += report.handovers;
                report.ends.into_iter().for_each(|(end, times)| *ends.entry(end).or_insert(0) += times);
            }
            Err(_) => {
                println!(
                    "seed {seed} breaks a rule; replay with TIDEGATE_RIVAL_SEED={seed} cargo test -p tidegate-testkit --test simulation at_once -- --nocapture"
                );
                failures.push(seed);
            }
        }
    }
    println!(
        "{seeds} seeds: {kills} kills, {changes} changes from one operation to another, results {ends:?}"
    );
    assert!(failures.is_empty(), "failing seeds: {failures:?}");
    // Simulations without crashes, waits, refusals and takeovers of expired claims prove little.
    let some = |end: &str| ends.keys().any(|known| known.contains(end));
    assert!(seeds < 60 || kills > seeds && changes > seeds);
    assert!(seeds < 60 || ["Succeeded", "Refused", "Lost", "superseded"].into_iter().all(some), "{ends:?}");
}
