//! The golden operations on the real API server: the order of writes, read from its audit log, how often each object
//! was created and deleted, what is left, and how the operation ends, are those of the simulated cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{SimConfig, Verb};
use tidegate_cluster::{ApplyRequest, Cluster as _, WriteMode};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Object, OperationId};
use tidegate_testkit::crash::Points;
use tidegate_testkit::kube::suite::Test;
use tidegate_testkit::kube::{AuditEvent, ControlPlane, User};
use tidegate_testkit::process::{End, World};
use tidegate_testkit::scenario::{self, Scenario, Sync};
use tidegate_testkit::witness::{Done, order};
use uuid::Uuid;

use crate::engine::Bench;

/// What is compared.
#[derive(Debug, PartialEq)]
struct Outcome {
    order: Vec<String>,
    counts: BTreeMap<String, usize>,
    left: BTreeSet<String>,
    phase: String,
    message: String,
    results: BTreeSet<String>,
}

/// Two objects of a wave are at work at once here, and a real cluster says which of them is done first.
const SIDE_BY_SIDE: [&str; 1] = ["hook-tried-again"];

/// One test for each golden operation.
pub fn tests() -> Vec<Test> {
    let name = |scenario: &Scenario| format!("golden::{}", scenario.name);
    scenario::all().into_iter().map(|one| Test::new(name(&one), move || compare(one))).collect()
}

/// Plays a scenario on both clusters and compares.
pub async fn compare(scenario: Scenario) {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, scenario.name).await;
    let scenario = hurried(scenario, &bench.namespace);
    let expected = {
        let (scenario, namespace) = (scenario.clone(), bench.namespace.clone());
        tokio::task::spawn_blocking(move || simulated(&scenario, &namespace)).await.unwrap()
    };
    for sync in &scenario.before {
        bench.run(sync).await;
    }
    let (id, view) = bench.run_with(&scenario.sync, &mut scenario.script.clone(), async |_, _| {}).await;
    let writes = bench.writes(id).await;
    let done: Vec<Done> = writes.0.iter().map(done).collect();
    let raw: Vec<&str> = writes.0.iter().map(|event| event.name.as_str()).collect();
    for (_, chain) in WAVES.iter().filter(|(name, _)| *name == scenario.name) {
        let places: Vec<_> = chain.iter().map(|name| raw.iter().position(|known| known == name)).collect();
        assert!(places.is_sorted() && places[0].is_some(), "{chain:?} in {raw:?}");
    }
    let mut found = outcome(&done, left(control, &bench.namespace).await, &view);
    let mut expected = expected;
    if SIDE_BY_SIDE.contains(&scenario.name) {
        found.order.sort();
        expected.order.sort();
    }
    assert_eq!(view.phase, scenario.ends, "{}\n{:#?}", view.message, view.resources);
    assert_eq!(found, expected, "left is the real cluster, right the simulated one");
}

/// The same with waits that a test can afford and a busy machine can keep, and with names that no other test has.
fn hurried(mut scenario: Scenario, namespace: &str) -> Scenario {
    let hurry = |sync: &mut Sync| {
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
        // Objects are searched for in the whole cluster.
        sync.request.application = namespace.to_owned();
        if sync.request.deadline.is_some() {
            sync.request.deadline = Some(Duration::from_secs(20));
        }
    };
    scenario.before.iter_mut().for_each(hurry);
    hurry(&mut scenario.sync);
    if scenario.name == "degraded" {
        // A Deployment is degraded when its time is over, which is ten minutes unless it says otherwise.
        let (from, to) = ("  replicas: 1\n", "  replicas: 1\n  progressDeadlineSeconds: 2\n");
        scenario.sync.manifests = scenario.sync.manifests.replace(from, to);
    }
    scenario
}

fn simulated(scenario: &Scenario, namespace: &str) -> Outcome {
    let mut world = World::new(SimConfig::default());
    let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let place = Object::try_from(place).unwrap();
    let place =
        ApplyRequest { validate: false, ..ApplyRequest::new(place, WriteMode::Replace { recreate: false }) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(world.cluster.apply(place)).unwrap();
    for sync in &scenario.before {
        world.run(sync);
    }
    world.next_operation();
    let points = Points::dying_at(0);
    let End::Finished(view) = world.process(&scenario.sync, &mut scenario.script.clone(), &points) else {
        panic!("nobody killed it");
    };
    let id = OperationId(Uuid::from_u128(world.submitted()));
    let audit = world.cluster.audit();
    let own =
        audit.iter().filter(|entry| entry.operation_id == Some(id) && !entry.dry_run && entry.code < 300);
    let done: Vec<Done> = own.map(Done::from).collect();
    let left = world.cluster.objects();
    let left = left
        .iter()
        .filter(|object| object.namespace() == namespace)
        .filter_map(|object| named(object.as_value()));
    outcome(&done, left.collect(), &view)
}

/// Objects whose writes are in different waves, in their order: where deletions follow each other, the comparison
/// cannot tell those of one wave, which go out at once, from those of the next.
const WAVES: [(&str, &[&str]); 2] =
    [("prune", &["old-3", "old-2", "new", "old-1"]), ("prune-confirm", &["old-3", "old-2", "new", "old-1"])];

/// What the audit log of an API server says of a write.
fn done(event: &AuditEvent) -> Done {
    let verb = match event.verb.as_str() {
        "create" => Verb::Create,
        "update" => Verb::Update,
        "delete" => Verb::Delete,
        // Only server-side apply is forced or not.
        "patch" if event.uri.contains("force=") => Verb::Apply,
        "patch" => Verb::Patch,
        other => panic!("the engine does not {other}"),
    };
    Done {
        verb,
        created: event.code == 201,
        kind: event.kind.clone(),
        // The server names a namespace as its own namespace.
        object: format!("{}/{}", if event.kind == "Namespace" { "" } else { &event.namespace }, event.name),
    }
}

/// Kinds that are looked for at the end; those that controllers make are left out.
const KINDS: [(&str, &str); 4] = [
    ("/api/v1", "configmaps"),
    ("/api/v1", "services"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/batch/v1", "jobs"),
];

async fn left(control: &ControlPlane, namespace: &str) -> BTreeSet<String> {
    let observer = control.caller(User::OBSERVER);
    let mut left = BTreeSet::new();
    for (root, plural) in KINDS {
        let mut list = observer.get(&format!("{root}/namespaces/{namespace}/{plural}")).await.unwrap();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        for item in list["items"].as_array_mut().unwrap() {
            item["kind"] = kind.clone().into();
            left.extend(named(item));
        }
    }
    left
}

fn named(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str().unwrap();
    let known = ["ConfigMap", "Service", "Deployment", "Job"].contains(&kind);
    // What is being deleted at the end of the operation is gone a moment later.
    let stays = !object["metadata"]["deletionTimestamp"].is_string();
    (known && stays).then(|| format!("{kind} {}", plain(object["metadata"]["name"].as_str().unwrap())))
}

fn outcome(done: &[Done], left: BTreeSet<String>, view: &OperationView) -> Outcome {
    let mut counts = BTreeMap::new();
    for write in done.iter().filter(|write| write.created || write.verb == Verb::Delete) {
        let what = if write.created { "created" } else { "deleted" };
        *counts.entry(format!("{what} {} {}", write.kind, plain(&write.object))).or_insert(0) += 1;
    }
    let results = view.resources.iter().map(|result| {
        let (status, phase) = (&result.status, &result.hook_phase);
        plain(&format!("{} {} {} {status:?} {phase:?}", result.kind, result.name, result.sync_phase))
    });
    let mut order: Vec<String> = order(done)
        .iter()
        .map(|write| format!("{} {} {}", write.what, write.kind, plain(&write.object)))
        .collect();
    // Deletions of one wave go out at once, whatever their kinds.
    let same = |one: &String, other: &String| one.starts_with("delete ") && other.starts_with("delete ");
    order.chunk_by_mut(same).for_each(<[String]>::sort);
    Outcome {
        order,
        counts,
        left,
        phase: view.phase.to_string(),
        message: plain(&view.message),
        results: results.collect(),
    }
}

/// Without the times that are part of generated names.
fn plain(text: &str) -> String {
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
