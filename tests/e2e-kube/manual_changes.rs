//! Changes that users make with `kubectl` to fields that the service writes, and the deletion of a project by
//! users.

use serde_json::{Value, json};

use crate::applications::{
    bench_with_crds, commit_waiting_version, create, is_done, path, serve, wait_until,
};
use crate::kube_bench::KubeBench;

/// Sends a patch as `kubectl patch` does.
async fn patch(bench: &KubeBench, change: &Value) {
    let path = format!("{}/shop?fieldManager=kubectl-patch", path(bench));
    bench.observer().patch(&path, change).await.unwrap();
}

/// A removed status must be restored, and the phase `Terminating` must end the operation.
pub async fn manual_status_changes_are_reverted_or_respected() {
    let bench = bench_with_crds().await;
    let service = serve(&bench);
    create(&bench).await;
    let before = wait_until(&bench, is_done).await;
    patch(&bench, &json!({"status": null})).await;
    let after = wait_until(&bench, is_done).await;
    for field in ["history", "operationState", "sync", "health", "resources"] {
        assert_eq!(after["status"][field], before["status"][field], "{field}");
    }
    // Commits a hook that runs until the test ends it.
    commit_waiting_version(&bench, "2");
    patch(&bench, &json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}})).await;
    let waits = |app: &Value| app["status"]["operationState"]["message"].to_string().contains("migrate");
    wait_until(&bench, |app| app["status"]["operationState"]["phase"] == "Running" && waits(app)).await;
    // The running operation continues although its request was removed.
    patch(&bench, &json!({"operation": null})).await;
    wait_until(&bench, |app| app.get("operation").is_some()).await;
    patch(&bench, &json!({"status": {"operationState": {"phase": "Terminating"}}})).await;
    let ended = wait_until(&bench, |app| app["status"]["operationState"]["phase"] == "Failed").await;
    let message = ended["status"]["operationState"]["message"].to_string();
    assert!(message.contains("terminated"), "{message}");
    let log = bench.run(&["ops", "log", &bench.newest()]).expect_code(0);
    assert!(log.out.contains("kubectl-patch"), "{}", log.out);
    // The same happens without a running service.
    bench.run(&["app", "sync", "shop", "--async"]).expect_code(0);
    wait_until(&bench, |app| app["status"]["operationState"]["phase"] == "Running" && waits(app)).await;
    service.signal("KILL");
    service.finish();
    let open = bench.newest();
    patch(&bench, &json!({"status": {"operationState": {"phase": "Terminating"}}})).await;
    let service = serve(&bench);
    wait_until(&bench, |app| app["status"]["operationState"]["phase"] == "Failed").await;
    assert_eq!(bench.newest(), open);
    let log = bench.run(&["ops", "log", &open]).expect_code(0);
    assert!(log.out.contains("kubectl-patch"), "{}", log.out);
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// The operation's ID is in the resource before the operation is in the log.
pub async fn a_just_requested_operation_is_explained() {
    let bench = bench_with_crds().await;
    let service = serve(&bench);
    create(&bench).await;
    for _ in 0..6 {
        wait_until(&bench, is_done).await;
        bench.run(&["app", "sync", "shop", "--async"]).expect_code(0);
        bench.run(&["app", "explain", "shop"]).expect_code(0);
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// With Argo CD's finalizer, the project must stay as long as an application uses it.
pub async fn a_project_is_deleted_when_no_application_names_it() {
    let bench = bench_with_crds().await;
    let projects = format!("/apis/argoproj.io/v1alpha1/namespaces/{}/appprojects", bench.namespace);
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "team", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    });
    bench.observer().post(&projects, &project).await.unwrap();
    let service = serve(&bench);
    create(&bench).await;
    patch(&bench, &json!({"spec": {"project": "team"}})).await;
    wait_until(&bench, |app| is_done(app) && app["spec"]["project"] == "team").await;
    let team = format!("{projects}/team");
    bench.observer().delete(&team, &Value::Null).await.unwrap();
    patch(&bench, &json!({"operation": {"initiatedBy": {"username": "jane"}, "sync": {}}})).await;
    wait_until(&bench, |app| {
        is_done(app) && app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == "jane"
    })
    .await;
    let stored = bench.observer().get(&team).await.unwrap();
    assert!(stored["metadata"]["deletionTimestamp"].is_string(), "{stored}");
    patch(&bench, &json!({"spec": {"project": "default"}})).await;
    bench.observer().wait_until(&team, |project| project.is_none()).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}
