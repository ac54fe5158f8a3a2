//! A process that serves a folder dies at every change of a file of its state directory: before it, after it, and in the middle
//! of writing. Whatever happens, the end is the same: nothing is lost or half written, each hook ran once, and each Application
//! of a set was made once and removed once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::crash::Points;

use crate::author::{self, ALONE};
use crate::crashes::{die_at, fleet, objects, record_of, recorded};
use crate::disk::Change;
use crate::rules;
use crate::world::{Life, World};

/// What has written nothing for so long is over. The folder is looked at each second.
const REST: Duration = Duration::from_secs(40);
/// Processes die at one change of so many, in the quick form and in the long one.
const EVERY: (u64, u64) = (160, 40);

/// What is done while processes die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// An Application of the folder is brought to another commit.
    Sync,
    /// The Applications of a set are made, and synced in two steps.
    Rollout,
    /// One of them is generated in another way, and one not any more.
    Change,
    /// The set is deleted with its Applications, in this order.
    Delete(&'static str),
    /// The set is deleted, and its Applications outlive it.
    Orphan,
}

/// How it has ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Which Application was brought to which commit, and whether that was done.
    deployed: Vec<(String, u64, bool)>,
    /// Of each file of an Application that was generated: whether it was made and removed, in order.
    generated: BTreeMap<String, Vec<Change>>,
    /// Those that were removed, in order.
    removed: Vec<String>,
    /// What the files of the state directory say, as far as that is the same after every run.
    files: BTreeMap<String, Value>,
    /// What there is in the cluster.
    objects: BTreeMap<String, Value>,
    /// What is recorded of deletions of the set.
    recorded: Vec<String>,
}

fn write(world: &World, name: &str, document: &Value) {
    // Readers see the one or the other.
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

    /// What is there before anybody dies.
    fn prepare(self, world: &World) {
        author::commit(&world.repository(), ["a", "b", "c", ALONE], (1, None));
        match self {
            Self::Sync => write(world, ALONE, &author::application(&world.repository(), ALONE, None)),
            Self::Rollout => return,
            _ => write(world, "fleet", &fleet(self.order()).document(&world.repository())),
        }
        world.live(&Points::dying_at_file(0), async |_| world.quiet_for(REST).await).unwrap();
        if self == Self::Sync {
            author::commit(&world.repository(), [ALONE], (2, None));
        }
    }

    /// What people do, and wait for; begun again in each process.
    async fn go(self, world: &World, life: &Life) {
        match self {
            Self::Sync => {
                while life.applications().refresh(ALONE, false).await.is_err() {
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
                // Whoever got no answer asks again.
                while world.apps().join("fleet.yaml").exists() {
                    if life.sets().delete("fleet", orphan, "tester".to_owned(), String::new()).await.is_err()
                    {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
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
            Self::Sync => assert_eq!(deployed, [(ALONE, 1, true), (ALONE, 2, true)]),
            _ => assert_eq!(deployed, [("a", 1, true), ("b", 1, true), ("c", 1, true)], "{self:?}"),
        }
        let (stays, goes) = (vec![Change::Made], vec![Change::Made, Change::Removed]);
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
            Self::Delete(order) => record_of(order, "Gone"),
            Self::Orphan => record_of("Orphan", "Released"),
            _ => Vec::new(),
        };
        assert_eq!(outcome.recorded, expected);
        if let Self::Delete("Reverse" | "Custom") = self {
            assert_eq!(outcome.removed.last().unwrap(), "a", "{:?}", outcome.removed);
        }
    }

    fn outcome(self, world: &World) -> Outcome {
        rules::one_operation_at_a_time(&world.sim);
        rules::hooks_once(&world.sim);
        let writes = world.weather.writes.lock().unwrap();
        let deployed = rules::deployed(&writes).into_iter();
        let deployed = deployed.map(|one| (one.application, one.commit, one.done.is_some())).collect();
        let (mut generated, mut removed) = (BTreeMap::<String, Vec<Change>>::new(), Vec::new());
        for (path, change) in world.changes.as_ref().unwrap().0.lock().unwrap().iter() {
            let Some(name) = application(path, &world.state("generated")) else { continue };
            if *change == Change::Removed {
                removed.push(name.clone());
            }
            generated.entry(name).or_default().push(change.clone());
        }
        // Those of one moment have no order.
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
            recorded: recorded(world),
        }
    }
}

/// The Application whose file this is.
fn application(path: &Path, folder: &Path) -> Option<String> {
    let name = path.strip_prefix(folder).ok()?.to_str()?.strip_prefix("argocd_")?;
    name.strip_suffix(".json").map(str::to_owned)
}

/// What is in the state directory: each file is whole, and there are none that were begun only.
fn files(world: &World) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for folder in ["applications", "applicationsets", "generated"] {
        for entry in fs::read_dir(world.state(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
            assert!(name.ends_with(".json"), "{name} is left");
            // Each life has a folder of its own.
            let text = fs::read_to_string(&path)
                .unwrap()
                .replace(&world.repository().display().to_string(), "REPOSITORY");
            let value: Value = serde_json::from_str(&text).expect(&name);
            let at = |path: &str| value.pointer(path).cloned().unwrap_or_default();
            let told = json!({
                "labels": at("/metadata/labels"), "annotations": at("/metadata/annotations"),
                "finalizers": at("/metadata/finalizers"), "spec": at("/spec"), "operation": at("/operation"),
                "sync": at("/status/sync/status"), "revision": at("/status/sync/revision"),
                "health": at("/status/health/status"), "phase": at("/status/operationState/phase"),
                "history": at("/status/history").as_array().map(Vec::len),
                "members": at("/status/applicationStatus").as_array().map(|all| {
                    all.iter().map(|one| json!([one["application"], one["step"], one["status"]])).collect::<Vec<_>>()
                }),
            });
            all.insert(name, told);
        }
    }
    all
}

fn run(scenario: Scenario, deaths: &[u64]) -> (Outcome, u64) {
    let world = World::of_folder();
    scenario.prepare(&world);
    let mut first = None;
    for dies_at in deaths.iter().copied().chain([0]) {
        let points = Points::dying_at_file(dies_at);
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
    die_at(&format!("{scenario:?} of a folder"), points, EVERY, |deaths| {
        let (found, _) = run(scenario, deaths);
        assert_eq!(
            found, expected,
            "{scenario:?} is another one when processes die at {deaths:?} of {points}"
        );
    })
}
