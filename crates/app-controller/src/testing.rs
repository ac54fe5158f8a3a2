//! Test environment, also for the ApplicationSet controller's tests: Applications on a simulated cluster,
//! with the test's own repository and store.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use ractor::ActorRef;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_application::AppKey;
use tidegate_application::machine::{Deployments, Input};
use tidegate_application::refresh::RefreshLevel;
use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_cluster::{
    ApplyRequest, Call, Cluster, ClusterError, ErrorKind, Layer, PendingCall, Verb, WriteMode,
};
use tidegate_executor::{Clock as _, Engine, GateRequest, RuntimeClock, Summary, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::argo::{AppProject, Application, OperationRequest, SyncOperation};
use tidegate_model::{Destination, Object, OperationId};
use tidegate_oplog::{Log, MemoryLog};
use tidegate_state::error::ServiceError;
use tidegate_state::gates::GateFile;
use tidegate_state::notices::NoNotices;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_state::state_dir::StateDir;
use tidegate_state::stored_plans::StoredPlans;
use tidegate_stores::applications::{ApplicationStore, ProjectSet, StoreEvent, StoredApplication};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, oneshot};

use super::{
    AppMessage, ApplicationService, Destinations, ManagedApplications, ManagedApplicationsInput, SharedState,
    SourceSettings, SupervisorMessage,
};

/// Time limit for a test, which is only reached if the test hangs.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Annotation that makes writes of an Application panic.
pub const PANIC_ANNOTATION: &str = "example.com/poison";

/// Returns the definition of `Gadget`, a namespaced kind in the group `tools.example`.
pub fn gadget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.tools.example"},
        "spec": {
            "group": "tools.example", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// Store in memory.
#[derive(Clone, Default)]
struct MemoryStore(Arc<Mutex<MemoryStoreState>>);

#[derive(Default)]
struct MemoryStoreState {
    base: PathBuf,
    applications: BTreeMap<AppKey, Application>,
    projects: BTreeMap<String, Result<Arc<AppProject>, String>>,
    /// Number of writes that have finished, and number of writes that have started.
    writes: usize,
    started_writes: usize,
    /// Lock that blocks writes.
    write_lock: Arc<RwLock<()>>,
    events: Option<UnboundedSender<StoreEvent>>,
}

impl MemoryStoreState {
    fn emit(&self, event: StoreEvent) {
        if let Some(sender) = &self.events {
            let _ = sender.send(event);
        }
    }
}

fn applied_event(application: &Application) -> StoreEvent {
    let application = application.clone();
    StoreEvent::Applied(Box::new(StoredApplication { application, problem: None, lost_state: None }))
}

#[async_trait]
impl ApplicationStore for MemoryStore {
    fn base(&self) -> PathBuf {
        self.0.lock().unwrap().base.clone()
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (sender, receiver) = unbounded_channel();
        let mut contents = self.0.lock().unwrap();
        contents.events = Some(sender);
        contents.emit(StoreEvent::Projects(ProjectSet {
            projects: contents.projects.clone(),
            ..ProjectSet::default()
        }));
        contents.applications.values().for_each(|one| contents.emit(applied_event(one)));
        contents.emit(StoreEvent::Settled);
        receiver
    }

    async fn persist(&self, application: &Application) -> Result<(), ServiceError> {
        assert!(application.annotation(PANIC_ANNOTATION).is_none(), "it is poisoned");
        let open = {
            let mut contents = self.0.lock().unwrap();
            contents.started_writes += 1;
            Arc::clone(&contents.write_lock)
        };
        let _open = open.read().await;
        let mut contents = self.0.lock().unwrap();
        contents.applications.insert(AppKey::of(application), application.clone());
        contents.writes += 1;
        Ok(())
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        let contents = self.0.lock().unwrap();
        contents.emit(applied_event(application));
        Ok(())
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.delete_state(&AppKey::of(application)).await?;
        self.0.lock().unwrap().emit(StoreEvent::Gone(AppKey::of(application)));
        Ok(())
    }

    fn is_authoritative(&self, _: &AppKey) -> bool {
        true
    }

    async fn delete_state(&self, key: &AppKey) -> Result<(), ServiceError> {
        self.0.lock().unwrap().applications.remove(key);
        Ok(())
    }
}

/// Cluster that comparisons use and that counts their requests.
#[derive(Clone)]
struct CountingCluster {
    sim: SimCluster,
    calls: Arc<Mutex<Vec<Verb>>>,
    /// True if discovery requests fail.
    is_silent: Arc<AtomicBool>,
}

impl Layer for CountingCluster {
    fn inner(&self) -> &dyn Cluster {
        &self.sim
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        self.calls.lock().unwrap().push(call.verb);
        if call.verb == Verb::Discover && self.is_silent.load(Ordering::SeqCst) {
            return Err(ClusterError::new(ErrorKind::Unavailable, "no response"));
        }
        answer.await
    }
}

/// The whole test environment.
pub struct TestEnvironment {
    pub engine: Engine,
    pub sim: SimCluster,
    calls: Arc<Mutex<Vec<Verb>>>,
    is_silent: Arc<AtomicBool>,
    /// Content of the log.
    pub log_content: MemoryLog,
    log: Log,
    folder: TempDir,
    store: MemoryStore,
    gates: ExtraGates,
    stores_plans: bool,
    /// Path of the Helm binary.
    helm: Option<PathBuf>,
    applications: Option<ManagedApplications>,
}

/// Returns false: no process is listening on the control socket.
fn no_process(_: &Path) -> BoxFuture<'_, Result<bool, ServiceError>> {
    Box::pin(async { Ok(false) })
}

/// Gates that are available in addition to the built-in gates.
#[derive(Clone, Default)]
pub struct ExtraGates {
    /// Content of the gate file.
    pub file: Option<&'static str>,
    /// A registered gate.
    pub actor: Option<(&'static str, ActorRef<GateRequest>)>,
}

/// Returns an Application. Its manifests are in the folder with the same name.
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
    AppKey::parse(name)
}

/// Returns a ConfigMap and a PreSync Job with the duration `migrates`.
pub fn manifests(name: &str, value: &str, migrates: &str) -> String {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("migrate-{name}"), "annotations": {
        "argocd.argoproj.io/hook": "PreSync", "sim.tidegate.dev/ready-after": migrates,
    }}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("settings-{name}")}, "data": {"value": value}});
    format!("---\n{job}\n---\n{map}\n")
}

impl TestEnvironment {
    /// Starts the environment with the given Applications and their manifests.
    pub async fn new(applications: &[(&str, &str)]) -> Self {
        Self::with_gates(applications, ExtraGates::default()).await
    }

    pub async fn with_gates(applications: &[(&str, &str)], gates: ExtraGates) -> Self {
        let folder = TempDir::new().unwrap();
        let store = MemoryStore::default();
        {
            let mut contents = store.0.lock().unwrap();
            contents.base = folder.path().to_owned();
            contents.applications =
                applications.iter().map(|(name, _)| (key(name), application(name))).collect();
        }
        let sim = SimCluster::in_memory(SimConfig::default(), SimClock::tokio(SystemClock.now()));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
        let namespace = Object::try_from(namespace).unwrap();
        sim.apply(ApplyRequest::new(namespace, WriteMode::Apply { force: true })).await.unwrap();
        let log_content = MemoryLog::new();
        let log: Log = Arc::new(log_content.clone());
        let engine = engine(&log, &sim, &gates).await;
        let (calls, is_silent, stores_plans, helm, applications_at_work) = Default::default();
        let mut environment = Self {
            engine,
            sim,
            calls,
            is_silent,
            log_content,
            log,
            folder,
            store,
            gates,
            stores_plans,
            helm,
            applications: applications_at_work,
        };
        for (name, text) in applications {
            environment.commit(name, text);
        }
        environment.start_managing().await;
        environment
    }

    /// Starts the environment with stored plans enabled.
    pub async fn with_stored_plans(applications: &[(&str, &str)]) -> Self {
        let mut environment = Self::new(applications).await;
        environment.stores_plans = true;
        environment.restart().await;
        environment
    }

    /// Restarts with the given Helm program. If `is_silent` is true, discovery requests fail.
    pub async fn with_helm(&mut self, helm: PathBuf, is_silent: bool) {
        self.helm = Some(helm);
        self.set_silent(is_silent);
        self.restart().await;
    }

    /// Sets whether discovery requests fail.
    pub fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Returns the stored plans.
    pub async fn plans(&self) -> Option<StoredPlans> {
        let state = StateDir::resolve(Some(&self.folder.path().join("state"))).unwrap();
        if !self.stores_plans {
            return None;
        }
        Some(StoredPlans::open(&state, &NoNotices, no_process).await.unwrap())
    }

    /// Stops managing the Applications. Their operations continue.
    pub async fn stop_managing(&mut self) {
        if let Some(applications) = self.applications.take() {
            applications.stop().await;
        }
    }

    pub async fn start_managing(&mut self) {
        let state = StateDir::resolve(Some(&self.folder.path().join("state"))).unwrap();
        let store: Arc<dyn ApplicationStore> = Arc::new(self.store.clone());
        let (calls, is_silent) = (Arc::clone(&self.calls), Arc::clone(&self.is_silent));
        let counted = CountingCluster { sim: self.sim.clone(), calls, is_silent };
        let places = Destinations::new(Destination::Simulated, Arc::new(counted), "web".to_owned());
        let mut gates = GateFile::default();
        if let Some(text) = self.gates.file {
            let path = self.folder.path().join("gates.yaml");
            fs::write(&path, text).unwrap();
            gates = GateFile::open(&path).unwrap();
        }
        let serving = ManagedApplications::start(ManagedApplicationsInput {
            engine: self.engine.clone(),
            log: Arc::clone(&self.log),
            state_dir: state,
            store,
            owned_shards: OwnedShards::All,
            plans: self.plans().await,
            destinations: places,
            rules: HealthRules::built_in(),
            gates,
            reconcile: Duration::ZERO.into(),
            sourcing: SourceSettings { helm: self.helm.clone(), ..SourceSettings::default() },
        });
        self.applications = Some(serving.await.unwrap());
    }

    /// Stops the process and starts it again with the persisted state.
    pub async fn restart(&mut self) {
        self.shutdown().await;
        self.engine = engine(&self.log, &self.sim, &self.gates).await;
        self.start_managing().await;
    }

    pub async fn shutdown(&mut self) {
        self.stop_managing().await;
        self.engine.shutdown().await;
    }

    /// Commits an Application's manifests. Returns the commit.
    pub fn commit(&self, name: &str, text: &str) -> String {
        self.commit_files(name, &[("all.yaml", text)])
    }

    /// Commits files to an Application's folder. Returns the commit.
    pub fn commit_files(&self, name: &str, files: &[(&str, &str)]) -> String {
        let repository = self.folder.path().join("repo");
        for (file, text) in files {
            let path = repository.join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tidegate_source::commit_folder(&repository, name, 1).unwrap().unwrap()
    }

    pub fn service(&self) -> ApplicationService {
        self.applications.as_ref().unwrap().service()
    }

    pub fn shared(&self) -> Arc<SharedState> {
        self.service().shared
    }

    pub fn send(&self, message: SupervisorMessage) {
        self.supervisor().send_message(message).unwrap();
    }

    pub fn supervisor(&self) -> ActorRef<SupervisorMessage> {
        self.service().supervisor
    }

    /// Returns an Application's persisted state.
    pub fn persisted(&self, name: &str) -> Application {
        self.store.0.lock().unwrap().applications.get(&key(name)).cloned().unwrap()
    }

    /// Waits until `find` returns a value for an Application's persisted state. The state may be persisted
    /// slightly later than it is published.
    pub async fn until_persisted<T>(&self, name: &str, find: impl Fn(Application) -> Option<T>) -> T {
        let looking = async {
            loop {
                if let Some(found) = find(self.persisted(name)) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, looking).await.unwrap()
    }

    /// Replaces an Application's persisted state, as if an earlier process had written it.
    pub fn set_persisted(&self, application: &Application) {
        self.store.0.lock().unwrap().applications.insert(AppKey::of(application), application.clone());
    }

    /// Changes an Application in the store.
    pub fn write(&self, application: &Application) {
        self.store.0.lock().unwrap().emit(applied_event(application));
    }

    /// Deletes an Application from the store.
    pub fn remove(&self, name: &str) {
        self.store.0.lock().unwrap().emit(StoreEvent::Gone(key(name)));
    }

    /// Deletes an Application while the service isn't running.
    pub fn delete_while_stopped(&self, name: &str) {
        self.store.0.lock().unwrap().applications.remove(&key(name));
    }

    /// Returns a function that deletes Applications, so that another store in the test can use it.
    #[allow(dead_code, reason = "used by the ApplicationSet controller")]
    pub fn remover(&self) -> impl Fn(&AppKey) + Send + Sync + 'static + use<> {
        let shelf = self.store.clone();
        move |key| shelf.0.lock().unwrap().emit(StoreEvent::Gone(key.clone()))
    }

    /// Returns a function that changes Applications, so that another store in the test can use it.
    #[allow(dead_code, reason = "used by the ApplicationSet controller")]
    pub fn writer(&self) -> impl Fn(&Application) + Send + Sync + 'static + use<> {
        let shelf = self.store.clone();
        move |application| shelf.0.lock().unwrap().emit(applied_event(application))
    }

    /// Replaces the project that all Applications belong to.
    pub fn project(&self, spec: Value) {
        self.annotated_project(spec, json!({}));
    }

    /// Replaces the project that all Applications belong to, and sets its annotations.
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
        let mut contents = self.store.0.lock().unwrap();
        contents.projects.insert("default".to_owned(), Ok(Arc::new(project)));
        contents.emit(StoreEvent::Projects(ProjectSet {
            projects: contents.projects.clone(),
            ..ProjectSet::default()
        }));
    }

    /// Waits until an Application's published state meets a condition.
    pub async fn wait_until<T>(
        &self,
        name: &str,
        mut find: impl FnMut(&Application, &Deployments) -> Option<T>,
    ) -> T {
        let shared = self.shared();
        let mut changes = shared.application_cache.subscribe();
        let looking = async {
            loop {
                let observation = shared.application_cache.get_with_deployments(&key(name));
                if let Some(found) =
                    observation.and_then(|(application, deployed)| find(&application, &deployed))
                {
                    return found;
                }
                let _ = changes.recv().await;
            }
        };
        match tokio::time::timeout(TEST_TIMEOUT, looking).await {
            Ok(found) => found,
            Err(_) => panic!("{:#?}", shared.application_cache.get_with_deployments(&key(name))),
        }
    }

    /// Returns all requests that comparisons have sent to the cluster so far, including watches.
    pub fn calls(&self) -> Vec<Verb> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the number of finished writes.
    pub fn writes(&self) -> usize {
        self.store.0.lock().unwrap().writes
    }

    /// Blocks writes until the guard is dropped.
    pub async fn block_writes(&self) -> OwnedRwLockWriteGuard<()> {
        let open = Arc::clone(&self.store.0.lock().unwrap().write_lock);
        open.write_owned().await
    }

    /// Returns the number of started writes.
    pub fn started_writes(&self) -> usize {
        self.store.0.lock().unwrap().started_writes
    }

    /// Compares an Application and waits until the comparison has finished.
    pub async fn compare(&self, name: &str, level: RefreshLevel) {
        let shared = self.shared();
        let count =
            || shared.reconcile_metrics.durations().iter().map(|(_, counted)| counted.count).sum::<u64>();
        let before = count();
        self.send(SupervisorMessage::Forward(key(name), AppMessage::Input(Input::Compare(level))));
        let waiting = async {
            while count() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, waiting).await.unwrap();
    }

    /// Requests a sync.
    pub async fn sync(&self, name: &str) {
        let (reply, answer) = oneshot::channel();
        let request =
            Box::new(OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() });
        self.send(SupervisorMessage::Forward(
            key(name),
            AppMessage::Sync { request, plan: None, reply: reply.into() },
        ));
        tokio::time::timeout(TEST_TIMEOUT, answer).await.unwrap().unwrap().unwrap();
    }

    /// Writes an object, acting as another client.
    pub async fn apply(&self, object: Value) {
        let object = Object::try_from(object).unwrap();
        let request = ApplyRequest::new(object, WriteMode::Apply { force: true });
        self.sim.apply(request).await.unwrap();
    }

    /// Returns the operations in the log, oldest first.
    pub async fn operations(&self) -> Vec<Summary> {
        self.engine.list().await.unwrap()
    }

    pub async fn next_id(&self) -> OperationId {
        self.engine.next_id().await.unwrap()
    }

    /// Returns the operations that created objects of a kind, according to the cluster's audit log.
    pub fn operations_that_created(&self, kind: &str) -> Vec<OperationId> {
        let audit = self.sim.audit();
        let created = audit.iter().filter(|entry| entry.kind == kind && !entry.dry_run && entry.code == 201);
        created.filter_map(|entry| entry.operation_id).collect()
    }
}

async fn engine(log: &Log, sim: &SimCluster, gates: &ExtraGates) -> Engine {
    let mut builder = Engine::builder(Arc::clone(log))
        .cluster(Destination::Simulated, Arc::new(sim.clone()))
        .clock(Arc::new(RuntimeClock::starting_at(SystemClock.now())));
    if let Some((name, actor)) = &gates.actor {
        builder = builder.gate(*name, actor.clone());
    }
    builder.start().await.unwrap()
}
