//! Requests for Applications that arrive through the socket, the API and webhooks.

mod plans;
mod push;

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, ActorStatus};
use tidegate_application::AppKey;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::{credentials, operation, supersede};
use tidegate_applicationset::ownership::owning_appset;
use tidegate_executor::effects::ObjectDifference;
use tidegate_executor::{Clock as _, EngineError, HistogramSnapshot, SystemClock};
use tidegate_model::argo::{Application, OperationRequest, ResourceStatus};
use tidegate_model::{Gvk, ObjectKey, OperationId, Plan, Requester, ResourceSelector, Severity, Warning};
use tidegate_oplog::Shard;
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::{OwnedShards, check_owned};
use tidegate_state::simulated;
use tidegate_state::summaries::SyncWindowSummary;
use tidegate_views::deletion::DeletionPlan;
use tokio::sync::{broadcast, oneshot, watch};

use self::push::RepositoryObservations;
use super::application_cache::SearchResult;
use super::destinations::cluster_status::ClusterStatus;
use super::git_metrics::RepositoryRequests;
use super::listing::{self, ApplicationFilter, Page, PageStart, SortOrder};
use super::messages::{AppMessage, Reply, SupervisorMessage};
use super::shared_state::SharedState;
use super::{DeletionOptions, compare, delete};

/// Time limit for a requested comparison, shorter than the time limit for an API response.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(50);
/// Maximum number of dependents to list in a deletion plan's warnings.
const DEPENDENTS_NAMED_MAX: usize = 10;
/// Maximum time to wait for the store to be read.
const STORE_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Interface for requests that involve Applications. Cheap to clone.
#[derive(Clone)]
pub struct ApplicationService {
    /// State that all actors share.
    pub shared: Arc<SharedState>,
    /// Supervisor of the Applications' actors.
    pub supervisor: ActorRef<SupervisorMessage>,
    /// Observations of repositories after a push.
    observations: RepositoryObservations,
}

impl ApplicationService {
    /// Creates the service for running actors.
    pub(super) fn new(shared: Arc<SharedState>, supervisor: ActorRef<SupervisorMessage>) -> Self {
        Self { shared, supervisor, observations: RepositoryObservations::default() }
    }

    /// Returns the reason why Applications are no longer managed, if the engine has failed or the supervisor
    /// has stopped.
    pub fn failure(&self) -> Option<EngineError> {
        let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&self.supervisor.get_status());
        self.shared.engine.failure().or(over.then_some(EngineError::Stopped))
    }

    /// Records that all ApplicationSets have been processed, so that their Applications can check their
    /// position in the deletion order.
    pub fn mark_appsets_processed(&self) {
        self.shared.deletion_queue.mark_settled();
        let all = self.all().into_iter();
        let generated = all.filter(|(_, one)| owning_appset(one).is_some()).map(|(key, _)| key).collect();
        drop(self.supervisor.send_message(SupervisorMessage::RelatedChanged(generated)));
    }

    /// Returns the matching Applications, or all Applications if `text` is `None`.
    pub fn find(&self, text: Option<&str>) -> SearchResult {
        self.shared.application_cache.find(text)
    }

    /// Returns a page of the matching Applications.
    pub fn page(
        &self,
        filter: &ApplicationFilter,
        order: SortOrder,
        begins: &PageStart,
        limit: usize,
    ) -> Page {
        listing::page(self.shared.application_cache.all(), filter, order, begins, limit)
    }

    /// Returns all Applications, sorted by name.
    pub fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        self.shared.application_cache.all()
    }

    /// Returns an Application with its credentials. [`Self::masked_application`] returns it without them.
    pub fn application(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.shared.application_cache.get(key)
    }

    /// Returns the Application that has requested the operation.
    pub fn application_of_operation(&self, id: OperationId) -> Option<AppKey> {
        let asks = |one: &Application| one.operation.as_ref().and_then(operation::engine_id) == Some(id);
        self.all().into_iter().find(|(_, application)| asks(application)).map(|(key, _)| key)
    }

    /// Returns the Application whose status describes an operation, and whether the operation has finished.
    pub fn application_with_status_of(&self, id: OperationId) -> Option<(AppKey, bool)> {
        self.all().into_iter().find_map(|(key, application)| {
            let state = application.status.operation_state.as_ref();
            let state = state.filter(|state| operation::engine_id(&state.operation) == Some(id))?;
            Some((key, state.finished_at.is_some()))
        })
    }

    /// Returns the request that is waiting for an operation to finish. `instance` is the Application's name
    /// in operations.
    pub fn waiting_request(&self, instance: &str, id: OperationId) -> Option<String> {
        let application = self.application(&AppKey::parse(instance))?;
        let is_current = application.operation.as_ref().and_then(operation::engine_id) == Some(id);
        supersede::new_revision_condition_message(&application).filter(|_| is_current).map(str::to_owned)
    }

    /// Returns the Application `NAMESPACE/NAME`, without credentials.
    pub fn masked_application(&self, text: &str) -> Option<Application> {
        let (namespace, name) = text.split_once('/')?;
        let key = AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
        Some(credentials::application_without_credentials(self.application(&key)?.as_ref()))
    }

    /// Describes the health rule for each of an Application's objects, with `None` for an object without a
    /// rule.
    pub fn health_rules(&self, key: &AppKey, objects: &[ResourceStatus]) -> Vec<Option<String>> {
        let own = self.shared.application_cache.own_rules(key);
        let rule = |one: &ResourceStatus| {
            let key = ObjectKey::new(&one.group, &one.kind, &one.namespace, &one.name);
            match own.get(&key) {
                Some(rule) => Some(rule.to_string()).filter(|rule| !rule.is_empty()),
                None => self.shared.rules.rule_for_kind(&Gvk::new(&one.group, &one.version, &one.kind)),
            }
        };
        objects.iter().map(rule).collect()
    }

    /// Returns metrics for requests to remote Git repositories.
    pub fn git_requests(&self) -> Vec<RepositoryRequests> {
        self.shared.git_requests.counts()
    }

    /// Returns the status of each cluster that Applications can use.
    pub fn clusters(&self) -> Vec<ClusterStatus> {
        self.shared.destinations.cluster_statuses(&self.shared.watches)
    }

    /// Returns the durations of comparisons, by cluster and Application namespace.
    pub fn comparison_durations(&self) -> Vec<((String, String), HistogramSnapshot)> {
        self.shared.reconcile_metrics.durations()
    }

    /// Subscribes to the total number of messages that the Application and ApplicationSet actors have
    /// handled.
    pub fn steps(&self) -> watch::Receiver<u64> {
        self.shared.steps.subscribe()
    }

    /// Returns errors in unreadable files or resources that can't be attributed to an Application.
    pub fn problems(&self) -> Vec<String> {
        self.shared.application_cache.problems()
    }

    /// Subscribes to changes to Applications, including deletions. A slow receiver gets an error about missed
    /// changes.
    pub fn subscribe(&self) -> broadcast::Receiver<AppKey> {
        self.shared.application_cache.subscribe()
    }

    /// Returns the only matching Application.
    pub fn find_only(&self, text: &str) -> Result<Arc<Application>, ServiceError> {
        Ok(AppKey::single_match(self.find(Some(text)).applications, text)?)
    }

    fn find_key(&self, text: &str) -> Result<AppKey, ServiceError> {
        Ok(AppKey::of(self.find_only(text)?.as_ref()))
    }

    /// Returns the key of the only matching Application, which this process must manage.
    fn find_managed(&self, text: &str) -> Result<AppKey, ServiceError> {
        let key = self.find_key(text)?;
        self.check_managed(&key)?;
        Ok(key)
    }

    /// Checks that this process manages an Application.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::OtherReplica`] if another replica manages it.
    pub fn check_managed(&self, key: &AppKey) -> Result<(), ServiceError> {
        self.shared.check_managed(key)
    }

    /// Checks that this process runs an operation in this shard.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::OtherReplica`] if another replica owns the shard.
    pub fn check_operation(&self, operation: OperationId, shard: Shard) -> Result<(), ServiceError> {
        check_owned(&self.shared.owned_shards.borrow(), format_args!("operation {operation}"), || shard)
    }

    /// Returns true if this process shares the Applications with other replicas.
    pub fn shares_work(&self) -> bool {
        *self.shared.owned_shards.borrow() != OwnedShards::All
    }

    /// Returns true if deleting an Application also deletes its file.
    async fn is_file_deleted(&self, application: &Application) -> bool {
        let is_in_file = !self.shared.store.is_shared() && owning_appset(application).is_none();
        is_in_file && self.shared.store.deletion_error(application).await.is_none()
    }

    /// Requests an operation on an Application. Returns once the request is durable.
    pub async fn sync(&self, text: &str, mut request: OperationRequest) -> Result<(), ServiceError> {
        self.await_store_read().await;
        let key = self.find_managed(text)?;
        operation::bound_reason(&mut request);
        self.send_request(|reply| {
            SupervisorMessage::Forward(
                key,
                AppMessage::Sync { request: Box::new(request), plan: None, reply },
            )
        })
        .await
    }

    /// Terminates an Application's operation, recording the requester and the reason. Fails if `operation` is
    /// set and a different operation is running. Returns once the request is durable.
    pub async fn terminate(
        &self,
        text: &str,
        operation: Option<OperationId>,
        requester: Requester<'_>,
    ) -> Result<(), ServiceError> {
        let key = self.find_managed(text)?;
        let by = requester.to_text();
        self.send_request(|reply| {
            SupervisorMessage::Forward(key, AppMessage::Terminate { operation, by, reply })
        })
        .await
    }

    /// Deletes an Application, recording the requester and the reason. Returns once the request is durable,
    /// possibly before the deletion finishes.
    pub async fn delete(
        &self,
        text: &str,
        options: DeletionOptions,
        requester: Requester<'_>,
    ) -> Result<(), ServiceError> {
        self.await_store_read().await;
        let key = self.find_managed(text)?;
        let (by, reason) = (requester.name.to_owned(), requester.reason.to_owned());
        self.send_request(|reply| {
            SupervisorMessage::Forward(key, AppMessage::Delete { options, by, reason, reply })
        })
        .await
    }

    /// Rolls an Application back to a sync in its history, recording the requester and the reason. Returns
    /// once the request is durable.
    pub async fn rollback(
        &self,
        text: &str,
        id: Option<i64>,
        prune: bool,
        requester: Requester<'_>,
    ) -> Result<(), ServiceError> {
        self.await_store_read().await;
        let key = self.find_managed(text)?;
        let (by, reason) = (requester.name.to_owned(), requester.reason.to_owned());
        self.send_request(|reply| {
            SupervisorMessage::Forward(key, AppMessage::Rollback { id, prune, by, reason, reply })
        })
        .await
    }

    /// Returns the changes that syncing an Application would make.
    pub async fn diff(
        &self,
        text: &str,
        named: Vec<String>,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let application = self.current_application(text).await?;
        let differing = compare::sync_differences(&self.shared, &application, named);
        differing.await.map_err(ServiceError::refused)
    }

    /// Returns the plan for syncing an Application, wave by wave.
    pub async fn plan(&self, text: &str, named: Vec<String>) -> Result<Plan, ServiceError> {
        let application = self.current_application(text).await?;
        let planning = compare::sync_plan(&self.shared, &application, named);
        planning.await.map_err(ServiceError::refused)
    }

    /// Returns the plan for deleting an Application.
    pub async fn plan_deletion(
        &self,
        text: &str,
        options: DeletionOptions,
    ) -> Result<DeletionPlan, ServiceError> {
        let application = self.current_application(text).await?;
        let planned = delete::deletion_plan(&self.shared, &application, options).await;
        let mut plan = planned.map(|plan| DeletionPlan::from_plan(&plan)).map_err(ServiceError::refused)?;
        plan.removes_file = self.is_file_deleted(&application).await;
        if application.is_deleting() {
            return Ok(plan);
        }
        let warning = |code: &str, message| Warning {
            severity: Severity::Warning,
            code: code.to_owned(),
            object: None,
            origin: None,
            message,
        };
        let refused = self.shared.store.deletion_error(&application).await;
        plan.warnings.extend(
            refused.map(|reason| warning("file-stays", format!("the deletion would be rejected: {reason}"))),
        );
        let keep = self
            .shared
            .dependencies
            .blocking_dependents(&AppKey::of(&application), &self.shared.application_cache);
        plan.warnings.extend(keep.unwrap_or_default().iter().take(DEPENDENTS_NAMED_MAX).map(|(other, _)| {
            let message = format!(
                "the deletion will wait until Application {other}, which depends on this Application, has been deleted"
            );
            warning("needed", message)
        }));
        Ok(plan)
    }

    async fn send_request(
        &self,
        message: impl FnOnce(Reply) -> SupervisorMessage,
    ) -> Result<(), ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.supervisor.send_message(message(reply.into())).map_err(|_| EngineError::Stopped)?;
        answer.await.map_err(|_| EngineError::Stopped)?.map_err(ServiceError::refused)
    }

    /// Deletes an object from the simulated cluster. Returns an error if the managed cluster isn't simulated.
    pub async fn delete_simulated(&self, object: &ResourceSelector) -> Result<(), ServiceError> {
        let places = &self.shared.destinations;
        if !places.is_simulated() {
            return Err(ServiceError::refused("the running process does not use a simulated cluster"));
        }
        simulated::delete_object(places.cluster().as_ref(), object).await
    }

    /// Returns the state of an Application's sync windows, including whether a sync is currently permitted.
    pub fn window_status(&self, text: &str) -> Result<SyncWindowSummary, ServiceError> {
        let application = self.find_only(text)?;
        let windows = self.shared.sync_windows(&application);
        let now = SystemClock.now();
        let [automated, manual] = [false, true].map(|manual| windows.find_hold(manual, now));
        let (is_automated, is_manual) = (automated.is_none(), manual.is_none());
        let reason = automated.map(|held| held.reason);
        Ok(SyncWindowSummary { automated: is_automated, manual: is_manual, reason })
    }

    /// Observes an Application's repository and compares the Application. Returns once the result has been
    /// published.
    ///
    /// # Errors
    ///
    /// Returns an error if the Application isn't reconciled, is unreadable, or isn't compared within 50 s.
    pub async fn refresh(&self, text: &str, hard: bool) -> Result<(), ServiceError> {
        self.await_store_read().await;
        let key = self.find_managed(text)?;
        let level = if hard { RefreshLevel::Hard } else { RefreshLevel::Forced };
        let name = key.to_string();
        let asking =
            self.send_request(|reply| SupervisorMessage::Forward(key, AppMessage::Refresh { level, reply }));
        let slow = |_| {
            let after = COMPARISON_TIMEOUT.as_secs();
            Err(ServiceError::refused(format!(
                "the comparison of application {name} is still running after {after} s; when it finishes, `tidegate app get {name}` shows the result"
            )))
        };
        tokio::time::timeout(COMPARISON_TIMEOUT, asking).await.unwrap_or_else(slow)
    }

    /// Returns the current state of an Application in the store.
    pub(super) async fn current_application(&self, text: &str) -> Result<Arc<Application>, ServiceError> {
        let is_looked_at = self.await_store_read().await;
        let key = self.find_managed(text)?;
        if is_looked_at {
            // An Application that doesn't have an actor can't reply.
            let shown =
                self.send_request(|reply| SupervisorMessage::Forward(key, AppMessage::Flush { reply }));
            drop(tokio::time::timeout(STORE_READ_TIMEOUT, shown).await);
        }
        self.find_only(text)
    }

    /// Waits until earlier changes to the store have taken effect. Users expect this when they edit a file
    /// and then send a request. Returns false if the store doesn't respond in time.
    async fn await_store_read(&self) -> bool {
        let Some(number) = self.shared.store.request_read() else { return false };
        let mut looked = self.shared.store_reads.subscribe();
        let seen = looked.wait_for(|looked| *looked >= number);
        drop(tokio::time::timeout(STORE_READ_TIMEOUT, seen).await);
        true
    }
}
