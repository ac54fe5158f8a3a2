//! Exhaustive exploration of two replicas that share a log.
//!
//! The model consists of a database with two shards, two replicas, a cluster, and the messages in flight. The operation
//! in the first shard has a hook, and a resource in the wave after it. The operation in the second shard has an empty
//! plan. The operations themselves are not modeled: `machine.rs` drives the real machine with the real driver.
//!
//! The exploration takes every possible step in every reachable state, within a bounded number of faults:
//!
//! * A replica crashes. Its messages in flight arrive at any later time, or never. A new incarnation restarts.
//! * A replica is paused until its heartbeats no longer cover its writes. It continues at any later time, even after a
//!   takeover.
//! * A request to the cluster times out, and arrives at any later time, or never.
//! * The connection fails during an append, so the replica doesn't know the outcome. The append commits at any later
//!   time, or never.
//! * The database fails over and loses its last transaction.
//! * A replica hands over a shard to the other one, which continues the operation.
//!
//! [`Violation`] lists the properties. [`Guard`] lists the guards, and `every_guard_is_necessary` contains the property
//! that each of them protects. Three results need an explanation:
//!
//! * **Epoch and incarnation.** A takeover changes the owner and the epoch, so each of the two checks alone stops a
//!   replica that was paused. The epoch is necessary for a replica's own append whose outcome it has already settled. The
//!   incarnation is necessary after the database has lost a takeover, because the next takeover uses the same epoch
//!   again.
//! * **Record before start.** As long as heartbeats cover every write, a replica that has lost its shard doesn't start
//!   anything. Recording the UID first is therefore necessary only if the coverage fails, or if the database loses a
//!   takeover. It makes the start independent of clocks.
//! * **Raised epoch.** Without it, the log stays consistent, because the transaction also compares the last events of the
//!   stream. But an append that its writer considers lost may still commit.
//!
//! The model has these limits:
//!
//! * It doesn't contain the claim of the operation, a Lease in the cluster. The claim also separates two replicas that run
//!   the same operation, but only once the former owner renews it.
//! * Coverage limits the time at which a replica sends a write. The write may arrive later, and a late write of a
//!   resource violates no property.
//! * It doesn't contain attempts after the first one, Jobs that fail, and other clients that delete Jobs.

mod cluster;
mod exploration;
mod guard;
mod machine;
mod model;
mod state;
mod step;

use cluster::JobPhase;
use exploration::{Exploration, explore};
use guard::{Guard, RemovedGuards, Violation};
use model::Scope;
use state::{Faults, HOOK_SHARD, State};

const NO_FAULTS: Faults =
    Faults { crashes: 0, pauses: 0, timeouts: 0, losses: 0, failovers: 0, handovers: 0 };
const CRASH: Faults = Faults { crashes: 1, ..NO_FAULTS };
const PAUSE: Faults = Faults { pauses: 1, ..NO_FAULTS };
const CRASH_AND_PAUSE: Faults = Faults { pauses: 1, ..CRASH };

/// Adds larger scopes if `TIDEGATE_MODEL=all` is set. They take several minutes.
fn with_larger(short: &[Faults], larger: &[Faults]) -> Vec<Faults> {
    let is_whole = std::env::var_os("TIDEGATE_MODEL").is_some_and(|value| value == "all");
    [short, if is_whole { larger } else { &[] }].concat()
}

/// Explores a scope, and fails with the shortest trace of a violation.
fn expect_no_violation(scope: Scope, visit: impl FnMut(&State, bool)) {
    let Exploration { states, steps, drivers, violation } = explore(scope, visit);
    println!("{scope:?}: {states} states, {steps} steps, {drivers} drivers");
    if let Some((violation, trace)) = violation {
        panic!("{scope:?}: {violation}\n{trace}");
    }
}

#[test]
fn every_property_holds_with_all_guards() {
    let scopes = with_larger(
        &[
            Faults { crashes: 2, ..PAUSE },
            Faults { crashes: 2, timeouts: 1, ..NO_FAULTS },
            Faults { timeouts: 1, losses: 1, ..CRASH },
            Faults { timeouts: 1, losses: 1, ..PAUSE },
            Faults { timeouts: 1, ..CRASH_AND_PAUSE },
            Faults { losses: 1, ..CRASH_AND_PAUSE },
        ],
        &[Faults { timeouts: 1, losses: 1, ..CRASH_AND_PAUSE }],
    );
    let (mut takeovers, mut unstarted_jobs) = (0, 0);
    for faults in scopes {
        expect_no_violation(Scope { faults, ..Scope::default() }, |state, is_over| {
            let has_moved = state.writers[HOOK_SHARD].1 != 0;
            let is_unstarted = state.cluster.job.is_some_and(|job| job.phase == JobPhase::Suspended);
            takeovers += u32::from(is_over && has_moved && state.cluster.starts == 1);
            unstarted_jobs += u32::from(is_over && is_unstarted && state.cluster.starts == 1);
        });
    }
    assert!(takeovers > 0, "an operation must be able to end after a takeover");
    assert!(unstarted_jobs > 0, "a late request must be able to create a Job that never starts");
}

/// Replicas hand over shards, also back and forth.
#[test]
fn every_property_holds_when_shards_are_handed_over() {
    let short = [
        Faults { handovers: 2, ..CRASH },
        Faults { handovers: 1, ..PAUSE },
        Faults { handovers: 1, timeouts: 1, ..NO_FAULTS },
        Faults { handovers: 2, losses: 1, ..NO_FAULTS },
    ];
    let mut returned = 0;
    for faults in with_larger(&short, &[Faults { handovers: 1, timeouts: 1, losses: 1, ..CRASH }]) {
        expect_no_violation(Scope { faults, ..Scope::default() }, |state, is_over| {
            let has_returned = state.writers[HOOK_SHARD] == (3, 0);
            returned += u32::from(is_over && has_returned && state.cluster.starts == 1);
        });
    }
    assert!(returned > 0, "an operation must be able to end after the shard has come back");
}

/// Without coverage, a replica may send a write after it has lost its shard. All other properties hold, so they don't
/// depend on clocks.
#[test]
fn starts_do_not_depend_on_heartbeats() {
    let removed = RemovedGuards::new(&[Guard::Coverage, Guard::ConditionalEviction]);
    let short = [CRASH_AND_PAUSE, Faults { timeouts: 1, ..PAUSE }, Faults { losses: 1, ..PAUSE }];
    for faults in with_larger(&short, &[Faults { timeouts: 1, ..CRASH_AND_PAUSE }]) {
        expect_no_violation(Scope { faults, removed, ignored: Some(Violation::WriteAfterLoss) }, |_, _| {});
    }
}

/// After a lost takeover, two replicas may write to the cluster. All other properties hold.
#[test]
fn a_lost_transaction_does_not_start_a_hook_twice() {
    let short = [Faults { failovers: 1, ..CRASH }, Faults { failovers: 1, ..PAUSE }];
    for faults in with_larger(&short, &[Faults { failovers: 1, ..CRASH_AND_PAUSE }]) {
        let scope = Scope { faults, ignored: Some(Violation::WriteAfterLoss), ..Scope::default() };
        expect_no_violation(scope, |_, _| {});
    }
}

#[test]
fn every_guard_is_necessary() {
    use Guard::*;
    let late = Faults { timeouts: 1, ..CRASH };
    let loss = Faults { losses: 1, ..NO_FAULTS };
    let failover = Faults { failovers: 1, ..PAUSE };
    for (guards, faults, expected) in [
        (&[EpochFence][..], loss, Violation::LostTenure),
        (&[EpochRaise], loss, Violation::SettledAppend),
        (&[IncarnationFence], failover, Violation::LostTenure),
        (&[UidBinding], late, Violation::SecondStart),
        (&[SuspendedCreation], late, Violation::SecondStart),
        (&[RecordBeforeStart, Coverage], PAUSE, Violation::SecondStart),
        (&[RecordBeforeStart], failover, Violation::SecondStart),
        (&[Coverage], PAUSE, Violation::WriteAfterLoss),
        (&[ConditionalEviction], PAUSE, Violation::WriteAfterLoss),
        (&[StopBeforeHandover], Faults { handovers: 1, ..NO_FAULTS }, Violation::WriteAfterLoss),
    ] {
        // Other removals don't depend on the time at which a replica sends a write.
        let ignored = Some(Violation::WriteAfterLoss).filter(|violation| *violation != expected);
        let scope = Scope { faults, removed: RemovedGuards::new(guards), ignored };
        let Exploration { states, violation, .. } = explore(scope, |_, _| {});
        match violation {
            Some((violation, _)) if violation == expected => {
                println!("without {guards:?}: {violation} ({states} states)");
            }
            Some((violation, trace)) => {
                panic!("without {guards:?}: expected {expected:?}, but {violation}\n{trace}")
            }
            None => panic!("without {guards:?}: no violation in {states} states"),
        }
    }
}

/// Guards that other guards cover, as long as the database doesn't lose a transaction. Without a raised epoch, an
/// append may commit after it was settled, but all other properties hold.
#[test]
fn some_guards_cover_others() {
    let short = [CRASH_AND_PAUSE, Faults { timeouts: 1, ..PAUSE }, Faults { losses: 1, ..PAUSE }];
    for (guard, ignored) in [
        (Guard::IncarnationFence, None),
        (Guard::RecordBeforeStart, None),
        (Guard::EpochRaise, Some(Violation::SettledAppend)),
    ] {
        for faults in with_larger(&short, &[Faults { losses: 1, ..CRASH_AND_PAUSE }]) {
            let scope = Scope { faults, removed: RemovedGuards::new(&[guard]), ignored };
            expect_no_violation(scope, |_, _| {});
        }
    }
}
