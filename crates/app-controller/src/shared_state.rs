//! State that all Applications of a process share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_application::approval::ApprovalPolicy;
use tidegate_application::operation;
use tidegate_application::project::project_name;
use tidegate_application::push_events::WebhookChanges;
use tidegate_application::sync_windows::SyncWindows;
use tidegate_executor::Engine;
use tidegate_health::HealthRules;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Destination, SyncRequest};
use tidegate_oplog::{Log, Shard};
use tidegate_source::Address;
use tidegate_state::error::ServiceError;
use tidegate_state::gates::GateFile;
use tidegate_state::owned_shards::{OwnedShards, check_owned};
use tidegate_state::stored_plans::StoredPlans;
use tidegate_stores::applications::ApplicationStore;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, broadcast, watch};
use tokio::task::JoinSet;

use super::application_cache::ApplicationCache;
use super::deletion_queue::DeletionQueue;
use super::dependency_graph::DependencyGraph;
use super::destinations::Destinations;
use super::git_metrics::GitRequests;
use super::manifests::Manifests;
use super::messages::ChangedRepositories;
use super::projects::Projects;
use super::reconcile_metrics::ReconcileMetrics;
use super::watches::WatchRegistry;

/// Applications whose published state hasn't been persisted yet.
#[derive(Default)]
pub struct UnpersistedApplications(Mutex<BTreeSet<AppKey>>);

impl UnpersistedApplications {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<AppKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, key: &AppKey) {
        self.lock().insert(key.clone());
    }

    pub fn remove(&self, key: &AppKey) {
        self.lock().remove(key);
    }

    /// Removes and returns all keys.
    pub fn take(&self) -> BTreeSet<AppKey> {
        std::mem::take(&mut *self.lock())
    }
}

/// Tasks that resume operations of Applications that other replicas manage.
#[derive(Default)]
pub struct Resumptions(Mutex<JoinSet<()>>);

impl Resumptions {
    /// Replaces all tasks.
    pub fn set(&self, tasks: JoinSet<()>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }
}

/// State that the actors of all Applications share.
pub struct SharedState {
    /// Engine that runs the operations.
    pub engine: Engine,
    /// Operation log.
    pub log: Log,
    /// Store of the Applications.
    pub store: Arc<dyn ApplicationStore>,
    /// Clusters that Applications are deployed to.
    pub destinations: Destinations,
    /// Projects and their rules.
    pub projects: Arc<Projects>,
    /// Shards whose Applications this process manages.
    pub owned_shards: watch::Sender<OwnedShards>,
    /// Rendered manifests.
    pub manifests: Arc<Manifests>,
    /// Health rules.
    pub rules: HealthRules,
    /// Gate definitions.
    pub gates: GateFile,
    /// Stored plans.
    pub plans: Option<Arc<StoredPlans>>,
    /// Interval between comparisons of an Application without known changes.
    pub interval: Duration,
    /// Fixed delay between waves, if any.
    pub wave_delay: Option<Duration>,
    /// Default sync options, which an Application can override.
    pub default_options: &'static [&'static str],
    /// Published Applications.
    pub application_cache: ApplicationCache,
    /// Applications whose latest state isn't persisted yet.
    pub unpersisted: UnpersistedApplications,
    /// Dependencies between Applications.
    pub dependencies: DependencyGraph,
    /// Order in which each ApplicationSet's Applications are deleted.
    pub deletion_queue: DeletionQueue,
    /// Watches of the Applications' objects.
    pub watches: WatchRegistry,
    /// Permits to keep the plans of comparisons for the operations that follow.
    pub plan_permits: Arc<Semaphore>,
    /// Metrics of comparisons.
    pub reconcile_metrics: ReconcileMetrics,
    /// Number of messages that the Application and ApplicationSet actors have handled.
    pub steps: watch::Sender<u64>,
    /// Metrics for requests to Git repositories.
    pub git_requests: GitRequests,
    /// Sender for repositories whose refs have changed.
    pub changed_repositories: UnboundedSender<ChangedRepositories>,
    /// Push events from Git servers.
    pub push_events: broadcast::Sender<Arc<WebhookChanges>>,
    /// Number of the most recently requested store read whose changes have been forwarded.
    pub store_reads: watch::Sender<u64>,
    /// Operations to resume.
    pub resumptions: Resumptions,
}

impl SharedState {
    /// Counts a handled message. The count reveals actors that keep waking themselves for no reason.
    pub fn count_step(&self) {
        self.steps.send_modify(|steps| *steps = steps.wrapping_add(1));
    }

    /// Returns true if this process manages an Application.
    pub fn is_managed(&self, key: &AppKey) -> bool {
        self.owned_shards.borrow().contains_key(|| self.application_cache.log_key(key))
    }

    /// Returns an error if another replica manages an Application.
    pub fn check_managed(&self, key: &AppKey) -> Result<(), ServiceError> {
        let shard = || Shard::of_key(self.application_cache.log_key(key));
        check_owned(&self.owned_shards.borrow(), format_args!("application {key}"), shard)
    }

    /// Returns the function that returns the shard of an Application's new operations.
    pub fn shard_of(self: &Arc<Self>) -> impl Fn(&str) -> Shard + Send + Sync + 'static {
        // The engine keeps the function, and this state contains the engine.
        let shared = Arc::downgrade(self);
        move |name| match shared.upgrade() {
            Some(shared) => Shard::of_key(shared.application_cache.log_key(&AppKey::parse(name))),
            None => Shard::of_key(name),
        }
    }

    /// Returns the request that starts an operation in the engine.
    pub fn operation_request(
        &self,
        application: &Application,
        requested: &OperationRequest,
        destination: Destination,
        namespace: String,
        revisions: &[String],
    ) -> Result<SyncRequest, operation::OperationRefusal> {
        let mut request = operation::sync_request(application, requested, destination, namespace, revisions)?;
        add_defaults(&mut request.options.flags, self.default_options);
        Ok(SyncRequest { wave_delay: self.wave_delay, ..request })
    }

    /// Returns the request that starts a comparison in the engine.
    pub fn comparison_request(
        &self,
        application: &Application,
        destination: Destination,
        namespace: String,
    ) -> SyncRequest {
        let mut request = operation::comparison_request(application, destination, namespace);
        add_defaults(&mut request.options.flags, self.default_options);
        request
    }

    /// Compares the Applications that use these repositories, whose refs have changed.
    pub fn notify_changed_repositories(&self, addresses: Vec<Address>, except: Option<AppKey>) {
        if !addresses.is_empty() {
            // The receiver is gone during shutdown; nothing to do.
            drop(self.changed_repositories.send(ChangedRepositories { addresses, except }));
        }
    }

    /// Returns the approval policy for syncs of an Application, or the reason why it can't be determined.
    pub fn approval_policy(&self, application: &Application) -> Result<ApprovalPolicy, String> {
        let (project, _) =
            self.projects.find(project_name(application)).map_err(|missing| missing.to_string())?;
        Ok(ApprovalPolicy::from_annotations(application, &project))
    }

    /// Returns an Application's sync windows.
    pub fn sync_windows(&self, application: &Application) -> SyncWindows {
        let place = self.destinations.resolve(&application.spec.destination);
        place.map(|place| self.projects.sync_windows(application, &place.target)).unwrap_or_default()
    }
}

/// Adds the default sync options, except those that are already set.
fn add_defaults(flags: &mut Vec<String>, defaults: &[&str]) {
    for option in defaults {
        let name = option.split('=').next().unwrap_or_default();
        if !flags.iter().any(|flag| flag.split('=').next() == Some(name)) {
            flags.push((*option).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::add_defaults;

    #[test]
    fn explicit_options_override_the_defaults() {
        let defaults = ["ServerSideApply=auto"];
        for (given, expected) in [
            (&[][..], &["ServerSideApply=auto"][..]),
            (&["PruneLast=true"], &["PruneLast=true", "ServerSideApply=auto"]),
            (&["ServerSideApply=false"], &["ServerSideApply=false"]),
            (&["ServerSideApply=true"], &["ServerSideApply=true"]),
        ] {
            let mut flags = given.iter().map(|flag| (*flag).to_owned()).collect();
            add_defaults(&mut flags, &defaults);
            assert_eq!(flags, expected);
        }
    }
}
