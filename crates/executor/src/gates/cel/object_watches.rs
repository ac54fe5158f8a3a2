//! Watches of objects in a cluster, for gates. Gates that select the same objects share a watch, which stays
//! open while any of them exists.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Scope, WatchEvent};
use tidegate_model::{Destination, Object};
use tokio::sync::{Semaphore, watch};

/// Delay before a closed or failed watch is reopened. Doubles up to [`RETRY_MAX`] until a watch succeeds.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Maximum delay before a watch is reopened.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Selection of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selection {
    /// Kind, and the namespace if limited to one.
    pub scope: Scope,
    /// Required name.
    pub name: Option<String>,
    /// Required labels.
    pub labels: BTreeMap<String, String>,
}

impl Selection {
    fn matches(&self, object: &Object) -> bool {
        self.name.as_ref().is_none_or(|name| object.name() == name)
            && self.labels.iter().all(|(name, value)| object.label(name) == Some(value))
    }
}

/// Namespace and name of an object of a known kind.
pub(super) type Place = (String, String);

/// Result of a watch.
#[derive(Clone, Debug, Default)]
pub(super) enum View {
    /// The first list hasn't arrived.
    #[default]
    Pending,
    /// The objects can't be read, for this reason.
    Unreadable(String),
    /// The selected objects, by namespace and name.
    Listed(BTreeMap<Place, Arc<Object>>),
}

type Key = (Destination, Selection);

/// An engine's object watches for gates.
#[derive(Clone, Default)]
pub(crate) struct ObjectWatches(Arc<Mutex<BTreeMap<Key, watch::Sender<View>>>>);

/// A connection to a cluster.
#[derive(Clone)]
pub(crate) struct ClusterConnection {
    /// Destination that requests use for the cluster.
    pub destination: Destination,
    /// Cluster for the watches.
    pub cluster: Arc<dyn Cluster>,
    /// Limit on concurrent calls. Opening a watch counts as a call, but an open watch doesn't.
    pub permits: Arc<Semaphore>,
}

impl ObjectWatches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, watch::Sender<View>>> {
        // Every change under the lock is a single operation, so a panic can't leave a partial change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches objects until the receiver is dropped.
    pub(super) fn subscribe(
        &self,
        connection: &ClusterConnection,
        selection: &Selection,
    ) -> watch::Receiver<View> {
        let key = (connection.destination.clone(), selection.clone());
        let mut watches = self.lock();
        if let Some(known) = watches.get(&key) {
            return known.subscribe();
        }
        let (sender, receiver) = watch::channel(View::Pending);
        watches.insert(key.clone(), sender.clone());
        drop(watches);
        let (objects, connection) = (self.clone(), connection.clone());
        tokio::spawn(async move {
            loop {
                let watching =
                    AssertUnwindSafe(watch_with_retries(&connection, &key.1, &sender)).catch_unwind();
                tokio::select! {
                    () = sender.closed() => {
                        if objects.remove_if_unused(&key, &sender) {
                            return;
                        }
                    }
                    _ = watching => {
                        tracing::error!(kind = %key.1.scope.gvk, "a watch for a gate panicked; restarting it");
                        sender.send_replace(View::Unreadable("internal error in the watch".to_owned()));
                        tokio::time::sleep(RETRY_MAX).await;
                    }
                }
            }
        });
        receiver
    }

    /// Removes a watch, unless it has a new subscriber.
    fn remove_if_unused(&self, key: &Key, sender: &watch::Sender<View>) -> bool {
        let mut watches = self.lock();
        let is_over = sender.is_closed();
        if is_over {
            watches.remove(key);
        }
        is_over
    }

    /// Returns the number of watches, for tests.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}

async fn watch_with_retries(
    connection: &ClusterConnection,
    selection: &Selection,
    view: &watch::Sender<View>,
) {
    let mut wait = RETRY_MIN;
    loop {
        match list_and_watch(connection, selection, view, &mut wait).await {
            // Don't busy-loop if a server closes each watch immediately.
            Ok(()) => tokio::time::sleep(RETRY_MIN).await,
            Err(error) => {
                if error.kind != ErrorKind::Gone {
                    view.send_replace(View::Unreadable(error.to_string()));
                }
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2).min(RETRY_MAX);
            }
        }
    }
}

async fn list_and_watch(
    connection: &ClusterConnection,
    selection: &Selection,
    view: &watch::Sender<View>,
    wait: &mut Duration,
) -> Result<(), ClusterError> {
    let Ok(permit) = connection.permits.acquire().await else { return Ok(()) };
    let listing = connection.cluster.list(&selection.scope).await;
    drop(permit);
    let listing = listing?;
    let chosen = listing.objects.into_iter().filter(|object| selection.matches(object));
    view.send_replace(View::Listed(chosen.map(|object| (place_of(&object), Arc::new(object))).collect()));
    let Ok(permit) = connection.permits.acquire().await else { return Ok(()) };
    let changes = connection.cluster.watch(&selection.scope, &listing.resource_version).await;
    drop(permit);
    let mut changes = changes?;
    *wait = RETRY_MIN;
    while let Some(change) = changes.next().await {
        match change {
            Ok(WatchEvent::Applied(object)) if selection.matches(&object) => {
                update_view(view, place_of(&object), Some(object));
            }
            Ok(WatchEvent::Applied(object) | WatchEvent::Deleted(object)) => {
                update_view(view, place_of(&object), None)
            }
            Ok(WatchEvent::Bookmark(_)) => {}
            // List the objects again, which also shows whether the cluster responds.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

fn place_of(object: &Object) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}

/// Changes one object of a view.
fn update_view(view: &watch::Sender<View>, place: Place, object: Option<Object>) {
    view.send_if_modified(|view| {
        let View::Listed(shown) = view else { return false };
        match object {
            Some(object) => {
                shown.insert(place, Arc::new(object));
                true
            }
            None => shown.remove(&place).is_some(),
        }
    });
}

#[cfg(test)]
mod tests;
