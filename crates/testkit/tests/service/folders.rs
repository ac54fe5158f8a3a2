//! A process for a folder crashes at every change to a file in its state directory: before the change, after
//! it, and during the write. The result must be the same as without crashes. No data is lost or incomplete,
//! each hook runs once, and each Application of an ApplicationSet is created once and removed once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_model::Requester;
use tidegate_testkit::crash::CrashPoints;

use crate::crash_disk::Change;
use crate::crashes::{
    check_deployments, crash_at_points, expected_record, fleet, objects, recorded_deletions,
};
use crate::user_documents::{self, STANDALONE_APP};
use crate::world::{Life, World};

/// Time without writes until a run counts as complete. The folder is read every second.
const QUIET_TIME: Duration = Duration::from_secs(40);
/// Interval of changes with a crash, in the quick form and in the long form.
const CRASH_INTERVAL: (u64, u64) = (160, 40);

/// Activity during the crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// An Application in the folder syncs another commit.
    Sync,
    /// The Applications of an ApplicationSet are created and synced in two steps.
    Rollout,
    /// A generated Application changes, and another one stops being generated.
    Change,
    /// The ApplicationSet is deleted with its Applications, in the given order.
    Delete(&'static str),
    /// The ApplicationSet is deleted without its Applications.
    Orphan,
}

/// Compared results.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Deployed commits, each with `true` if the deployment succeeded.
    deployed: Vec<(String, u64, bool)>,
    /// Creations and removals of each generated Application's file, in order.
    generated: BTreeMap<String, Vec<Change>>,
    /// Removed Applications, in order.
    removed: Vec<String>,
    /// Content of the state directory that must be the same after every run.
    files: BTreeMap<String, Value>,
    /// Objects of the cluster.
    objects: BTreeMap<String, Value>,
    /// Recorded deletions of the ApplicationSet.
    deletion_records: Vec<String>,
}

fn write(world: &World, name: &str, document: &Value) {
    // Replace the file atomically, so that readers see either the old or the new content.
    let beside = world.apps().join("beside");
    fs::write(&beside, document.to_string()).unwrap();
    fs::rename(beside, world.apps().join(format!("{name}.yaml"))).unwrap();
}

impl Scenario {
    fn order(self) -> &'static str {
        match self {
            Self::Delete(order) => order,
            _ => "AllAtOnce",
        }
    }

    /// Creates the initial state before any crash.
    fn prepare(self, world: &World) {
        user_documents::commit(&world.repository(), ["a", "b", "c", STANDALONE_APP], (1, None));
        match self {
            Self::Sync => write(
                world,
                STANDALONE_APP,
                &user_documents::application(&world.repository(), STANDALONE_APP, None),
            ),
            Self::Rollout => return,
            _ => write(world, "fleet", &fleet(self.order()).document(&world.repository())),
        }
        world
            .run_process(&CrashPoints::crash_at_file_change(0), async |_| {
                world.wait_for_quiet(QUIET_TIME).await
            })
            .unwrap();
        if self == Self::Sync {
            user_documents::commit(&world.repository(), [STANDALONE_APP], (2, None));
        }
    }

    /// Runs user actions and waits for their results. Each process repeats these actions.
    async fn run(self, world: &World, life: &Life) {
        match self {
            Self::Sync => {
                while life.applications().refresh(STANDALONE_APP, false).await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Self::Rollout => write(world, "fleet", &fleet("AllAtOnce").document(&world.repository())),
            Self::Change => {
                let mut changed = fleet("AllAtOnce");
                changed.members.remove("c");
                let mut document = changed.document(&world.repository());
                document["spec"]["template"]["metadata"]["annotations"] = json!({"contact": "shop"});
                write(world, "fleet", &document);
            }
            Self::Delete(_) | Self::Orphan => {
                let orphan = self == Self::Orphan;
                // A client without a response repeats the request.
                while world.apps().join("fleet.yaml").exists() {
                    if life
                        .appsets()
                        .delete("fleet", orphan, Requester { name: "tester", reason: "" })
                        .await
                        .is_err()
                    {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
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
            Self::Sync => assert_eq!(deployed, [(STANDALONE_APP, 1, true), (STANDALONE_APP, 2, true)]),
            _ => assert_eq!(deployed, [("a", 1, true), ("b", 1, true), ("c", 1, true)], "{self:?}"),
        }
        let (stays, goes) = (vec![Change::Created], vec![Change::Created, Change::Removed]);
        let expected: &[(&str, &Vec<Change>)] = match self {
            Self::Sync => &[],
            Self::Rollout | Self::Orphan => &[("a", &stays), ("b", &stays), ("c", &stays)],
            Self::Change => &[("a", &stays), ("b", &stays), ("c", &goes)],
            Self::Delete(_) => &[("a", &goes), ("b", &goes), ("c", &goes)],
        };
        let found: Vec<(&str, &Vec<Change>)> =
            outcome.generated.iter().map(|(name, changes)| (name.as_str(), changes)).collect();
        assert_eq!(found, expected);
        let expected = match self {
            Self::Delete(order) => expected_record(order, "Deleted"),
            Self::Orphan => expected_record("Orphan", "Released"),
            _ => Vec::new(),
        };
        assert_eq!(outcome.deletion_records, expected);
        if let Self::Delete("Reverse" | "Custom") = self {
            assert_eq!(outcome.removed.last().unwrap(), "a", "{:?}", outcome.removed);
        }
    }

    fn outcome(self, world: &World) -> Outcome {
        let deployed = check_deployments(world);
        let (mut generated, mut removed) = (BTreeMap::<String, Vec<Change>>::new(), Vec::new());
        for (path, change) in world.changes.as_ref().unwrap().0.lock().unwrap().iter() {
            let Some(name) = application_of_file(path, &world.state("generated")) else { continue };
            if *change == Change::Removed {
                removed.push(name.clone());
            }
            generated.entry(name).or_default().push(change.clone());
        }
        // The order of simultaneous changes isn't fixed.
        match self {
            Self::Delete("Reverse") => {}
            Self::Delete("Custom") => removed[..2].sort(),
            _ => removed.sort(),
        }
        Outcome {
            deployed,
            generated,
            removed,
            files: files(world),
            objects: objects(world),
            deletion_records: recorded_deletions(world),
        }
    }
}

/// Returns the name of the Application in a file.
fn application_of_file(path: &Path, folder: &Path) -> Option<String> {
    let name = path.strip_prefix(folder).ok()?.to_str()?.strip_prefix("argocd_")?;
    name.strip_suffix(".json").map(str::to_owned)
}

/// Returns the content of the state directory. Checks that each file is complete and that no temporary files
/// are left.
fn files(world: &World) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for folder in ["applications", "applicationsets", "generated"] {
        for entry in fs::read_dir(world.state(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
            assert!(name.ends_with(".json"), "{name} is left");
            // Each world has its own repository folder, so replace its path.
            let text = fs::read_to_string(&path)
                .unwrap()
                .replace(&world.repository().display().to_string(), "REPOSITORY");
            let value: Value = serde_json::from_str(&text).expect(&name);
            let at = |path: &str| value.pointer(path).cloned().unwrap_or_default();
            let summary = json!({
                "labels": at("/metadata/labels"), "annotations": at("/metadata/annotations"),
                "finalizers": at("/metadata/finalizers"), "spec": at("/spec"), "operation": at("/operation"),
                "sync": at("/status/sync/status"), "revision": at("/status/sync/revision"),
                "health": at("/status/health/status"), "phase": at("/status/operationState/phase"),
                "history": at("/status/history").as_array().map(Vec::len),
                "members": at("/status/applicationStatus").as_array().map(|all| {
                    all.iter().map(|one| json!([one["application"], one["step"], one["status"]])).collect::<Vec<_>>()
                }),
            });
            all.insert(name, summary);
        }
    }
    all
}

fn run(scenario: Scenario, deaths: &[u64]) -> (Outcome, u64) {
    let world = World::of_folder();
    scenario.prepare(&world);
    let work = async |life: &Life| scenario.run(&world, life).await;
    let passed = world.run_processes(CrashPoints::crash_at_file_change, deaths, work);
    (scenario.outcome(&world), passed)
}

/// Crashes at the interval of [`CRASH_INTERVAL`]. Returns the number of crashes.
pub fn crash_at_every_point(scenario: Scenario) -> u64 {
    let (expected, points) = run(scenario, &[]);
    scenario.assert_complete(&expected);
    crash_at_points(&format!("{scenario:?} of a folder"), points, CRASH_INTERVAL, |deaths| {
        let (found, _) = run(scenario, deaths);
        assert_eq!(found, expected, "{scenario:?} differs if processes crash at {deaths:?} of {points}");
    })
}
