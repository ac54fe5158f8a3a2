//! What is told of an application for which nothing has begun, of one that somebody waits for, and of one that is about to be
//! deleted.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;
use crate::manifests::STUCK;
use crate::sets::{FIVE, STEPS, Served};

fn explain(fleet: &Fleet, name: &str) -> String {
    fleet.bench.run(&["app", "explain", name]).expect_code(0).out
}

#[test]
fn what_an_operation_waits_for_before_it_begins_is_explained() {
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
    let serving = fleet.serve();
    fleet.until("frontend", |app| app["status"]["operationState"]["message"].to_string().contains("missing"));
    let said = explain(&fleet, "frontend");
    for words in ["not begun", "waiting for missing: it is not there"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let document = fleet.bench.json(&["app", "explain", "frontend", "-o", "json"]);
    assert!(document["operation"]["message"].as_str().unwrap().contains("missing"), "{document}");
    // One that is left alone is not synced, and whoever asks is told so and does not wait.
    let refused = fleet.bench.run(&["app", "sync", "backend"]);
    assert!(refused.code() != 0 && refused.err.contains("skip-reconcile"), "{refused:?}");
    assert!(explain(&fleet, "backend").contains("skip-reconcile"));
    // A repository that is not there.
    fleet.replace("frontend.yaml", "path: frontend", "path: nowhere");
    fleet.condition("frontend", "ComparisonError");
    let said = explain(&fleet, "frontend");
    assert!(said.contains("ComparisonError") && said.contains("nowhere"), "{said}");
    Fleet::end(serving);
}

/// The end of an operation hides nothing of what has come since.
#[test]
fn what_is_wrong_is_explained_also_after_an_operation() {
    let fleet = Fleet::new();
    let serving = fleet.serve();
    fleet.wait(&["frontend"]);
    let said = explain(&fleet, "frontend");
    assert!(said.contains("none has begun since: it is as its manifests have it"), "{said}");
    fleet.replace("frontend.yaml", "path: frontend", "path: nowhere");
    fleet.condition("frontend", "ComparisonError");
    let said = explain(&fleet, "frontend");
    for words in ["frontend: Succeeded", "Next Operation: none has begun since", "ComparisonError: "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // What programs have read until now is where it was.
    let document = fleet.bench.json(&["app", "explain", "frontend", "-o", "json"]);
    assert_eq!(document["phase"], "Succeeded", "{document}");
    assert_eq!(document["id"].as_str(), Some(fleet.bench.newest_of("frontend").as_str()));
    assert_eq!(document["standing"]["conditions"][0]["type"], "ComparisonError", "{document}");
    Fleet::end(serving);
}

/// One of `tidegate sync`, which knows nothing of the Application, but goes by its name.
#[test]
fn the_older_operation_is_named_that_one_waits_for() {
    let fleet = Fleet::new();
    fleet.bench.write("stuck.yaml", STUCK);
    let stuck = ["sync", "stuck.yaml", "--app", "backend", "--sim", "--timeout", "300ms"];
    fleet.bench.run(&stuck).expect_code(3);
    let older = fleet.bench.newest();
    fleet.bench.write_closed("tokens", "ann operator operators-may-have-things-done\n");
    fleet.bench.write_closed("token", "operators-may-have-things-done");
    let args = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
    let mut serving = fleet.bench.start(&args);
    let url = format!("http://{}", serving.await_api());
    serving.await_line("serving 3 applications");
    let words = format!("it begins when operation {older} is over (`tidegate explain {older}`)");
    let mut all = std::iter::repeat_with(|| explain(&fleet, "backend")).take(3000);
    let said = all.find(|said| said.contains(&words));
    assert!(said.is_some_and(|said| said.contains("not begun: ")), "{}", explain(&fleet, "backend"));
    let document = fleet.bench.json(&["app", "explain", "backend", "-o", "json"]);
    assert_eq!(document["after"].as_str(), Some(older.as_str()), "{document}");
    assert_eq!(document["idle"], Value::Null, "{document}");
    let there = ["app", "explain", "backend", "-o", "json", "--server", &url, "--token-file", "token"];
    assert_eq!(fleet.bench.json(&there)["after"], document["after"]);
    Fleet::end(serving);
}

/// Who synced it by hand would break the order of the rollout.
#[test]
fn a_member_of_a_set_that_waits_for_its_step_says_which_and_where_to_look() {
    let members = [FIVE, &[("test-a", "test")][..]].concat();
    let served = Served::new(STEPS, &members);
    let approval = "metadata: {name: fleet, annotations: {tidegate.dev/rollout: 'steps: [{step: 2, gates: [approval]}]'}}";
    served.edit("metadata: {name: fleet}", approval);
    let serving = served.serve();
    served.until_explained("tidegate appset approve");
    let explained = |name: &str| served.bench.run(&["app", "explain", name]).expect_code(0).out;
    for (name, words) in [
        (
            "qa-a",
            "it belongs to ApplicationSet fleet, whose rollout syncs it in step 2; `tidegate appset explain fleet`",
        ),
        ("prod-b", "it belongs to ApplicationSet fleet, whose rollout syncs it in step 3"),
        ("dev-a", "it is as its manifests have it; the rollouts of ApplicationSet fleet have it in step 1"),
        (
            "test-a",
            "it belongs to ApplicationSet fleet, no step of which selects it: it is synced when somebody asks",
        ),
    ] {
        let found = std::iter::repeat_with(|| explained(name)).take(3000).find(|said| said.contains(words));
        let said = found.unwrap_or_else(|| panic!("{name}: {}", explained(name)));
        assert_eq!(said.contains("`tidegate app sync`"), name == "test-a", "{said}");
        assert_eq!(said.contains("Succeeded"), name == "dev-a", "{said}");
    }
    let document = served.bench.json(&["app", "explain", "qa-a", "-o", "json"]);
    assert_eq!(document["set"], serde_json::json!({"name": "fleet", "step": 2}), "{document}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn whoever_waits_is_told_what_for() {
    let fleet = Fleet::new();
    fleet.replace(
        "backend.yaml",
        "metadata:\n",
        "metadata:\n  annotations: {argocd.argoproj.io/skip-reconcile: \"true\"}\n",
    );
    fleet.replace("frontend.yaml", "path: frontend", "path: nowhere");
    let serving = fleet.serve();
    // Nobody will ever do anything with it.
    let ran = fleet.bench.run(&["app", "wait", "backend", "--timeout", "0s"]).expect_code(3);
    let place = |words: &str| ran.err.find(words).unwrap_or_else(|| panic!("{words}: {ran:?}"));
    let order = ["application backend is left alone", "not there after", "left alone by its annotation"];
    assert!(order.map(place).is_sorted(), "{ran:?}");
    assert!(ran.out.contains("backend"), "{ran:?}");
    // Somebody can.
    let mut waiting = fleet.bench.start(&["app", "wait", "frontend", "--timeout", "10m"]);
    let told = waiting.await_line("note: frontend: ComparisonError: ");
    assert!(told.contains("nowhere"), "{told}");
    fleet.replace("frontend.yaml", "path: nowhere", "path: frontend");
    let waited = waiting.finish().expect_code(0);
    assert_eq!(waited.err.matches(&told).count(), 1, "once: {}", waited.err);
    Fleet::end(serving);
}

/// Who looks at an application, or at the operations, reads that somebody holds it, and why.
#[test]
fn what_is_paused_says_so_wherever_it_is_shown() {
    let fleet = Fleet::new();
    fleet.migrates_for("2s");
    let serving = fleet.serve();
    fleet.until("backend", |_| !fleet.made("Job", "migrate").is_empty());
    let state =
        |app: &Value| app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
    let id = fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"])[0]["id"].clone();
    let id = id.as_str().unwrap();
    fleet.bench.run(&["ops", "pause", id, "--reason", "stop for lunch"]).expect_code(0);
    let held = "paused by tester: stop for lunch";
    let app = fleet.until("backend", |app| state(app).starts_with(held));
    let waits = format!("{held}; waiting for completion of hook batch/Job/migrate");
    assert!([held, waits.as_str()].contains(&state(&app).as_str()), "{app}");
    // The hook has ended, and nothing is awaited but the person.
    fleet.until("backend", |app| state(app) == held);
    let shown = fleet.bench.json(&["ops", "show", id, "-o", "json"]);
    assert_eq!(shown["message"], held);
    for command in [&["ops", "list"][..], &["ops", "show", id], &["app", "get", "backend"]] {
        let said = fleet.bench.run(command).expect_code(0).out;
        assert!(said.contains(held), "{command:?}: {said}");
    }
    let listed = fleet.bench.json(&["ops", "list", "--app", "backend", "-o", "json"]);
    assert_eq!(listed[0]["message"], held);
    fleet.bench.run(&["ops", "unpause", id]).expect_code(0);
    fleet.wait(&["backend"]);
    Fleet::end(serving);
}

/// It is the plan of the deletion, and not what the status has.
#[test]
fn a_deletion_is_shown_in_its_order_before_it_is_asked_for() {
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
    fleet.migrates_for("100ms");
    let serving = fleet.serve();
    fleet.wait(&["backend"]);
    let shown = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2).out;
    let place = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words}: {shown}"));
    let order = [
        "Job fleet/drain (PreDelete",
        "to be deleted: ConfigMap fleet/a-last (wave 9)",
        "to be deleted: ConfigMap fleet/z-first (wave -9)",
        "stays: ConfigMap fleet/kept-by-",
    ];
    let places: Vec<usize> = order.iter().map(|words| place(words)).collect();
    assert!(places.is_sorted(), "{shown}");
    for words in [
        "stays: ConfigMap fleet/kept-by-option: ignored (no delete)",
        "stays: ConfigMap fleet/kept-by-helm: ignored (helm.sh/resource-policy: keep)",
    ] {
        place(words);
    }
    assert!(!shown.contains("to be deleted: ConfigMap fleet/kept"), "{shown}");
    // What is said is what is done.
    let deleted = |writes: Vec<Value>| -> Vec<String> {
        let gone = writes.into_iter().filter(|one| one["verb"] == "delete" && one["kind"] == "ConfigMap");
        gone.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let ran = fleet.bench.run(&["app", "delete", "backend", "--cascade", "orphan"]).expect_code(2).out;
    assert!(
        ran.contains("no object of it will be deleted") && ran.contains("stays: ConfigMap fleet/a-last"),
        "{ran}"
    );
    let done = fleet.bench.run(&["app", "delete", "backend", "--yes"]).expect_code(0).err;
    let gone = deleted(fleet.bench.writes());
    let (last, first) =
        (gone.iter().position(|one| one == "a-last"), gone.iter().position(|one| one == "z-first"));
    assert!(last < first && last.is_some(), "{gone:?}");
    assert!(done.contains("left alone: ") && done.contains("kept-by-helm"), "{done}");
    Fleet::end(serving);
}
