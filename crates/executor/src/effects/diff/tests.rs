//! Comparison of replaced objects, on a simulated cluster.

use serde_json::{Value, json};
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, WriteMode};
use tidegate_model::{Destination, annotations};
use tidegate_planner::{Limits, manifests};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn request() -> SyncRequest {
    SyncRequest::new("shop", "default", Destination::Simulated)
}

/// Returns an object with more spec fields than the manifest.
fn object(kind: &str, options: &str, more: &Value) -> Object {
    let group = if kind == "Job" { "batch" } else { "apps" };
    let mut pod = json!({"containers": [{"name": "a", "image": "x:1"}]});
    let mut spec = json!({"template": {"metadata": {"labels": {"app": "a"}}}});
    if kind == "Job" {
        pod["restartPolicy"] = json!("Never");
    } else {
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
    }
    spec["template"]["spec"] = pod;
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let metadata =
        json!({"name": "a", "namespace": "default", "annotations": {(annotations::SYNC_OPTIONS): options}});
    let object =
        json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "spec": spec});
    Object::try_from(object).unwrap()
}

/// Creates an object as Tidegate would. `object` includes the server's defaults, because a real server
/// records them as owned by the manager that creates the object.
async fn create(cluster: &SimCluster, mut object: Object) {
    let request = request();
    request.tracking.mark_manifest(&mut object, &request.application, &request.namespace);
    let request = ApplyRequest::new(object, WriteMode::Replace { recreate: false });
    cluster.apply(request).await.unwrap();
}

async fn diff_one(cluster: &SimCluster, question: ComparisonPurpose, manifest: &Object) -> ObjectDifference {
    let text = manifest.as_value().to_string();
    let targets = manifests::parse("a.yaml", text.as_bytes(), &Limits::default()).unwrap();
    let targets = Targets { targets, ..Targets::default() };
    let mut found = diff(cluster, question, &request(), targets, NOW, None).await.unwrap().objects;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn defaults(kind: &str) -> Value {
    match kind {
        "Job" => json!({"backoffLimit": 6, "suspend": false, "completions": 1, "parallelism": 1}),
        _ => json!({"replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10}),
    }
}

#[tokio::test(start_paused = true)]
async fn defaults_of_replaced_objects_do_not_count_but_removed_fields_do() {
    for (kind, options, given) in [
        ("Deployment", "Replace=true", "minReadySeconds"),
        ("Deployment", "Replace=true,Force=true", "minReadySeconds"),
        ("Job", "Replace=true,Force=true", "activeDeadlineSeconds"),
    ] {
        let cluster = SimCluster::in_memory(SimConfig::default(), Clock::tokio(NOW));
        let mut more = defaults(kind);
        create(&cluster, object(kind, options, &more)).await;
        let manifest = object(kind, options, &json!({}));
        let found = diff_one(&cluster, ComparisonPurpose::Manifests, &manifest).await;
        let told = (found.status, found.estimate, found.task.action, found.task.options.take_over);
        assert_eq!(
            told,
            (ObjectStatus::Same, false, Action::Unchanged, Vec::new()),
            "{kind} {options}: {:?}",
            found.difference.changes
        );
        let asked =
            diff_one(&cluster, ComparisonPurpose::Manifests, &object(kind, options, &json!({given: 5})))
                .await;
        assert_eq!(asked.status, ObjectStatus::Modified, "{kind} {options}");
        // An object with a field from an earlier manifest is out of sync.
        let cluster = SimCluster::in_memory(SimConfig::default(), Clock::tokio(NOW));
        more[given] = json!(5);
        create(&cluster, object(kind, options, &more)).await;
        let found = diff_one(&cluster, ComparisonPurpose::Manifests, &manifest).await;
        let paths: Vec<&str> = found.difference.changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!((found.status, found.task.action), (ObjectStatus::Modified, Action::Replace), "{kind}");
        assert_eq!(paths, [format!("/spec/{given}")], "{kind} {options}");
        assert_eq!(found.estimate, options.contains("Force"), "{kind} {options}");
    }
}
