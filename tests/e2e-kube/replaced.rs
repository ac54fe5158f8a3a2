//! Objects that are replaced as a whole, in an Application that heals itself.

use serde_json::{Value, json};

use crate::applications;
use crate::site::Site;

const REFRESH: &str = "argocd.argoproj.io/refresh";

/// Manifests that leave almost everything to the server.
fn deploys(site: &Site, settings: &Value) {
    let options = |words: &str| json!({"argocd.argoproj.io/sync-options": words});
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
        site.write(&format!("repo/shop/{name}.yaml"), object.to_string());
    }
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

/// The server notes its defaults as written by whoever created the object. They are no difference, so that nothing is healed;
/// what a manifest gives no longer is one.
pub async fn objects_that_are_replaced_stay_in_sync() {
    let site = applications::site().await;
    deploys(&site, &json!({"a": "1", "b": "2"}));
    let serving = applications::serve(&site);
    applications::create(&site).await;
    let path = format!("{}/shop", applications::path(&site));
    let heals = json!({"spec": {"syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}});
    site.observer().patch(&path, &heals).await.unwrap();
    applications::until(&site, applications::is_done).await;
    let revision = format!("/apis/apps/v1/namespaces/{}/deployments/web", site.namespace);
    let has_revision = |found: Option<&Value>| {
        found.is_some_and(|web| web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1")
    };
    site.observer().until(&revision, has_revision).await.unwrap();
    for look in ["normal", "hard", "normal"] {
        let asks = json!({"metadata": {"annotations": {REFRESH: look}}});
        site.observer().patch(&path, &asks).await.unwrap();
        let answered = |app: &Value| app["metadata"]["annotations"].get(REFRESH).is_none();
        let app = applications::until(&site, answered).await;
        assert_eq!(app["status"]["sync"]["status"], "Synced", "{look}: {}", app["status"]["resources"]);
        assert_eq!(app["status"]["history"].as_array().unwrap().len(), 1, "{look}");
    }
    let writes = site.writes().await;
    let verbs = |kind: &str, name: &str| -> Vec<String> {
        let about = writes.0.iter().filter(|event| event.kind == kind && event.name == name);
        about.map(|event| event.verb.clone()).collect()
    };
    for (kind, name) in [("Job", "once"), ("Deployment", "web"), ("ConfigMap", "words")] {
        assert_eq!(verbs(kind, name), ["create"], "{kind}: {:#?}", writes.summaries());
    }
    // A key that the manifest loses is seen, and goes.
    deploys(&site, &json!({"a": "1"}));
    let asks = json!({"metadata": {"annotations": {REFRESH: "normal"}}});
    site.observer().patch(&path, &asks).await.unwrap();
    let synced_twice = |app: &Value| {
        app["status"]["history"].as_array().is_some_and(|all| all.len() == 2) && applications::is_done(app)
    };
    applications::until(&site, synced_twice).await;
    let words = site.object("/api/v1", "configmaps", "words").await.unwrap();
    assert_eq!(words["data"], json!({"a": "1"}));
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
