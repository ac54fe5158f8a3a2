//! Random life of a fleet: correct and broken commits, changes to the ApplicationSet, drift, user actions,
//! faults and crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_application::approval::approval_condition_message;
use tidegate_cluster::Cluster as _;
use tidegate_model::argo::{Application, SyncStatusCode};
use tidegate_model::{Gvk, HealthStatus};
use tidegate_testkit::crash::CrashPoints;
use tidegate_testkit::simulate::Rng;
use tidegate_views::appset_actions::AppSetAction;

use crate::approval;
use crate::invariants;
use crate::user_actions::{OTHER_APPS, Users, random_fleet};
use crate::user_documents::APP_NAMESPACE;
use crate::world::{Life, World, enable_tracing};

/// Time without writes until the system counts as being at rest.
pub const QUIET_TIME: Duration = Duration::from_secs(20 * 60);
const HOUR: Duration = Duration::from_secs(3600);

/// Statistics of a life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub crashes: usize,
    pub commits: usize,
    pub operations: usize,
    /// Number of approved and executed plans.
    pub approved: usize,
    /// Number of refused approvals.
    pub refused: usize,
    pub writes: usize,
    /// True if the newest commit was broken when the system was at rest.
    pub is_broken: bool,
    /// True if the ApplicationSet was deleted.
    pub is_deleted: bool,
}

struct RandomLife {
    world: World,
    people: Users,
    rng: Rng,
    faults_percent: u64,
    crashes: usize,
}

/// Runs the life of a seed. Panics if an invariant is violated.
pub fn run_life(seed: u64) -> Report {
    let mut rng = Rng::new(seed);
    let gone = if rng.percent(50) { 0.01 } else { 0.0 };
    let world = World::new(seed, gone).with_stored_plans();
    let faults_percent = rng.pick(&[0, 0, 2, 8]);
    world.faults.faults_percent.store(faults_percent, Ordering::SeqCst);
    let fleet = random_fleet(&mut rng);
    enable_tracing(&format!("{fleet:?}"));
    let people = Users {
        rng: Rng::new(rng.draw()),
        remaining_actions: 8 + rng.below(24),
        fleet,
        commits: BTreeMap::new(),
        commit_error: None,
        members: BTreeMap::new(),
        approval_apps: approval::random_approval_apps(&mut rng),
        approves_at_end: rng.percent(75),
        unrelated_commits: 0,
        approvals: (0, 0),
        team: None,
    };
    enable_tracing(&format!("{:?}, approved in the end: {}", people.approval_apps, people.approves_at_end));
    let mut play = RandomLife { world, people, rng, faults_percent, crashes: 0 };
    play.run_with_crashes();
    let is_broken = play.rng.percent(25);
    play.settle(is_broken);
    let is_deleted = play.rng.percent(50);
    if is_deleted {
        play.delete();
    }
    let approved = play.check();
    Report {
        approved,
        refused: play.people.approvals.1,
        crashes: play.crashes,
        commits: play.people.commits.len(),
        operations: invariants::deployed_commits(&play.world.faults.writes.lock().unwrap()).len(),
        writes: play.world.sim.audit().len(),
        is_broken,
        is_deleted,
    }
}

impl RandomLife {
    /// Returns the crash points of a process, which may crash at some time.
    fn crash_points(&mut self) -> Arc<CrashPoints> {
        let dies_at = if self.rng.percent(75) { 1 + self.rng.below(500) } else { 0 };
        CrashPoints::crash_at(dies_at)
    }

    fn count_crash(&mut self, points: &CrashPoints) {
        self.crashes += 1;
        enable_tracing(&format!("it died at point {}", points.passed()));
    }

    /// Runs all user actions while processes crash.
    fn run_with_crashes(&mut self) {
        let Self { world, people, .. } = self;
        world
            .run_process(&CrashPoints::crash_at(0), async |_| people.write_initial_documents(world).await)
            .unwrap();
        while self.people.remaining_actions > 0 {
            let points = self.crash_points();
            let Self { world, people, .. } = self;
            if world.run_process(&points, async |life| people.act_all(world, life).await).is_none() {
                self.count_crash(&points);
            }
        }
    }

    /// Ends all faults and actions. Afterwards, every change must be synced or explained, and the writes must
    /// stop.
    fn settle(&mut self, is_broken: bool) {
        let Self { world, people, .. } = self;
        world.faults.faults_percent.store(0, Ordering::SeqCst);
        let resting = async |life: &Life| {
            people.settle_policy(world).await;
            match is_broken {
                true => people.commit_broken(world),
                false => people.commit(world, None),
            }
            people.request(life, AppSetAction::Resume).await;
            world.wait_for_quiet(QUIET_TIME).await;
            if people.approves_at_end {
                approval::approve_all(&people.approval_apps, world, life).await;
            }
            assert_is_explained(world, life, people).await;
            people.assert_namespace(world).await;
            let before = world.writes().len();
            let effort = life.effort();
            tokio::time::sleep(HOUR).await;
            let count = people.fleet.members.len() + OTHER_APPS.len();
            invariants::check_idle_effort(effort, life.effort(), (HOUR, count)).unwrap();
            let after = world.writes();
            assert_eq!(before, after.len(), "an idle system writes nothing: {:?}", &after[before..]);
        };
        world.run_process(&CrashPoints::crash_at(0), resting).unwrap();
    }

    /// Deletes the ApplicationSet while processes crash.
    fn delete(&mut self) {
        let before = self.world.faults.writes.lock().unwrap().len();
        self.world.faults.faults_percent.store(self.faults_percent, Ordering::SeqCst);
        loop {
            let points = if self.crashes > 40 { CrashPoints::crash_at(0) } else { self.crash_points() };
            let Self { world, people, .. } = self;
            let end = world.run_process(&points, async |_| {
                people.delete(world).await;
                while world.appset().await.is_some() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                // While calls fail at random, the status of the other Applications keeps changing.
                world.faults.faults_percent.store(0, Ordering::SeqCst);
                // Without a deletion order, the Applications are deleted after the ApplicationSet.
                world.wait_for_quiet(QUIET_TIME).await;
                for name in people.fleet.members.keys() {
                    assert!(world.application(name).await.is_none(), "{name} still exists");
                }
            });
            match end {
                Some(()) => break,
                None => self.count_crash(&points),
            }
        }
        let left: Vec<_> =
            self.world.sim.objects().into_iter().filter(|one| one.namespace() == APP_NAMESPACE).collect();
        let theirs = |name: &str| self.people.members.keys().any(|one| name == format!("web-{one}"));
        let left: Vec<&str> = left.iter().map(|one| one.name()).filter(|name| theirs(name)).collect();
        assert!(left.is_empty(), "their objects still exist: {left:?}");
        let writes = self.world.faults.writes.lock().unwrap();
        invariants::check_deletion_order(&writes[before..], &self.people.fleet.deletion_ranks()).unwrap();
    }

    /// Checks the invariants. Returns the number of approved and executed plans.
    fn check(&self) -> usize {
        let Self { world, people, .. } = self;
        invariants::check_single_operation(&world.sim);
        invariants::check_project_scope(&world.sim);
        invariants::check_hooks_run_once(&world.sim);
        let deployed = invariants::deployed_commits(&world.faults.writes.lock().unwrap());
        deployed.iter().for_each(|one| enable_tracing(&one.to_string()));
        let recorded = invariants::recorded_operations(&world.log);
        invariants::check_superseding(&recorded).unwrap();
        invariants::check_no_repeated_deployment(&people.fleet, &people.members, &recorded).unwrap();
        let of_rollouts = (deployed.as_slice(), &invariants::user_operations(&recorded));
        invariants::check_step_order(&people.fleet, &people.members, &people.commits, of_rollouts).unwrap();
        invariants::check_update_limit(&people.fleet, &people.members, of_rollouts).unwrap();
        invariants::check_dependency_order(&deployed).unwrap();
        approval::assert_only_approved_writes(
            world,
            &world.faults.writes.lock().unwrap(),
            &people.approval_apps,
        )
    }
}

/// Returns the commit of an Application's deployed objects.
pub async fn deployed_commit(world: &World, name: &str) -> Option<u64> {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let settings = world.sim.get(&gvk, APP_NAMESPACE, &format!("settings-{name}")).await.unwrap()?;
    settings.text("/data/commit").parse().ok()
}

/// Checks that every change is synced or has an explanation. Every rollout must have finished or report the
/// reason for its wait.
async fn assert_is_explained(world: &World, life: &Life, people: &Users) {
    let newest = people.commits.len() as u64;
    let set = world.appset().await.unwrap();
    let explanation = life.appsets().explain("fleet").await.unwrap();
    enable_tracing(&format!(
        "{}\n{:?}\n{:?}",
        explanation.line, explanation.explanation, set.status.conditions
    ));
    let rollout = explanation.rollout.expect("there was a rollout");
    // If a rollout must finish before the next one, it waits for users after a member has failed.
    let is_stuck = people.fleet.rollout.is_some_and(|text| text.contains("finish")) && rollout.end.is_none();
    let may_wait = people.commit_error.is_some() || is_stuck;
    assert!(
        rollout.end.is_some() || explanation.explanation.is_some(),
        "the awaited condition is missing: {rollout:#?}"
    );
    assert!(rollout.end.is_some() || may_wait, "it does not end: {rollout:#?}");
    for name in people.fleet.members.keys().map(String::as_str).chain(OTHER_APPS) {
        let Some(application) = world.application(name).await else { panic!("{name} was never created") };
        let is_held = !people.approves_at_end && approval_condition_message(&application).is_some();
        // All operations requested by users must have been processed.
        let is_left = OTHER_APPS.contains(&name) && application.operation.is_some();
        let may_be_left = is_held || people.commit_error.is_some();
        assert!(!is_left || may_be_left, "{name} still has an operation: {application:#?}");
        let is_synced = deployed_commit(world, name).await == Some(newest);
        let is_broken = people.commit_error.as_ref().is_some_and(|(broken, _)| broken == name);
        if is_synced && !is_broken {
            continue;
        }
        if is_held {
            continue;
        }
        assert!(may_wait, "{name} does not match the commit: {:#?}", (application, &set.status));
        let step = set.status.application_status.iter().find(|one| one.application == name);
        let is_told = step.is_some_and(|one| one.status.to_string() != "Healthy" && !one.message.is_empty());
        assert!(
            is_told || is_explained(&application),
            "no reason why {name} is not synced: {application:#?}"
        );
    }
    for name in people.members.keys().filter(|name| !people.fleet.members.contains_key(*name)) {
        assert!(world.application(name).await.is_none(), "{name} is not a member but exists");
        assert_eq!(deployed_commit(world, name).await, None, "{name} is not a member, but its objects exist");
    }
}

/// Returns true if an Application reports that it isn't synced or healthy, with the reason.
fn is_explained(application: &Application) -> bool {
    let status = &application.status;
    let is_synced = status.sync.as_ref().is_some_and(|sync| sync.status == SyncStatusCode::Synced);
    let is_failed = status.operation_state.as_ref().is_some_and(|state| !state.message.is_empty());
    let is_wrong = status.conditions.iter().any(|one| one.kind.is_error() && !one.message.is_empty());
    let is_unwell = status.health.as_ref().is_some_and(|health| health.status != HealthStatus::Healthy);
    is_wrong || is_failed && !is_synced || is_unwell
}
