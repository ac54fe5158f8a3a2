use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tidegate_cluster::{ApplyRequest, Call, ClusterError, Detail, Layer, PendingCall, Verb, WriteMode};
use tidegate_model::{Gvk, Object};
use tidegate_state::simulated;

use super::*;

fn key(name: &str) -> AppKey {
    AppKey { namespace: "argocd".to_owned(), name: name.to_owned() }
}

fn absent_object(kind: &str, name: &str) -> (ObjectKey, TrackedObject) {
    (
        ObjectKey::new("", kind, "default", name),
        TrackedObject { gvk: Gvk::new("", "v1", kind), state: ObjectState::Missing },
    )
}

fn config_map(name: &str) -> (ObjectKey, TrackedObject) {
    absent_object("ConfigMap", name)
}

/// Reads an object's current state.
async fn read_object(cluster: &dyn Cluster, name: &str) -> (ObjectKey, TrackedObject) {
    let (key, cared) = config_map(name);
    let live = cluster.get(&cared.gvk, "default", name).await.unwrap();
    (
        key,
        TrackedObject {
            state: live.as_ref().map_or(ObjectState::Missing, ObjectState::from_object),
            ..cared
        },
    )
}

async fn write_object(cluster: &dyn Cluster, name: &str, value: usize) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"value": value.to_string()},
    });
    let mode = WriteMode::Apply { force: true };
    cluster.apply(ApplyRequest::new(Object::try_from(object).unwrap(), mode)).await.unwrap();
}

/// Keeps writing until an Application is notified, because it takes some time to start a watch.
async fn await_notification(
    cluster: &dyn Cluster,
    notifications: &mut UnboundedReceiver<AppKey>,
    name: &str,
) -> AppKey {
    for value in 0.. {
        write_object(cluster, name, value).await;
        let waiting = tokio::time::timeout(Duration::from_millis(50), notifications.recv());
        if let Ok(Some(key)) = waiting.await {
            return key;
        }
    }
    unreachable!("it runs until a caller is notified")
}

#[tokio::test]
async fn only_the_owners_of_an_object_are_notified_of_its_changes() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty_cluster());
    let (watching, mut notifications) = ClusterWatches::new(Arc::clone(&cluster));
    watching.set_objects(&key("one"), [config_map("a"), config_map("b")].into(), 0);
    watching.set_objects(&key("two"), [config_map("c")].into(), 0);
    assert_eq!(await_notification(cluster.as_ref(), &mut notifications, "c").await, key("two"));
    assert_eq!(await_notification(cluster.as_ref(), &mut notifications, "b").await, key("one"));
    assert_eq!(lock(&watching.0.index).watches.len(), 1, "one watch for the kind");
    // An Application is notified about its current objects, but not about its previous objects.
    watching.set_objects(&key("one"), [config_map("a")].into(), 0);
    watching.remove_application(&key("two"));
    while notifications.try_recv().is_ok() {}
    write_object(cluster.as_ref(), "b", 1_000).await;
    write_object(cluster.as_ref(), "c", 1_000).await;
    assert_eq!(await_notification(cluster.as_ref(), &mut notifications, "a").await, key("one"));
    let index = lock(&watching.0.index);
    assert_eq!((index.owners.len(), index.applications.len()), (1, 1));
}

#[tokio::test]
async fn a_watch_ends_with_the_last_application_that_needs_it() {
    let (watching, _told) = ClusterWatches::new(Arc::new(simulated::empty_cluster()));
    let secret = absent_object("Secret", "a");
    let kinds =
        || lock(&watching.0.index).watches.keys().map(|scope| scope.gvk.kind.clone()).collect::<Vec<_>>();
    let task = |kind: &str| {
        let scope = Scope { detail: Detail::Metadata, ..Scope::complete_objects(Gvk::new("", "v1", kind)) };
        lock(&watching.0.index).watches.get(&scope).unwrap().task.id()
    };
    watching.set_objects(&key("one"), [config_map("a"), config_map("b"), secret].into(), 0);
    watching.set_objects(&key("two"), [config_map("c")].into(), 0);
    assert_eq!(kinds(), ["ConfigMap", "Secret"]);
    let before = task("ConfigMap");
    watching.set_objects(&key("one"), [config_map("a")].into(), 0);
    assert_eq!(kinds(), ["ConfigMap"]);
    watching.remove_application(&key("one"));
    assert_eq!(
        (kinds(), task("ConfigMap")),
        (vec!["ConfigMap".to_owned()], before),
        "the watch was not restarted"
    );
    watching.remove_application(&key("two"));
    assert_eq!(kinds(), Vec::<String>::new());
    // Unused watches are stopped.
    let mut tasks = std::mem::take(&mut *lock(&watching.0.tasks));
    while tasks.join_next().await.is_some() {}
}

/// Cluster that forbids the first lists and permits all later lists.
struct ForbiddingCluster(Arc<dyn Cluster>, AtomicUsize);

impl Layer for ForbiddingCluster {
    fn inner(&self) -> &dyn Cluster {
        self.0.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
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
async fn namespaces_are_watched_where_a_kind_cannot_be_watched_in_all() {
    let cluster: Arc<dyn Cluster> =
        Arc::new(ForbiddingCluster(Arc::new(simulated::empty_cluster()), 1.into()));
    let (watching, mut notifications) = ClusterWatches::new(Arc::clone(&cluster));
    watching.set_objects(&key("one"), [config_map("a")].into(), 0);
    assert_eq!(await_notification(cluster.as_ref(), &mut notifications, "a").await, key("one"));
    let scopes = || lock(&watching.0.index).watches.keys().cloned().collect::<Vec<_>>();
    let narrow = Scope {
        namespace: Some("default".to_owned()),
        detail: Detail::Metadata,
        ..Scope::complete_objects(Gvk::new("", "v1", "ConfigMap"))
    };
    assert_eq!(scopes(), std::slice::from_ref(&narrow));
    assert_eq!(watching.forbidden_messages(&key("one")), Vec::<String>::new());
    // Applications that are added later use the narrow watches. The narrow watches are removed together with
    // the last of these Applications.
    watching.set_objects(&key("two"), [config_map("b")].into(), 0);
    watching.remove_application(&key("one"));
    assert_eq!(scopes(), [narrow]);
    watching.remove_application(&key("two"));
    assert!(scopes().is_empty() && lock(&watching.0.index).unwatchable_kinds.is_empty());
}

#[tokio::test]
async fn objects_that_cannot_be_watched_are_reported() {
    let cluster = ForbiddingCluster(Arc::new(simulated::empty_cluster()), usize::MAX.into());
    let (watching, mut notifications) = ClusterWatches::new(Arc::new(cluster));
    watching.set_objects(&key("one"), [config_map("a")].into(), 0);
    assert_eq!(notifications.recv().await, Some(key("one")));
    let forbidden = watching.forbidden_messages(&key("one"));
    assert_eq!(forbidden, ["cannot watch ConfigMap in namespace default: configmaps is forbidden"]);
    assert!(watching.forbidden_messages(&key("two")).is_empty());
}

/// Changes that a comparison has already read aren't reported again, no matter how late the watch event
/// arrives.
#[tokio::test]
async fn a_change_that_was_read_is_not_reported() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty_cluster());
    let (watching, mut notifications) = ClusterWatches::new(Arc::clone(&cluster));
    watching.set_objects(&key("one"), [config_map("a"), config_map("b")].into(), 0);
    assert_eq!(await_notification(cluster.as_ref(), &mut notifications, "a").await, key("one"));
    assert!(watching.has_unread_changes(&key("one")));
    let since = watching.current_clock();
    write_object(cluster.as_ref(), "b", 1).await;
    assert_eq!(notifications.recv().await, Some(key("one")));
    let objects = [read_object(cluster.as_ref(), "a").await, read_object(cluster.as_ref(), "b").await];
    // A change to `b` was reported during the read. The read therefore includes all changes.
    let up_to = watching.set_objects(&key("one"), objects.clone().into(), since);
    assert_eq!(up_to, watching.last_change(&key("one")));
    assert!(up_to > Some(since) && !watching.has_unread_changes(&key("one")));
    // The read includes the earlier report but not the later report.
    write_object(cluster.as_ref(), "b", 2).await;
    assert_eq!(notifications.recv().await, Some(key("one")));
    assert_eq!(watching.set_objects(&key("one"), objects.into(), up_to.unwrap()), None);
    assert!(watching.has_unread_changes(&key("one")));
}

/// The watch doesn't see changes between the read of an object and the start of the watch.
#[tokio::test]
async fn a_change_before_the_start_of_a_watch_is_reported() {
    let cluster: Arc<dyn Cluster> = Arc::new(simulated::empty_cluster());
    let (watching, mut notifications) = ClusterWatches::new(Arc::clone(&cluster));
    write_object(cluster.as_ref(), "a", 1).await;
    let [changed, missing, same] = ["a", "b", "c"].map(|name| read_object(cluster.as_ref(), name));
    let (changed, missing) = (changed.await, missing.await);
    write_object(cluster.as_ref(), "a", 2).await;
    watching.set_objects(&key("changed"), [changed].into(), 0);
    write_object(cluster.as_ref(), "c", 1).await;
    watching.set_objects(&key("same"), [same.await, missing].into(), 0);
    assert_eq!(notifications.recv().await, Some(key("changed")));
    write_object(cluster.as_ref(), "b", 1).await;
    assert_eq!(notifications.recv().await, Some(key("same")));
}
