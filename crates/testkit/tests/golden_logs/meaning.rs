//! Expected meaning of the hand-written operations, written by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_executor::{Engine, RuntimeClock};
use tidegate_lifecycle::operation::{
    ClaimStatus, Command, OperationEvent, OperationView, TaskCommand, explain, outstanding, view,
};
use tidegate_model::{Cascade, Destination, LogRecord as _, OperationId, OperationPhase, Override, TaskId};
use tidegate_oplog::Inventories as _;
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::process::START;
use uuid::Uuid;

use crate::GOLDEN_LOGS;
use crate::event_builders::{at, holder, id};
use crate::golden_log::{Log, golden_path, load_state, open_copy, replay_events, without_new_fields};
use crate::write::PLANNED;

const LAYOUT: &str = "layout-1";

fn events(log: &Log, id: OperationId) -> Vec<Value> {
    log.recorded_events(id).unwrap().into_iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn stored_events(layout: &str) -> BTreeMap<OperationId, Vec<Value>> {
    let text = std::fs::read(golden_path(&format!("{layout}-facts.json"))).unwrap();
    let known: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&text).unwrap();
    known.into_iter().map(|(id, events)| (id.parse().unwrap(), events)).collect()
}

#[test]
fn every_field_of_every_event_is_read() {
    let mut kinds = BTreeSet::new();
    for (layout, _) in GOLDEN_LOGS {
        let (_scratch, log) = open_copy(layout);
        for (id, known) in stored_events(layout) {
            kinds.extend(log.recorded_events(id).unwrap().iter().map(|event| event.kind()));
            let (found, known) = (Value::Array(events(&log, id)), Value::Array(known));
            assert_eq!(without_new_fields(&found, &known), known, "{layout}, {id}");
        }
    }
    let written = (1..=OperationEvent::HIGHEST_KIND).filter(|kind| !OperationEvent::is_earlier(*kind));
    assert!(written.eq(kinds.iter().copied()), "{kinds:?}");
}

/// A program wrote the expected values of the previous test, so the values here are written by hand.
#[test]
fn requests_and_plans_are_read() {
    let (_scratch, log) = open_copy(LAYOUT);
    let everything = events(&log, id(1));
    let request = &everything[0]["Accepted"]["request"];
    for (field, value) in [
        ("/claim", json!({"namespace": "claims", "if_taken": "Queue"})),
        ("/options/adopt", json!(true)),
        ("/options/prune", json!(true)),
        ("/options/namespace_labels/0", json!(["team", "shop"])),
        ("/deadline/secs", json!(3600)),
        ("/retry/backoff/factor", json!(3)),
        ("/wait", json!("Healthy")),
        ("/tracking/label", json!("example.com/app")),
        ("/tracking/installation", json!("second")),
        ("/destination/Kubernetes/uid", json!("5d2c4b1e")),
        ("/destination/Kubernetes/impersonate/user", json!("robot")),
    ] {
        assert_eq!(request.pointer(field), Some(&value), "{field}");
    }
    let plan = everything.iter().find_map(|event| event.pointer("/Planned/plan")).unwrap();
    for (field, value) in [
        ("/tasks/1/hook/runner", json!("pager")),
        ("/tasks/3/options/awaits_kind", json!(true)),
        ("/tasks/4/options/found_elsewhere", json!(true)),
        ("/tasks/4/options/already_deleting", json!(true)),
        ("/tasks/4/options/take_over", json!("kubectl-client-side-apply")),
        ("/tasks/4/live/uid", json!("live-old")),
        ("/tasks/6/images", json!(["api:2", "proxy:7"])),
        ("/tasks/6/health_judge", json!("slow-starter")),
        ("/waves/1/gates", json!(["approval", "night-shift"])),
        ("/waves/1/timeout/secs", json!(600)),
        ("/warnings/0/code", json!("unknown-hook-type")),
    ] {
        assert_eq!(plan.pointer(field), Some(&value), "{field}");
    }
}

fn operation_view(log: &Log, number: u128) -> OperationView {
    view(&load_state(log, id(number))).unwrap()
}

#[test]
fn operations_keep_their_status() {
    use ClaimStatus::{Awaited, Held, Lost, Refused, Released, Unavailable};
    use OperationPhase::{Error, Failed, Running, Succeeded};
    let (_scratch, log) = open_copy(LAYOUT);
    for (number, phase, claim, retries) in [
        (1, Succeeded, Some(Released), 1),
        (2, Error, None, 1),
        (3, Failed, None, 0),
        (4, Running, Some(Awaited), 0),
        (5, Running, Some(Held), 0),
        (6, Error, Some(Refused), 0),
        (7, Error, Some(Lost), 0),
        (8, Failed, Some(Released), 0),
        (9, Failed, Some(Unavailable), 0),
        (10, Failed, None, 0),
    ] {
        let view = operation_view(&log, number);
        assert_eq!((view.phase, view.retry_count), (phase, retries), "{number}");
        assert_eq!(view.claim.map(|claim| claim.state), claim, "{number}");
    }
    assert_eq!(operation_view(&log, 4).claim.unwrap().holder, Some(holder()));
    let held = operation_view(&log, 5).claim.unwrap();
    assert_eq!((held.lease.as_deref(), held.epoch), (Some("claims/tidegate-shop"), Some(12)));
    assert_eq!(operation_view(&log, 9).claim.unwrap().reason.as_deref(), Some("leases is forbidden"));
    assert_eq!(operation_view(&log, 5).paused_by.as_deref(), Some("ann"));
}

fn results_in(log: &Log, number: u128) -> Vec<String> {
    let line = |result: &tidegate_model::ResourceResult| {
        let value = serde_json::to_value(result).unwrap();
        let word = |field: &str| value[field].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", word("name"), word("status"), word("hookPhase"), word("message"))
    };
    operation_view(log, number).resources.iter().map(line).collect()
}

#[test]
fn results_of_prunes_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    assert_eq!(
        results_in(&log, 11),
        [
            "old Pruned Succeeded pruned",
            "older Pruned Succeeded pruned",
            "settings Synced Succeeded applied 2",
        ]
    );
    assert_eq!(
        results_in(&log, 12),
        ["old - Running deletion requested", "api Synced Failed namespace store is being deleted"]
    );
    let events = log.recorded_events(id(11)).unwrap();
    let state = replay_events(events.into_iter().take(10).collect());
    let reason = explain(&state, at(20)).to_string();
    assert!(reason.contains("(deletion requested; waits for finalizer example.com/guard)"), "{reason}");
}

#[test]
fn results_after_a_lost_namespace_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    assert_eq!(
        results_in(&log, 13),
        ["settings Synced Succeeded applied 0", "api Synced Succeeded applied 1"]
    );
    let events =
        |count| replay_events(log.recorded_events(id(13)).unwrap().into_iter().take(count).collect());
    let (lost, anew) = (events(14), events(18));
    let operation = lost.operation().unwrap();
    assert_eq!(operation.lost_namespace.as_deref(), Some("store"));
    assert_eq!(operation.seen_namespaces.get("store").unwrap().uid, "store-1");
    let operation = anew.operation().unwrap();
    assert_eq!(
        (operation.attempt, operation.seen_namespaces.get("store").unwrap().uid.as_str()),
        (2, "store-2")
    );
    assert_eq!(operation.lost_namespace, None);
}

#[test]
fn results_of_a_recreation_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    assert_eq!(results_in(&log, 14), ["settings Synced Succeeded applied 0"]);
    let state = replay_events(log.recorded_events(id(14)).unwrap().into_iter().take(6).collect());
    let reason = explain(&state, at(20)).to_string();
    assert!(
        reason.contains("settings (deletion requested; waits for finalizer example.com/guard)"),
        "{reason}"
    );
}

#[test]
fn results_after_changed_health_rules_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    assert_eq!(results_in(&log, 15), ["api Synced Succeeded well"]);
    let rules = operation_view(&log, 15).health_rules.unwrap();
    assert_eq!((rules.digest.as_str(), rules.before.as_deref()), ("777777777777", Some("0f0f0f0f0f0f")));
    let reason = explain(&load_state(&log, id(15)), at(20)).to_string();
    assert!(
        reason.contains(&format!("the operation's health rules changed at {}, from 0f0f0f0f0f0f", at(9))),
        "{reason}"
    );
}

#[test]
fn results_of_a_deletion_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    assert_eq!(
        results_in(&log, 16),
        [
            "drain Synced Succeeded done",
            "later Pruned Succeeded pruned",
            "earlier Pruned Succeeded pruned",
            "report Synced Succeeded done",
        ]
    );
    assert_eq!(operation_view(&log, 16).deletion, Some(Cascade::Background));
    assert_eq!(operation_view(&log, 15).deletion, None);
    let deletion = events(&log, id(16))[0]["Accepted"]["request"]["deletion"].clone();
    assert_eq!(deletion, json!("background"));
    // Compare the states before and during the deletion of the objects.
    let state = |count| replay_events(log.recorded_events(id(16)).unwrap().into_iter().take(count).collect());
    assert!(explain(&state(8), at(20)).to_string().contains("wave 1 of 4 (PreDelete, wave 0)"));
    assert_eq!(state(15).message(), "waiting for deletion of /ConfigMap/later");
}

#[test]
fn results_after_overrides_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    assert_eq!(
        results_in(&log, 17),
        [
            "backup Skipped Succeeded skipped by ann (it takes too long); it was running",
            "done MarkedDone Succeeded marked as done by ann (is there already); not done",
            "refused Synced Succeeded applied 1",
            "slow Synced Succeeded applied 2",
        ]
    );
    let retried = operation_view(&log, 17).resources[2].overridden.clone().unwrap();
    assert_eq!((retried.what, retried.by.as_str(), retried.retries), (Override::Retry, "ann", 1));
    let state = replay_events(log.recorded_events(id(17)).unwrap().into_iter().take(11).collect());
    let reason = explain(&state, at(20)).to_string();
    assert!(reason.contains("skipped by ann (it takes too long): hook Job store/backup"), "{reason}");
}

#[test]
fn results_of_a_start_in_two_steps_are_unchanged() {
    let (_scratch, log) = open_copy("layout-1-kind-42");
    assert_eq!(results_in(&log, 20), ["backup Synced Succeeded done"]);
    let state = replay_events(log.recorded_events(id(20)).unwrap().into_iter().take(7).collect());
    let start = TaskCommand::StartHook { uid: "uid-0".into() };
    let start = Command::Task { task: TaskId(0), attempt: 1, command: start };
    assert!(outstanding(&state, at(4)).commands.contains(&start));
}

#[test]
fn dependencies_are_read() {
    let (_scratch, log) = open_copy("layout-1-kind-43");
    assert_eq!(results_in(&log, 21), ["database Synced Succeeded applied 1", "api Synced Running applied 0"]);
    let commands = |count| {
        let events = log.recorded_events(id(21)).unwrap().into_iter().take(count).collect();
        outstanding(&replay_events(events), at(7)).commands
    };
    let apply = Command::Task { task: TaskId(0), attempt: 1, command: TaskCommand::Apply };
    assert!(commands(5).contains(&Command::Observe { task: TaskId(1) }) && !commands(5).contains(&apply));
    assert!(commands(6).contains(&apply));
}

/// Compares the states field by field, because views don't show everything.
#[test]
fn snapshots_match_their_events() {
    for (layout, minimum) in GOLDEN_LOGS {
        let (_scratch, log) = open_copy(layout);
        let mut compared = 0;
        for summary in log.summaries().unwrap() {
            let loaded = log.load(summary.operation).unwrap();
            let Some((after, snapshot)) = loaded.snapshot else { continue };
            let events = log.recorded_events(summary.operation).unwrap();
            let covered = usize::try_from(after).unwrap();
            assert_eq!(
                snapshot,
                replay_events(events.into_iter().take(covered).collect()),
                "{layout}: {summary:?}"
            );
            compared += 1;
        }
        assert!(compared >= minimum, "{layout}: {compared}");
    }
}

#[test]
fn results_of_syncs_are_unchanged() {
    let (_scratch, log) = open_copy(LAYOUT);
    let results = |number| results_in(&log, number);
    assert_eq!(
        results(1),
        [
            "notify Synced Succeeded paged",
            "backup Synced Succeeded backup done",
            "kept PruneSkipped Succeeded why kept",
            "old Pruned Succeeded pruned",
            "settings Synced Succeeded applied 2",
            "one Synced Succeeded looked well",
            "api Synced Succeeded applied 6",
            "smoke Synced Error failed to delete resource: denied",
        ]
    );
    assert_eq!(
        results(2),
        [
            "slow Synced Succeeded done",
            "api Synced Failed not healthy when the wave's deadline passed: 2 of 3 updated",
            "rescue Synced Failed Terminated",
        ]
    );
    assert_eq!(results(10), ["broken SyncFailed Failed denied by policy"]);
    let view = operation_view(&log, 1);
    let warned = |name: &str| &view.resources.iter().find(|result| result.name == name).unwrap().warnings;
    assert_eq!(warned("api"), &["apps/v1 is old", "no probes"]);
    assert!(warned("backup").is_empty(), "that was in the attempt that failed");
    assert_eq!(view.warnings[0].message, "PreSnyc is no hook type");
}

#[test]
fn awaited_objects_are_reported() {
    let (_scratch, log) = open_copy(LAYOUT);
    let reason = |number| explain(&load_state(&log, id(number)), at(20)).to_string();
    let holder = holder();
    assert_eq!(
        reason(4),
        format!(
            "waiting for the claim: waiting 15 s for {holder} (it holds the claim on application shop); deadline in 59 min 40 s"
        )
    );
    let place = reason(5);
    for text in ["hook Job store/backup", &id(99).to_string(), "paused by ann for 9 s (waiting for cat)"] {
        assert!(place.contains(text), "{text}: {place}");
    }
}

#[test]
fn inventories_are_read() {
    let (_scratch, log) = open_copy(LAYOUT);
    let known = log.inventory("https://10.0.0.1:6443 5d2c4b1e", "shop").unwrap().unwrap();
    let places: Vec<String> = known
        .places
        .iter()
        .map(|(gvk, namespace, name)| {
            format!("{}/{}/{} {namespace}/{name}", gvk.group, gvk.version, gvk.kind)
        })
        .collect();
    assert_eq!(places, ["apps/v1/Deployment store/adopted", "apps/v1/Deployment store/api"]);
    assert!(known.searched);
    let large = log.inventory("elsewhere", "interrupted").unwrap().unwrap();
    assert_eq!((large.places.len(), large.searched), (3_000, true));
}

/// The plan, the manifests and the request must be readable from the log alone.
#[tokio::test(start_paused = true)]
async fn an_interrupted_operation_is_resumed() {
    let (_scratch, log) = open_copy(LAYOUT);
    let clock = RuntimeClock::starting_at(START);
    let cluster = Arc::new(SimCluster::in_memory(SimConfig::default(), Clock::tokio(START)));
    let engine = Engine::builder(Arc::new(log))
        .cluster(Destination::Simulated, Arc::clone(&cluster) as Arc<dyn Cluster>)
        .clock(Arc::new(clock))
        .start()
        .await
        .unwrap();
    let id = OperationId(Uuid::from_u128(PLANNED));
    engine.resume(id).await.unwrap();
    let view = engine.wait(id).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let created: Vec<String> = cluster
        .audit()
        .into_iter()
        .filter(|entry| entry.code == 201 && !entry.dry_run)
        .map(|entry| entry.name)
        .collect();
    assert_eq!(
        created,
        ["check", "backup", "settings", "api", "migrate", "web", "smoke", "report"],
        "each once, in this order"
    );
}
