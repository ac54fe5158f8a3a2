//! An operation of a progressive sync starts only once, even after a repeated request or a restart. The
//! cluster's audit log shows which operations created objects.

use serde_json::json;
use tidegate_application::rollout_operation::{
    AdoptableOperations, RolloutDeployment, assign_operation, deployment_request,
};
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{OperationId, OperationPhase};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::messages::{AppMessage, ChildOperation, SupervisorMessage};
use crate::testing::{TEST_TIMEOUT, TestEnvironment, application, key, manifests};

fn child_request(name: &str, revision: &str) -> Box<OperationRequest> {
    let deploy =
        RolloutDeployment { appset: "argocd/fleet", revisions: &[revision.to_owned()], prune: false };
    Box::new(deployment_request(&application(name), deploy))
}

fn run_child(
    environment: &TestEnvironment,
    name: &str,
    operation: OperationId,
    revision: &str,
) -> UnboundedReceiver<OperationReport> {
    run_adopting_child(environment, name, operation, revision, None)
}

fn run_adopting_child(
    environment: &TestEnvironment,
    name: &str,
    operation: OperationId,
    revision: &str,
    adoption: Option<AdoptableOperations>,
) -> UnboundedReceiver<OperationReport> {
    let (progress, reports) = unbounded_channel();
    let child = Box::new(ChildOperation { request: child_request(name, revision), adoption, progress });
    environment.send(SupervisorMessage::Forward(key(name), AppMessage::RunChild { operation, child }));
    reports
}

async fn next_report(reports: &mut UnboundedReceiver<OperationReport>) -> Option<OperationReport> {
    tokio::time::timeout(TEST_TIMEOUT, reports.recv()).await.unwrap()
}

/// Returns all reported progress except the start. The start may be missing, because a short operation may
/// have finished before the first report.
async fn all_reports(mut reports: UnboundedReceiver<OperationReport>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(news) = next_report(&mut reports).await {
        all.push(match news {
            OperationReport::Started => continue,
            OperationReport::Deployed { operation } => format!("deployed by {operation}"),
            OperationReport::Delayed { window } => format!("held: {window}"),
            OperationReport::Unapproved { plan } => format!("unapproved: {plan}"),
            OperationReport::Ended { phase: OperationPhase::Succeeded, .. } => "succeeded".to_owned(),
            OperationReport::Ended { phase, message } => format!("{phase}: {message}"),
            OperationReport::Failed(error) if error.is_transient => format!("later: {}", error.message),
            OperationReport::Failed(error) => format!("failed: {}", error.message),
        });
    }
    all
}

async fn stop_child(environment: &TestEnvironment, name: &str, operation: OperationId) -> Result<(), String> {
    let (reply, answer) = oneshot::channel();
    let (key, by) = (key(name), "ann".to_owned());
    environment
        .send(SupervisorMessage::Forward(key, AppMessage::StopChild { operation, by, reply: reply.into() }));
    tokio::time::timeout(TEST_TIMEOUT, answer).await.unwrap().unwrap()
}

async fn operation_ids(environment: &TestEnvironment) -> Vec<OperationId> {
    environment.operations().await.into_iter().map(|one| one.operation).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_operation_begins_once_and_reports_until_its_end() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let first = environment.commit("web", &manifests("web", "2", "20ms"));
    // The operation must not deploy this commit, although it exists before the operation starts.
    environment.commit("web", &manifests("web", "3", "20ms"));
    let operation = environment.next_id().await;
    let reports = run_child(&environment, "web", operation, &first);
    assert_eq!(all_reports(reports).await, ["succeeded"]);
    assert_eq!(
        (operation_ids(&environment).await, environment.operations_that_created("ConfigMap")),
        (vec![operation], vec![operation])
    );
    let deployed = environment.wait_until("web", |_, deployed| deployed.evidence.clone()).await;
    assert_eq!((deployed.operation, deployed.revisions), (operation, vec![first.clone()]));
    let state = environment.until_persisted("web", |app| app.status.operation_state).await;
    assert_eq!(state.operation.initiated_by.username, "applicationset-controller");
    // A repeated request returns the same result, both in this process and after a restart.
    assert_eq!(all_reports(run_child(&environment, "web", operation, &first)).await, ["succeeded"]);
    let other = environment.next_id().await;
    assert_eq!(all_reports(run_child(&environment, "web", other, &first)).await, ["succeeded"]);
    environment.restart().await;
    for operation in [operation, other] {
        assert_eq!(all_reports(run_child(&environment, "web", operation, &first)).await, ["succeeded"]);
    }
    assert_eq!(operation_ids(&environment).await, [operation, other]);
    let newest = environment.wait_until("web", |_, deployed| deployed.evidence.clone()).await;
    assert_eq!((newest.operation, newest.revisions), (other, vec![first]), "according to the log");
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_operation_waits_for_another_one_and_can_be_withdrawn_meanwhile() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let slow = environment.commit("web", &manifests("web", "2", "1h"));
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    sync_by_person(&environment, "web", &slow).await;
    while environment.operations_that_created("Job").is_empty() {
        tokio::task::yield_now().await;
    }
    let (first, second, third) =
        (environment.next_id().await, environment.next_id().await, environment.next_id().await);
    let first_reports = run_child(&environment, "web", first, &commit);
    let second_reports = run_child(&environment, "web", second, &commit);
    let third_reports = run_child(&environment, "web", third, &commit);
    environment.send(SupervisorMessage::Forward(key("web"), AppMessage::WithdrawChild { operation: first }));
    assert_eq!(stop_child(&environment, "web", third).await, Ok(()));
    assert_eq!(all_reports(first_reports).await, [""; 0]);
    assert_eq!(all_reports(third_reports).await, [""; 0]);
    assert_eq!(operation_ids(&environment).await.len(), 1, "only ann's operation is running");
    let (reply, answer) = oneshot::channel();
    let by = "ann".to_owned();
    environment.send(SupervisorMessage::Forward(
        key("web"),
        AppMessage::Terminate { operation: None, by, reply: reply.into() },
    ));
    answer.await.unwrap().unwrap();
    assert_eq!(all_reports(second_reports).await, ["succeeded"]);
    let ran = operation_ids(&environment).await;
    assert_eq!((ran.len(), ran.contains(&second)), (2, true));
    let jobs = environment.operations_that_created("Job");
    assert_eq!(
        (jobs.len(), jobs.last()),
        (2, Some(&second)),
        "the second operation runs after ann's operation"
    );
    environment.shutdown().await;
}

/// Requests a sync to a revision in the name of a person. Returns once the request is accepted.
async fn sync_by_person(environment: &TestEnvironment, name: &str, revision: &str) {
    let (reply, answer) = oneshot::channel();
    let request = json!({"sync": {"revision": revision}, "initiatedBy": {"username": "ann"}});
    let request = Box::new(serde_json::from_value(request).unwrap());
    environment.send(SupervisorMessage::Forward(
        key(name),
        AppMessage::Sync { request, plan: None, reply: reply.into() },
    ));
    answer.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_operation_accepts_a_deployment_of_equal_manifests_that_ends_while_it_waits() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "200ms"))]).await;
    let target = environment.commit("web", &manifests("web", "2", "200ms"));
    let equal = environment.commit_files("web", &[("NOTES.md", "This file is not a manifest.")]);
    let different = environment.commit("web", &manifests("web", "3", "200ms"));
    // When the operation is requested, only the target is known to have its manifests.
    let adoption = AdoptableOperations {
        after: None,
        rollout: environment.next_id().await,
        revisions: vec![vec![target.clone()]],
        includes_degraded: false,
    };
    let request = async |operation, deployed| {
        sync_by_person(&environment, "web", deployed).await;
        all_reports(run_adopting_child(&environment, "web", operation, &target, Some(adoption.clone()))).await
    };
    let reports = request(environment.next_id().await, &equal).await;
    let jobs = environment.operations_that_created("Job");
    let [by_person] = jobs[..] else { panic!("{jobs:?}, {reports:?}") };
    assert_eq!(reports, [format!("deployed by {by_person}")]);
    let operation = environment.next_id().await;
    assert_eq!(request(operation, &different).await, ["succeeded"]);
    let jobs = environment.operations_that_created("Job");
    assert_eq!((jobs.len(), jobs[2]), (3, operation), "the deployed manifests are different");
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_child_continues_when_withdrawn_and_has_ended_when_stopped() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1h"))]).await;
    let commit = environment.commit("web", &manifests("web", "2", "1h"));
    let operation = environment.next_id().await;
    let mut reports = run_child(&environment, "web", operation, &commit);
    assert_eq!(next_report(&mut reports).await, Some(OperationReport::Started));
    environment.send(SupervisorMessage::Forward(key("web"), AppMessage::WithdrawChild { operation }));
    assert_eq!(next_report(&mut reports).await, None);
    // A repeated request returns the current progress, even if the Application no longer exists.
    let mut reports = run_child(&environment, "web", operation, &commit);
    assert_eq!(next_report(&mut reports).await, Some(OperationReport::Started));
    assert_eq!(stop_child(&environment, "web", operation).await, Ok(()));
    let ended = environment.operations().await;
    assert_eq!(
        (ended.len(), ended[0].phase, ended[0].finished_at.is_some()),
        (1, OperationPhase::Failed, true)
    );
    assert_eq!(
        stop_child(&environment, "web", operation).await,
        Ok(()),
        "the operation has already been stopped"
    );
    let unknown = environment.next_id().await;
    assert_eq!(stop_child(&environment, "web", unknown).await, Ok(()));
    environment.remove("web");
    let mut changes = environment.shared().application_cache.subscribe();
    while environment.shared().application_cache.get(&key("web")).is_some() {
        let _ = changes.recv().await;
    }
    assert_eq!(stop_child(&environment, "web", operation).await, Ok(()));
    let gone = all_reports(run_child(&environment, "web", unknown, &commit)).await;
    assert_eq!(gone, ["later: application web does not exist"]);
    assert_eq!(operation_ids(&environment).await, [operation]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_window_blocks_a_child_operation_with_a_reason() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    environment.project(json!({"syncWindows": [{"kind": "deny", "schedule": "* * * * *", "duration": "1h",
        "applications": ["*"], "manualSync": true}]}));
    while environment.shared().sync_windows(&application("web")).stored_form.is_empty() {
        tokio::task::yield_now().await;
    }
    let operation = environment.next_id().await;
    let mut reports = run_child(&environment, "web", operation, &commit);
    let Some(OperationReport::Delayed { window }) = next_report(&mut reports).await else {
        panic!("the sync window doesn't block the operation")
    };
    assert!(window.contains("denied by sync window") && window.contains("project default"), "{window}");
    assert_eq!(operation_ids(&environment).await, []);
    environment.project(json!({}));
    assert_eq!(all_reports(reports).await, ["succeeded"]);
    assert_eq!(operation_ids(&environment).await, [operation]);
    environment.shutdown().await;
}

/// Changes an Application and waits until the change is published.
async fn publish_change(environment: &TestEnvironment, app: &Application) {
    environment.write(app);
    let is_it = |now: &Application| now.spec == app.spec && now.metadata == app.metadata;
    environment.wait_until("web", |now, _| is_it(now).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_operation_that_cannot_begin_reports_the_reason() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    let operation = environment.next_id().await;
    let mut elsewhere = application("web");
    elsewhere.spec.destination.name = "nowhere".to_owned();
    let mut skipped = application("web");
    skipped.metadata.annotations.insert("argocd.argoproj.io/skip-reconcile".into(), "true".into());
    for (app, expected) in [
        (elsewhere, "failed: the cluster nowhere in spec.destination is unknown"),
        (
            skipped,
            "later: application web is skipped because of its argocd.argoproj.io/skip-reconcile annotation",
        ),
    ] {
        publish_change(&environment, &app).await;
        let reports = all_reports(run_child(&environment, "web", operation, &commit)).await;
        assert!(reports.len() == 1 && reports[0].starts_with(expected), "{reports:?}");
    }
    // The operation starts once nothing prevents it from starting.
    publish_change(&environment, &application("web")).await;
    assert_eq!(all_reports(run_child(&environment, "web", operation, &commit)).await, ["succeeded"]);
    // If the revision doesn't exist, the operation ends immediately, and the Application shows the reason.
    let other = environment.next_id().await;
    let reports =
        all_reports(run_child(&environment, "web", other, "0123456789012345678901234567890123456789")).await;
    assert!(reports.len() == 1 && reports[0].starts_with("Error: "), "{reports:?}");
    assert_eq!(operation_ids(&environment).await, [operation]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persisted_child_begins_under_its_own_id_only_if_still_requested() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    let operation = environment.next_id().await;
    // Simulate a process that was killed after it had persisted the operation and before the engine received
    // it.
    let mut persisted = application("web");
    assign_operation(&mut persisted, operation, *child_request("web", &commit));
    environment.set_persisted(&persisted);
    environment.restart().await;
    environment
        .wait_until("web", |app, deployed| (deployed.is_compared && app.operation.is_none()).then_some(()))
        .await;
    assert_eq!(operation_ids(&environment).await, []);
    assert_eq!(all_reports(run_child(&environment, "web", operation, &commit)).await, ["succeeded"]);
    assert_eq!(environment.operations_that_created("Job"), [operation]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_child_continues_after_a_restart_and_reports_again() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1h"))]).await;
    let commit = environment.commit("web", &manifests("web", "2", "1h"));
    let operation = environment.next_id().await;
    let mut reports = run_child(&environment, "web", operation, &commit);
    assert_eq!(next_report(&mut reports).await, Some(OperationReport::Started));
    while environment.operations_that_created("Job").is_empty() {
        tokio::task::yield_now().await;
    }
    environment.restart().await;
    assert_eq!(next_report(&mut reports).await, None, "nothing is reported when an engine stops");
    let mut reports = run_child(&environment, "web", operation, &commit);
    assert_eq!(next_report(&mut reports).await, Some(OperationReport::Started));
    assert_eq!(stop_child(&environment, "web", operation).await, Ok(()));
    assert_eq!(all_reports(reports).await, [""; 0], "the reply reports the stop");
    assert_eq!(
        (operation_ids(&environment).await, environment.operations_that_created("Job")),
        (vec![operation], vec![operation])
    );
    environment.shutdown().await;
}
