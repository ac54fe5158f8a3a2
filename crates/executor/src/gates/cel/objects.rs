//! Objects of a cluster, as a watch shows them: one watch for all that ask about the same objects, for as long as anybody does.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Scope, WatchEvent};
use tidegate_model::{Destination, Object};
use tokio::sync::{Semaphore, watch};

/// Wait after a watch that ended, or failed; doubled up to [`RETRY_MAX`] while nothing succeeds.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest wait until a watch is opened again.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Which objects are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selection {
    /// Their kind, and their namespace if it matters.
    pub scope: Scope,
    /// Only those of this name.
    pub name: Option<String>,
    /// Only those that have all these labels.
    pub labels: BTreeMap<String, String>,
}

impl Selection {
    fn has(&self, object: &Object) -> bool {
        self.name.as_ref().is_none_or(|name| object.name() == name)
            && self.labels.iter().all(|(name, value)| object.label(name) == Some(value))
    }
}

/// Namespace and name of an object of a known kind.
pub(super) type Place = (String, String);

/// What a watch shows.
#[derive(Clone, Debug, Default)]
pub(super) enum View {
    /// The first list has not come yet.
    #[default]
    Pending,
    /// The cluster does not show them, for this reason.
    Hidden(String),
    /// The objects that are there and are meant, by their places.
    Shown(BTreeMap<Place, Arc<Object>>),
}

type Key = (Destination, Selection);

/// The watches of an engine that gates need.
#[derive(Clone, Default)]
pub(crate) struct Objects(Arc<Mutex<BTreeMap<Key, watch::Sender<View>>>>);

/// The way to a cluster.
#[derive(Clone)]
pub(crate) struct Way {
    /// The cluster, as requests name it.
    pub destination: Destination,
    /// Where the watches are opened.
    pub cluster: Arc<dyn Cluster>,
    /// Bounds the calls on their way. An open watch is not a call; opening it is.
    pub permits: Arc<Semaphore>,
}

impl Objects {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, watch::Sender<View>>> {
        // Every change under the lock is a single one, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows objects until the receiver is dropped.
    pub(super) fn follow(&self, way: &Way, selection: &Selection) -> watch::Receiver<View> {
        let key = (way.destination.clone(), selection.clone());
        let mut watches = self.lock();
        if let Some(known) = watches.get(&key) {
            return known.subscribe();
        }
        let (sender, receiver) = watch::channel(View::Pending);
        watches.insert(key.clone(), sender.clone());
        drop(watches);
        let (objects, way) = (self.clone(), way.clone());
        tokio::spawn(async move {
            loop {
                let watching = AssertUnwindSafe(again_and_again(&way, &key.1, &sender)).catch_unwind();
                tokio::select! {
                    () = sender.closed() => {
                        if objects.forgot(&key, &sender) {
                            return;
                        }
                    }
                    _ = watching => {
                        tracing::error!(kind = %key.1.scope.gvk, "a watch for a gate panicked; beginning again");
                        sender.send_replace(View::Hidden("the watch met a fault inside the engine".to_owned()));
                        tokio::time::sleep(RETRY_MAX).await;
                    }
                }
            }
        });
        receiver
    }

    /// Forgets a watch, unless somebody has just asked for it.
    fn forgot(&self, key: &Key, sender: &watch::Sender<View>) -> bool {
        let mut watches = self.lock();
        let is_over = sender.is_closed();
        if is_over {
            watches.remove(key);
        }
        is_over
    }

    /// How many watches there are, for tests.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}

async fn again_and_again(way: &Way, selection: &Selection, view: &watch::Sender<View>) {
    let mut wait = RETRY_MIN;
    loop {
        match list_and_watch(way, selection, view, &mut wait).await {
            // A server that ends each watch at once must not keep us busy.
            Ok(()) => tokio::time::sleep(RETRY_MIN).await,
            Err(error) => {
                if error.kind != ErrorKind::Gone {
                    view.send_replace(View::Hidden(error.to_string()));
                }
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2).min(RETRY_MAX);
            }
        }
    }
}

async fn list_and_watch(
    way: &Way,
    selection: &Selection,
    view: &watch::Sender<View>,
    wait: &mut Duration,
) -> Result<(), ClusterError> {
    let Ok(permit) = way.permits.acquire().await else { return Ok(()) };
    let listing = way.cluster.list(&selection.scope).await;
    drop(permit);
    let listing = listing?;
    let chosen = listing.objects.into_iter().filter(|object| selection.has(object));
    view.send_replace(View::Shown(chosen.map(|object| (place(&object), Arc::new(object))).collect()));
    let Ok(permit) = way.permits.acquire().await else { return Ok(()) };
    let changes = way.cluster.watch(&selection.scope, &listing.resource_version).await;
    drop(permit);
    let mut changes = changes?;
    *wait = RETRY_MIN;
    while let Some(change) = changes.next().await {
        match change {
            Ok(WatchEvent::Applied(object)) if selection.has(&object) => {
                show(view, place(&object), Some(object));
            }
            Ok(WatchEvent::Applied(object) | WatchEvent::Deleted(object)) => show(view, place(&object), None),
            Ok(WatchEvent::Bookmark(_)) => {}
            // It is listed anew, which tells whether the cluster answers.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

fn place(object: &Object) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}

/// Changes one object of what is shown.
fn show(view: &watch::Sender<View>, place: Place, object: Option<Object>) {
    view.send_if_modified(|view| {
        let View::Shown(shown) = view else { return false };
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
