//! Transitions of the machine, one row each.

use serde_json::json;
use tidegate_application::machine::{ChangedResource, Input, Phase};
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::SyncStatusCode;

use super::{Controller, Task, commit_name};

/// Situation in which an input arrives.
#[derive(Clone, Copy, Debug)]
enum Situation {
    /// The Application has just been read.
    New,
    /// A comparison is running.
    Comparing,
    /// The Application is in sync, and nothing is running.
    Synced,
    /// A requested operation is being prepared.
    Preparing,
    /// An operation is running.
    Running,
    /// The Application is being deleted, and the operation that deletes its objects is running.
    Deleting,
}

fn reach(situation: Situation) -> Controller {
    let mut controller = Controller::new(json!({}));
    if matches!(situation, Situation::New) {
        return controller;
    }
    controller.deliver(Input::Step);
    if matches!(situation, Situation::Comparing) {
        return controller;
    }
    controller.deployed = 1;
    controller.settle();
    match situation {
        Situation::New | Situation::Comparing | Situation::Synced => {}
        Situation::Preparing => controller.sync().unwrap(),
        Situation::Running => {
            controller.sync().unwrap();
            run_operation(&mut controller);
        }
        Situation::Deleting => {
            controller.delete();
            run_operation(&mut controller);
        }
    }
    controller
}

/// Completes tasks until an operation is running.
fn run_operation(controller: &mut Controller) {
    while controller.log.last().is_none_or(|one| one.finished_at.is_some()) {
        controller.complete(0);
    }
}

/// Returns the effects of the last input, without alarms.
fn effects(controller: &Controller) -> Vec<&str> {
    controller.last_effects.iter().map(String::as_str).filter(|one| *one != "Wake").collect()
}

#[test]
fn each_input_has_the_expected_effects() {
    type Act = fn(&mut Controller);
    let step: Act = |one| one.deliver(Input::Step);
    let compare: Act = |one| one.deliver(Input::Compare(RefreshLevel::Latest));
    let refresh: Act = |one| one.refresh(RefreshLevel::Forced);
    let sync: Act = |one| drop(one.sync());
    let delete: Act = Controller::delete;
    let change: Act = |one| one.deliver(Input::ObjectChanged);
    let table: [(Situation, &str, Act, &[&str]); 22] = [
        (Situation::New, "step", step, &["Compare", "RegisterDependencies"]),
        (Situation::New, "sync", sync, &["Compare", "RegisterDependencies", "Prepare"]),
        (Situation::New, "delete", delete, &["RegisterDependencies", "Prepare"]),
        (Situation::Comparing, "step", step, &[]),
        (Situation::Comparing, "compare", compare, &[]),
        (Situation::Comparing, "refresh", refresh, &[]),
        (Situation::Comparing, "object change", change, &[]),
        (Situation::Comparing, "sync", sync, &["Prepare"]),
        (Situation::Comparing, "delete", delete, &["Prepare"]),
        (Situation::Synced, "step", step, &[]),
        (Situation::Synced, "compare", compare, &["Compare"]),
        (Situation::Synced, "refresh", refresh, &["Compare"]),
        (Situation::Synced, "object change", change, &[]),
        (Situation::Synced, "sync", sync, &["Prepare"]),
        (Situation::Synced, "delete", delete, &["Prepare"]),
        (Situation::Preparing, "step", step, &[]),
        (Situation::Preparing, "sync", sync, &[]),
        (Situation::Running, "step", step, &[]),
        (Situation::Running, "sync", sync, &[]),
        (Situation::Running, "refresh", refresh, &["Compare"]),
        (Situation::Deleting, "step", step, &[]),
        (Situation::Deleting, "sync", sync, &[]),
    ];
    for (situation, name, act, expected) in table {
        let mut controller = reach(situation);
        act(&mut controller);
        assert_eq!(effects(&controller), expected, "{situation:?}: {name}");
    }
}

#[test]
fn a_second_request_is_rejected_while_an_operation_is_current() {
    for situation in [Situation::Preparing, Situation::Running] {
        let mut controller = reach(situation);
        let refusal = controller.sync().unwrap_err();
        assert!(refusal.contains("already in progress"), "{situation:?}: {refusal}");
    }
    let refusal = reach(Situation::Deleting).sync().unwrap_err();
    assert!(refusal.contains("is deleting"), "{refusal}");
}

/// The result of a preparation that was stopped doesn't apply to the next operation.
#[test]
fn a_late_preparation_is_ignored() {
    let mut controller = reach(Situation::Preparing);
    let Some(Task::Preparation { preparation, .. }) = controller.tasks.back().cloned() else { panic!() };
    controller.tasks.clear();
    controller.machine.stop_handover();
    controller.machine.end_unstarted_operation("ann", controller.now);
    controller.deliver(Input::Step);
    controller.sync().unwrap();
    let id = format!("{:032x}", 77).parse().unwrap();
    controller.deliver(Input::Prepared { preparation, result: Ok((vec![commit_name(9)], id)) });
    assert_eq!((controller.machine.phase(), controller.machine.operation_id()), (Phase::Preparing, None));
    controller.settle();
    assert_eq!(controller.log.last().map(|one| one.request.revision.clone()), Some(commit_name(1)));
}

/// A comparison that started before an operation ended doesn't show the operation's effects.
#[test]
fn a_comparison_from_before_the_end_of_an_operation_is_repeated() {
    let mut controller = reach(Situation::Running);
    controller.refresh(RefreshLevel::Forced);
    let place = |controller: &Controller, is_it: fn(&Task) -> bool| controller.tasks.iter().position(is_it);
    let comparison = place(&controller, |task| matches!(task, Task::Comparison { .. })).unwrap();
    let Some(Task::Comparison { start, began_at }) = controller.tasks.remove(comparison) else { panic!() };
    let operation = place(&controller, |task| matches!(task, Task::Operation { .. })).unwrap();
    controller.complete(operation);
    controller.finish_comparison(*start, began_at, false);
    assert_eq!(effects(&controller), ["Compare"]);
    assert!(controller.answers.values().all(Option::is_none), "the client waits for the next comparison");
    controller.settle();
    assert!(controller.answers.values().all(|answer| *answer == Some(Ok(()))));
}

/// The watches may report the writes of an operation only after it has ended.
#[test]
fn the_comparison_after_an_operation_does_not_reuse_earlier_results() {
    let mut controller = reach(Situation::Synced);
    let may_reuse = |controller: &Controller| {
        controller.tasks.iter().find_map(|task| match task {
            Task::Comparison { start, .. } => Some(start.may_reuse_results),
            Task::Preparation { .. } | Task::Operation { .. } => None,
        })
    };
    controller.deliver(Input::Compare(RefreshLevel::Latest));
    assert_eq!(may_reuse(&controller), Some(true));
    controller.settle();
    controller.sync().unwrap();
    run_operation(&mut controller);
    controller.complete(0);
    assert_eq!(may_reuse(&controller), Some(false), "the operation has just ended");
    controller.settle();
    controller.deliver(Input::Compare(RefreshLevel::Latest));
    assert_eq!(may_reuse(&controller), Some(true));
}

/// Until the operation is stored, the engine doesn't get it.
#[test]
fn an_operation_that_cannot_be_stored_does_not_start() {
    let mut controller = reach(Situation::Synced);
    controller.are_writes_failing = true;
    assert!(controller.sync().is_err());
    controller.settle_for(10);
    assert!(controller.log.is_empty());
    controller.are_writes_failing = false;
    controller.settle();
    assert!(controller.log.is_empty(), "the rejected request was undone");
    controller.sync().unwrap();
    controller.settle();
    assert_eq!(controller.log.len(), 1);
}

#[test]
fn a_deletion_that_is_withdrawn_before_it_starts_never_starts() {
    let mut controller = reach(Situation::Synced);
    controller.delete();
    assert_eq!(controller.machine.phase(), Phase::Preparing);
    controller.stored.metadata.deletion_timestamp = None;
    let mut restored = controller.app().clone();
    restored.metadata.deletion_timestamp = None;
    restored.operation = None;
    let changed = ChangedResource { application: restored, problem: None };
    controller.deliver(Input::Changed(Box::new(changed)));
    controller.settle();
    assert!(controller.log.is_empty());
    let status = controller.app().status.sync.as_ref().map(|sync| sync.status);
    assert_eq!(status, Some(SyncStatusCode::Synced));
}
