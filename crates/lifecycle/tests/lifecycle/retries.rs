//! Retries of whole attempts and of single calls.

use tidegate_lifecycle::operation::{Input, OperationEvent, Verdict, view};
use tidegate_model::{DeletePolicy, OperationPhase, Phase, RetryPolicy, SyncRequest};

use crate::build::*;
use crate::traces::{assert_trace, assert_trace_after_hook_start};
use crate::world::{EvidenceKind, Reply, World};

const REJECTED: fn() -> Reply = || Reply::Rejected("no".into());

#[test]
fn a_retry_repeats_failed_tasks_of_the_failed_wave() {
    let mut world = World::new(
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate"),
            hook_task(Phase::Sync, 0, "Job/good"),
            hook_task(Phase::Sync, 0, "Job/bad"),
            resource(0, "Deployment/api"),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
        ]),
        request_with_retries(1),
    );
    world.configure("Deployment/api", |fate| fate.write.push_back(REJECTED()));
    world.configure("Job/bad", |fate| fate.degrade("bad"));
    assert_trace_after_hook_start(world, &["Job/migrate", "Job/good", "Job/bad", "Deployment/api", "Job/alert"], "
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
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/bad: bad,Deployment shop/api: no. Retrying attempt #1 at 12:00AM.
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
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/bad: bad (retried 1 times).
            = 1 Job/migrate Synced Succeeded: starting
            = 2 Job/good Synced Succeeded: starting
            = 3 Job/bad Synced Failed: bad
            = 4 Deployment/api Synced Succeeded: api applied
            = 5 Job/alert Synced Succeeded: starting
            ");
}

#[test]
fn a_retry_from_the_start_repeats_everything() {
    let retry = RetryPolicy { restart: true, ..request_with_retries(1).retry };
    let mut world = World::new(
        plan([hook_task(Phase::PreSync, 0, "Job/migrate"), resource(0, "Deployment/api")]),
        SyncRequest { retry, ..request() },
    );
    world.configure("Deployment/api", |fate| fate.write.push_back(REJECTED()));
    assert_trace_after_hook_start(
        world,
        &["Job/migrate", "Deployment/api"],
        "
            release Job/migrate
            apply Deployment/api
            # one or more objects failed to apply, reason: Deployment shop/api: no. Retrying attempt #1 at 12:00AM.
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

/// After a restart of all tasks, the view doesn't contain the state of the earlier attempt.
#[test]
fn waves_of_an_earlier_attempt_are_pending_again() {
    let retry = RetryPolicy { restart: true, ..request_with_retries(1).retry };
    let tasks = [resource(0, "Deployment/a"), resource(1, "Deployment/b"), resource(2, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), SyncRequest { retry, ..request() });
    world.configure("Deployment/a", |fate| fate.evidence = EvidenceKind::Nothing);
    world.configure("Deployment/b", |fate| fate.write.push_back(REJECTED()));
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
fn an_attempt_that_wrote_nothing_is_planned_again() {
    let mut world = World::new(
        plan([resource(0, "Deployment/a"), resource(0, "Deployment/b")]),
        request_with_retries(-1),
    );
    world.configure("Deployment/b", |fate| fate.check.extend([REJECTED(), REJECTED()]));
    assert_trace(
        world,
        "
            plan
            check Deployment/a
            check Deployment/b
            # one or more objects failed to apply (dry run), reason: Deployment shop/b: no. Retrying attempt #1 at 12:00AM.
            plan
            check Deployment/a
            check Deployment/b
            # one or more objects failed to apply (dry run), reason: Deployment shop/b: no. Retrying attempt #2 at 12:00AM.
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

/// The delay in the message equals the actual delay, and delays grow up to the limit.
#[test]
fn waits_between_attempts_double() {
    let mut world = World::new(plan([resource(0, "Deployment/api")]), request_with_retries(7));
    world.configure("Deployment/api", |fate| fate.write.extend(std::iter::repeat_with(REJECTED).take(8)));
    world.run();
    let moments: Vec<&str> = world
        .transcript
        .iter()
        .filter_map(|line| line.strip_prefix("@ ")?.strip_suffix(" Wave 1 Applying"))
        .collect();
    // The attempts start 5, 10, 20, 40, 80, 160 and 180 seconds after the previous attempt.
    assert_eq!(moments, ["0", "5000", "15000", "35000", "75000", "155000", "315000", "495000"]);
    let message = "# one or more objects failed to apply, reason: Deployment shop/api: no";
    let shown: Vec<&String> = world.transcript.iter().filter(|line| line.starts_with(message)).collect();
    assert_eq!(*shown[0], format!("{message}. Retrying attempt #1 at 12:00AM."));
    assert_eq!(*shown[6], format!("{message}. Retrying attempt #7 at 12:08AM."));
    assert_eq!(*shown[7], format!("{message} (retried 7 times)."));
    let view = view(world.driver().state()).unwrap();
    assert_eq!((view.retry_count, view.phase), (7, OperationPhase::Failed));
}

#[test]
fn a_transient_failure_is_retried_with_growing_delays() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.configure("ConfigMap/c", |fate| {
        fate.write.extend([Reply::Busy, Reply::Busy, Reply::RetryAfter(5000), Reply::Busy])
    });
    let moments = |world: &World| -> Vec<i64> {
        let events = world.durable.iter();
        events
            .filter_map(|event| match event {
                OperationEvent::CallFailed { retry_at, .. } => Some(retry_at.as_millis()),
                _ => None,
            })
            .collect()
    };
    world.run();
    // The delays are 200 ms, 400 ms, the server's requested delay, and 1.6 s.
    assert_eq!(moments(&world), [200, 600, 5600, 7200]);
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");

    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.configure("ConfigMap/c", |fate| fate.write.extend(std::iter::repeat_n(Reply::Busy, 20)));
    world.run();
    assert_eq!(moments(&world).len(), 9, "the tenth failure must be final");
    assert_eq!(world.now, 200 + 400 + 800 + 1600 + 3200 + 6400 + 12_800 + 15_000 + 15_000);
    assert_eq!(
        world.driver().state().message(),
        "one or more objects failed to apply, reason: ConfigMap shop/c: the server is busy"
    );
}

#[test]
fn an_unreadable_cluster_ends_the_operation() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.set_plan_replies([Reply::Busy, Reply::Busy]);
    assert_trace(
        world,
        "
            plan
            # waiting for the cluster to respond: the server is busy
            plan
            plan
            check ConfigMap/c
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 ConfigMap/c Synced Running: c applied
            ",
    );
    let mut world = World::new(plan([]), request());
    world.set_plan_replies(std::iter::repeat_n(Reply::Busy, 10));
    world.run();
    assert_eq!(world.driver().state().message(), "failed to read the cluster: the server is busy");
}

#[test]
fn a_stuck_finalizer_fails_its_hook() {
    let mut world = World::new(
        plan([hook_task(Phase::PreSync, 0, "Job/migrate"), resource(0, "ConfigMap/c")]),
        request(),
    );
    world.configure("Job/migrate", |fate| fate.end.push_back(REJECTED()));
    assert_trace_after_hook_start(
        world,
        &["Job/migrate", "ConfigMap/c"],
        "
            release Job/migrate
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/migrate: Failed to remove hook finalizer: no
            = 1 Job/migrate Synced Error: Failed to remove hook finalizer: no
            ",
    );
}

#[test]
fn a_hook_that_cannot_be_deleted_at_the_end_is_reported_and_changes_nothing() {
    let policies = [DeletePolicy::HookSucceeded];
    let mut world = World::new(
        plan([hook_task(Phase::Sync, 0, "Job/migrate").with_delete_policies(&policies)]),
        request(),
    );
    // The first call releases the hook. Then two deletion calls fail with transient errors, and a third call
    // fails permanently.
    world.configure("Job/migrate", |fate| {
        fate.end.extend([Reply::Success, Reply::Busy, Reply::Busy, REJECTED()])
    });
    assert_trace_after_hook_start(
        world,
        &["Job/migrate"],
        "
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
            hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&[DeletePolicy::HookFailed]),
            resource(0, "ConfigMap/c"),
            hook_task(Phase::PostSync, 0, "Job/smoke")
                .with_delete_policies(&[DeletePolicy::HookFailed])
                .with_live_object(),
            hook_task(Phase::SyncFail, 0, "Job/alert")
                .with_delete_policies(&[DeletePolicy::HookSucceeded])
                .with_live_object(),
        ])
        .with_gate(0, "gate")
        .with_wave_timeout(0, 60),
        request_with_retries(1),
    );
    world.configure("Job/migrate", |fate| fate.degrade("bad"));
    let closed = Verdict::Closed { reason: "closed".into(), ask_again_after: seconds(600) };
    world.gates.insert("gate".into(), [Verdict::Open, closed].into());
    assert_trace(
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
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/migrate: bad. Retrying attempt #1 at 12:00AM.
            ask gate
            # gate gate is closed: closed
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            delete Job/migrate
            delete Job/smoke
            # wave 0 of PreSync did not complete within 1 min: gate gate is closed: closed (retried 1 times).
            = 1 Job/alert Synced Succeeded: starting
            ",
    );
}

#[test]
fn the_engine_can_abort_an_operation() {
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request_with_retries(3));
    world.schedule_input(500, Input::Abort { reason: "the engine panicked 3 times".into() });
    assert_trace_after_hook_start(
        world,
        &["Job/j"],
        "
            # the engine panicked 3 times
            = 1 Job/j Synced Running: starting
            ",
    );
}
