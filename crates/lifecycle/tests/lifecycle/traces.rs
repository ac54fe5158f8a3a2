//! Example traces from the specification: commands in order, messages during waits (`#`), and results (`=`).

use tidegate_lifecycle::operation::Input;
use tidegate_model::{Action, DeletePolicy, Phase};

use crate::build::*;
use crate::world::{Reply, World};

/// Runs the world to its end, and compares the commands, messages and results with the expected trace, line
/// by line.
pub fn assert_trace(mut world: World, expected: &str) {
    world.run();
    let mut happened: Vec<String> =
        world.transcript.iter().filter(|line| !line.starts_with('@')).cloned().collect();
    happened.extend(world.results().into_iter().map(|result| format!("= {result}")));
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(happened, expected, "\nactual trace:\n{}", happened.join("\n"));
    world.check_replay();
}

/// Like [`assert_trace`], but the expected lines begin once the first hook is running. `objects` is in dry-run
/// order, starting with the hook.
pub fn assert_trace_after_hook_start(world: World, objects: &[&str], expected: &str) {
    let (hook, checks) = (objects[0], objects.join("\ncheck "));
    let start = format!(
        "plan\ncheck {checks}\nclear {hook}\napply {hook}\n# waiting for completion of hook batch/{hook}\n"
    );
    assert_trace(world, &(start + expected));
}

#[test]
fn a_one_wave_without_hooks_is_not_health_gated() {
    let world = World::new(plan([resource(0, "ConfigMap/c"), resource(0, "Deployment/api")]), request());
    assert_trace(
        world,
        "
            plan
            check ConfigMap/c
            check Deployment/api
            apply ConfigMap/c
            apply Deployment/api
            # successfully synced (all tasks run)
            = 1 ConfigMap/c Synced Running: c applied
            = 2 Deployment/api Synced Running: api applied
            ",
    );
}

#[test]
fn b_a_wave_waits_for_health_before_the_next() {
    let world = World::new(plan([resource(0, "Deployment/api"), resource(5, "ConfigMap/c")]), request());
    assert_trace(
        world,
        "
            plan
            check Deployment/api
            check ConfigMap/c
            apply Deployment/api
            # waiting for healthy state of apps/Deployment/api
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 Deployment/api Synced Succeeded: api applied
            = 2 ConfigMap/c Synced Running: c applied
            ",
    );
}

#[test]
fn c_hooks_before_and_after() {
    let both = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookSucceeded];
    let world = World::new(
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&both),
            resource(0, "Deployment/api"),
            hook_task(Phase::PostSync, 0, "Job/smoke").with_delete_policies(&both),
        ]),
        request(),
    );
    assert_trace(
        world,
        "
            plan
            check Job/migrate
            check Deployment/api
            check Job/smoke
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            apply Deployment/api
            # waiting for healthy state of apps/Deployment/api
            clear Job/smoke
            apply Job/smoke
            # waiting for completion of hook batch/Job/smoke
            release Job/smoke
            delete Job/migrate
            delete Job/smoke
            # successfully synced (no more tasks)
            = 1 Job/migrate Synced Succeeded: starting
            = 2 Deployment/api Synced Succeeded: api applied
            = 3 Job/smoke Synced Succeeded: starting
            ",
    );
}

#[test]
fn d_an_older_copy_of_a_hook_goes_first() {
    let mut world =
        World::new(plan([hook_task(Phase::Sync, 0, "Job/migrate").with_live_object()]), request());
    world.configure("Job/migrate", |fate| fate.deletion_delay = 2000);
    assert_trace(
        world,
        "
            plan
            check Job/migrate
            clear Job/migrate
            # waiting for deletion of hook batch/Job/migrate
            clear Job/migrate
            apply Job/migrate
            # waiting for completion of hook batch/Job/migrate
            release Job/migrate
            # successfully synced (no more tasks)
            = 1 Job/migrate Synced Succeeded: starting
            ",
    );
}

#[test]
fn a_suspended_job_starts_after_its_creation_is_recorded() {
    let mut world = World::new(
        plan([
            hook_task(Phase::PreSync, 0, "Job/backup").with_delete_policies(&[DeletePolicy::HookSucceeded]),
            resource(0, "Deployment/api"),
        ]),
        request(),
    );
    world.configure("Job/backup", |fate| fate.starts_suspended = true);
    assert_trace(
        world,
        "
            plan
            check Job/backup
            check Deployment/api
            clear Job/backup
            apply Job/backup
            start Job/backup
            # waiting for completion of hook batch/Job/backup
            release Job/backup
            apply Deployment/api
            delete Job/backup
            # successfully synced (all tasks run)
            = 1 Job/backup Synced Succeeded: starting
            = 2 Deployment/api Synced Running: api applied
            ",
    );
}

/// A Job that can't be started never runs, but it exists, so it is released and deleted by its policy.
#[test]
fn a_suspended_job_that_cannot_be_started_is_cleaned_up() {
    let policies = [DeletePolicy::HookFailed];
    let mut world = World::new(
        plan([hook_task(Phase::PreSync, 0, "Job/backup").with_delete_policies(&policies)]),
        request(),
    );
    world.configure("Job/backup", |fate| {
        fate.starts_suspended = true;
        fate.write = [Reply::Success, Reply::Success, Reply::Rejected("forbidden".into())].into();
    });
    assert_trace(
        world,
        "
            plan
            check Job/backup
            clear Job/backup
            apply Job/backup
            start Job/backup
            release Job/backup
            delete Job/backup
            # one or more objects failed to apply, reason: hook Job shop/backup: forbidden
            = 1 Job/backup SyncFailed Failed: forbidden
            ",
    );
}

#[test]
fn e_one_of_two_applies_fails() {
    let mut world = World::new(plan([resource(0, "Deployment/a"), resource(0, "Deployment/b")]), request());
    world.configure("Deployment/b", |fate| fate.write.push_back(Reply::Rejected("b is wrong".into())));
    assert_trace(
        world,
        "
            plan
            check Deployment/a
            check Deployment/b
            apply Deployment/a
            apply Deployment/b
            # one or more synchronization tasks completed unsuccessfully, reason: b is wrong
            = 1 Deployment/a Synced Running: a applied
            = 2 Deployment/b SyncFailed Failed: b is wrong
            ",
    );
}

#[test]
fn f_the_only_apply_fails_and_sync_fail_hooks_run() {
    let mut world = World::new(
        plan([
            resource(0, "Deployment/api"),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
            hook_task(Phase::SyncFail, 1, "Job/roll-back"),
        ]),
        request(),
    );
    world.configure("Deployment/api", |fate| fate.write.push_back(Reply::Rejected("api is wrong".into())));
    assert_trace(
        world,
        "
            plan
            check Deployment/api
            check Job/alert
            check Job/roll-back
            apply Deployment/api
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            clear Job/roll-back
            apply Job/roll-back
            # waiting for completion of hook batch/Job/roll-back
            release Job/roll-back
            # one or more synchronization tasks completed unsuccessfully, reason: api is wrong
            = 1 Deployment/api SyncFailed Failed: api is wrong
            = 2 Job/alert Synced Succeeded: starting
            = 3 Job/roll-back Synced Succeeded: starting
            ",
    );
}

#[test]
fn g_prunes_in_reversed_waves() {
    let mut world = World::new(
        plan([
            prune_task(1, "Deployment/three"),
            prune_task(2, "Deployment/two"),
            prune_task(3, "Deployment/one"),
        ]),
        request(),
    );
    world.configure("Deployment/two", |fate| fate.deletion_delay = 3000);
    assert_trace(
        world,
        "
            plan
            prune Deployment/three
            prune Deployment/two
            # waiting for deletion of apps/Deployment/two
            prune Deployment/one
            # successfully synced (all tasks run)
            = 1 Deployment/three Pruned Succeeded: pruned
            = 2 Deployment/two Pruned Succeeded: pruned
            = 3 Deployment/one Pruned Succeeded: pruned
            ",
    );
}

#[test]
fn h_a_namespace_and_a_pod_in_it() {
    let world = World::new(
        plan([
            resource(0, "Namespace/shop").with(|task| task.phase = Phase::PreSync),
            resource(0, "Pod/p").with_late_check(),
        ]),
        request(),
    );
    assert_trace(
        world,
        "
            plan
            check Namespace/shop
            apply Namespace/shop
            check Pod/p
            apply Pod/p
            # successfully synced (all tasks run)
            = 1 Namespace/shop Synced Succeeded: shop applied
            = 2 Pod/p Synced Running: p applied
            ",
    );
}

#[test]
fn i_a_prune_waits_for_confirmation() {
    let mut world = World::new(
        plan([
            prune_task(0, "Deployment/old").with_confirmation(),
            prune_task(0, "Job/older").with_confirmation(),
            resource(0, "ConfigMap/c"),
        ]),
        request(),
    );
    world.schedule_input(5000, Input::ConfirmPrune { by: "ann".into() });
    assert_trace(
        world,
        "
            plan
            check ConfigMap/c
            # waiting for pruning confirmation of apps/Deployment/old and 1 more resources
            prune Deployment/old
            prune Job/older
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 Deployment/old Pruned Succeeded: pruned
            = 2 Job/older Pruned Succeeded: pruned
            = 3 ConfigMap/c Synced Running: c applied
            ",
    );
}

#[test]
fn unchanged_and_skipped_tasks_need_no_wave() {
    let all_unchanged = [
        resource(0, "Deployment/api").with_action(Action::Unchanged).with_live_object(),
        resource(1, "ConfigMap/c").with_action(Action::Unchanged).with_live_object(),
    ];
    assert_trace(
        World::new(plan(all_unchanged), request()),
        "
            plan
            # successfully synced (no more tasks)
            ",
    );
    let only_skipped = [prune_task(0, "Deployment/old").with_action(Action::PruneSkipped)];
    assert_trace(
        World::new(plan(only_skipped), request()),
        "
            plan
            # successfully synced (all tasks run)
            = 1 Deployment/old PruneSkipped Succeeded: test
            ",
    );
    assert_trace(
        World::new(plan([]), request()),
        "
            plan
            # successfully synced (no more tasks)
            ",
    );
}
