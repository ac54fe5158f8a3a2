//! Output of running hooks, printed by the sync itself, by another process, and by the API of a service.

use serde_json::Value;

use crate::bench::Bench;
use crate::fleet::Fleet;

/// A migration that writes a line every three seconds, and a migration that prints a secret.
const MIGRATION: &str = "apiVersion: v1
kind: Secret
metadata: {name: database}
stringData: {password: the-canary-of-this-test}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    argocd.argoproj.io/hook: PreSync
    sim.tidegate.dev/ready-after: 18s
    sim.tidegate.dev/logs: |
      connecting as app:the-canary-of-this-test
      \"\\e[2Jgone\"
      step 1
      step 2
      done
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: smoke
  annotations:
    argocd.argoproj.io/hook: PostSync
    sim.tidegate.dev/ready-after: 3s
    sim.tidegate.dev/logs: it serves
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
";

const LINES: [&str; 6] = [
    "migrate | connecting as app:++++++++",
    "migrate | \"\\e[2Jgone\"",
    "migrate | step 1",
    "migrate | step 2",
    "migrate | done",
    "smoke | it serves",
];

fn migration_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains(" | ")).collect()
}

#[test]
fn a_sync_and_its_followers_show_hook_output() {
    let bench = Bench::new();
    bench.write("app.yaml", MIGRATION);
    let mut sync = bench.start(&["sync", "app.yaml", "--app", "shop", "--sim", "--follow-hooks"]);
    // The line arrives while the hook is running, not with the result.
    sync.wait_for_line("migrate | connecting");
    let other = bench.start(&["ops", "output", "shop"]);
    let document = bench.start(&["ops", "output", "shop", "-o", "json"]);
    let shown = bench.json(&["ops", "show", "shop", "-o", "json"]);
    assert_eq!(shown["phase"], "Running");
    let ran = sync.finish().expect_code(0);
    assert_eq!(migration_lines(&ran.err), LINES, "{}", ran.err);
    assert!(migration_lines(&ran.out).is_empty() && ran.out.contains("Succeeded"), "{}", ran.out);
    assert_eq!(migration_lines(&other.finish().expect_code(0).out), LINES);
    let lines = document.finish().expect_code(0).out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), LINES.len());
    for (document, line) in lines.iter().zip(LINES) {
        let (hook, text) = line.split_once(" | ").unwrap();
        assert_eq!((document["hook"]["name"].as_str(), document["text"].as_str()), (Some(hook), Some(text)));
        assert!(document["pod"].as_str().unwrap().starts_with(hook) && document["kind"] == "line");
        assert!(document["at"].is_string(), "{document}");
    }
    // The output is not recorded.
    let log = bench.run(&["ops", "log", "shop", "-o", "json"]).expect_code(0).out;
    assert!(!log.contains("step 1") && !log.contains("canary"), "{log}");
    // A finished operation doesn't have output to follow.
    let over = bench.run(&["ops", "output", "shop"]).expect_code(0);
    assert!(over.out.is_empty() && over.err.contains("has ended"), "{}", over.err);
}

#[test]
fn an_operation_without_a_process_has_no_output() {
    let bench = Bench::new();
    bench.write("app.yaml", MIGRATION.replace("ready-after: 18s", "ready-after: 1h"));
    let mut sync = bench.start(&["sync", "app.yaml", "--app", "shop", "--sim", "--follow-hooks"]);
    sync.wait_for_line("waiting for hook");
    sync.signal("KILL");
    sync.finish();
    let left = bench.run(&["ops", "output", "shop"]).expect_code(3);
    assert!(left.err.contains("no process is running the operation"), "{}", left.err);
    assert!(left.err.contains("tidegate resume"), "{}", left.err);
    // A resumed sync can follow the running hook, and can be interrupted at any time.
    let mut resumed = bench.start(&["resume", "--follow-hooks"]);
    resumed.wait_for_line("migrate");
    resumed.signal("TERM");
    resumed.finish().expect_code(3);
}

#[test]
fn a_cluster_without_logs_is_noted_and_the_sync_continues() {
    let bench = Bench::new();
    let silent: String = MIGRATION
        .lines()
        .filter(|line| !line.contains("/logs") && !line.starts_with("      "))
        .map(|line| format!("{line}\n"))
        .collect();
    bench.write("app.yaml", silent);
    let ran = bench.run(&["sync", "app.yaml", "--app", "shop", "--sim", "--follow-hooks"]).expect_code(0);
    let notes = ran.err.lines().filter(|line| line.contains("simulated pods do not write logs")).count();
    assert_eq!(notes, 1, "{}", ran.err);
}

#[test]
fn a_sync_by_a_service_shows_hook_output() {
    let fleet = Fleet::new();
    fleet.set_migration_output("begins\\nends");
    let service = fleet.serve();
    fleet.wait_until_synced(&[]);
    let ran = fleet.bench.run(&["app", "sync", "backend", "--follow-hooks"]).expect_code(0);
    assert_eq!(migration_lines(&ran.err), ["migrate | begins", "migrate | ends"], "{}", ran.err);
    Fleet::stop(service);
}
