//! Progressive syncs with steps, failures, manual steps, and concurrent commits.

use serde_json::{Value, json};

use super::order::{self, Span, assert_steps};
use super::{FIVE, Fleet, select_env, select_with_limit};

const DEV: &[&str] = &["dev-a", "dev-b"];
const QA: &[&str] = &["qa-a"];
const PROD: &[&str] = &["prod-a", "prod-b"];
const STEPS: [(&[&str], usize); 3] = [(DEV, 2), (QA, 1), (PROD, 1)];

fn strategy() -> Value {
    json!({
        "type": "RollingSync", "deletionOrder": "Reverse",
        "rollingSync": {"steps": [select_env("dev"), select_env("qa"), select_with_limit("prod", 1)]},
    })
}

/// Checks that each operation of each member ran its hook once.
async fn assert_hooks_ran_once(fleet: &Fleet, operations: &[(&'static str, usize)]) {
    for (name, number) in operations {
        assert_eq!(fleet.site.creations("Job", &format!("work-{name}")).await, *number, "{name}");
    }
}

async fn spans_of(fleet: &Fleet, members: &[&str]) -> Vec<Span> {
    let mut spans = order::syncs(fleet).await;
    spans.retain(|span| members.contains(&span.member.as_str()));
    spans
}

/// Checks that `kubectl describe` shows each Event once, regardless of the process that wrote it.
async fn assert_described(fleet: &Fleet, set: &Value, expected: &[&str]) {
    let events = format!("/api/v1/namespaces/{}/events", fleet.site.namespace);
    let statuses = |list: &Value| -> Vec<String> {
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let of_it = all.iter().filter(|one| one["involvedObject"]["uid"] == set["metadata"]["uid"]);
        let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
        of_it.map(|one| format!("{} {}", text(one, "reason"), text(one, "message"))).collect()
    };
    let count = |list: &Value, words: &str| statuses(list).iter().filter(|one| *one == words).count();
    let are_there = |list: &Value| expected.iter().all(|words| count(list, words) > 0);
    let list = fleet.site.observer().wait_until(&events, |list| list.is_some_and(are_there)).await.unwrap();
    assert!(expected.iter().all(|words| count(&list, words) == 1), "{:?}", statuses(&list));
}

pub async fn an_appset_is_rolled_out_and_deleted_in_order_despite_kills() {
    let mut fleet = Fleet::new(FIVE).await;
    let commit = fleet.deploy(1, &[]);
    let service = fleet.serve();
    fleet.create(strategy(), json!({})).await;
    let healthy = |set: &Value| {
        let all = set["status"]["applicationStatus"].as_array().cloned().unwrap_or_default();
        all.iter().filter(|one| one["status"] == "Healthy").count()
    };
    fleet.wait_until(|set| healthy(set) >= 2).await;
    service.signal("KILL");
    service.finish();
    let service = fleet.serve();
    let done = fleet.wait_until_rolled_out(&commit).await;
    assert_eq!(done["status"]["applicationStatus"][0]["application"], "dev-a");
    assert_eq!(done["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
    assert_steps(&order::syncs(&fleet).await, &STEPS, "rollout");
    for (name, _) in FIVE {
        fleet.site.assert_created_once("Job", &format!("work-{name}"), name).await;
    }
    let steps = [
        "RolloutStarted 5 Applications in 3 steps",
        "StepOpened step 1 of 3 (env in (dev)): 2 Applications",
        "StepPassed step 1 of 3 (env in (dev)) is done",
        "StepPassed step 3 of 3 (env in (prod)) is done",
        "RolloutCompleted ApplicationSet Rollout has completed",
    ];
    assert_described(&fleet, &done, &steps).await;
    fleet.site.reset_audit();
    fleet.delete().await;
    let first = format!("/api/v1/namespaces/{}/configmaps/begin-prod-a", fleet.site.namespace);
    fleet.site.observer().wait_until(&first, |map| map.is_none()).await;
    service.signal("KILL");
    service.finish();
    let service = fleet.serve();
    assert_eq!(
        fleet.wait_until_gone().await,
        json!([]),
        "the ApplicationSet is deleted after its Applications"
    );
    let ends = ["DeletionStarted 5 Applications are deleted", "DeletionCompleted 5 Applications are gone"];
    assert_described(&fleet, &done, &ends).await;
    // The Applications are deleted one by one, in reverse order of the steps.
    assert_steps(&order::deletions(&fleet).await, &[(PROD, 1), (QA, 1), (DEV, 1)], "deletion");
    fleet.stop(service);
}

/// One member is fixed by a commit. The other only needs a retry.
pub async fn later_steps_wait_until_a_failed_member_is_fixed() {
    let fleet = Fleet::new(FIVE).await;
    let fails_once = json!({"sim.tidegate.dev/fail-times": "1"});
    let fails = json!({"sim.tidegate.dev/outcome": "fail"});
    fleet.deploy(1, &[("dev-b", fails), ("qa-a", fails_once.clone())]);
    let service = fleet.serve();
    fleet.create(strategy(), json!({})).await;
    let explanation = fleet.wait_until_explained("it failed");
    assert!(
        explanation.contains("Application dev-b") && explanation.contains("retry or skip it"),
        "{explanation}"
    );
    let has_failed = |set: &Value, name: &str| {
        let all = set["status"]["applicationStatus"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["application"] == name && one["message"].to_string().contains("failed"))
    };
    fleet.wait_until(|set| has_failed(set, "dev-b")).await;
    assert_eq!(spans_of(&fleet, &[QA, PROD].concat()).await, [], "later steps are not started");

    let mended = fleet.deploy(2, &[("qa-a", fails_once)]);
    fleet.refresh().await;
    let explanation = fleet.wait_until_explained("Application qa-a");
    assert!(!explanation.contains("Application dev-b"), "{explanation}");
    fleet.wait_until_explained("it failed");
    fleet.wait_until(|set| has_failed(set, "qa-a")).await;
    assert_eq!(spans_of(&fleet, PROD).await, []);
    let retry = ["appset", "retry", "fleet", "--app", "qa-a", "--reason", "the database was away"];
    fleet.site.run(&retry).expect_code(0);
    fleet.wait_until_rolled_out(&mended).await;
    assert_steps(&order::syncs(&fleet).await, &STEPS, "over both commits");
    for name in fleet.names() {
        assert_eq!(fleet.version(name).await, "2", "{name}");
    }
    fleet.stop(service);
    let operations = fleet.operations("two have failed", 2);
    assert_eq!(operations, [("dev-a", 2), ("dev-b", 2), ("qa-a", 2), ("prod-a", 1), ("prod-b", 1)]);
    assert_hooks_ran_once(&fleet, &operations).await;
}

/// A person must sync each member of the step with `maxUpdate: 0`, and approve the gate once.
pub async fn users_open_manual_steps() {
    let fleet = Fleet::new(FIVE).await;
    let commit = fleet.deploy(1, &[]);
    let service = fleet.serve();
    let mut steps = strategy();
    steps["rollingSync"]["steps"][1]["maxUpdate"] = json!(0);
    let gates = json!({"tidegate.dev/rollout": "steps: [{step: 3, gates: [approval]}]"});
    fleet.create(steps, gates).await;
    let explanation = fleet.wait_until_explained("maxUpdate is 0: sync it manually, or skip it");
    assert!(explanation.contains("Application qa-a"), "{explanation}");
    assert_eq!(spans_of(&fleet, &[QA, PROD].concat()).await, [], "it was not synced");
    let request = json!({"operation": {"initiatedBy": {"username": "jane"}, "sync": {}}});
    let path = crate::applications::path(&fleet.site);
    fleet.site.observer().patch(&format!("{path}/qa-a"), &request).await.unwrap();

    let explanation = fleet.wait_until_explained("step 3 needs approval");
    assert!(explanation.contains("`tidegate appset approve"), "{explanation}");
    assert_eq!(spans_of(&fleet, PROD).await, [], "there is no approval");
    fleet.site.run(&["appset", "approve", "fleet", "--reason", "checked the dashboards"]).expect_code(0);
    fleet.wait_until_rolled_out(&commit).await;
    assert_steps(&order::syncs(&fleet).await, &STEPS, "opened by people");
    fleet.stop(service);
    let operations = fleet.operations("by hand and by steps", 0);
    assert!(operations.iter().all(|(_, number)| *number == 1), "{operations:?}");
    assert_hooks_ran_once(&fleet, &operations).await;
}

/// Commits during the first step of a rollout. Returns when the commit is deployed everywhere.
async fn commit_during_rollout(policy: &str) -> Fleet {
    let fleet = Fleet::new(FIVE).await;
    let slowly = |name: &'static str| (name, json!({"sim.tidegate.dev/ready-after": "4s"}));
    fleet.deploy(1, &["dev-a", "dev-b"].map(slowly));
    let service = fleet.serve();
    let policy = json!({"tidegate.dev/rollout": format!("onNewTargets: {policy}")});
    fleet.create(strategy(), policy).await;
    // Waits for both members, because a sync that is superseded before its hook doesn't create one.
    for member in ["dev-a", "dev-b"] {
        let work = format!("/apis/batch/v1/namespaces/{}/jobs/work-{member}", fleet.site.namespace);
        fleet.site.observer().wait_until(&work, |job| job.is_some()).await;
    }
    let newer = fleet.deploy(2, &[]);
    fleet.refresh().await;
    fleet.wait_until_rolled_out(&newer).await;
    for name in fleet.names() {
        assert_eq!(fleet.version(name).await, "2", "{name}");
    }
    fleet.stop(service);
    fleet
}

/// Returns the first and the second sync of each member.
fn first_and_second_syncs(spans: Vec<Span>) -> (Vec<Span>, Vec<Span>) {
    let mut seen = Vec::new();
    spans.into_iter().partition(|span| {
        let is_first = !seen.contains(&span.member);
        seen.push(span.member.clone());
        is_first
    })
}

pub async fn a_newer_commit_waits_for_a_rollout_to_finish() {
    let fleet = commit_during_rollout("finish").await;
    let operations = fleet.operations("both commits go everywhere", 0);
    assert!(operations.iter().all(|(_, number)| *number == 2), "{operations:?}");
    assert_hooks_ran_once(&fleet, &operations).await;
    let (first, second) = first_and_second_syncs(order::syncs(&fleet).await);
    assert_steps(&first, &STEPS, "to the first commit");
    assert_steps(&second, &STEPS, "to the second commit");
    let over = first.iter().map(|span| &span.ended_at).max().unwrap();
    assert!(second.iter().all(|span| span.started_at > *over), "{first:#?}, then {second:#?}");
}

pub async fn a_newer_commit_supersedes_a_rollout() {
    let fleet = commit_during_rollout("supersede").await;
    let spans = order::syncs(&fleet).await;
    assert_steps(&spans, &STEPS, "over both commits");
    let number =
        |members: &[&str]| spans.iter().filter(|span| members.contains(&span.member.as_str())).count();
    assert_eq!(
        (number(DEV), number(QA), number(PROD)),
        (4, 1, 2),
        "the first commit stays in its step: {spans:#?}"
    );
    for (name, _) in FIVE {
        let hooks = spans.iter().filter(|span| span.member == *name).count();
        assert_eq!(fleet.site.creations("Job", &format!("work-{name}")).await, hooks, "{name}");
    }
}
