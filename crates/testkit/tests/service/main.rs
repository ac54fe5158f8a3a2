//! The whole service on virtual time: Applications, an ApplicationSet that is rolled out and deleted in steps, the engine, its log,
//! the stores and a cluster, while people commit and change things, the weather is bad and processes die. What must hold is read
//! from what the cluster has seen. `TIDEGATE_SERVICE_SEEDS=N` plays N lives, `TIDEGATE_SERVICE_SEED=S` plays one again, aloud, and
//! several times: who writes, fails and dies when follows from the seed, but not which of two threads comes first at one moment.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption must stop the test at once"
)]

mod approval;
mod author;
mod crashes;
mod disk;
mod folders;
mod front;
mod people;
mod play;
mod regressions;
mod rules;
mod told;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_testkit::effort;

use crashes::{Scenario, die_everywhere};
use play::play;

/// So often a life is played again.
const AGAIN: u32 = 5;

#[test]
fn no_seed_breaks_a_rule_of_the_service() {
    if let Ok(seed) = std::env::var("TIDEGATE_SERVICE_SEED") {
        let seed = seed.parse().expect("TIDEGATE_SERVICE_SEED must be a number");
        (0..AGAIN).for_each(|_| println!("{:#?}", play(seed)));
        return;
    }
    let seeds = effort::rounds("TIDEGATE_SERVICE_SEEDS", 2, 6);
    let (mut failures, mut reports) = (Vec::new(), Vec::new());
    for seed in 1..=seeds {
        match catch_unwind(AssertUnwindSafe(|| play(seed))) {
            Ok(report) => reports.push(report),
            Err(_) => {
                println!(
                    "seed {seed} breaks a rule; replay with TIDEGATE_SERVICE_SEED={seed} cargo test --workspace --test service no_seed -- --nocapture"
                );
                failures.push(seed);
            }
        }
    }
    let sum = |of: fn(&play::Report) -> usize| reports.iter().map(of).sum::<usize>();
    let (crashes, operations, writes) =
        (sum(|one| one.crashes), sum(|one| one.operations), sum(|one| one.writes));
    let (approved, refused) = (sum(|one| one.approved), sum(|one| one.refused));
    println!("{seeds} lives: {crashes} crashes, {operations} operations, {writes} writes");
    println!("{approved} plans were approved and carried out, {refused} approvals were refused");
    assert!(failures.is_empty(), "failing seeds: {failures:?}");
    // A play in which nothing happens proves little.
    assert!(seeds < 2 || crashes as u64 >= seeds && operations as u64 > seeds * 10);
    assert!(seeds < 2 || approved > 0);
    assert!(seeds < 6 || refused > 0);
}

#[test]
fn a_sync_is_the_same_whenever_processes_die() {
    assert!(die_everywhere(Scenario::Sync) > 0);
}

#[test]
fn what_needs_an_approval_is_written_once_as_it_was_approved_whenever_processes_die() {
    assert!(die_everywhere(Scenario::Approval) > 0);
}

#[test]
fn a_rollout_is_the_same_whenever_processes_die() {
    assert!(die_everywhere(Scenario::Rollout) > 0);
}

#[test]
fn a_deletion_in_any_order_is_the_same_whenever_processes_die() {
    for order in ["Reverse", "Custom", "AllAtOnce"] {
        assert!(die_everywhere(Scenario::Delete(order)) > 0);
    }
}

#[test]
fn what_a_folder_serves_is_the_same_at_whichever_change_of_a_file_processes_die() {
    for scenario in [
        folders::Scenario::Sync,
        folders::Scenario::Rollout,
        folders::Scenario::Change,
        folders::Scenario::Delete("Reverse"),
        folders::Scenario::Delete("Custom"),
        folders::Scenario::Delete("AllAtOnce"),
        folders::Scenario::Orphan,
    ] {
        assert!(folders::die_everywhere(scenario) > 0);
    }
}
