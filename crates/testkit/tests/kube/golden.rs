//! The golden operations on a real API server. The following must match those on the simulated cluster: the
//! order of writes in the audit log, the creations and deletions of each object, the remaining objects, and
//! the result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{SimConfig, Verb};
use tidegate_cluster::{ApplyRequest, Cluster as _, WriteMode};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Object, OperationId, Phase};
use tidegate_testkit::kube::suite::Test;
use tidegate_testkit::kube::{AuditEvent, ControlPlane, User};
use tidegate_testkit::process::World;
use tidegate_testkit::scenario::{self, Scenario, SyncSpec};
use tidegate_testkit::witness::{ExecutedWrite, Write, order_writes};
use uuid::Uuid;

use crate::engine::Bench;

/// Compared results.
#[derive(Debug, PartialEq)]
struct Outcome {
    order: Vec<String>,
    counts: BTreeMap<String, usize>,
    remaining: BTreeSet<String>,
    phase: String,
    message: String,
    results: BTreeSet<String>,
}

/// Scenarios in which two objects of a wave make progress at the same time, so that their order on a real cluster varies.
const CONCURRENT_WRITES: [&str; 3] = ["hook-tried-again", "dependencies", "dependency-graph"];

/// Returns a test for each golden operation.
pub fn tests() -> Vec<Test> {
    let name = |scenario: &Scenario| format!("golden::{}", scenario.name);
    scenario::all().into_iter().map(|one| Test::new(name(&one), move || compare(one))).collect()
}

/// Runs a scenario on both clusters, and compares the results.
pub async fn compare(scenario: Scenario) {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, scenario.name).await;
    let scenario = adapt_scenario(scenario, &bench.namespace);
    let expected = {
        let (scenario, namespace) = (scenario.clone(), bench.namespace.clone());
        tokio::task::spawn_blocking(move || run_simulated(&scenario, &namespace)).await.unwrap()
    };
    for sync in &scenario.setup_syncs {
        bench.run(sync).await;
    }
    let (id, view) = bench.run_with(&scenario.sync, &mut scenario.actions.clone(), async |_, _| {}).await;
    let writes = bench.writes(id).await;
    let done: Vec<ExecutedWrite> = writes.0.iter().map(completed_write).collect();
    let raw: Vec<&str> = writes.0.iter().map(|event| event.name.as_str()).collect();
    for (_, chain) in CHAINS.iter().filter(|(name, _)| *name == scenario.name) {
        let places: Vec<_> = chain.iter().map(|name| raw.iter().position(|known| known == name)).collect();
        assert!(places.is_sorted() && places[0].is_some(), "{chain:?} in {raw:?}");
    }
    let mut found = outcome(&done, remaining_objects(control, &bench.namespace).await, &view);
    let mut expected = expected;
    if CONCURRENT_WRITES.contains(&scenario.name) {
        found.order.sort();
        expected.order.sort();
    }
    assert_eq!(view.phase, scenario.expected_phase, "{}\n{:#?}", view.message, view.resources);
    assert_eq!(found, expected, "left is the real cluster, right the simulated one");
}

/// Adapts the waits to a busy machine, and makes the names unique.
fn adapt_scenario(mut scenario: Scenario, namespace: &str) -> Scenario {
    let hurry = |sync: &mut SyncSpec| {
        for (from, to) in [
            ("\"90s\"", "\"10s\"".to_owned()),
            ("\"1m\"", "\"10s\"".to_owned()),
            ("\"30s\"", "\"2s\"".to_owned()),
            ("\"5m\"", "\"30s\"".to_owned()),
            ("name: store\n", format!("name: {namespace}-store\n")),
            ("namespace: store\n", format!("namespace: {namespace}-store\n")),
        ] {
            sync.manifests = sync.manifests.replace(from, &to);
        }
        sync.request.namespace = match sync.request.namespace.as_str() {
            "default" => namespace.to_owned(),
            other => format!("{namespace}-{other}"),
        };
        // The application's name must be unique, because its objects are searched in the whole cluster.
        sync.request.application = namespace.to_owned();
        if sync.request.deadline.is_some() {
            sync.request.deadline = Some(Duration::from_secs(20));
        }
    };
    scenario.setup_syncs.iter_mut().for_each(hurry);
    hurry(&mut scenario.sync);
    if scenario.name == "degraded" {
        // A Deployment becomes Degraded after its progress deadline, which is ten minutes by default.
        let (from, to) = ("  replicas: 1\n", "  replicas: 1\n  progressDeadlineSeconds: 2\n");
        scenario.sync.manifests = scenario.sync.manifests.replace(from, to);
    }
    scenario
}

fn run_simulated(scenario: &Scenario, namespace: &str) -> Outcome {
    let mut world = World::new(SimConfig::default());
    let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let place = Object::try_from(place).unwrap();
    let place =
        ApplyRequest { validate: false, ..ApplyRequest::new(place, WriteMode::Replace { recreate: false }) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(world.cluster.apply(place)).unwrap();
    let (view, _) = world.run_scenario(scenario);
    let id = OperationId(Uuid::from_u128(world.operation_number()));
    let audit = world.cluster.audit();
    let own =
        audit.iter().filter(|entry| entry.operation_id == Some(id) && !entry.dry_run && entry.code < 300);
    let done: Vec<ExecutedWrite> = own.map(ExecutedWrite::from).collect();
    let left = world.cluster.objects();
    let left = left
        .iter()
        .filter(|object| object.namespace() == namespace)
        .filter_map(|object| object_name(object.as_value()));
    outcome(&done, left.collect(), &view)
}

/// Objects that are written in this order: those in different waves, or with dependencies. For consecutive deletions, the
/// comparison can't tell whether the objects belong to the same wave, with concurrent deletions, or to the next one.
const CHAINS: [(&str, &[&str]); 9] = [
    ("prune", &["old-3", "old-2", "new", "old-1"]),
    ("prune-confirm", &["old-3", "old-2", "new", "old-1"]),
    ("dependencies", &["z-database", "settings", "api", "smoke", "last"]),
    ("dependencies", &["z-database", "migrate", "api"]),
    ("dependencies-pruned", &["last", "api", "z-database"]),
    ("dependency-graph", &["database", "migrate", "api", "web", "smoke-test"]),
    ("dependency-graph", &["credentials", "search", "indexer"]),
    ("dependency-graph", &["queue", "worker"]),
    ("dependency-graph", &["settings", "api"]),
];

/// Converts a write from the API server's audit log.
fn completed_write(event: &AuditEvent) -> ExecutedWrite {
    let verb = match event.verb.as_str() {
        "create" => Verb::Create,
        "update" => Verb::Update,
        "delete" => Verb::Delete,
        // Only server-side apply has this parameter.
        "patch" if event.uri.contains("force=") => Verb::Apply,
        "patch" => Verb::Patch,
        other => panic!("unknown engine verb {other}"),
    };
    ExecutedWrite {
        verb,
        is_created: event.code == 201,
        kind: event.kind.clone(),
        // For a namespace, the server reports the namespace itself as its namespace.
        object: format!("{}/{}", if event.kind == "Namespace" { "" } else { &event.namespace }, event.name),
    }
}

/// Kinds to compare at the end. Kinds created by controllers are omitted.
const KINDS: [(&str, &str); 4] = [
    ("/api/v1", "configmaps"),
    ("/api/v1", "services"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/batch/v1", "jobs"),
];

async fn remaining_objects(control: &ControlPlane, namespace: &str) -> BTreeSet<String> {
    let observer = control.client(User::OBSERVER);
    let mut left = BTreeSet::new();
    for (root, plural) in KINDS {
        let mut list = observer.get(&format!("{root}/namespaces/{namespace}/{plural}")).await.unwrap();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        for item in list["items"].as_array_mut().unwrap() {
            item["kind"] = kind.clone().into();
            left.extend(object_name(item));
        }
    }
    left
}

fn object_name(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str().unwrap();
    let known = ["ConfigMap", "Service", "Deployment", "Job"].contains(&kind);
    // An object that is being deleted at the end disappears a moment later.
    let stays = !object["metadata"]["deletionTimestamp"].is_string();
    (known && stays).then(|| format!("{kind} {}", strip_times(object["metadata"]["name"].as_str().unwrap())))
}

fn outcome(done: &[ExecutedWrite], remaining: BTreeSet<String>, view: &OperationView) -> Outcome {
    let mut counts = BTreeMap::new();
    for write in done.iter().filter(|write| write.is_created || write.verb == Verb::Delete) {
        let what = if write.is_created { "created" } else { "deleted" };
        *counts.entry(format!("{what} {} {}", write.kind, strip_times(&write.object))).or_insert(0) += 1;
    }
    let results = view.resources.iter().map(|result| {
        let (status, phase) = (&result.status, &result.hook_phase);
        strip_times(&format!("{} {} {} {status:?} {phase:?}", result.kind, result.name, result.sync_phase))
    });
    let mut writes = order_writes(done);
    writes.chunk_by_mut(|one, other| are_concurrent_hooks(one, other, view)).for_each(<[Write]>::sort);
    let mut order: Vec<String> = writes
        .iter()
        .map(|write| format!("{} {} {}", write.verb, write.kind, strip_times(&write.object)))
        .collect();
    // Deletions in the same wave are concurrent, whatever their kind.
    let same = |one: &String, other: &String| one.starts_with("delete ") && other.starts_with("delete ");
    order.chunk_by_mut(same).for_each(<[String]>::sort);
    Outcome {
        order,
        counts,
        remaining,
        phase: view.phase.to_string(),
        message: strip_pods(&strip_times(&view.message)),
        results: results.collect(),
    }
}

/// Returns true if both writes create or start the Jobs of hooks in the same wave. The hooks of a wave are
/// concurrent, so one may start before the next is created.
fn are_concurrent_hooks(one: &Write, other: &Write, view: &OperationView) -> bool {
    let waves = |write: &Write| -> BTreeSet<(Phase, i64)> {
        let is_written = write.kind == "Job" && ["create", "patch"].contains(&write.verb);
        let results = view.resources.iter().filter(|result| {
            is_written
                && result.kind == "Job"
                && format!("{}/{}", result.namespace, result.name) == write.object
        });
        results.map(|result| (result.sync_phase, result.wave)).collect()
    };
    !waves(one).is_empty() && waves(one) == waves(other)
}

/// Removes details about failed pods, which have random names: `: migrate-zl6zq has failed (exit 1)`.
fn strip_pods(text: &str) -> String {
    let mut plain = text.to_owned();
    while let Some(exit) = plain.find(" (exit ") {
        let start = plain[..exit].rfind(": ").unwrap();
        let end = exit + plain[exit..].find(')').unwrap() + 1;
        plain.replace_range(start..end, "");
    }
    plain
}

/// Removes the times in generated names.
fn strip_times(text: &str) -> String {
    let mut plain = String::new();
    let mut digits = String::new();
    for sign in text.chars().chain(['\n']) {
        if sign.is_ascii_digit() {
            digits.push(sign);
            continue;
        }
        plain.push_str(if digits.len() > 8 { "<time>" } else { &digits });
        digits.clear();
        plain.push(sign);
    }
    plain.trim_end().to_owned()
}
