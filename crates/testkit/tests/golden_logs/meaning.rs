//! What the hand-written operations of the layouts since the second say, spelled out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_executor::{Engine, RuntimeClock};
use tidegate_lifecycle::operation::{ClaimStanding, OperationView, explain, view};
use tidegate_model::{Cascade, Destination, LogRecord as _, OperationId, OperationPhase, Override};
use tidegate_oplog::Inventories as _;
use tidegate_testkit::process::START;
use tidegate_testkit::recorded::Recorded as _;
use uuid::Uuid;

use crate::kit::{Log, folded, golden, scratch, state, without_new_fields};
use crate::words::{at, holder, id};
use crate::write::PLANNED;

const LAYOUT: &str = "v2";

fn facts(log: &Log, id: OperationId) -> Vec<Value> {
    log.facts(id).unwrap().into_iter().map(|fact| serde_json::to_value(fact).unwrap()).collect()
}

fn known_facts(layout: &str) -> BTreeMap<OperationId, Vec<Value>> {
    let text = std::fs::read(golden(&format!("{layout}-facts.json"))).unwrap();
    let known: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&text).unwrap();
    known.into_iter().map(|(id, facts)| (id.parse().unwrap(), facts)).collect()
}

#[test]
fn every_field_of_every_fact_is_read() {
    // In the layout of today a fact has its number of today; those of the second were 3 to 34, of the third to 36, of the
    // fourth to 37, of the fifth to 40, of the sixth to 41, of the seventh to 42, of the eighth to 43.
    let layouts =
        [(LAYOUT, 32), ("v3", 34), ("v4", 35), ("v5", 38), ("v6", 39), ("v7", 40), ("v8", 40), ("v9", 41)];
    for (layout, number) in layouts {
        let (_scratch, log) = scratch(layout);
        let mut kinds = BTreeSet::new();
        for (id, known) in known_facts(layout) {
            kinds.extend(log.facts(id).unwrap().iter().map(|fact| fact.kind()));
            let (found, known) = (Value::Array(facts(&log, id)), Value::Array(known));
            assert_eq!(without_new_fields(&found, &known), known, "{layout}, {id}");
        }
        assert_eq!(kinds.len(), number, "{layout}: {kinds:?}");
    }
}

/// Some of it once more, by hand: the table above was written by a program.
#[test]
fn what_was_asked_and_planned_in_the_second_layout_is_read() {
    let (_scratch, log) = scratch(LAYOUT);
    let everything = facts(&log, id(1));
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
    let plan = everything.iter().find_map(|fact| fact.pointer("/Planned/plan")).unwrap();
    for (field, value) in [
        ("/tasks/1/hook/runner", json!("pager")),
        ("/tasks/3/options/awaits_kind", json!(true)),
        ("/tasks/4/options/found_elsewhere", json!(true)),
        ("/tasks/4/options/already_deleting", json!(true)),
        ("/tasks/4/options/take_over", json!("kubectl-client-side-apply")),
        ("/tasks/4/live/uid", json!("live-old")),
        ("/tasks/6/images", json!(["api:2", "proxy:7"])),
        ("/tasks/6/health_judge", json!("slow-starter")),
        ("/waves/1/gates", json!(["night-shift"])),
        ("/waves/1/timeout/secs", json!(600)),
        ("/warnings/0/code", json!("unknown-hook-type")),
    ] {
        assert_eq!(plan.pointer(field), Some(&value), "{field}");
    }
}

fn seen(log: &Log, number: u128) -> OperationView {
    view(&state(log, id(number))).unwrap()
}

#[test]
fn operations_of_the_second_layout_stand_where_they_stood() {
    use ClaimStanding::{Awaited, Held, Lost, Refused, Released, Unavailable};
    use OperationPhase::{Error, Failed, Running, Succeeded};
    let (_scratch, log) = scratch(LAYOUT);
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
        let view = seen(&log, number);
        assert_eq!((view.phase, view.retry_count), (phase, retries), "{number}");
        assert_eq!(view.claim.map(|claim| claim.state), claim, "{number}");
    }
    assert_eq!(seen(&log, 4).claim.unwrap().holder, Some(holder()));
    let held = seen(&log, 5).claim.unwrap();
    assert_eq!((held.lease.as_deref(), held.epoch), (Some("claims/tidegate-shop"), Some(12)));
    assert_eq!(seen(&log, 9).claim.unwrap().reason.as_deref(), Some("leases is forbidden"));
    assert_eq!(seen(&log, 5).paused_by.as_deref(), Some("ann"));
}

fn results_in(log: &Log, number: u128) -> Vec<String> {
    let line = |result: &tidegate_model::ResourceResult| {
        let value = serde_json::to_value(result).unwrap();
        let word = |field: &str| value[field].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", word("name"), word("status"), word("hookPhase"), word("message"))
    };
    seen(log, number).resources.iter().map(line).collect()
}

#[test]
fn results_of_the_third_layout_are_what_they_were() {
    let (_scratch, log) = scratch("v3");
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
    let facts = log.facts(id(11)).unwrap();
    let state = folded(facts.into_iter().take(10).collect());
    let why = explain(&state, at(20)).to_string();
    assert!(why.contains("(deletion requested; waits for finalizer example.com/guard)"), "{why}");
}

#[test]
fn results_of_the_fifth_layout_are_what_they_were() {
    let (_scratch, log) = scratch("v5");
    assert_eq!(
        results_in(&log, 13),
        ["settings Synced Succeeded applied 0", "api Synced Succeeded applied 1"]
    );
    let facts = |count| folded(log.facts(id(13)).unwrap().into_iter().take(count).collect());
    let (lost, anew) = (facts(14), facts(18));
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
fn results_of_the_sixth_layout_are_what_they_were() {
    let (_scratch, log) = scratch("v6");
    assert_eq!(results_in(&log, 14), ["settings Synced Succeeded applied 0"]);
    let state = folded(log.facts(id(14)).unwrap().into_iter().take(6).collect());
    let why = explain(&state, at(20)).to_string();
    assert!(why.contains("settings (deletion requested; waits for finalizer example.com/guard)"), "{why}");
}

#[test]
fn results_of_the_seventh_layout_are_what_they_were() {
    let (_scratch, log) = scratch("v7");
    assert_eq!(results_in(&log, 15), ["api Synced Succeeded well"]);
    let rules = seen(&log, 15).health_rules.unwrap();
    assert_eq!((rules.digest.as_str(), rules.before.as_deref()), ("777777777777", Some("0f0f0f0f0f0f")));
    let why = explain(&state(&log, id(15)), at(20)).to_string();
    assert!(why.contains(&format!("its health rules changed at {}, from 0f0f0f0f0f0f", at(9))), "{why}");
}

#[test]
fn results_of_the_eighth_layout_are_what_they_were() {
    let (_scratch, log) = scratch("v8");
    assert_eq!(
        results_in(&log, 16),
        [
            "drain Synced Succeeded done",
            "later Pruned Succeeded pruned",
            "earlier Pruned Succeeded pruned",
            "report Synced Succeeded done",
        ]
    );
    assert_eq!(seen(&log, 16).deletion, Some(Cascade::Background));
    assert_eq!(seen(&log, 15).deletion, None);
    let asked = facts(&log, id(16))[0]["Accepted"]["request"]["deletion"].clone();
    assert_eq!(asked, json!("background"));
    // Before its objects go, and while they do.
    let state = |count| folded(log.facts(id(16)).unwrap().into_iter().take(count).collect());
    assert!(explain(&state(8), at(20)).to_string().contains("wave 1 of 4 (PreDelete, wave 0)"));
    assert_eq!(state(15).message(), "waiting for deletion of /ConfigMap/later");
}

#[test]
fn results_of_the_ninth_layout_are_what_they_were() {
    let (_scratch, log) = scratch("v9");
    assert_eq!(
        results_in(&log, 17),
        [
            "backup Skipped Succeeded skipped by ann (it takes too long); it was running",
            "done MarkedDone Succeeded marked as done by ann (is there already); not done",
            "refused Synced Succeeded applied 1",
            "slow Synced Succeeded applied 2",
        ]
    );
    let retried = seen(&log, 17).resources[2].overridden.clone().unwrap();
    assert_eq!((retried.what, retried.by.as_str(), retried.retries), (Override::Retry, "ann", 1));
    let state = folded(log.facts(id(17)).unwrap().into_iter().take(11).collect());
    let why = explain(&state, at(20)).to_string();
    assert!(why.contains("skipped by ann (it takes too long): hook Job store/backup"), "{why}");
}

/// Field by field: what is shown of an operation is not all that it goes on by. The layouts before told less of namespaces.
#[test]
fn snapshots_of_the_later_layouts_are_what_their_facts_make() {
    for layout in ["v5", "v6", "v7", "v8", "v9"] {
        let (_scratch, log) = scratch(layout);
        let mut compared = 0;
        for summary in log.summaries().unwrap() {
            let loaded = log.load(summary.operation).unwrap();
            let Some((after, snapshot)) = loaded.snapshot else { continue };
            let facts = log.facts(summary.operation).unwrap();
            let covered = usize::try_from(after).unwrap();
            assert_eq!(snapshot, folded(facts.into_iter().take(covered).collect()), "{layout}: {summary:?}");
            compared += 1;
        }
        assert!(compared >= 15, "{layout}: {compared}");
    }
}

#[test]
fn results_of_the_second_layout_are_what_they_were() {
    let (_scratch, log) = scratch(LAYOUT);
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
    let view = seen(&log, 1);
    let warned = |name: &str| &view.resources.iter().find(|result| result.name == name).unwrap().warnings;
    assert_eq!(warned("api"), &["apps/v1 is old", "no probes"]);
    assert!(warned("backup").is_empty(), "that was in the attempt that failed");
    assert_eq!(view.warnings[0].message, "PreSnyc is no hook type");
}

#[test]
fn what_is_awaited_in_the_second_layout_is_told() {
    let (_scratch, log) = scratch(LAYOUT);
    let why = |number| explain(&state(&log, id(number)), at(20)).to_string();
    let holder = holder();
    assert_eq!(
        why(4),
        format!(
            "waiting for the claim: waiting 15 s for {holder} (it has the claim on application shop); deadline in 59 min 40 s"
        )
    );
    let place = why(5);
    for words in ["hook Job store/backup", &id(99).to_string(), "paused by ann for 9 s (waiting for cat)"] {
        assert!(place.contains(words), "{words}: {place}");
    }
}

#[test]
fn inventories_of_the_second_layout_are_read() {
    let (_scratch, log) = scratch(LAYOUT);
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

/// Its plan, its manifests and everything it was asked are read from the log, and nothing else.
#[tokio::test(start_paused = true)]
async fn an_operation_of_the_second_layout_is_gone_on_with() {
    let (_scratch, log) = scratch(LAYOUT);
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
