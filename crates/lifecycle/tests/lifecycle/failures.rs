//! Tests of failures: messages, failed hooks and SyncFail hooks.

use tidegate_model::{DeletePolicy, Phase, ResultCode};

use crate::build::*;
use crate::traces::{assert_trace, assert_trace_after_hook_start};
use crate::world::{Reply, World};

const REJECTED: fn() -> Reply = || Reply::Rejected("no".into());

/// Returns the final message of a plan with some rejected writes.
fn final_message_of(tasks: Vec<tidegate_model::Task>, refused: &[&str]) -> String {
    let mut world = World::new(plan(tasks), request());
    for object in refused {
        let text = format!("{object} is wrong");
        world.configure(object, |fate| fate.write.push_back(Reply::Rejected(text)));
    }
    world.run();
    world.driver().state().message()
}

#[test]
fn final_messages_name_failed_objects() {
    let (api, web) = ("Deployment/api", "Deployment/web");
    let failed = "one or more objects failed to apply";
    let unsuccessful = "one or more synchronization tasks completed unsuccessfully";
    for (tasks, refused, expected) in [
        (vec![resource(0, api)], vec![], "successfully synced (all tasks run)".to_owned()),
        (vec![hook_task(Phase::Sync, 0, "Job/j")], vec![], "successfully synced (no more tasks)".to_owned()),
        (vec![resource(0, api)], vec![api], format!("{failed}, reason: Deployment/api is wrong")),
        (
            vec![resource(0, api), resource(0, web)],
            vec![api, web],
            format!("{failed}, reason: Deployment/api is wrong,Deployment/web is wrong"),
        ),
        (
            vec![resource(0, api), resource(0, web)],
            vec![web],
            format!("{unsuccessful}, reason: Deployment/web is wrong"),
        ),
        // After a rejected prune, the wave's manifests aren't applied.
        (
            vec![prune_task(0, "Job/old"), resource(0, api)],
            vec!["Job/old"],
            format!("{failed}, reason: Job/old is wrong"),
        ),
        (
            vec![resource(0, "Namespace/shop"), resource(0, api), hook_task(Phase::SyncFail, 0, "Job/alert")],
            vec!["Namespace/shop", api],
            "the namespace failed to apply, reason: Namespace/shop is wrong".to_owned(),
        ),
        (
            vec![resource(0, "Namespace/other"), hook_task(Phase::SyncFail, 0, "Job/alert")],
            vec!["Namespace/other"],
            format!("{unsuccessful}, reason: Namespace/other is wrong"),
        ),
        (
            vec![
                resource(0, api),
                hook_task(Phase::SyncFail, 0, "Job/a"),
                hook_task(Phase::SyncFail, 0, "Job/b"),
            ],
            vec![api, "Job/b"],
            format!(
                "{unsuccessful}, reason: Deployment/api is wrong\none or more SyncFail hooks failed, reason: \
                 failed to delete resource: Job/b is wrong"
            ),
        ),
    ] {
        assert_eq!(final_message_of(tasks, &refused), expected);
    }
}

#[test]
fn equal_reasons_are_listed_once() {
    let tasks = || plan([resource(0, "Deployment/a"), resource(0, "Deployment/b")]);
    let mut world = World::new(tasks(), request());
    for object in ["Deployment/a", "Deployment/b"] {
        world.configure(object, |fate| fate.write.push_back(REJECTED()));
    }
    world.run();
    assert_eq!(
        world.driver().state().message(),
        "one or more objects failed to apply, reason: Deployment shop/a: no"
    );
}

fn error_warning(message: &str) -> tidegate_model::Warning {
    tidegate_model::Warning {
        severity: tidegate_model::Severity::Error,
        code: "test".into(),
        object: None,
        origin: None,
        message: message.into(),
    }
}

/// An invalid plan is not executed, but the results contain its invalid tasks (specification, on API
/// discovery and permission validation).
#[test]
fn an_invalid_plan_runs_nothing() {
    let blamed = resource(0, "Widget/one").with(|task| task.error = Some("a".into()));
    let mut plan = plan([blamed, resource(0, "Deployment/api"), hook_task(Phase::SyncFail, 0, "Job/alert")]);
    plan.warnings = vec![error_warning("b"), error_warning("a"), error_warning("b")];
    let mut world = World::new(plan, request());
    world.run();
    let results = tidegate_lifecycle::operation::view(world.driver().state()).unwrap().resources;
    let results: Vec<_> =
        results.into_iter().map(|one| (one.name, one.status, one.hook_phase, one.message)).collect();
    assert_eq!(results, [("one".to_owned(), Some(ResultCode::SyncFailed), None, "a".to_owned())]);
    assert_trace(
        world,
        "
            plan
            # one or more synchronization tasks are not valid: a; b
            = 1 Widget/one SyncFailed -: a
            ",
    );
}

/// Another client may create the missing definition, so the next attempt creates a new plan.
#[test]
fn a_retry_replaces_an_invalid_plan() {
    let mut plan = plan([resource(0, "ConfigMap/c")]);
    plan.warnings = vec![error_warning("a")];
    let mut world = World::new(plan, request_with_retries(2));
    world.run_until(1_000);
    assert_eq!(
        world.driver().state().message(),
        "one or more synchronization tasks are not valid: a. Retrying attempt #1 at 12:00AM."
    );
    world.plan.warnings.clear();
    assert_trace(
        world,
        "
            plan
            # one or more synchronization tasks are not valid: a. Retrying attempt #1 at 12:00AM.
            plan
            check ConfigMap/c
            apply ConfigMap/c
            # successfully synced (all tasks run) (retried 1 times).
            = 1 ConfigMap/c Synced Running: c applied
            ",
    );
}

#[test]
fn a_plan_that_stays_invalid_uses_up_its_retries() {
    let mut plan = plan([resource(0, "ConfigMap/c"), hook_task(Phase::SyncFail, 0, "Job/alert")]);
    plan.warnings = vec![error_warning("a")];
    let mut world = World::new(plan, request_with_retries(2));
    world.run();
    let message = "one or more synchronization tasks are not valid: a (retried 2 times).";
    assert_eq!(world.driver().state().message(), message);
    assert_eq!(world.transcript.iter().filter(|line| *line == "plan").count(), 3);
}

/// Earlier waves have changed the cluster, so SyncFail hooks must run.
#[test]
fn a_failed_late_dry_run_starts_sync_fail_hooks() {
    let mut world = World::new(
        plan([
            resource(0, "ConfigMap/c"),
            resource(1, "Widget/one").with_late_check(),
            resource(1, "Deployment/api"),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
        ]),
        request(),
    );
    world.configure("Widget/one", |fate| fate.check.push_back(REJECTED()));
    assert_trace(
        world,
        "
            plan
            check ConfigMap/c
            check Deployment/api
            check Job/alert
            apply ConfigMap/c
            check Widget/one
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            # one or more objects failed to apply (dry run), reason: Widget shop/one: no
            = 1 ConfigMap/c Synced Succeeded: c applied
            = 2 Widget/one SyncFailed Failed: no
            = 3 Job/alert Synced Succeeded: starting
            ",
    );
}

#[test]
fn a_failed_dry_run_applies_nothing_and_starts_no_hooks() {
    let mut world = World::new(
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate")
                .with_delete_policies(&[DeletePolicy::HookFailed])
                .with_live_object(),
            resource(0, "Deployment/api"),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
        ]),
        request(),
    );
    world.configure("Deployment/api", |fate| fate.check.push_back(REJECTED()));
    assert_trace(
        world,
        "
            plan
            check Job/migrate
            check Deployment/api
            check Job/alert
            # one or more objects failed to apply (dry run), reason: Deployment shop/api: no
            = 1 Deployment/api SyncFailed Failed: no
            ",
    );
}

#[test]
fn a_hook_with_degraded_health_stops_everything_after_it() {
    let mut world = World::new(
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&[DeletePolicy::HookFailed]),
            resource(0, "Deployment/api"),
            hook_task(Phase::PostSync, 0, "Job/smoke")
                .with_delete_policies(&[DeletePolicy::HookFailed])
                .with_live_object(),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
            hook_task(Phase::SyncFail, 1, "Job/clean").with_delete_policies(&[DeletePolicy::HookFailed]),
        ]),
        request(),
    );
    world.configure("Job/migrate", |fate| fate.degrade("backoff limit exceeded"));
    world.configure("Job/alert", |fate| fate.degrade("no network"));
    assert_trace_after_hook_start(
        world,
        &["Job/migrate", "Deployment/api", "Job/smoke", "Job/alert", "Job/clean"],
        "
            logs Job/migrate
            release Job/migrate
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            logs Job/alert
            release Job/alert
            clear Job/clean
            apply Job/clean
            # waiting for completion of hook batch/Job/clean
            release Job/clean
            delete Job/migrate
            delete Job/smoke
            delete Job/clean
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/migrate: backoff limit exceeded
            = 1 Job/migrate Synced Failed: backoff limit exceeded
            = 2 Job/alert Synced Failed: no network
            = 3 Job/clean Synced Succeeded: starting
            ",
    );
}

#[test]
fn a_deleted_object_is_reported_as_missing() {
    let mut world =
        World::new(plan([hook_task(Phase::Sync, 0, "Job/migrate"), resource(1, "ConfigMap/c")]), request());
    world.configure("Job/migrate", |fate| fate.deleted_after = Some(500));
    assert_trace_after_hook_start(world, &["Job/migrate", "ConfigMap/c"], "
            logs Job/migrate
            release Job/migrate
            # one or more synchronization tasks completed unsuccessfully, reason: Resource batch/Job/migrate is missing, it might have been deleted
            = 1 Job/migrate SyncFailed Error: Resource batch/Job/migrate is missing, it might have been deleted
            ");
}

#[test]
fn only_running_hooks_are_awaited_after_a_failure() {
    let mut world = World::new(
        plan([
            hook_task(Phase::Sync, 0, "Job/slow"),
            resource(0, "Deployment/never"),
            resource(0, "Deployment/wrong"),
            resource(1, "ConfigMap/c"),
        ]),
        request(),
    );
    world.configure("Deployment/never", |fate| fate.health.truncate(1));
    world.configure("Deployment/wrong", |fate| fate.write.push_back(REJECTED()));
    assert_trace(
        world,
        "
            plan
            check Job/slow
            check Deployment/never
            check Deployment/wrong
            check ConfigMap/c
            clear Job/slow
            apply Job/slow
            apply Deployment/never
            apply Deployment/wrong
            # waiting for completion of hook batch/Job/slow
            release Job/slow
            # one or more synchronization tasks completed unsuccessfully, reason: Deployment shop/wrong: no
            = 1 Job/slow Synced Succeeded: starting
            = 2 Deployment/never Synced Running: never applied
            = 3 Deployment/wrong SyncFailed Failed: no
            ",
    );
}
