//! What people write with `kubectl` over what the service has written, and what becomes of a project they delete.

use serde_json::{Value, json};

use crate::applications::{create, deploys_when_told, is_done, path, serve, site, until};
use crate::site::Site;

/// As `kubectl patch` does it.
async fn patch(site: &Site, change: &Value) {
    let path = format!("{}/shop?fieldManager=kubectl-patch", path(site));
    site.observer().patch(&path, change).await.unwrap();
}

/// A status that somebody removes is put back, and whoever writes the phase `Terminating` ends the operation.
pub async fn what_people_write_into_the_status_is_put_back_or_heeded() {
    let site = site().await;
    let serving = serve(&site);
    create(&site).await;
    let before = until(&site, is_done).await;
    patch(&site, &json!({"status": null})).await;
    let after = until(&site, is_done).await;
    for field in ["history", "operationState", "sync", "health", "resources"] {
        assert_eq!(after["status"][field], before["status"][field], "{field}");
    }
    // A hook that goes on for as long as anybody lets it.
    deploys_when_told(&site, "2");
    patch(&site, &json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}})).await;
    let waits = |app: &Value| app["status"]["operationState"]["message"].to_string().contains("migrate");
    until(&site, |app| app["status"]["operationState"]["phase"] == "Running" && waits(app)).await;
    // What is under way goes on, though its operation is taken away.
    patch(&site, &json!({"operation": null})).await;
    until(&site, |app| app.get("operation").is_some()).await;
    patch(&site, &json!({"status": {"operationState": {"phase": "Terminating"}}})).await;
    let ended = until(&site, |app| app["status"]["operationState"]["phase"] == "Failed").await;
    let message = ended["status"]["operationState"]["message"].to_string();
    assert!(message.contains("terminated"), "{message}");
    let log = site.run(&["ops", "log", &site.newest()]).expect_code(0);
    assert!(log.out.contains("kubectl-patch"), "{}", log.out);
    // The same, while nobody is at work.
    site.run(&["app", "sync", "shop", "--async"]).expect_code(0);
    until(&site, |app| app["status"]["operationState"]["phase"] == "Running" && waits(app)).await;
    serving.signal("KILL");
    serving.finish();
    let open = site.newest();
    patch(&site, &json!({"status": {"operationState": {"phase": "Terminating"}}})).await;
    let serving = serve(&site);
    until(&site, |app| app["status"]["operationState"]["phase"] == "Failed").await;
    assert_eq!(site.newest(), open);
    let log = site.run(&["ops", "log", &open]).expect_code(0);
    assert!(log.out.contains("kubectl-patch"), "{}", log.out);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// Its id is in the resource before the log has the operation.
pub async fn an_operation_that_was_just_asked_for_is_explained() {
    let site = site().await;
    let serving = serve(&site);
    create(&site).await;
    for _ in 0..6 {
        until(&site, is_done).await;
        site.run(&["app", "sync", "shop", "--async"]).expect_code(0);
        site.run(&["app", "explain", "shop"]).expect_code(0);
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// With Argo CD's finalizer it stays as long as an application names it.
pub async fn a_project_goes_when_no_application_names_it() {
    let site = site().await;
    let projects = format!("/apis/argoproj.io/v1alpha1/namespaces/{}/appprojects", site.namespace);
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "team", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    });
    site.observer().post(&projects, &project).await.unwrap();
    let serving = serve(&site);
    create(&site).await;
    patch(&site, &json!({"spec": {"project": "team"}})).await;
    until(&site, |app| is_done(app) && app["spec"]["project"] == "team").await;
    let team = format!("{projects}/team");
    site.observer().delete(&team, &Value::Null).await.unwrap();
    patch(&site, &json!({"operation": {"initiatedBy": {"username": "jane"}, "sync": {}}})).await;
    until(&site, |app| {
        is_done(app) && app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == "jane"
    })
    .await;
    let kept = site.observer().get(&team).await.unwrap();
    assert!(kept["metadata"]["deletionTimestamp"].is_string(), "{kept}");
    patch(&site, &json!({"spec": {"project": "default"}})).await;
    site.observer().until(&team, |project| project.is_none()).await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
