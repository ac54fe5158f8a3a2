//! A set that is rolled out and deleted again and again, by a service that is killed at random moments meanwhile: each operation
//! ran its hook once and was begun once, the order was kept, by the word of the audit log, and nothing is left.
//!
//! `TIDEGATE_SET_KILLS=N` kills it that often, `TIDEGATE_KILL_SEED=N` repeats the moments of an earlier run.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::effort;

use super::deletions::assert_nothing_is_left;
use super::order::{self, assert_steps};
use super::{Fleet, at_once, is_rolled_out, selects};
use crate::thirty::{Dice, assert_nothing_of_processes_is_left};

const KILLS: u64 = 6;
/// On each version of Kubernetes.
const KILLS_LONG: u64 = 50;
/// So often may one rollout or deletion be killed before it is left alone.
const KILLS_MAX: u64 = 17;
/// The service is killed at a moment before this: while it begins, and in all steps of its operations.
const LATEST_MILLIS: u64 = 2000;

const MEMBERS: &[(&str, &str)] = &[
    ("dev-a", "dev"),
    ("dev-b", "dev"),
    ("dev-c", "dev"),
    ("qa-a", "qa"),
    ("prod-a", "prod"),
    ("prod-b", "prod"),
];
const DEV: &[&str] = &["dev-a", "dev-b", "dev-c"];
const QA: &[&str] = &["qa-a"];
const PROD: &[&str] = &["prod-a", "prod-b"];

/// What the service is to bring about, however often it is killed.
enum Goal {
    RolledOut(String),
    Gone,
}

/// The kills so far, and what they were about.
struct Storm {
    fleet: Fleet,
    dice: Dice,
    story: String,
    kills: u64,
    wanted: u64,
    version: u32,
}

pub async fn a_service_of_a_set_survives_its_kills() {
    let wanted = effort::rounds("TIDEGATE_SET_KILLS", KILLS, KILLS_LONG);
    let (dice, seed) = Dice::of_environment();
    let mut fleet = Fleet::new(MEMBERS).await;
    let folder = fleet.site.path().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    fleet.site.bench.set("TMPDIR", folder);
    let mut storm = Storm { fleet, dice, story: format!("seed {seed}"), kills: 0, wanted, version: 0 };
    let (mut rollouts, mut deletions) = (0, 0);
    while storm.kills < wanted {
        let is_custom = storm.dice.roll(2) == 1;
        rollouts += storm.lives(is_custom).await;
        deletions += 1;
    }
    println!("{} kills, {rollouts} rollouts, {deletions} deletions", storm.kills);
    // What a process that was killed has left is tidied by the next one.
    storm.fleet.end(storm.fleet.serve());
    // Nothing was begun twice, whatever died in between.
    let operations = storm.fleet.operations(&storm.story, 0);
    let is_once = |(_, number): &(&str, usize)| *number == rollouts + deletions;
    assert!(operations.iter().all(is_once), "{}: {operations:?}", storm.story);
    assert_nothing_of_processes_is_left(&storm.fleet.site, &storm.story);
}

impl Storm {
    /// The set comes, a newer commit comes, the set goes. Returns how many rollouts that were.
    async fn lives(&mut self, is_custom: bool) -> usize {
        let commit = self.deploy();
        self.fleet.create(strategy(is_custom), json!({})).await;
        self.roll_out(commit).await;
        let commit = self.deploy();
        self.roll_out(commit).await;
        self.fleet.site.look_from_now();
        self.fleet.delete().await;
        self.strive(&Goal::Gone).await;
        self.assert_gone(is_custom).await;
        2
    }

    /// Another version, and the audit log from there on.
    fn deploy(&mut self) -> String {
        self.fleet.site.look_from_now();
        self.version += 1;
        self.fleet.deploy(self.version, &[])
    }

    async fn roll_out(&mut self, commit: String) {
        self.strive(&Goal::RolledOut(commit)).await;
        let Self { fleet, story, version, .. } = self;
        let spans = order::syncs(fleet).await;
        assert_steps(&spans, &[(DEV, 2), (QA, 1), (PROD, 1)], story);
        assert_eq!(spans.len(), MEMBERS.len(), "{story}: one operation each: {spans:#?}");
        for name in fleet.names() {
            fleet.site.assert_created_once("Job", &format!("work-{name}"), story).await;
            assert_eq!(fleet.version(name).await, version.to_string(), "{story}: {name}");
        }
    }

    async fn assert_gone(&self, is_custom: bool) {
        let Self { fleet, story, .. } = self;
        let left = fleet.site.observer().get(&crate::applications::path(&fleet.site)).await.unwrap();
        assert_eq!(left["items"], json!([]), "{story}: the set outlives its Applications");
        let reverse: &[(&[&str], usize)] = &[(PROD, 1), (QA, 1), (DEV, 1)];
        let custom: &[(&[&str], usize)] = &[(QA, 1), (DEV, 2), (PROD, 2)];
        assert_steps(&order::deletions(fleet).await, if is_custom { custom } else { reverse }, story);
        for name in fleet.names() {
            fleet.site.assert_created_once("Job", &format!("drain-{name}"), story).await;
        }
        assert_nothing_is_left(fleet).await;
    }

    /// Serves until a goal is reached, and kills that at random moments.
    async fn strive(&mut self, goal: &Goal) {
        let most = self.wanted.div_ceil(3).min(KILLS_MAX).min(self.wanted.saturating_sub(self.kills));
        for _ in 0..most {
            let moment = Duration::from_millis(self.dice.roll(LATEST_MILLIS));
            let serving = self.fleet.begin_to_serve();
            let story = &self.story;
            tokio::task::block_in_place(|| serving.kill_after(moment, story));
            if self.is_reached(goal).await {
                return;
            }
            self.kills += 1;
        }
        let serving = self.fleet.serve();
        let _told = Told(&self.fleet);
        match goal {
            Goal::RolledOut(commit) => drop(self.fleet.until_rolled_out(commit).await),
            Goal::Gone => drop(self.fleet.until_gone().await),
        }
        self.fleet.end(serving);
    }

    async fn is_reached(&self, goal: &Goal) -> bool {
        let set = self.fleet.site.observer().find(&self.fleet.fleet()).await.unwrap();
        match (goal, set) {
            (Goal::RolledOut(commit), Some(set)) => is_rolled_out(&set, MEMBERS.len(), commit),
            (Goal::RolledOut(_), None) => panic!("{}: the set is gone", self.story),
            (Goal::Gone, set) => set.is_none(),
        }
    }
}

/// Where the set does not come to its goal, what the service says of that, while it is there.
struct Told<'a>(&'a Fleet);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for words in
                [&["appset", "explain", "fleet"][..], &["appset", "status", "fleet"], &["app", "list"]]
            {
                // A second panic would end all tests.
                let ran = std::panic::catch_unwind(AssertUnwindSafe(|| self.0.site.run(words)));
                eprintln!("{}: {ran:#?}", words.join(" "));
            }
        }
    }
}

fn strategy(is_custom: bool) -> Value {
    let mut strategy = json!({
        "type": "RollingSync", "deletionOrder": "Reverse",
        "rollingSync": {"steps": [at_once("dev", 2), selects("qa"), at_once("prod", 1)]},
    });
    if is_custom {
        strategy["deletionOrder"] = json!("Custom");
        strategy["deletionSync"] = json!({"steps": [selects("qa"), at_once("dev", 2)]});
    }
    strategy
}
