//! Property test of operations that request slots, receive them, record them late, release them, and are
//! killed, in any order.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const GROUPS: [&str; 3] = ["ci", "db", "web"];

fn id(number: usize) -> OperationId {
    OperationId(uuid::Uuid::from_u128(u128::try_from(number).unwrap() + 1))
}

fn group_set(groups: &[&str]) -> BTreeSet<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}

/// State of an operation as seen by its actor.
#[derive(Clone, Debug, Default, PartialEq)]
struct Actor {
    /// Groups in which the actor's waiting wave needs a slot.
    wanted: Option<BTreeSet<String>>,
    /// Slots in the actor's state.
    places: BTreeSet<String>,
}

/// Concurrency groups, and the operations that use them.
struct Scene {
    groups: Groups,
    limits: BTreeMap<&'static str, usize>,
    actors: Vec<Actor>,
    /// Slots of each actor in its log. They survive a restart.
    log: Vec<BTreeSet<String>>,
    /// Reported but unprocessed verdicts.
    inbox: Arc<Mutex<Vec<(usize, String, Verdict)>>>,
    /// Waiting operations, in the order of their requests.
    order: Vec<usize>,
}

impl Scene {
    fn new(operations: usize, limits: [usize; 3]) -> Self {
        let groups = Groups::default();
        groups.load_places([]);
        Self {
            groups,
            limits: GROUPS.into_iter().zip(limits).collect(),
            actors: vec![Actor::default(); operations],
            log: vec![BTreeSet::new(); operations],
            inbox: Arc::default(),
            order: Vec::new(),
        }
    }

    fn request(&mut self, who: usize, wanted: &BTreeSet<String>) {
        let actor = &self.actors[who];
        if actor.wanted.is_some() || !actor.places.is_empty() {
            return;
        }
        // A gate is evaluated once the preceding state is durable.
        self.make_durable(who);
        self.actors[who].wanted = Some(wanted.clone());
        self.order.push(who);
        let tickets: Vec<(Ticket, String)> = wanted
            .iter()
            .map(|group| {
                let (inbox, name) = (Arc::clone(&self.inbox), group.clone());
                let tell = move |verdict| inbox.lock().unwrap().push((who, name.clone(), verdict));
                (self.groups.request_place(id(who), "app", wanted, group, Box::new(tell)), group.clone())
            })
            .collect();
        for (ticket, group) in tickets {
            self.groups.set_limit(ticket, &group, Ok(self.limits[group.as_str()]));
        }
    }

    /// Processes an actor's verdicts. Once all gates are open, the actor enters its wave.
    fn process_verdicts(&mut self, who: usize) {
        let verdicts: Vec<_> = self.inbox.lock().unwrap().extract_if(.., |(whom, ..)| *whom == who).collect();
        let open: BTreeSet<String> = verdicts
            .into_iter()
            .filter(|(_, _, verdict)| *verdict == Verdict::Open)
            .map(|(_, group, _)| group)
            .collect();
        let Some(asked) = self.actors[who].wanted.clone().filter(|_| !open.is_empty()) else { return };
        assert_eq!(open, asked, "a wave gets all its slots at once");
        let is_told = |who: usize| {
            let inbox = self.inbox.lock().unwrap();
            inbox.iter().any(|(whom, _, verdict)| *whom == who && *verdict == Verdict::Open)
        };
        let before = self.order.iter().take_while(|other| **other != who);
        for other in before.filter(|other| !is_told(**other)) {
            let other = self.actors[*other].wanted.clone().unwrap_or_default();
            assert!(other.is_disjoint(&asked), "{who} got a slot before an earlier request");
        }
        self.order.retain(|other| *other != who);
        self.actors[who] = Actor { wanted: None, places: asked };
    }

    /// Makes an actor's state durable. An actor that isn't waiting withdraws its request.
    fn make_durable(&mut self, who: usize) {
        let actor = &self.actors[who];
        self.log[who].clone_from(&actor.places);
        let places = actor.places.clone();
        self.groups.record_places(RecordedPlaces { operation: id(who), application: "app".into(), places });
        self.take_back_places(who);
    }

    fn take_back_places(&mut self, who: usize) {
        if self.actors[who].wanted.is_none() {
            GROUPS.iter().for_each(|group| self.groups.withdraw(id(who), group));
            self.process_verdicts(who);
            self.groups.resolve_withdrawal(id(who), !self.actors[who].places.is_empty());
        }
    }

    /// Withdraws the request, or releases the slots.
    fn leave(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        if actor.wanted.take().is_some() {
            // A slot may have been assigned concurrently, but the operation continues without it.
            self.order.retain(|other| *other != who);
            self.inbox.lock().unwrap().retain(|(whom, ..)| *whom != who);
            self.take_back_places(who);
        } else {
            actor.places.clear();
        }
    }

    /// Kills the process. The next process continues from the log.
    fn kill(&mut self) {
        self.inbox.lock().unwrap().clear();
        self.order.clear();
        self.groups = Groups::default();
        for (actor, log) in self.actors.iter_mut().zip(&self.log) {
            *actor = Actor { wanted: None, places: log.clone() };
        }
        // An operation starts before the slots in the log are read.
        self.request(0, &group_set(&["db"]));
        let recorded = |(who, places): (usize, &BTreeSet<String>)| RecordedPlaces {
            operation: id(who),
            application: "app".into(),
            places: places.clone(),
        };
        self.groups.load_places(self.log.iter().enumerate().map(recorded));
    }

    fn check(&self) {
        for (group, limit) in &self.limits {
            let by_log = self.log.iter().filter(|places| places.contains(*group)).count();
            let active = self.actors.iter().filter(|actor| actor.places.contains(*group)).count();
            assert!(by_log <= *limit && active <= *limit, "{group}: {by_log}, {active} of {limit}");
        }
    }

    /// Runs the scene until all operations have released their slots. By then, every request must have
    /// succeeded.
    fn drain(&mut self) {
        for _ in 0..self.actors.len() * 4 {
            for who in 0..self.actors.len() {
                self.process_verdicts(who);
                self.check();
                self.make_durable(who);
                if self.actors[who].wanted.is_none() {
                    self.actors[who].places.clear();
                    self.make_durable(who);
                }
            }
        }
        assert!(self.actors.iter().all(|actor| actor.wanted.is_none()), "an operation waits forever");
        assert!(
            GROUPS.iter().all(|group| self.groups.members(group).is_empty()),
            "a slot was never released"
        );
    }
}

proptest! {
    #[test]
    fn the_limit_is_never_exceeded_and_every_operation_gets_a_place(
        limits in [1_usize..4, 1..3, 1..3],
        steps in proptest::collection::vec((0_usize..7, 0_u8..20, 1_usize..8), 1..200),
    ) {
        let mut scene = Scene::new(7, limits);
        for (who, what, wanted) in steps {
            let wanted: Vec<&str> =
                GROUPS.iter().enumerate().filter(|(bit, _)| wanted & (1 << bit) != 0).map(|(_, group)| *group).collect();
            match what {
                0..6 => scene.request(who, &group_set(&wanted)),
                6..11 => scene.process_verdicts(who),
                11..16 => scene.make_durable(who),
                16..19 => scene.leave(who),
                _ => scene.kill(),
            }
            scene.check();
        }
        scene.drain();
    }
}

/// Returns the last verdict of an operation for a group.
fn last_verdict(scene: &Scene, who: usize) -> String {
    let inbox = scene.inbox.lock().unwrap();
    match inbox.iter().rev().find(|(whom, ..)| *whom == who) {
        Some((.., Verdict::Closed { reason, .. })) => reason.clone(),
        Some((.., Verdict::Open)) => "open".to_owned(),
        None => "nothing".to_owned(),
    }
}

#[test]
fn the_first_waiting_operation_sees_the_holders_and_the_others_their_turn() {
    let mut scene = Scene::new(6, [1, 2, 1]);
    let db = group_set(&["db"]);
    (0..5).for_each(|who| scene.request(who, &db));
    assert_eq!((last_verdict(&scene, 0), last_verdict(&scene, 1)), ("open".into(), "open".into()));
    let reason =
        format!("2 operations in the group are running (maximum: 2): app ({}), app ({})", id(0), id(1));
    assert_eq!((last_verdict(&scene, 2), last_verdict(&scene, 3)), (reason, NOT_NEXT.into()));
    scene.process_verdicts(1);
    scene.make_durable(1);
    scene.leave(1);
    assert!(last_verdict(&scene, 2).starts_with("2 operations"), "the release is not durable yet");
    let waiting = scene.inbox.lock().unwrap().iter().filter(|(who, ..)| *who == 4).count();
    scene.make_durable(1);
    assert_eq!((last_verdict(&scene, 2), last_verdict(&scene, 4)), ("open".into(), NOT_NEXT.into()));
    assert_eq!(
        scene.inbox.lock().unwrap().iter().filter(|(who, ..)| *who == 4).count(),
        waiting,
        "the reason is unchanged"
    );
    scene.request(5, &group_set(&["db", "web"]));
    let about_web = scene
        .inbox
        .lock()
        .unwrap()
        .iter()
        .any(|(who, group, verdict)| *who == 5 && group == "web" && *verdict == Verdict::closed(NOT_ALL));
    assert!(about_web && scene.groups.members("web").is_empty(), "the operation gets all its slots at once");
}

/// An operation that is in the log but hasn't resumed keeps its slot until it finishes.
#[test]
fn an_operation_that_is_not_running_keeps_its_place() {
    let mut scene = Scene::new(3, [1, 1, 1]);
    scene.groups = Groups::default();
    scene.request(1, &group_set(&["db"]));
    assert_eq!(last_verdict(&scene, 1), "nothing", "the running operations are unknown");
    scene.groups.load_places([RecordedPlaces {
        operation: id(0),
        application: "shop".into(),
        places: group_set(&["db"]),
    }]);
    let reason = format!(
        "1 operation in the group is running (maximum: 1): shop ({}, not running in any process)",
        id(0)
    );
    assert_eq!(last_verdict(&scene, 1), reason);
    assert_eq!(scene.groups.orphaned(), [id(0)]);
    scene.groups.remove_finished(&[id(2)]);
    assert_eq!(last_verdict(&scene, 1), reason);
    scene.groups.remove_finished(&[id(0)]);
    assert_eq!(last_verdict(&scene, 1), "open");
}

#[test]
fn an_undefined_group_admits_no_operation_and_blocks_no_other() {
    let mut scene = Scene::new(3, [1, 1, 1]);
    let (first, second) = (Arc::clone(&scene.inbox), group_set(&["db"]));
    let tell = move |verdict| first.lock().unwrap().push((0, "db".to_owned(), verdict));
    let ticket = scene.groups.request_place(id(0), "app", &second, "db", Box::new(tell));
    scene.groups.set_limit(ticket, "db", Err("it is not defined".into()));
    scene.request(1, &second);
    assert_eq!(
        (last_verdict(&scene, 0).as_str(), last_verdict(&scene, 1).as_str()),
        ("it is not defined", "open")
    );
}
