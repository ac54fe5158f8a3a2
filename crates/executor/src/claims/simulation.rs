//! Simulation of an application's operations and their claims, determined by a seed. Calls are delayed or
//! lose their responses, processes pause, crash and restart, clocks differ, and namespaces appear late. The
//! simulation checks that at most one operation is active at any time, and that every run ends.

mod scene;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{CallError, ClaimEvent};
use tidegate_model::{ClaimConflictPolicy, ClaimLocation, ClaimRequest, SyncRequest};

use self::scene::{Answer, CallRequest, Dice, Event, FAULTS_END, Faults, Scene, SimulatedEnvironment};
use super::ClaimLocations;
use super::keeper::{ClaimKeeper, ObservationStore, release_claim};
use super::record::Claimant;
use super::times::{CLAIM_COVERAGE, CLAIM_DURATION};

/// Number of simulations in each test run.
const SIMULATIONS: u64 = 3_000;
/// Time limit in milliseconds for all operations to finish.
const TIME_LIMIT: u64 = 1_800_000;

type Work = Pin<Box<dyn Future<Output = Option<Result<ClaimEvent, CallError>>>>>;

/// One operation, reduced to its claim.
struct Actor {
    if_taken: ClaimConflictPolicy,
    skew: i64,
    /// The operation's keeper, or the release of its claim.
    work: Option<Work>,
    /// Recorded location of the operation's claim.
    recorded_location: Option<ClaimLocation>,
    /// The operation's observations, lost when its process ends.
    observations: ObservationStore,
    /// Start of the last successful renewal, or `None` if the operation may not write.
    covered_since: Option<u64>,
    has_started: bool,
    is_end_requested: bool,
    /// True if the operation has stopped writing.
    is_over: bool,
    has_released: bool,
    /// True if the operation ended because another operation holds the claim.
    is_rejected: bool,
}

struct Simulation {
    scene: Arc<Mutex<Scene>>,
    actors: Vec<Actor>,
    works: usize,
}

fn request() -> SyncRequest {
    SyncRequest::new("web", "shop", tidegate_model::Destination::Simulated)
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let faults = Faults {
            slow: [0, 50, 1000][usize::try_from(dice.number_below(3)).unwrap()],
            lost: [0, 5, 20][usize::try_from(dice.number_below(3)).unwrap()],
            crashes: [0, 40][usize::try_from(dice.number_below(2)).unwrap()],
            stalls: [0, 2][usize::try_from(dice.number_below(2)).unwrap()],
        };
        let home_created_at = if dice.happens(50) { 0 } else { dice.number_below(60_000) };
        let choices =
            [ClaimConflictPolicy::Refuse, ClaimConflictPolicy::Queue, ClaimConflictPolicy::Supersede];
        let actors: Vec<Actor> = (0..2 + dice.number_below(3))
            .map(|_| Actor {
                if_taken: choices[usize::try_from(dice.number_below(3)).unwrap()],
                skew: 1_767_225_600_000 + i64::try_from(dice.number_below(7_200_000)).unwrap(),
                work: None,
                recorded_location: None,
                observations: ObservationStore::default(),
                covered_since: None,
                has_started: false,
                is_end_requested: false,
                is_over: false,
                has_released: false,
                is_rejected: false,
            })
            .collect();
        let begins: Vec<u64> = actors.iter().map(|_| dice.number_below(20_000)).collect();
        let mut scene = Scene {
            dice,
            faults,
            now: 0,
            queue: BTreeMap::new(),
            calls: 0,
            leases: BTreeMap::new(),
            versions: 0,
            home_created_at,
            answers: BTreeMap::new(),
            lives: vec![0; actors.len()],
            news: VecDeque::new(),
            renewals: VecDeque::new(),
            // In every other simulation, the operations share a log.
            finished: seed.is_multiple_of(2).then(BTreeSet::new),
            is_verbose: false,
        };
        for (who, begin) in begins.into_iter().enumerate() {
            scene.schedule(begin, Event::Start(who));
            // A process may crash at any time, even before it has recorded anything.
            if scene.dice.happens(scene.faults.crashes) {
                let after = begin + scene.dice.number_below(30_000);
                scene.schedule(after, Event::Crash(who));
            }
        }
        Self { scene: Arc::new(Mutex::new(scene)), actors, works: 0 }
    }

    fn with_scene<T>(&self, change: impl FnOnce(&mut Scene) -> T) -> T {
        change(&mut self.scene.lock().unwrap())
    }

    fn environment(&self, index: usize) -> (SimulatedEnvironment, Claimant, ClaimLocations) {
        let us = Claimant {
            operation: format!("operation-{index}"),
            application: "web".to_owned(),
            worker: format!("process {index}"),
            revision: String::new(),
            incarnation: format!("engine {index}, life {}", self.with_scene(|scene| scene.lives[index])),
        };
        let stage =
            SimulatedEnvironment { scene: Arc::clone(&self.scene), index, skew: self.actors[index].skew };
        (stage, us, ClaimLocations::for_request(&request(), &ClaimRequest::default()))
    }

    fn start(&mut self, who: usize) {
        let (environment, claimant, locations) = self.environment(who);
        let actor = &mut self.actors[who];
        if actor.has_released || actor.work.is_some() {
            return;
        }
        let work: Work = if actor.is_over {
            let places: Vec<_> = match actor.recorded_location.clone() {
                Some(place) => vec![place],
                None => std::iter::once(locations.home).chain(locations.fallback).collect(),
            };
            Box::pin(async move {
                release_claim(&environment, &claimant, &places, false).await;
                None
            })
        } else {
            let keeping = ClaimKeeper {
                environment,
                claimant,
                locations,
                if_taken: actor.if_taken,
                previous_location: actor.recorded_location.clone(),
                observations: actor.observations.clone(),
                has_held: Arc::default(),
            };
            Box::pin(async move { Some(keeping.run().await) })
        };
        actor.work = Some(work);
        self.poll(who);
    }

    fn end(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        (actor.is_over, actor.covered_since, actor.work) = (true, None, None);
        let operation = self.environment(who).1.operation;
        self.with_scene(|scene| {
            scene.print(who, "is over");
            scene.finished.as_mut().map(|known| known.insert(operation))
        });
        self.with_scene(|scene| scene.lives[who] += 1);
        self.start(who);
    }

    fn poll(&mut self, who: usize) {
        let Some(work) = &mut self.actors[who].work else { return };
        let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        while let Some((who, began)) = self.with_scene(|scene| scene.renewals.pop_front()) {
            self.check_renewal(who, began);
        }
        while let Some((who, news)) = self.with_scene(|scene| scene.news.pop_front()) {
            self.handle_news(who, &news);
        }
        let Poll::Ready(ended) = polled else { return };
        self.actors[who].work = None;
        self.actors[who].covered_since = None;
        match ended {
            None => self.actors[who].has_released = true,
            Some(Ok(ClaimEvent::Lost { .. } | ClaimEvent::Without { .. })) => self.end(who),
            Some(Ok(news)) => panic!("a keeper ended with {news:?}"),
            // The engine retries a failed release like any other command.
            Some(Err(_)) => self.with_scene(|scene| {
                let after = 1000 + scene.dice.number_below(4000);
                scene.schedule(after, Event::Start(who));
            }),
        }
    }

    /// Checks the invariant: while an operation may write, no other operation may write, and no other claim
    /// is still valid.
    fn check_renewal(&mut self, who: usize, began: u64) {
        let now = self.with_scene(|scene| scene.now);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        if began + millis(CLAIM_COVERAGE) <= now {
            // The response came too late, so writes must wait for the next successful renewal.
            return;
        }
        for (other, actor) in self.actors.iter().enumerate().filter(|(other, _)| *other != who) {
            let Some(renewed) = actor.covered_since else { continue };
            assert!(
                renewed + millis(CLAIM_COVERAGE) <= now,
                "both {who} and {other} may write at {now} ms; {other} renewed its claim at {renewed} ms"
            );
            assert!(renewed + millis(CLAIM_DURATION) <= now, "{who} did not wait for {other}'s claim");
        }
        self.actors[who].covered_since = Some(began);
        self.with_scene(|scene| scene.print(who, format!("may write since {began}")));
    }

    fn handle_news(&mut self, who: usize, news: &ClaimEvent) {
        self.with_scene(|scene| scene.print(who, format!("receives {news:?}")));
        let actor = &mut self.actors[who];
        match news {
            ClaimEvent::Held { place, .. } => {
                actor.recorded_location = Some(place.clone());
                if !std::mem::replace(&mut actor.has_started, true) {
                    self.works += 1;
                    self.with_scene(|scene| {
                        let takes = scene.dice.number_below(60_000);
                        scene.schedule(takes, Event::WorkEnds(who));
                        if scene.dice.happens(scene.faults.crashes) {
                            let after = scene.dice.number_below(60_000);
                            scene.schedule(after, Event::Crash(who));
                        }
                    });
                }
            }
            ClaimEvent::EndWanted { .. } if !std::mem::replace(&mut actor.is_end_requested, true) => {
                self.with_scene(|scene| {
                    let takes = scene.dice.number_below(8_000);
                    scene.schedule(takes, Event::WorkEnds(who));
                });
            }
            ClaimEvent::Taken { at_work: true, .. } if actor.if_taken == ClaimConflictPolicy::Refuse => {
                actor.is_rejected = true;
                self.with_scene(|scene| scene.schedule(0, Event::WorkEnds(who)));
            }
            _ => {}
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::CallArrives(who, number, wanted) => self.with_scene(|scene| {
                let life = scene.lives[who];
                let is_write = matches!(wanted, CallRequest::Write(_));
                // The sender may have crashed in the meantime.
                let mut answer = scene.execute(wanted);
                if let Answer::Written(written) = &answer {
                    let written = written.as_ref().map(|lease| {
                        format!(
                            "{} held by {:?}",
                            Scene::location(&lease.0),
                            lease.0.text("/spec/holderIdentity")
                        )
                    });
                    scene.print(who, format!("writes: {written:?}"));
                }
                if scene.now < FAULTS_END && scene.dice.happens(scene.faults.lost) {
                    let lost = ClusterError::new(ErrorKind::Timeout, "no answer");
                    answer = if is_write { Answer::Written(Err(lost)) } else { Answer::Read(Err(lost)) };
                }
                let delay = scene.delay();
                scene.schedule(delay, Event::AnswerArrives(who, number, life, answer));
            }),
            Event::AnswerArrives(who, number, life, answer) => {
                let is_heard = self.with_scene(|scene| {
                    if scene.lives[who] != life {
                        return false;
                    }
                    if scene.now < FAULTS_END && scene.dice.happens(scene.faults.stalls) {
                        let stands_still = scene.dice.number_below(90_000);
                        scene.schedule(stands_still, Event::AnswerArrives(who, number, life, answer));
                        return false;
                    }
                    scene.answers.insert(number, answer);
                    true
                });
                if is_heard {
                    self.poll(who);
                }
            }
            Event::Start(who) => self.start(who),
            Event::WorkEnds(who) if self.actors[who].is_over => {}
            // If the operation's process has crashed, the operation ends when the process restarts.
            Event::WorkEnds(who) if self.actors[who].work.is_none() => {
                self.with_scene(|scene| scene.schedule(5_000, Event::WorkEnds(who)));
            }
            Event::WorkEnds(who) => self.end(who),
            Event::Crash(who) if self.actors[who].is_over => {}
            Event::Crash(who) => {
                self.with_scene(|scene| scene.print(who, "dies"));
                let actor = &mut self.actors[who];
                (actor.work, actor.covered_since, actor.observations) =
                    (None, None, ObservationStore::default());
                self.with_scene(|scene| {
                    scene.lives[who] += 1;
                    let away = scene.dice.number_below(90_000);
                    scene.schedule(away, Event::Start(who));
                });
            }
        }
    }

    fn run(&mut self) {
        while let Some(((at, _), event)) = self.with_scene(|scene| scene.queue.pop_first()) {
            self.with_scene(|scene| scene.now = at.max(scene.now));
            let open: Vec<usize> =
                (0..self.actors.len()).filter(|who| !self.actors[*who].has_released).collect();
            assert!(at < TIME_LIMIT, "{open:?} wait forever");
            self.handle_event(event);
        }
        for (who, actor) in self.actors.iter().enumerate() {
            assert!(actor.has_released, "{who} never ended");
            assert!(
                actor.has_started || actor.is_rejected || actor.if_taken == ClaimConflictPolicy::Refuse,
                "{who} never worked"
            );
        }
    }
}

fn simulate(seed: u64) -> (usize, usize) {
    let mut play = Simulation::new(seed);
    play.run();
    (play.works, play.actors.iter().filter(|actor| actor.is_rejected).count())
}

/// Runs all simulations. `TIDEGATE_CLAIM_SEED=N` repeats a single simulation.
#[test]
fn no_two_operations_of_an_application_write_at_the_same_time() {
    if let Some(seed) = std::env::var("TIDEGATE_CLAIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let mut play = Simulation::new(seed);
        play.with_scene(|scene| scene.is_verbose = true);
        play.run();
        return;
    }
    let (mut works, mut refused) = (0, 0);
    for seed in 0..SIMULATIONS {
        let played = std::panic::catch_unwind(|| simulate(seed));
        let (worked, sent_away) = played.unwrap_or_else(|_| panic!("simulation {seed} failed"));
        (works, refused) = (works + worked, refused + sent_away);
    }
    println!("{works} operations ran one after another, {refused} were rejected");
    assert!(works > 5_000 && refused > 500, "{works} ran, {refused} were rejected");
}
