//! A cluster's discovery data and namespaces, for use in comparisons. All Applications share the same
//! watches. If watching is forbidden, the cluster is queried instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tidegate_cluster::{
    Cluster, ClusterError, Detail, ErrorKind, Layer, Scope, ScopeChange, WatchBackoff, list_and_watch,
};
use tidegate_model::{Discovery, Gvk, Object};
use tidegate_source::Capabilities;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Backoff between attempts to restart a watch.
const WATCH_RETRY_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// Maximum age of discovery data while it is watched.
const WATCHED_AGE_MAX: Duration = Duration::from_secs(600);
/// Maximum age of discovery data that isn't watched.
const UNWATCHED_AGE_MAX: Duration = Duration::from_secs(10);
/// Maximum age of unwatched discovery data that is only used to render charts. The limit is higher because
/// comparing a chart doesn't otherwise require any discovery requests.
const CHARTS_UNWATCHED_AGE_MAX: Duration = Duration::from_secs(60);
/// Time during which a server may still update its discovery data after a kind's definition has changed.
const SETTLING_TIME: Duration = Duration::from_secs(10);
/// Maximum age of discovery data used without further checks. Saves requests when many comparisons start at
/// once.
const SHARED_AGE_MAX: Duration = Duration::from_millis(500);

/// Delay before contacting an unresponsive cluster again. Otherwise, each waiting caller in turn would run
/// into the same timeout.
const UNREACHABLE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Change in a cluster that affects Applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// The kinds of this group have changed.
    Group(String),
    /// A namespace was created, is being deleted, or no longer exists.
    Namespace(String),
}

/// Cached data about a cluster. Dropping the cache stops its watches.
pub struct DiscoveryCache {
    state: Arc<Mutex<CacheState>>,
    /// Lock that is held during a request, so that concurrent callers share the result.
    request_lock: tokio::sync::Mutex<()>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct CacheState {
    /// Discovery data, and the time at which it was read.
    discovery: Option<(Instant, Arc<Discovery>)>,
    /// Discovery data for charts, and the time of the discovery data from which it was derived.
    capabilities: Option<(Instant, Arc<Capabilities>)>,
    /// Last time the cluster failed to respond, and the error.
    last_failure: Option<(Instant, ClusterError)>,
    /// Time at which a definition last changed.
    definitions_changed_at: Option<Instant>,
    /// Time before which data is invalid, because it wasn't watched then or a caller requires fresh data.
    invalid_before: Option<Instant>,
    /// Kinds of definitions that are currently watched.
    watched_definitions: BTreeSet<Gvk>,
    /// Namespaces. `None` while there is no watch for them.
    namespaces: Option<BTreeMap<String, CachedNamespace>>,
}

/// Cached metadata of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CachedNamespace {
    uid: String,
    resource_version: String,
    deletion: Option<String>,
}

/// Returns the kinds whose objects define other kinds.
fn definition_kinds() -> [Gvk; 2] {
    [
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        Gvk::new("apiregistration.k8s.io", "v1", "APIService"),
    ]
}

fn namespace_kind() -> Gvk {
    Gvk::new("", "v1", "Namespace")
}

fn lock(state: &Mutex<CacheState>) -> MutexGuard<'_, CacheState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiscoveryCache {
    /// Starts the watches. Calls `notify` for each change that may affect Applications.
    pub fn new(cluster: &Arc<dyn Cluster>, notify: impl Fn(ClusterChange) + Clone + Send + 'static) -> Self {
        let state: Arc<Mutex<CacheState>> = Arc::default();
        let mut watches = JoinSet::new();
        for gvk in definition_kinds() {
            watches.spawn(watch_definitions(Arc::clone(cluster), gvk, Arc::clone(&state), notify.clone()));
        }
        watches.spawn(watch_namespaces(Arc::clone(cluster), Arc::clone(&state), notify));
        Self { state, request_lock: tokio::sync::Mutex::default(), _watches: watches }
    }

    /// Returns the discovery data, and the time at which it was read. If a required kind is missing, queries
    /// the cluster, because the kind may have just been created.
    async fn discovery(
        &self,
        cluster: &dyn Cluster,
        kinds: &BTreeSet<Gvk>,
    ) -> Result<(Instant, Arc<Discovery>), ClusterError> {
        if let Some(found) = lock(&self.state).valid_discovery(kinds) {
            return Ok(found);
        }
        let _one_at_a_time = self.request_lock.lock().await;
        if let Some(found) = lock(&self.state).valid_discovery(kinds) {
            return Ok(found);
        }
        // The response may not include changes that are made after this time.
        let at = Instant::now();
        let found = (at, Arc::new(self.send_request(cluster.discover()).await?));
        lock(&self.state).discovery = Some(found.clone());
        Ok(found)
    }

    /// Returns the discovery data in the form that charts use.
    pub async fn capabilities(&self, cluster: &dyn Cluster) -> Result<Arc<Capabilities>, ClusterError> {
        if let Some(found) = lock(&self.state).capabilities() {
            return Ok(found);
        }
        let (at, served) = self.discovery(cluster, &BTreeSet::new()).await?;
        let _one_at_a_time = self.request_lock.lock().await;
        if let Some(found) = lock(&self.state).capabilities() {
            return Ok(found);
        }
        let version = self.send_request(cluster.version()).await;
        let mut state = lock(&self.state);
        let before = state.capabilities.as_ref().map(|(_, before)| Arc::clone(before)).unwrap_or_default();
        let version = match version {
            Ok(version) => version.unwrap_or_default(),
            // The previously read version is still valid.
            Err(_) if state.capabilities.is_some() => before.kube_version.clone(),
            Err(error) if error.kind.is_outage() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "failed to read a cluster's Kubernetes version; rendering charts for Helm's default version");
                String::new()
            }
        };
        let found = Arc::new(merge_capabilities(&served, version, &before));
        state.capabilities = Some((at, Arc::clone(&found)));
        Ok(found)
    }

    /// Discards the cached discovery data.
    pub fn invalidate(&self) {
        lock(&self.state).invalid_before = Some(Instant::now());
    }

    /// Sends a request, unless the cluster has just failed to respond.
    async fn send_request<T>(
        &self,
        answer: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let silent = lock(&self.state).last_failure.clone();
        if let Some((_, error)) = silent.filter(|(at, _)| at.elapsed() < UNREACHABLE_RETRY_DELAY) {
            return Err(error);
        }
        let answer = answer.await;
        let is_silent =
            |error: &&ClusterError| matches!(error.kind, ErrorKind::Timeout | ErrorKind::Unavailable);
        let silent = answer.as_ref().err().filter(is_silent);
        lock(&self.state).last_failure = silent.map(|error| (Instant::now(), error.clone()));
        answer
    }

    /// Returns a namespace, `Some(None)` if it doesn't exist, or `None` if the cache doesn't know.
    fn namespace(&self, name: &str) -> Option<Option<Object>> {
        let state = lock(&self.state);
        let found = state.namespaces.as_ref()?.get(name).map(|namespace| namespace.to_object(name));
        drop(state);
        match found {
            None => Some(None),
            Some(object) => object.map(Some),
        }
    }
}

impl CacheState {
    /// Returns the discovery data for charts, if it is still valid.
    fn capabilities(&self) -> Option<Arc<Capabilities>> {
        let (at, found) = self.capabilities.as_ref()?;
        self.is_current(*at, CHARTS_UNWATCHED_AGE_MAX).then(|| Arc::clone(found))
    }

    /// Returns true if data that was read at `at` is still valid. `unwatched` is the maximum age of data that
    /// isn't watched.
    fn is_current(&self, at: Instant, unwatched: Duration) -> bool {
        let age = at.elapsed();
        let lasts = if self.watched_definitions.len() == definition_kinds().len() {
            WATCHED_AGE_MAX
        } else {
            unwatched
        };
        let is_since =
            |changed: Instant| at > changed && (age < SHARED_AGE_MAX || at >= changed + SETTLING_TIME);
        age < lasts
            && self.definitions_changed_at.is_none_or(is_since)
            && self.invalid_before.is_none_or(|void| at > void)
    }

    /// Returns the discovery data if it is still valid and has the required kinds.
    fn valid_discovery(&self, kinds: &BTreeSet<Gvk>) -> Option<(Instant, Arc<Discovery>)> {
        let (at, discovery) = self.discovery.as_ref()?;
        let is_there = |gvk: &Gvk| {
            let kind = discovery.get(&gvk.group_kind());
            kind.is_some_and(|kind| kind.versions.contains(&gvk.version))
        };
        let suffices = at.elapsed() < SHARED_AGE_MAX || kinds.iter().all(is_there);
        (self.is_current(*at, UNWATCHED_AGE_MAX) && suffices).then(|| (*at, Arc::clone(discovery)))
    }
}

/// Returns the discovery data for charts. A group that doesn't respond keeps its version and previous kinds.
/// Without them, charts would omit objects that a sync would then prune.
fn merge_capabilities(served: &Discovery, kube_version: String, before: &Capabilities) -> Capabilities {
    let each = served.kinds.iter().flat_map(|(kind, info)| {
        info.versions.iter().map(|version| Gvk::new(&kind.group, version, &kind.kind))
    });
    let mut all: BTreeSet<String> =
        each.flat_map(|gvk| [format!("{}/{}", gvk.api_version(), gvk.kind), gvk.api_version()]).collect();
    for (group, version) in &served.unavailable_versions {
        let version = Gvk::new(group, version, "").api_version();
        let below = format!("{version}/");
        let of_it = before.api_versions.iter().filter(|one| one.starts_with(&below));
        all.extend(of_it.cloned().chain([version]));
    }
    Capabilities { kube_version, api_versions: all.into_iter().collect() }
}

impl CachedNamespace {
    fn from_object(object: &Object) -> Self {
        let deletion = object.text("/metadata/deletionTimestamp");
        Self {
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            deletion: (!deletion.is_empty()).then(|| deletion.to_owned()),
        }
    }

    /// Returns true if the namespace has changed in a way that affects Applications with objects in it.
    fn differs(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| (&before.uid, &before.deletion) != (&self.uid, &self.deletion))
    }

    fn to_object(&self, name: &str) -> Option<Object> {
        let Self { uid, resource_version, deletion } = self;
        let mut object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": resource_version},
        });
        if let (Some(deletion), Some(metadata)) = (deletion, object.pointer_mut("/metadata")) {
            metadata.as_object_mut()?.insert("deletionTimestamp".to_owned(), json!(deletion));
        }
        Object::try_from(object).ok()
    }
}

/// Returns the group in a definition's name: `kinds.group`, `version.group`.
fn group_of(definition: &Object) -> &str {
    definition.name().split_once('.').map_or("", |(_, group)| group)
}

/// Log state for a failing watch. True if the current failure has already been logged.
#[derive(Default)]
struct WatchFailureLog(bool);

impl WatchFailureLog {
    /// Logs that a kind can't be watched. `instead` describes the fallback.
    fn log_failure(&mut self, gvk: &Gvk, error: &ClusterError, instead: &str) {
        if std::mem::replace(&mut self.0, true) {
            return;
        }
        let may_not = error.kind == ErrorKind::Forbidden;
        let hint =
            if may_not { "; grant list and watch on this kind to detect changes immediately" } else { "" };
        tracing::warn!(kind = %gvk, %error, "failed to watch {}; {instead}{hint}", gvk.kind);
    }

    fn reset(&mut self) {
        self.0 = false;
    }
}

async fn watch_definitions(
    cluster: Arc<dyn Cluster>,
    gvk: Gvk,
    state: Arc<Mutex<CacheState>>,
    notify: impl Fn(ClusterChange),
) {
    let scope = Scope { detail: Detail::Metadata, ..Scope::complete_objects(gvk.clone()) };
    let mut changes = list_and_watch(cluster, scope, WATCH_RETRY_DELAYS);
    let mut blind = WatchFailureLog::default();
    while let Some(change) = changes.next().await {
        match change {
            ScopeChange::Listed(_) => {
                blind.reset();
                let mut state = lock(&state);
                // Changes that occurred before this list may have been missed.
                state.invalid_before = Some(Instant::now());
                state.watched_definitions.insert(gvk.clone());
            }
            ScopeChange::Applied(object) | ScopeChange::Deleted(object) => {
                lock(&state).definitions_changed_at = Some(Instant::now());
                notify(ClusterChange::Group(group_of(&object).to_owned()));
            }
            ScopeChange::Failing(error) => {
                lock(&state).watched_definitions.remove(&gvk);
                blind.log_failure(&gvk, &error, "polling API discovery every ten seconds");
            }
        }
    }
}

async fn watch_namespaces(
    cluster: Arc<dyn Cluster>,
    state: Arc<Mutex<CacheState>>,
    notify: impl Fn(ClusterChange),
) {
    let scope = Scope { detail: Detail::Metadata, ..Scope::complete_objects(namespace_kind()) };
    let mut changes = list_and_watch(cluster, scope, WATCH_RETRY_DELAYS);
    // Namespaces that the previous watch reported.
    let mut before: Option<BTreeMap<String, CachedNamespace>> = None;
    let mut blind = WatchFailureLog::default();
    while let Some(change) = changes.next().await {
        let mut news = BTreeSet::new();
        match change {
            ScopeChange::Listed(objects) => {
                blind.reset();
                let now: BTreeMap<_, _> = objects
                    .iter()
                    .map(|one| (one.name().to_owned(), CachedNamespace::from_object(one)))
                    .collect();
                let was = lock(&state).namespaces.replace(now.clone()).or_else(|| before.take());
                if let Some(was) = was {
                    let others = now.iter().filter(|(name, one)| one.differs(was.get(*name)));
                    let gone = was.keys().filter(|name| !now.contains_key(*name));
                    news.extend(others.map(|(name, _)| name.clone()).chain(gone.cloned()));
                }
            }
            ScopeChange::Applied(object) => {
                let (name, now) = (object.name().to_owned(), CachedNamespace::from_object(&object));
                if let Some(all) = &mut lock(&state).namespaces {
                    let was = all.insert(name.clone(), now.clone());
                    news.extend(now.differs(was.as_ref()).then_some(name));
                }
            }
            ScopeChange::Deleted(object) => {
                if let Some(all) = &mut lock(&state).namespaces {
                    all.remove(object.name());
                }
                news.insert(object.name().to_owned());
            }
            ScopeChange::Failing(error) => {
                before = lock(&state).namespaces.take().or_else(|| before.take());
                blind.log_failure(
                    &namespace_kind(),
                    &error,
                    "each comparison will read the namespaces that it needs",
                );
            }
        }
        news.into_iter().for_each(|name| notify(ClusterChange::Namespace(name)));
    }
}

/// Cluster that a comparison reads from. Cached data isn't queried again.
pub(super) struct CachedCluster {
    pub cluster: Arc<dyn Cluster>,
    pub discovery: Arc<DiscoveryCache>,
    /// Kinds of the manifests.
    pub required_kinds: BTreeSet<Gvk>,
}

impl Layer for CachedCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn discover(&self) -> Result<Discovery, ClusterError> {
        let (_, served) = self.discovery.discovery(self.cluster.as_ref(), &self.required_kinds).await?;
        Ok(Discovery::clone(&served))
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        match self.discovery.namespace(name).filter(|_| *gvk == namespace_kind()) {
            Some(found) => Ok(found),
            None => self.cluster.get(gvk, namespace, name).await,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod tests;
