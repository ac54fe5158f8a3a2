//! A whole service, one process after the other, on one cluster, one log and one repository; time is virtual.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_cluster::sim::{AuditEntry, Clock, Faults, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Cluster, WriteMode};
use tidegate_executor::{Clock as _, Engine, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet, definitions};
use tidegate_model::{Destination, Gvk, Object, OperationId, Timestamp};
use tidegate_oplog::{Log, MemoryLog};
use tidegate_service::applications::store::{ApplicationStore, FolderStore, KubernetesStore, Reach};
use tidegate_service::applications::{Applications, Places, Serving, Sourcing};
use tidegate_service::gates::GateFile;
use tidegate_service::notices::Notices;
use tidegate_service::plans::Plans;
use tidegate_service::sets::store::{FolderSets, KubernetesSets, SetStore};
use tidegate_service::sets::{SetOptions, SetServing, Sets};
use tidegate_service::state_dir::StateDir;
use tidegate_testkit::crash::{CrashLog, Points};
use tidegate_testkit::process::START;
use tokio::runtime::Builder;

use crate::author::{self, FORBIDDEN, HOME};
use crate::disk::{Changes, CrashDisk};
use crate::front::{Front, Weather};

/// How often a service looks at repositories, and compares what it has not compared for so long.
pub const LOOK_EVERY: Duration = Duration::from_secs(180);
/// A process that cannot begin is begun again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Longest virtual time that a process may need for anything; reaching it means that something waits for ever.
const PATIENCE: Duration = Duration::from_secs(48 * 3600);
/// A moment between two processes.
const DOWN: Duration = Duration::from_secs(3);

/// All worlds of this program go by one clock, so there is one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// How often something has panicked: an actor that does is begun anew, and nobody would see it.
static PANICS: AtomicU64 = AtomicU64::new(0);
static COUNTED: Once = Once::new();

fn count_panics() {
    COUNTED.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            told(panic);
        }));
    });
    PANICS.store(0, Ordering::SeqCst);
}

/// What outlives processes.
pub struct World {
    folder: TempDir,
    /// What was changed of the files of its service, where that serves a folder and not the cluster.
    pub changes: Option<Arc<Changes>>,
    pub sim: SimCluster,
    /// Plans can be kept; processes die at each change of what is known of one, too.
    keeps_plans: bool,
    pub log: MemoryLog,
    pub weather: Arc<Weather>,
    now: Mutex<Timestamp>,
    ids: Arc<AtomicU64>,
    _only: MutexGuard<'static, ()>,
}

/// A process at work.
pub struct Life {
    applications: Applications,
    sets: Sets,
}

impl Life {
    pub fn applications(&self) -> Serving {
        self.applications.serving()
    }

    pub fn sets(&self) -> SetServing {
        self.sets.serving()
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
    /// A cluster that serves Applications, a project, and a repository without a commit. `gone`: how often a watch ends.
    pub fn new(seed: u64, gone: f64) -> Self {
        let only = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        count_panics();
        let faults = Faults { gone, ..Faults::none() };
        let config = SimConfig::default().with_seed(seed).with_faults(faults);
        let (log, ids) = (MemoryLog::default(), Arc::default());
        let weather = Arc::new(Weather { seed, ..Weather::default() });
        let runtime = runtime();
        let sim = runtime.block_on(async {
            SystemClock::set(START);
            let sim = SimCluster::in_memory(config, Clock::wall(|| SystemClock.now()));
            for definition in definitions() {
                apply(&sim, definition).await;
            }
            while sim.discover().await.unwrap().get(&kind("AppProject").group_kind()).is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            for name in ["argocd", HOME, FORBIDDEN] {
                let namespace =
                    serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                apply(&sim, namespace).await;
            }
            apply(&sim, author::project()).await;
            sim
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("repo")).unwrap();
        let now = Mutex::new(START + Duration::from_secs(10));
        Self { folder, changes: None, sim, keeps_plans: false, log, weather, now, ids, _only: only }
    }

    /// One whose service serves a folder.
    pub fn of_folder() -> Self {
        let world = Self { changes: Some(Arc::default()), ..Self::new(1, 0.0) };
        std::fs::create_dir(world.apps()).unwrap();
        std::fs::create_dir(world.folder.path().join("state")).unwrap();
        world
    }

    /// The folder that is served.
    pub fn apps(&self) -> PathBuf {
        self.folder.path().join("apps")
    }

    /// A folder of the state directory.
    pub fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// Where Applications and sets are written down.
    async fn stores(
        &self,
        cluster: &Arc<dyn Cluster>,
        points: &Arc<Points>,
    ) -> Result<(Arc<dyn ApplicationStore>, Arc<dyn SetStore>), Box<dyn std::error::Error>> {
        if let Some(changes) = &self.changes {
            let disk = CrashDisk { points: Arc::clone(points), changes: Arc::clone(changes) };
            let (kept, generated) = (self.state("applications"), self.state("generated"));
            let store = FolderStore::open_on(Arc::new(disk), &self.apps(), kept, generated)?;
            let sets = FolderSets::beside(&store, self.state("applicationsets"));
            return Ok((Arc::new(store), Arc::new(sets)));
        }
        let store =
            KubernetesStore::open(Arc::clone(cluster), Destination::Simulated, Reach::default()).await?;
        let sets = KubernetesSets::open(&store).await?;
        Ok((Arc::new(store), Arc::new(sets)))
    }

    /// The same, where plans can be kept.
    pub fn keeping_plans(self) -> Self {
        let world = Self { keeps_plans: true, ..self };
        let state = StateDir::resolve(Some(&world.folder.path().join("state"))).unwrap();
        // That makes the key of the state directory, which is no matter of virtual time.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        drop(runtime.block_on(Plans::open(&state, &Quiet)).unwrap());
        world
    }

    /// The plans that are kept.
    fn plans(
        &self,
        state: &StateDir,
        points: &Arc<Points>,
    ) -> Result<Option<Plans>, Box<dyn std::error::Error>> {
        if !self.keeps_plans {
            return Ok(None);
        }
        let disk = CrashDisk { points: Arc::clone(points), changes: Arc::default() };
        Ok(Plans::on(state, Arc::new(disk))?)
    }

    /// The plans that are kept, while no process is at work.
    pub fn kept_plans(&self) -> Plans {
        let state = StateDir::resolve(Some(&self.folder.path().join("state"))).unwrap();
        Plans::look(&state).unwrap().unwrap()
    }

    pub fn repository(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// One process, and what happens while it is at work; `None` when it dies.
    pub fn live<T>(&self, points: &Arc<Points>, work: impl AsyncFnOnce(&Life) -> T) -> Option<T> {
        let runtime = runtime();
        let end = runtime.block_on(async {
            SystemClock::set(*self.now.lock().unwrap() + DOWN);
            self.weather.is_away.store(false, Ordering::SeqCst);
            let living = async {
                let life = self.begin_well(points).await;
                work(&life).await
            };
            let end = tokio::select! {
                biased;
                () = points.death() => None,
                end = tokio::time::timeout(PATIENCE, living) => match end {
                    Ok(end) => Some(end),
                    Err(_) => panic!("something is waited for that never comes"),
                },
            };
            *self.now.lock().unwrap() = SystemClock.now();
            end
        });
        // What is under way on other threads has ended before the next process begins.
        runtime.shutdown_timeout(Duration::from_secs(60));
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something has panicked");
        end
    }

    /// A process that cannot begin is begun again, as whoever looks after it would do.
    async fn begin_well(&self, points: &Arc<Points>) -> Life {
        loop {
            match self.begin(points).await {
                Ok(life) => return life,
                Err(error) => tracing(&format!("it cannot begin: {error}")),
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn begin(&self, points: &Arc<Points>) -> Result<Life, Box<dyn std::error::Error>> {
        let (sim, weather) = (self.sim.clone(), Arc::clone(&self.weather));
        let log: Log = Arc::new(CrashLog { inner: self.log.clone(), points: Arc::clone(points) });
        let cluster: Arc<dyn Cluster> = Arc::new(Front { sim, points: Arc::clone(points), weather });
        let ids = Arc::clone(&self.ids);
        let engine = Engine::builder(Arc::clone(&log))
            .cluster(Destination::Simulated, Arc::clone(&cluster))
            .ids(Arc::new(move |at| id(at, &ids)))
            .start()
            .await?;
        let served = self.serve(&engine, log, (cluster, points)).await;
        match served {
            Ok((applications, sets)) => Ok(Life { applications, sets }),
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
        (cluster, points): (Arc<dyn Cluster>, &Arc<Points>),
    ) -> Result<(Applications, Sets), Box<dyn std::error::Error>> {
        let (store, sets) = self.stores(&cluster, points).await?;
        let state = StateDir::resolve(Some(&self.folder.path().join("state")))?;
        let plans = self.plans(&state, points)?;
        let places = Places::new(Destination::Simulated, cluster, "default".to_owned());
        let rules = (HealthRules::built_in(), GateFile::default(), LOOK_EVERY.into());
        let applications = Applications::serve(
            engine.clone(),
            log,
            (state, store, plans),
            places,
            rules,
            Sourcing::default(),
        )
        .await?;
        let sets = Sets::serve(applications.serving(), sets, SetOptions::default()).await?;
        Ok((applications, sets))
    }

    /// Somebody writes a document.
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

    pub async fn set(&self) -> Option<ApplicationSet> {
        let object = self.get("ApplicationSet", "fleet").await?;
        Some(serde_json::from_value(object.as_value().clone()).unwrap())
    }

    /// All that was written, and not only asked about.
    pub fn written(&self) -> Vec<AuditEntry> {
        let mut audit = self.sim.audit();
        audit.retain(|one| !one.dry_run);
        audit
    }

    /// Waits until nothing was written for so long, and gives up after so much longer.
    pub async fn quiet_for(&self, long: Duration) {
        let mut before = self.written().len();
        let mut since = SystemClock.now();
        let begun = since;
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let (now, written) = (SystemClock.now(), self.written().len());
            if written != before {
                (before, since) = (written, now);
            } else if now.since(since) >= long {
                return;
            }
            let waited = now.since(begun);
            if waited > Duration::from_secs(12 * 3600) {
                let last: Vec<_> = self.written().split_off(before.saturating_sub(12));
                panic!("it never comes to rest; it writes still: {last:#?}");
            }
        }
    }
}

/// Nobody is told anything.
struct Quiet;

impl Notices for Quiet {
    fn warn(&self, _: &str) {}
    fn note(&self, _: &str) {}
}

fn runtime() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Ids in the order in which they are given, and the same each time.
fn id(at: Timestamp, given: &AtomicU64) -> OperationId {
    let number = given.fetch_add(1, Ordering::SeqCst).to_be_bytes();
    let mut rest = [0; 10];
    rest[2..].copy_from_slice(&number);
    let millis = u64::try_from(at.as_millis()).unwrap();
    OperationId(uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid())
}

/// Aloud, where one seed is played again.
pub fn tracing(words: &str) {
    if std::env::var_os("TIDEGATE_SERVICE_SEED").is_some() {
        let is_at_work = tokio::runtime::Handle::try_current().is_ok();
        println!("{} {words}", if is_at_work { SystemClock.now().to_string() } else { "-".to_owned() });
    }
}
