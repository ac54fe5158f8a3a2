//! Processes that end before their operation does.

use crate::bench::{Bench, example};
use crate::manifests::{FAST, SLOW};

#[test]
fn a_killed_sync_is_resumed_and_each_hook_runs_once() {
    let bench = Bench::new();
    let mut sync = bench.start(&["sync", &example("shop"), "--app", "shop", "--sim"]);
    sync.await_line("waiting for hook Job shop/migrate");
    sync.signal("KILL");
    assert_eq!(sync.finish().status.code(), None);
    // Explained as it lies there.
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

#[test]
fn signals_end_in_order_and_the_operation_can_be_resumed() {
    for signal in ["TERM", "INT", "HUP"] {
        let bench = Bench::new();
        bench.write("slow.yaml", SLOW);
        let mut sync = bench.start(&["sync", "slow.yaml", "--app", "slow", "--sim"]);
        sync.await_line("waiting for hook Job default/slow");
        sync.signal(signal);
        let ran = sync.finish().expect_code(3);
        let id = bench.newest();
        assert!(ran.err.contains(&format!("interrupted by SIG{signal}")), "{}", ran.err);
        assert!(ran.err.contains(&format!("`tidegate resume {id}`")), "{}", ran.err);
        assert!(!bench.state().join("control.sock").exists(), "an orderly end leaves no socket");
        bench.run(&["resume", &id, "--sim"]).expect_code(0);
        assert_eq!(bench.creations("Job", "slow"), 1);
    }
}

#[test]
fn resume_without_an_id_takes_the_only_one_and_asks_among_several() {
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
fn a_resumed_operation_uses_the_manifests_it_began_with() {
    let bench = Bench::new();
    let path = bench.write("fast.yaml", FAST);
    bench.run(&["sync", "fast.yaml", "--app", "a", "--sim", "--timeout", "30ms"]).expect_code(3);
    std::fs::remove_file(path).unwrap();
    bench.run(&["resume", "a", "--sim"]).expect_code(0);
    assert_eq!(bench.creations("Job", "after"), 1);
}
