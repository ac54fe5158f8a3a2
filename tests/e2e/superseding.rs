//! Something newer is wanted while an operation of a served application is under way. The audit of the cluster says what was
//! made and deleted, and for which operation.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::fleet::Fleet;

const WAITS: &str = "NewRevisionWarning";

/// What comes after the Deployment, which is awaited for that.
const BEHIND: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: behind
  annotations: {argocd.argoproj.io/sync-wave: \"2\"}
";

/// The backend, with a Deployment that is ready after so long.
fn fleet(ready: &str) -> Fleet {
    let fleet = Fleet::new();
    fleet.replace("repo/backend/backend.yaml", "ready-after: 1s", &format!("ready-after: {ready}"));
    fs::write(fleet.path("repo/backend/behind.yaml"), BEHIND).unwrap();
    fleet.commit();
    fleet
}

/// Somebody commits a backend that is ready at once.
fn mend(fleet: &Fleet, from: &str) {
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

/// What was done to the migration, and for which operation, in order.
fn of_migration(fleet: &Fleet) -> Vec<(String, String)> {
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

fn kill(serving: crate::bench::Running) {
    serving.signal("KILL");
    serving.finish();
}

#[test]
fn a_newer_commit_takes_the_place_of_what_waits_when_its_hook_has_ended() {
    let fleet = fleet("10h");
    fleet.migrates_for("20s");
    let serving = fleet.serve();
    fleet.until("backend", |_| !fleet.made("Job", "migrate").is_empty());
    mend(&fleet, "10h");
    let told = fleet.condition("backend", WAITS);
    assert!(told.contains("is to take its place"), "{told}");
    let in_the_way = |app: &Value| app.to_string().contains("hook Job fleet/migrate is at work");
    fleet.until("backend", in_the_way);
    let explained = fleet.bench.json(&["app", "explain", "backend", "-o", "json"]);
    assert!(explained["waiting"].as_str().unwrap().contains("hook Job fleet/migrate is at work"));
    assert!(explained["summary"].as_str().unwrap().contains("is to take its place"), "{explained}");
    assert_eq!(phases(&fleet), ["Running"]);
    // A kill stops no hook, and forgets nothing.
    kill(serving);
    let serving = fleet.serve();
    fleet.wait(&["backend"]);
    assert_eq!(phases(&fleet), ["Failed", "Succeeded"]);
    let ended = operations(&fleet);
    let newest = fleet.get("backend")["status"]["sync"]["revision"].as_str().unwrap().to_owned();
    assert_eq!(
        ended[0]["message"].as_str().unwrap(),
        format!("Operation terminated, superseded by another sync (revision {newest})")
    );
    assert_eq!(ended[1]["revision"].as_str(), Some(newest.as_str()));
    // The hook of the first ran to its end: only the one that takes its place clears it away.
    assert_eq!(of_migration(&fleet), pairs(&[("made", "by 1"), ("deleted", "by 2"), ("made", "by 2")]));
    let first = fleet.bench.json(&["ops", "show", ended[0]["id"].as_str().unwrap(), "-o", "json"]);
    let hooks = first["resources"].as_array().unwrap().iter().filter(|one| one["name"] == "migrate");
    let phases: Vec<&str> = hooks.map(|one| one["hookPhase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["Succeeded"]);
    let state = &fleet.get("backend")["status"]["operationState"]["operation"];
    let names: Vec<&str> =
        state["info"].as_array().unwrap().iter().map(|info| info["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"tidegate.dev/supersedes"), "{state}");
    assert_eq!(fleet.get("backend")["status"].get("conditions"), None);
    Fleet::end(serving);
}

#[test]
fn finish_lets_the_operation_end_first() {
    let fleet = fleet("20s");
    fleet.replace(
        "backend.yaml",
        "  name: backend\n",
        "  name: backend\n  annotations: {tidegate.dev/on-new-revision: finish}\n",
    );
    let serving = fleet.serve();
    fleet.until("backend", |_| !fleet.made("Deployment", "backend").is_empty());
    mend(&fleet, "20s");
    let told = fleet.condition("backend", WAITS);
    assert!(told.contains("tidegate.dev/on-new-revision says finish"), "{told}");
    assert_eq!(phases(&fleet), ["Running"]);
    kill(serving);
    let serving = fleet.serve();
    let is_deployed =
        |app: &Value| app["status"]["history"].as_array().is_some_and(|history| history.len() == 2);
    fleet.until("backend", is_deployed);
    fleet.wait(&["backend"]);
    assert_eq!(phases(&fleet), ["Succeeded", "Succeeded"]);
    Fleet::end(serving);
}

#[test]
fn what_somebody_asks_for_waits_for_its_turn() {
    let fleet = fleet("10h");
    let serving = fleet.serve();
    fleet.until("backend", |_| !fleet.made("Deployment", "backend").is_empty());
    let refused = fleet.bench.run(&["app", "sync", "backend"]).expect_code(4);
    assert!(refused.err.contains("--policy queue"), "{}", refused.err);
    let queued = ["app", "sync", "backend", "--policy", "queue", "--async"];
    fleet.bench.run(&queued).expect_code(0);
    let again = fleet.bench.run(&queued).expect_code(4);
    assert!(again.err.contains("waits for the operation in progress"), "{}", again.err);
    let told = fleet.bench.run(&["app", "explain", "backend"]).expect_code(0).out;
    assert!(told.contains("waits until the operation at work is over"), "{told}");
    assert_eq!(phases(&fleet), ["Running"]);
    // What takes its place is what was asked for last.
    fleet
        .bench
        .run(&["app", "sync", "backend", "--policy", "supersede", "--dry-run", "--timeout", "10m"])
        .expect_code(0);
    assert_eq!(phases(&fleet)[..2], ["Failed", "Succeeded"]);
    assert!(operations(&fleet)[0]["message"].as_str().unwrap().contains("another sync of tester"));
    Fleet::end(serving);
}

/// The second one never ends.
#[test]
fn whoever_waits_for_a_sync_is_told_of_its_end_though_another_one_follows() {
    let fleet = fleet("10h");
    let serving = fleet.serve();
    fleet.until("backend", |_| !fleet.made("Deployment", "backend").is_empty());
    let mut waits = fleet.bench.start(&["app", "sync", "backend", "--policy", "supersede"]);
    fleet.until("backend", |_| fleet.made("Job", "migrate").len() == 2);
    fleet.bench.run(&["app", "sync", "backend", "--policy", "supersede", "--async"]).expect_code(0);
    let ended = waits.is_over_within(Duration::from_secs(120)).expect("it is over");
    let ran = waits.finish_with(ended);
    assert_eq!(ran.code(), 1, "{}", ran.err);
    let second = &operations(&fleet)[1];
    assert_eq!(second["phase"], "Failed", "{second}");
    let told = format!("another operation has followed it: operation {}", second["id"].as_str().unwrap());
    assert!(ran.err.contains(&told), "{}", ran.err);
    assert_eq!(phases(&fleet), ["Failed", "Failed", "Running"]);
    Fleet::end(serving);
}

#[test]
fn a_hook_does_not_run_again_while_its_inputs_are_the_same() {
    let fleet = fleet("1s");
    fleet.replace(
        "repo/backend/migrate.yaml",
        "    argocd.argoproj.io/hook: PreSync\n",
        "    argocd.argoproj.io/hook: PreSync\n    tidegate.dev/run-when: inputs-changed\n",
    );
    fleet.migrates_for("1s");
    let history = |number: usize| {
        move |app: &Value| app["status"]["history"].as_array().is_some_and(|all| all.len() == number)
    };
    let serving = fleet.serve();
    fleet.until("backend", history(1));
    kill(serving);
    let serving = fleet.serve();
    // Killed in the middle as well, when it was planned without the hook.
    fleet.replace("repo/backend/backend.yaml", "ready-after: 1s", "ready-after: 5s");
    fleet.replace("repo/backend/backend.yaml", "backend:1.0", "backend:2.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    fleet.until("backend", |_| operations(&fleet).len() == 2);
    kill(serving);
    let serving = fleet.serve();
    fleet.until("backend", history(2));
    assert_eq!(phases(&fleet), ["Succeeded", "Succeeded"]);
    assert_eq!(of_migration(&fleet), pairs(&[("made", "by 1")]));
    // Another migration runs, with what is to be synced.
    fleet.replace("repo/backend/migrate.yaml", "schema.sql", "another.sql");
    fleet.replace("repo/backend/backend.yaml", "backend:2.0", "backend:3.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    fleet.until("backend", history(3));
    let expected = pairs(&[("made", "by 1"), ("deleted", "by 3"), ("made", "by 3")]);
    assert_eq!(of_migration(&fleet), expected);
    Fleet::end(serving);
}
