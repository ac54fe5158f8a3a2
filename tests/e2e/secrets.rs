//! A canary in a Secret. No command prints it, and no file contains it except the files of the simulated
//! cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::bench::{Bench, CommandOutput, files};

const CANARY: &str = "Canary 7d41 value!";
/// Beginning of the canary's base64 form.
const CANARY_BASE64: &str = "Q2FuYXJ5IDdkNDEgdmFsdWUh";

/// The cluster rejects the label, and quotes it.
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

fn has_canary(text: &[u8]) -> bool {
    [CANARY, "Canary 7d41", CANARY_BASE64]
        .iter()
        .any(|part| text.windows(part.len()).any(|window| window == part.as_bytes()))
}

fn assert_clean(what: &str, ran: &CommandOutput) {
    assert!(!has_canary(ran.out.as_bytes()), "{what} contains it: {}", ran.out);
    assert!(!has_canary(ran.err.as_bytes()), "{what} contains it: {}", ran.err);
}

#[test]
fn the_canary_appears_nowhere() {
    let bench = Bench::new();
    bench.write("shop.yaml", MANIFESTS);
    let sync = ["sync", "shop.yaml", "--app", "shop", "--sim", "--skip-dry-run"];
    let ran = bench.run(&[&sync[..], &["-vv"]].concat()).expect_code(1);
    assert!(
        ran.out.contains("++++++++"),
        "the refusal is reported without the value: {}\n{}",
        ran.out,
        ran.err
    );
    assert_clean("sync -vv", &ran);
    assert_clean("sync -o json", &bench.run(&[&sync[..], &["-o", "json"]].concat()).expect_code(1));
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
        assert_clean(&command.join(" "), &bench.run(command));
    }
    let cluster = bench.state().join("cluster");
    let mut kept = false;
    for path in files(&bench.state()) {
        let content = fs::read(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        if path.starts_with(&cluster) {
            kept |= has_canary(&content);
            assert_eq!(mode, 0o600, "{}", path.display());
        } else {
            assert!(!has_canary(&content), "{} contains it", path.display());
        }
    }
    assert!(kept, "the cluster contains it");
    assert_eq!(fs::metadata(bench.state().join("key")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_wrong_key_is_refused_without_damage() {
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
    assert!(ran.err.contains("TIDEGATE_LOG_KEY") && ran.err.contains("no data is lost"), "{}", ran.err);
    let ran = with("no key").expect_code(2);
    assert!(ran.err.contains("hexadecimal"), "{}", ran.err);
    let own = fs::read_to_string(bench.state().join("key")).unwrap();
    assert!(with(own.trim()).expect_code(0).out.contains("shop"));
    assert!(!bench.state().join("quarantine").read_dir().is_ok_and(|mut entries| entries.next().is_some()));
}

#[test]
fn errors_in_a_secret_are_reported_without_its_values() {
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
        assert_clean(body, &ran);
    }
}
