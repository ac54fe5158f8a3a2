//! User requests (terminate, pause and unpause) in every stage, and dry runs.

use tidegate_lifecycle::operation::{Input, OperationEvent, Verdict, view};
use tidegate_model::{Action, DeletePolicy, HealthStatus, OperationPhase, Phase, SyncOptions, SyncRequest};

use crate::build::*;
use crate::traces::{assert_trace, assert_trace_after_hook_start};
use crate::world::{Reply, World, health_of};

fn terminate_input() -> Input {
    Input::Terminate { by: "ann".into() }
}

fn pause_input() -> Input {
    Input::Pause { by: "bob".into(), reason: "lunch".into() }
}

fn unpause_input() -> Input {
    Input::Unpause { by: "bob".into() }
}

/// Returns a world with an operation that reaches the given stage and stays there.
fn world_at_stage(stage: &str) -> World {
    let tasks = || {
        [
            prune_task(0, "Deployment/old").with_confirmation(),
            hook_task(Phase::Sync, 0, "Job/migrate").with_live_object(),
            resource(0, "Deployment/api"),
            resource(1, "ConfigMap/c"),
        ]
    };
    let mut requests = request_with_retries(1);
    requests.options.prune_confirmed = stage != "Wave 1 Held";
    let mut world = World::new(plan(tasks()), requests);
    let stuck = |world: &mut World, object: &str| {
        world.configure(object, |fate| {
            fate.write.extend([Reply::RetryAfter(60_000), Reply::RetryAfter(60_000)])
        });
    };
    match stage {
        "Accepted" => world.set_plan_replies([Reply::RetryAfter(60_000)]),
        "DryRun" => world.configure("Job/migrate", |fate| fate.check.push_back(Reply::RetryAfter(60_000))),
        "Wave 1 DryRun" => {
            world = World::new(plan([resource(0, "Deployment/api").with_late_check()]), request());
            world.configure("Deployment/api", |fate| fate.check.push_back(Reply::RetryAfter(60_000)));
        }
        "Wave 1 Pruning" => stuck(&mut world, "Deployment/old"),
        "Wave 1 AwaitingGone" => world.configure("Deployment/old", |fate| fate.deletion_delay = i64::MAX),
        "Wave 1 Clearing" => world.configure("Job/migrate", |fate| fate.deletion_delay = i64::MAX),
        "Wave 1 Applying" => stuck(&mut world, "Deployment/api"),
        "AwaitingRetry" => {
            world.configure("Deployment/old", |fate| fate.write.push_back(Reply::Rejected("no".into())))
        }
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
fn terminate_works_in_every_stage_and_while_paused() {
    for stage in STAGES.into_iter().chain(["AwaitingRetry"]) {
        for paused in [false, true] {
            let mut world = world_at_stage(stage);
            world.run_until(100);
            assert_eq!(world.driver().state().name(), stage);
            if paused {
                world.schedule_input(200, pause_input());
            }
            world.schedule_input(300, terminate_input());
            world.run();
            let view = view(world.driver().state()).unwrap();
            assert_eq!(
                (view.phase, view.message.as_str()),
                (OperationPhase::Failed, "Operation terminated"),
                "{stage}"
            );
            assert_eq!(world.now, 300, "{stage}");
            assert_eq!(view.paused_by, None);
            // The state has a field for the requester only after planning. Before that, only the log contains
            // the requester.
            let known = (stage != "Accepted").then_some("ann");
            assert_eq!(view.terminated_by.as_deref(), known, "{stage}");
            world.check_replay();
        }
    }
}

#[test]
fn a_pause_holds_every_stage_until_it_is_resumed() {
    for stage in STAGES {
        let mut world = world_at_stage(stage);
        // Without the pause, the failing call would be repeated.
        world.schedule_input(200, pause_input());
        world.run_until(300_000);
        assert_eq!(world.driver().state().name(), stage);
        let commands = world.driver().outstanding(at(300_000)).unwrap().commands;
        assert!(
            commands
                .iter()
                .all(|command| matches!(command, tidegate_lifecycle::operation::Command::Observe { .. })),
            "a paused operation must only observe: {commands:?} in {stage}"
        );
        world.schedule_input(300_000, unpause_input());
        world.schedule_input(300_000, Input::ConfirmPrune { by: "ann".into() });
        for object in ["Deployment/old", "Job/migrate"] {
            if world.plan.tasks.iter().any(|task| crate::world::label_of(task) == object) {
                world.configure(object, |fate| fate.deletion_delay = 0);
                let id = world.task_id(object);
                if let Some(object) = world.cluster.objects.get_mut(&id) {
                    object.removed_at = object.removed_at.map(|_| 300_000);
                }
            }
        }
        world.run();
        assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)", "{stage}");
        world.check_replay();
    }
}

/// The message of a paused operation contains the user, the reason for the pause, and the current wait for
/// the cluster. It omits planned work, and gates that a paused operation doesn't query.
#[test]
fn a_paused_operation_explains_the_pause() {
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
            "; one or more objects failed to apply, reason: Deployment shop/old: no. Retrying attempt #1 when unpaused.",
        ),
    ];
    for (stage, awaits) in awaited {
        let mut world = world_at_stage(stage);
        world.run_until(100);
        let before = world.driver().state().message();
        world.schedule_input(200, pause_input());
        world.run_until(250);
        assert_eq!(world.driver().state().name(), stage);
        let message = format!("paused by bob: lunch{awaits}");
        assert_eq!(world.driver().state().message(), message, "{stage}");
        assert_eq!(view(world.driver().state()).unwrap().message, message, "{stage}");
        world.schedule_input(300, unpause_input());
        world.run_until(300);
        let after = world.driver().state().message();
        assert!(after == before || after.ends_with("Retrying attempt #1 at 12:00AM."), "{stage}: {after}");
    }
}

/// If the awaited condition is met during a pause, only the pause delays the operation.
#[test]
fn a_paused_operation_that_awaits_nothing_names_only_the_pause() {
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.configure("Deployment/api", |fate| {
        let (starting, well) = (HealthStatus::Progressing, HealthStatus::Healthy);
        fate.health = vec![(0, health_of(starting, "")), (60_000, health_of(well, ""))];
    });
    world.schedule_input(2000, Input::Pause { by: "ann".into(), reason: String::new() });
    world.run_until(3000);
    let message = |world: &World| world.driver().state().message();
    assert_eq!(message(&world), "paused by ann; waiting for healthy state of apps/Deployment/api");
    world.run_until(200_000);
    assert_eq!(message(&world), "paused by ann");

    // After the approval, the message must not request it.
    let mut world = World::new(plan([resource(0, "Deployment/api")]).with_gate(0, "approval"), request());
    world.schedule_input(100, pause_input());
    world.run_until(200);
    let id = world.driver().state().header().unwrap().operation;
    assert_eq!(
        message(&world),
        format!(
            "paused by bob: lunch; gate approval is closed: wave 1 needs approval: `tidegate ops approve {id}`"
        )
    );
    world.schedule_input(300, Input::Approve { by: "ann".into(), reason: String::new(), wave: None });
    world.run_until(400);
    assert_eq!(message(&world), "paused by bob: lunch");

    // A paused operation doesn't query gates, so the message omits them.
    let day = Verdict::Closed { reason: "it is day".into(), ask_again_after: seconds(60) };
    let mut world = World::new(plan([resource(0, "Deployment/api")]).with_gate(0, "night"), request());
    world.gates.insert("night".into(), [day].into());
    world.schedule_input(100, pause_input());
    world.run_until(200);
    assert_eq!(message(&world), "paused by bob: lunch");
}

#[test]
fn rejected_requests_name_the_reason() {
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request());
    world.configure("Job/j", |fate| fate.end.extend(std::iter::repeat_n(Reply::Busy, 3)));
    world.schedule_input(100, unpause_input());
    world.schedule_input(200, pause_input());
    world.schedule_input(300, pause_input());
    world.schedule_input(400, Input::ConfirmPrune { by: "ann".into() });
    world.schedule_input(500, terminate_input());
    world.schedule_input(600, terminate_input());
    world.schedule_input(700, pause_input());
    world.schedule_input(90_000, terminate_input());
    assert_trace_after_hook_start(
        world,
        &["Job/j"],
        "
            ! the operation is not paused, so there is nothing to unpause
            # paused by bob: lunch; waiting for completion of hook batch/Job/j
            ! the operation is already paused by bob
            ! no prune in this operation needs confirmation
            stop Job/j
            # operation is terminating
            ! the operation is already ending (state: Terminating); wait until it ends
            ! the operation is already ending (state: Terminating); wait until it ends
            stop Job/j
            stop Job/j
            stop Job/j
            # Operation terminated
            = 1 Job/j Synced Succeeded: starting
            ",
    );
}

/// Rules 2 to 5 of the specification, on termination: hooks that are stopped while running, hooks that have
/// ended, and hooks that are kept.
#[test]
fn terminate_stops_running_hooks_and_keeps_finished_ones() {
    let mut world = World::new(
        plan([
            hook_task(Phase::Sync, 0, "Job/done"),
            hook_task(Phase::Sync, 0, "Job/failed"),
            hook_task(Phase::Sync, 0, "Job/just-done"),
            hook_task(Phase::Sync, 0, "Job/running"),
            hook_task(Phase::Sync, 0, "Job/runner").with_runner("shell"),
            hook_task(Phase::Sync, 0, "Job/vanished"),
            resource(0, "Deployment/api"),
        ]),
        request(),
    );
    world.configure("Job/done", |fate| fate.health[1].0 = 500);
    world.configure("Job/failed", |fate| fate.degrade("bad"));
    world.configure("Job/just-done", |fate| fate.health[1].0 = 2000);
    world.configure("Job/running", |fate| fate.health[1].0 = 60_000);
    world.configure("Job/vanished", |fate| {
        fate.health[1].0 = 60_000;
        fate.deleted_after = Some(2000);
    });
    world.schedule_input(2000, terminate_input());
    assert_trace(
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
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request_with_retries(3));
    world.configure("Job/j", |fate| fate.end.extend([Reply::Busy, Reply::Rejected("forbidden".into())]));
    world.schedule_input(500, terminate_input());
    assert_trace_after_hook_start(
        world,
        &["Job/j"],
        "
            stop Job/j
            # operation is terminating
            stop Job/j
            # Operation termination had errors
            = 1 Job/j Synced Failed: Failed to delete: forbidden
            ",
    );
}

/// A termination also removes the finalizers of hooks that have already ended. If this fails, the operation
/// ends in `Error`.
#[test]
fn a_stuck_finalizer_makes_termination_an_error() {
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request());
    world.configure("Job/j", |fate| {
        fate.end.extend([Reply::RetryAfter(5000), Reply::Rejected("forbidden".into())])
    });
    world.schedule_input(2000, terminate_input());
    assert_trace_after_hook_start(
        world,
        &["Job/j"],
        "
            release Job/j
            # operation is terminating
            release Job/j
            # Operation termination had errors
            = 1 Job/j Synced Error: Failed to remove hook finalizer: forbidden
            ",
    );
}

/// Terminates the operation while a request for the hook `Job/j` is in flight, and checks that the hook is deleted.
fn terminate_during(world: &mut World, request: &str) {
    world.disturbances.max_delay = 100;
    while !world.transcript.iter().any(|line| line == request) {
        let now = world.now;
        world.run_until(now + 1);
        world.now = world.now.max(now + 1);
    }
    world.schedule_input(world.now + 1, terminate_input());
    world.run();
    let object = world.cluster.objects.get(&world.task_id("Job/j"));
    assert!(object.is_none(), "the hook must not continue to run: {object:?}");
    assert_eq!(world.driver().state().message(), "Operation terminated");
}

/// If a hook is being created when the operation is terminated, the answer is still processed and the hook is
/// stopped.
#[test]
fn a_hook_that_is_being_created_is_stopped() {
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request());
    terminate_during(&mut world, "apply Job/j");
}

/// If the start of a hook's Job is refused while the operation is being terminated, the Job still exists, and it is
/// deleted.
#[test]
fn a_suspended_job_whose_start_is_refused_is_stopped() {
    let mut world = World::new(plan([hook_task(Phase::Sync, 0, "Job/j")]), request());
    world.configure("Job/j", |fate| {
        fate.starts_suspended = true;
        fate.write = [Reply::Success, Reply::Success, Reply::Rejected("forbidden".into())].into();
    });
    terminate_during(&mut world, "start Job/j");
}

/// The engine crashes while it creates a hook that had to wait for another operation's hook. In the log, the
/// name is still being checked. A termination must then find and stop the hook that may have been created.
#[test]
fn a_hook_created_in_a_taken_place_is_stopped_after_a_crash() {
    let names = ["Job/a", "Job/b", "Job/c", "Job/d"];
    for seed in 0..300 {
        let mut world = World::new(plan(names.map(|name| hook_task(Phase::Sync, 0, name))), request());
        world.crash_with_rivals(&names, seed);
        world.schedule_input(world.now, terminate_input());
        world.run();
        let left: Vec<_> = world.cluster.objects.values().filter(|object| object.has_finalizer).collect();
        assert!(left.is_empty(), "objects remain with seed {seed}: {left:?}");
    }
}

#[test]
fn termination_mentions_retries() {
    let mut world = World::new(plan([resource(0, "Deployment/api")]), request_with_retries(5));
    world.configure("Deployment/api", |fate| {
        fate.write.extend(std::iter::repeat_n(Reply::Rejected("no".into()), 9))
    });
    world.schedule_input(6000, terminate_input());
    world.run();
    assert_eq!(world.driver().state().message(), "Operation terminated (retried 1 times).");
}

/// A dry run records the warnings of the dry run. A sync records only the warnings of the write, and records
/// them once.
#[test]
fn cluster_warnings_are_recorded_once_in_dry_runs_and_syncs() {
    for dry_run in [true, false] {
        let options = SyncOptions { dry_run, ..SyncOptions::default() };
        let tasks = [resource(0, "Deployment/old"), resource(0, "Deployment/api")];
        let mut world = World::new(plan(tasks), SyncRequest { options, ..request() });
        let warnings = vec!["v1beta1 is deprecated".to_owned()];
        world.configure("Deployment/old", |fate| fate.warnings.clone_from(&warnings));
        world.run();
        let is_warning = |event: &&OperationEvent| matches!(event, OperationEvent::WarningsReceived { .. });
        assert_eq!(world.durable.iter().filter(is_warning).count(), 1, "dry run: {dry_run}");
        let view = view(world.driver().state()).unwrap();
        assert_eq!(view.phase, OperationPhase::Succeeded);
        let kept: Vec<_> = view.resources.iter().map(|resource| resource.warnings.clone()).collect();
        assert!(kept.contains(&warnings) && kept.contains(&Vec::new()), "dry run: {dry_run}: {kept:?}");
        world.check_replay();
    }
}

#[test]
fn a_dry_run_writes_nothing_and_reports_every_task() {
    let only_try =
        || SyncRequest { options: SyncOptions { dry_run: true, ..SyncOptions::default() }, ..request() };
    let tasks = || {
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate")
                .with_delete_policies(&[DeletePolicy::HookSucceeded])
                .with_live_object(),
            prune_task(0, "Job/old").with_confirmation(),
            prune_task(0, "Job/kept").with_action(Action::PruneSkipped),
            resource(0, "Deployment/api"),
            resource(0, "Deployment/same").with_action(Action::Unchanged).with_live_object(),
            resource(0, "Widget/w").with_late_check(),
            hook_task(Phase::SyncFail, 0, "Job/alert"),
        ])
    };
    assert_trace(
        World::new(tasks(), only_try()),
        "
            plan
            check Job/migrate
            check Deployment/api
            check Job/alert
            # successfully synced (no more tasks)
            = 1 Job/migrate Synced Succeeded: migrate checked
            = 2 Job/old Pruned Succeeded: pruned (dry run)
            = 3 Job/kept PruneSkipped Succeeded: test
            = 4 Deployment/api Synced Succeeded: api checked
            = 5 Widget/w Synced Succeeded: not checked: this operation creates the object's kind or namespace (dry run)
            = 6 Job/alert Synced Succeeded: alert checked
            ",
    );
    let mut world = World::new(tasks(), only_try());
    world.configure("Deployment/api", |fate| fate.check.push_back(Reply::Rejected("wrong".into())));
    assert_trace(
        world,
        "
            plan
            check Job/migrate
            check Deployment/api
            check Job/alert
            # one or more objects failed to apply (dry run), reason: Deployment shop/api: wrong
            = 1 Deployment/api SyncFailed Failed: wrong
            = 2 Job/migrate Synced Succeeded: migrate checked
            = 3 Job/old Pruned Succeeded: pruned (dry run)
            = 4 Job/kept PruneSkipped Succeeded: test
            = 5 Widget/w Synced Succeeded: not checked: this operation creates the object's kind or namespace (dry run)
            = 6 Job/alert Synced Succeeded: alert checked
            ",
    );
}

#[test]
fn the_dry_run_can_be_skipped() {
    let options = SyncOptions { skip_dry_run: true, ..SyncOptions::default() };
    let tasks = plan([resource(0, "ConfigMap/c"), resource(0, "Widget/w").with_late_check()]);
    assert_trace(
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

/// Outcome of hooks and resources according to their health (specification, on judging running tasks from the
/// live object).
#[test]
fn health_decides_the_outcome_of_tasks() {
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
        let tasks =
            [(hook_task(Phase::Sync, 0, "Widget/x"), hook_ends), (resource(0, "Widget/x"), resource_ends)];
        for (task, ends) in tasks {
            let mut world = World::new(plan([task, resource(1, "ConfigMap/c")]), request());
            world.configure("Widget/x", |fate| {
                fate.health = status.map(|status| (0, health_of(status, "why"))).into_iter().collect()
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
