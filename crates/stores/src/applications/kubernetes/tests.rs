use serde_json::{Value, json};
use tidegate_application::operation as requests;
use tidegate_application::refresh::REFRESH_ANNOTATION;
use tidegate_cluster::{ApplyRequest, DeleteRequest, WriteMode};
use tidegate_model::annotations::DELETION_APPROVED;
use tidegate_model::argo::{OperationRequest, SyncStatusCode};
use tidegate_model::{Object, OperationId, Timestamp};
use tidegate_oplog::Shard;
use tidegate_state::simulated;
use tidegate_testkit::argo_cluster::{apply, cluster};

use super::*;
use crate::applications::{ExternalTermination, StoredApplication};

fn web(namespace: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Application",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    })
}

async fn open_store(
    cluster: &Arc<dyn Cluster>,
    reach: ManagedScope,
) -> (KubernetesStore, UnboundedReceiver<StoreEvent>) {
    let store = KubernetesStore::open(Arc::clone(cluster), Destination::Simulated, reach).await.unwrap();
    let events = store.watch();
    (store, events)
}

fn scope_of(namespaces: &[&str]) -> ManagedScope {
    let namespaces = namespaces.iter().copied().map(str::to_owned).collect();
    ManagedScope { namespaces, ..ManagedScope::default() }
}

/// Returns the next event for an Application.
async fn next_event(events: &mut UnboundedReceiver<StoreEvent>) -> StoreEvent {
    loop {
        match events.recv().await.unwrap() {
            StoreEvent::Projects(_) | StoreEvent::Overwritten { .. } => {}
            event => return event,
        }
    }
}

async fn next_event_text(events: &mut UnboundedReceiver<StoreEvent>) -> String {
    match next_event(events).await {
        StoreEvent::Applied(stored) => {
            let suffix = if stored.application.operation.is_some() { " with an operation" } else { "" };
            format!("{}{suffix}", AppKey::of(&stored.application))
        }
        StoreEvent::Overwritten { key, termination } => format!("overwritten {key} {termination:?}"),
        StoreEvent::Gone(key) => format!("gone {key}"),
        StoreEvent::Projects(_) => "projects".to_owned(),
        StoreEvent::Problems(problems) => format!("{problems:?}"),
        StoreEvent::Settled => "settled".to_owned(),
        StoreEvent::ReadDone(number) => format!("looked {number}"),
        StoreEvent::OtherReplica(application) => format!("other {}", AppKey::of(&application)),
        StoreEvent::OwnedShards(_) => "shards".to_owned(),
    }
}

async fn next_applied(events: &mut UnboundedReceiver<StoreEvent>) -> StoredApplication {
    match next_event(events).await {
        StoreEvent::Applied(stored) => *stored,
        other => panic!("{other:?}"),
    }
}

async fn live_object(cluster: &dyn Cluster) -> Object {
    cluster.get(&managed_kind::<ApplicationKind>(), "argocd", "web").await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_applications_in_managed_namespaces_are_emitted() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    apply(cluster.as_ref(), web("team")).await;
    for (namespaces, expected) in [
        (&["argocd"][..], &["web", "settled"][..]),
        (&["team"], &["team/web", "settled"]),
        (&[], &["web", "team/web", "settled"]),
    ] {
        let (_store, mut events) = open_store(&cluster, scope_of(namespaces)).await;
        for expected in expected {
            assert_eq!(next_event_text(&mut events).await, *expected, "{namespaces:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn beside_another_controller_only_labeled_applications_are_managed() {
    let cluster = cluster().await;
    let object = apply(cluster.as_ref(), web("argocd")).await;
    let (_store, mut events) =
        open_store(&cluster, ManagedScope { is_label_required: true, ..ManagedScope::default() }).await;
    assert_eq!(next_event_text(&mut events).await, "settled");
    for (value, expected) in [("true", "web"), ("false", "gone web")] {
        let mut labelled = live_object(cluster.as_ref()).await;
        labelled.set_label(MANAGED_LABEL, value);
        cluster.put(labelled, None).await.unwrap();
        assert_eq!(next_event_text(&mut events).await, expected);
    }
    cluster.delete(DeleteRequest::for_object(&object)).await.unwrap();
    assert!(events.try_recv().is_err(), "an unmanaged Application causes no event");
}

/// Creates an Application with this name.
async fn create(cluster: &Arc<dyn Cluster>, name: &str) -> Object {
    let mut application = web("argocd");
    application["metadata"]["name"] = json!(name);
    apply(cluster.as_ref(), application).await
}

fn shards_of(names: &[&str]) -> OwnedShards {
    OwnedShards::Only(names.iter().map(Shard::of_key).collect())
}

/// Resources of other replicas are reported with their status, and each move of a shard is reported once.
#[tokio::test(start_paused = true)]
async fn applications_of_other_replicas_are_only_reported() {
    let cluster = cluster().await;
    create(&cluster, "a").await;
    let object = create(&cluster, "b").await;
    let (first, mut events) = open_store(&cluster, ManagedScope::default()).await;
    for expected in ["a", "b", "settled"] {
        assert_eq!(next_event_text(&mut events).await, expected);
    }
    first.set_owned_shards(shards_of(&["a"]));
    for expected in ["other b", "shards"] {
        assert_eq!(next_event_text(&mut events).await, expected);
    }
    // The replica that manages "b" writes its status.
    let (second, mut others) = open_store(&cluster, ManagedScope::default()).await;
    second.set_owned_shards(shards_of(&["b"]));
    let mut application = loop {
        match next_event(&mut others).await {
            StoreEvent::Applied(stored) if stored.application.metadata.name == "b" => {
                break stored.application;
            }
            _ => {}
        }
    };
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    second.persist(&application).await.unwrap();
    let StoreEvent::OtherReplica(shown) = next_event(&mut events).await else { panic!("not reported") };
    assert_eq!(shown.status.sync.map(|sync| sync.status), Some(SyncStatusCode::Synced));
    // A replica writes no state of Applications that it doesn't manage.
    application.status.sync.get_or_insert_default().status = SyncStatusCode::OutOfSync;
    first.persist(&application).await.unwrap();
    let stored = cluster.get(&managed_kind::<ApplicationKind>(), "argocd", "b").await.unwrap().unwrap();
    assert_eq!(stored.text("/status/sync/status"), "Synced");
    first.set_owned_shards(shards_of(&["b"]));
    for expected in ["other a", "shards"] {
        assert_eq!(next_event_text(&mut events).await, expected);
    }
    let gained = next_applied(&mut events).await.application;
    assert_eq!(gained.status.sync.map(|sync| sync.status), Some(SyncStatusCode::Synced));
    // Neither replica manages "a" now, but both report its deletion.
    let other = cluster.get(&managed_kind::<ApplicationKind>(), "argocd", "a").await.unwrap().unwrap();
    for object in [other, object] {
        cluster.delete(DeleteRequest::for_object(&object)).await.unwrap();
    }
    assert_eq!(next_event_text(&mut events).await, "gone a");
    assert_eq!(next_event_text(&mut events).await, "gone b");
    assert!(events.try_recv().is_err());
}

/// If the label is removed, the Application is released once its running operation has finished and the
/// result is written.
#[tokio::test(start_paused = true)]
async fn a_running_operation_is_managed_to_its_end_without_the_label() {
    let cluster = cluster().await;
    let mut labelled = web("argocd");
    labelled["metadata"]["labels"] = json!({MANAGED_LABEL: "true"});
    apply(cluster.as_ref(), labelled).await;
    let (store, mut events) =
        open_store(&cluster, ManagedScope { is_label_required: true, ..ManagedScope::default() }).await;
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    let id = "00000000-0000-7000-8000-000000000001".parse().unwrap();
    tidegate_application::rollout_operation::assign_operation(
        &mut application,
        id,
        OperationRequest::default(),
    );
    store.persist(&application).await.unwrap();
    let mut bare = live_object(cluster.as_ref()).await;
    bare.set_label(MANAGED_LABEL, "false");
    cluster.put(bare, None).await.unwrap();
    let ending = next_applied(&mut events).await.application;
    assert!(tidegate_application::refresh::is_skipped(&ending), "no new operation is started");
    application.operation = None;
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    store.persist(&application).await.unwrap();
    assert_eq!(next_event_text(&mut events).await, "gone web");
    let end = live_object(cluster.as_ref()).await;
    assert_eq!(end.text("/status/sync/status"), "Synced");
    assert!(
        end.pointer("/operation").is_none() && end.annotation("argocd.argoproj.io/skip-reconcile").is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn own_writes_into_the_status_emit_no_event() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    application.status.sync.get_or_insert_default().status = SyncStatusCode::OutOfSync;
    application.operation = Some(OperationRequest::default());
    store.persist(&application).await.unwrap();
    let before = live_object(cluster.as_ref()).await;
    assert_eq!(before.text("/status/sync/status"), "OutOfSync");
    assert_eq!(before.text("/spec/source/repoURL"), "./repo");
    assert!(before.pointer("/operation").is_some());
    // Unchanged state is not written again.
    store.persist(&application).await.unwrap();
    assert_eq!(live_object(cluster.as_ref()).await, before);
    application.operation = None;
    store.persist(&application).await.unwrap();
    assert!(live_object(cluster.as_ref()).await.pointer("/operation").is_none());
    // The first event reports the other client's change.
    let mut changed = live_object(cluster.as_ref()).await;
    changed.section_mut("spec").insert("project".to_owned(), json!("shop"));
    cluster.put(changed, None).await.unwrap();
    let news = next_applied(&mut events).await.application;
    assert_eq!((news.spec.project.as_str(), news.operation), ("shop", None));
}

/// An event reports another client's change to the status or removal of the operation, and the next write
/// restores the state. Tidegate's own writes don't cause such events.
#[tokio::test(start_paused = true)]
async fn overwrites_of_the_status_by_other_clients_are_emitted() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    let mut desired = OperationRequest::default();
    let id: OperationId = "0193b6a7-5f80-7000-8000-000000000001".parse().unwrap();
    desired.set_info(requests::ID_INFO, id.to_string());
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    application.operation = Some(desired);
    let now = Timestamp::from_millis(1_700_000_000_000);
    requests::set_waiting(&mut application, "for a gate".to_owned(), now);
    let mut overwritten = async |change: &(dyn Fn(&mut Object) + Sync)| {
        store.persist(&application).await.unwrap();
        let live = live_object(cluster.as_ref()).await;
        let mut changed = live.clone();
        change(&mut changed);
        let request = ApplyRequest::new(changed, WriteMode::Replace { recreate: false });
        cluster.apply(request).await.unwrap();
        let StoreEvent::Overwritten { key, termination } = events.recv().await.unwrap() else {
            panic!("no overwrite was emitted")
        };
        let by = store.writer_of_phase(&key).await;
        store.persist(&application).await.unwrap();
        let now = live_object(cluster.as_ref()).await;
        assert_eq!(
            (now.pointer("/status"), now.pointer("/operation")),
            (live.pointer("/status"), live.pointer("/operation"))
        );
        (termination, by)
    };
    let none = overwritten(&|object| drop(object.section_mut("status").remove("sync"))).await;
    assert_eq!(none, (None, None), "the phase is ours");
    assert_eq!(overwritten(&|object| drop(object.fields_mut().remove("operation"))).await, (None, None));
    let ended = overwritten(&|object| {
        let state = object.section_mut("status").get_mut("operationState").unwrap();
        state["phase"] = "Terminating".into();
    })
    .await;
    assert_eq!(ended, (Some(ExternalTermination { operation: Some(id) }), Some("tidegate".to_owned())));
}

/// The watched object contains the client's name, so the store doesn't need a request.
#[tokio::test(start_paused = true)]
async fn the_confirming_client_is_known_as_far_as_the_cluster_reports_it() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let key = AppKey::of(&next_applied(&mut events).await.application);
    assert_eq!(next_event_text(&mut events).await, "settled");
    assert_eq!(store.writer_of_approval(&key), None);
    let mut write = async |approval: Option<&str>| {
        let mut object = live_object(cluster.as_ref()).await;
        match approval {
            Some(approval) => object.set_annotation(DELETION_APPROVED, approval),
            None => object.remove_annotation(DELETION_APPROVED),
        }
        let request = ApplyRequest::new(object, WriteMode::Replace { recreate: false });
        cluster.apply(request).await.unwrap();
        let application = next_applied(&mut events).await.application;
        assert_eq!(application.annotation(DELETION_APPROVED), approval);
        store.writer_of_approval(&key)
    };
    assert_eq!(write(Some("2026-11-21T09:30:00Z")).await.as_deref(), Some("tidegate"));
    assert_eq!(write(None).await, None);
    assert_eq!(write(Some("2026-11-21T09:30:01Z")).await.as_deref(), Some("tidegate"));
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_write_loses_no_changes_of_other_clients() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    // No event has been read since, so the store doesn't know about the other client's change.
    let mut theirs = live_object(cluster.as_ref()).await;
    theirs.section_mut("spec").insert("project".to_owned(), json!("shop"));
    theirs.fields_mut().insert("operation".to_owned(), json!({"sync": {"prune": true}}));
    cluster.put(theirs, None).await.unwrap();
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    store.persist(&application).await.unwrap();
    let now = live_object(cluster.as_ref()).await;
    assert_eq!((now.text("/spec/project"), now.text("/status/sync/status")), ("shop", "Synced"));
    assert_eq!(now.pointer("/operation/sync/prune"), Some(&json!(true)));
    let news = next_applied(&mut events).await.application;
    assert_eq!(news.spec.project, "shop");
    assert!(news.operation.unwrap().sync.unwrap().prune);
}

#[tokio::test(start_paused = true)]
async fn a_requested_operation_is_emitted_once() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    let mut object = live_object(cluster.as_ref()).await;
    object.fields_mut().insert("operation".to_owned(), json!({"sync": {"revision": "main"}}));
    cluster.put(object, None).await.unwrap();
    application =
        Application { operation: next_applied(&mut events).await.application.operation, ..application };
    assert_eq!(application.operation.as_ref().unwrap().sync.as_ref().unwrap().revision, "main");
    // The operation gets an ID and finishes.
    application.operation.as_mut().unwrap().set_info("id", "1");
    store.persist(&application).await.unwrap();
    application.operation = None;
    store.persist(&application).await.unwrap();
    let mut changed = live_object(cluster.as_ref()).await;
    changed.section_mut("spec").insert("project".to_owned(), json!("shop"));
    cluster.put(changed, None).await.unwrap();
    let news = next_applied(&mut events).await.application;
    assert_eq!((news.spec.project.as_str(), news.operation), ("shop", None));
}

/// A client that may only write operations must not be able to delete an Application or take over another
/// operation.
#[tokio::test(start_paused = true)]
async fn other_clients_can_set_neither_the_operation_id_nor_a_deletion() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    let remark = |name: &str, value: &str| json!({"name": name, "value": value});
    let info = json!([
        remark(tidegate_application::operation::ID_INFO, "0190163d8694739b9bd4d7e4a9b7d3c1"),
        remark("tidegate.dev/deletion", "foreground"),
        remark("tidegate.dev/deletion-asked-at", "2026-01-01T00:00:00Z"),
        remark("reason", "a release"),
    ]);
    let mut object = live_object(cluster.as_ref()).await;
    object.fields_mut().insert("operation".to_owned(), json!({"sync": {}, "info": info}));
    cluster.put(object, None).await.unwrap();
    let operation = next_applied(&mut events).await.application.operation.unwrap();
    let names: Vec<&str> = operation.info.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["reason"]);
    // The operation written to the resource is Tidegate's own, even if the watch reports it before the
    // response arrives.
    let mut ours = Application { operation: Some(operation), ..application };
    let prepared = ours.operation.as_mut().unwrap();
    prepared.set_info(tidegate_application::operation::ID_INFO, "0190163d8694739b9bd4d7e4a9b7d3c2");
    let key = AppKey::of(&ours);
    let written = lock(&store.resources).with_state(&key, &ours).unwrap();
    let written = cluster.put(written, None).await.unwrap();
    assert_eq!(lock(&store.resources).apply_object(written), []);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_request_is_removed_after_the_comparison() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), web("argocd")).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut before = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    let mut asks = live_object(cluster.as_ref()).await;
    asks.set_annotation(REFRESH_ANNOTATION, "hard");
    cluster.put(asks, None).await.unwrap();
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(application.annotation(REFRESH_ANNOTATION), Some("hard"));
    // An event has reported the request, but the actor hasn't processed it yet.
    before.status.sync.get_or_insert_default().status = SyncStatusCode::OutOfSync;
    store.persist(&before).await.unwrap();
    assert_eq!(
        live_object(cluster.as_ref()).await.annotation(REFRESH_ANNOTATION),
        Some("hard"),
        "the actor hasn't processed the request"
    );
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    store.persist(&application).await.unwrap();
    assert_eq!(
        live_object(cluster.as_ref()).await.annotation(REFRESH_ANNOTATION),
        Some("hard"),
        "the request hasn't been answered"
    );
    application.metadata.annotations.remove(REFRESH_ANNOTATION);
    store.persist(&application).await.unwrap();
    assert_eq!(live_object(cluster.as_ref()).await.annotation(REFRESH_ANNOTATION), None);
    // Removing the annotation doesn't cause an event.
    let mut asks = live_object(cluster.as_ref()).await;
    asks.set_annotation(REFRESH_ANNOTATION, "normal");
    cluster.put(asks, None).await.unwrap();
    assert_eq!(next_applied(&mut events).await.application.annotation(REFRESH_ANNOTATION), Some("normal"));
}

#[tokio::test(start_paused = true)]
async fn a_recreated_application_is_another_one() {
    let cluster = cluster().await;
    let object = apply(cluster.as_ref(), web("argocd")).await;
    let (_store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    assert_eq!(
        (next_event_text(&mut events).await.as_str(), next_event_text(&mut events).await.as_str()),
        ("web", "settled")
    );
    cluster.delete(DeleteRequest::for_object(&object)).await.unwrap();
    apply(cluster.as_ref(), web("argocd")).await;
    assert_eq!(
        (next_event_text(&mut events).await.as_str(), next_event_text(&mut events).await.as_str()),
        ("gone web", "web")
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_application_affects_only_itself() {
    let cluster = cluster().await;
    let mut broken = web("argocd");
    broken["spec"]["source"]["repoURL"] = json!(7);
    apply(cluster.as_ref(), broken).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let StoredApplication { mut application, problem, .. } = next_applied(&mut events).await;
    assert!(problem.unwrap().contains("string"));
    application.status.sync.get_or_insert_default().status = SyncStatusCode::Unknown;
    store.persist(&application).await.unwrap();
    let now = live_object(cluster.as_ref()).await;
    assert_eq!((now.integer("/spec/source/repoURL"), now.text("/status/sync/status")), (Some(7), "Unknown"));
}

/// Invalid status fields from another program or an older version of Tidegate don't affect other fields.
#[tokio::test(start_paused = true)]
async fn only_unreadable_fields_of_a_status_are_recomputed() {
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
    let (_store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let StoredApplication { application, problem, .. } = next_applied(&mut events).await;
    assert_eq!(problem, None);
    let status = &application.status;
    assert_eq!(status.history.iter().map(|one| one.id).collect::<Vec<_>>(), [3, 5]);
    assert!(status.reconciled_at.is_some() && status.rest.contains_key("somethingNew"));
    assert!(status.sync.is_none() && status.health.is_none() && status.operation_state.is_none());
    assert!(status.resources.is_empty());
}

#[tokio::test]
async fn a_cluster_without_the_definitions_is_refused_with_instructions() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty_cluster());
    let opened = KubernetesStore::open(cluster, Destination::Simulated, ManagedScope::default()).await;
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("does not serve Applications") && error.contains("tidegate crds"), "{error}");
}

/// Other clients' finalizers are kept, including new ones.
#[tokio::test(start_paused = true)]
async fn an_application_is_deleted_and_released() {
    const OWN_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
    let cluster = cluster().await;
    let mut manifest = web("argocd");
    manifest["metadata"]["finalizers"] = json!(["example.com/a"]);
    apply(cluster.as_ref(), manifest).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut web = next_applied(&mut events).await.application;
    // Another client writes to the resource first.
    let mut theirs = live_object(cluster.as_ref()).await;
    theirs.add_finalizer("example.com/b");
    cluster.put(theirs, None).await.unwrap();
    web.metadata.finalizers.push(OWN_FINALIZER.to_owned());
    store.delete(&web).await.unwrap();
    let left = live_object(cluster.as_ref()).await;
    assert!(left.is_deleting());
    assert_eq!(left.finalizers().collect::<Vec<_>>(), ["example.com/a", "example.com/b", OWN_FINALIZER]);
    web.metadata.finalizers.retain(|one| one != OWN_FINALIZER);
    store.release(&web).await.unwrap();
    store.release(&web).await.unwrap();
    let left = live_object(cluster.as_ref()).await;
    assert_eq!(left.finalizers().collect::<Vec<_>>(), ["example.com/a", "example.com/b"]);
    // The resource remains until other clients have removed their finalizers.
    for other in ["example.com/a", "example.com/b"] {
        cluster.remove_finalizer(FinalizerRemoval::for_object(&left, other)).await.unwrap();
    }
    while next_event_text(&mut events).await != "gone web" {}
    store.release(&web).await.unwrap();
    store.delete(&web).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn finalizers_for_hooks_are_written_with_the_status() {
    const HOOK_FINALIZER: &str = "pre-delete-finalizer.argocd.argoproj.io";
    let cluster = cluster().await;
    let mut web = web("argocd");
    web["metadata"]["finalizers"] = json!(["example.com/guard"]);
    apply(cluster.as_ref(), web).await;
    let (store, mut events) = open_store(&cluster, scope_of(&["argocd"])).await;
    let mut application = next_applied(&mut events).await.application;
    assert_eq!(next_event_text(&mut events).await, "settled");
    application.metadata.finalizers.push(HOOK_FINALIZER.to_owned());
    store.persist(&application).await.unwrap();
    let found = live_object(cluster.as_ref()).await;
    assert_eq!(found.pointer("/metadata/finalizers"), Some(&json!(["example.com/guard", HOOK_FINALIZER])));
    // The event contains the finalizers, so the Application's owner keeps them.
    assert_eq!(
        next_applied(&mut events).await.application.metadata.finalizers,
        ["example.com/guard", HOOK_FINALIZER]
    );
    // Other clients remove their finalizers. Tidegate's own are kept.
    let mut changed = found;
    changed.metadata_mut().insert("finalizers".to_owned(), json!([HOOK_FINALIZER]));
    cluster.put(changed, None).await.unwrap();
    assert_eq!(next_applied(&mut events).await.application.metadata.finalizers, [HOOK_FINALIZER]);
    application.metadata.finalizers.clear();
    store.persist(&application).await.unwrap();
    assert_eq!(live_object(cluster.as_ref()).await.pointer("/metadata/finalizers"), None);
}
