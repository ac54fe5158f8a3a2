use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tidegate_cluster::{ApplyRequest, Call, ClusterError, Detail, Layer, Verb, WriteMode};
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
    assert_eq!((index.owners.len(), index.applications.len()), (1, 1));
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
