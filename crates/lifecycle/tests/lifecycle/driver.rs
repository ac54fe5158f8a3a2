//! The driver: when facts are written, when commands go out, and what a crash at any step costs.

use std::sync::Arc;

use tidegate_lifecycle::operation::{Command, Driver, Fact, Input, State, view};
use tidegate_lifecycle::{FACTS_MAX, LAZY_WAIT, Owed, SNAPSHOT_EVERY, TOLD_WAIT};
use tidegate_model::{DeletePolicy, Phase, Plan, SyncRequest, Timestamp};

use crate::build::*;
use crate::world::{Change, Reply, World, Write};

fn begun() -> Driver {
    let mut driver = Driver::default();
    let request =
        Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    driver.offer(&request, at(0)).unwrap();
    driver.advance(at(0)).unwrap();
    driver
}

fn owed<const N: usize>(commands: [Command; N], wake_at: Option<Timestamp>) -> Option<Owed<Command>> {
    Some(Owed { commands: commands.to_vec(), wake_at })
}

#[test]
fn commands_wait_for_what_matters() {
    let mut driver = begun();
    assert_eq!(driver.owed(at(0)), None, "the request is not durable yet");
    let batch = driver.take_batch(at(0), false).unwrap();
    assert_eq!((batch.first_sequence, batch.last_sequence()), (1, 1));
    assert_eq!(driver.owed(at(0)), None, "it is on its way");
    assert!(driver.take_batch(at(0), true).is_none(), "one batch at a time");
    driver.persisted();
    assert_eq!(driver.owed(at(0)), owed([Command::Plan], None));
}

#[test]
fn what_does_not_matter_is_written_later() {
    let mut driver = begun();
    driver.take_batch(at(0), false).unwrap();
    driver.persisted();
    let busy = Input::PlanFailed(tidegate_lifecycle::operation::CallError::transient("busy"));
    driver.offer(&busy, at(1000)).unwrap();
    driver.advance(at(1000)).unwrap();
    assert!(driver.take_batch(at(1000), false).is_none());
    // Why it waits is soon on the disk: somebody may ask after a kill.
    let due = at(1000) + TOLD_WAIT;
    assert_eq!(driver.write_at(), Some(due));
    assert_eq!(driver.owed(at(1000)), owed([], Some(at(1200))));
    assert_eq!(driver.owed(at(1200)), owed([Command::Plan], None));
    assert_eq!(driver.take_batch(due, false).unwrap().first_sequence, 2);
    // A lazy batch on its way does not hold commands up, and nobody is woken for the next batch meanwhile.
    assert_eq!(driver.owed(at(1200)), owed([Command::Plan], None));
    driver.offer(&busy, at(1200)).unwrap();
    assert_eq!(driver.owed(at(1200)), owed([], Some(at(1600))));
    assert_eq!(driver.write_at(), None);
    assert!(driver.take_batch(due + LAZY_WAIT, false).is_none(), "one batch at a time");
    driver.persisted();
    assert!(driver.take_batch(due, true).is_some(), "or now, when it is asked for");
}

#[test]
fn a_late_answer_is_dropped_and_a_wish_is_refused() {
    let mut driver = begun();
    let late =
        Input::Gate { wave: 0, gate: "g".into(), verdict: tidegate_lifecycle::operation::Verdict::Open };
    driver.offer(&late, at(0)).unwrap();
    let refused = driver.offer(&Input::Unpause { by: "ann".into() }, at(0)).unwrap_err();
    assert_eq!(refused.to_string(), "operation is not paused; nothing to unpause");
    assert_eq!(driver.sequence(), 1);
}

#[test]
fn recovery_needs_no_path_of_its_own() {
    let fresh = Driver::recover(None, []).unwrap();
    assert_eq!(*fresh.state(), State::New);
    let mut world = World::new(
        plan((0..600).map(|n| resource(n, "ConfigMap/c").with(|task| task.name = format!("c{n}")))),
        request(),
    );
    world.run_until(0);
    // A snapshot with the facts after it is as good as all facts.
    let mut driver = Driver::default();
    let mut snapshot = None;
    for input in world.inputs() {
        driver.offer(&input, at(0)).unwrap();
        driver.advance(at(0)).unwrap();
        if let Some(batch) = driver.take_batch(at(0), true) {
            driver.persisted();
            snapshot = batch.snapshot.clone().map(|state| (batch.last_sequence(), state)).or(snapshot);
        }
    }
    let (covered, state) = snapshot.expect("a snapshot is due by now");
    assert!(covered >= SNAPSHOT_EVERY);
    let rest = world.durable.iter().skip(usize::try_from(covered).unwrap()).cloned();
    let recovered = Driver::recover(Some((covered, state)), rest).unwrap();
    assert_eq!(recovered.state(), world.driver().state());
    assert_eq!(recovered.sequence(), world.driver().sequence());
    let damaged = world.durable.iter().skip(1).cloned();
    assert!(Driver::recover(None, damaged).is_err());
}

#[test]
fn an_operation_that_goes_round_in_circles_is_ended() {
    let driver = begun();
    let mut driver = Driver::recover(Some((FACTS_MAX, driver.state().clone())), []).unwrap();
    driver
        .offer(&Input::Planned { plan: Arc::new(plan([])), bundle: DIGEST, namespaces: Vec::new() }, at(0))
        .unwrap();
    driver.advance(at(0)).unwrap();
    assert!(driver.state().is_finished());
    assert_eq!(driver.state().message(), "gave up after 5000000 recorded facts");
}

/// Operations with everything in them.
fn golden() -> Vec<(Plan, SyncRequest)> {
    let both = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookSucceeded];
    let full = || {
        plan([
            hook(Phase::PreSync, 0, "Job/migrate").policies(&both).living(),
            prune(0, "Deployment/old"),
            hook(Phase::Sync, 0, "Job/in-between").policies(&[DeletePolicy::HookFailed]),
            resource(0, "CustomResourceDefinition/w"),
            resource(0, "Widget/w").checked_late(),
            resource(1, "Deployment/api"),
            hook(Phase::PostSync, 0, "Job/smoke").runner("shell"),
            hook(Phase::SyncFail, 0, "Job/alert").policies(&[DeletePolicy::HookFailed]),
        ])
        .gated(2, "gate")
        .wave_timeout(1, 30)
    };
    let tries = SyncRequest {
        options: tidegate_model::SyncOptions { dry_run: true, ..Default::default() },
        ..request()
    };
    vec![(full(), retrying(1)), (full(), tries)]
}

/// What fails in which variant of a golden operation.
const MISFORTUNES: [&str; 5] = ["", "Deployment/api", "Job/migrate", "Widget/w", "Job/alert"];

fn golden_world(plan: &Plan, request: &SyncRequest, misfortune: &str) -> World {
    let mut world = World::new(plan.clone(), request.clone());
    world.fate("Deployment/old", |fate| fate.lingers = 1500);
    world.fate("Job/migrate", |fate| fate.lingers = 700);
    if !misfortune.is_empty() {
        world.fate(misfortune, |fate| fate.degrades("bad"));
    }
    if misfortune == "Job/alert" {
        world.fate("Deployment/api", |fate| {
            fate.write.push_back(Reply::Busy);
            fate.write.extend(std::iter::repeat_n(Reply::No("no".into()), 40));
        });
    }
    world
}

/// The writes in order; those that are sent at the same time, of one step of one wave, in any order.
fn writes(world: &World) -> Vec<String> {
    let line = |write: &Write| {
        let task = world.plan.task(write.task).unwrap();
        let is_cleanup =
            task.is_hook() && matches!(&write.what, Change::Deleted(uid) if !uid.starts_with("old"));
        let step = if is_cleanup { "at the end" } else { "" };
        (
            step,
            task.phase,
            task.wave,
            format!("{step} {:?} {} in attempt {}", write.what, task.name, write.attempt),
        )
    };
    let mut lines: Vec<_> = world.cluster.audit.iter().map(line).collect();
    for group in lines.chunk_by_mut(|a, b| a.0 == b.0 && (a.0 == "at the end" || (a.1, a.2) == (b.1, b.2))) {
        group.sort();
    }
    lines.into_iter().map(|(_, _, _, line)| line).collect()
}

/// The engine dies once, before any one event: the cluster sees the same writes in the same order.
#[test]
fn a_crash_before_any_event_changes_nothing() {
    let mut crashes = 0;
    for (plan, request) in golden() {
        for misfortune in MISFORTUNES {
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
                // Which words were seen while waiting may differ.
                let resources = |world: &World| {
                    let results = view(world.driver().state()).unwrap().resources.into_iter();
                    results
                        .map(|result| (result.name, result.status, result.hook_phase, result.order))
                        .collect::<Vec<_>>()
                };
                assert_eq!(writes(&world), writes(&undisturbed), "{misfortune} crash {before}");
                assert_eq!(world.driver().state().message(), undisturbed.driver().state().message());
                assert_eq!(resources(&world), resources(&undisturbed));
                world.check_replay();
            }
        }
    }
    assert!(crashes > 500, "only {crashes} crashes");
}

/// Every batch of a wave is written at most three times, whatever its width.
#[test]
fn a_wave_needs_few_writes() {
    for width in [1, 10, 200] {
        let tasks = (0..3)
            .flat_map(|wave| (0..width).map(move |n| resource(wave, &format!("Deployment/w{wave}-{n}"))));
        let mut world = World::new(plan(tasks), request());
        world.run();
        let moved = world.durable.iter().filter(|fact| matches!(fact, Fact::Moved { .. })).count();
        assert!(moved <= 3 + 3 * 4, "{moved} arrows");
        assert!(world.writes <= 3 + 3 * 3, "{} writes for {width} objects a wave", world.writes);
    }
}
