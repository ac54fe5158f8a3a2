//! Applications as custom resources, managed by the controller, and read and written as `kubectl` does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_testkit::git::{self, GitServer, ServerBehavior};
use tidegate_testkit::kube::{Options, User};
use tokio::sync::OnceCell;

use crate::bench::Running;
use crate::kube_bench::{KubeBench, Plane};

const ANNOTATION: &str = "argocd.argoproj.io/refresh";

/// Returns a test environment with its own namespace, a repository, and the CRDs. Other tests share the
/// control plane.
pub async fn bench_with_crds() -> KubeBench {
    bench_on_plane(plane_with_crds().await).await
}

/// Returns a test environment with its own control plane, which doesn't have any other Applications.
pub async fn bench_on_own_plane() -> KubeBench {
    bench_on_plane(start_plane_with_crds().await).await
}

async fn bench_on_plane(control: Plane) -> KubeBench {
    let bench = KubeBench::on_plane(control, "apps").await;
    commit_version(&bench, "1");
    bench
}

/// Returns the shared control plane with the CRDs, which are cluster-scoped. It is shared by tests that
/// manage only their own namespace.
pub async fn plane_with_crds() -> Plane {
    static PLANE_WITH_CRDS: OnceCell<Plane> = OnceCell::const_new();
    PLANE_WITH_CRDS.get_or_init(start_plane_with_crds).await.clone()
}

async fn start_plane_with_crds() -> Plane {
    let bench = KubeBench::on_plane(Plane::own(Options::default()), "definitions").await;
    // Without the CRDs, the error contains the command that prints them.
    let ran = bench.run(&["serve"]);
    assert!(ran.code() != 0 && ran.err.contains("tidegate crds"), "{ran:?}");
    install_crds(&bench);
    bench.control
}

/// Installs the CRDs in a control plane with the commands a user would run.
pub fn install_crds(bench: &KubeBench) {
    let definitions = bench.run(&["crds"]).expect_code(0).out;
    bench.write("crds/crds.yaml", definitions);
    bench.run(&["sync", "crds", "--app", &bench.app("crds"), "--wait", "healthy"]).expect_code(0);
}

/// Commits a migration hook and a ConfigMap to the repository.
pub fn commit_version(bench: &KubeBench, version: &str) {
    commit_version_taking(bench, version, "3s");
}

/// Commits a migration that ends only when the test calls [`ends`]. A busy server writes the status only
/// every few seconds, so a shorter migration could end before the test has observed it.
pub fn commit_waiting_version(bench: &KubeBench, version: &str) {
    commit_version_taking(bench, version, "2h");
}

fn commit_version_taking(bench: &KubeBench, version: &str, takes: &str) {
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
    bench.write("repo/shop/migrate.yaml", job.to_string());
    bench.write("repo/shop/settings.yaml", settings.to_string());
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

pub fn path(bench: &KubeBench) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applications", bench.namespace)
}

pub async fn create(bench: &KubeBench) {
    create_with_repository(bench, &bench.path().join("repo").display().to_string()).await;
}

async fn create_with_repository(bench: &KubeBench, repository: &str) {
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {"repoURL": repository, "path": "shop", "targetRevision": "main"},
            "syncPolicy": {"automated": {"prune": true}},
        },
    });
    bench.observer().post(&path(bench), &application).await.unwrap();
}

pub fn serve(bench: &KubeBench) -> Running {
    let namespace = &bench.namespace;
    let mut service = bench.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    service.wait_for_line("managing");
    service
}

/// Waits until the Application `shop` satisfies a condition.
pub async fn wait_until(bench: &KubeBench, request: impl Fn(&Value) -> bool) -> Value {
    wait_for_application(bench, "shop", request).await
}

/// Waits until the Application with this name satisfies a condition.
pub async fn wait_for_application(bench: &KubeBench, name: &str, request: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{}/{name}", path(bench));
    bench.observer().wait_until(&path, |app| app.is_some_and(&request)).await.unwrap()
}

/// Returns true if the operation is running and has written an object.
pub fn is_running(app: &Value) -> bool {
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

pub async fn an_application_is_synced_and_any_user_reads_its_status() {
    let bench = bench_with_crds().await;
    let service = serve(&bench);
    create(&bench).await;
    let app = wait_until(&bench, is_done).await;
    let revision = app["status"]["sync"]["revision"].clone();
    assert_eq!(app["status"]["history"][0]["revision"], revision);
    assert_eq!(app["status"]["operationState"]["operation"]["initiatedBy"]["automated"], true);
    let resources: Vec<_> =
        app["status"]["resources"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert!(resources.contains(&&json!("ConfigMap")), "{resources:?}");
    assert_eq!(bench.creations("Job", "migrate").await, 1);
    // `kubectl describe` shows these events.
    let events = format!("/api/v1/namespaces/{}/events", bench.namespace);
    let of = |list: &Value, reason: &str| {
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let of_it =
            |one: &Value| one["involvedObject"]["uid"] == app["metadata"]["uid"] && one["reason"] == reason;
        all.iter().filter(|one| of_it(one)).count()
    };
    let told = bench
        .observer()
        .wait_until(&events, |list| list.is_some_and(|list| of(list, "OperationCompleted") > 0))
        .await;
    let told = told.unwrap();
    assert_eq!((of(&told, "OperationStarted"), of(&told, "OperationCompleted")), (1, 1), "{told}");
    // Operations and refreshes are requested by writing to the resource.
    let path = format!("{}/shop", path(&bench));
    let request =
        json!({"operation": {"initiatedBy": {"username": "jane"}, "sync": {"syncStrategy": {"hook": {}}}}});
    bench.observer().patch(&path, &request).await.unwrap();
    let by_jane =
        |app: &Value| app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == "jane";
    wait_until(&bench, |app| is_done(app) && by_jane(app)).await;
    assert_eq!(bench.creations("Job", "migrate").await, 2, "once for each operation");
    commit_version(&bench, "2");
    bench
        .observer()
        .patch(&path, &json!({"metadata": {"annotations": {ANNOTATION: "normal"}}}))
        .await
        .unwrap();
    let app = wait_until(&bench, |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert_eq!(app["metadata"]["annotations"].get(ANNOTATION), None, "it responds");
    let settings = bench.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    // An unknown field is reported as a condition and preserved.
    bench.observer().patch(&path, &json!({"spec": {"colour": "green"}})).await.unwrap();
    let told = |app: &Value| app["status"]["conditions"].to_string().contains("colour");
    assert_eq!(wait_until(&bench, told).await["spec"]["colour"], "green");
    service.signal("TERM");
    service.finish().expect_code(0);
}

pub async fn a_killed_service_continues_from_the_resource() {
    let bench = bench_with_crds().await;
    commit_waiting_version(&bench, "2");
    create(&bench).await;
    let service = serve(&bench);
    wait_until(&bench, is_running).await;
    service.signal("KILL");
    service.finish();
    let service = serve(&bench);
    complete_job(&bench, "migrate").await;
    wait_until(&bench, is_done).await;
    bench.assert_created_once("Job", "migrate", "killed").await;
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// Commits deletion hooks and objects of two waves.
fn commit_deletion_hooks(bench: &KubeBench) {
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
        bench.write(&format!("repo/shop/{name}.yaml"), object.to_string());
    };
    object("ConfigMap", "later", json!({"argocd.argoproj.io/sync-wave": "1"}));
    object("ConfigMap", "kept", json!({"argocd.argoproj.io/sync-options": "Delete=false"}));
    // The hook ends only when the test calls `ends`, so that a slow machine cannot miss the state before.
    object(
        "Job",
        "drain",
        json!({"argocd.argoproj.io/hook": "PreDelete", "sim.tidegate.dev/ready-after": "1h"}),
    );
    object("Job", "report", json!({"argocd.argoproj.io/hook": "PostDelete"}));
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

/// Completes a Job by setting the phase of its pod to `Succeeded`.
pub async fn complete_job(bench: &KubeBench, job: &str) {
    let pods = format!("/api/v1/namespaces/{}/pods", bench.namespace);
    let of_job = format!("{pods}?labelSelector=job-name%3D{job}");
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let listed = |found: &Value| found["items"].as_array().and_then(|all| all.first().cloned());
    let request = |found: Option<&Value>| found.and_then(listed).is_some_and(|pod| is_running(&pod));
    let found = bench.observer().wait_until(&of_job, request).await.unwrap();
    let name = listed(&found).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let done = json!({"status": {"phase": "Succeeded"}});
    bench.observer().patch(&format!("{pods}/{name}/status"), &done).await.unwrap();
}

/// Returns the objects created and deleted according to the audit log of the server, in the order of the
/// first request for each. Ignores the migration Job of an earlier sync, because its wave deletes the Job and
/// the other objects in any order.
async fn changes_in_order(bench: &KubeBench) -> Vec<String> {
    let audit_events = bench.audit().await.by_user(User::ENGINE).filter(|event| {
        let known = ["ConfigMap", "Job"].contains(&event.kind.as_str()) && event.name != "migrate";
        // A killed process may have missed the response to a successful request.
        let is_done = event.has_succeeded() && (event.verb == "delete" || event.code == 201)
            || event.has_unknown_outcome();
        known && event.is_write() && !event.dry_run && is_done
    });
    let word = |verb: &str| if verb == "delete" { "delete" } else { "create" };
    let mut seen = BTreeSet::new();
    let text = audit_events.0.iter().map(|event| format!("{} {}", word(&event.verb), event.name));
    text.filter(|text| seen.insert(text.clone())).collect()
}

/// Without the resources finalizer, the objects must stay and no hook may run. The controller adds the
/// finalizers for hooks. With the resources finalizer, hooks and reversed waves must run, even if the service
/// is killed in the meantime.
pub async fn finalizers_determine_how_an_application_is_deleted() {
    let mut bench = bench_with_crds().await;
    commit_deletion_hooks(&bench);
    let path = format!("{}/shop", path(&bench));
    let service = serve(&bench);
    create(&bench).await;
    wait_until(&bench, is_done).await;
    bench.reset_audit();
    let own: Vec<String> = ["pre-delete", "post-delete"]
        .into_iter()
        .flat_map(|when| ["", "/cleanup"].map(|stage| format!("{when}-finalizer.argocd.argoproj.io{stage}")))
        .collect();
    assert_eq!(bench.observer().get(&path).await.unwrap()["metadata"]["finalizers"], json!(own));
    bench.observer().delete(&path, &Value::Null).await.unwrap();
    bench.observer().wait_until(&path, |app| app.is_none()).await;
    // The objects stay without the resources finalizer, so no deletion hook may run.
    assert_eq!(changes_in_order(&bench).await, Vec::<String>::new());
    create(&bench).await;
    // The objects still exist, so there is nothing to sync.
    let is_well = |app: &Value| {
        app["status"]["sync"]["status"] == "Synced" && app["status"]["health"]["status"] == "Healthy"
    };
    wait_until(&bench, is_well).await;
    bench.reset_audit();
    let finalizers = json!(["example.com/other", "resources-finalizer.argocd.argoproj.io"]);
    bench.observer().patch(&path, &json!({"metadata": {"finalizers": finalizers}})).await.unwrap();
    bench.observer().delete(&path, &Value::Null).await.unwrap();
    wait_until(&bench, |app| {
        let state = &app["status"]["operationState"];
        state["operation"]["info"].to_string().contains("tidegate.dev/deletion")
            && state["message"].as_str().is_some_and(|message| message.contains("drain"))
    })
    .await;
    service.signal("KILL");
    service.finish();
    let service = serve(&bench);
    complete_job(&bench, "drain").await;
    // The remaining finalizer belongs to another controller.
    wait_until(&bench, |app| app["metadata"]["finalizers"] == json!(["example.com/other"])).await;
    bench.observer().patch(&path, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    bench.observer().wait_until(&path, |app| app.is_none()).await;
    assert_eq!(
        changes_in_order(&bench).await,
        ["create drain", "delete later", "delete settings", "create report", "delete drain"]
    );
    assert!(bench.object("/api/v1", "configmaps", "kept").await.is_some());
    assert!(bench.object("/api/v1", "configmaps", "settings").await.is_none());
    assert!(
        bench.object("/apis/batch/v1", "jobs", "migrate").await.is_none(),
        "hooks left by a sync are deleted too"
    );
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// A user who may write an operation must not be able to use it to delete an Application or to take over
/// another operation.
pub async fn a_written_operation_gives_no_additional_rights() {
    let mut bench = bench_with_crds().await;
    commit_deletion_hooks(&bench);
    let path = format!("{}/shop", path(&bench));
    let service = serve(&bench);
    create(&bench).await;
    let app = wait_until(&bench, is_done).await;
    let info = &app["status"]["operationState"]["operation"]["info"];
    let first = info[0].clone();
    assert_eq!(first["name"], "tidegate.dev/operation-id");
    bench.reset_audit();
    let deletes = json!({"name": "tidegate.dev/deletion", "value": "foreground"});
    let forged = json!({
        "initiatedBy": {"username": "mallory"}, "sync": {"syncStrategy": {"apply": {}}}, "info": [first, deletes],
    });
    bench.observer().patch(&path, &json!({"operation": forged})).await.unwrap();
    let by_mallory =
        |app: &Value| app["status"]["operationState"]["operation"]["initiatedBy"]["username"] == "mallory";
    let app = wait_until(&bench, |app| is_done(app) && by_mallory(app)).await;
    let info = &app["status"]["operationState"]["operation"]["info"];
    assert!(info[0]["name"] == first["name"] && info[0] != first, "it has a separate id: {info}");
    assert!(!info.to_string().contains("tidegate.dev/deletion"), "{info}");
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 2);
    assert_eq!(changes_in_order(&bench).await, Vec::<String>::new(), "nothing is deleted");
    // The same applies to an operation that is written while the service is stopped.
    service.signal("TERM");
    service.finish().expect_code(0);
    let forged = json!({"sync": {}, "info": [first, deletes]});
    bench.observer().patch(&path, &json!({"operation": forged})).await.unwrap();
    let service = serve(&bench);
    let says =
        |app: &Value| app["status"]["operationState"]["message"].to_string().contains("not being deleted");
    wait_until(&bench, |app| says(app) && app.get("operation").is_none()).await;
    assert_eq!(changes_in_order(&bench).await, Vec::<String>::new());
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// The creation, change and deletion of a Secret must take effect immediately.
pub async fn a_secret_of_the_cluster_gives_access_to_a_repository() {
    if !git::is_available() {
        return;
    }
    let bench = bench_with_crds().await;
    let server = GitServer::start(bench.path());
    // Base64 of `me:hunter2`.
    server.set_behavior(ServerBehavior {
        authorization: Some("Basic bWU6aHVudGVyMg==".into()),
        ..ServerBehavior::default()
    });
    let namespace = bench.namespace.clone();
    let here = ["--project-namespace", &namespace, "--secrets-namespace", &namespace];
    let mut service = bench.start(&[&["serve", "--app-namespace", &namespace, "-vv"][..], &here].concat());
    service.wait_for_line("managing");
    create_with_repository(&bench, &server.url("repo")).await;
    let says = |app: &Value, part: &str| app["status"]["conditions"].to_string().contains(part);
    wait_until(&bench, |app| says(app, "requires credentials")).await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "given", "labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
        "stringData": {"url": server.url(""), "username": "me", "password": "hunter3"},
    });
    bench.observer().post(&secrets, &secret).await.unwrap();
    wait_until(&bench, |app| says(app, "does not accept the credentials in Secret")).await;
    let right = json!({"stringData": {"password": "hunter2"}});
    bench.observer().patch(&format!("{secrets}/given"), &right).await.unwrap();
    wait_until(&bench, is_done).await;
    let without = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": null}}});
    bench.observer().patch(&format!("{secrets}/given"), &without).await.unwrap();
    let app = wait_until(&bench, |app| says(app, "requires credentials")).await;
    assert!(!app.to_string().contains("hunter"), "{app}");
    service.signal("TERM");
    let output = service.finish().expect_code(0);
    assert!(!output.err.contains("hunter"), "{}", output.err);
}
