//! What stands between a process and the cluster: it dies at a chosen write, meets bad weather, and everything that it does to
//! the cluster is written down by somebody else.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_cluster::sim::SimCluster;
use tidegate_cluster::{Call, Cluster, ClusterError, Effect, ErrorKind, Layer, Verb};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::{Gvk, Object, ObjectKey, Timestamp};
use tidegate_testkit::crash::Points;

/// How long a call is on its way, each way.
const WAY: Duration = Duration::from_millis(2);
/// A call without an answer is given up after this.
const NO_ANSWER: Duration = Duration::from_secs(10);

/// A write as the cluster saw it, whatever the one that wrote was told.
#[derive(Clone, Debug)]
pub struct Write {
    /// When it was done.
    pub at: Timestamp,
    pub verb: Verb,
    pub key: ObjectKey,
    /// What was there before, and what is there now.
    pub before: Option<Object>,
    pub after: Option<Object>,
    /// The Applications that there were, where one was deleted.
    pub beside: BTreeSet<String>,
}

impl Write {
    /// Whether it made an object, or made it again.
    pub fn has_made(&self) -> bool {
        let uid = |object: &Option<Object>| object.as_ref().map(|one| one.uid().to_owned());
        self.after.is_some() && uid(&self.before) != uid(&self.after)
    }
}

/// How calls fare, and what came of them. Outlives processes.
#[derive(Default)]
pub struct Weather {
    pub seed: u64,
    /// Of a hundred calls so many fail.
    pub faults_percent: AtomicU64,
    /// Whether the cluster is away.
    pub is_away: std::sync::atomic::AtomicBool,
    /// The Application that the cluster takes no writes to for now.
    pub closed: Mutex<Option<String>>,
    pub counted: Mutex<BTreeMap<(String, String), u64>>,
    pub writes: Mutex<Vec<Write>>,
}

enum Fault {
    Refused(ErrorKind),
    Unheard,
    Unanswered,
}

impl Weather {
    /// What happens to a call: that follows from the seed, what the call is about and how often it was made, so that two calls
    /// of one moment may change their places.
    fn fault(&self, call: &Call) -> Option<Fault> {
        if self.is_away.load(Ordering::SeqCst) {
            return Some(Fault::Refused(ErrorKind::Unavailable));
        }
        let is_application = call.object.as_ref().is_some_and(|object| object.kind == "Application");
        if is_application && self.closed.lock().unwrap().as_ref() == Some(&call.name) {
            return Some(Fault::Refused(ErrorKind::Unavailable));
        }
        let about = call.object.as_ref().map_or_else(|| call.name.clone(), ToString::to_string);
        let key = (format!("{:?}", call.verb), about);
        let mut counted = self.counted.lock().unwrap();
        let count = counted.entry(key.clone()).or_default();
        *count += 1;
        let mut drawn = DefaultHasher::new();
        (self.seed, key, *count).hash(&mut drawn);
        let drawn = drawn.finish();
        if drawn % 100 >= self.faults_percent.load(Ordering::SeqCst) {
            return None;
        }
        let is_write = call.effect == Effect::Write;
        Some(match (drawn / 100) % 5 {
            0 => Fault::Refused(ErrorKind::Server),
            1 => Fault::Refused(ErrorKind::TooManyRequests { retry_after: Some(Duration::from_secs(1)) }),
            2 => Fault::Unheard,
            3 if is_write && call.verb == Verb::Put => Fault::Refused(ErrorKind::Conflict),
            _ if is_write => Fault::Unanswered,
            _ => Fault::Refused(ErrorKind::Unavailable),
        })
    }
}

/// The cluster as one process sees it.
pub struct Front {
    pub sim: SimCluster,
    pub points: Arc<Points>,
    pub weather: Arc<Weather>,
}

impl Front {
    async fn seen(&self, key: &ObjectKey) -> Option<Object> {
        let discovery = self.sim.discover().await.ok()?;
        let group_kind = tidegate_model::GroupKind::new(&key.group, &key.kind);
        let version = discovery.get(&group_kind)?.versions.first()?.clone();
        let gvk = Gvk::new(&key.group, &version, &key.kind);
        self.sim.get(&gvk, &key.namespace, &key.name).await.ok().flatten()
    }

    /// The Applications that there are, whose deletion is asked for.
    fn beside(&self, call: &Call, key: &ObjectKey) -> BTreeSet<String> {
        if call.verb != Verb::Delete || key.kind != "Application" {
            return BTreeSet::new();
        }
        let all = self.sim.objects().into_iter().filter(|one| one.kind() == "Application");
        all.map(|one| one.name().to_owned()).collect()
    }

    /// A dead process does nothing ever again.
    async fn stay_dead(&self) {
        if self.points.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    async fn pass(&self, call: &Call) {
        if call.effect == Effect::Write && self.points.survive().is_err() {
            std::future::pending::<()>().await;
        }
        self.stay_dead().await;
    }
}

impl Layer for Front {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        self.pass(&call).await;
        tokio::time::sleep(WAY).await;
        self.stay_dead().await;
        let fault = self.weather.fault(&call);
        match &fault {
            Some(Fault::Refused(kind)) => {
                return Err(ClusterError::new(*kind, "the weather is bad"));
            }
            Some(Fault::Unheard) => {
                tokio::time::sleep(NO_ANSWER).await;
                return Err(ClusterError::new(ErrorKind::Timeout, "the server did not answer in time"));
            }
            Some(Fault::Unanswered) | None => {}
        }
        let key = call.object.clone().filter(|_| call.effect == Effect::Write);
        let (before, beside) = match &key {
            Some(key) => (self.seen(key).await, self.beside(&call, key)),
            None => (None, BTreeSet::new()),
        };
        let answer = answer.await;
        if let Some(key) = key
            && answer.is_ok()
        {
            let (at, after) = (SystemClock.now(), self.seen(&key).await);
            let write = Write { at, verb: call.verb, key, before, after, beside };
            self.weather.writes.lock().unwrap().push(write);
        }
        self.pass(&call).await;
        if fault.is_some() {
            tokio::time::sleep(NO_ANSWER).await;
            return Err(ClusterError::new(ErrorKind::Timeout, "the server did not answer in time"));
        }
        tokio::time::sleep(WAY).await;
        answer
    }
}
