//! Another sync is to take the place of an operation: where that may be, and that no hook is stopped for it.

use tidegate_lifecycle::operation::{Input, Scope, Stage, State, decide, evolve};
use tidegate_model::{
    ClaimHolder, DeletePolicy, HealthStatus, OperationPhase, Override, Phase, Plan, SafePoint,
};

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

/// The last hook, and nothing behind it.
fn with_a_last_hook() -> World {
    let mut world =
        World::new(plan([resource(0, "Deployment/api"), hook(Phase::PostSync, 0, "Job/check")]), request());
    world.fate("Job/check", |fate| {
        fate.health =
            vec![(0, seen(HealthStatus::Progressing, "starting")), (5000, seen(HealthStatus::Healthy, ""))];
    });
    world
}

/// What takes its place would run the hook once more. Here it is asked between any two facts, as they may lie in the log.
#[test]
fn what_waits_for_nothing_any_more_ends_by_itself() {
    let mut world = with_a_last_hook();
    world.run();
    assert_eq!(ended(&world).unwrap().0, OperationPhase::Succeeded);
    let check = world.find("Job/check");
    let mut state = State::New;
    let mut refused = 0;
    for fact in &world.durable {
        state = evolve(state, fact).unwrap();
        let has_begun = state.operation().is_some_and(|one| one.task(check).unwrap().1.applied.is_some());
        if has_begun {
            let answer = decide(&state, &supersede(SafePoint::Waiting), at(20_000));
            assert!(answer.is_err(), "after {fact:?}: {answer:?}");
            refused += 1;
        }
    }
    assert!(refused > 5, "it was asked while the hook ran, after its end, and on the way to the end");
}

/// Whoever takes its place finds no Job of that name that has ended already.
#[test]
fn its_hooks_are_deleted_by_their_policies_each_by_how_it_has_ended() {
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    let with = |policies: &[DeletePolicy]| -> Plan {
        plan([
            hook(Phase::PreSync, 0, "Job/migrate").policies(policies),
            resource(0, "Deployment/api"),
            hook(Phase::PostSync, 0, "Job/check").policies(&[HookSucceeded]),
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
            world.fate("Deployment/api", |fate| {
                fate.health = vec![(0, seen(HealthStatus::Progressing, "starting"))];
            });
            let end = if superseded {
                supersede(SafePoint::Waiting)
            } else {
                Input::Terminate { by: "ann".into() }
            };
            world.at(20_000, end);
            world.run();
            let (phase, message) = ended(&world).unwrap();
            assert_eq!((phase, message == SUPERSEDED), (OperationPhase::Failed, superseded));
            let deleted = |hook| world.operation().task(world.find(hook)).unwrap().1.deleted;
            assert_eq!(
                deleted("Job/migrate"),
                superseded && is_deleted,
                "{policies:?}, superseded {superseded}"
            );
            assert!(!deleted("Job/check"), "it never ran");
        }
    }
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
