//! Sets that are resources of a cluster.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_application::refresh;
use tidegate_applicationset::wake::REFRESH_ANNOTATION;
use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, definitions};

use super::super::{SetEvent, Written};
use super::bench::{Backing, apply, cluster, fleet, kind, web};
use crate::applications::store::{MANAGED_LABEL, Reach};

#[tokio::test(start_paused = true)]
async fn beside_another_what_is_generated_is_labelled_so_that_it_is_served() {
    let backing = Backing::Cluster(Arc::new(cluster(true).await));
    let mut labelled = fleet();
    labelled["metadata"]["labels"] = json!({MANAGED_LABEL: "true"});
    backing.write(labelled).await;
    let mut other = fleet();
    other["metadata"]["name"] = json!("theirs");
    backing.write(other).await;
    let reach = Reach { only_labelled: true, ..Reach::default() };
    let mut open = backing.open_with(reach).await;
    assert_eq!(open.set().await.set.metadata.name, "fleet");
    assert_eq!(open.events.recv().await.unwrap(), SetEvent::Settled);
    assert_eq!(open.sets.own_labels(), [MANAGED_LABEL]);
    open.sets.create(&web("dev")).await.unwrap();
    let mut made = open.application().await;
    // What is generated does not name the label; it stays all the same.
    made.metadata.labels.remove(MANAGED_LABEL);
    made.spec.project = "shop".into();
    assert_eq!(open.sets.update(&made).await.unwrap(), Written::Done);
    let now = open.application().await;
    assert_eq!((now.spec.project.as_str(), now.metadata.labels[MANAGED_LABEL].as_str()), ("shop", "true"));
}

#[tokio::test(start_paused = true)]
async fn what_others_write_into_an_application_meanwhile_is_not_lost() {
    let backing = Backing::Cluster(Arc::new(cluster(true).await));
    let Backing::Cluster(cluster) = &backing else { return };
    let mut open = backing.open().await;
    open.sets.create(&web("dev")).await.unwrap();
    let told = open.application().await;
    let mut theirs = backing.live("Application", "dev").await;
    theirs.set_annotation("notified.notifications.argoproj.io", "once");
    cluster.put(theirs, None).await.unwrap();
    // Before the store has heard of that.
    let mut wanted = told;
    wanted.spec.project = "shop".into();
    let written = open.sets.update(&wanted).await.unwrap();
    assert!(matches!(written, Written::Outdated(_)), "{written:?}");
    let now = open.application().await;
    assert_eq!(now.annotation("notified.notifications.argoproj.io"), Some("once"));
    assert_eq!(now.spec.project, "default");
    // A request for a refresh is nothing that a set writes or takes away.
    let mut theirs = backing.live("Application", "dev").await;
    theirs.set_annotation(refresh::REFRESH_ANNOTATION, "hard");
    cluster.put(theirs, None).await.unwrap();
    let asked = open.application().await;
    let mut wanted = Application { spec: wanted.spec, ..asked };
    wanted.metadata.annotations.remove(refresh::REFRESH_ANNOTATION);
    assert_eq!(open.sets.update(&wanted).await.unwrap(), Written::Done);
    let live = backing.live("Application", "dev").await;
    assert_eq!(live.annotation(refresh::REFRESH_ANNOTATION), Some("hard"));
}

#[tokio::test(start_paused = true)]
async fn a_refresh_of_a_set_that_was_answered_is_struck_out_and_is_no_news() {
    let backing = Backing::Cluster(Arc::new(cluster(true).await));
    let mut asking = fleet();
    asking["metadata"]["annotations"] = json!({REFRESH_ANNOTATION: "true"});
    backing.write(asking.clone()).await;
    let mut open = backing.open().await;
    let mut set = open.set().await.set;
    assert!(set.metadata.annotations.contains_key(REFRESH_ANNOTATION));
    open.sets.keep(&set).await.unwrap();
    set.metadata.annotations.remove(REFRESH_ANNOTATION);
    open.sets.mark(&set).await.unwrap();
    assert_eq!(backing.live("ApplicationSet", "fleet").await.annotation(REFRESH_ANNOTATION), None);
    backing.write(asking).await;
    assert!(open.set().await.set.metadata.annotations.contains_key(REFRESH_ANNOTATION), "asked again");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_serves_no_sets_has_none_until_it_does() {
    let clock = Clock::tokio(Timestamp::from_millis(1_700_000_000_000));
    let few: Arc<dyn Cluster> = Arc::new(SimCluster::in_memory(SimConfig::default(), clock));
    let of_sets = |definition: &Value| definition["spec"]["names"]["kind"] == "ApplicationSet";
    for definition in definitions().into_iter().filter(|one| !of_sets(one)) {
        apply(few.as_ref(), definition).await;
    }
    while few.discover().await.unwrap().get(&kind("Application").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let backing = Backing::Cluster(Arc::clone(&few));
    let mut open = backing.open().await;
    assert_eq!(open.events.recv().await.unwrap(), SetEvent::Settled);
    for definition in definitions().into_iter().filter(of_sets) {
        apply(few.as_ref(), definition).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    apply(few.as_ref(), namespace).await;
    while few.discover().await.unwrap().get(&kind("ApplicationSet").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    backing.write(fleet()).await;
    assert_eq!(open.set().await.set.metadata.name, "fleet");
}

/// As a server may give it back, or another program have written it.
#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_read_costs_nothing_else() {
    for (status, messages) in [
        (json!({"conditions": [{"type": "ErrorOccurred", "status": "False", "message": null}]}), vec![""]),
        (json!({"conditions": "none"}), vec![]),
        (
            json!({"conditions": [{"type": "StatusShortenedWarning", "message": "it is longer"}, {"message": "kept"}]}),
            vec!["kept"],
        ),
    ] {
        let mut set = fleet();
        set["status"] = status.clone();
        let backing = Backing::Cluster(Arc::new(cluster(false).await));
        backing.write(set).await;
        let stored = backing.open().await.set().await;
        let found = stored.set.status.conditions.iter().map(|one| one.message.as_str()).collect::<Vec<_>>();
        assert_eq!((stored.problem, found), (None, messages), "{status}");
    }
}
