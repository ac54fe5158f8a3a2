//! What is around the operations of a play: one cluster, one time, and calls on their way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::ClaimNews;
use tidegate_model::{ClaimPlace, Object, Timestamp};

use crate::claims::keeper::Around;
use crate::claims::record::Lease;

/// Bad weather passes, in milliseconds: with every fifth answer lost, nobody can watch for long.
pub(super) const CALM_FROM: u64 = 600_000;

/// Random numbers that follow from one (splitmix64).
pub(super) struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

pub(super) enum Wanted {
    Read(ClaimPlace),
    Write(Box<Object>),
}

pub(super) enum Answer {
    Read(Result<Option<Lease>, ClusterError>),
    Written(Result<Lease, ClusterError>),
    Slept,
}

pub(super) enum Event {
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
pub(super) struct Weather {
    pub slow: u64,
    pub lost: u64,
    pub deaths: u64,
    pub stalls: u64,
}

/// The cluster, time, and what is on its way.
pub(super) struct Scene {
    pub dice: Dice,
    pub weather: Weather,
    pub now: u64,
    pub queue: BTreeMap<(u64, u64), Event>,
    pub asked: u64,
    pub leases: BTreeMap<ClaimPlace, Object>,
    pub versions: u64,
    /// When the namespace of the application comes.
    pub home_comes: u64,
    pub answers: BTreeMap<u64, Answer>,
    /// Which life of each operation asks.
    pub lives: Vec<u32>,
    pub told: VecDeque<(usize, ClaimNews)>,
    pub renewed: VecDeque<(usize, u64)>,
    /// The operations that are over, where all share a log that says so.
    pub known_over: Option<BTreeSet<String>>,
    /// What happens is printed.
    pub aloud: bool,
}

impl Scene {
    pub fn schedule(&mut self, after: u64, event: Event) {
        self.asked += 1;
        self.queue.insert((self.now + after, self.asked), event);
    }

    pub fn say(&self, who: usize, what: impl std::fmt::Display) {
        if self.aloud {
            println!("{:>9} ms  {who}  {what}", self.now);
        }
    }

    pub fn delay(&mut self) -> u64 {
        let slow = if self.now < CALM_FROM { self.weather.slow } else { 0 };
        if self.dice.percent(5) { self.dice.below(slow * 10 + 1) } else { self.dice.below(slow + 1) }
    }

    pub fn place(object: &Object) -> ClaimPlace {
        ClaimPlace { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    pub fn serve(&mut self, wanted: Wanted) -> Answer {
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
pub(super) struct Stage {
    pub scene: Arc<Mutex<Scene>>,
    pub who: usize,
    /// Its clock shows another time than those of others, in milliseconds.
    pub skew: i64,
}

/// A call on its way, or a sleep.
pub(super) struct Asked {
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
    /// Milliseconds since the scene began.
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

    async fn lacks(&self, _: &ClaimPlace) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    async fn is_over(&self, operation: &str) -> bool {
        let scene = self.scene.lock().unwrap();
        scene.known_over.as_ref().is_some_and(|known| known.contains(operation))
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
