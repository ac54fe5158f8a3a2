//! Manages all Applications of a process from start to stop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use ractor::ActorRef;
use tidegate_application::AppKey;
use tidegate_application::machine::Input;
use tidegate_application::project::project_name;
use tidegate_executor::{Engine, EngineError, OpenOperation, PolicyCheck};
use tidegate_health::HealthRules;
use tidegate_model::OperationId;
use tidegate_model::argo::ApplicationSource;
use tidegate_oplog::Log;
use tidegate_source::RemoteAccess;
use tidegate_state::error::ServiceError;
use tidegate_state::gates::GateFile;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_state::state_dir::StateDir;
use tidegate_state::stored_plans::StoredPlans;
use tidegate_stores::applications::{ApplicationStore, StoreEvent};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, broadcast, watch};
use tokio::task::JoinSet;

use super::application_cache::ApplicationCache;
use super::application_service::ApplicationService;
use super::comparison_result::RETAINED_PLANS_MAX;
use super::declared_secrets::{self, DeclaredSecrets};
use super::deletion_queue::DeletionQueue;
use super::dependency_graph::DependencyGraph;
use super::destinations::Destinations;
use super::git_metrics::GitRequests;
use super::kubernetes_events::write_events;
use super::manifests::{Manifests, SourceSettings};
use super::messages::{AppMessage, ChangedRepositories, SupervisorMessage};
use super::projects::Projects;
use super::projects::global_project_settings::{GlobalProjects, GlobalProjectsUpdate};
use super::reconcile_metrics::ReconcileMetrics;
use super::run_operation::find_open_operation;
use super::shared_state::{Resumptions, SharedState, UnpersistedApplications};
use super::supervisor::start_supervisor;
use super::watches::WatchRegistry;

/// Maximum number of pushes that a slow subscriber may lag behind.
const PUSH_BACKLOG_MAX: usize = 64;

/// Reconciliation timing and default sync options for Applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReconcileSettings {
    /// Interval between comparisons of an Application without known changes. Zero disables these comparisons.
    pub interval: Duration,
    /// Fixed delay after each wave but the last, used instead of waiting for health. `None` for no fixed
    /// delay.
    pub wave_delay: Option<Duration>,
    /// Default sync options, which an Application can override.
    pub default_options: &'static [&'static str],
}

impl From<Duration> for ReconcileSettings {
    fn from(interval: Duration) -> Self {
        Self { interval, ..Self::default() }
    }
}

/// Input for [`ManagedApplications::start`].
pub struct ManagedApplicationsInput {
    /// Engine that runs the operations.
    pub engine: Engine,
    /// Log of the engine.
    pub log: Log,
    /// State directory.
    pub state_dir: StateDir,
    /// Store of the Applications.
    pub store: Arc<dyn ApplicationStore>,
    /// Shards whose Applications this process manages at first.
    pub owned_shards: OwnedShards,
    /// Stored plans. `None` if this process can't store plans.
    pub plans: Option<StoredPlans>,
    /// Clusters to which the Applications are deployed.
    pub destinations: Destinations,
    /// Health rules.
    pub rules: HealthRules,
    /// Gate definitions.
    pub gates: GateFile,
    /// Reconciliation timing and default sync options.
    pub reconcile: ReconcileSettings,
    /// Access to the sources of manifests.
    pub sourcing: SourceSettings,
}

/// All managed Applications of a process.
pub struct ManagedApplications {
    service: ApplicationService,
    /// Open operations that this process cannot resume, each with the reason.
    pub unresumed_operations: Vec<String>,
    /// Tasks that forward messages to the supervisor; aborted on drop.
    _forwarders: JoinSet<()>,
}

impl ManagedApplications {
    /// Starts managing the Applications in a store, and resumes the open operations in the log. Returns once
    /// all Applications are loaded.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or the repository files are unreadable.
    pub async fn start(input: ManagedApplicationsInput) -> Result<Self, ServiceError> {
        let ManagedApplicationsInput {
            engine,
            log,
            state_dir,
            store,
            owned_shards,
            plans,
            destinations,
            rules,
            gates,
            reconcile: ReconcileSettings { interval, wave_delay, default_options },
            sourcing,
        } = input;
        let mut reach = RemoteAccess::new(state_dir.repositories());
        let git_requests = GitRequests::default();
        reach.listener = git_requests.listener();
        let mut globals = None;
        if let Some(files) = &sourcing.files {
            reach.credentials = files.read()?;
            globals = GlobalProjects::read_files(files)?;
        }
        // Subscribe before any operation is resumed.
        let happening = engine.events_from_now().await?;
        let (watches, stirred) = WatchRegistry::new();
        let (changed_repositories, has_moved) = unbounded_channel();
        let secrets = sourcing.secrets.clone();
        let manifests = Arc::new(Manifests::new(store.base(), reach, state_dir.work_area(), sourcing));
        manifests.drop_unused();
        let cluster = Arc::clone(destinations.cluster());
        let given = match &secrets {
            Some(namespace) => declared_secrets::list_objects(cluster.as_ref(), namespace).await,
            None => DeclaredSecrets::default(),
        };
        manifests.set_credentials(declared_secrets::usable_credentials(&given));
        let projects = Arc::new(
            Projects::new(store.project_namespace())
                .with_impersonation(destinations.impersonation())
                .with_repositories(manifests.repositories().0),
        );
        projects.set_globals(GlobalProjectsUpdate::Files(globals));
        projects.set_globals(GlobalProjectsUpdate::Cluster(given.global_projects()));
        engine.set_policy_check(Arc::clone(&projects) as Arc<dyn PolicyCheck>);
        if owned_shards != OwnedShards::All {
            store.set_owned_shards(owned_shards.clone());
            let engine = engine.clone();
            store.set_adoption_check(Arc::new(move |candidates| {
                without_foreign_operations(engine.clone(), candidates).boxed()
            }));
        }
        let events = store.watch();
        let application_cache = ApplicationCache::default();
        let plans = plans.map(Arc::new);
        let follows_secrets = secrets.clone().filter(|_| !destinations.has_files());
        if follows_secrets.is_some() {
            destinations.await_secrets();
        }
        let owned = owned_shards.clone();
        let shared = Arc::new(SharedState {
            engine,
            log,
            store,
            owned_shards: watch::Sender::new(owned_shards),
            destinations,
            projects,
            manifests,
            rules,
            gates,
            plans,
            interval,
            wave_delay,
            default_options,
            application_cache,
            unpersisted: UnpersistedApplications::default(),
            dependencies: DependencyGraph::default(),
            deletion_queue: DeletionQueue::default(),
            watches,
            plan_permits: Arc::new(Semaphore::new(RETAINED_PLANS_MAX)),
            reconcile_metrics: ReconcileMetrics::default(),
            steps: watch::Sender::default(),
            git_requests,
            changed_repositories,
            push_events: broadcast::Sender::new(PUSH_BACKLOG_MAX),
            store_reads: watch::Sender::default(),
            resumptions: Resumptions::default(),
        });
        if owned != OwnedShards::All {
            // Other replicas run the operations in other shards.
            shared.engine.set_owned_shards(owned, shared.shard_of()).await?;
        }
        let (supervisor, is_settled) = start_supervisor(Arc::clone(&shared)).await?;
        let mut feeding = forward_changes(&shared, &supervisor, events, stirred, has_moved);
        if shared.store.is_shared() {
            feeding.spawn(write_events(Arc::clone(&shared), happening));
        }
        if let Some(namespace) = follows_secrets {
            let places = shared.destinations.clone();
            feeding.spawn(async move { places.watch_secrets(namespace).await });
        }
        if let Some(namespace) = secrets {
            let hearing = declared_secrets::apply_changes(
                cluster,
                namespace,
                given,
                Arc::clone(&shared),
                supervisor.clone(),
            );
            feeding.spawn(hearing);
        }
        is_settled.await.map_err(|_| EngineError::Stopped)?;
        if !interval.is_zero() {
            feeding.spawn(observe_periodically(Arc::clone(&shared), interval, supervisor.clone()));
        }
        // Resume operations only now, because their permissions are known once the Applications are loaded.
        let unresumed_operations = resume_operations(&shared).await?;
        let service = ApplicationService::new(shared, supervisor);
        Ok(Self { service, unresumed_operations, _forwarders: feeding })
    }

    /// Returns the interface for requests to Applications.
    pub fn service(&self) -> ApplicationService {
        self.service.clone()
    }

    /// Returns the application cache.
    pub fn cache(&self) -> &ApplicationCache {
        &self.service.shared.application_cache
    }

    /// Manages only the Applications in these shards from now on. Returns once the actors of all other Applications
    /// have stopped. The actors of gained Applications start once the Applications have been read, and other replicas have
    /// finished their operations.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped.
    pub async fn set_owned_shards(&self, owned: OwnedShards) -> Result<(), ServiceError> {
        let ApplicationService { shared, supervisor, .. } = &self.service;
        let mut current = shared.owned_shards.subscribe();
        shared.store.set_owned_shards(owned.clone());
        tokio::select! {
            _ = current.wait_for(|current| *current == owned) => {}
            _ = supervisor.wait(None) => return Err(EngineError::Stopped.into()),
        }
        Ok(())
    }

    /// Resumes the open operations in the shards of this process.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log can't be read.
    pub async fn resume_operations(&self) -> Result<(), ServiceError> {
        for unresumed in resume_operations(&self.service.shared).await? {
            tracing::warn!("{unresumed}");
        }
        Ok(())
    }

    /// Stops all actors. None of them is still writing once this returns. The next process resumes their
    /// work.
    pub async fn stop(self) {
        self.service.shared.manifests.stop();
        let _ = self.service.supervisor.stop_and_wait(None, None).await;
    }
}

/// Notifies the supervisor about changes to resources, their objects and clusters.
fn forward_changes(
    shared: &Arc<SharedState>,
    supervisor: &ActorRef<SupervisorMessage>,
    store_events: UnboundedReceiver<StoreEvent>,
    changed_objects: UnboundedReceiver<AppKey>,
    changed_repositories: UnboundedReceiver<ChangedRepositories>,
) -> JoinSet<()> {
    let mut feeding = JoinSet::new();
    feeding.spawn(forward(store_events, SupervisorMessage::Store, supervisor.clone()));
    let object_changed = |key| SupervisorMessage::Forward(key, AppMessage::Input(Input::ObjectChanged));
    feeding.spawn(forward(changed_objects, object_changed, supervisor.clone()));
    feeding.spawn(forward(changed_repositories, SupervisorMessage::RepositoriesChanged, supervisor.clone()));
    let (shared_state, to) = (Arc::clone(shared), supervisor.clone());
    feeding.spawn(async move {
        shared_state
            .destinations
            .run_health_checks(&shared_state.engine, || {
                drop(to.send_message(SupervisorMessage::ClustersChanged))
            })
            .await;
    });
    feeding
}

async fn forward<T>(
    mut receiver: UnboundedReceiver<T>,
    message: fn(T) -> SupervisorMessage,
    to: ActorRef<SupervisorMessage>,
) {
    while let Some(news) = receiver.recv().await {
        drop(to.send_message(message(news)));
    }
}

/// Resumes the open operations in the shards of this process. Returns the operations that this process can't resume, each
/// with the reason. Applications on declared clusters resume their own operations once the cluster has responded.
async fn resume_operations(shared: &Arc<SharedState>) -> Result<Vec<String>, ServiceError> {
    let SharedState { engine, destinations, .. } = shared.as_ref();
    let (mut left_alone, mut waiting) = (Vec::new(), JoinSet::new());
    let own = destinations.managed().to_string();
    for OpenOperation { summary: open, is_owned } in engine.open_operations(None).await? {
        if !is_owned {
            continue;
        }
        if open.destination != own {
            // The Application may belong to a different shard by now.
            if !shared.is_managed(&AppKey::parse(&open.application)) {
                waiting.spawn(resume_when_reachable(Arc::clone(shared), open.operation));
            }
            continue;
        }
        match engine.resume(open.operation).await {
            // The operation may have finished in the meantime.
            Ok(()) | Err(EngineError::AlreadyFinished { .. }) => {}
            Err(error) => {
                left_alone.push(format!("operation {} of {}: {error}", open.operation, open.application));
            }
        }
    }
    shared.resumptions.set(waiting);
    Ok(left_alone)
}

/// Resumes an operation once its cluster is reachable.
async fn resume_when_reachable(shared: Arc<SharedState>, operation: OperationId) {
    let Some((there, _)) = find_open_operation(&shared, operation).await else { return };
    shared.destinations.await_recorded(&there).await;
    if let Err(error) = shared.engine.resume(operation).await {
        tracing::debug!(%operation, %error, "failed to resume an operation");
    }
}

/// Returns the Applications among `candidates` without an operation that another replica runs. Operations stay in the shard in
/// which they were started.
async fn without_foreign_operations(engine: Engine, mut candidates: BTreeSet<AppKey>) -> BTreeSet<AppKey> {
    match engine.open_operations(None).await {
        Ok(open) => {
            let elsewhere = open.iter().filter(|one| !one.is_owned);
            let busy: BTreeSet<&str> = elsewhere.map(|one| one.summary.application.as_str()).collect();
            candidates.retain(|key| !busy.contains(key.instance_name().as_str()));
            candidates
        }
        Err(error) => {
            tracing::warn!(%error, "failed to list the operations of other replicas; retrying");
            BTreeSet::new()
        }
    }
}

async fn observe_periodically(shared: Arc<SharedState>, every: Duration, to: ActorRef<SupervisorMessage>) {
    loop {
        tokio::time::sleep(every).await;
        let (applications, sources) = used_sources(&shared);
        shared.manifests.retain_content(applications, sources).await;
        if let Some(files) = shared.manifests.files().cloned() {
            match tokio::task::spawn_blocking(move || GlobalProjects::read_files(&files)).await {
                Ok(Ok(globals)) => {
                    drop(to.send_message(SupervisorMessage::GlobalProjectsChanged(
                        GlobalProjectsUpdate::Files(globals),
                    )));
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to read the global projects; using the previous projects")
                }
                Err(error) => {
                    tracing::warn!(%error, "reading the global projects failed with an internal error")
                }
            }
        }
        shared.notify_changed_repositories(shared.manifests.observe(None).await, None);
    }
}

/// Returns the managed Applications, and the sources used by them and by their requested operations.
fn used_sources(shared: &SharedState) -> (BTreeSet<AppKey>, Vec<(ApplicationSource, String)>) {
    let (mut applications, mut sources) = (BTreeSet::new(), Vec::new());
    let all = shared.application_cache.all().into_iter();
    for (key, application) in all.filter(|(key, _)| shared.is_managed(key)) {
        applications.insert(key);
        let requested = application.operation.as_ref().and_then(|requested| requested.sync.as_ref());
        let requested = requested.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        let project = project_name(&application);
        let with_project = |source: &ApplicationSource| (source.clone(), project.to_owned());
        sources.extend(application.sources().iter().chain(requested).map(with_project));
    }
    (applications, sources)
}
