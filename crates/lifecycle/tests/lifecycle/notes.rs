//! What people want to know and no decision reads: why pods are not well, and the last words of failed hooks.

use tidegate_lifecycle::operation::{Input, explain, view};
use tidegate_model::{DeletePolicy, HealthStatus, Phase};

use crate::build::*;
use crate::world::{World, seen};

fn explained(world: &World) -> String {
    explain(world.driver().state(), at(world.now)).to_string()
}

fn looping() -> Input {
    let reason = "api-7f is crash-looping (exit 1, restarted 4 times)".into();
    Input::Reason { task: tidegate_model::TaskId(0), reason }
}

#[test]
fn the_reason_is_named_and_outlives_the_failure() {
    let plan = plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]).wave_timeout(0, 60);
    let mut world = World::new(plan, request());
    world.fate("Deployment/api", |fate| {
        fate.health = vec![(0, seen(HealthStatus::Progressing, "1 of 3 replicas ready"))];
    });
    world.at(5000, looping());
    // Told twice, recorded once.
    world.at(6000, looping());
    world.run_until(41_000).now = 41_000;
    assert_eq!(
        explained(&world),
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 41 s for Deployment shop/api (1 of 3 replicas ready: \
         api-7f is crash-looping (exit 1, restarted 4 times)); deadline in 19 s; next: wave 2, 1 object"
    );
    let facts = world.durable.iter().filter(|fact| format!("{fact:?}").starts_with("ReasonSeen"));
    assert_eq!(facts.count(), 1);
    world.run();
    assert_eq!(
        world.results(),
        [
            "1 Deployment/api Synced Failed: not healthy when the wave's deadline passed: 1 of 3 replicas ready: api-7f \
          is crash-looping (exit 1, restarted 4 times)"
        ]
    );
}

#[test]
fn what_is_well_again_has_no_reason() {
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.fate("Deployment/api", |fate| {
        fate.health =
            vec![(0, seen(HealthStatus::Progressing, "")), (9000, seen(HealthStatus::Healthy, "well"))];
    });
    world.at(5000, looping());
    world.run();
    let view = view(world.driver().state()).unwrap();
    assert!(view.resources.iter().all(|resource| resource.reason.is_empty()));
}

/// Kept before the hook's object goes by its policy, shown afterwards, also when a later attempt never gets that far.
#[test]
fn the_last_words_of_a_hook_are_kept() {
    let policies = [DeletePolicy::HookFailed];
    let plan = plan([hook(Phase::PreSync, 0, "Job/migrate").policies(&policies), resource(0, "ConfigMap/c")]);
    let mut world = World::new(plan, retrying(1));
    world.fate("Job/migrate", |fate| {
        fate.health = vec![(0, seen(HealthStatus::Degraded, "Job has reached the specified backoff limit"))];
        fate.log = Some("connecting\nERROR: relation \"orders\" exists\n\n".into());
    });
    world.run();
    let position = |line: &str| world.transcript.iter().position(|said| said == line).unwrap();
    assert!(position("logs Job/migrate") < position("release Job/migrate"));
    assert!(position("logs Job/migrate") < position("delete Job/migrate"));
    let logs = view(world.driver().state()).unwrap().hook_logs;
    assert_eq!(logs.len(), 1);
    assert_eq!((logs[0].name.as_str(), logs[0].pod.as_str()), ("migrate", "migrate-x"));
    assert!(
        explained(&world).contains("its log ends with \"ERROR: relation \\\"orders\\\" exists\""),
        "{}",
        explained(&world)
    );
    world.check_replay();
}
