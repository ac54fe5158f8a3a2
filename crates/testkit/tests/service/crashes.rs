//! A process dies at every append to the log and at every write to the cluster, before and after it: of one sync, of a rollout of
//! two steps, and of a deletion in each order. Whatever happens, the end is the same, and nothing is done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::{Cluster as _, DeleteRequest};
use tidegate_lifecycle::teardown;
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::{Lookup, TypedLog as _};
use tidegate_testkit::crash::Points;
use tidegate_testkit::effort;

use crate::approval::{self, Needing};
use crate::author::{self, ALONE, Fleet, HOME};
use crate::rules;
use crate::world::{Life, World, kind};

/// What has written nothing for so long is over.
const REST: Duration = Duration::from_secs(300);
/// Processes die at one point of so many, in the quick form and in the long one. `TIDEGATE_SERVICE_CRASH_EVERY=1`: at each.
const EVERY: (u64, u64) = (80, 4);

/// What is done while processes die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// An Application that is synced by itself is brought to another commit.
    Sync,
    /// The Applications of a set are made, and synced in two steps.
    Rollout,
    /// The set is deleted with its Applications, in this order.
    Delete(&'static str),
    /// An Application that needs an approval is brought to another commit when somebody has given one.
    Approval,
}

/// How it has ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Which Application was brought to which commit, and whether that was done, in order.
    deployed: Vec<(String, u64, bool)>,
    /// The Applications whose deletion was asked for, each once, in order.
    deleted: Vec<String>,
    /// What there is, without what differs from run to run.
    objects: BTreeMap<String, Value>,
    /// What is recorded of deletions of the set.
    recorded: Vec<String>,
}

/// Each deletion that is recorded: its order, its end, and what has become of each Application.
pub fn recorded(world: &World) -> Vec<String> {
    let all = world.log.find_as::<teardown::Fact>(Lookup::all().and_kind(StreamKind::TEARDOWN)).unwrap();
    let one = |id: StreamId| {
        let facts = world.log.facts_as::<teardown::Fact>(id).unwrap().facts;
        let evolved = facts.iter().try_fold(teardown::State::New, teardown::evolve);
        let view = teardown::view(&evolved.unwrap()).unwrap();
        let members = view.members.iter().map(|one| format!("{} {:?}", one.application, one.status));
        let mut members: Vec<String> = members.collect();
        members.sort();
        format!("{:?} {:?}: {}", view.order, view.end, members.join(", "))
    };
    all.into_iter().map(|entry| one(entry.stream)).collect()
}

/// What is to be recorded of the deletion of the set.
pub fn record_of(order: &str, status: &str) -> Vec<String> {
    vec![format!("{order} Some(Completed): a {status}, b {status}, c {status}")]
}

pub fn fleet(deletion: &'static str) -> Fleet {
    let members = [("a", 0), ("b", 1), ("c", 1)].map(|(name, step)| (name.to_owned(), step));
    Fleet { members: members.into(), max_update: vec![None, Some(json!(1))], rollout: None, deletion }
}

impl Scenario {
    /// What is there before anybody dies.
    fn prepare(self, world: &World) {
        author::commit(&world.repository(), ["a", "b", "c", ALONE], (1, None));
        let document = match self {
            Self::Sync => author::application(&world.repository(), ALONE, None),
            Self::Rollout => return,
            Self::Delete(order) => fleet(order).document(&world.repository()),
            Self::Approval => {
                approval::needing(author::application(&world.repository(), ALONE, None), Some("ben, others"))
            }
        };
        let served = async |life: &Life| {
            world.write(document).await;
            world.quiet_for(REST).await;
            if self == Self::Approval {
                approval::approve(world, life).await;
                world.quiet_for(REST).await;
            }
        };
        world.live(&Points::dying_at(0), served).unwrap();
        if matches!(self, Self::Sync | Self::Approval) {
            author::commit(&world.repository(), [ALONE], (2, None));
        }
    }

    /// What people do, and wait for; begun again in each process.
    async fn go(self, world: &World, life: &Life) {
        match self {
            // Whoever got no answer looks what came of it.
            Self::Sync => drop(life.applications().refresh(ALONE, false).await),
            Self::Approval => {
                drop(life.applications().refresh(ALONE, false).await);
                world.quiet_for(REST).await;
                approval::approve(world, life).await;
            }
            Self::Rollout if world.set().await.is_none() => {
                world.write(fleet("AllAtOnce").document(&world.repository())).await;
            }
            Self::Rollout => {}
            Self::Delete(_) => {
                let set = world.sim.get(&kind("ApplicationSet"), "argocd", "fleet").await.unwrap();
                if let Some(set) = set.filter(|set| !set.is_deleting()) {
                    world.sim.delete(DeleteRequest::of(&set)).await.unwrap();
                }
            }
        }
        world.quiet_for(REST).await;
    }

    /// What it comes to where nobody dies.
    fn assert_is_whole(self, outcome: &Outcome) {
        let deployed: Vec<_> =
            outcome.deployed.iter().map(|(name, commit, done)| (name.as_str(), *commit, *done)).collect();
        match self {
            Self::Sync | Self::Approval => assert_eq!(deployed, [(ALONE, 1, true), (ALONE, 2, true)]),
            _ => assert_eq!(deployed, [("a", 1, true), ("b", 1, true), ("c", 1, true)]),
        }
        let deleted: &[&str] = match self {
            Self::Delete("Reverse" | "Custom") => &["b", "c", "a"],
            // The garbage collector does that.
            _ => &[],
        };
        assert_eq!(outcome.deleted, deleted);
        let recorded = if let Self::Delete(order) = self { record_of(order, "Gone") } else { Vec::new() };
        assert_eq!(outcome.recorded, recorded);
        let is_there = outcome.objects.keys().any(|key| key.contains("Application"));
        assert_eq!(is_there, !matches!(self, Self::Delete(_)), "{:?}", outcome.objects.keys());
    }

    fn outcome(self, world: &World) -> Outcome {
        rules::one_operation_at_a_time(&world.sim);
        rules::hooks_once(&world.sim);
        let writes = world.weather.writes.lock().unwrap();
        let deployed = rules::deployed(&writes).into_iter();
        let deployed = deployed.map(|one| (one.application, one.commit, one.done.is_some())).collect();
        let is_asked = |one: &&crate::front::Write| {
            one.verb == tidegate_cluster::Verb::Delete
                && one.key.kind == "Application"
                && one.before.as_ref().is_some_and(|before| !before.is_deleting())
        };
        let deleted = writes.iter().filter(is_asked).map(|one| one.key.name.clone()).collect();
        if self == Self::Approval {
            let needing = Needing { name: ALONE, said: Some("ben, others") };
            let taken = approval::only_what_was_approved(world, &writes, &[needing]);
            assert_eq!(taken, 2, "each commit has one plan that was carried out");
        }
        if let Self::Delete(order) = self {
            rules::deleted_in_order(&writes, &fleet(order).ranks()).unwrap();
        }
        Outcome { deployed, deleted, objects: objects(world), recorded: recorded(world) }
    }
}

/// What there is, as far as it is the same after every run.
pub fn objects(world: &World) -> BTreeMap<String, Value> {
    let of_ours = |namespace: &str| namespace == HOME || namespace == "argocd";
    let all =
        world.sim.objects().into_iter().filter(|one| of_ours(one.namespace()) && !is_made_by_others(one));
    let shown = |object: &tidegate_model::Object| {
        let at = |path: &str| object.pointer(path).cloned().unwrap_or_default();
        match object.kind() {
            "Application" => json!({
                "labels": at("/metadata/labels"), "finalizers": at("/metadata/finalizers"),
                "policy": at("/spec/syncPolicy"), "operation": at("/operation"),
                "sync": at("/status/sync/status"), "revision": at("/status/sync/revision"),
                "health": at("/status/health/status"), "phase": at("/status/operationState/phase"),
                "message": at("/status/operationState/message"), "conditions": conditions(object),
                "history": at("/status/history").as_array().map(Vec::len),
            }),
            "ApplicationSet" => json!({"steps": steps(object), "conditions": conditions(object)}),
            _ => json!({"data": at("/data"), "spec": at("/spec"), "ready": at("/status/readyReplicas")}),
        }
    };
    all.map(|object| (object.key().to_string(), shown(&object))).collect()
}

fn list<'a>(object: &'a tidegate_model::Object, path: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn conditions(object: &tidegate_model::Object) -> Vec<Value> {
    list(object, "/status/conditions").map(|one| json!([one["type"], one["status"], one["reason"]])).collect()
}

fn steps(object: &tidegate_model::Object) -> Vec<Value> {
    let one = |one: &Value| json!([one["application"], one["step"], one["status"]]);
    list(object, "/status/applicationStatus").map(one).collect()
}

/// Plays it with processes that die at these points in turn; how it ended, and how many points the first process passed.
fn run(scenario: Scenario, deaths: &[u64]) -> (Outcome, u64) {
    let world =
        if scenario == Scenario::Approval { World::new(1, 0.0).keeping_plans() } else { World::new(1, 0.0) };
    scenario.prepare(&world);
    let mut first = None;
    for dies_at in deaths.iter().copied().chain([0]) {
        let points = Points::dying_at(dies_at);
        let end = world.live(&points, async |life| scenario.go(&world, life).await);
        first.get_or_insert(points.passed());
        if end.is_some() {
            break;
        }
    }
    (scenario.outcome(&world), first.unwrap_or_default())
}

/// Dies everywhere. How many deaths there were.
pub fn die_everywhere(scenario: Scenario) -> u64 {
    let (expected, points) = run(scenario, &[]);
    scenario.assert_is_whole(&expected);
    die_at(&format!("{scenario:?}"), points, EVERY, |deaths| {
        let (found, _) = run(scenario, deaths);
        assert_eq!(
            found, expected,
            "{scenario:?} is another one when processes die at {deaths:?} of {points}"
        );
    })
}

/// Dies at one of so many points of these, in the quick form and in the long one; in the recovery as well, at times. How many
/// deaths there were.
pub fn die_at(what: &str, points: u64, every: (u64, u64), die: impl Fn(&[u64])) -> u64 {
    let only = std::env::var("TIDEGATE_SERVICE_POINT").ok().map(|text| text.parse::<u64>().unwrap());
    let every = effort::rounds("TIDEGATE_SERVICE_CRASH_EVERY", every.0, every.1).max(1);
    let stride = if only.is_some() { 1 } else { every };
    let begin = 1 + points / 2 % stride;
    let mut tried = 0;
    for point in (begin..=points).step_by(usize::try_from(stride).unwrap()) {
        if only.is_some_and(|only| only != point) {
            continue;
        }
        // In the recovery as well, at a point that differs from run to run.
        let second = 1 + point * 7 % points;
        die(&if point % 3 == 0 { vec![point, second] } else { vec![point] });
        tried += 1;
    }
    println!("{what}: {tried} of {points} points");
    tried
}

/// ReplicaSets and pods have names that are drawn, and Jobs are hooks, which the history of writes tells of.
fn is_made_by_others(object: &tidegate_model::Object) -> bool {
    matches!(object.kind(), "Pod" | "ReplicaSet" | "Job" | "Event")
}
