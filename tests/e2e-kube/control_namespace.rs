//! An Argo CD in a namespace other than `argocd`, as in OpenShift. Its objects belong to its Applications.

use serde_json::{Value, json};

use crate::applications;

const NAMESPACE: &str = "openshift-gitops";
const ID: &str = "argocd.argoproj.io/tracking-id";

pub async fn objects_and_leftovers_of_argo_cd_in_another_namespace_are_found() {
    let mut bench = applications::bench_on_own_plane().await;
    bench.bench.set_variable("TIDEGATE_CONTROL_NAMESPACE", NAMESPACE);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    bench.observer().post("/api/v1/namespaces", &namespace).await.unwrap();
    let config_maps = format!("/api/v1/namespaces/{}/configmaps", bench.namespace);
    // The objects are written as Argo CD applies them. One of them is no longer in Git.
    for name in ["settings", "old"] {
        let id = format!("shop:/ConfigMap:{}/{name}", bench.namespace);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"version": "1"},
            "metadata": {"name": name, "annotations": {ID: id}},
        });
        bench
            .observer()
            .post(&format!("{config_maps}?fieldManager=argocd-controller"), &object)
            .await
            .unwrap();
    }
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/applications");
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(), "path": "shop", "targetRevision": "main",
            },
        },
    });
    bench.observer().post(&path, &application).await.unwrap();
    let mut service = bench.start(&["serve"]);
    service.wait_for_line("managing 1 application");
    let path = format!("{path}/shop");
    let is_compared = |app: &Value| app["status"]["sync"]["status"].is_string();
    let app = bench.observer().wait_until(&path, |app| app.is_some_and(is_compared)).await.unwrap();
    assert_eq!(app["status"].get("conditions"), None, "{app}");
    let resources = app["status"]["resources"].as_array().unwrap();
    let status =
        |name: &str| resources.iter().find(|one| one["name"] == name).map(|one| one["status"].clone());
    assert_eq!(status("settings"), Some(json!("Synced")), "{app}");
    assert_eq!(status("old"), Some(json!("OutOfSync")), "{app}");

    bench.run(&["app", "sync", "shop", "--prune"]).expect_code(0);
    assert!(bench.object("/api/v1", "configmaps", "old").await.is_none(), "it is left behind");
    let settings = bench.object("/api/v1", "configmaps", "settings").await.unwrap();
    let id = format!("shop:/ConfigMap:{}/settings", bench.namespace);
    assert_eq!(settings["metadata"]["annotations"][ID], json!(id));
    for args in [
        &["app", "list"][..],
        &["app", "list", "--kube"],
        &["app", "explain", "shop"],
        &["app", "explain", "shop", "--kube"],
        &["ops", "list"],
    ] {
        let ran = bench.run(args).expect_code(0);
        assert!(ran.out.contains("shop") && !ran.out.contains(NAMESPACE), "{args:?}: {}", ran.out);
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}
