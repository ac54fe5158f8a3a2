//! One-sentence explanations of an operation at every stage.

use tidegate_lifecycle::operation::{Input, OperationView, Verdict, explain, view};
use tidegate_model::{
    Action, DeletePolicy, HealthStatus, OperationPhase, Phase, SyncOptions, SyncRequest, Task,
};

use crate::build::*;
use crate::world::{EvidenceKind, Reply, World, health_of};

/// Checks the explanation at the given time in milliseconds.
fn assert_explanation(mut world: World, millis: i64, expected: &str) {
    world.run_until(millis);
    world.now = world.now.max(millis);
    assert_eq!(explain(world.driver().state(), at(millis)).to_string(), expected);
}

fn shop_tasks() -> Vec<Task> {
    let mut tasks = vec![resource(0, "ConfigMap/first")];
    tasks.extend((0..3).map(|n| resource(1, &format!("ConfigMap/c{n}"))));
    tasks.extend((0..11).map(|n| resource(1, &format!("Deployment/d{n:02}"))));
    tasks.extend((0..6).map(|n| resource(2, &format!("ConfigMap/e{n}"))));
    tasks.extend([resource(3, "ConfigMap/x"), hook_task(Phase::PostSync, 0, "Job/smoke")]);
    tasks.push(hook_task(Phase::SyncFail, 0, "Job/alert"));
    tasks
}

#[test]
fn explanations_read_like_sentences() {
    let request = SyncRequest { deadline: Some(seconds(300)), ..request() };
    let mut world = World::new(plan(shop_tasks()), request);
    for n in 0..11 {
        world.configure(&format!("Deployment/d{n:02}"), |fate| {
            let crash = "1 of 3 replicas ready: api-7f is crash-looping";
            fate.health = vec![(0, health_of(HealthStatus::Progressing, crash))];
        });
    }
    assert_explanation(
        world,
        41_000,
        "wave 2 of 5 (Sync, wave 1): 3 of 14 healthy, waiting 41 s for Deployment shop/d00 (1 of 3 replicas \
         ready: api-7f is crash-looping); deadline in 4 min 19 s; next: wave 3, 6 objects",
    );
}

/// If another operation's hook takes a hook's name just before creation, the explanation contains that
/// operation.
#[test]
fn a_lost_hook_place_is_explained() {
    let lost = || {
        let mut world =
            World::new(plan([resource(0, "ConfigMap/c"), hook_task(Phase::Sync, 0, "Job/h")]), request());
        world.configure("Job/h", |fate| {
            fate.rivals = [5000].into();
            fate.deletion_delay = 700;
        });
        world
    };
    assert_explanation(
        lost(),
        2000,
        "wave 1 of 1 (Sync, wave 0): 1 of 2 applied, waiting 2 s for hook Job shop/h (operation another is still running the same hook)",
    );
    assert_explanation(
        lost(),
        5200,
        "wave 1 of 1 (Sync, wave 0): 1 of 2 applied, waiting 5 s for hook Job shop/h (deletion requested)",
    );
}

/// A running engine ends late operations immediately, so only an operation without an engine can have a
/// deadline in the past.
#[test]
fn a_passed_deadline_is_not_shown_as_upcoming() {
    let request = SyncRequest { deadline: Some(seconds(60)), ..request() };
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request);
    world.configure("Deployment/api", |fate| fate.health.truncate(1));
    world.run_until(30_000);
    let explain_deadline = |millis| {
        let explained = explain(world.driver().state(), at(millis));
        let (left, passed) = (explained.deadline_in_seconds, explained.deadline_passed_seconds);
        (left, passed, explained.to_string())
    };
    let (left, passed, sentence) = explain_deadline(59_000);
    assert_eq!((left, passed), (Some(1), None));
    assert!(sentence.contains("; deadline in 1 s;"), "{sentence}");
    let (left, passed, sentence) = explain_deadline(100_000);
    assert_eq!((left, passed), (Some(0), Some(40)));
    assert!(sentence.contains("; the deadline passed 40 s ago;"), "{sentence}");
}

/// An object that a skipped prune keeps counts neither as healthy nor as awaited.
#[test]
fn skipped_prunes_are_not_counted_as_healthy() {
    let left = prune_task(0, "Deployment/old").with_action(Action::PruneSkipped);
    let others = [resource(0, "Deployment/api"), resource(0, "ConfigMap/c"), resource(1, "ConfigMap/d")];
    let mut world = World::new(plan([left].into_iter().chain(others)), request());
    world.configure("Deployment/api", |fate| {
        fate.health = vec![(0, health_of(HealthStatus::Progressing, "0 of 3 replicas ready"))];
    });
    assert_explanation(
        world,
        9000,
        "wave 1 of 2 (Sync, wave 0): 1 of 2 healthy, waiting 9 s for Deployment shop/api (0 of 3 replicas ready); \
         next: wave 2, 1 object",
    );
}

#[test]
fn explains_stages_before_the_waves() {
    assert_eq!(explain(&tidegate_lifecycle::operation::State::New, at(0)).to_string(), "not started");
    let mut world = World::new(plan(shop_tasks()), request());
    world.set_plan_replies([Reply::Success]);
    world.disturbances.max_delay = 10_000;
    world.disturbances.rng = crate::world::Rng(3);
    assert_explanation(world, 0, "planning");

    let mut world = World::new(plan(shop_tasks()), SyncRequest { deadline: Some(seconds(60)), ..request() });
    world.set_plan_replies([Reply::Busy, Reply::RetryAfter(20_000)]);
    assert_explanation(
        world,
        10_000,
        "planning: waiting 10 s for the simulated cluster (2 calls failed; last error: too many requests); \
         deadline in 50 s",
    );

    let mut world = World::new(plan(shop_tasks()), request());
    world.configure("ConfigMap/first", |fate| fate.check.push_back(Reply::RetryAfter(60_000)));
    assert_explanation(
        world,
        5000,
        "dry run: 23 of 24 manifests checked, waiting 5 s for ConfigMap shop/first (a call failed: too \
         many requests); next: wave 1, 1 object",
    );
}

/// One confirmation covers all prunes of an operation, so the explanation also lists the prunes in later
/// waves.
#[test]
fn prunes_covered_by_one_confirmation_are_named() {
    let tasks = [
        prune_task(0, "Deployment/old").with_confirmation(),
        prune_task(1, "ConfigMap/older").with_confirmation(),
        prune_task(1, "ConfigMap/x"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.run_until(1000);
    let state = world.driver().state();
    let explained = explain(state, at(1000));
    let all: Vec<String> = explained.awaited.iter().map(|one| format!("{}: {}", one.what, one.why)).collect();
    let own = format!("pruning needs confirmation: `tidegate ops confirm {}`", id());
    assert_eq!(
        all,
        [
            format!("Deployment shop/old: {own}"),
            "ConfigMap shop/older: will be pruned in wave 2; the same confirmation covers it".to_owned()
        ]
    );
    assert_eq!(state.message(), "waiting for pruning confirmation of apps/Deployment/old");
}

#[test]
fn explains_the_steps_of_a_wave() {
    let two = |task: Task| plan([task, resource(1, "ConfigMap/c")]);
    let mut world = World::new(two(resource(0, "ConfigMap/a")).with_gate(0, "night"), request());
    let closed = Verdict::Closed { reason: "it is day".into(), ask_again_after: seconds(600) };
    world.gates.insert("night".into(), [closed].into());
    assert_explanation(
        world,
        90_000,
        "wave 1 of 2 (Sync, wave 0): held, waiting 1 min 30 s for gate night (it is day); next: wave 2, 1 object",
    );

    let world = World::new(
        two(prune_task(0, "Deployment/old").with_confirmation()).with_wave_timeout(0, 60),
        request(),
    );
    assert_explanation(
        world,
        20_000,
        &format!(
            "wave 1 of 2 (Sync, wave 0): held, waiting 20 s for Deployment shop/old (pruning needs \
             confirmation: `tidegate ops confirm {}`); deadline in 40 s; next: wave 2, 1 object",
            id()
        ),
    );

    let mut world = World::new(two(prune_task(0, "Deployment/old")), request());
    world.configure("Deployment/old", |fate| fate.write.push_back(Reply::RetryAfter(60_000)));
    assert_explanation(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): pruning, waiting 3 s for Deployment shop/old (a call failed: too many \
         requests); next: wave 2, 1 object",
    );

    let mut world = World::new(
        plan([
            resource(0, "ConfigMap/a"),
            resource(1, "ConfigMap/b"),
            prune_task(1, "Job/x"),
            prune_task(1, "Job/y"),
        ]),
        request(),
    );
    world.configure("ConfigMap/a", |fate| fate.write.push_back(Reply::RetryAfter(60_000)));
    assert_explanation(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): 0 of 1 applied, waiting 3 s for ConfigMap shop/a (a call failed: too many \
         requests); next: wave 2, 3 objects (2 to prune)",
    );

    let mut world = World::new(two(prune_task(0, "Deployment/old")), request());
    world.configure("Deployment/old", |fate| fate.deletion_delay = i64::MAX);
    assert_explanation(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): 1 object being deleted, waiting 3 s for Deployment shop/old (deletion requested); \
         next: wave 2, 1 object",
    );

    let mut world = World::new(
        plan([
            resource(0, "CustomResourceDefinition/w"),
            resource(0, "Widget/w").with_action(Action::Create),
        ]),
        request(),
    );
    world.configure("CustomResourceDefinition/w", |fate| fate.health.truncate(1));
    assert_explanation(
        world,
        3000,
        "wave 1 of 1 (Sync, wave 0): 1 of 2 applied, waiting 3 s for CustomResourceDefinition w (starting)",
    );

    let mut world = World::new(two(hook_task(Phase::Sync, 0, "Job/slow").with_timeout(60)), request());
    world.configure("Job/slow", |fate| fate.health.truncate(1));
    assert_explanation(
        world,
        3000,
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 3 s for hook Job shop/slow (starting); deadline in 57 s; \
         next: wave 2, 1 object",
    );
}

#[test]
fn explains_settling_and_delays() {
    let two = || plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]);
    let mut world = World::new(two(), request());
    world.configure("Widget/w", |fate| {
        fate.evidence = EvidenceKind::Nothing;
        fate.health.remove(0);
    });
    assert_explanation(
        world,
        500,
        "wave 1 of 2 (Sync, wave 0): 0 of 1 healthy, waiting 0 s for Widget shop/w (healthy, but must stay healthy \
         for another 1 s); next: wave 2, 1 object",
    );
    let world = World::new(two(), SyncRequest { wave_delay: Some(seconds(30)), ..request() });
    assert_explanation(
        world,
        4000,
        "wave 1 of 2 (Sync, wave 0): 1 of 1 healthy, waiting 3 s for the delay between waves (another 26 s); next: \
         wave 2, 1 object",
    );
}

#[test]
fn explains_pauses_and_termination() {
    let one = || World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request());
    let mut world = World::new(
        plan([hook_task(Phase::Sync, 0, "Job/j")]),
        SyncRequest { deadline: Some(seconds(60)), ..request() },
    );
    world.configure("Job/j", |fate| fate.health.truncate(1));
    world.schedule_input(2000, Input::Pause { by: "bob".into(), reason: "lunch".into() });
    assert_explanation(
        world,
        62_000,
        "wave 1 of 1 (Sync, wave 0): 0 of 1 healthy, waiting 1 min 2 s for hook Job shop/j (starting); paused by bob \
         for 1 min (lunch)",
    );

    // The end of a hook during a pause is processed only after the operation is unpaused.
    let mut world = one();
    world.configure("Job/j", |fate| {
        fate.health =
            vec![(0, health_of(HealthStatus::Progressing, "")), (5000, health_of(HealthStatus::Healthy, ""))];
    });
    world.schedule_input(2000, Input::Pause { by: "bob".into(), reason: "lunch".into() });
    world.run_until(60_000);
    let explanation = explain(world.driver().state(), at(60_000));
    let reason: Vec<&str> = explanation.awaited.iter().map(|awaited| awaited.why.as_str()).collect();
    assert_eq!(
        reason,
        ["it has ended; its finalizer will be removed when the operation is unpaused"],
        "{explanation}"
    );

    let mut world = one();
    world.configure("Job/j", |fate| fate.end.push_back(Reply::RetryAfter(60_000)));
    world.schedule_input(500, Input::Terminate { by: "ann".into() });
    assert_explanation(
        world,
        3500,
        "terminating: waiting 3 s for hook Job shop/j (a call failed: too many requests)",
    );

    let mut world = one();
    world.schedule_input(500, Input::Terminate { by: "ann".into() });
    world.run_until(9000);
    let action = explain(world.driver().state(), at(9000)).action.text;
    assert!(action.starts_with("to deploy, sync again: `tidegate app sync"), "{action}");

    let policies = [DeletePolicy::HookSucceeded];
    let mut world =
        World::new(plan([hook_task(Phase::Sync, 0, "Job/j").with_delete_policies(&policies)]), request());
    world.configure("Job/j", |fate| fate.end.extend([Reply::Success, Reply::RetryAfter(60_000)]));
    assert_explanation(
        world,
        4000,
        "cleaning up hooks: Succeeded: successfully synced (no more tasks), waiting 3 s for the deletion of hook Job \
         shop/j (a call failed: too many requests)",
    );
    assert_explanation(one(), 9000, "Succeeded 8 s ago after 1 s: successfully synced (no more tasks)");
}

/// The phase and message of a dry run are those of any other success, so only the request distinguishes a dry
/// run.
#[test]
fn a_dry_run_explains_that_nothing_was_written() {
    let tried = || {
        let options = SyncOptions { dry_run: true, ..SyncOptions::default() };
        World::new(plan([resource(0, "Deployment/api")]), SyncRequest { options, ..request() })
    };
    let mut world = tried();
    world.run_until(9000);
    let ended = view(world.driver().state()).unwrap();
    assert_eq!((ended.phase, ended.dry_run), (OperationPhase::Succeeded, true));
    assert_eq!(ended.describe_phase(), "Succeeded (dry run: nothing was written)");
    assert_eq!(serde_json::to_value(&ended).unwrap()["dryRun"], true);
    let open = OperationView { phase: OperationPhase::Running, ..ended.clone() };
    assert_eq!(open.describe_phase(), "Running (dry run: nothing is written)");
    let reason = explain(world.driver().state(), at(20_000));
    assert!(reason.position.starts_with("Succeeded (dry run: nothing was written) "), "{reason}");
    let later = reason.refresh(&ended, at(90_000));
    assert!(later.position.starts_with("Succeeded (dry run: nothing was written) 1 min "), "{later}");

    let mut world = tried();
    world.configure("Deployment/api", |fate| fate.check.push_back(Reply::Rejected("wrong".into())));
    world.run_until(9000);
    let reason = explain(world.driver().state(), at(20_000)).to_string();
    assert!(reason.starts_with("Failed (dry run: nothing was written) "), "{reason}");

    let mut world = World::new(plan([resource(0, "Deployment/api")]), request());
    world.run_until(9000);
    let ended = view(world.driver().state()).unwrap();
    assert_eq!((ended.describe_phase().as_str(), ended.dry_run), ("Succeeded", false));
    assert_eq!(serde_json::to_value(&ended).unwrap().get("dryRun"), None, "only dry runs may have the field");
}

#[test]
fn explains_failures() {
    let failing = |request: SyncRequest| {
        let mut world = World::new(
            plan([resource(0, "Deployment/api"), hook_task(Phase::SyncFail, 0, "Job/alert")]),
            request,
        );
        world.configure("Deployment/api", |fate| fate.write.push_back(Reply::Rejected("wrong".into())));
        world
    };
    assert_explanation(
        failing(request_with_retries(1)),
        2000,
        "attempt 1 failed: one or more synchronization tasks completed unsuccessfully, reason: Deployment shop/api: wrong; next: attempt 2 in 3 s",
    );
    assert_explanation(
        failing(request()),
        500,
        "wave 1 of 1 (SyncFail, wave 0): 0 of 1 healthy, waiting 0 s for hook Job shop/alert (starting)",
    );
    assert_explanation(
        failing(request()),
        4000,
        "Failed 3 s ago after 1 s: one or more synchronization tasks completed unsuccessfully, reason: Deployment shop/api: wrong",
    );
}
