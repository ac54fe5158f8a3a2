//! People: terminate, pause and unpause, in every stage; and operations that only try.

use tidegate_lifecycle::operation::{Fact, Input, Verdict, view};
use tidegate_model::{Action, DeletePolicy, HealthStatus, OperationPhase, Phase, SyncOptions, SyncRequest};

use crate::build::*;
use crate::traces::trace;
use crate::world::{Dice, Reply, World, seen};

fn terminate() -> Input {
    Input::Terminate { by: "ann".into() }
}

fn pause() -> Input {
    Input::Pause { by: "bob".into(), reason: "lunch".into() }
}

fn unpause() -> Input {
    Input::Unpause { by: "bob".into() }
}

/// An operation that is in a known stage after a while.
fn staged(stage: &str) -> World {
    let tasks = || {
        [
            prune(0, "Deployment/old").confirm(),
            hook(Phase::Sync, 0, "Job/migrate").living(),
            resource(0, "Deployment/api"),
            resource(1, "ConfigMap/c"),
        ]
    };
    let mut wishes = retrying(1);
    wishes.options.prune_confirmed = stage != "Wave 1 Held";
    let mut world = World::new(plan(tasks()), wishes);
    let stuck = |world: &mut World, object: &str| {
        world.fate(object, |fate| fate.write.extend([Reply::Later(60_000), Reply::Later(60_000)]));
    };
    match stage {
        "Accepted" => world.planning([Reply::Later(60_000)]),
        "DryRun" => world.fate("Job/migrate", |fate| fate.check.push_back(Reply::Later(60_000))),
        "Wave 1 DryRun" => {
            world = World::new(plan([resource(0, "Deployment/api").checked_late()]), request());
            world.fate("Deployment/api", |fate| fate.check.push_back(Reply::Later(60_000)));
        }
        "Wave 1 Pruning" => stuck(&mut world, "Deployment/old"),
        "Wave 1 AwaitingGone" => world.fate("Deployment/old", |fate| fate.lingers = i64::MAX),
        "Wave 1 Clearing" => world.fate("Job/migrate", |fate| fate.lingers = i64::MAX),
        "Wave 1 Applying" => stuck(&mut world, "Deployment/api"),
        "AwaitingRetry" => world.fate("Deployment/old", |fate| fate.write.push_back(Reply::No("no".into()))),
        "Wave 1 Settling" => {
            let request = SyncRequest { wave_delay: Some(seconds(60)), ..request() };
            world = World::new(plan([resource(0, "ConfigMap/a"), resource(1, "ConfigMap/c")]), request);
        }
        _ => {}
    }
    world
}

const STAGES: [&str; 10] = [
    "Accepted",
    "DryRun",
    "Wave 1 Held",
    "Wave 1 DryRun",
    "Wave 1 Pruning",
    "Wave 1 AwaitingGone",
    "Wave 1 Clearing",
    "Wave 1 Applying",
    "Wave 1 AwaitingHealth",
    "Wave 1 Settling",
];

#[test]
fn terminate_works_in_every_stage_also_paused() {
    for stage in STAGES.into_iter().chain(["AwaitingRetry"]) {
        for paused in [false, true] {
            let mut world = staged(stage);
            world.run_until(100);
            assert_eq!(world.driver().state().name(), stage);
            if paused {
                world.at(200, pause());
            }
            world.at(300, terminate());
            world.run();
            let view = view(world.driver().state()).unwrap();
            assert_eq!(
                (view.phase, view.message.as_str()),
                (OperationPhase::Failed, "Operation terminated"),
                "{stage}"
            );
            assert_eq!(world.now, 300, "{stage}");
            assert_eq!(view.paused_by, None);
            // Before it is planned the log has that, and its state has no room for it.
            let known = (stage != "Accepted").then_some("ann");
            assert_eq!(view.terminated_by.as_deref(), known, "{stage}");
            world.check_replay();
        }
    }
}

#[test]
fn a_pause_holds_every_stage_and_then_it_goes_on() {
    for stage in STAGES {
        let mut world = staged(stage);
        // What was stuck would go on while it is paused.
        world.at(200, pause());
        world.run_until(300_000);
        assert_eq!(world.driver().state().name(), stage);
        let commands = world.driver().owed(at(300_000)).unwrap().commands;
        assert!(
            commands
                .iter()
                .all(|command| matches!(command, tidegate_lifecycle::operation::Command::Observe { .. })),
            "a paused operation only looks: {commands:?} in {stage}"
        );
        world.at(300_000, unpause());
        world.at(300_000, Input::ConfirmPrune { by: "ann".into() });
        for object in ["Deployment/old", "Job/migrate"] {
            if world.plan.tasks.iter().any(|task| crate::world::label(task) == object) {
                world.fate(object, |fate| fate.lingers = 0);
                let id = world.find(object);
                if let Some(object) = world.cluster.objects.get_mut(&id) {
                    object.goes_at = object.goes_at.map(|_| 300_000);
                }
            }
        }
        world.run();
        assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)", "{stage}");
        world.check_replay();
    }
}

/// What is said of a paused operation is true: that it is paused, by whom and why, and what it awaits of the world
/// meanwhile. What it would do, or ask, is no reason for where it stands.
#[test]
fn what_is_paused_says_so() {
    let awaited = [
        ("Accepted", ""),
        ("DryRun", ""),
        ("Wave 1 Held", "; waiting for pruning confirmation of apps/Deployment/old"),
        ("Wave 1 DryRun", ""),
        ("Wave 1 Pruning", ""),
        ("Wave 1 AwaitingGone", "; waiting for deletion of apps/Deployment/old"),
        ("Wave 1 Clearing", "; waiting for deletion of hook batch/Job/migrate"),
        ("Wave 1 Applying", ""),
        ("Wave 1 AwaitingHealth", "; waiting for completion of hook batch/Job/migrate and 1 more resources"),
        ("Wave 1 Settling", ""),
        (
            "AwaitingRetry",
            "; one or more objects failed to apply, reason: no. Retrying attempt #1 when it goes on.",
        ),
    ];
    for (stage, awaits) in awaited {
        let mut world = staged(stage);
        world.run_until(100);
        let before = world.driver().state().message();
        world.at(200, pause());
        world.run_until(250);
        assert_eq!(world.driver().state().name(), stage);
        let message = format!("paused by bob: lunch{awaits}");
        assert_eq!(world.driver().state().message(), message, "{stage}");
        assert_eq!(view(world.driver().state()).unwrap().message, message, "{stage}");
        world.at(300, unpause());
        world.run_until(300);
        let after = world.driver().state().message();
        assert!(after == before || after.ends_with("Retrying attempt #1 at 12:00AM."), "{stage}: {after}");
    }
}

/// What it waited for has come, and it stands where it stood: because it is paused, and for nothing else.
#[test]
fn what_is_paused_and_awaits_nothing_more_says_only_that() {
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.fate("Deployment/api", |fate| {
        let (starting, well) = (HealthStatus::Progressing, HealthStatus::Healthy);
        fate.health = vec![(0, seen(starting, "")), (60_000, seen(well, ""))];
    });
    world.at(2000, Input::Pause { by: "ann".into(), reason: String::new() });
    world.run_until(3000);
    let message = |world: &World| world.driver().state().message();
    assert_eq!(message(&world), "paused by ann; waiting for healthy state of apps/Deployment/api");
    world.run_until(200_000);
    assert_eq!(message(&world), "paused by ann");

    // Nobody has to approve what is approved.
    let mut world = World::new(plan([resource(0, "Deployment/api")]).gated(0, "approval"), request());
    world.at(100, pause());
    world.run_until(200);
    let id = world.driver().state().header().unwrap().operation;
    assert_eq!(
        message(&world),
        format!(
            "paused by bob: lunch; gate approval is closed: wave 1 waits for a person: `tidegate ops approve {id}`"
        )
    );
    world.at(300, Input::Approve { by: "ann".into(), reason: String::new(), wave: None });
    world.run_until(400);
    assert_eq!(message(&world), "paused by bob: lunch");

    // Gates are not listened to meanwhile.
    let day = Verdict::Closed { reason: "it is day".into(), ask_again_after: seconds(60) };
    let mut world = World::new(plan([resource(0, "Deployment/api")]).gated(0, "night"), request());
    world.gates.insert("night".into(), [day].into());
    world.at(100, pause());
    world.run_until(200);
    assert_eq!(message(&world), "paused by bob: lunch");
}

#[test]
fn wishes_that_cannot_be_granted_say_why() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/j")]), request());
    world.fate("Job/j", |fate| fate.end.extend(std::iter::repeat_n(Reply::Busy, 3)));
    world.at(100, unpause());
    world.at(200, pause());
    world.at(300, pause());
    world.at(400, Input::ConfirmPrune { by: "ann".into() });
    world.at(500, terminate());
    world.at(600, terminate());
    world.at(700, pause());
    world.at(90_000, terminate());
    trace(
        world,
        "
            plan
            check Job/j
            clear Job/j
            apply Job/j
            # waiting for completion of hook batch/Job/j
            ! operation is not paused; nothing to unpause
            # paused by bob: lunch; waiting for completion of hook batch/Job/j
            ! operation is already paused by bob
            ! no prune of this operation needs confirmation
            stop Job/j
            # operation is terminating
            ! operation is already ending (state Terminating); wait for it
            ! operation is already ending (state Terminating); wait for it
            stop Job/j
            stop Job/j
            stop Job/j
            # Operation terminated
            = 1 Job/j Synced Succeeded: starting
            ",
    );
}

/// Rules 2 to 5 of the specification's terminate: stopped while running, ended by itself, and those that stay.
#[test]
fn terminate_stops_what_runs_and_keeps_what_has_ended() {
    let mut world = World::new(
        plan([
            hook(Phase::Sync, 0, "Job/done"),
            hook(Phase::Sync, 0, "Job/failed"),
            hook(Phase::Sync, 0, "Job/just-done"),
            hook(Phase::Sync, 0, "Job/running"),
            hook(Phase::Sync, 0, "Job/runner").runner("shell"),
            hook(Phase::Sync, 0, "Job/vanished"),
            resource(0, "Deployment/api"),
        ]),
        request(),
    );
    world.fate("Job/done", |fate| fate.health[1].0 = 500);
    world.fate("Job/failed", |fate| fate.degrades("bad"));
    world.fate("Job/just-done", |fate| fate.health[1].0 = 2000);
    world.fate("Job/running", |fate| fate.health[1].0 = 60_000);
    world.fate("Job/vanished", |fate| {
        fate.health[1].0 = 60_000;
        fate.vanishes = Some(2000);
    });
    world.at(2000, terminate());
    trace(
        world,
        "
            plan
            check Job/done
            check Job/failed
            check Job/just-done
            check Job/running
            check Job/vanished
            check Deployment/api
            clear Job/done
            clear Job/failed
            clear Job/just-done
            clear Job/running
            clear Job/vanished
            apply Job/done
            apply Job/failed
            apply Job/just-done
            apply Job/running
            apply Job/vanished
            run Job/runner
            apply Deployment/api
            # waiting for completion of hook batch/Job/done and 4 more hooks
            release Job/done
            # waiting for completion of hook batch/Job/failed and 3 more hooks
            logs Job/failed
            release Job/failed
            # waiting for completion of hook batch/Job/just-done and 2 more hooks
            stop Job/just-done
            stop Job/running
            stop Job/vanished
            # Operation terminated
            = 1 Job/runner Synced Succeeded: ran
            = 2 Job/done Synced Succeeded: starting
            = 3 Job/failed Synced Failed: bad
            = 4 Job/just-done Synced Succeeded: starting
            = 5 Job/running Synced Failed: Terminated
            = 6 Job/vanished Synced Succeeded: Terminated
            = 7 Deployment/api Synced Succeeded: api applied
            ",
    );
}

#[test]
fn a_hook_that_cannot_be_stopped_makes_termination_an_error() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/j")]), retrying(3));
    world.fate("Job/j", |fate| fate.end.extend([Reply::Busy, Reply::No("forbidden".into())]));
    world.at(500, terminate());
    trace(
        world,
        "
            plan
            check Job/j
            clear Job/j
            apply Job/j
            # waiting for completion of hook batch/Job/j
            stop Job/j
            # operation is terminating
            stop Job/j
            # Operation termination had errors
            = 1 Job/j Synced Failed: Failed to delete: forbidden
            ",
    );
}

/// Termination also takes the finalizer off a hook that had ended; if that fails it had errors.
#[test]
fn a_finalizer_that_stays_makes_termination_an_error() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/j")]), request());
    world.fate("Job/j", |fate| fate.end.extend([Reply::Later(5000), Reply::No("forbidden".into())]));
    world.at(2000, terminate());
    trace(
        world,
        "
            plan
            check Job/j
            clear Job/j
            apply Job/j
            # waiting for completion of hook batch/Job/j
            release Job/j
            # operation is terminating
            release Job/j
            # Operation termination had errors
            = 1 Job/j Synced Error: Failed to remove hook finalizer: forbidden
            ",
    );
}

/// The hook was being created when the operation was terminated: the answer is still taken in, and the hook stopped.
#[test]
fn a_hook_in_creation_is_stopped() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/j")]), request());
    world.weather.slow = 100;
    while !world.transcript.iter().any(|line| line == "apply Job/j") {
        let now = world.now;
        world.run_until(now + 1);
        world.now = world.now.max(now + 1);
    }
    world.at(world.now + 1, terminate());
    world.run();
    let object = world.cluster.objects.get(&world.find("Job/j"));
    assert!(object.is_none(), "it runs on: {object:?}");
    assert_eq!(world.driver().state().message(), "Operation terminated");
}

/// The engine dies while a hook is created in a place that another operation had, and the log still says that the place is
/// being looked at, since it was busy with other hooks. Terminated right after that, the operation looks for what it may
/// have created.
#[test]
fn a_hook_in_creation_in_a_place_that_was_taken_is_stopped_after_a_crash() {
    let names = ["Job/a", "Job/b", "Job/c", "Job/d"];
    for seed in 0..300 {
        let mut world = World::new(plan(names.map(|name| hook(Phase::Sync, 0, name))), request());
        for name in names {
            world.fate(name, |fate| fate.rivals.push_back(300));
        }
        (world.weather.slow, world.weather.dice) = (200, Dice(seed));
        world.crash_before = Some(50 + u32::try_from(seed % 40).unwrap());
        while world.crash_before.is_some() && !world.shell.state().is_finished() {
            let now = world.now;
            world.run_until(now + 1);
            world.now = world.now.max(now + 1);
        }
        world.at(world.now, terminate());
        world.run();
        let left: Vec<_> = world.cluster.objects.values().filter(|object| object.finalizer).collect();
        assert!(left.is_empty(), "seed {seed} leaves behind {left:?}");
    }
}

#[test]
fn termination_tells_of_retries() {
    let mut world = World::new(plan([resource(0, "Deployment/api")]), retrying(5));
    world.fate("Deployment/api", |fate| fate.write.extend(std::iter::repeat_n(Reply::No("no".into()), 9)));
    world.at(6000, terminate());
    world.run();
    assert_eq!(world.driver().state().message(), "Operation terminated (retried 1 times).");
}

/// A trial has the warnings with the resource; in earnest those of the write count, which are told once.
#[test]
fn what_the_cluster_warns_of_is_told_once_whether_it_only_tries_or_not() {
    for dry_run in [true, false] {
        let options = SyncOptions { dry_run, ..SyncOptions::default() };
        let tasks = [resource(0, "Deployment/old"), resource(0, "Deployment/api")];
        let mut world = World::new(plan(tasks), SyncRequest { options, ..request() });
        let warnings = vec!["v1beta1 is deprecated".to_owned()];
        world.fate("Deployment/old", |fate| fate.warnings.clone_from(&warnings));
        world.run();
        let told = |fact: &&Fact| matches!(fact, Fact::Warned { .. });
        assert_eq!(world.durable.iter().filter(told).count(), 1, "dry run: {dry_run}");
        let view = view(world.driver().state()).unwrap();
        assert_eq!(view.phase, OperationPhase::Succeeded);
        let kept: Vec<_> = view.resources.iter().map(|resource| resource.warnings.clone()).collect();
        assert!(kept.contains(&warnings) && kept.contains(&Vec::new()), "dry run: {dry_run}: {kept:?}");
        world.check_replay();
    }
}

#[test]
fn a_dry_run_writes_nothing_and_has_a_result_for_everything() {
    let only_try =
        || SyncRequest { options: SyncOptions { dry_run: true, ..SyncOptions::default() }, ..request() };
    let tasks = || {
        plan([
            hook(Phase::PreSync, 0, "Job/migrate").policies(&[DeletePolicy::HookSucceeded]).living(),
            prune(0, "Job/old").confirm(),
            prune(0, "Job/kept").acting(Action::PruneSkipped),
            resource(0, "Deployment/api"),
            resource(0, "Deployment/same").acting(Action::Unchanged).living(),
            resource(0, "Widget/w").checked_late(),
            hook(Phase::SyncFail, 0, "Job/alert"),
        ])
    };
    trace(World::new(tasks(), only_try()), "
            plan
            check Job/migrate
            check Deployment/api
            check Job/alert
            # successfully synced (no more tasks)
            = 1 Job/migrate Synced Succeeded: migrate checked
            = 2 Job/old Pruned Succeeded: pruned (dry run)
            = 3 Job/kept PruneSkipped Succeeded: test
            = 4 Deployment/api Synced Succeeded: api checked
            = 5 Widget/w Synced Succeeded: not tried: its kind or namespace comes with this operation (dry run)
            = 6 Job/alert Synced Succeeded: alert checked
            ");
    let mut world = World::new(tasks(), only_try());
    world.fate("Deployment/api", |fate| fate.check.push_back(Reply::No("wrong".into())));
    trace(world, "
            plan
            check Job/migrate
            check Deployment/api
            check Job/alert
            # one or more objects failed to apply (dry run)
            = 1 Deployment/api SyncFailed Failed: wrong
            = 2 Job/migrate Synced Succeeded: migrate checked
            = 3 Job/old Pruned Succeeded: pruned (dry run)
            = 4 Job/kept PruneSkipped Succeeded: test
            = 5 Widget/w Synced Succeeded: not tried: its kind or namespace comes with this operation (dry run)
            = 6 Job/alert Synced Succeeded: alert checked
            ");
}

#[test]
fn the_dry_run_can_be_left_out() {
    let options = SyncOptions { skip_dry_run: true, ..SyncOptions::default() };
    let tasks = plan([resource(0, "ConfigMap/c"), resource(0, "Widget/w").checked_late()]);
    trace(
        World::new(tasks, SyncRequest { options, ..request() }),
        "
            plan
            apply ConfigMap/c
            apply Widget/w
            # successfully synced (all tasks run)
            = 1 ConfigMap/c Synced Running: c applied
            = 2 Widget/w Synced Running: w applied
            ",
    );
}

/// How health decides, for hooks and for resources (spec: judging running tasks from the live object).
#[test]
fn health_decides() {
    use HealthStatus as H;
    let no_decision = "waiting";
    for (status, hook_ends, resource_ends) in [
        (Some(H::Healthy), "Succeeded: why", "Succeeded: x applied"),
        (Some(H::Degraded), "Failed: why", "Failed: why"),
        (Some(H::Unknown), "Failed: why", no_decision),
        (Some(H::Progressing), no_decision, no_decision),
        (Some(H::Suspended), no_decision, no_decision),
        (Some(H::Missing), "Succeeded: x created", no_decision),
        (None, "Succeeded: x created", "Succeeded: x applied"),
    ] {
        let tasks = [(hook(Phase::Sync, 0, "Widget/x"), hook_ends), (resource(0, "Widget/x"), resource_ends)];
        for (task, ends) in tasks {
            let mut world = World::new(plan([task, resource(1, "ConfigMap/c")]), request());
            world.fate("Widget/x", |fate| {
                fate.health = status.map(|status| (0, seen(status, "why"))).into_iter().collect()
            });
            world.run_until(30_000);
            let result = &world.results()[0];
            if ends == no_decision {
                assert_eq!(world.driver().state().name(), "Wave 1 AwaitingHealth", "{status:?}");
            } else {
                assert_eq!(*result, format!("1 Widget/x Synced {ends}"), "{status:?}");
            }
        }
    }
}
