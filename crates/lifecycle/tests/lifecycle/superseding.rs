//! Another sync is to take the place of an operation: where that may be, and that no hook is stopped for it.

use tidegate_lifecycle::operation::{Input, Scope, Stage};
use tidegate_model::{ClaimHolder, HealthStatus, OperationPhase, Override, Phase, SafePoint};

use crate::build::*;
use crate::world::{World, seen};

fn supersede(when: SafePoint) -> Input {
    let by = ClaimHolder { revision: "abc".into(), who: "ann".into(), ..ClaimHolder::default() };
    Input::Supersede { by, when }
}

/// Its hook runs for 5 s, and its Deployment never gets well.
fn slow() -> World {
    let mut world = World::new(
        plan([
            hook(Phase::PreSync, 0, "Job/migrate"),
            resource(0, "Deployment/api"),
            hook(Phase::PostSync, 0, "Job/check"),
        ]),
        request(),
    );
    let starting = || seen(HealthStatus::Progressing, "starting");
    world.fate("Job/migrate", |fate| {
        fate.health = vec![(0, starting()), (5000, seen(HealthStatus::Healthy, ""))];
    });
    world.fate("Deployment/api", |fate| fate.health = vec![(0, starting())]);
    world
}

/// How the operation has ended.
fn ended(world: &World) -> Option<(OperationPhase, String)> {
    let outcome = world.operation().outcome.as_ref()?;
    Some((outcome.phase, outcome.message.clone()))
}

const SUPERSEDED: &str = "Operation terminated, superseded by another sync of ann (revision abc)";

#[test]
fn a_running_hook_is_never_stopped_for_another_sync() {
    for asked_at in [1000, 3000, 4000] {
        let mut world = slow();
        world.at(asked_at, supersede(SafePoint::Waiting));
        world.run_until(4500);
        assert_eq!(ended(&world), None, "asked at {asked_at} ms, while the hook runs");
        assert!(matches!(world.operation().stage, Stage::Wave { index: 0, .. }));
        // The Deployment is awaited by now.
        world.at(20_000, supersede(SafePoint::Waiting));
        world.run();
        assert_eq!(ended(&world), Some((OperationPhase::Failed, SUPERSEDED.to_owned())));
        let hook = &world.results()[0];
        assert!(hook.contains("Job/migrate Synced Succeeded"), "{hook}");
    }
}

#[test]
fn a_wait_is_no_failure() {
    let mut world = slow();
    world.at(20_000, supersede(SafePoint::Failed));
    world.run_until(30_000);
    assert_eq!(ended(&world), None);
}

#[test]
fn between_two_attempts_it_ends_for_either_reason() {
    for when in [SafePoint::Failed, SafePoint::Waiting] {
        let mut world = World::new(
            plan([resource(0, "Deployment/api"), hook(Phase::PostSync, 0, "Job/check")]),
            retrying(3),
        );
        world.fate("Deployment/api", |fate| fate.degrades("crash-looping"));
        world.run_until(3000);
        let Stage::AwaitingRetry { .. } = world.operation().stage else {
            panic!("{:?}", world.operation().stage)
        };
        world.at(3500, supersede(when));
        world.run();
        assert_eq!(ended(&world), Some((OperationPhase::Failed, SUPERSEDED.to_owned())));
    }
}

#[test]
fn what_a_person_holds_stays_held() {
    let mut world = slow();
    world.at(20_000, Input::Pause { by: "ann".into(), reason: String::new() });
    world.at(21_000, supersede(SafePoint::Waiting));
    world.run_until(30_000);
    assert_eq!(ended(&world), None);
    world.at(31_000, Input::Unpause { by: "ann".into() });
    world.at(32_000, supersede(SafePoint::Waiting));
    world.run();
    assert_eq!(ended(&world), Some((OperationPhase::Failed, SUPERSEDED.to_owned())));
}

#[test]
fn a_failed_wave_lets_its_hooks_end_first() {
    let mut world =
        World::new(plan([hook(Phase::Sync, 0, "Job/migrate"), resource(0, "Deployment/api")]), retrying(3));
    world.fate("Deployment/api", |fate| fate.degrades("crash-looping"));
    world.fate("Job/migrate", |fate| {
        fate.health =
            vec![(0, seen(HealthStatus::Progressing, "starting")), (9000, seen(HealthStatus::Healthy, ""))];
    });
    world.at(4000, supersede(SafePoint::Waiting));
    world.run_until(8000);
    assert_eq!(ended(&world), None);
    world.at(9500, supersede(SafePoint::Waiting));
    world.run();
    assert_eq!(ended(&world), Some((OperationPhase::Failed, SUPERSEDED.to_owned())));
    assert!(world.results().iter().any(|one| one.contains("Job/migrate Synced Succeeded")));
}

/// Whether a hook counts as having run with its inputs.
#[test]
fn a_hook_has_run_well_when_it_succeeded_or_somebody_says_so() {
    let overridden = |what| Input::Override {
        what,
        scope: Scope::of_words(Some("Job/migrate"), None, None, None).unwrap(),
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
        let mut world = slow();
        world.fate("Deployment/api", |fate| fate.health = vec![(0, seen(HealthStatus::Healthy, ""))]);
        let said = format!("{what:?}");
        what.into_iter().for_each(|what| world.at(3000, what));
        world.run();
        let hook = world.find("Job/migrate");
        let (_, state) = world.operation().task(hook).unwrap();
        assert!(state.has_begun(), "{said}");
        assert_eq!(state.has_run_well(), has_run_well, "{said}: {state:?}");
    }
}
