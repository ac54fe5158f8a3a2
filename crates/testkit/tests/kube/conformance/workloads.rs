//! Deployments, Jobs and other workloads.

use serde_json::{Value, json};
use tidegate_cluster::{ApplyRequest, Propagation};
use tidegate_model::Object;

use super::stage::{SSA, Stage};
use super::writes::deployment;

fn job(stage: &Stage, name: &str, annotations: Value, more: Value) -> Object {
    let containers = json!([{"name": "main", "image": "busybox"}]);
    let mut spec = json!({"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage.manifest("Job", name, json!({"metadata": {"annotations": annotations}, "spec": spec}))
}

pub async fn pods_of_workloads(stage: &mut Stage) {
    stage.apply(&deployment(stage, "web", json!({"replicas": 2}))).await;
    stage.wait_for_field("Deployment", "web", "/status/readyReplicas", &json!(2)).await;
    stage.apply(&job(stage, "once", json!({}), json!({}))).await;
    stage.wait_for_field("Job", "once", "/status/succeeded", &json!(1)).await;
    stage.apply(&stage.config("none", json!({}))).await;
    for (kind, name) in [("Deployment", "web"), ("Job", "once"), ("ConfigMap", "none")] {
        let owner = stage.get(kind, name).await.unwrap().unwrap();
        let pods = stage.cluster.pods(&owner).await.unwrap();
        let phases: Vec<&str> = pods.iter().map(|pod| pod.text("/status/phase")).collect();
        stage.note(format!("pods of {kind} {name}: {phases:?}"));
    }
}

pub async fn events_of_objects(stage: &mut Stage) {
    for name in ["one", "other"] {
        stage.apply(&stage.config(name, json!({}))).await;
    }
    let one = stage.get("ConfigMap", "one").await.unwrap().unwrap();
    for reason in ["First", "Second"] {
        let involved =
            json!({"kind": "ConfigMap", "name": "one", "namespace": one.namespace(), "uid": one.uid()});
        let fields =
            json!({"involvedObject": involved, "type": "Warning", "reason": reason, "message": "told"});
        let event = stage.manifest("Event", &format!("one.{}", reason.to_lowercase()), fields);
        // Bypass the stage, which would record the UID.
        stage.cluster.apply(ApplyRequest::new(event, SSA)).await.unwrap();
    }
    for name in ["one", "other"] {
        let object = stage.get("ConfigMap", name).await.unwrap().unwrap();
        let events = stage.cluster.events(&object).await.unwrap();
        let mut reasons: Vec<&str> = events.iter().map(|event| event.text("/reason")).collect();
        reasons.sort_unstable();
        stage.note(format!("events about {name}: {reasons:?}"));
    }
}

pub async fn jobs(stage: &mut Stage) {
    let ends = |object: Option<&Object>| {
        let conditions = object.and_then(|object| object.pointer("/status/conditions")?.as_array());
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True")
        })
    };
    let fails = json!({"sim.tidegate.dev/outcome": "fail"});
    let once = json!({"sim.tidegate.dev/fail-times": "1"});
    for (name, annotations) in [("good", json!({})), ("bad", fails), ("second", once.clone())] {
        stage.apply(&job(stage, name, annotations, json!({}))).await;
        stage.wait_until("Job", name, "has ended", ends).await;
        stage.note_health("Job", name).await;
    }
    stage.delete("Job", "second", Propagation::Foreground).await;
    stage.wait_until_gone("Job", "second").await;
    stage.apply(&job(stage, "second", once, json!({}))).await;
    stage.wait_until("Job", "second", "has ended", ends).await;
    stage.note_health("Job", "second").await;
    stage.write(&job(stage, "brief", json!({}), json!({"ttlSecondsAfterFinished": 0})), SSA, |_| {}).await;
    stage.wait_until_gone("Job", "brief").await;
}

pub async fn rollouts(stage: &mut Stage) {
    stage.apply(&deployment(stage, "web", json!({"replicas": 2}))).await;
    stage.wait_for_health("Deployment", "web", "Healthy").await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "next"}]}});
    stage.apply(&deployment(stage, "web", json!({"replicas": 2, "template": template}))).await;
    stage.wait_for_health("Deployment", "web", "Healthy").await;
    stage
        .note_fields(
            "Deployment",
            "web",
            &["/status/updatedReplicas", "/status/replicas", "/status/observedGeneration"],
        )
        .await;
    let never = json!({
        "metadata": {"labels": {"app": "slow"}, "annotations": {"sim.tidegate.dev/outcome": "never-ready"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    });
    stage
        .apply(&deployment(
            stage,
            "slow",
            json!({"replicas": 1, "progressDeadlineSeconds": 1, "template": never}),
        ))
        .await;
    stage.wait_for_health("Deployment", "slow", "Degraded").await;
    for kind in ["StatefulSet", "DaemonSet"] {
        let name = kind.to_lowercase();
        let labels = json!({"app": name});
        let mut spec = json!({
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}},
        });
        if kind == "StatefulSet" {
            spec["serviceName"] = json!(name);
            spec["replicas"] = json!(2);
        }
        stage.apply(&stage.manifest(kind, &name, json!({ "spec": spec }))).await;
        stage.wait_for_health(kind, &name, "Healthy").await;
    }
}
