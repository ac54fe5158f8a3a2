//! A canary in a Secret on a real API server. No command may print it, even with all traces enabled, and no
//! remaining file may contain it.

use std::fs;

use crate::bench::{CommandOutput, files};
use crate::kube_bench::KubeBench;

const CANARY: &str = "Canary 7d41 value!";
/// Base64 form of the canary.
const CANARY_BASE64: &str = "Q2FuYXJ5IDdkNDEgdmFsdWUh";
/// Base64 form of `another value`.
const ANOTHER: &str = "YW5vdGhlciB2YWx1ZQ==";

/// Returns manifests, one of which contains the base64 form in `data`. The server quotes the label that it
/// rejects, and invalid base64.
fn manifests(refused: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Secret
metadata: {{name: credentials}}
stringData: {{password: "{CANARY}"}}
---
apiVersion: v1
kind: Secret
metadata: {{name: encoded}}
data: {{password: {encoded}}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: config
  annotations: {{argocd.argoproj.io/sync-wave: "1"}}
data: {{a: b}}
---
{refused}"#,
        encoded = CANARY_BASE64
    )
}

/// Each of these manifests is rejected with a different message.
const REFUSED_MANIFESTS: [(&str, &str); 5] = [
    ("nothing", ""),
    (
        "a label",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused, labels: {password: \"Canary 7d41 value!\"}}\n",
    ),
    (
        "no base64",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: refused}\ndata: {password: \"Canary 7d41 value!\"}\n",
    ),
    (
        "the wrong type",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: refused}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: \"Canary 7d41 value!\"}\n",
    ),
    (
        "a name",
        "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {clusterIP: \"Canary 7d41 value!\", ports: [{port: 80}]}\n",
    ),
];

fn has_canary(bytes: &[u8]) -> Option<String> {
    // Debug output doesn't escape the canary. A dump of bytes would print numbers.
    let numbers = format!("{:?}", CANARY.as_bytes());
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let parts = ["Canary 7d41", &CANARY_BASE64[..12], numbers.trim_matches(['[', ']']), hex.as_str()];
    parts.iter().find_map(|part| {
        let at = bytes.windows(part.len()).position(|window| window == part.as_bytes())?;
        let from = at.saturating_sub(200);
        Some(String::from_utf8_lossy(&bytes[from..(at + 100).min(bytes.len())]).into_owned())
    })
}

fn assert_clean(what: &str, ran: &CommandOutput) {
    for text in [&ran.out, &ran.err] {
        if let Some(place) = has_canary(text.as_bytes()) {
            panic!("{what} contains it: …{place}…");
        }
    }
}

pub async fn the_canary_appears_nowhere() {
    let mut bench = KubeBench::new("canary").await;
    bench.bench.set_variable("TIDEGATE_LOG", "trace");
    let namespace = bench.namespace.clone();
    for (number, (what, refused)) in REFUSED_MANIFESTS.into_iter().enumerate() {
        bench.write("shop.yaml", manifests(refused));
        let app = bench.app(&format!("shop{number}"));
        let to = ["shop.yaml", "--app", &app, "-n", &namespace];
        let code = i32::from(number > 0);
        assert_clean(&format!("plan with {what}"), &bench.run(&[&["plan"][..], &to].concat()));
        // A plain value in another kind of object is shown only in differences.
        let openly = !refused.is_empty() && !refused.contains("kind: Secret");
        let diff = |more: &[&str]| {
            let mut ran = bench.run(&[&["diff"][..], &to, more].concat());
            if openly {
                ran.out.clear();
            }
            assert_clean(&format!("diff {more:?} with {what}"), &ran);
        };
        diff(&[]);
        let ran = bench.run(&[&["sync"][..], &to, &["--no-dry-run"]].concat());
        assert_clean(&format!("sync with {what}"), &ran);
        // The parser rejects the file, or the server rejects the object.
        assert!(ran.code() == code || (code == 1 && ran.code() == 2), "{what}: {}", ran.out);
        assert!(ran.code() == 2 || ran.err.contains("TRACE"), "{what}: the traces are on");
        let json = bench
            .run(&[&["sync"][..], &to, &["-o", "json", "--retry", "1", "--retry-backoff", "10ms"]].concat());
        assert_clean(&format!("sync -o json with {what}"), &json);
        diff(&["-o", "json"]);
        for command in [&["ops", "show", &app][..], &["ops", "log", &app, "-o", "json"], &["explain", &app]] {
            assert_clean(&command.join(" "), &bench.run(command));
        }
    }
    // Another manager now owns the field, and then the value changes. Both changes are reported.
    let path = format!("/api/v1/namespaces/{namespace}/secrets/credentials");
    let theirs = serde_json::json!({"data": {"password": ANOTHER}});
    bench.observer().patch(&path, &theirs).await.unwrap();
    bench.write("shop.yaml", manifests(""));
    for args in [&["diff"][..], &["plan"], &["sync"]] {
        let app = bench.app("shop0");
        let to = ["shop.yaml", "--app", &app, "-n", &namespace];
        let ran = bench.run(&[args, &to].concat());
        assert_clean(&format!("{args:?} after another client"), &ran);
        assert!(!ran.out.contains("another value") && !ran.out.contains(ANOTHER));
    }
    let left = files(&bench.state());
    assert!(left.len() > 5, "{left:?}");
    for path in left {
        if let Some(place) = has_canary(&fs::read(&path).unwrap()) {
            panic!("{} contains it: …{place}…", path.display());
        }
    }
}
