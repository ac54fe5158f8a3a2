//! A cluster that does not answer: the operation waits for it, says so, and fails only by a deadline.

use tidegate_lifecycle::operation::{Fact, Input, explain};
use tidegate_model::{DeletePolicy, HealthStatus, OperationPhase, Phase, SyncRequest};

use crate::build::*;
use crate::world::{Reply, World, seen};

fn away(times: usize) -> impl Iterator<Item = Reply> {
    std::iter::repeat_n(Reply::Away, times)
}

fn explained(world: &World, millis: i64) -> String {
    explain(world.driver().state(), at(millis)).to_string()
}

fn outcome(world: &World) -> (OperationPhase, String) {
    let outcome = world.operation().outcome.clone().unwrap();
    (outcome.phase, outcome.message)
}

#[test]
fn an_outage_is_survived_and_named() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), resource(1, "ConfigMap/d")]), request());
    world.planning(away(30));
    world.fate("ConfigMap/c", |fate| {
        fate.check.extend(away(30));
        fate.write.extend(away(30));
    });
    world.run_until(60_000);
    assert_eq!(
        explained(&world, 60_000),
        "planning; the cluster has not answered for 1 min: connection refused; trying again"
    );
    world.run_until(200_000);
    assert_eq!(
        explained(&world, 200_000),
        "dry run: 1 of 2 manifests tried; the cluster has not answered for 1 min 8 s: connection refused; trying \
         again; next: wave 1, 1 object"
    );
    world.run();
    assert_eq!(outcome(&world), (OperationPhase::Succeeded, "successfully synced (all tasks run)".into()));
    assert!(world.operation().header.outage.is_none());
    // Three outages of 30 calls, and one fact for each call that was tried.
    let failed = world.durable.iter().filter(|fact| matches!(fact, Fact::CallFailed { outage: true, .. }));
    assert_eq!(failed.count(), 90);
}

/// Many calls meet the same outage; only one of them is made again until the cluster is back.
#[test]
fn one_call_looks_whether_the_cluster_is_back() {
    let tasks = (0..50).map(|n| resource(0, &format!("ConfigMap/c{n:02}")));
    let mut world = World::new(plan(tasks.collect::<Vec<_>>()), request());
    world.fate("ConfigMap/c00", |fate| fate.write.extend(away(20)));
    for n in 1..50 {
        world.fate(&format!("ConfigMap/c{n:02}"), |fate| fate.write.extend(away(1)));
    }
    world.run();
    assert_eq!(outcome(&world).0, OperationPhase::Succeeded);
    let applies =
        |name: &str| world.transcript.iter().filter(|line| *line == &format!("apply {name}")).count();
    assert_eq!((applies("ConfigMap/c00"), applies("ConfigMap/c01"), applies("ConfigMap/c49")), (21, 2, 2));
}

#[test]
fn deadlines_pass_while_the_cluster_is_away() {
    // The operation's: it ends, though nothing can be stopped.
    let request = SyncRequest { deadline: Some(seconds(120)), ..request() };
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/slow")]), request.clone());
    world.fate("Job/slow", |fate| {
        fate.health = vec![(0, seen(HealthStatus::Progressing, "starting"))];
        fate.end.extend(away(1000));
    });
    world.run();
    assert_eq!(outcome(&world), (OperationPhase::Error, "Operation termination had errors".into()));
    assert!((120_000..200_000).contains(&world.now), "{}", world.now);
    // The wave's.
    let mut world =
        World::new(plan([resource(0, "ConfigMap/c")]).wave_timeout(0, 30), crate::build::request());
    world.fate("ConfigMap/c", |fate| fate.write.extend(away(1000)));
    world.run();
    assert_eq!(
        outcome(&world),
        (
            OperationPhase::Failed,
            "wave 0 of Sync did not pass within 30 s: one or more tasks are running".into()
        )
    );
    // While planning.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request);
    world.planning(away(1000));
    world.run();
    assert_eq!(outcome(&world).0, OperationPhase::Failed);
    assert_eq!(world.now, 120_000);
}

/// What is cleaned up at the end waits for the cluster as well, but not for one that is gone for good.
#[test]
fn cleaning_up_has_patience_and_an_end() {
    let policies = [DeletePolicy::HookSucceeded];
    let run = |times| {
        let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/h").policies(&policies)]), request());
        world.fate("Job/h", |fate| {
            fate.end.push_back(Reply::Fine);
            fate.end.extend(away(times));
        });
        world.run();
        (outcome(&world).0, world.results(), world.now)
    };
    let (phase, results, _) = run(60);
    assert_eq!(
        (phase, results[0].as_str()),
        (OperationPhase::Succeeded, "1 Job/h Synced Succeeded: starting")
    );
    let (phase, results, now) = run(100_000);
    let expected = "1 Job/h Synced Error: failed to delete resource: connection refused";
    assert_eq!((phase, results[0].as_str()), (OperationPhase::Succeeded, expected));
    assert!((600_000..900_000).contains(&now), "{now}");
}

#[test]
fn watches_that_fail_are_named_while_somebody_watches() {
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.fate("Deployment/api", |fate| {
        fate.health = vec![
            (0, seen(HealthStatus::Progressing, "0 of 3")),
            (60_000, seen(HealthStatus::Healthy, "3 of 3")),
        ];
    });
    // It is told when the first call has hung for a while.
    let hung = Input::Watching { trouble: Some("connection refused".into()), since: at(4000) };
    world.at(10_000, hung);
    world.at(40_000, Input::Watching { trouble: None, since: at(40_000) });
    world.run_until(22_000);
    assert_eq!(
        explained(&world, 22_000),
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 22 s for Deployment shop/api (0 of 3); changes in the \
         cluster have not been seen for 18 s: connection refused; trying again; next: wave 2, 1 object"
    );
    world.run_until(41_000);
    assert!(!explained(&world, 41_000).contains("changes"), "{}", explained(&world, 41_000));
    world.run();
    assert_eq!(outcome(&world).0, OperationPhase::Succeeded);
}

/// What hangs behind the cluster makes each call long, so few are made; then the attempt has failed.
#[test]
fn a_call_that_stalls_is_made_three_times() {
    for (reply, times) in [(Reply::Stalled, 3), (Reply::Busy, 10)] {
        let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
        world.fate("ConfigMap/c", |fate| fate.write.extend(std::iter::repeat_n(reply.clone(), 100)));
        world.run();
        assert_eq!(outcome(&world).0, OperationPhase::Failed, "{reply:?}");
        let applies = world.transcript.iter().filter(|line| *line == "apply ConfigMap/c").count();
        assert_eq!(applies, times, "{reply:?}");
    }
}
