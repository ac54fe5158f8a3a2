use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tidegate_cluster::{ApplyRequest, Call, ClusterError, Detail, Layer, Verb, WriteMode};
use tidegate_model::{Gvk, Object};

use super::*;
use crate::simulated;

fn key(name: &str) -> AppKey {
    AppKey { namespace: "argocd".to_owned(), name: name.to_owned() }
}

fn absent(kind: &str, name: &str) -> (ObjectKey, Cared) {
    (
        ObjectKey::new("", kind, "default", name),
        Cared { gvk: Gvk::new("", "v1", kind), state: State::Missing },
    )
}

fn map(name: &str) -> (ObjectKey, Cared) {
    absent("ConfigMap", name)
}

/// As it is now.
async fn read(cluster: &dyn Cluster, name: &str) -> (ObjectKey, Cared) {
    let (key, cared) = map(name);
    let live = cluster.get(&cared.gvk, "default", name).await.unwrap();
    (key, Cared { state: live.as_ref().map_or(State::Missing, State::of), ..cared })
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
    watching.set(&key("one"), [map("a"), map("b")].into(), 0);
    watching.set(&key("two"), [map("c")].into(), 0);
    assert_eq!(told(cluster.as_ref(), &mut told_of, "c").await, key("two"));
    assert_eq!(told(cluster.as_ref(), &mut told_of, "b").await, key("one"));
    assert_eq!(lock(&watching.0.index).watched.len(), 1, "one watch for the kind");
    // What it no longer has is none of its business; what it has now is.
    watching.set(&key("one"), [map("a")].into(), 0);
    watching.forget(&key("two"));
    while told_of.try_recv().is_ok() {}
    write(cluster.as_ref(), "b", 1_000).await;
    write(cluster.as_ref(), "c", 1_000).await;
    assert_eq!(told(cluster.as_ref(), &mut told_of, "a").await, key("one"));
    let index = lock(&watching.0.index);
    assert_eq!((index.owners.len(), index.applications.len()), (1, 1));
}

#[tokio::test]
async fn a_watch_ends_with_the_last_who_has_such_objects() {
    let (watching, _told) = Watching::new(Arc::new(simulated::empty()));
    let secret = absent("Secret", "a");
    let kinds =
        || lock(&watching.0.index).watched.keys().map(|scope| scope.gvk.kind.clone()).collect::<Vec<_>>();
    let task = |kind: &str| {
        let scope = Scope { detail: Detail::Metadata, ..Scope::all(Gvk::new("", "v1", kind)) };
        lock(&watching.0.index).watched.get(&scope).unwrap().task.id()
    };
    watching.set(&key("one"), [map("a"), map("b"), secret].into(), 0);
    watching.set(&key("two"), [map("c")].into(), 0);
    assert_eq!(kinds(), ["ConfigMap", "Secret"]);
    let before = task("ConfigMap");
    watching.set(&key("one"), [map("a")].into(), 0);
    assert_eq!(kinds(), ["ConfigMap"]);
    watching.forget(&key("one"));
    assert_eq!((kinds(), task("ConfigMap")), (vec!["ConfigMap".to_owned()], before), "it was not begun anew");
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
        let is_forbidden =
            call.verb == Verb::List && self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
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
    watching.set(&key("one"), [map("a")].into(), 0);
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
    watching.set(&key("two"), [map("b")].into(), 0);
    watching.forget(&key("one"));
    assert_eq!(scopes(), [narrow]);
    watching.forget(&key("two"));
    assert!(scopes().is_empty() && lock(&watching.0.index).narrow.is_empty());
}

#[tokio::test]
async fn where_nothing_may_be_watched_that_is_said() {
    let cluster = Forbidding(Arc::new(simulated::empty()), usize::MAX.into());
    let (watching, mut told_of) = Watching::new(Arc::new(cluster));
    watching.set(&key("one"), [map("a")].into(), 0);
    assert_eq!(told_of.recv().await, Some(key("one")));
    let forbidden = watching.forbidden(&key("one"));
    assert_eq!(
        forbidden,
        ["changes of each ConfigMap in namespace default are not seen: configmaps is forbidden"]
    );
    assert!(watching.forbidden(&key("two")).is_empty());
}

/// What a comparison has read is not told again, however late the watch tells it.
#[tokio::test]
async fn what_was_read_is_no_news() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty());
    let (watching, mut told_of) = Watching::new(Arc::clone(&cluster));
    watching.set(&key("one"), [map("a"), map("b")].into(), 0);
    assert_eq!(told(cluster.as_ref(), &mut told_of, "a").await, key("one"));
    assert!(watching.has_news(&key("one")));
    let since = watching.now();
    write(cluster.as_ref(), "b", 1).await;
    assert_eq!(told_of.recv().await, Some(key("one")));
    let objects = [read(cluster.as_ref(), "a").await, read(cluster.as_ref(), "b").await];
    // Of b it was told while it was read; with that, all is known.
    let up_to = watching.set(&key("one"), objects.clone().into(), since);
    assert_eq!(up_to, watching.told(&key("one")));
    assert!(up_to > Some(since) && !watching.has_news(&key("one")));
    // What is told before it is read is in that, and what is told after it was not.
    write(cluster.as_ref(), "b", 2).await;
    assert_eq!(told_of.recv().await, Some(key("one")));
    assert_eq!(watching.set(&key("one"), objects.into(), up_to.unwrap()), None);
    assert!(watching.has_news(&key("one")));
}

/// Between the look at an object and the begin of its watch nobody tells of it.
#[tokio::test]
async fn what_changes_before_it_is_watched_is_told() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty());
    let (watching, mut told_of) = Watching::new(Arc::clone(&cluster));
    write(cluster.as_ref(), "a", 1).await;
    let [changed, missing, same] = ["a", "b", "c"].map(|name| read(cluster.as_ref(), name));
    let (changed, missing) = (changed.await, missing.await);
    write(cluster.as_ref(), "a", 2).await;
    watching.set(&key("changed"), [changed].into(), 0);
    write(cluster.as_ref(), "c", 1).await;
    watching.set(&key("same"), [same.await, missing].into(), 0);
    assert_eq!(told_of.recv().await, Some(key("changed")));
    write(cluster.as_ref(), "b", 1).await;
    assert_eq!(told_of.recv().await, Some(key("same")));
}
