//! Two syncs of one application from two state directories: what the claim makes of them, by the audit log.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::kube::{Audit, ControlPlane, User};

use crate::bench::Running;
use crate::site::Site;

/// How often the cluster is looked at for what is awaited.
const LOOK: Duration = Duration::from_millis(100);
/// How long a claim lasts that nobody renews, and some time to notice.
const RUN_OUT: Duration = Duration::from_secs(120);

/// A migration that runs until it is completed here, in a wave before the Deployment.
fn revision(number: u32) -> String {
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    argocd.argoproj.io/hook: Sync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation
    sim.tidegate.dev/ready-after: 1h
spec:
  backoffLimit: 0
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox, args: [\"r{number}\"]}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: config
  annotations: {{argocd.argoproj.io/sync-wave: \"1\"}}
data: {{revision: r{number}}}
"
    )
}

/// A site where two revisions of an application of its own lie.
async fn site(prefix: &str) -> Site {
    let site = Site::new(prefix).await;
    for number in [1, 2] {
        site.write(&format!("{number}.yaml"), revision(number));
    }
    site
}

struct Begun {
    running: Running,
    id: String,
}

fn args<'a>(site: &'a Site, number: &'a str, more: &[&'a str]) -> Vec<String> {
    let fixed = ["sync", number, "--app", &site.namespace, "-n", &site.namespace, "-o", "json"];
    fixed.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn start(site: &Site, number: u32, more: &[&str]) -> Running {
    let (file, state) = (format!("{number}.yaml"), format!("state-{number}"));
    let args = args(site, &file, &[&["--state-dir", state.as_str()], more].concat());
    site.start(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Begins the first revision, until its migration runs.
async fn begin(site: &Site, more: &[&str]) -> Begun {
    let mut running = start(site, 1, more);
    let line = running.await_line("accepted");
    let id = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    while job(site).await.is_none() {
        tokio::time::sleep(LOOK).await;
    }
    Begun { running, id }
}

async fn job(site: &Site) -> Option<Value> {
    site.object("/apis/batch/v1", "jobs", "migrate")
        .await
        .filter(|job| job["metadata"]["deletionTimestamp"].is_null())
}

async fn lease(site: &Site) -> Value {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{0}/leases/tidegate-{0}", site.namespace);
    site.observer().find(&path).await.unwrap().unwrap_or(Value::Null)
}

/// Lets the migration of an operation complete: its pod ends well, and the controller of Jobs does the rest.
async fn complete(site: &Site, of: &str) {
    let observer = site.observer();
    let pods = format!("/api/v1/namespaces/{}/pods", site.namespace);
    loop {
        let ours = |job: &Value| job["metadata"]["annotations"]["tidegate.dev/operation-id"] == of;
        if let Some(job) = site.object("/apis/batch/v1", "jobs", "migrate").await.filter(ours) {
            if job["status"]["succeeded"] == 1 {
                return;
            }
            let uid = job["metadata"]["uid"].as_str().unwrap();
            let found = observer.get(&format!("{pods}?labelSelector=controller-uid%3D{uid}")).await.unwrap();
            for pod in found["items"].as_array().unwrap() {
                let path = format!("{pods}/{}/status", pod["metadata"]["name"].as_str().unwrap());
                // Until the controller has seen it: whoever starts the pod may write after us.
                let _ = observer.patch(&path, &json!({"status": {"phase": "Succeeded"}})).await;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What an operation wrote, claims apart.
async fn writes_of(site: &Site, id: &str) -> Audit {
    let id = Some(id.to_owned());
    site.writes().await.only(|event| event.operation == id)
}

fn document(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

async fn in_order(site: &Site, first: &str, second: &str) {
    let (first, second) = (writes_of(site, first).await, writes_of(site, second).await);
    let (last, next) = (&first.0.last().unwrap().answered_at, &second.0.first().unwrap().received_at);
    assert!(last < next, "{:#?}\n{:#?}", first.summaries(), second.summaries());
}

async fn revision_there(site: &Site) -> Value {
    site.object("/api/v1", "configmaps", "config")
        .await
        .map_or(Value::Null, |config| config["data"]["revision"].clone())
}

pub async fn a_second_sync_is_refused_and_says_by_whom() {
    let site = site("refused").await;
    let one = begin(&site, &[]).await;
    let held = lease(&site).await;
    assert_eq!(held["spec"]["holderIdentity"], one.id.as_str(), "{held}");
    let two = start(&site, 2, &[]).finish().expect_code(4);
    let refused = document(&two.out);
    assert_eq!(refused["claim"]["state"], "Refused", "{refused}");
    assert_eq!(refused["claim"]["holder"]["operation"], one.id.as_str(), "{refused}");
    for words in [one.id.as_str(), " on ", "since ", "--queue"] {
        assert!(refused["message"].as_str().unwrap().contains(words), "{words}: {refused}");
    }
    assert!(writes_of(&site, refused["id"].as_str().unwrap()).await.0.is_empty());
    complete(&site, &one.id).await;
    let ran = one.running.finish().expect_code(0);
    assert_eq!(document(&ran.out)["claim"]["state"], "Released");
    let given_back = lease(&site).await;
    assert!(given_back["spec"]["holderIdentity"].is_null(), "{given_back}");
    assert_eq!(revision_there(&site).await, "r1");
    assert_eq!(site.creations("Job", "migrate").await, 1);
}

pub async fn a_second_sync_waits_its_turn() {
    let site = site("queued").await;
    let one = begin(&site, &[]).await;
    let mut two = start(&site, 2, &["--queue"]);
    let line = two.await_line("accepted");
    let second = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    two.await_line(&format!("waiting for the end of operation {}", one.id));
    let explained = site.json(&["explain", &second, "--state-dir", "state-2", "-o", "json"]);
    assert_eq!(explained["position"], "waiting for the claim", "{explained}");
    assert!(explained["awaited"][0]["what"].as_str().unwrap().contains(&one.id), "{explained}");
    complete(&site, &one.id).await;
    one.running.finish().expect_code(0);
    complete(&site, &second).await;
    two.finish().expect_code(0);
    in_order(&site, &one.id, &second).await;
    assert_eq!(revision_there(&site).await, "r2");
    assert_eq!(lease(&site).await["spec"]["leaseTransitions"], 2);
}

pub async fn a_second_sync_ends_the_first() {
    let site = site("superseded").await;
    let one = begin(&site, &[]).await;
    let mut two = start(&site, 2, &["--supersede"]);
    let line = two.await_line("accepted");
    let second = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    let ended = document(&one.running.finish().expect_code(1).out);
    let words = format!("Operation terminated, superseded by operation {second}");
    assert!(ended["message"].as_str().unwrap().starts_with(&words), "{ended}");
    complete(&site, &second).await;
    two.finish().expect_code(0);
    in_order(&site, &one.id, &second).await;
    assert_eq!(revision_there(&site).await, "r2");
}

pub async fn a_killed_sync_keeps_its_claim_for_its_resume() {
    let site = site("kept").await;
    let one = begin(&site, &[]).await;
    one.running.signal("KILL");
    one.running.finish();
    let mut two = start(&site, 2, &["--queue"]);
    two.await_line(&one.id);
    let resumed = site.start(&["resume", "--all", "--state-dir", "state-1"]);
    complete(&site, &one.id).await;
    resumed.finish().expect_code(0);
    let second = site.json(&["ops", "list", "--state-dir", "state-2", "-o", "json"])[0]["id"].clone();
    let second = second.as_str().unwrap().to_owned();
    complete(&site, &second).await;
    two.finish().expect_code(0);
    in_order(&site, &one.id, &second).await;
    for operation in [&one.id, &second] {
        site.assert_created_once_by(Some(operation), "Job", "migrate", "killed").await;
    }
}

/// It had not begun, so it is over with the wish.
pub async fn a_killed_sync_that_waited_for_the_claim_can_be_ended() {
    let site = site("unbegun").await;
    let one = begin(&site, &[]).await;
    let mut two = start(&site, 2, &["--queue"]);
    two.await_line(&one.id);
    two.signal("KILL");
    two.finish();
    let ended = ["ops", "terminate", &site.namespace, "--state-dir", "state-2"];
    site.run(&ended).expect_code(0);
    let left = site.json(&["ops", "list", "--state-dir", "state-2", "-o", "json"]);
    assert_eq!(left[0]["phase"], "Failed", "{left}");
    complete(&site, &one.id).await;
    one.running.finish().expect_code(0);
    assert_eq!(revision_there(&site).await, "r1");
}

/// The first is stopped in the middle, as by a machine that sleeps. Its claim runs out and is taken over; when it wakes
/// up, it writes nothing any more.
pub async fn a_sync_that_slept_for_too_long_writes_nothing_more() {
    let site = site("slept").await;
    let mut one = begin(&site, &[]).await;
    one.running.signal("STOP");
    // The hook of the first is over by then, or the second would have to wait for it.
    complete(&site, &one.id).await;
    let mut two = start(&site, 2, &["--queue"]);
    let line = two.await_line("accepted");
    let second = line.split_whitespace().find(|word| word.len() == 36).unwrap().to_owned();
    tokio::time::timeout(RUN_OUT, complete(&site, &second)).await.expect("the claim does not run out");
    two.finish().expect_code(0);
    let before = writes_of(&site, &one.id).await.0.len();
    one.running.signal("CONT");
    let status = one.running.is_over_within(RUN_OUT).expect("it does not end");
    let ran = one.running.finish_with(status).expect_code(1);
    let lost = document(&ran.out);
    assert_eq!((&lost["phase"], &lost["claim"]["state"]), (&json!("Error"), &json!("Lost")), "{lost}");
    assert_eq!(writes_of(&site, &one.id).await.0.len(), before, "written without a claim");
    assert_eq!(revision_there(&site).await, "r2");
}

pub async fn without_the_rights_there_is_a_warning() {
    let site = site("unclaimed").await;
    let all_but_leases = json!([{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]}]);
    let user = site.control.limited_user(&[(Some(&site.namespace), all_but_leases)]).await.unwrap();
    site.write("config.yaml", crate::manifests::CONFIG);
    let args = args(&site, "config.yaml", &["--context", user.name()]);
    let ran = site.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0);
    let done = document(&ran.out);
    assert_eq!(done["claim"]["state"], "Unavailable", "{done}");
    let warning =
        done["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == "no-claim").unwrap();
    for words in ["leases", "forbidden", user.name()] {
        assert!(warning["message"].as_str().unwrap().contains(words), "{words}: {warning}");
    }
}

/// A Lease that cannot be renewed would keep the next sync waiting until it has run out.
pub async fn without_the_right_to_renew_it_no_claim_is_made() {
    let site = site("unrenewed").await;
    let rights = json!([
        {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get"]},
    ]);
    let user = site.control.limited_user(&[(Some(&site.namespace), rights)]).await.unwrap();
    site.write("config.yaml", crate::manifests::CONFIG);
    let args = args(&site, "config.yaml", &["--context", user.name()]);
    let done = document(&site.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0).out);
    assert_eq!(done["claim"]["state"], "Unavailable", "{done}");
    let missing = format!("missing: update leases.coordination.k8s.io in namespace {}", site.namespace);
    assert!(done["claim"]["reason"].as_str().unwrap().contains(&missing), "{done}");
    assert_eq!(lease(&site).await, Value::Null);
}

pub async fn no_claim_is_taken_where_none_is_wanted() {
    let site = site("no-claim").await;
    site.write("config.yaml", crate::manifests::CONFIG);
    let run = |more: &[&str]| {
        let args = args(&site, "config.yaml", more);
        document(&site.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect_code(0).out)
    };
    assert_eq!(run(&["--no-claim"])["claim"], Value::Null);
    assert_eq!(run(&["--dry-run"])["claim"], Value::Null);
    let asked = site.audit().await.of(User::ENGINE).only(|event| event.kind == "Lease");
    assert!(asked.0.is_empty(), "{asked:#?}");
    // Elsewhere, under the same name.
    let elsewhere = ControlPlane::shared().namespace("claims").await.unwrap();
    let done = run(&["--claim-namespace", &elsewhere]);
    assert_eq!(done["claim"]["lease"], format!("{elsewhere}/tidegate-{}", site.namespace).as_str(), "{done}");
    assert_eq!(lease(&site).await, Value::Null);
}
