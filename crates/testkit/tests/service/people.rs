//! What people do to a fleet while it is served.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::{Cluster as _, DeleteRequest};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Gvk;
use tidegate_model::argo::{OperationRequest, SyncOperation};
use tidegate_service::sets::SetWish;
use tidegate_testkit::simulate::Rng;

use crate::approval::{self, Needing};
use crate::author::{self, ALONE, BASE, Fleet, GUARDED, HOME, WRONGS, Wrong};
use crate::rules::{Commit, Membership};
use crate::world::{Life, World, kind, tracing};

pub const STEPS: usize = 3;
pub const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Those beside the set.
pub const BESIDE: [&str; 3] = [ALONE, BASE, GUARDED];
/// What may be said of an operation that is under way.
const POLICIES: [Option<&str>; 4] = [None, Some("refuse"), Some("queue"), Some("supersede")];
/// What may be said of rollouts.
const ROLLOUTS: [&str; 4] = [
    "onNewTargets: finish",
    "steps: [{step: 1, maxFailures: 1, onFailure: pause}, {step: 2, maxFailures: 1, onFailure: pause}]",
    "steps: [{step: 1, maxFailures: 0, onFailure: abort}, {step: 2, maxFailures: 0, onFailure: abort}]",
    "steps: [{step: 1, maxFailures: 0, onFailure: rollback}, {step: 2, deadline: 2m, onFailure: rollback}]",
];

/// Those who write, and what they have written so far.
pub struct People {
    pub rng: Rng,
    pub fleet: Fleet,
    pub commits: BTreeMap<u64, Commit>,
    /// What is wrong with the newest one.
    pub wrong: Option<(String, Wrong)>,
    pub members: BTreeMap<String, Membership>,
    /// Those of the Applications beside the set that need approvals.
    pub needing: Vec<Needing>,
    /// Whether all that waits for an approval gets one at the end.
    pub approve_in_the_end: bool,
    /// How many approvals were taken, and how many were refused.
    pub approvals: (usize, usize),
    /// How much they have still to do.
    pub acts: u64,
}

pub fn a_fleet(rng: &mut Rng) -> Fleet {
    let number = usize::try_from(3 + rng.below(3)).unwrap();
    let members = NAMES.iter().take(number).map(|name| ((*name).to_owned(), a_step(rng))).collect();
    let most = |_| match rng.below(4) {
        0 => None,
        1 => Some(json!("50%")),
        2 => Some(json!(2)),
        _ => Some(json!(1)),
    };
    let max_update = (0..STEPS).map(most).collect();
    let rollout = rng.percent(50).then(|| rng.pick(&ROLLOUTS));
    Fleet { members, max_update, rollout, deletion: rng.pick(&["Reverse", "Custom", "AllAtOnce"]) }
}

fn a_step(rng: &mut Rng) -> usize {
    usize::try_from(rng.below(STEPS as u64)).unwrap()
}

impl People {
    /// One that there is, beside the set or of it.
    fn somebody(&mut self) -> String {
        let all: Vec<&str> = self.fleet.members.keys().map(String::as_str).chain(BESIDE).collect();
        self.rng.pick(&all).to_owned()
    }

    /// Another commit of all, also of those who may come back.
    pub fn commit(&mut self, world: &World, wrong: Option<(String, Wrong)>) {
        let number = self.commits.len() as u64 + 1;
        let broken = wrong.as_ref().map(|(name, wrong)| (name.as_str(), *wrong));
        tracing(&format!("commit {number}, wrong: {broken:?}"));
        author::commit(&world.repository(), NAMES.into_iter().chain(BESIDE), (number, broken));
        let commit = Commit { at: SystemClock.now(), wrong: broken.map(|(name, _)| name.to_owned()) };
        self.commits.insert(number, commit);
        self.wrong = wrong;
    }

    pub fn commit_broken(&mut self, world: &World) {
        let wrong = (self.somebody(), self.rng.pick(&WRONGS));
        self.commit(world, Some(wrong));
    }

    /// The documents as they are at first.
    pub async fn begin(&mut self, world: &World) {
        self.commit(world, None);
        let now = SystemClock.now();
        for (name, step) in &self.fleet.members {
            let member = Membership { step: *step, since: now, until: None, is_unclear: false };
            self.members.insert(name.clone(), member);
        }
        world.write(self.fleet.document(&world.repository())).await;
        for (name, depends_on) in [(BASE, None), (ALONE, Some(BASE)), (GUARDED, None)] {
            let document = author::application(&world.repository(), name, depends_on);
            let needing = self.needing.iter().find(|one| one.name == name);
            world
                .write(match needing {
                    Some(one) => approval::needing(document, one.said),
                    None => document,
                })
                .await;
        }
    }

    /// Everything that is still to be done, with pauses.
    pub async fn act_all(&mut self, world: &World, life: &Life) {
        while self.acts > 0 {
            let pause = if self.rng.percent(50) { 5_000 } else { 90_000 };
            tokio::time::sleep(Duration::from_millis(self.rng.below(pause))).await;
            self.acts -= 1;
            self.act(world, life).await;
        }
        tokio::time::sleep(Duration::from_millis(self.rng.below(90_000))).await;
    }

    async fn act(&mut self, world: &World, life: &Life) {
        match self.rng.below(17) {
            0..=2 => self.commit(world, None),
            3 => self.commit_broken(world),
            4 => self.change_members(world).await,
            5 => self.drift(world).await,
            6 => self.annotate(world).await,
            7 => self.away(world).await,
            8 => self.sync(world, life).await,
            9 => {
                tracing("an end by hand");
                // The one it depends on would be Synced without its last hook, which is what tells that it is well.
                let name = self.rng.pick(&[ALONE, GUARDED]);
                drop(life.applications().terminate(name, None, ("ann".to_owned(), String::new())).await);
            }
            10 => {
                self.wish(life, SetWish::Pause).await;
                tokio::time::sleep(Duration::from_millis(self.rng.below(60_000))).await;
                self.wish(life, SetWish::Resume).await;
            }
            11..=14 => {
                let taken = approval::approve_some(&mut self.rng, &self.needing, life).await;
                self.approvals.0 += usize::from(taken == Some(true));
                self.approvals.1 += usize::from(taken == Some(false));
            }
            _ => {
                tracing("a refresh");
                drop(life.applications().refresh(ALONE, self.rng.percent(50)).await);
                drop(life.sets().refresh("fleet").await);
            }
        }
    }

    /// Somebody asks for a sync, or writes one into the resource, and says what is to happen if another one is at work. It may
    /// be refused for that.
    async fn sync(&mut self, world: &World, life: &Life) {
        let (name, policy) = (self.rng.pick(&BESIDE), self.rng.pick(&POLICIES));
        let is_written = self.rng.percent(30);
        tracing(&format!("a sync by hand of {name}, policy {policy:?}, written into it: {is_written}"));
        let mut asked = OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() };
        asked.initiated_by.username = "ann".to_owned();
        policy.into_iter().for_each(|policy| asked.set_remark("tidegate.dev/policy", policy));
        if !is_written {
            return drop(life.applications().sync(name, asked).await);
        }
        let Some(object) = world.sim.get(&kind("Application"), "argocd", name).await.unwrap() else { return };
        let mut written = serde_json::Value::from(object);
        written["operation"] = serde_json::to_value(asked).unwrap();
        drop(world.sim.put(written.try_into().unwrap(), None).await);
    }

    /// Somebody holds the rollout, or goes on with it. It may be refused: there is none.
    pub async fn wish(&self, life: &Life, wish: SetWish) {
        tracing(&format!("{wish:?}"));
        drop(life.sets().wish("fleet", None, wish, ("ann".to_owned(), String::new())).await);
    }

    /// Somebody joins, leaves, or moves to another step.
    async fn change_members(&mut self, world: &World) {
        let name = self.rng.pick(&NAMES).to_owned();
        let (step, now) = (a_step(&mut self.rng), SystemClock.now());
        let leaves = self.fleet.members.len() > 2 && self.rng.percent(60);
        let known = self.members.get_mut(&name);
        match (self.fleet.members.remove(&name), known) {
            (Some(before), Some(known)) => {
                known.until = Some(now);
                if !leaves {
                    known.is_unclear = known.is_unclear || before != step;
                    known.until = None;
                    self.fleet.members.insert(name.clone(), step);
                }
            }
            (_, Some(known)) => {
                (known.is_unclear, known.until) = (true, None);
                self.fleet.members.insert(name.clone(), step);
            }
            (_, None) => {
                let member = Membership { step, since: now, until: None, is_unclear: false };
                self.members.insert(name.clone(), member);
                self.fleet.members.insert(name.clone(), step);
            }
        }
        tracing(&format!("the members are {:?}", self.fleet.members));
        world.write(self.fleet.document(&world.repository())).await;
    }

    /// Somebody changes or deletes an object of the Application that is put right by itself.
    async fn drift(&mut self, world: &World) {
        let name = format!("settings-{}", self.rng.pick(&BESIDE));
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let Some(mut object) = world.sim.get(&gvk, HOME, &name).await.unwrap() else { return };
        tracing("drift");
        if self.rng.percent(50) {
            drop(world.sim.delete(DeleteRequest::of(&object)).await);
        } else {
            object.section_mut("data").insert("commit".to_owned(), json!("drifted"));
            drop(world.sim.put(object, None).await);
        }
    }

    /// Another program writes into an Application.
    async fn annotate(&mut self, world: &World) {
        let name = self.somebody();
        let Some(mut object) = world.sim.get(&kind("Application"), "argocd", &name).await.unwrap() else {
            return;
        };
        tracing(&format!("{name} is written by others"));
        object.set_annotation("example.com/seen", self.rng.draw().to_string());
        drop(world.sim.put(object, None).await);
    }

    /// The cluster is away for a while.
    async fn away(&mut self, world: &World) {
        tracing("the cluster is away");
        world.weather.is_away.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(self.rng.below(120_000))).await;
        world.weather.is_away.store(false, Ordering::SeqCst);
    }

    /// Somebody deletes the set.
    pub async fn delete(&mut self, world: &World) {
        let Some(set) = world.sim.get(&kind("ApplicationSet"), "argocd", "fleet").await.unwrap() else {
            return;
        };
        if !set.is_deleting() {
            tracing("the set is deleted");
            world.sim.delete(DeleteRequest::of(&set)).await.unwrap();
        }
    }
}
