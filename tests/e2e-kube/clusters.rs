//! Clusters declared by Secrets, in addition to the in-cluster destination.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_testkit::program::write_script;

use crate::bench::Running;
use crate::kube_bench::KubeBench;

/// Credentials, which must not appear anywhere.
const WRONG: &str = "wrong-token-4711";

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let three = [part[0], *part.get(1).unwrap_or(&0), *part.get(2).unwrap_or(&0)];
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        for at in 0..4 {
            let letter = LETTERS[usize::try_from(number >> (18 - 6 * at) & 63).unwrap()];
            text.push(if at <= part.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Writes the Secret of a cluster, with the address and certificate of the kubeconfig.
fn secret(bench: &KubeBench, name: &str, server: Option<&str>, token: &str) {
    secret_with(bench, name, server, json!({"bearerToken": token}));
}

/// Writes the Secret of a cluster as [`secret`] does, with any credentials.
fn secret_with(bench: &KubeBench, name: &str, server: Option<&str>, mut config: Value) {
    let mut known = Value::Null;
    bench.changed_kubeconfig("unused", |config| known = config["clusters"][0]["cluster"].clone());
    let certificate = fs::read(known["certificate-authority"].as_str().unwrap()).unwrap();
    config["tlsClientConfig"] = json!({"caData": base64(&certificate)});
    let server = server.unwrap_or_else(|| known["server"].as_str().unwrap());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "stringData": {"name": name, "server": server, "config": config.to_string()},
    });
    // Replaces the file atomically.
    let beside = bench.write(&format!("clusters/{name}.new"), secret.to_string());
    fs::rename(&beside, beside.with_extension("yaml")).unwrap();
}

fn application(bench: &KubeBench, name: &str, destination: &Value) {
    let app = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
        "spec": {
            "project": "default", "destination": destination,
            "source": {"repoURL": "../repo", "path": name, "targetRevision": "main"},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        },
    });
    bench.write(&format!("apps/{name}.yaml"), app.to_string());
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"version": "1"},
    });
    bench.write(&format!("repo/{name}/settings.yaml"), settings.to_string());
}

fn get(bench: &KubeBench, name: &str) -> Value {
    bench.json(&["app", "get", name, "-o", "json"])
}

/// Polls until the application has this text in its conditions, or, if the text is empty, until the
/// application is in sync.
#[track_caller]
fn wait_for_condition(bench: &KubeBench, name: &str, words: &str) {
    let is_met = |app: &Value| {
        let conditions = app["status"].get("conditions").map(Value::to_string).unwrap_or_default();
        match words {
            "" => {
                conditions.is_empty()
                    && app["status"]["sync"]["status"] == "Synced"
                    && app.get("operation").is_none()
            }
            words => conditions.contains(words),
        }
    };
    let found = std::iter::repeat_with(|| get(bench, name)).take(3000).any(|app| is_met(&app));
    assert!(found, "{name}: expected {words:?}: {}", get(bench, name));
}

fn serve(bench: &KubeBench) -> Running {
    serve_with(bench, &[])
}

fn serve_with(bench: &KubeBench, more: &[&str]) -> Running {
    let args = ["serve", "--sim", "--apps", "apps", "--clusters", "clusters"];
    let mut service = bench.start(&[&args[..], more].concat());
    service.wait_for_line("managing");
    service
}

/// Returns true if a text is in any file below a folder.
fn is_text_in_folder(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return is_text_in_folder(&path, text);
        }
        let content = fs::read(&path).unwrap_or_default();
        content.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

pub async fn an_unusable_cluster_blocks_only_its_own_applications() {
    let bench = KubeBench::new("declared").await;
    let namespace = bench.namespace.clone();
    let there = json!({"name": "staging", "namespace": namespace});
    let name = bench.app("there");
    application(&bench, &name, &there);
    application(&bench, "here", &json!({"name": "in-cluster", "namespace": "default"}));
    application(&bench, "dead", &json!({"server": "https://127.0.0.1:1/", "namespace": namespace}));
    application(&bench, "both", &json!({"server": "https://127.0.0.1:1", "name": "staging"}));
    application(&bench, "nobody", &json!({"name": "production"}));
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    secret(&bench, "staging", None, WRONG);
    secret(&bench, "dead", Some("https://127.0.0.1:1"), WRONG);
    let service = serve(&bench);
    wait_for_condition(&bench, "here", "");
    wait_for_condition(&bench, &name, "the cluster staging at");
    wait_for_condition(&bench, "dead", "is unreachable: cannot reach the server at https://127.0.0.1:1");
    wait_for_condition(&bench, "both", "both a name and a server");
    wait_for_condition(&bench, "nobody", "production in spec.destination is unknown");
    assert!(bench.object("/api/v1", "configmaps", &name).await.is_none());
    // Changed credentials take effect while the service is running, and so does an error in them.
    secret(&bench, "staging", None, "token-of-engine");
    wait_for_condition(&bench, &name, "");
    assert!(bench.object("/api/v1", "configmaps", &name).await.is_some());
    // The service watches for changes in that cluster.
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    bench.observer().patch(&path, &json!({"data": {"version": "2"}})).await.unwrap();
    let healed = |found: Option<&Value>| found.is_some_and(|found| found["data"]["version"] == "1");
    bench.observer().wait_until(&path, healed).await.unwrap();
    // The same is true after a restart, in which the operation continues.
    service.signal("TERM");
    let output = service.finish().expect_code(0);
    let service = serve(&bench);
    wait_for_condition(&bench, &name, "");
    secret(&bench, "staging", None, WRONG);
    wait_for_condition(&bench, &name, "the cluster staging at");
    wait_for_condition(&bench, "here", "");
    let shown = bench.run(&["app", "get", &name, "-o", "yaml"]).expect_code(0);
    service.signal("TERM");
    let more = service.finish().expect_code(0);
    for token in [WRONG, "token-of-engine"] {
        for text in [&output.err, &output.out, &more.err, &more.out, &shown.out, &shown.err] {
            assert!(!text.contains(token), "{text}");
        }
        assert!(!is_text_in_folder(&bench.state(), token), "{token} is in the state directory");
    }
}

pub async fn a_credential_program_is_used_if_permitted() {
    const VERSION: &str = "client.authentication.k8s.io/v1";
    let bench = KubeBench::new("plugin").await;
    let namespace = bench.namespace.clone();
    let name = bench.app("there");
    application(&bench, &name, &json!({"name": "staging", "namespace": namespace}));
    bench.run(&["example", "commit", "repo"]).expect_code(0);
    let program = bench.path().join("login");
    write_script(&program, "echo run >> \"$1\"\ncat \"$ANSWER\"");
    let program = fs::canonicalize(program).unwrap().display().to_string();
    let write_response = |text: String| {
        let beside = bench.write("answer.new", text);
        fs::rename(&beside, beside.with_extension("json")).unwrap();
        beside.with_extension("json")
    };
    let credential = |token: &str| {
        let status = json!({"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"});
        json!({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}).to_string()
    };
    let answer = write_response(format!("no JSON, {WRONG}"));
    let runs = bench.path().join("runs");
    let provider = json!({
        "command": program, "args": [runs], "env": {"ANSWER": answer}, "apiVersion": VERSION,
    });
    secret_with(&bench, "staging", None, json!({"execProviderConfig": provider}));
    let service = serve(&bench);
    wait_for_condition(
        &bench,
        &name,
        &format!("start `tidegate serve` with --allow-exec-credentials {program}"),
    );
    service.signal("TERM");
    let mut output = vec![service.finish().expect_code(0)];
    assert!(!runs.exists(), "only permitted programs ran");

    let service = serve_with(&bench, &["--allow-exec-credentials", &format!("other,{program}")]);
    wait_for_condition(&bench, &name, "Secret staging did not print an ExecCredential as JSON");
    // Refused credentials are requested again.
    write_response(credential(WRONG));
    wait_for_condition(&bench, &name, "Unauthorized");
    write_response(credential("token-of-engine"));
    wait_for_condition(&bench, &name, "");
    assert!(bench.object("/api/v1", "configmaps", &name).await.is_some());
    // The new credentials are used for all later requests.
    let before = fs::read_to_string(&runs).unwrap();
    bench.run(&["app", "refresh", &name]).expect_code(0);
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    bench.observer().patch(&path, &json!({"data": {"version": "2"}})).await.unwrap();
    let healed = |found: Option<&Value>| found.is_some_and(|found| found["data"]["version"] == "1");
    bench.observer().wait_until(&path, healed).await.unwrap();
    assert_eq!(fs::read_to_string(&runs).unwrap(), before);
    let shown = bench.run(&["app", "get", &name, "-o", "yaml"]).expect_code(0);
    service.signal("TERM");
    output.extend([service.finish().expect_code(0), shown]);
    for token in [WRONG, "token-of-engine"] {
        for ran in &output {
            assert!(!ran.err.contains(token) && !ran.out.contains(token), "{ran:?}");
        }
        assert!(!is_text_in_folder(&bench.state(), token), "{token} is in the state directory");
    }
}
