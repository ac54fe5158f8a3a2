//! Processes that are killed before their operation has finished.

use crate::bench::{Bench, example};
use crate::manifests::{FAST, SLOW, STUCK};
use crate::tracking::delete_state;

#[test]
fn a_killed_sync_is_resumed_and_each_hook_runs_once() {
    let bench = Bench::new();
    let mut sync = bench.start(&["sync", &example("shop"), "--app", "shop", "--sim"]);
    sync.wait_for_line("waiting for hook Job shop/migrate");
    sync.signal("KILL");
    assert_eq!(sync.finish().status.code(), None);
    // `explain` works on the interrupted operation.
    let explained = bench.run(&["explain", "shop"]).expect_code(0);
    assert!(explained.out.contains("wave 4 of 7 (Sync, wave 2)"), "{}", explained.out);
    assert!(explained.out.contains("hook Job shop/migrate"), "{}", explained.out);
    assert!(bench.state().join("control.sock").exists(), "left behind by the dead process");
    let resumed = bench.run(&["resume", "--all", "--sim"]).expect_code(0);
    assert!(resumed.out.contains("shop: Succeeded"), "{}", resumed.out);
    for hook in ["backup", "migrate", "smoke-test"] {
        assert_eq!(bench.creations("Job", hook), 1, "{hook}");
    }
    let again = bench.run(&["resume", "--all", "--sim"]).expect_code(0);
    assert!(again.err.contains("nothing to resume"), "{}", again.err);
}

/// The reason for a wait must be on disk once it is reported, even if the process is killed immediately
/// afterwards.
#[test]
fn a_wait_reason_survives_a_kill_right_after_it_was_reported() {
    for _ in 0..3 {
        let bench = Bench::new();
        bench.write("stuck.yaml", STUCK.replace("never-ready", "crashloop"));
        let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "stuck", "--sim"]);
        sync.wait_for_line("waiting for Deployment default/server");
        let why = || {
            let explained = bench.json(&["explain", "stuck", "-o", "json"]);
            (
                explained["isRunning"].clone(),
                explained["awaited"][0]["reason"].as_str().unwrap_or_default().to_owned(),
            )
        };
        let (at_work, told) =
            std::iter::repeat_with(why).take(5000).find(|(_, why)| why.contains("crash")).unwrap();
        sync.signal("KILL");
        sync.finish();
        assert_eq!(at_work, true, "the running process reported it");
        let (at_work, found) = why();
        assert_eq!(at_work, false);
        assert!(found.contains("crash"), "it reported {told:?}, but {found:?} is left");
    }
}

/// A sync that adopts objects is killed before or after its prune. The adopted objects must be pruned once,
/// or belong to the application.
#[test]
fn a_killed_adoption_is_resumed() {
    let config = |name: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    for (phase, prunes) in [("PreSync", true), ("PostSync", true), ("PreSync", false)] {
        let bench = Bench::new();
        bench.write("theirs.yaml", config("theirs"));
        let make = ["-n", "team-a", "--sync-option", "CreateNamespace=true"];
        bench.run(&[&["sync", "theirs.yaml", "--app", "web", "--sim"][..], &make].concat()).expect_code(0);
        // Simulates another team that uses its own state directory on the same cluster.
        delete_state(&bench);
        bench.write("ours.yaml", format!("{}{}", SLOW.replace("PreSync", phase), config("ours")));
        let of_ours = ["ours.yaml", "--app", "web", "--sim", "-n", "team-b"];
        let adopting = ["sync", "--adopt", "--sync-option", "CreateNamespace=true"];
        let prune: &[&str] = if prunes { &["--prune"] } else { &[] };
        let mut sync = bench.start(&[&adopting[..], &of_ours, prune].concat());
        sync.wait_for_line("waiting for hook Job team-b/slow");
        sync.signal("KILL");
        sync.finish();
        bench.run(&["resume", "--all", "--sim"]).expect_code(0);
        let deletions = || {
            let writes = bench.writes();
            writes.iter().filter(|write| write["verb"] == "delete" && write["name"] == "theirs").count()
        };
        assert_eq!(deletions(), usize::from(prunes), "{phase}");
        // The object is in the inventory, so it doesn't have to be adopted again.
        bench.run(&[&["sync", "--prune"][..], &of_ours].concat()).expect_code(0);
        assert_eq!(deletions(), 1, "{phase}");
    }
}

#[test]
fn signals_end_the_process_cleanly_and_the_operation_can_be_resumed() {
    for signal in ["TERM", "INT", "HUP"] {
        let bench = Bench::new();
        bench.write("slow.yaml", SLOW);
        let mut sync = bench.start(&["sync", "slow.yaml", "--app", "slow", "--sim"]);
        sync.wait_for_line("waiting for hook Job default/slow");
        sync.signal(signal);
        let ran = sync.finish().expect_code(3);
        let id = bench.newest();
        assert!(ran.err.contains(&format!("interrupted by SIG{signal}")), "{}", ran.err);
        assert_eq!(ran.err.matches(&format!("`tidegate resume {id}`")).count(), 1, "{}", ran.err);
        assert!(!bench.state().join("control.sock").exists(), "a graceful shutdown removes the socket");
        bench.run(&["resume", &id, "--sim"]).expect_code(0);
        assert_eq!(bench.creations("Job", "slow"), 1);
    }
}

#[test]
fn resume_without_an_id_takes_the_only_operation_or_asks() {
    let bench = Bench::new();
    bench.write("slow.yaml", SLOW);
    bench.run(&["resume", "--sim"]).expect_code(0);
    let cut = |app: &str| {
        let args = ["sync", "slow.yaml", "--app", app, "-n", app, "--sim", "--timeout", "50ms"];
        let option = ["--sync-option", "CreateNamespace=true"];
        bench.run(&[&args[..], &option[..]].concat()).expect_code(3);
    };
    cut("one");
    bench.run(&["resume", "--sim"]).expect_code(0);
    cut("two");
    cut("three");
    let ran = bench.run(&["resume", "--sim"]).expect_code(2);
    assert!(
        ran.err.contains("(two)") && ran.err.contains("(three)") && ran.err.contains("--all"),
        "{}",
        ran.err
    );
    let all = bench.run(&["resume", "--all", "--sim", "-o", "json"]).expect_code(0);
    let operations: serde_json::Value = serde_json::from_str(&all.out).unwrap();
    let mut apps: Vec<&str> =
        operations.as_array().unwrap().iter().filter_map(|one| one["app"].as_str()).collect();
    apps.sort_unstable();
    assert_eq!(apps, ["three", "two"]);
    assert!(all.err.contains("two: ") && all.err.contains("three: "), "lines name applications: {}", all.err);
}

#[test]
fn a_resumed_operation_uses_its_original_manifests() {
    let bench = Bench::new();
    let path = bench.write("fast.yaml", FAST);
    bench.run(&["sync", "fast.yaml", "--app", "a", "--sim", "--timeout", "30ms"]).expect_code(3);
    std::fs::remove_file(path).unwrap();
    bench.run(&["resume", "a", "--sim"]).expect_code(0);
    assert_eq!(bench.creations("Job", "after"), 1);
}
