//! Transitions of the machine, one row each.

use serde_json::json;
use tidegate_application::machine::{Input, Phase};
use tidegate_application::operation::EngineProgress;
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::SyncStatusCode;
use tidegate_model::{OperationId, OperationPhase};

use super::{Act, Controller, Task, check_transitions, commit_name, operation_id, row};

use self::Situation::*;

/// Situation in which an input arrives.
#[derive(Clone, Copy, Debug)]
enum Situation {
    /// The Application has just been read.
    New,
    /// A comparison is running.
    Comparing,
    /// The Application was edited after a comparison started.
    ComparingEdited,
    /// The Application is in sync, and nothing is running.
    Synced,
    /// An object has changed, and the delay for further changes has passed.
    ObjectChanged,
    /// A requested operation is being prepared.
    Preparing,
    /// The engine is receiving an operation, and hasn't reported on it yet.
    HandedOver,
    /// An operation is running.
    Running,
    /// The Application is being deleted, and the operation that deletes its objects is being prepared.
    DeletionPreparing,
    /// The Application is being deleted, and the operation that deletes its objects is running.
    Deleting,
}

fn reach(situation: Situation) -> Controller {
    let mut controller = Controller::new(json!({}));
    if matches!(situation, New) {
        return controller;
    }
    controller.deliver(Input::Step);
    controller.deployed = 1;
    if matches!(situation, Comparing) {
        return controller;
    }
    if matches!(situation, ComparingEdited) {
        controller.change(|application| application.spec.destination.namespace = "b".to_owned());
        return controller;
    }
    controller.settle();
    match situation {
        New | Comparing | ComparingEdited | Synced => {}
        ObjectChanged => {
            controller.surroundings.has_unread_changes = true;
            controller.deliver(Input::ObjectChanged);
            controller.now = controller.alarm.take().unwrap();
        }
        Preparing => controller.sync().unwrap(),
        HandedOver => {
            controller.sync().unwrap();
            controller.complete(0);
        }
        Running => {
            controller.sync().unwrap();
            controller.run_operation();
        }
        DeletionPreparing => controller.delete(),
        Deleting => {
            controller.delete();
            controller.run_operation();
        }
    }
    controller
}

/// Delivers the result of the newest preparation.
fn deliver_prepared(controller: &mut Controller, result: Result<(Vec<String>, OperationId), String>) {
    let preparation = controller.tasks.iter().find_map(|task| match task {
        Task::Preparation { preparation, .. } => Some(*preparation),
        Task::Comparison { .. } | Task::Operation { .. } => None,
    });
    controller.tasks.clear();
    controller.deliver(Input::Prepared { preparation: preparation.unwrap_or_default(), result });
}

#[test]
fn each_input_has_the_expected_effects() {
    let step: Act = |one| one.deliver(Input::Step);
    let compare: Act = |one| one.deliver(Input::Compare(RefreshLevel::Latest));
    let refresh: Act = |one| one.refresh(RefreshLevel::Forced);
    let sync: Act = |one| drop(one.sync());
    let delete: Act = Controller::delete;
    let object_change: Act = |one| one.deliver(Input::ObjectChanged);
    let wake: Act = |one| one.deliver(Input::Wake);
    let edit: Act = |one| one.change(|application| application.spec.destination.namespace = "b".to_owned());
    let compared: Act = Controller::complete_comparison;
    check_transitions(
        reach,
        [
            row(New, "step", step, "Idle", &["Compare", "RegisterDependencies"]),
            row(New, "sync", sync, "Preparing", &["Compare", "RegisterDependencies", "Prepare"]),
            row(New, "delete", delete, "Preparing", &["RegisterDependencies", "Prepare"]),
            row(Comparing, "step", step, "Idle", &[]),
            row(Comparing, "compare", compare, "Idle", &[]),
            row(Comparing, "refresh", refresh, "Idle", &[]),
            row(Comparing, "object change", object_change, "Idle", &[]),
            row(Comparing, "compared", compared, "Idle", &[]),
            row(Comparing, "edit", edit, "Idle", &[]),
            row(Comparing, "sync", sync, "Preparing", &["Prepare"]),
            row(Comparing, "delete", delete, "Preparing", &["Prepare"]),
            row(ComparingEdited, "compared", compared, "Idle", &["Compare"]),
            row(Synced, "step", step, "Idle", &[]),
            row(Synced, "compare", compare, "Idle", &["Compare"]),
            row(Synced, "refresh", refresh, "Idle", &["Compare"]),
            row(Synced, "object change", object_change, "Idle", &[]),
            row(Synced, "wake", wake, "Idle", &[]),
            row(Synced, "edit", edit, "Idle", &["Compare"]),
            row(Synced, "sync", sync, "Preparing", &["Prepare"]),
            row(Synced, "delete", delete, "Preparing", &["Prepare"]),
            row(ObjectChanged, "wake", wake, "Idle", &["Compare"]),
            row(Preparing, "step", step, "Preparing", &[]),
            row(Preparing, "sync", sync, "Preparing", &[]),
            row(Preparing, "compare", compare, "Preparing", &["Compare"]),
            row(Preparing, "delete", delete, "Preparing", &[]),
            row(Running, "step", step, "Running", &[]),
            row(Running, "sync", sync, "Running", &[]),
            row(Running, "refresh", refresh, "Running", &["Compare"]),
            row(Running, "edit", edit, "Running", &["Compare"]),
            row(Running, "delete", delete, "Running", &[]),
            row(Deleting, "step", step, "Running", &[]),
            row(Deleting, "sync", sync, "Running", &[]),
            row(Deleting, "compare", compare, "Running", &[]),
            row(Deleting, "edit", edit, "Running", &[]),
        ],
    );
}

/// The engine and the preparation report on the current operation. Reports on other operations have no effect.
#[test]
fn reports_on_the_operation_have_the_expected_effects() {
    let other = || operation_id(99);
    let prepared: Act = |one| deliver_prepared(one, Ok((vec![commit_name(1)], operation_id(7))));
    let refused: Act = |one| deliver_prepared(one, Err("the branch does not exist".to_owned()));
    let waiting: Act = |one| {
        let operation = one.machine.operation_id().unwrap();
        one.deliver(Input::Waiting { operation, reason: "the cluster".to_owned() });
    };
    let progress: Act = |one| one.report_progress(OperationPhase::Running, "wave 2");
    let success: Act = |one| one.report_progress(OperationPhase::Succeeded, "done");
    let failure: Act = |one| one.report_progress(OperationPhase::Failed, "no space");
    check_transitions(
        reach,
        [
            row(Synced, "prepared", |one| deliver_prepared(one, Err("late".to_owned())), "Idle", &[]),
            row(Preparing, "prepared", prepared, "Running", &["Run"]),
            row(Preparing, "refused", refused, "Idle", &["AnnounceRefusal", "Compare"]),
            row(HandedOver, "waiting", waiting, "Running", &[]),
            row(HandedOver, "progress", progress, "Running", &[]),
            row(Running, "progress", progress, "Running", &[]),
            row(Running, "success", success, "Idle", &["Compare"]),
            row(Running, "failure", failure, "Idle", &["Compare"]),
            row(Deleting, "progress", progress, "Running", &[]),
            row(Deleting, "success", success, "Idle", &["Release"]),
        ],
    );
    for situation in [Synced, Preparing, Running, Deleting] {
        let mut controller = reach(situation);
        let phase = controller.machine.phase();
        controller.deliver(Input::Waiting { operation: other(), reason: "the cluster".to_owned() });
        assert_eq!((controller.effects(), controller.machine.phase()), (vec![], phase), "{situation:?}");
        let progress = EngineProgress::terminated("ann", controller.now);
        controller.deliver(Input::Progress { operation: other(), progress: Box::new(progress) });
        assert_eq!((controller.effects(), controller.machine.phase()), (vec![], phase), "{situation:?}");
    }
}

#[test]
fn the_reason_for_a_wait_is_shown() {
    let mut controller = reach(HandedOver);
    let operation = controller.machine.operation_id().unwrap();
    controller.deliver(Input::Waiting { operation, reason: "waiting for the cluster".to_owned() });
    let state = controller.app().status.operation_state.clone().unwrap();
    assert_eq!((state.phase, state.message.as_str()), (OperationPhase::Running, "waiting for the cluster"));
}

/// A deletion whose deletion timestamp a client removes continues if the engine has it.
#[test]
fn withdrawn_deletions_have_the_expected_effects() {
    let restore: Act = |one| one.change(|application| application.metadata.deletion_timestamp = None);
    check_transitions(
        reach,
        [
            row(DeletionPreparing, "restore", restore, "Idle", &["StopHandover", "Compare"]),
            row(Deleting, "restore", restore, "Running", &["StopHandover", "Compare", "Run"]),
        ],
    );
}

#[test]
fn a_second_request_is_rejected_while_an_operation_is_current() {
    for situation in [Preparing, Running] {
        let mut controller = reach(situation);
        let refusal = controller.sync().unwrap_err();
        assert!(refusal.contains("already in progress"), "{situation:?}: {refusal}");
    }
    let refusal = reach(Deleting).sync().unwrap_err();
    assert!(refusal.contains("is deleting"), "{refusal}");
}

/// The result of a preparation that was stopped doesn't apply to the next operation.
#[test]
fn a_late_preparation_is_ignored() {
    let mut controller = reach(Preparing);
    let Some(Task::Preparation { preparation, .. }) = controller.tasks.back().cloned() else { panic!() };
    controller.tasks.clear();
    controller.machine.stop_handover();
    controller.machine.end_unstarted_operation("ann", controller.now);
    controller.deliver(Input::Step);
    controller.sync().unwrap();
    let id = operation_id(77);
    controller.deliver(Input::Prepared { preparation, result: Ok((vec![commit_name(9)], id)) });
    assert_eq!((controller.machine.phase(), controller.machine.operation_id()), (Phase::Preparing, None));
    controller.settle();
    assert_eq!(controller.log.last().map(|one| one.request.revision.clone()), Some(commit_name(1)));
}

/// A comparison that started before an operation ended doesn't show the operation's effects.
#[test]
fn a_comparison_from_before_the_end_of_an_operation_is_repeated() {
    let mut controller = reach(Running);
    controller.refresh(RefreshLevel::Forced);
    let place = |controller: &Controller, is_it: fn(&Task) -> bool| controller.tasks.iter().position(is_it);
    let comparison = place(&controller, |task| matches!(task, Task::Comparison { .. })).unwrap();
    let Some(Task::Comparison { start, began_at }) = controller.tasks.remove(comparison) else { panic!() };
    let operation = place(&controller, |task| matches!(task, Task::Operation { .. })).unwrap();
    controller.complete(operation);
    controller.finish_comparison(*start, began_at, false);
    assert_eq!(controller.effects(), ["Compare"]);
    assert!(controller.answers.values().all(Option::is_none), "the client waits for the next comparison");
    controller.settle();
    assert!(controller.answers.values().all(|answer| *answer == Some(Ok(()))));
}

/// The watches may report the writes of an operation only after it has ended.
#[test]
fn the_comparison_after_an_operation_does_not_reuse_earlier_results() {
    let mut controller = reach(Synced);
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
    controller.run_operation();
    controller.complete(0);
    assert_eq!(may_reuse(&controller), Some(false), "the operation has just ended");
    controller.settle();
    controller.deliver(Input::Compare(RefreshLevel::Latest));
    assert_eq!(may_reuse(&controller), Some(true));
}

/// Until the operation is stored, the engine doesn't get it.
#[test]
fn an_operation_that_cannot_be_stored_does_not_start() {
    let mut controller = reach(Synced);
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
    let mut controller = reach(Synced);
    controller.delete();
    assert_eq!(controller.machine.phase(), Phase::Preparing);
    controller.change(|application| application.metadata.deletion_timestamp = None);
    controller.settle();
    assert!(controller.log.is_empty());
    let status = controller.app().status.sync.as_ref().map(|sync| sync.status);
    assert_eq!(status, Some(SyncStatusCode::Synced));
}
