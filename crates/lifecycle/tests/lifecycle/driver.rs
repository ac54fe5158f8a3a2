//! Tests of the driver: order of writes and commands, snapshots, and crashes at any step.

use std::sync::Arc;

use tidegate_lifecycle::operation::{Command, Driver, Input, OperationEvent, State, view};
use tidegate_lifecycle::{
    EVENTS_MAX, LAZY_EVENT_WAIT_MAX, Outstanding, SNAPSHOT_INTERVAL_MIN, STATUS_EVENT_WAIT_MAX,
};
use tidegate_model::{DeletePolicy, Phase, Plan, SyncRequest, Timestamp};

use crate::build::*;
use crate::world::{Change, Reply, World, Write};

fn started_driver() -> Driver {
    let mut driver = Driver::default();
    let request =
        Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    driver.handle_input(&request, at(0)).unwrap();
    driver.advance(at(0)).unwrap();
    driver
}

fn outstanding<const N: usize>(
    commands: [Command; N],
    wake_at: Option<Timestamp>,
) -> Option<Outstanding<Command>> {
    Some(Outstanding { commands: commands.to_vec(), wake_at })
}

#[test]
fn commands_wait_for_urgent_events() {
    let mut driver = started_driver();
    assert_eq!(driver.outstanding(at(0)), None, "the request is not durable yet");
    let batch = driver.take_batch(at(0), false).unwrap();
    assert_eq!((batch.first_sequence, batch.last_sequence()), (1, 1));
    assert_eq!(driver.outstanding(at(0)), None, "the batch is still in flight");
    assert!(driver.take_batch(at(0), true).is_none(), "only one batch may be in flight");
    driver.mark_persisted();
    assert_eq!(driver.outstanding(at(0)), outstanding([Command::Plan], None));
}

#[test]
fn lazy_events_are_written_later() {
    let mut driver = started_driver();
    driver.take_batch(at(0), false).unwrap();
    driver.mark_persisted();
    let busy = Input::PlanFailed(tidegate_lifecycle::operation::CallError::transient("busy"));
    driver.handle_input(&busy, at(1000)).unwrap();
    driver.advance(at(1000)).unwrap();
    assert!(driver.take_batch(at(1000), false).is_none());
    // The reason for a wait becomes durable soon, because users need it after a crash.
    let due = at(1000) + STATUS_EVENT_WAIT_MAX;
    assert_eq!(driver.flush_at(), Some(due));
    assert_eq!(driver.outstanding(at(1000)), outstanding([], Some(at(1200))));
    assert_eq!(driver.outstanding(at(1200)), outstanding([Command::Plan], None));
    assert_eq!(driver.take_batch(due, false).unwrap().first_sequence, 2);
    // A lazy batch in flight doesn't delay commands, but suppresses the wake-up for the next batch.
    assert_eq!(driver.outstanding(at(1200)), outstanding([Command::Plan], None));
    driver.handle_input(&busy, at(1200)).unwrap();
    assert_eq!(driver.outstanding(at(1200)), outstanding([], Some(at(1600))));
    assert_eq!(driver.flush_at(), None);
    assert!(driver.take_batch(due + LAZY_EVENT_WAIT_MAX, false).is_none(), "only one batch may be in flight");
    driver.mark_persisted();
    assert!(driver.take_batch(due, true).is_some(), "`flush` must write lazy events immediately");
}

#[test]
fn late_answers_are_dropped_and_invalid_requests_rejected() {
    let mut driver = started_driver();
    let late =
        Input::Gate { wave: 0, gate: "g".into(), verdict: tidegate_lifecycle::operation::Verdict::Open };
    driver.handle_input(&late, at(0)).unwrap();
    let refused = driver.handle_input(&Input::Unpause { by: "ann".into() }, at(0)).unwrap_err();
    assert_eq!(refused.to_string(), "the operation is not paused, so there is nothing to unpause");
    assert_eq!(driver.sequence(), 1);
}

#[test]
fn recovery_needs_no_separate_path() {
    let fresh = Driver::recover(None, []).unwrap();
    assert_eq!(*fresh.state(), State::New);
    let mut world = World::new(
        plan((0..600).map(|n| resource(n, "ConfigMap/c").with(|task| task.name = format!("c{n}")))),
        request(),
    );
    world.run_until(0);
    // A snapshot and the events after it are equivalent to all events.
    let mut driver = Driver::default();
    let mut snapshot = None;
    for input in world.inputs() {
        driver.handle_input(&input, at(0)).unwrap();
        driver.advance(at(0)).unwrap();
        if let Some(batch) = driver.take_batch(at(0), true) {
            driver.mark_persisted();
            snapshot = batch.snapshot.clone().map(|state| (batch.last_sequence(), state)).or(snapshot);
        }
    }
    let (covered, state) = snapshot.expect("a snapshot must be due");
    assert!(covered >= SNAPSHOT_INTERVAL_MIN);
    let rest = world.durable.iter().skip(usize::try_from(covered).unwrap()).cloned();
    let recovered = Driver::recover(Some((covered, state)), rest).unwrap();
    assert_eq!(recovered.state(), world.driver().state());
    assert_eq!(recovered.sequence(), world.driver().sequence());
    let damaged = world.durable.iter().skip(1).cloned();
    assert!(Driver::recover(None, damaged).is_err());
}

#[test]
fn an_operation_in_an_endless_loop_is_ended() {
    let driver = started_driver();
    let mut driver = Driver::recover(Some((EVENTS_MAX, driver.state().clone())), []).unwrap();
    driver
        .handle_input(
            &Input::Planned { plan: Arc::new(plan([])), bundle: DIGEST, namespaces: Vec::new() },
            at(0),
        )
        .unwrap();
    driver.advance(at(0)).unwrap();
    assert!(driver.state().is_finished());
    assert_eq!(driver.state().message(), "the limit of 5000000 recorded events was reached");
}

/// Plans and requests that together use all features.
fn golden_operations() -> Vec<(Plan, SyncRequest)> {
    let both = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookSucceeded];
    let full = || {
        plan([
            hook_task(Phase::PreSync, 0, "Job/migrate").with_delete_policies(&both).with_live_object(),
            prune_task(0, "Deployment/old"),
            hook_task(Phase::Sync, 0, "Job/in-between").with_delete_policies(&[DeletePolicy::HookFailed]),
            resource(0, "CustomResourceDefinition/w"),
            resource(0, "Widget/w").with_late_check(),
            resource(1, "Deployment/api"),
            hook_task(Phase::PostSync, 0, "Job/smoke").with_runner("shell"),
            hook_task(Phase::SyncFail, 0, "Job/alert").with_delete_policies(&[DeletePolicy::HookFailed]),
        ])
        .with_gate(2, "gate")
        .with_wave_timeout(1, 30)
    };
    let tries = SyncRequest {
        options: tidegate_model::SyncOptions { dry_run: true, ..Default::default() },
        ..request()
    };
    vec![(full(), request_with_retries(1)), (full(), tries)]
}

/// Object that fails in each variant of a golden operation. Empty for the variant without failures.
const FAILING_OBJECTS: [&str; 5] = ["", "Deployment/api", "Job/migrate", "Widget/w", "Job/alert"];

fn golden_world(plan: &Plan, request: &SyncRequest, misfortune: &str) -> World {
    let mut world = World::new(plan.clone(), request.clone());
    world.configure("Deployment/old", |fate| fate.deletion_delay = 1500);
    world.configure("Job/migrate", |fate| fate.deletion_delay = 700);
    for hook in ["Job/migrate", "Job/alert"] {
        world.configure(hook, |fate| fate.starts_suspended = true);
    }
    if !misfortune.is_empty() {
        world.configure(misfortune, |fate| fate.degrade("bad"));
    }
    if misfortune == "Job/alert" {
        world.configure("Deployment/api", |fate| {
            fate.write.push_back(Reply::Busy);
            fate.write.extend(std::iter::repeat_n(Reply::Rejected("no".into()), 40));
        });
    }
    world
}

/// Returns the writes in order. Writes in the same step of a wave are concurrent, so their order is ignored.
fn sorted_writes(world: &World) -> Vec<String> {
    let line = |write: &Write| {
        let task = world.plan.task(write.task).unwrap();
        let is_cleanup =
            task.is_hook() && matches!(&write.change, Change::Deleted(uid) if !uid.starts_with("old"));
        let step = if is_cleanup { "at the end" } else { "" };
        (
            step,
            task.phase,
            task.wave,
            format!("{step} {:?} {} in attempt {}", write.change, task.name, write.attempt),
        )
    };
    let mut lines: Vec<_> = world.cluster.writes.iter().map(line).collect();
    for group in lines.chunk_by_mut(|a, b| a.0 == b.0 && (a.0 == "at the end" || (a.1, a.2) == (b.1, b.2))) {
        group.sort();
    }
    lines.into_iter().map(|(_, _, _, line)| line).collect()
}

/// If the engine crashes once, before any of the events, the cluster still receives the same writes in the
/// same order.
#[test]
fn a_crash_before_any_event_does_not_change_the_writes() {
    let mut crashes = 0;
    for (plan, request) in golden_operations() {
        for misfortune in FAILING_OBJECTS {
            let mut undisturbed = golden_world(&plan, &request, misfortune);
            undisturbed.run();
            for before in 1.. {
                let mut world = golden_world(&plan, &request, misfortune);
                world.crash_before = Some(before);
                world.run();
                if world.crash_before.is_some() {
                    break;
                }
                crashes += 1;
                // Only resources are compared, because messages about waits may differ.
                let resources = |world: &World| {
                    let results = view(world.driver().state()).unwrap().resources.into_iter();
                    results
                        .map(|result| (result.name, result.status, result.hook_phase, result.order))
                        .collect::<Vec<_>>()
                };
                assert_eq!(sorted_writes(&world), sorted_writes(&undisturbed), "{misfortune} crash {before}");
                assert_eq!(world.driver().state().message(), undisturbed.driver().state().message());
                assert_eq!(resources(&world), resources(&undisturbed));
                world.check_replay();
            }
        }
    }
    assert!(crashes > 500, "only {crashes} crashes");
}

/// A wave of any size needs only a few writes to the log.
#[test]
fn a_wave_needs_few_writes() {
    for width in [1, 10, 200] {
        let tasks = (0..3)
            .flat_map(|wave| (0..width).map(move |n| resource(wave, &format!("Deployment/w{wave}-{n}"))));
        let mut world = World::new(plan(tasks), request());
        world.run();
        let moved =
            world.durable.iter().filter(|event| matches!(event, OperationEvent::StageChanged { .. })).count();
        assert!(moved <= 3 + 3 * 4, "{moved} transitions");
        assert!(world.writes <= 3 + 3 * 3, "{} writes for {width} objects a wave", world.writes);
    }
}
