//! A canary in a Secret: it is shown by no command and stands in no file, except in those of the simulated cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::bench::{Bench, Ran};

const CANARY: &str = "Canary 7d41 value!";
/// Its base64 begins like this.
const ENCODED: &str = "Q2FuYXJ5IDdkNDEgdmFsdWUh";

/// The cluster refuses the label, and quotes it.
const MANIFESTS: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: credentials}
stringData: {password: "Canary 7d41 value!"}
---
apiVersion: v1
kind: Secret
metadata: {name: encoded}
data: {password: Q2FuYXJ5IDdkNDEgdmFsdWUh}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: refused
  labels: {password: "Canary 7d41 value!"}
  annotations: {argocd.argoproj.io/sync-wave: "1"}
"#;

fn shows(text: &[u8]) -> bool {
    [CANARY, "Canary 7d41", ENCODED]
        .iter()
        .any(|part| text.windows(part.len()).any(|window| window == part.as_bytes()))
}

fn clean(what: &str, ran: &Ran) {
    assert!(!shows(ran.out.as_bytes()), "{what} shows it: {}", ran.out);
    assert!(!shows(ran.err.as_bytes()), "{what} shows it: {}", ran.err);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_canary_is_seen_nowhere() {
    let bench = Bench::new();
    bench.write("shop.yaml", MANIFESTS);
    let sync = ["sync", "shop.yaml", "--app", "shop", "--sim", "--skip-dry-run"];
    let ran = bench.run(&[&sync[..], &["-vv"]].concat()).expect_code(1);
    assert!(ran.out.contains("++++++++"), "the refusal is told, without the value: {}\n{}", ran.out, ran.err);
    clean("sync -vv", &ran);
    clean("sync -o json", &bench.run(&[&sync[..], &["-o", "json"]].concat()).expect_code(1));
    let commands: [&[&str]; 9] = [
        &["plan", "shop.yaml", "--app", "shop", "--sim"],
        &["plan", "shop.yaml", "--app", "shop", "--sim", "-o", "json"],
        &["ops", "list", "-o", "json"],
        &["ops", "show", "shop"],
        &["ops", "show", "shop", "-o", "json"],
        &["ops", "log", "shop"],
        &["ops", "log", "shop", "-o", "json"],
        &["explain", "shop", "-o", "json"],
        &["sim", "audit", "-o", "json"],
    ];
    for command in commands {
        clean(&command.join(" "), &bench.run(command));
    }
    let cluster = bench.state().join("cluster");
    let mut kept = false;
    for path in files(&bench.state()) {
        let content = fs::read(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        if path.starts_with(&cluster) {
            kept |= shows(&content);
            assert_eq!(mode, 0o600, "{}", path.display());
        } else {
            assert!(!shows(&content), "{} shows it", path.display());
        }
    }
    assert!(kept, "the cluster itself has it");
    assert_eq!(fs::metadata(bench.state().join("key")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn another_key_is_refused_and_costs_nothing() {
    let bench = Bench::new();
    bench.write("shop.yaml", crate::manifests::CONFIG);
    let sync = ["sync", "shop.yaml", "--app", "shop", "--sim"];
    bench.run(&sync).expect_code(0);
    let with = |key: &str| {
        let mut command = bench.command(&["ops", "list"]);
        command.env("TIDEGATE_LOG_KEY", key);
        crate::bench::Running::start(command).finish()
    };
    let ran = with(&"07".repeat(32)).expect_code(1);
    assert!(ran.err.contains("TIDEGATE_LOG_KEY") && ran.err.contains("nothing is lost"), "{}", ran.err);
    let ran = with("no key").expect_code(2);
    assert!(ran.err.contains("hexadecimal"), "{}", ran.err);
    let own = fs::read_to_string(bench.state().join("key")).unwrap();
    assert!(with(own.trim()).expect_code(0).out.contains("shop"));
    assert!(!bench.state().join("quarantine").read_dir().is_ok_and(|mut entries| entries.next().is_some()));
}

#[test]
fn what_is_wrong_with_a_secret_is_told_without_its_values() {
    for body in [
        "stringData:\n  password: \"Canary 7d41 value!\"\n  password: \"Canary 7d41 value!\"\n",
        "stringData:\n  password: \"Canary 7d41 value!\n",
        "stringData:\n  password: Canary 7d41 value!\n bad: [\n",
        "stringData: Canary 7d41 value!\n",
        "stringData:\n- Canary 7d41 value!\n",
    ] {
        let bench = Bench::new();
        bench.write("secret.yaml", format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n{body}"));
        let ran = bench.run(&["sync", "secret.yaml", "--app", "shop", "--sim"]);
        clean(body, &ran);
    }
}
