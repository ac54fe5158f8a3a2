//! Two syncs of one application from two state directories. The audit log shows the effects of the claim.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::kube::{Audit, ControlPlane, User};

use crate::bench::Running;
use crate::kube_bench::KubeBench;
use crate::manifests::hook;

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time until a claim that isn't renewed expires, with some time to notice.
const CLAIM_EXPIRY: Duration = Duration::from_secs(120);

/// Returns a migration that runs until the test completes it, in a wave before the Deployment.
fn revision(number: u32) -> String {
    let annotations =
        "argocd.argoproj.io/hook-delete-policy: BeforeHookCreation, sim.tidegate.dev/ready-after: 1h";
    let migration = hook("migrate", "Sync", annotations)
        .replace("image: busybox", &format!("image: busybox, args: [\"r{number}\"]"));
    format!(
        "{migration}---
apiVersion: v1
kind: ConfigMap
metadata:
  name: config
  annotations: {{argocd.argoproj.io/sync-wave: \"1\"}}
data: {{revision: r{number}}}
"
    )
}

/// Returns a test environment with two revisions of its own application.
async fn claim_bench(prefix: &str) -> KubeBench {
    let bench = KubeBench::new(prefix).await;
    for number in [1, 2] {
        bench.write(&format!("{number}.yaml"), revision(number));
    }
    bench
}

struct StartedSync {
    running: Running,
    id: String,
}

fn args<'a>(bench: &'a KubeBench, number: &'a str, more: &[&'a str]) -> Vec<String> {
    let fixed = ["sync", number, "--app", &bench.namespace, "-n", &bench.namespace, "-o", "json"];
    fixed.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn start(bench: &KubeBench, number: u32, more: &[&str]) -> Running {
    let (file, state) = (format!("{number}.yaml"), format!("state-{number}"));
    let args = args(bench, &file, &[&["--state-dir", state.as_str()], more].concat());
    bench.start(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Starts the sync of the first revision, and returns when its migration is running.
async fn start_first(bench: &KubeBench, more: &[&str]) -> StartedSync {
    let mut running = start(bench, 1, more);
    let line = running.wait_for_line("accepted");
    let id = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    // A sync that is stopped before it has started the Job would leave it suspended.
    while job(bench).await.is_none_or(|job| job["spec"]["suspend"] == true) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    StartedSync { running, id }
}

async fn job(bench: &KubeBench) -> Option<Value> {
    bench
        .object("/apis/batch/v1", "jobs", "migrate")
        .await
        .filter(|job| job["metadata"]["deletionTimestamp"].is_null())
}

async fn lease(bench: &KubeBench) -> Value {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{0}/leases/tidegate-{0}", bench.namespace);
    bench.observer().find(&path).await.unwrap().unwrap_or(Value::Null)
}

/// Completes the migration of an operation: its pod succeeds, and the Job controller does the rest.
async fn complete(bench: &KubeBench, of: &str) {
    let observer = bench.observer();
    let pods = format!("/api/v1/namespaces/{}/pods", bench.namespace);
    loop {
        let ours = |job: &Value| job["metadata"]["annotations"]["tidegate.dev/operation-id"] == of;
        if let Some(job) = bench.object("/apis/batch/v1", "jobs", "migrate").await.filter(ours) {
            if job["status"]["succeeded"] == 1 {
                return;
            }
            let uid = job["metadata"]["uid"].as_str().unwrap();
            let found = observer.get(&format!("{pods}?labelSelector=controller-uid%3D{uid}")).await.unwrap();
            for pod in found["items"].as_array().unwrap() {
                let path = format!("{pods}/{}/status", pod["metadata"]["name"].as_str().unwrap());
                // Repeat this until the controller has observed it, because the start of the pod may
                // overwrite it.
                let _ = observer.patch(&path, &json!({"status": {"phase": "Succeeded"}})).await;
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the writes of an operation, without claims.
async fn writes_of(bench: &KubeBench, id: &str) -> Audit {
    let id = Some(id.to_owned());
    bench.writes().await.filter(|event| event.operation == id)
}

fn parse_output(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

async fn assert_in_order(bench: &KubeBench, first: &str, second: &str) {
    let (first, second) = (writes_of(bench, first).await, writes_of(bench, second).await);
    let (last, next) = (&first.0.last().unwrap().responded_at, &second.0.first().unwrap().received_at);
    assert!(last < next, "{:#?}\n{:#?}", first.summaries(), second.summaries());
}

async fn deployed_revision(bench: &KubeBench) -> Value {
    bench
        .object("/api/v1", "configmaps", "config")
        .await
        .map_or(Value::Null, |config| config["data"]["revision"].clone())
}

pub async fn a_second_sync_is_refused_and_names_the_first() {
    let bench = claim_bench("refused").await;
    let one = start_first(&bench, &[]).await;
    let held = lease(&bench).await;
    assert_eq!(held["spec"]["holderIdentity"], one.id.as_str(), "{held}");
    let two = start(&bench, 2, &[]).finish().expect_code(4);
    let refused = parse_output(&two.out);
    assert_eq!(refused["claim"]["state"], "Refused", "{refused}");
    assert_eq!(refused["claim"]["holder"]["operation"], one.id.as_str(), "{refused}");
    for text in [one.id.as_str(), " on ", "since ", "--queue"] {
        assert!(refused["message"].as_str().unwrap().contains(text), "{text}: {refused}");
    }
    assert!(writes_of(&bench, refused["id"].as_str().unwrap()).await.0.is_empty());
    complete(&bench, &one.id).await;
    let ran = one.running.finish().expect_code(0);
    assert_eq!(parse_output(&ran.out)["claim"]["state"], "Released");
    let given_back = lease(&bench).await;
    assert!(given_back["spec"]["holderIdentity"].is_null(), "{given_back}");
    assert_eq!(deployed_revision(&bench).await, "r1");
    assert_eq!(bench.creations("Job", "migrate").await, 1);
}

pub async fn a_second_sync_waits_for_the_first() {
    let bench = claim_bench("queued").await;
    let one = start_first(&bench, &[]).await;
    let mut two = start(&bench, 2, &["--queue"]);
    let line = two.wait_for_line("accepted");
    let second = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    two.wait_for_line(&format!("waiting for the end of operation {}", one.id));
    let explained = bench.json(&["explain", &second, "--state-dir", "state-2", "-o", "json"]);
    assert_eq!(explained["position"], "waiting for the claim", "{explained}");
    assert!(explained["awaited"][0]["subject"].as_str().unwrap().contains(&one.id), "{explained}");
    complete(&bench, &one.id).await;
    one.running.finish().expect_code(0);
    complete(&bench, &second).await;
    two.finish().expect_code(0);
    assert_in_order(&bench, &one.id, &second).await;
    assert_eq!(deployed_revision(&bench).await, "r2");
    assert_eq!(lease(&bench).await["spec"]["leaseTransitions"], 2);
}

pub async fn a_second_sync_ends_the_first() {
    let bench = claim_bench("superseded").await;
    let one = start_first(&bench, &[]).await;
    let mut two = start(&bench, 2, &["--supersede"]);
    let line = two.wait_for_line("accepted");
    let second = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    let ended = parse_output(&one.running.finish().expect_code(1).out);
    let text = format!("Operation terminated, superseded by operation {second}");
    assert!(ended["message"].as_str().unwrap().starts_with(&text), "{ended}");
    complete(&bench, &second).await;
    two.finish().expect_code(0);
    assert_in_order(&bench, &one.id, &second).await;
    assert_eq!(deployed_revision(&bench).await, "r2");
}

pub async fn a_killed_sync_keeps_its_claim_for_its_resume() {
    let bench = claim_bench("kept").await;
    let one = start_first(&bench, &[]).await;
    one.running.signal("KILL");
    one.running.finish();
    let mut two = start(&bench, 2, &["--queue"]);
    two.wait_for_line(&one.id);
    let resumed = bench.start(&["resume", "--all", "--state-dir", "state-1"]);
    complete(&bench, &one.id).await;
    resumed.finish().expect_code(0);
    let second = bench.json(&["ops", "list", "--state-dir", "state-2", "-o", "json"])[0]["id"].clone();
    let second = second.as_str().unwrap().to_owned();
    complete(&bench, &second).await;
    two.finish().expect_code(0);
    assert_in_order(&bench, &one.id, &second).await;
    for operation in [&one.id, &second] {
        bench.assert_created_once_by(Some(operation), "Job", "migrate", "killed").await;
    }
}

/// The killed sync hadn't started, so it ends with the request.
pub async fn a_killed_sync_that_waited_for_the_claim_can_be_terminated() {
    let bench = claim_bench("unbegun").await;
    let one = start_first(&bench, &[]).await;
    let mut two = start(&bench, 2, &["--queue"]);
    two.wait_for_line(&one.id);
    two.signal("KILL");
    two.finish();
    let ended = ["ops", "terminate", &bench.namespace, "--state-dir", "state-2"];
    bench.run(&ended).expect_code(0);
    let left = bench.json(&["ops", "list", "--state-dir", "state-2", "-o", "json"]);
    assert_eq!(left[0]["phase"], "Failed", "{left}");
    complete(&bench, &one.id).await;
    one.running.finish().expect_code(0);
    assert_eq!(deployed_revision(&bench).await, "r1");
}

/// The first sync is suspended, as on a sleeping machine. Its claim expires and is taken over. When the sync
/// wakes up, it must not write anything.
pub async fn a_sync_suspended_for_too_long_writes_nothing_more() {
    let bench = claim_bench("slept").await;
    let mut one = start_first(&bench, &[]).await;
    one.running.signal("STOP");
    // Otherwise the second sync would have to wait for the first sync's hook.
    complete(&bench, &one.id).await;
    let mut two = start(&bench, 2, &["--queue"]);
    let line = two.wait_for_line("accepted");
    let second = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    tokio::time::timeout(CLAIM_EXPIRY, complete(&bench, &second)).await.expect("the claim does not expire");
    two.finish().expect_code(0);
    let before = writes_of(&bench, &one.id).await.0.len();
    one.running.signal("CONT");
    let status = one.running.wait_for_exit(CLAIM_EXPIRY).expect("it does not end");
    let ran = one.running.finish_with(status).expect_code(1);
    let lost = parse_output(&ran.out);
    assert_eq!((&lost["phase"], &lost["claim"]["state"]), (&json!("Error"), &json!("Lost")), "{lost}");
    assert_eq!(writes_of(&bench, &one.id).await.0.len(), before, "written without a claim");
    assert_eq!(deployed_revision(&bench).await, "r2");
}

pub async fn missing_lease_rights_cause_a_warning() {
    let bench = claim_bench("unclaimed").await;
    let all_but_leases = json!([{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]}]);
    let user = bench.control.create_limited_user(&[(Some(&bench.namespace), all_but_leases)]).await.unwrap();
    bench.write("config.yaml", crate::manifests::CONFIG);
    let args = args(&bench, "config.yaml", &["--context", user.name()]);
    let ran = bench.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0);
    let done = parse_output(&ran.out);
    assert_eq!(done["claim"]["state"], "Unavailable", "{done}");
    let warning =
        done["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == "no-claim").unwrap();
    for text in ["leases", "forbidden", user.name()] {
        assert!(warning["message"].as_str().unwrap().contains(text), "{text}: {warning}");
    }
}

/// A Lease that cannot be renewed would block the next sync until its expiry.
pub async fn without_the_right_to_renew_no_claim_is_created() {
    let bench = claim_bench("unrenewed").await;
    let rights = json!([
        {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get"]},
    ]);
    let user = bench.control.create_limited_user(&[(Some(&bench.namespace), rights)]).await.unwrap();
    bench.write("config.yaml", crate::manifests::CONFIG);
    let args = args(&bench, "config.yaml", &["--context", user.name()]);
    let done =
        parse_output(&bench.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0).out);
    assert_eq!(done["claim"]["state"], "Unavailable", "{done}");
    let missing = format!("permissions: update leases.coordination.k8s.io in namespace {}", bench.namespace);
    assert!(done["claim"]["reason"].as_str().unwrap().contains(&missing), "{done}");
    assert_eq!(lease(&bench).await, Value::Null);
}

pub async fn no_claim_is_taken_if_none_is_requested() {
    let bench = claim_bench("no-claim").await;
    bench.write("config.yaml", crate::manifests::CONFIG);
    let run = |more: &[&str]| {
        let args = args(&bench, "config.yaml", more);
        parse_output(&bench.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0).out)
    };
    assert_eq!(run(&["--no-claim"])["claim"], Value::Null);
    assert_eq!(run(&["--dry-run"])["claim"], Value::Null);
    let audit_events = bench.audit().await.by_user(User::ENGINE).filter(|event| event.kind == "Lease");
    assert!(audit_events.0.is_empty(), "{audit_events:#?}");
    // An application with the same name in another namespace isn't affected.
    let elsewhere = ControlPlane::shared().create_namespace("claims").await.unwrap();
    let done = run(&["--claim-namespace", &elsewhere]);
    assert_eq!(
        done["claim"]["lease"],
        format!("{elsewhere}/tidegate-{}", bench.namespace).as_str(),
        "{done}"
    );
    assert_eq!(lease(&bench).await, Value::Null);
}
