//! A process crashes at every append to the log and at every write to the cluster, before and after each. The
//! scenarios are a sync, a rollout with two steps, and a deletion in each order. The result must be the same
//! as without crashes, and no action may be executed twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::{Cluster as _, DeleteRequest};
use tidegate_lifecycle::teardown;
use tidegate_model::{StreamId, StreamKind};
use tidegate_oplog::{Lookup, TypedLog as _};
use tidegate_testkit::crash::CrashPoints;
use tidegate_testkit::effort;

use crate::approval::{self, ApprovalApp};
use crate::invariants;
use crate::user_documents::{self, APP_NAMESPACE, Fleet, STANDALONE_APP};
use crate::world::{Life, World, kind};

/// Time without writes until a run counts as complete.
const QUIET_TIME: Duration = Duration::from_secs(300);
/// Interval of crash points with a crash, in the quick form and in the long form.
/// `TIDEGATE_SERVICE_CRASH_EVERY=1` crashes at every point.
const CRASH_INTERVAL: (u64, u64) = (80, 4);

/// Activity during the crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// An automated Application syncs another commit.
    Sync,
    /// The Applications of an ApplicationSet are created and synced in two steps.
    Rollout,
    /// The ApplicationSet is deleted with its Applications, in the given order.
    Delete(&'static str),
    /// An Application that needs an approval syncs another commit after the approval of its plan.
    Approval,
}

/// Compared results.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Deployed commits in order, each with `true` if the deployment succeeded.
    deployed: Vec<(String, u64, bool)>,
    /// Applications with a requested deletion, in order, without repetitions.
    deleted: Vec<String>,
    /// Objects, without data that differs between runs.
    objects: BTreeMap<String, Value>,
    /// Recorded deletions of the ApplicationSet.
    deletion_records: Vec<String>,
}

/// Returns each recorded deletion: the order, the end, and each Application's result.
pub fn recorded_deletions(world: &World) -> Vec<String> {
    let all = world.log.find_as::<teardown::Event>(Lookup::all().and_kind(StreamKind::TEARDOWN)).unwrap();
    let one = |id: StreamId| {
        let events = world.log.events_as::<teardown::Event>(id).unwrap().events;
        let evolved = events.iter().try_fold(teardown::State::New, teardown::apply);
        let view = teardown::view(&evolved.unwrap()).unwrap();
        let members = view.members.iter().map(|one| format!("{} {:?}", one.application, one.status));
        let mut members: Vec<String> = members.collect();
        members.sort();
        format!("{:?} {:?}: {}", view.order, view.end, members.join(", "))
    };
    all.into_iter().map(|entry| one(entry.stream)).collect()
}

/// Returns the expected record of a deletion.
pub fn expected_record(order: &str, status: &str) -> Vec<String> {
    vec![format!("{order} Some(Completed): a {status}, b {status}, c {status}")]
}

pub fn fleet(deletion: &'static str) -> Fleet {
    let members = [("a", 0), ("b", 1), ("c", 1)].map(|(name, step)| (name.to_owned(), step));
    Fleet { members: members.into(), max_update: vec![None, Some(json!(1))], rollout: None, deletion }
}

impl Scenario {
    /// Creates the initial state before any crash.
    fn prepare(self, world: &World) {
        user_documents::commit(&world.repository(), ["a", "b", "c", STANDALONE_APP], (1, None));
        let document = match self {
            Self::Sync => user_documents::application(&world.repository(), STANDALONE_APP, None),
            Self::Rollout => return,
            Self::Delete(order) => fleet(order).document(&world.repository()),
            Self::Approval => approval::with_approval(
                user_documents::application(&world.repository(), STANDALONE_APP, None),
                Some("ben, others"),
            ),
        };
        let work = async |life: &Life| {
            world.write(document).await;
            world.wait_for_quiet(QUIET_TIME).await;
            if self == Self::Approval {
                approval::approve_waiting(world, life).await;
                world.wait_for_quiet(QUIET_TIME).await;
            }
        };
        world.run_process(&CrashPoints::crash_at(0), work).unwrap();
        if matches!(self, Self::Sync | Self::Approval) {
            user_documents::commit(&world.repository(), [STANDALONE_APP], (2, None));
        }
    }

    /// Runs user actions and waits for their results. Each process repeats these actions.
    async fn run(self, world: &World, life: &Life) {
        match self {
            // Ignore an error: a client without a response checks the result instead.
            Self::Sync => drop(life.applications().refresh(STANDALONE_APP, false).await),
            Self::Approval => {
                drop(life.applications().refresh(STANDALONE_APP, false).await);
                world.wait_for_quiet(QUIET_TIME).await;
                approval::approve_waiting(world, life).await;
            }
            Self::Rollout if world.appset().await.is_none() => {
                world.write(fleet("AllAtOnce").document(&world.repository())).await;
            }
            Self::Rollout => {}
            Self::Delete(_) => {
                let set = world.sim.get(&kind("ApplicationSet"), "argocd", "fleet").await.unwrap();
                if let Some(set) = set.filter(|set| !set.is_deleting()) {
                    world.sim.delete(DeleteRequest::for_object(&set)).await.unwrap();
                }
            }
        }
        world.wait_for_quiet(QUIET_TIME).await;
    }

    /// Checks the result of an undisturbed run.
    fn assert_complete(self, outcome: &Outcome) {
        let deployed: Vec<_> =
            outcome.deployed.iter().map(|(name, commit, done)| (name.as_str(), *commit, *done)).collect();
        match self {
            Self::Sync | Self::Approval => {
                assert_eq!(deployed, [(STANDALONE_APP, 1, true), (STANDALONE_APP, 2, true)])
            }
            _ => assert_eq!(deployed, [("a", 1, true), ("b", 1, true), ("c", 1, true)]),
        }
        let deleted: &[&str] = match self {
            Self::Delete("Reverse" | "Custom") => &["b", "c", "a"],
            // The garbage collector deletes the Applications.
            _ => &[],
        };
        assert_eq!(outcome.deleted, deleted);
        let recorded =
            if let Self::Delete(order) = self { expected_record(order, "Deleted") } else { Vec::new() };
        assert_eq!(outcome.deletion_records, recorded);
        let is_there = outcome.objects.keys().any(|key| key.contains("Application"));
        assert_eq!(is_there, !matches!(self, Self::Delete(_)), "{:?}", outcome.objects.keys());
    }

    fn outcome(self, world: &World) -> Outcome {
        let deployed = check_deployments(world);
        let writes = world.faults.writes.lock().unwrap();
        let is_asked = |one: &&crate::faulty_cluster::Write| {
            one.verb == tidegate_cluster::Verb::Delete
                && one.key.kind == "Application"
                && one.before.as_ref().is_some_and(|before| !before.is_deleting())
        };
        let deleted = writes.iter().filter(is_asked).map(|one| one.key.name.clone()).collect();
        if self == Self::Approval {
            let needing = ApprovalApp { name: STANDALONE_APP, approvers: Some("ben, others") };
            let taken = approval::assert_only_approved_writes(world, &writes, &[needing]);
            assert_eq!(taken, 2, "each commit has one executed plan");
        }
        if let Self::Delete(order) = self {
            invariants::check_deletion_order(&writes, &fleet(order).deletion_ranks()).unwrap();
        }
        Outcome { deployed, deleted, objects: objects(world), deletion_records: recorded_deletions(world) }
    }
}

/// Checks the invariants of all operations. Returns the deployed commits in order, with their success.
pub fn check_deployments(world: &World) -> Vec<(String, u64, bool)> {
    invariants::check_single_operation(&world.sim);
    invariants::check_hooks_run_once(&world.sim);
    let deployed = invariants::deployed_commits(&world.faults.writes.lock().unwrap()).into_iter();
    deployed.map(|one| (one.application, one.commit, one.finished.is_some())).collect()
}

/// Returns the objects that are the same after every run.
pub fn objects(world: &World) -> BTreeMap<String, Value> {
    let of_ours = |namespace: &str| namespace == APP_NAMESPACE || namespace == "argocd";
    let all = world
        .sim
        .objects()
        .into_iter()
        .filter(|one| of_ours(one.namespace()) && !is_created_by_controller(one));
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

/// Runs the scenario with processes that crash at the given points, one after another. Returns the result,
/// and the number of crash points in the first process.
fn run(scenario: Scenario, deaths: &[u64]) -> (Outcome, u64) {
    let world = if scenario == Scenario::Approval {
        World::new(1, 0.0).with_stored_plans()
    } else {
        World::new(1, 0.0)
    };
    scenario.prepare(&world);
    let work = async |life: &Life| scenario.run(&world, life).await;
    let passed = world.run_processes(CrashPoints::crash_at, deaths, work);
    (scenario.outcome(&world), passed)
}

/// Crashes at the interval of [`CRASH_INTERVAL`]. Returns the number of crashes.
pub fn crash_at_every_point(scenario: Scenario) -> u64 {
    let (expected, points) = run(scenario, &[]);
    scenario.assert_complete(&expected);
    crash_at_points(&format!("{scenario:?}"), points, CRASH_INTERVAL, |deaths| {
        let (found, _) = run(scenario, deaths);
        assert_eq!(found, expected, "{scenario:?} differs if processes crash at {deaths:?} of {points}");
    })
}

/// Crashes at one in `every` points (quick form, long form), and sometimes also during the recovery. Returns
/// the number of crashes.
pub fn crash_at_points(what: &str, points: u64, every: (u64, u64), die: impl Fn(&[u64])) -> u64 {
    let only = std::env::var("TIDEGATE_SERVICE_POINT").ok().map(|text| text.parse::<u64>().unwrap());
    let every = effort::rounds("TIDEGATE_SERVICE_CRASH_EVERY", every.0, every.1).max(1);
    let stride = if only.is_some() { 1 } else { every };
    let begin = 1 + points / 2 % stride;
    let mut tried = 0;
    for point in (begin..=points).step_by(usize::try_from(stride).unwrap()) {
        if only.is_some_and(|only| only != point) {
            continue;
        }
        // The recovery sometimes crashes too, at a point that differs between runs.
        let second = 1 + point * 7 % points;
        die(&if point % 3 == 0 { vec![point, second] } else { vec![point] });
        tried += 1;
    }
    println!("{what}: {tried} of {points} points");
    tried
}

/// Returns true for ReplicaSets, Pods and Events, which have random names, and for Jobs. Jobs are hooks,
/// which the history of writes already covers.
fn is_created_by_controller(object: &tidegate_model::Object) -> bool {
    matches!(object.kind(), "Pod" | "ReplicaSet" | "Job" | "Event")
}
