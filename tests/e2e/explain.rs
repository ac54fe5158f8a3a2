//! Explanations of an application without an operation, of an application with a pending request, and of an application
//! that is about to be deleted.

use std::fs;

use serde_json::Value;

use crate::appsets::{FIVE, ManagedAppset, STEPS};
use crate::fleet::Fleet;
use crate::manifests::STUCK;

fn explain(fleet: &Fleet, name: &str) -> String {
    fleet.bench.run(&["app", "explain", name]).expect_code(0).out
}

#[test]
fn a_wait_before_the_start_of_an_operation_is_explained() {
    let fleet = Fleet::new();
    fleet.replace(
        "frontend.yaml",
        "metadata:\n",
        "metadata:\n  annotations: {tidegate.dev/depends-on: missing}\n",
    );
    fleet.replace(
        "backend.yaml",
        "metadata:\n",
        "metadata:\n  annotations: {argocd.argoproj.io/skip-reconcile: \"true\"}\n",
    );
    let service = fleet.serve();
    fleet.wait_until("frontend", |app| {
        app["status"]["operationState"]["message"].to_string().contains("missing")
    });
    let explanation = explain(&fleet, "frontend");
    for text in ["not started", "waiting for missing: it does not exist"] {
        assert!(explanation.contains(text), "{text}: {explanation}");
    }
    let document = fleet.bench.json(&["app", "explain", "frontend", "-o", "json"]);
    assert!(document["operation"]["message"].as_str().unwrap().contains("missing"), "{document}");
    // A sync of an application that isn't managed is rejected immediately.
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert!(refused.code() != 0 && refused.err.contains("skip-reconcile"), "{refused:?}");
    assert!(explain(&fleet, "backend").contains("skip-reconcile"));
    // The path doesn't exist in the repository.
    fleet.replace("frontend.yaml", "path: frontend", "path: nowhere");
    fleet.condition("frontend", "ComparisonError");
    let explanation = explain(&fleet, "frontend");
    assert!(explanation.contains("ComparisonError") && explanation.contains("nowhere"), "{explanation}");
    Fleet::stop(service);
}

/// The end of an operation must not hide later problems.
#[test]
fn problems_are_explained_even_after_an_operation() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&["frontend"]);
    let explanation = explain(&fleet, "frontend");
    assert!(
        explanation.contains("no new operation has started: the application is in sync"),
        "{explanation}"
    );
    fleet.replace("frontend.yaml", "path: frontend", "path: nowhere");
    fleet.condition("frontend", "ComparisonError");
    let explanation = explain(&fleet, "frontend");
    for text in ["frontend: Succeeded", "Next Operation: no new operation has started", "ComparisonError: "] {
        assert!(explanation.contains(text), "{text}: {explanation}");
    }
    // JSON fields that existing clients use are unchanged.
    let document = fleet.bench.json(&["app", "explain", "frontend", "-o", "json"]);
    assert_eq!(document["phase"], "Succeeded", "{document}");
    assert_eq!(document["id"].as_str(), Some(fleet.bench.newest_of("frontend").as_str()));
    assert_eq!(document["applicationStatus"]["conditions"][0]["type"], "ComparisonError", "{document}");
    Fleet::stop(service);
}

/// The operation was started by `tidegate sync`, which doesn't know the Application but uses its name.
#[test]
fn the_blocking_older_operation_is_named() {
    let fleet = Fleet::new();
    fleet.bench.write("stuck.yaml", STUCK);
    let stuck = ["sync", "stuck.yaml", "--app", "backend", "--sim", "--timeout", "300ms"];
    fleet.bench.run(&stuck).expect_code(3);
    let older = fleet.bench.newest();
    fleet.bench.write_private("tokens", "ann operator operators-may-have-things-done\n");
    fleet.bench.write_private("token", "operators-may-have-things-done");
    let args = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
    let mut service = fleet.bench.start(&args);
    let url = format!("http://{}", service.wait_for_api());
    service.wait_for_line("managing 3 applications");
    let text = format!("it starts when operation {older} ends (`tidegate explain {older}`)");
    let mut all = std::iter::repeat_with(|| explain(&fleet, "backend")).take(3000);
    let explanation = all.find(|explanation| explanation.contains(&text));
    assert!(
        explanation.is_some_and(|explanation| explanation.contains("not started: ")),
        "{}",
        explain(&fleet, "backend")
    );
    let document = fleet.bench.json(&["app", "explain", "backend", "-o", "json"]);
    assert_eq!(document["predecessor"].as_str(), Some(older.as_str()), "{document}");
    assert_eq!(document["idleReason"], Value::Null, "{document}");
    let there = ["app", "explain", "backend", "-o", "json", "--server", &url, "--token-file", "token"];
    assert_eq!(fleet.bench.json(&there)["predecessor"], document["predecessor"]);
    Fleet::stop(service);
}

/// A manual sync would break the order of the rollout.
#[test]
fn a_waiting_member_names_its_step_and_the_command_to_inspect_it() {
    let members = [FIVE, &[("test-a", "test")][..]].concat();
    let appset = ManagedAppset::new(STEPS, &members);
    let approval = "metadata: {name: fleet, annotations: {tidegate.dev/rollout: 'steps: [{step: 2, gates: [approval]}]'}}";
    appset.edit("metadata: {name: fleet}", approval);
    let service = appset.serve();
    appset.wait_until_explained("tidegate appset approve");
    let explained = |name: &str| appset.bench.run(&["app", "explain", name]).expect_code(0).out;
    for (name, text) in [
        (
            "qa-a",
            "the application belongs to ApplicationSet fleet and is synced in step 2 of its rollout; `tidegate appset explain fleet`",
        ),
        ("prod-b", "the application belongs to ApplicationSet fleet and is synced in step 3 of its rollout"),
        ("dev-a", "the application is in sync; rollouts of ApplicationSet fleet sync it in step 1"),
        (
            "test-a",
            "the application belongs to ApplicationSet fleet, and no step selects it: use `tidegate app sync`",
        ),
    ] {
        let found = std::iter::repeat_with(|| explained(name))
            .take(3000)
            .find(|explanation| explanation.contains(text));
        let explanation = found.unwrap_or_else(|| panic!("{name}: {}", explained(name)));
        assert_eq!(explanation.contains("`tidegate app sync`"), name == "test-a", "{explanation}");
        assert_eq!(explanation.contains("Succeeded"), name == "dev-a", "{explanation}");
    }
    let document = appset.bench.json(&["app", "explain", "qa-a", "-o", "json"]);
    assert_eq!(document["applicationSet"], serde_json::json!({"name": "fleet", "step": 2}), "{document}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn waiting_commands_print_the_cause() {
    let fleet = Fleet::new();
    fleet.replace(
        "backend.yaml",
        "metadata:\n",
        "metadata:\n  annotations: {argocd.argoproj.io/skip-reconcile: \"true\"}\n",
    );
    fleet.replace("frontend.yaml", "path: frontend", "path: nowhere");
    let service = fleet.serve();
    // No service will process the request.
    let ran = fleet.bench.run(&["app", "wait", "backend", "--timeout", "0s"]).expect_code(3);
    let place = |text: &str| ran.err.find(text).unwrap_or_else(|| panic!("{text}: {ran:?}"));
    let order = [
        "application backend is skipped",
        "timed out after",
        "; skipped because of its argocd.argoproj.io/skip-reconcile annotation",
    ];
    assert!(order.map(place).is_sorted(), "{ran:?}");
    assert!(ran.out.contains("backend"), "{ran:?}");
    // A service could still process this request.
    let mut waiting = fleet.bench.start(&["app", "wait", "frontend", "--timeout", "10m"]);
    let note = waiting.wait_for_line("note: frontend: ComparisonError: ");
    assert!(note.contains("nowhere"), "{note}");
    fleet.replace("frontend.yaml", "path: nowhere", "path: frontend");
    let waited = waiting.finish().expect_code(0);
    assert_eq!(waited.err.matches(&note).count(), 1, "exactly once: {}", waited.err);
    Fleet::stop(service);
}

/// All views of an application or an operation must show who paused it, and why.
#[test]
fn a_pause_is_shown_in_every_view() {
    let fleet = Fleet::new();
    fleet.set_migration_duration("2s");
    let service = fleet.serve();
    fleet.wait_until("backend", |_| !fleet.creations("Job", "migrate").is_empty());
    let state =
        |app: &Value| app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    let id = fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"])[0]["id"].clone();
    let id = id.as_str().unwrap();
    fleet.bench.run(&["ops", "pause", id, "--reason", "stop for lunch"]).expect_code(0);
    let held = "paused by tester: stop for lunch";
    let app = fleet.wait_until("backend", |app| state(app).starts_with(held));
    let waits = format!("{held}; waiting for completion of hook batch/Job/migrate");
    assert!([held, waits.as_str()].contains(&state(&app).as_str()), "{app}");
    // The hook has finished, and the operation is only waiting for the person.
    fleet.wait_until("backend", |app| state(app) == held);
    let shown = fleet.bench.json(&["ops", "show", id, "-o", "json"]);
    assert_eq!(shown["message"], held);
    for command in [&["ops", "list"][..], &["ops", "show", id], &["app", "get", "backend"]] {
        let text = fleet.bench.run(command).expect_code(0).out;
        assert!(text.contains(held), "{command:?}: {text}");
    }
    let listed = fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"]);
    assert_eq!(listed[0]["message"], held);
    fleet.bench.run(&["ops", "unpause", id]).expect_code(0);
    fleet.wait_until_synced(&["backend"]);
    Fleet::stop(service);
}

/// The output must show the order of the deletion plan, not the order of the status.
#[test]
fn a_deletion_is_shown_in_order_before_it_is_requested() {
    let fleet = Fleet::new();
    let object = |name: &str, annotation: &str, value: &str| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{annotation}: {value:?}}}\n"
        )
    };
    let hook = "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: drain\n  annotations: {argocd.argoproj.io/hook: PreDelete}\nspec:\n  template:\n    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}\n";
    let more = [
        object("kept-by-option", "argocd.argoproj.io/sync-options", "Delete=false"),
        object("kept-by-helm", "helm.sh/resource-policy", "keep"),
        object("a-last", "argocd.argoproj.io/sync-wave", "9"),
        object("z-first", "argocd.argoproj.io/sync-wave", "-9"),
        hook.to_owned(),
    ];
    fs::write(fleet.path("repo/backend/more.yaml"), more.concat()).unwrap();
    fleet.set_migration_duration("100ms");
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend"]);
    let shown = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2).out;
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}"));
    let order = [
        "Job fleet/drain (PreDelete",
        "to delete: ConfigMap fleet/a-last (wave 9)",
        "to delete: ConfigMap fleet/z-first (wave -9)",
        "to keep: ConfigMap fleet/kept-by-",
    ];
    let places: Vec<usize> = order.iter().map(|text| place(text)).collect();
    assert!(places.is_sorted(), "{shown}");
    for text in [
        "to keep: ConfigMap fleet/kept-by-option: ignored (no delete)",
        "to keep: ConfigMap fleet/kept-by-helm: ignored (helm.sh/resource-policy: keep)",
    ] {
        place(text);
    }
    assert!(!shown.contains("to delete: ConfigMap fleet/kept"), "{shown}");
    // The objects are deleted in the same order.
    let deleted = |writes: Vec<Value>| -> Vec<String> {
        let gone = writes.into_iter().filter(|one| one["verb"] == "delete" && one["kind"] == "ConfigMap");
        gone.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let ran = fleet.bench.run(&["app", "delete", "backend", "--cascade", "orphan"]).expect_code(2).out;
    assert!(
        ran.contains("no objects will be deleted") && ran.contains("to keep: ConfigMap fleet/a-last"),
        "{ran}"
    );
    let done = fleet.bench.run(&["app", "delete", "backend", "--yes"]).expect_code(0).err;
    let gone = deleted(fleet.bench.writes());
    let (last, first) =
        (gone.iter().position(|one| one == "a-last"), gone.iter().position(|one| one == "z-first"));
    assert!(last < first && last.is_some(), "{gone:?}");
    assert!(done.contains("left in place: ") && done.contains("kept-by-helm"), "{done}");
    Fleet::stop(service);
}

/// A service with a new state directory takes over. The status describes the operation, but only the log of the
/// former service has its details.
#[test]
fn an_operation_in_the_log_of_another_service_is_explained() {
    let fleet = Fleet::new();
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let id = fleet.bench.newest_of("backend");
    Fleet::stop(service);
    for name in ["log", "witness"] {
        let path = fleet.bench.state().join(name);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    let service = fleet.serve();
    let ran = fleet.bench.run(&["app", "explain", "backend"]).expect_code(0);
    let expected = format!(
        "operation {id} for application backend is not in this service's log because a service with another \
         state directory recorded it; nothing to do"
    );
    assert!(ran.err.contains(&expected) && !ran.err.contains("try again"), "{}", ran.err);
    assert!(ran.out.contains("Succeeded"), "{}", ran.out);
    Fleet::stop(service);
}
