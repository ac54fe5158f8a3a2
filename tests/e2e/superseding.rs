//! Newer requests during an operation of a managed application. The cluster's audit log shows the creations
//! and deletions of each operation.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::fleet::Fleet;

const WAITS: &str = "NewRevisionWarning";

/// An object after the Deployment. Because of it, the operation waits for the Deployment.
const LATER_OBJECT: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: behind
  annotations: {argocd.argoproj.io/sync-wave: \"2\"}
";

/// Returns the fleet with a backend whose Deployment takes this long to become ready.
fn fleet(ready: &str) -> Fleet {
    let fleet = Fleet::new();
    fleet.replace("repo/backend/backend.yaml", "ready-after: 1s", &format!("ready-after: {ready}"));
    fs::write(fleet.path("repo/backend/behind.yaml"), LATER_OBJECT).unwrap();
    fleet.commit();
    fleet
}

/// Commits a backend that is ready immediately.
fn commit_fix(fleet: &Fleet, from: &str) {
    fleet.replace("repo/backend/backend.yaml", &format!("ready-after: {from}"), "ready-after: 1ms");
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
}

fn operations(fleet: &Fleet) -> Vec<Value> {
    fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"]).as_array().unwrap().clone()
}

fn phases(fleet: &Fleet) -> Vec<String> {
    operations(fleet).iter().map(|one| one["phase"].as_str().unwrap().to_owned()).collect()
}

/// Returns the creations and deletions of the migration with their operation, in order.
fn migration_changes(fleet: &Fleet) -> Vec<(String, String)> {
    let known: Vec<String> =
        operations(fleet).iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    let writes = fleet.bench.writes();
    let of = writes.iter().filter(|one| one["kind"] == "Job" && one["name"] == "migrate");
    let done = of.filter_map(|one| {
        let verb = match (one["code"].as_u64(), one["verb"].as_str()?) {
            (Some(201), _) => "made",
            (_, "delete") => "deleted",
            _ => return None,
        };
        let operation = known.iter().position(|id| Some(id.as_str()) == one["operationId"].as_str());
        Some((verb.to_owned(), operation.map_or("by others".to_owned(), |place| format!("by {}", place + 1))))
    });
    done.collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(verb, by)| ((*verb).to_owned(), (*by).to_owned())).collect()
}

fn kill_service(service: crate::bench::Running) {
    service.signal("KILL");
    service.finish();
}

#[test]
fn a_newer_commit_supersedes_a_waiting_operation_after_its_hook() {
    let fleet = fleet("10h");
    fleet.set_migration_duration("20s");
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Job", "migrate").is_empty());
    commit_fix(&fleet, "10h");
    let condition = fleet.condition("backend", WAITS);
    assert!(condition.contains("will replace the running operation"), "{condition}");
    let in_the_way = |app: &Value| app.to_string().contains("hook Job fleet/migrate is running");
    fleet.wait_until("backend", in_the_way);
    let explained = fleet.bench.json(&["app", "explain", "backend", "-o", "json"]);
    assert!(explained["successor"].as_str().unwrap().contains("hook Job fleet/migrate is running"));
    assert!(
        explained["summary"].as_str().unwrap().contains("will replace the running operation"),
        "{explained}"
    );
    assert_eq!(phases(&fleet), ["Running"]);
    // Killing the service neither stops a hook nor loses state.
    kill_service(service);
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend"]);
    assert_eq!(phases(&fleet), ["Failed", "Succeeded"]);
    let ended = operations(&fleet);
    let newest = fleet.get("backend")["status"]["sync"]["revision"].as_str().unwrap().to_owned();
    assert_eq!(
        ended[0]["message"].as_str().unwrap(),
        format!("Operation terminated, superseded by another sync (revision {newest})")
    );
    assert_eq!(ended[1]["revision"].as_str(), Some(newest.as_str()));
    // The phase is Failed, as in Argo CD. Lists for people show the outcome instead.
    assert_eq!((&ended[0]["outcome"], &ended[1]["outcome"]), (&"Superseded".into(), &"Succeeded".into()));
    let listed = |result: &str| fleet.bench.run(&["ops", "list", "--result", result]).expect_code(0).out;
    assert!(listed("superseded").contains("Superseded"), "{}", listed("superseded"));
    assert!(!listed("failed").contains("superseded by"), "{}", listed("failed"));
    // The hook of the first operation ran to its end, because only the successor removes it.
    assert_eq!(migration_changes(&fleet), pairs(&[("made", "by 1"), ("deleted", "by 2"), ("made", "by 2")]));
    let first = fleet.bench.json(&["ops", "show", ended[0]["id"].as_str().unwrap(), "-o", "json"]);
    let hooks = first["resources"].as_array().unwrap().iter().filter(|one| one["name"] == "migrate");
    let phases: Vec<&str> = hooks.map(|one| one["hookPhase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["Succeeded"]);
    let state = &fleet.get("backend")["status"]["operationState"]["operation"];
    let names: Vec<&str> =
        state["info"].as_array().unwrap().iter().map(|info| info["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"tidegate.dev/supersedes"), "{state}");
    assert_eq!(fleet.get("backend")["status"].get("conditions"), None);
    Fleet::stop(service);
}

#[test]
fn finish_lets_the_operation_end_first() {
    let fleet = fleet("20s");
    fleet.replace(
        "backend.yaml",
        "  name: backend\n",
        "  name: backend\n  annotations: {tidegate.dev/on-new-revision: finish}\n",
    );
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Deployment", "backend").is_empty());
    commit_fix(&fleet, "20s");
    let condition = fleet.condition("backend", WAITS);
    assert!(condition.contains("tidegate.dev/on-new-revision is finish"), "{condition}");
    assert_eq!(phases(&fleet), ["Running"]);
    kill_service(service);
    let service = fleet.serve();
    let is_deployed =
        |app: &Value| app["status"]["history"].as_array().is_some_and(|history| history.len() == 2);
    fleet.wait_until("backend", is_deployed);
    fleet.wait_until_synced(&["backend"]);
    assert_eq!(phases(&fleet), ["Succeeded", "Succeeded"]);
    Fleet::stop(service);
}

#[test]
fn a_requested_sync_waits_for_its_turn() {
    let fleet = fleet("10h");
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Deployment", "backend").is_empty());
    let refused = fleet.bench.run(&["app", "sync", "backend"]).expect_code(4);
    assert!(refused.err.contains("--policy queue"), "{}", refused.err);
    let queued = ["app", "sync", "backend", "--policy", "queue", "--async"];
    fleet.bench.run(&queued).expect_code(0);
    let again = fleet.bench.run(&queued).expect_code(4);
    assert!(again.err.contains("is already waiting for the operation in progress"), "{}", again.err);
    let output = fleet.bench.run(&["app", "explain", "backend"]).expect_code(0).out;
    assert!(output.contains("is waiting for the running operation to end"), "{output}");
    assert_eq!(phases(&fleet), ["Running"]);
    // The successor is the operation that was requested last.
    fleet
        .bench
        .run(&["app", "sync", "backend", "--policy", "supersede", "--dry-run", "--timeout", "10m"])
        .expect_code(0);
    assert_eq!(phases(&fleet)[..2], ["Failed", "Succeeded"]);
    assert!(operations(&fleet)[0]["message"].as_str().unwrap().contains("another sync of tester"));
    Fleet::stop(service);
}

/// The second sync never ends.
#[test]
fn a_waiting_command_reports_its_sync_although_another_follows() {
    let fleet = fleet("10h");
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Deployment", "backend").is_empty());
    let mut waits = fleet.bench.start(&["app", "sync", "backend", "--policy", "supersede"]);
    fleet.wait_until("backend", |_| fleet.creations("Job", "migrate").len() == 2);
    fleet.bench.run(&["app", "sync", "backend", "--policy", "supersede", "--async"]).expect_code(0);
    let ended = waits.wait_for_exit(Duration::from_secs(120)).expect("it has ended");
    let ran = waits.finish_with(ended);
    assert_eq!(ran.code(), 1, "{}", ran.err);
    let second = &operations(&fleet)[1];
    assert_eq!(second["phase"], "Failed", "{second}");
    let told = format!("ended; result of operation {}: ", second["id"].as_str().unwrap());
    assert!(ran.err.contains(&told), "{}", ran.err);
    assert_eq!(phases(&fleet), ["Failed", "Failed", "Running"]);
    Fleet::stop(service);
}

#[test]
fn a_hook_does_not_run_again_while_its_inputs_are_the_same() {
    let fleet = fleet("1s");
    fleet.replace(
        "repo/backend/migrate.yaml",
        "    argocd.argoproj.io/hook: PreSync\n",
        "    argocd.argoproj.io/hook: PreSync\n    tidegate.dev/run-when: inputs-changed\n",
    );
    fleet.set_migration_duration("1s");
    let history = |number: usize| {
        move |app: &Value| app["status"]["history"].as_array().is_some_and(|all| all.len() == number)
    };
    let service = fleet.serve();
    fleet.wait_until("backend", history(1));
    kill_service(service);
    let service = fleet.serve();
    // The same is true if the service is killed in the meantime, for a plan without the hook.
    fleet.replace("repo/backend/backend.yaml", "ready-after: 1s", "ready-after: 5s");
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    fleet.wait_until("backend", |_| operations(&fleet).len() == 2);
    kill_service(service);
    let service = fleet.serve();
    fleet.wait_until("backend", history(2));
    assert_eq!(phases(&fleet), ["Succeeded", "Succeeded"]);
    assert_eq!(migration_changes(&fleet), pairs(&[("made", "by 1")]));
    // Another migration runs, using the new revision.
    fleet.replace("repo/backend/migrate.yaml", "schema.sql", "another.sql");
    fleet.replace("repo/backend/backend.yaml", "backend:2.0", "backend:3.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    fleet.wait_until("backend", history(3));
    let expected = pairs(&[("made", "by 1"), ("deleted", "by 3"), ("made", "by 3")]);
    assert_eq!(migration_changes(&fleet), expected);
    Fleet::stop(service);
}
