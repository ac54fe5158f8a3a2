//! Applications served on a simulated cluster, from a repository and a store of the test's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ractor::ActorRef;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_application::refresh::Level;
use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Call, Cluster, ClusterError, ErrorKind, Layer, Verb, WriteMode};
use tidegate_executor::{Clock as _, Engine, GateQuestion, RuntimeClock, Summary, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::argo::{AppProject, Application, OperationRequest, SyncOperation};
use tidegate_model::{Destination, Object, OperationId};
use tidegate_oplog::{Log, MemoryLog};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, oneshot};

use super::messages::SupervisorMessage;
use super::shared::Shared;
use super::store::{AppKey, ApplicationStore, StoreEvent, Stored};
use super::{Applications, Places, ProjectSet, Serving, Sourcing};
use crate::error::ServiceError;
use crate::gates::GateFile;
use crate::notices::Notices;
use crate::plans::Plans;
use crate::state_dir::StateDir;

/// No test takes longer, but for one that hangs.
pub const LIMIT: Duration = Duration::from_secs(600);

/// An application with this annotation cannot be kept: whoever tries that meets a fault.
pub const POISON: &str = "example.com/poison";

/// A store in memory.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    base: PathBuf,
    applications: BTreeMap<AppKey, Application>,
    projects: BTreeMap<String, Result<Arc<AppProject>, String>>,
    /// How often something was kept, and how often that has begun.
    writes: usize,
    begun: usize,
    /// Taken by whoever does not let anything be kept.
    open: Arc<RwLock<()>>,
    tell: Option<UnboundedSender<StoreEvent>>,
}

impl Kept {
    fn tell(&self, event: StoreEvent) {
        if let Some(tell) = &self.tell {
            let _ = tell.send(event);
        }
    }
}

fn stored(application: &Application) -> StoreEvent {
    let application = application.clone();
    StoreEvent::Applied(Box::new(Stored { application, problem: None, lost: None }))
}

#[async_trait]
impl ApplicationStore for Shelf {
    fn base(&self) -> PathBuf {
        self.0.lock().unwrap().base.clone()
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (tell, told) = unbounded_channel();
        let mut kept = self.0.lock().unwrap();
        kept.tell = Some(tell);
        kept.tell(StoreEvent::Projects(ProjectSet {
            projects: kept.projects.clone(),
            ..ProjectSet::default()
        }));
        kept.applications.values().for_each(|one| kept.tell(stored(one)));
        kept.tell(StoreEvent::Settled);
        told
    }

    async fn keep(&self, application: &Application) -> Result<(), ServiceError> {
        assert!(application.annotation(POISON).is_none(), "it is poisoned");
        let open = {
            let mut kept = self.0.lock().unwrap();
            kept.begun += 1;
            Arc::clone(&kept.open)
        };
        let _open = open.read().await;
        let mut kept = self.0.lock().unwrap();
        kept.applications.insert(AppKey::of(application), application.clone());
        kept.writes += 1;
        Ok(())
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        let kept = self.0.lock().unwrap();
        kept.tell(stored(application));
        Ok(())
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.forget(&AppKey::of(application)).await?;
        self.0.lock().unwrap().tell(StoreEvent::Gone(AppKey::of(application)));
        Ok(())
    }

    fn speaks_for(&self, _: &AppKey) -> bool {
        true
    }

    async fn forget(&self, key: &AppKey) -> Result<(), ServiceError> {
        self.0.lock().unwrap().applications.remove(key);
        Ok(())
    }
}

/// The cluster as comparisons see it, which counts what they ask.
#[derive(Clone)]
struct Counted {
    sim: SimCluster,
    calls: Arc<Mutex<Vec<Verb>>>,
    /// It does not answer what it serves.
    is_silent: Arc<AtomicBool>,
}

impl Layer for Counted {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        self.calls.lock().unwrap().push(call.verb);
        if call.verb == Verb::Discover && self.is_silent.load(Ordering::SeqCst) {
            return Err(ClusterError::new(ErrorKind::Unavailable, "nobody answers"));
        }
        answer.await
    }
}

/// Everything at work.
pub struct Served {
    pub engine: Engine,
    pub sim: SimCluster,
    calls: Arc<Mutex<Vec<Verb>>>,
    is_silent: Arc<AtomicBool>,
    /// What the log is kept in.
    pub memory: MemoryLog,
    log: Log,
    folder: TempDir,
    shelf: Shelf,
    gates: Gates,
    keeps_plans: bool,
    /// The program for charts.
    helm: Option<PathBuf>,
    applications: Option<Applications>,
}

/// Nobody is told anything.
pub struct Quiet;

impl Notices for Quiet {
    fn warn(&self, _: &str) {}
    fn note(&self, _: &str) {}
}

/// Gates beside those that every engine has.
#[derive(Clone, Default)]
pub struct Gates {
    /// What a file of gates says.
    pub file: Option<&'static str>,
    /// One that is registered.
    pub actor: Option<(&'static str, ActorRef<GateQuestion>)>,
}

/// A document of an application whose manifests are in the folder of its name.
pub fn application(name: &str) -> Application {
    serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {
            "project": "default", "source": {"repoURL": "./repo", "path": name},
            "destination": {"name": "in-cluster", "namespace": "web"}, "syncPolicy": {"retry": {"limit": 0}},
        },
    }))
    .unwrap()
}

pub fn key(name: &str) -> AppKey {
    AppKey::named(name)
}

/// A ConfigMap of an application, and a Job that runs before it for so long.
pub fn manifests(name: &str, value: &str, migrates: &str) -> String {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("migrate-{name}"), "annotations": {
        "argocd.argoproj.io/hook": "PreSync", "sim.tidegate.dev/ready-after": migrates,
    }}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("settings-{name}")}, "data": {"value": value}});
    format!("---\n{job}\n---\n{map}\n")
}

impl Served {
    /// These applications, each with its manifests.
    pub async fn new(applications: &[(&str, &str)]) -> Self {
        Self::with(applications, Gates::default()).await
    }

    pub async fn with(applications: &[(&str, &str)], gates: Gates) -> Self {
        let folder = TempDir::new().unwrap();
        let shelf = Shelf::default();
        {
            let mut kept = shelf.0.lock().unwrap();
            kept.base = folder.path().to_owned();
            kept.applications = applications.iter().map(|(name, _)| (key(name), application(name))).collect();
        }
        let sim = SimCluster::in_memory(SimConfig::default(), SimClock::tokio(SystemClock.now()));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
        let namespace = Object::try_from(namespace).unwrap();
        sim.apply(ApplyRequest::new(namespace, WriteMode::Apply { force: true })).await.unwrap();
        let memory = MemoryLog::new();
        let log: Log = Arc::new(memory.clone());
        let engine = engine(&log, &sim, &gates).await;
        let (calls, is_silent, keeps_plans, helm, applications_at_work) = Default::default();
        let mut served = Self {
            engine,
            sim,
            calls,
            is_silent,
            memory,
            log,
            folder,
            shelf,
            gates,
            keeps_plans,
            helm,
            applications: applications_at_work,
        };
        for (name, text) in applications {
            served.commit(name, text);
        }
        served.serve().await;
        served
    }

    /// The same, where plans can be kept.
    pub async fn keeping_plans(applications: &[(&str, &str)]) -> Self {
        let mut served = Self::new(applications).await;
        served.keeps_plans = true;
        served.restart().await;
        served
    }

    /// Charts are made by this program from now on, and the cluster does not answer what it serves, or does.
    pub async fn with_helm(&mut self, helm: PathBuf, is_silent: bool) {
        self.helm = Some(helm);
        self.silence(is_silent);
        self.restart().await;
    }

    /// Whether the cluster does not answer what it serves.
    pub fn silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// The plans that are kept.
    pub async fn plans(&self) -> Option<Plans> {
        let state = StateDir::resolve(Some(&self.folder.path().join("state"))).unwrap();
        if self.keeps_plans { Some(Plans::open(&state, &Quiet).await.unwrap()) } else { None }
    }

    /// Nobody serves the applications for a while; what is under way goes on.
    pub async fn leave(&mut self) {
        if let Some(applications) = self.applications.take() {
            applications.stop().await;
        }
    }

    pub async fn serve(&mut self) {
        let state = StateDir::resolve(Some(&self.folder.path().join("state"))).unwrap();
        let store: Arc<dyn ApplicationStore> = Arc::new(self.shelf.clone());
        let (calls, is_silent) = (Arc::clone(&self.calls), Arc::clone(&self.is_silent));
        let counted = Counted { sim: self.sim.clone(), calls, is_silent };
        let places = Places::new(Destination::Simulated, Arc::new(counted), "web".to_owned());
        let mut gates = GateFile::default();
        if let Some(text) = self.gates.file {
            let path = self.folder.path().join("gates.yaml");
            fs::write(&path, text).unwrap();
            gates = GateFile::open(&path).unwrap();
        }
        let rules = (HealthRules::built_in(), gates, Duration::ZERO.into());
        let sourcing = Sourcing { helm: self.helm.clone(), ..Sourcing::default() };
        let serving = Applications::serve(
            self.engine.clone(),
            Arc::clone(&self.log),
            (state, store, self.plans().await),
            places,
            rules,
            sourcing,
        );
        self.applications = Some(serving.await.unwrap());
    }

    /// Ends it, as a process ends, and begins it again with what was kept.
    pub async fn restart(&mut self) {
        self.end().await;
        self.engine = engine(&self.log, &self.sim, &self.gates).await;
        self.serve().await;
    }

    pub async fn end(&mut self) {
        self.leave().await;
        self.engine.shutdown().await;
    }

    /// These are the manifests of an application from now on; the commit.
    pub fn commit(&self, name: &str, text: &str) -> String {
        self.commit_files(name, &[("all.yaml", text)])
    }

    /// These are files of the folder of an application from now on; the commit.
    pub fn commit_files(&self, name: &str, files: &[(&str, &str)]) -> String {
        let repository = self.folder.path().join("repo");
        for (file, text) in files {
            let path = repository.join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tidegate_source::commit_folder(&repository, name, 1).unwrap().unwrap()
    }

    pub fn serving(&self) -> Serving {
        self.applications.as_ref().unwrap().serving()
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.serving().shared
    }

    pub fn send(&self, message: SupervisorMessage) {
        self.supervisor().send_message(message).unwrap();
    }

    pub fn supervisor(&self) -> ActorRef<SupervisorMessage> {
        self.serving().supervisor
    }

    /// What is kept of an application.
    pub fn kept(&self, name: &str) -> Application {
        self.shelf.0.lock().unwrap().applications.get(&key(name)).cloned().unwrap()
    }

    /// What is kept of an application, as soon as there is something in it: it may be written a little later than it is shown.
    pub async fn kept_with<T>(&self, name: &str, look: impl Fn(Application) -> Option<T>) -> T {
        let looking = async {
            loop {
                if let Some(found) = look(self.kept(name)) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, looking).await.unwrap()
    }

    /// Keeps something else of an application, as if an earlier process had.
    pub fn set_kept(&self, application: &Application) {
        self.shelf.0.lock().unwrap().applications.insert(AppKey::of(application), application.clone());
    }

    /// Somebody writes an application.
    pub fn write(&self, application: &Application) {
        self.shelf.0.lock().unwrap().tell(stored(application));
    }

    /// Somebody takes an application away.
    pub fn remove(&self, name: &str) {
        self.shelf.0.lock().unwrap().tell(StoreEvent::Gone(key(name)));
    }

    /// Somebody takes an application away while nobody serves it.
    pub fn lose(&self, name: &str) {
        self.shelf.0.lock().unwrap().applications.remove(&key(name));
    }

    /// What takes applications away, for a store of the test's own.
    pub fn remover(&self) -> impl Fn(&AppKey) + Send + Sync + 'static + use<> {
        let shelf = self.shelf.clone();
        move |key| shelf.0.lock().unwrap().tell(StoreEvent::Gone(key.clone()))
    }

    /// What writes applications, for a store of the test's own.
    pub fn writer(&self) -> impl Fn(&Application) + Send + Sync + 'static + use<> {
        let shelf = self.shelf.clone();
        move |application| shelf.0.lock().unwrap().tell(stored(application))
    }

    /// The project of all applications says this from now on.
    pub fn project(&self, spec: Value) {
        self.annotated_project(spec, json!({}));
    }

    /// The same, with annotations.
    pub fn annotated_project(&self, mut spec: Value, annotations: Value) {
        for (field, value) in [
            ("sourceRepos", json!(["*"])),
            ("destinations", json!([{"server": "*", "namespace": "*"}])),
            ("clusterResourceWhitelist", json!([{"group": "*", "kind": "*"}])),
        ] {
            spec[field] = value;
        }
        let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": "default", "annotations": annotations}, "spec": spec});
        let project: AppProject = serde_json::from_value(project).unwrap();
        let mut kept = self.shelf.0.lock().unwrap();
        kept.projects.insert("default".to_owned(), Ok(Arc::new(project)));
        kept.tell(StoreEvent::Projects(ProjectSet {
            projects: kept.projects.clone(),
            ..ProjectSet::default()
        }));
    }

    /// Waits until an application is shown as it should be.
    pub async fn until<T>(
        &self,
        name: &str,
        mut find: impl FnMut(&Application, &super::board::Deployments) -> Option<T>,
    ) -> T {
        let shared = self.shared();
        let mut changes = shared.board.changes();
        let looking = async {
            loop {
                let sight = shared.board.sight(&key(name));
                if let Some(found) = sight.and_then(|(application, deployed)| find(&application, &deployed)) {
                    return found;
                }
                let _ = changes.recv().await;
            }
        };
        match tokio::time::timeout(LIMIT, looking).await {
            Ok(found) => found,
            Err(_) => panic!("{:#?}", shared.board.sight(&key(name))),
        }
    }

    /// What comparisons have asked of the cluster so far, watches included.
    pub fn calls(&self) -> Vec<Verb> {
        self.calls.lock().unwrap().clone()
    }

    /// How often something was written down of an application.
    pub fn writes(&self) -> usize {
        self.shelf.0.lock().unwrap().writes
    }

    /// Nothing is written down until this is dropped: whoever tries waits.
    pub async fn hold_writes(&self) -> OwnedRwLockWriteGuard<()> {
        let open = Arc::clone(&self.shelf.0.lock().unwrap().open);
        open.write_owned().await
    }

    /// How often somebody has begun to write something down.
    pub fn begun_writes(&self) -> usize {
        self.shelf.0.lock().unwrap().begun
    }

    /// Compares an application once more.
    pub async fn compare(&self, name: &str, level: Level) {
        let shared = self.shared();
        let count = || shared.reconciles.counted().iter().map(|(_, counted)| counted.count).sum::<u64>();
        let before = count();
        self.send(SupervisorMessage::Compare { key: key(name), level });
        let waiting = async {
            while count() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, waiting).await.unwrap();
    }

    /// Asks for a sync.
    pub async fn sync(&self, name: &str) {
        let (reply, answer) = oneshot::channel();
        let asked = Box::new(OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() });
        self.send(SupervisorMessage::Sync { key: key(name), asked, plan: None, reply: reply.into() });
        tokio::time::timeout(LIMIT, answer).await.unwrap().unwrap().unwrap();
    }

    /// Somebody else writes an object.
    pub async fn apply(&self, object: Value) {
        let object = Object::try_from(object).unwrap();
        let request = ApplyRequest::new(object, WriteMode::Apply { force: true });
        self.sim.apply(request).await.unwrap();
    }

    /// The operations that the log has, oldest first.
    pub async fn operations(&self) -> Vec<Summary> {
        self.engine.list().await.unwrap()
    }

    pub async fn next_id(&self) -> OperationId {
        self.engine.next_id().await.unwrap()
    }

    /// For which operations objects of this kind were made, according to the cluster.
    pub fn made(&self, kind: &str) -> Vec<OperationId> {
        let audit = self.sim.audit();
        let made = audit.iter().filter(|entry| entry.kind == kind && !entry.dry_run && entry.code == 201);
        made.filter_map(|entry| entry.operation_id).collect()
    }
}

async fn engine(log: &Log, sim: &SimCluster, gates: &Gates) -> Engine {
    let mut builder = Engine::builder(Arc::clone(log))
        .cluster(Destination::Simulated, Arc::new(sim.clone()))
        .clock(Arc::new(RuntimeClock::starting_at(SystemClock.now())));
    if let Some((name, actor)) = &gates.actor {
        builder = builder.gate(*name, actor.clone());
    }
    builder.start().await.unwrap()
}
