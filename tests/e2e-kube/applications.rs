//! Applications as resources of the cluster, served: what `kubectl` writes and reads.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_testkit::git::{self, GitServer, Manners};
use tidegate_testkit::kube::{Options, User};
use tokio::sync::OnceCell;

use crate::bench::Running;
use crate::site::{Plane, Site};

const ANNOTATION: &str = "argocd.argoproj.io/refresh";

/// A namespace of the control plane that has the definitions, and a repository.
pub async fn site() -> Site {
    at(defined().await).await
}

/// The same where nobody else has Applications.
pub async fn site_of_its_own() -> Site {
    at(define().await).await
}

async fn at(control: Plane) -> Site {
    let site = Site::on(control, "apps").await;
    deploys(&site, "1");
    site
}

/// A control plane with the definitions, which are the whole cluster's; all share it that serve only their own namespace.
pub async fn defined() -> Plane {
    static DEFINED: OnceCell<Plane> = OnceCell::const_new();
    DEFINED.get_or_init(define).await.clone()
}

async fn define() -> Plane {
    let site = Site::on(Plane::own(Options::default()), "definitions").await;
    // Without the definitions it says how to get them.
    let ran = site.run(&["serve"]);
    assert!(ran.code() != 0 && ran.err.contains("tidegate crds"), "{ran:?}");
    put_definitions(&site);
    site.control
}

/// Gives a control plane the definitions, as its people would.
pub fn put_definitions(site: &Site) {
    let definitions = site.run(&["crds"]).expect_code(0).out;
    site.write("crds/crds.yaml", definitions);
    site.run(&["sync", "crds", "--app", &site.app("crds"), "--wait", "healthy"]).expect_code(0);
}

/// What the repository holds: a migration, and a setting.
pub fn deploys(site: &Site, version: &str) {
    deploys_in(site, version, "3s");
}

/// The same, with a migration that ends when the test says so (`ends`). On a busy server a status is written every few seconds:
/// whatever is to be seen before its end is seen.
pub fn deploys_when_told(site: &Site, version: &str) {
    deploys_in(site, version, "2h");
}

fn deploys_in(site: &Site, version: &str, takes: &str) {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "migrate", "annotations": {
            "argocd.argoproj.io/hook": "PreSync",
            "sim.tidegate.dev/ready-after": takes,
        }},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/migrate:1"}],
        }}},
    });
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"version": version},
    });
    site.write("repo/shop/migrate.yaml", job.to_string());
    site.write("repo/shop/settings.yaml", settings.to_string());
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

pub fn path(site: &Site) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applications", site.namespace)
}

pub async fn create(site: &Site) {
    create_of(site, &site.path().join("repo").display().to_string()).await;
}

async fn create_of(site: &Site, repository: &str) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
            "source": {"repoURL": repository, "path": "shop", "targetRevision": "main"},
            "syncPolicy": {"automated": {"prune": true}},
        },
    });
    site.observer().post(&path(site), &application).await.unwrap();
}

pub fn serve(site: &Site) -> Running {
    let namespace = &site.namespace;
    let mut serving = site.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    serving.await_line("serving");
    serving
}

/// Waits until the resource itself says so.
pub async fn until(site: &Site, wish: impl Fn(&Value) -> bool) -> Value {
    until_of(site, "shop", wish).await
}

/// The same of another application.
pub async fn until_of(site: &Site, name: &str, wish: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{}/{name}", path(site));
    site.observer().until(&path, |app| app.is_some_and(&wish)).await.unwrap()
}

/// Its operation has begun: it has written something.
pub fn is_at_work(app: &Value) -> bool {
    let state = &app["status"]["operationState"];
    state["phase"] == "Running" && !state["syncResult"]["resources"].is_null()
}

pub fn is_done(app: &Value) -> bool {
    let status = &app["status"];
    status["sync"]["status"] == "Synced"
        && status["health"]["status"] == "Healthy"
        && status["operationState"]["phase"] == "Succeeded"
        && app.get("operation").is_none()
}

pub async fn an_application_is_synced_and_its_status_is_read_by_everybody() {
    let site = site().await;
    let serving = serve(&site);
    create(&site).await;
    let app = until(&site, is_done).await;
    let revision = app["status"]["sync"]["revision"].clone();
    assert_eq!(app["status"]["history"][0]["revision"], revision);
    assert_eq!(app["status"]["operationState"]["operation"]["initiatedBy"]["automated"], true);
    let resources: Vec<_> =
        app["status"]["resources"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert!(resources.contains(&&json!("ConfigMap")), "{resources:?}");
    assert_eq!(site.creations("Job", "migrate").await, 1);
    // `kubectl describe` tells of it.
    let events = format!("/api/v1/namespaces/{}/events", site.namespace);
    let of = |list: &Value, reason: &str| {
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let of_it =
            |one: &Value| one["involvedObject"]["uid"] == app["metadata"]["uid"] && one["reason"] == reason;
        all.iter().filter(|one| of_it(one)).count()
    };
    let told = site
        .observer()
        .until(&events, |list| list.is_some_and(|list| of(list, "OperationCompleted") > 0))
        .await;
    let told = told.unwrap();
    assert_eq!((of(&told, "OperationStarted"), of(&told, "OperationCompleted")), (1, 1), "{told}");
    // Whoever asks for an operation or a look writes it into the resource.
    let path = format!("{}/shop", path(&site));
    let asked =
        json!({"operation": {"initiatedBy": {"username": "jane"}, "sync": {"syncStrategy": {"hook": {}}}}});
    site.observer().patch(&path, &asked).await.unwrap();
    let by_jane =
        |app: &Value| app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == "jane";
    until(&site, |app| is_done(app) && by_jane(app)).await;
    assert_eq!(site.creations("Job", "migrate").await, 2, "once for each operation");
    deploys(&site, "2");
    site.observer()
        .patch(&path, &json!({"metadata": {"annotations": {ANNOTATION: "normal"}}}))
        .await
        .unwrap();
    let app = until(&site, |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert_eq!(app["metadata"]["annotations"].get(ANNOTATION), None, "it is answered");
    let settings = site.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    // A field that is not known here is told, and stays.
    site.observer().patch(&path, &json!({"spec": {"colour": "green"}})).await.unwrap();
    let told = |app: &Value| app["status"]["conditions"].to_string().contains("colour");
    assert_eq!(until(&site, told).await["spec"]["colour"], "green");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

pub async fn a_killed_service_goes_on_from_what_the_resource_says() {
    let site = site().await;
    deploys_when_told(&site, "2");
    create(&site).await;
    let serving = serve(&site);
    until(&site, is_at_work).await;
    serving.signal("KILL");
    serving.finish();
    let serving = serve(&site);
    ends(&site, "migrate").await;
    until(&site, is_done).await;
    site.assert_created_once("Job", "migrate", "killed").await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// Hooks of the deletion, and two waves.
fn deploys_what_goes(site: &Site) {
    let object = |kind: &str, name: &str, annotations: Value| {
        let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations},
        });
        if kind == "Job" {
            let pod =
                json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:1"}]});
            object["spec"] = json!({"template": {"spec": pod}});
        }
        site.write(&format!("repo/shop/{name}.yaml"), object.to_string());
    };
    object("ConfigMap", "later", json!({"argocd.argoproj.io/sync-wave": "1"}));
    object("ConfigMap", "kept", json!({"argocd.argoproj.io/sync-options": "Delete=false"}));
    // It ends when the test says so: whatever is to be seen before is seen, on a slow machine too.
    object(
        "Job",
        "drain",
        json!({"argocd.argoproj.io/hook": "PreDelete", "sim.tidegate.dev/ready-after": "1h"}),
    );
    object("Job", "report", json!({"argocd.argoproj.io/hook": "PostDelete"}));
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

/// A Job has done its work.
pub async fn ends(site: &Site, job: &str) {
    let pods = format!("/api/v1/namespaces/{}/pods", site.namespace);
    let of_job = format!("{pods}?labelSelector=job-name%3D{job}");
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let listed = |found: &Value| found["items"].as_array().and_then(|all| all.first().cloned());
    let wish = |found: Option<&Value>| found.and_then(listed).is_some_and(|pod| is_running(&pod));
    let found = site.observer().until(&of_job, wish).await.unwrap();
    let name = listed(&found).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let done = json!({"status": {"phase": "Succeeded"}});
    site.observer().patch(&format!("{pods}/{name}/status"), &done).await.unwrap();
}

/// What was made and deleted, each when that was asked for first, by the audit log of the server. The migration that a sync has
/// left goes with its wave, before or after the others of that.
async fn done(site: &Site) -> Vec<String> {
    let asked = site.audit().await.of(User::ENGINE).only(|event| {
        let known = ["ConfigMap", "Job"].contains(&event.kind.as_str()) && event.name != "migrate";
        // A process that is killed may not have heard what was done.
        let is_done =
            event.succeeded() && (event.verb == "delete" || event.code == 201) || event.is_cut_off();
        known && event.is_write() && !event.dry_run && is_done
    });
    let word = |verb: &str| if verb == "delete" { "delete" } else { "create" };
    let mut seen = BTreeSet::new();
    let words = asked.0.iter().map(|event| format!("{} {}", word(&event.verb), event.name));
    words.filter(|words| seen.insert(words.clone())).collect()
}

/// The hooks, for which nobody has to write a finalizer, and nothing else without one; with one, hooks and waves in reverse,
/// over a kill in the middle.
pub async fn an_application_goes_with_what_its_finalizers_say() {
    let mut site = site().await;
    deploys_what_goes(&site);
    let path = format!("{}/shop", path(&site));
    let serving = serve(&site);
    create(&site).await;
    until(&site, is_done).await;
    site.look_from_now();
    let own: Vec<String> = ["pre-delete", "post-delete"]
        .into_iter()
        .flat_map(|when| ["", "/cleanup"].map(|stage| format!("{when}-finalizer.argocd.argoproj.io{stage}")))
        .collect();
    assert_eq!(site.observer().get(&path).await.unwrap()["metadata"]["finalizers"], json!(own));
    site.observer().delete(&path, &Value::Null).await.unwrap();
    ends(&site, "drain").await;
    site.observer().until(&path, |app| app.is_none()).await;
    assert_eq!(done(&site).await, ["create drain", "create report"]);
    for job in ["drain", "report"] {
        let job = format!("/apis/batch/v1/namespaces/{}/jobs/{job}", site.namespace);
        site.observer().delete(&job, &json!({"propagationPolicy": "Background"})).await.unwrap();
        site.observer().until(&job, |job| job.is_none()).await;
    }
    create(&site).await;
    // Its objects had stayed, so that there is nothing to sync.
    let is_well = |app: &Value| {
        app["status"]["sync"]["status"] == "Synced" && app["status"]["health"]["status"] == "Healthy"
    };
    until(&site, is_well).await;
    site.look_from_now();
    let finalizers = json!(["example.com/other", "resources-finalizer.argocd.argoproj.io"]);
    site.observer().patch(&path, &json!({"metadata": {"finalizers": finalizers}})).await.unwrap();
    site.observer().delete(&path, &Value::Null).await.unwrap();
    until(&site, |app| {
        let state = &app["status"]["operationState"];
        state["operation"]["info"].to_string().contains("tidegate.dev/deletion")
            && state["message"].as_str().is_some_and(|message| message.contains("drain"))
    })
    .await;
    serving.signal("KILL");
    serving.finish();
    let serving = serve(&site);
    ends(&site, "drain").await;
    // What keeps it then is somebody else's.
    until(&site, |app| app["metadata"]["finalizers"] == json!(["example.com/other"])).await;
    site.observer().patch(&path, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    site.observer().until(&path, |app| app.is_none()).await;
    assert_eq!(
        done(&site).await,
        ["create drain", "delete later", "delete settings", "create report", "delete drain"]
    );
    assert!(site.object("/api/v1", "configmaps", "kept").await.is_some());
    assert!(site.object("/api/v1", "configmaps", "settings").await.is_none());
    assert!(
        site.object("/apis/batch/v1", "jobs", "migrate").await.is_none(),
        "a hook that a sync has left goes too"
    );
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// Whoever may write an operation may not delete an application with it, nor take over the operation of another.
pub async fn an_operation_says_of_itself_only_what_anybody_may_say() {
    let mut site = site().await;
    deploys_what_goes(&site);
    let path = format!("{}/shop", path(&site));
    let serving = serve(&site);
    create(&site).await;
    let app = until(&site, is_done).await;
    let info = &app["status"]["operationState"]["operation"]["info"];
    let first = info[0].clone();
    assert_eq!(first["name"], "tidegate.dev/operation-id");
    site.look_from_now();
    let deletes = json!({"name": "tidegate.dev/deletion", "value": "foreground"});
    let forged = json!({
        "initiatedBy": {"username": "mallory"}, "sync": {"syncStrategy": {"apply": {}}}, "info": [first, deletes],
    });
    site.observer().patch(&path, &json!({"operation": forged})).await.unwrap();
    let by_mallory =
        |app: &Value| app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == "mallory";
    let app = until(&site, |app| is_done(app) && by_mallory(app)).await;
    let info = &app["status"]["operationState"]["operation"]["info"];
    assert!(info[0]["name"] == first["name"] && info[0] != first, "it is one of its own: {info}");
    assert!(!info.to_string().contains("tidegate.dev/deletion"), "{info}");
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 2);
    assert_eq!(done(&site).await, Vec::<String>::new(), "nothing is deleted");
    // Nor while nobody looks.
    serving.signal("TERM");
    serving.finish().expect_code(0);
    let forged = json!({"sync": {}, "info": [first, deletes]});
    site.observer().patch(&path, &json!({"operation": forged})).await.unwrap();
    let serving = serve(&site);
    let says =
        |app: &Value| app["status"]["operationState"]["message"].to_string().contains("not being deleted");
    until(&site, |app| says(app) && app.get("operation").is_none()).await;
    assert_eq!(done(&site).await, Vec::<String>::new());
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// A Secret that comes, changes and goes: what it says counts at once.
pub async fn a_repository_is_opened_by_a_secret_of_the_cluster() {
    if !git::is_there() {
        return;
    }
    let site = site().await;
    let server = GitServer::start(site.path());
    // `me:hunter2`.
    server.behave(Manners { authorization: Some("Basic bWU6aHVudGVyMg==".into()), ..Manners::default() });
    let namespace = site.namespace.clone();
    let here = ["--project-namespace", &namespace, "--secrets-namespace", &namespace];
    let mut serving = site.start(&[&["serve", "--app-namespace", &namespace, "-vv"][..], &here].concat());
    serving.await_line("serving");
    create_of(&site, &server.url("repo")).await;
    let says = |app: &Value, part: &str| app["status"]["conditions"].to_string().contains(part);
    until(&site, |app| says(app, "asks for credentials")).await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "given", "labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
        "stringData": {"url": server.url(""), "username": "me", "password": "hunter3"},
    });
    site.observer().post(&secrets, &secret).await.unwrap();
    until(&site, |app| says(app, "does not accept the credentials of Secret")).await;
    let right = json!({"stringData": {"password": "hunter2"}});
    site.observer().patch(&format!("{secrets}/given"), &right).await.unwrap();
    until(&site, is_done).await;
    let without = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": null}}});
    site.observer().patch(&format!("{secrets}/given"), &without).await.unwrap();
    let app = until(&site, |app| says(app, "asks for credentials")).await;
    assert!(!app.to_string().contains("hunter"), "{app}");
    serving.signal("TERM");
    let told = serving.finish().expect_code(0);
    assert!(!told.err.contains("hunter"), "{}", told.err);
}
