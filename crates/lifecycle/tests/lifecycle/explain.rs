//! Why an operation is where it is, in one sentence, at every stage.

use tidegate_lifecycle::operation::{Input, OperationView, Verdict, explain, view};
use tidegate_model::{
    Action, DeletePolicy, HealthStatus, OperationPhase, Phase, SyncOptions, SyncRequest, Task,
};

use crate::build::*;
use crate::world::{Proof, Reply, World, seen};

/// The sentence after so many milliseconds.
fn after(mut world: World, millis: i64, expected: &str) {
    world.run_until(millis);
    world.now = world.now.max(millis);
    assert_eq!(explain(world.driver().state(), at(millis)).to_string(), expected);
}

fn shop() -> Vec<Task> {
    let mut tasks = vec![resource(0, "ConfigMap/first")];
    tasks.extend((0..3).map(|n| resource(1, &format!("ConfigMap/c{n}"))));
    tasks.extend((0..11).map(|n| resource(1, &format!("Deployment/d{n:02}"))));
    tasks.extend((0..6).map(|n| resource(2, &format!("ConfigMap/e{n}"))));
    tasks.extend([resource(3, "ConfigMap/x"), hook(Phase::PostSync, 0, "Job/smoke")]);
    tasks.push(hook(Phase::SyncFail, 0, "Job/alert"));
    tasks
}

#[test]
fn as_a_person_would_say_it() {
    let request = SyncRequest { deadline: Some(seconds(300)), ..request() };
    let mut world = World::new(plan(shop()), request);
    for n in 0..11 {
        world.fate(&format!("Deployment/d{n:02}"), |fate| {
            let crash = "1 of 3 replicas ready: api-7f is crash-looping";
            fate.health = vec![(0, seen(HealthStatus::Progressing, crash))];
        });
    }
    after(
        world,
        41_000,
        "wave 2 of 5 (Sync, wave 1): 3 of 14 healthy, waiting 41 s for Deployment shop/d00 (1 of 3 replicas \
         ready: api-7f is crash-looping); deadline in 4 min 19 s; next: wave 3, 6 objects",
    );
}

/// What stands in the way of a hook that was about to be created is named.
#[test]
fn a_place_that_was_lost_is_explained() {
    let lost = || {
        let mut world =
            World::new(plan([resource(0, "ConfigMap/c"), hook(Phase::Sync, 0, "Job/h")]), request());
        world.fate("Job/h", |fate| {
            fate.rivals = [5000].into();
            fate.lingers = 700;
        });
        world
    };
    after(
        lost(),
        2000,
        "wave 1 of 1 (Sync, wave 0): 1 of 2 applied, waiting 2 s for hook Job shop/h (operation another runs it; it is \
         left alone until it has ended)",
    );
    after(
        lost(),
        5200,
        "wave 1 of 1 (Sync, wave 0): 1 of 2 applied, waiting 5 s for hook Job shop/h (deletion requested)",
    );
}

/// Whoever works on an operation ends what is too late, so somebody looks at one that was left.
#[test]
fn a_deadline_that_has_passed_is_no_longer_ahead() {
    let request = SyncRequest { deadline: Some(seconds(60)), ..request() };
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request);
    world.fate("Deployment/api", |fate| fate.health.truncate(1));
    world.run_until(30_000);
    let told = |millis| {
        let explained = explain(world.driver().state(), at(millis));
        let (left, passed) = (explained.deadline_in_seconds, explained.deadline_passed_seconds);
        (left, passed, explained.to_string())
    };
    let (left, passed, sentence) = told(59_000);
    assert_eq!((left, passed), (Some(1), None));
    assert!(sentence.contains("; deadline in 1 s;"), "{sentence}");
    let (left, passed, sentence) = told(100_000);
    assert_eq!((left, passed), (Some(0), Some(40)));
    assert!(sentence.contains("; its deadline passed 40 s ago;"), "{sentence}");
}

/// An object that is left where it is can be neither healthy nor awaited.
#[test]
fn skipped_prunes_are_not_counted_as_healthy() {
    let left = prune(0, "Deployment/old").acting(Action::PruneSkipped);
    let others = [resource(0, "Deployment/api"), resource(0, "ConfigMap/c"), resource(1, "ConfigMap/d")];
    let mut world = World::new(plan([left].into_iter().chain(others)), request());
    world.fate("Deployment/api", |fate| {
        fate.health = vec![(0, seen(HealthStatus::Progressing, "0 of 3 replicas ready"))];
    });
    after(
        world,
        9000,
        "wave 1 of 2 (Sync, wave 0): 1 of 2 healthy, waiting 9 s for Deployment shop/api (0 of 3 replicas ready); \
         next: wave 2, 1 object",
    );
}

#[test]
fn before_the_waves() {
    assert_eq!(explain(&tidegate_lifecycle::operation::State::New, at(0)).to_string(), "not started");
    let mut world = World::new(plan(shop()), request());
    world.planning([Reply::Fine]);
    world.weather.slow = 10_000;
    world.weather.dice = crate::world::Dice(3);
    after(world, 0, "planning");

    let mut world = World::new(plan(shop()), SyncRequest { deadline: Some(seconds(60)), ..request() });
    world.planning([Reply::Busy, Reply::Later(20_000)]);
    after(
        world,
        10_000,
        "planning: waiting 10 s for the simulated cluster (2 calls failed, the last: too many requests); \
         deadline in 50 s",
    );

    let mut world = World::new(plan(shop()), request());
    world.fate("ConfigMap/first", |fate| fate.check.push_back(Reply::Later(60_000)));
    after(
        world,
        5000,
        "dry run: 23 of 24 manifests tried, waiting 5 s for ConfigMap shop/first (a call failed: too \
         many requests); next: wave 1, 1 object",
    );
}

/// One confirmation is for all that an operation prunes: whoever gives it is told of later waves as well.
#[test]
fn what_one_confirmation_permits_is_named() {
    let tasks = [
        prune(0, "Deployment/old").confirm(),
        prune(1, "ConfigMap/older").confirm(),
        prune(1, "ConfigMap/x"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.run_until(1000);
    let state = world.driver().state();
    let told = explain(state, at(1000));
    let all: Vec<String> = told.awaited.iter().map(|one| format!("{}: {}", one.what, one.why)).collect();
    let own = format!("its pruning needs confirmation: `tidegate ops confirm {}`", id());
    assert_eq!(
        all,
        [
            format!("Deployment shop/old: {own}"),
            "ConfigMap shop/older: pruned in wave 2 by the same confirmation".to_owned()
        ]
    );
    assert_eq!(state.message(), "waiting for pruning confirmation of apps/Deployment/old");
}

#[test]
fn steps_of_a_wave() {
    let two = |task: Task| plan([task, resource(1, "ConfigMap/c")]);
    let mut world = World::new(two(resource(0, "ConfigMap/a")).gated(0, "night"), request());
    let closed = Verdict::Closed { reason: "it is day".into(), ask_again_after: seconds(600) };
    world.gates.insert("night".into(), [closed].into());
    after(
        world,
        90_000,
        "wave 1 of 2 (Sync, wave 0): held, waiting 1 min 30 s for gate night (it is day); next: wave 2, 1 object",
    );

    let world = World::new(two(prune(0, "Deployment/old").confirm()).wave_timeout(0, 60), request());
    after(
        world,
        20_000,
        &format!(
            "wave 1 of 2 (Sync, wave 0): held, waiting 20 s for Deployment shop/old (its pruning needs confirmation: \
             `tidegate ops confirm {}`); deadline in 40 s; next: wave 2, 1 object",
            id()
        ),
    );

    let mut world = World::new(two(prune(0, "Deployment/old")), request());
    world.fate("Deployment/old", |fate| fate.write.push_back(Reply::Later(60_000)));
    after(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): pruning, waiting 3 s for Deployment shop/old (a call failed: too many \
         requests); next: wave 2, 1 object",
    );

    let mut world = World::new(
        plan([resource(0, "ConfigMap/a"), resource(1, "ConfigMap/b"), prune(1, "Job/x"), prune(1, "Job/y")]),
        request(),
    );
    world.fate("ConfigMap/a", |fate| fate.write.push_back(Reply::Later(60_000)));
    after(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): 0 of 1 applied, waiting 3 s for ConfigMap shop/a (a call failed: too many \
         requests); next: wave 2, 3 objects (2 to prune)",
    );

    let mut world = World::new(two(prune(0, "Deployment/old")), request());
    world.fate("Deployment/old", |fate| fate.lingers = i64::MAX);
    after(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): 1 object being deleted, waiting 3 s for Deployment shop/old (deletion requested); \
         next: wave 2, 1 object",
    );

    let mut world = World::new(
        plan([resource(0, "CustomResourceDefinition/w"), resource(0, "Widget/w").acting(Action::Create)]),
        request(),
    );
    world.fate("CustomResourceDefinition/w", |fate| fate.health.truncate(1));
    after(
        world,
        3000,
        "wave 1 of 1 (Sync, wave 0): 1 of 2 applied, waiting 3 s for CustomResourceDefinition w (starting)",
    );

    let mut world = World::new(two(hook(Phase::Sync, 0, "Job/slow").timeout(60)), request());
    world.fate("Job/slow", |fate| fate.health.truncate(1));
    after(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 3 s for hook Job shop/slow (starting); deadline in 57 s; \
         next: wave 2, 1 object",
    );
}

#[test]
fn settling_and_delays() {
    let two = || plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]);
    let mut world = World::new(two(), request());
    world.fate("Widget/w", |fate| {
        fate.proof = Proof::Nothing;
        fate.health.remove(0);
    });
    after(
        world,
        500,
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 0 s for Widget shop/w (looks healthy; settling for \
         another 1 s); next: wave 2, 1 object",
    );
    let world = World::new(two(), SyncRequest { wave_delay: Some(seconds(30)), ..request() });
    after(
        world,
        4000,
        "wave 1 of 2 (Sync, wave 0): 1 of 1 healthy, waiting 3 s for the delay between waves (another 26 s); next: \
         wave 2, 1 object",
    );
}

#[test]
fn paused_and_ending() {
    let one = || World::new(plan([hook(Phase::Sync, 0, "Job/j")]), request());
    let mut world = World::new(
        plan([hook(Phase::Sync, 0, "Job/j")]),
        SyncRequest { deadline: Some(seconds(60)), ..request() },
    );
    world.fate("Job/j", |fate| fate.health.truncate(1));
    world.at(2000, Input::Pause { by: "bob".into(), reason: "lunch".into() });
    after(
        world,
        62_000,
        "wave 1 of 1 (Sync, wave 0): 0 of 1 healthy, waiting 1 min 2 s for hook Job shop/j (starting); paused by bob \
         for 1 min (lunch)",
    );

    // A hook that ends meanwhile is not worked on before it goes on.
    let mut world = one();
    world.fate("Job/j", |fate| {
        fate.health = vec![(0, seen(HealthStatus::Progressing, "")), (5000, seen(HealthStatus::Healthy, ""))];
    });
    world.at(2000, Input::Pause { by: "bob".into(), reason: "lunch".into() });
    world.run_until(60_000);
    let explanation = explain(world.driver().state(), at(60_000));
    let why: Vec<&str> = explanation.awaited.iter().map(|awaited| awaited.why.as_str()).collect();
    assert_eq!(why, ["it has ended; its finalizer is taken off when the operation goes on"], "{explanation}");

    let mut world = one();
    world.fate("Job/j", |fate| fate.end.push_back(Reply::Later(60_000)));
    world.at(500, Input::Terminate { by: "ann".into() });
    after(world, 3500, "terminating: waiting 3 s for hook Job shop/j (a call failed: too many requests)");

    let policies = [DeletePolicy::HookSucceeded];
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/j").policies(&policies)]), request());
    world.fate("Job/j", |fate| fate.end.extend([Reply::Fine, Reply::Later(60_000)]));
    after(
        world,
        4000,
        "cleaning up hooks: Succeeded: successfully synced (no more tasks), waiting 3 s for the deletion of hook Job \
         shop/j (a call failed: too many requests)",
    );
    after(one(), 9000, "Succeeded 8 s ago after 1 s: successfully synced (no more tasks)");
}

/// Its phase and its message are those of any other success: only the request tells a dry run apart.
#[test]
fn a_dry_run_says_that_nothing_was_written() {
    let tried = || {
        let options = SyncOptions { dry_run: true, ..SyncOptions::default() };
        World::new(plan([resource(0, "Deployment/api")]), SyncRequest { options, ..request() })
    };
    let mut world = tried();
    world.run_until(9000);
    let ended = view(world.driver().state()).unwrap();
    assert_eq!((ended.phase, ended.dry_run), (OperationPhase::Succeeded, true));
    assert_eq!(ended.phase_words(), "Succeeded (dry run: nothing was written)");
    assert_eq!(serde_json::to_value(&ended).unwrap()["dryRun"], true);
    let open = OperationView { phase: OperationPhase::Running, ..ended.clone() };
    assert_eq!(open.phase_words(), "Running (dry run: nothing is written)");
    let why = explain(world.driver().state(), at(20_000));
    assert!(why.position.starts_with("Succeeded (dry run: nothing was written) "), "{why}");
    let later = why.later(&ended, at(90_000));
    assert!(later.position.starts_with("Succeeded (dry run: nothing was written) 1 min "), "{later}");

    let mut world = tried();
    world.fate("Deployment/api", |fate| fate.check.push_back(Reply::No("wrong".into())));
    world.run_until(9000);
    let why = explain(world.driver().state(), at(20_000)).to_string();
    assert!(why.starts_with("Failed (dry run: nothing was written) "), "{why}");

    let mut world = World::new(plan([resource(0, "Deployment/api")]), request());
    world.run_until(9000);
    let ended = view(world.driver().state()).unwrap();
    assert_eq!((ended.phase_words().as_str(), ended.dry_run), ("Succeeded", false));
    assert_eq!(serde_json::to_value(&ended).unwrap().get("dryRun"), None, "nothing else has the field");
}

#[test]
fn after_a_failure() {
    let failing = |request: SyncRequest| {
        let mut world =
            World::new(plan([resource(0, "Deployment/api"), hook(Phase::SyncFail, 0, "Job/alert")]), request);
        world.fate("Deployment/api", |fate| fate.write.push_back(Reply::No("wrong".into())));
        world
    };
    after(
        failing(retrying(1)),
        2000,
        "attempt 1 failed: one or more synchronization tasks completed unsuccessfully, reason: wrong; next: attempt 2 in 3 s",
    );
    after(
        failing(request()),
        500,
        "wave 1 of 1 (SyncFail, wave 0): 0 of 1 healthy, waiting 0 s for hook Job shop/alert (starting)",
    );
    after(
        failing(request()),
        4000,
        "Failed 3 s ago after 1 s: one or more synchronization tasks completed unsuccessfully, reason: wrong; Deployment shop/api: wrong",
    );
}
