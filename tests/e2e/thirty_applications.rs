//! Thirty Applications of one repository, and the invariants that hold after the service that deploys them
//! was killed repeatedly. Shared with the tests on a real control plane.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::git::{self, GitServer};

use crate::bench::{Bench, Running};

const NUMBER: usize = 30;
/// Maximum number of Applications that change with a commit.
const CHANGED_MAX: u64 = 8;
/// Message of an operation that was superseded by another commit, up to the commit itself.
const SUPERSEDED: &str = "Operation terminated, superseded by another sync (revision ";
/// Latest time of a kill: while the service starts, compares, and is in any step of its operations.
const LATEST_MILLIS: u64 = 2500;

/// Splitmix64.
pub struct Dice(pub u64);

impl Dice {
    /// Uses `TIDEGATE_KILL_SEED`, or a random seed.
    pub fn from_environment() -> (Self, u64) {
        let seed = match std::env::var("TIDEGATE_KILL_SEED") {
            Ok(seed) => seed.parse().expect("TIDEGATE_KILL_SEED is a number"),
            Err(_) => RandomState::new().build_hasher().finish() % 1_000_000,
        };
        println!("moments of the kills from seed {seed}; repeat them with TIDEGATE_KILL_SEED={seed}");
        (Self(seed), seed)
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// The Applications, and their repository.
pub struct ThirtyApplications<'a> {
    bench: &'a Bench,
    /// Server for the repository if git is installed. Otherwise, the repository is read as a folder.
    server: Option<GitServer>,
    versions: Vec<u32>,
    /// Commits, oldest first.
    commits: Vec<String>,
}

/// A finished operation.
#[derive(Clone, Debug)]
pub struct FinishedOperation {
    pub id: String,
    /// Index of the operation's commit.
    commit: usize,
    /// True if a later commit has superseded the operation. Otherwise, the operation has succeeded.
    pub is_superseded: bool,
}

impl<'a> ThirtyApplications<'a> {
    pub fn new(bench: &'a Bench) -> Self {
        fs::create_dir(bench.path().join("root")).unwrap();
        fs::create_dir(bench.path().join("tmp")).unwrap();
        let server = git::is_available().then(|| GitServer::start(&bench.path().join("root")));
        let mut thirty = Self { bench, server, versions: vec![1; NUMBER], commits: Vec::new() };
        (0..NUMBER).for_each(|number| thirty.write(number));
        thirty.commit();
        thirty
    }

    pub fn name(number: usize) -> String {
        format!("app-{number:02}")
    }

    /// Returns the hooks of one Application. Each of them runs once in a successful operation.
    pub fn hooks(number: usize) -> [String; 2] {
        ["prepare", "announce"].map(|hook| format!("{hook}-{number:02}"))
    }

    pub fn settings(number: usize) -> String {
        format!("settings-{number:02}")
    }

    pub fn version(&self, number: usize) -> String {
        self.versions[number].to_string()
    }

    fn commit(&mut self) {
        let ran = self.bench.run(&["example", "commit", "root/repo"]).expect_code(0);
        let (_, commit) = ran.err.trim().rsplit_once("committed ").expect("each operation changes something");
        self.commits.push(commit.to_owned());
    }

    /// Pushes another version of some of the Applications.
    pub fn push(&mut self, dice: &mut Dice) {
        for _ in 0..=dice.roll(CHANGED_MAX) {
            let number = usize::try_from(dice.roll(NUMBER as u64)).unwrap();
            self.versions[number] += 1;
            self.write(number);
        }
        self.commit();
    }

    fn write(&self, number: usize) {
        let job = |name: &str, hook: &str, policy: &str, millis: usize| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "annotations": {
                    "argocd.argoproj.io/hook": hook, "argocd.argoproj.io/hook-delete-policy": policy,
                    "sim.tidegate.dev/ready-after": format!("{millis}ms"),
                }},
                "spec": {"backoffLimit": 0, "template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
                }}},
            })
        };
        let [prepare, announce] = Self::hooks(number);
        let map = |name: String, wave: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
                "data": {"version": self.version(number)},
            })
        };
        let all = [
            job(&prepare, "PreSync", "BeforeHookCreation", 50 + 20 * number),
            map(Self::settings(number), "0"),
            map(format!("routes-{number:02}"), "1"),
            job(&announce, "PostSync", "HookSucceeded", 100),
        ];
        let documents: Vec<String> = all.iter().map(Value::to_string).collect();
        self.bench.write(&format!("root/repo/{}/all.yaml", Self::name(number)), documents.join("\n---\n"));
    }

    /// Returns the resource of an Application.
    pub fn application(&self, number: usize, namespace: &str) -> Value {
        let repository = match &self.server {
            Some(server) => server.url("repo"),
            None => self.bench.path().join("root/repo").display().to_string(),
        };
        let name = Self::name(number);
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {
                "project": "default",
                "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace},
                "source": {"repoURL": repository, "path": name, "targetRevision": "main"},
                "syncPolicy": {
                    "automated": {"prune": true, "selfHeal": true}, "syncOptions": ["CreateNamespace=true"],
                },
            },
        })
    }

    pub fn numbers() -> std::ops::Range<usize> {
        0..NUMBER
    }

    /// Starts the service this many times, each time after a push, and kills it at a random moment.
    pub fn kill_service(&mut self, kills: u64, dice: &mut Dice, story: &str, serve: impl Fn() -> Running) {
        for kill in 0..kills {
            self.push(dice);
            let moment = Duration::from_millis(dice.roll(LATEST_MILLIS));
            serve().kill_after(moment, &format!("{story}, kill {kill}"));
        }
    }

    /// Returns the operations of each Application, oldest first. Checks that each operation has succeeded or
    /// was superseded by a later commit, and that a successful operation followed each superseded one.
    pub fn operations(&self, story: &str) -> BTreeMap<usize, Vec<FinishedOperation>> {
        let list = self.bench.json(&["ops", "list", "-o", "json"]);
        let mut found: BTreeMap<usize, Vec<FinishedOperation>> = BTreeMap::new();
        for one in list.as_array().unwrap() {
            // Outside of the control plane's namespace, the name has the namespace as prefix.
            let name = one["app"].as_str().and_then(|name| name.rsplit('_').next());
            let number = name.and_then(|name| name.strip_prefix("app-")?.parse().ok());
            // Other Applications, such as the one with the definitions, are synced too.
            let Some(number) = number else {
                assert_eq!(one["phase"], "Succeeded", "{story}: {one}");
                continue;
            };
            found.entry(number).or_default().push(self.finished_operation(one, story));
        }
        assert_eq!(found.len(), NUMBER, "{story}: {found:?}");
        for (number, all) in &found {
            for (place, one) in all.iter().enumerate().filter(|(_, one)| one.is_superseded) {
                let has_followed =
                    |later: &FinishedOperation| !later.is_superseded && later.commit > one.commit;
                assert!(all[place + 1..].iter().any(has_followed), "{story}: app-{number:02}: {all:#?}");
            }
        }
        found
    }

    fn finished_operation(&self, one: &Value, story: &str) -> FinishedOperation {
        let commit = |revision: &str| self.commits.iter().position(|commit| commit == revision);
        let own = one["revision"].as_str().and_then(commit);
        let Some(own) = own else { panic!("{story}: unknown commit: {one}") };
        let is_superseded = one["phase"] == "Failed";
        if is_superseded {
            let by = one["message"].as_str().unwrap().strip_prefix(SUPERSEDED);
            let by = by.and_then(|by| commit(by.strip_suffix(')')?));
            assert!(by.is_some_and(|by| by > own), "{story}: {one}");
        } else {
            assert_eq!(one["phase"], "Succeeded", "{story}: {one}");
        }
        FinishedOperation { id: one["id"].as_str().unwrap().to_owned(), commit: own, is_superseded }
    }
}

/// Returns the hooks of these operations, each with true if it must have run. A superseded operation may not
/// have reached the hook.
pub fn hooks_of(operations: &BTreeMap<usize, Vec<FinishedOperation>>) -> BTreeMap<(String, String), bool> {
    let of_one = |number: usize, one: &FinishedOperation| {
        ThirtyApplications::hooks(number).map(|hook| ((hook, one.id.clone()), !one.is_superseded))
    };
    operations.iter().flat_map(|(number, all)| all.iter().flat_map(|one| of_one(*number, one))).collect()
}

/// Checks that processes haven't left temporary data in the state directory or in the folder for temporary
/// files.
pub fn assert_no_temporary_data(bench: &Bench, story: &str) {
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folders = path.components().rev().skip(1);
        name.ends_with(".new")
            || name.ends_with(".lock")
            || name.ends_with(".sock")
            || name.starts_with("tmp")
            || name.starts_with(".tmp")
            || folders.take(1).any(|folder| folder.as_os_str() == "working")
    };
    let mut all = files(&bench.state());
    all.retain(is_left);
    all.extend(files(&bench.path().join("tmp")));
    assert!(all.is_empty(), "{story}: objects are left: {all:#?}");
}

/// Returns all files and folders below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()).collect());
    let entries: Vec<PathBuf> = entries.unwrap_or_default();
    let below =
        entries.iter().filter(|path| path.is_dir() && !path.is_symlink()).flat_map(|path| files(path));
    let below: Vec<PathBuf> = below.collect();
    entries.into_iter().chain(below).collect()
}
