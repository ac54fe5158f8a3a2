//! Deletion of objects.

use serde_json::json;
use tidegate_cluster::{FinalizerRemoval, Propagation};

use super::stage::Stage;
use super::writes::deployment;

pub async fn propagation(stage: &mut Stage) {
    for (name, propagation) in [
        ("first", Propagation::Foreground),
        ("after", Propagation::Background),
        ("stays", Propagation::Orphan),
    ] {
        stage.apply(&deployment(stage, name, json!({"replicas": 1}))).await;
        stage.wait_for_field("Deployment", name, "/status/readyReplicas", &json!(1)).await;
        stage.delete("Deployment", name, propagation).await;
        stage.wait_until_gone("Deployment", name).await;
    }
    // Garbage collection happens at an unspecified time, so wait for it.
    for name in ["first", "after", "stays"] {
        let left = usize::from(name == "stays");
        stage.wait_for_count("ReplicaSet", name, left).await;
        stage.wait_for_count("Pod", name, left).await;
    }
}

pub async fn preconditions(stage: &mut Stage) {
    stage.apply(&stage.config("a", json!({}))).await;
    let uid = stage.get("ConfigMap", "a").await.unwrap().unwrap().uid().to_owned();
    let other = "11111111-2222-3333-4444-555555555555";
    stage.delete_with("ConfigMap", "a", |request| request.uid = other.to_owned()).await;
    stage.apply(&stage.config("a", json!({"x": "1"}))).await;
    let version = stage.get("ConfigMap", "a").await.unwrap().unwrap().resource_version().to_owned();
    stage.delete_with("ConfigMap", "a", |request| request.resource_version = "1".to_owned()).await;
    let both = |request: &mut tidegate_cluster::DeleteRequest| {
        (request.uid, request.resource_version) = (uid, version);
    };
    stage.delete_with("ConfigMap", "a", both).await;
    stage.delete("ConfigMap", "a", Propagation::Foreground).await;
    stage.delete("Namespace", "default", Propagation::Foreground).await;
}

pub async fn finalizers(stage: &mut Stage) {
    let held = |more: &[&str]| json!({"metadata": {"finalizers": more}});
    stage.apply(&stage.manifest("ConfigMap", "a", held(&["example.com/one", "example.com/two"]))).await;
    let uid = stage.get("ConfigMap", "a").await.unwrap().unwrap().uid().to_owned();
    stage.delete("ConfigMap", "a", Propagation::Background).await;
    stage
        .wait_until("ConfigMap", "a", "is being deleted", |found| {
            found.is_some_and(|found| found.is_deleting())
        })
        .await;
    stage.delete("ConfigMap", "a", Propagation::Background).await;
    stage.release("ConfigMap", "a", "11111111-2222-3333-4444-555555555555", "example.com/one").await;
    stage.release("ConfigMap", "a", &uid, "example.com/none").await;
    stage.release("ConfigMap", "a", &uid, "example.com/one").await;
    stage.note_fields("ConfigMap", "a", &["/metadata/finalizers"]).await;
    stage.apply(&stage.manifest("ConfigMap", "a", held(&["example.com/two", "example.com/new"]))).await;
    stage.release("ConfigMap", "a", &uid, "example.com/two").await;
    stage.wait_until_gone("ConfigMap", "a").await;
    stage.release("ConfigMap", "a", &uid, "example.com/two").await;
    stage.apply(&stage.manifest("ConfigMap", "front", held(&["example.com/one"]))).await;
    stage.delete("ConfigMap", "front", Propagation::Foreground).await;
    let uid = stage.get("ConfigMap", "front").await.unwrap().unwrap().uid().to_owned();
    stage.release("ConfigMap", "front", &uid, "example.com/one").await;
    stage.wait_until_gone("ConfigMap", "front").await;
}

pub async fn namespaces(stage: &mut Stage) {
    let inner = format!("{}-inner", stage.namespace);
    let inside = |stage: &Stage, name: &str, finalizers: &[&str]| {
        stage.manifest("ConfigMap", name, json!({"metadata": {"namespace": inner, "finalizers": finalizers}}))
    };
    stage.apply(&inside(stage, "early", &[])).await;
    stage.apply(&stage.manifest("Namespace", &inner, json!({}))).await;
    stage.note_fields("Namespace", &inner, &["/status/phase", "/spec/finalizers"]).await;
    stage.apply(&inside(stage, "free", &[])).await;
    stage.apply(&inside(stage, "held", &["example.com/hold"])).await;
    let gvk = stage.gvk("ConfigMap");
    let held = stage.cluster.get(&gvk, &inner, "held").await.unwrap().unwrap();
    stage.delete("Namespace", &inner, Propagation::Background).await;
    stage.wait_for_field("Namespace", &inner, "/status/phase", &json!("Terminating")).await;
    stage.apply(&inside(stage, "late", &[])).await;
    let cluster = stage.cluster.clone();
    let waiting = async {
        while !cluster.get(&gvk, &inner, "held").await.unwrap().is_some_and(|held| held.is_deleting()) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), waiting)
        .await
        .expect("it is deleted with the namespace");
    cluster.remove_finalizer(FinalizerRemoval::for_object(&held, "example.com/hold")).await.unwrap();
    stage.wait_until_gone("Namespace", &inner).await;
}
