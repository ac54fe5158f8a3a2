//! Who cares when an object in the cluster changes. One watch per kind, of metadata only, serves all applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, Detail, Followed, Pauses, Scope, follow};
use tidegate_model::{Destination, GroupKind, Gvk, ObjectKey};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::places::Place;
use super::store::AppKey;

/// After a watch has ended it is begun again, later each time it is in vain.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };

/// The watches of one cluster.
pub(crate) struct Watching {
    cluster: Arc<dyn Cluster>,
    tell: UnboundedSender<AppKey>,
    index: Arc<Mutex<Index>>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Index {
    owners: BTreeMap<ObjectKey, BTreeSet<AppKey>>,
    objects: BTreeMap<AppKey, BTreeMap<ObjectKey, Gvk>>,
    watched: BTreeMap<Gvk, Watched>,
}

/// A watch, which ends when it is dropped.
struct Watched {
    /// So many applications have objects of its kind.
    users: usize,
    task: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Index {
    /// Ends the watches of kinds that nobody has any more.
    fn tidy(&mut self) {
        self.watched.retain(|_, watched| watched.users > 0);
    }

    /// All who have objects of a kind.
    fn owners_of(&self, kind: &GroupKind) -> BTreeSet<AppKey> {
        let of_kind = self.owners.iter().filter(|(object, _)| object.group_kind() == *kind);
        of_kind.flat_map(|(_, owners)| owners.iter().cloned()).collect()
    }

    fn forget(&mut self, application: &AppKey) {
        let objects = self.objects.remove(application).unwrap_or_default();
        for gvk in objects.values().collect::<BTreeSet<_>>() {
            if let Some(watched) = self.watched.get_mut(gvk) {
                watched.users = watched.users.saturating_sub(1);
            }
        }
        for object in objects.into_keys() {
            if let Some(owners) = self.owners.get_mut(&object) {
                owners.remove(application);
                if owners.is_empty() {
                    self.owners.remove(&object);
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The watches of all clusters.
pub(crate) struct Watchings {
    tell: UnboundedSender<AppKey>,
    clusters: Mutex<BTreeMap<Destination, Watching>>,
}

impl Watchings {
    /// Watches nothing yet; the receiver is told whose objects have changed.
    pub fn new() -> (Self, UnboundedReceiver<AppKey>) {
        let (tell, told) = unbounded_channel();
        (Self { tell, clusters: Mutex::default() }, told)
    }

    /// An application cares for these objects of a cluster, whether they are there or not, and for no others.
    pub fn set(&self, application: &AppKey, place: Place, objects: BTreeMap<ObjectKey, Gvk>) {
        let Place { destination, cluster, .. } = place;
        let mut clusters = lock(&self.clusters);
        for (_, other) in clusters.iter().filter(|(one, _)| **one != destination) {
            other.forget(application);
        }
        let watching =
            clusters.entry(destination).or_insert_with(|| Watching::of(cluster, self.tell.clone()));
        watching.set(application, objects);
    }

    /// An application cares for nothing any more.
    pub fn forget(&self, application: &AppKey) {
        lock(&self.clusters).values().for_each(|watching| watching.forget(application));
    }
}

impl Watching {
    fn of(cluster: Arc<dyn Cluster>, tell: UnboundedSender<AppKey>) -> Self {
        Self { cluster, tell, index: Arc::default(), tasks: Mutex::default() }
    }

    /// Watches nothing yet; the receiver is told whose objects have changed.
    #[cfg(test)]
    pub fn new(cluster: Arc<dyn Cluster>) -> (Self, UnboundedReceiver<AppKey>) {
        let (tell, told) = unbounded_channel();
        (Self::of(cluster, tell), told)
    }

    /// An application cares for these objects, whether they are there or not, and for no others.
    pub fn set(&self, application: &AppKey, objects: BTreeMap<ObjectKey, Gvk>) {
        let mut index = lock(&self.index);
        index.forget(application);
        for object in objects.keys() {
            index.owners.entry(object.clone()).or_default().insert(application.clone());
        }
        for gvk in objects.values().collect::<BTreeSet<_>>() {
            let watched = index.watched.entry(gvk.clone()).or_insert_with(|| self.watch(gvk));
            watched.users = watched.users.saturating_add(1);
        }
        index.objects.insert(application.clone(), objects);
        // Those that it still has were never without anybody.
        index.tidy();
    }

    fn watch(&self, gvk: &Gvk) -> Watched {
        let scope = Scope { gvk: gvk.clone(), namespace: None, detail: Detail::Metadata };
        let (cluster, tell, index) = (Arc::clone(&self.cluster), self.tell.clone(), Arc::clone(&self.index));
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        let task = tasks.spawn(async move { tell_of_changes(cluster, scope, &tell, &index).await });
        Watched { users: 0, task }
    }

    /// An application cares for nothing any more.
    pub fn forget(&self, application: &AppKey) {
        let mut index = lock(&self.index);
        index.forget(application);
        index.tidy();
    }
}

/// Goes on for as long as anybody listens. What was missed between two watches concerns everybody who has such objects.
async fn tell_of_changes(
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    tell: &UnboundedSender<AppKey>,
    index: &Mutex<Index>,
) {
    let kind = scope.gvk.group_kind();
    let mut changes = follow(cluster, scope, PAUSES);
    let mut missed = false;
    while let Some(change) = changes.next().await {
        let owners: BTreeSet<AppKey> = match change {
            Followed::Applied(object) | Followed::Deleted(object) => {
                lock(index).owners.get(&object.key()).cloned().unwrap_or_default()
            }
            Followed::Listed(_) => {
                let owners = if missed { lock(index).owners_of(&kind) } else { BTreeSet::new() };
                missed = true;
                owners
            }
            Followed::Failing(error) => {
                tracing::info!(kind = %kind.kind, %error, "a watch has ended and is begun again");
                missed = true;
                BTreeSet::new()
            }
        };
        owners.into_iter().for_each(|owner| drop(tell.send(owner)));
        if tell.is_closed() {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::json;
    use tidegate_cluster::{ApplyRequest, WriteMode};
    use tidegate_model::Object;

    use super::*;
    use crate::simulated;

    fn key(name: &str) -> AppKey {
        AppKey { namespace: "argocd".to_owned(), name: name.to_owned() }
    }

    fn map(name: &str) -> (ObjectKey, Gvk) {
        (ObjectKey::new("", "ConfigMap", "default", name), Gvk::new("", "v1", "ConfigMap"))
    }

    async fn write(cluster: &dyn Cluster, name: &str, value: usize) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": {"value": value.to_string()},
        });
        let mode = WriteMode::Apply { force: true };
        cluster.apply(ApplyRequest::new(Object::try_from(object).unwrap(), mode)).await.unwrap();
    }

    /// Writes until somebody is told: a watch begins in its own time.
    async fn told(cluster: &dyn Cluster, told: &mut UnboundedReceiver<AppKey>, name: &str) -> AppKey {
        for value in 0.. {
            write(cluster, name, value).await;
            let waiting = tokio::time::timeout(Duration::from_millis(50), told.recv());
            if let Ok(Some(key)) = waiting.await {
                return key;
            }
        }
        unreachable!("it goes on until somebody is told")
    }

    #[tokio::test]
    async fn whoever_has_an_object_is_told_of_it_and_nobody_else() {
        let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty());
        let (watching, mut told_of) = Watching::new(Arc::clone(&cluster));
        watching.set(&key("one"), [map("a"), map("b")].into());
        watching.set(&key("two"), [map("c")].into());
        assert_eq!(told(cluster.as_ref(), &mut told_of, "c").await, key("two"));
        assert_eq!(told(cluster.as_ref(), &mut told_of, "b").await, key("one"));
        assert_eq!(lock(&watching.index).watched.len(), 1, "one watch for the kind");
        // What it no longer has is none of its business; what it has now is.
        watching.set(&key("one"), [map("a")].into());
        watching.forget(&key("two"));
        while told_of.try_recv().is_ok() {}
        write(cluster.as_ref(), "b", 1_000).await;
        write(cluster.as_ref(), "c", 1_000).await;
        assert_eq!(told(cluster.as_ref(), &mut told_of, "a").await, key("one"));
        let index = lock(&watching.index);
        assert_eq!((index.owners.len(), index.objects.len()), (1, 1));
    }

    #[tokio::test]
    async fn a_watch_ends_with_the_last_who_has_such_objects() {
        let (watching, _told) = Watching::new(Arc::new(simulated::empty()));
        let secret = (ObjectKey::new("", "Secret", "default", "a"), Gvk::new("", "v1", "Secret"));
        let kinds = || lock(&watching.index).watched.keys().map(|gvk| gvk.kind.clone()).collect::<Vec<_>>();
        let task =
            |kind: &str| lock(&watching.index).watched.get(&Gvk::new("", "v1", kind)).unwrap().task.id();
        watching.set(&key("one"), [map("a"), map("b"), secret].into());
        watching.set(&key("two"), [map("c")].into());
        assert_eq!(kinds(), ["ConfigMap", "Secret"]);
        let before = task("ConfigMap");
        watching.set(&key("one"), [map("a")].into());
        assert_eq!(kinds(), ["ConfigMap"]);
        watching.forget(&key("one"));
        assert_eq!(
            (kinds(), task("ConfigMap")),
            (vec!["ConfigMap".to_owned()], before),
            "it was not begun anew"
        );
        watching.forget(&key("two"));
        assert_eq!(kinds(), Vec::<String>::new());
        // What has ended ends.
        let mut tasks = std::mem::take(&mut *lock(&watching.tasks));
        while tasks.join_next().await.is_some() {}
    }
}
