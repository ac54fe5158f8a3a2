//! Traces of a service. There is one trace for each operation, it is complete even if the service was killed,
//! and it is retried until it is accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::http_receiver::{ReceivedRequest, start_http_receiver};

const TIMEOUT: Duration = Duration::from_secs(600);

/// Spans by operation and span ID, as received by a collector.
#[derive(Default)]
struct Traces(BTreeMap<String, BTreeMap<String, Value>>);

impl Traces {
    fn add(&mut self, letter: &ReceivedRequest) {
        assert!(letter.head.starts_with("post /v1/traces "), "{}", letter.head);
        for span in letter.body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap() {
            let (trace, id) = (text(&span["traceId"]), text(&span["spanId"]));
            assert_eq!((trace.len(), id.len()), (32, 16));
            let before = self.0.entry(trace).or_default().insert(id, span.clone());
            // Repeated spans are identical.
            assert!(before.is_none_or(|before| before == *span), "{span}");
        }
    }

    /// Waits until a collector has received this many operations of an application, and returns their spans.
    fn spans_of(
        &mut self,
        letters: &Receiver<ReceivedRequest>,
        application: &str,
        number: usize,
    ) -> Vec<Vec<Value>> {
        loop {
            let is_of = |span: &&Value| attribute(span, "tidegate.application") == json!(application);
            let of = self.0.values().filter(|spans| spans.values().any(|span| is_of(&span)));
            let found: Vec<Vec<Value>> = of.map(|spans| spans.values().cloned().collect()).collect();
            if found.len() >= number {
                return found;
            }
            self.add(&letters.recv_timeout(TIMEOUT).unwrap());
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

/// Returns the path of names from the operation to each span. Checks that each span is within its parent.
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

/// Returns the span of the operation.
fn root_span(spans: &[Value]) -> &Value {
    let mut whole = spans.iter().filter(|span| span.get("parentSpanId").is_none());
    let first = whole.next().unwrap();
    assert!(whole.next().is_none(), "each operation is one trace");
    first
}

/// Spans of the example's backend: a hook before the sync, the settings in wave 0, and the server in wave 1.
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
fn an_operation_is_one_trace_despite_kills() {
    let mut fleet = Fleet::new();
    let (address, letters) = start_http_receiver(&[503, 200]);
    fleet.bench.set_variable("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20let-traces-in");
    fleet.bench.set_variable("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    let endpoint = format!("http://{address}");
    fleet.set_migration_duration("30s");
    let service = fleet.serve_with(&["--otlp", &endpoint]);
    // The first trace is rejected and sent again. The backend waits for its migration in the meantime.
    let first = letters.recv_timeout(TIMEOUT).unwrap();
    let again = letters.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(first.body, again.body);
    assert_eq!(first.header("authorization"), Some("bearer let-traces-in"));
    let resource = first.body["resourceSpans"][0]["resource"]["attributes"].as_array().unwrap();
    for (key, value) in [("service.name", "tidegate"), ("deployment.environment", "test")] {
        assert!(resource.contains(&json!({"key": key, "value": {"stringValue": value}})), "{resource:?}");
    }
    let mut traces = Traces::default();
    traces.add(&again);
    fleet.wait_until("backend", |app| {
        app["status"]["operationState"]["message"].as_str().is_some_and(|message| message.contains("migrate"))
    });
    service.signal("KILL");
    service.finish();
    let operation = fleet.bench.newest_of("backend");
    let service = fleet.serve_with(&["--otlp", &endpoint]);
    let found = traces.spans_of(&letters, "backend", 1);
    let [spans] = found.as_slice() else { panic!("{found:?}") };
    let mut paths = paths(spans);
    // Only the first application creates the namespace.
    paths.retain(|path| !path.contains("Namespace") && !path.contains("wave -") && path != "sync / dry run");
    assert_eq!(paths, BACKEND.map(str::to_owned).into());
    let backend = root_span(spans);
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
    // The recorded duration of the hook is correct although the service was killed.
    let hook = spans.iter().find(|span| span["name"] == "hook Job").unwrap();
    let took = nanos(hook, "endTimeUnixNano") - nanos(hook, "startTimeUnixNano");
    assert!(took >= 29_000_000_000, "{hook}");
    let ended = Fleet::stop(service);
    assert!(!ended.err.contains("let-traces-in"), "{}", ended.err);
}

#[test]
fn a_failure_is_an_error_of_its_task_and_its_parents() {
    let mut fleet = Fleet::new();
    // This port was closed recently and doesn't have a listener.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    fleet.replace("repo/backend/migrate.yaml", "ready-after: 3s", "outcome: fail");
    fleet.commit();
    let retried = "selfHeal: true\n    retry: {limit: 1, backoff: {duration: 1s}}\n";
    fleet.replace("backend.yaml", "selfHeal: true\n", retried);
    fleet.bench.set_variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{address}/v1/traces"));
    // Operations continue and finish without the collector.
    let service = fleet.serve();
    fleet.wait_until("backend", |app| app["status"]["operationState"]["phase"] == "Failed");
    fleet.wait_until_synced(&["database", "frontend"]);
    let ended = Fleet::stop(service);
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains(&address.to_string())).collect();
    assert_eq!(told.len(), 1, "named once: {}", ended.err);
    let (address, letters) = start_http_receiver(&[200]);
    fleet.bench.set_variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://{address}/v1/traces"));
    let service = fleet.serve();
    let mut traces = Traces::default();
    let found = traces.spans_of(&letters, "backend", 1);
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
        (status(root_span(spans)).0, attribute(root_span(spans), "tidegate.attempts")),
        (json!(2), json!("2"))
    );
    assert!(named("PreSync").all(|span| status(span).0 == 2), "{spans:?}");
    // Each attempt has its own span.
    for name in ["PreSync", "hook Job"] {
        let attempts: Vec<Value> = named(name).map(|span| attribute(span, "tidegate.attempt")).collect();
        assert_eq!(
            attempts.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>(),
            ["1", "2"].into(),
            "{name}"
        );
    }
    paths(spans);
    // The traces of all other operations are sent once, including those that finished while the collector was
    // unavailable.
    for name in ["database", "frontend"] {
        let found = traces.spans_of(&letters, name, 1);
        assert_eq!(attribute(root_span(found.first().unwrap()), "tidegate.outcome"), "Succeeded", "{name}");
    }
    Fleet::stop(service);
    // The next process does not repeat accepted traces.
    let service = fleet.serve();
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    let newest = fleet.bench.newest_of("frontend").replace('-', "");
    let next = letters.recv_timeout(TIMEOUT).unwrap();
    let mut others = Traces::default();
    others.add(&next);
    assert_eq!(others.0.keys().collect::<Vec<_>>(), [&newest]);
    Fleet::stop(service);
    // A mistake is reported before anything starts. The message doesn't contain secrets.
    let args = ["serve", "--sim", "--apps", "fleet", "--otlp", "http://ann:secret@collector:4318"];
    let ran = fleet.bench.run(&args).expect_code(2);
    assert!(ran.err.contains("--otlp") && !ran.err.contains("secret"), "{}", ran.err);
}
