//! Traces of a service: one for each operation, whole after kills, sent until they are taken.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::mailbox::{Letter, mailbox};

const PATIENCE: Duration = Duration::from_secs(600);

/// What a collector was sent of each operation: the spans by their ids.
#[derive(Default)]
struct Traces(BTreeMap<String, BTreeMap<String, Value>>);

impl Traces {
    fn take(&mut self, letter: &Letter) {
        assert!(letter.head.starts_with("post /v1/traces "), "{}", letter.head);
        for span in letter.body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap() {
            let (trace, id) = (text(&span["traceId"]), text(&span["spanId"]));
            assert_eq!((trace.len(), id.len()), (32, 16));
            let before = self.0.entry(trace).or_default().insert(id, span.clone());
            // What is sent again is the same.
            assert!(before.is_none_or(|before| before == *span), "{span}");
        }
    }

    /// The spans of an application's operations that were sent, as soon as there are so many operations.
    fn of(&mut self, letters: &Receiver<Letter>, application: &str, number: usize) -> Vec<Vec<Value>> {
        loop {
            let is_of = |span: &&Value| attribute(span, "tidegate.application") == json!(application);
            let of = self.0.values().filter(|spans| spans.values().any(|span| is_of(&span)));
            let found: Vec<Vec<Value>> = of.map(|spans| spans.values().cloned().collect()).collect();
            if found.len() >= number {
                return found;
            }
            self.take(&letters.recv_timeout(PATIENCE).unwrap());
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn attribute(span: &Value, name: &str) -> Value {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    found.map_or(Value::Null, |found| found["value"].as_object().unwrap().values().next().unwrap().clone())
}

fn nanos(span: &Value, end: &str) -> u64 {
    span[end].as_str().unwrap().parse().unwrap()
}

/// Each span as the names from the operation down to it; that each is within the one above.
fn paths(spans: &[Value]) -> BTreeSet<String> {
    let by_id: BTreeMap<String, &Value> = spans.iter().map(|span| (text(&span["spanId"]), span)).collect();
    let path = |span: &Value| {
        let mut names = Vec::new();
        let mut span = span;
        loop {
            let object = attribute(span, "k8s.resource.name");
            names.insert(0, format!("{} {}", text(&span["name"]), object.as_str().unwrap_or_default()));
            assert!(nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano"), "{span}");
            let Some(parent) = span.get("parentSpanId") else { break };
            let above = by_id.get(&text(parent)).unwrap_or_else(|| panic!("{span} has no parent"));
            assert!(nanos(above, "startTimeUnixNano") <= nanos(span, "startTimeUnixNano"), "{span}\n{above}");
            assert!(nanos(span, "endTimeUnixNano") <= nanos(above, "endTimeUnixNano"), "{span}\n{above}");
            span = above;
        }
        names.iter().map(|name| name.trim()).collect::<Vec<_>>().join(" / ")
    };
    spans.iter().map(path).collect()
}

/// The operation itself.
fn whole(spans: &[Value]) -> &Value {
    let mut whole = spans.iter().filter(|span| span.get("parentSpanId").is_none());
    let first = whole.next().unwrap();
    assert!(whole.next().is_none(), "one operation is one tree");
    first
}

/// As the example's manifests have it: a hook before, the settings in wave 0, the server in wave 1.
const BACKEND: [&str; 9] = [
    "sync",
    "sync / PreSync",
    "sync / PreSync / wave 0",
    "sync / PreSync / wave 0 / hook Job migrate",
    "sync / Sync",
    "sync / Sync / wave 0",
    "sync / Sync / wave 0 / create ConfigMap backend-settings",
    "sync / Sync / wave 1",
    "sync / Sync / wave 1 / create Deployment backend",
];

#[test]
fn an_operation_is_one_tree_whatever_was_killed_meanwhile() {
    let mut fleet = Fleet::new();
    let (address, letters) = mailbox(&[503, 200]);
    fleet.bench.set("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20let-traces-in");
    fleet.bench.set("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    let endpoint = format!("http://{address}");
    fleet.migrates_for("30s");
    let serving = fleet.serve_with(&["--otlp", &endpoint]);
    // The first trace is refused, and sent again; the backend waits for its migration meanwhile.
    let first = letters.recv_timeout(PATIENCE).unwrap();
    let again = letters.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first.body, again.body);
    assert_eq!(first.header("authorization"), Some("bearer let-traces-in"));
    let resource = first.body["resourceSpans"][0]["resource"]["attributes"].as_array().unwrap();
    for (key, value) in [("service.name", "tidegate"), ("deployment.environment", "test")] {
        assert!(resource.contains(&json!({"key": key, "value": {"stringValue": value}})), "{resource:?}");
    }
    let mut traces = Traces::default();
    traces.take(&again);
    fleet.until("backend", |app| {
        app["status"]["operationState"]["message"].as_str().is_some_and(|message| message.contains("migrate"))
    });
    serving.signal("KILL");
    serving.finish();
    let operation = fleet.bench.newest_of("backend");
    let serving = fleet.serve_with(&["--otlp", &endpoint]);
    let found = traces.of(&letters, "backend", 1);
    let [spans] = found.as_slice() else { panic!("{found:?}") };
    let mut paths = paths(spans);
    // Whichever application is the first makes the namespace.
    paths.retain(|path| !path.contains("Namespace") && !path.contains("wave -") && path != "sync / dry run");
    assert_eq!(paths, BACKEND.map(str::to_owned).into());
    let backend = whole(spans);
    assert_eq!(text(&backend["traceId"]), operation.replace('-', ""));
    for (name, value) in [
        ("tidegate.application", json!("backend")),
        ("tidegate.project", json!("default")),
        ("tidegate.operation", json!(operation)),
        ("tidegate.outcome", json!("Succeeded")),
        ("tidegate.attempts", json!("1")),
    ] {
        assert_eq!(attribute(backend, name), value, "{name}");
    }
    let commit = fleet.get("backend")["status"]["operationState"]["syncResult"]["revision"].clone();
    assert_eq!(attribute(backend, "tidegate.revision"), commit);
    assert!(spans.iter().all(|span| span.get("status").is_none()), "{spans:?}");
    // The hook ran for as long as it is said to, though the process died meanwhile.
    let hook = spans.iter().find(|span| span["name"] == "hook Job").unwrap();
    let took = nanos(hook, "endTimeUnixNano") - nanos(hook, "startTimeUnixNano");
    assert!(took >= 29_000_000_000, "{hook}");
    let ended = Fleet::end(serving);
    assert!(!ended.err.contains("let-traces-in"), "{}", ended.err);
}

#[test]
fn a_failure_is_an_error_of_its_task_and_of_what_it_is_part_of() {
    let mut fleet = Fleet::new();
    // Nobody is there: a port that was somebody's a moment ago.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    fleet.replace("repo/backend/migrate.yaml", "ready-after: 3s", "outcome: fail");
    fleet.commit();
    let retried = "selfHeal: true\n    retry: {limit: 1, backoff: {duration: 1s}}\n";
    fleet.replace("backend.yaml", "selfHeal: true\n", retried);
    fleet.bench.set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{address}/v1/traces"));
    // Operations go on, and end, without the collector.
    let serving = fleet.serve();
    fleet.until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
    fleet.wait(&["database", "frontend"]);
    let ended = Fleet::end(serving);
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains(&address.to_string())).collect();
    assert_eq!(told.len(), 1, "named once: {}", ended.err);
    let (address, letters) = mailbox(&[200]);
    fleet.bench.set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{address}/v1/traces"));
    let serving = fleet.serve();
    let mut traces = Traces::default();
    let found = traces.of(&letters, "backend", 1);
    let spans = found.first().unwrap();
    let status = |span: &Value| (span["status"]["code"].clone(), span["status"]["message"].clone());
    let said = fleet.get("backend")["status"]["operationState"].clone();
    let results = said["syncResult"]["resources"].as_array().unwrap();
    let result = results.iter().find(|result| result["kind"] == "Job").unwrap();
    let named = |name: &'static str| spans.iter().filter(move |span| span["name"] == name);
    for hook in named("hook Job") {
        assert_eq!(status(hook), (json!(2), result["message"].clone()), "{hook}");
        assert_eq!(attribute(hook, "tidegate.outcome"), "Failed");
    }
    assert_eq!(
        (status(whole(spans)).0, attribute(whole(spans), "tidegate.attempts")),
        (json!(2), json!("2"))
    );
    assert!(named("PreSync").all(|span| status(span).0 == 2), "{spans:?}");
    // Each attempt is told apart.
    for name in ["PreSync", "hook Job"] {
        let attempts: Vec<Value> = named(name).map(|span| attribute(span, "tidegate.attempt")).collect();
        assert_eq!(
            attempts.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>(),
            ["1", "2"].into(),
            "{name}"
        );
    }
    paths(spans);
    // Each of the others once, also those that ended while nobody was there.
    for name in ["database", "frontend"] {
        let found = traces.of(&letters, name, 1);
        assert_eq!(attribute(whole(found.first().unwrap()), "tidegate.outcome"), "Succeeded", "{name}");
    }
    Fleet::end(serving);
    // Who has taken them is not sent them again by the next process.
    let serving = fleet.serve();
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    let newest = fleet.bench.newest_of("frontend").replace('-', "");
    let next = letters.recv_timeout(PATIENCE).unwrap();
    let mut others = Traces::default();
    others.take(&next);
    assert_eq!(others.0.keys().collect::<Vec<_>>(), [&newest]);
    Fleet::end(serving);
    // A mistake is told before anything begins, without what may be secret.
    let args = ["serve", "--sim", "--apps", "fleet", "--otlp", "http://ann:secret@collector:4318"];
    let ran = fleet.bench.run(&args).expect_code(2);
    assert!(ran.err.contains("--otlp") && !ran.err.contains("secret"), "{}", ran.err);
}
