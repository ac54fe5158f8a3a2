//! An ApplicationSet that is rolled out and deleted repeatedly, by a service that is killed at random
//! moments. According to the audit log, each operation must start once and run its hook once, the order must
//! be kept, and no objects may remain.
//!
//! `TIDEGATE_SET_KILLS=N` sets the number of kills, `TIDEGATE_KILL_SEED=N` repeats the moments of an earlier
//! run.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::effort;

use super::deletions::assert_nothing_remains;
use super::order::{self, assert_steps};
use super::{DEV, Fleet, PROD, SIX, is_rolled_out, select_env, select_with_limit};
use crate::thirty_applications::{Dice, assert_no_temporary_data};

const KILLS: u64 = 6;
/// Number of kills in the long form, on each version of Kubernetes.
const KILLS_LONG: u64 = 50;
/// Maximum number of kills during one rollout or deletion.
const KILLS_MAX: u64 = 17;
/// Latest time of a kill: while the service starts, and in all steps of its operations.
const LATEST_MILLIS: u64 = 2000;

const QA: &[&str] = &["qa-a"];

/// Goal of the service, regardless of kills.
enum Goal {
    RolledOut(String),
    Gone,
}

/// Kills so far, and their context.
struct KillRun {
    fleet: Fleet,
    dice: Dice,
    story: String,
    kills: u64,
    target_kills: u64,
    version: u32,
}

pub async fn a_service_of_an_appset_survives_its_kills() {
    let target_kills = effort::rounds("TIDEGATE_SET_KILLS", KILLS, KILLS_LONG);
    let (dice, seed) = Dice::from_environment();
    let mut fleet = Fleet::new(SIX).await;
    let folder = fleet.site.path().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    fleet.site.bench.set_variable("TMPDIR", folder);
    let mut storm =
        KillRun { fleet, dice, story: format!("seed {seed}"), kills: 0, target_kills, version: 0 };
    let (mut rollouts, mut deletions) = (0, 0);
    while storm.kills < target_kills {
        let is_custom = storm.dice.roll(2) == 1;
        rollouts += storm.run_life_cycle(is_custom).await;
        deletions += 1;
    }
    println!("{} kills, {rollouts} rollouts, {deletions} deletions", storm.kills);
    // The next process cleans up what a killed process has left behind.
    storm.fleet.stop(storm.fleet.serve());
    // No operation was started twice, regardless of kills.
    let operations = storm.fleet.operations(&storm.story, 0);
    let is_once = |(_, number): &(&str, usize)| *number == rollouts + deletions;
    assert!(operations.iter().all(is_once), "{}: {operations:?}", storm.story);
    assert_no_temporary_data(&storm.fleet.site, &storm.story);
}

impl KillRun {
    /// Creates the ApplicationSet, commits a newer version, and deletes it. Returns the number of rollouts.
    async fn run_life_cycle(&mut self, is_custom: bool) -> usize {
        let commit = self.commit_version();
        self.fleet.create(strategy(is_custom), json!({})).await;
        self.roll_out(commit).await;
        let commit = self.commit_version();
        self.roll_out(commit).await;
        self.fleet.site.reset_audit();
        self.fleet.delete().await;
        self.run_until(&Goal::Gone).await;
        self.assert_gone(is_custom).await;
        2
    }

    /// Commits another version, and starts a new section of the audit log.
    fn commit_version(&mut self) -> String {
        self.fleet.site.reset_audit();
        self.version += 1;
        self.fleet.deploy(self.version, &[])
    }

    async fn roll_out(&mut self, commit: String) {
        self.run_until(&Goal::RolledOut(commit)).await;
        let Self { fleet, story, version, .. } = self;
        let spans = order::syncs(fleet).await;
        assert_steps(&spans, &[(DEV, 2), (QA, 1), (PROD, 1)], story);
        assert_eq!(spans.len(), SIX.len(), "{story}: one operation each: {spans:#?}");
        for name in fleet.names() {
            fleet.site.assert_created_once("Job", &format!("work-{name}"), story).await;
            assert_eq!(fleet.version(name).await, version.to_string(), "{story}: {name}");
        }
    }

    async fn assert_gone(&self, is_custom: bool) {
        let Self { fleet, story, .. } = self;
        let left = fleet.site.observer().get(&crate::applications::path(&fleet.site)).await.unwrap();
        assert_eq!(left["items"], json!([]), "{story}: the ApplicationSet is deleted after its Applications");
        let reverse: &[(&[&str], usize)] = &[(PROD, 1), (QA, 1), (DEV, 1)];
        let custom: &[(&[&str], usize)] = &[(QA, 1), (DEV, 2), (PROD, 2)];
        assert_steps(&order::deletions(fleet).await, if is_custom { custom } else { reverse }, story);
        for name in fleet.names() {
            fleet.site.assert_created_once("Job", &format!("drain-{name}"), story).await;
        }
        assert_nothing_remains(fleet).await;
    }

    /// Runs the service until it reaches a goal, and kills it at random moments.
    async fn run_until(&mut self, goal: &Goal) {
        let most =
            self.target_kills.div_ceil(3).min(KILLS_MAX).min(self.target_kills.saturating_sub(self.kills));
        for _ in 0..most {
            let moment = Duration::from_millis(self.dice.roll(LATEST_MILLIS));
            let service = self.fleet.start_service();
            let story = &self.story;
            tokio::task::block_in_place(|| service.kill_after(moment, story));
            if self.is_reached(goal).await {
                return;
            }
            self.kills += 1;
        }
        let service = self.fleet.serve();
        let _told = ExplainOnPanic(&self.fleet);
        match goal {
            Goal::RolledOut(commit) => drop(self.fleet.wait_until_rolled_out(commit).await),
            Goal::Gone => drop(self.fleet.wait_until_gone().await),
        }
        self.fleet.stop(service);
    }

    async fn is_reached(&self, goal: &Goal) -> bool {
        let set = self.fleet.site.observer().find(&self.fleet.fleet()).await.unwrap();
        match (goal, set) {
            (Goal::RolledOut(commit), Some(set)) => is_rolled_out(&set, SIX.len(), commit),
            (Goal::RolledOut(_), None) => panic!("{}: the ApplicationSet is deleted", self.story),
            (Goal::Gone, set) => set.is_none(),
        }
    }
}

/// Prints the service's explanation if the ApplicationSet does not reach its goal.
struct ExplainOnPanic<'a>(&'a Fleet);

impl Drop for ExplainOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for text in
                [&["appset", "explain", "fleet"][..], &["appset", "status", "fleet"], &["app", "list"]]
            {
                // A second panic would abort all tests.
                let ran = std::panic::catch_unwind(AssertUnwindSafe(|| self.0.site.run(text)));
                eprintln!("{}: {ran:#?}", text.join(" "));
            }
        }
    }
}

fn strategy(is_custom: bool) -> Value {
    let mut strategy = json!({
        "type": "RollingSync", "deletionOrder": "Reverse",
        "rollingSync": {"steps": [select_with_limit("dev", 2), select_env("qa"), select_with_limit("prod", 1)]},
    });
    if is_custom {
        strategy["deletionOrder"] = json!("Custom");
        strategy["deletionSync"] = json!({"steps": [select_env("qa"), select_with_limit("dev", 2)]});
    }
    strategy
}
