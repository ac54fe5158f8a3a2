//! The whole status of Applications of each sort, field by field, as the tables of Argo CD's resources have them: what is not
//! named here is not there.

use serde_json::{Value, json};

use crate::bench::{Bench, Running};
use crate::fleet::Fleet;

/// Stand for what differs from run to run.
const TIME: &str = "<time>";
const COMMIT: &str = "<commit>";
const ID: &str = "<id>";
const TEXT: &str = "<text>";

/// A repository with a folder for each Application, and a service.
struct Samples {
    bench: Bench,
    serving: Running,
}

fn manifest(folder: &str, file: &str, object: &Value, bench: &Bench) {
    bench.write(&format!("apps/repo/{folder}/{file}.json"), object.to_string());
}

fn map(name: &str, annotations: &Value) -> Value {
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
        manifest("shop", "migrate", &job("migrate", &hook("PreSync")), &bench);
        manifest("shop", "settings", &map("settings", &wave("-1")), &bench);
        manifest("shop", "web", &deployment("web", &wave("1")), &bench);
        manifest("untouched", "map", &map("untouched", &none), &bench);
        manifest("untouched", "web", &deployment("unmade", &none), &bench);
        manifest("first", "map", &map("first", &none), &bench);
        manifest("second", "map", &map("second", &none), &bench);
        let mut fails = hook("PreSync");
        fails["sim.tidegate.dev/outcome"] = json!("fail");
        manifest("failing", "check", &job("check", &fails), &bench);
        manifest("failing", "map", &map("failing", &none), &bench);
        let sick = json!({"sim.tidegate.dev/outcome": "fail"});
        manifest("sick", "web", &deployment("sick", &sick), &bench);
        let options = |options: &str| json!({"argocd.argoproj.io/sync-options": options});
        manifest("guarded", "asked", &map("asked", &options("Prune=confirm,Delete=true")), &bench);
        manifest("guarded", "free", &map("free", &options("Delete=true")), &bench);
        manifest("guarded", "silent", &map("silent", &none), &bench);
        manifest("shrinking", "stays", &map("stays", &none), &bench);
        manifest("shrinking", "leaves", &map("leaves", &none), &bench);
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
        manifest("open", "ingress", &ingress, &bench);
        bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        let mut serving = bench.start(&["serve", "--sim", "--apps", "apps"]);
        serving.await_line("serving");
        Self { bench, serving }
    }

    /// Says what is to be served: of these folders, with this beside.
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

    /// Its status, when it is so far, with placeholders; nothing else of it is different after that.
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

/// Whether it is a moment, as the API server writes them: whole seconds of UTC.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00Z"
}

/// What differs from run to run, by what it is in place of what it says.
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
fn same(name: &str, status: &Value, expected: &Value) {
    let print = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    assert_eq!(status, expected, "{name}: it is {}\nand should be {}", print(status), print(expected));
}

fn synced(status: &Value) -> bool {
    status["operationState"]["finishedAt"].is_string()
        && status["reconciledAt"].as_str() >= status["operationState"]["finishedAt"].as_str()
}

/// Of these folders, at the commit there is.
fn compared(status: &str, folder: &str) -> Value {
    json!({
        "status": status, "revision": COMMIT,
        "comparedTo": {"source": source(folder), "destination": destination()},
    })
}

/// How an object stands that has a wave and a health, or has not.
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

/// What an operation has done with an object. The group is there also where it is empty.
fn result(api: (&str, &str), name: &str, phase: &str, more: &Value) -> Value {
    let mut result = json!({
        "group": api.0, "version": "v1", "kind": api.1, "namespace": "default", "name": name, "syncPhase": phase,
    });
    for (field, value) in more.as_object().unwrap() {
        result[field] = value.clone();
    }
    result
}

/// An operation that somebody asked for, and how it ended.
fn operation(folder: &str, asked: &Value, end: (&str, &str), resources: &Value) -> Value {
    json!({
        "operation": asked, "phase": end.0, "message": end.1, "startedAt": TIME, "finishedAt": TIME,
        "syncResult": {"revision": COMMIT, "source": source(folder), "resources": resources},
    })
}

/// By somebody. Its id is what the log knows it by.
fn asked(sync: &Value) -> Value {
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
        "sync": compared("OutOfSync", "shop"),
        "health": {"status": "Missing", "lastTransitionTime": TIME},
        // Hooks are none of them: what they have come to is with the operation.
        "resources": [
            resource(MAP, "settings", "OutOfSync", &json!({"health": missing, "syncWave": -1})),
            resource(DEPLOYMENT, "web", "OutOfSync", &json!({"health": missing, "syncWave": 1})),
        ],
    });
    same("before", &never, &before);
    samples.sync("shop", &[], 0);
    let status = samples.status("shop", |status| synced(status) && status["health"]["status"] == "Healthy");
    let asked = asked(&json!({"revision": COMMIT}));
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
        "sync": compared("Synced", "shop"),
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "summary": {"images": ["example.com/web:1"]},
        "resources": [
            resource(MAP, "settings", "Synced", &json!({"syncWave": -1})),
            resource(DEPLOYMENT, "web", "Synced", &json!({"health": {"status": "Healthy", "message": TEXT}, "syncWave": 1}))
        ],
        "operationState":
            operation("shop", &asked, ("Succeeded", "successfully synced (all tasks run)"), &results),
        "history": [{
            "id": 0, "revision": COMMIT, "source": source("shop"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"username": TEXT},
        }],
    });
    same("after", &status, &after);
    Fleet::end(samples.serving);
}

#[test]
fn an_application_of_several_sources_that_is_synced_automatically() {
    let samples = Samples::new();
    samples.apply("pair", &["first", "second"], &json!({"syncPolicy": {"automated": {"prune": true}}}));
    let mut status = samples.status("pair", |status| synced(status) && status["sync"]["status"] == "Synced");
    // Both are applied at once, and listed in the order in which they are done.
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
    same("pair", &status, &expected);
    Fleet::end(samples.serving);
}

#[test]
fn applications_that_cannot_be_compared() {
    let samples = Samples::new();
    samples.apply("nowhere", &["missing"], &json!({}));
    samples.apply("stranger", &["first"], &json!({"project": "unknown"}));
    let has_condition = |status: &Value| status["conditions"].is_array();
    // It is the commit that has no such folder.
    let status = samples.status("nowhere", has_condition);
    let expected = json!({
        "reconciledAt": TIME, "health": {"status": "Unknown", "lastTransitionTime": TIME},
        "sync": {
            "status": "Unknown", "revision": COMMIT,
            "comparedTo": {"source": source("missing"), "destination": destination()},
        },
        "conditions": [{"type": "ComparisonError", "message": TEXT, "lastTransitionTime": TIME}],
    });
    same("nowhere", &status, &expected);
    let status = samples.status("stranger", has_condition);
    let expected = json!({
        "reconciledAt": TIME, "health": {"status": "Unknown", "lastTransitionTime": TIME},
        "sync": {
            "status": "Unknown",
            "comparedTo": {"source": source("first"), "destination": destination()},
        },
        "conditions": [{"type": "InvalidSpecError", "message": TEXT, "lastTransitionTime": TIME}],
    });
    same("stranger", &status, &expected);
    Fleet::end(samples.serving);
}

#[test]
fn an_operation_whose_hook_fails() {
    let samples = Samples::new();
    samples.apply("failing", &["failing"], &json!({}));
    samples.sync("failing", &[], 1);
    let status = samples.status("failing", synced);
    let asked = asked(&json!({"revision": COMMIT}));
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
        "sync": compared("OutOfSync", "failing"),
        "health": {"status": "Missing", "lastTransitionTime": TIME},
        "resources": [
            resource(MAP, "failing", "OutOfSync", &json!({"health": {"status": "Missing"}}))
        ],
        "operationState": operation("failing", &asked, ("Failed", TEXT), &results),
    });
    same("failing", &status, &expected);
    Fleet::end(samples.serving);
}

#[test]
fn an_application_that_is_synced_and_sick() {
    let samples = Samples::new();
    samples.apply("sick", &["sick"], &json!({}));
    samples.sync("sick", &["--async"], 0);
    let status = samples.status("sick", |status| synced(status) && status["health"]["status"] == "Degraded");
    let asked = asked(&json!({"revision": COMMIT}));
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
        "sync": compared("Synced", "sick"),
        "health": {"status": "Degraded", "lastTransitionTime": TIME},
        "summary": {"images": ["example.com/sick:1"]},
        "resources": [resource(DEPLOYMENT, "sick", "Synced", &json!({"health": {"status": "Degraded", "message": TEXT}}))],
        "operationState":
            operation("sick", &asked, ("Succeeded", "successfully synced (all tasks run)"), &results),
        "history": [{
            "id": 0, "revision": COMMIT, "source": source("sick"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"username": TEXT},
        }],
    });
    same("sick", &status, &expected);
    Fleet::end(samples.serving);
}

#[test]
fn what_is_no_longer_wanted_and_was_left_out_of_a_sync() {
    let samples = Samples::new();
    samples.apply("shrinking", &["shrinking"], &json!({"revisionHistoryLimit": 1}));
    samples.sync("shrinking", &[], 0);
    std::fs::remove_file(samples.bench.path().join("apps/repo/shrinking/leaves.json")).unwrap();
    samples.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    samples.sync("shrinking", &[], 0);
    // What follows is of a part only, and changes nothing.
    samples.sync("shrinking", &["--resource", ":ConfigMap:stays"], 0);
    let is_part = |status: &Value| {
        synced(status) && status["operationState"]["operation"]["sync"]["resources"].is_array()
    };
    let status = samples.status("shrinking", is_part);
    let asked = asked(&json!({"revision": COMMIT, "resources": [{"kind": "ConfigMap", "name": "stays"}]}));
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
        "sync": compared("OutOfSync", "shrinking"),
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "resources": [
            // In which wave it would go is a field of ours.
            resource(MAP, "leaves", "OutOfSync", &json!({"requiresPruning": true, "pruneWave": 0})),
            resource(MAP, "stays", "Synced", &json!({})),
        ],
        "operationState":
            operation("shrinking", &asked, ("Succeeded", "successfully synced (all tasks run)"), &results),
        // The second of two whole ones: the limit is one, and a part is none.
        "history": [{
            "id": 1, "revision": COMMIT, "source": source("shrinking"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"username": TEXT},
        }],
    });
    same("shrinking", &status, &expected);
    Fleet::end(samples.serving);
}

#[test]
fn what_a_person_has_to_confirm_the_deletion_of() {
    let samples = Samples::new();
    samples.apply("guarded", &["guarded"], &json!({"syncPolicy": {"syncOptions": ["Delete=confirm"]}}));
    let never = samples.status("guarded", |status| status["reconciledAt"].is_string());
    let missing = json!({"status": "Missing"});
    let asks = json!({"health": missing, "requiresDeletionConfirmation": true});
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": compared("OutOfSync", "guarded"),
        "health": {"status": "Missing", "lastTransitionTime": TIME},
        "resources": [
            resource(MAP, "asked", "OutOfSync", &asks),
            resource(MAP, "free", "OutOfSync", &json!({"health": missing})),
            resource(MAP, "silent", "OutOfSync", &asks),
        ],
    });
    same("guarded", &never, &expected);
    Fleet::end(samples.serving);
}

#[test]
fn an_application_that_is_reached_from_outside() {
    let samples = Samples::new();
    samples.apply("open", &["open"], &json!({"syncPolicy": {"automated": {"selfHeal": true}}}));
    let status = samples.status("open", |status| synced(status) && status["health"]["status"] == "Healthy");
    let results = json!([result(
        ("networking.k8s.io", "Ingress"),
        "open",
        "Sync",
        &json!({
            "hookPhase": "Running", "status": "Synced", "message": TEXT,
        })
    )]);
    let asked = json!({
        "initiatedBy": {"automated": true}, "info": info(), "retry": {"limit": 5},
        "sync": {"revision": COMMIT, "source": source("open")},
    });
    let expected = json!({
        "reconciledAt": TIME, "sourceType": "Directory",
        "sync": compared("Synced", "open"),
        "health": {"status": "Healthy", "lastTransitionTime": TIME},
        "summary": {"externalURLs": ["http://shop.example.com/cart", "https://docs.example.com"]},
        "resources": [resource(("networking.k8s.io", "Ingress"), "open", "Synced", &json!({"health": {"status": "Healthy", "message": TEXT}}))],
        "operationState":
            operation("open", &asked, ("Succeeded", "successfully synced (all tasks run)"), &results),
        "history": [{
            "id": 0, "revision": COMMIT, "source": source("open"), "deployStartedAt": TIME, "deployedAt": TIME,
            "initiatedBy": {"automated": true},
        }],
    });
    same("open", &status, &expected);
    Fleet::end(samples.serving);
}
