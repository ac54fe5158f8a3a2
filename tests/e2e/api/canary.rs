//! A canary in Secrets of Applications that are served: where their sync is refused with the value quoted, it is in
//! nothing that the service says of them, and in no file but those of Git and of the simulated cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Api, OPERATOR};
use crate::fleet::Fleet;
use crate::mailbox::{Letter, mailbox};

const PATIENCE: Duration = Duration::from_secs(600);

/// The canary, `Canary 7d41 value!`, in the ways in which it may be written.
const FORMS: [&str; 4] =
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

/// The cluster refuses the label, and quotes it, when all is tried beforehand.
const REFUSED_BEFORE: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: refused
  labels: {password: "Canary 7d41 value!"}
"#;

/// The same where it cannot be tried beforehand: when it is applied, and the Secrets are there.
const REFUSED_LATER: &str = r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.org/v1
kind: Gadget
metadata:
  name: refused
  labels: {password: "Canary 7d41 value!"}
  annotations:
    argocd.argoproj.io/sync-wave: "1"
    argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true
"#;

/// The hook writes it before it fails.
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

/// Which Application has what, the file it is in, and what its operation says instead of the value.
const APPS: [(&str, &str, &str, &str); 3] = [
    ("backend", "backend", REFUSED_BEFORE, "++++++++"),
    ("database", "database", WRITTEN, "backoff limit"),
    ("frontend", "frontend", REFUSED_LATER, "++++++++"),
];

#[track_caller]
fn clean(what: &str, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    for form in FORMS {
        if let Some(at) = text.windows(form.len()).position(|window| window == form.as_bytes()) {
            let around = &text[at.saturating_sub(300)..(at + 100).min(text.len())];
            panic!("{what} shows it: …{}…", String::from_utf8_lossy(around));
        }
    }
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The fleet, synced by hand and without another attempt, and with the canary in each of its Applications.
fn fleet() -> Fleet {
    let fleet = Fleet::new();
    for (app, folder, manifests, _) in APPS {
        fs::remove_dir_all(fleet.path(&format!("repo/{folder}"))).unwrap();
        fs::create_dir(fleet.path(&format!("repo/{folder}"))).unwrap();
        let content = format!("{}{manifests}", SECRETS.replace("NAME", app));
        fs::write(fleet.path(&format!("repo/{folder}/all.yaml")), content).unwrap();
        let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
        fleet.replace(&format!("{app}.yaml"), automated, "    retry: {limit: 0}\n");
    }
    fleet.commit();
    fleet
}

/// What was sent until something is the case of all of it.
fn all_until(letters: &Receiver<Letter>, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut taken = Vec::new();
    while !is_enough(&taken) {
        let letter = letters.recv_timeout(PATIENCE).unwrap();
        clean("the head of what is sent", &letter.head);
        clean("what is sent", letter.body.to_string());
        taken.push(letter.body);
    }
    taken
}

/// Asks as operators do, who may see most.
#[track_caller]
fn ask(api: &Api, method: &str, target: &str, body: &str) -> String {
    let asked = || api.ask(method, target, OPERATOR, body);
    let answer = std::iter::repeat_with(asked).take(3000).find(|answer| answer.status != 429).unwrap();
    assert!((200..300).contains(&answer.status), "{target}: {} {}", answer.status, answer.body);
    answer.body
}

/// All that can be read of an Application and of its newest operation.
fn look_at(api: &Api, app: &str, id: &str) {
    let own = format!("/api/v1/applications/argocd/{app}");
    for part in ["", "/resources", "/plan", "/deletion", "/window"] {
        clean(part, ask(api, "GET", &format!("{own}{part}"), ""));
    }
    // What stands openly in another kind of object is shown where objects are compared, and only there.
    if app == "database" {
        for part in ["/diff", "/diff/objects"] {
            let shown = ask(api, "GET", &format!("{own}{part}"), "");
            assert!(shown.contains("database-plain"), "the Secrets are in it: {shown}");
            clean(part, shown);
        }
    }
    let own = format!("/api/v1/operations/{id}");
    if app == "database" {
        let shown = ask(api, "GET", &format!("{own}/logs"), "");
        assert!(shown.contains("cannot connect as app:++++++++"), "{shown}");
    }
    for part in ["", "/log", "/export", "/export.html", "/explain", "/events", "/logs"] {
        clean(part, ask(api, "GET", &format!("{own}{part}"), ""));
    }
    let body = json!({"application": app}).to_string();
    let plan: Value = serde_json::from_str(&ask(api, "POST", "/api/v1/plans", &body)).unwrap();
    clean("the plan that is kept", plan.to_string());
    let own = format!("/api/v1/plans/{}", plan["hash"].as_str().unwrap());
    clean("a kept plan", ask(api, "GET", &own, ""));
    if app == "database" {
        clean("what a kept plan changes", ask(api, "GET", &format!("{own}/diff"), ""));
        clean("objects of a kept plan", ask(api, "GET", &format!("{own}/diff/objects"), ""));
    }
    clean("all of a kept plan", ask(api, "GET", &format!("{own}/whole"), ""));
}

#[test]
fn the_value_of_a_secret_is_nowhere_when_a_sync_fails_with_it() {
    let mut fleet = fleet();
    let (post, letters) = mailbox(&[200]);
    let (collector, traces) = mailbox(&[200]);
    let targets = json!({"targets": [{"name": "all", "kind": "webhook", "url": format!("http://{post}/"),
        "on": ["started", "succeeded", "failed", "deadline"]}]});
    fleet.bench.write("targets.json", targets.to_string());
    fleet.bench.set("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}"));
    let api = Api::serve_with(&fleet, &["--notify", "targets.json", "-vv"]);
    let mut events = api.listen("", None);
    for (app, _, _, said) in APPS {
        let body = json!({"reason": "to see it fail"});
        let target = format!("/api/v1/applications/argocd/{app}/sync");
        clean("the answer", api.post(&target, &body).to_string());
        // Each event until the operation is over, whatever it is about.
        loop {
            let (kind, data) = events.next();
            clean("an event", data.to_string());
            let event = &data["operation"];
            if kind == "operation" && event["app"] == app && event["kind"] == "finished" {
                assert_eq!(event["details"]["phase"], "Failed", "{event}");
                break;
            }
        }
        let found = fleet.until(app, |found| found["status"]["operationState"]["phase"] == "Failed");
        assert!(found["status"].to_string().contains(said), "{found}");
        clean("the status", found.to_string());
    }
    let is_failed = |letter: &&Value| letter["event"] == "failed";
    let told = all_until(&letters, |told| told.iter().filter(is_failed).count() == APPS.len());
    assert!(told.iter().any(|letter| letter["text"].as_str().unwrap().contains("++++++++")), "{told:?}");
    let has = |sent: &[Value], app: &str| sent.iter().any(|body| body.to_string().contains(app));
    let sent = all_until(&traces, |sent| APPS.iter().all(|(app, ..)| has(sent, &format!("\"{app}\""))));
    assert!(sent.iter().any(|body| body.to_string().contains("++++++++")), "{sent:?}");
    for (app, ..) in APPS {
        let id = fleet.bench.newest_of(app);
        look_at(&api, app, &id);
        for args in
            [&["app", "get", app][..], &["explain", app], &["app", "explain", app], &["ops", "log", app]]
        {
            let ran = fleet.bench.run(args);
            clean(&args.join(" "), format!("{}{}", ran.out, ran.err));
        }
    }
    for list in [
        "/api/v1/applications",
        "/api/v1/argoproj.io/applications",
        "/api/v1/operations",
        "/api/v1/plans",
        "/metrics",
    ] {
        clean(list, ask(&api, "GET", list, ""));
    }
    leaves_nothing(&fleet, api);
}

/// An Application that was synced before: the cluster is asked about the new manifests when they are compared.
#[test]
fn the_value_of_a_secret_is_nowhere_when_a_comparison_is_refused_with_it() {
    let fleet = fleet();
    let file = "repo/backend/all.yaml";
    let (refused, fine) = ("labels: {password: \"Canary 7d41 value!\"}", "labels: {password: fine}");
    fleet.replace(file, refused, fine);
    fleet.commit();
    let api = Api::serve_with(&fleet, &["-vv"]);
    fleet.bench.run(&["app", "sync", "backend"]).expect_code(0);
    fleet.wait(&["backend"]);
    let mut events = api.listen("", None);
    fleet.replace(file, fine, refused);
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let condition = fleet.condition("backend", "ComparisonError");
    assert!(condition.contains("ConfigMap fleet/refused") && condition.contains("++++++++"), "{condition}");
    clean("the condition", condition);
    // The stream has it in the line of the Application.
    loop {
        let (kind, data) = events.next();
        clean("an event", data.to_string());
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
        clean(target, ask(&api, "GET", target, ""));
    }
    leaves_nothing(&fleet, api);
}

/// Ends the service; what it has said, and the files that it leaves.
#[track_caller]
fn leaves_nothing(fleet: &Fleet, api: Api) {
    let said = Fleet::end(api.serving);
    assert!(said.err.contains("operation ended") && said.err.contains("++++++++"), "{}", said.err);
    clean("what serve says", said.err);
    clean("what serve prints", said.out);
    let cluster = fleet.bench.state().join("cluster");
    let mut read = 0;
    let mut kept = String::new();
    for path in files(&fleet.bench.state()) {
        let content = fs::read(&path).unwrap();
        if path.starts_with(&cluster) {
            kept.push_str(&String::from_utf8_lossy(&content));
        } else {
            clean(&path.display().to_string(), content);
            read += 1;
        }
    }
    assert!(read > 5 && FORMS.iter().any(|form| kept.contains(form)), "the cluster itself has it: {read}");
}
