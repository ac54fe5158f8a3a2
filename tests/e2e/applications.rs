//! Applications that are served, when something is lost, in the way, or wrong.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

/// The ids of its operations, oldest first.
fn operations(fleet: &Fleet, app: &str) -> Vec<String> {
    let list = fleet.bench.json(&["ops", "list", "--app", app, "-o", "json"]);
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_status_that_is_lost_or_damaged_is_made_again_and_nothing_is_synced_twice() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&[]);
    let names = ["backend", "database", "frontend"];
    let before = names.map(|name| fleet.get(name));
    Fleet::end(serving);
    let status = |name: &str| fleet.bench.state().join(format!("applications/argocd_{name}.json"));
    fs::remove_file(status("frontend")).unwrap();
    let whole = fs::read(status("backend")).unwrap();
    fs::write(status("backend"), &whole[..whole.len() / 2]).unwrap();
    fs::copy(status("backend").with_file_name("argocd_database.json"), status("other")).unwrap();
    let serving = fleet.serve();
    fleet.wait(&[]);
    for (name, before) in names.iter().zip(&before) {
        let now = fleet.get(name);
        assert_eq!(operations(&fleet, name).len(), 1, "{name}");
        for pointer in
            ["/status/history", "/status/operationState/operation/sync/revision", "/status/sync/revision"]
        {
            assert_eq!(now.pointer(pointer), before.pointer(pointer), "{name} {pointer}");
        }
        assert_eq!(
            now["status"]["operationState"]["operation"]["info"],
            before["status"]["operationState"]["operation"]["info"]
        );
        assert_eq!(now["status"]["operationState"]["phase"], "Succeeded", "{name}");
    }
    let told = fleet.condition("backend", "StatusRebuiltWarning");
    assert!(told.contains("damaged") && told.contains("backend.damaged-1"), "{told}");
    assert_eq!(fs::read(status("backend").with_extension("damaged-1")).unwrap(), whole[..whole.len() / 2]);
    assert!(fleet.condition("frontend", "StatusRebuiltWarning").contains("operation log"));
    // Of an application that is not there either, nothing is lost.
    assert!(status("other").with_extension("damaged-1").exists());
    // The next commit is synced as ever, and the matter is over.
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let synced = fleet.until("backend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    assert_eq!(synced["status"].get("conditions"), None);
    let told = Fleet::end(serving).err;
    for part in
        ["is made again", "operation begun", "operation ended", "sync status changed", "condition is over"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn health_is_judged_while_the_manifests_cannot_be_read() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&["frontend"]);
    fleet.replace("frontend.yaml", "targetRevision: main", "targetRevision: gone");
    fleet.condition("frontend", "ComparisonError");
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    let deployment = |app: &Value| {
        let all = app["status"]["resources"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["kind"] == "Deployment").unwrap_or_default()
    };
    let found = fleet.until("frontend", |app| deployment(app)["health"]["status"] == "Missing");
    assert_eq!(
        (&found["status"]["sync"]["status"], &deployment(&found)["status"]),
        (&"Unknown".into(), &"Unknown".into())
    );
    // The same from the beginning: what was known before is watched.
    Fleet::end(serving);
    let serving = fleet.serve();
    assert_eq!(deployment(&fleet.get("frontend"))["health"]["status"], "Missing");
    fleet.bench.run(&["sim", "delete", ":Service:fleet/frontend"]).expect_code(0);
    fleet.until("frontend", |app| app["status"]["health"]["status"] == "Missing");
    Fleet::end(serving);
}

#[test]
fn whoever_asks_too_early_or_one_that_was_stopped_is_told() {
    let fleet = Fleet::new();
    // Before anybody serves: whoever waits goes on waiting.
    let mut waiting = fleet.bench.start(&["app", "wait", "--timeout", "10m"]);
    waiting.await_line("is at work");
    let serving = fleet.serve();
    let waited = waiting.finish().expect_code(0);
    assert!(waited.out.contains("backend"), "{waited:?}");
    serving.signal("STOP");
    let listed = fleet.bench.run(&["app", "list"]).expect_code(0);
    assert!(listed.err.contains("does not answer") && listed.out.contains("backend"), "{listed:?}");
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("does not answer"), "{refused:?}");
    let refused = fleet.bench.run(&["app", "refresh", "backend"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("does not answer"), "{refused:?}");
    serving.signal("CONT");
    Fleet::end(serving);
}

#[test]
fn an_application_that_is_put_back_finds_its_operation_again() {
    let fleet = Fleet::new();
    fleet.migrates_for("20s");
    let serving = fleet.serve();
    fleet.until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running" && !fleet.made("Job", "migrate").is_empty()
    });
    let file = fs::read(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let is_gone = || fleet.bench.run(&["app", "get", "backend"]).code() == 2;
    assert!((0..3000).any(|_| is_gone()));
    fs::write(fleet.path("backend.yaml"), file).unwrap();
    assert!((0..3000).any(|_| !is_gone()));
    let found = fleet.get("backend");
    assert_eq!(found["status"]["operationState"]["phase"], "Running");
    let own = operations(&fleet, "backend");
    assert_eq!(found["operation"]["info"][0]["value"].as_str(), own.first().map(String::as_str));
    fleet.bench.run(&["app", "wait", "backend", "--operation", "--timeout", "10m"]).expect_code(0);
    assert_eq!(fleet.get("backend")["status"]["operationState"]["phase"], "Succeeded");
    assert_eq!((operations(&fleet, "backend"), fleet.made("Job", "migrate").len()), (own, 1));
    Fleet::end(serving);
}
