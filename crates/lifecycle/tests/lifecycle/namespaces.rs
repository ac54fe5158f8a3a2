//! Deleted namespaces. All objects in them are lost, so the operation fails and reports the namespace.

use tidegate_lifecycle::operation::{Input, NamespaceObservation, ObjectIdentity, OperationEvent, explain};
use tidegate_model::{DeletePolicy, OperationPhase, Phase, Plan, SyncRequest, WaitFor};

use crate::build::*;
use crate::world::{Reply, World};

const NAMESPACE_LOST: &str = "namespace shop is being deleted, together with everything that this operation wrote there; sync again when it is gone";

/// Returns a world with a namespace that starts terminating at the given time. With `has_watch`, a watch
/// event reports this. Otherwise, only a read shows it.
fn world_with_terminating_namespace(plan: Plan, request: SyncRequest, millis: i64, has_watch: bool) -> World {
    let mut world = World::new(plan, request);
    world.namespaces_terminating_at.insert("shop".into(), millis);
    world.has_namespace_watch = has_watch;
    world
}

fn run_to_end(world: &mut World) -> (OperationPhase, String) {
    let outcome = world.run().operation().outcome.clone().unwrap();
    world.check_replay();
    (outcome.phase, outcome.message)
}

#[test]
fn an_operation_does_not_succeed_in_a_terminating_namespace() {
    let failed = (OperationPhase::Failed, NAMESPACE_LOST.to_owned());
    let one = || plan([resource(0, "ConfigMap/c")]);
    // Without a watch event, only the check after the last write can detect the termination.
    assert_eq!(run_to_end(&mut world_with_terminating_namespace(one(), request(), 0, false)), failed);
    assert_eq!(
        run_to_end(&mut world_with_terminating_namespace(one(), request(), 1, false)).0,
        OperationPhase::Succeeded,
        "the namespace started terminating only after the final check"
    );
    // The namespace terminates after the last write, during a wait.
    let healthy = SyncRequest { wait: WaitFor::Healthy, ..request() };
    let server = || plan([resource(0, "Deployment/api")]);
    for has_watch in [true, false] {
        let mut world = world_with_terminating_namespace(server(), healthy.clone(), 500, has_watch);
        assert_eq!(run_to_end(&mut world), failed);
        assert_eq!(
            world.now,
            if has_watch { 500 } else { 1000 },
            "a watch event must end the operation immediately"
        );
    }
    let reason = "1 Deployment/api Synced Failed: namespace shop is being deleted";
    let mut world = world_with_terminating_namespace(server(), healthy, 500, true);
    run_to_end(&mut world);
    assert_eq!(world.results(), [reason]);
}

/// A namespace with the same name exists again when the operation ends, but the objects in the first
/// namespace are lost.
#[test]
fn an_operation_does_not_succeed_in_a_recreated_namespace() {
    let again = "namespace shop was deleted and recreated by another client, and everything that this operation wrote to the old one is gone; sync \
         again";
    let healthy = SyncRequest { wait: WaitFor::Healthy, ..request() };
    for has_watch in [true, false] {
        let mut world = World::new(plan([resource(0, "Deployment/api")]), healthy.clone());
        world.namespaces_recreated_at.insert("shop".into(), 500);
        world.has_namespace_watch = has_watch;
        assert_eq!(run_to_end(&mut world), (OperationPhase::Failed, again.to_owned()));
        assert_eq!(
            world.now,
            if has_watch { 500 } else { 1000 },
            "a watch event must end the operation immediately"
        );
    }
    // The missing namespace was observed during planning, so it counts as lost even if nothing was written to
    // it.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.namespaces_gone_at.insert("shop".into(), 0);
    world.configure("ConfigMap/c", |fate| {
        fate.write.push_back(Reply::Rejected("namespaces \"shop\" not found".into()))
    });
    let gone =
        "namespace shop was deleted, together with everything that this operation wrote there; sync again";
    assert_eq!(run_to_end(&mut world), (OperationPhase::Failed, gone.to_owned()));
    // Without a recorded identity, a recreated namespace can't be detected.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    (world.records_namespaces, world.has_namespace_watch) = (false, false);
    world.namespaces_recreated_at.insert("shop".into(), 0);
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    (world.records_namespaces, world.has_namespace_watch) = (false, false);
    world.namespaces_gone_at.insert("shop".into(), 0);
    assert_eq!(run_to_end(&mut world), (OperationPhase::Failed, gone.to_owned()));
}

/// A watch may report an older state, and an operation may create its own namespace.
#[test]
fn old_observations_and_newly_created_namespaces_are_no_loss() {
    let seen = |uid: &str, version: &str, is_terminating| {
        let identity = Some(ObjectIdentity { uid: uid.into(), resource_version: version.into() });
        Input::NamespaceObserved(NamespaceObservation { name: "shop".into(), identity, is_terminating })
    };
    let smoke = || hook_task(Phase::PostSync, 0, "Job/smoke");
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), smoke()]), request());
    // Planning observed version 1, so observations of version 0 are outdated.
    world.namespaces_gone_at.insert("shop".into(), 60_000);
    world.schedule_input(500, seen("0", "0", false));
    world.schedule_input(600, seen("0", "0", true));
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    let brings = || {
        plan([
            resource(0, "Namespace/shop").with(|task| task.namespace.clear()),
            resource(1, "ConfigMap/c"),
            smoke(),
        ])
    };
    let uid_of = |world: &World| {
        world.durable.iter().find_map(|event| match event {
            OperationEvent::Applied { applied, .. } => Some(applied.clone()),
            _ => None,
        })
    };
    let mut world = World::new(brings(), request());
    world.run_until(900);
    let made = uid_of(&world).unwrap();
    world.schedule_input(950, seen(&made.uid, &made.resource_version, false));
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    let mut world = World::new(brings(), request());
    world.schedule_input(950, seen("another", "999999", false));
    let (phase, message) = run_to_end(&mut world);
    assert_eq!(phase, OperationPhase::Failed);
    assert!(message.starts_with("namespace shop was deleted and recreated"), "{message}");
}

#[test]
fn hooks_in_a_terminating_namespace_are_stopped_first() {
    let tasks = plan([
        resource(0, "ConfigMap/c"),
        hook_task(Phase::PostSync, 0, "Job/smoke"),
        hook_task(Phase::SyncFail, 0, "Job/alert"),
    ]);
    let mut world = world_with_terminating_namespace(tasks, request(), 500, true);
    assert_eq!(run_to_end(&mut world), (OperationPhase::Failed, NAMESPACE_LOST.to_owned()));
    let results = world.results();
    assert_eq!(results[1], "2 Job/smoke Synced Failed: stopped: namespace shop is being deleted");
    assert!(results[2].contains("Job/alert"), "the SyncFail hook must run: {results:?}");
}

/// The message must contain the lost namespace even if a missing object was reported first.
#[test]
fn a_failed_wave_names_the_terminating_namespace() {
    let tasks = plan([hook_task(Phase::PreSync, 0, "Job/check"), resource(0, "ConfigMap/c")]);
    let mut world = world_with_terminating_namespace(tasks, request(), 400, false);
    world.configure("Job/check", |fate| fate.deleted_after = Some(500));
    assert_eq!(run_to_end(&mut world), (OperationPhase::Failed, NAMESPACE_LOST.to_owned()));
    // An unrelated failure keeps its own reason.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.configure("ConfigMap/c", |fate| fate.write.push_back(Reply::Rejected("denied".into())));
    let (_, message) = run_to_end(&mut world);
    assert_eq!(message, "one or more objects failed to apply, reason: ConfigMap shop/c: denied");
}

/// The first plan refers to the lost namespace. The next attempt may have to create the namespace and all of
/// its objects again.
#[test]
fn the_next_attempt_plans_again_after_a_namespace_is_lost() {
    let tasks = || plan([resource(0, "ConfigMap/c"), hook_task(Phase::PostSync, 0, "Job/smoke")]);
    let mut world = world_with_terminating_namespace(tasks(), request_with_retries(1), 500, true);
    world.run_until(600);
    assert!(
        world.driver().state().message().starts_with(NAMESPACE_LOST),
        "{}",
        world.driver().state().message()
    );
    world.namespaces_terminating_at.clear();
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    let plans = |world: &World| {
        world.durable.iter().filter(|event| matches!(event, OperationEvent::Planned { .. })).count()
    };
    assert_eq!(plans(&world), 2);
    let applied = |event: &&OperationEvent| {
        matches!(event, OperationEvent::Applied { task: tidegate_model::TaskId(0), .. })
    };
    assert_eq!(
        world.durable.iter().filter(applied).count(),
        2,
        "the object must be written again, to the new namespace"
    );
    // If a plan failed before its first wave, the next attempt creates a new plan.
    let mut world = World::new(tasks(), request_with_retries(1));
    world.configure("ConfigMap/c", |fate| {
        fate.check.push_back(Reply::Rejected("namespaces \"shop\" not found".into()))
    });
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    assert_eq!(plans(&world), 2);
    // If an attempt failed in a wave, the next attempt continues there with the same plan.
    let mut world = World::new(tasks(), request_with_retries(1));
    world.configure("ConfigMap/c", |fate| fate.write.push_back(Reply::Rejected("denied".into())));
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    assert_eq!(plans(&world), 1);
}

#[test]
fn nothing_is_written_into_a_namespace_that_was_lost_before() {
    let tasks = plan([resource(0, "ConfigMap/c"), hook_task(Phase::SyncFail, 0, "Job/alert")]);
    let mut world = World::new(tasks, request());
    // The dry run takes so long that the loss of the namespace is observed during the dry run.
    world.configure("ConfigMap/c", |fate| fate.check.push_back(Reply::RetryAfter(60_000)));
    let identity = Some(ObjectIdentity { uid: "1".into(), resource_version: "1".into() });
    world.schedule_input(
        1000,
        Input::NamespaceObserved(NamespaceObservation {
            name: "shop".into(),
            identity,
            is_terminating: true,
        }),
    );
    let (phase, message) = run_to_end(&mut world);
    assert_eq!((phase, world.now), (OperationPhase::Failed, 1000));
    let expected = "namespace shop is being deleted, but this operation writes objects to it";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(world.cluster.writes, [], "without any writes, the SyncFail hook must not run either");
}

/// The operation ignores namespaces that it doesn't write to, and losses during its clean-up.
#[test]
fn unused_namespaces_may_terminate() {
    let elsewhere = |task: tidegate_model::Task| task.with(|task| task.namespace = "other".into());
    let tasks = plan([elsewhere(prune_task(0, "ConfigMap/old")), resource(1, "ConfigMap/c")]);
    let mut world = World::new(tasks, request());
    world.namespaces_terminating_at.insert("other".into(), 0);
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
    // The loss of the namespace during the clean-up must not change the outcome.
    let tasks =
        plan([hook_task(Phase::Sync, 0, "Job/j").with_delete_policies(&[DeletePolicy::HookSucceeded])]);
    let mut world = world_with_terminating_namespace(tasks, request(), 1001, true);
    world.configure("Job/j", |fate| fate.end.extend([Reply::Success, Reply::RetryAfter(5000)]));
    assert_eq!(run_to_end(&mut world).0, OperationPhase::Succeeded);
}

#[test]
fn a_namespace_is_not_pruned_before_its_contents_are_applied() {
    let tasks = plan([
        prune_task(0, "Namespace/shop"),
        resource(1, "ConfigMap/c"),
        hook_task(Phase::SyncFail, 0, "Job/alert"),
    ]);
    let mut world = World::new(tasks, request_with_retries(3));
    let (phase, message) = run_to_end(&mut world);
    let expected = "namespace shop would be pruned, but this operation writes objects to it, such as ConfigMap shop/c; keep the namespace in the manifests, or \
         move the objects to another namespace";
    assert_eq!((phase, message.as_str()), (OperationPhase::Failed, expected));
    assert_eq!(world.results(), [format!("1 Namespace/shop SyncFailed -: {expected}")]);
    assert_eq!(world.cluster.writes, [], "nothing may be written");
    let mut world =
        World::new(plan([prune_task(0, "Namespace/shop"), prune_task(1, "ConfigMap/c")]), request());
    assert_eq!(
        run_to_end(&mut world).0,
        OperationPhase::Succeeded,
        "a namespace may be pruned together with all of its objects"
    );
}

#[test]
fn the_final_namespace_check_is_reported() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.disturbances.max_delay = 1;
    for millis in 0..100 {
        world.run_until(millis);
        let reason = explain(world.driver().state(), at(millis)).to_string();
        if reason.contains("checking that the wave's namespaces still exist") {
            return;
        }
    }
    panic!("the final namespace check was not reported");
}
