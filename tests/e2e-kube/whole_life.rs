//! An Application from the first `kubectl apply` to the last `kubectl delete`, as its people see it and as the audit log has it.

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::applications::{self, ends, is_done, serve};
use crate::kubectl;
use crate::site::Site;

const NAME: &str = "life";

fn application(site: &Site, sync_policy: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": NAME, "namespace": site.namespace,
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        },
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
            "source": {
                "repoURL": site.path().join("repo").display().to_string(),
                "path": "life", "targetRevision": "main",
            },
            "syncPolicy": sync_policy,
        },
    })
}

fn put(site: &Site, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    site.write(&format!("repo/life/{name}.json"), object.to_string());
}

fn config_map(site: &Site, name: &str, wave: &str, version: &str) {
    put(
        site,
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
            "data": {"version": version},
        }),
    );
}

/// A migration before everything.
fn migration(site: &Site, takes: &str) {
    put(
        site,
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

/// In the first wave, ready when the test says so.
fn store(site: &Site) {
    put(
        site,
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

/// Pushes, and has the repository looked at.
fn push(site: &Site) {
    site.run(&["example", "commit", "repo"]).expect_code(0);
    site.run(&["app", "refresh", NAME]).expect_code(0);
}

async fn until(site: &Site, wish: impl Fn(&Value) -> bool) -> Value {
    applications::until_of(site, NAME, wish).await
}

fn waits_for(app: &Value, part: &str) -> bool {
    let state = &app["status"]["operationState"];
    state["phase"] == "Running" && state["message"].as_str().is_some_and(|message| message.contains(part))
}

/// The pod of the store is ready.
async fn becomes_ready(site: &Site) {
    let pods = format!("/api/v1/namespaces/{}/pods", site.namespace);
    let is_begun = |list: &Value| list["items"][0]["status"]["containerStatuses"].is_array();
    let of_store = format!("{pods}?labelSelector=app%3Dstore");
    let found = site.observer().until(&of_store, |list| list.is_some_and(is_begun)).await.unwrap();
    let name = found["items"][0]["metadata"]["name"].as_str().unwrap();
    let is_ready = json!([{"type": "Ready", "status": "True"}]);
    let ready = json!({"status": {"phase": "Running", "conditions": is_ready}});
    site.observer().patch(&format!("{pods}/{name}/status"), &ready).await.unwrap();
}

/// What was made, deleted and changed since the last look, in the order of the server's answers. That a hook is let go when it has
/// ended is no change.
async fn done(site: &Site) -> Vec<String> {
    let writes = site.audit().await.of(User::ENGINE).writes();
    let known = writes.only(|event| ["ConfigMap", "Deployment", "Job"].contains(&event.kind.as_str()));
    let word = |verb: &str, code: u16| match (verb, code) {
        ("delete", _) => "delete",
        (_, 201) => "create",
        _ => "change",
    };
    let steps = known.0.iter().map(|event| format!("{} {}", word(&event.verb, event.code), event.name));
    steps.filter(|step| step != "change migrate").collect()
}

async fn version(site: &Site) -> Value {
    site.object("/api/v1", "configmaps", "settings").await.unwrap()["data"]["version"].clone()
}

/// Fails unless one comes before the other.
#[track_caller]
fn assert_order(done: &[String], first: &str, then: &str) {
    let place =
        |step: &str| done.iter().position(|one| one == step).unwrap_or_else(|| panic!("{step}: {done:?}"));
    assert!(place(first) < place(then), "{first} before {then}: {done:?}");
}

/// Nothing of the second wave before the first is healthy, and nothing at all before the migration has ended.
async fn it_is_made_in_order(site: &Site) -> Value {
    kubectl::apply(site, &application(site, &json!({"automated": {"prune": true, "selfHeal": true}}))).await;
    until(site, |app| waits_for(app, "migrate")).await;
    assert_eq!(done(site).await, ["create migrate"]);
    ends(site, "migrate").await;
    until(site, |app| waits_for(app, "store")).await;
    let mut made = done(site).await;
    made[1..].sort();
    assert_eq!(made, ["create migrate", "create settings", "create store"]);
    becomes_ready(site).await;
    let app = until(site, is_done).await;
    let mut made = done(site).await;
    made[1..3].sort();
    made[3..].sort();
    assert_eq!(made, ["create migrate", "create settings", "create store", "create banner", "create web"]);
    assert_eq!(app["status"]["operationState"]["operation"]["initiatedBy"]["automated"], true);
    app
}

/// Somebody changes what is in the cluster: it is put back, and nothing else is touched, nor a hook run.
async fn what_is_broken_is_put_back(site: &mut Site) {
    site.look_from_now();
    let settings = format!("/api/v1/namespaces/{}/configmaps/settings", site.namespace);
    site.observer().patch(&settings, &json!({"data": {"version": "broken"}})).await.unwrap();
    let is_back = |found: Option<&Value>| found.is_some_and(|found| found["data"]["version"] == "2");
    site.observer().until(&settings, is_back).await;
    let healed = |app: &Value| {
        is_done(app) && app["status"]["operationState"]["operation"]["sync"]["resources"].is_array()
    };
    until(site, healed).await;
    assert_eq!(done(site).await, ["change settings"]);
}

/// Back to the first revision, by hand: refused for as long as it syncs itself, and left so when it no longer does.
async fn it_goes_back(site: &mut Site, first: &Value) {
    let refused = site.run(&["app", "rollback", NAME]).expect_code(4);
    assert!(refused.err.contains("auto-sync"), "{}", refused.err);
    kubectl::apply(site, &application(site, &json!({}))).await;
    let shown = || site.json(&["app", "get", NAME, "-o", "json"]);
    let is_seen = (0..3000).any(|_| shown()["spec"]["syncPolicy"].get("automated").is_none());
    assert!(is_seen, "{}", shown());
    site.look_from_now();
    let id = first["status"]["history"][0]["id"].to_string();
    site.run(&["app", "rollback", NAME, &id]).expect_code(0);
    let mut made = done(site).await;
    made.sort();
    // The migration is a hook, and the rest is as it was.
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
    until(site, is_back).await;
    site.look_from_now();
    let refresh = "argocd.argoproj.io/refresh";
    kubectl::mark(site, "annotate", (&site.namespace, NAME), &format!("{refresh}=normal")).await;
    until(site, |app| is_back(app) && app["metadata"]["annotations"].get(refresh).is_none()).await;
    assert_eq!((done(site).await, version(site).await), (Vec::new(), json!("1")));
}

/// In reverse, and then it is gone itself.
async fn it_goes_with_everything(site: &mut Site) {
    site.look_from_now();
    kubectl::delete(site, &site.namespace, NAME).await;
    let gone = done(site).await;
    for (later, earlier) in
        [("web", "settings"), ("web", "store"), ("banner", "settings"), ("banner", "store")]
    {
        assert_order(&gone, &format!("delete {later}"), &format!("delete {earlier}"));
    }
    let list = |api: &str, plural: &str| format!("{api}/namespaces/{}/{plural}", site.namespace);
    for (api, plural) in
        [("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"), ("/apis/batch/v1", "jobs")]
    {
        let left = site.observer().get(&list(api, plural)).await.unwrap();
        assert_eq!(left["items"], json!([]), "{plural}");
    }
    // What controllers have made goes after its owner.
    for (api, plural) in [("/apis/apps/v1", "replicasets"), ("/api/v1", "pods")] {
        let is_empty = |found: Option<&Value>| found.is_some_and(|found| found["items"] == json!([]));
        site.observer().until(&list(api, plural), is_empty).await;
    }
    let is_forgotten = (0..3000).any(|_| site.run(&["app", "get", NAME]).code() == 2);
    assert!(is_forgotten, "it is still served");
}

pub async fn an_application_from_its_first_day_to_its_last() {
    let mut site = applications::site().await;
    migration(&site, "1h");
    config_map(&site, "settings", "0", "1");
    store(&site);
    config_map(&site, "web", "1", "1");
    config_map(&site, "banner", "1", "1");
    site.run(&["example", "commit", "repo"]).expect_code(0);
    let serving = serve(&site);
    site.look_from_now();
    let first = it_is_made_in_order(&site).await;
    let revision = first["status"]["sync"]["revision"].clone();

    // A push: the migration runs again, and what differs is changed.
    site.look_from_now();
    migration(&site, "100ms");
    config_map(&site, "settings", "0", "2");
    push(&site);
    let second = until(&site, |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert_eq!(second["status"]["history"].as_array().unwrap().len(), 2);
    let changed = done(&site).await;
    assert_order(&changed, "create migrate", "change settings");
    assert_eq!(version(&site).await, "2");

    what_is_broken_is_put_back(&mut site).await;

    // A commit takes one away.
    site.look_from_now();
    let revision = second["status"]["sync"]["revision"].clone();
    std::fs::remove_file(site.path().join("repo/life/banner.json")).unwrap();
    push(&site);
    until(&site, |app| is_done(app) && app["status"]["sync"]["revision"] != revision).await;
    assert!(site.object("/api/v1", "configmaps", "banner").await.is_none());
    let deleted: Vec<_> = done(&site).await.into_iter().filter(|step| step.starts_with("delete")).collect();
    assert_eq!(
        deleted,
        ["delete migrate", "delete banner"],
        "the migration of the sync before, and what was taken away"
    );

    it_goes_back(&mut site, &first).await;
    it_goes_with_everything(&mut site).await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
