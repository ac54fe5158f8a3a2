//! Output of `plan`.

use crate::bench::{Bench, example, redact};
use crate::manifests::{CONFIG, FAST};

#[test]
fn the_shop_is_printed_as_a_tree() {
    let bench = Bench::new();
    let ran = bench.run(&["plan", &example("shop"), "--sim"]).expect_code(0);
    insta::assert_snapshot!(redact(&ran.out, &bench));
    assert_eq!(ran.err, "");
    assert!(!bench.state().exists(), "a plan writes nothing");
}

#[test]
fn the_shop_is_printed_as_json() {
    let bench = Bench::new();
    let plan = bench.json(&["plan", &example("shop"), "--sim", "-o", "json"]);
    let waves = plan["waves"].as_array().unwrap();
    assert!(waves.len() >= 4);
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&plan), ["warnings", "waves"]);
    assert_eq!(keys(&waves[0]), ["phase", "tasks", "wave"]);
    let task = [
        "action",
        "group",
        "health",
        "hook",
        "isOwnershipUncertain",
        "kind",
        "name",
        "namespace",
        "reason",
        "version",
    ];
    assert_eq!(keys(&waves[0]["tasks"][0]), task);
    let ran = bench.run(&["plan", &example("shop"), "--sim", "-o", "json"]);
    insta::assert_snapshot!(redact(&ran.out, &bench));
}

#[test]
fn the_shop_is_printed_as_a_mermaid_diagram() {
    let bench = Bench::new();
    let ran = bench.run(&["plan", &example("shop"), "--offline", "-o", "mermaid"]).expect_code(0);
    insta::assert_snapshot!(redact(&ran.out, &bench));
}

#[test]
fn the_shop_is_printed_as_a_picture() {
    let bench = Bench::new();
    let ran = bench.run(&["plan", &example("shop"), "--offline", "-o", "svg"]).expect_code(0);
    insta::assert_snapshot!(redact(&ran.out, &bench));
}

#[test]
fn yaml_and_json_have_the_same_content() {
    let bench = Bench::new();
    let json = bench.json(&["plan", &example("shop"), "--offline", "-o", "json"]);
    let yaml = bench.run(&["plan", &example("shop"), "--offline", "-o", "yaml"]).expect_code(0).out;
    let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read, json);
}

#[test]
fn findings_are_shown_and_strict_refuses_them() {
    let bench = Bench::new();
    bench.write(
        "odd.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: odd\n  annotations:\n    argocd.argoproj.io/sync-wave: first\n    argocd.argoproj.io/hook-delete-policy: Sometimes\n",
    );
    let ran = bench.run(&["plan", "odd.yaml", "--app", "odd", "--sim"]).expect_code(0);
    insta::assert_snapshot!("findings", redact(&ran.out, &bench));
    let ran = bench.run(&["plan", "odd.yaml", "--app", "odd", "--sim", "--strict"]).expect_code(2);
    insta::assert_snapshot!("strict", redact(&ran.err, &bench));
    let ran = bench.run(&["sync", "odd.yaml", "--app", "odd", "--sim", "--strict"]).expect_code(2);
    assert!(ran.err.contains("odd.yaml:1"), "{}", ran.err);
    assert!(!bench.state().exists(), "refused before anything is written");
}

#[test]
fn a_plan_that_cannot_run_exits_with_one() {
    let bench = Bench::new();
    bench.write("own.yaml", "apiVersion: example.org/v1\nkind: Whatever\nmetadata: {name: a}\n");
    let ran = bench.run(&["plan", "own.yaml", "--app", "own", "--sim"]).expect_code(1);
    assert!(ran.out.contains("Whatever"), "{}", ran.out);
    bench.run(&["plan", "own.yaml", "--app", "own", "--offline"]).expect_code(0);
}

#[test]
fn the_plan_is_compared_with_existing_objects() {
    let bench = Bench::new();
    bench.write("app/fast.yaml", FAST);
    bench.run(&["sync", "app", "--app", "app", "--sim"]).expect_code(0);
    bench.write("app/fast.yaml", CONFIG);
    let ran = bench.run(&["plan", "app", "--sim", "--prune"]).expect_code(0);
    insta::assert_snapshot!(redact(&ran.out, &bench));
}

#[test]
fn one_object_can_be_selected() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    let args = ["plan", "fast.yaml", "--app", "a", "--offline", "--resource", "apps:Deployment:server"];
    let ran = bench.run(&args).expect_code(0);
    insta::assert_snapshot!(redact(&ran.out, &bench));
}

#[test]
fn manifests_are_read_from_standard_input_too() {
    let bench = Bench::new();
    let ran = bench.run_with_input(&["plan", "-", "--app", "a", "--offline"], CONFIG).expect_code(0);
    assert!(ran.out.contains("ConfigMap default/config"), "{}", ran.out);
    let ran = bench.run_with_input(&["plan", "-", "--offline"], CONFIG).expect_code(2);
    assert!(ran.err.contains("--app"), "{}", ran.err);
    let ran = bench.run_with_input(&["plan", "-", "--app", "a", "--offline"], "kind: [").expect_code(2);
    assert!(ran.err.contains("stdin:1"), "{}", ran.err);
}

/// A named pipe may not have a writer. A named pipe created by a shell does.
#[test]
fn a_named_pipe_is_not_awaited() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("app")).unwrap();
    for path in ["pipe.yaml", "app/pipe.yaml"] {
        let made = std::process::Command::new("mkfifo").arg(bench.path().join(path)).status().unwrap();
        assert!(made.success());
    }
    for path in ["pipe.yaml", "app"] {
        let ran = bench.run(&["plan", path, "--app", "a", "--offline"]).expect_code(2);
        assert!(ran.err.contains("pipe.yaml: ") && ran.err.contains("not a regular file"), "{}", ran.err);
    }
    for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let ran = bench.run_with_input(&["plan", path, "--app", "a", "--offline"], CONFIG).expect_code(0);
        assert!(ran.out.contains("ConfigMap default/config"), "{path}: {}", ran.out);
    }
}

#[test]
fn folders_are_read_recursively_in_order() {
    let bench = Bench::new();
    for (file, name) in [("b.yml", "b"), ("a/z.json", "z"), ("a/c.YAML", "c")] {
        let text =
            format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}}}"#);
        bench.write(&format!("app/{file}"), text);
    }
    bench.write("app/README.md", "# not a manifest: [");
    bench.write("app/.hidden.yaml", "not: [a manifest");
    bench.write("app/.git/config.yaml", "not: [a manifest");
    let ran = bench.run(&["plan", "app", "--offline"]).expect_code(0);
    insta::assert_snapshot!(redact(&ran.out, &bench));
}
