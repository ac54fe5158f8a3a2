//! Gates of waves, such as approvals and times.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::bench::Bench;
use crate::fleet::Fleet;

const GATED: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: first
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: second
  annotations: {argocd.argoproj.io/sync-wave: \"1\", tidegate.dev/gate: approval}
";

const SYNC: [&str; 5] = ["sync", "gated.yaml", "--app", "gated", "--sim"];

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("gated.yaml", GATED);
    bench
}

/// Returns the wave number, the approver and the reason of each recorded approval.
fn approvals(bench: &Bench) -> Vec<String> {
    let events = bench.json(&["ops", "log", "gated", "-o", "json"]);
    let events = events.as_array().unwrap().iter().filter(|event| event["kind"] == "approved");
    let words = |event: &serde_json::Value| {
        let details = &event["details"];
        let text = |field: &str| details[field].as_str().unwrap_or("-").to_owned();
        format!("{} {}: {}", details["number"], text("by"), text("reason"))
    };
    events.map(words).collect()
}

#[test]
fn a_wave_is_approved_from_another_process() {
    let bench = bench();
    let mut sync = bench.start(&SYNC);
    sync.wait_for_line("gate approval");
    let explained = bench.run(&["explain", "gated"]).expect_code(0).out;
    assert!(explained.contains("wave 2 of 2") && explained.contains("for gate approval"), "{explained}");
    assert!(explained.contains("tidegate ops approve"), "{explained}");
    assert_eq!(bench.creations("ConfigMap", "second"), 0);
    let refused = bench.run(&["ops", "approve", "gated", "--wave", "1"]).expect_code(4);
    assert!(refused.err.contains("wave 1 needs no approval"), "{}", refused.err);
    bench.run(&["ops", "approve", "gated", "--reason", "change 42"]).expect_code(0);
    let ended = sync.finish();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(approvals(&bench), ["2 tester: change 42"]);
    assert_eq!(bench.creations("ConfigMap", "second"), 1);
}

/// An approval before or during a crash must not be required again.
#[test]
fn an_approval_survives_a_kill() {
    for beforehand in [true, false] {
        let bench = bench();
        let soaked = GATED.replace("gate: approval", "gate: \"approval,soak:3s\"");
        bench.write("gated.yaml", soaked);
        let mut sync = bench.start(&SYNC);
        sync.wait_for_line("gate approval");
        let approve = || bench.run(&["ops", "approve", "gated", "--wave", "2"]).expect_code(0);
        if beforehand {
            approve();
        }
        sync.signal("KILL");
        sync.finish();
        if !beforehand {
            let approved = approve();
            assert!(
                approved.out.contains("is approved; continue it with `tidegate resume"),
                "{}",
                approved.out
            );
        }
        let resumed = bench.run(&["resume", "gated"]).expect_code(0);
        assert!(!resumed.err.contains("gate approval"), "{}", resumed.err);
        assert_eq!(approvals(&bench), ["2 tester: "], "approved beforehand: {beforehand}");
        assert_eq!(bench.creations("ConfigMap", "second"), 1);
    }
}

#[test]
fn a_gate_can_apply_to_every_wave() {
    let bench = bench();
    let gated = [&SYNC[..], &["--gate", "soak:1s"]].concat();
    let mut sync = bench.start(&gated);
    sync.wait_for_line("gate approval");
    let plan = bench.run(&["plan", "gated.yaml", "--offline", "--gate", "soak:1s"]).expect_code(0).out;
    assert!(plan.contains("gated by soak:1s") && plan.contains("gated by approval, soak:1s"), "{plan}");
    bench.run(&["ops", "approve", "gated"]).expect_code(0);
    assert_eq!(sync.finish().status.code(), Some(0));
    bench.run(&[&SYNC[..], &["--gate", "a b"]].concat()).expect_code(2);
    let refused = bench.run(&["plan", "gated.yaml", "--offline", "--gate", "soak:10min"]).expect_code(2);
    assert!(
        refused.err.contains("invalid duration \"10min\": use a number and a unit, such as 90s"),
        "{}",
        refused.err
    );
    // If the gate is in a manifest, it is a finding, and the reason for the wait.
    bench.write("gated.yaml", GATED.replace("gate: approval", "gate: soak:10min"));
    let plan = bench.run(&["plan", "gated.yaml", "--offline"]).expect_code(0);
    let text = format!("{}{}", plan.out, plan.err);
    assert!(text.contains("refers to \"soak:10min\": invalid duration \"10min\": use"), "{text}");
    let mut sync = bench.start(&SYNC);
    sync.wait_for_line("gate soak:10min (invalid duration \"10min\"");
    bench.run(&["ops", "terminate", "gated"]).expect_code(0);
    sync.finish();
}

const WINDOWS: &str = "\
windows:
  never:
  - {kind: deny, schedule: \"* * * * *\", duration: 2m, timeZone: Europe/Berlin}
  always:
  - {kind: allow, schedule: \"* * * * *\", duration: 2m}
";

/// The definition of a sync window must be persisted with the operation.
#[test]
fn a_sync_window_holds_a_wave_despite_a_kill() {
    let bench = Bench::new();
    bench.write("gates.yaml", WINDOWS);
    bench.write("gated.yaml", GATED.replace("gate: approval", "gate: \"window:always,window:never\""));
    let mut sync = bench.start(&[&SYNC[..], &["--gates", "gates.yaml"]].concat());
    sync.wait_for_line("sync window never denies syncs");
    sync.signal("KILL");
    sync.finish();
    bench.run(&["resume", "gated", "--timeout", "300ms"]).expect_code(3);
    let explained = bench.run(&["explain", "gated"]).expect_code(0).out;
    assert!(explained.contains("gate window:never (sync window never denies syncs)"), "{explained}");
    assert!(!explained.contains("window:always"), "{explained}");
    assert_eq!(bench.creations("ConfigMap", "second"), 0);
    bench.run(&["ops", "terminate", "gated"]).expect_code(0);
}

#[test]
fn a_gate_file_is_validated_when_it_is_read() {
    let bench = bench();
    for (text, wrong) in [
        ("windows: {w: []}", "gate window:w: the gate has no windows"),
        (
            "windows:\n  w:\n  - {kind: allow, schedule: \"0 9 * *\", duration: 8h}\n",
            "window 1: invalid schedule \"0 9 * *\": it has 4 fields",
        ),
        ("windows:\n  w:\n  - {kind: maybe, schedule: \"0 9 * * *\", duration: 8h}\n", "maybe"),
        ("widows: {}", "widows"),
        ("concurrency: {db: {limit: 0}}", "gate concurrency:db: limit: 0 would block all operations"),
        ("concurrency: {db: {limit: 1, width: 2}}", "width"),
        ("http: {f: {url: ftp://f}}", "gate http:f: url: the scheme must be http or https"),
        ("http: {f: {url: http://f, retries: 3}}", "retries"),
        ("cel: {c: {apiVersion: v1, kind: Job, name: j, expression: \"1 +\"}}", "gate cel:c: expression: "),
        (
            "cel: {c: {apiVersion: v1, kind: Job, name: j, expression: \"objct.data.startswith('x') && foo(bar)\"}}",
            "gate cel:c: expression: unknown name objct, unknown function startswith, unknown name bar",
        ),
        (
            "cel: {c: {apiVersion: v1, kind: Job, expression: \"true\"}}",
            "gate cel:c: name: set either an object's name",
        ),
        ("concurrency: {\"a b\": {limit: 1}}", "gate concurrency:a b: use a name without spaces"),
    ] {
        bench.write("gates.yaml", text);
        let ran = bench.run(&["plan", "gated.yaml", "--offline", "--gates", "gates.yaml"]).expect_code(2);
        assert!(ran.err.contains("gates.yaml: ") && ran.err.contains(wrong), "{text}: {}", ran.err);
    }
    bench.write("gates.yaml", WINDOWS);
    bench.write("gated.yaml", GATED.replace("gate: approval", "gate: \"window:always,window:other\""));
    let ran = bench.run(&["plan", "gated.yaml", "--offline", "--gates", "gates.yaml"]).expect_code(0);
    let output = format!("{}{}", ran.out, ran.err);
    assert!(
        output.contains("\"window:other\", which") && !output.contains("\"window:always\", which"),
        "{output}"
    );
}

/// Returns manifests with a slow Job in a concurrency group, followed by another object.
fn grouped_manifests(name: &str, takes: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}-job\n  annotations: {{argocd.argoproj.io/hook: PreSync, \
         tidegate.dev/gate: \"concurrency:db\", sim.tidegate.dev/ready-after: {takes}}}\nspec: {{backoffLimit: 0, template: \
         {{spec: {{restartPolicy: Never, containers: [{{name: c, image: busybox}}]}}}}}}\n---\napiVersion: v1\nkind: ConfigMap\n\
         metadata: {{name: {name}}}\n"
    )
}

/// An operation that was in the group when it was killed must stay in the group until its end. Other
/// operations must report that they are waiting for it.
#[test]
fn a_place_in_a_group_survives_a_kill() {
    let bench = Bench::new();
    bench.write("gates.yaml", "concurrency: {db: {limit: 1}}\n");
    bench.write("one.yaml", grouped_manifests("one", "4s"));
    bench.write("two.yaml", grouped_manifests("two", "1s"));
    let sync = |name: &'static str| ["sync", name, "--app", &name[..3], "--sim", "--gates", "gates.yaml"];
    let mut one = bench.start(&sync("one.yaml"));
    one.wait_for_line("one-job");
    one.signal("KILL");
    one.finish();
    let first = bench.newest();
    let mut two = bench.start(&sync("two.yaml"));
    two.wait_for_line("1 operation in the group is running (maximum: 1)");
    let explained = bench.run(&["explain", "two"]).expect_code(0).out;
    let reason =
        format!("for gate concurrency:db (1 operation in the group is running (maximum: 1): one ({first}, ");
    assert!(explained.contains(&reason), "{explained}");
    two.signal("KILL");
    two.finish();
    bench.run(&["resume", "--all"]).expect_code(0);
    let writes = bench.writes();
    let made = |kind: &str, name: &str| {
        writes.iter().position(|entry| entry["kind"] == kind && entry["name"] == name && entry["code"] == 201)
    };
    assert!(made("Job", "two-job").unwrap() > made("ConfigMap", "one").unwrap(), "{writes:?}");
    let plan = bench.run(&["plan", "one.yaml", "--offline"]).expect_code(0);
    assert!(format!("{}{}", plan.out, plan.err).contains("\"concurrency:db\", which is not defined"));
}

/// An endpoint with a configurable response that records its requests.
struct Endpoint {
    address: String,
    response: Arc<Mutex<String>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    fn new(says: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (says, received_requests) =
            (Arc::new(Mutex::new(says.to_owned())), Arc::new(Mutex::new(Vec::new())));
        let endpoint =
            Self { address, response: Arc::clone(&says), requests: Arc::clone(&received_requests) };
        // The thread ends when the tests end.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let (mut request, mut length) = (String::new(), 0);
                while reader.read_line(&mut request).is_ok_and(|read| read > 2) {
                    let line = request.lines().last().unwrap_or_default().to_ascii_lowercase();
                    if let Some(value) = line.strip_prefix("content-length: ") {
                        length = value.parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                request.push_str(&String::from_utf8(body).unwrap());
                received_requests.lock().unwrap().push(request);
                let answer = says.lock().unwrap().clone();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    answer.len()
                );
                let _ = reader.get_mut().write_all(format!("{head}{answer}").as_bytes());
            }
        });
        endpoint
    }

    fn set_response(&self, answer: &str) {
        answer.clone_into(&mut self.response.lock().unwrap());
    }
}

/// The endpoint first rejects the request with a reason, then accepts it. The credentials must not appear
/// anywhere.
#[test]
fn an_endpoint_opens_a_wave() {
    let endpoint = Endpoint::new("{\"allowed\": false, \"message\": \"frozen, says tok3n\"}");
    let bench = Bench::new();
    let token = bench.write("token", "tok3n\n");
    let gates = format!(
        "http:\n  freeze:\n    url: http://{}/allowed?phase=${{phase}}\n    interval: 1s\n    headers:\n      Authorization: \
         {{prefix: \"Bearer \", file: {}}}\n",
        endpoint.address,
        token.display()
    );
    bench.write("gates.yaml", gates);
    bench.write("gated.yaml", GATED.replace("gate: approval", "gate: \"http:freeze\""));
    let mut sync = bench.start(&[&SYNC[..], &["--gates", "gates.yaml"]].concat());
    sync.wait_for_line("frozen, says ***");
    let explained = bench.run(&["explain", "gated"]).expect_code(0).out;
    assert!(explained.contains("for gate http:freeze (frozen, says ***)"), "{explained}");
    endpoint.set_response("oh no");
    sync.wait_for_line("returned 200 OK, but the body is not a JSON object");
    endpoint.set_response("{\"allowed\": true}");
    let ended = sync.finish();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let requests = endpoint.requests.lock().unwrap();
    let first = requests.first().unwrap();
    assert!(first.starts_with("POST /allowed?phase=Sync HTTP/1.1\r\n"), "{first}");
    assert!(
        first.contains("authorization: Bearer tok3n\r\n") && first.contains("\"application\":\"gated\""),
        "{first}"
    );
    let log = bench.run(&["ops", "log", "gated", "-o", "json"]).expect_code(0).out;
    assert!(!format!("{}{}{log}", ended.out, ended.err).contains("tok3n"), "{log}");
}

const SWITCH: &str = "\
cel:
  switch:
    apiVersion: v1
    kind: ConfigMap
    namespace: default
    name: switch
    expression: object.data.deploys == 'on'
";

/// Another operation writes the object that a wave is waiting for.
#[test]
fn an_object_of_the_cluster_opens_a_wave() {
    let bench = Bench::new();
    bench.write("gates.yaml", SWITCH);
    bench.write("gated.yaml", GATED.replace("gate: approval", "gate: \"cel:switch\""));
    let switch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: switch}\ndata: {deploys: 'on'}\n";
    bench.write("switch.yaml", switch);
    let mut sync = bench.start(&[&SYNC[..], &["--gates", "gates.yaml"]].concat());
    sync.wait_for_line("there is no ConfigMap switch in default");
    let explained = bench.run(&["explain", "gated"]).expect_code(0).out;
    assert!(
        explained.contains("for gate cel:switch (there is no ConfigMap switch in default)"),
        "{explained}"
    );
    sync.signal("KILL");
    sync.finish();
    bench.write("off.yaml", switch.replace("'on'", "'off'"));
    bench.run(&["sync", "off.yaml", "--app", "switch", "--sim"]).expect_code(0);
    let resumed = bench.run(&["resume", "gated", "--timeout", "1s"]).expect_code(3);
    assert!(resumed.err.contains("the condition is false: object.data.deploys == 'on'"), "{}", resumed.err);
    bench.run(&["sync", "switch.yaml", "--app", "switch", "--sim"]).expect_code(0);
    bench.run(&["resume", "gated"]).expect_code(0);
    assert_eq!(bench.creations("ConfigMap", "second"), 1);
}

/// Only one of the two Applications may be in the section at a time. An undefined gate must be reported
/// before the operation starts.
#[test]
fn managed_applications_pass_their_defined_gates() {
    let fleet = Fleet::new();
    let policy = "    automated:\n      prune: true\n      selfHeal: true\n";
    for (app, ready) in [("frontend", "500ms"), ("database", "1s")] {
        fleet.replace(&format!("{app}.yaml"), policy, "");
        let after = |time: &str| format!("sim.tidegate.dev/ready-after: {time}\n");
        let gated = format!(
            "{}    tidegate.dev/gate: concurrency:db\n",
            after(if app == "frontend" { "10m" } else { "1s" })
        );
        fleet.replace(&format!("repo/{app}/{app}.yaml"), &after(ready), &gated);
    }
    fleet.commit();
    let missing =
        fleet.bench.run(&["serve", "--sim", "--apps", "fleet", "--gates", "gates.yaml"]).expect_code(2);
    assert!(missing.err.contains("gates.yaml: no such file"), "{}", missing.err);
    fleet.bench.write("gates.yaml", "concurrency: {other: {limit: 1}}");
    let service = fleet.serve_with(&["--gates", "gates.yaml"]);
    let condition = fleet.condition("frontend", "UndefinedGateWarning");
    assert!(condition.contains("frontend refers to \"concurrency:db\", which is not defined"), "{condition}");
    // The file is read when an operation starts.
    fleet.bench.write("gates.yaml", "concurrency: {db: {limit: 1}}");
    let first = fleet.bench.start(&["app", "sync", "frontend"]);
    fleet.wait_until("frontend", |_| !fleet.creations("Deployment", "frontend").is_empty());
    let second = fleet.bench.start(&["app", "sync", "database"]);
    let says = |app: &Value, part: &str| {
        app["status"]["operationState"]["message"].as_str().is_some_and(|message| message.contains(part))
    };
    fleet.wait_until("database", |app| {
        says(app, "gate concurrency:db is closed: 1 operation in the group is running (maximum: 1)")
    });
    assert!(fleet.creations("StatefulSet", "database").is_empty(), "one at a time");
    fleet.bench.run(&["app", "terminate", "frontend"]).expect_code(0);
    assert_ne!(first.finish().code(), 0);
    second.finish().expect_code(0);
    fleet.wait_until("database", |app| app["status"].get("conditions").is_none());
    Fleet::stop(service);
}
