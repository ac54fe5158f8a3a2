//! `tidegate app --kube`: the Applications of a cluster, read and written with no service asked. What comes of it is done by a
//! service that only sees the resources.

use serde_json::{Value, json};
use tidegate_testkit::kube::Options;

use crate::applications::{
    create, deploys, is_done, path, put_definitions, serve, site, site_of_its_own, until,
};
use crate::bench::{Ran, Running};
use crate::site::{Plane, Site};

/// `app …` on the resources of our namespace.
fn direct<'a>(site: &'a Site, words: &[&'a str]) -> Vec<&'a str> {
    let here: &[&str] = &["--kube", "--app-namespace", &site.namespace];
    [&["app"], words, here].concat()
}

fn app(site: &Site, words: &[&str]) -> Ran {
    site.run(&direct(site, words))
}

fn begin(site: &Site, words: &[&str]) -> Running {
    site.start(&direct(site, words))
}

async fn shop(site: &Site) -> Value {
    site.observer().get(&format!("{}/shop", path(site))).await.unwrap()
}

async fn patch(site: &Site, change: &Value) {
    site.observer().patch(&format!("{}/shop", path(site)), change).await.unwrap();
}

/// As the service goes away that has served it.
fn end(serving: Running) {
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// An application that nobody syncs unasked, at its first revision.
async fn synced_when_asked(site: &Site) -> Running {
    let serving = serve(site);
    create(site).await;
    until(site, is_done).await;
    patch(site, &json!({"spec": {"syncPolicy": null}})).await;
    serving
}

/// What a resource is as `kubectl get -o json` prints it.
fn as_printed(mut app: Value) -> Value {
    app["metadata"].as_object_mut().unwrap().remove("managedFields");
    app
}

/// What of it a service and the resource know alike: sync windows are known to the service, which may have looked once more.
fn alike(text: &str) -> Vec<&str> {
    let differs = |line: &str| ["Sync Window:", "Compared:"].iter().any(|label| line.starts_with(label));
    text.lines().filter(|line| !differs(line)).collect()
}

pub async fn the_resources_are_shown_as_a_service_shows_them() {
    let site = site_of_its_own().await;
    let namespace = site.namespace.clone();
    let serving = serve(&site);
    create(&site).await;
    until(&site, is_done).await;
    for words in [&["list"][..], &["get", "shop"], &["history", "shop"], &["wait", "shop"]] {
        let served = site.run(&[&["app"], words].concat()).expect_code(0);
        let read = app(&site, words).expect_code(0);
        assert_eq!(alike(&read.out), alike(&served.out), "{words:?}");
        assert!(read.out.contains(&namespace) || words.contains(&"history"), "{}", read.out);
    }
    // For programs it is what the cluster has, whatever a service knows.
    let wanted = as_printed(shop(&site).await);
    let read = |words: &[&str]| -> Value {
        let ran = app(&site, &[words, &["-o", "json"]].concat()).expect_code(0);
        serde_json::from_str(&ran.out).unwrap()
    };
    assert_eq!(read(&["get", "shop"]), wanted);
    assert_eq!(read(&["list"]), json!({"apiVersion": "v1", "kind": "List", "items": [wanted]}));
    assert_eq!(read(&["history", "shop"]), wanted["status"]["history"]);
    // Of an operation it says what the resource says, and who knows more.
    let explained = app(&site, &["explain", "shop"]).expect_code(0);
    assert!(explained.out.contains("Succeeded: "), "{}", explained.out);
    assert!(explained.err.contains("`tidegate app explain shop --server URL`"), "{}", explained.err);
    let id = &wanted["status"]["operationState"]["operation"]["info"][0]["value"];
    assert_eq!(read(&["explain", "shop"])["operation"]["id"], *id);
    // All namespaces, the one that serve serves unless it is told others, and one that is named with the application.
    let full = format!("{namespace}/shop");
    let ran = site.run(&["app", "list", "--kube", "--app-namespace", "*"]).expect_code(0);
    assert!(ran.out.contains(&full), "{ran:?}");
    site.run(&["app", "get", &full, "--core"]).expect_code(0);
    let ran = site.run(&["app", "list", "--kube"]).expect_code(0);
    assert!(ran.out.is_empty() && ran.err.contains("no applications in namespace argocd"), "{ran:?}");
    for (words, said) in [
        (&["get", "shop"][..], format!("there is {full}, write it so")),
        (&["get", &format!("{namespace}/shpo")], format!("did you mean {full}?")),
        (&["wait", "shop"], format!("there is {full}, write it so")),
        (&["terminate", "nothing"], "`tidegate app list --kube` shows those there are".to_owned()),
    ] {
        let ran = site.run(&[&["app"], words, &["--kube"]].concat()).expect_code(2);
        assert!(ran.err.contains(&said), "{words:?}: {}", ran.err);
    }
    // Neither is anything read nor written for what the resources do not say.
    let before = given(&shop(&site).await);
    for words in [
        &["diff", "shop"][..],
        &["plan", "shop"],
        &["plans"],
        &["approve", "shop", "123456"],
        &["sync", "shop", "--plan", "123456"],
        &["sync", "shop", "--follow-hooks"],
    ] {
        let ran = app(&site, words).expect_code(2);
        assert!(ran.err.contains("alone") && ran.err.contains("--server URL"), "{words:?}: {}", ran.err);
    }
    let ran = site.run(&["app", "list", "--context", "elsewhere"]).expect_code(2);
    assert!(ran.err.contains("--kube"), "{}", ran.err);
    site.run(&["app", "list", "--kube", "--server", "https://example.com"]).expect_code(2);
    assert_eq!(given(&shop(&site).await), before);
    end(serving);
}

pub async fn what_is_asked_for_in_a_resource_is_done_and_waited_for() {
    let site = site().await;
    let serving = synced_when_asked(&site).await;
    let settings =
        async || site.object("/api/v1", "configmaps", "settings").await.unwrap()["data"]["version"].clone();
    // A comparison: when the command is over, its outcome is there.
    deploys(&site, "2");
    let compared = |app: &Value| app["status"]["sync"]["revision"].clone();
    let before = compared(&shop(&site).await);
    app(&site, &["refresh", "shop"]).expect_code(0);
    let now = shop(&site).await;
    assert_eq!(now["metadata"]["annotations"].get("argocd.argoproj.io/refresh"), None);
    assert!(compared(&now) != before && now["status"]["sync"]["status"] == "OutOfSync", "{}", now["status"]);
    // A sync.
    let ran = app(&site, &["sync", "shop", "--prune", "--reason", "for version 2"]).expect_code(0);
    assert!(ran.out.contains("Succeeded by tester"), "{}", ran.out);
    let now = shop(&site).await;
    let asked = &now["status"]["operationState"]["operation"];
    assert_eq!(
        (&asked["initiatedBy"]["username"], &asked["sync"]["prune"]),
        (&json!("tester"), &json!(true))
    );
    assert!(asked["info"].as_array().unwrap().contains(&json!({"name": "Reason", "value": "for version 2"})));
    assert_eq!(settings().await, "2");
    assert_eq!(site.creations("Job", "migrate").await, 2, "once for each operation");
    // One object of it, and without writing.
    let one = format!(":ConfigMap:{}/settings", site.namespace);
    app(&site, &["sync", "shop", "--resource", &one, "--dry-run"]).expect_code(0);
    let asked = shop(&site).await["status"]["operationState"]["operation"]["sync"].clone();
    assert_eq!((&asked["dryRun"], &asked["resources"][0]["name"]), (&json!(true), &json!("settings")));
    assert_eq!(site.creations("Job", "migrate").await, 2);
    // Back to where it was, without hooks.
    app(&site, &["rollback", "shop", "99"]).expect_code(4);
    app(&site, &["rollback", "shop"]).expect_code(0);
    assert_eq!((settings().await, site.creations("Job", "migrate").await), (json!("1"), 2));
    // One that fails ends with the code with which a service is asked, whose answer is in the resource a moment later.
    let wrong = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "wrong"}, "spec": {"ports": [{"port": 70000}]},
    });
    site.write("repo/shop/wrong.yaml", wrong.to_string());
    site.run(&["example", "commit", "repo"]).expect_code(0);
    let has_failed =
        |app: &Value| app.get("operation").is_none() && app["status"]["operationState"]["phase"] == "Failed";
    site.run(&["app", "sync", "shop"]).expect_code(1);
    until(&site, has_failed).await;
    app(&site, &["sync", "shop"]).expect_code(1);
    assert!(has_failed(&shop(&site).await));
    // What would be undone at once is refused, and nothing is asked for.
    patch(&site, &json!({"spec": {"syncPolicy": {"automated": {"enabled": true}}}})).await;
    let ran = app(&site, &["rollback", "shop", "0"]).expect_code(4);
    assert!(ran.err.contains("auto-sync is enabled"), "{}", ran.err);
    app(&site, &["sync", "shop", "--revision", "elsewhere"]).expect_code(4);
    // Away with it, and with what it has.
    let ran = app(&site, &["delete", "shop"]).expect_code(2);
    let object = format!("may be deleted: ConfigMap {}/settings", site.namespace);
    assert!(ran.out.contains(&object) && ran.err.contains("say --yes"), "{ran:?}");
    assert!(shop(&site).await["metadata"].get("deletionTimestamp").is_none());
    app(&site, &["delete", "shop", "--yes", "--reason", "it is withdrawn"]).expect_code(0);
    assert!(site.observer().find(&format!("{}/shop", path(&site))).await.unwrap().is_none());
    assert!(site.object("/api/v1", "configmaps", "settings").await.is_none());
    let list = site.json(&["ops", "list", "-o", "json"]);
    let by = list.as_array().unwrap().last().unwrap()["initiatedBy"].to_string();
    assert!(by.contains("tester") && by.contains("it is withdrawn"), "{by}");
    end(serving);
}

/// What is given of an Application, by people: its service may go on writing what it finds out.
fn given(app: &Value) -> [Value; 5] {
    let metadata = |name: &str| app["metadata"][name].clone();
    [
        metadata("annotations"),
        metadata("finalizers"),
        metadata("deletionTimestamp"),
        app["spec"].clone(),
        app["operation"].clone(),
    ]
}

/// Which one of the engine an operation is.
fn id(operation: &Value) -> Value {
    let info = operation["info"].as_array().cloned().unwrap_or_default();
    let named = info.into_iter().find(|one| one["name"] == "tidegate.dev/operation-id");
    named.map(|one| one["value"].clone()).unwrap_or_default()
}

pub async fn an_operation_under_way_is_ended_and_never_written_over() {
    let site = site().await;
    let serving = synced_when_asked(&site).await;
    // A hook that goes on for as long as anybody lets it.
    let hook = site.path().join("repo/shop/migrate.yaml");
    let slow = std::fs::read_to_string(&hook).unwrap().replace("\"3s\"", "\"2h\"");
    site.write("repo/shop/migrate.yaml", slow);
    site.run(&["example", "commit", "repo"]).expect_code(0);
    app(&site, &["terminate", "shop"]).expect_code(4);
    app(&site, &["sync", "shop", "--async"]).expect_code(0);
    let waits = |app: &Value| {
        let state = &app["status"]["operationState"];
        state["phase"] == "Running" && state["message"].to_string().contains("migrate")
    };
    let under_way = until(&site, waits).await["operation"].clone();
    let explained = app(&site, &["explain", "shop"]).expect_code(0);
    assert!(explained.out.contains("Running: ") && explained.out.contains("migrate"), "{}", explained.out);
    app(&site, &["wait", "shop", "--operation", "--timeout", "10ms"]).expect_code(3);
    let ran = app(&site, &["sync", "shop"]).expect_code(4);
    for words in ["another operation is already in progress", "`tidegate app wait shop --operation --kube"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    assert_eq!(shop(&site).await["operation"], under_way);
    // One that is to follow it is taken so, and the one under way goes on.
    app(&site, &["sync", "shop", "--policy", "queue", "--async"]).expect_code(0);
    let first = id(&under_way);
    let follows = |app: &Value| app["operation"].to_string().contains("tidegate.dev/next");
    let now = until(&site, |app| follows(app) && id(&app["operation"]) == first).await;
    assert_eq!(id(&now["status"]["operationState"]["operation"]), first);
    // Whoever waits sees the end of both.
    let waiting = begin(&site, &["wait", "shop", "--operation"]);
    app(&site, &["terminate", "shop", "--reason", "it hangs"]).expect_code(2);
    assert_eq!(id(&shop(&site).await["operation"]), first);
    app(&site, &["terminate", "shop"]).expect_code(0);
    let begun = |app: &Value| waits(app) && id(&app["status"]["operationState"]["operation"]) != first;
    until(&site, begun).await;
    app(&site, &["terminate", "shop"]).expect_code(0);
    waiting.finish().expect_code(0);
    let ended = shop(&site).await["status"]["operationState"].clone();
    assert!(ended["phase"] == "Failed" && ended["message"].to_string().contains("terminated"), "{ended}");
    let log = site.run(&["ops", "log", &site.newest()]).expect_code(0);
    assert!(log.out.contains("tidegate-app"), "{}", log.out);
    end(serving);
    // Two at once, while nobody is at work: one is asked for, and the other one refused.
    let both =
        [begin(&site, &["sync", "shop", "--async"]), begin(&site, &["sync", "shop", "--async", "--prune"])];
    let codes = both.map(|one| one.finish().code());
    assert!(codes == [0, 4] || codes == [4, 0], "{codes:?}");
    let asked = shop(&site).await["operation"].clone();
    assert_eq!(asked["sync"]["prune"] == true, codes == [4, 0], "{asked}");
    // Neither does one follow it that would be all that is known then.
    for policy in ["queue", "supersede"] {
        let ran = app(&site, &["sync", "shop", "--policy", policy, "--async"]).expect_code(4);
        assert!(ran.err.contains("no service has taken it up yet"), "{}", ran.err);
    }
    assert_eq!(shop(&site).await["operation"], asked);
    // It is ended before anybody takes it up, and whoever comes heeds that.
    app(&site, &["terminate", "shop"]).expect_code(0);
    assert_eq!(shop(&site).await["status"]["operationState"]["phase"], "Terminating");
    let serving = serve(&site);
    let ended = until(&site, |app| app.get("operation").is_none()).await;
    let state = &ended["status"]["operationState"];
    assert!(state["phase"] == "Failed" && state["message"].to_string().contains("tidegate-app"), "{state}");
    end(serving);
    // Where nobody takes up what is asked for, that is doubted aloud, and it is waited for.
    deploys(&site, "2");
    let mut syncing = begin(&site, &["sync", "shop"]);
    syncing.await_line("nobody has taken up yet");
    let serving = serve(&site);
    syncing.finish().expect_code(0);
    end(serving);
}

pub async fn rights_that_are_missing_and_definitions_are_named() {
    let site = Site::on(Plane::own(Options::default()), "store").await;
    for words in [&["list"][..], &["get", "shop"], &["sync", "shop"], &["wait"]] {
        let ran = app(&site, words).expect_code(4);
        let is_said = ran.err.contains("serves no Applications") && ran.err.contains("`tidegate crds`");
        assert!(is_said, "{}", ran.err);
    }
    assert!(!site.state().exists(), "nothing is kept of it");
    put_definitions(&site);
    deploys(&site, "1");
    let namespace = site.namespace.clone();
    let rules = |verbs: &[&str]| json!([{"apiGroups": ["argoproj.io"], "resources": ["applications"], "verbs": verbs}]);
    let reader = site.control.limited_user(&[(Some(&namespace), rules(&["get", "list"]))]).await.unwrap();
    let nobody = site.control.limited_user(&[]).await.unwrap();
    let serving = serve(&site);
    create(&site).await;
    until(&site, is_done).await;
    let before = given(&shop(&site).await);
    let forbidden = |user: &str, words: &[&str], verb: &str| {
        let ran = app(&site, &[words, &["--context", user]].concat()).expect_code(1);
        let said = format!("cannot {verb} resource \"applications\" in API group \"argoproj.io\"");
        assert!(ran.err.contains(&said) && ran.err.contains(user), "{words:?}: {}", ran.err);
    };
    forbidden(nobody.name(), &["list"], "list");
    forbidden(nobody.name(), &["get", "shop"], "get");
    for words in [&["sync", "shop"][..], &["refresh", "shop"], &["delete", "shop", "--yes"]] {
        forbidden(reader.name(), words, "update");
    }
    let all = ["app", "list", "--kube", "--app-namespace", "*", "--context", reader.name()];
    let ran = site.run(&all).expect_code(1);
    assert!(ran.err.contains("--app-namespace names the namespaces"), "{}", ran.err);
    assert_eq!(given(&shop(&site).await), before);
    // Who may read them waits for them as well, without a watch.
    app(&site, &["list", "--context", reader.name()]).expect_code(0);
    end(serving);
    patch(&site, &json!({"status": {"health": {"status": "Progressing"}}})).await;
    let mut waiting = begin(&site, &["wait", "shop", "--health", "-v", "--context", reader.name()]);
    waiting.await_line("may not be watched");
    patch(&site, &json!({"status": {"health": {"status": "Healthy"}}})).await;
    waiting.finish().expect_code(0);
}
