//! Prunes that wait until an annotation confirms them. The log shows who confirmed them, and the cluster's
//! audit log shows which objects were deleted.

use std::time::Duration;

use serde_json::json;
use tidegate_application::ignored::SPEC_WARNING_CONDITION;
use tidegate_cluster::sim::Verb;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::annotations::{DELETION_APPROVED, SYNC_OPTIONS};
use tidegate_model::argo::{Application, OperationRequest, Retry, RetryBackoff, SyncOperation};
use tidegate_model::{OperationPhase, Timestamp};

use crate::testing::{TestEnvironment, application, manifests};

/// Returns the Application's objects, including an object whose pruning must be confirmed.
fn guarded_manifests() -> String {
    let guarded = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "guarded", "annotations": {SYNC_OPTIONS: "Prune=confirm"},
    }});
    manifests("web", "1", "1ms") + &format!("---\n{guarded}\n")
}

/// Returns the Application with the given value of the annotation that confirms deletions.
fn annotated_application(annotation: &str) -> Application {
    let mut written = application("web");
    written.metadata.annotations.insert(DELETION_APPROVED.to_owned(), annotation.to_owned());
    written
}

fn ended_operation(app: &Application, times: usize) -> Option<()> {
    let is_over = app.operation.is_none() && app.status.history.len() == times;
    is_over.then_some(())
}

/// Requests a sync with pruning. The sync is retried after a second.
async fn sync_with_prune(environment: &TestEnvironment) {
    let sync = SyncOperation { prune: true, ..SyncOperation::default() };
    let backoff = RetryBackoff { duration: "1s".to_owned(), ..RetryBackoff::default() };
    let retry = Retry { limit: 3, backoff: Some(backoff), ..Retry::default() };
    let request = OperationRequest { sync: Some(sync), retry: Some(retry), ..OperationRequest::default() };
    environment.service().sync("web", request).await.unwrap();
}

/// Syncs the Application, and then removes the object from the manifests. The new commit contains a migration
/// with the duration `migrates`, and the additional manifests in `more`.
async fn sync_and_remove_object(migrates: &str, more: &str) -> TestEnvironment {
    let environment = TestEnvironment::new(&[("web", &guarded_manifests())]).await;
    environment.sync("web").await;
    environment.wait_until("web", |now, _| ended_operation(now, 1)).await;
    environment.commit("web", &(manifests("web", "2", migrates) + more));
    sync_with_prune(&environment).await;
    environment
}

/// Waits until the status shows that the operation is waiting for confirmation.
async fn await_confirmation_prompt(environment: &TestEnvironment) {
    let waits = "waiting for pruning confirmation of /ConfigMap/guarded";
    let is_held = |now: &Application| {
        let state = now.status.operation_state.as_ref()?;
        (state.message == waits && state.phase == OperationPhase::Running).then_some(())
    };
    environment.wait_until("web", |now, _| is_held(now)).await;
}

/// Returns the requesters of the confirmations in the log, and the number of times that the cluster deleted
/// the object.
async fn confirmations_and_deletions(environment: &TestEnvironment) -> (Vec<String>, usize) {
    let operation = environment.operations().await.last().unwrap().operation;
    let events = environment.engine.stored_events(operation).await.unwrap();
    let by = events.into_iter().filter_map(|event| match event {
        OperationEvent::PruneConfirmed { by, .. } => Some(by),
        _ => None,
    });
    let audit = environment.sim.audit();
    let deleted = audit.iter().filter(|one| one.name == "guarded" && one.verb == Verb::Delete);
    (by.collect(), deleted.filter(|one| !one.dry_run).count())
}

fn confirmations_by_annotation(annotation: &str) -> Vec<String> {
    vec![format!("unknown, because: the {DELETION_APPROVED} annotation is set to {annotation}")]
}

/// Returns the current time.
fn now() -> Timestamp {
    SystemClock.now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_continues_only_with_a_confirmation_later_than_its_start() {
    let mut environment = sync_and_remove_object("1ms", "").await;
    await_confirmation_prompt(&environment).await;
    // Old times and invalid values don't confirm anything. A confirmation would have reached the operation by
    // the time the state is published.
    let old = (now() - Duration::from_secs(3600)).to_string();
    for annotation in [old.as_str(), "yes"] {
        environment.write(&annotated_application(annotation));
        let is_seen =
            |now: &Application| (now.annotation(DELETION_APPROVED) == Some(annotation)).then_some(());
        environment.wait_until("web", |now, _| is_seen(now)).await;
        assert_eq!(confirmations_and_deletions(&environment).await, (vec![], 0), "{annotation}");
    }
    let wrong = |now: &Application| {
        let found = now.status.conditions.iter().find(|one| one.kind.to_string() == SPEC_WARNING_CONDITION);
        found.map(|one| one.message.clone())
    };
    let wrong = environment.wait_until("web", |now, _| wrong(now)).await;
    assert!(wrong.contains("\"yes\" is not an RFC 3339 time"), "{wrong}");
    await_confirmation_prompt(&environment).await;
    let annotation = now().to_string();
    environment.write(&annotated_application(&annotation));
    let quiet = environment
        .wait_until("web", |now, _| ended_operation(now, 2).map(|()| now.status.conditions.is_empty()))
        .await;
    assert!(quiet, "the annotation is a valid time now");
    assert_eq!(
        confirmations_and_deletions(&environment).await,
        (confirmations_by_annotation(&annotation), 1),
        "only one confirmation, no matter how often the annotation is read"
    );
    // A confirmation applies to only one operation.
    environment.commit("web", &guarded_manifests());
    environment.sync("web").await;
    environment.wait_until("web", |now, _| ended_operation(now, 3)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    environment.commit("web", &manifests("web", "3", "1ms"));
    sync_with_prune(&environment).await;
    await_confirmation_prompt(&environment).await;
    assert_eq!(confirmations_and_deletions(&environment).await, (vec![], 1));
    environment.shutdown().await;
}

/// The user expects the prompt and sets the annotation in advance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_that_is_confirmed_in_advance_does_not_wait() {
    let mut environment = sync_and_remove_object("1500ms", "").await;
    let began = |now: &Application| {
        let state = now.status.operation_state.as_ref().filter(|state| state.message.contains("hook"))?;
        Some(state.started_at.to_string())
    };
    let annotation = environment.wait_until("web", |now, _| began(now)).await;
    environment.write(&annotated_application(&annotation));
    environment.wait_until("web", |now, _| ended_operation(now, 2)).await;
    assert_eq!(
        confirmations_and_deletions(&environment).await,
        (confirmations_by_annotation(&annotation), 1)
    );
    environment.shutdown().await;
}

/// An annotation written before the service starts takes effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_while_the_service_is_stopped_counts_after_its_start() {
    let mut environment = sync_and_remove_object("1ms", "").await;
    await_confirmation_prompt(&environment).await;
    environment.shutdown().await;
    let annotation = now().to_string();
    let mut persisted = environment.persisted("web");
    persisted.metadata.annotations.insert(DELETION_APPROVED.to_owned(), annotation.clone());
    environment.set_persisted(&persisted);
    environment.restart().await;
    environment.wait_until("web", |now, _| ended_operation(now, 2)).await;
    assert_eq!(
        confirmations_and_deletions(&environment).await,
        (confirmations_by_annotation(&annotation), 1)
    );
    environment.shutdown().await;
}

/// If an attempt fails before its first write, the next attempt has a new plan, which prompts again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_applies_to_a_later_attempt_with_a_new_plan() {
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "late"}});
    let mut environment = sync_and_remove_object("1ms", &format!("---\n{elsewhere}\n")).await;
    let failed = |now: &Application| {
        let state = now.status.operation_state.as_ref().filter(|state| state.message.contains("Retrying"))?;
        Some(state.started_at.to_string())
    };
    let annotation = environment.wait_until("web", |now, _| failed(now)).await;
    environment.write(&annotated_application(&annotation));
    let is_seen = |now: &Application| (now.annotation(DELETION_APPROVED) == Some(&annotation)).then_some(());
    environment.wait_until("web", |now, _| is_seen(now)).await;
    assert_eq!(
        confirmations_and_deletions(&environment).await,
        (confirmations_by_annotation(&annotation), 0)
    );
    environment.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}})).await;
    environment.wait_until("web", |now, _| ended_operation(now, 2)).await;
    let (by, deleted) = confirmations_and_deletions(&environment).await;
    assert!(
        by.len() >= 2 && by.iter().all(|one| confirmations_by_annotation(&annotation).contains(one)),
        "{by:?}"
    );
    assert_eq!(deleted, 1);
    environment.shutdown().await;
}
