//! Clusters that Secrets declare, beside the one that is served.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_testkit::program::write_script;

use crate::bench::Running;
use crate::site::Site;

/// What proves who asks; nobody sees it.
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

/// The Secret of a cluster, whose address and certificate are those of the kubeconfig.
fn secret(site: &Site, name: &str, server: Option<&str>, token: &str) {
    secret_with(site, name, server, json!({"bearerToken": token}));
}

/// The same, with any credentials.
fn secret_with(site: &Site, name: &str, server: Option<&str>, mut config: Value) {
    let mut known = Value::Null;
    site.changed_kubeconfig("unused", |config| known = config["clusters"][0]["cluster"].clone());
    let certificate = fs::read(known["certificate-authority"].as_str().unwrap()).unwrap();
    config["tlsClientConfig"] = json!({"caData": base64(&certificate)});
    let server = server.unwrap_or_else(|| known["server"].as_str().unwrap());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "stringData": {"name": name, "server": server, "config": config.to_string()},
    });
    // In the place of what was there, all at once.
    let beside = site.write(&format!("clusters/{name}.new"), secret.to_string());
    fs::rename(&beside, beside.with_extension("yaml")).unwrap();
}

fn application(site: &Site, name: &str, destination: &Value) {
    let app = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
        "spec": {
            "project": "default", "destination": destination,
            "source": {"repoURL": "../repo", "path": name, "targetRevision": "main"},
            "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
        },
    });
    site.write(&format!("apps/{name}.yaml"), app.to_string());
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"version": "1"},
    });
    site.write(&format!("repo/{name}/settings.yaml"), settings.to_string());
}

fn get(site: &Site, name: &str) -> Value {
    site.json(&["app", "get", name, "-o", "json"])
}

/// Asks until the application says this in its conditions, or is as it should be where nothing is expected.
#[track_caller]
fn until(site: &Site, name: &str, words: &str) {
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
    let found = std::iter::repeat_with(|| get(site, name)).take(3000).any(|app| is_met(&app));
    assert!(found, "{name} where {words:?} was expected: {}", get(site, name));
}

fn serve(site: &Site) -> Running {
    serve_with(site, &[])
}

fn serve_with(site: &Site, more: &[&str]) -> Running {
    let args = ["serve", "--sim", "--apps", "apps", "--clusters", "clusters"];
    let mut serving = site.start(&[&args[..], more].concat());
    serving.await_line("serving");
    serving
}

/// Whether a text is in any file below a folder.
fn is_in(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return is_in(&path, text);
        }
        let content = fs::read(&path).unwrap_or_default();
        content.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

pub async fn a_cluster_that_cannot_be_used_holds_back_only_its_own_applications() {
    let site = Site::new("declared").await;
    let namespace = site.namespace.clone();
    let there = json!({"name": "staging", "namespace": namespace});
    let name = site.app("there");
    application(&site, &name, &there);
    application(&site, "here", &json!({"name": "in-cluster", "namespace": "default"}));
    application(&site, "dead", &json!({"server": "https://127.0.0.1:1/", "namespace": namespace}));
    application(&site, "both", &json!({"server": "https://127.0.0.1:1", "name": "staging"}));
    application(&site, "nobody", &json!({"name": "production"}));
    site.run(&["example", "commit", "repo"]).expect_code(0);
    secret(&site, "staging", None, WRONG);
    secret(&site, "dead", Some("https://127.0.0.1:1"), WRONG);
    let serving = serve(&site);
    until(&site, "here", "");
    until(&site, &name, "the cluster staging at");
    until(&site, "dead", "cannot be used now: cannot reach the server at https://127.0.0.1:1");
    until(&site, "both", "both a name and a server");
    until(&site, "nobody", "production of spec.destination is not known here");
    assert!(site.object("/api/v1", "configmaps", &name).await.is_none());
    // Other credentials are taken up while it runs, and so is that they are wrong again.
    secret(&site, "staging", None, "token-of-engine");
    until(&site, &name, "");
    assert!(site.object("/api/v1", "configmaps", &name).await.is_some());
    // What somebody changes there is watched.
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    site.observer().patch(&path, &json!({"data": {"version": "2"}})).await.unwrap();
    let healed = |found: Option<&Value>| found.is_some_and(|found| found["data"]["version"] == "1");
    site.observer().until(&path, healed).await.unwrap();
    // It is the same after a start, and goes on.
    serving.signal("TERM");
    let told = serving.finish().expect_code(0);
    let serving = serve(&site);
    until(&site, &name, "");
    secret(&site, "staging", None, WRONG);
    until(&site, &name, "the cluster staging at");
    until(&site, "here", "");
    let shown = site.run(&["app", "get", &name, "-o", "yaml"]).expect_code(0);
    serving.signal("TERM");
    let more = serving.finish().expect_code(0);
    for token in [WRONG, "token-of-engine"] {
        for text in [&told.err, &told.out, &more.err, &more.out, &shown.out, &shown.err] {
            assert!(!text.contains(token), "{text}");
        }
        assert!(!is_in(&site.state(), token), "{token} is in the state directory");
    }
}

pub async fn a_program_gives_the_credentials_where_that_is_allowed() {
    const VERSION: &str = "client.authentication.k8s.io/v1";
    let site = Site::new("plugin").await;
    let namespace = site.namespace.clone();
    let name = site.app("there");
    application(&site, &name, &json!({"name": "staging", "namespace": namespace}));
    site.run(&["example", "commit", "repo"]).expect_code(0);
    let program = site.path().join("login");
    write_script(&program, "echo run >> \"$1\"\ncat \"$ANSWER\"");
    let program = fs::canonicalize(program).unwrap().display().to_string();
    let gives = |text: String| {
        let beside = site.write("answer.new", text);
        fs::rename(&beside, beside.with_extension("json")).unwrap();
        beside.with_extension("json")
    };
    let credential = |token: &str| {
        let status = json!({"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"});
        json!({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}).to_string()
    };
    let answer = gives(format!("no JSON, {WRONG}"));
    let runs = site.path().join("runs");
    let provider = json!({
        "command": program, "args": [runs], "env": {"ANSWER": answer}, "apiVersion": VERSION,
    });
    secret_with(&site, "staging", None, json!({"execProviderConfig": provider}));
    let serving = serve(&site);
    until(&site, &name, &format!("begin `tidegate serve` with --allow-exec-credentials {program}"));
    serving.signal("TERM");
    let mut told = vec![serving.finish().expect_code(0)];
    assert!(!runs.exists(), "nothing was run that is not allowed");

    let serving = serve_with(&site, &["--allow-exec-credentials", &format!("other,{program}")]);
    until(&site, &name, "Secret staging names for credentials did not print an ExecCredential as JSON");
    // Refused by the server, it is asked for others.
    gives(credential(WRONG));
    until(&site, &name, "Unauthorized");
    gives(credential("token-of-engine"));
    until(&site, &name, "");
    assert!(site.object("/api/v1", "configmaps", &name).await.is_some());
    // What it has given is good for all that is asked from then on.
    let before = fs::read_to_string(&runs).unwrap();
    site.run(&["app", "refresh", &name]).expect_code(0);
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    site.observer().patch(&path, &json!({"data": {"version": "2"}})).await.unwrap();
    let healed = |found: Option<&Value>| found.is_some_and(|found| found["data"]["version"] == "1");
    site.observer().until(&path, healed).await.unwrap();
    assert_eq!(fs::read_to_string(&runs).unwrap(), before);
    let shown = site.run(&["app", "get", &name, "-o", "yaml"]).expect_code(0);
    serving.signal("TERM");
    told.extend([serving.finish().expect_code(0), shown]);
    for token in [WRONG, "token-of-engine"] {
        for ran in &told {
            assert!(!ran.err.contains(token) && !ran.out.contains(token), "{ran:?}");
        }
        assert!(!is_in(&site.state(), token), "{token} is in the state directory");
    }
}
