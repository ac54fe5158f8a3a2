//! Waiting: gates, confirmation, definitions, evidence, delays, deadlines.

use std::time::Duration;

use tidegate_lifecycle::operation::{Input, Verdict};
use tidegate_model::{Action, HealthStatus, Phase, SyncRequest, WaitFor};

use crate::build::*;
use crate::traces::trace;
use crate::world::{Proof, World, seen};

fn closed(reason: &str, ask_again_after: u64) -> Verdict {
    Verdict::Closed { reason: reason.into(), ask_again_after: seconds(ask_again_after) }
}

/// When stages began, as `1000 Wave 1 Applying`.
fn moments<'a>(world: &'a World, stage: &str) -> Vec<&'a str> {
    let lines = world.transcript.iter().filter_map(|line| line.strip_prefix("@ "));
    lines.filter(|line| line.ends_with(stage)).collect()
}

#[test]
fn a_wave_is_held_until_every_gate_opens() {
    let plan = plan([resource(0, "ConfigMap/c")]).gated(0, "night").gated(0, "office");
    let mut world = World::new(plan, request());
    world.gates.insert("night".into(), [closed("it is day", 30), closed("still day", 0)].into());
    world.gates.insert("office".into(), [closed("nobody is there", 10)].into());
    trace(
        world,
        "
            plan
            check ConfigMap/c
            ask night
            ask office
            # gate night is closed: it is day
            ask office
            ask night
            # gate night is closed: still day
            ask night
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 ConfigMap/c Synced Running: c applied
            ",
    );
}

/// A gate that asks to be asked again at once is asked every second.
#[test]
fn a_hasty_gate_is_slowed_down() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]).gated(0, "g"), request());
    world.gates.insert("g".into(), std::iter::repeat_n(closed("no", 0), 5).collect());
    world.run();
    assert_eq!(world.now, 5000);
}

#[test]
fn a_late_answer_of_a_gate_is_dropped() {
    let mut world =
        World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]).gated(0, "g"), request());
    world.run_until(500);
    for wave in [0, 1, 7] {
        world.at(600, Input::Gate { wave, gate: "g".into(), verdict: closed("too late", 1) });
    }
    world.run_until(700);
    assert_eq!(world.driver.state().name(), "Wave 1 AwaitingHealth");
    assert!(world.operation().gates.iter().all(|answer| answer.verdict == Verdict::Open));
}

#[test]
fn confirmation_can_come_with_the_request_or_before_it_is_needed() {
    let old = || plan([resource(0, "Deployment/api"), prune(1, "Job/old").confirm()]);
    let mut with_request = request();
    with_request.options.prune_confirmed = true;
    let mut world = World::new(old(), with_request);
    world.run();
    assert_eq!(world.driver.state().message(), "successfully synced (all tasks run)");

    let mut world = World::new(old(), request());
    world.at(500, Input::ConfirmPrune { by: "ann".into() });
    world.at(600, Input::ConfirmPrune { by: "ann".into() });
    trace(
        world,
        "
            plan
            check Deployment/api
            apply Deployment/api
            # waiting for healthy state of apps/Deployment/api
            ! no prune of this operation needs confirmation
            prune Job/old
            # successfully synced (all tasks run)
            = 1 Deployment/api Synced Succeeded: api applied
            = 2 Job/old Pruned Succeeded: pruned
            ",
    );
}

#[test]
fn hooks_and_resources_leave_together() {
    let mut world = World::new(
        plan([
            prune(0, "Deployment/old"),
            hook(Phase::Sync, 0, "Job/a").living(),
            hook(Phase::Sync, 0, "Job/b").living(),
            resource(1, "ConfigMap/c"),
        ]),
        request(),
    );
    for object in ["Deployment/old", "Job/a", "Job/b"] {
        world.fate(object, |fate| fate.lingers = 2000);
    }
    trace(
        world,
        "
            plan
            check Job/a
            check Job/b
            check ConfigMap/c
            prune Deployment/old
            # waiting for deletion of apps/Deployment/old
            clear Job/a
            clear Job/b
            # waiting for deletion of hook batch/Job/a and 1 more hooks
            clear Job/a
            clear Job/b
            apply Job/a
            apply Job/b
            # waiting for completion of hook batch/Job/a and 1 more hooks
            release Job/a
            release Job/b
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 Deployment/old Pruned Succeeded: pruned
            = 2 Job/a Synced Succeeded: starting
            = 3 Job/b Synced Succeeded: starting
            = 4 ConfigMap/c Synced Running: c applied
            ",
    );
}

/// Custom resources wait until their kind is served, even if nobody waits for the definition's health, and even if the
/// evidence is weak.
#[test]
fn a_definition_is_served_before_its_kind_is_used() {
    for proof in [Proof::Generation, Proof::Nothing] {
        let crd = || resource(0, "CustomResourceDefinition/widgets").acting(Action::Apply).living();
        let mut world = World::new(plan([crd(), resource(0, "Widget/w").checked_late()]), request());
        world.fate("CustomResourceDefinition/widgets", |fate| fate.proof = proof);
        trace(
            world,
            "
            plan
            check CustomResourceDefinition/widgets
            check Widget/w
            apply CustomResourceDefinition/widgets
            # one or more tasks are running
            apply Widget/w
            # successfully synced (all tasks run)
            = 1 CustomResourceDefinition/widgets Synced Running: widgets applied
            = 2 Widget/w Synced Running: w applied
            ",
        );
    }
}

#[test]
fn kinds_are_applied_group_by_group() {
    let tasks = [
        resource(0, "ConfigMap/a"),
        resource(0, "ConfigMap/b"),
        resource(0, "Deployment/a"),
        resource(0, "ConfigMap/z"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.fate("ConfigMap/a", |fate| fate.write.push_back(crate::world::Reply::No("no".into())));
    world.weather.slow = 50;
    world.run();
    let order: Vec<&str> = world.transcript.iter().filter_map(|line| line.strip_prefix("apply ")).collect();
    assert_eq!(order, ["ConfigMap/a", "ConfigMap/b", "Deployment/a", "ConfigMap/z"]);
    assert_eq!(world.results().len(), 4, "a failure does not keep later groups back");
}

#[test]
fn a_runner_carries_a_hook_out() {
    let mut world = World::new(
        plan([hook(Phase::PreSync, 0, "Job/a").runner("shell"), resource(0, "ConfigMap/c")]),
        request(),
    );
    trace(
        world,
        "
            plan
            check ConfigMap/c
            run Job/a
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 Job/a Synced Succeeded: ran
            = 2 ConfigMap/c Synced Running: c applied
            ",
    );
    world = World::new(plan([hook(Phase::PreSync, 0, "Job/a").runner("shell")]), request());
    world.fate("Job/a", |fate| fate.runs = false);
    trace(
        world,
        "
            plan
            run Job/a
            # one or more synchronization tasks completed unsuccessfully
            = 1 Job/a Synced Failed: ran
            ",
    );
}

#[test]
fn weak_evidence_settles_two_seconds_after_the_write() {
    let run = |delay: Option<u64>, proof: Proof, healthy_after: i64| {
        let request = SyncRequest { wave_delay: delay.map(seconds), ..request() };
        let mut world = World::new(plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]), request);
        world.fate("Widget/w", |fate| {
            fate.proof = proof;
            fate.health[1].0 = healthy_after;
        });
        world.run();
        world.now
    };
    assert_eq!(run(None, Proof::Nothing, 1), 2000);
    assert_eq!(run(None, Proof::Nothing, 3000), 3000, "it has been long enough");
    assert_eq!(run(None, Proof::Identity, 1), 1);
    assert_eq!(run(Some(0), Proof::Nothing, 1), 1);
    // A fixed delay comes after every wave but the last, whatever the evidence.
    assert_eq!(run(Some(5), Proof::Nothing, 1), 5000);
    assert_eq!(run(Some(5), Proof::Identity, 1), 5000);
    assert_eq!(run(Some(5), Proof::Identity, 7000), 7000);
}

#[test]
fn weak_evidence_that_turns_bad_is_no_success() {
    let mut world = World::new(plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]), request());
    world.fate("Widget/w", |fate| {
        fate.proof = Proof::Nothing;
        fate.health = vec![
            (0, seen(HealthStatus::Healthy, "looks good")),
            (500, seen(HealthStatus::Progressing, "hm")),
            (5000, seen(HealthStatus::Degraded, "bad")),
        ];
    });
    trace(
        world,
        "
            plan
            check Widget/w
            check ConfigMap/c
            apply Widget/w
            # waiting for healthy state of example.com/Widget/w
            # one or more synchronization tasks completed unsuccessfully
            = 1 Widget/w Synced Failed: bad
            ",
    );
}

#[test]
fn the_last_wave_is_gated_where_that_is_asked_for() {
    for (wait, ended) in [(WaitFor::Synced, 0), (WaitFor::Healthy, 1000)] {
        let request = SyncRequest { wait, ..request() };
        let mut world = World::new(plan([resource(0, "Deployment/api")]), request);
        assert_eq!(world.run().now, ended);
    }
    // An existing object that is not well does not matter where nobody waits for it.
    let degraded = || resource(0, "Deployment/api").acting(Action::Apply).living();
    let mut world = World::new(plan([degraded()]), request());
    world.fate("Deployment/api", |fate| fate.health = vec![(0, seen(HealthStatus::Degraded, "bad"))]);
    world.fate("Deployment/api", |fate| fate.proof = Proof::Identity);
    world.run();
    assert_eq!(world.driver.state().message(), "successfully synced (all tasks run)");
    // It does where a hook keeps the wave open, even in an operation of one step.
    let mut world = World::new(plan([degraded(), hook(Phase::Sync, 0, "Job/j")]), request());
    world.fate("Deployment/api", |fate| fate.degrades("bad"));
    world.fate("Job/j", |fate| fate.health[1].0 = 2000);
    world.run();
    assert_eq!(world.driver.state().message(), "one or more synchronization tasks completed unsuccessfully");
}

/// One step with a hook: its resources are not awaited.
#[test]
fn a_single_step_waits_for_hooks_only() {
    let mut world =
        World::new(plan([resource(0, "Deployment/api"), hook(Phase::Sync, 0, "Job/j")]), request());
    world.fate("Deployment/api", |fate| fate.health.truncate(1));
    trace(
        world,
        "
            plan
            check Deployment/api
            check Job/j
            clear Job/j
            apply Deployment/api
            apply Job/j
            # waiting for completion of hook batch/Job/j
            release Job/j
            # successfully synced (no more tasks)
            = 1 Deployment/api Synced Running: api applied
            = 2 Job/j Synced Succeeded: starting
            ",
    );
}

#[test]
fn a_wave_has_a_deadline() {
    let mut world = World::new(
        plan([
            hook(Phase::Sync, 0, "Job/slow"),
            resource(0, "Deployment/api"),
            resource(1, "ConfigMap/c"),
            hook(Phase::SyncFail, 0, "Job/alert"),
        ])
        .wave_timeout(0, 5),
        retrying(1),
    );
    world.fate("Job/slow", |fate| fate.health[1].0 = 60_000);
    world.fate("Deployment/api", |fate| fate.health[1].0 = 8000);
    trace(world, "
            plan
            check Job/slow
            check Deployment/api
            check ConfigMap/c
            check Job/alert
            clear Job/slow
            apply Job/slow
            apply Deployment/api
            # waiting for completion of hook batch/Job/slow and 1 more resources
            stop Job/slow
            # wave 0 of Sync did not pass within 5 s: waiting for completion of hook batch/Job/slow and 1 more resources. Retrying attempt #1 at 12:00AM.
            clear Job/slow
            apply Job/slow
            apply Deployment/api
            # waiting for completion of hook batch/Job/slow and 1 more resources
            stop Job/slow
            clear Job/alert
            apply Job/alert
            # waiting for completion of hook batch/Job/alert
            release Job/alert
            # wave 0 of Sync did not pass within 5 s: waiting for completion of hook batch/Job/slow and 1 more resources (retried 1 times).
            = 1 Job/slow Synced Failed: stopped: the wave's deadline has passed
            = 2 Deployment/api Synced Failed: not healthy when the wave's deadline passed: starting
            = 3 Job/alert Synced Succeeded: starting
            ");
}

#[test]
fn a_hook_has_a_deadline() {
    let tasks =
        [hook(Phase::Sync, 0, "Job/slow").timeout(5), hook(Phase::Sync, 0, "Job/run").runner("r").timeout(5)];
    let mut world = World::new(plan(tasks), request());
    world.fate("Job/slow", |fate| fate.health[1].0 = 60_000);
    trace(
        world,
        "
            plan
            check Job/slow
            clear Job/slow
            apply Job/slow
            run Job/run
            # waiting for completion of hook batch/Job/slow
            stop Job/slow
            # one or more synchronization tasks completed unsuccessfully
            = 1 Job/run Synced Succeeded: ran
            = 2 Job/slow Synced Failed: hook did not complete within 5 s
            ",
    );
    // If it ended just before it was stopped, how it ended counts.
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/slow").timeout(5)]), request());
    world.fate("Job/slow", |fate| fate.health[1].0 = 5000);
    world.run();
    assert_eq!(world.driver.state().message(), "successfully synced (no more tasks)");
}

#[test]
fn an_operation_has_a_deadline_across_its_attempts() {
    let deadline = Some(seconds(20));
    let mut world = World::new(
        plan([hook(Phase::Sync, 0, "Job/slow"), resource(0, "Deployment/api")]),
        SyncRequest { deadline, ..retrying(5) },
    );
    world.fate("Job/slow", |fate| fate.health[1].0 = 60_000);
    world.fate("Deployment/api", |fate| fate.write.push_back(crate::world::Reply::No("no".into())));
    trace(
        world,
        "
            plan
            check Job/slow
            check Deployment/api
            clear Job/slow
            apply Job/slow
            apply Deployment/api
            # waiting for completion of hook batch/Job/slow
            stop Job/slow
            # Operation terminated, triggered by the operation deadline of 20 s
            = 1 Job/slow Synced Failed: Terminated
            = 2 Deployment/api SyncFailed Failed: no
            ",
    );
    // While it is being planned as well.
    let mut world =
        World::new(plan([]), SyncRequest { deadline: Some(Duration::from_millis(300)), ..request() });
    world.planning(std::iter::repeat_n(crate::world::Reply::Busy, 9));
    world.run();
    assert_eq!(
        world.driver.state().message(),
        "Operation terminated, triggered by the operation deadline of 300 ms"
    );
    assert_eq!(world.now, 300);
}

/// Paused for ten seconds, everything ends ten seconds later.
#[test]
fn deadlines_stand_still_while_paused() {
    let pause = |world: &mut World| {
        world.at(1000, Input::Pause { by: "bob".into(), reason: "lunch".into() });
        world.at(11_000, Input::Unpause { by: "bob".into() });
    };
    let slow = |plan: tidegate_model::Plan, request: SyncRequest| {
        let mut world = World::new(plan, request);
        world.fate("Job/slow", |fate| fate.health[1].0 = 60_000);
        pause(&mut world);
        world.run();
        world
    };
    let hooked = || plan([hook(Phase::Sync, 0, "Job/slow")]);
    let world = slow(hooked(), SyncRequest { deadline: Some(seconds(20)), ..request() });
    assert_eq!(moments(&world, "Terminating"), ["30000 Terminating"]);
    let world = slow(hooked().wave_timeout(0, 20), request());
    assert_eq!(moments(&world, "Finished"), ["30000 Finished"]);
    let world = slow(plan([hook(Phase::Sync, 0, "Job/slow").timeout(20)]), request());
    assert_eq!(moments(&world, "Finished"), ["30000 Finished"]);

    let mut world = World::new(plan([resource(0, "Deployment/api")]), retrying(1));
    world.fate("Deployment/api", |fate| fate.write.push_back(crate::world::Reply::No("no".into())));
    pause(&mut world);
    world.run();
    assert_eq!(moments(&world, "Applying"), ["0 Wave 1 Applying", "15000 Wave 1 Applying"]);
}
