//! Engine with components that can be made to fail.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::sim::{AuditEntry, Clock as SimClock, SimCluster, SimConfig};
use tidegate_cluster::{
    ApplyRequest, Backpressure, Call, Cluster, ClusterError, DeleteRequest, Effect, ErrorKind, Layer,
    MissingRight, PendingCall, Right, Verb, WriteMode,
};
use tidegate_executor::extensions::ractor::{Actor, ActorProcessingErr, ActorRef, Message};
use tidegate_executor::{Clock, Engine, EngineBuilder, RuntimeClock};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Destination, Gvk, Object, OperationId, Timestamp};
use tidegate_oplog::MemoryLog;
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::SyncSpec;

pub type Log = MemoryLog;

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Answer,
    Panic,
    Hang,
    /// The cluster refuses the call with this error.
    Refuse(ErrorKind),
    /// The cluster refuses the request with this message.
    RefuseWithMessage(&'static str),
}

type OutcomeFn = Box<dyn Fn(&'static str, &str) -> CallOutcome + Send + std::marker::Sync>;

/// Cluster that counts its calls and can make them fail. A call is identified by its verb and its object.
pub struct FaultyCluster {
    pub sim: SimCluster,
    decide: OutcomeFn,
    missing_rights: &'static [&'static str],
    active_calls: AtomicUsize,
    pub max_active_calls: AtomicUsize,
    /// Cause to report for delayed calls.
    pub backpressure: Mutex<Option<Backpressure>>,
}

struct ActiveCall<'a>(&'a AtomicUsize);

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultyCluster {
    pub fn new(
        config: SimConfig,
        decide: impl Fn(&'static str, &str) -> CallOutcome + Send + std::marker::Sync + 'static,
    ) -> Arc<Self> {
        Self::connect(SimCluster::in_memory(config, SimClock::tokio(START)), decide)
    }

    /// Creates another connection to a cluster.
    pub fn connect(
        sim: SimCluster,
        decide: impl Fn(&'static str, &str) -> CallOutcome + Send + std::marker::Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            sim,
            decide: Box::new(decide),
            missing_rights: &[],
            active_calls: AtomicUsize::new(0),
            max_active_calls: AtomicUsize::new(0),
            backpressure: Mutex::default(),
        })
    }

    /// Creates a cluster that reports missing permissions for some verbs but still executes the calls.
    pub fn new_without_rights(lacking: &'static [&'static str]) -> Arc<Self> {
        Self::reliable().without_rights(lacking)
    }

    /// Makes an existing cluster report missing permissions for some verbs.
    pub fn without_rights(self: Arc<Self>, missing_rights: &'static [&'static str]) -> Arc<Self> {
        let moody = Arc::into_inner(self).unwrap();
        Arc::new(Self { missing_rights, ..moody })
    }

    /// Creates a cluster without failures.
    pub fn reliable() -> Arc<Self> {
        Self::new(SimConfig::default(), |_, _| CallOutcome::Answer)
    }

    /// Returns the successful writes, without dry runs.
    pub fn writes(&self) -> Vec<AuditEntry> {
        self.sim.audit().into_iter().filter(|entry| !entry.dry_run && entry.code < 300).collect()
    }

    /// Returns the number of creations of an object.
    pub fn creations_of(&self, name: &str) -> usize {
        self.writes().iter().filter(|entry| entry.name == name && entry.code == 201).count()
    }
}

impl Layer for FaultyCluster {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        let at_once = self.active_calls.fetch_add(1, Ordering::SeqCst) + 1;
        let _leave = ActiveCall(&self.active_calls);
        self.max_active_calls.fetch_max(at_once, Ordering::SeqCst);
        let verb = verb_of(&call);
        match (self.decide)(verb, &call.name) {
            CallOutcome::Answer => answer.await,
            CallOutcome::Panic => panic!("injected into {verb} {}", call.name),
            CallOutcome::Hang => std::future::pending().await,
            CallOutcome::Refuse(kind) => Err(ClusterError::new(kind, format!("injected: {kind}"))),
            CallOutcome::RefuseWithMessage(text) => Err(ClusterError::new(ErrorKind::Invalid, text)),
        }
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        let missing = rights.iter().filter(|right| self.missing_rights.contains(&right.verb));
        let named = missing.map(|Right { verb, gvk, namespace, .. }| MissingRight {
            namespace: namespace.clone(),
            resource: gvk.kind.clone(),
            verb,
        });
        Ok(named.collect())
    }

    fn backpressure(&self) -> Option<Backpressure> {
        self.backpressure.lock().unwrap().clone()
    }
}

/// Returns the tests' verb for a call.
fn verb_of(call: &Call) -> &'static str {
    match call.verb {
        Verb::Discover => "discover",
        Verb::Get => "get",
        Verb::List => "list",
        Verb::ListLive => "live",
        Verb::MissingRights => "rights",
        Verb::Apply if call.effect == Effect::DryRun => "check",
        Verb::Apply => "apply",
        Verb::Put => "put",
        Verb::PutStatus => "status",
        Verb::Delete => "delete",
        Verb::RemoveFinalizer => "release",
        Verb::StartJob => "start",
        Verb::Watch => "watch",
        Verb::Pods => "pods",
        Verb::Events => "events",
        Verb::Logs => "logs",
        Verb::FollowLogs => "follow",
    }
}

/// Clock that panics at selected reads.
pub struct PanickingClock {
    clock: RuntimeClock,
    reads: AtomicUsize,
    panics: Box<dyn Fn(usize) -> bool + Send + std::marker::Sync>,
}

impl PanickingClock {
    pub fn new(panics: impl Fn(usize) -> bool + Send + std::marker::Sync + 'static) -> Arc<Self> {
        let clock = RuntimeClock::starting_at(START);
        Arc::new(Self { clock, reads: AtomicUsize::new(0), panics: Box::new(panics) })
    }
}

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(!(self.panics)(read), "injected into read {read} of the clock");
        self.clock.now()
    }
}

/// Returns a builder for an engine with a cluster and a log, in virtual time.
pub fn builder(cluster: &Arc<FaultyCluster>, log: &Log) -> EngineBuilder {
    let cluster = Arc::clone(cluster) as Arc<dyn Cluster>;
    Engine::builder(Arc::new(log.clone()))
        .cluster(Destination::Simulated, cluster)
        .clock(Arc::new(RuntimeClock::starting_at(START)))
}

/// Starts an operation.
pub async fn submit(engine: &Engine, sync: &SyncSpec) -> OperationId {
    engine.submit(sync.request.clone(), sync.targets()).await.unwrap()
}

/// Waits for the end of an operation, with a timeout.
pub async fn wait_for_end(engine: &Engine, id: OperationId) -> OperationView {
    with_time_limit(engine.wait(id)).await.unwrap()
}

/// Runs a future with a timeout, in virtual time.
pub async fn with_time_limit<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), work).await.expect("something waits forever")
}

/// Waits until an operation satisfies a predicate.
pub async fn wait_until(engine: &Engine, id: OperationId, request: impl Fn(&OperationView, &str) -> bool) {
    let looking = async {
        loop {
            if let Ok((view, explanation)) = engine.inspect(id).await
                && request(&view, &format!("{explanation:?}"))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    with_time_limit(looking).await;
}

/// Actor that calls a function with each message.
pub struct CallbackActor<M>(Box<dyn Fn(M) + Send + std::marker::Sync>);

impl<M: Message + std::marker::Sync> Actor for CallbackActor<M> {
    type Msg = M;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<M>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<M>, message: M, (): &mut ()) -> Result<(), ActorProcessingErr> {
        (self.0)(message);
        Ok(())
    }
}

/// Spawns an actor that calls a function with each message.
pub async fn callback_actor<M: Message + std::marker::Sync>(
    call: impl Fn(M) + Send + std::marker::Sync + 'static,
) -> ActorRef<M> {
    Actor::spawn(None, CallbackActor(Box::new(call)), ()).await.unwrap().0
}

/// Returns a request to write an object as another user.
pub fn external_write(object: Object) -> ApplyRequest {
    ApplyRequest::new(object, WriteMode::Apply { force: true })
}

/// Deletes a namespace as another user.
pub fn delete_namespace(sim: &SimCluster, name: &str) {
    let gvk = Gvk::new("", "v1", "Namespace");
    let namespace = sim.get(&gvk, "", name).now_or_never().unwrap().unwrap().unwrap();
    let request = DeleteRequest::for_object(&namespace);
    sim.delete(request).now_or_never().unwrap().unwrap();
}

/// Returns a config map in a wave.
pub fn config(name: &str, wave: i64, annotations: &[(&str, &str)]) -> String {
    object("v1", "ConfigMap", name, wave, annotations, "data: {a: b}")
}

/// Returns a hook (a Job).
pub fn hook(name: &str, phase: &str, annotations: &[(&str, &str)]) -> String {
    let mut all = vec![("argocd.argoproj.io/hook", phase)];
    all.extend_from_slice(annotations);
    object("batch/v1", "Job", name, 0, &all, JOB)
}

/// Returns a Deployment in a wave.
pub fn server_deployment(name: &str, wave: i64, annotations: &[(&str, &str)]) -> String {
    let body = format!(
        "spec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: main, image: busybox}}]}}"
    );
    object("apps/v1", "Deployment", name, wave, annotations, &body)
}

const JOB: &str = "spec:\n  backoffLimit: 0\n  template:\n    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}";

fn object(api: &str, kind: &str, name: &str, wave: i64, annotations: &[(&str, &str)], body: &str) -> String {
    let mut text = format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    argocd.argoproj.io/sync-wave: \
         \"{wave}\"\n"
    );
    for (key, value) in annotations {
        text.push_str(&format!("    {key}: {value:?}\n"));
    }
    format!("{text}{body}\n---\n")
}
