//! What hooks write while they run: with a sync, through another process, and by the API of a service.

use serde_json::Value;

use crate::bench::Bench;
use crate::fleet::Fleet;

/// A migration that writes a line every three seconds, and one that says what it knows.
const MIGRATES: &str = "apiVersion: v1
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

fn told(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains(" | ")).collect()
}

#[test]
fn a_sync_shows_what_its_hooks_write_and_so_does_whoever_asks_the_process() {
    let bench = Bench::new();
    bench.write("app.yaml", MIGRATES);
    let mut sync = bench.start(&["sync", "app.yaml", "--app", "shop", "--sim", "--follow-hooks"]);
    // The line comes while the hook runs, and not with the result.
    sync.await_line("migrate | connecting");
    let other = bench.start(&["ops", "output", "shop"]);
    let document = bench.start(&["ops", "output", "shop", "-o", "json"]);
    let shown = bench.json(&["ops", "show", "shop", "-o", "json"]);
    assert_eq!(shown["phase"], "Running");
    let ran = sync.finish().expect_code(0);
    assert_eq!(told(&ran.err), LINES, "{}", ran.err);
    assert!(told(&ran.out).is_empty() && ran.out.contains("Succeeded"), "{}", ran.out);
    assert_eq!(told(&other.finish().expect_code(0).out), LINES);
    let lines = document.finish().expect_code(0).out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), LINES.len());
    for (document, line) in lines.iter().zip(LINES) {
        let (hook, text) = line.split_once(" | ").unwrap();
        assert_eq!((document["hook"]["name"].as_str(), document["text"].as_str()), (Some(hook), Some(text)));
        assert!(document["pod"].as_str().unwrap().starts_with(hook) && document["kind"] == "line");
        assert!(document["at"].is_string(), "{document}");
    }
    // Nothing of it is recorded.
    let log = bench.run(&["ops", "log", "shop", "-o", "json"]).expect_code(0).out;
    assert!(!log.contains("step 1") && !log.contains("canary"), "{log}");
    // Of one that is over there is nothing to follow.
    let over = bench.run(&["ops", "output", "shop"]).expect_code(0);
    assert!(over.out.is_empty() && over.err.contains("is over"), "{}", over.err);
}

#[test]
fn what_nobody_works_on_has_no_output() {
    let bench = Bench::new();
    bench.write("app.yaml", MIGRATES.replace("ready-after: 18s", "ready-after: 1h"));
    let mut sync = bench.start(&["sync", "app.yaml", "--app", "shop", "--sim", "--follow-hooks"]);
    sync.await_line("waiting for hook");
    sync.signal("KILL");
    sync.finish();
    let left = bench.run(&["ops", "output", "shop"]).expect_code(3);
    assert!(left.err.contains("no process is at work on it"), "{}", left.err);
    assert!(left.err.contains("tidegate resume"), "{}", left.err);
    // Whoever goes on with it may follow the hook that runs still, and leave it at once.
    let mut resumed = bench.start(&["resume", "--follow-hooks"]);
    resumed.await_line("migrate");
    resumed.signal("TERM");
    resumed.finish().expect_code(3);
}

#[test]
fn a_cluster_without_logs_is_noted_and_the_sync_goes_on() {
    let bench = Bench::new();
    let silent: String = MIGRATES
        .lines()
        .filter(|line| !line.contains("/logs") && !line.starts_with("      "))
        .map(|line| format!("{line}\n"))
        .collect();
    bench.write("app.yaml", silent);
    let ran = bench.run(&["sync", "app.yaml", "--app", "shop", "--sim", "--follow-hooks"]).expect_code(0);
    let notes = ran.err.lines().filter(|line| line.contains("simulated pods write no logs")).count();
    assert_eq!(notes, 1, "{}", ran.err);
}

#[test]
fn a_sync_of_a_service_shows_what_its_hooks_write() {
    let fleet = Fleet::new();
    fleet.migration_writes("begins\\nends");
    let serving = fleet.serve();
    fleet.wait(&[]);
    let ran = fleet.bench.run(&["app", "sync", "backend", "--follow-hooks"]).expect_code(0);
    assert_eq!(told(&ran.err), ["migrate | begins", "migrate | ends"], "{}", ran.err);
    Fleet::end(serving);
}
