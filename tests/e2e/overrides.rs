//! Objects and waves that people skip, mark as done or have tried again while an operation runs.

use serde_json::Value;

use crate::bench::Bench;

const SHOP: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {argocd.argoproj.io/hook: PreSync, sim.tidegate.dev/ready-after: 1h}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  annotations: {sim.tidegate.dev/outcome: never-ready}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: main, image: busybox}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: later
  annotations: {argocd.argoproj.io/sync-wave: \"1\"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: last
  annotations: {argocd.argoproj.io/sync-wave: \"2\"}
";

const SYNC: [&str; 5] = ["sync", "shop.yaml", "--app", "shop", "--sim"];

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("shop.yaml", SHOP);
    bench
}

/// What was decided, as the log has it.
fn decisions(bench: &Bench) -> Vec<String> {
    let facts = bench.json(&["ops", "log", "shop", "-o", "json"]);
    let facts = facts.as_array().unwrap().iter().filter(|fact| fact["kind"] == "overridden");
    let words = |fact: &Value| {
        let (details, object) = (&fact["details"], &fact["object"]);
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} by {}: {}",
            text(&object["name"]),
            text(&details["what"]),
            text(&details["by"]),
            text(&details["reason"])
        )
    };
    facts.map(words).collect()
}

fn results(bench: &Bench) -> Vec<String> {
    let shown = bench.json(&["ops", "show", "shop", "-o", "json"]);
    let resources = shown["resources"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    resources
        .map(|one| format!("{} {} {}", text(&one["name"]), text(&one["status"]), text(&one["message"])))
        .collect()
}

/// It is recorded as one line.
const REASON: [&str; 2] = ["--reason", " it is\nin the way\n"];

fn ops<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["ops"], rest, &REASON].concat()
}

#[test]
fn an_operation_goes_on_without_what_another_process_has_skipped() {
    let bench = bench();
    let mut sync = bench.start(&SYNC);
    sync.await_line("hook Job default/migrate");
    bench.run(&["ops", "skip", "shop", "--task", "Job/migrate"]).expect_code(2);
    bench.run(&ops(&["skip", "shop", "--task", "Job"])).expect_code(2);
    let neither = bench.run(&ops(&["skip", "shop"])).expect_code(2);
    assert!(neither.err.contains("--task") && neither.err.contains("--wave"), "{}", neither.err);
    bench.run(&ops(&["skip", "shop", "--task", "Job/migrate", "--wave", "1"])).expect_code(2);
    let unknown = bench.run(&ops(&["skip", "shop", "--task", "Job/none"])).expect_code(4);
    assert!(unknown.err.contains("the plan has no Job/none"), "{}", unknown.err);
    let running = bench.run(&ops(&["retry-task", "shop", "--task", "Job/migrate"])).expect_code(4);
    assert!(running.err.contains("hook Job default/migrate is at work"), "{}", running.err);
    let skipped = bench.run(&ops(&["skip", "shop", "--task", "Job/migrate", "-n", "default"])).expect_code(0);
    assert!(skipped.out.contains("goes on without Job/migrate in namespace default"), "{}", skipped.out);
    sync.await_line("Deployment default/api");
    let explained = bench.run(&["explain", "shop"]).expect_code(0).out;
    assert!(
        explained.contains("skipped by tester (it is in the way): hook Job default/migrate"),
        "{explained}"
    );
    bench.run(&ops(&["skip", "shop", "--wave", "Sync/1"])).expect_code(0);
    let again = bench.run(&ops(&["skip", "shop", "--wave", "Sync/1"])).expect_code(4);
    assert!(again.err.contains("nothing of wave Sync/1 can be skipped now"), "{}", again.err);
    bench.run(&ops(&["mark-done", "shop", "--task", "Deployment/api"])).expect_code(0);
    let ended = sync.finish();
    assert_eq!(ended.status.code(), Some(0));
    let message =
        "skipped: hook Job default/migrate, ConfigMap default/later; marked as done: Deployment default/api";
    assert!(ended.out.contains(message), "{}", ended.out);
    let shown = bench.run(&["ops", "show", "shop"]).expect_code(0).out;
    for table in [&ended.out, &shown] {
        let line = table.lines().find(|line| line.contains("default/migrate") && line.contains("PreSync"));
        let line = line.unwrap();
        assert!(line.contains("hook Skipped") && !line.contains("Succeeded"), "{line}");
    }
    assert_eq!(
        decisions(&bench),
        [
            "migrate skipped by tester: it is in the way",
            "later skipped by tester: it is in the way",
            "api marked as done by tester: it is in the way",
        ]
    );
    let results = results(&bench);
    assert!(
        results[0].starts_with("migrate Skipped skipped by tester (it is in the way); it was running"),
        "{results:?}"
    );
    assert!(
        results.iter().any(|one| one.starts_with("api MarkedDone marked as done by tester")),
        "{results:?}"
    );
    assert_eq!(bench.creations("ConfigMap", "later"), 0);
    assert_eq!((bench.creations("Job", "migrate"), bench.creations("ConfigMap", "last")), (1, 1));
    let over = bench.run(&ops(&["skip", "shop", "--task", "Deployment/api"])).expect_code(4);
    assert!(over.err.contains(" is over: "), "{}", over.err);
}

/// Skipped where no process is at work, it holds for whoever goes on; and killed after the wish, nobody is asked again.
#[test]
fn a_skip_survives_a_kill() {
    for beforehand in [true, false] {
        let bench = bench();
        let mut sync = bench.start(&SYNC);
        sync.await_line("hook Job default/migrate");
        let skip = || bench.run(&ops(&["skip", "shop", "--task", "Job/migrate"])).expect_code(0);
        if beforehand {
            skip();
        }
        sync.signal("KILL");
        sync.finish();
        if !beforehand {
            let skipped = skip();
            assert!(skipped.out.contains("; go on with `tidegate resume"), "{}", skipped.out);
        }
        bench.run(&ops(&["mark-done", "shop", "--task", "Deployment/api"])).expect_code(0);
        bench.run(&["resume", "shop"]).expect_code(0);
        assert_eq!(decisions(&bench).len(), 2, "skipped beforehand: {beforehand}");
        assert_eq!((bench.creations("Job", "migrate"), bench.creations("ConfigMap", "last")), (1, 1));
    }
}
