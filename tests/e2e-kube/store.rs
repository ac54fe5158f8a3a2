//! `tidegate app --kube`, which reads and writes the cluster's Applications without a request to a service.
//! Only a service that watches the resources acts on them.

use serde_json::{Value, json};
use tidegate_testkit::kube::Options;

use crate::applications::{
    bench_on_own_plane, bench_with_crds, commit_version, create, install_crds, is_done, path, serve,
    wait_until,
};
use crate::bench::{CommandOutput, Running};
use crate::kube_bench::{KubeBench, Plane};

/// Returns the arguments of `app …` for the resources in our namespace.
fn direct<'a>(bench: &'a KubeBench, text: &[&'a str]) -> Vec<&'a str> {
    let here: &[&str] = &["--kube", "--app-namespace", &bench.namespace];
    [&["app"], text, here].concat()
}

fn app(bench: &KubeBench, text: &[&str]) -> CommandOutput {
    bench.run(&direct(bench, text))
}

fn start(bench: &KubeBench, text: &[&str]) -> Running {
    bench.start(&direct(bench, text))
}

async fn shop(bench: &KubeBench) -> Value {
    bench.observer().get(&format!("{}/shop", path(bench))).await.unwrap()
}

async fn patch(bench: &KubeBench, change: &Value) {
    bench.observer().patch(&format!("{}/shop", path(bench)), change).await.unwrap();
}

/// Stops the service.
fn stop_service(service: Running) {
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// Starts a service with a manually synced application, at its first revision.
async fn serve_manually_synced(bench: &KubeBench) -> Running {
    let service = serve(bench);
    create(bench).await;
    wait_until(bench, is_done).await;
    patch(bench, &json!({"spec": {"syncPolicy": null}})).await;
    service
}

/// Returns a resource as `kubectl get -o json` prints it.
fn as_printed(mut app: Value) -> Value {
    app["metadata"].as_object_mut().unwrap().remove("managedFields");
    app
}

/// Returns the lines that the output from a service and the output from the resource have in common. Only the
/// service knows sync windows, and it may have made another observation.
fn common_lines(text: &str) -> Vec<&str> {
    let differs = |line: &str| ["Sync Window:", "Compared:"].iter().any(|label| line.starts_with(label));
    text.lines().filter(|line| !differs(line)).collect()
}

pub async fn resources_are_shown_like_by_a_service() {
    let bench = bench_on_own_plane().await;
    let namespace = bench.namespace.clone();
    let service = serve(&bench);
    create(&bench).await;
    wait_until(&bench, is_done).await;
    for text in [&["list"][..], &["get", "shop"], &["history", "shop"], &["wait", "shop"]] {
        let from_service = bench.run(&[&["app"], text].concat()).expect_code(0);
        let read = app(&bench, text).expect_code(0);
        assert_eq!(common_lines(&read.out), common_lines(&from_service.out), "{text:?}");
        assert!(read.out.contains(&namespace) || text.contains(&"history"), "{}", read.out);
    }
    // The JSON output is the resource in the cluster, regardless of the service.
    let wanted = as_printed(shop(&bench).await);
    let read = |text: &[&str]| -> Value {
        let ran = app(&bench, &[text, &["-o", "json"]].concat()).expect_code(0);
        serde_json::from_str(&ran.out).unwrap()
    };
    assert_eq!(read(&["get", "shop"]), wanted);
    assert_eq!(read(&["list"]), json!({"apiVersion": "v1", "kind": "List", "items": [wanted]}));
    assert_eq!(read(&["history", "shop"]), wanted["status"]["history"]);
    // For an operation, the command prints the content of the resource, and where to find more.
    let explained = app(&bench, &["explain", "shop"]).expect_code(0);
    assert!(explained.out.contains("Succeeded: "), "{}", explained.out);
    assert!(explained.err.contains("`tidegate app explain shop --server URL`"), "{}", explained.err);
    let id = &wanted["status"]["operationState"]["operation"]["info"][0]["value"];
    assert_eq!(read(&["explain", "shop"])["operation"]["id"], *id);
    // Selects all namespaces, the service's default namespace, and the namespace in the application's full
    // name.
    let full = format!("{namespace}/shop");
    let ran = bench.run(&["app", "list", "--kube", "--app-namespace", "*"]).expect_code(0);
    assert!(ran.out.contains(&full), "{ran:?}");
    bench.run(&["app", "get", &full, "--core"]).expect_code(0);
    let ran = bench.run(&["app", "list", "--kube"]).expect_code(0);
    assert!(ran.out.is_empty() && ran.err.contains("no applications in namespace argocd"), "{ran:?}");
    for (text, output) in [
        (&["get", "shop"][..], format!("did you mean {full}?")),
        (&["get", &format!("{namespace}/shpo")], format!("did you mean {full}?")),
        (&["wait", "shop"], format!("did you mean {full}?")),
        (&["terminate", "nothing"], "`tidegate app list --kube` lists all applications".to_owned()),
    ] {
        let ran = bench.run(&[&["app"], text, &["--kube"]].concat()).expect_code(2);
        assert!(ran.err.contains(&output), "{text:?}: {}", ran.err);
    }
    // Commands that need data outside of the resources neither read nor write anything.
    let before = user_fields(&shop(&bench).await);
    for text in [
        &["diff", "shop"][..],
        &["plan", "shop"],
        &["plans"],
        &["approve", "shop", "123456"],
        &["sync", "shop", "--plan", "123456"],
        &["sync", "shop", "--follow-hooks"],
    ] {
        let ran = app(&bench, text).expect_code(2);
        assert!(
            ran.err.contains("only available from `tidegate serve`") && ran.err.contains("--server URL"),
            "{text:?}: {}",
            ran.err
        );
    }
    let ran = bench.run(&["app", "list", "--context", "elsewhere"]).expect_code(2);
    assert!(ran.err.contains("--kube"), "{}", ran.err);
    bench.run(&["app", "list", "--kube", "--server", "https://example.com"]).expect_code(2);
    assert_eq!(user_fields(&shop(&bench).await), before);
    stop_service(service);
}

pub async fn requests_written_to_a_resource_are_executed_and_awaited() {
    let bench = bench_with_crds().await;
    let service = serve_manually_synced(&bench).await;
    let settings =
        async || bench.object("/api/v1", "configmaps", "settings").await.unwrap()["data"]["version"].clone();
    // The command requests a comparison and waits for its result.
    commit_version(&bench, "2");
    let compared = |app: &Value| app["status"]["sync"]["revision"].clone();
    let before = compared(&shop(&bench).await);
    app(&bench, &["refresh", "shop"]).expect_code(0);
    let now = shop(&bench).await;
    assert_eq!(now["metadata"]["annotations"].get("argocd.argoproj.io/refresh"), None);
    assert!(compared(&now) != before && now["status"]["sync"]["status"] == "OutOfSync", "{}", now["status"]);
    // The command syncs the application.
    let ran = app(&bench, &["sync", "shop", "--prune", "--reason", "for version 2"]).expect_code(0);
    assert!(ran.out.contains("Succeeded by tester"), "{}", ran.out);
    let now = shop(&bench).await;
    let request = &now["status"]["operationState"]["operation"];
    assert_eq!(
        (&request["initiatedBy"]["username"], &request["sync"]["prune"]),
        (&json!("tester"), &json!(true))
    );
    assert!(
        request["info"].as_array().unwrap().contains(&json!({"name": "Reason", "value": "for version 2"}))
    );
    assert_eq!(settings().await, "2");
    assert_eq!(bench.creations("Job", "migrate").await, 2, "once for each operation");
    // The sync covers only one object, as a dry run.
    let one = format!(":ConfigMap:{}/settings", bench.namespace);
    app(&bench, &["sync", "shop", "--resource", &one, "--dry-run"]).expect_code(0);
    let request = shop(&bench).await["status"]["operationState"]["operation"]["sync"].clone();
    assert_eq!((&request["dryRun"], &request["resources"][0]["name"]), (&json!(true), &json!("settings")));
    assert_eq!(bench.creations("Job", "migrate").await, 2);
    // The application is rolled back to the previous revision, without hooks.
    app(&bench, &["rollback", "shop", "99"]).expect_code(4);
    app(&bench, &["rollback", "shop"]).expect_code(0);
    assert_eq!((settings().await, bench.creations("Job", "migrate").await), (json!("1"), 2));
    // A failed sync has the same exit code as with a service. Its result appears in the resource a moment
    // later.
    let wrong = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "wrong"}, "spec": {"ports": [{"port": 70000}]},
    });
    bench.write("repo/shop/wrong.yaml", wrong.to_string());
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    let has_failed =
        |app: &Value| app.get("operation").is_none() && app["status"]["operationState"]["phase"] == "Failed";
    bench.run(&["app", "sync", "shop"]).expect_code(1);
    wait_until(&bench, has_failed).await;
    app(&bench, &["sync", "shop"]).expect_code(1);
    assert!(has_failed(&shop(&bench).await));
    // A request that would be reverted immediately is rejected, without writing anything.
    patch(&bench, &json!({"spec": {"syncPolicy": {"automated": {"enabled": true}}}})).await;
    let ran = app(&bench, &["rollback", "shop", "0"]).expect_code(4);
    assert!(ran.err.contains("auto-sync is enabled"), "{}", ran.err);
    app(&bench, &["sync", "shop", "--revision", "elsewhere"]).expect_code(4);
    // The command deletes the application with its objects.
    let ran = app(&bench, &["delete", "shop"]).expect_code(2);
    let object = format!("may be deleted: ConfigMap {}/settings", bench.namespace);
    assert!(ran.out.contains(&object) && ran.err.contains("use --yes"), "{ran:?}");
    assert!(shop(&bench).await["metadata"].get("deletionTimestamp").is_none());
    app(&bench, &["delete", "shop", "--yes", "--reason", "it is withdrawn"]).expect_code(0);
    assert!(bench.observer().find(&format!("{}/shop", path(&bench))).await.unwrap().is_none());
    assert!(bench.object("/api/v1", "configmaps", "settings").await.is_none());
    let list = bench.json(&["ops", "list", "-o", "json"]);
    let by = list.as_array().unwrap().last().unwrap()["initiatedBy"].to_string();
    assert!(by.contains("tester") && by.contains("it is withdrawn"), "{by}");
    stop_service(service);
}

/// Returns the part of an Application that users provide, because the service may continue to write its
/// findings.
fn user_fields(app: &Value) -> [Value; 5] {
    let metadata = |name: &str| app["metadata"][name].clone();
    [
        metadata("annotations"),
        metadata("finalizers"),
        metadata("deletionTimestamp"),
        app["spec"].clone(),
        app["operation"].clone(),
    ]
}

/// Returns the ID that the engine gave an operation.
fn id(operation: &Value) -> Value {
    let info = operation["info"].as_array().cloned().unwrap_or_default();
    let named = info.into_iter().find(|one| one["name"] == "tidegate.dev/operation-id");
    named.map(|one| one["value"].clone()).unwrap_or_default()
}

pub async fn a_running_operation_is_terminated_and_never_overwritten() {
    let bench = bench_with_crds().await;
    let service = serve_manually_synced(&bench).await;
    // The hook runs until the test ends it.
    let hook = bench.path().join("repo/shop/migrate.yaml");
    let slow = std::fs::read_to_string(&hook).unwrap().replace("\"3s\"", "\"2h\"");
    bench.write("repo/shop/migrate.yaml", slow);
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    app(&bench, &["terminate", "shop"]).expect_code(4);
    app(&bench, &["sync", "shop", "--async"]).expect_code(0);
    let waits = |app: &Value| {
        let state = &app["status"]["operationState"];
        state["phase"] == "Running" && state["message"].to_string().contains("migrate")
    };
    let under_way = wait_until(&bench, waits).await["operation"].clone();
    let explained = app(&bench, &["explain", "shop"]).expect_code(0);
    assert!(explained.out.contains("Running: ") && explained.out.contains("migrate"), "{}", explained.out);
    app(&bench, &["wait", "shop", "--operation", "--timeout", "10ms"]).expect_code(3);
    let ran = app(&bench, &["sync", "shop"]).expect_code(4);
    for text in ["another operation is already in progress", "`tidegate app wait shop --operation --kube"] {
        assert!(ran.err.contains(text), "{}", ran.err);
    }
    assert_eq!(shop(&bench).await["operation"], under_way);
    // A queued request is accepted, and the running operation continues.
    app(&bench, &["sync", "shop", "--policy", "queue", "--async"]).expect_code(0);
    let first = id(&under_way);
    let follows = |app: &Value| app["operation"].to_string().contains("tidegate.dev/next");
    let now = wait_until(&bench, |app| follows(app) && id(&app["operation"]) == first).await;
    assert_eq!(id(&now["status"]["operationState"]["operation"]), first);
    // The command waits for both operations.
    let waiting = start(&bench, &["wait", "shop", "--operation"]);
    app(&bench, &["terminate", "shop", "--reason", "it hangs"]).expect_code(2);
    assert_eq!(id(&shop(&bench).await["operation"]), first);
    app(&bench, &["terminate", "shop"]).expect_code(0);
    let begun = |app: &Value| waits(app) && id(&app["status"]["operationState"]["operation"]) != first;
    wait_until(&bench, begun).await;
    app(&bench, &["terminate", "shop"]).expect_code(0);
    waiting.finish().expect_code(0);
    let ended = shop(&bench).await["status"]["operationState"].clone();
    assert!(ended["phase"] == "Failed" && ended["message"].to_string().contains("terminated"), "{ended}");
    let log = bench.run(&["ops", "log", &bench.newest()]).expect_code(0);
    assert!(log.out.contains("tidegate-app"), "{}", log.out);
    stop_service(service);
    // Two concurrent requests without a running service: one is accepted, and the other is rejected.
    let both =
        [start(&bench, &["sync", "shop", "--async"]), start(&bench, &["sync", "shop", "--async", "--prune"])];
    let codes = both.map(|one| one.finish().code());
    assert!(codes == [0, 4] || codes == [4, 0], "{codes:?}");
    let request = shop(&bench).await["operation"].clone();
    assert_eq!(request["sync"]["prune"] == true, codes == [4, 0], "{request}");
    // No other operation can follow an operation that hasn't started.
    for policy in ["queue", "supersede"] {
        let ran = app(&bench, &["sync", "shop", "--policy", policy, "--async"]).expect_code(4);
        assert!(ran.err.contains("no service has started it yet"), "{}", ran.err);
    }
    assert_eq!(shop(&bench).await["operation"], request);
    // The operation is terminated before a service starts it, and the next service doesn't start it.
    app(&bench, &["terminate", "shop"]).expect_code(0);
    assert_eq!(shop(&bench).await["status"]["operationState"]["phase"], "Terminating");
    let service = serve(&bench);
    let ended = wait_until(&bench, |app| app.get("operation").is_none()).await;
    let state = &ended["status"]["operationState"];
    assert!(state["phase"] == "Failed" && state["message"].to_string().contains("tidegate-app"), "{state}");
    stop_service(service);
    // If no service handles the request, the command shows a warning and waits.
    commit_version(&bench, "2");
    let mut syncing = start(&bench, &["sync", "shop"]);
    syncing.wait_for_line("no service has picked up the request");
    let service = serve(&bench);
    syncing.finish().expect_code(0);
    stop_service(service);
}

pub async fn missing_rights_and_definitions_are_named() {
    let bench = KubeBench::on_plane(Plane::own(Options::default()), "store").await;
    for text in [&["list"][..], &["get", "shop"], &["sync", "shop"], &["wait"]] {
        let ran = app(&bench, text).expect_code(4);
        let is_said = ran.err.contains("does not serve Applications") && ran.err.contains("`tidegate crds`");
        assert!(is_said, "{}", ran.err);
    }
    assert!(!bench.state().exists(), "nothing of it is stored");
    install_crds(&bench);
    commit_version(&bench, "1");
    let namespace = bench.namespace.clone();
    let rules = |verbs: &[&str]| json!([{"apiGroups": ["argoproj.io"], "resources": ["applications"], "verbs": verbs}]);
    let reader =
        bench.control.create_limited_user(&[(Some(&namespace), rules(&["get", "list"]))]).await.unwrap();
    let nobody = bench.control.create_limited_user(&[]).await.unwrap();
    let service = serve(&bench);
    create(&bench).await;
    wait_until(&bench, is_done).await;
    let before = user_fields(&shop(&bench).await);
    let forbidden = |user: &str, text: &[&str], verb: &str| {
        let ran = app(&bench, &[text, &["--context", user]].concat()).expect_code(1);
        let output = format!("cannot {verb} resource \"applications\" in API group \"argoproj.io\"");
        assert!(ran.err.contains(&output) && ran.err.contains(user), "{text:?}: {}", ran.err);
    };
    forbidden(nobody.name(), &["list"], "list");
    forbidden(nobody.name(), &["get", "shop"], "get");
    for text in [&["sync", "shop"][..], &["refresh", "shop"], &["delete", "shop", "--yes"]] {
        forbidden(reader.name(), text, "update");
    }
    let all = ["app", "list", "--kube", "--app-namespace", "*", "--context", reader.name()];
    let ran = bench.run(&all).expect_code(1);
    assert!(ran.err.contains("--app-namespace to select namespaces"), "{}", ran.err);
    assert_eq!(user_fields(&shop(&bench).await), before);
    // A user with only read access can wait too, without a watch.
    app(&bench, &["list", "--context", reader.name()]).expect_code(0);
    stop_service(service);
    patch(&bench, &json!({"status": {"health": {"status": "Progressing"}}})).await;
    let mut waiting = start(&bench, &["wait", "shop", "--health", "-v", "--context", reader.name()]);
    waiting.wait_for_line("no permission to watch applications");
    patch(&bench, &json!({"status": {"health": {"status": "Healthy"}}})).await;
    waiting.finish().expect_code(0);
}
