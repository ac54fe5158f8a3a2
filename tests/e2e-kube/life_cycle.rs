//! An Application from the first `kubectl apply` to the last `kubectl delete`, as seen by its users and the
//! audit log.

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::applications::{self, complete_job, is_done, serve};
use crate::kube_bench::KubeBench;
use crate::kubectl;

const NAME: &str = "life";

fn application(bench: &KubeBench, sync_policy: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": NAME, "namespace": bench.namespace,
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        },
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(),
                "path": "life", "targetRevision": "main",
            },
            "syncPolicy": sync_policy,
        },
    })
}

fn write_object(bench: &KubeBench, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    bench.write(&format!("repo/life/{name}.json"), object.to_string());
}

fn config_map(bench: &KubeBench, name: &str, wave: &str, version: &str) {
    write_object(
        bench,
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
            "data": {"version": version},
        }),
    );
}

/// Writes a migration that runs first.
fn migration(bench: &KubeBench, takes: &str) {
    write_object(
        bench,
        &json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "migrate", "annotations": {
                "argocd.argoproj.io/hook": "PreSync", "sim.tidegate.dev/ready-after": takes,
            }},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/migrate:1"}],
            }}},
        }),
    );
}

/// Writes an object of the first wave, which becomes ready on command.
fn write_store(bench: &KubeBench) {
    write_object(
        bench,
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "store", "annotations": {"sim.tidegate.dev/ready-after": "1h"}},
            "spec": {
                "selector": {"matchLabels": {"app": "store"}},
                "template": {
                    "metadata": {"labels": {"app": "store"}},
                    "spec": {"containers": [{"name": "a", "image": "example.com/store:1"}]},
                },
            },
        }),
    );
}

/// Pushes a commit, and refreshes the repository.
fn push(bench: &KubeBench) {
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    bench.run(&["app", "refresh", NAME]).expect_code(0);
}

async fn wait_until(bench: &KubeBench, request: impl Fn(&Value) -> bool) -> Value {
    applications::wait_for_application(bench, NAME, request).await
}

fn is_waiting_for(app: &Value, part: &str) -> bool {
    let state = &app["status"]["operationState"];
    state["phase"] == "Running" && state["message"].as_str().is_some_and(|message| message.contains(part))
}

/// Makes the pod of the store ready.
async fn make_store_ready(bench: &KubeBench) {
    let pods = format!("/api/v1/namespaces/{}/pods", bench.namespace);
    let is_begun = |list: &Value| list["items"][0]["status"]["containerStatuses"].is_array();
    let of_store = format!("{pods}?labelSelector=app%3Dstore");
    let found = bench.observer().wait_until(&of_store, |list| list.is_some_and(is_begun)).await.unwrap();
    let name = found["items"][0]["metadata"]["name"].as_str().unwrap();
    let is_ready = json!([{"type": "Ready", "status": "True"}]);
    let ready = json!({"status": {"phase": "Running", "conditions": is_ready}});
    bench.observer().patch(&format!("{pods}/{name}/status"), &ready).await.unwrap();
}

/// Returns the creations, deletions and changes since the last call, in the order of the server's responses.
/// The removal of a finished hook's finalizer does not count as a change.
async fn changes_in_order(bench: &KubeBench) -> Vec<String> {
    let writes = bench.audit().await.by_user(User::ENGINE).successful_writes();
    let known = writes.filter(|event| ["ConfigMap", "Deployment", "Job"].contains(&event.kind.as_str()));
    let word = |verb: &str, code: u16| match (verb, code) {
        ("delete", _) => "delete",
        (_, 201) => "create",
        _ => "change",
    };
    let steps = known.0.iter().map(|event| format!("{} {}", word(&event.verb, event.code), event.name));
    steps.filter(|step| step != "change migrate").collect()
}

async fn version(bench: &KubeBench) -> Value {
    bench.object("/api/v1", "configmaps", "settings").await.unwrap()["data"]["version"].clone()
}

/// Checks that one entry comes before the other.
#[track_caller]
fn assert_order(done: &[String], first: &str, then: &str) {
    let place =
        |step: &str| done.iter().position(|one| one == step).unwrap_or_else(|| panic!("{step}: {done:?}"));
    assert!(place(first) < place(then), "{first} before {then}: {done:?}");
}

/// Checks that no object of the second wave exists before the first wave is healthy, and that no object
/// exists before the migration has ended.
async fn check_creation_order(bench: &KubeBench) -> Value {
    kubectl::apply(bench, &application(bench, &json!({"automated": {"prune": true, "selfHeal": true}})))
        .await;
    wait_until(bench, |app| is_waiting_for(app, "migrate")).await;
    assert_eq!(changes_in_order(bench).await, ["create migrate"]);
    complete_job(bench, "migrate").await;
    wait_until(bench, |app| is_waiting_for(app, "store")).await;
    let mut made = changes_in_order(bench).await;
    made[1..].sort();
    assert_eq!(made, ["create migrate", "create settings", "create store"]);
    make_store_ready(bench).await;
    let app = wait_until(bench, is_done).await;
    let mut made = changes_in_order(bench).await;
    made[1..3].sort();
    made[3..].sort();
    assert_eq!(made, ["create migrate", "create settings", "create store", "create banner", "create web"]);
    assert_eq!(app["status"]["operationState"]["operation"]["initiatedBy"]["automated"], true);
    app
}

/// Checks that a manual change of the cluster is reverted, without other writes or hooks.
async fn check_self_heal(bench: &mut KubeBench) {
    bench.reset_audit();
    let settings = format!("/api/v1/namespaces/{}/configmaps/settings", bench.namespace);
    bench.observer().patch(&settings, &json!({"data": {"version": "broken"}})).await.unwrap();
    let is_back = |found: Option<&Value>| found.is_some_and(|found| found["data"]["version"] == "2");
    bench.observer().wait_until(&settings, is_back).await;
    let healed = |app: &Value| {
        is_done(app) && app["status"]["operationState"]["operation"]["sync"]["resources"].is_array()
    };
    wait_until(bench, healed).await;
    assert_eq!(changes_in_order(bench).await, ["change settings"]);
}

/// Checks that a manual rollback to the first revision is rejected while the application is automated, and
/// that it persists otherwise.
async fn check_rollback(bench: &mut KubeBench, first: &Value) {
    let refused = bench.run(&["app", "rollback", NAME]).expect_code(4);
    assert!(refused.err.contains("auto-sync"), "{}", refused.err);
    kubectl::apply(bench, &application(bench, &json!({}))).await;
    let shown = || bench.json(&["app", "get", NAME, "-o", "json"]);
    let is_seen = (0..3000).any(|_| shown()["spec"]["syncPolicy"].get("automated").is_none());
    assert!(is_seen, "{}", shown());
    bench.reset_audit();
    let id = first["status"]["history"][0]["id"].to_string();
    bench.run(&["app", "rollback", NAME, &id]).expect_code(0);
    let mut made = changes_in_order(bench).await;
    made.sort();
    // The migration is a hook, and the other objects are unchanged.
    assert!(
        made.contains(&"create banner".to_owned()) && made.contains(&"change settings".to_owned()),
        "{made:?}"
    );
    assert!(!made.iter().any(|step| step.contains("migrate") || step.starts_with("delete")), "{made:?}");
    let revision = &first["status"]["sync"]["revision"];
    let is_back = |app: &Value| {
        let history = app["status"]["history"].as_array();
        history.and_then(|all| all.last()).is_some_and(|last| last["revision"] == *revision)
            && app["status"]["sync"]["status"] == "OutOfSync"
            && app.get("operation").is_none()
    };
    wait_until(bench, is_back).await;
    bench.reset_audit();
    let refresh = "argocd.argoproj.io/refresh";
    kubectl::annotate_or_label(bench, "annotate", (&bench.namespace, NAME), &format!("{refresh}=normal"))
        .await;
    wait_until(bench, |app| is_back(app) && app["metadata"]["annotations"].get(refresh).is_none()).await;
    assert_eq!((changes_in_order(bench).await, version(bench).await), (Vec::new(), json!("1")));
}

/// Checks that objects are deleted in reverse order, followed by the application itself.
async fn check_deletion(bench: &mut KubeBench) {
    bench.reset_audit();
    kubectl::delete(bench, &bench.namespace, NAME).await;
    let gone = changes_in_order(bench).await;
    for (later, earlier) in
        [("web", "settings"), ("web", "store"), ("banner", "settings"), ("banner", "store")]
    {
        assert_order(&gone, &format!("delete {later}"), &format!("delete {earlier}"));
    }
    let list = |api: &str, plural: &str| format!("{api}/namespaces/{}/{plural}", bench.namespace);
    for (api, plural) in
        [("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"), ("/apis/batch/v1", "jobs")]
    {
        let left = bench.observer().get(&list(api, plural)).await.unwrap();
        assert_eq!(left["items"], json!([]), "{plural}");
    }
    // Objects created by controllers are deleted after their owner.
    for (api, plural) in [("/apis/apps/v1", "replicasets"), ("/api/v1", "pods")] {
        let is_empty = |found: Option<&Value>| found.is_some_and(|found| found["items"] == json!([]));
        bench.observer().wait_until(&list(api, plural), is_empty).await;
    }
    let is_forgotten = (0..3000).any(|_| bench.run(&["app", "get", NAME]).code() == 2);
    assert!(is_forgotten, "it is still managed");
}

pub async fn an_application_works_from_creation_to_deletion() {
    let mut bench = applications::bench_with_crds().await;
    migration(&bench, "1h");
    config_map(&bench, "settings", "0", "1");
    write_store(&bench);
    config_map(&bench, "web", "1", "1");
    config_map(&bench, "banner", "1", "1");
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    let service = serve(&bench);
    bench.reset_audit();
    let first = check_creation_order(&bench).await;
    let revision = first["status"]["sync"]["revision"].clone();

    // After a push, the migration runs again, and differing objects are updated.
    bench.reset_audit();
    migration(&bench, "100ms");
    config_map(&bench, "settings", "0", "2");
    push(&bench);
    let second =
        wait_until(&bench, |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert_eq!(second["status"]["history"].as_array().unwrap().len(), 2);
    let changed = changes_in_order(&bench).await;
    assert_order(&changed, "create migrate", "change settings");
    assert_eq!(version(&bench).await, "2");

    check_self_heal(&mut bench).await;

    // A commit removes an object.
    bench.reset_audit();
    let revision = second["status"]["sync"]["revision"].clone();
    std::fs::remove_file(bench.path().join("repo/life/banner.json")).unwrap();
    push(&bench);
    wait_until(&bench, |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert!(bench.object("/api/v1", "configmaps", "banner").await.is_none());
    let deleted: Vec<_> =
        changes_in_order(&bench).await.into_iter().filter(|step| step.starts_with("delete")).collect();
    assert_eq!(
        deleted,
        ["delete migrate", "delete banner"],
        "the migration of the sync before, and what was taken away"
    );

    check_rollback(&mut bench, &first).await;
    check_deletion(&mut bench).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}
