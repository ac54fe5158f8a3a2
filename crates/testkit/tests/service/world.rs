//! A whole service as consecutive processes with the same cluster, log and repository, in virtual time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_app_controller::{
    ApplicationService, Destinations, ManagedApplications, ManagedApplicationsInput, SourceSettings,
};
use tidegate_application::push_events::{PushEvent, WebhookChanges};
use tidegate_appset_controller::{AppSetController, AppSetOptions, AppSetService};
use tidegate_cluster::sim::{AuditEntry, Clock, Faults, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Cluster, WriteMode};
use tidegate_daemon::control::client;
use tidegate_daemon::shards::ShardedControllers;
use tidegate_executor::{Clock as _, Engine, PlanCounts, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet, all_crds};
use tidegate_model::{Destination, Gvk, Object, OperationId, Timestamp};
use tidegate_oplog::{Log, MemoryLog, Shard};
use tidegate_state::gates::GateFile;
use tidegate_state::notices::NoNotices;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_state::state_dir::StateDir;
use tidegate_state::stored_plans::StoredPlans;
use tidegate_stores::applications::{ApplicationStore, FolderStore, KubernetesStore, ManagedScope};
use tidegate_stores::appsets::{AppSetStore, FolderAppSetStore, KubernetesAppSetStore};
use tidegate_testkit::crash::{CrashLog, CrashPoints};
use tidegate_testkit::process::START;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::crash_disk::{Changes, CrashDisk};
use crate::faulty_cluster::{CallFaults, FaultyCluster};
use crate::user_documents::{self, APP_NAMESPACE, FORBIDDEN_NAMESPACE};

/// Interval of repository refreshes, and maximum age of comparisons.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(180);
/// Delay before repeating a failed start.
const RESTART_DELAY: Duration = Duration::from_secs(5);
/// Maximum virtual time of a process. After that, it is waiting forever for an operation.
const TIMEOUT: Duration = Duration::from_secs(48 * 3600);
/// Maximum number of messages for all actors at a single moment of virtual time. An actor that woke itself
/// without a reason would handle messages forever, and time would stand still.
const MAX_STEPS_PER_MOMENT: u64 = 20_000;
/// Downtime between two processes.
const DOWNTIME: Duration = Duration::from_secs(3);

/// Lock for one world at a time, because all worlds in this program share a clock.
static WORLD_LOCK: Mutex<()> = Mutex::new(());

/// Number of panics, counted because a restarted actor hides them.
static PANICS: AtomicU64 = AtomicU64::new(0);
static PANIC_HOOK: Once = Once::new();

fn count_panics() {
    PANIC_HOOK.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            previous_hook(panic);
        }));
    });
    PANICS.store(0, Ordering::SeqCst);
}

/// State that outlives processes.
pub struct World {
    folder: TempDir,
    /// File changes of the service, if it manages a folder instead of the cluster.
    pub changes: Option<Arc<Changes>>,
    pub sim: SimCluster,
    /// True if plans can be stored. Processes then also crash at each change to the stored plans.
    stores_plans: bool,
    pub log: MemoryLog,
    pub faults: Arc<CallFaults>,
    now: Mutex<Timestamp>,
    ids: Arc<AtomicU64>,
    _only: MutexGuard<'static, ()>,
}

/// Running process.
pub struct Life {
    applications: ManagedApplications,
    appsets: AppSetController,
    engine: Engine,
    points: Arc<CrashPoints>,
}

impl Life {
    /// Returns the number of writes to the log and the cluster, multiplied by the number of crash points of a write.
    pub fn crash_points(&self) -> u64 {
        self.points.passed()
    }

    /// Announces a push to the repository. The process compares the Applications that it manages.
    pub async fn announce_push(&self, repository: &Path) {
        let pushes = vec![PushEvent::new([repository.to_str().unwrap()])];
        let changes = WebhookChanges { pushes, ..WebhookChanges::default() };
        self.applications().handle_push(changes).await.unwrap();
    }

    pub fn engine(&self) -> Engine {
        self.engine.clone()
    }

    pub fn applications(&self) -> ApplicationService {
        self.applications.service()
    }

    /// Returns the number of handled messages, and the number of comparisons.
    pub fn effort(&self) -> (u64, u64) {
        let service = self.applications();
        let comparisons = service.comparison_durations().iter().map(|(_, counted)| counted.count).sum();
        (*service.steps().borrow(), comparisons)
    }

    /// Returns the number of plans.
    pub fn plan_counts(&self) -> PlanCounts {
        self.engine.plan_counts()
    }

    /// Returns the operations that this process runs.
    pub async fn running_operations(&self) -> BTreeSet<OperationId> {
        self.engine.running_operations().await.unwrap()
    }

    pub fn appsets(&self) -> AppSetService {
        self.appsets.service()
    }

    pub fn controllers(&self) -> ShardedControllers<'_> {
        let Self { applications, appsets, engine, .. } = self;
        ShardedControllers { engine, applications, appsets }
    }
}

pub fn kind(kind: &str) -> Gvk {
    Gvk::from_api_version(API_VERSION, kind)
}

async fn apply(cluster: &SimCluster, value: Value) {
    let object = Object::try_from(value).unwrap();
    let request = ApplyRequest::new(object, WriteMode::Apply { force: true });
    cluster.apply_as("author", request).await.unwrap();
}

impl World {
    /// Creates a cluster with Applications, a project and an empty repository. `gone` is the fraction of
    /// watches that end early.
    pub fn new(seed: u64, gone: f64) -> Self {
        let only = WORLD_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        count_panics();
        let faults = Faults { gone, ..Faults::none() };
        let config = SimConfig::default().with_seed(seed).with_faults(faults);
        let (log, ids) = (MemoryLog::default(), Arc::default());
        let weather = Arc::new(CallFaults { seed, ..CallFaults::default() });
        let runtime = runtime();
        let sim = runtime.block_on(async {
            SystemClock::set(START);
            let sim = SimCluster::in_memory(config, Clock::wall(|| SystemClock.now()));
            for definition in all_crds() {
                apply(&sim, definition).await;
            }
            while sim.discover().await.unwrap().get(&kind("AppProject").group_kind()).is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            for name in ["argocd", APP_NAMESPACE, FORBIDDEN_NAMESPACE] {
                let namespace =
                    serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                apply(&sim, namespace).await;
            }
            apply(&sim, user_documents::project()).await;
            sim
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("repo")).unwrap();
        let now = Mutex::new(START + Duration::from_secs(10));
        Self { folder, changes: None, sim, stores_plans: false, log, faults: weather, now, ids, _only: only }
    }

    /// Creates a world with a service that manages a folder.
    pub fn of_folder() -> Self {
        let world = Self { changes: Some(Arc::default()), ..Self::new(1, 0.0) };
        std::fs::create_dir(world.apps()).unwrap();
        std::fs::create_dir(world.folder.path().join("state")).unwrap();
        world
    }

    /// Returns the managed folder.
    pub fn apps(&self) -> PathBuf {
        self.folder.path().join("apps")
    }

    /// Returns a folder of the state directory.
    pub fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// Returns the stores of Applications and ApplicationSets.
    async fn stores(
        &self,
        cluster: &Arc<dyn Cluster>,
        points: &Arc<CrashPoints>,
    ) -> Result<(Arc<dyn ApplicationStore>, Arc<dyn AppSetStore>), Box<dyn std::error::Error>> {
        if let Some(changes) = &self.changes {
            let disk = CrashDisk { points: Arc::clone(points), changes: Arc::clone(changes) };
            let (kept, generated) = (self.state("applications"), self.state("generated"));
            let store = FolderStore::open_with_disk(Arc::new(disk), &self.apps(), kept, generated)?;
            let appsets = FolderAppSetStore::open(&store, self.state("applicationsets"));
            return Ok((Arc::new(store), Arc::new(appsets)));
        }
        let store =
            KubernetesStore::open(Arc::clone(cluster), Destination::Simulated, ManagedScope::default())
                .await?;
        let appsets = KubernetesAppSetStore::open(&store).await?;
        Ok((Arc::new(store), Arc::new(appsets)))
    }

    /// Enables stored plans.
    pub fn with_stored_plans(self) -> Self {
        let world = Self { stores_plans: true, ..self };
        let state = StateDir::resolve(Some(&world.folder.path().join("state"))).unwrap();
        // Create the state directory's key outside virtual time.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        drop(runtime.block_on(StoredPlans::open(&state, &NoNotices, client::is_process_running)).unwrap());
        world
    }

    /// Returns the store of plans.
    fn plans(
        &self,
        state: &StateDir,
        points: &Arc<CrashPoints>,
    ) -> Result<Option<StoredPlans>, Box<dyn std::error::Error>> {
        if !self.stores_plans {
            return Ok(None);
        }
        let disk = CrashDisk { points: Arc::clone(points), changes: Arc::default() };
        Ok(StoredPlans::open_on_disk(state, Arc::new(disk))?)
    }

    /// Returns the store of plans without a running process.
    pub fn stored_plans(&self) -> StoredPlans {
        let state = StateDir::resolve(Some(&self.folder.path().join("state"))).unwrap();
        StoredPlans::open_existing(&state).unwrap().unwrap()
    }

    pub fn repository(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// Runs a process together with the given work. Returns `None` if the process crashes.
    pub fn run_process<T>(&self, points: &Arc<CrashPoints>, work: impl AsyncFnOnce(&Life) -> T) -> Option<T> {
        let runtime = runtime();
        let end = runtime.block_on(async {
            SystemClock::set(*self.now.lock().unwrap() + DOWNTIME);
            self.faults.is_unavailable.store(false, Ordering::SeqCst);
            let living = async {
                let life = self.start_with_retries(points).await;
                let steps = life.applications().steps();
                tokio::select! {
                    end = work(&life) => end,
                    () = detect_spinning(steps) => panic!("an actor does not become idle: it keeps handling messages"),
                }
            };
            let end = tokio::select! {
                biased;
                () = points.wait_for_crash() => None,
                end = tokio::time::timeout(TIMEOUT, living) => match end {
                    Ok(end) => Some(end),
                    Err(_) => panic!("an awaited event never arrives"),
                },
            };
            *self.now.lock().unwrap() = SystemClock.now();
            end
        });
        // Work on other threads must finish before the next process starts.
        runtime.shutdown_timeout(Duration::from_secs(60));
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "an actor has panicked");
        end
    }

    /// Runs processes that crash at these points in turn, and finally one without a crash, until one
    /// completes the work. Returns the number of crash points in the first process.
    pub fn run_processes(
        &self,
        crash_at: fn(u64) -> Arc<CrashPoints>,
        deaths: &[u64],
        work: impl AsyncFn(&Life),
    ) -> u64 {
        let mut first = None;
        for dies_at in deaths.iter().copied().chain([0]) {
            let points = crash_at(dies_at);
            let end = self.run_process(&points, async |life| work(life).await);
            first.get_or_insert(points.passed());
            if end.is_some() {
                break;
            }
        }
        first.unwrap_or_default()
    }

    /// Starts several replicas, each with its own access to the log. The first one owns all shards at first.
    pub async fn start_replicas(&self, count: usize) -> Vec<(Life, MemoryLog)> {
        let mut replicas = Vec::new();
        for number in 0..count {
            let owned = if number == 0 { Shard::all().collect() } else { BTreeSet::new() };
            let (own, points) = (self.log.new_replica(), CrashPoints::crash_at(0));
            own.set_owned_shards(OwnedShards::Only(owned.clone()));
            let log: Log = Arc::new(CrashLog { inner: own.clone(), points: Arc::clone(&points) });
            let none = OwnedShards::Only(BTreeSet::new());
            let life = self.start_with_log(log, &points, none).await.unwrap();
            life.controllers().manage(&owned).await.unwrap();
            replicas.push((life, own));
        }
        replicas
    }

    /// Runs `work`, which starts its own processes. These processes don't crash.
    pub fn run(&self, work: impl AsyncFnOnce()) {
        let runtime = runtime();
        runtime.block_on(async {
            SystemClock::set(*self.now.lock().unwrap() + DOWNTIME);
            tokio::time::timeout(TIMEOUT, work()).await.expect("an awaited event never arrives");
            *self.now.lock().unwrap() = SystemClock.now();
        });
        runtime.shutdown_timeout(Duration::from_secs(60));
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "an actor has panicked");
    }

    /// Starts a process, retrying a failed start like a supervisor.
    async fn start_with_retries(&self, points: &Arc<CrashPoints>) -> Life {
        loop {
            match self.start(points, OwnedShards::All).await {
                Ok(life) => return life,
                Err(error) => enable_tracing(&format!("the service cannot start: {error}")),
            }
            tokio::time::sleep(RESTART_DELAY).await;
        }
    }

    async fn start(
        &self,
        points: &Arc<CrashPoints>,
        owned: OwnedShards,
    ) -> Result<Life, Box<dyn std::error::Error>> {
        let log: Log = Arc::new(CrashLog { inner: self.log.clone(), points: Arc::clone(points) });
        self.start_with_log(log, points, owned).await
    }

    /// Starts a process with its own access to a shared log.
    pub async fn start_with_log(
        &self,
        log: Log,
        points: &Arc<CrashPoints>,
        owned: OwnedShards,
    ) -> Result<Life, Box<dyn std::error::Error>> {
        let (sim, faults) = (self.sim.clone(), Arc::clone(&self.faults));
        let cluster: Arc<dyn Cluster> = Arc::new(FaultyCluster { sim, points: Arc::clone(points), faults });
        let ids = Arc::clone(&self.ids);
        let engine = Engine::builder(Arc::clone(&log))
            .cluster(Destination::Simulated, Arc::clone(&cluster))
            .ids(Arc::new(move |at| next_id(at, &ids)))
            .start()
            .await?;
        let result = self.serve(&engine, log, owned, (cluster, points)).await;
        match result {
            Ok((applications, appsets)) => {
                Ok(Life { applications, appsets, engine, points: Arc::clone(points) })
            }
            Err(error) => {
                engine.shutdown().await;
                Err(error)
            }
        }
    }

    async fn serve(
        &self,
        engine: &Engine,
        log: Log,
        owned_shards: OwnedShards,
        (cluster, points): (Arc<dyn Cluster>, &Arc<CrashPoints>),
    ) -> Result<(ManagedApplications, AppSetController), Box<dyn std::error::Error>> {
        let (store, appsets) = self.stores(&cluster, points).await?;
        let state = StateDir::resolve(Some(&self.folder.path().join("state")))?;
        let plans = self.plans(&state, points)?;
        let places = Destinations::new(Destination::Simulated, cluster, "default".to_owned());
        let applications = ManagedApplications::start(ManagedApplicationsInput {
            engine: engine.clone(),
            log,
            state_dir: state,
            store,
            owned_shards,
            plans,
            destinations: places,
            rules: HealthRules::built_in(),
            gates: GateFile::default(),
            reconcile: REFRESH_INTERVAL.into(),
            sourcing: SourceSettings::default(),
        })
        .await?;
        let appsets =
            AppSetController::start(applications.service(), appsets, AppSetOptions::default()).await?;
        Ok((applications, appsets))
    }

    /// Writes a document like a user.
    pub async fn write(&self, value: Value) {
        apply(&self.sim, value).await;
    }

    async fn get(&self, of: &str, name: &str) -> Option<Object> {
        self.sim.get(&kind(of), "argocd", name).await.unwrap()
    }

    pub async fn application(&self, name: &str) -> Option<Application> {
        let object = self.get("Application", name).await?;
        Some(serde_json::from_value(object.as_value().clone()).unwrap())
    }

    pub async fn appset(&self) -> Option<ApplicationSet> {
        let object = self.get("ApplicationSet", "fleet").await?;
        Some(serde_json::from_value(object.as_value().clone()).unwrap())
    }

    /// Returns all writes, without dry runs.
    pub fn writes(&self) -> Vec<AuditEntry> {
        let mut audit = self.sim.audit();
        audit.retain(|one| !one.dry_run);
        audit
    }

    /// Waits until the given time has passed without a write. Panics if this takes longer than 12 hours.
    pub async fn wait_for_quiet(&self, long: Duration) {
        let mut before = self.writes().len();
        let mut since = SystemClock.now();
        let started = since;
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let (now, written) = (SystemClock.now(), self.writes().len());
            if written != before {
                (before, since) = (written, now);
            } else if now.since(since) >= long {
                return;
            }
            let waited = now.since(started);
            if waited > Duration::from_secs(12 * 3600) {
                let last: Vec<_> = self.writes().split_off(before.saturating_sub(12));
                panic!("it does not become idle; last writes: {last:#?}");
            }
        }
    }
}

/// Returns if actors handle too many messages at a single moment. Each message wakes this function, so it
/// doesn't need to poll.
async fn detect_spinning(mut steps: watch::Receiver<u64>) {
    let (mut since, mut before) = (SystemClock.now(), *steps.borrow());
    while steps.changed().await.is_ok() {
        let (now, handled) = (SystemClock.now(), *steps.borrow_and_update());
        if now != since {
            (since, before) = (now, handled);
        } else if handled - before > MAX_STEPS_PER_MOMENT {
            return;
        }
    }
    std::future::pending().await
}

fn runtime() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Returns a reproducible ID. IDs increase with each call.
fn next_id(at: Timestamp, given: &AtomicU64) -> OperationId {
    let number = given.fetch_add(1, Ordering::SeqCst).to_be_bytes();
    let mut rest = [0; 10];
    rest[2..].copy_from_slice(&number);
    let millis = u64::try_from(at.as_millis()).unwrap();
    OperationId(uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid())
}

/// Prints text if a single seed is being repeated.
pub fn enable_tracing(text: &str) {
    if std::env::var_os("TIDEGATE_SERVICE_SEED").is_some() {
        let is_at_work = tokio::runtime::Handle::try_current().is_ok();
        println!("{} {text}", if is_at_work { SystemClock.now().to_string() } else { "-".to_owned() });
    }
}
