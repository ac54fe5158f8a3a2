//! Watches cluster objects, and notifies Applications about changes. All Applications share a metadata-only
//! watch. The watch covers a kind, or a kind in one namespace if access to the whole kind is denied.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, ErrorKind, Scope, ScopeChange, WatchBackoff, list_and_watch};
use tidegate_model::{Destination, Gvk, Object, ObjectKey};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::destinations::ResolvedDestination;
use super::discovery::{ClusterChange, DiscoveryCache};
use index::{ApplicationObjects, ObjectIndex, ScopeWatch};
pub use index::{ObjectState, TrackedObject};
use tidegate_application::AppKey;

/// Backoff between attempts to restart a watch.
const WATCH_RETRY_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(60) };

/// Watches for one cluster.
pub struct ClusterWatches(Arc<Inner>);

struct Inner {
    cluster: Arc<dyn Cluster>,
    notifications: UnboundedSender<AppKey>,
    index: Mutex<ObjectIndex>,
    tasks: Mutex<JoinSet<()>>,
}

/// Position in the sequence of changes to an Application's objects. While the position is unchanged, no
/// change has been observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchPosition {
    destination: Destination,
    clock: u64,
}

impl WatchPosition {
    /// Returns the position before the first change.
    pub fn before_all(destination: &Destination) -> Self {
        Self { destination: destination.clone(), clock: 0 }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Metrics for a cluster's watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchMetrics {
    /// Number of the Applications' objects.
    pub objects: u64,
    /// Number of watched kinds.
    pub kinds: u64,
    /// Number of changes that the watches have reported.
    pub events: u64,
    /// True if there are watches, but none of them works.
    pub is_failing: bool,
}

/// Watches for all clusters.
pub struct WatchRegistry {
    notifications: UnboundedSender<AppKey>,
    clusters: Mutex<BTreeMap<Destination, ClusterWatches>>,
}

impl WatchRegistry {
    /// Creates an empty set of watches. The receiver gets the Applications whose objects have changed.
    pub fn new() -> (Self, UnboundedReceiver<AppKey>) {
        let (notifications, receiver) = unbounded_channel();
        (Self { notifications, clusters: Mutex::default() }, receiver)
    }

    /// Replaces an Application's objects, including missing objects, with those read after `since`. Returns
    /// the position up to which the read covers all reported changes, or `None` if it missed a change.
    pub fn set_objects(
        &self,
        application: &AppKey,
        place: ResolvedDestination,
        objects: BTreeMap<ObjectKey, TrackedObject>,
        since: &WatchPosition,
    ) -> Option<WatchPosition> {
        let ResolvedDestination { destination, cluster, .. } = place;
        let mut clusters = lock(&self.clusters);
        for (_, other) in clusters.iter().filter(|(one, _)| **one != destination) {
            other.remove_application(application);
        }
        // Positions in different clusters aren't comparable.
        let since = if since.destination == destination { since.clock } else { 0 };
        let watching = clusters
            .entry(destination.clone())
            .or_insert_with(|| ClusterWatches::with_notifications(cluster, self.notifications.clone()));
        watching.set_objects(application, objects, since).map(|clock| WatchPosition { destination, clock })
    }

    /// Returns true if a change was reported that the Application may not have read yet.
    pub fn has_unread_changes(&self, application: &AppKey) -> bool {
        lock(&self.clusters).values().any(|watching| watching.has_unread_changes(application))
    }

    /// Returns a cluster's discovery data and namespaces.
    pub fn discovery(&self, place: &ResolvedDestination) -> Arc<DiscoveryCache> {
        let ResolvedDestination { destination, cluster, .. } = place;
        let mut clusters = lock(&self.clusters);
        let begin = || ClusterWatches::with_notifications(Arc::clone(cluster), self.notifications.clone());
        clusters.entry(destination.clone()).or_insert_with(begin).discovery()
    }

    /// Returns a cluster's current position.
    pub fn current_position(&self, destination: &Destination) -> WatchPosition {
        let clock = lock(&self.clusters).get(destination).map_or(0, ClusterWatches::current_clock);
        WatchPosition { destination: destination.clone(), clock }
    }

    /// Returns an Application's current position, or `None` if changes to its objects aren't being observed.
    pub fn position(&self, application: &AppKey, destination: &Destination) -> Option<WatchPosition> {
        let clock = lock(&self.clusters).get(destination)?.last_change(application)?;
        Some(WatchPosition { destination: destination.clone(), clock })
    }

    /// Returns true if the objects that were read differ from earlier reports, so that either the read or the
    /// reports are outdated.
    pub fn is_outdated(&self, application: &AppKey) -> bool {
        lock(&self.clusters).values().any(|watching| watching.is_outdated(application))
    }

    /// Returns messages about an Application's objects that can't be watched because access is denied.
    pub fn forbidden_messages(&self, application: &AppKey) -> Vec<String> {
        lock(&self.clusters).values().flat_map(|watching| watching.forbidden_messages(application)).collect()
    }

    /// Returns a cluster's metrics.
    pub fn metrics(&self, destination: &Destination) -> WatchMetrics {
        lock(&self.clusters).get(destination).map(ClusterWatches::metrics).unwrap_or_default()
    }

    /// Removes all of an Application's objects.
    pub fn remove_application(&self, application: &AppKey) {
        lock(&self.clusters).values().for_each(|watching| watching.remove_application(application));
    }
}

impl ClusterWatches {
    fn with_notifications(cluster: Arc<dyn Cluster>, notifications: UnboundedSender<AppKey>) -> Self {
        Self(Arc::new(Inner { cluster, notifications, index: Mutex::default(), tasks: Mutex::default() }))
    }

    /// Creates an empty set of watches. The receiver gets the Applications whose objects have changed.
    #[cfg(test)]
    pub fn new(cluster: Arc<dyn Cluster>) -> (Self, UnboundedReceiver<AppKey>) {
        let (sender, receiver) = unbounded_channel();
        (Self::with_notifications(cluster, sender), receiver)
    }

    /// Replaces an Application's objects, including missing objects, with those read after `since`. Returns
    /// the position up to which the read covers all reported changes, or `None` if it missed a change.
    pub fn set_objects(
        &self,
        application: &AppKey,
        objects: BTreeMap<ObjectKey, TrackedObject>,
        since: u64,
    ) -> Option<u64> {
        let mut index = lock(&self.0.index);
        let objects = match index.record_read(application, objects, since) {
            Ok(all_up_to) => return all_up_to,
            Err(others) => others,
        };
        let left = index.replace_objects(application, objects, since);
        Inner::start_watches(&self.0, &mut index, application);
        // Do this after adding the new objects, so that watches that are still needed aren't restarted.
        index.end_unused(&left);
        index.apply_missed_changes(application, since)
    }

    fn current_clock(&self) -> u64 {
        lock(&self.0.index).clock
    }

    fn metrics(&self) -> WatchMetrics {
        let index = lock(&self.0.index);
        let kinds: BTreeSet<&Gvk> = index.watches.keys().map(|scope| &scope.gvk).collect();
        let mut allowed = index.watches.values().filter(|watched| watched.forbidden.is_none());
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        WatchMetrics {
            objects: count(index.owners.len()),
            kinds: count(kinds.len()),
            events: index.events,
            is_failing: allowed.clone().next().is_some() && allowed.all(|watched| !watched.is_working),
        }
    }

    fn has_unread_changes(&self, application: &AppKey) -> bool {
        lock(&self.0.index).applications.get(application).is_some_and(ApplicationObjects::has_unread_changes)
    }

    fn is_outdated(&self, application: &AppKey) -> bool {
        lock(&self.0.index).applications.get(application).is_some_and(ApplicationObjects::is_outdated)
    }

    /// Removes all of an Application's objects.
    pub fn remove_application(&self, application: &AppKey) {
        let mut index = lock(&self.0.index);
        let left = index.remove_application(application);
        index.end_unused(&left);
    }

    /// Returns messages about an Application's objects that can't be watched because access is denied.
    pub fn forbidden_messages(&self, application: &AppKey) -> Vec<String> {
        let index = lock(&self.0.index);
        let scopes = index.applications.get(application).into_iter().flat_map(|cares| &cares.scopes);
        scopes.filter_map(|scope| index.watches.get(scope)?.forbidden.clone()).collect()
    }

    fn last_change(&self, application: &AppKey) -> Option<u64> {
        let index = lock(&self.0.index);
        let cares = index.applications.get(application)?;
        let is_seen = |scope| index.watches.get(scope).is_some_and(|watched| watched.is_working);
        cares.scopes.iter().all(is_seen).then_some(cares.changed_at)
    }

    fn discovery(&self) -> Arc<DiscoveryCache> {
        let mut index = lock(&self.0.index);
        let begin = || {
            let (tell, inner) = (self.0.notifications.clone(), Arc::downgrade(&self.0));
            let tell = move |news| {
                let owners =
                    inner.upgrade().map(|inner| inner.affected_applications(&news)).unwrap_or_default();
                owners.into_iter().for_each(|owner| drop(tell.send(owner)));
            };
            Arc::new(DiscoveryCache::new(&self.0.cluster, tell))
        };
        Arc::clone(index.discovery.get_or_insert_with(begin))
    }
}

impl Inner {
    /// Starts the watches for an Application's objects.
    fn start_watches(this: &Arc<Self>, index: &mut ObjectIndex, application: &AppKey) {
        let Some(cares) = index.applications.get(application) else { return };
        let scopes = index.scopes_of(&cares.objects);
        for scope in &scopes {
            let begin = || {
                let task = Self::start_watch(this, scope.clone());
                ScopeWatch { users: 0, is_working: false, listed_at: 0, task, forbidden: None }
            };
            let watched = index.watches.entry(scope.clone()).or_insert_with(begin);
            watched.users = watched.users.saturating_add(1);
        }
        if let Some(cares) = index.applications.get_mut(application) {
            cares.scopes = scopes;
        }
    }

    fn start_watch(this: &Arc<Self>, scope: Scope) -> AbortHandle {
        let (cluster, tell, inner) =
            (Arc::clone(&this.cluster), this.notifications.clone(), Arc::downgrade(this));
        let mut tasks = lock(&this.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { run_watch(cluster, scope, &tell, &inner).await })
    }

    /// Handles a watch that is forbidden. If the watch covers all namespaces, replaces it with watches for
    /// the objects' namespaces. Returns the Applications to notify.
    fn handle_forbidden(this: &Arc<Self>, scope: &Scope, text: &str) -> BTreeSet<AppKey> {
        let Scope { gvk, namespace, .. } = scope;
        let mut index = lock(&this.index);
        let kind = gvk.group_kind();
        let owners = index.owners_in(scope);
        let has_namespaces =
            index.owners.keys().any(|object| object.group_kind() == kind && !object.namespace.is_empty());
        if namespace.is_none() && has_namespaces && index.unwatchable_kinds.insert(gvk.clone()) {
            let mut left = BTreeSet::new();
            for owner in &owners {
                left.extend(index.remove_from_watches(owner));
                Self::start_watches(this, &mut index, owner);
            }
            // Also stops the current watch unless an Application still needs it.
            index.end_unused(&left);
            return BTreeSet::new();
        }
        let there = namespace.as_ref().map(|one| format!(" in namespace {one}")).unwrap_or_default();
        let message = format!("cannot watch {}{there}: {text}", gvk.kind);
        match index.watches.get_mut(scope) {
            Some(watched) if watched.forbidden.as_ref() != Some(&message) => {
                watched.forbidden = Some(message);
                owners
            }
            _ => BTreeSet::new(),
        }
    }

    /// Applies a watch's initial list. Returns the Applications to notify.
    fn apply_list(&self, scope: &Scope, objects: &[Object]) -> BTreeSet<AppKey> {
        let there = objects.iter().map(|object| (object.key(), ObjectState::from_object(object))).collect();
        let mut index = lock(&self.index);
        let was_forbidden = index.watches.get_mut(scope).is_some_and(|one| one.forbidden.take().is_some());
        let mut owners = index.apply_list(scope, &there);
        if was_forbidden {
            let all = index.owners_in(scope);
            index.record_change(&all);
            owners.extend(all);
        }
        owners
    }

    /// Records that a watch has stopped.
    fn handle_watch_end(&self, scope: &Scope) {
        if let Some(watched) = lock(&self.index).watches.get_mut(scope) {
            watched.is_working = false;
        }
    }

    /// Returns the Applications with objects that a change affects.
    fn affected_applications(&self, news: &ClusterChange) -> BTreeSet<AppKey> {
        let mut index = lock(&self.index);
        let owners = match news {
            ClusterChange::Group(group) => {
                index.record_kinds_change();
                index.owners_of(|object| object.group == *group)
            }
            ClusterChange::Namespace(name) => {
                index.namespaces.get(name).into_iter().flat_map(BTreeMap::keys).cloned().collect()
            }
        };
        index.record_change(&owners);
        owners
    }
}

/// Runs a watch until the receiver is dropped.
async fn run_watch(
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    notifications: &UnboundedSender<AppKey>,
    inner: &Weak<Inner>,
) {
    let mut changes = list_and_watch(cluster, scope.clone(), WATCH_RETRY_DELAYS);
    let mut last_warning = None;
    while let Some(change) = changes.next().await {
        let Some(inner) = inner.upgrade() else { return };
        let owners: BTreeSet<AppKey> = match change {
            ScopeChange::Applied(object) => {
                lock(&inner.index).apply_event(&object.key(), &ObjectState::from_object(&object))
            }
            ScopeChange::Deleted(object) => {
                lock(&inner.index).apply_event(&object.key(), &ObjectState::Missing)
            }
            ScopeChange::Listed(objects) => {
                last_warning = None;
                inner.apply_list(&scope, &objects)
            }
            ScopeChange::Failing(error) => {
                inner.handle_watch_end(&scope);
                let text = error.to_string();
                let owners = match error.kind {
                    ErrorKind::Forbidden => Inner::handle_forbidden(&inner, &scope, &text),
                    _ => BTreeSet::new(),
                };
                if last_warning.as_ref() != Some(&text) {
                    tracing::info!(kind = scope.gvk.kind, error = text, "watch ended; restarting");
                    last_warning = Some(text);
                }
                owners
            }
        };
        owners.into_iter().for_each(|owner| drop(notifications.send(owner)));
        if notifications.is_closed() {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod tests;
