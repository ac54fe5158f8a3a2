//! Applications that Argo CD has synced, and whose objects no log knows.

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::applications;
use crate::bench::Running;
use crate::site::Site;

const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";

/// An object of the repository, and the same as it is in the cluster already.
async fn put(site: &Site, path: &str, mut object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let kind = object["kind"].as_str().unwrap().to_owned();
    site.write(&format!("repo/mig/{}-{name}.yaml", kind.to_lowercase()), object.to_string());
    let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
    let id = format!("{0}_mig:{group}/{kind}:{0}/{name}", site.namespace);
    object["metadata"]["annotations"][TRACKING_ID] = id.into();
    site.observer().post(path, &object).await.unwrap();
}

async fn create(site: &Site) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "mig", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
            "source": {
                "repoURL": site.path().join("repo").display().to_string(), "path": "mig", "targetRevision": "main",
            },
        },
    });
    site.observer().post(&applications::path(site), &application).await.unwrap();
}

fn serve(site: &Site, user: &User, secrets: &str) -> Running {
    let namespace = site.namespace.as_str();
    let mut serving = site.start(&[
        "serve",
        "--app-namespace",
        namespace,
        "--project-namespace",
        namespace,
        "--secrets-namespace",
        secrets,
        "--context",
        user.name(),
    ]);
    serving.await_line("serving");
    serving
}

async fn until(site: &Site, wish: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{}/mig", applications::path(site));
    site.observer().until(&path, |app| app.is_some_and(&wish)).await.unwrap()
}

/// The rights of `deploy/`: those of `edit` in the namespace of the objects, and none to look through the cluster.
fn rights<'n>(namespace: &'n str, beside: &'n str, secrets: bool) -> Vec<(Option<&'n str>, Value)> {
    let all = json!(["get", "list", "watch", "create", "update", "patch", "delete"]);
    let mut resources = vec!["configmaps", "services"];
    if secrets {
        resources.push("secrets");
    }
    vec![
        (
            Some(namespace),
            json!([
                {"apiGroups": [""], "resources": resources, "verbs": all},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": all},
            ]),
        ),
        (
            Some(beside),
            json!([
                {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get", "list", "watch"]},
            ]),
        ),
        (
            None,
            json!([
                {"apiGroups": ["argoproj.io"], "resources": ["*"], "verbs": all},
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get", "list", "watch"]},
            ]),
        ),
    ]
}

fn config_maps(site: &Site) -> String {
    format!("/api/v1/namespaces/{}/configmaps", site.namespace)
}

/// Nobody may list the whole cluster, and the log is empty: what it has is found in its namespace, and goes with it.
pub async fn it_goes_with_its_objects_where_only_their_namespace_may_be_seen() {
    let site = applications::site().await;
    for name in ["one", "two"] {
        put(
            &site,
            &config_maps(&site),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
        )
        .await;
    }
    let secrets = format!("/api/v1/namespaces/{}/secrets", site.namespace);
    put(&site, &secrets, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}})).await;
    // In no repository any more.
    let id = format!("{0}_mig:/ConfigMap:{0}/old", site.namespace);
    let old = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "annotations": {TRACKING_ID: id}}});
    site.observer().post(&config_maps(&site), &old).await.unwrap();
    site.run(&["example", "commit", "repo"]).expect_code(0);
    // Without the right to see Secrets it stays, and says so.
    let beside = site.control.namespace("beside").await.unwrap();
    let narrow = site.control.limited_user(&rights(&site.namespace, &beside, false)).await.unwrap();
    create(&site).await;
    let serving = serve(&site, &narrow, &beside);
    let path = format!("{}/mig", applications::path(&site));
    until(&site, |app| app["status"]["conditions"].to_string().contains("secrets")).await;
    site.observer().delete(&path, &Value::Null).await.unwrap();
    let failed = until(&site, |app| app["status"]["conditions"].to_string().contains("DeletionError")).await;
    let conditions = failed["status"]["conditions"].to_string();
    assert!(conditions.contains("secrets"), "{conditions}");
    serving.signal("TERM");
    let ended = serving.finish().expect_code(0);
    // Told once, however often it was looked for.
    let told = ended.err.lines().filter(|line| line.contains("cannot be searched"));
    assert!(told.count() <= 1, "{}", ended.err);
    assert!(site.object("/api/v1", "configmaps", "one").await.is_some());
    let wide = site.control.limited_user(&rights(&site.namespace, &beside, true)).await.unwrap();
    let serving = serve(&site, &wide, &beside);
    // It is tried again by itself later.
    site.run(&["app", "refresh", "mig"]).expect_code(0);
    site.observer().until(&path, |app| app.is_none()).await;
    for (plural, name) in
        [("configmaps", "one"), ("configmaps", "two"), ("configmaps", "old"), ("secrets", "key")]
    {
        assert!(site.object("/api/v1", plural, name).await.is_none(), "{plural} {name} is left behind");
    }
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// A role of the cluster is in Git and bears the mark: it is its own, though no log knows it.
pub async fn it_goes_with_its_objects_of_the_cluster_scope() {
    let site = applications::site().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []});
    put(&site, roles, role("mig-reader")).await;
    put(
        &site,
        &config_maps(&site),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}),
    )
    .await;
    put(&site, roles, role("mig-stranger")).await;
    std::fs::remove_file(site.path().join("repo/mig/clusterrole-mig-stranger.yaml")).unwrap();
    site.run(&["example", "commit", "repo"]).expect_code(0);
    create(&site).await;
    let serving = serve(&site, User::ENGINE, &site.namespace);
    until(&site, |app| app["status"]["sync"]["status"].is_string()).await;
    let path = format!("{}/mig", applications::path(&site));
    site.observer().delete(&path, &Value::Null).await.unwrap();
    site.observer().until(&path, |app| app.is_none()).await;
    let there = async |name: &str| site.observer().find(&format!("{roles}/{name}")).await.unwrap().is_some();
    assert!(!there("mig-reader").await, "it is in Git, and left behind");
    assert!(there("mig-stranger").await, "it may be another's");
    assert!(site.object("/api/v1", "configmaps", "one").await.is_none());
    // What stays is told to whoever looks at Events.
    let events = format!("/api/v1/namespaces/{}/events", site.namespace);
    let is_told = |list: &Value| list.to_string().contains("left alone: ClusterRole mig-stranger");
    site.observer().until(&events, |list| list.is_some_and(is_told)).await.unwrap();
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
