//! Transitions of an operation that needs an approved plan. The rules are in `docs/guides/gates-and-approvals.md`.

use serde_json::json;
use tidegate_application::approval::APPROVAL_ANNOTATION;
use tidegate_application::machine::{Input, PendingPlan, PlanCheck, PlanFailure};
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::{ClaimConflictPolicy, Digest, OperationPhase, PlanApproval};

use super::{Act, Controller, check_transitions, commit_name, operation_id, row};

use self::Situation::*;

/// Situation of a requested sync of an Application that requires approvals.
#[derive(Clone, Copy, Debug)]
enum Situation {
    /// The plan is being created.
    Planning,
    /// The plan couldn't be created, and the delay before the next attempt has passed.
    PlanningFailed,
    /// The plan is waiting for an approval.
    AwaitingApproval,
    /// The plan is waiting for an approval, and a comparison is running.
    Comparing,
    /// The approved plan is being prepared.
    Approved,
}

const HASH: Digest = Digest([1; 32]);

fn reach(situation: Situation) -> Controller {
    let mut controller = Controller::new(json!({}));
    controller.deployed = 1;
    controller.change(|application| {
        application.metadata.annotations.insert(APPROVAL_ANNOTATION.to_owned(), "required".to_owned());
    });
    controller.settle();
    controller.sync().unwrap();
    assert_eq!((controller.effects(), controller.phase()), (vec!["CheckPlan"], "Idle"));
    match situation {
        Planning => {}
        PlanningFailed => {
            check_plan(&mut controller, unplanned(PlanFailure::Unavailable));
            controller.now = controller.now + std::time::Duration::from_secs(31);
        }
        AwaitingApproval => store_plan(&mut controller),
        Comparing => {
            store_plan(&mut controller);
            controller.deliver(Input::Compare(RefreshLevel::Latest));
        }
        Approved => {
            store_plan(&mut controller);
            approve(&mut controller);
        }
    }
    controller
}

fn check_plan(controller: &mut Controller, check: PlanCheck) {
    let request = Box::new(controller.app().operation.clone().unwrap());
    controller.deliver(Input::PlanChecked { request, check });
}

fn store_plan(controller: &mut Controller) {
    let plan = PendingPlan {
        hash: HASH,
        author: "ann".to_owned(),
        approvals: Vec::new(),
        description: "1 to apply".to_owned(),
        revisions: vec![commit_name(1)],
    };
    check_plan(controller, PlanCheck::Stored(Box::new(plan)));
}

fn unplanned(cause: fn(String) -> PlanFailure) -> PlanCheck {
    PlanCheck::Unplanned(cause("the repository is unavailable".to_owned()))
}

fn approve(controller: &mut Controller) {
    let approval = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: controller.now };
    controller.machine.set_approvals(HASH, vec![approval]);
    controller.deliver(Input::Step);
}

/// Terminates the operation, as `app terminate` does.
fn terminate(controller: &mut Controller) {
    controller.machine.stop_handover();
    let now = controller.now;
    controller.machine.end_unstarted_operation("ann", now);
    controller.deliver(Input::Step);
}

#[test]
fn each_input_has_the_expected_effects() {
    let step: Act = |one| one.deliver(Input::Step);
    let wake: Act = |one| one.deliver(Input::Wake);
    let stale: Act = |one| one.deliver(Input::PlanStale);
    let current: Act = |one| check_plan(one, PlanCheck::Current);
    let invalid: Act = |one| check_plan(one, unplanned(PlanFailure::Invalid));
    let unavailable: Act = |one| check_plan(one, unplanned(PlanFailure::Unavailable));
    let compared: Act = Controller::complete_comparison;
    let sync: Act = |one| drop(one.sync().unwrap_err());
    let replace: Act = |one| one.sync_with_policy(ClaimConflictPolicy::Supersede).unwrap();
    let drop_annotation: Act = |one| {
        one.change(|application| drop(application.metadata.annotations.remove(APPROVAL_ANNOTATION)));
    };
    let commit: Act = |one| {
        one.commit = 2;
        one.complete_comparison();
    };
    let outdated: Act = |one| {
        one.deliver(Input::PlanStale);
        check_plan(one, PlanCheck::Current);
    };
    check_transitions(
        reach,
        [
            row(Planning, "step", step, "Idle", &[]),
            // A change during the check may not be part of the result, so the plan is checked again.
            row(Planning, "plan stale", stale, "Idle", &[]),
            row(Planning, "plan stored", store_plan, "Idle", &[]),
            row(Planning, "invalid", invalid, "Idle", &["AnnounceRefusal"]),
            row(Planning, "unavailable", unavailable, "Idle", &[]),
            row(Planning, "sync", sync, "Idle", &[]),
            row(Planning, "terminate", terminate, "Idle", &["Compare"]),
            row(PlanningFailed, "wake", wake, "Idle", &["CheckPlan"]),
            row(AwaitingApproval, "step", step, "Idle", &[]),
            row(AwaitingApproval, "plan stale", stale, "Idle", &["CheckPlan"]),
            row(AwaitingApproval, "plan is current", outdated, "Idle", &[]),
            row(AwaitingApproval, "late check", current, "Idle", &[]),
            row(AwaitingApproval, "approve", approve, "Preparing", &["Prepare"]),
            row(AwaitingApproval, "sync", sync, "Idle", &[]),
            row(AwaitingApproval, "replacing sync", replace, "Idle", &["CheckPlan"]),
            row(AwaitingApproval, "terminate", terminate, "Idle", &["Compare", "WithdrawPlan"]),
            row(AwaitingApproval, "delete", Controller::delete, "Preparing", &["Prepare"]),
            row(
                AwaitingApproval,
                "approvals not required",
                drop_annotation,
                "Preparing",
                &["Compare", "Prepare"],
            ),
            // The plan is checked after each comparison, because an approval is valid for only one revision.
            row(Comparing, "compared", compared, "Idle", &["CheckPlan"]),
            row(Comparing, "newer commit", commit, "Idle", &["CheckPlan"]),
            row(Comparing, "plan stale", stale, "Idle", &[]),
            row(Comparing, "approve", approve, "Preparing", &["Prepare"]),
            row(Approved, "step", step, "Preparing", &[]),
            row(Approved, "plan stale", stale, "Preparing", &[]),
            row(Approved, "sync", sync, "Preparing", &[]),
        ],
    );
}

/// Meanwhile, the request may have been replaced by one of another user. The result doesn't apply to it.
#[test]
fn a_plan_of_another_request_is_ignored() {
    let mut controller = reach(Planning);
    let mut other = Box::new(controller.app().operation.clone().unwrap());
    other.initiated_by.username = "cal".to_owned();
    let check = unplanned(PlanFailure::Invalid);
    controller.deliver(Input::PlanChecked { request: other, check });
    assert_eq!((controller.effects(), controller.phase()), (vec!["CheckPlan"], "Idle"));
}

/// If the cluster changes between the approval and the first write, the operation ends without writing
/// anything. A requested sync then waits for the approval of a new plan.
#[test]
fn an_outdated_plan_is_created_again() {
    let mut controller = reach(Approved);
    let Some(preparation) = controller.tasks.iter().find_map(|task| match task {
        super::Task::Preparation { preparation, .. } => Some(*preparation),
        super::Task::Comparison { .. } | super::Task::Operation { .. } => None,
    }) else {
        panic!("the operation is prepared")
    };
    let result = Ok((vec![commit_name(1)], operation_id(7)));
    controller.deliver(Input::Prepared { preparation, result });
    assert_eq!((controller.effects(), controller.phase()), (vec!["Run"], "Running"));
    let message = format!("{}0101: ConfigMap shop/web", tidegate_model::OUTDATED_PLAN_MESSAGE);
    controller.report_progress(OperationPhase::Failed, &message);
    assert_eq!((controller.effects(), controller.phase()), (vec!["Compare"], "Idle"));
    controller.complete_comparison();
    assert_eq!((controller.effects(), controller.phase()), (vec!["CheckPlan"], "Idle"));
}
