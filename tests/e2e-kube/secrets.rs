//! A canary in a Secret of a real API server: shown by no command, with all traces on, and in no file it leaves.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bench::Ran;
use crate::site::Site;

const CANARY: &str = "Canary 7d41 value!";
/// Its base64.
const ENCODED: &str = "Q2FuYXJ5IDdkNDEgdmFsdWUh";
/// `another value`.
const ANOTHER: &str = "YW5vdGhlciB2YWx1ZQ==";

/// Its base64 stands in `data` of one of them. The server quotes the label it refuses, and what is no base64.
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
        encoded = ENCODED
    )
}

/// Each is refused, and in other words.
const REFUSED: [(&str, &str); 5] = [
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

fn shows(bytes: &[u8]) -> Option<String> {
    // Debug output escapes nothing of it; a dump of bytes would show it as numbers.
    let numbers = format!("{:?}", CANARY.as_bytes());
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let parts = ["Canary 7d41", &ENCODED[..12], numbers.trim_matches(['[', ']']), hex.as_str()];
    parts.iter().find_map(|part| {
        let at = bytes.windows(part.len()).position(|window| window == part.as_bytes())?;
        let from = at.saturating_sub(200);
        Some(String::from_utf8_lossy(&bytes[from..(at + 100).min(bytes.len())]).into_owned())
    })
}

fn clean(what: &str, ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        if let Some(place) = shows(text.as_bytes()) {
            panic!("{what} shows it: …{place}…");
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

pub async fn a_canary_is_seen_nowhere() {
    let mut site = Site::new("canary").await;
    site.bench.set("TIDEGATE_LOG", "trace");
    let namespace = site.namespace.clone();
    for (number, (what, refused)) in REFUSED.into_iter().enumerate() {
        site.write("shop.yaml", manifests(refused));
        let app = site.app(&format!("shop{number}"));
        let to = ["shop.yaml", "--app", &app, "-n", &namespace];
        let code = i32::from(number > 0);
        clean(&format!("plan with {what}"), &site.run(&[&["plan"][..], &to].concat()));
        // What stands openly in another kind of object is shown by a diff, and only there.
        let openly = !refused.is_empty() && !refused.contains("kind: Secret");
        let diff = |more: &[&str]| {
            let mut ran = site.run(&[&["diff"][..], &to, more].concat());
            if openly {
                ran.out.clear();
            }
            clean(&format!("diff {more:?} with {what}"), &ran);
        };
        diff(&[]);
        let ran = site.run(&[&["sync"][..], &to, &["--no-dry-run"]].concat());
        clean(&format!("sync with {what}"), &ran);
        // The file is refused while it is read, or the object by the server.
        assert!(ran.code() == code || (code == 1 && ran.code() == 2), "{what}: {}", ran.out);
        assert!(ran.code() == 2 || ran.err.contains("TRACE"), "{what}: the traces are on");
        let json = site
            .run(&[&["sync"][..], &to, &["-o", "json", "--retry", "1", "--retry-backoff", "10ms"]].concat());
        clean(&format!("sync -o json with {what}"), &json);
        diff(&["-o", "json"]);
        for command in [&["ops", "show", &app][..], &["ops", "log", &app, "-o", "json"], &["explain", &app]] {
            clean(&command.join(" "), &site.run(command));
        }
    }
    // Somebody else owns the field now, and then the value changes: both are told of.
    let path = format!("/api/v1/namespaces/{namespace}/secrets/credentials");
    let theirs = serde_json::json!({"data": {"password": ANOTHER}});
    site.observer().patch(&path, &theirs).await.unwrap();
    site.write("shop.yaml", manifests(""));
    for args in [&["diff"][..], &["plan"], &["sync"]] {
        let app = site.app("shop0");
        let to = ["shop.yaml", "--app", &app, "-n", &namespace];
        let ran = site.run(&[args, &to].concat());
        clean(&format!("{args:?} after somebody else"), &ran);
        assert!(!ran.out.contains("another value") && !ran.out.contains(ANOTHER));
    }
    let left = files(&site.state());
    assert!(left.len() > 5, "{left:?}");
    for path in left {
        if let Some(place) = shows(&fs::read(&path).unwrap()) {
            panic!("{} shows it: …{place}…", path.display());
        }
    }
}
