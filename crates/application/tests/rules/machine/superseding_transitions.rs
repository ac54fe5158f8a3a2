//! Transitions while another revision or request may replace the running operation. The rules are in
//! `docs/concepts/operations-and-waves.md`, "Supersede or queue an operation".

use serde_json::json;
use tidegate_application::machine::Input;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::supersede::{
    ManifestComparison, NEW_REVISION_CONDITION, ON_NEW_REVISION, OPERATION_REFUSED_CONDITION, POLICY_INFO,
};
use tidegate_model::argo::{OperationRequest, SyncOperation};
use tidegate_model::{ClaimConflictPolicy, OperationPhase};

use super::{Act, Controller, check_transitions, row};

use self::Situation::*;

/// Situation in which something may replace the operation for the first commit.
#[derive(Clone, Copy, Debug)]
enum Situation {
    /// Automated sync started the operation, and a comparison with the second commit is running.
    Automated,
    /// As above, but `ON_NEW_REVISION` is `finish`.
    Finishing,
    /// A user requested the operation, and a comparison with the second commit is running.
    Requested,
    /// The operation must not be interrupted now. It has been asked to stop because of the second commit.
    Uninterruptible,
    /// The operation is ending because of the second commit.
    Ending,
    /// A requested sync waits for the operation to end.
    Queued,
}

fn reach(situation: Situation) -> Controller {
    let is_automated = !matches!(situation, Requested | Queued);
    let mut controller = Controller::new(if is_automated { json!({"automated": {}}) } else { json!({}) });
    if matches!(situation, Finishing) {
        let annotations = &mut controller.stored.metadata.annotations;
        annotations.insert(ON_NEW_REVISION.to_owned(), "finish".to_owned());
        controller.restart();
    } else {
        controller.deliver(Input::Step);
    }
    if !is_automated {
        controller.settle();
        controller.sync().unwrap();
    }
    controller.run_operation();
    controller.superseding_refusal = None;
    if matches!(situation, Queued) {
        controller.sync_with_policy(ClaimConflictPolicy::Queue).unwrap();
        return controller;
    }
    controller.commit = 2;
    controller.deliver(Input::Compare(RefreshLevel::Latest));
    match situation {
        Automated | Finishing | Requested | Queued => {}
        Uninterruptible => {
            controller.superseding_refusal = Some("its hook is running".to_owned());
            controller.complete_comparison();
        }
        Ending => controller.complete_comparison(),
    }
    controller
}

fn conditions(controller: &Controller) -> Vec<String> {
    controller.app().status.conditions.iter().map(|one| one.kind.to_string()).collect()
}

#[test]
fn each_input_has_the_expected_effects() {
    let step: Act = |one| one.deliver(Input::Step);
    let different: Act = Controller::complete_comparison;
    let same: Act = |one| {
        one.newest_manifests = ManifestComparison::Same;
        one.complete_comparison();
    };
    let unknown: Act = |one| {
        one.newest_manifests = ManifestComparison::Unknown;
        one.complete_comparison();
    };
    let delete: Act = Controller::delete;
    let progress: Act = |one| one.report_progress(OperationPhase::Running, "wave 2");
    let success: Act = |one| one.report_progress(OperationPhase::Succeeded, "done");
    let superseded: Act =
        |one| one.report_progress(OperationPhase::Failed, "Operation terminated, superseded by another sync");
    let queue: Act = |one| one.sync_with_policy(ClaimConflictPolicy::Queue).unwrap();
    let replace: Act = |one| one.sync_with_policy(ClaimConflictPolicy::Supersede).unwrap();
    check_transitions(
        reach,
        [
            row(Automated, "different manifests", different, "Running", &["Supersede"]),
            row(Automated, "same manifests", same, "Running", &[]),
            row(Automated, "unknown manifests", unknown, "Running", &[]),
            row(Automated, "queued sync", queue, "Running", &[]),
            row(Automated, "replacing sync", replace, "Running", &["Supersede"]),
            row(Finishing, "different manifests", different, "Running", &[]),
            row(Requested, "different manifests", different, "Running", &[]),
            row(Requested, "replacing sync", replace, "Running", &["Supersede"]),
            // The operation is asked again whenever it may have become interruptible.
            row(Uninterruptible, "step", step, "Running", &["Supersede"]),
            row(Uninterruptible, "progress", progress, "Running", &["Supersede"]),
            row(Uninterruptible, "success", success, "Idle", &["Compare"]),
            row(Ending, "step", step, "Running", &[]),
            row(Ending, "progress", progress, "Running", &[]),
            row(Ending, "superseded", superseded, "Idle", &["Compare"]),
            // A deletion waits until the operation has ended.
            row(Ending, "delete", delete, "Running", &[]),
            row(Queued, "progress", progress, "Running", &[]),
            row(Queued, "success", success, "Preparing", &["Compare", "Prepare"]),
            row(Queued, "replacing sync", replace, "Running", &["Supersede"]),
        ],
    );
}

/// At most one sync can wait. A sync with the policy `supersede` replaces it.
#[test]
fn a_second_queued_sync_is_rejected() {
    let refusal = reach(Queued).sync_with_policy(ClaimConflictPolicy::Queue).unwrap_err();
    assert!(refusal.contains("ann"), "{refusal}");
}

#[test]
fn automated_sync_deploys_the_newest_commit_after_a_superseded_operation() {
    let mut controller = reach(Ending);
    controller.report_progress(OperationPhase::Failed, "Operation terminated, superseded by another sync");
    controller.complete_comparison();
    assert_eq!((controller.effects(), controller.phase()), (vec!["Prepare"], "Preparing"));
    controller.settle();
    assert_eq!((controller.deployed, controller.log.len()), (2, 2));
}

/// The condition shows what waits for the operation, and the step that must not be interrupted.
#[test]
fn a_waiting_revision_is_shown_in_a_condition() {
    for (situation, is_shown) in [(Automated, false), (Uninterruptible, true), (Ending, true), (Queued, true)]
    {
        let controller = reach(situation);
        let shown = conditions(&controller);
        assert_eq!(shown.iter().any(|one| one == NEW_REVISION_CONDITION), is_shown, "{situation:?}");
    }
    let mut controller = reach(Uninterruptible);
    controller.deliver(Input::Step);
    assert!(format!("{:?}", controller.app().status.conditions).contains("its hook is running"));
}

/// A client that writes the resource gets no answer, so a condition shows a rejection.
#[test]
fn operations_that_a_client_writes_have_the_expected_effects() {
    let write = |controller: &mut Controller, policy: &str| {
        let mut request =
            OperationRequest { sync: Some(SyncOperation::default()), ..OperationRequest::default() };
        request.initiated_by.username = "cal".to_owned();
        if !policy.is_empty() {
            request.set_info(POLICY_INFO, policy);
        }
        controller.change(|application| application.operation = Some(request));
    };
    for (policy, effects, is_refused) in [
        ("", vec![], true),
        ("refuse", vec![], true),
        ("queue", vec![], false),
        ("supersede", vec!["Supersede"], false),
    ] {
        // The comparison that the change requests starts after the one that is already running.
        let mut controller = reach(Requested);
        write(&mut controller, policy);
        assert_eq!((controller.effects(), controller.phase()), (effects, "Running"), "{policy:?}");
        let is_shown = conditions(&controller).iter().any(|one| one == OPERATION_REFUSED_CONDITION);
        assert_eq!(is_shown, is_refused, "{policy:?}");
    }
}
