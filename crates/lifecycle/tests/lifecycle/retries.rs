//! Other attempts, and calls that may be made again.

use tidegate_lifecycle::operation::{Fact, Input, Verdict, view};
use tidegate_model::{DeletePolicy, OperationPhase, Phase, RetryPolicy, SyncRequest};

use crate::build::*;
use crate::traces::trace;
use crate::world::{Proof, Reply, World};

const NO: fn() -> Reply = || Reply::No("no".into());

#[test]
fn a_retry_redoes_what_ended_badly_in_the_failed_wave() {
    let mut world = World::new(
        plan([
            hook(Phase::PreSync, 0, "Job/migrate"),
            hook(Phase::Sync, 0, "Job/good"),
            hook(Phase::Sync, 0, "Job/bad"),
            resource(0, "Deployment/api"),
            hook(Phase::SyncFail, 0, "Job/alert"),
        ]),
        retrying(1),
    );
    world.fate("Deployment/api", |fate| fate.write.push_back(NO()));
    world.fate("Job/bad", |fate| fate.degrades("bad"));
    trace(world, "
            plan
            check Job/migrate
            check Job/good
            check Job/bad
            check Deployment/api
            check Job/alert
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            clear Job/good
            clear Job/bad
            apply Job/good
            apply Job/bad
            apply Deployment/api
            # waiting for completion of hook batch/Job/good and 1 more hooks
            release Job/good
            logs Job/bad
            release Job/bad
            # one or more synchronization tasks completed unsuccessfully, reason: no. Retrying attempt #1 at 12:00AM.
            clear Job/bad
            apply Job/bad
            apply Deployment/api
            # waiting for completion of hook batch/Job/bad and 1 more resources
            logs Job/bad
            release Job/bad
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            # one or more synchronization tasks completed unsuccessfully (retried 1 times).
            = 1 Job/migrate Synced Succeeded: starting
            = 2 Job/good Synced Succeeded: starting
            = 3 Job/bad Synced Failed: bad
            = 4 Deployment/api Synced Succeeded: api applied
            = 5 Job/alert Synced Succeeded: starting
            ");
}

#[test]
fn a_retry_from_the_start_redoes_everything() {
    let retry = RetryPolicy { restart: true, ..retrying(1).retry };
    let mut world = World::new(
        plan([hook(Phase::PreSync, 0, "Job/migrate"), resource(0, "Deployment/api")]),
        SyncRequest { retry, ..request() },
    );
    world.fate("Deployment/api", |fate| fate.write.push_back(NO()));
    trace(
        world,
        "
            plan
            check Job/migrate
            check Deployment/api
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            apply Deployment/api
            # one or more objects failed to apply, reason: no. Retrying attempt #1 at 12:00AM.
            check Job/migrate
            check Deployment/api
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            apply Deployment/api
            # successfully synced (all tasks run) (retried 1 times).
            = 1 Job/migrate Synced Succeeded: starting
            = 2 Deployment/api Synced Running: api applied
            ",
    );
}

/// A retry from the start shows no times of the earlier attempt.
#[test]
fn waves_of_an_earlier_attempt_are_pending_again() {
    let retry = RetryPolicy { restart: true, ..retrying(1).retry };
    let tasks = [resource(0, "Deployment/a"), resource(1, "Deployment/b"), resource(2, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), SyncRequest { retry, ..request() });
    world.fate("Deployment/a", |fate| fate.proof = Proof::Nothing);
    world.fate("Deployment/b", |fate| fate.write.push_back(NO()));
    let states = |world: &World| {
        let waves = view(world.driver().state()).unwrap().waves;
        waves
            .into_iter()
            .map(|wave| format!("{} {}/{}", wave.state, wave.done, wave.tasks))
            .collect::<Vec<_>>()
    };
    world.run_until(2100);
    assert_eq!(states(&world), ["Passed 1/1", "Failed 0/1", "Pending 0/1"]);
    world.run_until(7100);
    assert_eq!(states(&world), ["Settling 0/1", "Pending 0/1", "Pending 0/1"]);
    world.run();
    assert_eq!(states(&world), ["Passed 1/1", "Passed 1/1", "Passed 1/1"]);
}

#[test]
fn an_attempt_that_wrote_nothing_is_planned_anew() {
    let mut world =
        World::new(plan([resource(0, "Deployment/a"), resource(0, "Deployment/b")]), retrying(-1));
    world.fate("Deployment/b", |fate| fate.check.extend([NO(), NO()]));
    trace(
        world,
        "
            plan
            check Deployment/a
            check Deployment/b
            # one or more objects failed to apply (dry run). Retrying attempt #1 at 12:00AM.
            plan
            check Deployment/a
            check Deployment/b
            # one or more objects failed to apply (dry run). Retrying attempt #2 at 12:00AM.
            plan
            check Deployment/a
            check Deployment/b
            apply Deployment/a
            apply Deployment/b
            # successfully synced (all tasks run) (retried 2 times).
            = 1 Deployment/a Synced Running: a applied
            = 2 Deployment/b Synced Running: b applied
            ",
    );
}

/// The announced wait is the real one, and it grows up to its limit.
#[test]
fn waits_between_attempts_double() {
    let mut world = World::new(plan([resource(0, "Deployment/api")]), retrying(7));
    world.fate("Deployment/api", |fate| fate.write.extend(std::iter::repeat_with(NO).take(8)));
    world.run();
    let moments: Vec<&str> = world
        .transcript
        .iter()
        .filter_map(|line| line.strip_prefix("@ ")?.strip_suffix(" Wave 1 Applying"))
        .collect();
    // 5, 10, 20, 40, 80, 160 and 180 seconds later.
    assert_eq!(moments, ["0", "5000", "15000", "35000", "75000", "155000", "315000", "495000"]);
    let message = "# one or more objects failed to apply, reason: no";
    let shown: Vec<&String> = world.transcript.iter().filter(|line| line.starts_with(message)).collect();
    assert_eq!(*shown[0], format!("{message}. Retrying attempt #1 at 12:00AM."));
    assert_eq!(*shown[6], format!("{message}. Retrying attempt #7 at 12:08AM."));
    assert_eq!(*shown[7], format!("{message} (retried 7 times)."));
    let view = view(world.driver().state()).unwrap();
    assert_eq!((view.retry_count, view.phase), (7, OperationPhase::Failed));
}

#[test]
fn a_call_that_may_pass_is_made_again_later_and_later() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.fate("ConfigMap/c", |fate| {
        fate.write.extend([Reply::Busy, Reply::Busy, Reply::Later(5000), Reply::Busy])
    });
    let moments = |world: &World| -> Vec<i64> {
        let facts = world.durable.iter();
        facts
            .filter_map(|fact| match fact {
                Fact::CallFailed { retry_at, .. } => Some(retry_at.as_millis()),
                _ => None,
            })
            .collect()
    };
    world.run();
    // 200 ms, 400 ms, what the server asks for, 1.6 s.
    assert_eq!(moments(&world), [200, 600, 5600, 7200]);
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");

    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.fate("ConfigMap/c", |fate| fate.write.extend(std::iter::repeat_n(Reply::Busy, 20)));
    world.run();
    assert_eq!(moments(&world).len(), 9, "the tenth failure counts");
    assert_eq!(world.now, 200 + 400 + 800 + 1600 + 3200 + 6400 + 12_800 + 15_000 + 15_000);
    assert_eq!(
        world.driver().state().message(),
        "one or more objects failed to apply, reason: the server is busy"
    );
}

#[test]
fn a_cluster_that_cannot_be_read_ends_the_operation() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.planning([Reply::Busy, Reply::Busy]);
    trace(
        world,
        "
            plan
            # waiting for the cluster to answer: the server is busy
            plan
            plan
            check ConfigMap/c
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 ConfigMap/c Synced Running: c applied
            ",
    );
    let mut world = World::new(plan([]), request());
    world.planning(std::iter::repeat_n(Reply::Busy, 10));
    world.run();
    assert_eq!(world.driver().state().message(), "failed to read the cluster: the server is busy");
}

#[test]
fn a_finalizer_that_stays_fails_its_hook() {
    let mut world =
        World::new(plan([hook(Phase::PreSync, 0, "Job/migrate"), resource(0, "ConfigMap/c")]), request());
    world.fate("Job/migrate", |fate| fate.end.push_back(NO()));
    trace(
        world,
        "
            plan
            check Job/migrate
            check ConfigMap/c
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            # one or more synchronization tasks completed unsuccessfully
            = 1 Job/migrate Synced Error: Failed to remove hook finalizer: no
            ",
    );
}

#[test]
fn a_hook_that_cannot_be_deleted_at_the_end_is_reported_and_changes_nothing() {
    let policies = [DeletePolicy::HookSucceeded];
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/migrate").policies(&policies)]), request());
    // Released at once, then refused twice in passing, then for good.
    world.fate("Job/migrate", |fate| fate.end.extend([Reply::Fine, Reply::Busy, Reply::Busy, NO()]));
    trace(
        world,
        "
            plan
            check Job/migrate
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            delete Job/migrate
            # successfully synced (no more tasks)
            delete Job/migrate
            delete Job/migrate
            = 1 Job/migrate Synced Error: failed to delete resource: no
            ",
    );
}

#[test]
fn hooks_left_by_earlier_operations_and_attempts_are_cleaned_up() {
    let mut world = World::new(
        plan([
            hook(Phase::PreSync, 0, "Job/migrate").policies(&[DeletePolicy::HookFailed]),
            resource(0, "ConfigMap/c"),
            hook(Phase::PostSync, 0, "Job/smoke").policies(&[DeletePolicy::HookFailed]).living(),
            hook(Phase::SyncFail, 0, "Job/alert").policies(&[DeletePolicy::HookSucceeded]).living(),
        ])
        .gated(0, "gate")
        .wave_timeout(0, 60),
        retrying(1),
    );
    world.fate("Job/migrate", |fate| fate.degrades("bad"));
    let closed = Verdict::Closed { reason: "closed".into(), ask_again_after: seconds(600) };
    world.gates.insert("gate".into(), [Verdict::Open, closed].into());
    trace(
        world,
        "
            plan
            check Job/migrate
            check ConfigMap/c
            check Job/smoke
            check Job/alert
            ask gate
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            logs Job/migrate
            release Job/migrate
            # one or more synchronization tasks completed unsuccessfully. Retrying attempt #1 at 12:00AM.
            ask gate
            # gate gate is closed: closed
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            delete Job/migrate
            delete Job/smoke
            # wave 0 of PreSync did not pass within 1 min: gate gate is closed: closed (retried 1 times).
            = 1 Job/alert Synced Succeeded: starting
            ",
    );
}

#[test]
fn the_engine_can_give_up() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/j")]), retrying(3));
    world.at(500, Input::Abort { reason: "the engine panicked 3 times".into() });
    trace(
        world,
        "
            plan
            check Job/j
            clear Job/j
            apply Job/j
            # waiting for completion of hook batch/Job/j
            # the engine panicked 3 times
            = 1 Job/j Synced Running: starting
            ",
    );
}
