//! Layer between a process and the cluster. It crashes the process at a given write, injects faults, and
//! records all writes independently.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tidegate_cluster::sim::SimCluster;
use tidegate_cluster::{
    Call, Cluster, ClusterError, Effect, ErrorKind, Layer, PendingCall, Scope, Verb, WatchStream,
};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::{Gvk, Object, ObjectKey, Timestamp};
use tidegate_testkit::crash::CrashPoints;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Latency of each direction of a call.
const LATENCY: Duration = Duration::from_millis(2);
/// Timeout of a call without a response.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Write as received by the cluster, whatever the response to the writer.
#[derive(Clone, Debug)]
pub struct Write {
    /// Time of the write.
    pub at: Timestamp,
    pub verb: Verb,
    pub key: ObjectKey,
    /// Objects before and after the write.
    pub before: Option<Object>,
    pub after: Option<Object>,
    /// Other existing Applications when the deletion of an Application was requested.
    pub other_applications: BTreeSet<String>,
}

impl Write {
    /// Returns true if the write created or recreated an object.
    pub fn is_creation(&self) -> bool {
        let uid = |object: &Option<Object>| object.as_ref().map(|one| one.uid().to_owned());
        self.after.is_some() && uid(&self.before) != uid(&self.after)
    }
}

/// Faults of calls, and the recorded writes, across processes.
#[derive(Default)]
pub struct CallFaults {
    pub seed: u64,
    /// Percentage of failing calls.
    pub faults_percent: AtomicU64,
    /// True if the cluster is unavailable.
    pub is_unavailable: std::sync::atomic::AtomicBool,
    /// Application with currently failing writes.
    pub blocked_application: Mutex<Option<String>>,
    /// Delay of watch events about Applications and ApplicationSets, in milliseconds.
    pub watch_delay_millis: AtomicU64,
    pub call_counts: Mutex<BTreeMap<(String, String), u64>>,
    pub writes: Mutex<Vec<Write>>,
}

enum Fault {
    Refused(ErrorKind),
    RequestLost,
    ResponseLost,
}

impl CallFaults {
    /// Returns the fault of a call. It depends on the seed, the call's object and the number of earlier calls
    /// for that object. The order of two simultaneous calls therefore doesn't matter.
    fn fault(&self, call: &Call) -> Option<Fault> {
        if self.is_unavailable.load(Ordering::SeqCst) {
            return Some(Fault::Refused(ErrorKind::Unavailable));
        }
        let is_application = call.object.as_ref().is_some_and(|object| object.kind == "Application");
        if is_application && self.blocked_application.lock().unwrap().as_ref() == Some(&call.name) {
            return Some(Fault::Refused(ErrorKind::Unavailable));
        }
        let about = call.object.as_ref().map_or_else(|| call.name.clone(), ToString::to_string);
        let key = (format!("{:?}", call.verb), about);
        let mut counted = self.call_counts.lock().unwrap();
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
            2 => Fault::RequestLost,
            3 if is_write && call.verb == Verb::Put => Fault::Refused(ErrorKind::Conflict),
            _ if is_write => Fault::ResponseLost,
            _ => Fault::Refused(ErrorKind::Unavailable),
        })
    }
}

/// Cluster as seen by a process.
pub struct FaultyCluster {
    pub sim: SimCluster,
    pub points: Arc<CrashPoints>,
    pub faults: Arc<CallFaults>,
}

impl FaultyCluster {
    async fn read_object(&self, key: &ObjectKey) -> Option<Object> {
        let discovery = self.sim.discover().await.ok()?;
        let group_kind = tidegate_model::GroupKind::new(&key.group, &key.kind);
        let version = discovery.get(&group_kind)?.versions.first()?.clone();
        let gvk = Gvk::new(&key.group, &version, &key.kind);
        self.sim.get(&gvk, &key.namespace, &key.name).await.ok().flatten()
    }

    /// Returns the other existing Applications when the deletion of an Application is requested.
    fn other_applications(&self, call: &Call, key: &ObjectKey) -> BTreeSet<String> {
        if call.verb != Verb::Delete || key.kind != "Application" {
            return BTreeSet::new();
        }
        let all = self.sim.objects().into_iter().filter(|one| one.kind() == "Application");
        all.map(|one| one.name().to_owned()).collect()
    }

    /// Waits forever in a crashed process.
    async fn wait_forever(&self) {
        if self.points.has_crashed() {
            std::future::pending::<()>().await;
        }
    }

    async fn transmit(&self, call: &Call) {
        if call.effect == Effect::Write && self.points.try_pass().is_err() {
            std::future::pending::<()>().await;
        }
        self.wait_forever().await;
    }
}

impl Layer for FaultyCluster {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        let call =
            Call { verb: Verb::Watch, effect: Effect::Read, name: scope.gvk.kind.clone(), object: None };
        let events = self.intercept(call, self.sim.watch(scope, resource_version)).await?;
        let delay = Duration::from_millis(self.faults.watch_delay_millis.load(Ordering::SeqCst));
        match delay.is_zero() || !scope.gvk.kind.starts_with("Application") {
            true => Ok(events),
            false => Ok(delayed(events, delay)),
        }
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        self.transmit(&call).await;
        tokio::time::sleep(LATENCY).await;
        self.wait_forever().await;
        let fault = self.faults.fault(&call);
        match &fault {
            Some(Fault::Refused(kind)) => {
                return Err(ClusterError::new(*kind, "the weather is bad"));
            }
            Some(Fault::RequestLost) => {
                tokio::time::sleep(CALL_TIMEOUT).await;
                return Err(ClusterError::new(ErrorKind::Timeout, "the server did not respond in time"));
            }
            Some(Fault::ResponseLost) | None => {}
        }
        let key = call.object.clone().filter(|_| call.effect == Effect::Write);
        let (before, other_applications) = match &key {
            Some(key) => (self.read_object(key).await, self.other_applications(&call, key)),
            None => (None, BTreeSet::new()),
        };
        let answer = answer.await;
        if let Some(key) = key
            && answer.is_ok()
        {
            let (at, after) = (SystemClock.now(), self.read_object(&key).await);
            let write = Write { at, verb: call.verb, key, before, after, other_applications };
            self.faults.writes.lock().unwrap().push(write);
        }
        self.transmit(&call).await;
        if fault.is_some() {
            tokio::time::sleep(CALL_TIMEOUT).await;
            return Err(ClusterError::new(ErrorKind::Timeout, "the server did not respond in time"));
        }
        tokio::time::sleep(LATENCY).await;
        answer
    }
}

/// Returns the same events, each of them later.
fn delayed(mut events: WatchStream, delay: Duration) -> WatchStream {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { return };
            drop(sender.send((Instant::now() + delay, event)));
        }
    });
    stream::unfold(receiver, async |mut receiver| {
        let (due, event) = receiver.recv().await?;
        tokio::time::sleep_until(due).await;
        Some((event, receiver))
    })
    .boxed()
}
