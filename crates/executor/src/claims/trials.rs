//! Operations of one application and their claims, played through whatever can happen to them: calls that are late or
//! whose answers are lost, processes that stand still, die and come back, clocks that differ, namespaces that come late.
//! Each play follows from a number. Never may two operations be at work at once, and each comes to its end.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{CallError, ClaimNews};
use tidegate_model::{ClaimPlace, ClaimRequest, IfTaken, Object, SyncRequest, Timestamp};

use super::keeper::{Around, Keeping, give_back};
use super::record::{Claimant, Lease};
use super::{CLAIM_LASTS, COVERS, Places};

/// Plays that are always played.
const PLAYS: u64 = 3_000;
/// Bad weather passes, in milliseconds: with every fifth answer lost, nobody can watch for long.
const CALM_FROM: u64 = 600_000;
/// After so much time everybody should be over.
const ENOUGH: u64 = 1_800_000;

/// Random numbers that follow from one (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

enum Wanted {
    Read(ClaimPlace),
    Write(Box<Object>),
}

enum Answer {
    Read(Result<Option<Lease>, ClusterError>),
    Written(Result<Lease, ClusterError>),
    Slept,
}

enum Event {
    /// A call reaches the cluster.
    Reach(usize, u64, Wanted),
    /// Its answer, or the end of a sleep, reaches an operation. Of an earlier life nobody is there to hear it.
    Come(usize, u64, u32, Answer),
    /// An operation begins, or its process comes back.
    Begin(usize),
    /// Its work is done, or it was asked to end.
    Done(usize),
    Die(usize),
}

/// What happens to the calls and processes of a play.
struct Weather {
    slow: u64,
    lost: u64,
    deaths: u64,
    stalls: u64,
}

/// The cluster, time, and what is on its way.
struct Scene {
    dice: Dice,
    weather: Weather,
    now: u64,
    queue: BTreeMap<(u64, u64), Event>,
    asked: u64,
    leases: BTreeMap<ClaimPlace, Object>,
    versions: u64,
    /// When the namespace of the application comes.
    home_comes: u64,
    answers: BTreeMap<u64, Answer>,
    /// Which life of each operation asks.
    lives: Vec<u32>,
    told: VecDeque<(usize, ClaimNews)>,
    renewed: VecDeque<(usize, u64)>,
    /// What happens is printed.
    aloud: bool,
}

impl Scene {
    fn schedule(&mut self, after: u64, event: Event) {
        self.asked += 1;
        self.queue.insert((self.now + after, self.asked), event);
    }

    fn say(&self, who: usize, what: impl std::fmt::Display) {
        if self.aloud {
            println!("{:>9} ms  {who}  {what}", self.now);
        }
    }

    fn delay(&mut self) -> u64 {
        let slow = if self.now < CALM_FROM { self.weather.slow } else { 0 };
        if self.dice.percent(5) { self.dice.below(slow * 10 + 1) } else { self.dice.below(slow + 1) }
    }

    fn place(object: &Object) -> ClaimPlace {
        ClaimPlace { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    fn serve(&mut self, wanted: Wanted) -> Answer {
        match wanted {
            Wanted::Read(place) => Answer::Read(Ok(self.leases.get(&place).cloned().map(Lease))),
            Wanted::Write(object) => Answer::Written(self.put(*object)),
        }
    }

    fn put(&mut self, mut object: Object) -> Result<Lease, ClusterError> {
        let refuse = |kind| Err(ClusterError::new(kind, "refused"));
        let place = Self::place(&object);
        if place.namespace == "shop" && self.now < self.home_comes {
            return refuse(ErrorKind::NamespaceMissing);
        }
        let sent = object.text("/metadata/resourceVersion").to_owned();
        match self.leases.get(&place) {
            Some(_) if sent.is_empty() => return refuse(ErrorKind::AlreadyExists),
            Some(found) if found.text("/metadata/resourceVersion") != sent => {
                return refuse(ErrorKind::Conflict);
            }
            None if !sent.is_empty() => return refuse(ErrorKind::NotFound),
            _ => {}
        }
        self.versions += 1;
        object.metadata_mut().insert("resourceVersion".to_owned(), self.versions.to_string().into());
        self.leases.insert(place, object.clone());
        Ok(Lease(object))
    }
}

/// What is around one operation.
struct Stage {
    scene: Arc<Mutex<Scene>>,
    who: usize,
    /// Its clock shows another time than those of others, in milliseconds.
    skew: i64,
}

/// A call on its way, or a sleep.
struct Asked {
    scene: Arc<Mutex<Scene>>,
    number: u64,
}

impl Future for Asked {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        let answer = self.scene.lock().unwrap().answers.remove(&self.number);
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Stage {
    fn ask(&self, wanted: Wanted) -> Asked {
        let mut scene = self.scene.lock().unwrap();
        let delay = scene.delay();
        let number = scene.asked + 1;
        scene.schedule(delay, Event::Reach(self.who, number, wanted));
        Asked { scene: Arc::clone(&self.scene), number }
    }
}

impl Around for Stage {
    /// In milliseconds.
    type Moment = u64;

    async fn read(&self, place: &ClaimPlace) -> Result<Option<Lease>, ClusterError> {
        match self.ask(Wanted::Read(place.clone())).await {
            Answer::Read(answer) => answer,
            _ => unreachable!("a read was asked for"),
        }
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        match self.ask(Wanted::Write(Box::new(lease))).await {
            Answer::Written(answer) => answer,
            _ => unreachable!("a write was asked for"),
        }
    }

    async fn sleep(&self, time: Duration) {
        let asked = {
            let mut scene = self.scene.lock().unwrap();
            let number = scene.asked + 1;
            let life = scene.lives[self.who];
            let time = u64::try_from(time.as_millis()).unwrap();
            scene.schedule(time, Event::Come(self.who, number, life, Answer::Slept));
            Asked { scene: Arc::clone(&self.scene), number }
        };
        asked.await;
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.skew + i64::try_from(self.moment()).unwrap())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.moment())
    }

    fn moment(&self) -> u64 {
        self.scene.lock().unwrap().now
    }

    fn renewed(&self, began: u64) {
        self.scene.lock().unwrap().renewed.push_back((self.who, began));
    }

    fn tell(&self, news: ClaimNews) {
        self.scene.lock().unwrap().told.push_back((self.who, news));
    }
}

type Work = Pin<Box<dyn Future<Output = Option<Result<ClaimNews, CallError>>>>>;

/// One operation, as far as its claim is concerned.
struct Actor {
    if_taken: IfTaken,
    skew: i64,
    /// Its keeper, or whoever gives its claim back.
    work: Option<Work>,
    /// Recorded: where it has had the claim.
    had: Option<ClaimPlace>,
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
            let keeping = Keeping { around, us, places, if_taken: actor.if_taken, had: actor.had.clone() };
            Box::pin(async move { Some(keeping.run().await) })
        };
        actor.work = Some(work);
        self.poll(who);
    }

    fn end(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        (actor.over, actor.covered, actor.work) = (true, None, None);
        self.with(|scene| scene.say(who, "is over"));
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
                (self.actors[who].work, self.actors[who].covered) = (None, None);
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
