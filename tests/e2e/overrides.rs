//! Objects and waves that people skip, mark as done or retry during an operation.

use serde_json::Value;

use crate::bench::Bench;
use crate::fleet::Fleet;
use crate::manifests::{GADGET_DEFINITION, hook};

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

/// Returns the recorded decisions.
fn decisions(bench: &Bench) -> Vec<String> {
    let events = bench.json(&["ops", "log", "shop", "-o", "json"]);
    let events = events.as_array().unwrap().iter().filter(|event| event["kind"] == "overridden");
    let words = |event: &Value| {
        let (details, object) = (&event["details"], &event["object"]);
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} by {}: {}",
            text(&object["name"]),
            text(&details["action"]),
            text(&details["by"]),
            text(&details["reason"])
        )
    };
    events.map(words).collect()
}

fn results(bench: &Bench) -> Vec<String> {
    let shown = bench.json(&["ops", "show", "shop", "-o", "json"]);
    let resources = shown["resources"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    resources
        .map(|one| format!("{} {} {}", text(&one["name"]), text(&one["status"]), text(&one["message"])))
        .collect()
}

/// A reason that is recorded as one line.
const REASON: [&str; 2] = ["--reason", " it is\nin the way\n"];

fn ops<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["ops"], rest, &REASON].concat()
}

#[test]
fn an_operation_continues_without_what_another_process_skipped() {
    let bench = bench();
    let mut sync = bench.start(&SYNC);
    sync.wait_for_line("hook Job default/migrate");
    bench.run(&["ops", "skip", "shop", "--task", "Job/migrate"]).expect_code(2);
    // A reason without visible characters is rejected.
    for skip in
        [["ops", "skip", "shop", "--task", "Job/migrate"], ["appset", "skip", "fleet", "--app", "web"]]
    {
        let unsaid = bench.run(&[&skip[..], &["--reason", " \u{200b}"]].concat()).expect_code(2);
        assert!(unsaid.err.contains("provide a reason"), "{}", unsaid.err);
    }
    bench.run(&ops(&["skip", "shop", "--task", "Job"])).expect_code(2);
    let neither = bench.run(&ops(&["skip", "shop"])).expect_code(2);
    assert!(neither.err.contains("--task") && neither.err.contains("--wave"), "{}", neither.err);
    bench.run(&ops(&["skip", "shop", "--task", "Job/migrate", "--wave", "1"])).expect_code(2);
    let unknown = bench.run(&ops(&["skip", "shop", "--task", "Job/none"])).expect_code(4);
    assert!(unknown.err.contains("the plan has no Job/none"), "{}", unknown.err);
    let running = bench.run(&ops(&["retry-task", "shop", "--task", "Job/migrate"])).expect_code(4);
    assert!(running.err.contains("hook Job default/migrate is running"), "{}", running.err);
    let skipped = bench.run(&ops(&["skip", "shop", "--task", "Job/migrate", "-n", "default"])).expect_code(0);
    assert!(skipped.out.contains("continues without Job/migrate in namespace default"), "{}", skipped.out);
    sync.wait_for_line("Deployment default/api");
    let explained = bench.run(&["explain", "shop"]).expect_code(0).out;
    assert!(
        explained.contains("skipped by tester (it is in the way): hook Job default/migrate"),
        "{explained}"
    );
    bench.run(&ops(&["skip", "shop", "--wave", "Sync/1"])).expect_code(0);
    let again = bench.run(&ops(&["skip", "shop", "--wave", "Sync/1"])).expect_code(4);
    assert!(again.err.contains("no task in wave Sync/1 can be skipped now"), "{}", again.err);
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
    // A skipped task doesn't count as done.
    let waves = bench.json(&["ops", "show", "shop", "-o", "json"])["waves"].take();
    let counted = |wave: &Value| {
        let number = |field: &str| wave[field].as_u64().unwrap();
        (wave["phase"].as_str().unwrap().to_owned(), number("done"), number("skipped"), number("tasks"))
    };
    let counted: Vec<_> = waves.as_array().unwrap().iter().map(counted).collect();
    assert_eq!(counted[0], ("PreSync".to_owned(), 0, 1, 1), "{waves}");
    let later = waves.as_array().unwrap().iter().find(|wave| wave["wave"] == 1).unwrap();
    assert_eq!((&later["done"], &later["skipped"]), (&0.into(), &1.into()), "{waves}");
    let row = shown.lines().find(|line| line.starts_with("PreSync") && line.contains("Passed")).unwrap();
    assert!(row.contains("0 of 1, 1 skipped"), "{row}");
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
    assert!(over.err.contains(" has ended: "), "{}", over.err);
}

/// A skip without a running process must apply to the next one, and must not be required again after a crash.
#[test]
fn a_skip_survives_a_kill() {
    for beforehand in [true, false] {
        let bench = bench();
        let mut sync = bench.start(&SYNC);
        sync.wait_for_line("hook Job default/migrate");
        let skip = || bench.run(&ops(&["skip", "shop", "--task", "Job/migrate"])).expect_code(0);
        if beforehand {
            skip();
        }
        sync.signal("KILL");
        sync.finish();
        if !beforehand {
            let skipped = skip();
            assert!(skipped.out.contains("; continue it with `tidegate resume"), "{}", skipped.out);
        }
        bench.run(&ops(&["mark-done", "shop", "--task", "Deployment/api"])).expect_code(0);
        bench.run(&["resume", "shop"]).expect_code(0);
        assert_eq!(decisions(&bench).len(), 2, "skipped beforehand: {beforehand}");
        assert_eq!((bench.creations("Job", "migrate"), bench.creations("ConfigMap", "last")), (1, 1));
    }
}

/// Returns a hook that fails when it is first created, another that runs until a user marks it as done, and a
/// ConfigMap.
fn hooks_to_override() -> String {
    let fails = hook("migrate", "PreSync", "sim.tidegate.dev/fail-times: \"1\"");
    let runs = hook("beside", "PreSync", "sim.tidegate.dev/ready-after: 10h");
    format!("{fails}---\n{runs}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: last}}\n")
}

/// The retry must happen in the same attempt while the rest of its wave is running, even if the process is
/// killed.
#[test]
fn a_failed_hook_is_retried_in_the_same_attempt() {
    for is_killed in [false, true] {
        let bench = Bench::new();
        bench.write("shop.yaml", hooks_to_override());
        let mut sync = bench.start(&SYNC);
        sync.wait_for_line("Job default/migrate Failed");
        bench.run(&ops(&["retry-task", "shop", "--task", "Job/migrate"])).expect_code(0);
        if is_killed {
            sync.signal("KILL");
            sync.finish();
            sync = bench.start(&["resume", "shop"]);
        }
        sync.wait_for_line("Job default/migrate Succeeded");
        bench.run(&ops(&["mark-done", "shop", "--task", "Job/beside"])).expect_code(0);
        sync.finish().expect_code(0);
        let shown = bench.json(&["ops", "show", "shop", "-o", "json"]);
        assert_eq!((&shown["phase"], &shown["retryCount"]), (&"Succeeded".into(), &0.into()), "{is_killed}");
        assert_eq!(
            decisions(&bench),
            [
                "migrate retried by tester: it is in the way",
                "beside marked as done by tester: it is in the way"
            ]
        );
        let made = ["migrate", "beside"].map(|name| bench.creations("Job", name));
        assert_eq!((made, bench.creations("ConfigMap", "last")), ([2, 1], 1), "{is_killed}");
        let again = bench.run(&ops(&["retry-task", "shop", "--task", "Job/migrate"])).expect_code(4);
        assert!(again.err.contains(" has ended: "), "{}", again.err);
    }
}

const GADGET: &str = "\
apiVersion: example.org/v1
kind: Gadget
metadata: {name: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: later, annotations: {argocd.argoproj.io/sync-wave: \"1\"}}
";

/// An Application needs a kind that another Application provides. Once the kind exists, the retry must not
/// wait for the next attempt.
#[test]
fn a_failed_object_is_retried_at_once_when_its_dependency_exists() {
    let fleet = Fleet::new();
    fleet.bench.write("fleet/repo/database/database.yaml", GADGET);
    fleet.bench.write("fleet/repo/frontend/frontend.yaml", GADGET_DEFINITION);
    fleet.commit();
    let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
    let retry = format!("{automated}    retry: {{limit: 1, backoff: {{duration: 10h, maxDuration: 10h}}}}\n");
    fleet.replace("database.yaml", automated, &retry);
    let option = "- CreateNamespace=true\n";
    let options = format!("{option}      - SkipDryRunOnMissingResource=true\n");
    fleet.replace("database.yaml", option, &options);
    fleet.replace("frontend.yaml", automated, "");
    let service = fleet.serve();
    fleet.wait_until("database", |app| {
        let message = app["status"]["operationState"]["message"].to_string();
        message.contains("no matches for kind") && message.contains("Retrying attempt #1")
    });
    let operation = fleet.bench.newest_of("database");
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    let why = ["--reason", "its kind is there"];
    let retry = [&["ops", "retry-task", "database", "--task", "Gadget.example.org/one"][..], &why].concat();
    fleet.bench.run(&retry).expect_code(0);
    let ended = fleet.wait_until("database", |app| app["status"]["operationState"]["phase"] == "Succeeded");
    assert!(ended["status"]["operationState"]["message"].to_string().contains("retried 1 times"), "{ended}");
    fleet.wait_until_synced(&["database"]);
    assert_eq!(fleet.bench.newest_of("database"), operation, "the same operation");
    let shown = fleet.bench.json(&["ops", "show", &operation, "-o", "json"]);
    assert_eq!((&shown["phase"], &shown["retryCount"]), (&"Succeeded".into(), &1.into()));
    let gadget = shown["resources"].as_array().unwrap().iter().find(|one| one["kind"] == "Gadget").unwrap();
    let told = &gadget["override"];
    assert_eq!(
        (&told["action"], &told["by"], &told["reason"]),
        (&"Retry".into(), &"tester".into(), &"its kind is there".into())
    );
    let log = fleet.bench.run(&["ops", "log", &operation]).expect_code(0).out;
    assert!(log.contains("tester retried Gadget fleet/one: its kind is there"), "{log}");
    // Each object is written once, in the order of the waves.
    let made =
        [("CustomResourceDefinition", "gadgets.example.org"), ("Gadget", "one"), ("ConfigMap", "later")];
    let made: Vec<u64> = made.iter().flat_map(|(kind, name)| fleet.creations(kind, name)).collect();
    assert!(made.len() == 3 && made.is_sorted(), "{made:?}");
    Fleet::stop(service);
}
