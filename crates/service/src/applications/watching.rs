//! Who cares when an object in the cluster changes. One watch per kind, or per kind and namespace where all may not be
//! watched, of metadata only, serves all applications.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, Detail, ErrorKind, Followed, Pauses, Scope, follow};
use tidegate_model::{Destination, Gvk, ObjectKey};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::places::Place;
use super::store::AppKey;

/// After a watch has ended it is begun again, later each time it is in vain.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };

/// The watches of one cluster.
pub(crate) struct Watching(Arc<Inner>);

struct Inner {
    cluster: Arc<dyn Cluster>,
    tell: UnboundedSender<AppKey>,
    index: Mutex<Index>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Index {
    owners: BTreeMap<ObjectKey, BTreeSet<AppKey>>,
    objects: BTreeMap<AppKey, BTreeMap<ObjectKey, Gvk>>,
    /// What is watched for each application: all objects of a kind, or those of a namespace.
    scopes: BTreeMap<AppKey, BTreeSet<Scope>>,
    watched: BTreeMap<Scope, Watched>,
    /// Kinds that may not be watched in all namespaces at once.
    narrow: BTreeSet<Gvk>,
}

/// A watch, which ends when it is dropped.
struct Watched {
    /// So many applications have such objects.
    users: usize,
    task: AbortHandle,
    /// Why its objects may not be watched.
    forbidden: Option<String>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Index {
    /// Ends the watches that nobody needs any more.
    fn tidy(&mut self) {
        self.watched.retain(|_, watched| watched.users > 0);
        let watched = &self.watched;
        // Whoever has such objects later may be allowed more.
        self.narrow.retain(|gvk| watched.keys().any(|scope| scope.gvk == *gvk));
    }

    /// All who have objects of a scope.
    fn owners_in(&self, scope: &Scope) -> BTreeSet<AppKey> {
        let kind = scope.gvk.group_kind();
        let is_there = |object: &ObjectKey| {
            object.group_kind() == kind && scope.namespace.as_ref().is_none_or(|one| *one == object.namespace)
        };
        let there = self.owners.iter().filter(|(object, _)| is_there(object));
        there.flat_map(|(_, owners)| owners.iter().cloned()).collect()
    }

    /// Where objects are watched.
    fn scopes_of(&self, objects: &BTreeMap<ObjectKey, Gvk>) -> BTreeSet<Scope> {
        let scope = |(object, gvk): (&ObjectKey, &Gvk)| {
            let is_narrow = self.narrow.contains(gvk) && !object.namespace.is_empty();
            let namespace = is_narrow.then(|| object.namespace.clone());
            Scope { gvk: gvk.clone(), namespace, detail: Detail::Metadata }
        };
        objects.iter().map(scope).collect()
    }

    fn forget(&mut self, application: &AppKey) {
        self.leave(application);
        for object in self.objects.remove(application).unwrap_or_default().into_keys() {
            if let Some(owners) = self.owners.get_mut(&object) {
                owners.remove(application);
                if owners.is_empty() {
                    self.owners.remove(&object);
                }
            }
        }
    }

    /// Nothing is watched for an application any more.
    fn leave(&mut self, application: &AppKey) {
        for scope in self.scopes.remove(application).unwrap_or_default() {
            if let Some(watched) = self.watched.get_mut(&scope) {
                watched.users = watched.users.saturating_sub(1);
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

    /// Of which objects of an application changes are not seen, because they may not be watched.
    pub fn forbidden(&self, application: &AppKey) -> Vec<String> {
        lock(&self.clusters).values().flat_map(|watching| watching.forbidden(application)).collect()
    }

    /// An application cares for nothing any more.
    pub fn forget(&self, application: &AppKey) {
        lock(&self.clusters).values().for_each(|watching| watching.forget(application));
    }
}

impl Watching {
    fn of(cluster: Arc<dyn Cluster>, tell: UnboundedSender<AppKey>) -> Self {
        Self(Arc::new(Inner { cluster, tell, index: Mutex::default(), tasks: Mutex::default() }))
    }

    /// Watches nothing yet; the receiver is told whose objects have changed.
    #[cfg(test)]
    pub fn new(cluster: Arc<dyn Cluster>) -> (Self, UnboundedReceiver<AppKey>) {
        let (tell, told) = unbounded_channel();
        (Self::of(cluster, tell), told)
    }

    /// An application cares for these objects, whether they are there or not, and for no others.
    pub fn set(&self, application: &AppKey, objects: BTreeMap<ObjectKey, Gvk>) {
        let mut index = lock(&self.0.index);
        index.forget(application);
        for object in objects.keys() {
            index.owners.entry(object.clone()).or_default().insert(application.clone());
        }
        index.objects.insert(application.clone(), objects);
        Inner::watch_for(&self.0, &mut index, application, false);
        // Those that it still has were never without anybody.
        index.tidy();
    }

    /// An application cares for nothing any more.
    pub fn forget(&self, application: &AppKey) {
        let mut index = lock(&self.0.index);
        index.forget(application);
        index.tidy();
    }

    /// Of which objects of an application changes are not seen, because they may not be watched.
    pub fn forbidden(&self, application: &AppKey) -> Vec<String> {
        let index = lock(&self.0.index);
        let scopes = index.scopes.get(application).into_iter().flatten();
        scopes.filter_map(|scope| index.watched.get(scope)?.forbidden.clone()).collect()
    }
}

impl Inner {
    /// Has watched what an application has. `late`: something may have happened since that was looked at.
    fn watch_for(this: &Arc<Self>, index: &mut Index, application: &AppKey, late: bool) {
        let scopes = index.objects.get(application).map(|objects| index.scopes_of(objects));
        let scopes = scopes.unwrap_or_default();
        for scope in &scopes {
            let begin =
                || Watched { users: 0, task: Self::watch(this, scope.clone(), late), forbidden: None };
            let watched = index.watched.entry(scope.clone()).or_insert_with(begin);
            watched.users = watched.users.saturating_add(1);
        }
        index.scopes.insert(application.clone(), scopes);
    }

    fn watch(this: &Arc<Self>, scope: Scope, late: bool) -> AbortHandle {
        let (cluster, tell, inner) = (Arc::clone(&this.cluster), this.tell.clone(), Arc::downgrade(this));
        let mut tasks = lock(&this.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { tell_of_changes(cluster, scope, late, &tell, &inner).await })
    }

    /// These may not be watched. Where that is about all namespaces, those of the objects are watched one by one. Says who has
    /// to know of it.
    fn refused(this: &Arc<Self>, scope: &Scope, words: &str) -> BTreeSet<AppKey> {
        let Scope { gvk, namespace, .. } = scope;
        let mut index = lock(&this.index);
        let kind = gvk.group_kind();
        let owners = index.owners_in(scope);
        let has_namespaces =
            index.owners.keys().any(|object| object.group_kind() == kind && !object.namespace.is_empty());
        if namespace.is_none() && has_namespaces && index.narrow.insert(gvk.clone()) {
            for owner in &owners {
                index.leave(owner);
                Self::watch_for(this, &mut index, owner, true);
            }
            // With that this very watch ends, where nobody needs it any more.
            index.tidy();
            return BTreeSet::new();
        }
        let there = namespace.as_ref().map(|one| format!(" in namespace {one}")).unwrap_or_default();
        let message = format!("changes of each {}{there} are not seen: {words}", gvk.kind);
        match index.watched.get_mut(scope) {
            Some(watched) if watched.forbidden.as_ref() != Some(&message) => {
                watched.forbidden = Some(message);
                owners
            }
            _ => BTreeSet::new(),
        }
    }

    /// These are watched now. Says who has to know of it.
    fn listed(&self, scope: &Scope, missed: bool) -> BTreeSet<AppKey> {
        let mut index = lock(&self.index);
        let was_forbidden = index.watched.get_mut(scope).is_some_and(|one| one.forbidden.take().is_some());
        if missed || was_forbidden { index.owners_in(scope) } else { BTreeSet::new() }
    }
}

/// Goes on for as long as anybody listens. What was missed between two watches concerns everybody who has such objects.
async fn tell_of_changes(
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    late: bool,
    tell: &UnboundedSender<AppKey>,
    inner: &Weak<Inner>,
) {
    let mut changes = follow(cluster, scope.clone(), PAUSES);
    let (mut missed, mut told) = (late, None);
    while let Some(change) = changes.next().await {
        let Some(inner) = inner.upgrade() else { return };
        let owners: BTreeSet<AppKey> = match change {
            Followed::Applied(object) | Followed::Deleted(object) => {
                lock(&inner.index).owners.get(&object.key()).cloned().unwrap_or_default()
            }
            Followed::Listed(_) => {
                told = None;
                inner.listed(&scope, std::mem::replace(&mut missed, true))
            }
            Followed::Failing(error) => {
                missed = true;
                let words = error.to_string();
                let owners = match error.kind {
                    ErrorKind::Forbidden => Inner::refused(&inner, &scope, &words),
                    _ => BTreeSet::new(),
                };
                if told.as_ref() != Some(&words) {
                    tracing::info!(
                        kind = scope.gvk.kind,
                        error = words,
                        "a watch has ended and is begun again"
                    );
                    told = Some(words);
                }
                owners
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tidegate_cluster::{ApplyRequest, Call, ClusterError, Layer, Verb, WriteMode};
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
        assert_eq!(lock(&watching.0.index).watched.len(), 1, "one watch for the kind");
        // What it no longer has is none of its business; what it has now is.
        watching.set(&key("one"), [map("a")].into());
        watching.forget(&key("two"));
        while told_of.try_recv().is_ok() {}
        write(cluster.as_ref(), "b", 1_000).await;
        write(cluster.as_ref(), "c", 1_000).await;
        assert_eq!(told(cluster.as_ref(), &mut told_of, "a").await, key("one"));
        let index = lock(&watching.0.index);
        assert_eq!((index.owners.len(), index.objects.len()), (1, 1));
    }

    #[tokio::test]
    async fn a_watch_ends_with_the_last_who_has_such_objects() {
        let (watching, _told) = Watching::new(Arc::new(simulated::empty()));
        let secret = (ObjectKey::new("", "Secret", "default", "a"), Gvk::new("", "v1", "Secret"));
        let kinds =
            || lock(&watching.0.index).watched.keys().map(|scope| scope.gvk.kind.clone()).collect::<Vec<_>>();
        let task = |kind: &str| {
            let scope = Scope { detail: Detail::Metadata, ..Scope::all(Gvk::new("", "v1", kind)) };
            lock(&watching.0.index).watched.get(&scope).unwrap().task.id()
        };
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
        let mut tasks = std::mem::take(&mut *lock(&watching.0.tasks));
        while tasks.join_next().await.is_some() {}
    }

    /// A cluster that forbids so many lists, and permits all that come after.
    struct Forbidding(Arc<dyn Cluster>, AtomicUsize);

    impl Layer for Forbidding {
        fn inner(&self) -> &dyn Cluster {
            self.0.as_ref()
        }

        async fn around<T: Send>(
            &self,
            call: Call,
            answer: impl Future<Output = Result<T, ClusterError>> + Send,
        ) -> Result<T, ClusterError> {
            let take = |left: usize| left.checked_sub(1);
            let is_forbidden = call.verb == Verb::List
                && self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
            if is_forbidden {
                return Err(ClusterError::new(ErrorKind::Forbidden, "configmaps is forbidden"));
            }
            answer.await
        }
    }

    #[tokio::test]
    async fn where_a_kind_may_not_be_watched_the_namespaces_of_its_objects_are() {
        let cluster: Arc<dyn Cluster> = Arc::new(Forbidding(Arc::new(simulated::empty()), 1.into()));
        let (watching, mut told_of) = Watching::new(Arc::clone(&cluster));
        watching.set(&key("one"), [map("a")].into());
        assert_eq!(told(cluster.as_ref(), &mut told_of, "a").await, key("one"));
        let scopes = || lock(&watching.0.index).watched.keys().cloned().collect::<Vec<_>>();
        let narrow = Scope {
            namespace: Some("default".to_owned()),
            detail: Detail::Metadata,
            ..Scope::all(Gvk::new("", "v1", "ConfigMap"))
        };
        assert_eq!(scopes(), std::slice::from_ref(&narrow));
        assert_eq!(watching.forbidden(&key("one")), Vec::<String>::new());
        // Who comes later begins there, and the last one who goes takes it along.
        watching.set(&key("two"), [map("b")].into());
        watching.forget(&key("one"));
        assert_eq!(scopes(), [narrow]);
        watching.forget(&key("two"));
        assert!(scopes().is_empty() && lock(&watching.0.index).narrow.is_empty());
    }

    #[tokio::test]
    async fn where_nothing_may_be_watched_that_is_said() {
        let cluster = Forbidding(Arc::new(simulated::empty()), usize::MAX.into());
        let (watching, mut told_of) = Watching::new(Arc::new(cluster));
        watching.set(&key("one"), [map("a")].into());
        assert_eq!(told_of.recv().await, Some(key("one")));
        let forbidden = watching.forbidden(&key("one"));
        assert_eq!(
            forbidden,
            ["changes of each ConfigMap in namespace default are not seen: configmaps is forbidden"]
        );
        assert!(watching.forbidden(&key("two")).is_empty());
    }
}
