//! Prunes of objects that still exist for some time after their deletion was requested.

use tidegate_lifecycle::operation::{Input, explain};
use tidegate_model::{Action, OperationPhase, Phase, Plan, SyncRequest, WaitFor};

use crate::build::*;
use crate::world::{Reply, World};

const FINALIZER: &str = "finalizer example.com/guard";
const WAITING_RESULT: &str =
    "1 Deployment/old - Running: deletion requested; waits for finalizer example.com/guard";
const PRUNED_RESULT: &str = "1 Deployment/old Pruned Succeeded: pruned";

/// Returns a world with an object that remains for some time after its deletion was requested.
fn world_with_slow_deletion(plan: Plan, request: SyncRequest, millis: i64) -> World {
    let mut world = World::new(plan, request);
    world.configure("Deployment/old", |fate| {
        fate.deletion_delay = millis;
        fate.kept_by = FINALIZER.into();
    });
    world
}

fn final_phase(world: &World) -> Option<OperationPhase> {
    world.operation().outcome.as_ref().map(|outcome| outcome.phase)
}

#[test]
fn an_object_counts_as_pruned_once_it_is_gone() {
    let before_another = || plan([prune_task(0, "Deployment/old"), resource(1, "ConfigMap/c")]);
    let mut world = world_with_slow_deletion(before_another(), request(), 10_000);
    world.run_until(3000);
    assert_eq!(world.results(), [WAITING_RESULT]);
    let reason = explain(world.driver().state(), at(3000)).to_string();
    let awaited = "1 object being deleted, waiting 3 s for Deployment shop/old (deletion requested; waits for finalizer \
                   example.com/guard); next: wave 2, 1 object";
    assert!(reason.ends_with(awaited), "{reason}");
    world.run();
    assert_eq!(world.results(), [PRUNED_RESULT, "2 ConfigMap/c Synced Running: c applied"]);
}

#[test]
fn the_last_wave_applies_at_once_and_awaits_its_prunes() {
    let last = || plan([prune_task(0, "Deployment/old"), resource(0, "ConfigMap/c")]);
    let mut world = world_with_slow_deletion(last(), request(), 10_000);
    world.run_until(3000);
    assert_eq!(world.results(), [WAITING_RESULT, "2 ConfigMap/c Synced Running: c applied"]);
    assert_eq!(world.driver().state().message(), "waiting for deletion of apps/Deployment/old");
    let reason = explain(world.driver().state(), at(3000)).to_string();
    assert!(
        reason.contains("Deployment shop/old (deletion requested; waits for finalizer example.com/guard)"),
        "{reason}"
    );
    world.run();
    assert_eq!((final_phase(&world), world.now), (Some(OperationPhase::Succeeded), 10_000));
    assert_eq!(world.results()[0], PRUNED_RESULT);
    // The operation waits for the application's health and for the deletion.
    let healthy = SyncRequest { wait: WaitFor::Healthy, ..request() };
    let mut world = world_with_slow_deletion(
        plan([prune_task(0, "Deployment/old"), resource(0, "Deployment/new")]),
        healthy,
        10_000,
    );
    world.run();
    assert_eq!(
        (final_phase(&world), world.results()[0].as_str()),
        (Some(OperationPhase::Succeeded), PRUNED_RESULT)
    );
}

#[test]
fn an_object_that_is_not_gone_in_time_is_not_pruned() {
    let late = "1 Deployment/old - Failed: not deleted when the operation's deadline passed: deletion requested; waits for finalizer \
         example.com/guard";
    for tasks in [
        plan([prune_task(0, "Deployment/old"), resource(1, "ConfigMap/c")]),
        plan([prune_task(0, "Deployment/old"), resource(0, "ConfigMap/c")]),
    ] {
        let request = SyncRequest { deadline: Some(seconds(60)), ..request() };
        let mut world = world_with_slow_deletion(tasks, request, i64::MAX);
        world.run();
        assert_eq!((final_phase(&world), world.results()[0].as_str()), (Some(OperationPhase::Failed), late));
        let message = world.driver().state().message();
        let waited = "waiting for deletion of apps/Deployment/old (deletion requested; waits for finalizer example.com/guard)";
        assert!(message.ends_with(waited), "{message}");
    }
}

#[test]
fn a_late_wave_prunes_again_in_the_next_attempt() {
    let tasks = plan([prune_task(0, "Deployment/old"), resource(1, "ConfigMap/c")]).with_wave_timeout(0, 10);
    let mut world = world_with_slow_deletion(tasks, request_with_retries(1), 13_000);
    world.run_until(11_000);
    assert_eq!(
        world.results(),
        ["1 Deployment/old - Failed: not deleted when the wave's deadline passed: deletion requested; \
             waits for finalizer example.com/guard"]
    );
    world.run();
    assert_eq!(final_phase(&world), Some(OperationPhase::Succeeded));
    assert_eq!(world.results()[0], PRUNED_RESULT);
    assert_eq!(
        world.cluster.writes.len(),
        2,
        "exactly one object must be deleted, and one created: {:?}",
        world.cluster.writes
    );
}

/// A resource that can't be changed is deleted and recreated. While a finalizer blocks the deletion, the
/// message contains the finalizer.
#[test]
fn a_resource_to_recreate_is_awaited_to_be_gone() {
    let kept = "deletion requested; waits for finalizer example.com/guard";
    let waiting = "waiting for deletion of /ConfigMap/c";
    let world = |request, timeout, lingers| {
        let task = resource(0, "ConfigMap/c").with_action(Action::Apply).with_live_object();
        let tasks = plan([task, resource(0, "Deployment/later"), resource(1, "ConfigMap/last")]);
        let mut world = World::new(tasks.with_wave_timeout(0, timeout), request);
        world.configure("ConfigMap/c", |fate| {
            (fate.is_recreated, fate.deletion_delay, fate.kept_by) =
                (true, lingers, "finalizer example.com/guard".into());
        });
        world
    };
    let mut one = world(request(), 600, 30_000);
    one.run_until(10_000);
    assert_eq!(one.driver().state().message(), waiting);
    assert_eq!(
        one.results(),
        [format!("1 ConfigMap/c - Running: {kept}")],
        "the next group must wait for the deletion"
    );
    let why = explain(one.driver().state(), at(10_000)).to_string();
    assert!(why.contains(&format!("ConfigMap shop/c ({kept})")), "{why}");
    one.run();
    assert_eq!(
        (final_phase(&one), one.results()[0].as_str()),
        (Some(OperationPhase::Succeeded), "1 ConfigMap/c Synced Succeeded: c applied")
    );
    one.check_replay();
    // Every deadline reports the same reason.
    let mut late = world(request(), 60, i64::MAX);
    late.run();
    let message = late.driver().state().message();
    assert!(message.ends_with(&format!("{waiting} ({kept})")), "{message}");
    assert_eq!(
        late.results()[0],
        format!("1 ConfigMap/c - Failed: not deleted when the wave's deadline passed: {kept}")
    );
    let request = SyncRequest { deadline: Some(seconds(60)), ..request() };
    let mut late = world(request, 600, i64::MAX);
    late.run();
    let message = late.driver().state().message();
    assert!(message.ends_with(&format!("{waiting} ({kept})")), "{message}");
    assert_eq!(
        late.results()[0],
        format!("1 ConfigMap/c - Failed: not deleted when the operation's deadline passed: {kept}")
    );
    // Another attempt waits for the same deletion.
    let mut again = world(request_with_retries(1), 20, 22_000);
    again.run();
    assert_eq!(final_phase(&again), Some(OperationPhase::Succeeded), "{}", again.driver().state().message());
}

/// The deadline's message also explains what blocks the deletion of the hook's older object.
#[test]
fn an_object_that_blocks_the_place_of_a_late_hook_is_named() {
    let tasks = plan([hook_task(Phase::PreSync, 0, "Job/h").with_live_object(), resource(0, "ConfigMap/c")])
        .with_wave_timeout(0, 60);
    let mut world = World::new(tasks, request());
    world.configure("Job/h", |fate| {
        (fate.deletion_delay, fate.kept_by) = (i64::MAX, "finalizer example.com/guard".into())
    });
    world.run();
    let message = world.driver().state().message();
    let waited = "waiting for deletion of hook batch/Job/h (deletion requested; waits for finalizer example.com/guard)";
    assert!(message.ends_with(waited), "{message}");
}

/// A failed wave doesn't wait for deletions: its outcome is known, and a finalizer can keep an object
/// forever.
#[test]
fn a_failed_wave_does_not_await_its_prunes() {
    let tasks =
        plan([prune_task(0, "Deployment/old"), prune_task(0, "Job/other"), resource(1, "ConfigMap/c")]);
    let mut world = world_with_slow_deletion(tasks, request(), i64::MAX);
    world.configure("Job/other", |fate| fate.write.push_back(Reply::Rejected("denied".into())));
    world.run();
    assert_eq!(final_phase(&world), Some(OperationPhase::Failed));
    assert_eq!(
        world.results(),
        ["1 Deployment/old - Running: deletion requested", "2 Job/other SyncFailed Failed: denied"]
    );
}

#[test]
fn objects_awaited_by_a_terminated_operation_are_not_pruned() {
    let mut world = world_with_slow_deletion(plan([prune_task(0, "Deployment/old")]), request(), i64::MAX);
    world.schedule_input(5000, Input::Terminate { by: "ann".into() });
    world.run();
    assert_eq!(
        (final_phase(&world), world.results()),
        (Some(OperationPhase::Failed), vec![WAITING_RESULT.to_owned()])
    );
}

#[test]
fn an_object_that_blocks_the_place_of_a_hook_is_named() {
    let tasks =
        plan([hook_task(Phase::PreSync, 0, "Job/migrate").with_live_object(), resource(0, "ConfigMap/c")]);
    let mut world = World::new(tasks, request());
    world.configure("Job/migrate", |fate| {
        fate.deletion_delay = 10_000;
        fate.kept_by = FINALIZER.into();
    });
    world.run_until(3000);
    let reason = explain(world.driver().state(), at(3000)).to_string();
    assert!(
        reason.contains("hook Job shop/migrate (deletion requested; waits for finalizer example.com/guard)"),
        "{reason}"
    );
    world.run();
    assert_eq!(final_phase(&world), Some(OperationPhase::Succeeded));
}

/// A restart from a snapshot at any event results in the same state as a fold of all events.
#[test]
fn a_restart_at_any_event_does_not_change_the_state() {
    let tasks = || plan([prune_task(0, "Deployment/old"), resource(0, "ConfigMap/c")]);
    let mut calm = world_with_slow_deletion(tasks(), request(), 10_000);
    calm.run();
    let expected = calm.results();
    for event in 1..20 {
        let mut world = world_with_slow_deletion(tasks(), request(), 10_000);
        world.crash_before = Some(event);
        world.run();
        assert_eq!(world.results(), expected, "killed before event {event}");
    }
}
