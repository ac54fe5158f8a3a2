//! Applications that depend on each other.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

/// Says of an application of the fleet on whom it depends, and that its objects go with it.
fn depends(fleet: &Fleet, name: &str, on: &str) {
    let own = format!("  name: {name}\n");
    let said = format!(
        "{own}  finalizers: [resources-finalizer.argocd.argoproj.io]\n  annotations: {{tidegate.dev/depends-on: \"{on}\"}}\n"
    );
    fleet.replace(&format!("{name}.yaml"), &own, &said);
}

fn message(app: &Value) -> String {
    app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned()
}

fn numbers(fleet: &Fleet, verb: &str, name: &str) -> Vec<u64> {
    let writes = fleet.bench.writes();
    let of =
        writes.iter().filter(|one| one["verb"] == verb && one["kind"] == "Deployment" && one["name"] == name);
    of.map(|one| one["sequence"].as_u64().unwrap()).collect()
}

fn is_gone(fleet: &Fleet, name: &str) -> bool {
    (0..3000).any(|_| fleet.bench.run(&["app", "get", name]).code() == 2)
}

#[test]
fn an_application_waits_for_those_it_depends_on_and_goes_before_them() {
    let fleet = Fleet::new();
    depends(&fleet, "frontend", "backend");
    depends(&fleet, "backend", "");
    let serving = fleet.serve();
    let waiting = fleet.until("frontend", |app| message(app).starts_with("waiting for backend: "));
    assert_eq!(waiting["status"]["operationState"]["phase"], "Running");
    let shown = fleet.bench.run(&["app", "get", "frontend"]).expect_code(0).out;
    assert!(shown.contains("Depends On:") && shown.contains("waiting for backend: "), "{shown}");
    fleet.wait(&["frontend", "backend"]);
    let made = |name: &str| fleet.made("Deployment", name);
    assert!(
        made("backend").last() < made("frontend").first(),
        "{:?} {:?}",
        made("backend"),
        made("frontend")
    );
    // The next commit goes the same way: nothing is begun at the old one.
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    let synced = |app: &Value| app["status"]["history"].as_array().is_some_and(|history| history.len() == 2);
    let (backend, frontend) = (fleet.until("backend", synced), fleet.until("frontend", synced));
    let at = |app: &Value, which: &str| app["status"]["history"][1][which].as_str().unwrap().to_owned();
    assert!(at(&backend, "deployedAt") <= at(&frontend, "deployStartedAt"));
    // What others need goes after them, whatever is asked for first.
    let foreseen = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2);
    let waits = "the deletion waits until Application frontend is deleted, which depends on it";
    assert!(foreseen.err.contains(waits), "{}", foreseen.err);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let needed = fleet.until("backend", |app| message(app).contains("frontend, which depends on it"));
    assert!(needed["metadata"]["deletionTimestamp"].is_string());
    // It is needed by whoever serves next as well, from its first moment.
    serving.signal("KILL");
    serving.finish();
    let serving = fleet.serve();
    fleet.wait(&["frontend"]);
    fleet.until("backend", |app| message(app).contains("frontend, which depends on it"));
    assert_eq!(numbers(&fleet, "delete", "backend"), Vec::<u64>::new());
    fs::remove_file(fleet.path("frontend.yaml")).unwrap();
    assert!(is_gone(&fleet, "frontend") && is_gone(&fleet, "backend"));
    let gone = |name: &str| numbers(&fleet, "delete", name);
    assert!(
        gone("frontend").first() < gone("backend").first(),
        "{:?} {:?}",
        gone("frontend"),
        gone("backend")
    );
    Fleet::end(serving);
}

#[test]
fn a_cycle_is_named_by_each_that_is_in_it() {
    let fleet = Fleet::new();
    depends(&fleet, "frontend", "backend");
    depends(&fleet, "backend", "argocd/frontend");
    depends(&fleet, "database", "backend");
    let serving = fleet.serve();
    let frontend = fleet.condition("frontend", "DependencyError");
    assert!(frontend.contains("frontend → backend → frontend"), "{frontend}");
    let backend = fleet.condition("backend", "DependencyError");
    assert!(backend.contains("backend → frontend → backend"), "{backend}");
    fleet.until("backend", |app| {
        message(app) == "waiting for the cycle of its dependencies to be broken: backend → frontend → backend"
    });
    assert_eq!(fleet.made("Deployment", "frontend"), Vec::<u64>::new());
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("backend → frontend → backend"), "{refused:?}");
    fleet.replace("backend.yaml", "argocd/frontend", "");
    fleet.wait(&["frontend", "backend"]);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    // Those that make a cycle now can be deleted all the same.
    fleet.replace("backend.yaml", "depends-on: \"\"", "depends-on: frontend");
    fleet.condition("frontend", "DependencyError");
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("frontend.yaml")).unwrap();
    assert!(is_gone(&fleet, "frontend"));
    // Who depends on them, and is none of them, is waited for.
    fleet.until("backend", |app| message(app).contains("database, which depends on it"));
    fs::remove_file(fleet.path("database.yaml")).unwrap();
    assert!(is_gone(&fleet, "backend"));
    Fleet::end(serving);
}

#[test]
fn the_next_commit_goes_past_one_that_waits_for_ever() {
    let fleet = Fleet::new();
    depends(&fleet, "frontend", "backend");
    depends(&fleet, "backend", "");
    let serving = fleet.serve();
    fleet.wait(&["frontend", "backend"]);
    // At this commit the one is never ready, and the other waits for it.
    fleet.replace("repo/backend/backend.yaml", "kind: Deployment", "kind: [Deployment");
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    fleet.until("frontend", |app| message(app).starts_with("waiting for backend: "));
    fleet.condition("backend", "ComparisonError");
    fleet.replace("repo/backend/backend.yaml", "kind: [Deployment", "kind: Deployment");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let synced = |app: &Value| app["status"]["history"].as_array().is_some_and(|history| history.len() == 2);
    let frontend = fleet.until("frontend", synced);
    assert_eq!(
        frontend["status"]["history"][1]["revision"],
        fleet.get("backend")["status"]["sync"]["revision"]
    );
    Fleet::end(serving);
}

#[test]
fn what_the_message_advises_ends_the_wait_at_once() {
    let fleet = Fleet::new();
    depends(&fleet, "frontend", "backend");
    depends(&fleet, "backend", "");
    let serving = fleet.serve();
    fleet.wait(&["frontend", "backend"]);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    fleet.until("backend", |app| message(app).contains("take its name out of tidegate.dev/depends-on there"));
    // What waits may do so for long: it is looked at meanwhile.
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/backend"]).expect_code(0);
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    assert_eq!(fleet.get("backend")["status"]["sync"]["status"], "OutOfSync");
    fleet.replace("frontend.yaml", "depends-on: \"backend\"", "depends-on: \"\"");
    assert!(is_gone(&fleet, "backend"));
    Fleet::end(serving);
}
