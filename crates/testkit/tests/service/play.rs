//! A random life of a fleet: commits, broken ones and mends, changes of the set, drift, people, bad weather, crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_application::approval::waiting;
use tidegate_cluster::Cluster as _;
use tidegate_model::argo::{Application, SyncStatusCode};
use tidegate_model::{Gvk, HealthStatus};
use tidegate_service::sets::SetWish;
use tidegate_testkit::crash::Points;
use tidegate_testkit::simulate::Rng;

use crate::approval;
use crate::author::HOME;
use crate::people::{BESIDE, People, a_fleet};
use crate::rules;
use crate::world::{Life, World, tracing};

/// What has written nothing for so long has come to rest.
pub const REST: Duration = Duration::from_secs(20 * 60);
const HOUR: Duration = Duration::from_secs(3600);

/// What a life was like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub crashes: usize,
    pub commits: usize,
    pub operations: usize,
    /// How many plans were carried out that somebody had approved.
    pub approved: usize,
    /// How many approvals were refused.
    pub refused: usize,
    pub writes: usize,
    /// The newest commit was broken when it came to rest.
    pub is_broken: bool,
    /// The set was deleted.
    pub is_deleted: bool,
}

struct Play {
    world: World,
    people: People,
    rng: Rng,
    faults_percent: u64,
    crashes: usize,
}

/// Lives one life from a seed. Panics when a rule is broken.
pub fn play(seed: u64) -> Report {
    let mut rng = Rng::new(seed);
    let gone = if rng.percent(50) { 0.01 } else { 0.0 };
    let world = World::new(seed, gone).keeping_plans();
    let faults_percent = rng.pick(&[0, 0, 2, 8]);
    world.weather.faults_percent.store(faults_percent, Ordering::SeqCst);
    let fleet = a_fleet(&mut rng);
    tracing(&format!("{fleet:?}"));
    let people = People {
        rng: Rng::new(rng.draw()),
        acts: 8 + rng.below(24),
        fleet,
        commits: BTreeMap::new(),
        wrong: None,
        members: BTreeMap::new(),
        needing: approval::some(&mut rng),
        approve_in_the_end: rng.percent(75),
        approvals: (0, 0),
    };
    tracing(&format!("{:?}, approved in the end: {}", people.needing, people.approve_in_the_end));
    let mut play = Play { world, people, rng, faults_percent, crashes: 0 };
    play.fray();
    let is_broken = play.rng.percent(25);
    play.come_to_rest(is_broken);
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
        operations: rules::deployed(&play.world.weather.writes.lock().unwrap()).len(),
        writes: play.world.sim.audit().len(),
        is_broken,
        is_deleted,
    }
}

impl Play {
    /// A process that dies sooner or later, or does not.
    fn points(&mut self) -> Arc<Points> {
        let dies_at = if self.rng.percent(75) { 1 + self.rng.below(500) } else { 0 };
        Points::dying_at(dies_at)
    }

    fn died(&mut self, points: &Points) {
        self.crashes += 1;
        tracing(&format!("it died at point {}", points.passed()));
    }

    /// Everything that people do, while processes come and go.
    fn fray(&mut self) {
        let Self { world, people, .. } = self;
        world.live(&Points::dying_at(0), async |_| people.begin(world).await).unwrap();
        while self.people.acts > 0 {
            let points = self.points();
            let Self { world, people, .. } = self;
            if world.live(&points, async |life| people.act_all(world, life).await).is_none() {
                self.died(&points);
            }
        }
    }

    /// The weather is good, and nobody does anything any more: all is synced or explained, and nothing is written.
    fn come_to_rest(&mut self, is_broken: bool) {
        let Self { world, people, .. } = self;
        world.weather.faults_percent.store(0, Ordering::SeqCst);
        let resting = async |life: &Life| {
            match is_broken {
                true => people.commit_broken(world),
                false => people.commit(world, None),
            }
            people.wish(life, SetWish::Resume).await;
            world.quiet_for(REST).await;
            if people.approve_in_the_end {
                approval::approve_all(&people.needing, world, life).await;
            }
            assert_is_explained(world, life, people).await;
            let before = world.written().len();
            tokio::time::sleep(HOUR).await;
            let after = world.written();
            assert_eq!(before, after.len(), "a quiet system writes nothing: {:?}", &after[before..]);
        };
        world.live(&Points::dying_at(0), resting).unwrap();
    }

    /// The set is deleted, while processes come and go.
    fn delete(&mut self) {
        let before = self.world.weather.writes.lock().unwrap().len();
        self.world.weather.faults_percent.store(self.faults_percent, Ordering::SeqCst);
        loop {
            let points = if self.crashes > 40 { Points::dying_at(0) } else { self.points() };
            let Self { world, people, .. } = self;
            let end = world.live(&points, async |_| {
                people.delete(world).await;
                while world.set().await.is_some() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                // Where nobody keeps an order, its Applications go after it.
                world.quiet_for(REST).await;
                for name in people.fleet.members.keys() {
                    assert!(world.application(name).await.is_none(), "{name} is there still");
                }
            });
            match end {
                Some(()) => break,
                None => self.died(&points),
            }
        }
        let left: Vec<_> =
            self.world.sim.objects().into_iter().filter(|one| one.namespace() == HOME).collect();
        let theirs = |name: &str| self.people.members.keys().any(|one| name == format!("web-{one}"));
        let left: Vec<&str> = left.iter().map(|one| one.name()).filter(|name| theirs(name)).collect();
        assert!(left.is_empty(), "their objects are there still: {left:?}");
        let writes = self.world.weather.writes.lock().unwrap();
        rules::deleted_in_order(&writes[before..], &self.people.fleet.ranks()).unwrap();
    }

    /// How many plans were carried out that somebody had approved.
    fn check(&self) -> usize {
        let Self { world, people, .. } = self;
        rules::one_operation_at_a_time(&world.sim);
        rules::nothing_outside_the_project(&world.sim);
        rules::hooks_once(&world.sim);
        let deployed = rules::deployed(&world.weather.writes.lock().unwrap());
        deployed.iter().for_each(|one| tracing(&one.to_string()));
        rules::step_after_step(&people.fleet, &people.members, &people.commits, &deployed).unwrap();
        rules::within_budget(&people.fleet, &people.members, &deployed).unwrap();
        rules::after_what_it_depends_on(&deployed).unwrap();
        approval::only_what_was_approved(world, &world.weather.writes.lock().unwrap(), &people.needing)
    }
}

/// The commit that an Application has, by its objects.
async fn has(world: &World, name: &str) -> Option<u64> {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let settings = world.sim.get(&gvk, HOME, &format!("settings-{name}")).await.unwrap()?;
    settings.text("/data/commit").parse().ok()
}

/// Every change is synced, or it is said why not; and every rollout is over, or says what it awaits.
async fn assert_is_explained(world: &World, life: &Life, people: &People) {
    let newest = people.commits.len() as u64;
    let set = world.set().await.unwrap();
    let told = life.sets().explain("fleet").await.unwrap();
    tracing(&format!("{}\n{:?}\n{:?}", told.line, told.explanation, set.status.conditions));
    let rollout = told.rollout.expect("there was a rollout");
    // One that is to be finished first waits for people when a member has failed.
    let is_stuck = people.fleet.rollout.is_some_and(|text| text.contains("finish")) && rollout.end.is_none();
    let may_wait = people.wrong.is_some() || is_stuck;
    assert!(rollout.end.is_some() || told.explanation.is_some(), "nobody says what is awaited: {rollout:#?}");
    assert!(rollout.end.is_some() || may_wait, "it does not end: {rollout:#?}");
    for name in people.fleet.members.keys().map(String::as_str).chain(BESIDE) {
        let Some(application) = world.application(name).await else { panic!("{name} was never made") };
        let is_held = !people.approve_in_the_end && waiting(&application).is_some();
        // What somebody asked for has had its turn.
        let is_left = BESIDE.contains(&name) && application.operation.is_some();
        let may_be_left = is_held || people.wrong.is_some();
        assert!(!is_left || may_be_left, "{name} has an operation still: {application:#?}");
        let is_synced = has(world, name).await == Some(newest);
        let is_broken = people.wrong.as_ref().is_some_and(|(broken, _)| broken == name);
        if is_synced && !is_broken {
            continue;
        }
        if is_held {
            continue;
        }
        assert!(may_wait, "{name} has not what was committed: {:#?}", (application, &set.status));
        let step = set.status.application_status.iter().find(|one| one.application == name);
        let is_told = step.is_some_and(|one| one.status.to_string() != "Healthy" && !one.message.is_empty());
        assert!(is_told || says_why(&application), "nothing says why {name} is not synced: {application:#?}");
    }
    for name in people.members.keys().filter(|name| !people.fleet.members.contains_key(*name)) {
        assert!(world.application(name).await.is_none(), "{name} is no member, and is there");
        assert_eq!(has(world, name).await, None, "{name} is no member, and its objects are there");
    }
}

/// Whether an Application says that it is not as it should be, and why.
fn says_why(application: &Application) -> bool {
    let status = &application.status;
    let is_synced = status.sync.as_ref().is_some_and(|sync| sync.status == SyncStatusCode::Synced);
    let is_failed = status.operation_state.as_ref().is_some_and(|state| !state.message.is_empty());
    let is_wrong = status.conditions.iter().any(|one| one.kind.is_error() && !one.message.is_empty());
    let is_unwell = status.health.as_ref().is_some_and(|health| health.status != HealthStatus::Healthy);
    is_wrong || is_failed && !is_synced || is_unwell
}
