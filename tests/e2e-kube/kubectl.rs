//! `kubectl` as a person uses it: the real program if it is installed (in a folder of `TIDEGATE_TOOLS`, or on
//! the `PATH`), otherwise the same requests.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::kube_bench::KubeBench;

/// Returns an external program if it is installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = ["TIDEGATE_TOOLS", "PATH"].map(|variable| env::var_os(variable).unwrap_or_default());
    let mut paths = folders.iter().flat_map(env::split_paths).map(|folder| folder.join(name));
    let found = paths.find(|path| path.is_file());
    if found.is_none() {
        let required = env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
        assert!(!required, "{name} is missing, but TIDEGATE_REQUIRE_TOOLS requires it");
        eprintln!("{name} is missing; set TIDEGATE_TOOLS to its folder");
    }
    found
}

/// Runs `kubectl`, which must succeed, and returns its output. Returns `None` if `kubectl` isn't installed.
pub fn kubectl(bench: &KubeBench, args: &[&str]) -> Option<String> {
    let program = tool("kubectl")?;
    let mut command = Command::new(program);
    // The cache of `kubectl` belongs to the test environment.
    command.args(args).current_dir(bench.path()).env("HOME", bench.path());
    let ran = command.env("KUBECONFIG", bench.control.kubeconfig(User::OBSERVER)).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "kubectl {args:?}: {out}{err}");
    Some(out.into_owned())
}

fn path(namespace: &str, name: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications/{name}")
}

/// Runs `kubectl apply -f` for an Application.
pub async fn apply(bench: &KubeBench, application: &Value) {
    let metadata = &application["metadata"];
    let (namespace, name) = (metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap());
    let file = format!("{name}.json");
    bench.write(&file, application.to_string());
    if kubectl(bench, &["apply", "-f", &file]).is_none() {
        let path = format!("{}?fieldManager=kubectl&force=true", path(namespace, name));
        bench.observer().apply(&path, application).await.unwrap();
    }
}

/// Runs `kubectl delete application`, which waits until the Application no longer exists.
pub async fn delete(bench: &KubeBench, namespace: &str, name: &str) {
    if kubectl(bench, &["-n", namespace, "delete", "application", name]).is_none() {
        let path = path(namespace, name);
        bench.observer().delete(&path, &json!({"propagationPolicy": "Background"})).await.unwrap();
        bench.observer().wait_until(&path, |found| found.is_none()).await;
    }
}

/// Runs `kubectl annotate application` or `kubectl label application`: `NAME=VALUE` sets a value, and `NAME-`
/// removes it.
pub async fn annotate_or_label(bench: &KubeBench, verb: &str, (namespace, name): (&str, &str), what: &str) {
    if kubectl(bench, &["-n", namespace, verb, "application", name, what]).is_none() {
        let (key, value) = match what.split_once('=') {
            Some((key, value)) => (key, json!(value)),
            None => (what.trim_end_matches('-'), Value::Null),
        };
        let field = if verb == "label" { "labels" } else { "annotations" };
        let change = json!({"metadata": {field: {key: value}}});
        bench.observer().patch(&path(namespace, name), &change).await.unwrap();
    }
}
