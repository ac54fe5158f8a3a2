//! Operations that aren't executed, and the status that they get.

use std::time::Duration;

use serde_json::json;
use tidegate_application::operation;
use tidegate_application::refresh::{MANAGED_LABEL, RefreshLevel, SKIP_RECONCILE_ANNOTATION};
use tidegate_cluster::Cluster as _;
use tidegate_model::argo::{Application, OperationRequest, SyncOperation};
use tidegate_model::{Cascade, Gvk, OperationPhase, Requester};
use tidegate_testkit::tools;

use crate::testing::{TestEnvironment, application, key, manifests};

fn sync_request(options: &[&str]) -> OperationRequest {
    let sync_options = options.iter().map(|option| (*option).to_owned()).collect();
    let sync = SyncOperation { sync_options, ..SyncOperation::default() };
    OperationRequest { sync: Some(sync), ..OperationRequest::default() }
}

fn operation_result(app: &Application) -> Option<(OperationPhase, String)> {
    let state = app.status.operation_state.as_ref().filter(|state| state.finished_at.is_some())?;
    app.operation.is_none().then(|| (state.phase, state.message.clone()))
}

fn condition_message(app: &Application, kind: &str) -> Option<String> {
    let found = app.status.conditions.iter().find(|one| one.kind.to_string() == kind);
    found.map(|one| one.message.clone())
}

/// As in Argo CD, an Application whose reconciliation is skipped isn't compared. An operation in its resource
/// doesn't start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_waits_while_reconciliation_is_skipped() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    environment.wait_until("web", |now, _| now.status.sync.as_ref().map(|_| ())).await;
    let mut theirs = application("web");
    theirs.metadata.annotations.insert(SKIP_RECONCILE_ANNOTATION.to_owned(), "true".to_owned());
    theirs.operation = Some(sync_request(&[]));
    environment.write(&theirs);
    environment.wait_until("web", |now, _| now.operation.as_ref().map(|_| ())).await;
    let refused = environment.service().sync("web", sync_request(&[])).await.unwrap_err().to_string();
    assert!(refused.contains("is skipped") && refused.contains(SKIP_RECONCILE_ANNOTATION), "{refused}");
    let refused = environment
        .service()
        .delete("web", Cascade::Foreground.into(), Requester { name: "", reason: "" })
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("is skipped"), "{refused}");
    // The steps above gave the operation enough time to start.
    assert_eq!(environment.operations().await, []);
    assert_eq!(environment.operations_that_created("Job"), []);
    theirs.metadata.annotations.clear();
    theirs.operation = environment.persisted("web").operation;
    environment.write(&theirs);
    let (phase, message) = environment.wait_until("web", |now, _| operation_result(now)).await;
    assert_eq!(phase, OperationPhase::Succeeded, "{message}");
    assert_eq!(environment.operations().await.len(), 1);
    environment.shutdown().await;
}

/// An operation that was never in the log must not count as finished. Otherwise, it would count as an
/// attempt, and its commit would never be synced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_does_not_fit_into_the_log_begins_after_a_restart() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    environment.wait_until("web", |now, _| now.status.sync.as_ref().map(|_| ())).await;
    environment.log_content.set_free_blobs(Some(0));
    environment.service().sync("web", sync_request(&[])).await.unwrap();
    let failing = async {
        while environment.engine.failure().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), failing).await.unwrap();
    environment.stop_managing().await;
    let persisted = environment.persisted("web");
    assert!(
        persisted.operation.is_some() && operation_result(&persisted).is_none(),
        "{:?}",
        persisted.status.operation_state
    );
    environment.log_content.set_free_blobs(None);
    environment.restart().await;
    let (phase, message) = environment.wait_until("web", |now, _| operation_result(now)).await;
    assert_eq!(phase, OperationPhase::Succeeded, "{message}");
    assert_eq!(
        (environment.operations().await.len(), environment.operations_that_created("Job").len()),
        (1, 1)
    );
    environment.shutdown().await;
}

/// A requested sync immediately replaces the previous sync in the published state and in the persisted state,
/// even if the process is then killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_operation_is_published_and_persisted_immediately() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    environment.sync("web").await;
    let of = |app: &Application| {
        let state = app.status.operation_state.clone().unwrap();
        operation::engine_id(&state.operation)
    };
    let first = environment.wait_until("web", |now, _| operation_result(now).map(|_| of(now))).await;
    assert!(first.is_some());
    environment.service().sync("web", sync_request(&[])).await.unwrap();
    let shown = environment.shared().application_cache.get(&key("web")).unwrap();
    assert_ne!(of(&shown), first, "{:?}", shown.status.operation_state);
    assert_ne!(of(&environment.persisted("web")), first);
    let next = |now: &Application| operation_result(now).map(|_| of(now)).filter(|next| *next != first);
    environment.wait_until("web", |now, _| next(now)).await;
    environment.shutdown().await;
}

/// If Argo CD is also running, users set the skip-reconcile annotation on Tidegate's Applications so that
/// Argo CD ignores them. Tidegate still manages those with its own label.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_with_our_label_is_managed() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let mut ours = application("web");
    ours.metadata.annotations.insert(SKIP_RECONCILE_ANNOTATION.to_owned(), "true".to_owned());
    ours.metadata.labels.insert(MANAGED_LABEL.to_owned(), "true".to_owned());
    environment.write(&ours);
    environment.wait_until("web", |now, _| (now.metadata.labels == ours.metadata.labels).then_some(())).await;
    environment.sync("web").await;
    assert_eq!(
        environment.wait_until("web", |now, _| operation_result(now)).await.0,
        OperationPhase::Succeeded
    );
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_sync_options_are_rejected_wherever_they_are_set() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    environment
        .service()
        .sync("web", sync_request(&["Prune=false", "Bogus=1", "prunelast=true"]))
        .await
        .unwrap();
    let (phase, message) = environment.wait_until("web", |now, _| operation_result(now)).await;
    assert_eq!(phase, OperationPhase::Error);
    for text in ["operation.sync.syncOptions", "unknown sync option \"Bogus=1\"", "use PruneLast=true"] {
        assert!(message.contains(text), "{text}: {message}");
    }
    assert!(!message.contains("ignored"), "it is refused: {message}");
    assert_eq!(environment.operations_that_created("ConfigMap"), []);
    let mut theirs = application("web");
    let policy = json!({"syncOptions": ["Bogus=1"]});
    theirs.spec.sync_policy = serde_json::from_value(policy).unwrap();
    environment.write(&theirs);
    let said = environment.wait_until("web", |now, _| condition_message(now, "InvalidSpecError")).await;
    assert!(
        said.contains("unknown sync option \"Bogus=1\"; use one of") && !said.contains("ignored"),
        "{said}"
    );
    environment.shutdown().await;
}

/// The condition contains the reason. `appset generate` rejects such Applications, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_specification_is_a_condition() {
    let mut environment = TestEnvironment::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let usual = serde_json::to_value(application("web").spec).unwrap();
    for (field, value, message) in [
        ("destination", json!({}), "spec.destination has neither server nor name; set one of them"),
        (
            "destination",
            json!({"name": "in-cluster", "server": "https://a"}),
            "spec.destination has both a name and a server; set only one of them",
        ),
        (
            "syncPolicy",
            json!({"retry": {"backoff": {"maxDuration": "3x"}}}),
            "spec.syncPolicy: invalid retry.backoff.maxDuration \"3x\": use a number and a unit, such as 5s",
        ),
        (
            "source",
            json!({"repoURL": " ", "path": "a"}),
            "spec.source.repoURL is empty; set the URL of a repository",
        ),
        ("sourceHydrator", json!({"drySource": {}}), "spec.sourceHydrator is not supported yet"),
    ] {
        let mut spec = usual.clone();
        spec[field] = value;
        let mut theirs = application("web");
        theirs.spec = serde_json::from_value(spec).unwrap();
        environment.write(&theirs);
        environment
            .wait_until("web", |now, _| {
                condition_message(now, "InvalidSpecError").filter(|found| found.contains(message))
            })
            .await;
    }
    environment.shutdown().await;
}

/// Misspelled settings in manifests and annotations are reported until they are fixed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_settings_are_reported_until_they_are_fixed() {
    let odd = |annotation: &str, value: &str| {
        let metadata = json!({"name": "odd", "annotations": {annotation: value}});
        let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        format!("{}---\n{odd}\n", manifests("web", "1", "1ms"))
    };
    let mut environment = TestEnvironment::new(&[("web", &odd("argocd.argoproj.io/hook", "Presync"))]).await;
    let message = environment.wait_until("web", |now, _| condition_message(now, "ManifestWarning")).await;
    assert!(message.contains("Presync") && message.contains("odd"), "{message}");
    environment.commit("web", &odd("argocd.argoproj.io/sync-wave", "abc"));
    environment.compare("web", RefreshLevel::Forced).await;
    let wave = |now: &Application| {
        condition_message(now, "ManifestWarning").filter(|message| message.contains("abc"))
    };
    environment.wait_until("web", |now, _| wave(now)).await;
    let writes = environment.writes();
    environment.compare("web", RefreshLevel::Forced).await;
    assert_eq!(environment.writes(), writes, "the comparison found nothing new to persist");
    environment.commit("web", &odd("argocd.argoproj.io/sync-wave", "1"));
    environment.compare("web", RefreshLevel::Forced).await;
    environment
        .wait_until("web", |now, _| condition_message(now, "ManifestWarning").is_none().then_some(()))
        .await;
    let mut theirs = application("web");
    theirs.metadata.annotations.insert("tidegate.dev/depend-on".to_owned(), "db".to_owned());
    theirs.metadata.annotations.insert("tidegate.dev/depends-on".to_owned(), "bad/ns/x".to_owned());
    environment.write(&theirs);
    let message = environment.wait_until("web", |now, _| condition_message(now, "SpecWarning")).await;
    assert!(message.contains("tidegate.dev/depend-on") && message.contains("\"bad/ns/x\""), "{message}");
    theirs.metadata.annotations.clear();
    environment.write(&theirs);
    environment
        .wait_until("web", |now, _| condition_message(now, "SpecWarning").is_none().then_some(()))
        .await;
    environment.shutdown().await;
}

/// A chart that depends on its cluster's capabilities isn't rendered without them. A sync waits for the
/// capabilities and shows the reason. The waiting sync can be withdrawn, and it continues after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_waits_for_the_cluster_whose_capabilities_its_chart_needs() {
    let Some(helm) = tools::helm() else { return };
    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: asks}, data: {jobs: '{{ .Capabilities.APIVersions.Has \"batch/v1/Job\" }}'}}";
    let mut environment = TestEnvironment::new(&[("web", "{}")]).await;
    environment.commit_files(
        "web",
        &[("Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"), ("templates/map.yaml", MAP)],
    );
    environment.with_helm(helm, true).await;
    environment.sync("web").await;
    let waits = |app: &Application| {
        let state = app.status.operation_state.as_ref()?;
        let is_it =
            state.message.starts_with("waiting for its cluster: ") && state.message.contains("no response");
        (is_it && app.operation.is_some()).then(|| operation::engine_id(&state.operation))
    };
    let first = environment.wait_until("web", |now, _| waits(now)).await;
    assert_eq!(environment.operations().await, []);
    environment
        .service()
        .terminate("web", None, Requester { name: "ann", reason: "not today" })
        .await
        .unwrap();
    let (phase, message) = environment.wait_until("web", |now, _| operation_result(now)).await;
    assert_eq!((phase, message.contains("ann")), (OperationPhase::Failed, true), "{message}");
    environment.sync("web").await;
    let second = environment.wait_until("web", |now, _| waits(now)).await;
    assert_ne!(second, first);
    environment.restart().await;
    // Nothing has started yet, so the engine may assign a different ID to the operation.
    environment.wait_until("web", |now, _| waits(now)).await;
    assert_eq!(environment.operations().await, []);
    environment.set_silent(false);
    let (phase, message) = environment.wait_until("web", |now, _| operation_result(now)).await;
    assert_eq!(phase, OperationPhase::Succeeded, "{message}");
    assert_eq!(environment.operations().await.len(), 1);
    let map = environment.sim.get(&Gvk::new("", "v1", "ConfigMap"), "web", "asks").await.unwrap().unwrap();
    assert_eq!(map.as_value()["data"]["jobs"], "true");
    environment.shutdown().await;
}
