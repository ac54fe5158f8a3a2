//! ApplicationSets as resources in a cluster.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_application::refresh;
use tidegate_applicationset::triggers::REFRESH_ANNOTATION;
use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, all_crds};
use tidegate_testkit::argo_cluster::{apply, argo_gvk, cluster_with_definitions};

use super::super::{AppSetEvent, WriteResult};
use super::fixture::{StoreBackend, sample_application, sample_appset};
use crate::applications::{MANAGED_LABEL, ManagedScope};

#[tokio::test(start_paused = true)]
async fn generated_applications_get_the_label_by_which_they_are_managed() {
    let backing = StoreBackend::Cluster(Arc::new(cluster_with_definitions(true).await));
    let mut labelled = sample_appset();
    labelled["metadata"]["labels"] = json!({MANAGED_LABEL: "true"});
    backing.write_appset(labelled).await;
    let mut other = sample_appset();
    other["metadata"]["name"] = json!("theirs");
    backing.write_appset(other).await;
    let reach = ManagedScope { is_label_required: true, ..ManagedScope::default() };
    let mut open = backing.open_with_scope(reach).await;
    assert_eq!(open.next_appset().await.appset.metadata.name, "fleet");
    assert_eq!(open.events.recv().await.unwrap(), AppSetEvent::Settled);
    assert_eq!(open.sets.own_labels(), [MANAGED_LABEL]);
    open.sets.create(&sample_application("dev")).await.unwrap();
    let mut created = open.next_application().await;
    // An update keeps the label even if the generated Application doesn't have it.
    created.metadata.labels.remove(MANAGED_LABEL);
    created.spec.project = "shop".into();
    assert_eq!(open.sets.update(&created).await.unwrap(), WriteResult::Done);
    let now = open.next_application().await;
    assert_eq!((now.spec.project.as_str(), now.metadata.labels[MANAGED_LABEL].as_str()), ("shop", "true"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_changes_of_others_to_an_application_are_preserved() {
    let backing = StoreBackend::Cluster(Arc::new(cluster_with_definitions(true).await));
    let StoreBackend::Cluster(cluster) = &backing else { return };
    let mut open = backing.open().await;
    open.sets.create(&sample_application("dev")).await.unwrap();
    let application = open.next_application().await;
    let mut theirs = backing.live_object("Application", "dev").await;
    theirs.set_annotation("notified.notifications.argoproj.io", "once");
    cluster.put(theirs, None).await.unwrap();
    // This update is based on a state from before the other client's change.
    let mut desired = application;
    desired.spec.project = "shop".into();
    let written = open.sets.update(&desired).await.unwrap();
    assert!(matches!(written, WriteResult::Outdated(_)), "{written:?}");
    let now = open.next_application().await;
    assert_eq!(now.annotation("notified.notifications.argoproj.io"), Some("once"));
    assert_eq!(now.spec.project, "default");
    // The ApplicationSet controller neither writes nor removes refresh requests.
    let mut theirs = backing.live_object("Application", "dev").await;
    theirs.set_annotation(refresh::REFRESH_ANNOTATION, "hard");
    cluster.put(theirs, None).await.unwrap();
    let refreshed = open.next_application().await;
    let mut desired = Application { spec: desired.spec, ..refreshed };
    desired.metadata.annotations.remove(refresh::REFRESH_ANNOTATION);
    assert_eq!(open.sets.update(&desired).await.unwrap(), WriteResult::Done);
    let live = backing.live_object("Application", "dev").await;
    assert_eq!(live.annotation(refresh::REFRESH_ANNOTATION), Some("hard"));
}

#[tokio::test(start_paused = true)]
async fn a_handled_refresh_annotation_is_removed_without_an_event() {
    let backing = StoreBackend::Cluster(Arc::new(cluster_with_definitions(true).await));
    let mut asking = sample_appset();
    asking["metadata"]["annotations"] = json!({REFRESH_ANNOTATION: "true"});
    backing.write_appset(asking.clone()).await;
    let mut open = backing.open().await;
    let mut set = open.next_appset().await.appset;
    assert!(set.metadata.annotations.contains_key(REFRESH_ANNOTATION));
    open.sets.write_status(&set).await.unwrap();
    set.metadata.annotations.remove(REFRESH_ANNOTATION);
    open.sets.write_finalizer(&set).await.unwrap();
    assert_eq!(backing.live_object("ApplicationSet", "fleet").await.annotation(REFRESH_ANNOTATION), None);
    backing.write_appset(asking).await;
    assert!(
        open.next_appset().await.appset.metadata.annotations.contains_key(REFRESH_ANNOTATION),
        "requested again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_definition_has_no_appsets_until_it_has_it() {
    let clock = Clock::tokio(Timestamp::from_millis(1_700_000_000_000));
    let few: Arc<dyn Cluster> = Arc::new(SimCluster::in_memory(SimConfig::default(), clock));
    let of_sets = |definition: &Value| definition["spec"]["names"]["kind"] == "ApplicationSet";
    for definition in all_crds().into_iter().filter(|one| !of_sets(one)) {
        apply(few.as_ref(), definition).await;
    }
    while few.discover().await.unwrap().get(&argo_gvk("Application").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let backing = StoreBackend::Cluster(Arc::clone(&few));
    let mut open = backing.open().await;
    assert_eq!(open.events.recv().await.unwrap(), AppSetEvent::Settled);
    for definition in all_crds().into_iter().filter(of_sets) {
        apply(few.as_ref(), definition).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    apply(few.as_ref(), namespace).await;
    while few.discover().await.unwrap().get(&argo_gvk("ApplicationSet").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    backing.write_appset(sample_appset()).await;
    assert_eq!(open.next_appset().await.appset.metadata.name, "fleet");
}

/// A server may return an unreadable status, or another program may have written it.
#[tokio::test(start_paused = true)]
async fn an_unreadable_status_has_no_other_effect() {
    for (status, messages) in [
        (json!({"conditions": [{"type": "ErrorOccurred", "status": "False", "message": null}]}), vec![""]),
        (json!({"conditions": "none"}), vec![]),
        (
            json!({"conditions": [{"type": "StatusShortenedWarning", "message": "it is longer"}, {"message": "kept"}]}),
            vec!["kept"],
        ),
    ] {
        let mut set = sample_appset();
        set["status"] = status.clone();
        let backing = StoreBackend::Cluster(Arc::new(cluster_with_definitions(false).await));
        backing.write_appset(set).await;
        let stored = backing.open().await.next_appset().await;
        let found =
            stored.appset.status.conditions.iter().map(|one| one.message.as_str()).collect::<Vec<_>>();
        assert_eq!((stored.problem, found), (None, messages), "{status}");
    }
}
