//! Deletion of Applications while the service manages them.

use std::fs;

use serde_json::Value;

use crate::bench::Running;
use crate::fleet::Fleet;
use crate::manifests::hook;

const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// Returns a fleet whose backend has deletion hooks and the resources finalizer.
fn deletable_fleet(drain: &str) -> Fleet {
    let fleet = Fleet::new();
    let hooks = [hook("drain", "PreDelete", drain), hook("report", "PostDelete", "a: b")].join("---\n");
    fs::write(fleet.path("repo/backend/deletion.yaml"), hooks).unwrap();
    fleet.set_migration_duration("100ms");
    let asks = format!("  name: backend\n  finalizers: [{FINALIZER}]\n");
    fleet.replace("backend.yaml", "  name: backend\n", &asks);
    fleet
}

fn start_service(fleet: &Fleet) -> (Running, usize) {
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend", "frontend"]);
    let before = fleet.bench.writes().len();
    (service, before)
}

#[track_caller]
fn wait_until_gone(fleet: &Fleet, name: &str) {
    let is_gone = || fleet.bench.run(&["app", "get", name]).code() == 2;
    assert!((0..3000).any(|_| is_gone()), "{}", fleet.get(name));
}

#[track_caller]
fn wait_until_known(fleet: &Fleet, name: &str) {
    assert!((0..3000).any(|_| fleet.bench.run(&["app", "get", name]).code() == 0), "{name} is not managed");
}

/// Returns the creations and deletions of objects of the fleet since `before`, in order.
fn changes_since(fleet: &Fleet, before: usize) -> Vec<String> {
    let known = ["drain", "report", "backend", "backend-settings", "frontend", "frontend-settings"];
    let word = |one: &Value| {
        let name = one["name"].as_str().unwrap().to_owned();
        let what = match (one["verb"].as_str().unwrap(), one["code"].as_i64().unwrap()) {
            ("delete", _) => "delete",
            (_, 201) => "create",
            _ => return None,
        };
        known.contains(&name.as_str()).then(|| format!("{what} {name}"))
    };
    fleet.bench.writes().iter().skip(before).filter_map(word).collect()
}

const DELETION_ORDER: [&str; 5] =
    ["create drain", "delete backend", "delete backend-settings", "create report", "delete drain"];

fn has_object(fleet: &Fleet, name: &str) -> bool {
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    objects.as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name)
}

#[test]
fn an_application_with_the_finalizer_is_deleted_with_its_objects() {
    let fleet = deletable_fleet("sim.tidegate.dev/ready-after: 1500ms");
    let (service, before) = start_service(&fleet);
    let file = fs::read(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let at_work = fleet.wait_until("backend", |app| {
        app["status"]["operationState"]["phase"] == "Running"
            && app["metadata"]["deletionTimestamp"].is_string()
    });
    let info = at_work["status"]["operationState"]["operation"]["info"].to_string();
    assert!(info.contains("tidegate.dev/deletion") && info.contains("foreground"), "{info}");
    let shown = fleet.bench.run(&["app", "get", "backend"]).expect_code(0).out;
    assert!(shown.contains("Deleting:") && shown.contains("foreground"), "{shown}");
    assert!(fleet.bench.run(&["app", "list"]).expect_code(0).out.contains("Deleting"));
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert!(refused.code() != 0 && refused.err.contains("is deleting"), "{refused:?}");
    wait_until_gone(&fleet, "backend");
    assert_eq!(changes_since(&fleet, before), DELETION_ORDER);
    assert!(has_object(&fleet, "frontend"), "objects of other applications are kept");
    // An Application with the same name is a new Application. It must be synced from scratch, at the same
    // commit.
    fs::write(fleet.path("backend.yaml"), file).unwrap();
    wait_until_known(&fleet, "backend");
    fleet.wait_until_synced(&["backend"]);
    assert!(has_object(&fleet, "backend"));
    assert_eq!(fleet.get("backend")["status"]["history"].as_array().unwrap().len(), 1);
    Fleet::stop(service);
}

/// A service that is killed during a deletion must continue it from the same step.
#[test]
fn a_killed_service_continues_a_deletion() {
    for at in ["drain", "report"] {
        let slow = "sim.tidegate.dev/ready-after: 2s";
        let fleet = deletable_fleet(slow);
        fleet.replace("repo/backend/deletion.yaml", "a: b", slow);
        fleet.commit();
        let (service, before) = start_service(&fleet);
        fs::remove_file(fleet.path("backend.yaml")).unwrap();
        fleet.wait_until("backend", |_| !fleet.creations("Job", at).is_empty());
        service.signal("KILL");
        service.finish();
        let service = fleet.serve();
        wait_until_gone(&fleet, "backend");
        assert_eq!(changes_since(&fleet, before), DELETION_ORDER, "killed at {at}");
        Fleet::stop(service);
        // After another restart, the Application must not reappear.
        let service = fleet.serve();
        wait_until_gone(&fleet, "backend");
        Fleet::stop(service);
    }
}

/// The Application must stay and report the reason. Once the hook is fixed in the repository, it must be
/// deleted.
#[test]
fn a_failed_deletion_is_explained_and_retried() {
    let fleet = deletable_fleet("sim.tidegate.dev/outcome: fail");
    fleet.replace("backend.yaml", "    automated:\n", "    retry: {limit: 0}\n    automated:\n");
    let (service, before) = start_service(&fleet);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let message = fleet.condition("backend", "DeletionError");
    for part in ["PreDelete hook(s) failed: fleet/drain", "app refresh backend", "keep the objects"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(
        changes_since(&fleet, before),
        ["create drain"],
        "nothing is deleted before the hook has succeeded"
    );
    fleet.replace("repo/backend/deletion.yaml", "outcome: fail", "ready-after: 10ms");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    wait_until_gone(&fleet, "backend");
    assert!(!has_object(&fleet, "backend"));
    Fleet::stop(service);
}

/// The message about a waiting deletion must contain the operation and the command that ends it. A repeated
/// request must keep waiting.
#[test]
fn a_deletion_waits_for_the_running_operation_and_names_it() {
    let fleet = deletable_fleet("sim.tidegate.dev/ready-after: 10ms");
    fleet.replace("repo/backend/migrate.yaml", "ready-after: 100ms", "ready-after: 24h");
    fleet.commit();
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Job", "migrate").is_empty());
    let mut delete = fleet.bench.start(&["app", "delete", "backend", "--yes"]);
    delete.wait_for_line("the Application will be deleted when operation");
    let message = fleet.condition("backend", "DeletionWarning");
    assert!(message.contains("`tidegate app terminate backend` terminates that operation"), "{message}");
    delete.signal("TERM");
    delete.finish().expect_code(3);
    // The requester stays recorded although the file was deleted.
    let requester =
        |app: &Value| app["metadata"]["annotations"]["tidegate.dev/deletion-requested-by"].to_string();
    assert!(!fleet.path("backend.yaml").exists());
    assert!(requester(&fleet.get("backend")).contains("tester"), "{}", fleet.get("backend")["metadata"]);
    let mut again = fleet.bench.start(&["app", "delete", "backend", "--yes"]);
    again.wait_for_line("the Application will be deleted when operation");
    let other = ["app", "delete", "backend", "--cascade", "background", "--yes"];
    let refused = fleet.bench.run(&other).expect_code(4);
    assert!(refused.err.contains("--cascade foreground"), "{}", refused.err);
    fleet.bench.run(&["app", "terminate", "backend"]).expect_code(0);
    again.finish().expect_code(0);
    assert!(!has_object(&fleet, "backend"));
    let by_tester = fleet.bench.json(&["ops", "list", "--app", "backend", "--by", "tester", "-o", "json"]);
    assert_eq!(by_tester.as_array().unwrap().len(), 1, "{by_tester:#}");
    Fleet::stop(service);
}

/// If a deletion hasn't started, it must be canceled. If it has started, it must report that it continues.
#[test]
fn a_restored_file_cancels_a_deletion_that_has_not_started() {
    let fleet = deletable_fleet("sim.tidegate.dev/ready-after: 3s");
    let needs = "  name: frontend\n  annotations: {tidegate.dev/depends-on: backend}\n";
    fleet.replace("frontend.yaml", "  name: frontend\n", needs);
    let (service, before) = start_service(&fleet);
    let file = fs::read(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let message =
        |app: &Value| app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    fleet.wait_until("backend", |app| message(app).contains("frontend, which depends on this Application"));
    fs::write(fleet.path("backend.yaml"), &file).unwrap();
    let back = fleet.wait_until("backend", |app| message(app).contains("is not being deleted"));
    assert!(back.get("operation").is_none() && back["metadata"].get("deletionTimestamp").is_none(), "{back}");
    assert_eq!(changes_since(&fleet, before), Vec::<String>::new());
    // No Application depends on the backend anymore, so its deletion has started when the file is restored.
    fleet.replace("frontend.yaml", needs, "  name: frontend\n");
    fleet.wait_until("frontend", |app| app["metadata"].get("annotations").is_none());
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    fleet.wait_until("backend", |_| !fleet.creations("Job", "drain").is_empty());
    fs::write(fleet.path("backend.yaml"), &file).unwrap();
    let error_message = fleet.condition("backend", "DeletionWarning");
    assert!(
        error_message.contains("the Application was recreated") && error_message.contains("still deleting"),
        "{error_message}"
    );
    fleet.wait_until("backend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    fleet.wait_until_synced(&["backend"]);
    assert_eq!(changes_since(&fleet, before).get(..5), Some(&DELETION_ORDER.map(str::to_owned)[..]));
    assert!(has_object(&fleet, "backend"), "it is synced again");
    Fleet::stop(service);
}

/// The hook is no longer in the manifests, and the inventory doesn't contain hooks.
#[test]
fn a_hook_of_an_earlier_sync_is_deleted_with_its_application() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("100ms");
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend"]);
    fs::remove_file(fleet.path("repo/backend/migrate.yaml")).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let migrate = || {
        let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
        let mut objects = objects.as_array().unwrap().iter();
        objects.any(|one| one["kind"] == "Job" && one["metadata"]["name"] == "migrate")
    };
    assert!(migrate(), "a hook is not pruned");
    let shown = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2);
    assert!(shown.out.contains("to delete: Job fleet/migrate"), "{}", shown.out);
    fleet.bench.run(&["app", "delete", "backend", "--yes"]).expect_code(0);
    assert!(!migrate());
    Fleet::stop(service);
}

#[test]
fn an_application_is_deleted_by_command() {
    let fleet = Fleet::new();
    let (service, before) = start_service(&fleet);
    let shown = fleet.bench.run(&["app", "delete", "frontend"]).expect_code(2);
    assert!(shown.out.contains("to delete: Deployment fleet/frontend"), "{}", shown.out);
    assert_eq!(changes_since(&fleet, before), Vec::<String>::new());
    let ran = fleet.bench.run(&["app", "delete", "frontend", "--yes"]).expect_code(0);
    assert!(ran.err.contains("application frontend deleted"), "{}", ran.err);
    assert!(!fleet.path("frontend.yaml").exists() && !has_object(&fleet, "frontend"));
    fleet.bench.run(&["app", "delete", "frontend", "--yes"]).expect_code(2);
    // With `--cascade orphan`, the objects must stay.
    fleet.bench.run(&["app", "delete", "backend", "--cascade", "orphan", "--yes"]).expect_code(0);
    assert!(!fleet.path("backend.yaml").exists() && has_object(&fleet, "backend"));
    // A file with other documents must not be deleted.
    let both = fs::read_to_string(fleet.path("database.yaml")).unwrap();
    let other = both.replace("name: database\n", "name: other\n");
    fs::write(fleet.path("database.yaml"), format!("{both}\n---\n{other}")).unwrap();
    wait_until_known(&fleet, "other");
    let refused = fleet.bench.run(&["app", "delete", "database", "--yes"]).expect_code(4);
    assert!(
        refused.err.contains("contains other documents besides application")
            && refused.err.contains("database.yaml"),
        "{}",
        refused.err
    );
    assert!(fleet.get("database")["metadata"].get("deletionTimestamp").is_none());
    Fleet::stop(service);
}

/// Without the resources finalizer, the objects stay. Deletion hooks must not run then, because they could
/// delete the objects' data.
#[test]
fn no_deletion_hook_runs_if_the_objects_stay() {
    let fleet = deletable_fleet("sim.tidegate.dev/ready-after: 10ms");
    let asks = format!("  name: backend\n  finalizers: [{FINALIZER}]\n");
    fleet.replace("backend.yaml", &asks, "  name: backend\n");
    let (service, before) = start_service(&fleet);
    let finalizers: Vec<String> = ["pre-delete", "post-delete"]
        .into_iter()
        .flat_map(|when| ["", "/cleanup"].map(|stage| format!("{when}-finalizer.argocd.argoproj.io{stage}")))
        .collect();
    assert_eq!(fleet.get("backend")["metadata"]["finalizers"], Value::from(finalizers));
    assert!(fleet.get("frontend")["metadata"].get("finalizers").is_none());
    // The file is deleted while the service is stopped.
    Fleet::stop(service);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let service = fleet.serve();
    wait_until_gone(&fleet, "backend");
    assert_eq!(changes_since(&fleet, before), Vec::<String>::new());
    assert!(has_object(&fleet, "backend"), "its objects are kept");
    Fleet::stop(service);
}

/// When hooks are removed from the repository, their finalizers must be removed too.
#[test]
fn finalizers_for_hooks_are_removed_with_the_hooks() {
    let fleet = deletable_fleet("sim.tidegate.dev/ready-after: 10ms");
    let asks = format!("  name: backend\n  finalizers: [{FINALIZER}]\n");
    fleet.replace("backend.yaml", &asks, "  name: backend\n");
    let (service, before) = start_service(&fleet);
    fs::remove_file(fleet.path("repo/backend/deletion.yaml")).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    fleet.wait_until("backend", |app| app["metadata"].get("finalizers").is_none());
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    wait_until_gone(&fleet, "backend");
    assert_eq!(changes_since(&fleet, before), Vec::<String>::new());
    Fleet::stop(service);
}

#[test]
fn several_applications_are_synced_and_deleted_by_one_command() {
    let fleet = deletable_fleet("a: b");
    for name in ["backend", "frontend"] {
        fleet.replace(&format!("{name}.yaml"), "    automated:\n", "    automated:\n      enabled: false\n");
    }
    let service = fleet.serve();
    let run = |args: &[&str]| fleet.bench.run(&[&["app"], args].concat());
    fleet.wait_until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    let nobody = run(&["sync"]).expect_code(2);
    assert!(nobody.err.contains("<NAME"), "{}", nobody.err);
    run(&["sync", "backend", "absent"]).expect_code(2);
    assert!(fleet.creations("Deployment", "backend").is_empty(), "an invalid name prevents all requests");
    let plan = run(&["sync", "backend", "frontend", "--plan", "abc"]).expect_code(2);
    assert!(plan.err.contains("--plan requires the name of exactly one application"), "{}", plan.err);
    let synced = fleet.bench.json(&["app", "sync", "backend", "frontend", "backend", "-o", "json"]);
    let ended = synced["items"].as_array().unwrap().iter().map(|one| {
        let state = &one["status"]["operationState"]["phase"];
        (one["metadata"]["name"].as_str().unwrap(), state.as_str().unwrap())
    });
    assert_eq!(ended.collect::<Vec<_>>(), [("backend", "Succeeded"), ("frontend", "Succeeded")]);
    assert_eq!(fleet.creations("Deployment", "backend").len(), 1);
    run(&["wait", "--project", "default", "--timeout", "1m"]).expect_code(0);
    let chosen = run(&["sync", "--project", "none"]).expect_code(2);
    assert!(chosen.err.contains("no application matches the filters"), "{}", chosen.err);

    let output = run(&["delete", "backend", "frontend"]).expect_code(2);
    assert!(
        output.out.contains("application backend:") && output.out.contains("application frontend:"),
        "{}",
        output.out
    );
    assert!(output.err.contains("delete applications backend, frontend"), "{}", output.err);
    run(&["delete", "backend", "frontend", "--yes", "--timeout", "2m"]).expect_code(0);
    wait_until_gone(&fleet, "backend");
    wait_until_gone(&fleet, "frontend");
    Fleet::stop(service);
}

/// The files of a volume may appear late. A running operation must wait for its Application and continue when the files
/// appear.
#[test]
fn a_folder_whose_files_appear_late_is_awaited() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("4s");
    let service = fleet.serve();
    let message =
        |app: &Value| app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    fleet.wait_until("backend", |app| {
        message(app).contains("waiting for completion of hook batch/Job/migrate")
    });
    service.signal("KILL");
    service.finish();
    let names = ["backend.yaml", "database.yaml", "frontend.yaml"];
    let aside = |name: &str| fleet.bench.path().join(name);
    names.iter().for_each(|name| fs::rename(fleet.path(name), aside(name)).unwrap());
    let service = fleet.bench.start(&["serve", "--sim", "--apps", "fleet"]);
    // The hook finishes in the meantime, but the operation can't write anything.
    let id = fleet.bench.newest_of("backend");
    let explain = || fleet.bench.run(&["explain", &id]).out;
    let is_told = |said: String| said.contains("project default has not been read yet");
    assert!(std::iter::repeat_with(explain).take(3000).any(is_told), "{}", explain());
    assert!(fleet.get("backend")["status"]["operationState"].get("finishedAt").is_none());
    names.iter().for_each(|name| fs::rename(aside(name), fleet.path(name)).unwrap());
    fleet.wait_until_synced(&["backend", "frontend"]);
    for name in ["backend", "frontend"] {
        fleet.wait_until(name, |app| app["status"].get("conditions").is_none());
        let all = fleet.bench.json(&["ops", "list", "--app", name, "-o", "json"]);
        let phases: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["phase"]).collect();
        assert_eq!(phases, ["Succeeded"], "{all:#}");
    }
    assert_eq!(fleet.creations("Job", "migrate").len(), 1);
    Fleet::stop(service);
}
