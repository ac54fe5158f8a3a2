//! Export of an operation to a file, and filters of lists.

use std::fs;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::manifests::{FAST, hook};

/// Detects text that becomes markup or isn't masked.
const MARKUP: &str = "<script>window.hit=1</script><img src=x onerror=window.hit=1>";
const SECRET: &str = "the-canary-of-this-test";

/// Manifests with markup in all text fields, and a Secret.
fn hostile() -> String {
    let text = json!(format!("{MARKUP} javascript:window.hit=1 {SECRET}"));
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: words
  labels: {{team: shop}}
  annotations:
    link.argocd.argoproj.io/one: 'javascript:window.hit=1'
    notes: {text}
data: {{text: {text}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: secret}}
stringData: {{password: {SECRET}}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: fails
  annotations:
    argocd.argoproj.io/hook: PreSync
    sim.tidegate.dev/outcome: fail
    sim.tidegate.dev/logs: {text}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: busybox}}]
"
    )
}

#[test]
fn an_operation_is_exported_completely() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    bench.run(&["sync", "fast.yaml", "--app", "fast", "--sim"]).expect_code(0);
    let id = bench.newest();
    let printed = bench.json(&["ops", "export", "fast"]);
    assert_eq!((&printed["record"], &printed["damage"]), (&json!("tidegate.dev/operation/v1"), &Value::Null));
    assert_eq!(printed["tidegateVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(printed["request"]["initiatedBy"], "tester");
    for (part, args) in [("operation", "show"), ("events", "log")] {
        let mut shown = bench.json(&["ops", args, &id, "-o", "json"]);
        if part == "operation" {
            assert_eq!(
                shown.as_object_mut().unwrap().remove("isRunning"),
                Some(printed["isRunning"].clone())
            );
        }
        assert_eq!(printed[part], shown, "{part}");
    }
    assert_eq!(
        printed["plan"]["waves"].as_array().unwrap().len(),
        printed["operation"]["waves"].as_array().unwrap().len()
    );

    let ran = bench.run(&["ops", "export", &id, "-o", "fast.html"]).expect_code(0);
    assert!(ran.out.is_empty() && ran.err.contains("fast.html"), "{}", ran.err);
    let page = fs::read_to_string(bench.path().join("fast.html")).unwrap();
    for part in [
        "Operation of fast",
        "<svg",
        "Job default/before",
        "successfully synced",
        "accepted: sync of fast by tester",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // A dash means standard output, as elsewhere.
    let printed = bench.run(&["ops", "export", &id, "-o", "-"]).expect_code(0);
    assert_eq!(serde_json::from_str::<Value>(&printed.out).unwrap()["operation"]["id"], id);
    assert!(!bench.path().join("-").exists());
    // The format option takes precedence over the extension, and an existing file is replaced.
    bench.run(&["ops", "export", &id, "--format", "json", "-o", "fast.html"]).expect_code(0);
    let replaced = fs::read(bench.path().join("fast.html")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&replaced).unwrap()["operation"]["id"], id);
    let ran = bench.run(&["ops", "export", &id, "-o", "nowhere/fast.html"]).expect_code(1);
    assert!(ran.err.contains("nowhere/fast.html"), "{}", ran.err);
    assert_eq!(bench.run(&["ops", "export", "nothing"]).code(), 2);
}

#[test]
fn exported_texts_are_escaped_and_secrets_are_masked() {
    let bench = Bench::new();
    bench.write("hostile.yaml", hostile());
    bench.run(&["sync", "hostile.yaml", "--app", "a<b>", "--sim"]).expect_code(1);
    let id = bench.newest();
    // Failed tasks don't count as done.
    let wave = bench.json(&["ops", "show", &id, "-o", "json"])["waves"][0].clone();
    assert_eq!((&wave["state"], &wave["tasks"], &wave["done"]), (&json!("Failed"), &json!(1), &json!(0)));
    let page = bench.run(&["ops", "export", &id, "--format", "html"]).expect_code(0).out;
    let document = bench.run(&["ops", "export", &id]).expect_code(0).out;
    for text in [&page, &document] {
        assert!(!text.contains(SECRET), "{text}");
    }
    // The export contains the name and the log of the failed hook.
    assert!(
        page.contains("a&lt;b&gt;") && page.contains("&lt;script&gt;window.hit=1&lt;/script&gt;"),
        "{page}"
    );
    for markup in ["<script", "<img", "<b>", "href=", " onerror=window.hit=1>\""] {
        assert!(!page.contains(markup), "{markup}");
    }
}

/// A hook that fails immediately.
const FAILS: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: fails
  annotations: {argocd.argoproj.io/hook: PreSync, sim.tidegate.dev/outcome: fail}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
";

#[test]
fn a_list_is_filtered_by_application_result_time_revision_and_user() {
    let bench = Bench::new();
    bench.write("one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n");
    bench.write("bad.yaml", FAILS);
    bench.run(&["sync", "one.yaml", "--app", "one", "--sim"]).expect_code(0);
    let mut command = bench.command(&["sync", "bad.yaml", "--app", "two", "--sim"]);
    let refused = command.env("USER", "ann").output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let all = bench.json(&["ops", "list", "-o", "json"]);
    let [one, two] = &all.as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!((&one["initiatedBy"], &two["initiatedBy"]), (&json!("tester"), &json!("ann")));
    let (revision, began) = (two["revision"].as_str().unwrap(), two["startedAt"].as_str().unwrap());
    assert!(revision.len() > 6 && one["revision"] != two["revision"], "{all}");
    let apps = |args: &[&str]| {
        let listed = bench.json(&[&["ops", "list", "-o", "json"][..], args].concat());
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["app"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (args, expected) in [
        (&["--result", "succeeded"][..], "one"),
        (&["--result", "failed"], "two"),
        (&["--result", "failed", "--result", "succeeded"], "one two"),
        (&["--by", "ann"], "two"),
        (&["--by", "ann", "--result", "succeeded"], ""),
        (&["--revision", &revision[..6]], "two"),
        (&["--since", began], "two"),
        (&["--until", began], "one"),
        (&["--since", "1h"], "one two"),
        (&["--until", "1h"], ""),
        (&["--limit", "1"], "two"),
        (&["--app", "one", "--limit", "5"], "one"),
    ] {
        assert_eq!(apps(args), expected, "{args:?}");
    }
    let none = bench.run(&["ops", "list", "--by", "nobody"]).expect_code(0);
    assert!(none.err.contains("no operations that match the filters"), "{}", none.err);
    for wrong in [["--since", "yesterday"], ["--limit", "0"]] {
        bench.run(&[&["ops", "list"][..], &wrong].concat()).expect_code(2);
    }
}

#[test]
fn a_compacted_operation_is_exported_as_a_summary_with_a_note() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let sync = ["sync", "fast.yaml", "--app", "fast", "--sim", "--history", "1"];
    bench.run(&sync).expect_code(0);
    let listed = bench.json(&["ops", "list", "-o", "json"]);
    let id = listed[0]["id"].as_str().unwrap();
    let events = bench.json(&["ops", "log", id, "-o", "json"]).as_array().unwrap().len();
    bench.run(&sync).expect_code(0);
    let ran = bench.run(&["ops", "export", id]).expect_code(0);
    assert!(ran.err.contains("were compacted") && ran.err.contains("--history"), "{}", ran.err);
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&printed["events"], &printed["compactedEvents"]), (&json!([]), &json!(events)));
    let again = bench.json(&["ops", "list", "-o", "json"]);
    assert_eq!((&printed["summary"], &again[0]["id"]), (&again[0], &json!(id)));
    let page = bench.run(&["ops", "export", id, "--format", "html"]).expect_code(0).out;
    for part in ["successfully synced", "tester", "The details were compacted"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let shown = bench.run(&["ops", "show", id]).expect_code(0);
    assert!(
        shown.err.contains("were compacted") && shown.out.contains("successfully synced"),
        "{}",
        shown.err
    );
    let log = bench.run(&["ops", "log", id]).expect_code(1);
    assert!(log.err.contains("--history") && !log.err.contains("try again"), "{}", log.err);
}

#[test]
fn logs_of_failed_hooks_are_shown_for_every_attempt() {
    let bench = Bench::new();
    // The hook fails in both attempts.
    let outcome = "sim.tidegate.dev/outcome: fail, sim.tidegate.dev/logs: relation does not exist";
    bench.write("bad.yaml", hook("migrate", "PreSync", outcome));
    let sync = ["sync", "bad.yaml", "--app", "bad", "--sim", "--retry", "1", "--retry-backoff", "10ms"];
    bench.run(&sync).expect_code(1);
    let shown = bench.run(&["ops", "show", "bad"]).expect_code(0).out;
    for attempt in ["migrate, attempt 1, pod migrate-", "migrate, attempt 2, pod migrate-"] {
        assert!(shown.contains(attempt), "{attempt}: {shown}");
    }
    // The message also contains the last line of the newest log.
    assert_eq!(shown.matches("\n  relation does not exist").count(), 2, "{shown}");
    let document = bench.json(&["ops", "show", "bad", "-o", "json"]);
    let attempts: Vec<_> =
        document["logs"].as_array().unwrap().iter().map(|log| log["attempt"].as_u64()).collect();
    assert_eq!((attempts, document["hookLogs"].as_array().unwrap().len()), (vec![Some(1), Some(2)], 1));
}
