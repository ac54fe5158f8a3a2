//! `kill -9` at random moments on a real API server: the operation always ends the same, and each hook was created
//! once, by the word of the audit log.
//!
//! `TIDEGATE_KILL_ROUNDS=N` plays that many rounds, `TIDEGATE_KILL_SEED=N` repeats the moments of an earlier run.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::effort;
use tidegate_testkit::kube::ControlPlane;
use tokio::task::JoinSet;

use crate::manifests::{FAST, FAST_HOOKS};
use crate::site::Site;

/// Enough to notice what goes wrong often; the long form, and 200 rounds, look for the rest.
const ROUNDS: u64 = 8;
const ROUNDS_LONG: u64 = 25;
/// Rounds at once: they mostly wait.
const WORKERS: u64 = 4;
/// An undisturbed sync takes about this long; a kill may also come too late.
const LATEST_MILLIS: u64 = 1200;
/// So often may a round be killed before it is left alone.
const KILLS_MAX: u32 = 4;

pub async fn killed_at_random_moments() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let rounds = effort::rounds("TIDEGATE_KILL_ROUNDS", ROUNDS, ROUNDS_LONG);
    let seed = number("TIDEGATE_KILL_SEED")
        .unwrap_or_else(|| RandomState::new().build_hasher().finish() % 1_000_000);
    println!("moments of the kills from seed {seed}; repeat them with TIDEGATE_KILL_SEED={seed}");
    let undisturbed = {
        let site = Site::new("undisturbed").await;
        site.write("fast.yaml", FAST);
        site.run(&["sync", "fast.yaml", "--app", &site.namespace, "-n", &site.namespace]).expect_code(0);
        objects(&site).await
    };
    assert!(undisturbed.len() >= 3, "{undisturbed:?}");
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let undisturbed = undisturbed.clone();
        workers.spawn(async move {
            let mut kills = 0;
            for round in (0..rounds).filter(|round| round % WORKERS == worker) {
                kills += play(round, seed, &undisturbed).await;
            }
            kills
        });
    }
    let kills: u32 = workers.join_all().await.into_iter().sum();
    println!("{kills} processes killed at work in {rounds} rounds");
    assert!(u64::from(kills) >= rounds / 2, "only {kills} kills hit a process at work: kill earlier");
}

/// A number that follows from the seed, the round and how often it was killed already.
fn dice(seed: u64, round: u64, kills: u32, below: u64) -> u64 {
    // Splitmix64.
    let mut z = seed.wrapping_mul(0x1234_5678_9abc_def1).wrapping_add(round << 8).wrapping_add(kills.into());
    z = z.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

/// One sync, killed up to some times, then left alone. Returns how often it was killed at work.
async fn play(round: u64, seed: u64, undisturbed: &BTreeSet<String>) -> u32 {
    let site = Site::new("killed").await;
    site.write("fast.yaml", FAST);
    let story = format!("seed {seed}, round {round}");
    let kills = tokio::task::block_in_place(|| kill_and_resume(&site, seed, round, &story));
    check(&site, &story, undisturbed).await;
    // The API server and its audit log are shared by all rounds; what is left here only costs time.
    let path = format!("/api/v1/namespaces/{}", site.namespace);
    site.observer().delete(&path, &Value::Null).await.unwrap();
    kills
}

fn kill_and_resume(site: &Site, seed: u64, round: u64, story: &str) -> u32 {
    let mut kills = 0;
    loop {
        let begun = site.state().join("log").exists()
            && site.json(&["ops", "list", "-o", "json"]).as_array().is_some_and(|list| !list.is_empty());
        let args: &[&str] = match begun {
            true => &["resume", "--all"],
            false => &["sync", "fast.yaml", "--app", &site.namespace, "-n", &site.namespace],
        };
        let mut running = site.start(args);
        let moment = Duration::from_millis(dice(seed, round, kills, LATEST_MILLIS));
        let status = if kills == KILLS_MAX { None } else { running.is_over_within(moment) };
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

async fn check(site: &Site, story: &str, undisturbed: &BTreeSet<String>) {
    let operations = site.json(&["ops", "list", "-o", "json"]);
    let operations = operations.as_array().unwrap();
    assert_eq!(operations.len(), 1, "{story}: {operations:?}");
    assert_eq!(operations[0]["phase"], "Succeeded", "{story}: {operations:?}");
    let writes = site.writes().await;
    for hook in FAST_HOOKS {
        site.assert_created_once("Job", hook, story).await;
        let deleted =
            |event: &&tidegate_testkit::kube::AuditEvent| event.verb == "delete" && event.name == hook;
        let deletions = writes.0.iter().filter(deleted).count();
        assert!(
            deletions <= 1,
            "{story}: hook {hook} was deleted {deletions} times: {:#?}",
            writes.summaries()
        );
    }
    assert_eq!(&objects(site).await, undisturbed, "{story}");
}

/// What stays in the namespace in the end, on its way out or not made by a controller.
async fn objects(site: &Site) -> BTreeSet<String> {
    let observer = ControlPlane::shared().caller(tidegate_testkit::kube::User::OBSERVER);
    let mut found = BTreeSet::new();
    for (api, plural) in
        [("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"), ("/apis/batch/v1", "jobs")]
    {
        let list = observer.get(&format!("{api}/namespaces/{}/{plural}", site.namespace)).await.unwrap();
        for object in list["items"].as_array().unwrap() {
            if object["metadata"]["deletionTimestamp"].is_null() {
                let (name, data) = (&object["metadata"]["name"], &object["data"]);
                found.insert(format!("{plural} {name} {data} {}", object["spec"]["replicas"]));
            }
        }
    }
    found
}
