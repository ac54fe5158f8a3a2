//! Applications that a command waits for, reread when a watch reports a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll, select_all};
use tidegate_application::AppKey;
use tidegate_cluster::{Detail, ErrorKind, Scope, ScopeChange, WatchBackoff, list_and_watch};
use tidegate_model::Object;
use tidegate_model::argo::Application;
use tidegate_state::error::ServiceError;
use tidegate_state::notices::Notices;
use tidegate_stores::applications::kubernetes::ApplicationKind;
use tidegate_stores::applications::kubernetes::resource_client::managed_kind;
use tokio::time::Instant;

use super::{DirectClient, Resource};

/// Backoff before listing the Applications again after a watch has failed.
const RETRY_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(5) };
/// Polling interval if watching is forbidden.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time between checks if nothing changes, so that the user gets a message during a long wait.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// A watch event, with the watch's namespace (`None` for all namespaces).
type NamespaceEvent = (Option<String>, ScopeChange);

/// Watched applications.
pub struct ApplicationWatch<'a> {
    client: &'a DirectClient,
    /// Names of the Applications; empty for all Applications.
    names: Vec<String>,
    resources: BTreeMap<AppKey, Resource>,
    /// Changed Applications that couldn't be read yet.
    stale: BTreeSet<AppKey>,
    /// Source of changes. `None` before the first read.
    changes: Option<ChangeSource>,
    notices: &'a dyn Notices,
    /// True if the watch is failing and the user has been notified.
    is_failing: bool,
}

enum ChangeSource {
    Watch(SelectAll<BoxStream<'static, NamespaceEvent>>),
    /// Watching is forbidden, so Applications are polled.
    Polling,
}

impl DirectClient {
    /// Watches the Applications with these names, or all of them if `names` is empty. `notices` receives a
    /// warning if the watch fails.
    pub fn watch<'a>(&'a self, names: &[String], notices: &'a dyn Notices) -> ApplicationWatch<'a> {
        ApplicationWatch {
            client: self,
            names: names.to_vec(),
            resources: BTreeMap::new(),
            stale: BTreeSet::new(),
            changes: None,
            notices,
            is_failing: false,
        }
    }
}

impl ApplicationWatch<'_> {
    /// Returns the current state of the Applications.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster doesn't have the kind or denies access.
    pub async fn refresh(&mut self) -> Result<Vec<Application>, ServiceError> {
        if self.changes.is_none() {
            self.read_all().await?;
            self.changes = Some(ChangeSource::Watch(self.open_streams()));
        }
        Ok(self.resources.values().map(|one| one.application.clone()).collect())
    }

    /// Returns when the Applications may have changed, after `CHECK_INTERVAL` at the latest.
    ///
    /// # Errors
    ///
    /// Returns an error if the Applications can no longer be read.
    pub async fn wait_for_change(&mut self) -> Result<(), ServiceError> {
        if !self.stale.is_empty() {
            tokio::time::sleep(READ_INTERVAL).await;
            let stale = std::mem::take(&mut self.stale);
            return self.read_stale(stale).await;
        }
        let deadline = Instant::now() + CHECK_INTERVAL;
        loop {
            let event = match &mut self.changes {
                Some(ChangeSource::Watch(streams)) => {
                    match tokio::time::timeout_at(deadline, streams.next()).await {
                        Ok(Some(event)) => event,
                        // Check the Applications after the maximum time. The event stream itself never ends.
                        Ok(None) | Err(_) => return Ok(()),
                    }
                }
                _ => {
                    tokio::time::sleep(READ_INTERVAL).await;
                    return self.read_all().await;
                }
            };
            self.is_failing &= matches!(event, (_, ScopeChange::Failing(_)));
            let stale = match event {
                (namespace, ScopeChange::Listed(objects)) => self.find_stale(namespace.as_deref(), &objects),
                (_, ScopeChange::Applied(object)) if self.is_change(&object) => {
                    BTreeSet::from([AppKey::of_object(&object)])
                }
                (_, ScopeChange::Deleted(object)) if self.is_selected(&AppKey::of_object(&object)) => {
                    BTreeSet::from([AppKey::of_object(&object)])
                }
                (_, ScopeChange::Failing(error)) if error.kind == ErrorKind::Forbidden => {
                    tracing::info!(%error, "no permission to watch applications; polling them instead");
                    self.changes = Some(ChangeSource::Polling);
                    BTreeSet::new()
                }
                (_, ScopeChange::Failing(error)) if !error.kind.is_transient() => {
                    return Err(self.client.cluster_error(&error));
                }
                // The watch is restarted automatically.
                (_, ScopeChange::Failing(error)) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        let error = self.client.cluster_error(&error);
                        self.notices.warn(&format!("retrying: {error}"));
                    }
                    BTreeSet::new()
                }
                _ => BTreeSet::new(),
            };
            if !stale.is_empty() {
                return self.read_stale(stale).await;
            }
        }
    }

    fn is_selected(&self, key: &AppKey) -> bool {
        let reach = &self.client.resource_client.scope.namespaces;
        let is_reached = reach.is_empty() || reach.contains(&key.namespace);
        let is_named = |name: &String| key.matches(name) && (is_reached || name.contains('/'));
        if self.names.is_empty() { is_reached } else { self.names.iter().any(is_named) }
    }

    fn is_change(&self, object: &Object) -> bool {
        let key = AppKey::of_object(object);
        let known = self.resources.get(&key).map(|one| one.object.resource_version());
        self.is_selected(&key) && known != Some(object.resource_version())
    }

    /// Returns the Applications with an outdated known state. `objects` are all Applications in the
    /// namespace, or in all namespaces.
    fn find_stale(&self, namespace: Option<&str>, objects: &[Object]) -> BTreeSet<AppKey> {
        let listed: BTreeSet<AppKey> = objects.iter().map(AppKey::of_object).collect();
        let is_there = |key: &&AppKey| namespace.is_none_or(|namespace| key.namespace == namespace);
        let gone = self.resources.keys().filter(is_there).filter(|key| !listed.contains(*key)).cloned();
        let news = objects.iter().filter(|object| self.is_change(object)).map(AppKey::of_object);
        news.chain(gone).collect()
    }

    async fn read_all(&mut self) -> Result<(), ServiceError> {
        let mut found = Vec::new();
        if self.names.is_empty() {
            found = self.client.list_applications().await?;
        }
        for name in &self.names {
            found.extend(self.client.find(name).await?);
        }
        self.resources = found.into_iter().map(|one| (one.key(), one)).collect();
        Ok(())
    }

    /// Reads changed Applications again, because an event may be older than the resource.
    async fn read_stale(&mut self, stale: BTreeSet<AppKey>) -> Result<(), ServiceError> {
        for key in stale {
            match self.client.get(&key).await {
                Ok(Some(now)) => drop(self.resources.insert(key, now)),
                Ok(None) => drop(self.resources.remove(&key)),
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "failed to read an application");
                    self.stale.insert(key);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens one watch per namespace. For all namespaces, opens a single watch, unless every name has a
    /// namespace.
    fn open_streams(&self) -> SelectAll<BoxStream<'static, NamespaceEvent>> {
        let reach = &self.client.resource_client.scope.namespaces;
        let by_name = self.names.iter().filter_map(|name| name.split_once('/'));
        let mut namespaces: BTreeSet<Option<String>> =
            by_name.map(|(namespace, _)| Some(namespace.to_owned())).collect();
        if self.names.is_empty() || self.names.iter().any(|name| !name.contains('/')) {
            match reach.is_empty() {
                true => namespaces = BTreeSet::from([None]),
                false => namespaces.extend(reach.iter().cloned().map(Some)),
            }
        }
        let followed = namespaces.into_iter().map(|namespace| {
            let scope = Scope {
                gvk: managed_kind::<ApplicationKind>(),
                namespace: namespace.clone(),
                detail: Detail::Metadata,
            };
            list_and_watch(Arc::clone(&self.client.resource_client.cluster), scope, RETRY_DELAYS)
                .map(move |what| (namespace.clone(), what))
                .boxed()
        });
        select_all(followed)
    }
}
