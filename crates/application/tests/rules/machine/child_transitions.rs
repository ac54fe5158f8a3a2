//! Transitions of an operation that a progressive sync requests. It has an ID beforehand, and starts at most
//! once. The rules are in `docs/concepts/rollouts-and-ordered-deletion.md`.

use serde_json::json;
use tidegate_application::approval::APPROVAL_ANNOTATION;
use tidegate_application::machine::{Input, PendingPlan, PlanCheck, PlanFailure};
use tidegate_application::rollout_operation::{AdoptableOperations, RolloutDeployment, deployment_request};
use tidegate_model::{Digest, OperationPhase};

use super::{Act, Controller, check_transitions, commit_name, operation_id, row};

use self::Situation::*;

/// Situation of the Application of a progressive sync.
#[derive(Clone, Copy, Debug)]
enum Situation {
    /// Nothing is running.
    Synced,
    /// A user's operation is running.
    Busy,
    /// A user's operation is running, and the child operation is requested.
    Waiting,
    /// The Application is being deleted.
    Deleting,
    /// A user's operation has deployed a commit whose manifests are being compared with those of the target.
    ComparingRevisions,
    /// The plan of the child operation is being created.
    Planning,
    /// The engine is receiving the child operation.
    HandedOver,
    /// The child operation is running.
    Running,
}

const CHILD: u128 = 500;

fn reach(situation: Situation) -> Controller {
    let mut controller = Controller::new(json!({}));
    controller.deployed = 1;
    if matches!(situation, Planning) {
        controller.change(|application| {
            application.metadata.annotations.insert(APPROVAL_ANNOTATION.to_owned(), "required".to_owned());
        });
    }
    controller.deliver(Input::Step);
    controller.settle();
    match situation {
        Synced => {}
        Busy | Waiting => {
            controller.sync().unwrap();
            controller.run_operation();
            if matches!(situation, Waiting) {
                request_child(&mut controller);
            }
        }
        Deleting => {
            controller.delete();
            controller.run_operation();
        }
        ComparingRevisions => {
            controller.sync().unwrap();
            controller.settle();
            controller.commit = 2;
            let adoption = AdoptableOperations {
                after: None,
                rollout: operation_id(400),
                revisions: Vec::new(),
                includes_degraded: false,
            };
            request(&mut controller, Some(adoption));
            assert_eq!(controller.effects(), ["CompareRevisions"]);
        }
        Planning | HandedOver => request_child(&mut controller),
        Running => {
            request_child(&mut controller);
            controller.run_operation();
            assert_eq!(controller.effects(), ["Report Started"]);
        }
    }
    controller
}

fn request_child(controller: &mut Controller) {
    request(controller, None);
}

fn request(controller: &mut Controller, adoption: Option<AdoptableOperations>) {
    let revisions = [commit_name(controller.commit)];
    let deployment = RolloutDeployment { appset: "fleet", revisions: &revisions, prune: false };
    let request = deployment_request(controller.app(), deployment);
    controller.machine.request_child(operation_id(CHILD), request, adoption);
    controller.deliver(Input::Step);
}

fn compared_revisions(controller: &mut Controller, commit: u32, result: Result<bool, String>) {
    let (operation, deployed) = (operation_id(CHILD), vec![commit_name(commit)]);
    controller.deliver(Input::RevisionsCompared { operation, deployed, result });
}

fn check_plan(controller: &mut Controller, check: PlanCheck) {
    let request = Box::new(controller.app().operation.clone().unwrap());
    controller.deliver(Input::PlanChecked { request, check });
}

#[test]
fn each_input_has_the_expected_effects() {
    let step: Act = |one| one.deliver(Input::Step);
    let sync: Act = |one| drop(one.sync().unwrap_err());
    let delete: Act = Controller::delete;
    let progress: Act = |one| one.report_progress(OperationPhase::Running, "wave 2");
    let success: Act = |one| one.report_progress(OperationPhase::Succeeded, "done");
    let same: Act = |one| compared_revisions(one, 1, Ok(true));
    let different: Act = |one| compared_revisions(one, 1, Ok(false));
    let failed: Act = |one| compared_revisions(one, 1, Err("the repository is unavailable".to_owned()));
    let other: Act = |one| compared_revisions(one, 9, Ok(true));
    let stored: Act = |one| {
        let plan = PendingPlan {
            hash: Digest([1; 32]),
            author: String::new(),
            approvals: Vec::new(),
            description: "1 to apply".to_owned(),
            revisions: vec![commit_name(1)],
        };
        check_plan(one, PlanCheck::Stored(Box::new(plan)));
    };
    // The operation isn't refused but planned again later. The progressive sync shows the reason.
    let invalid: Act =
        |one| check_plan(one, PlanCheck::Unplanned(PlanFailure::Invalid("no such branch".to_owned())));
    check_transitions(
        reach,
        [
            row(Synced, "request", request_child, "Running", &["Run"]),
            row(Busy, "request", request_child, "Running", &[]),
            row(Waiting, "step", step, "Running", &[]),
            row(Waiting, "progress", progress, "Running", &[]),
            row(Waiting, "success", success, "Running", &["Compare", "Run"]),
            row(Deleting, "request", request_child, "Running", &["Report Unavailable"]),
            row(ComparingRevisions, "step", step, "Idle", &[]),
            row(ComparingRevisions, "same manifests", same, "Idle", &["Report Deployed"]),
            row(ComparingRevisions, "different manifests", different, "Running", &["Run"]),
            row(ComparingRevisions, "failed", failed, "Idle", &["Report Unavailable"]),
            row(ComparingRevisions, "other revisions", other, "Idle", &[]),
            row(Planning, "plan stored", stored, "Idle", &["Report Unapproved"]),
            row(Planning, "invalid", invalid, "Idle", &["Report Unapproved"]),
            row(HandedOver, "step", step, "Running", &[]),
            row(HandedOver, "progress", progress, "Running", &["Report Started"]),
            row(HandedOver, "success", success, "Idle", &["Compare", "Report Ended"]),
            row(HandedOver, "sync", sync, "Running", &[]),
            row(HandedOver, "delete", delete, "Running", &[]),
            // Progress is reported once per stage.
            row(Running, "progress", progress, "Running", &[]),
            row(Running, "success", success, "Idle", &["Compare", "Report Ended"]),
            row(Running, "sync", sync, "Running", &[]),
            row(Running, "delete", delete, "Running", &[]),
        ],
    );
}
