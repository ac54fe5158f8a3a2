//! User actions on a managed fleet.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::{Cluster as _, DeleteRequest};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::{OperationRequest, SyncOperation};
use tidegate_model::{Gvk, Requester};
use tidegate_testkit::simulate::Rng;
use tidegate_views::appset_actions::AppSetAction;

use crate::approval::{self, ApprovalApp};
use crate::invariants::{Commit, Membership};
use crate::user_documents::{
    self, APP_NAMESPACE, APPROVAL_APP, BASE_APP, COMMIT_ERRORS, CommitError, Fleet, GATED_APP, STANDALONE_APP,
};
use crate::world::{Life, World, enable_tracing, kind};

pub const STEPS: usize = 3;
pub const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Applications outside the ApplicationSet.
pub const OTHER_APPS: [&str; 4] = [STANDALONE_APP, BASE_APP, GATED_APP, APPROVAL_APP];
/// User who requests manual syncs.
pub const PERSON: &str = "ann";
/// Policies for a sync while another operation is running.
const POLICIES: [Option<&str>; 4] = [None, Some("refuse"), Some("queue"), Some("supersede")];
/// Possible rollout settings.
const ROLLOUTS: [&str; 4] = [
    "onNewTargets: finish",
    "steps: [{step: 1, maxFailures: 1, onFailure: pause}, {step: 2, maxFailures: 1, onFailure: pause}]",
    "steps: [{step: 1, maxFailures: 0, onFailure: abort}, {step: 2, maxFailures: 0, onFailure: abort}]",
    "steps: [{step: 1, maxFailures: 0, onFailure: rollback}, {step: 2, deadline: 2m, onFailure: rollback}]",
];

/// Users, and their documents so far.
pub struct Users {
    pub rng: Rng,
    pub fleet: Fleet,
    pub commits: BTreeMap<u64, Commit>,
    /// Error in the newest commit.
    pub commit_error: Option<(String, CommitError)>,
    pub members: BTreeMap<String, Membership>,
    /// Applications outside the ApplicationSet that need approvals.
    pub approval_apps: Vec<ApprovalApp>,
    /// True if all waiting plans are approved at the end.
    pub approves_at_end: bool,
    /// Number of commits that don't change manifests.
    pub unrelated_commits: u64,
    /// Numbers of accepted and refused approvals.
    pub approvals: (usize, usize),
    /// Expected label of the namespace, if its policy was changed.
    pub team: Option<&'static str>,
    /// Number of remaining actions.
    pub remaining_actions: u64,
}

pub fn random_fleet(rng: &mut Rng) -> Fleet {
    let number = usize::try_from(3 + rng.below(3)).unwrap();
    let members = NAMES.iter().take(number).map(|name| ((*name).to_owned(), random_step(rng))).collect();
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

fn random_step(rng: &mut Rng) -> usize {
    usize::try_from(rng.below(STEPS as u64)).unwrap()
}

impl Users {
    /// Returns a random Application.
    fn random_application(&mut self) -> String {
        let all: Vec<&str> = self.fleet.members.keys().map(String::as_str).chain(OTHER_APPS).collect();
        self.rng.pick(&all).to_owned()
    }

    /// Commits a new version of all Applications, including those that may be added again.
    pub fn commit(&mut self, world: &World, wrong: Option<(String, CommitError)>) {
        let number = self.commits.len() as u64 + 1;
        let broken = wrong.as_ref().map(|(name, wrong)| (name.as_str(), *wrong));
        enable_tracing(&format!("commit {number}, wrong: {broken:?}"));
        user_documents::commit(&world.repository(), NAMES.into_iter().chain(OTHER_APPS), (number, broken));
        let commit = Commit { at: SystemClock.now(), wrong: broken.map(|(name, _)| name.to_owned()) };
        self.commits.insert(number, commit);
        self.commit_error = wrong;
    }

    /// Writes a commit that has no effect.
    fn commit_unrelated(&mut self, world: &World) {
        self.unrelated_commits += 1;
        let name = self.random_application();
        enable_tracing(&format!("commit elsewhere {}, beside {name}", self.unrelated_commits));
        user_documents::commit_unrelated(&world.repository(), &name, self.unrelated_commits);
    }

    pub fn commit_broken(&mut self, world: &World) {
        let wrong = (self.random_application(), self.rng.pick(&COMMIT_ERRORS));
        self.commit(world, Some(wrong));
    }

    /// Writes the initial documents.
    pub async fn write_initial_documents(&mut self, world: &World) {
        self.commit(world, None);
        let now = SystemClock.now();
        for (name, step) in &self.fleet.members {
            let member = Membership { step: *step, since: now, until: None, is_unclear: false };
            self.members.insert(name.clone(), member);
        }
        world.write(self.fleet.document(&world.repository())).await;
        for (name, depends_on) in
            [(BASE_APP, None), (STANDALONE_APP, Some(BASE_APP)), (GATED_APP, None), (APPROVAL_APP, None)]
        {
            let document = user_documents::application(&world.repository(), name, depends_on);
            world.write(self.with_approvals(name, document)).await;
        }
    }

    /// Adds the approval requirement to an Application's document, if needed.
    fn with_approvals(&self, name: &str, document: Value) -> Value {
        match self.approval_apps.iter().find(|one| one.name == name) {
            Some(one) => approval::with_approval(document, one.approvers),
            None => document,
        }
    }

    /// Runs all remaining actions, with pauses between them.
    pub async fn act_all(&mut self, world: &World, life: &Life) {
        while self.remaining_actions > 0 {
            let pause = if self.rng.percent(50) { 5_000 } else { 90_000 };
            tokio::time::sleep(Duration::from_millis(self.rng.below(pause))).await;
            self.remaining_actions -= 1;
            self.act(world, life).await;
        }
        tokio::time::sleep(Duration::from_millis(self.rng.below(90_000))).await;
    }

    async fn act(&mut self, world: &World, life: &Life) {
        match self.rng.below(24) {
            0..=2 => self.commit(world, None),
            3 => self.commit_broken(world),
            4 => self.change_members(world).await,
            5 => self.drift(world).await,
            6 => self.annotate(world).await,
            7 => self.make_cluster_unavailable(world).await,
            8 => self.sync(world, life).await,
            9 => {
                enable_tracing("an end by hand");
                // Don't terminate operations of `BASE_APP`. It would be Synced without its last hook, which
                // proves its health.
                let name = self.rng.pick(&[STANDALONE_APP, APPROVAL_APP]);
                drop(life.applications().terminate(name, None, Requester { name: "ann", reason: "" }).await);
            }
            10 => {
                self.request(life, AppSetAction::Pause).await;
                tokio::time::sleep(Duration::from_millis(self.rng.below(60_000))).await;
                self.request(life, AppSetAction::Resume).await;
            }
            11..=14 => {
                let taken = approval::approve_random(&mut self.rng, &self.approval_apps, life).await;
                self.approvals.0 += usize::from(taken == Some(true));
                self.approvals.1 += usize::from(taken == Some(false));
            }
            15..=18 => self.commit_unrelated(world),
            19 => self.sync_member(life).await,
            20 | 21 => self.change_policy(world).await,
            _ => {
                enable_tracing("a refresh");
                drop(life.applications().refresh(STANDALONE_APP, self.rng.percent(50)).await);
                drop(life.appsets().refresh("fleet").await);
            }
        }
    }

    /// Requests a sync through the API or the resource, with a policy for a running operation. The request
    /// may be rejected.
    async fn sync(&mut self, world: &World, life: &Life) {
        let (name, policy) = (self.rng.pick(&OTHER_APPS), self.rng.pick(&POLICIES));
        let is_written = self.rng.percent(30);
        enable_tracing(&format!(
            "a sync by hand of {name}, policy {policy:?}, written into it: {is_written}"
        ));
        let mut asked = OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() };
        asked.initiated_by.username = PERSON.to_owned();
        policy.into_iter().for_each(|policy| asked.set_info("tidegate.dev/policy", policy));
        if !is_written {
            return drop(life.applications().sync(name, asked).await);
        }
        let Some(object) = world.sim.get(&kind("Application"), "argocd", name).await.unwrap() else { return };
        let mut written = serde_json::Value::from(object);
        written["operation"] = serde_json::to_value(asked).unwrap();
        drop(world.sim.put(written.try_into().unwrap(), None).await);
    }

    /// Changes the sync policy of an Application, and the labels of its namespace.
    async fn change_policy(&mut self, world: &World) {
        let automated = match self.rng.below(4) {
            0 => json!(null),
            1 => json!({}),
            2 => json!({"selfHeal": true}),
            _ => json!({"prune": true, "selfHeal": true}),
        };
        let ignored = match self.rng.percent(50) {
            true => json!([]),
            false => json!([{"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/paused"]}]),
        };
        self.write_policy(world, &automated, &ignored).await;
    }

    /// Enables self-heal permanently.
    pub async fn settle_policy(&mut self, world: &World) {
        self.write_policy(world, &json!({"prune": true, "selfHeal": true}), &json!([])).await;
    }

    async fn write_policy(&mut self, world: &World, automated: &Value, ignored: &Value) {
        self.team = Some(self.rng.pick(&["red", "green", "blue"]));
        let labels = json!({"team": self.team});
        enable_tracing(&format!(
            "the policy of {STANDALONE_APP}: automated {automated}, ignored {ignored}, labels {labels}"
        ));
        let document = user_documents::application(&world.repository(), STANDALONE_APP, Some(BASE_APP));
        let document = user_documents::with_policy(document, automated, &labels, ignored);
        world.write(self.with_approvals(STANDALONE_APP, document)).await;
    }

    /// Checks that the namespace's labels match the policy, unless the Application that manages it can't be
    /// synced.
    pub async fn assert_namespace(&self, world: &World) {
        let is_kept = |name: &str| [STANDALONE_APP, BASE_APP].contains(&name);
        let is_broken = self.commit_error.as_ref().is_some_and(|(name, _)| is_kept(name));
        if is_broken || self.approval_apps.iter().any(|one| one.name == STANDALONE_APP) {
            return;
        }
        let home = world.sim.get(&Gvk::new("", "v1", "Namespace"), "", APP_NAMESPACE).await.unwrap().unwrap();
        assert_eq!(home.label("team"), self.team, "the namespace is not restored: {home:#?}");
    }

    /// Syncs a member of the ApplicationSet manually, at any stage of its rollout.
    async fn sync_member(&mut self, life: &Life) {
        let all: Vec<&str> = self.fleet.members.keys().map(String::as_str).collect();
        let name = self.rng.pick(&all).to_owned();
        let mut request = OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() };
        request.initiated_by.username = PERSON.to_owned();
        let taken = life.applications().sync(&name, request).await;
        enable_tracing(&format!("a sync by hand of member {name}: {:?}", taken.map(drop)));
    }

    /// Sends a request, such as a pause, to the rollout. Without a rollout, the request may be rejected.
    pub async fn request(&self, life: &Life, request: AppSetAction) {
        enable_tracing(&format!("{request:?}"));
        let requester = Requester { name: "ann", reason: "" };
        drop(life.appsets().send_action("fleet", None, request, requester).await);
    }

    /// Adds, removes, or moves a member.
    async fn change_members(&mut self, world: &World) {
        let name = self.rng.pick(&NAMES).to_owned();
        let (step, now) = (random_step(&mut self.rng), SystemClock.now());
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
        enable_tracing(&format!("the members are {:?}", self.fleet.members));
        world.write(self.fleet.document(&world.repository())).await;
    }

    /// Changes or deletes an object of an Application with self-heal.
    async fn drift(&mut self, world: &World) {
        let name = format!("settings-{}", self.rng.pick(&OTHER_APPS));
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let Some(mut object) = world.sim.get(&gvk, APP_NAMESPACE, &name).await.unwrap() else { return };
        enable_tracing("drift");
        if self.rng.percent(50) {
            drop(world.sim.delete(DeleteRequest::for_object(&object)).await);
        } else {
            object.section_mut("data").insert("commit".to_owned(), json!("drifted"));
            drop(world.sim.put(object, None).await);
        }
    }

    /// Writes to an Application like another program.
    async fn annotate(&mut self, world: &World) {
        let name = self.random_application();
        let Some(mut object) = world.sim.get(&kind("Application"), "argocd", &name).await.unwrap() else {
            return;
        };
        enable_tracing(&format!("{name} is written by others"));
        object.set_annotation("example.com/seen", self.rng.draw().to_string());
        drop(world.sim.put(object, None).await);
    }

    /// Makes the cluster unavailable for a while.
    async fn make_cluster_unavailable(&mut self, world: &World) {
        enable_tracing("the cluster is away");
        world.faults.is_unavailable.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(self.rng.below(120_000))).await;
        world.faults.is_unavailable.store(false, Ordering::SeqCst);
    }

    /// Deletes the ApplicationSet.
    pub async fn delete(&mut self, world: &World) {
        let Some(set) = world.sim.get(&kind("ApplicationSet"), "argocd", "fleet").await.unwrap() else {
            return;
        };
        if !set.is_deleting() {
            enable_tracing("the set is deleted");
            world.sim.delete(DeleteRequest::for_object(&set)).await.unwrap();
        }
    }
}
