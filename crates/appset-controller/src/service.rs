//! Interface for ApplicationSets, used by the control socket and the API.

use std::sync::Arc;

use ractor::{ActorRef, ActorStatus, RpcReplyPort};
use tidegate_app_controller::ApplicationService;
use tidegate_application::AppKey;
use tidegate_applicationset::ownership::{owned_applications, owning_appset};
use tidegate_applicationset::preview;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Requester, StreamId, normalize_reason};
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::ApplicationSummary;
use tidegate_views::appset_actions::{AppSetAction, AppSetDeletionPreview, AppSetExplanation};
use tidegate_views::appset_summary::{AppSetSummary, describe_awaited};
use tokio::sync::{broadcast, oneshot};

use super::appset_cache::{AppSetCache, AppSetMetrics, AppSetSearchResult};
use super::messages::{AppSetMessage, AppSetSupervisorMessage, ReplyPort};
use super::rollout_preview::{PreviewCache, RolloutPreview, preview_rollout};
use super::shared::AppSetShared;

/// Interface for queries and requests that involve ApplicationSets. Cheap to clone.
#[derive(Clone)]
pub struct AppSetService {
    cache: AppSetCache,
    applications: ApplicationService,
    supervisor: ActorRef<AppSetSupervisorMessage>,
    pub(super) shared: Arc<AppSetShared>,
    preview_cache: PreviewCache,
}

impl AppSetService {
    /// Creates the interface from the cache and the supervisor of the ApplicationSets.
    pub fn new(
        shared: Arc<AppSetShared>,
        applications: ApplicationService,
        supervisor: ActorRef<AppSetSupervisorMessage>,
    ) -> Self {
        let cache = shared.cache.clone();
        Self { cache, applications, supervisor, shared, preview_cache: PreviewCache::default() }
    }

    /// Returns the reason ApplicationSets are no longer managed, if their supervisor has stopped.
    pub fn failure(&self) -> Option<EngineError> {
        let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&self.supervisor.get_status());
        over.then_some(EngineError::Stopped)
    }

    /// Returns the ApplicationSets that match `text`, or all ApplicationSets if `text` is `None`.
    pub fn find_matching(&self, text: Option<&str>) -> AppSetSearchResult {
        self.cache.find_matching(text)
    }

    /// Checks that this process manages an ApplicationSet.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::OtherReplica`] if another replica manages it.
    pub fn check_managed(&self, key: &AppKey) -> Result<(), ServiceError> {
        self.shared.check_managed(key)
    }

    /// Returns the options that apply to all ApplicationSets.
    pub fn options(&self) -> &AppSetRuleOptions {
        &self.shared.options
    }

    /// Returns one ApplicationSet.
    pub fn get(&self, key: &AppKey) -> Option<Arc<ApplicationSet>> {
        self.cache.get(key)
    }

    /// Returns an ApplicationSet's summary.
    pub fn summarize(&self, set: &ApplicationSet) -> AppSetSummary {
        let key = AppKey::of_appset(set);
        AppSetSummary::new(set, self.cache.skipped_count(&key), self.cache.awaited(&key))
    }

    /// Returns all ApplicationSets, sorted by name.
    pub fn all(&self) -> Vec<(AppKey, Arc<ApplicationSet>)> {
        self.cache.all()
    }

    /// Returns each ApplicationSet's metrics.
    pub fn metrics(&self) -> Vec<(AppKey, AppSetMetrics)> {
        self.cache.metrics()
    }

    /// Describes what an Application is waiting for in its ApplicationSet's progressive sync. Returns `None`
    /// without a progressive sync or once the Application's step has started.
    pub fn describe_awaited(&self, application: &Application) -> Option<String> {
        let namespace = application.metadata.namespace_or_default().to_owned();
        let key = AppKey { namespace, name: owning_appset(application)?.to_owned() };
        describe_awaited(
            self.cache.get(&key)?.as_ref(),
            self.cache.current_wait(&key),
            &application.metadata.name,
        )
    }

    /// Subscribes to changes to ApplicationSets, including removals. A slow receiver gets an error about
    /// missed changes.
    pub fn subscribe(&self) -> broadcast::Receiver<AppKey> {
        self.cache.subscribe()
    }

    /// Returns the only ApplicationSet that matches `text`.
    fn find_one(&self, text: &str) -> Result<Arc<ApplicationSet>, ServiceError> {
        let mut found = self.find_matching(Some(text)).appsets.into_iter();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(ServiceError::BadInput {
                message: format!(
                    "ApplicationSet {text} not found; `tidegate appset list` lists all ApplicationSets"
                ),
            }),
            _ => Err(ServiceError::BadInput {
                message: format!("several ApplicationSets are named {text}; use NAMESPACE/NAME"),
            }),
        }
    }

    /// Explains the status of the ApplicationSet that matches `text`.
    pub async fn explain(&self, text: &str) -> Result<AppSetExplanation, ServiceError> {
        self.query_actor(text, |reply| AppSetMessage::Explain { reply }).await
    }

    /// Sends a request to the rollout or teardown of the ApplicationSet that matches `text`. Fails if `run`
    /// is set and a different run is in progress. Returns once the request is durable.
    pub async fn send_action(
        &self,
        text: &str,
        run: Option<StreamId>,
        action: AppSetAction,
        requester: Requester<'_>,
    ) -> Result<(), ServiceError> {
        let (by, reason) = (requester.name.to_owned(), normalize_reason(requester.reason));
        if reason.is_empty() && matches!(action, AppSetAction::Skip { .. }) {
            return Err(ServiceError::refused("a reason is required to skip Applications"));
        }
        self.send_request(text, |reply| AppSetMessage::Action { action, run, by, reason, reply }).await
    }

    /// Runs the generators of the ApplicationSet that matches `text`.
    pub async fn refresh(&self, text: &str) -> Result<(), ServiceError> {
        self.send_request(text, |reply| AppSetMessage::Refresh { reply }).await
    }

    /// Deletes the ApplicationSet that matches `text`, recording the requester and the reason. Also deletes
    /// its Applications, unless `orphan` is set. Returns once the request is durable, possibly before the
    /// deletion finishes.
    pub async fn delete(
        &self,
        text: &str,
        orphan: bool,
        requester: Requester<'_>,
    ) -> Result<(), ServiceError> {
        let (by, reason) = (requester.name.to_owned(), requester.reason.to_owned());
        self.send_request(text, |reply| AppSetMessage::Delete { orphan, by, reason, reply }).await
    }

    /// Previews the deletion of the ApplicationSet that matches `text`: the order of the Applications, the
    /// kept ones, and the removal of its document. Changes nothing.
    pub async fn plan_deletion(&self, text: &str) -> Result<AppSetDeletionPreview, ServiceError> {
        let set = self.find_one(text)?;
        let members = self.members(&set);
        let preview = preview::preview_deletion(&set, &members, &self.shared.options, SystemClock.now());
        let preview = preview.map_err(|refused| ServiceError::refused(refused.to_string()))?;
        Ok(AppSetDeletionPreview { removes_file: self.shared.store.has_removable_file(&set).await, preview })
    }

    /// Previews a progressive sync of the ApplicationSet that matches `text`, step by step, with the
    /// preceding changes to Applications. Runs the generators, but changes nothing.
    pub async fn plan_rollout(&self, text: &str) -> Result<RolloutPreview, ServiceError> {
        let set = self.find_one(text)?;
        self.shared.check_managed(&AppKey::of_appset(&set))?;
        preview_rollout(&self.shared, &set, &self.preview_cache).await.map_err(ServiceError::refused)
    }

    /// Returns an ApplicationSet's existing Applications.
    fn members(&self, set: &ApplicationSet) -> Vec<Application> {
        let home = set.metadata.namespace_or_default();
        let all = self.applications.all().into_iter().filter(|(key, _)| key.namespace == home);
        let all: Vec<Application> = all.map(|(_, one)| one.as_ref().clone()).collect();
        owned_applications(set, &all).cloned().collect()
    }

    async fn send_request(
        &self,
        text: &str,
        message: impl FnOnce(ReplyPort) -> AppSetMessage,
    ) -> Result<(), ServiceError> {
        self.query_actor(text, message).await?.map_err(ServiceError::refused)
    }

    async fn query_actor<T>(
        &self,
        text: &str,
        message: impl FnOnce(RpcReplyPort<T>) -> AppSetMessage,
    ) -> Result<T, ServiceError> {
        let key = AppKey::of_appset(self.find_one(text)?.as_ref());
        self.shared.check_managed(&key)?;
        let (reply, answer) = oneshot::channel();
        let message = AppSetSupervisorMessage::Forward(key, message(reply.into()));
        self.supervisor.send_message(message).map_err(|_| EngineError::Stopped)?;
        Ok(answer.await.map_err(|_| EngineError::Stopped)?)
    }
}

/// Summarizes an Application, including what it is waiting for in its ApplicationSet's progressive sync.
pub fn summarize_application(application: &Application, sets: Option<&AppSetService>) -> ApplicationSummary {
    let awaits = sets.and_then(|sets| sets.describe_awaited(application));
    ApplicationSummary { awaits, ..application.into() }
}
