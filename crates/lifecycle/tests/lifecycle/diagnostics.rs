//! Notes for users, which don't affect any decision: reasons why pods are unhealthy, and the last log lines
//! of failed hooks.

use tidegate_lifecycle::operation::{Input, explain, view};
use tidegate_model::{DeletePolicy, HealthStatus, Phase};

use crate::build::*;
use crate::world::{World, health_of};

fn explain_world(world: &World) -> String {
    explain(world.driver().state(), at(world.now)).to_string()
}

fn crash_loop_reason() -> Input {
    let reason = "api-7f is crash-looping (exit 1, restarted 4 times)".into();
    Input::Reason { task: tidegate_model::TaskId(0), reason }
}

#[test]
fn the_reason_is_shown_and_survives_the_failure() {
    let plan = plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]).with_wave_timeout(0, 60);
    let mut world = World::new(plan, request());
    world.configure("Deployment/api", |fate| {
        fate.health = vec![(0, health_of(HealthStatus::Progressing, "1 of 3 replicas ready"))];
    });
    world.schedule_input(5000, crash_loop_reason());
    // The reason is reported twice but recorded once.
    world.schedule_input(6000, crash_loop_reason());
    world.run_until(41_000).now = 41_000;
    assert_eq!(
        explain_world(&world),
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 41 s for Deployment shop/api (1 of 3 replicas ready: \
         api-7f is crash-looping (exit 1, restarted 4 times)); deadline in 19 s; next: wave 2, 1 object"
    );
    let events = world.durable.iter().filter(|event| format!("{event:?}").starts_with("ReasonChanged"));
    assert_eq!(events.count(), 1);
    world.run();
    assert_eq!(
        world.results(),
        [
            "1 Deployment/api Synced Failed: not healthy when the wave's deadline passed: 1 of 3 replicas ready: api-7f is crash-looping (exit 1, \
             restarted 4 times)"
        ]
    );
}

#[test]
fn a_recovered_object_has_no_reason() {
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.configure("Deployment/api", |fate| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "")),
            (9000, health_of(HealthStatus::Healthy, "well")),
        ];
    });
    world.schedule_input(5000, crash_loop_reason());
    world.run();
    let view = view(world.driver().state()).unwrap();
    assert!(view.resources.iter().all(|resource| resource.reason.is_empty()));
}

/// The last log lines are stored before the hook's object is deleted. They are still displayed if a later
/// attempt never reaches the hook.
#[test]
fn the_last_log_lines_of_a_hook_are_stored() {
    let policies = [DeletePolicy::HookFailed];
    let plan = plan([
        hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&policies),
        resource(0, "ConfigMap/c"),
    ]);
    let mut world = World::new(plan, request_with_retries(1));
    world.configure("Job/migrate", |fate| {
        fate.health =
            vec![(0, health_of(HealthStatus::Degraded, "Job has reached the specified backoff limit"))];
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
        explain_world(&world).contains("last log line: \"ERROR: relation \\\"orders\\\" exists\""),
        "{}",
        explain_world(&world)
    );
    world.check_replay();
}

/// Unlike Argo CD, which includes reasons only for rejected objects (specification, 5.5), the message
/// includes the reasons of all failures.
#[test]
fn the_message_of_a_failed_operation_names_objects_and_reasons() {
    let hooks = (0..12).map(|index| hook_task(Phase::PreSync, 0, &format!("Job/h{index}")));
    let mut world = World::new(plan(hooks), request());
    for index in 0..12 {
        world.configure(&format!("Job/h{index}"), |fate| {
            let message = format!("backoff limit reached ({index}): h-pod has failed (exit 3)");
            fate.health = vec![(0, health_of(HealthStatus::Degraded, &message))];
            fate.log = Some(format!("connecting\nERROR {index}\n"));
        });
    }
    world.run();
    let message = world.driver().state().message();
    assert!(
        message.starts_with("one or more synchronization tasks completed unsuccessfully, reason: "),
        "{message}"
    );
    let first = "hook Job shop/h0: backoff limit reached (0): h-pod has failed (exit 3) (last log line: \"ERROR 0\"; see `tidegate ops show` for more)";
    assert!(message.contains(first), "{message}");
    assert!(message.ends_with("; see `tidegate ops show` for more), and 2 more"), "{message}");
    assert!(message.len() < 4096, "{}", message.len());
}
