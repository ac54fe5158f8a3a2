//! Prunes that wait for a person, who writes an annotation. The log says who has confirmed them, the audit of the cluster what is
//! gone.

use std::time::Duration;

use serde_json::json;
use tidegate_application::unheeded::UNHEEDED;
use tidegate_cluster::sim::Verb;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::Fact;
use tidegate_model::annotations::{DELETION_APPROVED, SYNC_OPTIONS};
use tidegate_model::argo::{Application, OperationRequest, Retry, RetryBackoff, SyncOperation};
use tidegate_model::{OperationPhase, Timestamp};

use crate::applications::testing::{Served, application, manifests};

/// What the application has, and an object that is not pruned before somebody has confirmed it.
fn guarded() -> String {
    let guarded = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "guarded", "annotations": {SYNC_OPTIONS: "Prune=confirm"},
    }});
    manifests("web", "1", "1ms") + &format!("---\n{guarded}\n")
}

/// The application as somebody writes it, with this annotation.
fn annotated(said: &str) -> Application {
    let mut written = application("web");
    written.metadata.annotations.insert(DELETION_APPROVED.to_owned(), said.to_owned());
    written
}

fn ended(app: &Application, times: usize) -> Option<()> {
    let is_over = app.operation.is_none() && app.status.history.len() == times;
    is_over.then_some(())
}

/// Somebody asks for a sync that prunes, and is tried again after a second.
async fn prune(served: &Served) {
    let sync = SyncOperation { prune: true, ..SyncOperation::default() };
    let backoff = RetryBackoff { duration: "1s".to_owned(), ..RetryBackoff::default() };
    let retry = Retry { limit: 3, backoff: Some(backoff), ..Retry::default() };
    let asked = OperationRequest { sync: Some(sync), retry: Some(retry), ..OperationRequest::default() };
    served.serving().sync("web", asked).await.unwrap();
}

/// It has been synced, and is synced once more without the object, with a migration that takes so long, and more.
async fn without_it(migrates: &str, more: &str) -> Served {
    let served = Served::new(&[("web", &guarded())]).await;
    served.sync("web").await;
    served.until("web", |now, _| ended(now, 1)).await;
    served.commit("web", &(manifests("web", "2", migrates) + more));
    prune(&served).await;
    served
}

/// Waits until the operation is held, as the status says it.
async fn held(served: &Served) {
    let waits = "waiting for pruning confirmation of /ConfigMap/guarded";
    let is_held = |now: &Application| {
        let state = now.status.operation_state.as_ref()?;
        (state.message == waits && state.phase == OperationPhase::Running).then_some(())
    };
    served.until("web", |now, _| is_held(now)).await;
}

/// Who has confirmed it, according to the log, and what of the object was deleted, according to the cluster.
async fn confirmed(served: &Served) -> (Vec<String>, usize) {
    let operation = served.operations().await.last().unwrap().operation;
    let facts = served.engine.facts(operation).await.unwrap();
    let by = facts.into_iter().filter_map(|fact| match fact {
        Fact::PruneConfirmed { by, .. } => Some(by),
        _ => None,
    });
    let audit = served.sim.audit();
    let deleted = audit.iter().filter(|one| one.name == "guarded" && one.verb == Verb::Delete);
    (by.collect(), deleted.filter(|one| !one.dry_run).count())
}

fn by_annotation(said: &str) -> Vec<String> {
    vec![format!("somebody, because: the annotation {DELETION_APPROVED} says {said}")]
}

/// The time now, as people write it.
fn now() -> Timestamp {
    SystemClock.now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_goes_on_when_the_annotation_says_a_time_since_its_beginning_and_not_before() {
    let mut served = without_it("1ms", "").await;
    held(&served).await;
    // What is older, or no time, confirms nothing. What is shown comes after what is passed on.
    let old = (now() - Duration::from_secs(3600)).to_string();
    for said in [old.as_str(), "yes"] {
        served.write(&annotated(said));
        let is_seen = |now: &Application| (now.annotation(DELETION_APPROVED) == Some(said)).then_some(());
        served.until("web", |now, _| is_seen(now)).await;
        assert_eq!(confirmed(&served).await, (vec![], 0), "{said}");
    }
    let wrong = |now: &Application| {
        let found = now.status.conditions.iter().find(|one| one.kind.to_string() == UNHEEDED);
        found.map(|one| one.message.clone())
    };
    let wrong = served.until("web", |now, _| wrong(now)).await;
    assert!(wrong.contains("\"yes\" is not an RFC 3339 time"), "{wrong}");
    held(&served).await;
    let said = now().to_string();
    served.write(&annotated(&said));
    let quiet = served.until("web", |now, _| ended(now, 2).map(|()| now.status.conditions.is_empty())).await;
    assert!(quiet, "it is a time now");
    assert_eq!(confirmed(&served).await, (by_annotation(&said), 1), "once, however often it is looked at");
    // It is of that operation alone: the next one asks anew.
    served.commit("web", &guarded());
    served.sync("web").await;
    served.until("web", |now, _| ended(now, 3)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    served.commit("web", &manifests("web", "3", "1ms"));
    prune(&served).await;
    held(&served).await;
    assert_eq!(confirmed(&served).await, (vec![], 1));
    served.end().await;
}

/// Somebody knows that it will ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_confirmed_before_it_is_asked_for_does_not_wait() {
    let mut served = without_it("1500ms", "").await;
    let began = |now: &Application| {
        let state = now.status.operation_state.as_ref().filter(|state| state.message.contains("hook"))?;
        Some(state.started_at.to_string())
    };
    let said = served.until("web", |now, _| began(now)).await;
    served.write(&annotated(&said));
    served.until("web", |now, _| ended(now, 2)).await;
    assert_eq!(confirmed(&served).await, (by_annotation(&said), 1));
    served.end().await;
}

/// What is written while nobody serves is found at the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_confirmed_while_nobody_serves_counts_at_the_next_start() {
    let mut served = without_it("1ms", "").await;
    held(&served).await;
    served.end().await;
    let said = now().to_string();
    let mut kept = served.kept("web");
    kept.metadata.annotations.insert(DELETION_APPROVED.to_owned(), said.clone());
    served.set_kept(&kept);
    served.restart().await;
    served.until("web", |now, _| ended(now, 2)).await;
    assert_eq!(confirmed(&served).await, (by_annotation(&said), 1));
    served.end().await;
}

/// An attempt that fails before it has written anything is followed by one with a plan of its own, which asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_confirmed_holds_in_an_attempt_that_plans_anew() {
    let elsewhere =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "late"}});
    let mut served = without_it("1ms", &format!("---\n{elsewhere}\n")).await;
    let failed = |now: &Application| {
        let state = now.status.operation_state.as_ref().filter(|state| state.message.contains("Retrying"))?;
        Some(state.started_at.to_string())
    };
    let said = served.until("web", |now, _| failed(now)).await;
    served.write(&annotated(&said));
    let is_seen = |now: &Application| (now.annotation(DELETION_APPROVED) == Some(&said)).then_some(());
    served.until("web", |now, _| is_seen(now)).await;
    assert_eq!(confirmed(&served).await, (by_annotation(&said), 0));
    served.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}})).await;
    served.until("web", |now, _| ended(now, 2)).await;
    let (by, deleted) = confirmed(&served).await;
    assert!(by.len() >= 2 && by.iter().all(|one| by_annotation(&said).contains(one)), "{by:?}");
    assert_eq!(deleted, 1);
    served.end().await;
}
