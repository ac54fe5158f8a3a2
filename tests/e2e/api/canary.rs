//! A canary in Secrets of managed Applications whose sync the cluster rejects with a message that quotes the
//! value. The value must not appear in any output of the service, nor in any file except in Git and the
//! simulated cluster.

use std::fs;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Api, OPERATOR};
use crate::bench::files;
use crate::fleet::Fleet;
use crate::http_receiver::{ReceivedRequest, start_http_receiver};
use crate::manifests::GADGET_DEFINITION;

const TIMEOUT: Duration = Duration::from_secs(600);

/// Possible encodings of the canary, `Canary 7d41 value!`.
const CANARY_FORMS: [&str; 4] =
    ["Canary 7d41", "Q2FuYXJ5IDdkNDEgdmFsdWUh", "Canary%207d41", "43616e617279203764343120"];

const SECRETS: &str = r#"apiVersion: v1
kind: Secret
metadata: {name: NAME-plain}
stringData: {password: "Canary 7d41 value!"}
---
apiVersion: v1
kind: Secret
metadata: {name: NAME-encoded}
data: {password: Q2FuYXJ5IDdkNDEgdmFsdWUh}
---
"#;

/// The cluster rejects the label during the dry run, and quotes it.
const REFUSED_BEFORE: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: refused
  labels: {password: "Canary 7d41 value!"}
"#;

/// No dry run is possible before the kind exists, so the cluster rejects and quotes the label during the
/// apply, when the Secrets exist.
const REFUSED_LATER: &str = r#"apiVersion: example.org/v1
kind: Gadget
metadata:
  name: refused
  labels: {password: "Canary 7d41 value!"}
  annotations:
    argocd.argoproj.io/sync-wave: "1"
    argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true
"#;

/// The hook prints the canary before it fails.
const WRITTEN: &str = r#"apiVersion: batch/v1
kind: Job
metadata:
  name: connect
  annotations:
    argocd.argoproj.io/hook: Sync
    argocd.argoproj.io/sync-wave: "1"
    sim.tidegate.dev/outcome: fail
    sim.tidegate.dev/logs: "cannot connect as app:Canary 7d41 value!"
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
"#;

/// Application, content, file, and the text that is expected to replace the value in the application's
/// operation.
const APPS: [(&str, &str, &str, &str); 3] = [
    ("backend", "backend", REFUSED_BEFORE, "++++++++"),
    ("database", "database", WRITTEN, "backoff limit"),
    ("frontend", "frontend", REFUSED_LATER, "++++++++"),
];

#[track_caller]
fn assert_clean(what: &str, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    for form in CANARY_FORMS {
        if let Some(at) = text.windows(form.len()).position(|window| window == form.as_bytes()) {
            let around = &text[at.saturating_sub(300)..(at + 100).min(text.len())];
            panic!("{what} contains it: …{}…", String::from_utf8_lossy(around));
        }
    }
}

/// Returns the fleet with manual syncs that aren't retried, and with the canary in each Application.
fn canary_fleet() -> Fleet {
    let fleet = Fleet::new();
    for (app, folder, manifests, _) in APPS {
        fs::remove_dir_all(fleet.path(&format!("repo/{folder}"))).unwrap();
        fs::create_dir(fleet.path(&format!("repo/{folder}"))).unwrap();
        let content = format!("{}{manifests}", SECRETS.replace("NAME", app));
        fs::write(fleet.path(&format!("repo/{folder}/all.yaml")), content).unwrap();
        let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
        fleet.replace(&format!("{app}.yaml"), automated, "    retry: {limit: 0}\n");
    }
    fs::write(fleet.path("repo/frontend/definition.yaml"), GADGET_DEFINITION).unwrap();
    fleet.commit();
    fleet
}

/// Waits until the received events satisfy a predicate, and returns them.
fn receive_until(letters: &Receiver<ReceivedRequest>, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut taken = Vec::new();
    while !is_enough(&taken) {
        let letter = letters.recv_timeout(TIMEOUT).unwrap();
        assert_clean("the head of what is sent", &letter.head);
        assert_clean("what is sent", letter.body.to_string());
        taken.push(letter.body);
    }
    taken
}

/// Sends a request as an operator, the role with the most access.
#[track_caller]
fn request_as_operator(api: &Api, method: &str, target: &str, body: &str) -> String {
    let send = || api.request(method, target, OPERATOR, body);
    let answer = std::iter::repeat_with(send).take(3000).find(|answer| answer.status != 429).unwrap();
    assert!((200..300).contains(&answer.status), "{target}: {} {}", answer.status, answer.body);
    answer.body
}

/// Reads everything about an Application and its newest operation.
fn read_everything(api: &Api, app: &str, id: &str) {
    let own = format!("/api/v1/applications/argocd/{app}");
    for part in ["", "/resources", "/plan", "/deletion", "/window"] {
        assert_clean(part, request_as_operator(api, "GET", &format!("{own}{part}"), ""));
    }
    // A plain value in another kind of object is shown only in differences.
    if app == "database" {
        for part in ["/diff", "/diff/objects"] {
            let shown = request_as_operator(api, "GET", &format!("{own}{part}"), "");
            assert!(shown.contains("database-plain"), "it contains the Secrets: {shown}");
            assert_clean(part, shown);
        }
    }
    let own = format!("/api/v1/operations/{id}");
    if app == "database" {
        let shown = request_as_operator(api, "GET", &format!("{own}/logs"), "");
        assert!(shown.contains("cannot connect as app:++++++++"), "{shown}");
    }
    for part in ["", "/log", "/export", "/export.html", "/explain", "/events", "/logs"] {
        assert_clean(part, request_as_operator(api, "GET", &format!("{own}{part}"), ""));
    }
    let body = json!({"application": app}).to_string();
    let plan: Value =
        serde_json::from_str(&request_as_operator(api, "POST", "/api/v1/plans", &body)).unwrap();
    assert_clean("the plan that is kept", plan.to_string());
    let own = format!("/api/v1/plans/{}", plan["hash"].as_str().unwrap());
    assert_clean("a kept plan", request_as_operator(api, "GET", &own, ""));
    if app == "database" {
        assert_clean("what a kept plan changes", request_as_operator(api, "GET", &format!("{own}/diff"), ""));
        assert_clean(
            "objects of a kept plan",
            request_as_operator(api, "GET", &format!("{own}/diff/objects"), ""),
        );
    }
    assert_clean("all of a kept plan", request_as_operator(api, "GET", &format!("{own}/whole"), ""));
}

#[test]
fn a_failed_sync_reveals_no_secret_value() {
    let mut fleet = canary_fleet();
    let (post, letters) = start_http_receiver(&[200]);
    let (collector, traces) = start_http_receiver(&[200]);
    let targets = json!({"targets": [{"name": "all", "kind": "webhook", "url": format!("http://{post}/"),
        "on": ["started", "succeeded", "failed", "deadline"]}]});
    fleet.bench.write("targets.json", targets.to_string());
    fleet.bench.set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
    let api = Api::serve_with(&fleet, &["--notify", "targets.json", "-vv"]);
    let mut events = api.subscribe("", None);
    for (app, _, _, said) in APPS {
        let body = json!({"reason": "to see it fail"});
        let target = format!("/api/v1/applications/argocd/{app}/sync");
        assert_clean("the answer", api.post(&target, &body).to_string());
        // Reads all events until the operation has finished.
        loop {
            let (kind, data) = events.next_event();
            assert_clean("an event", data.to_string());
            let event = &data["operation"];
            if kind == "operation" && event["app"] == app && event["kind"] == "finished" {
                assert_eq!(event["details"]["phase"], "Failed", "{event}");
                break;
            }
        }
        let found = fleet.wait_until(app, |found| found["status"]["operationState"]["phase"] == "Failed");
        assert!(found["status"].to_string().contains(said), "{found}");
        assert_clean("the status", found.to_string());
    }
    let is_failed = |letter: &&Value| letter["event"] == "failed";
    let told = receive_until(&letters, |told| told.iter().filter(is_failed).count() == APPS.len());
    assert!(told.iter().any(|letter| letter["text"].as_str().unwrap().contains("++++++++")), "{told:?}");
    let has = |sent: &[Value], app: &str| sent.iter().any(|body| body.to_string().contains(app));
    let sent = receive_until(&traces, |sent| APPS.iter().all(|(app, ..)| has(sent, &format!("\"{app}\""))));
    assert!(sent.iter().any(|body| body.to_string().contains("++++++++")), "{sent:?}");
    for (app, ..) in APPS {
        let id = fleet.bench.newest_of(app);
        read_everything(&api, app, &id);
        for args in
            [&["app", "get", app][..], &["explain", app], &["app", "explain", app], &["ops", "log", app]]
        {
            let ran = fleet.bench.run(args);
            assert_clean(&args.join(" "), format!("{}{}", ran.out, ran.err));
        }
    }
    for list in [
        "/api/v1/applications",
        "/api/v1/argoproj.io/applications",
        "/api/v1/operations",
        "/api/v1/plans",
        "/metrics",
    ] {
        assert_clean(list, request_as_operator(&api, "GET", list, ""));
    }
    assert_nothing_leaked(&fleet, api);
}

/// The Application was synced before, so its comparison sends the new manifests to the cluster.
#[test]
fn a_refused_comparison_reveals_no_secret_value() {
    let fleet = canary_fleet();
    let file = "repo/backend/all.yaml";
    let (refused, fine) = ("labels: {password: \"Canary 7d41 value!\"}", "labels: {password: fine}");
    fleet.replace(file, refused, fine);
    fleet.commit();
    let api = Api::serve_with(&fleet, &["-vv"]);
    fleet.bench.run(&["app", "sync", "backend"]).expect_code(0);
    fleet.wait_until_synced(&["backend"]);
    let mut events = api.subscribe("", None);
    fleet.replace(file, fine, refused);
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let condition = fleet.condition("backend", "ComparisonError");
    assert!(condition.contains("ConfigMap fleet/refused") && condition.contains("++++++++"), "{condition}");
    assert_clean("the condition", condition);
    // The stream contains the condition in the summary of the Application.
    loop {
        let (kind, data) = events.next_event();
        assert_clean("an event", data.to_string());
        let application = &data["application"];
        if kind == "application"
            && application["name"] == "backend"
            && application.to_string().contains("++++++++")
        {
            break;
        }
    }
    let own = "/api/v1/applications/argocd/backend";
    for target in [own, &format!("{own}/resources"), "/api/v1/applications", "/metrics"] {
        assert_clean(target, request_as_operator(&api, "GET", target, ""));
    }
    assert_nothing_leaked(&fleet, api);
}

/// Stops the service, and checks its output and the remaining files.
#[track_caller]
fn assert_nothing_leaked(fleet: &Fleet, api: Api) {
    let output = Fleet::stop(api.service);
    assert!(output.err.contains("operation ended") && output.err.contains("++++++++"), "{}", output.err);
    assert_clean("what serve says", output.err);
    assert_clean("what serve prints", output.out);
    let cluster = fleet.bench.state().join("cluster");
    let mut read = 0;
    let mut stored_text = String::new();
    for path in files(&fleet.bench.state()) {
        let content = fs::read(&path).unwrap();
        if path.starts_with(&cluster) {
            stored_text.push_str(&String::from_utf8_lossy(&content));
        } else {
            assert_clean(&path.display().to_string(), content);
            read += 1;
        }
    }
    assert!(
        read > 5 && CANARY_FORMS.iter().any(|form| stored_text.contains(form)),
        "the cluster contains it: {read}"
    );
}
