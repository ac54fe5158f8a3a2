//! Deadlines of operations, waves and hooks.

use std::time::Duration;

use tidegate_lifecycle::operation::Input;
use tidegate_model::{Phase, SyncRequest};

use crate::build::*;
use crate::traces::assert_trace;
use crate::world::{Reply, World};

/// Returns the start times of stages, such as `1000 Wave 1 Applying`.
fn stage_starts<'a>(world: &'a World, stage: &str) -> Vec<&'a str> {
    let lines = world.transcript.iter().filter_map(|line| line.strip_prefix("@ "));
    lines.filter(|line| line.ends_with(stage)).collect()
}

#[test]
fn a_wave_has_a_deadline() {
    let mut world = World::new(
        plan([
            hook_task(Phase::Sync, 0, "Job/slow"),
            resource(0, "Deployment/api"),
            resource(1, "ConfigMap/c"),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
        ])
        .with_wave_timeout(0, 5),
        request_with_retries(1),
    );
    world.configure("Job/slow", |fate| fate.health[1].0 = 60_000);
    world.configure("Deployment/api", |fate| fate.health.truncate(1));
    assert_trace(world, "
            plan
            check Job/slow
            check Deployment/api
            check ConfigMap/c
            check Job/alert
            clear Job/slow
            apply Job/slow
            apply Deployment/api
            # waiting for completion of hook batch/Job/slow and 1 more resources
            logs Job/slow
            stop Job/slow
            # wave 0 of Sync did not complete within 5 s: waiting for completion of hook batch/Job/slow and 1 more resources. Retrying attempt #1 at 12:00AM.
            clear Job/slow
            apply Job/slow
            apply Deployment/api
            # waiting for completion of hook batch/Job/slow and 1 more resources
            logs Job/slow
            stop Job/slow
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            # wave 0 of Sync did not complete within 5 s: waiting for completion of hook batch/Job/slow and 1 more resources (retried 1 times).
            = 1 Job/slow Synced Failed: stopped: the wave's deadline has passed
            = 2 Deployment/api Synced Failed: not healthy when the wave's deadline passed: starting
            = 3 Job/alert Synced Succeeded: starting
            ");
}

/// The fixed delay after a wave must not count toward the wave's deadline.
#[test]
fn a_wave_delay_does_not_count_toward_the_deadline() {
    let request = SyncRequest { wave_delay: Some(seconds(30)), ..request() };
    let waves = plan([resource(0, "ConfigMap/a"), resource(1, "ConfigMap/b")]).with_wave_timeout(0, 5);
    let mut world = World::new(waves, request);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    assert_eq!(world.now, 30_000);
}

#[test]
fn a_hook_has_a_deadline() {
    let tasks = [
        hook_task(Phase::Sync, 0, "Job/slow").with_timeout(5),
        hook_task(Phase::Sync, 0, "Job/run").with_runner("r").with_timeout(5),
    ];
    let mut world = World::new(plan(tasks), request());
    world.configure("Job/slow", |fate| fate.health[1].0 = 60_000);
    assert_trace(
        world,
        "
            plan
            check Job/slow
            clear Job/slow
            apply Job/slow
            run Job/run
            # waiting for completion of hook batch/Job/slow
            logs Job/slow
            stop Job/slow
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/slow: hook did not complete within 5 s
            = 1 Job/run Synced Succeeded: ran
            = 2 Job/slow Synced Failed: hook did not complete within 5 s
            ",
    );
    // A hook that ended just before it was stopped keeps its own outcome.
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/slow").with_timeout(5)]), request());
    world.configure("Job/slow", |fate| fate.health[1].0 = 5000);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (no more tasks)");
}

#[test]
fn an_operation_has_a_deadline_across_its_attempts() {
    let deadline = Some(seconds(20));
    let mut world = World::new(
        plan([hook_task(Phase::Sync, 0, "Job/slow"), resource(0, "Deployment/api")]),
        SyncRequest { deadline, ..request_with_retries(5) },
    );
    world.configure("Job/slow", |fate| fate.health[1].0 = 60_000);
    world.configure("Deployment/api", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    assert_trace(
        world,
        "
            plan
            check Job/slow
            check Deployment/api
            clear Job/slow
            apply Job/slow
            apply Deployment/api
            # waiting for completion of hook batch/Job/slow
            logs Job/slow
            stop Job/slow
            # Operation terminated, triggered by the operation deadline of 20 s: waiting for completion of hook batch/Job/slow
            = 1 Job/slow Synced Failed: Terminated
            = 2 Deployment/api SyncFailed Failed: no
            ",
    );
    // The deadline also applies during planning.
    let mut world =
        World::new(plan([]), SyncRequest { deadline: Some(Duration::from_millis(300)), ..request() });
    world.set_plan_replies(std::iter::repeat_n(Reply::Busy, 9));
    world.run();
    assert_eq!(
        world.driver().state().message(),
        "Operation terminated, triggered by the operation deadline of 300 ms: waiting for the cluster to \
         respond: the server is busy"
    );
    assert_eq!(world.now, 300);
}

/// The final message lists the awaited items, including the unhealthy resource and the reason.
#[test]
fn a_late_operation_names_what_it_waited_for() {
    let waves = plan([resource(0, "Deployment/api"), resource(0, "ConfigMap/a"), resource(1, "ConfigMap/b")]);
    let mut world = World::new(waves, SyncRequest { deadline: Some(seconds(20)), ..request_with_retries(5) });
    world.configure("Deployment/api", |fate| fate.health[1].0 = 60_000);
    assert_trace(
        world,
        "
            plan
            check Deployment/api
            check ConfigMap/a
            check ConfigMap/b
            apply Deployment/api
            apply ConfigMap/a
            # waiting for healthy state of apps/Deployment/api
            # Operation terminated, triggered by the operation deadline of 20 s: waiting for healthy state of apps/Deployment/api
            = 1 Deployment/api Synced Failed: not healthy when the operation's deadline passed: starting
            = 2 ConfigMap/a Synced Succeeded: a applied
            ",
    );
}

/// A pause of ten seconds postpones all deadlines by ten seconds.
#[test]
fn deadlines_stop_during_a_pause() {
    let pause = |world: &mut World| {
        world.schedule_input(1000, Input::Pause { by: "bob".into(), reason: "lunch".into() });
        world.schedule_input(11_000, Input::Unpause { by: "bob".into() });
    };
    let slow = |plan: tidegate_model::Plan, request: SyncRequest| {
        let mut world = World::new(plan, request);
        world.configure("Job/slow", |fate| fate.health[1].0 = 60_000);
        pause(&mut world);
        world.run();
        world
    };
    let hooked = || plan([hook_task(Phase::Sync, 0, "Job/slow")]);
    let world = slow(hooked(), SyncRequest { deadline: Some(seconds(20)), ..request() });
    assert_eq!(stage_starts(&world, "Terminating"), ["30000 Terminating"]);
    let world = slow(hooked().with_wave_timeout(0, 20), request());
    assert_eq!(stage_starts(&world, "Finished"), ["30000 Finished"]);
    let world = slow(plan([hook_task(Phase::Sync, 0, "Job/slow").with_timeout(20)]), request());
    assert_eq!(stage_starts(&world, "Finished"), ["30000 Finished"]);

    let mut world = World::new(plan([resource(0, "Deployment/api")]), request_with_retries(1));
    world.configure("Deployment/api", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    pause(&mut world);
    world.run();
    assert_eq!(stage_starts(&world, "Applying"), ["0 Wave 1 Applying", "15000 Wave 1 Applying"]);
}

/// When the deadline passes, the hook's name is free, but its kind group hasn't started. The next attempt
/// runs the hook.
#[test]
fn a_hook_stopped_before_it_was_created_runs_in_the_next_attempt() {
    let tasks = [resource(0, "ConfigMap/slow"), hook_task(Phase::Sync, 0, "Job/hook")];
    let mut world = World::new(plan(tasks).with_wave_timeout(0, 5), request_with_retries(1));
    world.configure("ConfigMap/slow", |fate| fate.write.push_back(Reply::RetryAfter(7000)));
    assert_trace(world, "
            plan
            check ConfigMap/slow
            check Job/hook
            clear Job/hook
            apply ConfigMap/slow
            # one or more tasks are running
            stop Job/hook
            # wave 0 of Sync did not complete within 5 s: one or more tasks are running. Retrying attempt #1 at 12:00AM.
            clear Job/hook
            apply ConfigMap/slow
            apply Job/hook
            # waiting for completion of hook batch/Job/hook
            release Job/hook
            # successfully synced (no more tasks) (retried 1 times).
            = 1 ConfigMap/slow Synced Succeeded: slow applied
            = 2 Job/hook Synced Succeeded: starting
            ");
}
