//! Replaced objects in an Application with self-heal.

use serde_json::{Value, json};

use crate::applications;
use crate::kube_bench::KubeBench;

const REFRESH: &str = "argocd.argoproj.io/refresh";

/// Fills the repository with manifests that use mostly server defaults.
fn commit_manifests(bench: &KubeBench, settings: &Value) {
    let options = |text: &str| json!({"argocd.argoproj.io/sync-options": text});
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x:1"}]});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "once", "annotations": options("Force=true,Replace=true")},
        "spec": {"template": {"spec": pod}},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "annotations": options("Replace=true")},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "image": "x:1"}]},
            },
        },
    });
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": settings,
        "metadata": {"name": "words", "annotations": options("Replace=true")},
    });
    for (name, object) in [("once", job), ("web", deployment), ("words", config)] {
        bench.write(&format!("repo/shop/{name}.yaml"), object.to_string());
    }
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

/// The server records its defaults as written by the creator of the object. They must not be a difference, so
/// that no self-heal happens. A field that was removed from the manifest must be a difference.
pub async fn replaced_objects_stay_in_sync() {
    let bench = applications::bench_with_crds().await;
    commit_manifests(&bench, &json!({"a": "1", "b": "2"}));
    let service = applications::serve(&bench);
    applications::create(&bench).await;
    let path = format!("{}/shop", applications::path(&bench));
    let heals = json!({"spec": {"syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}});
    bench.observer().patch(&path, &heals).await.unwrap();
    applications::wait_until(&bench, applications::is_done).await;
    let revision = format!("/apis/apps/v1/namespaces/{}/deployments/web", bench.namespace);
    let has_revision = |found: Option<&Value>| {
        found.is_some_and(|web| web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1")
    };
    bench.observer().wait_until(&revision, has_revision).await.unwrap();
    for look in ["normal", "hard", "normal"] {
        let asks = json!({"metadata": {"annotations": {REFRESH: look}}});
        bench.observer().patch(&path, &asks).await.unwrap();
        let answered = |app: &Value| app["metadata"]["annotations"].get(REFRESH).is_none();
        let app = applications::wait_until(&bench, answered).await;
        assert_eq!(app["status"]["sync"]["status"], "Synced", "{look}: {}", app["status"]["resources"]);
        assert_eq!(app["status"]["history"].as_array().unwrap().len(), 1, "{look}");
    }
    let writes = bench.writes().await;
    let verbs = |kind: &str, name: &str| -> Vec<String> {
        let about = writes.0.iter().filter(|event| event.kind == kind && event.name == name);
        about.map(|event| event.verb.clone()).collect()
    };
    for (kind, name) in [("Job", "once"), ("Deployment", "web"), ("ConfigMap", "words")] {
        assert_eq!(verbs(kind, name), ["create"], "{kind}: {:#?}", writes.summaries());
    }
    // The comparison detects a key that was removed from the manifest, and the sync removes it.
    commit_manifests(&bench, &json!({"a": "1"}));
    let asks = json!({"metadata": {"annotations": {REFRESH: "normal"}}});
    bench.observer().patch(&path, &asks).await.unwrap();
    let synced_twice = |app: &Value| {
        app["status"]["history"].as_array().is_some_and(|all| all.len() == 2) && applications::is_done(app)
    };
    applications::wait_until(&bench, synced_twice).await;
    let text = bench.object("/api/v1", "configmaps", "words").await.unwrap();
    assert_eq!(text["data"], json!({"a": "1"}));
    service.signal("TERM");
    service.finish().expect_code(0);
}
