//! User requests to skip, mark as done or retry single tasks and waves of a running operation.

use tidegate_lifecycle::operation::{
    EventEmitter, EventKind, Input, OperationEvent, Scope, Stage, Verdict, WaveStep, explain, view,
};
use tidegate_model::{
    Cascade, DeletePolicy, HealthStatus, OperationPhase, Override, Phase, ResultCode, RetryPolicy,
    SyncRequest,
};

use crate::build::*;
use crate::world::{Change, Reply, World, health_of};

fn override_input(what: Override, scope: Scope) -> Input {
    Input::Override { what, scope, by: "ann".into(), reason: "why".into() }
}

fn override_task(what: Override, name: &str) -> Input {
    override_input(what, Scope::parse(Some(name), None, None, None).unwrap())
}

fn skip_task(name: &str) -> Input {
    override_task(Override::Skip, name)
}

fn override_wave(what: Override, name: &str) -> Input {
    override_input(what, Scope::parse(None, None, None, Some(name)).unwrap())
}

/// Makes an object stay unhealthy forever.
fn make_unhealthy(world: &mut World, object: &str) {
    world.configure(object, |fate| {
        fate.health = vec![(0, health_of(HealthStatus::Progressing, "0 of 3 ready"))]
    });
}

/// Runs to the end, and checks the final message and the results.
fn run_and_check(mut world: World, message: &str, results: &[&str]) -> World {
    world.run();
    let found = (world.driver().state().message(), world.results());
    assert_eq!(
        (found.0.as_str(), found.1),
        (message, results.iter().map(|line| (*line).to_owned()).collect())
    );
    world.check_replay();
    world.event_consumer.check(&world.durable);
    world
}

fn rejections(world: &World) -> Vec<&str> {
    world.transcript.iter().filter_map(|line| line.strip_prefix("! ")).collect()
}

fn count_lines(world: &World, line: &str) -> usize {
    world.transcript.iter().filter(|said| *said == line).count()
}

fn count_creations(world: &World, object: &str) -> usize {
    let id = world.task_id(object);
    world.cluster.writes.iter().filter(|write| write.task == id && write.change == Change::Created).count()
}

const ALL_TASKS_SYNCED: &str = "successfully synced (all tasks run)";

#[test]
fn a_task_skipped_before_its_turn_is_never_written() {
    let mut world = World::new(
        plan([resource(0, "Deployment/a"), resource(1, "Deployment/b"), resource(1, "ConfigMap/c")]),
        request(),
    );
    world.schedule_input(500, skip_task("deployment/b"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: Deployment shop/b"),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 Deployment/b Skipped Succeeded: skipped by ann (why); not done",
            "3 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!(count_creations(&world, "Deployment/b"), 0);
    let shown = view(world.driver().state()).unwrap().resources;
    let overridden = shown[1].overridden.clone().unwrap();
    assert_eq!((overridden.what, overridden.by.as_str(), overridden.at), (Override::Skip, "ann", at(500)));
    assert!(shown[0].overridden.is_none());
}

#[test]
fn a_task_that_does_not_become_healthy_can_be_skipped() {
    for (what, word, code, listed) in [
        (Override::Skip, "skipped", "Skipped", "skipped"),
        (Override::MarkDone, "marked as done", "MarkedDone", "marked as done"),
    ] {
        let mut world =
            World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]), request());
        make_unhealthy(&mut world, "Deployment/a");
        world.schedule_input(60_000, override_task(what, "Deployment.apps/a"));
        world.run_until(59_999);
        assert_eq!(world.driver().state().message(), "waiting for healthy state of apps/Deployment/a");
        let first = format!(
            "1 Deployment/a {code} Succeeded: {word} by ann (why); applied, and not healthy: 0 of 3 ready"
        );
        let world = run_and_check(
            world,
            &format!("{ALL_TASKS_SYNCED}; {listed}: Deployment shop/a"),
            &[&first, "2 ConfigMap/c Synced Running: c applied"],
        );
        assert_eq!(world.now, 60_000);
    }
}

/// The hook's object is deleted and its last log lines are stored, as at the end of an operation.
#[test]
fn a_running_hook_that_is_skipped_is_stopped_first() {
    let mut world = World::new(
        plan([hook_task(Phase::PreSync, 0, "Job/migrate"), resource(0, "ConfigMap/c")]),
        request(),
    );
    make_unhealthy(&mut world, "Job/migrate");
    world.configure("Job/migrate", |fate| fate.log = Some("waiting for the lock\n".into()));
    world.schedule_input(9_000, skip_task("Job/migrate"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: hook Job shop/migrate"),
        &[
            "1 Job/migrate Skipped Succeeded: skipped by ann (why); it was running: 0 of 3 ready",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!((count_creations(&world, "Job/migrate"), count_lines(&world, "stop Job/migrate")), (1, 1));
    assert!(
        !world.cluster.objects.contains_key(&world.task_id("Job/migrate")),
        "the hook's object must be deleted"
    );
    assert_eq!(view(world.driver().state()).unwrap().hook_logs[0].text, "waiting for the lock\n");
}

/// The hook is released as if it had succeeded. Its object is kept, or deleted by the deletion policy for
/// successful hooks.
#[test]
fn a_running_hook_that_is_marked_as_done_is_released() {
    for (policy, stays) in [(DeletePolicy::BeforeHookCreation, true), (DeletePolicy::HookSucceeded, false)] {
        let job = hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&[policy]);
        let mut world = World::new(plan([job, resource(0, "ConfigMap/c")]), request());
        make_unhealthy(&mut world, "Job/migrate");
        world.schedule_input(9_000, override_task(Override::MarkDone, "Job/migrate"));
        let world = run_and_check(
            world,
            &format!("{ALL_TASKS_SYNCED}; marked as done: hook Job shop/migrate"),
            &[
                "1 Job/migrate MarkedDone Succeeded: marked as done by ann (why); it was running: 0 of 3 ready",
                "2 ConfigMap/c Synced Running: c applied",
            ],
        );
        assert_eq!(
            (count_lines(&world, "stop Job/migrate"), count_lines(&world, "release Job/migrate")),
            (0, 1)
        );
        let object = world.cluster.objects.get(&world.task_id("Job/migrate"));
        assert_eq!(object.map(|object| object.has_finalizer), stays.then_some(false));
    }
}

/// A call that creates the hook may be in flight when the hook is skipped. If the call creates an object, the
/// object must be deleted.
#[test]
fn a_hook_skipped_during_its_creation_does_not_run() {
    for what in [Override::Skip, Override::MarkDone] {
        let mut world = World::new(
            plan([hook_task(Phase::Sync, 0, "Job/migrate"), resource(1, "ConfigMap/c")]),
            request(),
        );
        world.disturbances.max_delay = 40;
        make_unhealthy(&mut world, "Job/migrate");
        while count_lines(&world, "apply Job/migrate") == 0 {
            world.run_until(world.now + 1);
            world.now += 1;
        }
        world.schedule_input(world.now, override_task(what, "Job/migrate"));
        world.run();
        assert!(
            world.driver().state().message().starts_with(ALL_TASKS_SYNCED),
            "{}",
            world.driver().state().message()
        );
        assert!(!world.cluster.objects.contains_key(&world.task_id("Job/migrate")), "{:?}", world.transcript);
        assert_eq!(count_lines(&world, "stop Job/migrate"), 1);
        world.check_replay();
    }
}

/// The call that creates the hook may outlive the engine. In the meantime, another operation's hook with the
/// same name may appear and be deleted before the call arrives.
#[test]
fn a_skipped_hook_in_a_taken_place_is_deleted_after_a_crash() {
    let names = ["Job/a", "Job/b", "Job/c", "Job/d"];
    for seed in 0..300 {
        let mut world = World::new(plan(names.map(|name| hook_task(Phase::Sync, 0, name))), request());
        for name in names {
            make_unhealthy(&mut world, name);
        }
        world.crash_with_rivals(&names, seed);
        for name in names {
            world.schedule_input(world.now, skip_task(name));
        }
        // The operation is terminated, so that it ends even if its hook had ended and wasn't skipped.
        world.schedule_input(world.now + 60_000, Input::Terminate { by: "ann".into() });
        world.run();
        let left: Vec<_> = world.cluster.objects.values().filter(|object| object.has_finalizer).collect();
        assert!(left.is_empty(), "objects remain with seed {seed}: {left:?}");
    }
}

#[test]
fn a_skipped_hook_that_is_rejected_later_has_not_failed() {
    let mut world =
        World::new(plan([hook_task(Phase::Sync, 0, "Job/migrate"), resource(1, "ConfigMap/c")]), request());
    world.disturbances.max_delay = 40;
    world.configure("Job/migrate", |fate| {
        fate.write.extend([Reply::Success, Reply::Rejected("quota".into())])
    });
    while count_lines(&world, "apply Job/migrate") == 0 {
        world.run_until(world.now + 1);
        world.now += 1;
    }
    world.schedule_input(world.now, skip_task("Job/migrate"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: hook Job shop/migrate"),
        &[
            "1 Job/migrate Skipped Succeeded: skipped by ann (why); not done",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!(count_creations(&world, "Job/migrate"), 0);
}

#[test]
fn skipping_a_wave_skips_its_open_tasks_and_its_gate() {
    let tasks = [
        resource(0, "Deployment/a"),
        resource(0, "Deployment/b"),
        resource(1, "Deployment/c"),
        hook_task(Phase::Sync, 1, "Job/d"),
        resource(2, "ConfigMap/e"),
    ];
    let mut world = World::new(plan(tasks).with_gate(1, "gate"), request());
    let closed = Verdict::Closed { reason: "not yet".into(), ask_again_after: seconds(600) };
    world.gates.entry("gate".into()).or_default().extend(vec![closed; 9]);
    make_unhealthy(&mut world, "Deployment/b");
    world.schedule_input(5_000, override_wave(Override::Skip, "Sync/0"));
    world.schedule_input(9_000, override_wave(Override::MarkDone, "2"));
    world.run_until(8_999);
    assert_eq!(world.driver().state().message(), "gate gate is closed: not yet");
    let sentence = explain(world.driver().state(), at(8_999)).to_string();
    assert!(sentence.contains("; skipped by ann (why): Deployment shop/b"), "{sentence}");
    let world = run_and_check(
        world,
        "successfully synced (all tasks run); skipped: Deployment shop/b; marked as done: Deployment shop/c, hook Job shop/d",
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 Deployment/b Skipped Succeeded: skipped by ann (why); applied, and not healthy: 0 of 3 ready",
            "3 Deployment/c MarkedDone Succeeded: marked as done by ann (why); not done",
            "4 Job/d MarkedDone Succeeded: marked as done by ann (why); not done",
            "5 ConfigMap/e Synced Running: e applied",
        ],
    );
    assert_eq!(world.now, 9_000);
    // Tasks that are marked as done count as done. Skipped tasks don't.
    let waves = view(world.driver().state()).unwrap().waves;
    let counted: Vec<(u32, u32, u32)> =
        waves.iter().map(|wave| (wave.done, wave.skipped, wave.tasks)).collect();
    assert_eq!(counted, [(1, 1, 2), (2, 0, 2), (1, 0, 1)]);
}

/// The plan of a deletion numbers its waves in the order of deletion, but users refer to waves by the numbers
/// in their objects' annotations.
#[test]
fn waves_of_a_deletion_are_named_by_the_wave_numbers_of_their_objects() {
    // In their annotations, `last` has wave 10, `middle` has wave 3, and `first` has wave -2.
    let tasks = || {
        [
            prune_task(-2, "Deployment/last"),
            prune_task(3, "Deployment/middle"),
            prune_task(10, "Deployment/first"),
        ]
    };
    let deletion = || SyncRequest { deletion: Some(Cascade::Foreground), ..request() };
    let mut world = World::new(plan(tasks()).with_wave_timeout(0, 20), deletion());
    world.configure("Deployment/last", |fate| fate.deletion_delay = i64::MAX);
    world.run_until(5_000);
    let shown = view(world.driver().state()).unwrap();
    assert_eq!(shown.waves.iter().map(|wave| wave.wave).collect::<Vec<_>>(), [10, 3, -2]);
    assert_eq!((shown.resources[0].name.as_str(), shown.resources[0].wave), ("last", 10));
    let sentence = explain(world.driver().state(), at(5_000)).to_string();
    assert!(sentence.starts_with("wave 1 of 3 (Sync, wave 10): "), "{sentence}");
    // The number in a wave's name is the number from the annotations.
    world.schedule_input(6_000, override_wave(Override::Skip, "Sync/-2"));
    world.schedule_input(7_000, override_wave(Override::Skip, "Sync/4"));
    world.run();
    let view = view(world.driver().state()).unwrap();
    let reason = "wave 10 of Sync did not complete within 20 s: waiting for deletion of apps/Deployment/last";
    assert!(view.message.contains(reason), "{}", view.message);
    let first = view.resources.iter().find(|one| one.name == "first").unwrap();
    assert_eq!((first.status, first.wave), (Some(ResultCode::Skipped), -2));
    let refused = "the plan has no wave Sync/4; it has Sync/10, Sync/3, Sync/-2";
    assert!(world.transcript.iter().any(|line| line.contains(refused)), "{:#?}", world.transcript);
    // The events use the same numbers as the view.
    let mut emitter = EventEmitter::default();
    let mut numbers: Vec<i64> = Vec::new();
    for event in &world.durable {
        if let Some(EventKind::StageChanged { wave: Some(name), .. }) =
            emitter.emit(event).map(|event| event.what)
        {
            numbers.push(name.wave);
        }
    }
    numbers.dedup();
    assert_eq!(numbers, [10], "{numbers:?}");
}

/// Skipping the last wave must not change the conditions that the previous wave waits for.
#[test]
fn skipping_the_last_wave_does_not_affect_the_previous_one() {
    let mut world = World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]), request());
    world.schedule_input(100, override_wave(Override::Skip, "sync/1"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: ConfigMap shop/c"),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 ConfigMap/c Skipped Succeeded: skipped by ann (why); not done",
        ],
    );
    assert_eq!(world.now, 1000, "the first wave must wait until its object is healthy");
}

/// A rejected prune blocks the manifests of its wave. When the prune is skipped or its retry succeeds, the
/// manifests are applied.
#[test]
fn tasks_blocked_by_a_failure_run_after_an_override() {
    for (what, result) in [
        (Override::Skip, "1 ConfigMap/old Skipped Succeeded: skipped by ann (why); it had failed: no"),
        (Override::Retry, "1 ConfigMap/old Pruned Succeeded: pruned"),
    ] {
        let mut world = World::new(
            plan([
                prune_task(0, "ConfigMap/old"),
                hook_task(Phase::Sync, 0, "Job/slow"),
                resource(0, "Deployment/api"),
            ]),
            request_with_retries(1),
        );
        world.configure("ConfigMap/old", |fate| fate.write.push_back(Reply::Rejected("no".into())));
        // The attempt has failed, and the next attempt would start five seconds later.
        world.schedule_input(2_000, override_task(what, "ConfigMap/old"));
        world.run();
        assert_eq!(world.results()[0], result);
        let done = world.operation().tasks.iter().all(|state| state.phase == Some(OperationPhase::Succeeded));
        assert!(done, "{:?}", world.results());
        world.check_replay();
    }
}

/// Another hook keeps the wave running, so the retry happens in the same attempt.
#[test]
fn a_retried_hook_runs_again_in_the_same_attempt() {
    let tasks = [
        hook_task(Phase::Sync, 0, "Job/bad"),
        hook_task(Phase::Sync, 0, "Job/slow"),
        resource(1, "ConfigMap/c"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.configure("Job/bad", |fate| fate.degrade("no disk"));
    world.configure("Job/slow", |fate| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "")),
            (60_000, health_of(HealthStatus::Healthy, "")),
        ];
    });
    world.run_until(4_999);
    assert_eq!(world.results()[0], "1 Job/bad Synced Failed: no disk");
    world.configure("Job/bad", |fate| fate.health = vec![(0, health_of(HealthStatus::Healthy, "better"))]);
    world.schedule_input(5_000, override_task(Override::Retry, "Job/bad"));
    let world = run_and_check(
        world,
        ALL_TASKS_SYNCED,
        &[
            "1 Job/bad Synced Succeeded: better",
            "2 Job/slow Synced Succeeded: slow applied",
            "3 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!((count_creations(&world, "Job/bad"), count_creations(&world, "Job/slow")), (2, 1));
    let retried = view(world.driver().state()).unwrap().resources[0].overridden.clone().unwrap();
    assert_eq!((retried.what, retried.retries), (Override::Retry, 1));
}

/// Wherever the engine crashes, the first run of the hook must not count as the retry, and no hook may run a
/// third time.
#[test]
fn a_crash_during_a_retry_runs_nothing_twice() {
    for crash in 1..120 {
        let tasks = [hook_task(Phase::Sync, 0, "Job/bad"), hook_task(Phase::Sync, 0, "Job/slow")];
        let mut world = World::new(plan(tasks), request());
        world.disturbances.max_delay = 3;
        world.configure("Job/bad", |fate| fate.degrade("no disk"));
        world.configure("Job/slow", |fate| {
            fate.health = vec![
                (0, health_of(HealthStatus::Progressing, "")),
                (20_000, health_of(HealthStatus::Healthy, "")),
            ];
        });
        world.schedule_input(4_000, override_task(Override::Retry, "Job/bad"));
        world.schedule_input(8_000, override_task(Override::Skip, "Job/bad"));
        world.crash_before = Some(crash);
        world.run();
        let message = world.driver().state().message();
        let requests =
            world.durable.iter().filter(|event| matches!(event, OperationEvent::Overridden { .. })).count();
        assert!(
            count_creations(&world, "Job/bad") <= 2 && count_creations(&world, "Job/slow") == 1,
            "{crash}: {message}"
        );
        assert!(requests <= 2 && world.driver().state().is_finished(), "{crash}: {requests}, {message}");
        world.check_replay();
    }
}

/// A user's retry repeats the call but doesn't reset the number of consecutive failures.
#[test]
fn a_retry_repeats_a_waiting_call_immediately() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.configure("ConfigMap/c", |fate| fate.write.extend([Reply::RetryAfter(50_000), Reply::Busy]));
    world.schedule_input(1_000, override_task(Override::Retry, "ConfigMap/c"));
    world.run_until(1_000);
    let failed = world.operation().tasks[0].calls.clone().unwrap();
    assert_eq!(failed.failed, 2, "the call must be repeated immediately, and fail again");
    let world = run_and_check(world, ALL_TASKS_SYNCED, &["1 ConfigMap/c Synced Running: c applied"]);
    assert!(world.now < 3_000, "{}", world.now);
}

#[test]
fn a_retry_of_failed_tasks_starts_the_next_attempt_immediately() {
    let mut world =
        World::new(plan([resource(0, "ConfigMap/c"), resource(0, "ConfigMap/d")]), request_with_retries(1));
    world.configure("ConfigMap/c", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.schedule_input(1_000, override_task(Override::Retry, "ConfigMap/d"));
    world.schedule_input(1_001, override_task(Override::Retry, "ConfigMap/c"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED} (retried 1 times)."),
        &["1 ConfigMap/d Synced Running: d applied", "2 ConfigMap/c Synced Running: c applied"],
    );
    assert_eq!(world.now, 1_001);
    let refused =
        "ConfigMap shop/d has not failed, so it cannot be retried: it is already done (Synced): d applied";
    assert_eq!(rejections(&world), [refused]);
}

/// The next attempt also starts immediately if it needs a new plan, because the first attempt failed before
/// its first wave.
#[test]
fn a_retry_of_rejected_tasks_plans_the_next_attempt_immediately() {
    let mut world =
        World::new(plan([resource(0, "ConfigMap/c"), resource(0, "ConfigMap/d")]), request_with_retries(1));
    world.configure("ConfigMap/c", |fate| fate.check.push_back(Reply::Rejected("no".into())));
    world.schedule_input(1_000, skip_task("ConfigMap/c"));
    world.schedule_input(1_001, override_task(Override::Retry, "ConfigMap/c"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED} (retried 1 times)."),
        &["1 ConfigMap/c Synced Running: c applied", "2 ConfigMap/d Synced Running: d applied"],
    );
    assert_eq!(world.now, 1_001);
    let refused = "ConfigMap shop/c cannot be skipped now: the attempt failed, and the next attempt will create \
                   a new plan; to start it now, run `tidegate ops retry-task`";
    assert_eq!(rejections(&world), [refused]);
}

/// A later attempt doesn't run a skipped task, even if the attempt repeats all other tasks.
#[test]
fn a_skip_applies_to_later_attempts() {
    let retry = RetryPolicy { restart: true, ..request_with_retries(1).retry };
    let tasks = [hook_task(Phase::PreSync, 0, "Job/a"), resource(0, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), SyncRequest { retry, ..request() });
    make_unhealthy(&mut world, "Job/a");
    world.configure("ConfigMap/c", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.schedule_input(5_000, skip_task("Job/a"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: hook Job shop/a (retried 1 times)."),
        &[
            "1 Job/a Skipped Succeeded: skipped by ann (why); it was running: 0 of 3 ready",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!(count_creations(&world, "Job/a"), 1);
}

#[test]
fn a_retried_task_runs_although_it_was_skipped() {
    let mut world = World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]), request());
    world.schedule_input(100, skip_task("ConfigMap/c"));
    world.schedule_input(200, override_task(Override::Retry, "ConfigMap/c"));
    let results = ["1 Deployment/a Synced Succeeded: a applied", "2 ConfigMap/c Synced Running: c applied"];
    run_and_check(world, ALL_TASKS_SYNCED, &results);
}

#[test]
fn skipped_tasks_of_a_passed_wave_cannot_be_retried() {
    let mut world = World::new(
        plan([
            resource(0, "Deployment/a"),
            resource(1, "ConfigMap/b"),
            resource(2, "Deployment/c"),
            resource(3, "ConfigMap/d"),
        ]),
        request(),
    );
    world.schedule_input(500, skip_task("configmap/b"));
    make_unhealthy(&mut world, "Deployment/c");
    world.schedule_input(60_000, override_task(Override::Retry, "configmap/b"));
    world.schedule_input(61_000, skip_task("deployment/c"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: ConfigMap shop/b, Deployment shop/c"),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 ConfigMap/b Skipped Succeeded: skipped by ann (why); not done",
            "3 Deployment/c Skipped Succeeded: skipped by ann (why); applied, and not healthy: 0 of 3 ready",
            "4 ConfigMap/d Synced Running: d applied",
        ],
    );
    let refused = "ConfigMap shop/b cannot be retried now: all of wave 2 was skipped, and wave 3 is running";
    assert_eq!(rejections(&world), [refused]);
}

/// The next attempt continues with the failed wave, so tasks of earlier waves can't be retried.
#[test]
fn skipped_tasks_of_a_passed_wave_cannot_be_retried_between_attempts() {
    let tasks = [resource(0, "Deployment/a"), resource(1, "ConfigMap/b"), resource(2, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), request_with_retries(1));
    world.configure("ConfigMap/c", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.schedule_input(500, skip_task("configmap/b"));
    world.run_until(500);
    while !matches!(world.operation().stage, Stage::AwaitingRetry { .. }) {
        world.run_until(world.now + 100);
        world.now += 100;
    }
    world.schedule_input(world.now, override_task(Override::Retry, "configmap/b"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: ConfigMap shop/b (retried 1 times)."),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 ConfigMap/b Skipped Succeeded: skipped by ann (why); not done",
            "3 ConfigMap/c Synced Running: c applied",
        ],
    );
    let reason = "all of wave 2 was skipped, and the next attempt continues with wave 3";
    assert_eq!(rejections(&world), [format!("ConfigMap shop/b cannot be retried now: {reason}")]);
}

/// The next attempt starts as soon as no failed tasks are left. Either all failed tasks were skipped, or a
/// task that was skipped by mistake is retried.
#[test]
fn the_next_attempt_begins_when_nothing_failed_remains() {
    let both_fail = || {
        let mut world = World::new(
            plan([resource(0, "ConfigMap/a"), resource(0, "ConfigMap/b")]),
            request_with_retries(1),
        );
        for name in ["ConfigMap/a", "ConfigMap/b"] {
            world.configure(name, |fate| fate.write.push_back(Reply::Rejected("no".into())));
        }
        world.run_until(500);
        while !matches!(world.operation().stage, Stage::AwaitingRetry { .. }) {
            world.run_until(world.now + 100);
            world.now += 100;
        }
        world
    };
    let mark = override_task(Override::MarkDone, "configmap/b");
    for (second, results) in [
        (skip_task("configmap/b"), ["Skipped", "Skipped"]),
        (mark, ["Skipped", "MarkedDone"]),
        (override_task(Override::Retry, "configmap/a"), ["Synced", "Synced"]),
    ] {
        let mut world = both_fail();
        let failed_at = world.now;
        world.schedule_input(world.now, skip_task("configmap/a"));
        world.run_until(failed_at + 1_000);
        assert!(
            matches!(world.operation().stage, Stage::AwaitingRetry { .. }),
            "another task has still failed"
        );
        world.schedule_input(failed_at + 1_000, second);
        world.run_until(failed_at + 2_000);
        assert!(world.driver().state().is_finished(), "the next attempt must start immediately: {results:?}");
        let codes = results.map(|code| format!(" {code} "));
        assert!(
            world.results().iter().zip(codes).all(|(line, code)| line.contains(&code)),
            "{:?}",
            world.results()
        );
    }
}

/// Only a dry run records results for tasks that weren't written.
#[test]
fn skipping_everything_before_the_first_write_leaves_no_other_results() {
    let rescue = hook_task(Phase::SyncFail, 0, "Job/rescue");
    let mut world = World::new(plan([resource(0, "ConfigMap/a"), rescue]), request());
    world.configure("ConfigMap/a", |fate| fate.check = [Reply::RetryAfter(2500)].into());
    world.schedule_input(500, skip_task("configmap/a"));
    let message = "successfully synced (no more tasks); skipped: ConfigMap shop/a";
    let world = run_and_check(
        world,
        message,
        &["1 ConfigMap/a Skipped Succeeded: skipped by ann (why); not done: too many requests"],
    );
    assert!(world.cluster.writes.is_empty());
}

#[test]
fn skipping_a_failed_task_saves_the_attempt() {
    let tasks = [
        hook_task(Phase::Sync, 0, "Job/bad"),
        hook_task(Phase::Sync, 0, "Job/slow"),
        resource(1, "ConfigMap/c"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.configure("Job/bad", |fate| fate.degrade("no disk"));
    world.configure("Job/slow", |fate| {
        fate.health = vec![
            (0, health_of(HealthStatus::Progressing, "")),
            (9_000, health_of(HealthStatus::Healthy, "")),
        ];
    });
    world.schedule_input(5_000, skip_task("Job/bad"));
    world.run();
    assert_eq!(world.driver().state().message(), format!("{ALL_TASKS_SYNCED}; skipped: hook Job shop/bad"));
    let first = "1 Job/bad Skipped Succeeded: skipped by ann (why); it had failed: no disk";
    assert_eq!(world.results()[0], first);
}

#[test]
fn a_rejected_override_describes_the_current_state() {
    let twins = [hook_task(Phase::PreSync, 0, "Job/twin"), hook_task(Phase::PostSync, 0, "Job/twin")];
    let [before, after] = twins;
    let mut world = World::new(
        plan([
            before,
            resource(0, "ConfigMap/c"),
            resource(0, "Deployment/a"),
            resource(1, "Deployment/same").with_action(tidegate_model::Action::Unchanged).with_live_object(),
            resource(2, "ConfigMap/last"),
            after,
        ]),
        request(),
    );
    make_unhealthy(&mut world, "Deployment/a");
    let unsaid = Input::Override {
        what: Override::Skip,
        scope: Scope::parse(Some("Deployment/a"), None, None, None).unwrap(),
        by: "ann".into(),
        reason: " ".into(),
    };
    world.schedule_input(500, skip_task("Job/twin"));
    world.schedule_input(9_000, skip_task("Job/none"));
    world.schedule_input(9_000, override_wave(Override::Skip, "Sync/7"));
    world.schedule_input(9_000, override_wave(Override::Retry, "PreSync/0"));
    world.schedule_input(9_000, skip_task("ConfigMap/c"));
    world.schedule_input(9_000, skip_task("Deployment/same"));
    world.schedule_input(9_000, override_task(Override::Retry, "Deployment/a"));
    world.schedule_input(9_000, override_task(Override::Retry, "ConfigMap/last"));
    world.schedule_input(9_000, unsaid);
    world.schedule_input(9_001, skip_task("ConfigMap/last"));
    world.schedule_input(9_002, skip_task("ConfigMap/last"));
    world.schedule_input(9_003, skip_task("Deployment/a"));
    world.run();
    let id = id();
    assert_eq!(
        rejections(&world),
        [
            "Job/twin matches 2 tasks; add a namespace, a phase or the group (KIND.GROUP/NAME): batch Job shop/twin in phase PreSync, batch Job \
             shop/twin in phase PostSync",
            &format!("the plan has no Job/none; `tidegate ops show {id}` lists its tasks"),
            "the plan has no wave Sync/7; it has PreSync/0, Sync/0, Sync/1, Sync/2, PostSync/0",
            "no task in wave PreSync/0 can be retried now: hook Job shop/twin cannot be retried now: wave 1 \
             has passed",
            "ConfigMap shop/c is already done (Synced): c applied",
            "Deployment shop/same is unchanged, so there is nothing to do",
            "Deployment shop/a is running; only a task that failed, waits for a retry or was skipped can be retried",
            "ConfigMap shop/last waits for its wave; only a task that failed, waits for a retry or was skipped can be retried",
            "a reason is required before a task or wave can be skipped",
            "ConfigMap shop/last was already skipped by ann (why)",
        ]
    );
}

#[test]
fn a_dry_run_has_nothing_to_skip() {
    let mut request = request();
    request.options.dry_run = true;
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request);
    world.configure("ConfigMap/c", |fate| fate.check.push_back(Reply::RetryAfter(5_000)));
    world.schedule_input(1_000, skip_task("ConfigMap/c"));
    world.run();
    assert_eq!(rejections(&world), ["the operation is a dry run, so there is nothing to skip"]);
}

/// Without a user's override, a wave never returns to an earlier step.
#[test]
fn a_wave_goes_back_only_on_request() {
    let mut world =
        World::new(plan([hook_task(Phase::Sync, 0, "Job/a"), resource(1, "ConfigMap/c")]), request());
    make_unhealthy(&mut world, "Job/a");
    world.run_until(2_000);
    let back = OperationEvent::StageChanged {
        to: Stage::Wave { index: 0, step: WaveStep::Applying },
        at: at(3_000),
    };
    let state = world.driver().state().clone();
    assert!(tidegate_lifecycle::operation::apply(state.clone(), &back).is_err());
    world.schedule_input(2_500, skip_task("ConfigMap/c"));
    world.run_until(2_500);
    let state = world.driver().state().clone();
    assert!(tidegate_lifecycle::operation::apply(state, &back).is_ok());
}

#[test]
fn overrides_have_results_of_their_own() {
    assert_eq!(ResultCode::Skipped.to_string(), "Skipped");
    assert_eq!(ResultCode::MarkedDone.to_string(), "MarkedDone");
    for (text, fine) in [
        ("Sync/1", true),
        ("postsync/-3", true),
        ("2", true),
        ("0", false),
        ("Sync", false),
        ("Sync/x", false),
        ("Never/1", false),
    ] {
        assert_eq!(Scope::parse(None, None, None, Some(text)).is_ok(), fine, "{text}");
    }
    for (text, fine) in
        [("Job/a", true), ("Job.batch/a", true), ("Job", false), ("/a", false), ("Job/", false)]
    {
        assert_eq!(Scope::parse(Some(text), None, None, None).is_ok(), fine, "{text}");
    }
    assert!(Scope::parse(None, None, None, None).is_err());
    assert!(Scope::parse(Some("Job/a"), None, None, Some("1")).is_err());
    assert!(Scope::parse(None, Some("shop"), None, Some("1")).is_err());
}

#[test]
fn a_skipped_hook_does_not_wait_for_its_runner() {
    for (what, result) in
        [(Override::Skip, "1 Job/page Skipped"), (Override::MarkDone, "1 Job/page MarkedDone")]
    {
        let job = hook_task(Phase::Sync, 0, "Job/page").with_runner("pager");
        let mut world = World::new(plan([job, resource(1, "ConfigMap/c")]), request());
        world.disturbances.max_delay = 500;
        while count_lines(&world, "run Job/page") == 0 {
            world.run_until(world.now + 1);
            world.now += 1;
        }
        world.schedule_input(world.now, override_task(what, "Job/page"));
        world.run();
        assert!(world.results()[0].starts_with(result), "{:?}", world.results());
        assert!(world.driver().state().message().starts_with(ALL_TASKS_SYNCED));
        world.check_replay();
    }
}

#[test]
fn an_object_being_deleted_is_not_recreated_when_it_is_skipped() {
    let tasks = [
        resource(0, "Deployment/a").with_action(tidegate_model::Action::Apply).with_live_object(),
        resource(1, "ConfigMap/c"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.configure("Deployment/a", |fate| (fate.is_recreated, fate.deletion_delay) = (true, 60_000));
    world.schedule_input(9_000, skip_task("Deployment/a"));
    let world = run_and_check(
        world,
        &format!("{ALL_TASKS_SYNCED}; skipped: Deployment shop/a"),
        &[
            "1 Deployment/a Skipped Succeeded: skipped by ann (why); deletion requested",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!((world.now, count_creations(&world, "Deployment/a")), (9_000, 0));
}
