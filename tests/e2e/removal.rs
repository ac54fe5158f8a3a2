//! Applications that are deleted while they are served.

use std::fs;

use serde_json::Value;

use crate::bench::Running;
use crate::fleet::Fleet;

const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

fn hook(name: &str, phase: &str, more: &str) -> String {
    format!(
        "---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{argocd.argoproj.io/hook: {phase}, {more}}}
spec:
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}
"
    )
}

/// The backend says good-bye, and asks that its objects go with it.
fn leaving(drain: &str) -> Fleet {
    let fleet = Fleet::new();
    let hooks = hook("drain", "PreDelete", drain) + &hook("report", "PostDelete", "a: b");
    fs::write(fleet.path("repo/backend/deletion.yaml"), hooks).unwrap();
    fleet.migrates_for("100ms");
    let asks = format!("  name: backend\n  finalizers: [{FINALIZER}]\n");
    fleet.replace("backend.yaml", "  name: backend\n", &asks);
    fleet
}

fn served(fleet: &Fleet) -> (Running, usize) {
    let serving = fleet.serve();
    fleet.wait(&["backend", "frontend"]);
    let before = fleet.bench.writes().len();
    (serving, before)
}

#[track_caller]
fn gone(fleet: &Fleet, name: &str) {
    let is_gone = || fleet.bench.run(&["app", "get", name]).code() == 2;
    assert!((0..3000).any(|_| is_gone()), "{}", fleet.get(name));
}

#[track_caller]
fn known(fleet: &Fleet, name: &str) {
    assert!((0..3000).any(|_| fleet.bench.run(&["app", "get", name]).code() == 0), "{name} is not served");
}

/// What was made and deleted since, in order, of the objects of the backend.
fn since(fleet: &Fleet, before: usize) -> Vec<String> {
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

const IN_ORDER: [&str; 5] =
    ["create drain", "delete backend", "delete backend-settings", "create report", "delete drain"];

fn is_there(fleet: &Fleet, name: &str) -> bool {
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    objects.as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name)
}

#[test]
fn an_application_that_asks_for_it_goes_with_its_objects() {
    let fleet = leaving("sim.tidegate.dev/ready-after: 1500ms");
    let (serving, before) = served(&fleet);
    let file = fs::read(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let at_work = fleet.until("backend", |app| {
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
    gone(&fleet, "backend");
    assert_eq!(since(&fleet, before), IN_ORDER);
    assert!(is_there(&fleet, "frontend"), "another one's objects stay");
    // One of its name is another one, and is synced from the beginning, at the same commit.
    fs::write(fleet.path("backend.yaml"), file).unwrap();
    known(&fleet, "backend");
    fleet.wait(&["backend"]);
    assert!(is_there(&fleet, "backend"));
    assert_eq!(fleet.get("backend")["status"]["history"].as_array().unwrap().len(), 1);
    Fleet::end(serving);
}

/// Killed at each of its steps, the service goes on with a deletion where it was.
#[test]
fn a_killed_service_goes_on_with_a_deletion() {
    for at in ["drain", "report"] {
        let slow = "sim.tidegate.dev/ready-after: 2s";
        let fleet = leaving(slow);
        fleet.replace("repo/backend/deletion.yaml", "a: b", slow);
        fleet.commit();
        let (serving, before) = served(&fleet);
        fs::remove_file(fleet.path("backend.yaml")).unwrap();
        fleet.until("backend", |_| !fleet.made("Job", at).is_empty());
        serving.signal("KILL");
        serving.finish();
        let serving = fleet.serve();
        gone(&fleet, "backend");
        assert_eq!(since(&fleet, before), IN_ORDER, "killed at {at}");
        Fleet::end(serving);
        // Nothing of it is left to come back.
        let serving = fleet.serve();
        gone(&fleet, "backend");
        Fleet::end(serving);
    }
}

/// It stays, says why, and is tried again when that is mended in its repository.
#[test]
fn a_deletion_that_fails_says_why_and_is_tried_again() {
    let fleet = leaving("sim.tidegate.dev/outcome: fail");
    fleet.replace("backend.yaml", "    automated:\n", "    retry: {limit: 0}\n    automated:\n");
    let (serving, before) = served(&fleet);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let message = fleet.condition("backend", "DeletionError");
    for part in ["PreDelete hook(s) failed: fleet/drain", "app refresh backend", "leaves its objects"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(since(&fleet, before), ["create drain"], "nothing goes before its hook has succeeded");
    fleet.replace("repo/backend/deletion.yaml", "outcome: fail", "ready-after: 10ms");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    gone(&fleet, "backend");
    assert!(!is_there(&fleet, "backend"));
    Fleet::end(serving);
}

/// It says behind which operation it waits, and how to end that; who asks again goes on waiting.
#[test]
fn a_deletion_waits_for_the_operation_under_way_and_says_so() {
    let fleet = leaving("sim.tidegate.dev/ready-after: 10ms");
    fleet.replace("repo/backend/migrate.yaml", "ready-after: 100ms", "ready-after: 24h");
    fleet.commit();
    let serving = fleet.serve();
    fleet.until("backend", |_| !fleet.made("Job", "migrate").is_empty());
    let mut delete = fleet.bench.start(&["app", "delete", "backend", "--yes"]);
    delete.await_line("it is deleted when operation");
    let said = fleet.condition("backend", "DeletionWarning");
    assert!(said.contains("`tidegate app terminate backend` ends that"), "{said}");
    delete.signal("TERM");
    delete.finish().expect_code(3);
    // Who has asked for it stays known, though the file is gone.
    let asked =
        |app: &Value| app["metadata"]["annotations"]["tidegate.dev/deletion-requested-by"].to_string();
    assert!(!fleet.path("backend.yaml").exists());
    assert!(asked(&fleet.get("backend")).contains("tester"), "{}", fleet.get("backend")["metadata"]);
    let mut again = fleet.bench.start(&["app", "delete", "backend", "--yes"]);
    again.await_line("it is deleted when operation");
    let other = ["app", "delete", "backend", "--cascade", "background", "--yes"];
    let refused = fleet.bench.run(&other).expect_code(4);
    assert!(refused.err.contains("--cascade foreground"), "{}", refused.err);
    fleet.bench.run(&["app", "terminate", "backend"]).expect_code(0);
    again.finish().expect_code(0);
    assert!(!is_there(&fleet, "backend"));
    let by_tester = fleet.bench.json(&["ops", "list", "--app", "backend", "--by", "tester", "-o", "json"]);
    assert_eq!(by_tester.as_array().unwrap().len(), 1, "{by_tester:#}");
    Fleet::end(serving);
}

/// What was not begun is not begun, and what was begun says that it goes on.
#[test]
fn a_file_that_is_put_back_stops_a_deletion_that_has_not_begun() {
    let fleet = leaving("sim.tidegate.dev/ready-after: 3s");
    let needs = "  name: frontend\n  annotations: {tidegate.dev/depends-on: backend}\n";
    fleet.replace("frontend.yaml", "  name: frontend\n", needs);
    let (serving, before) = served(&fleet);
    let file = fs::read(fleet.path("backend.yaml")).unwrap();
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let message =
        |app: &Value| app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    fleet.until("backend", |app| message(app).contains("frontend, which depends on it"));
    fs::write(fleet.path("backend.yaml"), &file).unwrap();
    let back = fleet.until("backend", |app| message(app).contains("is not being deleted"));
    assert!(back.get("operation").is_none() && back["metadata"].get("deletionTimestamp").is_none(), "{back}");
    assert_eq!(since(&fleet, before), Vec::<String>::new());
    // Nobody needs it any more, and it is at work when it is wanted again.
    fleet.replace("frontend.yaml", needs, "  name: frontend\n");
    fleet.until("frontend", |app| app["metadata"].get("annotations").is_none());
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    fleet.until("backend", |_| !fleet.made("Job", "drain").is_empty());
    fs::write(fleet.path("backend.yaml"), &file).unwrap();
    let said = fleet.condition("backend", "DeletionWarning");
    assert!(said.contains("it is written down again") && said.contains("goes on"), "{said}");
    fleet.until("backend", |app| {
        app["status"]["history"].as_array().is_some_and(|history| history.len() == 2)
    });
    fleet.wait(&["backend"]);
    assert_eq!(since(&fleet, before).get(..5), Some(&IN_ORDER.map(str::to_owned)[..]));
    assert!(is_there(&fleet, "backend"), "it is synced anew");
    Fleet::end(serving);
}

/// Its name is in no manifests any more, and the inventory has no hooks.
#[test]
fn a_hook_of_an_earlier_sync_goes_with_its_application() {
    let fleet = Fleet::new();
    fleet.migrates_for("100ms");
    let serving = fleet.serve();
    fleet.wait(&["backend"]);
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
    assert!(shown.out.contains("to be deleted: Job fleet/migrate"), "{}", shown.out);
    fleet.bench.run(&["app", "delete", "backend", "--yes"]).expect_code(0);
    assert!(!migrate());
    Fleet::end(serving);
}

#[test]
fn an_application_is_deleted_by_command() {
    let fleet = Fleet::new();
    let (serving, before) = served(&fleet);
    let shown = fleet.bench.run(&["app", "delete", "frontend"]).expect_code(2);
    assert!(shown.out.contains("to be deleted: Deployment fleet/frontend"), "{}", shown.out);
    assert_eq!(since(&fleet, before), Vec::<String>::new());
    let ran = fleet.bench.run(&["app", "delete", "frontend", "--yes"]).expect_code(0);
    assert!(ran.err.contains("application frontend is deleted"), "{}", ran.err);
    assert!(!fleet.path("frontend.yaml").exists() && !is_there(&fleet, "frontend"));
    fleet.bench.run(&["app", "delete", "frontend", "--yes"]).expect_code(2);
    // Its objects stay where that is asked for.
    fleet.bench.run(&["app", "delete", "backend", "--cascade", "orphan", "--yes"]).expect_code(0);
    assert!(!fleet.path("backend.yaml").exists() && is_there(&fleet, "backend"));
    // What else is in a file is nobody's to remove.
    let both = fs::read_to_string(fleet.path("database.yaml")).unwrap();
    let other = both.replace("name: database\n", "name: other\n");
    fs::write(fleet.path("database.yaml"), format!("{both}\n---\n{other}")).unwrap();
    known(&fleet, "other");
    let refused = fleet.bench.run(&["app", "delete", "database", "--yes"]).expect_code(4);
    assert!(
        refused.err.contains("is not all that is in") && refused.err.contains("database.yaml"),
        "{}",
        refused.err
    );
    assert!(fleet.get("database")["metadata"].get("deletionTimestamp").is_none());
    Fleet::end(serving);
}

/// As with Argo CD nobody has to write the finalizers for hooks; objects whose finalizer is missing stay.
#[test]
fn hooks_of_the_deletion_run_for_an_application_that_asks_for_nothing() {
    let fleet = leaving("sim.tidegate.dev/ready-after: 10ms");
    let asks = format!("  name: backend\n  finalizers: [{FINALIZER}]\n");
    fleet.replace("backend.yaml", &asks, "  name: backend\n");
    let (serving, before) = served(&fleet);
    let finalizers: Vec<String> = ["pre-delete", "post-delete"]
        .into_iter()
        .flat_map(|when| ["", "/cleanup"].map(|stage| format!("{when}-finalizer.argocd.argoproj.io{stage}")))
        .collect();
    assert_eq!(fleet.get("backend")["metadata"]["finalizers"], Value::from(finalizers));
    assert!(fleet.get("frontend")["metadata"].get("finalizers").is_none());
    // It goes while nobody looks.
    Fleet::end(serving);
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    let serving = fleet.serve();
    gone(&fleet, "backend");
    assert_eq!(since(&fleet, before), ["create drain", "create report"]);
    assert!(is_there(&fleet, "backend"), "its objects stay");
    Fleet::end(serving);
}

/// Hooks that are in the repository no more ask for nothing any more.
#[test]
fn finalizers_for_hooks_go_with_the_hooks() {
    let fleet = leaving("sim.tidegate.dev/ready-after: 10ms");
    let asks = format!("  name: backend\n  finalizers: [{FINALIZER}]\n");
    fleet.replace("backend.yaml", &asks, "  name: backend\n");
    let (serving, before) = served(&fleet);
    fs::remove_file(fleet.path("repo/backend/deletion.yaml")).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    fleet.until("backend", |app| app["metadata"].get("finalizers").is_none());
    fs::remove_file(fleet.path("backend.yaml")).unwrap();
    gone(&fleet, "backend");
    assert_eq!(since(&fleet, before), Vec::<String>::new());
    Fleet::end(serving);
}

#[test]
fn several_applications_are_synced_and_deleted_by_one_command() {
    let fleet = leaving("a: b");
    for name in ["backend", "frontend"] {
        fleet.replace(&format!("{name}.yaml"), "    automated:\n", "    automated:\n      enabled: false\n");
    }
    let serving = fleet.serve();
    let run = |args: &[&str]| fleet.bench.run(&[&["app"], args].concat());
    fleet.until("frontend", |app| app["status"]["sync"]["status"] == "OutOfSync");
    let nobody = run(&["sync"]).expect_code(2);
    assert!(nobody.err.contains("<NAME"), "{}", nobody.err);
    run(&["sync", "backend", "absent"]).expect_code(2);
    assert!(fleet.made("Deployment", "backend").is_empty(), "nothing is asked for where one name is wrong");
    let plan = run(&["sync", "backend", "frontend", "--plan", "abc"]).expect_code(2);
    assert!(plan.err.contains("--plan is about one application"), "{}", plan.err);
    let synced = fleet.bench.json(&["app", "sync", "backend", "frontend", "backend", "-o", "json"]);
    let ended = synced["items"].as_array().unwrap().iter().map(|one| {
        let state = &one["status"]["operationState"]["phase"];
        (one["metadata"]["name"].as_str().unwrap(), state.as_str().unwrap())
    });
    assert_eq!(ended.collect::<Vec<_>>(), [("backend", "Succeeded"), ("frontend", "Succeeded")]);
    assert_eq!(fleet.made("Deployment", "backend").len(), 1);
    run(&["wait", "--project", "default", "--timeout", "1m"]).expect_code(0);
    let chosen = run(&["sync", "--project", "none"]).expect_code(2);
    assert!(chosen.err.contains("no application is such"), "{}", chosen.err);

    let told = run(&["delete", "backend", "frontend"]).expect_code(2);
    assert!(
        told.out.contains("application backend:") && told.out.contains("application frontend:"),
        "{}",
        told.out
    );
    assert!(told.err.contains("delete applications backend, frontend"), "{}", told.err);
    run(&["delete", "backend", "frontend", "--yes", "--timeout", "2m"]).expect_code(0);
    gone(&fleet, "backend");
    gone(&fleet, "frontend");
    Fleet::end(serving);
}

/// As where a volume is mounted late: what is under way waits for what was known, and goes on when that is there.
#[test]
fn a_folder_whose_files_come_late_is_waited_for() {
    let fleet = Fleet::new();
    fleet.migrates_for("4s");
    let serving = fleet.serve();
    let message =
        |app: &Value| app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    fleet.until("backend", |app| message(app).contains("waiting for completion of hook batch/Job/migrate"));
    serving.signal("KILL");
    serving.finish();
    let names = ["backend.yaml", "database.yaml", "frontend.yaml"];
    let aside = |name: &str| fleet.bench.path().join(name);
    names.iter().for_each(|name| fs::rename(fleet.path(name), aside(name)).unwrap());
    let serving = fleet.bench.start(&["serve", "--sim", "--apps", "fleet"]);
    // The hook ends meanwhile, and nothing can be written.
    let id = fleet.bench.newest_of("backend");
    let explain = || fleet.bench.run(&["explain", &id]).out;
    let is_told = |said: String| said.contains("project default is not known yet");
    assert!(std::iter::repeat_with(explain).take(3000).any(is_told), "{}", explain());
    assert!(fleet.get("backend")["status"]["operationState"].get("finishedAt").is_none());
    names.iter().for_each(|name| fs::rename(aside(name), fleet.path(name)).unwrap());
    fleet.wait(&["backend", "frontend"]);
    for name in ["backend", "frontend"] {
        fleet.until(name, |app| app["status"].get("conditions").is_none());
        let all = fleet.bench.json(&["ops", "list", "--app", name, "-o", "json"]);
        let phases: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["phase"]).collect();
        assert_eq!(phases, ["Succeeded"], "{all:#}");
    }
    assert_eq!(fleet.made("Job", "migrate").len(), 1);
    Fleet::end(serving);
}
