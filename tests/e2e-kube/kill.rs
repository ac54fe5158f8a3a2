//! `kill -9` at random moments on a real API server. According to the audit log, the operation must always
//! have the same result, and each hook must be created once.
//!
//! `TIDEGATE_KILL_ROUNDS=N` sets the number of rounds, `TIDEGATE_KILL_SEED=N` repeats the moments of an
//! earlier run.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::effort;
use tidegate_testkit::kube::ControlPlane;
use tokio::task::JoinSet;

use crate::kube_bench::KubeBench;
use crate::manifests::{FAST, FAST_HOOKS};

/// Enough to notice frequent errors. The long form, and runs of 200 rounds, find the rest.
const ROUNDS: u64 = 8;
const ROUNDS_LONG: u64 = 25;
/// Number of concurrent rounds, which mostly wait.
const WORKERS: u64 = 4;
/// About the duration of an undisturbed sync. A kill may also come too late.
const LATEST_MILLIS: u64 = 1200;
/// Maximum number of kills in a round.
const KILLS_MAX: u32 = 4;

pub async fn a_sync_survives_kills_at_random_moments() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let rounds = effort::rounds("TIDEGATE_KILL_ROUNDS", ROUNDS, ROUNDS_LONG);
    let seed = number("TIDEGATE_KILL_SEED")
        .unwrap_or_else(|| RandomState::new().build_hasher().finish() % 1_000_000);
    println!("moments of the kills from seed {seed}; repeat them with TIDEGATE_KILL_SEED={seed}");
    let undisturbed = {
        let bench = KubeBench::new("undisturbed").await;
        bench.write("fast.yaml", FAST);
        bench.run(&["sync", "fast.yaml", "--app", &bench.namespace, "-n", &bench.namespace]).expect_code(0);
        objects(&bench).await
    };
    assert!(undisturbed.len() >= 3, "{undisturbed:?}");
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let undisturbed = undisturbed.clone();
        workers.spawn(async move {
            let mut kills = 0;
            for round in (0..rounds).filter(|round| round % WORKERS == worker) {
                kills += run_round(round, seed, &undisturbed).await;
            }
            kills
        });
    }
    let kills: u32 = workers.join_all().await.into_iter().sum();
    println!("{kills} running processes killed in {rounds} rounds");
    assert!(u64::from(kills) >= rounds / 2, "only {kills} kills hit a running process: kill earlier");
}

/// Returns a random number that depends on the seed, the round and the number of kills.
fn random_number(seed: u64, round: u64, kills: u32, below: u64) -> u64 {
    // Splitmix64.
    let mut z = seed.wrapping_mul(0x1234_5678_9abc_def1).wrapping_add(round << 8).wrapping_add(kills.into());
    z = z.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

/// Runs one sync that is killed up to [`KILLS_MAX`] times and then left undisturbed. Returns the number of
/// effective kills.
async fn run_round(round: u64, seed: u64, undisturbed: &BTreeSet<String>) -> u32 {
    let bench = KubeBench::new("killed").await;
    bench.write("fast.yaml", FAST);
    let story = format!("seed {seed}, round {round}");
    let kills = tokio::task::block_in_place(|| kill_and_resume(&bench, seed, round, &story));
    check(&bench, &story, undisturbed).await;
    // All rounds share the API server and its audit log, and remaining objects only cost time.
    let path = format!("/api/v1/namespaces/{}", bench.namespace);
    bench.observer().delete(&path, &Value::Null).await.unwrap();
    kills
}

fn kill_and_resume(bench: &KubeBench, seed: u64, round: u64, story: &str) -> u32 {
    let mut kills = 0;
    loop {
        let started = bench.state().join("log").exists()
            && bench.json(&["ops", "list", "-o", "json"]).as_array().is_some_and(|list| !list.is_empty());
        let args: &[&str] = match started {
            true => &["resume", "--all"],
            false => &["sync", "fast.yaml", "--app", &bench.namespace, "-n", &bench.namespace],
        };
        let mut running = bench.start(args);
        let moment = Duration::from_millis(random_number(seed, round, kills, LATEST_MILLIS));
        let status = if kills == KILLS_MAX { None } else { running.wait_for_exit(moment) };
        let ran = match status {
            Some(status) => running.finish_with(status),
            None => {
                if kills < KILLS_MAX {
                    running.signal("KILL");
                }
                running.finish()
            }
        };
        match ran.status.code() {
            Some(0) => return kills,
            Some(code) => panic!("{story}: exit {code}: {}", ran.err),
            None => kills += 1,
        }
    }
}

async fn check(bench: &KubeBench, story: &str, undisturbed: &BTreeSet<String>) {
    let operations = bench.json(&["ops", "list", "-o", "json"]);
    let operations = operations.as_array().unwrap();
    assert_eq!(operations.len(), 1, "{story}: {operations:?}");
    assert_eq!(operations[0]["phase"], "Succeeded", "{story}: {operations:?}");
    let writes = bench.writes().await;
    for hook in FAST_HOOKS {
        bench.assert_created_once("Job", hook, story).await;
        let deleted =
            |event: &&tidegate_testkit::kube::AuditEvent| event.verb == "delete" && event.name == hook;
        let deletions = writes.0.iter().filter(deleted).count();
        assert!(
            deletions <= 1,
            "{story}: hook {hook} was deleted {deletions} times: {:#?}",
            writes.summaries()
        );
    }
    assert_eq!(&objects(bench).await, undisturbed, "{story}");
}

/// Returns the remaining objects of the namespace, except those that are being deleted or were created by a
/// controller.
async fn objects(bench: &KubeBench) -> BTreeSet<String> {
    let observer = ControlPlane::shared().client(tidegate_testkit::kube::User::OBSERVER);
    let mut found = BTreeSet::new();
    for (api, plural) in
        [("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"), ("/apis/batch/v1", "jobs")]
    {
        let list = observer.get(&format!("{api}/namespaces/{}/{plural}", bench.namespace)).await.unwrap();
        for object in list["items"].as_array().unwrap() {
            if object["metadata"]["deletionTimestamp"].is_null() {
                let (name, data) = (&object["metadata"]["name"], &object["data"]);
                found.insert(format!("{plural} {name} {data} {}", object["spec"]["replicas"]));
            }
        }
    }
    found
}
