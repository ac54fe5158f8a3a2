//! Dependencies through objects that an operation doesn't change, keeps or gives up.

use tidegate_lifecycle::operation::{Input, OperationEvent, explain};
use tidegate_model::{Action, HealthStatus, OperationPhase, Override, Phase, Plan, ResultCode, TaskId};

use crate::build::*;
use crate::dependencies::{begun, check_order, overridden, set_health, start_times};
use crate::world::{Reply, World, label_of};

/// The API depends on a proxy, and the proxy depends on the database.
fn chain(proxy: tidegate_model::Task) -> Plan {
    plan([resource(0, "Deployment/api"), resource(0, "Deployment/database"), proxy])
        .with_dependency("Deployment/api", "Deployment/proxy")
        .with_dependency("Deployment/proxy", "Deployment/database")
}

#[test]
fn an_unchanged_object_passes_its_dependencies_on() {
    let proxy = resource(0, "Deployment/proxy").with_action(Action::Unchanged).with_live_object();
    let mut world = World::new(chain(proxy), request());
    world.run_until(500);
    let explained = explain(world.runner.state(), at(500));
    let awaited: Vec<String> =
        explained.awaited.iter().map(|one| format!("{}: {}", one.what, one.why)).collect();
    assert_eq!(awaited, ["Deployment shop/database: starting; needed by Deployment shop/api"]);
    world.run();
    world.check_replay();
    assert_eq!(start_times(&world)["Deployment/api"], 1000);
}

#[test]
fn a_skipped_object_passes_its_dependencies_on() {
    for what in [Override::Skip, Override::MarkDone] {
        let mut world = World::new(chain(resource(0, "Deployment/proxy")), request());
        set_health(&mut world, "Deployment/database", 5000, HealthStatus::Healthy);
        world.schedule_input(1000, overridden("Deployment/proxy", what));
        world.run();
        world.check_replay();
        check_order(&world.plan, &world.durable, false);
        assert_eq!(start_times(&world)["Deployment/api"], 5000, "{what:?}");
    }
}

/// A skipped object can't be retried while an object that depends on it through another one is being applied.
#[test]
fn a_chain_of_skipped_objects_is_released_at_once() {
    let mut world = World::new(chain(resource(0, "Deployment/proxy")), request());
    set_health(&mut world, "Deployment/database", i64::MAX / 4, HealthStatus::Healthy);
    world.configure("Deployment/api", |fate| fate.write.extend([Reply::RetryAfter(9000)]));
    world.schedule_input(1000, overridden("Deployment/proxy", Override::Skip));
    world.schedule_input(2000, overridden("Deployment/database", Override::Skip));
    world.schedule_input(3000, overridden("Deployment/database", Override::Retry));
    world.run();
    world.check_replay();
    let refused = world.transcript.iter().find(|line| line.starts_with('!')).unwrap();
    assert!(refused.contains("Deployment shop/api, which depends on it, is being applied"), "{refused}");
    assert_eq!(start_times(&world)["Deployment/api"], 11_000);
}

fn pruned() -> World {
    let plan = plan([
        prune_task(0, "Deployment/api"),
        prune_task(0, "Deployment/database"),
        prune_task(0, "Deployment/other"),
        prune_task(0, "Secret/password"),
    ])
    .with_dependency("Deployment/database", "Deployment/api")
    .with_dependency("Secret/password", "Deployment/database")
    .with_dependency("Secret/password", "Deployment/other");
    let mut world = World::new(plan, request());
    world.configure("Deployment/other", |fate| fate.deletion_delay = 2000);
    world
}

fn prune_results(world: &World) -> Vec<(String, Option<ResultCode>)> {
    let tasks = world.operation().all_tasks();
    tasks.map(|(_, task, state)| (label_of(task), state.status)).collect()
}

#[test]
fn an_object_that_a_kept_object_needs_is_kept() {
    let refused = Reply::LeftAlone("ignored (no prune)".into());
    for skips in [false, true] {
        let mut world = pruned();
        if skips {
            world.configure("Deployment/api", |fate| fate.write.push_back(Reply::RetryAfter(3000)));
            world.schedule_input(1000, overridden("Deployment/api", Override::Skip));
        } else {
            world.configure("Deployment/api", |fate| fate.write.push_back(refused.clone()));
        }
        world.run();
        world.check_replay();
        check_order(&world.plan, &world.durable, false);
        let deleted: Vec<String> =
            world.cluster.writes.iter().map(|write| label_of(world.plan.task(write.task).unwrap())).collect();
        assert_eq!(deleted, ["Deployment/other"]);
        assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Succeeded);
        let kept = if skips { ResultCode::Skipped } else { ResultCode::PruneSkipped };
        let expected = [
            ("Deployment/api".to_owned(), Some(kept)),
            ("Deployment/database".to_owned(), Some(ResultCode::PruneSkipped)),
            ("Deployment/other".to_owned(), Some(ResultCode::Pruned)),
            ("Secret/password".to_owned(), Some(ResultCode::PruneSkipped)),
        ];
        assert_eq!(prune_results(&world), expected);
        let messages = [1, 3].map(|id| world.operation().tasks[id].message.clone());
        assert_eq!(
            messages,
            [
                "ignored (needed by Deployment shop/api, which is kept)",
                "ignored (needed by Deployment shop/database, which is kept)"
            ]
        );
    }
}

#[test]
fn a_prune_that_is_marked_as_done_releases_the_next_one() {
    let mut world = pruned();
    world.configure("Deployment/api", |fate| fate.write.push_back(Reply::RetryAfter(3000)));
    world.schedule_input(1000, overridden("Deployment/api", Override::MarkDone));
    world.run();
    world.check_replay();
    let statuses: Vec<_> = prune_results(&world).into_iter().map(|(_, status)| status.unwrap()).collect();
    assert_eq!(
        statuses,
        [ResultCode::MarkedDone, ResultCode::Pruned, ResultCode::Pruned, ResultCode::Pruned]
    );
}

/// A failed SyncFail hook suppresses only the hooks that depend on it.
#[test]
fn a_failed_rescue_hook_suppresses_only_its_dependents() {
    let rescue = |name: &str| hook_task(Phase::SyncFail, 0, name);
    let plan = plan([
        resource(0, "Deployment/api"),
        rescue("Job/a"),
        rescue("Job/after-a"),
        rescue("Job/after-both"),
        rescue("Job/after-slow"),
        rescue("Job/slow"),
    ])
    .with_dependency("Job/after-a", "Job/a")
    .with_dependency("Job/after-both", "Job/after-a")
    .with_dependency("Job/after-both", "Job/slow")
    .with_dependency("Job/after-slow", "Job/slow");
    let mut world = World::new(plan, request());
    world.configure("Deployment/api", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    set_health(&mut world, "Job/a", 1000, HealthStatus::Degraded);
    set_health(&mut world, "Job/slow", 5000, HealthStatus::Healthy);
    world.run();
    world.check_replay();
    assert_eq!(begun(&world), ["Deployment/api", "Job/a", "Job/after-slow", "Job/slow"]);
    assert_eq!(world.operation().outcome.as_ref().unwrap().phase, OperationPhase::Failed);
}

/// Dependencies between manifests don't affect the explanation of prunes.
#[test]
fn only_ordered_prunes_are_explained_as_ordered() {
    let plan = plan([
        resource(0, "ConfigMap/settings"),
        resource(0, "Deployment/api"),
        prune_task(0, "Secret/password"),
    ])
    .with_dependency("Deployment/api", "ConfigMap/settings");
    let mut world = World::new(plan, request());
    world.configure("Secret/password", |fate| fate.write.push_back(Reply::RetryAfter(3000)));
    world.run_until(1000);
    assert_eq!(explain(world.runner.state(), at(1000)).progress, "pruning");
}

#[test]
fn a_pause_keeps_withheld_prunes_undecided() {
    let mut world = pruned();
    world.configure("Deployment/api", |fate| fate.write.push_back(Reply::RetryAfter(3000)));
    world.schedule_input(500, Input::Pause { by: "ann".into(), reason: "lunch".into() });
    world.schedule_input(1000, overridden("Deployment/api", Override::Skip));
    world.schedule_input(9000, Input::Unpause { by: "ann".into() });
    world.run();
    world.check_replay();
    let kept = world.durable.iter().find_map(|event| match event {
        OperationEvent::TaskCompleted { task: TaskId(1), at, .. } => Some(at.as_millis()),
        _ => None,
    });
    assert_eq!(kept, Some(9000));
}

/// The critical path ends with the longest chain of blocked objects.
#[test]
fn the_critical_path_shows_the_time_of_each_edge() {
    let proxy = resource(0, "Deployment/proxy").with_action(Action::Unchanged).with_live_object();
    let plan = plan([
        resource(0, "Deployment/api"),
        resource(0, "Deployment/cache"),
        resource(0, "Deployment/database"),
        proxy,
        resource(0, "Deployment/site"),
        hook_task(Phase::Sync, 0, "Job/migrate"),
    ])
    .with_dependency("Job/migrate", "Deployment/database")
    .with_dependency("Job/migrate", "Deployment/cache")
    .with_dependency("Deployment/proxy", "Job/migrate")
    .with_dependency("Deployment/api", "Deployment/proxy")
    .with_dependency("Deployment/site", "Deployment/api");
    let mut world = World::new(plan, request());
    set_health(&mut world, "Deployment/cache", 2000, HealthStatus::Healthy);
    set_health(&mut world, "Deployment/database", 5000, HealthStatus::Healthy);
    set_health(&mut world, "Job/migrate", 4000, HealthStatus::Healthy);
    let path = |world: &World, now: i64| -> Vec<String> {
        explain(world.runner.state(), at(now)).critical_path.iter().map(ToString::to_string).collect()
    };
    world.run_until(3000);
    assert_eq!(
        path(&world, 3000),
        [
            "Deployment shop/database (3 s)",
            "hook Job shop/migrate",
            "Deployment shop/api",
            "Deployment shop/site"
        ]
    );
    world.run_until(7000);
    assert_eq!(
        path(&world, 7000),
        [
            "Deployment shop/database (5 s)",
            "hook Job shop/migrate (2 s)",
            "Deployment shop/api",
            "Deployment shop/site"
        ]
    );
    world.run();
    assert_eq!(path(&world, world.now), Vec::<String>::new());
}
