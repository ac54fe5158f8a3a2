//! People skip, mark as done and retry single tasks and waves while an operation runs.

use tidegate_lifecycle::operation::{
    EventKind, Fact, Input, Narrator, Scope, Stage, Verdict, WaveStep, explain, view,
};
use tidegate_model::{
    Cascade, DeletePolicy, HealthStatus, OperationPhase, Override, Phase, ResultCode, RetryPolicy,
    SyncRequest,
};

use crate::build::*;
use crate::world::{Change, Dice, Reply, World, seen};

fn about(what: Override, scope: Scope) -> Input {
    Input::Override { what, scope, by: "ann".into(), reason: "why".into() }
}

fn task(what: Override, name: &str) -> Input {
    about(what, Scope::of_words(Some(name), None, None, None).unwrap())
}

fn skip(name: &str) -> Input {
    task(Override::Skip, name)
}

fn wave(what: Override, name: &str) -> Input {
    about(what, Scope::of_words(None, None, None, Some(name)).unwrap())
}

/// It never becomes healthy, and never ends.
fn hangs(world: &mut World, object: &str) {
    world.fate(object, |fate| fate.health = vec![(0, seen(HealthStatus::Progressing, "0 of 3 ready"))]);
}

/// Runs to the end; `message` is what it ends with, and `results` its results.
fn ends(mut world: World, message: &str, results: &[&str]) -> World {
    world.run();
    let found = (world.driver().state().message(), world.results());
    assert_eq!(
        (found.0.as_str(), found.1),
        (message, results.iter().map(|line| (*line).to_owned()).collect())
    );
    world.check_replay();
    world.listener.check(&world.durable);
    world
}

fn refusals(world: &World) -> Vec<&str> {
    world.transcript.iter().filter_map(|line| line.strip_prefix("! ")).collect()
}

fn says(world: &World, line: &str) -> usize {
    world.transcript.iter().filter(|said| *said == line).count()
}

fn created(world: &World, object: &str) -> usize {
    let id = world.find(object);
    world.cluster.audit.iter().filter(|write| write.task == id && write.what == Change::Created).count()
}

const ALL: &str = "successfully synced (all tasks run)";

#[test]
fn what_is_skipped_before_its_turn_is_never_written() {
    let mut world = World::new(
        plan([resource(0, "Deployment/a"), resource(1, "Deployment/b"), resource(1, "ConfigMap/c")]),
        request(),
    );
    world.at(500, skip("deployment/b"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: Deployment shop/b"),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 Deployment/b Skipped Succeeded: skipped by ann (why); not done",
            "3 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!(created(&world, "Deployment/b"), 0);
    let shown = view(world.driver().state()).unwrap().resources;
    let overridden = shown[1].overridden.clone().unwrap();
    assert_eq!((overridden.what, overridden.by.as_str(), overridden.at), (Override::Skip, "ann", at(500)));
    assert!(shown[0].overridden.is_none());
}

#[test]
fn what_does_not_become_healthy_is_gone_on_without() {
    for (what, word, code, listed) in [
        (Override::Skip, "skipped", "Skipped", "skipped"),
        (Override::MarkDone, "marked as done", "MarkedDone", "marked as done"),
    ] {
        let mut world =
            World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]), request());
        hangs(&mut world, "Deployment/a");
        world.at(60_000, task(what, "Deployment.apps/a"));
        world.run_until(59_999);
        assert_eq!(world.driver().state().message(), "waiting for healthy state of apps/Deployment/a");
        let first = format!(
            "1 Deployment/a {code} Succeeded: {word} by ann (why); applied, and not healthy: 0 of 3 ready"
        );
        let world = ends(
            world,
            &format!("{ALL}; {listed}: Deployment shop/a"),
            &[&first, "2 ConfigMap/c Synced Running: c applied"],
        );
        assert_eq!(world.now, 60_000);
    }
}

/// As at the end of an operation: it is deleted, and its last words are kept.
#[test]
fn a_hook_at_work_that_is_skipped_is_stopped_first() {
    let mut world =
        World::new(plan([hook(Phase::PreSync, 0, "Job/migrate"), resource(0, "ConfigMap/c")]), request());
    hangs(&mut world, "Job/migrate");
    world.fate("Job/migrate", |fate| fate.log = Some("waiting for the lock\n".into()));
    world.at(9_000, skip("Job/migrate"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: hook Job shop/migrate"),
        &[
            "1 Job/migrate Skipped Succeeded: skipped by ann (why); it was running: 0 of 3 ready",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!((created(&world, "Job/migrate"), says(&world, "stop Job/migrate")), (1, 1));
    assert!(!world.cluster.objects.contains_key(&world.find("Job/migrate")), "it is deleted");
    assert_eq!(view(world.driver().state()).unwrap().hook_logs[0].text, "waiting for the lock\n");
}

/// It is let go as if it had succeeded: its object stays, or goes with the policy for that.
#[test]
fn a_hook_at_work_that_is_marked_as_done_is_let_go() {
    for (policy, stays) in [(DeletePolicy::BeforeHookCreation, true), (DeletePolicy::HookSucceeded, false)] {
        let job = hook(Phase::PreSync, 0, "Job/migrate").policies(&[policy]);
        let mut world = World::new(plan([job, resource(0, "ConfigMap/c")]), request());
        hangs(&mut world, "Job/migrate");
        world.at(9_000, task(Override::MarkDone, "Job/migrate"));
        let world = ends(
            world,
            &format!("{ALL}; marked as done: hook Job shop/migrate"),
            &[
                "1 Job/migrate MarkedDone Succeeded: marked as done by ann (why); it was running: 0 of 3 ready",
                "2 ConfigMap/c Synced Running: c applied",
            ],
        );
        assert_eq!((says(&world, "stop Job/migrate"), says(&world, "release Job/migrate")), (0, 1));
        let object = world.cluster.objects.get(&world.find("Job/migrate"));
        assert_eq!(object.map(|object| object.finalizer), stays.then_some(false));
    }
}

/// A call that creates it may be on its way: whatever comes of that is looked for and taken away.
#[test]
fn a_hook_that_is_just_being_created_does_not_run_when_it_is_skipped() {
    for what in [Override::Skip, Override::MarkDone] {
        let mut world =
            World::new(plan([hook(Phase::Sync, 0, "Job/migrate"), resource(1, "ConfigMap/c")]), request());
        world.weather.slow = 40;
        hangs(&mut world, "Job/migrate");
        while says(&world, "apply Job/migrate") == 0 {
            world.run_until(world.now + 1);
            world.now += 1;
        }
        world.at(world.now, task(what, "Job/migrate"));
        world.run();
        assert!(world.driver().state().message().starts_with(ALL), "{}", world.driver().state().message());
        assert!(!world.cluster.objects.contains_key(&world.find("Job/migrate")), "{:?}", world.transcript);
        assert_eq!(says(&world, "stop Job/migrate"), 1);
        world.check_replay();
    }
}

/// The call that creates it may outlive the engine. After that the hook of another operation may be found in its place, and be
/// gone again before the call arrives.
#[test]
fn a_hook_in_creation_in_a_place_that_was_taken_does_not_stay_when_it_is_skipped_after_a_crash() {
    let names = ["Job/a", "Job/b", "Job/c", "Job/d"];
    for seed in 0..300 {
        let mut world = World::new(plan(names.map(|name| hook(Phase::Sync, 0, name))), request());
        for name in names {
            hangs(&mut world, name);
            world.fate(name, |fate| fate.rivals.push_back(300));
        }
        (world.weather.slow, world.weather.dice) = (200, Dice(seed));
        world.crash_before = Some(50 + u32::try_from(seed % 40).unwrap());
        while world.crash_before.is_some() && !world.shell.state().is_finished() {
            let now = world.now;
            world.run_until(now + 1);
            world.now = world.now.max(now + 1);
        }
        for name in names {
            world.at(world.now, skip(name));
        }
        // Those that have ended by then are not skipped.
        world.at(world.now + 60_000, Input::Terminate { by: "ann".into() });
        world.run();
        let left: Vec<_> = world.cluster.objects.values().filter(|object| object.finalizer).collect();
        assert!(left.is_empty(), "seed {seed} leaves behind {left:?}");
    }
}

#[test]
fn a_hook_that_is_refused_after_it_was_skipped_has_not_failed() {
    let mut world =
        World::new(plan([hook(Phase::Sync, 0, "Job/migrate"), resource(1, "ConfigMap/c")]), request());
    world.weather.slow = 40;
    world.fate("Job/migrate", |fate| fate.write.extend([Reply::Fine, Reply::No("quota".into())]));
    while says(&world, "apply Job/migrate") == 0 {
        world.run_until(world.now + 1);
        world.now += 1;
    }
    world.at(world.now, skip("Job/migrate"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: hook Job shop/migrate"),
        &[
            "1 Job/migrate Skipped Succeeded: skipped by ann (why); not done",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!(created(&world, "Job/migrate"), 0);
}

#[test]
fn what_is_not_done_of_a_wave_is_skipped_with_its_gate() {
    let tasks = [
        resource(0, "Deployment/a"),
        resource(0, "Deployment/b"),
        resource(1, "Deployment/c"),
        hook(Phase::Sync, 1, "Job/d"),
        resource(2, "ConfigMap/e"),
    ];
    let mut world = World::new(plan(tasks).gated(1, "gate"), request());
    let closed = Verdict::Closed { reason: "not yet".into(), ask_again_after: seconds(600) };
    world.gates.entry("gate".into()).or_default().extend(vec![closed; 9]);
    hangs(&mut world, "Deployment/b");
    world.at(5_000, wave(Override::Skip, "Sync/0"));
    world.at(9_000, wave(Override::MarkDone, "2"));
    world.run_until(8_999);
    assert_eq!(world.driver().state().message(), "gate gate is closed: not yet");
    let sentence = explain(world.driver().state(), at(8_999)).to_string();
    assert!(sentence.contains("; skipped by ann (why): Deployment shop/b"), "{sentence}");
    let world = ends(
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
    // Who was skipped is not done, and what a person has marked as done is.
    let waves = view(world.driver().state()).unwrap().waves;
    let counted: Vec<(u32, u32, u32)> =
        waves.iter().map(|wave| (wave.done, wave.skipped, wave.tasks)).collect();
    assert_eq!(counted, [(1, 1, 2), (2, 0, 2), (1, 0, 1)]);
}

/// The plan of a deletion numbers the waves of the objects in the order in which they go. People know them by their annotations.
#[test]
fn waves_of_a_deletion_go_by_the_numbers_of_their_objects() {
    // By their annotations last has 10, middle 3 and first -2.
    let tasks =
        || [prune(-2, "Deployment/last"), prune(3, "Deployment/middle"), prune(10, "Deployment/first")];
    let deletion = || SyncRequest { deletion: Some(Cascade::Foreground), ..request() };
    let mut world = World::new(plan(tasks()).wave_timeout(0, 20), deletion());
    world.fate("Deployment/last", |fate| fate.lingers = i64::MAX);
    world.run_until(5_000);
    let shown = view(world.driver().state()).unwrap();
    assert_eq!(shown.waves.iter().map(|wave| wave.wave).collect::<Vec<_>>(), [10, 3, -2]);
    assert_eq!((shown.resources[0].name.as_str(), shown.resources[0].wave), ("last", 10));
    let sentence = explain(world.driver().state(), at(5_000)).to_string();
    assert!(sentence.starts_with("wave 1 of 3 (Sync, wave 10): "), "{sentence}");
    // Who names a wave means that.
    world.at(6_000, wave(Override::Skip, "Sync/-2"));
    world.at(7_000, wave(Override::Skip, "Sync/4"));
    world.run();
    let view = view(world.driver().state()).unwrap();
    let why = "wave 10 of Sync did not pass within 20 s: waiting for deletion of apps/Deployment/last";
    assert!(view.message.contains(why), "{}", view.message);
    let first = view.resources.iter().find(|one| one.name == "first").unwrap();
    assert_eq!((first.status, first.wave), (Some(ResultCode::Skipped), -2));
    let refused = "the plan has no wave Sync/4; it has Sync/10, Sync/3, Sync/-2";
    assert!(world.transcript.iter().any(|line| line.contains(refused)), "{:#?}", world.transcript);
    // The events say the same as what is shown.
    let mut narrator = Narrator::default();
    let mut told: Vec<i64> = Vec::new();
    for fact in &world.durable {
        if let Some(EventKind::Moved { wave: Some(name), .. }) = narrator.tell(fact).map(|event| event.what) {
            told.push(name.wave);
        }
    }
    told.dedup();
    assert_eq!(told, [10], "{told:?}");
}

/// A wave to come is passed over; the one before it still waits for what it would have waited for.
#[test]
fn a_last_wave_that_is_skipped_changes_nothing_for_the_one_before() {
    let mut world = World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]), request());
    world.at(100, wave(Override::Skip, "sync/1"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: ConfigMap shop/c"),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 ConfigMap/c Skipped Succeeded: skipped by ann (why); not done",
        ],
    );
    assert_eq!(world.now, 1000, "it has waited until a was healthy");
}

/// A refused prune keeps the rest of its wave from being applied. Once it is skipped, or has gone well, that is done.
#[test]
fn what_a_failure_has_kept_from_being_done_is_done_after_all() {
    for (what, result) in [
        (Override::Skip, "1 ConfigMap/old Skipped Succeeded: skipped by ann (why); it had failed: no"),
        (Override::Retry, "1 ConfigMap/old Pruned Succeeded: pruned"),
    ] {
        let mut world = World::new(
            plan([
                prune(0, "ConfigMap/old"),
                hook(Phase::Sync, 0, "Job/slow"),
                resource(0, "Deployment/api"),
            ]),
            retrying(1),
        );
        world.fate("ConfigMap/old", |fate| fate.write.push_back(Reply::No("no".into())));
        // It has failed, and the next attempt is five seconds away.
        world.at(2_000, task(what, "ConfigMap/old"));
        world.run();
        assert_eq!(world.results()[0], result);
        let done = world.operation().tasks.iter().all(|state| state.phase == Some(OperationPhase::Succeeded));
        assert!(done, "{:?}", world.results());
        world.check_replay();
    }
}

/// The other hook keeps the wave at work meanwhile, so this is the same attempt.
#[test]
fn a_failed_hook_runs_anew_in_the_same_attempt_when_it_is_retried() {
    let tasks =
        [hook(Phase::Sync, 0, "Job/bad"), hook(Phase::Sync, 0, "Job/slow"), resource(1, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), request());
    world.fate("Job/bad", |fate| fate.degrades("no disk"));
    world.fate("Job/slow", |fate| {
        fate.health =
            vec![(0, seen(HealthStatus::Progressing, "")), (60_000, seen(HealthStatus::Healthy, ""))];
    });
    world.run_until(4_999);
    assert_eq!(world.results()[0], "1 Job/bad Synced Failed: no disk");
    world.fate("Job/bad", |fate| fate.health = vec![(0, seen(HealthStatus::Healthy, "better"))]);
    world.at(5_000, task(Override::Retry, "Job/bad"));
    let world = ends(
        world,
        ALL,
        &[
            "1 Job/bad Synced Succeeded: better",
            "2 Job/slow Synced Succeeded: slow applied",
            "3 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!((created(&world, "Job/bad"), created(&world, "Job/slow")), (2, 1));
    let retried = view(world.driver().state()).unwrap().resources[0].overridden.clone().unwrap();
    assert_eq!((retried.what, retried.retries), (Override::Retry, 1));
}

/// At every point: the hook of the first try is never taken for that of the second, and none runs a third time.
#[test]
fn a_crash_around_a_retry_runs_nothing_twice() {
    for crash in 1..120 {
        let tasks = [hook(Phase::Sync, 0, "Job/bad"), hook(Phase::Sync, 0, "Job/slow")];
        let mut world = World::new(plan(tasks), request());
        world.weather.slow = 3;
        world.fate("Job/bad", |fate| fate.degrades("no disk"));
        world.fate("Job/slow", |fate| {
            fate.health =
                vec![(0, seen(HealthStatus::Progressing, "")), (20_000, seen(HealthStatus::Healthy, ""))];
        });
        world.at(4_000, task(Override::Retry, "Job/bad"));
        world.at(8_000, task(Override::Skip, "Job/bad"));
        world.crash_before = Some(crash);
        world.run();
        let message = world.driver().state().message();
        let wishes = world.durable.iter().filter(|fact| matches!(fact, Fact::Overridden { .. })).count();
        assert!(created(&world, "Job/bad") <= 2 && created(&world, "Job/slow") == 1, "{crash}: {message}");
        assert!(wishes <= 2 && world.driver().state().is_finished(), "{crash}: {wishes}, {message}");
        world.check_replay();
    }
}

/// The call counts: how often it has failed in a row is not forgotten.
#[test]
fn a_call_that_waits_for_its_next_try_is_made_at_once() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request());
    world.fate("ConfigMap/c", |fate| fate.write.extend([Reply::Later(50_000), Reply::Busy]));
    world.at(1_000, task(Override::Retry, "ConfigMap/c"));
    world.run_until(1_000);
    let failed = world.operation().tasks[0].calls.clone().unwrap();
    assert_eq!(failed.failed, 2, "made at once, and it has failed again");
    let world = ends(world, ALL, &["1 ConfigMap/c Synced Running: c applied"]);
    assert!(world.now < 3_000, "{}", world.now);
}

#[test]
fn the_next_attempt_begins_at_once_when_what_has_failed_is_retried() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), resource(0, "ConfigMap/d")]), retrying(1));
    world.fate("ConfigMap/c", |fate| fate.write.push_back(Reply::No("no".into())));
    world.at(1_000, task(Override::Retry, "ConfigMap/d"));
    world.at(1_001, task(Override::Retry, "ConfigMap/c"));
    let world = ends(
        world,
        &format!("{ALL} (retried 1 times)."),
        &["1 ConfigMap/d Synced Running: d applied", "2 ConfigMap/c Synced Running: c applied"],
    );
    assert_eq!(world.now, 1_001);
    let refused =
        "ConfigMap shop/d has not failed, and needs no other try: it is done already (Synced): d applied";
    assert_eq!(refusals(&world), [refused]);
}

/// Also where it makes a plan of its own, because this one has failed before its first wave.
#[test]
fn the_next_attempt_plans_at_once_when_what_was_refused_is_retried() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), resource(0, "ConfigMap/d")]), retrying(1));
    world.fate("ConfigMap/c", |fate| fate.check.push_back(Reply::No("no".into())));
    world.at(1_000, skip("ConfigMap/c"));
    world.at(1_001, task(Override::Retry, "ConfigMap/c"));
    let world = ends(
        world,
        &format!("{ALL} (retried 1 times)."),
        &["1 ConfigMap/c Synced Running: c applied", "2 ConfigMap/d Synced Running: d applied"],
    );
    assert_eq!(world.now, 1_001);
    let refused = "ConfigMap shop/c cannot be skipped now: the attempt has failed, and the next one makes a plan of its own; `retry-task` begins it at once";
    assert_eq!(refusals(&world), [refused]);
}

/// What a person has skipped is not done by a later attempt, even if that does everything else again.
#[test]
fn a_skip_holds_in_later_attempts() {
    let retry = RetryPolicy { restart: true, ..retrying(1).retry };
    let tasks = [hook(Phase::PreSync, 0, "Job/a"), resource(0, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), SyncRequest { retry, ..request() });
    hangs(&mut world, "Job/a");
    world.fate("ConfigMap/c", |fate| fate.write.push_back(Reply::No("no".into())));
    world.at(5_000, skip("Job/a"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: hook Job shop/a (retried 1 times)."),
        &[
            "1 Job/a Skipped Succeeded: skipped by ann (why); it was running: 0 of 3 ready",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!(created(&world, "Job/a"), 1);
}

#[test]
fn what_was_skipped_is_done_after_all_when_it_is_retried() {
    let mut world = World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]), request());
    world.at(100, skip("ConfigMap/c"));
    world.at(200, task(Override::Retry, "ConfigMap/c"));
    let results = ["1 Deployment/a Synced Succeeded: a applied", "2 ConfigMap/c Synced Running: c applied"];
    ends(world, ALL, &results);
}

#[test]
fn what_a_wave_has_skipped_that_was_gone_past_is_not_retried() {
    let mut world = World::new(
        plan([
            resource(0, "Deployment/a"),
            resource(1, "ConfigMap/b"),
            resource(2, "Deployment/c"),
            resource(3, "ConfigMap/d"),
        ]),
        request(),
    );
    world.at(500, skip("configmap/b"));
    hangs(&mut world, "Deployment/c");
    world.at(60_000, task(Override::Retry, "configmap/b"));
    world.at(61_000, skip("deployment/c"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: ConfigMap shop/b, Deployment shop/c"),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 ConfigMap/b Skipped Succeeded: skipped by ann (why); not done",
            "3 Deployment/c Skipped Succeeded: skipped by ann (why); applied, and not healthy: 0 of 3 ready",
            "4 ConfigMap/d Synced Running: d applied",
        ],
    );
    let refused = "ConfigMap shop/b cannot be retried now: all of wave 2 was skipped, and wave 3 is at work";
    assert_eq!(refusals(&world), [refused]);
}

/// The next attempt goes on with the wave that has failed, and with none before.
#[test]
fn what_a_wave_has_skipped_that_was_gone_past_is_not_retried_between_attempts() {
    let tasks = [resource(0, "Deployment/a"), resource(1, "ConfigMap/b"), resource(2, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), retrying(1));
    world.fate("ConfigMap/c", |fate| fate.write.push_back(Reply::No("no".into())));
    world.at(500, skip("configmap/b"));
    world.run_until(500);
    while !matches!(world.operation().stage, Stage::AwaitingRetry { .. }) {
        world.run_until(world.now + 100);
        world.now += 100;
    }
    world.at(world.now, task(Override::Retry, "configmap/b"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: ConfigMap shop/b (retried 1 times)."),
        &[
            "1 Deployment/a Synced Succeeded: a applied",
            "2 ConfigMap/b Skipped Succeeded: skipped by ann (why); not done",
            "3 ConfigMap/c Synced Running: c applied",
        ],
    );
    let why = "all of wave 2 was skipped, and the next attempt goes on with wave 3";
    assert_eq!(refusals(&world), [format!("ConfigMap shop/b cannot be retried now: {why}")]);
}

/// Somebody who decides between two attempts has decided, and waits for nothing: what has failed is passed over, or what was passed over
/// by mistake is done after all.
#[test]
fn the_next_attempt_begins_once_nothing_is_left_to_wait_for() {
    let both_fail = || {
        let mut world =
            World::new(plan([resource(0, "ConfigMap/a"), resource(0, "ConfigMap/b")]), retrying(1));
        for name in ["ConfigMap/a", "ConfigMap/b"] {
            world.fate(name, |fate| fate.write.push_back(Reply::No("no".into())));
        }
        world.run_until(500);
        while !matches!(world.operation().stage, Stage::AwaitingRetry { .. }) {
            world.run_until(world.now + 100);
            world.now += 100;
        }
        world
    };
    let mark = task(Override::MarkDone, "configmap/b");
    for (second, results) in [
        (skip("configmap/b"), ["Skipped", "Skipped"]),
        (mark, ["Skipped", "MarkedDone"]),
        (task(Override::Retry, "configmap/a"), ["Synced", "Synced"]),
    ] {
        let mut world = both_fail();
        let failed_at = world.now;
        world.at(world.now, skip("configmap/a"));
        world.run_until(failed_at + 1_000);
        assert!(matches!(world.operation().stage, Stage::AwaitingRetry { .. }), "something else has failed");
        world.at(failed_at + 1_000, second);
        world.run_until(failed_at + 2_000);
        assert!(world.driver().state().is_finished(), "it waits for nothing: {results:?}");
        let codes = results.map(|code| format!(" {code} "));
        assert!(
            world.results().iter().zip(codes).all(|(line, code)| line.contains(&code)),
            "{:?}",
            world.results()
        );
    }
}

/// What was only tried has no result in an operation that writes.
#[test]
fn where_all_is_skipped_before_the_first_write_nothing_else_has_a_result() {
    let rescue = hook(Phase::SyncFail, 0, "Job/rescue");
    let mut world = World::new(plan([resource(0, "ConfigMap/a"), rescue]), request());
    world.fate("ConfigMap/a", |fate| fate.check = [Reply::Later(2500)].into());
    world.at(500, skip("configmap/a"));
    let message = "successfully synced (no more tasks); skipped: ConfigMap shop/a";
    let world = ends(
        world,
        message,
        &["1 ConfigMap/a Skipped Succeeded: skipped by ann (why); not done: too many requests"],
    );
    assert!(world.cluster.audit.is_empty());
}

#[test]
fn a_skip_of_a_failed_task_spares_the_attempt() {
    let tasks =
        [hook(Phase::Sync, 0, "Job/bad"), hook(Phase::Sync, 0, "Job/slow"), resource(1, "ConfigMap/c")];
    let mut world = World::new(plan(tasks), request());
    world.fate("Job/bad", |fate| fate.degrades("no disk"));
    world.fate("Job/slow", |fate| {
        fate.health =
            vec![(0, seen(HealthStatus::Progressing, "")), (9_000, seen(HealthStatus::Healthy, ""))];
    });
    world.at(5_000, skip("Job/bad"));
    world.run();
    assert_eq!(world.driver().state().message(), format!("{ALL}; skipped: hook Job shop/bad"));
    let first = "1 Job/bad Skipped Succeeded: skipped by ann (why); it had failed: no disk";
    assert_eq!(world.results()[0], first);
}

#[test]
fn who_is_refused_learns_how_it_stands() {
    let twins = [hook(Phase::PreSync, 0, "Job/twin"), hook(Phase::PostSync, 0, "Job/twin")];
    let [before, after] = twins;
    let mut world = World::new(
        plan([
            before,
            resource(0, "ConfigMap/c"),
            resource(0, "Deployment/a"),
            resource(1, "Deployment/same").acting(tidegate_model::Action::Unchanged).living(),
            resource(2, "ConfigMap/last"),
            after,
        ]),
        request(),
    );
    hangs(&mut world, "Deployment/a");
    let unsaid = Input::Override {
        what: Override::Skip,
        scope: Scope::of_words(Some("Deployment/a"), None, None, None).unwrap(),
        by: "ann".into(),
        reason: " ".into(),
    };
    world.at(500, skip("Job/twin"));
    world.at(9_000, skip("Job/none"));
    world.at(9_000, wave(Override::Skip, "Sync/7"));
    world.at(9_000, wave(Override::Retry, "PreSync/0"));
    world.at(9_000, skip("ConfigMap/c"));
    world.at(9_000, skip("Deployment/same"));
    world.at(9_000, task(Override::Retry, "Deployment/a"));
    world.at(9_000, task(Override::Retry, "ConfigMap/last"));
    world.at(9_000, unsaid);
    world.at(9_001, skip("ConfigMap/last"));
    world.at(9_002, skip("ConfigMap/last"));
    world.at(9_003, skip("Deployment/a"));
    world.run();
    let id = id();
    assert_eq!(
        refusals(&world),
        [
            "Job/twin is the name of 2 tasks; say which, with its namespace, its phase or KIND.GROUP/NAME: batch Job \
             shop/twin in phase PreSync, batch Job shop/twin in phase PostSync",
            &format!("the plan has no Job/none; `tidegate ops show {id}` lists what it has"),
            "the plan has no wave Sync/7; it has PreSync/0, Sync/0, Sync/1, Sync/2, PostSync/0",
            "nothing of wave PreSync/0 can be retried now: hook Job shop/twin cannot be retried now: wave 1 has passed",
            "ConfigMap shop/c is done already (Synced): c applied",
            "Deployment shop/same is unchanged, and nothing is done about it",
            "Deployment shop/a is at work; only what has failed, waits for another try or was skipped can be retried",
            "ConfigMap shop/last waits for its wave; only what has failed, waits for another try or was skipped can \
             be retried",
            "say why: a reason is needed to skip anything",
            "ConfigMap shop/last was skipped by ann (why) already",
        ]
    );
}

#[test]
fn a_dry_run_has_nothing_to_skip() {
    let mut request = request();
    request.options.dry_run = true;
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]), request);
    world.fate("ConfigMap/c", |fate| fate.check.push_back(Reply::Later(5_000)));
    world.at(1_000, skip("ConfigMap/c"));
    world.run();
    assert_eq!(refusals(&world), ["the operation only tries and writes nothing; there is nothing to skip"]);
}

/// Nothing but a person's wish makes a wave go back.
#[test]
fn a_wave_goes_back_only_after_a_wish() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/a"), resource(1, "ConfigMap/c")]), request());
    hangs(&mut world, "Job/a");
    world.run_until(2_000);
    let back = Fact::Moved { to: Stage::Wave { index: 0, step: WaveStep::Applying }, at: at(3_000) };
    let state = world.driver().state().clone();
    assert!(tidegate_lifecycle::operation::evolve(state.clone(), &back).is_err());
    world.at(2_500, skip("ConfigMap/c"));
    world.run_until(2_500);
    let state = world.driver().state().clone();
    assert!(tidegate_lifecycle::operation::evolve(state, &back).is_ok());
}

#[test]
fn results_of_people_are_results_of_their_own() {
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
        assert_eq!(Scope::of_words(None, None, None, Some(text)).is_ok(), fine, "{text}");
    }
    for (text, fine) in
        [("Job/a", true), ("Job.batch/a", true), ("Job", false), ("/a", false), ("Job/", false)]
    {
        assert_eq!(Scope::of_words(Some(text), None, None, None).is_ok(), fine, "{text}");
    }
    assert!(Scope::of_words(None, None, None, None).is_err());
    assert!(Scope::of_words(Some("Job/a"), None, None, Some("1")).is_err());
    assert!(Scope::of_words(None, Some("shop"), None, Some("1")).is_err());
}

#[test]
fn the_work_of_a_runner_is_not_awaited_when_its_hook_is_skipped() {
    for (what, result) in
        [(Override::Skip, "1 Job/page Skipped"), (Override::MarkDone, "1 Job/page MarkedDone")]
    {
        let job = hook(Phase::Sync, 0, "Job/page").runner("pager");
        let mut world = World::new(plan([job, resource(1, "ConfigMap/c")]), request());
        world.weather.slow = 500;
        while says(&world, "run Job/page") == 0 {
            world.run_until(world.now + 1);
            world.now += 1;
        }
        world.at(world.now, task(what, "Job/page"));
        world.run();
        assert!(world.results()[0].starts_with(result), "{:?}", world.results());
        assert!(world.driver().state().message().starts_with(ALL));
        world.check_replay();
    }
}

#[test]
fn what_is_on_its_way_out_is_not_created_again_when_it_is_skipped() {
    let tasks = [
        resource(0, "Deployment/a").acting(tidegate_model::Action::Apply).living(),
        resource(1, "ConfigMap/c"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.fate("Deployment/a", |fate| (fate.recreated, fate.lingers) = (true, 60_000));
    world.at(9_000, skip("Deployment/a"));
    let world = ends(
        world,
        &format!("{ALL}; skipped: Deployment shop/a"),
        &[
            "1 Deployment/a Skipped Succeeded: skipped by ann (why); deletion requested",
            "2 ConfigMap/c Synced Running: c applied",
        ],
    );
    assert_eq!((world.now, created(&world, "Deployment/a")), (9_000, 0));
}
