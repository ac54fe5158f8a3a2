//! Deletions with `delete`: scope, order, and remaining objects.

use serde_json::Value;

use crate::bench::Bench;

fn config(name: &str, annotations: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n"
    )
}

fn wave(number: i64) -> String {
    format!("argocd.argoproj.io/sync-wave: \"{number}\"")
}

fn hook(name: &str, phase: &str, ready_after: &str) -> String {
    let annotation = format!("sim.tidegate.dev/ready-after: {ready_after}");
    format!("---\n{}", crate::manifests::hook(name, phase, &annotation))
}

/// Returns manifests with four waves, and hooks that run before and after the deletion.
fn manifests(ready_after: &str) -> String {
    let keep = "argocd.argoproj.io/sync-options: Delete=false";
    [
        config("first", &wave(-1)),
        config("second", &wave(0)),
        config("third", &wave(1)),
        config("fourth", &wave(2)),
        config("kept", keep),
        hook("drain", "PreDelete", ready_after),
        hook("report", "PostDelete", "10ms"),
    ]
    .concat()
}

const FINALIZER: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/guard], annotations: {argocd.argoproj.io/sync-wave: \"1\"}}\n";

/// Returns the creations and deletions in order, without the first `skip` writes.
fn writes(bench: &Bench, skip: usize) -> Vec<String> {
    let word = |entry: &Value| {
        let what = match (entry["verb"].as_str().unwrap(), entry["code"].as_i64().unwrap()) {
            ("delete", _) => "delete",
            (_, 201) => "create",
            _ => return None,
        };
        Some(format!("{what} {}", entry["name"].as_str().unwrap()))
    };
    bench.writes().iter().skip(skip).filter_map(word).collect()
}

/// Returns the existing objects that aren't being deleted. The command doesn't wait for the removal of hooks
/// by their policy.
fn names(bench: &Bench) -> Vec<String> {
    let objects = bench.json(&["sim", "objects", "-o", "json"]);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let known = |object: &&Value| {
        ["ConfigMap", "Job"].contains(&object["kind"].as_str().unwrap())
            && object["metadata"]["deletionTimestamp"].is_null()
    };
    objects.as_array().unwrap().iter().filter(known).map(name).collect()
}

const DELETION_ORDER: [&str; 7] = [
    "create drain",
    "delete fourth",
    "delete third",
    "delete second",
    "delete first",
    "create report",
    "delete drain",
];

fn synced_bench(manifests: &str) -> (Bench, usize) {
    let bench = Bench::new();
    bench.write("app.yaml", manifests);
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
    assert!(!names(&bench).contains(&"drain".to_owned()), "a sync runs no deletion hooks");
    let before = bench.writes().len();
    (bench, before)
}

/// The command specifies neither files nor a namespace, because both are in the log.
#[test]
fn an_application_is_deleted_in_reverse_sync_order() {
    let (bench, before) = synced_bench(&manifests("10ms"));
    let shown = bench.run(&["delete", "--app", "a", "--sim"]).expect_code(2);
    assert!(
        shown.err.contains("nothing was deleted; use --yes to delete application a with 4 objects"),
        "{}",
        shown.err
    );
    for line in ["PreDelete", "PostDelete", "ConfigMap default/fourth", "ignored (no delete)"] {
        assert!(shown.out.contains(line), "no {line} in {}", shown.out);
    }
    let plan = bench.run(&["delete", "--app", "a", "--sim", "-o", "json"]).expect_code(2);
    let plan: Value = serde_json::from_str(&plan.out).unwrap();
    assert_eq!(plan["waves"][0]["phase"], "PreDelete");
    // All outputs identify a wave by the annotation of its objects, in the order of the deletion.
    let of_objects = |document: &Value| -> Vec<i64> {
        let waves = document["waves"].as_array().unwrap().iter().filter(|wave| wave["phase"] == "Sync");
        waves.map(|wave| wave["wave"].as_i64().unwrap()).collect()
    };
    assert_eq!(of_objects(&plan), [2, 1, 0, -1]);
    let tree: String = shown.out.chars().filter(|c| !"├└─│ ".contains(*c)).collect();
    let place = |text: &str| tree.find(text).unwrap_or_else(|| panic!("{text}: {}", shown.out));
    assert!(place("wave2\nConfigMapdefault/fourth") < place("wave-1\nConfigMapdefault/first"));
    bench.run(&["delete", "--app", "a", "--sim", "--dry-run"]).expect_code(0);
    assert_eq!(bench.writes().len(), before, "nothing was written yet");
    let ran = bench.run(&["delete", "--app", "a", "--sim", "--yes"]).expect_code(0);
    assert!(ran.out.contains("successfully deleted"), "{}", ran.out);
    assert_eq!(writes(&bench, before), DELETION_ORDER);
    assert_eq!(names(&bench), ["kept", "report"]);
    // After the deletion, the output contains the objects' deletion times.
    let shown = bench.run(&["ops", "show", "a"]).expect_code(0).out;
    assert!(
        shown.contains("foreground; objects are deleted wave by wave, from wave 2 to wave -1"),
        "{shown}"
    );
    let rows = |phase: &str| -> Vec<Vec<String>> {
        let rows = shown.lines().filter(|line| line.starts_with(phase) && line.contains("Passed"));
        rows.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let listed: Vec<String> = rows("Sync").iter().map(|row| row[1..3].join(" ")).collect();
    // The number of objects is shown for each wave.
    assert_eq!(listed, ["2 objects", "1 objects", "0 objects", "-1 objects"], "{shown}");
    assert_eq!(rows("PreDelete")[0][2], "hooks", "{shown}");
    let operation = bench.json(&["ops", "show", "a", "-o", "json"]);
    assert_eq!(of_objects(&operation), [2, 1, 0, -1]);
    let resources = operation["resources"].as_array().unwrap().iter();
    let gone = resources.filter(|one| one["status"] == "Pruned");
    let gone: Vec<(&str, i64)> =
        gone.map(|one| (one["name"].as_str().unwrap(), one["wave"].as_i64().unwrap())).collect();
    assert_eq!(gone, [("fourth", 2), ("third", 1), ("second", 0), ("first", -1)]);
    let events = bench.json(&["ops", "log", "a", "-o", "json"]);
    let details = || {
        events
            .as_array()
            .unwrap()
            .iter()
            .map(|recorded_event| (&recorded_event["kind"], &recorded_event["details"]))
    };
    let planned = details().find(|(kind, _)| *kind == "planned").unwrap().1;
    assert_eq!(of_objects(planned), [2, 1, 0, -1]);
    let mut moved: Vec<i64> = details()
        .filter(|(kind, details)| *kind == "stage-changed" && details["phase"] == "Sync")
        .map(|(_, details)| details["wave"].as_i64().unwrap())
        .collect();
    moved.dedup();
    assert_eq!(moved, [2, 1, 0, -1]);
    let listed = bench.json(&["ops", "events", "a", "-o", "json"]);
    let listed = listed.as_array().unwrap().iter().filter(|event| event["details"]["phase"] == "Sync");
    let mut listed: Vec<i64> = listed.filter_map(|event| event["details"]["wave"].as_i64()).collect();
    listed.dedup();
    assert_eq!(listed, [2, 1, 0, -1]);
    let exported = bench.json(&["ops", "export", "a"]);
    assert_eq!(of_objects(&exported["plan"]), [2, 1, 0, -1]);
    assert_eq!((&operation["phase"], &operation["deletion"]), (&"Succeeded".into(), &"foreground".into()));
    let log = bench.run(&["ops", "log", "a"]).expect_code(0).out;
    assert!(log.contains("accepted: deletion of a by tester"), "{log}");
    // Deleted objects stay deleted, and the next deletion removes the remaining ones.
    let before = bench.writes().len();
    let again = bench.run(&["delete", "--app", "a", "--sim", "--yes"]).expect_code(0);
    assert!(again.err.contains("its deletion hooks will not run again"), "{}", again.err);
    assert_eq!(writes(&bench, before), ["delete report"]);
    assert_eq!(names(&bench), ["kept"]);
}

#[test]
fn a_deleted_application_is_forgotten() {
    let bench = Bench::new();
    bench.write("app.yaml", config("first", &wave(0)) + &hook("drain", "PreDelete", "10ms"));
    let delete = ["delete", "--app", "a", "--sim", "--yes"];
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
    bench.run(&["delete", "--app", "a", "--sim", "--yes", "--cascade", "orphan"]).expect_code(0);
    let before = bench.writes().len();
    bench.run(&delete).expect_code(0);
    assert!(writes(&bench, before).contains(&"create drain".to_owned()), "its objects were kept");
    // Garbage-collected objects, such as the Pods of a hook, may still exist for a moment.
    let mut before = 0;
    let writes_before = std::iter::repeat_with(|| {
        before = bench.writes().len();
        bench.run(&delete)
    });
    let again = writes_before.take(100).find(|ran| ran.code() == 2).unwrap();
    assert!(again.err.contains("deleted it"), "{}", again.err);
    assert_eq!(bench.writes().len(), before);
    // When the application is synced again, it has its hooks again.
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
    let before = bench.writes().len();
    bench.run(&delete).expect_code(0);
    assert!(writes(&bench, before).contains(&"create drain".to_owned()));
}

#[test]
fn objects_stay_if_requested() {
    let (bench, before) = synced_bench(&manifests("10ms"));
    let ran = bench.run(&["delete", "--app", "a", "--sim", "--cascade", "orphan", "--yes"]).expect_code(0);
    assert!(ran.out.contains("successfully deleted (its objects remain)"), "{}", ran.out);
    assert_eq!(writes(&bench, before), [""; 0], "no hook runs");
    assert!(
        ran.err.contains("2 deletion hooks will not run")
            || ran.out.contains("2 deletion hooks will not run"),
        "{} {}",
        ran.out,
        ran.err
    );
    assert_eq!(names(&bench).len(), 5, "{:?}", names(&bench));
}

#[test]
fn unknown_names_delete_nothing() {
    let (bench, before) = synced_bench(&manifests("10ms"));
    let ran = bench.run(&["delete", "--app", "typo", "--sim", "--yes"]).expect_code(2);
    assert!(ran.err.contains("unknown application typo"), "{}", ran.err);
    assert_eq!(bench.writes().len(), before);
}

/// The deletion must continue after the process was killed before, during and after the removal of its
/// objects.
#[test]
fn a_killed_deletion_is_resumed_and_each_hook_runs_once() {
    for line in ["waiting for hook Job default/drain", "wave 2 of", "waiting for hook Job default/report"] {
        let slow = manifests("400ms").replace("ready-after: 10ms", "ready-after: 400ms");
        let (bench, before) = synced_bench(&slow);
        let mut delete = bench.start(&["delete", "--app", "a", "--sim", "--yes"]);
        delete.wait_for_line(line);
        delete.signal("KILL");
        delete.finish();
        bench.run(&["resume", "--all", "--sim"]).expect_code(0);
        assert_eq!(writes(&bench, before), DELETION_ORDER, "killed at {line}");
    }
}

/// `explain` and the result must contain the finalizer that blocks an object.
#[test]
fn a_finalizer_that_blocks_an_object_is_named() {
    let (bench, before) = synced_bench(&(manifests("10ms") + FINALIZER));
    let mut delete = bench.start(&["delete", "--app", "a", "--sim", "--yes", "--timeout", "1h"]);
    delete.wait_for_line("example.com/guard");
    let reason = bench.run(&["explain", "a"]).expect_code(0).out;
    assert!(
        reason.contains("ConfigMap default/held") && reason.contains("waits for finalizer example.com/guard"),
        "{reason}"
    );
    delete.signal("TERM");
    delete.finish().expect_code(3);
    assert!(!writes(&bench, before).contains(&"delete second".to_owned()), "an earlier wave waits");
    let late = ["delete", "--app", "a", "--sim", "--yes", "--supersede", "--no-hooks", "--deadline", "1s"];
    let late = bench.run(&late).expect_code(1);
    let result = late.out + &late.err;
    assert!(result.contains("not deleted when the operation's deadline passed: deletion requested; waits for finalizer example.com/guard"), "{result}");
}

#[test]
fn a_failing_hook_stops_the_deletion() {
    let fails = hook("drain", "PreDelete", "10ms").replace("ready-after: 10ms", "outcome: fail");
    let (bench, before) = synced_bench(&(config("first", &wave(0)) + &fails));
    let ran = bench.run(&["delete", "--app", "a", "--sim", "--yes"]).expect_code(1);
    assert!(ran.out.contains("PreDelete hook(s) failed: default/drain"), "{}", ran.out);
    assert_eq!(writes(&bench, before), ["create drain"]);
    // The hook is replaced on the command line.
    bench.write("better.yaml", hook("drain", "PreDelete", "10ms"));
    bench.run(&["delete", "better.yaml", "--app", "a", "--sim", "--yes"]).expect_code(0);
    assert_eq!(names(&bench), Vec::<String>::new());
}
