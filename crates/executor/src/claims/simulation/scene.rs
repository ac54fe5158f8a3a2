//! Environment of the simulated operations: one cluster, one clock, and the calls in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::ClaimEvent;
use tidegate_model::{ClaimLocation, Object, Timestamp};

use crate::claims::keeper::KeeperEnvironment;
use crate::claims::record::Lease;

/// Time in milliseconds after which faults stop. Otherwise, for example with every fifth response lost,
/// claims could never be observed for long enough to expire.
pub(super) const FAULTS_END: u64 = 600_000;

/// Deterministic random number generator (splitmix64).
pub(super) struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn number_below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub fn happens(&mut self, chance: u64) -> bool {
        self.number_below(100) < chance
    }
}

pub(super) enum CallRequest {
    Read(ClaimLocation),
    Write(Box<Object>),
}

pub(super) enum Answer {
    Read(Result<Option<Lease>, ClusterError>),
    Written(Result<Lease, ClusterError>),
    Slept,
}

pub(super) enum Event {
    /// A call reaches the cluster.
    CallArrives(usize, u64, CallRequest),
    /// The response to a call, or the end of a sleep, reaches an operation. Responses to calls from before a
    /// restart are dropped.
    AnswerArrives(usize, u64, u32, Answer),
    /// An operation starts, or its process restarts.
    Start(usize),
    /// The operation's work is done, or it was asked to end.
    WorkEnds(usize),
    Crash(usize),
}

/// Faults in the calls and processes of a simulation.
pub(super) struct Faults {
    pub slow: u64,
    pub lost: u64,
    pub crashes: u64,
    pub stalls: u64,
}

/// The cluster, the time, and the events in flight.
pub(super) struct Scene {
    pub dice: Dice,
    pub faults: Faults,
    pub now: u64,
    pub queue: BTreeMap<(u64, u64), Event>,
    pub calls: u64,
    pub leases: BTreeMap<ClaimLocation, Object>,
    pub versions: u64,
    /// Creation time of the application's namespace.
    pub home_created_at: u64,
    pub answers: BTreeMap<u64, Answer>,
    /// Number of times each operation's process has been started.
    pub lives: Vec<u32>,
    pub news: VecDeque<(usize, ClaimEvent)>,
    pub renewals: VecDeque<(usize, u64)>,
    /// Finished operations, if all operations share a log.
    pub finished: Option<BTreeSet<String>>,
    /// True to print events.
    pub is_verbose: bool,
}

impl Scene {
    pub fn schedule(&mut self, after: u64, event: Event) {
        self.calls += 1;
        self.queue.insert((self.now + after, self.calls), event);
    }

    pub fn print(&self, who: usize, what: impl std::fmt::Display) {
        if self.is_verbose {
            println!("{:>9} ms  {who}  {what}", self.now);
        }
    }

    pub fn delay(&mut self) -> u64 {
        let slow = if self.now < FAULTS_END { self.faults.slow } else { 0 };
        if self.dice.happens(5) {
            self.dice.number_below(slow * 10 + 1)
        } else {
            self.dice.number_below(slow + 1)
        }
    }

    pub fn location(object: &Object) -> ClaimLocation {
        ClaimLocation { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    pub fn execute(&mut self, wanted: CallRequest) -> Answer {
        match wanted {
            CallRequest::Read(place) => Answer::Read(Ok(self.leases.get(&place).cloned().map(Lease))),
            CallRequest::Write(object) => Answer::Written(self.put(*object)),
        }
    }

    fn put(&mut self, mut object: Object) -> Result<Lease, ClusterError> {
        let refuse = |kind| Err(ClusterError::new(kind, "refused"));
        let place = Self::location(&object);
        if place.namespace == "shop" && self.now < self.home_created_at {
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

/// Environment of one simulated operation.
pub(super) struct SimulatedEnvironment {
    pub scene: Arc<Mutex<Scene>>,
    pub index: usize,
    /// Offset of the operation's clock in milliseconds.
    pub skew: i64,
}

/// A call in flight, or a sleep.
pub(super) struct PendingCall {
    scene: Arc<Mutex<Scene>>,
    number: u64,
}

impl Future for PendingCall {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        let answer = self.scene.lock().unwrap().answers.remove(&self.number);
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl SimulatedEnvironment {
    fn call(&self, wanted: CallRequest) -> PendingCall {
        let mut scene = self.scene.lock().unwrap();
        let delay = scene.delay();
        let number = scene.calls + 1;
        scene.schedule(delay, Event::CallArrives(self.index, number, wanted));
        PendingCall { scene: Arc::clone(&self.scene), number }
    }
}

impl KeeperEnvironment for SimulatedEnvironment {
    /// Milliseconds since the start of the scene.
    type Moment = u64;

    async fn read(&self, place: &ClaimLocation) -> Result<Option<Lease>, ClusterError> {
        match self.call(CallRequest::Read(place.clone())).await {
            Answer::Read(answer) => answer,
            _ => unreachable!("a read was requested"),
        }
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        match self.call(CallRequest::Write(Box::new(lease))).await {
            Answer::Written(answer) => answer,
            _ => unreachable!("a write was requested"),
        }
    }

    async fn missing_rights(&self, _: &ClaimLocation) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    async fn is_over(&self, operation: &str) -> bool {
        let scene = self.scene.lock().unwrap();
        scene.finished.as_ref().is_some_and(|known| known.contains(operation))
    }

    async fn sleep(&self, time: Duration) {
        let asked = {
            let mut scene = self.scene.lock().unwrap();
            let number = scene.calls + 1;
            let life = scene.lives[self.index];
            let time = u64::try_from(time.as_millis()).unwrap();
            scene.schedule(time, Event::AnswerArrives(self.index, number, life, Answer::Slept));
            PendingCall { scene: Arc::clone(&self.scene), number }
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

    fn record_renewal(&self, began: u64) {
        self.scene.lock().unwrap().renewals.push_back((self.index, began));
    }

    fn report(&self, news: ClaimEvent) {
        self.scene.lock().unwrap().news.push_back((self.index, news));
    }
}
