//! Operations of one application and their claims, played through whatever can happen to them: calls that are late or
//! whose answers are lost, processes that stand still, die and come back, clocks that differ, namespaces that come late.
//! Each play follows from a number. Never may two operations be at work at once, and each comes to its end.

mod scene;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{CallError, ClaimNews};
use tidegate_model::{ClaimPlace, ClaimRequest, IfTaken, SyncRequest};

use self::scene::{Answer, CALM_FROM, Dice, Event, Scene, Stage, Wanted, Weather};
use super::Places;
use super::keeper::{Keeping, Vigil, give_back};
use super::record::Claimant;
use super::times::{CLAIM_LASTS, COVERS};

/// Plays that are always played.
const PLAYS: u64 = 3_000;
/// After so much time, in milliseconds, everybody should be over.
const ENOUGH: u64 = 1_800_000;

type Work = Pin<Box<dyn Future<Output = Option<Result<ClaimNews, CallError>>>>>;

/// One operation, as far as its claim is concerned.
struct Actor {
    if_taken: IfTaken,
    skew: i64,
    /// Its keeper, or whoever gives its claim back.
    work: Option<Work>,
    /// Recorded: where it has had the claim.
    had: Option<ClaimPlace>,
    /// Its wait, as long as its process lives.
    vigil: Vigil,
    /// Its newest renewal that succeeded began then; `None` where it does not write.
    covered: Option<u64>,
    began_work: bool,
    asked_to_end: bool,
    /// It does not write any more.
    over: bool,
    gave_back: bool,
    /// It was told that another one has the claim, and ended.
    refused: bool,
}

struct Play {
    scene: Arc<Mutex<Scene>>,
    actors: Vec<Actor>,
    works: usize,
}

fn request() -> SyncRequest {
    SyncRequest::new("web", "shop", tidegate_model::Destination::Simulated)
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let weather = Weather {
            slow: [0, 50, 1000][usize::try_from(dice.below(3)).unwrap()],
            lost: [0, 5, 20][usize::try_from(dice.below(3)).unwrap()],
            deaths: [0, 40][usize::try_from(dice.below(2)).unwrap()],
            stalls: [0, 2][usize::try_from(dice.below(2)).unwrap()],
        };
        let home_comes = if dice.percent(50) { 0 } else { dice.below(60_000) };
        let choices = [IfTaken::Refuse, IfTaken::Queue, IfTaken::Supersede];
        let actors: Vec<Actor> = (0..2 + dice.below(3))
            .map(|_| Actor {
                if_taken: choices[usize::try_from(dice.below(3)).unwrap()],
                skew: 1_767_225_600_000 + i64::try_from(dice.below(7_200_000)).unwrap(),
                work: None,
                had: None,
                vigil: Vigil::default(),
                covered: None,
                began_work: false,
                asked_to_end: false,
                over: false,
                gave_back: false,
                refused: false,
            })
            .collect();
        let begins: Vec<u64> = actors.iter().map(|_| dice.below(20_000)).collect();
        let mut scene = Scene {
            dice,
            weather,
            now: 0,
            queue: BTreeMap::new(),
            asked: 0,
            leases: BTreeMap::new(),
            versions: 0,
            home_comes,
            answers: BTreeMap::new(),
            lives: vec![0; actors.len()],
            told: VecDeque::new(),
            renewed: VecDeque::new(),
            // In every other play they share a log.
            known_over: seed.is_multiple_of(2).then(BTreeSet::new),
            aloud: false,
        };
        for (who, begin) in begins.into_iter().enumerate() {
            scene.schedule(begin, Event::Begin(who));
            // Perhaps before anything is recorded.
            if scene.dice.percent(scene.weather.deaths) {
                let after = begin + scene.dice.below(30_000);
                scene.schedule(after, Event::Die(who));
            }
        }
        Self { scene: Arc::new(Mutex::new(scene)), actors, works: 0 }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Scene) -> T) -> T {
        change(&mut self.scene.lock().unwrap())
    }

    fn stage(&self, who: usize) -> (Stage, Claimant, Places) {
        let us = Claimant {
            operation: format!("operation-{who}"),
            application: "web".to_owned(),
            who: format!("process {who}"),
            revision: String::new(),
        };
        let stage = Stage { scene: Arc::clone(&self.scene), who, skew: self.actors[who].skew };
        (stage, us, Places::of(&request(), &ClaimRequest::default()))
    }

    fn begin(&mut self, who: usize) {
        let (around, us, places) = self.stage(who);
        let actor = &mut self.actors[who];
        if actor.gave_back || actor.work.is_some() {
            return;
        }
        let work: Work = if actor.over {
            let places: Vec<_> = match actor.had.clone() {
                Some(place) => vec![place],
                None => std::iter::once(places.home).chain(places.aside).collect(),
            };
            Box::pin(async move {
                give_back(&around, &us, &places).await;
                None
            })
        } else {
            let keeping = Keeping {
                around,
                us,
                places,
                if_taken: actor.if_taken,
                had: actor.had.clone(),
                vigil: actor.vigil.clone(),
            };
            Box::pin(async move { Some(keeping.run().await) })
        };
        actor.work = Some(work);
        self.poll(who);
    }

    fn end(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        (actor.over, actor.covered, actor.work) = (true, None, None);
        let operation = self.stage(who).1.operation;
        self.with(|scene| {
            scene.say(who, "is over");
            scene.known_over.as_mut().map(|known| known.insert(operation))
        });
        self.with(|scene| scene.lives[who] += 1);
        self.begin(who);
    }

    fn poll(&mut self, who: usize) {
        let Some(work) = &mut self.actors[who].work else { return };
        let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        while let Some((who, began)) = self.with(|scene| scene.renewed.pop_front()) {
            self.renewed(who, began);
        }
        while let Some((who, news)) = self.with(|scene| scene.told.pop_front()) {
            self.told(who, &news);
        }
        let Poll::Ready(ended) = polled else { return };
        self.actors[who].work = None;
        self.actors[who].covered = None;
        match ended {
            None => self.actors[who].gave_back = true,
            Some(Ok(ClaimNews::Lost { .. } | ClaimNews::Without { .. })) => self.end(who),
            Some(Ok(news)) => panic!("a keeper does not end with {news:?}"),
            // Asked for again, as any command.
            Some(Err(_)) => self.with(|scene| {
                let after = 1000 + scene.dice.below(4000);
                scene.schedule(after, Event::Begin(who));
            }),
        }
    }

    /// The one rule: whoever may write now, nobody else may, and nobody else's claim can still be good.
    fn renewed(&mut self, who: usize, began: u64) {
        let now = self.with(|scene| scene.now);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        if began + millis(COVERS) <= now {
            // The answer came too late: nothing is written before the next renewal has succeeded.
            return;
        }
        for (other, actor) in self.actors.iter().enumerate().filter(|(other, _)| *other != who) {
            let Some(renewed) = actor.covered else { continue };
            assert!(
                renewed + millis(COVERS) <= now,
                "{who} may write at {now} ms, and {other}, which renewed its claim at {renewed} ms, as well"
            );
            assert!(renewed + millis(CLAIM_LASTS) <= now, "{who} did not wait for the claim of {other}");
        }
        self.actors[who].covered = Some(began);
        self.with(|scene| scene.say(who, format!("may write since {began}")));
    }

    fn told(&mut self, who: usize, news: &ClaimNews) {
        self.with(|scene| scene.say(who, format!("is told {news:?}")));
        let actor = &mut self.actors[who];
        match news {
            ClaimNews::Held { place, .. } => {
                actor.had = Some(place.clone());
                if !std::mem::replace(&mut actor.began_work, true) {
                    self.works += 1;
                    self.with(|scene| {
                        let takes = scene.dice.below(60_000);
                        scene.schedule(takes, Event::Done(who));
                        if scene.dice.percent(scene.weather.deaths) {
                            let after = scene.dice.below(60_000);
                            scene.schedule(after, Event::Die(who));
                        }
                    });
                }
            }
            ClaimNews::EndWanted { .. } if !std::mem::replace(&mut actor.asked_to_end, true) => {
                self.with(|scene| {
                    let takes = scene.dice.below(8_000);
                    scene.schedule(takes, Event::Done(who));
                });
            }
            ClaimNews::Taken { at_work: true, .. } if actor.if_taken == IfTaken::Refuse => {
                actor.refused = true;
                self.with(|scene| scene.schedule(0, Event::Done(who)));
            }
            _ => {}
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Reach(who, number, wanted) => self.with(|scene| {
                let life = scene.lives[who];
                let is_write = matches!(wanted, Wanted::Write(_));
                // A process that has died since may have sent it.
                let mut answer = scene.serve(wanted);
                if let Answer::Written(written) = &answer {
                    let written = written.as_ref().map(|lease| {
                        format!(
                            "{} held by {:?}",
                            Scene::place(&lease.0),
                            lease.0.text("/spec/holderIdentity")
                        )
                    });
                    scene.say(who, format!("writes: {written:?}"));
                }
                if scene.now < CALM_FROM && scene.dice.percent(scene.weather.lost) {
                    let lost = ClusterError::new(ErrorKind::Timeout, "no answer");
                    answer = if is_write { Answer::Written(Err(lost)) } else { Answer::Read(Err(lost)) };
                }
                let delay = scene.delay();
                scene.schedule(delay, Event::Come(who, number, life, answer));
            }),
            Event::Come(who, number, life, answer) => {
                let is_heard = self.with(|scene| {
                    if scene.lives[who] != life {
                        return false;
                    }
                    if scene.now < CALM_FROM && scene.dice.percent(scene.weather.stalls) {
                        let stands_still = scene.dice.below(90_000);
                        scene.schedule(stands_still, Event::Come(who, number, life, answer));
                        return false;
                    }
                    scene.answers.insert(number, answer);
                    true
                });
                if is_heard {
                    self.poll(who);
                }
            }
            Event::Begin(who) => self.begin(who),
            Event::Done(who) if self.actors[who].over => {}
            // One whose process is dead ends when it is back.
            Event::Done(who) if self.actors[who].work.is_none() => {
                self.with(|scene| scene.schedule(5_000, Event::Done(who)));
            }
            Event::Done(who) => self.end(who),
            Event::Die(who) if self.actors[who].over => {}
            Event::Die(who) => {
                self.with(|scene| scene.say(who, "dies"));
                let actor = &mut self.actors[who];
                (actor.work, actor.covered, actor.vigil) = (None, None, Vigil::default());
                self.with(|scene| {
                    scene.lives[who] += 1;
                    let away = scene.dice.below(90_000);
                    scene.schedule(away, Event::Begin(who));
                });
            }
        }
    }

    fn run(&mut self) {
        while let Some(((at, _), event)) = self.with(|scene| scene.queue.pop_first()) {
            self.with(|scene| scene.now = at.max(scene.now));
            let open: Vec<usize> =
                (0..self.actors.len()).filter(|who| !self.actors[*who].gave_back).collect();
            assert!(at < ENOUGH, "{open:?} wait for ever");
            self.happen(event);
        }
        for (who, actor) in self.actors.iter().enumerate() {
            assert!(actor.gave_back, "{who} never came to its end");
            assert!(
                actor.began_work || actor.refused || actor.if_taken == IfTaken::Refuse,
                "{who} never worked"
            );
        }
    }
}

fn play(seed: u64) -> (usize, usize) {
    let mut play = Play::new(seed);
    play.run();
    (play.works, play.actors.iter().filter(|actor| actor.refused).count())
}

/// `TIDEGATE_CLAIM_SEED=N` plays one again.
#[test]
fn never_are_two_operations_of_an_application_at_work() {
    if let Some(seed) = std::env::var("TIDEGATE_CLAIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let mut play = Play::new(seed);
        play.with(|scene| scene.aloud = true);
        play.run();
        return;
    }
    let (mut works, mut refused) = (0, 0);
    for seed in 0..PLAYS {
        let played = std::panic::catch_unwind(|| play(seed));
        let (worked, sent_away) = played.unwrap_or_else(|_| panic!("play {seed} went wrong"));
        (works, refused) = (works + worked, refused + sent_away);
    }
    println!("{works} operations worked one after the other, {refused} were refused");
    assert!(works > 5_000 && refused > 500, "{works} worked, {refused} were refused");
}
