use serde_json::{Value, json};
use tidegate_application::operation as requests;
use tidegate_application::refresh::REFRESH_ANNOTATION;
use tidegate_cluster::{ApplyRequest, DeleteRequest, WriteMode};
use tidegate_model::annotations::DELETION_APPROVED;
use tidegate_model::argo::{OperationRequest, SyncStatusCode};
use tidegate_model::{Object, OperationId, Timestamp};

use super::testing::{apply, cluster};
use super::*;
use crate::applications::store::{Ended, Stored};
use crate::simulated;

fn web(namespace: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Application",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    })
}

async fn open(cluster: &Arc<dyn Cluster>, reach: Reach) -> (KubernetesStore, UnboundedReceiver<StoreEvent>) {
    let store = KubernetesStore::open(Arc::clone(cluster), Destination::Simulated, reach).await.unwrap();
    let events = store.watch();
    (store, events)
}

fn of(namespaces: &[&str]) -> Reach {
    let namespaces = namespaces.iter().copied().map(str::to_owned).collect();
    Reach { namespaces, ..Reach::default() }
}

/// What has happened to applications.
async fn next(events: &mut UnboundedReceiver<StoreEvent>) -> StoreEvent {
    loop {
        match events.recv().await.unwrap() {
            StoreEvent::Projects(_) | StoreEvent::Overwritten { .. } => {}
            event => return event,
        }
    }
}

async fn told(events: &mut UnboundedReceiver<StoreEvent>) -> String {
    match next(events).await {
        StoreEvent::Applied(stored) => {
            let asked = if stored.application.operation.is_some() { " with an operation" } else { "" };
            format!("{}{asked}", AppKey::of(&stored.application))
        }
        StoreEvent::Overwritten { key, ended } => format!("overwritten {key} {ended:?}"),
        StoreEvent::Gone(key) => format!("gone {key}"),
        StoreEvent::Projects(_) => "projects".to_owned(),
        StoreEvent::Problems(problems) => format!("{problems:?}"),
        StoreEvent::Settled => "settled".to_owned(),
        StoreEvent::Looked(number) => format!("looked {number}"),
    }
}

async fn applied(events: &mut UnboundedReceiver<StoreEvent>) -> Stored {
    match next(events).await {
        StoreEvent::Applied(stored) => *stored,
        other => panic!("{other:?}"),
    }
}

async fn live(cluster: &dyn Cluster) -> Object {
    cluster.get(&kind::<Applications>(), "argocd", "web").await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_the_applications_of_the_namespaces_that_are_served_are_told() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    apply(cluster.as_ref(), web("team")).await;
    for (namespaces, expected) in [
        (&["argocd"][..], &["web", "settled"][..]),
        (&["team"], &["team/web", "settled"]),
        (&[], &["web", "team/web", "settled"]),
    ] {
        let (_store, mut events) = open(&cluster, of(namespaces)).await;
        for expected in expected {
            assert_eq!(told(&mut events).await, *expected, "{namespaces:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn side_by_side_with_another_only_labelled_ones_are_served() {
    let cluster = cluster().await;
    let object = apply(cluster.as_ref(), web("argocd")).await;
    let (_store, mut events) = open(&cluster, Reach { only_labelled: true, ..Reach::default() }).await;
    assert_eq!(told(&mut events).await, "settled");
    for (value, expected) in [("true", "web"), ("false", "gone web")] {
        let mut labelled = live(cluster.as_ref()).await;
        labelled.set_label(MANAGED_LABEL, value);
        cluster.put(labelled, None).await.unwrap();
        assert_eq!(told(&mut events).await, expected);
    }
    cluster.delete(DeleteRequest::of(&object)).await.unwrap();
    assert!(events.try_recv().is_err(), "what was not served does not go");
}

/// Whoever takes the label off hands it back when what is under way has ended, and is told how it ended.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_served_to_its_end_without_the_label() {
    let cluster = cluster().await;
    let mut labelled = web("argocd");
    labelled["metadata"]["labels"] = json!({MANAGED_LABEL: "true"});
    apply(cluster.as_ref(), labelled).await;
    let (store, mut events) = open(&cluster, Reach { only_labelled: true, ..Reach::default() }).await;
    let mut application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    let id = "00000000-0000-7000-8000-000000000001".parse().unwrap();
    tidegate_application::running::place(&mut application, id, OperationRequest::default());
    store.keep(&application).await.unwrap();
    let mut bare = live(cluster.as_ref()).await;
    bare.set_label(MANAGED_LABEL, "false");
    cluster.put(bare, None).await.unwrap();
    let ending = applied(&mut events).await.application;
    assert!(tidegate_application::refresh::is_skipped(&ending), "nothing new is begun");
    application.operation = None;
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    store.keep(&application).await.unwrap();
    assert_eq!(told(&mut events).await, "gone web");
    let end = live(cluster.as_ref()).await;
    assert_eq!(end.text("/status/sync/status"), "Synced");
    assert!(
        end.pointer("/operation").is_none() && end.annotation("argocd.argoproj.io/skip-reconcile").is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_known_is_written_into_the_status_and_is_no_news() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    application.status.sync.get_or_insert_default().status = SyncStatusCode::OutOfSync;
    application.operation = Some(OperationRequest::default());
    store.keep(&application).await.unwrap();
    let before = live(cluster.as_ref()).await;
    assert_eq!(before.text("/status/sync/status"), "OutOfSync");
    assert_eq!(before.text("/spec/source/repoURL"), "./repo");
    assert!(before.pointer("/operation").is_some());
    // What is written already is not written again.
    store.keep(&application).await.unwrap();
    assert_eq!(live(cluster.as_ref()).await, before);
    application.operation = None;
    store.keep(&application).await.unwrap();
    assert!(live(cluster.as_ref()).await.pointer("/operation").is_none());
    // The first that is told is what somebody else has changed.
    let mut changed = live(cluster.as_ref()).await;
    changed.section_mut("spec").insert("project".to_owned(), json!("shop"));
    cluster.put(changed, None).await.unwrap();
    let news = applied(&mut events).await.application;
    assert_eq!((news.spec.project.as_str(), news.operation), ("shop", None));
}

/// What others write into the status, or take away of what is asked, is told, and put back when it is kept again; what was kept
/// here is not told.
#[tokio::test(start_paused = true)]
async fn what_others_write_over_what_is_known_is_told() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    let mut asked = OperationRequest::default();
    let id: OperationId = "0193b6a7-5f80-7000-8000-000000000001".parse().unwrap();
    asked.set_remark(requests::ID_REMARK, id.to_string());
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    application.operation = Some(asked);
    let now = Timestamp::from_millis(1_700_000_000_000);
    requests::wait(&mut application, "for a gate".to_owned(), now);
    let mut overwritten = async |change: &(dyn Fn(&mut Object) + Sync)| {
        store.keep(&application).await.unwrap();
        let kept = live(cluster.as_ref()).await;
        let mut changed = kept.clone();
        change(&mut changed);
        let request = ApplyRequest::new(changed, WriteMode::Replace { recreate: false });
        cluster.apply(request).await.unwrap();
        let StoreEvent::Overwritten { key, ended } = events.recv().await.unwrap() else {
            panic!("nothing is told")
        };
        let by = store.writer_of_phase(&key).await;
        store.keep(&application).await.unwrap();
        let now = live(cluster.as_ref()).await;
        assert_eq!(
            (now.pointer("/status"), now.pointer("/operation")),
            (kept.pointer("/status"), kept.pointer("/operation"))
        );
        (ended, by)
    };
    let none = overwritten(&|object| drop(object.section_mut("status").remove("sync"))).await;
    assert_eq!(none, (None, None), "the phase is ours");
    assert_eq!(overwritten(&|object| drop(object.fields_mut().remove("operation"))).await, (None, None));
    let ended = overwritten(&|object| {
        let state = object.section_mut("status").get_mut("operationState").unwrap();
        state["phase"] = "Terminating".into();
    })
    .await;
    assert_eq!(ended, (Some(Ended { operation: Some(id) }), Some("tidegate".to_owned())));
}

/// Nobody is asked for that: the watch has it.
#[tokio::test(start_paused = true)]
async fn who_confirms_by_the_annotation_is_known_as_far_as_the_cluster_says_it() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let key = AppKey::of(&applied(&mut events).await.application);
    assert_eq!(told(&mut events).await, "settled");
    assert_eq!(store.writer_of_approval(&key), None);
    let mut write = async |said: Option<&str>| {
        let mut object = live(cluster.as_ref()).await;
        match said {
            Some(said) => object.set_annotation(DELETION_APPROVED, said),
            None => object.remove_annotation(DELETION_APPROVED),
        }
        let request = ApplyRequest::new(object, WriteMode::Replace { recreate: false });
        cluster.apply(request).await.unwrap();
        let told = applied(&mut events).await.application;
        assert_eq!(told.annotation(DELETION_APPROVED), said);
        store.writer_of_approval(&key)
    };
    assert_eq!(write(Some("2026-11-21T09:30:00Z")).await.as_deref(), Some("tidegate"));
    assert_eq!(write(None).await, None);
    assert_eq!(write(Some("2026-11-21T09:30:01Z")).await.as_deref(), Some("tidegate"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_others_were_faster_than_loses_nothing_of_theirs() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    // Written before the store has heard of what others did: nobody has asked for news since.
    let mut theirs = live(cluster.as_ref()).await;
    theirs.section_mut("spec").insert("project".to_owned(), json!("shop"));
    theirs.fields_mut().insert("operation".to_owned(), json!({"sync": {"prune": true}}));
    cluster.put(theirs, None).await.unwrap();
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    store.keep(&application).await.unwrap();
    let now = live(cluster.as_ref()).await;
    assert_eq!((now.text("/spec/project"), now.text("/status/sync/status")), ("shop", "Synced"));
    assert_eq!(now.pointer("/operation/sync/prune"), Some(&json!(true)));
    let news = applied(&mut events).await.application;
    assert_eq!(news.spec.project, "shop");
    assert!(news.operation.unwrap().sync.unwrap().prune);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_somebody_asks_for_is_told_once() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    let mut asked = live(cluster.as_ref()).await;
    asked.fields_mut().insert("operation".to_owned(), json!({"sync": {"revision": "main"}}));
    cluster.put(asked, None).await.unwrap();
    application = Application { operation: applied(&mut events).await.application.operation, ..application };
    assert_eq!(application.operation.as_ref().unwrap().sync.as_ref().unwrap().revision, "main");
    // It gets its id, and is over.
    application.operation.as_mut().unwrap().set_remark("id", "1");
    store.keep(&application).await.unwrap();
    application.operation = None;
    store.keep(&application).await.unwrap();
    let mut changed = live(cluster.as_ref()).await;
    changed.section_mut("spec").insert("project".to_owned(), json!("shop"));
    cluster.put(changed, None).await.unwrap();
    let news = applied(&mut events).await.application;
    assert_eq!((news.spec.project.as_str(), news.operation), ("shop", None));
}

/// Or whoever may write an operation could delete an application with it, or take over that of another.
#[tokio::test(start_paused = true)]
async fn nobody_else_says_which_operation_it_is_or_that_it_deletes() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    let remark = |name: &str, value: &str| json!({"name": name, "value": value});
    let info = json!([
        remark(tidegate_application::operation::ID_REMARK, "0190163d8694739b9bd4d7e4a9b7d3c1"),
        remark("tidegate.dev/deletion", "foreground"),
        remark("tidegate.dev/deletion-asked-at", "2026-01-01T00:00:00Z"),
        remark("reason", "a release"),
    ]);
    let mut asked = live(cluster.as_ref()).await;
    asked.fields_mut().insert("operation".to_owned(), json!({"sync": {}, "info": info}));
    cluster.put(asked, None).await.unwrap();
    let asked = applied(&mut events).await.application.operation.unwrap();
    let names: Vec<&str> = asked.info.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["reason"]);
    // What is written for it then is ours, also where the watch is faster than the answer.
    let mut ours = Application { operation: Some(asked), ..application };
    let prepared = ours.operation.as_mut().unwrap();
    prepared.set_remark(tidegate_application::operation::ID_REMARK, "0190163d8694739b9bd4d7e4a9b7d3c2");
    let key = AppKey::of(&ours);
    let written = lock(&store.all).merged(&key, &ours).unwrap();
    let written = cluster.put(written, None).await.unwrap();
    assert_eq!(lock(&store.all).applied(written), []);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_was_asked_for_is_struck_out_once_it_is_answered() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut before = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    let mut asks = live(cluster.as_ref()).await;
    asks.set_annotation(REFRESH_ANNOTATION, "hard");
    cluster.put(asks, None).await.unwrap();
    let mut application = applied(&mut events).await.application;
    assert_eq!(application.annotation(REFRESH_ANNOTATION), Some("hard"));
    // It was told, and whoever is to be told has not taken it in yet.
    before.status.sync.get_or_insert_default().status = SyncStatusCode::OutOfSync;
    store.keep(&before).await.unwrap();
    assert_eq!(live(cluster.as_ref()).await.annotation(REFRESH_ANNOTATION), Some("hard"), "not taken in yet");
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    store.keep(&application).await.unwrap();
    assert_eq!(live(cluster.as_ref()).await.annotation(REFRESH_ANNOTATION), Some("hard"), "not answered yet");
    application.metadata.annotations.remove(REFRESH_ANNOTATION);
    store.keep(&application).await.unwrap();
    assert_eq!(live(cluster.as_ref()).await.annotation(REFRESH_ANNOTATION), None);
    // That it is gone is no news.
    let mut asks = live(cluster.as_ref()).await;
    asks.set_annotation(REFRESH_ANNOTATION, "normal");
    cluster.put(asks, None).await.unwrap();
    assert_eq!(applied(&mut events).await.application.annotation(REFRESH_ANNOTATION), Some("normal"));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_made_again_is_another_one() {
    let cluster = cluster().await;
    let object = apply(cluster.as_ref(), web("argocd")).await;
    let (_store, mut events) = open(&cluster, of(&["argocd"])).await;
    assert_eq!((told(&mut events).await.as_str(), told(&mut events).await.as_str()), ("web", "settled"));
    cluster.delete(DeleteRequest::of(&object)).await.unwrap();
    apply(cluster.as_ref(), web("argocd")).await;
    assert_eq!((told(&mut events).await.as_str(), told(&mut events).await.as_str()), ("gone web", "web"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_a_problem_of_that_one() {
    let cluster = cluster().await;
    let mut broken = web("argocd");
    broken["spec"]["source"]["repoURL"] = json!(7);
    apply(cluster.as_ref(), broken).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let Stored { mut application, problem, .. } = applied(&mut events).await;
    assert!(problem.unwrap().contains("string"));
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Unknown;
    store.keep(&application).await.unwrap();
    let now = live(cluster.as_ref()).await;
    assert_eq!((now.integer("/spec/source/repoURL"), now.text("/status/sync/status")), (Some(7), "Unknown"));
}

/// What another program has written into a status, or an older one, costs nothing but itself.
#[tokio::test(start_paused = true)]
async fn only_what_cannot_be_read_of_a_status_is_found_out_anew() {
    let deployed = |id: u64| {
        json!({
            "id": id, "revision": "a", "deployedAt": "2026-01-02T03:04:05Z",
            "source": {"repoURL": "./repo", "path": "a"},
        })
    };
    let mut broken = web("argocd");
    broken["status"] = json!({
        "sync": {"status": "Tangled", "revision": "a"},
        "health": {"status": 7},
        "operationState": {"phase": "Pondering", "startedAt": "2026-01-02T03:04:05Z", "operation": {}},
        "history": [deployed(3), {"id": "four"}, deployed(5), 6],
        "resources": "many",
        "reconciledAt": "2026-01-02T03:04:05Z",
        "somethingNew": {"a": 1},
    });
    let cluster = cluster().await;
    apply(cluster.as_ref(), broken).await;
    let (_store, mut events) = open(&cluster, of(&["argocd"])).await;
    let Stored { application, problem, .. } = applied(&mut events).await;
    assert_eq!(problem, None);
    let status = &application.status;
    assert_eq!(status.history.iter().map(|one| one.id).collect::<Vec<_>>(), [3, 5]);
    assert!(status.reconciled_at.is_some() && status.rest.contains_key("somethingNew"));
    assert!(status.sync.is_none() && status.health.is_none() && status.operation_state.is_none());
    assert!(status.resources.is_empty());
}

#[tokio::test]
async fn a_cluster_without_the_definitions_is_refused_with_what_to_do() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty());
    let opened = KubernetesStore::open(cluster, Destination::Simulated, Reach::default()).await;
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("serves no Applications") && error.contains("tidegate crds"), "{error}");
}

/// Finalizers that others put there meanwhile, or that are theirs, stay.
#[tokio::test(start_paused = true)]
async fn an_application_is_deleted_and_let_go() {
    const OWN: &str = "resources-finalizer.argocd.argoproj.io";
    let cluster = cluster().await;
    let mut manifest = web("argocd");
    manifest["metadata"]["finalizers"] = json!(["example.com/a"]);
    apply(cluster.as_ref(), manifest).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut web = applied(&mut events).await.application;
    // Somebody else is faster.
    let mut theirs = live(cluster.as_ref()).await;
    theirs.add_finalizer("example.com/b");
    cluster.put(theirs, None).await.unwrap();
    web.metadata.finalizers.push(OWN.to_owned());
    store.delete(&web).await.unwrap();
    let left = live(cluster.as_ref()).await;
    assert!(left.is_deleting());
    assert_eq!(left.finalizers().collect::<Vec<_>>(), ["example.com/a", "example.com/b", OWN]);
    web.metadata.finalizers.retain(|one| one != OWN);
    store.release(&web).await.unwrap();
    store.release(&web).await.unwrap();
    let left = live(cluster.as_ref()).await;
    assert_eq!(left.finalizers().collect::<Vec<_>>(), ["example.com/a", "example.com/b"]);
    // What others keep is not gone before they let it go.
    for other in ["example.com/a", "example.com/b"] {
        cluster
            .remove_finalizer(&left.key(), &kind::<Applications>(), left.uid(), other, None)
            .await
            .unwrap();
    }
    while told(&mut events).await != "gone web" {}
    store.release(&web).await.unwrap();
    store.delete(&web).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn finalizers_for_hooks_are_written_with_the_status() {
    const HOOK: &str = "pre-delete-finalizer.argocd.argoproj.io";
    let cluster = cluster().await;
    let mut web = web("argocd");
    web["metadata"]["finalizers"] = json!(["example.com/guard"]);
    apply(cluster.as_ref(), web).await;
    let (store, mut events) = open(&cluster, of(&["argocd"])).await;
    let mut application = applied(&mut events).await.application;
    assert_eq!(told(&mut events).await, "settled");
    application.metadata.finalizers.push(HOOK.to_owned());
    store.keep(&application).await.unwrap();
    let found = live(cluster.as_ref()).await;
    assert_eq!(found.pointer("/metadata/finalizers"), Some(&json!(["example.com/guard", HOOK])));
    // Whoever answers for the application keeps them.
    assert_eq!(applied(&mut events).await.application.metadata.finalizers, ["example.com/guard", HOOK]);
    // Others take theirs away, and what is ours stays.
    let mut changed = found;
    changed.metadata_mut().insert("finalizers".to_owned(), json!([HOOK]));
    cluster.put(changed, None).await.unwrap();
    assert_eq!(applied(&mut events).await.application.metadata.finalizers, [HOOK]);
    application.metadata.finalizers.clear();
    store.keep(&application).await.unwrap();
    assert_eq!(live(cluster.as_ref()).await.pointer("/metadata/finalizers"), None);
}
