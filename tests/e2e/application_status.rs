//! The complete status of Applications of each type, compared field by field with the field tables of Argo
//! CD's resources. No other fields may be present.

use serde_json::{Value, json};

use crate::bench::{Bench, Running};
use crate::fleet::Fleet;

/// Placeholder for values that differ between runs.
const TIME: &str = "<time>";
const COMMIT: &str = "<commit>";
const ID: &str = "<id>";
const TEXT: &str = "<text>";

/// A repository with a folder for each Application, and a service that manages the Applications.
struct Samples {
    bench: Bench,
    service: Running,
}

fn write_manifest(folder: &str, file: &str, object: &Value, bench: &Bench) {
    bench.write(&format!("apps/repo/{folder}/{file}.json"), object.to_string());
}

fn config_map(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations},
        "data": {"a": "1"},
    })
}

fn deployment(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": format!("example.com/{name}:1")}]},
            },
        },
    })
}

fn job(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": format!("example.com/{name}:1")}],
        }}},
    })
}

impl Samples {
    fn new() -> Self {
        let bench = Bench::new();
        let none = json!({});
        let hook = |phase: &str| json!({"argocd.argoproj.io/hook": phase});
        let wave = |wave: &str| json!({"argocd.argoproj.io/sync-wave": wave});
        write_manifest("shop", "migrate", &job("migrate", &hook("PreSync")), &bench);
        write_manifest("shop", "settings", &config_map("settings", &wave("-1")), &bench);
        write_manifest("shop", "web", &deployment("web", &wave("1")), &bench);
        write_manifest("untouched", "map", &config_map("untouched", &none), &bench);
        write_manifest("untouched", "web", &deployment("unmade", &none), &bench);
        write_manifest("first", "map", &config_map("first", &none), &bench);
        write_manifest("second", "map", &config_map("second", &none), &bench);
        let mut fails = hook("PreSync");
        fails["sim.tidegate.dev/outcome"] = json!("fail");
        write_manifest("failing", "check", &job("check", &fails), &bench);
        write_manifest("failing", "map", &config_map("failing", &none), &bench);
        let sick = json!({"sim.tidegate.dev/outcome": "fail"});
        write_manifest("sick", "web", &deployment("sick", &sick), &bench);
        let options = |options: &str| json!({"argocd.argoproj.io/sync-options": options});
        write_manifest(
            "guarded",
            "asked",
            &config_map("asked", &options("Prune=confirm,Delete=true")),
            &bench,
        );
        write_manifest("guarded", "free", &config_map("free", &options("Delete=true")), &bench);
        write_manifest("guarded", "silent", &config_map("silent", &none), &bench);
        write_manifest("shrinking", "stays", &config_map("stays", &none), &bench);
        write_manifest("shrinking", "leaves", &config_map("leaves", &none), &bench);
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": "open", "annotations": {
                "link.argocd.argoproj.io/docs": "https://docs.example.com",
                "link.argocd.argoproj.io/evil": "javascript:alert(1)",
            }},
            "spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{
                "path": "/cart", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}},
            }]}}]},
        });
        write_manifest("open", "ingress", &ingress, &bench);
        bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        let mut service = bench.start(&["serve", "--sim", "--apps", "apps"]);
        service.wait_for_line("managing");
        Self { bench, service }
    }

    /// Writes an Application whose sources are these folders, with additional fields.
    fn apply(&self, name: &str, folders: &[&str], spec: &Value) {
        let mut app = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {"project": "default", "destination": destination()},
        });
        let sources: Vec<Value> = folders.iter().map(|folder| source(folder)).collect();
        match sources.as_slice() {
            [one] => app["spec"]["source"] = one.clone(),
            several => app["spec"]["sources"] = json!(several),
        }
        for (field, value) in spec.as_object().unwrap() {
            app["spec"][field] = value.clone();
        }
        self.bench.write(&format!("apps/{name}.json"), app.to_string());
        self.status(name, |status| status["reconciledAt"].is_string());
    }

    /// Waits until an Application's status satisfies a predicate, and returns it with placeholders.
    #[track_caller]
    fn status(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || {
            let ran = self.bench.run(&["app", "get", name, "-o", "json"]);
            (ran.code() == 0).then(|| serde_json::from_str::<Value>(&ran.out).unwrap()["status"].take())
        };
        let found = std::iter::repeat_with(get).take(3000).flatten().find(is_met);
        placeholders(found.unwrap_or_else(|| panic!("{name}: {:#}", get().unwrap_or_default())), "")
    }

    fn sync(&self, name: &str, more: &[&str], code: i32) {
        self.bench.run(&[&["app", "sync", name], more].concat()).expect_code(code);
    }
}

fn destination() -> Value {
    json!({"name": "in-cluster", "namespace": "default"})
}

fn source(folder: &str) -> Value {
    json!({"repoURL": "./repo", "path": folder, "targetRevision": "HEAD"})
}

/// Returns true if the text is a time in the format of the API server, that is, UTC in whole seconds.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00Z"
}

/// Replaces values that differ between runs with placeholders for their type.
fn placeholders(value: Value, field: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let each = fields.into_iter().map(|(name, value)| {
                let value = placeholders(value, &name);
                (name, value)
            });
            Value::Object(each.collect())
        }
        Value::Array(items) => items.into_iter().map(|item| placeholders(item, field)).collect(),
        Value::String(text) if field == "value" && text.len() == 36 => json!(ID),
        Value::String(text) if is_time(&text) => json!(TIME),
        Value::String(text) if field.starts_with("revision") && text.len() == 40 => json!(COMMIT),
        Value::String(text) if matches!(field, "username" | "message") && !text.is_empty() => {
            let is_of_spec = text.starts_with("successfully synced");
            if is_of_spec { Value::String(text) } else { json!(TEXT) }
        }
        other => other,
    }
}

#[track_caller]
fn assert_status(name: &str, status: &Value, expected: &Value) {
    let print = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    assert_eq!(status, expected, "{name}: got {}\nexpected {}", print(status), print(expected));
}

fn is_synced(status: &Value) -> bool {
    status["operationState"]["finishedAt"].is_string()
        && status["reconciledAt"].as_str() >= status["operationState"]["finishedAt"].as_str()
}

/// Returns the comparison of these folders at the current commit.
fn comparison(status: &str, folder: &str) -> Value {
    json!({
        "status": status, "revision": COMMIT,
        "comparedTo": {"source": source(folder), "destination": destination()},
    })
}

/// Returns the status of an object, optionally with a wave and a health.
fn resource(api: (&str, &str), name: &str, status: &str, more: &Value) -> Value {
    let (group, kind) = api;
    let mut resource =
        json!({"version": "v1", "kind": kind, "namespace": "default", "name": name, "status": status});
    if !group.is_empty() {
        resource["group"] = json!(group);
    }
    for (field, value) in more.as_object().unwrap() {
        resource[field] = value.clone();
    }
    resource
}

/// Returns the result of an operation for an object. The group is present even if it is empty.
fn result(api: (&str, &str), name: &str, phase: &str, more: &Value) -> Value {
    let mut result = json!({
        "group": api.0, "version": "v1", "kind": api.1, "namespace": "default", "name": name, "syncPhase": phase,
    });
    for (field, value) in more.as_object().unwrap() {
        result[field] = value.clone();
    }
    result
}

/// Returns a requested operation with its result.
fn operation(folder: &str, request: &Value, end: (&str, &str), resources: &Value) -> Value {
    json!({
        "operation": request, "phase": end.0, "message": end.1, "startedAt": TIME, "finishedAt": TIME,
        "syncResult": {"revision": COMMIT, "source": source(folder), "resources": resources},
    })
}

/// Returns the initiator of an operation. The ID comes from the log.
fn initiator(sync: &Value) -> Value {
    json!({"initiatedBy": {"username": TEXT}, "info": info(), "sync": sync})
}

fn info() -> Value {
    json!([{"name": "tidegate.dev/operation-id", "value": ID}])
}

const MAP: (&str, &str) = ("", "ConfigMap");
const DEPLOYMENT: (&str, &str) = ("apps", "Deployment");
const JOB: (&str, &str) = ("batch", "Job");

#[test]
fn an_application_with_a_hook_and_waves() {
    let samples = Samples::new();
    samples.apply("shop", &["shop"], &json!({}));
    let never = samples.status("shop", |status| status["reconciledAt"].is_string());
    let missing = json!({"status": "Missing"});
    let before = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("OutOfSync", "shop"),
        "health": {"status": "Missing", "lastTransitionTime": TIME},
        // Hooks are missing here, because their results are in the operation.
        "resources": [
            resource(MAP, "settings", "OutOfSync", &json!({"health": missing, "syncWave": -1})),
            resource(DEPLOYMENT, "web", "OutOfSync", &json!({"health": missing, "syncWave": 1})),
        ],
    });
    assert_status("before", &never, &before);
    samples.sync("shop", &[], 0);
    let status =
        samples.status("shop", |status| is_synced(status) && status["health"]["status"] == "Healthy");
    let request = initiator(&json!({"revision": COMMIT}));
    let results = json!([
        result(
            JOB,
            "migrate",
            "PreSync",
            &json!({
                "hookType": "PreSync", "hookPhase": "Succeeded", "status": "Synced", "message": TEXT,
                "images": ["example.com/migrate:1"],
            })
        ),
        result(
            MAP,
            "settings",
            "Sync",
            &json!({
                "hookPhase": "Succeeded", "status": "Synced", "message": TEXT,
            })
        ),
        result(
            DEPLOYMENT,
            "web",
            "Sync",
            &json!({
                "hookPhase": "Running", "status": "Synced", "message": TEXT, "images": ["example.com/web:1"],
            })
        ),
    ]);
    let after = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("Synced", "shop"),
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "summary": {"images": ["example.com/web:1"]},
        "resources": [
            resource(MAP, "settings", "Synced", &json!({"syncWave": -1})),
            resource(DEPLOYMENT, "web", "Synced", &json!({"health": {"status": "Healthy", "message": TEXT}, "syncWave": 1}))
        ],
        "operationState":
            operation("shop", &request, ("Succeeded", "successfully synced (all tasks run)"), &results),
        "history": [{
            "id": 0, "revision": COMMIT, "source": source("shop"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"username": TEXT},
        }],
    });
    assert_status("after", &status, &after);
    Fleet::stop(samples.service);
}

#[test]
fn an_application_of_several_sources_that_is_synced_automatically() {
    let samples = Samples::new();
    samples.apply("pair", &["first", "second"], &json!({"syncPolicy": {"automated": {"prune": true}}}));
    let mut status =
        samples.status("pair", |status| is_synced(status) && status["sync"]["status"] == "Synced");
    // Both objects are applied at once, and listed in the order of completion.
    let done = status.pointer_mut("/operationState/syncResult/resources").and_then(Value::as_array_mut);
    done.unwrap().sort_by_key(|result| result["name"].to_string());
    let sources = json!([source("first"), source("second")]);
    let commits = json!([COMMIT, COMMIT]);
    let done = json!({"hookPhase": "Running", "status": "Synced", "message": TEXT});
    let expected = json!({
        "reconciledAt": TIME, "sourceTypes": ["Directory", "Directory"],
        "sync": {
            "status": "Synced", "revisions": commits,
            "comparedTo": {"sources": sources, "destination": destination()},
        },
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "resources": [
            resource(MAP, "first", "Synced", &json!({})),
            resource(MAP, "second", "Synced", &json!({})),
        ],
        "operationState": {
            "operation": {
                "initiatedBy": {"automated": true}, "info": info(), "retry": {"limit": 5},
                "sync": {"prune": true, "revisions": commits, "sources": sources},
            },
            "phase": "Succeeded", "message": "successfully synced (all tasks run)",
            "startedAt": TIME, "finishedAt": TIME,
            "syncResult": {
                "revision": "", "revisions": commits, "sources": sources,
                "resources": [result(MAP, "first", "Sync", &done), result(MAP, "second", "Sync", &done)],
            },
        },
        "history": [{
            "id": 0, "revisions": commits, "sources": sources, "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"automated": true},
        }],
    });
    assert_status("pair", &status, &expected);
    Fleet::stop(samples.service);
}

#[test]
fn applications_that_cannot_be_compared() {
    let samples = Samples::new();
    samples.apply("nowhere", &["missing"], &json!({}));
    samples.apply("stranger", &["first"], &json!({"project": "unknown"}));
    let has_condition = |status: &Value| status["conditions"].is_array();
    // The commit doesn't contain this folder.
    let status = samples.status("nowhere", has_condition);
    let expected = json!({
        "reconciledAt": TIME, "health": {"status": "Unknown", "lastTransitionTime": TIME},
        "sync": {
            "status": "Unknown", "revision": COMMIT,
            "comparedTo": {"source": source("missing"), "destination": destination()},
        },
        "conditions": [{"type": "ComparisonError", "message": TEXT, "lastTransitionTime": TIME}],
    });
    assert_status("nowhere", &status, &expected);
    let status = samples.status("stranger", has_condition);
    let expected = json!({
        "reconciledAt": TIME, "health": {"status": "Unknown", "lastTransitionTime": TIME},
        "sync": {
            "status": "Unknown",
            "comparedTo": {"source": source("first"), "destination": destination()},
        },
        "conditions": [{"type": "InvalidSpecError", "message": TEXT, "lastTransitionTime": TIME}],
    });
    assert_status("stranger", &status, &expected);
    Fleet::stop(samples.service);
}

#[test]
fn an_operation_whose_hook_fails() {
    let samples = Samples::new();
    samples.apply("failing", &["failing"], &json!({}));
    samples.sync("failing", &[], 1);
    let status = samples.status("failing", is_synced);
    let request = initiator(&json!({"revision": COMMIT}));
    let results = json!([result(
        JOB,
        "check",
        "PreSync",
        &json!({
            "hookType": "PreSync", "hookPhase": "Failed", "status": "Synced", "message": TEXT,
            "images": ["example.com/check:1"],
        })
    )]);
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("OutOfSync", "failing"),
        "health": {"status": "Missing", "lastTransitionTime": TIME},
        "resources": [
            resource(MAP, "failing", "OutOfSync", &json!({"health": {"status": "Missing"}}))
        ],
        "operationState": operation("failing", &request, ("Failed", TEXT), &results),
    });
    assert_status("failing", &status, &expected);
    Fleet::stop(samples.service);
}

#[test]
fn an_application_that_is_synced_and_degraded() {
    let samples = Samples::new();
    samples.apply("sick", &["sick"], &json!({}));
    samples.sync("sick", &["--async"], 0);
    let status =
        samples.status("sick", |status| is_synced(status) && status["health"]["status"] == "Degraded");
    let request = initiator(&json!({"revision": COMMIT}));
    let results = json!([result(
        DEPLOYMENT,
        "sick",
        "Sync",
        &json!({
            "hookPhase": "Running", "status": "Synced", "message": TEXT, "images": ["example.com/sick:1"],
        })
    )]);
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("Synced", "sick"),
        // Argo CD leaves this message empty.
        "health": {"status": "Degraded", "lastTransitionTime": TIME, "message": TEXT},
        "summary": {"images": ["example.com/sick:1"]},
        "resources": [resource(DEPLOYMENT, "sick", "Synced", &json!({"health": {"status": "Degraded", "message": TEXT}}))],
        "operationState":
            operation("sick", &request, ("Succeeded", "successfully synced (all tasks run)"), &results),
        "history": [{
            "id": 0, "revision": COMMIT, "source": source("sick"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"username": TEXT},
        }],
    });
    assert_status("sick", &status, &expected);
    Fleet::stop(samples.service);
}

#[test]
fn an_unneeded_object_that_was_not_pruned() {
    let samples = Samples::new();
    samples.apply("shrinking", &["shrinking"], &json!({"revisionHistoryLimit": 1}));
    samples.sync("shrinking", &[], 0);
    std::fs::remove_file(samples.bench.path().join("apps/repo/shrinking/leaves.json")).unwrap();
    samples.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    samples.sync("shrinking", &[], 0);
    // The next sync is partial and doesn't change anything.
    samples.sync("shrinking", &["--resource", ":ConfigMap:stays"], 0);
    let is_part = |status: &Value| {
        is_synced(status) && status["operationState"]["operation"]["sync"]["resources"].is_array()
    };
    let status = samples.status("shrinking", is_part);
    let request =
        initiator(&json!({"revision": COMMIT, "resources": [{"kind": "ConfigMap", "name": "stays"}]}));
    let results = json!([result(
        MAP,
        "stays",
        "Sync",
        &json!({
            "hookPhase": "Running", "status": "Synced", "message": TEXT,
        })
    )]);
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("OutOfSync", "shrinking"),
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "resources": [
            // The wave of a prune is a field of our own.
            resource(MAP, "leaves", "OutOfSync", &json!({"requiresPruning": true, "pruneWave": 0})),
            resource(MAP, "stays", "Synced", &json!({})),
        ],
        "operationState":
            operation("shrinking", &request, ("Succeeded", "successfully synced (all tasks run)"), &results),
        // This is the second of two complete syncs. The limit is one, and partial syncs don't count.
        "history": [{
            "id": 1, "revision": COMMIT, "source": source("shrinking"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"username": TEXT},
        }],
    });
    assert_status("shrinking", &status, &expected);
    Fleet::stop(samples.service);
}

#[test]
fn a_deletion_that_needs_a_confirmation() {
    let samples = Samples::new();
    samples.apply("guarded", &["guarded"], &json!({"syncPolicy": {"syncOptions": ["Delete=confirm"]}}));
    let never = samples.status("guarded", |status| status["reconciledAt"].is_string());
    let missing = json!({"status": "Missing"});
    let asks = json!({"health": missing, "requiresDeletionConfirmation": true});
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("OutOfSync", "guarded"),
        "health": {"status": "Missing", "lastTransitionTime": TIME},
        "resources": [
            resource(MAP, "asked", "OutOfSync", &asks),
            resource(MAP, "free", "OutOfSync", &json!({"health": missing})),
            resource(MAP, "silent", "OutOfSync", &asks),
        ],
    });
    assert_status("guarded", &never, &expected);
    Fleet::stop(samples.service);
}

#[test]
fn an_application_with_external_urls() {
    let samples = Samples::new();
    samples.apply("open", &["open"], &json!({"syncPolicy": {"automated": {"selfHeal": true}}}));
    let status =
        samples.status("open", |status| is_synced(status) && status["health"]["status"] == "Healthy");
    let results = json!([result(
        ("networking.k8s.io", "Ingress"),
        "open",
        "Sync",
        &json!({
            "hookPhase": "Running", "status": "Synced", "message": TEXT,
        })
    )]);
    let request = json!({
        "initiatedBy": {"automated": true}, "info": info(), "retry": {"limit": 5},
        "sync": {"revision": COMMIT, "source": source("open")},
    });
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": comparison("Synced", "open"),
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "summary": {"externalURLs": ["http://shop.example.com/cart", "https://docs.example.com"]},
        "resources": [resource(("networking.k8s.io", "Ingress"), "open", "Synced", &json!({"health": {"status": "Healthy", "message": TEXT}}))],
        "operationState":
            operation("open", &request, ("Succeeded", "successfully synced (all tasks run)"), &results),
        "history": [{
            "id": 0, "revision": COMMIT, "source": source("open"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"automated": true},
        }],
    });
    assert_status("open", &status, &expected);
    Fleet::stop(samples.service);
}
