//! What is told of an application for which nothing has begun, and of one that is about to be deleted.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

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
    let shown = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2).err;
    let place = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words}: {shown}"));
    let order = [
        "Job fleet/drain (PreDelete",
        "to be deleted: ConfigMap fleet/a-last",
        "to be deleted: ConfigMap fleet/z-first",
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
    let ran = fleet.bench.run(&["app", "delete", "backend", "--cascade", "orphan"]).expect_code(2).err;
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
