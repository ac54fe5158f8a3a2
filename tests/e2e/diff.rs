//! `tidegate diff`, ignored differences, and syncs that apply only objects that are out of sync.

use serde_json::{Value, json};

use crate::bench::{Bench, example, redact};

const BEFORE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: '1', b: '2', c: '3'}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {user: shop, password: c4n4ry-old}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: leftover}
data: {x: z}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {argocd.argoproj.io/compare-options: IgnoreExtraneous}}
";
const AFTER: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: '1', b: changed, d: \"new\\e[31m\"}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {user: shop, password: c4n4ry-new}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{port: 80, protocol: TCP}], publishNotReadyAddresses: false}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: added}
data: {k: v}
---
apiVersion: batch/v1
kind: Job
metadata: {name: hook, annotations: {argocd.argoproj.io/hook: PreSync}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}
";

/// Returns a test environment whose cluster contains `BEFORE` and whose manifests are `AFTER`.
fn changed_bench() -> Bench {
    let bench = Bench::new();
    bench.write("app/all.yaml", BEFORE);
    bench.run(&["sync", "app", "--app", "shop", "--sim"]).expect_code(0);
    bench.write("app/all.yaml", AFTER);
    bench
}

fn statuses(document: &Value) -> Vec<(String, String)> {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap().to_owned();
    let objects = document["objects"].as_array().unwrap();
    objects.iter().map(|object| (text(object, "name"), text(object, "status"))).collect()
}

#[test]
fn the_shop_is_added_and_then_unchanged() {
    let bench = Bench::new();
    let args = ["diff", &example("shop"), "--app", "shop", "--sim"];
    let ran = bench.run(&args).expect_code(1);
    assert!(ran.out.contains("--- /dev/null\n+++ wanted/apps.v1.Deployment"), "{}", ran.out);
    assert!(!bench.state().exists(), "a comparison writes nothing");
    bench.run(&["sync", &example("shop"), "--app", "shop", "--sim"]).expect_code(0);
    let writes = bench.writes().len();
    let ran = bench.run(&args).expect_code(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    let document = bench.json(&[&args[..], &["-o", "json"]].concat());
    assert!(statuses(&document).iter().all(|(_, status)| status == "same"), "{document}");
    assert_eq!(bench.writes().len(), writes);
}

#[test]
fn differences_are_printed_as_text() {
    let bench = changed_bench();
    let ran = bench.run(&["diff", "app", "--app", "shop", "--sim"]).expect_code(1);
    insta::assert_snapshot!(redact(&ran.out, &bench));
    assert_eq!(ran.err, "");
    assert!(!ran.out.contains("c4n4ry") && !ran.out.contains('\u{1b}'));
}

#[test]
fn differences_are_printed_as_a_document() {
    let bench = changed_bench();
    let ran = bench.run(&["diff", "app", "--app", "shop", "--sim", "-o", "json"]).expect_code(1);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(!ran.out.contains("c4n4ry"));
    let mut found = statuses(&document);
    found.sort();
    let expected = [
        ("added", "added"),
        ("api", "same"),
        ("kept", "extra"),
        ("leftover", "extra"),
        ("password", "modified"),
        ("settings", "modified"),
    ];
    assert_eq!(found, expected.map(|(name, status)| (name.to_owned(), status.to_owned())));
    let objects = document["objects"].as_array().unwrap();
    let settings = objects.iter().find(|object| object["name"] == "settings").unwrap();
    assert_eq!(
        settings["changes"],
        json!([
            {"path": "/data/b", "before": "2", "after": "changed"},
            {"path": "/data/c", "before": "3", "after": null},
            {"path": "/data/d", "before": null, "after": "new\u{1b}[31m"},
        ])
    );
    let kept = objects.iter().find(|object| object["name"] == "kept").unwrap();
    assert_eq!(kept["ignored"], true);
}

#[test]
fn ignored_fields_are_not_compared() {
    let bench = changed_bench();
    let ignore = |content: &str| bench.write("ignore.yaml", content);
    ignore(
        "- {kind: Secret, jsonPointers: [/data]}\n\
         - {group: '', kind: 'Config*', name: settings, jqPathExpressions: ['.data | .b, .c, .d']}\n",
    );
    bench.write("app/all.yaml", AFTER.replace("name: added", "name: leftover").replace("{k: v}", "{x: z}"));
    let args = ["diff", "app", "--app", "shop", "--sim", "--ignore-differences", "ignore.yaml"];
    let ran = bench.run(&args).expect_code(0);
    assert_eq!(ran.out, "", "other differences are ignored");
    ignore("- {kind: Secret, jsonPointers: [/data]}\n");
    let ran = bench.run(&args).expect_code(1);
    assert!(ran.out.contains("ConfigMap.default.settings") && !ran.out.contains("Secret"), "{}", ran.out);
    for (content, message) in [
        ("- {kind: Secret, jqPathExpressions: ['now']}\n", "now/0 cannot select fields"),
        ("- {kind: Secret, jsonPointers: [data]}\n", "invalid JSON pointer"),
        ("- {kind: Secret, pointers: [/data]}\n", "unknown field"),
        ("kind: Secret\n", "not a list of entries"),
    ] {
        ignore(content);
        for command in ["diff", "plan", "sync"] {
            let mut args = args;
            args[0] = command;
            let ran = bench.run(&args).expect_code(2);
            assert!(ran.err.contains("ignore.yaml") && ran.err.contains(message), "{command}: {}", ran.err);
        }
    }
}

#[test]
fn ignored_fields_are_kept_if_requested() {
    let bench = changed_bench();
    bench.write("ignore.yaml", "- {kind: ConfigMap, jsonPointers: [/data/b, /data/c]}\n");
    let mut args = vec!["sync", "app", "--app", "shop", "--sim", "--ignore-differences", "ignore.yaml"];
    args.extend(["--sync-option", "RespectIgnoreDifferences=true"]);
    bench.run(&args).expect_code(0);
    let objects = bench.json(&["sim", "objects", "-o", "json"]);
    let settings = objects.as_array().unwrap().iter().find(|object| object["metadata"]["name"] == "settings");
    assert_eq!(settings.unwrap()["data"], json!({"a": "1", "b": "2", "c": "3", "d": "new\u{1b}[31m"}));
}

#[test]
fn errors_are_not_differences() {
    let bench = changed_bench();
    bench.run(&["diff", "nowhere", "--app", "shop", "--sim"]).expect_code(2);
    bench.run(&["diff", "app", "--app", "shop", "--sim", "--prune"]).expect_code(2);
    bench.write(
        "app/all.yaml",
        AFTER.replace("settings}", "settings, annotations: {sim.tidegate.dev/outcome: 'not an outcome'}}"),
    );
    let ran = bench.run(&["diff", "app", "--app", "shop", "--sim"]).expect_code(2);
    assert!(
        ran.err.contains("the cluster rejects ConfigMap default/settings: ")
            && ran.err.contains("its differences are an estimate"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("+  b: changed"), "{}", ran.out);
}

#[test]
fn a_second_sync_of_out_of_sync_objects_writes_nothing() {
    let bench = changed_bench();
    let args =
        ["sync", "app", "--app", "shop", "--sim", "--prune", "--sync-option", "ApplyOutOfSyncOnly=true"];
    bench.write("app/all.yaml", AFTER.replace("argocd.argoproj.io/hook: PreSync", "a: b"));
    bench.run(&args).expect_code(0);
    let before = bench.writes().len();
    bench.run(&args).expect_code(0);
    assert_eq!(bench.writes().len(), before, "{:#?}", bench.writes());
    let requests = |bench: &Bench| bench.json(&["sim", "audit", "-o", "json"]).as_array().unwrap().len();
    let seen = requests(&bench);
    bench.write(
        "app/all.yaml",
        AFTER.replace("argocd.argoproj.io/hook: PreSync", "a: b").replace("changed", "again"),
    );
    bench.run(&args).expect_code(0);
    let written: Vec<Value> = bench.writes().split_off(before);
    assert_eq!(written.len(), 1, "{written:#?}");
    assert_eq!(requests(&bench) - seen, 2, "one dry run and one write for the changed object");
}

/// A recreation can't be tried with a dry run, so its difference must be marked as an estimate.
#[test]
fn the_difference_of_a_recreated_object_is_marked_as_an_estimate() {
    let bench = Bench::new();
    let manifest = |replicas: u32, options: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: api\n  annotations: \
             {{argocd.argoproj.io/sync-options: '{options}'}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: \
             {{app: api}}}}\n  template:\n    metadata: {{labels: {{app: api}}}}\n    spec: {{containers: [{{name: main, \
             image: busybox}}]}}\n"
        )
    };
    for (options, estimate) in [("Replace=true", false), ("Replace=true,Force=true", true)] {
        bench.write("api.yaml", manifest(1, options));
        bench.run(&["sync", "api.yaml", "--app", "a", "--sim"]).expect_code(0);
        bench.write("api.yaml", manifest(2, options));
        let ran = bench.run(&["diff", "api.yaml", "--app", "a", "--sim", "-o", "json"]).expect_code(1);
        assert_eq!(ran.err.contains("the differences are an estimate"), estimate, "{options}: {}", ran.err);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(document["objects"][0]["estimate"], estimate, "{options}: {document}");
    }
}

/// `diff` must include the changes that `sync` would make to the managed namespace.
#[test]
fn the_metadata_of_the_namespace_is_compared() {
    let bench = Bench::new();
    bench.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let place = ["a.yaml", "--app", "a", "-n", "shop", "--sim", "--sync-option", "CreateNamespace=true"];
    let with = |command: &'static str, label: &'static str| {
        let mut args = vec![command];
        args.extend(place);
        args.extend(["--namespace-label", label]);
        args
    };
    bench.run(&with("sync", "team=one")).expect_code(0);
    bench.run(&with("diff", "team=one")).expect_code(0);
    let differs = bench.run(&with("diff", "team=two")).expect_code(1);
    assert!(differs.out.contains("Namespace") && differs.out.contains("two"), "{}", differs.out);
    bench.run(&["diff", "a.yaml", "--app", "a", "--sim", "--namespace-label", "team=one"]).expect_code(2);
}
