//! Six Applications of one repository. Each one has a PreSync hook, two waves of ConfigMaps and a PostSync
//! hook. One hook takes seconds, so that faults also occur while it runs.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::applications::{is_done, path};
use crate::kube_bench::KubeBench;

const NUMBER: usize = 6;
/// Duration of the longest hook.
const LONGEST_HOOK_MILLIS: usize = 2500;

/// Annotation that makes the service compare an Application.
const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Entry of an operation's information with its ID, and annotation with the ID on hooks.
pub const OPERATION_ID: &str = "tidegate.dev/operation-id";

pub fn numbers() -> std::ops::Range<usize> {
    0..NUMBER
}

pub fn name(number: usize) -> String {
    format!("app-{number}")
}

/// Returns the PreSync and the PostSync hook of an Application.
pub fn hooks(number: usize) -> [String; 2] {
    [format!("prepare-{number}"), format!("announce-{number}")]
}

/// Returns the ConfigMaps of an Application, in the order of their waves.
pub fn resources(number: usize) -> [String; 2] {
    [format!("settings-{number}"), format!("routes-{number}")]
}

pub async fn create(bench: &KubeBench) {
    for number in numbers() {
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name(number)},
            "spec": {
                "project": "default",
                "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
                "source": {
                    "repoURL": bench.path().join("fleet").display().to_string(),
                    "path": name(number), "targetRevision": "main",
                },
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
            },
        });
        bench.observer().post(&path(bench), &application).await.unwrap();
    }
}

/// Commits a version of all Applications. Returns the commit.
pub fn commit(bench: &KubeBench, version: &str) -> String {
    for number in numbers() {
        bench.write(&format!("fleet/{}/all.yaml", name(number)), manifests(number, version));
    }
    let ran = bench.run(&["example", "commit", "fleet"]).expect_code(0);
    ran.err.trim().rsplit_once("committed ").expect("each version changes something").1.to_owned()
}

fn manifests(number: usize, version: &str) -> String {
    let job = |name: &str, hook: &str, is_deleted: bool, millis: usize| {
        let policy = if is_deleted { "HookSucceeded" } else { "BeforeHookCreation" };
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "annotations": {
                "argocd.argoproj.io/hook": hook, "argocd.argoproj.io/hook-delete-policy": policy,
                "sim.tidegate.dev/ready-after": format!("{millis}ms"),
                // Shorter than a difference between the clocks of two services.
                "tidegate.dev/timeout": "30m",
            }},
            "spec": {"backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
            }}},
        })
    };
    let map = |name: &str, wave: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
            "data": {"version": version},
        })
    };
    let ([prepare, announce], [settings, routes]) = (hooks(number), resources(number));
    let millis = if number + 1 == NUMBER { LONGEST_HOOK_MILLIS } else { 50 + 50 * number };
    // A late creation of a hook that is already deleted would succeed.
    let is_prepare_deleted = number != 1;
    let all = [
        job(&prepare, "PreSync", is_prepare_deleted, millis),
        map(&settings, "0"),
        map(&routes, "1"),
        job(&announce, "PostSync", !is_prepare_deleted, 100),
    ];
    all.map(|one| one.to_string()).join("\n---\n")
}

/// Makes the service compare an Application, as `kubectl annotate` would.
pub async fn refresh(bench: &KubeBench, number: usize) {
    let request = json!({"metadata": {"annotations": {REFRESH: "normal"}}});
    bench.observer().patch(&format!("{}/{}", path(bench), name(number)), &request).await.unwrap();
}

/// Waits until all Applications are synced to a commit. Adds all operation IDs in the resources to `operations`.
pub async fn wait_until_synced(bench: &KubeBench, commit: &str, operations: &mut BTreeSet<String>) {
    let found = RefCell::new(std::mem::take(operations));
    let is_synced = |app: &Value| {
        let status = &app["status"];
        is_done(app)
            && app["metadata"]["annotations"].get(REFRESH).is_none()
            && status["sync"]["revision"] == commit
            && status["operationState"]["syncResult"]["revision"] == commit
    };
    let are_synced = |list: Option<&Value>| {
        let all = list.and_then(|list| list["items"].as_array()).unwrap();
        found.borrow_mut().extend(all.iter().flat_map(operation_ids));
        all.len() == NUMBER && all.iter().all(is_synced)
    };
    bench.observer().wait_until(&path(bench), are_synced).await;
    *operations = found.into_inner();
}

/// Waits until the cluster contains a version of all ConfigMaps.
pub async fn wait_for_version(bench: &KubeBench, version: &str) {
    let maps = format!("/api/v1/namespaces/{}/configmaps", bench.namespace);
    let is_current = |list: Option<&Value>| {
        let all = list.and_then(|list| list["items"].as_array()).unwrap();
        let count = |name: &str| {
            all.iter()
                .filter(|map| map["metadata"]["name"] == name && map["data"]["version"] == version)
                .count()
        };
        numbers().flat_map(resources).all(|name| count(&name) == 1)
    };
    bench.observer().wait_until(&maps, is_current).await;
}

/// Returns the IDs of the requested and of the last operation of an Application.
fn operation_ids(app: &Value) -> Vec<String> {
    let info = [&app["operation"]["info"], &app["status"]["operationState"]["operation"]["info"]];
    let entries = info.into_iter().filter_map(Value::as_array).flatten();
    let ids = entries.filter(|entry| entry["name"] == OPERATION_ID);
    ids.filter_map(|entry| Some(entry["value"].as_str()?.to_owned())).collect()
}
