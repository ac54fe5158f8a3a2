//! Applications that are manifests of another Application, and the service's writes to them.

use serde_json::{Value, json};

use crate::applications::{bench_with_crds, commit_version, is_done, path, serve, wait_for_application};
use crate::kube_bench::KubeBench;

const CHILDREN: [&str; 2] = ["first", "second"];

fn application(bench: &KubeBench, name: &str, folder: &str, policy: &Value, wave: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(), "path": folder, "targetRevision": "main",
            },
            "syncPolicy": {"automated": policy},
        },
    })
}

/// Commits two automated children, the second with a deletion hook, and an ApplicationSet that must not delete any
/// Application. The service adds a finalizer to the last two.
fn commit_children(bench: &KubeBench) {
    commit_version(bench, "1");
    let report = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "report", "annotations": {"argocd.argoproj.io/hook": "PostDelete"}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:1"}],
        }}},
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    bench.write("repo/other/report.yaml", report.to_string());
    bench.write("repo/other/map.yaml", map.to_string());
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "none"},
        "spec": {
            "syncPolicy": {"applicationsSync": "create-update"},
            "generators": [{"list": {"elements": []}}],
            "template": {"metadata": {"name": "{{name}}"}, "spec": {"project": "default", "destination": {}}},
        },
    });
    bench.write("repo/children/first.yaml", application(bench, "first", "shop", &json!({}), "1").to_string());
    bench.write(
        "repo/children/second.yaml",
        application(bench, "second", "other", &json!({}), "2").to_string(),
    );
    bench.write("repo/children/set.yaml", set.to_string());
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

fn appset(bench: &KubeBench) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets/none", bench.namespace)
}

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Refreshes the parent, and waits for the result.
async fn refresh(bench: &KubeBench) -> Value {
    let annotation = "argocd.argoproj.io/refresh";
    let request = json!({"metadata": {"annotations": {annotation: "normal"}}});
    bench.observer().patch(&format!("{}/parent", path(bench)), &request).await.unwrap();
    wait_for_application(bench, "parent", |app| app["metadata"]["annotations"].get(annotation).is_none())
        .await
}

/// Simulates an earlier version, which wrote everything under one field manager.
async fn rewrite_with_engine_manager(bench: &KubeBench, path: &str) {
    let object = bench.observer().get(path).await.unwrap();
    let mut entries = object["metadata"]["managedFields"].clone();
    let mut renamed = 0;
    for entry in entries.as_array_mut().unwrap() {
        if entry["manager"] == "tidegate-serve" && entry["operation"] == "Update" {
            entry["manager"] = "tidegate".into();
            renamed += 1;
        }
    }
    assert!(renamed > 0, "{entries}");
    bench.observer().patch(path, &json!({"metadata": {"managedFields": entries}})).await.unwrap();
}

/// Syncs the parent, and returns its children afterwards.
async fn sync(bench: &KubeBench, who: &str) -> Vec<Value> {
    let request = json!({"operation": {"initiatedBy": {"username": who}, "sync": {}}});
    bench.observer().patch(&format!("{}/parent", path(bench)), &request).await.unwrap();
    let is_by = |app: &Value| app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == who;
    wait_for_application(bench, "parent", |app| is_done(app) && is_by(app)).await;
    let mut children = Vec::new();
    for name in CHILDREN {
        children.push(bench.observer().get(&format!("{}/{name}", path(bench))).await.unwrap());
    }
    children.push(bench.observer().get(&appset(bench)).await.unwrap());
    children
}

/// The parent must not treat the service's fields as a difference, because self-heal would repeatedly revert
/// them. A sync of the parent must not drop them, even if an earlier version wrote them.
pub async fn children_keep_the_fields_that_the_service_writes() {
    let mut bench = bench_with_crds().await;
    commit_children(&bench);
    let service = serve(&bench);
    let parent = application(&bench, "parent", "children", &json!({"prune": true, "selfHeal": true}), "0");
    bench.observer().post(&path(&bench), &parent).await.unwrap();
    for name in CHILDREN {
        wait_for_application(&bench, name, is_done).await;
    }
    let post_delete = "post-delete-finalizer.argocd.argoproj.io";
    wait_for_application(&bench, "second", |app| finalizers(app).contains(&post_delete)).await;
    let resources = ["resources-finalizer.argocd.argoproj.io"];
    bench
        .observer()
        .wait_until(&appset(&bench), |set| set.is_some_and(|set| finalizers(set) == resources))
        .await
        .unwrap();
    wait_for_application(&bench, "parent", is_done).await;
    let parent = refresh(&bench).await;
    assert!(is_done(&parent), "{parent}");
    assert_eq!(parent["status"]["history"].as_array().unwrap().len(), 1, "it was synced once: {parent}");

    let before = sync(&bench, "jane").await;
    for path in CHILDREN.map(|name| format!("{}/{name}", path(&bench))).iter().chain([&appset(&bench)]) {
        rewrite_with_engine_manager(&bench, path).await;
    }
    // Fields written by an earlier version don't count as a difference either.
    bench.run(&["app", "diff", "parent"]).expect_code(0);
    bench.reset_audit();
    let after = sync(&bench, "joe").await;
    for (before, after) in before.iter().zip(&after) {
        assert!(!before["status"].is_null(), "{before}");
        for field in ["history", "operationState", "sync", "health", "conditions"] {
            assert_eq!(
                after["status"][field], before["status"][field],
                "{field} of {}",
                before["metadata"]["name"]
            );
        }
        assert_eq!(finalizers(after), finalizers(before));
        let applied = after["metadata"]["managedFields"].as_array().unwrap();
        let applied = applied.iter().find(|one| one["manager"] == "tidegate" && one["operation"] == "Apply");
        assert!(applied.unwrap()["fieldsV1"].get("f:status").is_none(), "{after}");
    }
    // No repeated write was necessary.
    let again = bench.writes().await.filter(|event| event.verb == "update" && event.name != "parent");
    let again = again.filter(|event| event.kind.starts_with("Application"));
    assert!(again.0.is_empty(), "{:#?}", again.summaries());
    let parent = refresh(&bench).await;
    assert!(is_done(&parent), "{parent}");
    assert_eq!(parent["status"]["history"].as_array().unwrap().len(), 3, "{parent}");
    service.signal("TERM");
    service.finish().expect_code(0);
}
