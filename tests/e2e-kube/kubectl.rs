//! `kubectl` in the hands of a person: the real one where this machine has it (in a folder of `TIDEGATE_TOOLS`, or on the `PATH`),
//! and else the same requests.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::site::Site;

/// A program that is none of ours, or nothing where there is none.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = ["TIDEGATE_TOOLS", "PATH"].map(|variable| env::var_os(variable).unwrap_or_default());
    let mut paths = folders.iter().flat_map(env::split_paths).map(|folder| folder.join(name));
    let found = paths.find(|path| path.is_file());
    if found.is_none() {
        let required = env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
        assert!(!required, "there is no {name}, which TIDEGATE_REQUIRE_TOOLS says is here");
        eprintln!("there is no {name} here; TIDEGATE_TOOLS names a folder with it");
    }
    found
}

/// Runs `kubectl` to its end, which must be a good one, and returns what it prints; nothing where there is no `kubectl`.
pub fn kubectl(site: &Site, args: &[&str]) -> Option<String> {
    let program = tool("kubectl")?;
    let mut command = Command::new(program);
    // What it keeps of the API goes with the site.
    command.args(args).current_dir(site.path()).env("HOME", site.path());
    let ran = command.env("KUBECONFIG", site.control.kubeconfig(User::OBSERVER)).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "kubectl {args:?}: {out}{err}");
    Some(out.into_owned())
}

fn path(namespace: &str, name: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications/{name}")
}

/// `kubectl apply -f`, of an Application.
pub async fn apply(site: &Site, application: &Value) {
    let metadata = &application["metadata"];
    let (namespace, name) = (metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap());
    let file = format!("{name}.json");
    site.write(&file, application.to_string());
    if kubectl(site, &["apply", "-f", &file]).is_none() {
        let path = format!("{}?fieldManager=kubectl&force=true", path(namespace, name));
        site.observer().apply(&path, application).await.unwrap();
    }
}

/// `kubectl delete application`, which waits until it is gone.
pub async fn delete(site: &Site, namespace: &str, name: &str) {
    if kubectl(site, &["-n", namespace, "delete", "application", name]).is_none() {
        let path = path(namespace, name);
        site.observer().delete(&path, &json!({"propagationPolicy": "Background"})).await.unwrap();
        site.observer().until(&path, |found| found.is_none()).await;
    }
}

/// `kubectl annotate application` and `kubectl label application`: `NAME=VALUE` sets, `NAME-` takes away.
pub async fn mark(site: &Site, verb: &str, (namespace, name): (&str, &str), what: &str) {
    if kubectl(site, &["-n", namespace, verb, "application", name, what]).is_none() {
        let (key, value) = match what.split_once('=') {
            Some((key, value)) => (key, json!(value)),
            None => (what.trim_end_matches('-'), Value::Null),
        };
        let field = if verb == "label" { "labels" } else { "annotations" };
        let change = json!({"metadata": {field: {key: value}}});
        site.observer().patch(&path(namespace, name), &change).await.unwrap();
    }
}
