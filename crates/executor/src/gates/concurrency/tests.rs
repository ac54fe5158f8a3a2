//! Operations that ask, get in, write that down late, leave, and are killed, in any order.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const GROUPS: [&str; 3] = ["ci", "db", "web"];

fn id(number: usize) -> OperationId {
    OperationId(uuid::Uuid::from_u128(u128::try_from(number).unwrap() + 1))
}

fn set(groups: &[&str]) -> BTreeSet<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}

/// What the operation of a test does, as far as its actor knows.
#[derive(Clone, Debug, Default, PartialEq)]
struct Actor {
    /// What the wave needs that it waits for.
    asks: Option<BTreeSet<String>>,
    /// What its state says it has.
    has: BTreeSet<String>,
}

/// Groups, with the operations around them.
struct Scene {
    groups: Groups,
    limits: BTreeMap<&'static str, usize>,
    actors: Vec<Actor>,
    /// The places of each actor that a restart would find in its log.
    log: Vec<BTreeSet<String>>,
    /// What was told and not taken yet.
    inbox: Arc<Mutex<Vec<(usize, String, Verdict)>>>,
    /// Those that wait, in the order in which they asked.
    order: Vec<usize>,
}

impl Scene {
    fn new(operations: usize, limits: [usize; 3]) -> Self {
        let groups = Groups::default();
        groups.learn([]);
        Self {
            groups,
            limits: GROUPS.into_iter().zip(limits).collect(),
            actors: vec![Actor::default(); operations],
            log: vec![BTreeSet::new(); operations],
            inbox: Arc::default(),
            order: Vec::new(),
        }
    }

    fn ask(&mut self, who: usize, wanted: &BTreeSet<String>) {
        let actor = &self.actors[who];
        if actor.asks.is_some() || !actor.has.is_empty() {
            return;
        }
        // A gate is asked when all that matters before is durable.
        self.write(who);
        self.actors[who].asks = Some(wanted.clone());
        self.order.push(who);
        let tickets: Vec<(Ticket, String)> = wanted
            .iter()
            .map(|group| {
                let (inbox, name) = (Arc::clone(&self.inbox), group.clone());
                let tell = move |verdict| inbox.lock().unwrap().push((who, name.clone(), verdict));
                (self.groups.ask((id(who), "app"), wanted, group, Box::new(tell)), group.clone())
            })
            .collect();
        for (ticket, group) in tickets {
            self.groups.allow(ticket, &group, Ok(self.limits[group.as_str()]));
        }
    }

    /// The actor takes what it was told; it is let in once all its gates are open.
    fn take(&mut self, who: usize) {
        let told: Vec<_> = self.inbox.lock().unwrap().extract_if(.., |(whom, ..)| *whom == who).collect();
        let open: BTreeSet<String> = told
            .into_iter()
            .filter(|(_, _, verdict)| *verdict == Verdict::Open)
            .map(|(_, group, _)| group)
            .collect();
        let Some(asked) = self.actors[who].asks.clone().filter(|_| !open.is_empty()) else { return };
        assert_eq!(open, asked, "all places of a wave come at once");
        let is_told = |who: usize| {
            let inbox = self.inbox.lock().unwrap();
            inbox.iter().any(|(whom, _, verdict)| *whom == who && *verdict == Verdict::Open)
        };
        let before = self.order.iter().take_while(|other| **other != who);
        for other in before.filter(|other| !is_told(**other)) {
            let other = self.actors[*other].asks.clone().unwrap_or_default();
            assert!(other.is_disjoint(&asked), "{who} was let in before somebody who had asked before");
        }
        self.order.retain(|other| *other != who);
        self.actors[who] = Actor { asks: None, has: asked };
    }

    /// What the actor knows becomes durable. An actor takes back its question when it does not ask any more.
    fn write(&mut self, who: usize) {
        let actor = &self.actors[who];
        self.log[who].clone_from(&actor.has);
        let places = actor.has.clone();
        self.groups.settle(Recorded { operation: id(who), application: "app".into(), places });
        self.take_back(who);
    }

    fn take_back(&mut self, who: usize) {
        if self.actors[who].asks.is_none() {
            GROUPS.iter().for_each(|group| self.groups.withdraw(id(who), group));
            self.take(who);
            self.groups.resolve(id(who), !self.actors[who].has.is_empty());
        }
    }

    /// The operation does not ask any more, or leaves its waves.
    fn leave(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        if actor.asks.take().is_some() {
            // It may have been let in at this very moment, and goes on without.
            self.order.retain(|other| *other != who);
            self.inbox.lock().unwrap().retain(|(whom, ..)| *whom != who);
            self.take_back(who);
        } else {
            actor.has.clear();
        }
    }

    /// The process is killed, and another one goes on with what is in the log.
    fn kill(&mut self) {
        self.inbox.lock().unwrap().clear();
        self.order.clear();
        self.groups = Groups::default();
        for (actor, log) in self.actors.iter_mut().zip(&self.log) {
            *actor = Actor { asks: None, has: log.clone() };
        }
        // Somebody begins before it is known who has places.
        self.ask(0, &set(&["db"]));
        let recorded = |(who, places): (usize, &BTreeSet<String>)| Recorded {
            operation: id(who),
            application: "app".into(),
            places: places.clone(),
        };
        self.groups.learn(self.log.iter().enumerate().map(recorded));
    }

    fn check(&self) {
        for (group, limit) in &self.limits {
            let by_log = self.log.iter().filter(|places| places.contains(*group)).count();
            let at_work = self.actors.iter().filter(|actor| actor.has.contains(*group)).count();
            assert!(by_log <= *limit && at_work <= *limit, "{group}: {by_log}, {at_work} of {limit}");
        }
    }

    /// From now on everybody leaves again: all that ask get in.
    fn drain(&mut self) {
        for _ in 0..self.actors.len() * 4 {
            for who in 0..self.actors.len() {
                self.take(who);
                self.check();
                self.write(who);
                if self.actors[who].asks.is_none() {
                    self.actors[who].has.clear();
                    self.write(who);
                }
            }
        }
        assert!(self.actors.iter().all(|actor| actor.asks.is_none()), "somebody waits for ever");
        assert!(GROUPS.iter().all(|group| self.groups.inside(group).is_empty()), "a place is lost");
    }
}

proptest! {
    #[test]
    fn never_more_than_the_limit_and_everybody_gets_in(
        limits in [1_usize..4, 1..3, 1..3],
        steps in proptest::collection::vec((0_usize..7, 0_u8..20, 1_usize..8), 1..200),
    ) {
        let mut scene = Scene::new(7, limits);
        for (who, what, wanted) in steps {
            let wanted: Vec<&str> =
                GROUPS.iter().enumerate().filter(|(bit, _)| wanted & (1 << bit) != 0).map(|(_, group)| *group).collect();
            match what {
                0..6 => scene.ask(who, &set(&wanted)),
                6..11 => scene.take(who),
                11..16 => scene.write(who),
                16..19 => scene.leave(who),
                _ => scene.kill(),
            }
            scene.check();
        }
        scene.drain();
    }
}

/// What one operation was told last about a group.
fn told(scene: &Scene, who: usize) -> String {
    let inbox = scene.inbox.lock().unwrap();
    match inbox.iter().rev().find(|(whom, ..)| *whom == who) {
        Some((.., Verdict::Closed { reason, .. })) => reason.clone(),
        Some((.., Verdict::Open)) => "open".to_owned(),
        None => "nothing".to_owned(),
    }
}

#[test]
fn the_next_is_told_who_is_inside_and_the_others_that_it_is_not_their_turn() {
    let mut scene = Scene::new(6, [1, 2, 1]);
    let db = set(&["db"]);
    (0..5).for_each(|who| scene.ask(who, &db));
    assert_eq!((told(&scene, 0), told(&scene, 1)), ("open".into(), "open".into()));
    let reason =
        format!("2 operations of the group are at work, of 2 at most: app ({}), app ({})", id(0), id(1));
    assert_eq!((told(&scene, 2), told(&scene, 3)), (reason, NOT_NEXT.into()));
    scene.take(1);
    scene.write(1);
    scene.leave(1);
    assert!(told(&scene, 2).starts_with("2 operations"), "it is not durable yet");
    let waiting = scene.inbox.lock().unwrap().iter().filter(|(who, ..)| *who == 4).count();
    scene.write(1);
    assert_eq!((told(&scene, 2), told(&scene, 4)), ("open".into(), NOT_NEXT.into()));
    assert_eq!(scene.inbox.lock().unwrap().iter().filter(|(who, ..)| *who == 4).count(), waiting, "no news");
    scene.ask(5, &set(&["db", "web"]));
    let about_web = scene
        .inbox
        .lock()
        .unwrap()
        .iter()
        .any(|(who, group, verdict)| *who == 5 && group == "web" && *verdict == Verdict::closed(NOT_ALL));
    assert!(about_web && scene.groups.inside("web").is_empty(), "all its places come at once");
}

/// What is in the log and not resumed keeps its place until it is over.
#[test]
fn an_operation_that_nobody_works_on_keeps_its_place() {
    let mut scene = Scene::new(3, [1, 1, 1]);
    scene.groups = Groups::default();
    scene.ask(1, &set(&["db"]));
    assert_eq!(told(&scene, 1), "nothing", "nobody knows who is inside");
    scene.groups.learn([Recorded { operation: id(0), application: "shop".into(), places: set(&["db"]) }]);
    let reason = format!(
        "1 operation of the group is at work, of 1 at most: shop ({}, which no process works on)",
        id(0)
    );
    assert_eq!(told(&scene, 1), reason);
    assert_eq!(scene.groups.left_alone(), [id(0)]);
    scene.groups.are_over(&[id(2)]);
    assert_eq!(told(&scene, 1), reason);
    scene.groups.are_over(&[id(0)]);
    assert_eq!(told(&scene, 1), "open");
}

#[test]
fn a_group_that_nobody_has_defined_lets_nobody_in_and_holds_up_nobody() {
    let mut scene = Scene::new(3, [1, 1, 1]);
    let (first, second) = (Arc::clone(&scene.inbox), set(&["db"]));
    let tell = move |verdict| first.lock().unwrap().push((0, "db".to_owned(), verdict));
    let ticket = scene.groups.ask((id(0), "app"), &second, "db", Box::new(tell));
    scene.groups.allow(ticket, "db", Err("nobody has defined it".into()));
    scene.ask(1, &second);
    assert_eq!((told(&scene, 0).as_str(), told(&scene, 1).as_str()), ("nobody has defined it", "open"));
}
