//! Superseding an operation by another sync: when that is possible, and the guarantee that no hook is
//! stopped.

use tidegate_lifecycle::operation::{Input, Scope, Stage, State, apply, decide};
use tidegate_model::{
    ClaimHolder, DeletePolicy, HealthStatus, OperationPhase, Override, Phase, Plan, SafePoint,
};

use crate::build::*;
use crate::world::{World, health_of};

fn supersede_input(when: SafePoint) -> Input {
    let by = ClaimHolder { revision: "abc".into(), who: "ann".into(), ..ClaimHolder::default() };
    Input::Supersede { by, when }
}

/// Returns a world whose hook runs for 5 s, and whose Deployment never becomes healthy.
fn slow_world() -> World {
    let mut world = World::new(
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate"),
            resource(0, "Deployment/api"),
            hook_task(Phase::PostSync, 0, "Job/check"),
        ]),
        request(),
    );
    let starting = || health_of(HealthStatus::Progressing, "starting");
    world.configure("Job/migrate", |fate| {
        fate.health = vec![(0, starting()), (5000, health_of(HealthStatus::Healthy, ""))];
    });
    world.configure("Deployment/api", |fate| fate.health = vec![(0, starting())]);
    world
}

fn outcome_of(world: &World) -> Option<(OperationPhase, String)> {
    let outcome = world.operation().outcome.as_ref()?;
    Some((outcome.phase, outcome.message.clone()))
}

const SUPERSEDED_MESSAGE: &str = "Operation terminated, superseded by another sync of ann (revision abc)";

#[test]
fn a_running_hook_is_never_stopped_by_superseding() {
    for asked_at in [1000, 3000, 4000] {
        let mut world = slow_world();
        world.schedule_input(asked_at, supersede_input(SafePoint::Waiting));
        world.run_until(4500);
        assert_eq!(
            outcome_of(&world),
            None,
            "the hook was running at {asked_at} ms, when the request arrived"
        );
        assert!(matches!(world.operation().stage, Stage::Wave { index: 0, .. }));
        // At 20 s, the hook has ended, and the operation is waiting for the Deployment.
        world.schedule_input(20_000, supersede_input(SafePoint::Waiting));
        world.run();
        assert_eq!(outcome_of(&world), Some((OperationPhase::Failed, SUPERSEDED_MESSAGE.to_owned())));
        let hook = &world.results()[0];
        assert!(hook.contains("Job/migrate Synced Succeeded"), "{hook}");
    }
}

#[test]
fn a_waiting_operation_can_be_superseded_without_a_failure() {
    let mut world = slow_world();
    world.schedule_input(20_000, supersede_input(SafePoint::Failed));
    world.run_until(30_000);
    assert_eq!(outcome_of(&world), None);
}

#[test]
fn an_operation_between_attempts_can_be_superseded() {
    for when in [SafePoint::Failed, SafePoint::Waiting] {
        let mut world = World::new(
            plan([resource(0, "Deployment/api"), hook_task(Phase::PostSync, 0, "Job/check")]),
            request_with_retries(3),
        );
        world.configure("Deployment/api", |fate| fate.degrade("crash-looping"));
        world.run_until(3000);
        let Stage::AwaitingRetry { .. } = world.operation().stage else {
            panic!("{:?}", world.operation().stage)
        };
        world.schedule_input(3500, supersede_input(when));
        world.run();
        assert_eq!(outcome_of(&world), Some((OperationPhase::Failed, SUPERSEDED_MESSAGE.to_owned())));
    }
}

#[test]
fn a_paused_operation_cannot_be_superseded() {
    let mut world = slow_world();
    world.schedule_input(20_000, Input::Pause { by: "ann".into(), reason: String::new() });
    world.schedule_input(21_000, supersede_input(SafePoint::Waiting));
    world.run_until(30_000);
    assert_eq!(outcome_of(&world), None);
    world.schedule_input(31_000, Input::Unpause { by: "ann".into() });
    world.schedule_input(32_000, supersede_input(SafePoint::Waiting));
    world.run();
    assert_eq!(outcome_of(&world), Some((OperationPhase::Failed, SUPERSEDED_MESSAGE.to_owned())));
}

#[test]
fn hooks_of_a_failed_wave_end_before_it_is_superseded() {
    let mut world = World::new(
        plan([hook_task(Phase::Sync, 0, "Job/migrate"), resource(0, "Deployment/api")]),
        request_with_retries(3),
    );
    world.configure("Deployment/api", |fate| fate.degrade("crash-looping"));
    world.configure("Job/migrate", |fate| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "starting")),
            (9000, health_of(HealthStatus::Healthy, "")),
        ];
    });
    world.schedule_input(4000, supersede_input(SafePoint::Waiting));
    world.run_until(8000);
    assert_eq!(outcome_of(&world), None);
    world.schedule_input(9500, supersede_input(SafePoint::Waiting));
    world.run();
    assert_eq!(outcome_of(&world), Some((OperationPhase::Failed, SUPERSEDED_MESSAGE.to_owned())));
    assert!(world.results().iter().any(|one| one.contains("Job/migrate Synced Succeeded")));
}

/// Returns a world whose last task is a hook.
fn world_with_final_hook() -> World {
    let mut world = World::new(
        plan([resource(0, "Deployment/api"), hook_task(Phase::PostSync, 0, "Job/check")]),
        request(),
    );
    world.configure("Job/check", |fate| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "starting")),
            (5000, health_of(HealthStatus::Healthy, "")),
        ];
    });
    world
}

/// The superseding operation would run the hook again, so the request must be rejected. In this test, the
/// request arrives between any two events.
#[test]
fn an_operation_that_awaits_nothing_ends_without_being_superseded() {
    let mut world = world_with_final_hook();
    world.run();
    assert_eq!(outcome_of(&world).unwrap().0, OperationPhase::Succeeded);
    let check = world.task_id("Job/check");
    let mut state = State::New;
    let mut refused = 0;
    for event in &world.durable {
        state = apply(state, event).unwrap();
        let has_begun = state.operation().is_some_and(|one| one.task(check).unwrap().1.applied.is_some());
        if has_begun {
            let answer = decide(&state, &supersede_input(SafePoint::Waiting), at(20_000));
            assert!(answer.is_err(), "after {event:?}: {answer:?}");
            refused += 1;
        }
    }
    assert!(refused > 5, "there must be states in which the hook runs, has ended, and is cleaned up");
}

/// If a policy deletes the hook, the superseding operation must not find its Job.
#[test]
fn hooks_of_a_superseded_operation_follow_their_delete_policies() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    let with = |policies: &[DeletePolicy]| -> Plan {
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(policies),
            resource(0, "Deployment/api"),
            hook_task(Phase::PostSync, 0, "Job/check").with_delete_policies(&[HookSucceeded]),
        ])
    };
    for (policies, is_deleted) in [
        (&[BeforeHookCreation][..], false),
        (&[HookSucceeded], true),
        (&[HookFailed], false),
        (&[HookSucceeded, HookFailed], true),
    ] {
        for superseded in [true, false] {
            let mut world = World::new(with(policies), request());
            world.configure("Deployment/api", |fate| {
                fate.health = vec![(0, health_of(HealthStatus::Progressing, "starting"))];
            });
            let end = if superseded {
                supersede_input(SafePoint::Waiting)
            } else {
                Input::Terminate { by: "ann".into() }
            };
            world.schedule_input(20_000, end);
            world.run();
            let (phase, message) = outcome_of(&world).unwrap();
            assert_eq!((phase, message == SUPERSEDED_MESSAGE), (OperationPhase::Failed, superseded));
            let deleted = |hook| world.operation().task(world.task_id(hook)).unwrap().1.deleted;
            assert_eq!(
                deleted("Job/migrate"),
                superseded && is_deleted,
                "{policies:?}, superseded {superseded}"
            );
            assert!(!deleted("Job/check"), "a hook that never ran must not be deleted");
        }
    }
}

/// A hook counts as having run only if it succeeded or a user marked it as done.
#[test]
fn a_hook_ran_if_it_succeeded_or_was_marked_as_done() {
    let overridden = |what| Input::Override {
        what,
        scope: Scope::parse(Some("Job/migrate"), None, None, None).unwrap(),
        by: "ann".into(),
        reason: "why".into(),
    };
    let terminated = || Input::Terminate { by: "ann".into() };
    for (what, has_run_well) in [
        (None, true),
        (Some(overridden(Override::MarkDone)), true),
        (Some(overridden(Override::Skip)), false),
        (Some(terminated()), false),
    ] {
        let mut world = slow_world();
        world.configure("Deployment/api", |fate| {
            fate.health = vec![(0, health_of(HealthStatus::Healthy, ""))]
        });
        let said = format!("{what:?}");
        what.into_iter().for_each(|what| world.schedule_input(3000, what));
        world.run();
        let hook = world.task_id("Job/migrate");
        let (_, state) = world.operation().task(hook).unwrap();
        assert!(state.has_started(), "{said}");
        assert_eq!(state.has_succeeded(), has_run_well, "{said}: {state:?}");
    }
}
