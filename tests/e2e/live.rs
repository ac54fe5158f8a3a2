//! Reading and controlling an operation from other processes.

use crate::bench::{Bench, redact};
use crate::manifests::STUCK;

/// Returns an operation that is waiting, its process, and its ID.
fn stuck_operation() -> (Bench, crate::bench::Running, String) {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "stuck", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    let id = bench.newest();
    (bench, sync, id)
}

#[test]
fn a_live_operation_is_explained_shown_and_listed() {
    let (bench, sync, id) = stuck_operation();
    // It takes a moment until the rollout is stuck.
    let explain = || bench.run(&["explain", "stuck"]).expect_code(0).out;
    let explained =
        std::iter::repeat_with(explain).take(500).find(|text| text.contains("replicas available"));
    let explained = without_reason(&explained.expect("it reached this point"));
    insta::assert_snapshot!("explain_live", redact(&explained, &bench));
    let document = bench.json(&["explain", &id, "-o", "json"]);
    assert_eq!(document["awaited"][0]["subject"], "Deployment default/server");
    assert!(document["secondsUntilDeadline"].as_u64().unwrap() > 500, "{document}");
    let shown = bench.json(&["ops", "show", &id, "-o", "json"]);
    assert_eq!(shown["phase"], "Running");
    assert_eq!(running_reports(&bench, &id), [true, true, true]);
    assert!(bench.run(&["ops", "list"]).expect_code(0).out.contains(&id));
    assert!(bench.run(&["ops", "log", &id]).expect_code(0).out.contains("accepted: sync of stuck by tester"));
    assert_eq!(bench.creations("Job", "before"), 1, "the audit log is readable meanwhile");
    sync.signal("KILL");
    sync.finish();
    let explained = bench.run(&["explain", "stuck"]).expect_code(0);
    assert!(explained.out.contains("waiting"), "{}", explained.out);
    assert!(explained.out.contains("Deployment default/server"), "{}", explained.out);
}

/// Returns true for each of `explain`, `ops show` and `ops list` that reports a running process.
fn running_reports(bench: &Bench, id: &str) -> [bool; 3] {
    let explained = bench.json(&["explain", id, "-o", "json"]);
    let shown = bench.json(&["ops", "show", id, "-o", "json"]);
    let listed = bench.json(&["ops", "list", "-o", "json"]);
    [&explained, &shown, &listed[0]].map(|document| document["isRunning"].as_bool().unwrap())
}

#[test]
fn an_operation_without_a_process_is_distinguished_from_a_live_one() {
    let (bench, sync, id) = stuck_operation();
    sync.signal("KILL");
    sync.finish();
    assert_eq!(running_reports(&bench, &id), [false, false, false]);
    let way_on = format!("`tidegate resume {id}`");
    let explained = bench.run(&["explain", "stuck"]).expect_code(0);
    assert!(explained.out.contains("; no process is running the operation"), "{}", explained.out);
    assert!(explained.out.contains(&way_on), "{}", explained.out);
    let shown = bench.run(&["ops", "show", "stuck"]).expect_code(0);
    assert!(
        shown.err.contains("no process is running the operation") && shown.err.contains(&way_on),
        "{}",
        shown.err
    );
    let listed = bench.run(&["ops", "list"]).expect_code(0);
    assert!(listed.out.contains("Running, no process"), "{}", listed.out);
    assert!(listed.err.contains("`tidegate resume ID`"), "{}", listed.err);
    bench.run(&["ops", "pause", "stuck"]).expect_code(0);
    let explained = bench.run(&["explain", "stuck"]).expect_code(0);
    assert!(
        explained.out.contains("next: unpause the operation with `tidegate ops unpause"),
        "{}",
        explained.out
    );
    bench.run(&["ops", "terminate", "stuck"]).expect_code(0);
    assert_eq!(running_reports(&bench, &id), [false, false, false]);
    for args in [["explain", "stuck"], ["ops", "list"]] {
        let over = bench.run(&args).expect_code(0);
        assert!(!over.out.contains("no process"), "{}", over.out);
        assert!(over.err.is_empty(), "{}", over.err);
    }
}

/// The request was recorded before the cluster became unavailable.
#[test]
fn an_unfinished_termination_is_continued() {
    let (bench, sync, _) = stuck_operation();
    sync.signal("KILL");
    sync.finish();
    let (cluster, aside) = (bench.state().join("cluster"), bench.path().join("aside"));
    std::fs::rename(&cluster, &aside).unwrap();
    std::fs::write(&cluster, "in the way").unwrap();
    bench.run(&["ops", "terminate", "stuck"]).expect_code(1);
    std::fs::remove_file(&cluster).unwrap();
    std::fs::rename(&aside, &cluster).unwrap();
    let listed = bench.run(&["ops", "list"]).expect_code(0);
    assert!(listed.out.contains("Terminating, no process"), "{}", listed.out);
    bench.run(&["ops", "pause", "stuck"]).expect_code(4);
    let ended = bench.run(&["ops", "terminate", "stuck"]).expect_code(0);
    assert!(ended.out.contains("Operation terminated"), "{}", ended.out);
    bench.run(&["ops", "terminate", "stuck"]).expect_code(4);
}

/// Removes the reason, because the pods may or may not have reported one.
fn without_reason(text: &str) -> String {
    match text.split_once(": server-") {
        Some((before, after)) => format!("{before}{}", after.find(')').map_or("", |end| &after[end..])),
        None => text.to_owned(),
    }
}

#[test]
fn a_live_operation_is_paused_and_continued() {
    let (bench, sync, id) = stuck_operation();
    let paused = bench.run(&["ops", "pause", &id[..18], "--reason", "lunch"]).expect_code(0);
    assert!(paused.out.contains("is paused"), "{}", paused.out);
    let ran = sync.finish().expect_code(3);
    assert!(ran.err.contains("paused by tester"), "{}", ran.err);
    assert!(ran.err.contains("tidegate ops unpause"), "{}", ran.err);
    let explained = bench.run(&["explain", "stuck"]).expect_code(0);
    assert!(explained.out.contains("paused by tester"), "{}", explained.out);
    assert!(explained.out.contains("(lunch)"), "{}", explained.out);
    // A second pause is rejected.
    bench.run(&["ops", "pause", "stuck"]).expect_code(4);
    let refused = bench.run(&["resume", "stuck", "--sim"]).expect_code(3);
    assert!(refused.err.contains("tidegate ops unpause"), "{}", refused.err);
    bench.run(&["ops", "unpause", "stuck"]).expect_code(0);
    bench.run(&["ops", "unpause", "stuck"]).expect_code(4);
    bench.run(&["resume", "stuck", "--sim", "--timeout", "200ms"]).expect_code(3);
    assert_eq!(bench.creations("Job", "before"), 1);
}

#[test]
fn a_live_operation_is_terminated() {
    let (bench, sync, id) = stuck_operation();
    let ended = bench.run(&["ops", "terminate", &id, "--reason", "the wrong cluster"]).expect_code(0);
    assert!(ended.out.contains("is being terminated"), "{}", ended.out);
    let ran = sync.finish().expect_code(1);
    assert!(ran.out.contains("Operation terminated"), "{}", ran.out);
    assert_eq!(bench.creations("ConfigMap", "later"), 0);
    assert_ended_because(&bench, &id, "the wrong cluster");
}

/// Checks that the requester and the reason are recorded.
fn assert_ended_because(bench: &Bench, id: &str, reason: &str) {
    let log = bench.json(&["ops", "log", id, "-o", "json"]);
    let ended =
        log.as_array().unwrap().iter().find(|event| event["kind"] == "termination-requested").unwrap();
    assert_eq!(ended["details"]["reason"], reason);
    let by = ended["details"]["by"].as_str().unwrap();
    assert!(!by.is_empty() && !by.contains(reason), "{ended}");
    assert_eq!(ended["text"], format!("{by} terminated the operation: {reason}"));
}

#[test]
fn a_killed_operation_is_terminated_from_the_log() {
    let (bench, sync, id) = stuck_operation();
    sync.signal("KILL");
    sync.finish();
    let ended = bench.run(&["ops", "terminate", "stuck", "--reason", "nobody needs it"]).expect_code(0);
    assert!(ended.out.contains("Operation terminated"), "{}", ended.out);
    assert_ended_because(&bench, &id, "nobody needs it");
    let shown = bench.json(&["ops", "show", "stuck", "-o", "json"]);
    assert_eq!(shown["phase"], "Failed");
    assert_eq!(shown["message"], "Operation terminated");
}

#[test]
fn a_killed_operation_is_paused_and_continued_in_the_log() {
    let (bench, sync, _) = stuck_operation();
    sync.signal("KILL");
    sync.finish();
    bench.run(&["ops", "pause", "stuck", "--reason", "night"]).expect_code(0);
    let ran = bench.run(&["resume", "--all", "--sim"]).expect_code(3);
    assert!(ran.err.contains("remains paused"), "{}", ran.err);
    let list = bench.run(&["ops", "list"]).expect_code(0);
    assert!(list.out.contains("Running, paused"), "{}", list.out);
    let unpaused = bench.run(&["ops", "unpause", "stuck"]).expect_code(0);
    assert!(unpaused.out.contains("tidegate resume"), "{}", unpaused.out);
    bench.run(&["resume", "--sim", "--timeout", "100ms"]).expect_code(3);
}

#[test]
fn prunes_wait_for_a_confirmation() {
    let bench = Bench::new();
    let guarded = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: guarded\n  annotations: {argocd.argoproj.io/sync-options: Prune=confirm}\n";
    bench.write("app.yaml", format!("{}---\n{guarded}", crate::manifests::CONFIG));
    bench.run(&["sync", "app.yaml", "--app", "a", "--sim"]).expect_code(0);
    bench.write("app.yaml", crate::manifests::CONFIG);
    let mut sync = bench.start(&["sync", "app.yaml", "--app", "a", "--sim", "--prune"]);
    let line = sync.wait_for_line("held, waiting for");
    assert!(line.contains("ConfigMap default/guarded"), "{line}");
    bench.run(&["ops", "confirm", "a"]).expect_code(0);
    let ran = sync.finish().expect_code(0);
    assert!(ran.out.contains("Pruned"), "{}", ran.out);
}

#[test]
fn a_state_directory_with_a_long_path_works_too() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let long = bench.path().join("a-folder-with-a-long-name/".repeat(6));
    let state = long.to_str().unwrap();
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim", "--state-dir", state]);
    sync.wait_for_line("waiting for Deployment default/server");
    let explained = bench.run(&["explain", "a", "--state-dir", state]).expect_code(0);
    assert!(explained.out.contains("Deployment default/server"), "{}", explained.out);
    sync.signal("TERM");
    let ran = sync.finish().expect_code(3);
    assert!(ran.err.contains(&format!("--state-dir {state}")), "the hint names the folder: {}", ran.err);
}

/// This must be a separate message, not the reminder that follows a long wait.
#[test]
fn an_external_deletion_blocked_by_a_finalizer_is_reported() {
    let bench = Bench::new();
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [example.com/hold]}\n";
    bench.write("held.yaml", held);
    let args = ["sync", "held.yaml", "--app", "held", "--sim"];
    bench.run(&args).expect_code(0);
    bench.run(&["sim", "delete", ":ConfigMap:default/a"]).expect_code(0);
    let mut sync = bench.start(&args);
    let line = sync.wait_for_line("waits for finalizer example.com/hold");
    assert!(line.contains("wave 1 of 1 (Sync, wave 0): waiting for "), "{line}");
    let explained = bench.json(&["explain", "held", "-o", "json"]);
    assert_eq!(explained["awaited"][0]["subject"], "ConfigMap default/a", "{explained}");
    let shown = bench.json(&["ops", "show", "held", "-o", "json"]);
    assert_eq!(shown["message"], "waiting for deletion of /ConfigMap/a", "{shown}");
    sync.signal("KILL");
    sync.finish();
}
