//! An engine around parts that can be made to fail.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::sim::{AuditEntry, Clock as SimClock, SimCluster, SimConfig};
use tidegate_cluster::{
    ApplyRequest, Call, Cluster, ClusterError, DeleteRequest, Effect, ErrorKind, Layer, MissingRight, Right,
    Strain, Verb, WriteMode,
};
use tidegate_executor::extend::ractor::{Actor, ActorProcessingErr, ActorRef, Message};
use tidegate_executor::{Clock, Engine, EngineBuilder, RuntimeClock};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Destination, Gvk, Object, OperationId, Timestamp};
use tidegate_oplog::MemoryLog;
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::Sync;

pub type Log = MemoryLog;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answer,
    Panic,
    Never,
    /// The cluster refuses the call like this.
    Refuse(ErrorKind),
    /// The cluster refuses what it was sent, in these words.
    Say(&'static str),
}

type Decide = Box<dyn Fn(&'static str, &str) -> Fate + Send + std::marker::Sync>;

/// A cluster that counts its calls, and answers them or not. A call is named by its verb and its object.
pub struct Moody {
    pub sim: SimCluster,
    decide: Decide,
    lacking: &'static [&'static str],
    now: AtomicUsize,
    pub most: AtomicUsize,
    /// What it says of the calls on their way.
    pub strain: Mutex<Option<Strain>>,
}

struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Moody {
    pub fn new(
        config: SimConfig,
        decide: impl Fn(&'static str, &str) -> Fate + Send + std::marker::Sync + 'static,
    ) -> Arc<Self> {
        Self::on(SimCluster::in_memory(config, SimClock::tokio(START)), decide)
    }

    /// Another way to a cluster.
    pub fn on(
        sim: SimCluster,
        decide: impl Fn(&'static str, &str) -> Fate + Send + std::marker::Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            sim,
            decide: Box::new(decide),
            lacking: &[],
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            strain: Mutex::default(),
        })
    }

    /// A cluster that says of some verbs that the right to them is missing, and lets them pass all the same.
    pub fn lacking(lacking: &'static [&'static str]) -> Arc<Self> {
        Self::calm().but_lacking(lacking)
    }

    /// The same of any cluster.
    pub fn but_lacking(self: Arc<Self>, lacking: &'static [&'static str]) -> Arc<Self> {
        let moody = Arc::into_inner(self).unwrap();
        Arc::new(Self { lacking, ..moody })
    }

    /// A cluster that answers everything.
    pub fn calm() -> Arc<Self> {
        Self::new(SimConfig::default(), |_, _| Fate::Answer)
    }

    /// Successful writes, without dry runs.
    pub fn writes(&self) -> Vec<AuditEntry> {
        self.sim.audit().into_iter().filter(|entry| !entry.dry_run && entry.code < 300).collect()
    }

    /// How often an object was created.
    pub fn created(&self, name: &str) -> usize {
        self.writes().iter().filter(|entry| entry.name == name && entry.code == 201).count()
    }
}

impl Layer for Moody {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        let at_once = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        let _leave = Leave(&self.now);
        self.most.fetch_max(at_once, Ordering::SeqCst);
        let verb = verb(&call);
        match (self.decide)(verb, &call.name) {
            Fate::Answer => answer.await,
            Fate::Panic => panic!("injected into {verb} {}", call.name),
            Fate::Never => std::future::pending().await,
            Fate::Refuse(kind) => Err(ClusterError::new(kind, format!("injected: {kind}"))),
            Fate::Say(words) => Err(ClusterError::new(ErrorKind::Invalid, words)),
        }
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        let missing = rights.iter().filter(|right| self.lacking.contains(&right.verb));
        let named = missing.map(|Right { verb, gvk, namespace, .. }| MissingRight {
            namespace: namespace.clone(),
            resource: gvk.kind.clone(),
            verb,
        });
        Ok(named.collect())
    }

    fn strain(&self) -> Option<Strain> {
        self.strain.lock().unwrap().clone()
    }
}

/// How the tests name a call.
fn verb(call: &Call) -> &'static str {
    match call.verb {
        Verb::Discover => "discover",
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Live => "live",
        Verb::MissingRights => "rights",
        Verb::Apply if call.effect == Effect::DryRun => "check",
        Verb::Apply => "apply",
        Verb::Put => "put",
        Verb::PutStatus => "status",
        Verb::Delete => "delete",
        Verb::RemoveFinalizer => "release",
        Verb::Watch => "watch",
        Verb::Pods => "pods",
        Verb::Logs => "logs",
        Verb::FollowLogs => "follow",
    }
}

/// A clock that panics when it is read at chosen counts.
pub struct MoodyClock {
    clock: RuntimeClock,
    reads: AtomicUsize,
    panics: Box<dyn Fn(usize) -> bool + Send + std::marker::Sync>,
}

impl MoodyClock {
    pub fn new(panics: impl Fn(usize) -> bool + Send + std::marker::Sync + 'static) -> Arc<Self> {
        let clock = RuntimeClock::starting_at(START);
        Arc::new(Self { clock, reads: AtomicUsize::new(0), panics: Box::new(panics) })
    }
}

impl Clock for MoodyClock {
    fn now(&self) -> Timestamp {
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(!(self.panics)(read), "injected into read {read} of the clock");
        self.clock.now()
    }
}

/// An engine on a cluster and a log, on virtual time.
pub fn builder(cluster: &Arc<Moody>, log: &Log) -> EngineBuilder {
    let cluster = Arc::clone(cluster) as Arc<dyn Cluster>;
    Engine::builder(Arc::new(log.clone()))
        .cluster(Destination::Simulated, cluster)
        .clock(Arc::new(RuntimeClock::starting_at(START)))
}

/// Begins an operation.
pub async fn submit(engine: &Engine, sync: &Sync) -> OperationId {
    engine.submit(sync.request.clone(), sync.targets()).await.unwrap()
}

/// Waits for the end of an operation, but not for ever.
pub async fn end(engine: &Engine, id: OperationId) -> OperationView {
    within(engine.wait(id)).await.unwrap()
}

/// Longest wait of a test, in virtual time.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), work).await.expect("something waits for ever")
}

/// Waits until an operation stands as wished.
pub async fn until(engine: &Engine, id: OperationId, wish: impl Fn(&OperationView, &str) -> bool) {
    let looking = async {
        loop {
            if let Ok((view, explanation)) = engine.inspect(id).await
                && wish(&view, &format!("{explanation:?}"))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(looking).await;
}

/// An actor that calls a function with each message.
pub struct Calls<M>(Box<dyn Fn(M) + Send + std::marker::Sync>);

impl<M: Message + std::marker::Sync> Actor for Calls<M> {
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
pub async fn actor<M: Message + std::marker::Sync>(
    call: impl Fn(M) + Send + std::marker::Sync + 'static,
) -> ActorRef<M> {
    Actor::spawn(None, Calls(Box::new(call)), ()).await.unwrap().0
}

/// A write of an object, as somebody else makes it.
pub fn write(object: Object) -> ApplyRequest {
    ApplyRequest::new(object, WriteMode::Apply { force: true })
}

/// Somebody deletes a namespace.
pub fn delete_namespace(sim: &SimCluster, name: &str) {
    let gvk = Gvk::new("", "v1", "Namespace");
    let namespace = sim.get(&gvk, "", name).now_or_never().unwrap().unwrap().unwrap();
    let request = DeleteRequest::of(&namespace);
    sim.delete(request).now_or_never().unwrap().unwrap();
}

/// A config map of a wave.
pub fn config(name: &str, wave: i64, annotations: &[(&str, &str)]) -> String {
    object("v1", "ConfigMap", name, wave, annotations, "data: {a: b}")
}

/// A hook that is a Job.
pub fn hook(name: &str, phase: &str, annotations: &[(&str, &str)]) -> String {
    let mut all = vec![("argocd.argoproj.io/hook", phase)];
    all.extend_from_slice(annotations);
    object("batch/v1", "Job", name, 0, &all, JOB)
}

/// A Deployment of a wave.
pub fn server(name: &str, wave: i64, annotations: &[(&str, &str)]) -> String {
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
