//! What goes into a namespace that goes is lost: the operation fails, and names it.

use tidegate_lifecycle::operation::{Fact, Identity, Input, NamespaceSight, explain};
use tidegate_model::{DeletePolicy, OperationPhase, Phase, Plan, SyncRequest, WaitFor};

use crate::build::*;
use crate::world::{Reply, World};

const LOST: &str = "namespace shop is being deleted, and with it all that this operation put there; sync again when it is gone";

/// The namespace begins to go at a time; whether anybody tells, or it is only found by looking.
fn going(plan: Plan, request: SyncRequest, millis: i64, tells: bool) -> World {
    let mut world = World::new(plan, request);
    world.going.insert("shop".into(), millis);
    world.tells_of_going = tells;
    world
}

fn end(world: &mut World) -> (OperationPhase, String) {
    let outcome = world.run().operation().outcome.clone().unwrap();
    world.check_replay();
    (outcome.phase, outcome.message)
}

#[test]
fn an_operation_does_not_succeed_in_a_namespace_that_goes() {
    let failed = (OperationPhase::Failed, LOST.to_owned());
    let one = || plan([resource(0, "ConfigMap/c")]);
    // Nobody tells, and the operation is over in the moment of its last write.
    assert_eq!(end(&mut going(one(), request(), 0, false)), failed);
    assert_eq!(
        end(&mut going(one(), request(), 1, false)).0,
        OperationPhase::Succeeded,
        "it began to go later"
    );
    // After the last write, while something is awaited.
    let healthy = SyncRequest { wait: WaitFor::Healthy, ..request() };
    let server = || plan([resource(0, "Deployment/api")]);
    for tells in [true, false] {
        let mut world = going(server(), healthy.clone(), 500, tells);
        assert_eq!(end(&mut world), failed);
        assert_eq!(world.now, if tells { 500 } else { 1000 }, "at once, if it is told");
    }
    let why = "1 Deployment/api Synced Failed: namespace shop is being deleted";
    let mut world = going(server(), healthy, 500, true);
    end(&mut world);
    assert_eq!(world.results(), [why]);
}

/// Nobody was there to see it go, and another one is there: what was put into the first is gone all the same.
#[test]
fn an_operation_does_not_succeed_in_another_namespace_of_the_same_name() {
    let again = "namespace shop was deleted and made again by somebody else, and what this operation put there has gone with the old one; sync again";
    let healthy = SyncRequest { wait: WaitFor::Healthy, ..request() };
    for tells in [true, false] {
        let mut world = World::new(plan([resource(0, "Deployment/api")]), healthy.clone());
        world.made_again.insert("shop".into(), 500);
        world.tells_of_going = tells;
        assert_eq!(end(&mut world), (OperationPhase::Failed, again.to_owned()));
        assert_eq!(world.now, if tells { 500 } else { 1000 }, "at once, if it is told");
    }
    // One that is not there any more was there when the plan was made, whether anything was put into it or not.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.gone.insert("shop".into(), 0);
    world.fate("ConfigMap/c", |fate| fate.write.push_back(Reply::No("namespaces \"shop\" not found".into())));
    let gone = "namespace shop was deleted, and with it all that this operation put there; sync again";
    assert_eq!(end(&mut world), (OperationPhase::Failed, gone.to_owned()));
    // Earlier programs did not say which one it was.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    (world.knows_namespaces, world.tells_of_going) = (false, false);
    world.made_again.insert("shop".into(), 0);
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    (world.knows_namespaces, world.tells_of_going) = (false, false);
    world.gone.insert("shop".into(), 0);
    assert_eq!(end(&mut world), (OperationPhase::Failed, gone.to_owned()));
}

/// A watch may show what was there before, and an operation may bring its namespace.
#[test]
fn an_old_sight_and_a_namespace_of_its_own_are_no_loss() {
    let seen = |uid: &str, version: &str, terminating| {
        let found = Some(Identity { uid: uid.into(), resource_version: version.into() });
        Input::NamespaceSeen(NamespaceSight { name: "shop".into(), found, terminating })
    };
    let smoke = || hook(Phase::PostSync, 0, "Job/smoke");
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), smoke()]), request());
    // Version 1 is known from the plan.
    world.gone.insert("shop".into(), 60_000);
    world.at(500, seen("0", "0", false));
    world.at(600, seen("0", "0", true));
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    let brings = || {
        plan([
            resource(0, "Namespace/shop").with(|task| task.namespace.clear()),
            resource(1, "ConfigMap/c"),
            smoke(),
        ])
    };
    let uid_of = |world: &World| {
        world.durable.iter().find_map(|fact| match fact {
            Fact::Applied { applied, .. } => Some(applied.clone()),
            _ => None,
        })
    };
    let mut world = World::new(brings(), request());
    world.run_until(900);
    let made = uid_of(&world).unwrap();
    world.at(950, seen(&made.uid, &made.resource_version, false));
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    let mut world = World::new(brings(), request());
    world.at(950, seen("another", "999999", false));
    let (phase, message) = end(&mut world);
    assert_eq!(phase, OperationPhase::Failed);
    assert!(message.starts_with("namespace shop was deleted and made again"), "{message}");
}

#[test]
fn hooks_in_a_namespace_that_goes_are_stopped_first() {
    let tasks = plan([
        resource(0, "ConfigMap/c"),
        hook(Phase::PostSync, 0, "Job/smoke"),
        hook(Phase::SyncFail, 0, "Job/alert"),
    ]);
    let mut world = going(tasks, request(), 500, true);
    assert_eq!(end(&mut world), (OperationPhase::Failed, LOST.to_owned()));
    let results = world.results();
    assert_eq!(results[1], "2 Job/smoke Synced Failed: stopped: namespace shop is being deleted");
    assert!(results[2].contains("Job/alert"), "what is for failures runs: {results:?}");
}

/// What vanishes with the namespace is missing first, perhaps; the namespace is the reason all the same.
#[test]
fn a_wave_that_fails_looks_for_the_reason() {
    let tasks = plan([hook(Phase::PreSync, 0, "Job/check"), resource(0, "ConfigMap/c")]);
    let mut world = going(tasks, request(), 400, false);
    world.fate("Job/check", |fate| fate.vanishes = Some(500));
    assert_eq!(end(&mut world), (OperationPhase::Failed, LOST.to_owned()));
    // A failure of another kind keeps its own.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.fate("ConfigMap/c", |fate| fate.write.push_back(Reply::No("denied".into())));
    let (_, message) = end(&mut world);
    assert_eq!(message, "one or more objects failed to apply, reason: denied");
}

/// The plan was about the namespace that was there: what is there now may have to be made, or filled, from the beginning.
#[test]
fn another_attempt_plans_anew_what_is_lost() {
    let tasks = || plan([resource(0, "ConfigMap/c"), hook(Phase::PostSync, 0, "Job/smoke")]);
    let mut world = going(tasks(), retrying(1), 500, true);
    world.run_until(600);
    assert!(world.driver().state().message().starts_with(LOST), "{}", world.driver().state().message());
    world.going.clear();
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    let plans =
        |world: &World| world.durable.iter().filter(|fact| matches!(fact, Fact::Planned { .. })).count();
    assert_eq!(plans(&world), 2);
    let applied = |fact: &&Fact| matches!(fact, Fact::Applied { task: tidegate_model::TaskId(0), .. });
    assert_eq!(
        world.durable.iter().filter(applied).count(),
        2,
        "what was put into the old one is put into the new one as well"
    );
    // Before its first wave nothing came of a plan.
    let mut world = World::new(tasks(), retrying(1));
    world.fate("ConfigMap/c", |fate| fate.check.push_back(Reply::No("namespaces \"shop\" not found".into())));
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    assert_eq!(plans(&world), 2);
    // What fails in a wave goes on there, with the plan it has.
    let mut world = World::new(tasks(), retrying(1));
    world.fate("ConfigMap/c", |fate| fate.write.push_back(Reply::No("denied".into())));
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    assert_eq!(plans(&world), 1);
}

#[test]
fn nothing_is_written_into_a_namespace_that_went_before() {
    let tasks = plan([resource(0, "ConfigMap/c"), hook(Phase::SyncFail, 0, "Job/alert")]);
    let mut world = World::new(tasks, request());
    // As whoever has planned tells it; the dry run is on its way.
    world.fate("ConfigMap/c", |fate| fate.check.push_back(Reply::Later(60_000)));
    let found = Some(Identity { uid: "1".into(), resource_version: "1".into() });
    world.at(1000, Input::NamespaceSeen(NamespaceSight { name: "shop".into(), found, terminating: true }));
    let (phase, message) = end(&mut world);
    assert_eq!((phase, world.now), (OperationPhase::Failed, 1000));
    let expected = "namespace shop is being deleted, and objects of this operation go into it";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(world.cluster.audit, [], "nothing to see to for the SyncFail hook either");
}

/// Only what is written into counts, and only as long as something can still be done about it.
#[test]
fn other_namespaces_may_go() {
    let elsewhere = |task: tidegate_model::Task| task.with(|task| task.namespace = "other".into());
    let tasks = plan([elsewhere(prune(0, "ConfigMap/old")), resource(1, "ConfigMap/c")]);
    let mut world = World::new(tasks, request());
    world.going.insert("other".into(), 0);
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
    // It is over: hooks are cleaned up, whatever becomes of the namespace.
    let tasks = plan([hook(Phase::Sync, 0, "Job/j").policies(&[DeletePolicy::HookSucceeded])]);
    let mut world = going(tasks, request(), 1001, true);
    world.fate("Job/j", |fate| fate.end.extend([Reply::Fine, Reply::Later(5000)]));
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded);
}

#[test]
fn a_namespace_is_not_pruned_from_under_what_goes_into_it() {
    let tasks =
        plan([prune(0, "Namespace/shop"), resource(1, "ConfigMap/c"), hook(Phase::SyncFail, 0, "Job/alert")]);
    let mut world = World::new(tasks, retrying(3));
    let (phase, message) = end(&mut world);
    let expected = "namespace shop is to be pruned, and objects of this operation go into it, such as ConfigMap shop/c; \
                    keep it among the manifests, or move them to another namespace";
    assert_eq!((phase, message.as_str()), (OperationPhase::Failed, expected));
    assert_eq!(world.results(), [format!("1 Namespace/shop SyncFailed -: {expected}")]);
    assert_eq!(world.cluster.audit, [], "nothing was written");
    let mut world = World::new(plan([prune(0, "Namespace/shop"), prune(1, "ConfigMap/c")]), request());
    assert_eq!(end(&mut world).0, OperationPhase::Succeeded, "with all that is in it, it may go");
}

#[test]
fn what_is_looked_at_last_is_told() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.weather.slow = 1;
    for millis in 0..100 {
        world.run_until(millis);
        let why = explain(world.driver().state(), at(millis)).to_string();
        if why.contains("looking whether its namespaces are still there") {
            return;
        }
    }
    panic!("it never looked");
}
