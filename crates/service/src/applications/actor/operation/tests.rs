//! Operations that are not carried out, and what is told of that.

use std::time::Duration;

use serde_json::json;
use tidegate_application::operation;
use tidegate_application::refresh::{Level, MANAGED_LABEL, SKIP_ANNOTATION};
use tidegate_cluster::Cluster as _;
use tidegate_model::argo::{Application, OperationRequest, SyncOperation};
use tidegate_model::{Gvk, OperationPhase};
use tidegate_testkit::tools;

use crate::applications::testing::{Served, application, key, manifests};

fn sync(options: &[&str]) -> OperationRequest {
    let sync_options = options.iter().map(|option| (*option).to_owned()).collect();
    let sync = SyncOperation { sync_options, ..SyncOperation::default() };
    OperationRequest { sync: Some(sync), ..OperationRequest::default() }
}

fn ended(app: &Application) -> Option<(OperationPhase, String)> {
    let state = app.status.operation_state.as_ref().filter(|state| state.finished_at.is_some())?;
    app.operation.is_none().then(|| (state.phase, state.message.clone()))
}

fn condition(app: &Application, kind: &str) -> Option<String> {
    let found = app.status.conditions.iter().find(|one| one.kind.to_string() == kind);
    found.map(|one| one.message.clone())
}

/// Argo CD leaves it alone as well: no comparison, no operation, whoever has written one into it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_of_an_application_that_is_left_alone_waits_until_it_is_not() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    served.until("web", |now, _| now.status.sync.as_ref().map(|_| ())).await;
    let mut theirs = application("web");
    theirs.metadata.annotations.insert(SKIP_ANNOTATION.to_owned(), "true".to_owned());
    theirs.operation = Some(sync(&[]));
    served.write(&theirs);
    served.until("web", |now, _| now.operation.as_ref().map(|_| ())).await;
    let refused = served.serving().sync("web", sync(&[])).await.unwrap_err().to_string();
    assert!(refused.contains("left alone") && refused.contains(SKIP_ANNOTATION), "{refused}");
    let refused = served
        .serving()
        .delete("web", tidegate_model::Cascade::Foreground, String::new(), String::new())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("left alone"), "{refused}");
    // Others are served meanwhile, so that time goes by in which it could have begun.
    assert_eq!(served.operations().await, []);
    assert_eq!(served.made("Job"), []);
    theirs.metadata.annotations.clear();
    theirs.operation = served.kept("web").operation;
    served.write(&theirs);
    let (phase, message) = served.until("web", |now, _| ended(now)).await;
    assert_eq!(phase, OperationPhase::Succeeded, "{message}");
    assert_eq!(served.operations().await.len(), 1);
    served.end().await;
}

/// What the log never had is no end of an operation: it would count as an attempt, and the commit would never be synced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_the_log_has_no_room_for_is_begun_by_the_next_process() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    served.until("web", |now, _| now.status.sync.as_ref().map(|_| ())).await;
    served.memory.leave_room(Some(0));
    served.serving().sync("web", sync(&[])).await.unwrap();
    let failing = async {
        while served.engine.failure().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), failing).await.unwrap();
    served.leave().await;
    let kept = served.kept("web");
    assert!(kept.operation.is_some() && ended(&kept).is_none(), "{:?}", kept.status.operation_state);
    served.memory.leave_room(None);
    served.restart().await;
    let (phase, message) = served.until("web", |now, _| ended(now)).await;
    assert_eq!(phase, OperationPhase::Succeeded, "{message}");
    assert_eq!((served.operations().await.len(), served.made("Job").len()), (1, 1));
    served.end().await;
}

/// Whoever asks for a sync, and looks right after that, is not shown the one before. Nor is whoever reads what is kept, after a
/// kill too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_is_what_is_shown_from_then_on() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    served.sync("web").await;
    let of = |app: &Application| {
        let state = app.status.operation_state.clone().unwrap();
        operation::id(&state.operation)
    };
    let first = served.until("web", |now, _| ended(now).map(|_| of(now))).await;
    assert!(first.is_some());
    served.serving().sync("web", sync(&[])).await.unwrap();
    let shown = served.shared().board.get(&key("web")).unwrap();
    assert_ne!(of(&shown), first, "{:?}", shown.status.operation_state);
    assert_ne!(of(&served.kept("web")), first);
    let next = |now: &Application| ended(now).map(|_| of(now)).filter(|next| *next != first);
    served.until("web", |now, _| next(now)).await;
    served.end().await;
}

/// Beside an Argo CD, that annotation keeps Argo CD off what is labelled as ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_labelled_as_ours_is_served() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    let mut ours = application("web");
    ours.metadata.annotations.insert(SKIP_ANNOTATION.to_owned(), "true".to_owned());
    ours.metadata.labels.insert(MANAGED_LABEL.to_owned(), "true".to_owned());
    served.write(&ours);
    served.until("web", |now, _| (now.metadata.labels == ours.metadata.labels).then_some(())).await;
    served.sync("web").await;
    assert_eq!(served.until("web", |now, _| ended(now)).await.0, OperationPhase::Succeeded);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_options_that_nobody_knows_are_refused_wherever_they_are_written() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    served.serving().sync("web", sync(&["Prune=false", "Bogus=1", "prunelast=true"])).await.unwrap();
    let (phase, message) = served.until("web", |now, _| ended(now)).await;
    assert_eq!(phase, OperationPhase::Error);
    for words in ["operation.sync.syncOptions", "\"Bogus=1\" is not known", "write PruneLast=true"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert!(!message.contains("ignored"), "it is refused: {message}");
    assert_eq!(served.made("ConfigMap"), []);
    let mut theirs = application("web");
    let policy = json!({"syncOptions": ["Bogus=1"]});
    theirs.spec.sync_policy = serde_json::from_value(policy).unwrap();
    served.write(&theirs);
    let said = served.until("web", |now, _| condition(now, "InvalidSpecError")).await;
    assert!(said.contains("\"Bogus=1\" is not known; known are") && !said.contains("ignored"), "{said}");
    served.end().await;
}

/// What is misspelt in manifests and in annotations of the application is told for as long as it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_effect_is_told_until_it_is_mended() {
    let odd = |annotation: &str, value: &str| {
        let metadata = json!({"name": "odd", "annotations": {annotation: value}});
        let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        format!("{}---\n{odd}\n", manifests("web", "1", "1ms"))
    };
    let mut served = Served::new(&[("web", &odd("argocd.argoproj.io/hook", "Presync"))]).await;
    let said = served.until("web", |now, _| condition(now, "ManifestWarning")).await;
    assert!(said.contains("Presync") && said.contains("odd"), "{said}");
    served.commit("web", &odd("argocd.argoproj.io/sync-wave", "abc"));
    served.compare("web", Level::Forced).await;
    let wave = |now: &Application| condition(now, "ManifestWarning").filter(|said| said.contains("abc"));
    served.until("web", |now, _| wave(now)).await;
    let writes = served.writes();
    served.compare("web", Level::Forced).await;
    assert_eq!(served.writes(), writes, "nothing new is written down");
    served.commit("web", &odd("argocd.argoproj.io/sync-wave", "1"));
    served.compare("web", Level::Forced).await;
    served.until("web", |now, _| condition(now, "ManifestWarning").is_none().then_some(())).await;
    let mut theirs = application("web");
    theirs.metadata.annotations.insert("tidegate.dev/depend-on".to_owned(), "db".to_owned());
    theirs.metadata.annotations.insert("tidegate.dev/depends-on".to_owned(), "bad/ns/x".to_owned());
    served.write(&theirs);
    let said = served.until("web", |now, _| condition(now, "SpecWarning")).await;
    assert!(said.contains("tidegate.dev/depend-on") && said.contains("\"bad/ns/x\""), "{said}");
    theirs.metadata.annotations.clear();
    served.write(&theirs);
    served.until("web", |now, _| condition(now, "SpecWarning").is_none().then_some(())).await;
    served.end().await;
}

/// A chart that asks what its cluster serves is not made for one that nobody has asked: a sync waits for the answer, says so, can be
/// taken back meanwhile, and goes on after the process has ended, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_waits_for_a_cluster_that_its_chart_asks() {
    let Some(helm) = tools::helm() else { return };
    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: asks}, data: {jobs: '{{ .Capabilities.APIVersions.Has \"batch/v1/Job\" }}'}}";
    let mut served = Served::new(&[("web", "{}")]).await;
    served.commit_files(
        "web",
        &[("Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"), ("templates/map.yaml", MAP)],
    );
    served.with_helm(helm, true).await;
    served.sync("web").await;
    let waits = |app: &Application| {
        let state = app.status.operation_state.as_ref()?;
        let is_it = state.message.starts_with("waiting for its cluster: ")
            && state.message.contains("nobody answers");
        (is_it && app.operation.is_some()).then(|| operation::id(&state.operation))
    };
    let first = served.until("web", |now, _| waits(now)).await;
    assert_eq!(served.operations().await, []);
    served.serving().terminate("web", None, ("ann".to_owned(), "not today".to_owned())).await.unwrap();
    let (phase, message) = served.until("web", |now, _| ended(now)).await;
    assert_eq!((phase, message.contains("ann")), (OperationPhase::Failed, true), "{message}");
    served.sync("web").await;
    let second = served.until("web", |now, _| waits(now)).await;
    assert_ne!(second, first);
    served.restart().await;
    // Nothing has begun, so it may be another one for the engine by then.
    served.until("web", |now, _| waits(now)).await;
    assert_eq!(served.operations().await, []);
    served.silence(false);
    let (phase, message) = served.until("web", |now, _| ended(now)).await;
    assert_eq!(phase, OperationPhase::Succeeded, "{message}");
    assert_eq!(served.operations().await.len(), 1);
    let map = served.sim.get(&Gvk::new("", "v1", "ConfigMap"), "web", "asks").await.unwrap().unwrap();
    assert_eq!(map.as_value()["data"]["jobs"], "true");
    served.end().await;
}
