//! Applications that depend on each other.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

/// Declares the dependencies of an application in the fleet. Its objects are deleted together with it.
fn set_dependencies(fleet: &Fleet, name: &str, on: &str) {
    let own = format!("  name: {name}\n");
    let text = format!(
        "{own}  finalizers: [resources-finalizer.argocd.argoproj.io]\n  annotations: {{tidegate.dev/depends-on: \"{on}\"}}\n"
    );
    fleet.replace(&format!("{name}.yaml"), &own, &text);
}

fn message(app: &Value) -> String {
    app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned()
}

fn write_numbers(fleet: &Fleet, verb: &str, name: &str) -> Vec<u64> {
    let writes = fleet.bench.writes();
    let of =
        writes.iter().filter(|one| one["verb"] == verb && one["kind"] == "Deployment" && one["name"] == name);
    of.map(|one| one["sequence"].as_u64().unwrap()).collect()
}

fn is_gone(fleet: &Fleet, name: &str) -> bool {
    (0..3000).any(|_| fleet.bench.run(&["app", "get", name]).code() == 2)
}

#[test]
fn an_application_waits_for_its_dependencies_and_is_deleted_before_them() {
    let fleet = Fleet::new();
    set_dependencies(&fleet, "frontend", "backend");
    set_dependencies(&fleet, "backend", "");
    let service = fleet.serve();
    let waiting = fleet.wait_until("frontend", |app| message(app).starts_with("waiting for backend: "));
    assert_eq!(waiting["status"]["operationState"]["phase"], "Running");
    let shown = fleet.bench.run(&["app", "get", "frontend"]).expect_code(0).out;
    assert!(shown.contains("Depends On:") && shown.contains("waiting for backend: "), "{shown}");
    fleet.wait_until_synced(&["frontend", "backend"]);
    let made = |name: &str| fleet.creations("Deployment", name);
    assert!(
        made("backend").last() < made("frontend").first(),
        "{:?} {:?}",
        made("backend"),
        made("frontend")
    );
    // The next commit is synced in the same order, and no sync uses the old commit.
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    let synced = |app: &Value| app["status"]["history"].as_array().is_some_and(|history| history.len() == 2);
    let (backend, frontend) = (fleet.wait_until("backend", synced), fleet.wait_until("frontend", synced));
    let at = |app: &Value, which: &str| app["status"]["history"][1][which].as_str().unwrap().to_owned();
    assert!(at(&backend, "deployedAt") <= at(&frontend, "deployStartedAt"));
    // Dependencies are deleted last, regardless of the order of requests.
    let foreseen = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2);
    let waits = "the deletion will wait until Application frontend, which depends on this Application, has been deleted";
    assert!(foreseen.err.contains(waits), "{}", foreseen.err);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let needed = fleet
        .wait_until("backend", |app| message(app).contains("frontend, which depends on this Application"));
    assert!(needed["metadata"]["deletionTimestamp"].is_string());
    // The next process also obeys the dependency, right from the start.
    service.signal("KILL");
    service.finish();
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend"]);
    fleet.wait_until("backend", |app| message(app).contains("frontend, which depends on this Application"));
    assert_eq!(write_numbers(&fleet, "delete", "backend"), Vec::<u64>::new());
    fs::remove_file(fleet.path("frontend.yaml")).unwrap();
    assert!(is_gone(&fleet, "frontend") && is_gone(&fleet, "backend"));
    let gone = |name: &str| write_numbers(&fleet, "delete", name);
    assert!(
        gone("frontend").first() < gone("backend").first(),
        "{:?} {:?}",
        gone("frontend"),
        gone("backend")
    );
    Fleet::stop(service);
}

#[test]
fn each_member_of_a_cycle_reports_it() {
    let fleet = Fleet::new();
    set_dependencies(&fleet, "frontend", "backend");
    set_dependencies(&fleet, "backend", "argocd/frontend");
    set_dependencies(&fleet, "database", "backend");
    let service = fleet.serve();
    let frontend = fleet.condition("frontend", "DependencyError");
    assert!(frontend.contains("frontend → backend → frontend"), "{frontend}");
    let backend = fleet.condition("backend", "DependencyError");
    assert!(backend.contains("backend → frontend → backend"), "{backend}");
    fleet.wait_until("backend", |app| {
        message(app) == "waiting for its dependency cycle to be broken: backend → frontend → backend"
    });
    assert_eq!(fleet.creations("Deployment", "frontend"), Vec::<u64>::new());
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("backend → frontend → backend"), "{refused:?}");
    fleet.replace("backend.yaml", "argocd/frontend", "");
    fleet.wait_until_synced(&["frontend", "backend"]);
    assert_eq!(fleet.get("frontend")["status"].get("conditions"), None);
    // Applications in a dependency cycle can still be deleted.
    fleet.replace("backend.yaml", "depends-on: \"\"", "depends-on: frontend");
    fleet.condition("frontend", "DependencyError");
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("frontend.yaml")).unwrap();
    assert!(is_gone(&fleet, "frontend"));
    // The deletion waits for dependents outside of the cycle.
    fleet.wait_until("backend", |app| message(app).contains("database, which depends on this Application"));
    fs::remove_file(fleet.path("database.yaml")).unwrap();
    assert!(is_gone(&fleet, "backend"));
    Fleet::stop(service);
}

#[test]
fn the_next_commit_supersedes_an_endless_wait() {
    let fleet = Fleet::new();
    set_dependencies(&fleet, "frontend", "backend");
    set_dependencies(&fleet, "backend", "");
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend", "backend"]);
    // At this commit, one application never becomes ready, and the other waits for it.
    fleet.replace("repo/backend/backend.yaml", "kind: Deployment", "kind: [Deployment");
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    fleet.wait_until("frontend", |app| message(app).starts_with("waiting for backend: "));
    fleet.condition("backend", "ComparisonError");
    fleet.replace("repo/backend/backend.yaml", "kind: [Deployment", "kind: Deployment");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let synced = |app: &Value| app["status"]["history"].as_array().is_some_and(|history| history.len() == 2);
    let frontend = fleet.wait_until("frontend", synced);
    assert_eq!(
        frontend["status"]["history"][1]["revision"],
        fleet.get("backend")["status"]["sync"]["revision"]
    );
    Fleet::stop(service);
}

#[test]
fn the_suggested_action_ends_the_wait_at_once() {
    let fleet = Fleet::new();
    set_dependencies(&fleet, "frontend", "backend");
    set_dependencies(&fleet, "backend", "");
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend", "backend"]);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    fleet.wait_until("backend", |app| {
        message(app).contains("remove this dependency from the tidegate.dev/depends-on annotation")
    });
    // An application that is waiting is still observed.
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/backend"]).expect_code(0);
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    assert_eq!(fleet.get("backend")["status"]["sync"]["status"], "OutOfSync");
    fleet.replace("frontend.yaml", "depends-on: \"backend\"", "depends-on: \"\"");
    assert!(is_gone(&fleet, "backend"));
    Fleet::stop(service);
}
