//! Applications that Argo CD has synced. No log contains their objects.

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::applications;
use crate::bench::Running;
use crate::kube_bench::KubeBench;

const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";

/// Writes the same object to the repository and to the cluster.
async fn write_object(bench: &KubeBench, path: &str, mut object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let kind = object["kind"].as_str().unwrap().to_owned();
    bench.write(&format!("repo/mig/{}-{name}.yaml", kind.to_lowercase()), object.to_string());
    let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
    let id = format!("{0}_mig:{group}/{kind}:{0}/{name}", bench.namespace);
    object["metadata"]["annotations"][TRACKING_ID] = id.into();
    bench.observer().post(path, &object).await.unwrap();
}

async fn create(bench: &KubeBench) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "mig", "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(), "path": "mig", "targetRevision": "main",
            },
        },
    });
    bench.observer().post(&applications::path(bench), &application).await.unwrap();
}

fn serve(bench: &KubeBench, user: &User, secrets: &str) -> Running {
    let namespace = bench.namespace.as_str();
    let mut service = bench.start(&[
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
    service.wait_for_line("managing");
    service
}

async fn wait_until(bench: &KubeBench, request: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{}/mig", applications::path(bench));
    bench.observer().wait_until(&path, |app| app.is_some_and(&request)).await.unwrap()
}

/// Returns the rights granted by `deploy/`: those of the role `edit` in the objects' namespace, but no right
/// to search the whole cluster.
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

fn config_maps(bench: &KubeBench) -> String {
    format!("/api/v1/namespaces/{}/configmaps", bench.namespace)
}

/// Without cluster-wide list rights and with an empty log, the Application's objects must be found in its
/// namespace, and deleted together with the Application.
pub async fn objects_are_deleted_with_rights_in_their_namespace_only() {
    let bench = applications::bench_with_crds().await;
    for name in ["one", "two"] {
        write_object(
            &bench,
            &config_maps(&bench),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
        )
        .await;
    }
    let secrets = format!("/api/v1/namespaces/{}/secrets", bench.namespace);
    write_object(
        &bench,
        &secrets,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}),
    )
    .await;
    // This object is no longer in any repository.
    let id = format!("{0}_mig:/ConfigMap:{0}/old", bench.namespace);
    let old = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "annotations": {TRACKING_ID: id}}});
    bench.observer().post(&config_maps(&bench), &old).await.unwrap();
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    // Without the right to read Secrets, the Application stays and reports the missing right.
    let beside = bench.control.create_namespace("beside").await.unwrap();
    let narrow = bench.control.create_limited_user(&rights(&bench.namespace, &beside, false)).await.unwrap();
    create(&bench).await;
    let service = serve(&bench, &narrow, &beside);
    let path = format!("{}/mig", applications::path(&bench));
    wait_until(&bench, |app| app["status"]["conditions"].to_string().contains("secrets")).await;
    bench.observer().delete(&path, &Value::Null).await.unwrap();
    let failed =
        wait_until(&bench, |app| app["status"]["conditions"].to_string().contains("DeletionError")).await;
    let conditions = failed["status"]["conditions"].to_string();
    assert!(conditions.contains("secrets"), "{conditions}");
    service.signal("TERM");
    let ended = service.finish().expect_code(0);
    // The warning is reported once, despite repeated searches.
    let warnings = ended.err.lines().filter(|line| line.contains("cannot list some kinds"));
    assert!(warnings.count() <= 1, "{}", ended.err);
    assert!(bench.object("/api/v1", "configmaps", "one").await.is_some());
    let wide = bench.control.create_limited_user(&rights(&bench.namespace, &beside, true)).await.unwrap();
    let service = serve(&bench, &wide, &beside);
    // The deletion would be retried automatically later.
    bench.run(&["app", "refresh", "mig"]).expect_code(0);
    bench.observer().wait_until(&path, |app| app.is_none()).await;
    for (plural, name) in
        [("configmaps", "one"), ("configmaps", "two"), ("configmaps", "old"), ("secrets", "key")]
    {
        assert!(bench.object("/api/v1", plural, name).await.is_none(), "{plural} {name} is left behind");
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// A cluster role in Git that has the Application's mark belongs to the Application, although no log contains
/// it.
pub async fn cluster_scoped_objects_are_deleted_with_their_application() {
    let bench = applications::bench_with_crds().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []});
    write_object(&bench, roles, role("mig-reader")).await;
    write_object(
        &bench,
        &config_maps(&bench),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}),
    )
    .await;
    write_object(&bench, roles, role("mig-stranger")).await;
    std::fs::remove_file(bench.path().join("repo/mig/clusterrole-mig-stranger.yaml")).unwrap();
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    create(&bench).await;
    let service = serve(&bench, User::ENGINE, &bench.namespace);
    wait_until(&bench, |app| app["status"]["sync"]["status"].is_string()).await;
    let path = format!("{}/mig", applications::path(&bench));
    bench.observer().delete(&path, &Value::Null).await.unwrap();
    bench.observer().wait_until(&path, |app| app.is_none()).await;
    let there = async |name: &str| bench.observer().find(&format!("{roles}/{name}")).await.unwrap().is_some();
    assert!(!there("mig-reader").await, "it is in Git and was left behind");
    assert!(there("mig-stranger").await, "it may belong to another process");
    assert!(bench.object("/api/v1", "configmaps", "one").await.is_none());
    // Remaining objects are reported in Events.
    let events = format!("/api/v1/namespaces/{}/events", bench.namespace);
    let is_told = |list: &Value| list.to_string().contains("left in place: ClusterRole mig-stranger");
    bench.observer().wait_until(&events, |list| list.is_some_and(is_told)).await.unwrap();
    service.signal("TERM");
    service.finish().expect_code(0);
}
