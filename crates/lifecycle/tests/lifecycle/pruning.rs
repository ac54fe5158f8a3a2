//! What was told to go counts as pruned when it is gone, and not before.

use tidegate_lifecycle::operation::{Input, explain};
use tidegate_model::{Action, OperationPhase, Phase, Plan, SyncRequest, WaitFor};

use crate::build::*;
use crate::world::{Reply, World};

const KEPT: &str = "finalizer example.com/guard";
const WAITING: &str = "1 Deployment/old - Running: deletion requested; waits for finalizer example.com/guard";
const PRUNED: &str = "1 Deployment/old Pruned Succeeded: pruned";

/// An object that stays for a while after it was told to go.
fn lingering(plan: Plan, request: SyncRequest, millis: i64) -> World {
    let mut world = World::new(plan, request);
    world.fate("Deployment/old", |fate| {
        fate.lingers = millis;
        fate.kept_by = KEPT.into();
    });
    world
}

fn phase(world: &World) -> Option<OperationPhase> {
    world.operation().outcome.as_ref().map(|outcome| outcome.phase)
}

#[test]
fn an_object_that_was_told_to_go_is_pruned_when_it_is_gone() {
    let before_another = || plan([prune(0, "Deployment/old"), resource(1, "ConfigMap/c")]);
    let mut world = lingering(before_another(), request(), 10_000);
    world.run_until(3000);
    assert_eq!(world.results(), [WAITING]);
    let why = explain(world.driver().state(), at(3000)).to_string();
    let awaited = "1 object being deleted, waiting 3 s for Deployment shop/old (deletion requested; waits for finalizer \
                   example.com/guard); next: wave 2, 1 object";
    assert!(why.ends_with(awaited), "{why}");
    world.run();
    assert_eq!(world.results(), [PRUNED, "2 ConfigMap/c Synced Running: c applied"]);
}

#[test]
fn a_last_wave_applies_at_once_and_ends_when_what_it_prunes_is_gone() {
    let last = || plan([prune(0, "Deployment/old"), resource(0, "ConfigMap/c")]);
    let mut world = lingering(last(), request(), 10_000);
    world.run_until(3000);
    assert_eq!(world.results(), [WAITING, "2 ConfigMap/c Synced Running: c applied"]);
    assert_eq!(world.driver().state().message(), "waiting for deletion of apps/Deployment/old");
    let why = explain(world.driver().state(), at(3000)).to_string();
    assert!(
        why.contains("Deployment shop/old (deletion requested; waits for finalizer example.com/guard)"),
        "{why}"
    );
    world.run();
    assert_eq!((phase(&world), world.now), (Some(OperationPhase::Succeeded), 10_000));
    assert_eq!(world.results()[0], PRUNED);
    // Where health is waited for as well, both have their say.
    let healthy = SyncRequest { wait: WaitFor::Healthy, ..request() };
    let mut world =
        lingering(plan([prune(0, "Deployment/old"), resource(0, "Deployment/new")]), healthy, 10_000);
    world.run();
    assert_eq!((phase(&world), world.results()[0].as_str()), (Some(OperationPhase::Succeeded), PRUNED));
}

#[test]
fn what_is_not_gone_in_time_is_not_pruned() {
    let late = "1 Deployment/old - Failed: not gone when the operation's deadline passed: deletion requested; waits for \
                finalizer example.com/guard";
    for tasks in [
        plan([prune(0, "Deployment/old"), resource(1, "ConfigMap/c")]),
        plan([prune(0, "Deployment/old"), resource(0, "ConfigMap/c")]),
    ] {
        let request = SyncRequest { deadline: Some(seconds(60)), ..request() };
        let mut world = lingering(tasks, request, i64::MAX);
        world.run();
        assert_eq!((phase(&world), world.results()[0].as_str()), (Some(OperationPhase::Failed), late));
        let message = world.driver().state().message();
        let waited = "waiting for deletion of apps/Deployment/old (deletion requested; waits for finalizer example.com/guard)";
        assert!(message.ends_with(waited), "{message}");
    }
}

#[test]
fn a_wave_that_is_too_late_prunes_again_in_the_next_attempt() {
    let tasks = plan([prune(0, "Deployment/old"), resource(1, "ConfigMap/c")]).wave_timeout(0, 10);
    let mut world = lingering(tasks, retrying(1), 13_000);
    world.run_until(11_000);
    assert_eq!(
        world.results(),
        [
            "1 Deployment/old - Failed: not gone when the wave's deadline passed: deletion requested; waits for finalizer \
          example.com/guard"
        ]
    );
    world.run();
    assert_eq!(phase(&world), Some(OperationPhase::Succeeded));
    assert_eq!(world.results()[0], PRUNED);
    assert_eq!(world.cluster.audit.len(), 2, "one deletion, and one object made: {:?}", world.cluster.audit);
}

/// What cannot be changed is told to go and created again. While a finalizer keeps it, it is named with that.
#[test]
fn a_resource_that_is_to_be_created_again_is_awaited_to_be_gone() {
    let kept = "deletion requested; waits for finalizer example.com/guard";
    let waiting = "waiting for deletion of /ConfigMap/c";
    let world = |request, timeout, lingers| {
        let task = resource(0, "ConfigMap/c").acting(Action::Apply).living();
        let tasks = plan([task, resource(0, "Deployment/later"), resource(1, "ConfigMap/last")]);
        let mut world = World::new(tasks.wave_timeout(0, timeout), request);
        world.fate("ConfigMap/c", |fate| {
            (fate.recreated, fate.lingers, fate.kept_by) =
                (true, lingers, "finalizer example.com/guard".into());
        });
        world
    };
    let mut one = world(request(), 600, 30_000);
    one.run_until(10_000);
    assert_eq!(one.driver().state().message(), waiting);
    assert_eq!(one.results(), [format!("1 ConfigMap/c - Running: {kept}")], "the next group waits for it");
    let why = explain(one.driver().state(), at(10_000)).to_string();
    assert!(why.contains(&format!("ConfigMap shop/c ({kept})")), "{why}");
    one.run();
    assert_eq!(
        (phase(&one), one.results()[0].as_str()),
        (Some(OperationPhase::Succeeded), "1 ConfigMap/c Synced Succeeded: c applied")
    );
    one.check_replay();
    // Each deadline says the same.
    let mut late = world(request(), 60, i64::MAX);
    late.run();
    let message = late.driver().state().message();
    assert!(message.ends_with(&format!("{waiting} ({kept})")), "{message}");
    assert_eq!(
        late.results()[0],
        format!("1 ConfigMap/c - Failed: not gone when the wave's deadline passed: {kept}")
    );
    let request = SyncRequest { deadline: Some(seconds(60)), ..request() };
    let mut late = world(request, 600, i64::MAX);
    late.run();
    let message = late.driver().state().message();
    assert!(message.ends_with(&format!("{waiting} ({kept})")), "{message}");
    assert_eq!(
        late.results()[0],
        format!("1 ConfigMap/c - Failed: not gone when the operation's deadline passed: {kept}")
    );
    // Another attempt goes on with it.
    let mut again = world(retrying(1), 20, 22_000);
    again.run();
    assert_eq!(phase(&again), Some(OperationPhase::Succeeded), "{}", again.driver().state().message());
}

/// The deadline names what keeps the older object of a hook, too.
#[test]
fn the_place_of_a_hook_that_does_not_clear_is_named_with_what_keeps_it() {
    let tasks =
        plan([hook(Phase::PreSync, 0, "Job/h").living(), resource(0, "ConfigMap/c")]).wave_timeout(0, 60);
    let mut world = World::new(tasks, request());
    world.fate("Job/h", |fate| {
        (fate.lingers, fate.kept_by) = (i64::MAX, "finalizer example.com/guard".into())
    });
    world.run();
    let message = world.driver().state().message();
    let waited = "waiting for deletion of hook batch/Job/h (deletion requested; waits for finalizer example.com/guard)";
    assert!(message.ends_with(waited), "{message}");
}

/// Its outcome is known, and a finalizer may keep an object for ever.
#[test]
fn a_wave_that_has_failed_does_not_wait_for_what_it_prunes() {
    let tasks = plan([prune(0, "Deployment/old"), prune(0, "Job/other"), resource(1, "ConfigMap/c")]);
    let mut world = lingering(tasks, request(), i64::MAX);
    world.fate("Job/other", |fate| fate.write.push_back(Reply::No("denied".into())));
    world.run();
    assert_eq!(phase(&world), Some(OperationPhase::Failed));
    assert_eq!(
        world.results(),
        ["1 Deployment/old - Running: deletion requested", "2 Job/other SyncFailed Failed: denied"]
    );
}

#[test]
fn what_a_terminated_operation_waited_for_is_not_pruned() {
    let mut world = lingering(plan([prune(0, "Deployment/old")]), request(), i64::MAX);
    world.at(5000, Input::Terminate { by: "ann".into() });
    world.run();
    assert_eq!((phase(&world), world.results()), (Some(OperationPhase::Failed), vec![WAITING.to_owned()]));
}

#[test]
fn what_keeps_the_place_of_a_hook_is_named() {
    let tasks = plan([hook(Phase::PreSync, 0, "Job/migrate").living(), resource(0, "ConfigMap/c")]);
    let mut world = World::new(tasks, request());
    world.fate("Job/migrate", |fate| {
        fate.lingers = 10_000;
        fate.kept_by = KEPT.into();
    });
    world.run_until(3000);
    let why = explain(world.driver().state(), at(3000)).to_string();
    assert!(
        why.contains("hook Job shop/migrate (deletion requested; waits for finalizer example.com/guard)"),
        "{why}"
    );
    world.run();
    assert_eq!(phase(&world), Some(OperationPhase::Succeeded));
}

/// The state that a snapshot holds is the one that all facts lead to, at each of them.
#[test]
fn a_restart_anywhere_changes_nothing() {
    let tasks = || plan([prune(0, "Deployment/old"), resource(0, "ConfigMap/c")]);
    let mut calm = lingering(tasks(), request(), 10_000);
    calm.run();
    let expected = calm.results();
    for event in 1..20 {
        let mut world = lingering(tasks(), request(), 10_000);
        world.crash_before = Some(event);
        world.run();
        assert_eq!(world.results(), expected, "killed before event {event}");
    }
}
