//! Migration of Applications from Argo CD one by one, following the steps in
//! `docs/guides/migrate-from-argo-cd.md`. The cluster has Argo CD's definitions and objects, and Tidegate has
//! the rights from `deploy/`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_testkit::kube::{Audit, AuditEvent, Mark, Options, User};

use crate::applications::is_done;
use crate::bench::Running;
use crate::deploy::{ACCOUNT, wait_until_allowed};
use crate::kube_bench::{KubeBench, Plane};
use crate::kubectl::{self, kubectl};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
const MIG: (&str, &str) = ("argocd", "mig");
const SKIPS: &str = "argocd.argoproj.io/skip-reconcile";
const MANAGED: &str = "tidegate.dev/managed";
/// Time of Argo CD's last comparison.
const COMPARED_AT: &str = "2026-01-02T03:04:05Z";

/// Returns the folder of Argo CD's definitions, which is outside of the repository.
pub fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/crds")
}

/// Creates an Application that Argo CD manages. Its objects are in their own namespace.
async fn application(bench: &KubeBench, name: &str, labels: Value, sync_policy: Value) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd", "labels": labels, "finalizers": [FINALIZER]},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": format!("shop-{name}")},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(), "path": name, "targetRevision": "main",
            },
            "syncPolicy": sync_policy,
        },
    });
    kubectl::apply(bench, &application).await;
}

fn config_map(bench: &KubeBench, app: &str, name: &str, version: &str) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"version": version},
    });
    bench.write(&format!("repo/{app}/{name}.json"), object.to_string());
    object
}

fn deployment(bench: &KubeBench) -> Value {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "a", "image": "example.com/web:1", "ports": [{"containerPort": 80}],
                }]},
            },
        },
    });
    bench.write("repo/mig/web.json", object.to_string());
    object
}

/// Applies an object as Argo CD does: with its mark, and with the last-applied annotation.
async fn create_tracked(bench: &KubeBench, api: &str, plural: &str, mut object: Value) {
    let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
    let id = format!("mig:{group}/{kind}:shop-mig/{name}");
    object["metadata"]["namespace"] = "shop-mig".into();
    object["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": id});
    let written = object.to_string();
    object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = written.into();
    let path = format!("{api}/namespaces/shop-mig/{plural}?fieldManager=argocd-controller");
    bench.observer().post(&path, &object).await.unwrap();
}

/// Grants write access to the namespace of an application, with the commands of the guide's section "Before".
async fn grant(bench: &KubeBench, namespace: &str) {
    for (name, role) in [("tidegate", "edit"), ("tidegate-claims", "tidegate-claims")] {
        let args = [
            "-n",
            namespace,
            "create",
            "rolebinding",
            name,
            &format!("--clusterrole={role}"),
            "--serviceaccount=tidegate:tidegate",
        ];
        if kubectl(bench, &args).is_none() {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "tidegate", "namespace": "tidegate"}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            });
            let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
            bench.observer().post(&path, &binding).await.unwrap();
        }
    }
    for wanted in [(namespace, "configmaps", "patch"), (namespace, "pods", "list")] {
        wait_until_allowed(bench, wanted).await;
    }
}

/// Returns a cluster with Argo CD's definitions and three of its Applications: one that Tidegate already
/// manages, one that is migrated, and one that must stay unchanged although it is automated.
async fn cluster_of_argo_cd() -> KubeBench {
    let bench = KubeBench::on_plane(Plane::own(Options::default()), "argo").await;
    let folder = definitions().canonicalize().unwrap();
    let crds = ["sync", folder.to_str().unwrap(), "--app", &bench.app("crds"), "--wait", "healthy"];
    bench.run(&crds).expect_code(0);
    for name in ["argocd", "shop-first", "shop-mig", "shop-other"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        bench.observer().post("/api/v1/namespaces", &namespace).await.unwrap();
    }
    config_map(&bench, "first", "greeting", "1");
    config_map(&bench, "other", "left", "1");
    let settings = config_map(&bench, "mig", "settings", "1");
    let web = deployment(&bench);
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    create_tracked(&bench, "/api/v1", "configmaps", settings).await;
    create_tracked(&bench, "/apis/apps/v1", "deployments", web).await;
    let automated = json!({"automated": {"prune": true, "selfHeal": true}});
    application(&bench, "first", json!({MANAGED: "true"}), automated.clone()).await;
    application(&bench, "other", json!({MANAGED: "false"}), automated).await;
    application(&bench, "mig", json!({"team": "shop"}), json!({})).await;
    bench
}

/// Installs Tidegate in the cluster, and runs the command that its pod would run.
async fn install(bench: &KubeBench) -> Running {
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/install.yaml");
    let install = install.to_str().unwrap();
    bench.run(&["sync", install, "--app", &bench.app("tidegate"), "-n", "tidegate"]).expect_code(0);
    wait_until_allowed(bench, ("argocd", "secrets", "list")).await;
    for namespace in ["shop-first", "shop-mig", "shop-other"] {
        grant(bench, namespace).await;
    }
    let mut service = bench.start(&[
        "serve",
        "--app-namespace=argocd",
        "--secrets-namespace=argocd",
        "--only-labelled",
        "--as",
        ACCOUNT,
    ]);
    service.wait_for_line("managing");
    service
}

async fn wait_until(bench: &KubeBench, name: &str, request: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{APPLICATIONS}/{name}");
    bench.observer().wait_until(&path, |app| app.is_some_and(&request)).await.unwrap()
}

/// Returns Tidegate's successful and attempted writes, except those for the Application that it manages from the
/// beginning.
async fn writes(bench: &KubeBench, since: Mark) -> Audit {
    let audit_events = bench.control.audit_since(since).await.unwrap().by_user(User::ENGINE);
    let is_of_first = |event: &AuditEvent| {
        event.namespace == "shop-first"
            || event.kind == "Application" && event.name == "first"
            || event.kind == "Event"
            || event.kind == "Lease" && event.name == "tidegate"
    };
    audit_events.filter(|event| event.is_write() && !is_of_first(event))
}

async fn assert_untouched(bench: &KubeBench, since: Mark) {
    assert_eq!(writes(bench, since).await.summaries(), Vec::<String>::new());
}

/// Returns the generation of each definition.
async fn generations(bench: &KubeBench) -> Vec<Value> {
    let mut found = Vec::new();
    for plural in ["applications", "applicationsets", "appprojects"] {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.argoproj.io");
        found.push(bench.observer().get(&path).await.unwrap()["metadata"]["generation"].clone());
    }
    found
}

/// Returns the identities of the objects of `mig`.
async fn identities(bench: &KubeBench) -> Vec<Value> {
    let mut found = Vec::new();
    for path in [
        "/api/v1/namespaces/shop-mig/configmaps/settings",
        "/apis/apps/v1/namespaces/shop-mig/deployments/web",
    ] {
        found.push(bench.observer().get(path).await.unwrap()["metadata"]["uid"].clone());
    }
    found
}

/// Checks the step "One goes over". The Application is compared immediately with Argo CD's result, and only
/// its status is written.
async fn check_migration(bench: &KubeBench) {
    let since = bench.control.audit_mark();
    kubectl::annotate_or_label(bench, "annotate", MIG, &format!("{SKIPS}=true")).await;
    kubectl::annotate_or_label(bench, "label", MIG, &format!("{MANAGED}=true")).await;
    let app = wait_until(bench, "mig", |app| app["status"]["reconciledAt"] != COMPARED_AT).await;
    assert_eq!(
        (&app["status"]["sync"]["status"], &app["status"]["health"]["status"]),
        (&json!("Synced"), &json!("Healthy")),
        "{app}"
    );
    assert_eq!(app["status"].get("conditions"), None, "{app}");
    let shown = bench.run(&["app", "get", "mig"]).expect_code(0).out;
    assert!(shown.contains("Synced"), "{shown}");
    bench.run(&["app", "diff", "mig"]).expect_code(0);
    let written = writes(bench, since).await.successful_writes();
    assert!(!written.0.is_empty(), "the status was written by Tidegate");
    let only_status = |event: &AuditEvent| event.kind == "Application" && event.name == "mig";
    assert!(written.0.iter().all(only_status), "{:#?}", written.summaries());
}

/// Checks the first sync. Each manifest is applied once, after a takeover of Argo CD's fields, and no object
/// is re-created.
async fn check_first_sync(bench: &KubeBench) {
    let (since, before) = (bench.control.audit_mark(), identities(bench).await);
    bench.run(&["app", "sync", "mig"]).expect_code(0);
    let app = wait_until(bench, "mig", is_done).await;
    let ids: Vec<_> = app["status"]["history"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [3, 4], "the history continues");
    let written = writes(bench, since).await.successful_writes();
    let mut objects =
        written.filter(|event| event.namespace == "shop-mig" && event.kind != "Lease").summaries();
    objects.sort();
    let both = ["patch ConfigMap shop-mig/settings", "patch Deployment shop-mig/web"];
    assert_eq!(objects, [both[0], both[0], both[1], both[1]]);
    assert_eq!(identities(bench).await, before);
    let id = bench.newest_of("mig");
    for args in [&["app", "explain", "mig"][..], &["ops", "log", &id]] {
        bench.run(args).expect_code(0);
    }
}

/// Checks the step "Going back". The Application is no longer managed, and neither the Application nor its
/// objects are written.
async fn check_migration_back(bench: &KubeBench) {
    kubectl::annotate_or_label(bench, "label", MIG, &format!("{MANAGED}-")).await;
    let is_forgotten = (0..3000).any(|_| bench.run(&["app", "get", "mig"]).code() == 2);
    assert!(is_forgotten, "it is still managed");
    kubectl::annotate_or_label(bench, "annotate", MIG, &format!("{SKIPS}-")).await;
    let (since, before) = (bench.control.audit_mark(), identities(bench).await);
    let revision = wait_until(bench, "first", |_| true).await["status"]["sync"]["revision"].clone();
    config_map(bench, "first", "greeting", "2");
    config_map(bench, "mig", "settings", "2");
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    bench.run(&["app", "refresh", "first"]).expect_code(0);
    wait_until(bench, "first", |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert_untouched(bench, since).await;
    assert_eq!(identities(bench).await, before, "its objects are kept");
}

/// Returns true if the server accepts resources as Argo CD writes them for objects of the core API, whose
/// group is the empty string. A server of Kubernetes 1.20 built with a later Go treats that as `null`, which
/// the definition does not allow.
async fn accepts_empty_strings(bench: &KubeBench) -> bool {
    let result = json!({
        "revision": "1", "resources": [
            {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop-other", "name": "left"},
        ],
    });
    let state =
        json!({"operation": {}, "phase": "Succeeded", "startedAt": COMPARED_AT, "syncResult": result});
    let path = format!("{APPLICATIONS}/other?dryRun=All");
    match bench.observer().patch(&path, &json!({"status": {"operationState": state}})).await {
        Ok(_) => true,
        Err(error) if error.why.contains("must be of type string: \"null\"") => false,
        Err(error) => panic!("{error}"),
    }
}

pub async fn applications_migrate_one_at_a_time() {
    let bench = cluster_of_argo_cd().await;
    if !accepts_empty_strings(&bench).await {
        eprintln!(
            "skipped: this API server rejects the status of Argo CD, because it treats an empty group as null"
        );
        return;
    }
    let before = generations(&bench).await;
    let service = install(&bench).await;
    let since = bench.control.audit_mark();
    let first = wait_until(&bench, "first", is_done).await;
    // Status that Argo CD has written for the managed Application.
    let revision = first["status"]["sync"]["revision"].clone();
    let status = json!({"status": {
        "reconciledAt": COMPARED_AT, "sourceType": "Directory",
        "sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"},
        "history": [{
            "id": 3, "revision": revision, "deployStartedAt": COMPARED_AT, "deployedAt": COMPARED_AT,
            "source": first["spec"]["source"],
        }],
    }});
    bench.observer().patch(&format!("{APPLICATIONS}/mig"), &status).await.unwrap();
    bench.run(&["app", "refresh", "first"]).expect_code(0);
    for name in ["mig", "other"] {
        bench.run(&["app", "get", name]).expect_code(2);
    }
    assert_untouched(&bench, since).await;
    check_migration(&bench).await;
    check_first_sync(&bench).await;
    check_migration_back(&bench).await;

    // The Application is migrated again, and deleted with its finalizer.
    kubectl::annotate_or_label(&bench, "annotate", MIG, &format!("{SKIPS}=true")).await;
    kubectl::annotate_or_label(&bench, "label", MIG, &format!("{MANAGED}=true")).await;
    wait_until(&bench, "mig", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    kubectl::delete(&bench, "argocd", "mig").await;
    for (api, plural) in [("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments")] {
        let left = bench.observer().get(&format!("{api}/namespaces/shop-mig/{plural}")).await.unwrap();
        assert_eq!(left["items"], json!([]), "{plural}");
    }
    // These checks cover the whole test.
    let all = writes(&bench, since).await;
    let of_other = |event: &AuditEvent| {
        event.namespace == "shop-other" || event.kind == "Application" && event.name == "other"
    };
    assert_eq!(all.filter(of_other).summaries(), Vec::<String>::new());
    assert_eq!(wait_until(&bench, "other", |_| true).await.get("status"), None);
    assert_eq!(generations(&bench).await, before, "the definitions are unchanged");
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// Argo CD's apply modes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Client,
    Server,
}

/// Returns a Deployment with two environment variables, two containers and two labels, or with one of each,
/// and a ConfigMap.
fn manifests(is_whole: bool) -> [(&'static str, &'static str, Value); 2] {
    let (mut labels, mut env) = (json!({"kept": "yes"}), json!([{"name": "KEPT", "value": "1"}]));
    let mut data = json!({"kept": "1"});
    let mut sidecar = Vec::new();
    if is_whole {
        labels["gone"] = "yes".into();
        data["gone"] = "1".into();
        env.as_array_mut().unwrap().push(json!({"name": "GONE", "value": "1"}));
        sidecar.push(json!({"name": "sidecar", "image": "example.com/side:1"}));
    }
    let main =
        json!({"name": "a", "image": "example.com/web:1", "env": env, "ports": [{"containerPort": 80}]});
    let containers: Vec<Value> = [main].into_iter().chain(sidecar).collect();
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
        },
    });
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": labels}, "data": data,
    });
    [("/apis/apps/v1", "deployments", web), ("/api/v1", "configmaps", settings)]
}

fn commit(bench: &KubeBench, is_whole: bool) {
    for (_, plural, object) in manifests(is_whole) {
        bench.write(&format!("repo/mig/{plural}.json"), object.to_string());
    }
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

/// Applies the objects as Argo CD does. The Application is in the namespace of its objects.
async fn apply_as_argo_cd(bench: &KubeBench, side: Side) {
    let namespace = &bench.namespace;
    for (api, plural, mut object) in manifests(true) {
        let (kind, name) = (
            object["kind"].as_str().unwrap().to_owned(),
            object["metadata"]["name"].as_str().unwrap().to_owned(),
        );
        let group = api.strip_prefix("/apis/").map_or("", |rest| rest.split_once('/').unwrap().0);
        object["metadata"]["namespace"] = namespace.as_str().into();
        object["metadata"]["annotations"][TRACKING_ID] =
            format!("{namespace}_mig:{group}/{kind}:{namespace}/{name}").into();
        let place = format!("{api}/namespaces/{namespace}/{plural}");
        if side == Side::Client {
            let written = object.to_string();
            object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                written.into();
            bench.observer().post(&format!("{place}?fieldManager={ARGO_CD}"), &object).await.unwrap();
        } else {
            bench
                .observer()
                .apply(&format!("{place}/{name}?fieldManager={ARGO_CD}&force=true"), &object)
                .await
                .unwrap();
        }
        // Other managers' fields must not be taken over.
        let theirs = json!({
            "apiVersion": object["apiVersion"], "kind": kind,
            "metadata": {"name": name, "labels": {"theirs": "yes"}},
        });
        bench.observer().apply(&format!("{place}/{name}?fieldManager=another"), &theirs).await.unwrap();
    }
}

async fn objects(bench: &KubeBench) -> [Value; 2] {
    [
        bench.object("/apis/apps/v1", "deployments", "web").await.unwrap(),
        bench.object("/api/v1", "configmaps", "settings").await.unwrap(),
    ]
}

/// Returns the managers of an object's fields outside its status, with their operations.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let main =
        entries.filter(|entry| entry["subresource"].is_null() && entry["fieldsV1"]["f:status"].is_null());
    let mut owners: Vec<String> = main
        .filter(|entry| entry["manager"] != "kube-controller-manager")
        .map(|entry| {
            format!("{} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())
        })
        .collect();
    owners.sort();
    owners
}

fn assert_gone(bench: &KubeBench, [web, settings]: &[Value; 2], story: &str) {
    let labels = json!({"kept": "yes", "theirs": "yes"});
    assert_eq!(web["metadata"]["labels"], labels, "{story}");
    assert_eq!(settings["metadata"]["labels"], labels, "{story}");
    assert_eq!(settings["data"], json!({"kept": "1"}), "{story}");
    let containers = web["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let names: Vec<&Value> = containers.iter().map(|container| &container["name"]).collect();
    assert_eq!(names, ["a"], "{story}");
    assert_eq!(containers[0]["env"], json!([{"name": "KEPT", "value": "1"}]), "{story}");
    assert_eq!(
        containers[0]["imagePullPolicy"], "IfNotPresent",
        "{story}: the defaults of the server are kept"
    );
    for object in [web, settings] {
        assert_eq!(owners(object), ["another Apply", "tidegate Apply"], "{story}: {}", bench.namespace);
        let noted = &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        assert!(noted.is_null(), "{story}");
    }
}

const ARGO_CD: &str = "argocd-controller";
const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";

/// Fields are removed regardless of Argo CD's apply mode, and regardless of whether Git drops them before or
/// after the first sync. The comparison must detect the removal, the plan must mention the takeover, and
/// other managers' fields must stay.
pub async fn fields_removed_from_git_are_removed_from_the_cluster() {
    for side in [Side::Client, Side::Server] {
        for is_first in [false, true] {
            let story = format!("{side:?} {is_first}");
            let bench = crate::applications::bench_with_crds().await;
            commit(&bench, true);
            apply_as_argo_cd(&bench, side).await;
            let applications = crate::applications::path(&bench);
            let application = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "mig"},
                "spec": {
                    "project": "default",
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
                    "source": {
                        "repoURL": bench.path().join("repo").display().to_string(), "path": "mig",
                        "targetRevision": "main",
                    },
                },
            });
            bench.observer().post(&applications, &application).await.unwrap();
            let service = crate::applications::serve(&bench);
            let path = format!("{applications}/mig");
            let until = async |status: &str| {
                let is =
                    |app: &Value| app["status"]["sync"]["status"] == status && app.get("operation").is_none();
                bench.observer().wait_until(&path, |app| app.is_some_and(is)).await.unwrap()
            };
            until("Synced").await;
            bench.run(&["app", "diff", "mig"]).expect_code(0);
            let plan = bench.run(&["app", "plan", "mig", "-o", "json"]).expect_code(0).out;
            let taken = plan.matches("takes over the fields of argocd-controller").count();
            assert!(taken >= 2, "{story}: {plan}");
            if !is_first {
                let before = objects(&bench).await;
                bench.run(&["app", "sync", "mig"]).expect_code(0);
                let after = objects(&bench).await;
                for (before, after) in before.iter().zip(&after) {
                    assert_eq!(after["spec"], before["spec"], "{story}");
                    assert_eq!(after["data"], before["data"], "{story}");
                    assert_eq!(owners(after), ["another Apply", "tidegate Apply"], "{story}");
                }
                bench.run(&["app", "diff", "mig"]).expect_code(0);
            }
            commit(&bench, false);
            bench.run(&["app", "refresh", "mig"]).expect_code(0);
            until("OutOfSync").await;
            let output = bench.run(&["app", "diff", "mig"]).expect_code(1).out;
            for gone in ["gone", "GONE", "sidecar"] {
                assert!(output.contains(gone), "{story}: {output}");
            }
            let removes_theirs = |line: &str| line.starts_with('-') && line.contains("theirs");
            assert!(!output.lines().any(removes_theirs), "{story}: {output}");
            bench.run(&["app", "sync", "mig"]).expect_code(0);
            assert_gone(&bench, &objects(&bench).await, &story);
            until("Synced").await;
            bench.run(&["app", "diff", "mig"]).expect_code(0);
            service.signal("TERM");
            service.finish().expect_code(0);
        }
    }
}
