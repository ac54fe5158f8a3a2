//! One Application after the other goes over from Argo CD, in the steps of `docs/from-argo-cd.md`: on a cluster that has the
//! definitions of Argo CD and its objects, with the rights of `deploy/`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_testkit::kube::{Audit, AuditEvent, Mark, Options, User};

use crate::applications::is_done;
use crate::bench::Running;
use crate::deploy::{ACCOUNT, until_allowed};
use crate::kubectl::{self, kubectl};
use crate::site::{Plane, Site};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
const MIG: (&str, &str) = ("argocd", "mig");
const SKIPS: &str = "argocd.argoproj.io/skip-reconcile";
const MANAGED: &str = "tidegate.dev/managed";
/// When Argo CD has looked last.
const LOOKED: &str = "2026-01-02T03:04:05Z";

/// Beside the repository, not in it.
pub fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/crds")
}

/// An Application of Argo CD, whose objects are in a namespace of their own.
async fn application(site: &Site, name: &str, labels: Value, sync_policy: Value) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd", "labels": labels, "finalizers": [FINALIZER]},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": format!("shop-{name}")},
            "source": {
                "repoURL": site.path().join("repo").display().to_string(), "path": name, "targetRevision": "main",
            },
            "syncPolicy": sync_policy,
        },
    });
    kubectl::apply(site, &application).await;
}

fn config_map(site: &Site, app: &str, name: &str, version: &str) -> Value {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"version": version},
    });
    site.write(&format!("repo/{app}/{name}.json"), object.to_string());
    object
}

fn deployment(site: &Site) -> Value {
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
    site.write("repo/mig/web.json", object.to_string());
    object
}

/// As Argo CD applies it: with its mark, and what it has applied written beside.
async fn applied(site: &Site, api: &str, plural: &str, mut object: Value) {
    let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
    let id = format!("mig:{group}/{kind}:shop-mig/{name}");
    object["metadata"]["namespace"] = "shop-mig".into();
    object["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": id});
    let written = object.to_string();
    object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = written.into();
    let path = format!("{api}/namespaces/shop-mig/{plural}?fieldManager=argocd-controller");
    site.observer().post(&path, &object).await.unwrap();
}

/// Who may write in the namespace of an application: the commands of the page, under "Before".
async fn grant(site: &Site, namespace: &str) {
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
        if kubectl(site, &args).is_none() {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "tidegate", "namespace": "tidegate"}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            });
            let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
            site.observer().post(&path, &binding).await.unwrap();
        }
    }
    for wanted in [(namespace, "configmaps", "patch"), (namespace, "pods", "list")] {
        until_allowed(site, wanted).await;
    }
}

/// A cluster with Argo CD's definitions and three of its Applications: one that Tidegate serves, one that goes over, and one
/// that is never touched though it asks to be synced by itself.
async fn cluster_of_argo_cd() -> Site {
    let site = Site::on(Plane::own(Options::default()), "argo").await;
    let folder = definitions().canonicalize().unwrap();
    let crds = ["sync", folder.to_str().unwrap(), "--app", &site.app("crds"), "--wait", "healthy"];
    site.run(&crds).expect_code(0);
    for name in ["argocd", "shop-first", "shop-mig", "shop-other"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        site.observer().post("/api/v1/namespaces", &namespace).await.unwrap();
    }
    config_map(&site, "first", "greeting", "1");
    config_map(&site, "other", "left", "1");
    let settings = config_map(&site, "mig", "settings", "1");
    let web = deployment(&site);
    site.run(&["example", "commit", "repo"]).expect_code(0);
    applied(&site, "/api/v1", "configmaps", settings).await;
    applied(&site, "/apis/apps/v1", "deployments", web).await;
    let automated = json!({"automated": {"prune": true, "selfHeal": true}});
    application(&site, "first", json!({MANAGED: "true"}), automated.clone()).await;
    application(&site, "other", json!({MANAGED: "false"}), automated).await;
    application(&site, "mig", json!({"team": "shop"}), json!({})).await;
    site
}

/// Puts Tidegate into the cluster, and does there what its pod would do.
async fn install(site: &Site) -> Running {
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/install.yaml");
    let install = install.to_str().unwrap();
    site.run(&["sync", install, "--app", &site.app("tidegate"), "-n", "tidegate"]).expect_code(0);
    until_allowed(site, ("argocd", "secrets", "list")).await;
    for namespace in ["shop-first", "shop-mig", "shop-other"] {
        grant(site, namespace).await;
    }
    let mut serving = site.start(&[
        "serve",
        "--app-namespace=argocd",
        "--secrets-namespace=argocd",
        "--only-labelled",
        "--as",
        ACCOUNT,
    ]);
    serving.await_line("serving");
    serving
}

async fn until(site: &Site, name: &str, wish: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{APPLICATIONS}/{name}");
    site.observer().until(&path, |app| app.is_some_and(&wish)).await.unwrap()
}

/// What Tidegate has written, or tried to write, of all that is not about the Application that it serves from the beginning.
async fn writes(site: &Site, since: Mark) -> Audit {
    let asked = site.control.audit_since(since).await.unwrap().of(User::ENGINE);
    let is_of_first = |event: &AuditEvent| {
        event.namespace == "shop-first"
            || event.kind == "Application" && event.name == "first"
            || event.kind == "Event"
    };
    asked.only(|event| event.is_write() && !is_of_first(event))
}

async fn assert_untouched(site: &Site, since: Mark) {
    assert_eq!(writes(site, since).await.summaries(), Vec::<String>::new());
}

/// The version of each definition that somebody has written.
async fn generations(site: &Site) -> Vec<Value> {
    let mut found = Vec::new();
    for plural in ["applications", "applicationsets", "appprojects"] {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.argoproj.io");
        found.push(site.observer().get(&path).await.unwrap()["metadata"]["generation"].clone());
    }
    found
}

/// The objects of `mig`.
async fn identities(site: &Site) -> Vec<Value> {
    let mut found = Vec::new();
    for path in [
        "/api/v1/namespaces/shop-mig/configmaps/settings",
        "/apis/apps/v1/namespaces/shop-mig/deployments/web",
    ] {
        found.push(site.observer().get(path).await.unwrap()["metadata"]["uid"].clone());
    }
    found
}

/// "One goes over": compared at once, found as Argo CD has left it, and nothing written but its status.
async fn one_goes_over(site: &Site) {
    let since = site.control.mark();
    kubectl::mark(site, "annotate", MIG, &format!("{SKIPS}=true")).await;
    kubectl::mark(site, "label", MIG, &format!("{MANAGED}=true")).await;
    let app = until(site, "mig", |app| app["status"]["reconciledAt"] != LOOKED).await;
    assert_eq!(
        (&app["status"]["sync"]["status"], &app["status"]["health"]["status"]),
        (&json!("Synced"), &json!("Healthy")),
        "{app}"
    );
    assert_eq!(app["status"].get("conditions"), None, "{app}");
    let shown = site.run(&["app", "get", "mig"]).expect_code(0).out;
    assert!(shown.contains("Synced"), "{shown}");
    site.run(&["app", "diff", "mig"]).expect_code(0);
    let written = writes(site, since).await.writes();
    assert!(!written.0.is_empty(), "the status is Tidegate's");
    let only_status = |event: &AuditEvent| event.kind == "Application" && event.name == "mig";
    assert!(written.0.iter().all(only_status), "{:#?}", written.summaries());
}

/// The first sync: each manifest is applied once, and nothing is made anew.
async fn it_is_synced(site: &Site) {
    let (since, before) = (site.control.mark(), identities(site).await);
    site.run(&["app", "sync", "mig"]).expect_code(0);
    let app = until(site, "mig", is_done).await;
    let ids: Vec<_> = app["status"]["history"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [3, 4], "the history goes on");
    let written = writes(site, since).await.writes();
    let mut objects =
        written.only(|event| event.namespace == "shop-mig" && event.kind != "Lease").summaries();
    objects.sort();
    assert_eq!(objects, ["patch ConfigMap shop-mig/settings", "patch Deployment shop-mig/web"]);
    assert_eq!(identities(site).await, before);
    let id = site.newest_of("mig");
    for args in [&["app", "explain", "mig"][..], &["ops", "log", &id]] {
        site.run(args).expect_code(0);
    }
}

/// "Going back": forgotten, and neither it nor its objects are touched again.
async fn it_goes_back(site: &Site) {
    kubectl::mark(site, "label", MIG, &format!("{MANAGED}-")).await;
    let is_forgotten = (0..3000).any(|_| site.run(&["app", "get", "mig"]).code() == 2);
    assert!(is_forgotten, "it is still served");
    kubectl::mark(site, "annotate", MIG, &format!("{SKIPS}-")).await;
    let (since, before) = (site.control.mark(), identities(site).await);
    let revision = until(site, "first", |_| true).await["status"]["sync"]["revision"].clone();
    config_map(site, "first", "greeting", "2");
    config_map(site, "mig", "settings", "2");
    site.run(&["example", "commit", "repo"]).expect_code(0);
    site.run(&["app", "refresh", "first"]).expect_code(0);
    until(site, "first", |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert_untouched(site, since).await;
    assert_eq!(identities(site).await, before, "its objects stay");
}

/// Whether the server takes what Argo CD itself writes of an object of the core API, whose group is the empty string: a server of
/// Kubernetes 1.20 that was built with a later Go holds that for `null`, which the definition does not allow.
async fn takes_empty_strings(site: &Site) -> bool {
    let result = json!({
        "revision": "1", "resources": [
            {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop-other", "name": "left"},
        ],
    });
    let state = json!({"operation": {}, "phase": "Succeeded", "startedAt": LOOKED, "syncResult": result});
    let path = format!("{APPLICATIONS}/other?dryRun=All");
    match site.observer().patch(&path, &json!({"status": {"operationState": state}})).await {
        Ok(_) => true,
        Err(error) if error.why.contains("must be of type string: \"null\"") => false,
        Err(error) => panic!("{error}"),
    }
}

pub async fn applications_go_over_one_at_a_time() {
    let site = cluster_of_argo_cd().await;
    if !takes_empty_strings(&site).await {
        eprintln!(
            "skipped: this API server refuses the status of Argo CD, because it takes an empty group for none"
        );
        return;
    }
    let before = generations(&site).await;
    let serving = install(&site).await;
    let since = site.control.mark();
    let first = until(&site, "first", is_done).await;
    // What Argo CD says of the one that it serves.
    let revision = first["status"]["sync"]["revision"].clone();
    let told = json!({"status": {
        "reconciledAt": LOOKED, "sourceType": "Directory",
        "sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"},
        "history": [{
            "id": 3, "revision": revision, "deployStartedAt": LOOKED, "deployedAt": LOOKED,
            "source": first["spec"]["source"],
        }],
    }});
    site.observer().patch(&format!("{APPLICATIONS}/mig"), &told).await.unwrap();
    site.run(&["app", "refresh", "first"]).expect_code(0);
    for name in ["mig", "other"] {
        site.run(&["app", "get", name]).expect_code(2);
    }
    assert_untouched(&site, since).await;
    one_goes_over(&site).await;
    it_is_synced(&site).await;
    it_goes_back(&site).await;

    // Over again, and deleted as its finalizer says.
    kubectl::mark(&site, "annotate", MIG, &format!("{SKIPS}=true")).await;
    kubectl::mark(&site, "label", MIG, &format!("{MANAGED}=true")).await;
    until(&site, "mig", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    kubectl::delete(&site, "argocd", "mig").await;
    for (api, plural) in [("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments")] {
        let left = site.observer().get(&format!("{api}/namespaces/shop-mig/{plural}")).await.unwrap();
        assert_eq!(left["items"], json!([]), "{plural}");
    }
    // All the time.
    let all = writes(&site, since).await;
    let of_other = |event: &AuditEvent| {
        event.namespace == "shop-other" || event.kind == "Application" && event.name == "other"
    };
    assert_eq!(all.only(of_other).summaries(), Vec::<String>::new());
    assert_eq!(until(&site, "other", |_| true).await.get("status"), None);
    assert_eq!(generations(&site).await, before, "the definitions stay as they are");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
