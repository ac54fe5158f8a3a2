//! Notifications of a service. They are signed, and retried until they are accepted, even after the service
//! was killed.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::Running;
use crate::fleet::Fleet;
use crate::http_receiver::start_http_receiver;

const SECRET: &str = "what-letters-are-signed-with";
const TIMEOUT: Duration = Duration::from_secs(600);

fn serve(fleet: &Fleet, targets: &Value) -> Running {
    fs::write(fleet.bench.path().join("signing"), format!("{SECRET}\n")).unwrap();
    fs::write(fleet.bench.path().join("targets.json"), targets.to_string()).unwrap();
    fleet.serve_with(&["--notify", "targets.json"])
}

#[test]
fn each_notification_is_signed_and_retried_until_accepted() {
    let fleet = Fleet::new();
    let (address, letters) = start_http_receiver(&[503, 200]);
    let (chat, chat_messages) = start_http_receiver(&[200]);
    let (gone, refused) = start_http_receiver(&[410]);
    let secret = fleet.bench.path().join("signing");
    let targets = json!({"targets": [
        {"name": "hook", "kind": "webhook", "url": format!("http://{address}/secret-path"), "secretFile": secret,
         "on": ["started", "succeeded", "failed"], "applications": ["backend"]},
        {"name": "chat", "kind": "slack", "url": format!("http://{chat}/secret-path"), "on": ["succeeded"]},
        {"name": "gone", "kind": "webhook", "url": format!("http://{gone}/secret-path"), "on": ["started", "succeeded"],
         "applications": ["argocd/frontend"]},
    ]});
    let service = serve(&fleet, &targets);
    fleet.wait_until_synced(&[]);
    let next = || letters.recv_timeout(TIMEOUT).unwrap();
    let (first, again, second) = (next(), next(), next());
    assert_eq!((&first.body, &first.header("x-tidegate-id")), (&again.body, &again.header("x-tidegate-id")));
    assert_eq!((&first.body["event"], &second.body["event"]), (&json!("started"), &json!("succeeded")));
    assert_eq!(
        (&second.body["application"], &second.body["operation"]),
        (&json!("backend"), &first.body["operation"])
    );
    assert!(second.body["text"].as_str().unwrap().starts_with("backend: Succeeded"), "{}", second.body);
    let signature = second.header("x-tidegate-signature").unwrap();
    assert!(
        signature.starts_with("sha256=")
            && signature.len() == 71
            && second.header("x-tidegate-timestamp").is_some()
    );
    assert_ne!(first.header("x-tidegate-signature"), second.header("x-tidegate-signature"));
    // Each application is reported once, even if another receiver is unavailable.
    let mut told: Vec<String> = (0..3)
        .map(|_| {
            chat_messages.recv_timeout(TIMEOUT).unwrap().body["text"]
                .as_str()
                .unwrap()
                .split(':')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    told.sort();
    assert_eq!(told, ["backend", "database", "frontend"]);
    // An event that was permanently rejected isn't sent again.
    let events: Vec<Value> =
        (0..2).map(|_| refused.recv_timeout(TIMEOUT).unwrap().body["event"].clone()).collect();
    assert_eq!(events, [json!("started"), json!("succeeded")]);
    let ended = Fleet::stop(service);
    assert!(!ended.err.contains("secret-path") && !ended.err.contains(SECRET), "{}", ended.err);
    // The next process does not repeat delivered events.
    let service = serve(&fleet, &targets);
    fleet.bench.run(&["app", "sync", "backend"]).expect_code(0);
    let third = letters.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(third.body["event"], "started");
    assert_ne!(third.body["operation"], first.body["operation"]);
    assert_eq!(letters.recv_timeout(TIMEOUT).unwrap().body["operation"], third.body["operation"]);
    Fleet::stop(service);
    // Events that occurred without a subscription aren't delivered later.
    let service = fleet.serve();
    fleet.bench.run(&["app", "sync", "backend"]).expect_code(0);
    let between = json!(fleet.bench.newest());
    fleet.bench.run(&["app", "wait", "backend", "--operation", "--timeout", "10m"]).expect_code(0);
    Fleet::stop(service);
    let service = serve(&fleet, &targets);
    fleet.bench.run(&["app", "sync", "backend"]).expect_code(0);
    let fourth = letters.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(fourth.body["event"], "started");
    assert!(fourth.body["operation"] != between && fourth.body["operation"] != third.body["operation"]);
    Fleet::stop(service);
}

#[test]
fn events_before_a_kill_are_sent_after_it() {
    let fleet = Fleet::new();
    // This port was closed recently and doesn't have a listener.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let target = |url: String| {
        json!({"targets": [{"name": "hook", "kind": "webhook", "url": url, "on": ["started", "succeeded"],
            "applications": ["backend"]}]})
    };
    let service = serve(&fleet, &target(format!("http://{address}/")));
    fleet.wait_until_synced(&[]);
    service.signal("KILL");
    service.finish();
    let (address, letters) = start_http_receiver(&[200]);
    let service = serve(&fleet, &target(format!("http://{address}/")));
    let told: Vec<Value> =
        (0..2).map(|_| letters.recv_timeout(TIMEOUT).unwrap().body["event"].clone()).collect();
    assert_eq!(told, [json!("started"), json!("succeeded")]);
    Fleet::stop(service);
    // A mistake in the file is reported before anything starts. The message doesn't contain the address.
    fs::write(fleet.bench.path().join("targets.json"), "{\"targets\": [{\"url\": \"secret-path\"}]}")
        .unwrap();
    let ran =
        fleet.bench.run(&["serve", "--sim", "--apps", "fleet", "--notify", "targets.json"]).expect_code(2);
    assert!(ran.err.contains("targets.json") && !ran.err.contains("secret-path"), "{}", ran.err);
}

/// The frontend's server never becomes ready, and its wave has a deadline.
#[test]
fn a_late_wave_and_its_failed_operation_are_reported() {
    let fleet = Fleet::new();
    let late = "sim.tidegate.dev/outcome: never-ready\n    tidegate.dev/wave-timeout: 5s";
    fleet.replace("repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", late);
    fleet.commit();
    fleet.replace("frontend.yaml", "      selfHeal: true\n", "      selfHeal: true\n    retry: {limit: 0}\n");
    let (address, letters) = start_http_receiver(&[200]);
    let (chat, chat_messages) = start_http_receiver(&[200]);
    // Uses the default set of events.
    let targets = json!({"targets": [
        {"name": "hook", "kind": "webhook", "url": format!("http://{address}/")},
        {"name": "chat", "kind": "slack", "url": format!("http://{chat}/"), "on": ["deadline"]},
    ]});
    let service = serve(&fleet, &targets);
    let late = letters.recv_timeout(TIMEOUT).unwrap().body;
    let failed = letters.recv_timeout(TIMEOUT).unwrap().body;
    assert_eq!((&late["event"], &failed["event"]), (&json!("deadline"), &json!("failed")));
    let operation = fleet.bench.newest_of("frontend");
    for letter in [&late, &failed] {
        assert_eq!((&letter["application"], &letter["operation"]), (&json!("frontend"), &json!(operation)));
    }
    let what =
        "wave 0 of Sync did not complete within 5 s: waiting for healthy state of apps/Deployment/frontend";
    assert_eq!(late["text"], format!("frontend: deadline passed: {what}"));
    assert_eq!(failed["text"], format!("frontend: Failed: {what}"));
    let chat = chat_messages.recv_timeout(TIMEOUT).unwrap().body["text"].as_str().unwrap().to_owned();
    assert!(chat.contains(what) && chat.contains(&operation), "{chat}");
    // The notifications have the same content and numbers as the events, and an overdue wave doesn't pass
    // later.
    let events = fleet.bench.json(&["ops", "events", &operation, "-o", "json"]);
    let event = |kind: &str| {
        let mut of = events.as_array().unwrap().iter().filter(|event| event["kind"] == kind);
        let found = of.next().unwrap_or_else(|| panic!("{kind}: {events}"));
        assert!(of.next().is_none(), "{kind}: {events}");
        found.clone()
    };
    let passed = event("deadline-exceeded");
    assert_eq!(passed["details"], json!({"scope": "wave", "message": what}));
    assert_eq!(
        (&passed["sequence"], &event("finished")["sequence"]),
        (&late["sequence"], &failed["sequence"])
    );
    let output = fleet.bench.run(&["ops", "events", &operation]).expect_code(0).out;
    assert!(output.contains(&format!("the wave's deadline has passed: {what}")), "{output}");
    assert_eq!(fleet.creations("Service", "frontend"), Vec::<u64>::new(), "it is of the next wave");
    Fleet::stop(service);
}
