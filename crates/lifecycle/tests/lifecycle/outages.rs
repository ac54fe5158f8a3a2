//! Cluster outages: the operation waits, reports the outage, and fails only because of a deadline.

use tidegate_lifecycle::operation::{Input, OperationEvent, explain};
use tidegate_model::{DeletePolicy, HealthStatus, OperationPhase, Phase, SyncRequest};

use crate::build::*;
use crate::world::{Reply, World, health_of};

fn unreachable_replies(times: usize) -> impl Iterator<Item = Reply> {
    std::iter::repeat_n(Reply::Unreachable, times)
}

fn explain_at(world: &World, millis: i64) -> String {
    explain(world.driver().state(), at(millis)).to_string()
}

fn outcome_of(world: &World) -> (OperationPhase, String) {
    let outcome = world.operation().outcome.clone().unwrap();
    (outcome.phase, outcome.message)
}

#[test]
fn an_outage_is_survived_and_reported() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), resource(1, "ConfigMap/d")]), request());
    world.set_plan_replies(unreachable_replies(30));
    world.configure("ConfigMap/c", |fate| {
        fate.check.extend(unreachable_replies(30));
        fate.write.extend(unreachable_replies(30));
    });
    world.run_until(60_000);
    assert_eq!(
        explain_at(&world, 60_000),
        "planning; the cluster has not responded for 1 min: connection refused; trying again"
    );
    world.run_until(200_000);
    assert_eq!(
        explain_at(&world, 200_000),
        "dry run: 1 of 2 manifests checked; the cluster has not responded for 1 min 8 s: connection refused; \
         trying again; next: wave 1, 1 object"
    );
    world.run();
    assert_eq!(outcome_of(&world), (OperationPhase::Succeeded, "successfully synced (all tasks run)".into()));
    assert!(world.operation().header.outage.is_none());
    // Three outages with 30 failed calls each. Each failed call is recorded once.
    let failed =
        world.durable.iter().filter(|event| matches!(event, OperationEvent::CallFailed { outage: true, .. }));
    assert_eq!(failed.count(), 90);
}

/// Many calls fail because of the same outage, but only one call is repeated until the cluster responds
/// again.
#[test]
fn a_single_call_probes_an_unreachable_cluster() {
    let tasks = (0..50).map(|n| resource(0, &format!("ConfigMap/c{n:02}")));
    let mut world = World::new(plan(tasks.collect::<Vec<_>>()), request());
    world.configure("ConfigMap/c00", |fate| fate.write.extend(unreachable_replies(20)));
    for n in 1..50 {
        world.configure(&format!("ConfigMap/c{n:02}"), |fate| fate.write.extend(unreachable_replies(1)));
    }
    world.run();
    assert_eq!(outcome_of(&world).0, OperationPhase::Succeeded);
    let applies =
        |name: &str| world.transcript.iter().filter(|line| *line == &format!("apply {name}")).count();
    assert_eq!((applies("ConfigMap/c00"), applies("ConfigMap/c01"), applies("ConfigMap/c49")), (21, 2, 2));
}

#[test]
fn deadlines_expire_during_an_outage() {
    // After the operation's deadline, the operation ends although its hook can't be stopped.
    let request = SyncRequest { deadline: Some(seconds(120)), ..request() };
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/slow")]), request.clone());
    world.configure("Job/slow", |fate| {
        fate.health = vec![(0, health_of(HealthStatus::Progressing, "starting"))];
        fate.end.extend(unreachable_replies(1000));
    });
    world.run();
    assert_eq!(outcome_of(&world), (OperationPhase::Error, "Operation termination had errors".into()));
    assert!((120_000..200_000).contains(&world.now), "{}", world.now);
    // After the wave's deadline, the attempt fails.
    let mut world =
        World::new(plan([resource(0, "ConfigMap/c")]).with_wave_timeout(0, 30), crate::build::request());
    world.configure("ConfigMap/c", |fate| fate.write.extend(unreachable_replies(1000)));
    world.run();
    assert_eq!(
        outcome_of(&world),
        (
            OperationPhase::Failed,
            "wave 0 of Sync did not complete within 30 s: one or more tasks are running".into()
        )
    );
    // After the operation's deadline, the operation ends even if it is still planning.
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request);
    world.set_plan_replies(unreachable_replies(1000));
    world.run();
    assert_eq!(outcome_of(&world).0, OperationPhase::Failed);
    assert_eq!(world.now, 120_000);
}

/// The clean-up also waits for the cluster, but gives up if the cluster doesn't come back.
#[test]
fn cleanup_waits_for_the_cluster_but_not_forever() {
    let policies = [DeletePolicy::HookSucceeded];
    let run = |times| {
        let mut world =
            World::new(plan([hook_task(Phase::Sync, 0, "Job/h").with_delete_policies(&policies)]), request());
        world.configure("Job/h", |fate| {
            fate.end.push_back(Reply::Success);
            fate.end.extend(unreachable_replies(times));
        });
        world.run();
        (outcome_of(&world).0, world.results(), world.now)
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
fn failing_watches_are_reported_while_they_are_needed() {
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.configure("Deployment/api", |fate| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "0 of 3")),
            (60_000, health_of(HealthStatus::Healthy, "3 of 3")),
        ];
    });
    // The outage is reported after the first call has hung for some time.
    let hung = Input::WatchStatus { trouble: Some("connection refused".into()), since: at(4000) };
    world.schedule_input(10_000, hung);
    world.schedule_input(40_000, Input::WatchStatus { trouble: None, since: at(40_000) });
    world.run_until(22_000);
    assert_eq!(
        explain_at(&world, 22_000),
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 22 s for Deployment shop/api (0 of 3); watches of the cluster have been failing for 18 \
         s: connection refused; trying again; next: wave 2, 1 object"
    );
    world.run_until(41_000);
    assert!(!explain_at(&world, 41_000).contains("changes"), "{}", explain_at(&world, 41_000));
    world.run();
    assert_eq!(outcome_of(&world).0, OperationPhase::Succeeded);
}

/// Each call to a stalled backend takes a long time, so the attempt fails after only a few calls.
#[test]
fn a_stalled_call_is_tried_three_times() {
    for (reply, times) in [(Reply::Stalled, 3), (Reply::Busy, 10)] {
        let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
        world.configure("ConfigMap/c", |fate| fate.write.extend(std::iter::repeat_n(reply.clone(), 100)));
        world.run();
        assert_eq!(outcome_of(&world).0, OperationPhase::Failed, "{reply:?}");
        let applies = world.transcript.iter().filter(|line| *line == "apply ConfigMap/c").count();
        assert_eq!(applies, times, "{reply:?}");
    }
}
