//! Applications that are manifests of another Application, and what the service writes into them.

use serde_json::{Value, json};

use crate::applications::{deploys, is_done, path, serve, site, until_of};
use crate::site::Site;

const CHILDREN: [&str; 2] = ["first", "second"];

fn application(site: &Site, name: &str, folder: &str, policy: &Value, wave: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
            "source": {
                "repoURL": site.path().join("repo").display().to_string(), "path": folder, "targetRevision": "main",
            },
            "syncPolicy": {"automated": policy},
        },
    })
}

/// Two children that sync by themselves, the second with a hook for its deletion, and a set that may delete nothing: the service
/// puts a finalizer on both of these.
fn deploys_children(site: &Site) {
    deploys(site, "1");
    let report = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "report", "annotations": {"argocd.argoproj.io/hook": "PostDelete"}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:1"}],
        }}},
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    site.write("repo/other/report.yaml", report.to_string());
    site.write("repo/other/map.yaml", map.to_string());
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "none"},
        "spec": {
            "syncPolicy": {"applicationsSync": "create-update"},
            "generators": [{"list": {"elements": []}}],
            "template": {"metadata": {"name": "{{name}}"}, "spec": {"project": "default", "destination": {}}},
        },
    });
    site.write("repo/children/first.yaml", application(site, "first", "shop", &json!({}), "1").to_string());
    site.write(
        "repo/children/second.yaml",
        application(site, "second", "other", &json!({}), "2").to_string(),
    );
    site.write("repo/children/set.yaml", set.to_string());
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

fn set(site: &Site) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets/none", site.namespace)
}

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Has the parent looked at anew, and waits for the answer.
async fn refresh(site: &Site) -> Value {
    let annotation = "argocd.argoproj.io/refresh";
    let asked = json!({"metadata": {"annotations": {annotation: "normal"}}});
    site.observer().patch(&format!("{}/parent", path(site)), &asked).await.unwrap();
    until_of(site, "parent", |app| app["metadata"]["annotations"].get(annotation).is_none()).await
}

/// As a version before this one has left it, which wrote all under one name.
async fn written_by_the_engine(site: &Site, path: &str) {
    let object = site.observer().get(path).await.unwrap();
    let mut entries = object["metadata"]["managedFields"].clone();
    let mut renamed = 0;
    for entry in entries.as_array_mut().unwrap() {
        if entry["manager"] == "tidegate-serve" && entry["operation"] == "Update" {
            entry["manager"] = "tidegate".into();
            renamed += 1;
        }
    }
    assert!(renamed > 0, "{entries}");
    site.observer().patch(path, &json!({"metadata": {"managedFields": entries}})).await.unwrap();
}

/// Syncs the parent, and gives its children as they are then.
async fn sync(site: &Site, who: &str) -> Vec<Value> {
    let asked = json!({"operation": {"initiatedBy": {"username": who}, "sync": {}}});
    site.observer().patch(&format!("{}/parent", path(site)), &asked).await.unwrap();
    let is_by = |app: &Value| app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == who;
    until_of(site, "parent", |app| is_done(app) && is_by(app)).await;
    let mut children = Vec::new();
    for name in CHILDREN {
        children.push(site.observer().get(&format!("{}/{name}", path(site))).await.unwrap());
    }
    children.push(site.observer().get(&set(site)).await.unwrap());
    children
}

/// Nothing of it is a difference for the parent, which would heal it again and again, and a sync of the parent drops none of
/// it, also where an earlier version wrote it.
pub async fn children_keep_what_the_service_writes_into_them() {
    let mut site = site().await;
    deploys_children(&site);
    let serving = serve(&site);
    let parent = application(&site, "parent", "children", &json!({"prune": true, "selfHeal": true}), "0");
    site.observer().post(&path(&site), &parent).await.unwrap();
    for name in CHILDREN {
        until_of(&site, name, is_done).await;
    }
    let post_delete = "post-delete-finalizer.argocd.argoproj.io";
    until_of(&site, "second", |app| finalizers(app).contains(&post_delete)).await;
    let resources = ["resources-finalizer.argocd.argoproj.io"];
    site.observer()
        .until(&set(&site), |set| set.is_some_and(|set| finalizers(set) == resources))
        .await
        .unwrap();
    until_of(&site, "parent", is_done).await;
    let parent = refresh(&site).await;
    assert!(is_done(&parent), "{parent}");
    assert_eq!(parent["status"]["history"].as_array().unwrap().len(), 1, "it was synced once: {parent}");

    let before = sync(&site, "jane").await;
    for path in CHILDREN.map(|name| format!("{}/{name}", path(&site))).iter().chain([&set(&site)]) {
        written_by_the_engine(&site, path).await;
    }
    // What an earlier version wrote is no difference either.
    site.run(&["app", "diff", "parent"]).expect_code(0);
    site.look_from_now();
    let after = sync(&site, "joe").await;
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
    // Nobody had to write it again.
    let again = site.writes().await.only(|event| event.verb == "update" && event.name != "parent");
    let again = again.only(|event| event.kind.starts_with("Application"));
    assert!(again.0.is_empty(), "{:#?}", again.summaries());
    let parent = refresh(&site).await;
    assert!(is_done(&parent), "{parent}");
    assert_eq!(parent["status"]["history"].as_array().unwrap().len(), 3, "{parent}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
